//! How a run ended: for `--report`, one line of JSON; for the shell, an exit status.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::thread::JoinHandle;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use serde_json::json;

use crate::failure::Failure;
use crate::json;
use crate::signals::end_by;
use crate::status::Status;

/// How a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The command ended, and the lock was released.
    Released,
    /// The command ended while the lock was held. Too few nodes confirmed the release.
    Unconfirmed,
    /// The lock was lost while the command ran, or was not held any more at its end.
    Lost,
    /// The command was killed because its watchdog had ended or was stopped.
    WatchdogEnded,
    /// The command could not be run.
    NotStarted,
    /// The lock was not taken: another holds it.
    Held,
    /// The lock was not taken: too few nodes could vote.
    NoQuorum,
    /// The lock was not taken: a signal ended the wait.
    Interrupted,
    /// The arguments or the configuration cannot be used, or another failure.
    Failed,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Unconfirmed => "release_unconfirmed",
            Self::Lost => "lost",
            Self::WatchdogEnded => "watchdog_ended",
            Self::NotStarted => "not_started",
            Self::Held => "held",
            Self::NoQuorum => "no_quorum",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// The end of a run.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) started: bool,
    /// The status of the command, if it is known.
    pub(super) command: Option<ExitStatus>,
    /// The number that the command was given for its store.
    pub(super) fencing_token: Option<u64>,
    /// The number of its permit.
    pub(super) slot: Option<u16>,
    /// How this program ends.
    pub(super) exit: Exit,
    /// What the user is told, behind what this thread writes. It comes after all else: a reader may be slow.
    pub(super) error: Option<Failure>,
    pub(super) told: Option<JoinHandle<()>>,
}

/// How this program ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exit {
    /// With a status of its own.
    Status(Status),
    /// As another process did, also if that was by a signal.
    As(ExitStatus),
}

impl Exit {
    /// By this signal.
    pub(super) fn by(signal: i32) -> Self {
        Self::As(ExitStatus::from_raw(signal))
    }

    /// The number that the shell sees.
    fn code(self) -> u8 {
        let code = match self {
            Self::Status(status) => return status.code(),
            Self::As(status) => status.code().or(status.signal().map(|signal| 128 + signal)),
        };
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX)
    }
}

impl Ending {
    /// An end before the command was started.
    pub(super) fn before(outcome: Outcome, exit: Exit) -> Self {
        Self {
            outcome,
            started: false,
            command: None,
            fencing_token: None,
            slot: None,
            exit,
            error: None,
            told: None,
        }
    }

    /// Tells the user, once.
    pub(super) fn tell(&mut self) {
        if let Some(told) = self.told.take() {
            let _ = told.join();
        }
        if let Some(error) = self.error.take() {
            error.report();
        }
    }

    /// Returns the line for `--report`.
    pub(super) fn line(&self, names: &[&[u8]]) -> String {
        let mut fields = json!({
            "outcome": self.outcome.name(),
            "started": self.started,
            "command_status": self.command.and_then(|it| it.code()),
            "command_signal": self.command.and_then(|it| it.signal()),
            "status": self.exit.code(),
            "fencing_token": self.fencing_token,
            "error": self.error.as_ref().map(|it| &it.message),
        });
        if let Some(slot) = self.slot {
            fields = json::joined(fields, json!({ "slot": slot }));
        }
        let mut resource = json::named("resource", names.first().unwrap_or(&&b""[..]));
        if 1 < names.len() {
            resource = json::joined(resource, json::named_all("resources", names));
        }
        let fields = json::joined(resource, fields);
        json::line(&json::object("run", fields)) + "\n"
    }

    /// Ends this program: by the signal that ended the command, or with the status.
    pub(super) fn exit(&self) -> ExitCode {
        // The first process of a container ends by no signal of its own.
        if let Exit::As(status) = self.exit
            && let Some(signal) = status.signal()
            && !getpid().is_init()
        {
            end_by(signal);
        }
        self.exit.code().into()
    }
}

/// Where the line goes. It is opened before anything is done, so that a mistake is seen in time.
#[derive(Debug)]
pub(super) struct Report(File);

impl Report {
    /// Opens a file, which is replaced, or a descriptor that this program was started with.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        let number = place.to_str().and_then(|text| text.parse::<i32>().ok());
        Ok(Self(match number {
            Some(number) => own_descriptor(number)?.into(),
            None => File::create(place)?,
        }))
    }

    /// Writes the line.
    pub(super) fn write(mut self, line: &str) -> io::Result<()> {
        self.0.write_all(line.as_bytes())
    }
}

/// Returns a copy of a descriptor by its number: without unsafe code a process has to ask for it as if
/// it were another's.
fn own_descriptor(number: i32) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}
