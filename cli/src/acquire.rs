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
use crate::status::Status;
use crate::waiting;

/// How a lock is asked for.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Lock")]
pub(crate) struct Acquire {
    /// Life of a lock that is not extended.
    ///
    /// `run` extends the lock, and needs 2s at least. `lock` does not extend its lock.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Gives up after this time [default: never].
    ///
    /// It counts from the beginning of the command. Nodes that do not answer get --connect-timeout all the same. The
    /// command does not wait if only an operator can repair the cause, such as a wrong password. --timeout is the same.
    #[arg(short, long, alias = "timeout", value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Fails at once if another holds the lock.
    ///
    /// --nonblock is the same.
    #[arg(short, long, alias = "nonblock", conflicts_with = "wait")]
    no_wait: bool,

    /// Exit status if another holds the lock.
    ///
    /// --conflict-exit-code is the same.
    #[arg(
        short = 'E',
        long,
        alias = "conflict-exit-code",
        value_name = "N",
        default_value_t = 75
    )]
    conflict_status: u8,

    /// Owner that others see [default: HOST:PID].
    #[arg(long, value_name = "OWNER")]
    owner: Option<OsString>,

    /// Takes a fencing token for the store too.
    ///
    /// This fencing token is larger than that of every earlier lock of this name. Hand it to the store with each write,
    /// and with each read that a write is computed from. The store keeps the largest number that it has seen, and
    /// refuses smaller ones: a holder that was paused for longer than its lock cannot do harm. The nodes have to run
    /// scripts, and need a counter floor. --trust gives it to new nodes. A node that restarts gets it from the others,
    /// by programs that run for longer than --max-ttl.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    fenced: Option<bool>,

    /// Keeps others out longer after a loss.
    ///
    /// The nodes keep the lock for this much longer if it is not released.
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    lock_delay: Duration,

    /// Says nothing while another holds the lock.
    ///
    /// The status tells that it was not taken.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Acquire {
    /// Sets what a handle needs for this lock. The default owner names this host and `process`, which the lock is for.
    pub(crate) fn builder(&self, builder: Builder, process: u32) -> Builder {
        let owner = match &self.owner {
            Some(owner) => owner.clone().into_vec(),
            None => host_and(process),
        };
        builder.owner(owner).lock_delay(self.lock_delay)
    }

    /// Returns the options of a lock that lives for `ttl`.
    pub(crate) fn options(&self, ttl: Duration) -> LockOptions {
        let options = LockOptions::new(ttl);
        let options = match self.fenced == Some(true) {
            true => options.fenced(),
            false => options,
        };
        match self.no_wait {
            true => options.tries(1),
            false => options.wait(Duration::MAX),
        }
    }

    /// Returns the time at which a command that begins now gives up.
    pub(crate) fn by(&self) -> Instant {
        self.wait
            .map_or(Instant::MAX, |wait| now().saturating_add(wait))
    }

    /// Returns `true` if the command says what it waits for.
    pub(crate) fn talks(&self) -> bool {
        // With --wait the command ends by itself, and its error names the cause. So only a terminal gets the lines.
        let talks = self.wait.is_none() || stderr().is_terminal();
        talks && !self.quiet && !self.no_wait
    }

    /// Asks the nodes who holds the lock, and returns why it was not taken, with the status that the user chose for a
    /// conflict.
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

/// Returns `host:process`, and cuts the name of the host if the owner would be too long.
pub(crate) fn host_and(process: u32) -> Vec<u8> {
    let uname = rustix::system::uname();
    let process = format!(":{process}");
    let room = OWNER_BYTES_MAX.saturating_sub(process.len());
    let host = uname.nodename().to_bytes();
    [&host[..host.len().min(room)], process.as_bytes()].concat()
}
