//! The exit statuses of the command, in one table.
//!
//! They are those of `sysexits.h` and of `env` where these have one. `shearline run` and
//! [`Status::Conflict`] add statuses that the user chooses.

use std::process::ExitCode;

/// How the command ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    /// What was asked for is done.
    Success,
    /// The answer is no, such as for a name that is not held; or a failure that has no status of its own.
    Failure,
    /// The arguments cannot be used.
    Usage,
    /// Too few nodes could vote, or answered. That may pass by itself.
    NoQuorum,
    /// The lock was lost, or is not held any more.
    Lost,
    /// The lock was not taken: another holds it.
    NotTaken,
    /// As [`NotTaken`](Self::NotTaken), with the status that `--conflict-status` gives.
    Conflict(u8),
    /// Something that only an operator can repair: the configuration, a password, a permission.
    Configuration,
    /// The command of `shearline run` cannot be run.
    CannotRun,
    /// The command of `shearline run` does not exist.
    NotFound,
    /// A signal of this number has ended it.
    Signal(u8),
}

impl Status {
    /// Returns the number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 64,
            Self::NoQuorum => 69,
            Self::Lost => 74,
            Self::NotTaken => 75,
            Self::Conflict(code) => code,
            Self::Configuration => 78,
            Self::CannotRun => 126,
            Self::NotFound => 127,
            Self::Signal(number) => 128_u8.saturating_add(number),
        }
    }
}

impl Status {
    /// Returns the name that programs read: it does not change.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Failure => "failed",
            Self::Usage => "usage",
            Self::NoQuorum => "no_quorum",
            Self::Lost => "lost",
            Self::NotTaken | Self::Conflict(_) => "held",
            Self::Configuration => "configuration",
            Self::CannotRun | Self::NotFound => "not_started",
            Self::Signal(_) => "interrupted",
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// The table of all statuses, for the help.
pub(crate) const TABLE: &str = "\
Exit statuses:
  0    done
  1    the answer is no (status: it is not held), or another failure
  64   the arguments cannot be used
  69   too few nodes could vote, or answered: that may pass
  74   the lock was lost, or is not held any more
  75   not taken, because another holds it (-E gives another status)
  78   only an operator can repair it: configuration, password, permission
  126  the command of `run` cannot be run
  127  the command of `run` does not exist
  128+N  ended by signal N, as shells count";

/// Returns the table of the statuses with which one command ends. Each has these: 0, 1, 64, 69, 78 and 128+N.
pub(crate) fn table_with(status: Status) -> String {
    let others = [
        Status::Lost,
        Status::NotTaken,
        Status::CannotRun,
        Status::NotFound,
    ];
    let others = others.map(Status::code).map(|code| format!("  {code:<4} "));
    let own = format!("  {:<4} ", status.code());
    let is_kept =
        |line: &&str| line.starts_with(&own) || !others.iter().any(|other| line.starts_with(other));
    TABLE.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
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
            Status::NotTaken,
            Status::Configuration,
            Status::CannotRun,
            Status::NotFound,
        ] {
            let line = format!("\n  {:<4} ", status.code());
            assert!(TABLE.contains(&line), "{status:?}");
        }
        assert_eq!(Status::Conflict(9).code(), 9);
        assert_eq!(Status::Signal(15).code(), 143);
    }
}
