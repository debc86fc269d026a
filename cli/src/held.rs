//! A lock that the command reads as text, from an argument or from stdin.

use std::io::{self, IsTerminal as _};
use std::time::{self, Duration};
use std::{fmt, thread};

use clap::Args;
use shearline::{Instant, Lock, LockGuard, NodeOutcome, NodeState, NodeStatus, Redlock, Report};

use crate::connect::{Connect, Nodes};
use crate::failure::Failure;
use crate::output::unreadable;
use crate::status::Status;

/// How often the command checks whether the remaining nodes have answered.
const LOOK: Duration = Duration::from_micros(500);

/// The lock of a script, and the options for its nodes.
#[derive(Debug, Args)]
pub(crate) struct Held {
    /// Line that `lock` or `extend` printed [default: stdin].
    ///
    /// The line may contain a fencing token after the lock. With the argument -, the command reads the lock from stdin.
    lock: Option<String>,

    #[command(flatten)]
    pub(crate) connect: Connect,
}

impl Held {
    /// Reads the lock. Returns the lock and a handle that may extend the lock by `ttl`.
    pub(crate) fn open(&self, ttl: Option<Duration>) -> Result<(Redlock, Lock), Failure> {
        let builder = self.connect.nodes.builder()?;
        let lock = self.read()?;
        if let Some(ttl) = ttl {
            builder.config()?.check_request(lock.resource(), ttl)?;
        }
        Ok((self.connect.connect(&builder, Instant::MAX)?, lock))
    }

    fn read(&self) -> Result<Lock, Failure> {
        let text = match self.lock.as_deref() {
            Some(text) if text != "-" => text.to_owned(),
            None if io::stdin().is_terminal() => String::new(),
            Some(_) | None => io::read_to_string(io::stdin()).map_err(unreadable)?,
        };
        let text = text.trim();
        let what = ["this is not a lock", "no lock was given"][usize::from(text.is_empty())];
        let to_do = "pass the unchanged line that `shearline lock` printed";
        let no_lock = || Failure::usage(format_args!("{what}; {to_do}"));
        let (digits, token) = text.split_once(' ').unwrap_or((text, ""));
        let lock = Lock::from_bytes(&bytes_of(digits).ok_or_else(no_lock)?)?;
        // The digits also contain the fencing token, so a number after them must be the same token.
        let own = lock.fencing_token().map(|token| token.to_string());
        match token.is_empty() || Some(token) == own.as_deref() {
            true => Ok(lock),
            false => Err(no_lock()),
        }
    }
}

/// Converts the error of an extension or a release to a [`Failure`]. If a node does not have the lock's key, the user
/// may have given the wrong nodes, so the message also names this cause.
pub(crate) fn lost<E: fmt::Display + Into<Failure>>(
    error: E,
    report: fn(&E) -> Option<&Report>,
) -> Failure {
    let nodes = report(&error).map(Report::nodes).unwrap_or_default();
    let is_missing = nodes.iter().any(|it| it.outcome == NodeOutcome::Missing);
    let (short, long) = (format!("{error}"), format!("{error:#}"));
    let failure = error.into();
    match long.strip_prefix(&short) {
        Some(rest) if is_missing && failure.status == Status::Lost => {
            let message =
                format_args!("{short}, or these are not the nodes on which it was taken{rest}");
            Failure::new(failure.status, message)
        }
        _ => failure,
    }
}

/// Detaches a lock from this process.
///
/// A majority of the nodes is enough for a lock. This function gives the other nodes a moment to answer, so that all
/// nodes store the lock and it survives if one of them fails.
pub(crate) fn detached(nodes: &Nodes, redlock: &Redlock, guard: LockGuard) -> Lock {
    let begin = time::Instant::now();
    let is_open = |node: &NodeStatus| node.state == NodeState::Ready && node.in_flight != 0;
    while begin.elapsed() < nodes.at_end() && redlock.nodes().iter().any(is_open) {
        thread::sleep(LOOK);
    }
    guard.into_lock()
}

/// Decodes pairs of hexadecimal digits. Returns `None` for an empty text.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair.get(1)?).ok();
    let digits = digits.filter(|digits| !digits.is_empty());
    digits?.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of(&crate::json::hex(&all)), Some(all));
        for odd in ["", "0", "0g", "é0", "+1"] {
            assert_eq!(bytes_of(odd), None, "{odd}");
        }
    }
}
