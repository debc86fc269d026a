//! The exit statuses of the command, in one table.
//!
//! If `sysexits.h` or `env` defines a number for a case, this table uses it. `shearline run` exits with the status of
//! its command. The option `-E` sets another number for [`Status::Held`].

use std::os::unix::process::ExitStatusExt as _;
use std::process::{self, ExitCode, ExitStatus};

use crate::help::{self, Row};
use crate::signals::end_by;

/// How the command ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Status {
    /// The command has succeeded.
    #[default]
    Success,
    /// The answer is no, for example because the lock is not held. Also used for failures that have no status of their
    /// own.
    Failure,
    /// The arguments are not valid.
    Usage,
    /// Too few nodes voted or answered. The cause may be temporary.
    NoQuorum,
    /// The lock was lost, or is no longer held.
    Lost,
    /// The command did not take the lock, because another client holds it. `--conflict-status` sets this exit status.
    Held(u8),
    /// Only an operator can repair the cause, such as the configuration, a password or a permission.
    Configuration,
    /// The command of `shearline run` does not exist or cannot be executed. `env` uses the same numbers.
    NotStarted(u8),
    /// The status that the command of `shearline run` returned, or the status of a monitoring plugin.
    Other(u8),
    /// The signal with this number has terminated the command.
    Signal(u8),
}

impl Status {
    /// Returns the number that the shell sees, and the name that programs read. Both are stable.
    const fn both(self) -> (u8, &'static str) {
        match self {
            Self::Success => (0, "done"),
            Self::Failure => (1, "failed"),
            Self::Usage => (64, "usage"),
            Self::NoQuorum => (69, "no_quorum"),
            Self::Lost => (74, "lost"),
            Self::Held(code) => (code, "held"),
            Self::Configuration => (78, "configuration"),
            Self::NotStarted(code) => (code, "not_started"),
            Self::Other(code) => (code, "failed"),
            Self::Signal(number) => (128_u8.saturating_add(number), "interrupted"),
        }
    }

    pub(crate) const fn code(self) -> u8 {
        self.both().0
    }

    pub(crate) const fn word(self) -> &'static str {
        self.both().1
    }

    /// Returns the status for a command that a signal has terminated.
    pub(crate) fn by(signal: i32) -> Self {
        Self::Signal(u8::try_from(signal).unwrap_or_default())
    }

    /// Returns the exit code, or terminates this program with the signal. A shell that waits for the program sees the
    /// signal, and can then end too.
    pub(crate) fn exit(self) -> ExitCode {
        // The first process of a container cannot terminate itself with a signal.
        if let Self::Signal(number) = self
            && process::id() != 1
        {
            end_by(number.into());
        }
        self.into()
    }
}

/// Converts the exit status of another process, so that this process can end in the same way.
impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::by(signal),
            None => Self::Other(u8::try_from(status.code().unwrap_or(-1)).unwrap_or(u8::MAX)),
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// All statuses, with a description of when each status occurs.
const ALL: &str = "\
0  done
1  another failure, which stderr explains
64  the arguments cannot be used
69  too few nodes voted or answered; try again
74  the lock was lost, or is no longer held
75  another client holds the lock; -E sets another status
78  only an operator can repair this: configuration, password, permission
126  the command of `run` cannot be run
127  the command of `run` does not exist
128+N  ended by signal N";

/// Returns the rows of a table for the help. A status without its own text gets the text from [`ALL`].
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Row> + Clone {
    let of_all = |status: &str| help::rows(ALL).find(|(it, _)| *it == status);
    table
        .lines()
        .flat_map(move |line| match line.split_once("  ") {
            Some(row) => vec![row],
            None => line.split(' ').filter_map(of_all).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_status() {
        for status in [
            Status::Success,
            Status::Failure,
            Status::Usage,
            Status::NoQuorum,
            Status::Lost,
            Status::Held(75),
            Status::Configuration,
            Status::NotStarted(126),
            Status::NotStarted(127),
        ] {
            let code = status.code().to_string();
            assert!(help::rows(ALL).any(|(it, _)| it == code), "{status:?}");
        }
        assert_eq!(Status::Held(9).code(), 9);
        assert_eq!(Status::Signal(15).code(), 143);
    }
}
