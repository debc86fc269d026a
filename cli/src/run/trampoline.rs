//! The process that becomes the command.
//!
//! It asks the kernel to be killed when the watchdog ends, takes the command's standard input from
//! the watchdog, and turns into the command. Between `fork` and `exec` only unsafe code could do so.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, id};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::args::{COMMAND, TrampolineArgs, naming};
use super::channel::{Channel, Message, Received};

/// Becomes the command. Returns only if that fails. The status is not read then.
pub(super) fn become_command(args: &TrampolineArgs) -> ExitCode {
    if let Ok(channel) = Channel::from_stdin() {
        let error = attempt(&channel, args);
        let error = error.raw_os_error().unwrap_or_default();
        // If the watchdog does not listen any more, it has ended, and all is over.
        let _ = channel.send(Message::NotStarted(error));
    }
    ExitCode::FAILURE
}

/// The channel is closed by a successful `exec`, by which the watchdog knows.
fn attempt(channel: &Channel, args: &TrampolineArgs) -> io::Error {
    let prepared = || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The watchdog may have ended before that.
        if getppid() != Pid::from_raw(args.watchdog) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Received::Message(Message::Start(_), Some(stdin)) = channel.receive()? else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        Ok(stdin)
    };
    let stdin = match prepared() {
        Ok(stdin) => stdin,
        Err(error) => return error,
    };
    let (program, arguments) = args
        .command
        .split_first()
        .expect("the arguments were checked");
    let own = id().to_string();
    let mut command = Command::new(program);
    for name in naming(COMMAND) {
        // The other name of the process in these variables is that of the supervisor.
        command.env(name, &own).env_remove("LISTEN_PIDFDID");
    }
    command.args(arguments).stdin(stdin).exec()
}
