//! Lists the children of a process from `/proc/PID/task/*/children`.
//!
//! # Guarantees
//!
//! * A scan does not affect the processes. Listing the children of one's own processes needs no privileges.
//! * If a [`Process`] is no longer a child of its parent, it gets no signal. From Linux 5.3 on (pidfds), a signal never
//!   reaches a wrong process, even if the kernel has reused the process id.
//!
//! # Not here
//!
//! If a process starts or its parent ends during a scan, the scan may miss the process. A caller that must find all
//! processes has to scan again.

use std::fs;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

/// A process, and its parent at the time of the scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Pid,
}

impl Process {
    /// Sends a signal, unless the process has ended or now has another parent.
    pub(super) fn send(self, signal: Signal) -> Result<(), Errno> {
        let handle = pidfd_open(self.pid, PidfdFlags::empty());
        // The kernel may have given this process id to another process before `pidfd_open`, so this check comes after
        // it.
        let is_child = match stat(self.pid) {
            Some(stat) => stat.split(' ').nth(1) == Some(&self.parent.to_string()),
            // With `hidepid`, `/proc` hides processes that run as another user. This process may still be permitted to
            // kill some hidden processes.
            None => children(self.parent).contains(&self.pid),
        };
        if !is_child {
            return Err(Errno::SRCH);
        }
        match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            // The kernel is too old, or too many files are open.
            Err(_) => kill_process(self.pid, signal),
        }
    }
}

/// Returns `true` if a process has ended, even if its parent has not waited for it yet.
pub(super) fn has_ended(pid: Pid) -> bool {
    // Uses a pidfd, because `/proc` may hide the process. If only the first thread of the process has ended, `/proc`
    // also wrongly shows a zombie.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            let mut handle = [PollFd::new(&handle, PollFlags::IN)];
            matches!(poll(&mut handle, Some(&Timespec::default())), Ok(1..))
        }
        Err(Errno::SRCH) => true,
        Err(_) => matches!(state(pid).as_deref(), None | Some("Z" | "X")),
    }
}

/// Returns the process ids of the children of a process. Each thread of the process has its own list.
pub(super) fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", of.as_raw_pid()));
    let lists = threads.into_iter().flatten().flatten().map(|thread| {
        let list = fs::read_to_string(thread.path().join("children"));
        list.unwrap_or_default()
    });
    // A space follows each number.
    let numbers: String = lists.collect();
    let numbers = numbers.split_whitespace();
    numbers
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect()
}

/// Returns the letter that `/proc` shows for the state of a process.
pub(super) fn state(of: Pid) -> Option<String> {
    stat(of)?.split(' ').next().map(str::to_owned)
}

/// Returns the fields of `/proc/PID/stat` after the name: the state, the parent and more.
pub(super) fn stat(of: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", of.as_raw_pid())).ok()?;
    // The name is in parentheses, and may contain any character.
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
        for (pid, reached) in [(sleep, Ok(())), (process, Err(Errno::SRCH))] {
            let found = Process {
                pid,
                parent: process,
            };
            assert_eq!(found.send(Signal::CONT), reached);
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(children(process).is_empty());
    }
}
