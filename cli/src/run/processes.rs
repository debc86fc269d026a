//! The children of a process, as `/proc/PID/task/*/children` lists them.
//!
//! # Guarantees
//!
//! * Looking at processes changes nothing, and needs no permission.
//! * A [`Process`] that is a child of the named parent stays that process. If its number is given to another process,
//!   signals still go only to the right one (if the kernel has pidfds, Linux 5.3).
//!
//! # Not here
//!
//! Complete lists: a process that starts or loses its parent during a look may be missing. A caller that has to find
//! all processes looks again.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

/// A process that was a child of the given parent.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// `None` on an old kernel, and if too many files are open.
    handle: Option<OwnedFd>,
}

/// Whether a signal reached the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reached {
    Yes,
    /// The process has ended.
    No,
    /// The process belongs to another user.
    Refused,
}

impl Process {
    /// Returns `None` if there is no process of this number.
    pub(super) fn open(pid: Pid) -> Option<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(Self {
                pid,
                handle: Some(handle),
            }),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Self { pid, handle: None }),
        }
    }

    pub(super) fn send(&self, signal: Signal) -> Reached {
        let sent = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(self.pid, signal),
        };
        match sent {
            Ok(()) => Reached::Yes,
            Err(Errno::PERM) => Reached::Refused,
            Err(_) => Reached::No,
        }
    }

    /// Returns `true` if the process has ended, even if its parent has not waited for it yet.
    pub(super) fn has_ended(&self) -> bool {
        let Some(handle) = &self.handle else {
            return matches!(state(self.pid).as_deref(), None | Some("Z" | "X"));
        };
        let mut handle = [PollFd::new(handle, PollFlags::IN)];
        matches!(poll(&mut handle, Some(&Timespec::default())), Ok(1..))
    }
}

/// Returns the numbers of the children of a process. Each of its threads has its own list.
pub(super) fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", of.as_raw_pid()));
    let lists = threads.into_iter().flatten().flatten().map(|thread| {
        let list = fs::read_to_string(thread.path().join("children"));
        list.unwrap_or_default()
    });
    let number = |text: &str| Pid::from_raw(text.parse().ok()?);
    let numbers = |list: String| {
        list.split_whitespace()
            .filter_map(number)
            .collect::<Vec<_>>()
    };
    lists.flat_map(numbers).collect()
}

/// Returns the processes of these numbers that are children of the given process now.
pub(super) fn opened(of: Pid, numbers: &[Pid]) -> Vec<Process> {
    let opened = numbers.iter().filter_map(|pid| Process::open(*pid));
    let mut opened: Vec<Process> = opened.collect();
    if !opened.is_empty() {
        // Before a process was opened, its number may have been given to another process; after that it cannot be.
        let still: HashSet<Pid> = children(of).into_iter().collect();
        opened.retain(|process| still.contains(&process.pid));
    }
    opened
}

/// Returns the letter that `/proc` shows for the state of a process.
pub(super) fn state(of: Pid) -> Option<String> {
    stat(of)?.split(' ').next().map(str::to_owned)
}

/// Returns the fields of `/proc/PID/stat` after the name: the state, the parent and more.
pub(super) fn stat(of: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", of.as_raw_pid())).ok()?;
    // The name of the program is in parentheses and may hold any character.
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::getpid;

    use super::*;

    #[test]
    fn the_descendants_are_found() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; read line; kill $!; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let process = Pid::from_child(&shell);
        assert!(children(getpid()).contains(&process));
        let [sleep] = children(process)[..] else {
            panic!("one child");
        };
        assert_eq!(opened(process, &[sleep, process]).len(), 1);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(children(process).is_empty());
    }
}
