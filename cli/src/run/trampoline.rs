//! The process that becomes the command.
//!
//! This process asks the kernel to kill it when the watchdog ends. Then it takes the command's standard input from the
//! watchdog, and becomes the command. Without this process, the watchdog would need unsafe code between `fork` and
//! `exec` for these steps.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, id};
use std::{env, io};

use nix::unistd::execvpe;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::dup2_stdin;

use super::channel::{Channel, Message, Received};
use super::part::{COMMAND, PartArgs, naming};

/// Becomes the command. Returns only after a failure, with an exit status that no process reads.
pub(super) fn become_command(args: &PartArgs) -> ExitCode {
    if let Ok(channel) = Channel::from_stdin() {
        let Err(error) = attempt(&channel, args);
        let error = error.raw_os_error().unwrap_or_default();
        // If this message cannot be sent, the watchdog has ended, and the run ends too.
        let _ = channel.send(Message::NotStarted(error));
    }
    ExitCode::FAILURE
}

/// Executes the command. A successful `exec` closes the channel, so the watchdog knows that the command runs.
fn attempt(channel: &Channel, args: &PartArgs) -> io::Result<Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The watchdog may have ended before the previous call.
    if getppid() != Pid::from_raw(args.number) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let Received::Message(Message::Until(_), Some(stdin)) = channel.receive()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let own = OsString::from(id().to_string());
    let mut variables: HashMap<OsString, OsString> = env::vars_os().collect();
    for name in naming(COMMAND) {
        variables.insert(name.into(), own.clone());
        // `LISTEN_PIDFDID` identifies the supervisor, so it would be wrong in the command.
        variables.remove(OsStr::new("LISTEN_PIDFDID"));
    }
    if args.ignore_pipe {
        return exec_as_it_is(&args.command, &variables, &stdin);
    }
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).env_clear();
    Err(command.envs(&variables).stdin(stdin).exec())
}

/// Replaces this process with the command. [`Command::exec`] would restore the default action of SIGPIPE, but here
/// SIGPIPE stays ignored, as the Rust runtime has set it.
fn exec_as_it_is(
    words: &[OsString],
    variables: &HashMap<OsString, OsString>,
    stdin: &OwnedFd,
) -> io::Result<Infallible> {
    let words = words.iter().map(|word| CString::new(word.as_bytes()));
    let words: Vec<CString> = words.collect::<Result<_, _>>()?;
    let variables = variables.iter();
    let variables = variables
        .map(|(name, value)| CString::new([name.as_bytes(), value.as_bytes()].join(&b'=')));
    let variables: Vec<CString> = variables.collect::<Result<_, _>>()?;
    dup2_stdin(stdin)?;
    Ok(execvpe(&words[0], &words, &variables)?)
}
