//! The options of a command that takes a lock: `lock` and `run`.

use std::ffi::OsString;
use std::io::{IsTerminal as _, stderr};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use clap::Args;
use shearline::internals::{limits::OWNER_BYTES_MAX, now};
use shearline::{Builder, Instant, LockError, LockOptions, Redlock};

use crate::duration;
use crate::failure::Failure;
use crate::output::{NOTE, complain, listed};
use crate::status::Status;
use crate::waiting;

/// The options of a request for a lock.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Lock")]
pub(crate) struct Acquire {
    /// Lifetime without extensions.
    ///
    /// `run` extends its lock, and needs a ttl of at least 2s. `lock` does not extend its lock.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Gives up after this time [default: never].
    ///
    /// The time begins when the command starts. Even if TIME is shorter, the command waits one --connect-timeout for
    /// silent nodes. If only an operator can solve the problem, such as a wrong password, the command does not wait.
    /// This option has the alias --timeout.
    #[arg(short, long, alias = "timeout", value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Fails immediately if another client holds the lock.
    ///
    /// --nonblock is an alias of this option.
    #[arg(short, long, alias = "nonblock", conflicts_with = "wait")]
    no_wait: bool,

    /// Exit status if the lock is held.
    ///
    /// --conflict-exit-code is an alias of this option.
    #[arg(
        short = 'E',
        long,
        alias = "conflict-exit-code",
        value_name = "N",
        default_value_t = 75
    )]
    conflict_status: u8,

    /// Owner that other clients see [default: HOST:PID].
    #[arg(long, value_name = "OWNER")]
    owner: Option<OsString>,

    /// Also gets a fencing token for the store.
    ///
    /// The fencing token is larger than the token of every earlier lock of this name. Pass the token to the store with
    /// each write, and with each read on which a write depends. The store remembers the largest token that it has seen,
    /// and refuses smaller tokens. So a holder that was paused until its lock expired cannot do harm. Requires nodes
    /// that support scripts and have a counter floor. With --trust, new nodes get a counter floor. If a restarted node
    /// has lost its counter floor, a program that runs for longer than --max-ttl restores the floor from the other
    /// nodes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    fenced: Option<bool>,

    /// Delays the expiry of an unreleased lock.
    ///
    /// If the holder does not release the lock, the nodes keep it for TIME longer than its ttl.
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    lock_delay: Duration,

    /// Prints nothing if another client holds the lock.
    ///
    /// Only the exit status shows that the command did not take the lock.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Prints a line when it takes or releases the lock.
    ///
    /// The lines on stderr say how long the request took, how long the lock is valid, and which nodes confirmed the
    /// lock. The command prints why it waits, also with --wait. `run` also reports each node that does not vote.
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl Acquire {
    /// Sets the owner and the lock delay. The default owner consists of the host name and `process`, the id of the
    /// process that works under the lock.
    pub(crate) fn builder(&self, builder: Builder, process: u32) -> Builder {
        let owner = self.owner.clone().map(OsString::into_vec);
        let owner = owner.unwrap_or_else(|| host_and(process));
        builder.owner(owner).lock_delay(self.lock_delay)
    }

    /// Returns the options for a lock with this `ttl`.
    pub(crate) fn options(&self, ttl: Duration) -> LockOptions {
        let mut options = LockOptions::new(ttl);
        if self.fenced == Some(true) {
            options = options.fenced();
        }
        match self.no_wait {
            true => options.tries(1),
            false => options.wait(Duration::MAX),
        }
    }

    /// Returns the time at which the command gives up if it starts now.
    pub(crate) fn by(&self) -> Instant {
        self.wait
            .map_or(Instant::MAX, |wait| now().saturating_add(wait))
    }

    /// Returns `true` if the command prints why it is waiting.
    pub(crate) fn talks(&self) -> bool {
        // With --wait, the command ends with an error that names the cause, if it gets no lock. So without a terminal,
        // the command does not print the reason while it waits.
        let talks = self.wait.is_none() || self.verbose || stderr().is_terminal();
        talks && !self.quiet && !self.no_wait
    }

    /// Prints what has happened to the lock on these names, if the user gave `--verbose`.
    pub(crate) fn tell(&self, names: &[&[u8]], what: &str) {
        if self.verbose {
            complain(NOTE, format_args!("{}: {what}", listed(names)));
        }
    }

    /// Asks the nodes who holds the lock, and returns why the command did not take the lock. If another client holds
    /// the lock, the exit status is the value of `--conflict-status`.
    pub(crate) async fn failure(
        &self,
        error: LockError,
        redlock: &Redlock,
        names: &[&[u8]],
    ) -> Failure {
        let is_held = matches!(&error, LockError::Held(report) if report.other_permits().is_none());
        let mut failure = Failure::from(error);
        if is_held
            && !self.quiet
            && let Some(text) = waiting::held(redlock, names).await
        {
            failure.message = text;
        }
        if let Status::Held(status) = &mut failure.status {
            *status = self.conflict_status;
            failure.quiet = self.quiet;
        }
        failure
    }
}

/// Returns `host:process`. Shortens the host name if the owner would be too long.
pub(crate) fn host_and(process: u32) -> Vec<u8> {
    let uname = rustix::system::uname();
    let process = format!(":{process}");
    let room = OWNER_BYTES_MAX.saturating_sub(process.len());
    let host = uname.nodename().to_bytes();
    [&host[..host.len().min(room)], process.as_bytes()].concat()
}
