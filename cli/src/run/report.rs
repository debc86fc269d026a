//! Reports how a run ended, as one line of JSON for `--report` and as an exit status for the shell.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::thread::JoinHandle;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use serde_json::json;

use crate::failure::Failure;
use crate::json;
use crate::status::Status;

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The word for the outcome in the report.
    pub(super) outcome: &'static str,
    pub(super) started: bool,
    /// The status of the command, if it is known.
    pub(super) command: Option<ExitStatus>,
    /// The fencing token that the command got.
    pub(super) fencing_token: Option<u64>,
    /// The number of the command's permit.
    pub(super) slot: Option<u16>,
    /// The exit status of this program.
    pub(super) status: Status,
    /// How often the lock was lost, including the losses before the last start of the command.
    pub(super) losses: u32,
    /// Whether to start the command again.
    pub(super) goes_on: bool,
    /// The error for the user. The program prints the error after the thread `told` has ended.
    pub(super) error: Option<Failure>,
    pub(super) told: Option<JoinHandle<()>>,
}

impl Ending {
    /// Prints the error, but only once.
    pub(super) fn tell(&mut self) {
        if let Some(told) = self.told.take() {
            let _ = told.join();
        }
        if let Some(error) = self.error.take() {
            error.tell();
        }
    }

    /// Returns the line for `--report`.
    pub(super) fn line(&self, names: &[&[u8]]) -> String {
        let resource = json::named("resource", names.first().unwrap_or(&&b""[..]));
        let several = (1 < names.len()).then(|| json::named_all("resources", names));
        let fields = json!({
            "outcome": self.outcome,
            "started": self.started,
            "command_status": self.command.and_then(|it| it.code()),
            "command_signal": self.command.and_then(|it| it.signal()),
            "status": self.status.code(),
            "losses": self.losses,
            "fencing_token": self.fencing_token,
            "error": self.error.as_ref().map(|it| &it.message),
        });
        let slot = self.slot.map(|slot| json!({ "slot": slot }));
        let [several, slot] = [several, slot].map(Option::unwrap_or_default);
        json::line(&json::object("run", [resource, several, fields, slot])) + "\n"
    }
}

/// Opens the destination of the line: a file, which it truncates, or a descriptor that this program has inherited.
pub(super) fn open(place: &Path) -> io::Result<File> {
    match place.to_str().and_then(|text| text.parse().ok()) {
        Some(number) => own_descriptor(number).map(File::from),
        None => File::create(place),
    }
}

/// Duplicates the descriptor with this number. Uses `pidfd_getfd` on this process, because borrowing a descriptor by
/// its number needs unsafe code.
fn own_descriptor(number: i32) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}
