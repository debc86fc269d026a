//! The process that becomes the command.
//!
//! It asks the kernel to kill it when the watchdog ends, takes the command's standard input from the watchdog, and
//! turns into the command. Doing this between `fork` and `exec` would need unsafe code.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, id};
use std::{env, io, iter};

use nix::unistd::execvpe;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::dup2_stdin;

use super::args::{COMMAND, TrampolineArgs, naming};
use super::channel::{Channel, Message, Received};

/// Becomes the command. Returns only if this fails, and then no process reads the status.
pub(super) fn become_command(args: &TrampolineArgs) -> ExitCode {
    if let Ok(channel) = Channel::from_stdin() {
        let error = attempt(&channel, args);
        let error = error.raw_os_error().unwrap_or_default();
        // If the watchdog does not listen any more, it has ended, and the run ends too.
        let _ = channel.send(Message::NotStarted(error));
    }
    ExitCode::FAILURE
}

/// A successful `exec` closes the channel. This tells the watchdog that the command runs.
fn attempt(channel: &Channel, args: &TrampolineArgs) -> io::Error {
    let prepared = || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The watchdog may have ended before the previous call.
        if getppid() != Pid::from_raw(args.watchdog) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Received::Message(Message::Until(_), Some(stdin)) = channel.receive()? else {
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
        // `LISTEN_PIDFDID` names the process too, and it would still name the supervisor.
        command.env(name, &own).env_remove("LISTEN_PIDFDID");
    }
    command.args(arguments);
    match args.ignore_pipe {
        true => exec_as_it_is(&command, &stdin),
        false => command.stdin(stdin).exec(),
    }
}

/// Becomes the command while PIPE stays ignored, as the runtime of Rust has set it. [`Command::exec`] would restore the
/// default action of PIPE.
fn exec_as_it_is(command: &Command, stdin: &OwnedFd) -> io::Error {
    let mut variables: HashMap<OsString, OsString> = env::vars_os().collect();
    for (name, value) in command.get_envs() {
        variables.remove(name);
        variables.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.as_bytes().to_vec());
    let attempt = || -> io::Result<Infallible> {
        let words: Vec<CString> = words.map(CString::new).collect::<Result<_, _>>()?;
        let variables: Vec<CString> = variables.map(CString::new).collect::<Result<_, _>>()?;
        dup2_stdin(stdin)?;
        Ok(execvpe(&words[0], &words, &variables)?)
    };
    let Err(error) = attempt();
    error
}
