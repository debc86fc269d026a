//! The descendants of this process: finding them, signalling them, and ending them all.
//!
//! This process must be a child subreaper: a descendant whose parent ends becomes its child. So no
//! descendant can leave, and when there is no child left, nothing is left of the command.
//!
//! # Guarantees
//!
//! * [`end`](Tree::end) returns `true` only when the kernel says that there is no child.
//! * No process is signalled that is not a descendant: a number that was given to another process in
//!   the meantime is recognised (where the kernel has pidfds, Linux 5.3).
//! * Groups and sessions do not matter, and a process that forks while it is being ended does not get
//!   away: all are stopped first, until a look finds no new one.
//!
//! # Not here
//!
//! Processes that this one may not signal (programs of another user). They are left.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal, wait,
};

/// How long killed processes are given before the next look at what is left, and each of them besides: they need
/// the processors that a look needs too.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_EACH: Duration = Duration::from_micros(20);

/// How many looks for new processes there are before those that were found are killed.
const LOOKS_MAX: u32 = 64;

/// What is known of the child that matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Child {
    Running,
    Stopped,
    Ended(ExitStatus),
}

/// All descendants of this process, except those that it had before.
#[derive(Debug)]
pub(super) struct Tree {
    root: Pid,
    /// Children from before this program was started in the process (`exec`), and their descendants.
    strangers: HashSet<Pid>,
    child: Option<(Pid, Child)>,
}

impl Tree {
    /// The descendants from now on.
    pub(super) fn new() -> Self {
        let root = getpid();
        Self {
            root,
            strangers: Processes::look().children(root).into_iter().collect(),
            child: None,
        }
    }

    /// Names the child whose end is to be remembered.
    pub(super) fn remember(&mut self, child: Pid) {
        self.child = Some((child, Child::Running));
    }

    /// What is known of that child since the last [`reap`](Self::reap).
    pub(super) fn child(&self) -> Child {
        self.child.map_or(Child::Running, |(_, state)| state)
    }

    /// Sends a signal to the remembered child if it has not ended.
    pub(super) fn signal_child(&self, signal: Signal) {
        if let Some((pid, Child::Running | Child::Stopped)) = self.child {
            // It has not been waited for, so its number is its own. It may refuse.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal to every descendant, and lets those that are stopped receive it.
    pub(super) fn signal(&self, signal: Signal) {
        let descendants = self.descendants();
        let known: HashSet<Pid> = descendants.iter().copied().collect();
        for pid in descendants {
            self.send(pid, &[signal, Signal::CONT], &known);
        }
    }

    /// Waits for every process that has ended. Returns `false` if no descendant is left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => self.ended(pid, ExitStatus::from_raw(status.as_raw())),
                Ok(None) if self.strangers.is_empty() => return true,
                Ok(None) => return !self.descendants().is_empty(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: ExitStatus) {
        let state = match status.stopped_signal() {
            Some(_) => Child::Stopped,
            None => Child::Ended(status),
        };
        if let Some((child, known)) = &mut self.child
            && *child == pid
        {
            *known = state;
        }
        if state != Child::Stopped {
            self.strangers.remove(&pid);
        }
    }

    /// Kills every descendant and waits for its end. Returns `false` if all that are left may not be
    /// signalled by this process.
    pub(super) fn end(&mut self) -> bool {
        loop {
            let found = self.stop();
            let mut refused = 0;
            for pid in &found {
                refused +=
                    usize::from(self.send(*pid, &[Signal::KILL], &found) == Reached::Refused);
            }
            if !self.reap() {
                return true;
            }
            if 0 < refused && refused == found.len() {
                return false;
            }
            let all = u32::try_from(found.len()).unwrap_or(u32::MAX);
            thread::sleep(PAUSE.saturating_add(PAUSE_EACH.saturating_mul(all)));
        }
    }

    /// Returns how many descendants there are.
    pub(super) fn count(&self) -> usize {
        self.descendants().len()
    }

    /// Stops every descendant, so that none starts another. Returns all.
    fn stop(&mut self) -> HashSet<Pid> {
        let mut known = HashSet::new();
        for _ in 0..LOOKS_MAX {
            let found = self.descendants();
            let new: Vec<Pid> = found.into_iter().filter(|pid| known.insert(*pid)).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                self.send(pid, &[Signal::STOP], &known);
            }
            self.reap();
        }
        known
    }

    /// Sends signals to a process if it is still a child of this one or of a known one.
    fn send(&self, pid: Pid, signals: &[Signal], known: &HashSet<Pid>) -> Reached {
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Some(process),
            Err(Errno::SRCH) => return Reached::No,
            Err(_) => None, // An old kernel.
        };
        let parent = parent(pid);
        if !parent.is_some_and(|parent| parent == self.root || known.contains(&parent)) {
            return Reached::No;
        }
        let send = |signal| match &process {
            Some(process) => pidfd_send_signal(process, signal),
            None => kill_process(pid, signal),
        };
        match signals.iter().try_for_each(|signal| send(*signal)) {
            Ok(()) => Reached::Yes,
            Err(Errno::PERM) => Reached::Refused,
            Err(_) => Reached::No,
        }
    }

    /// Returns all descendants that a look finds, parents first. Some that are just being started may
    /// be missing.
    fn descendants(&self) -> Vec<Pid> {
        let processes = Processes::look();
        let mut found = processes.children(self.root);
        found.retain(|pid| !self.strangers.contains(pid));
        let mut seen: HashSet<Pid> = found.iter().copied().collect();
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            next += 1;
            let children = processes.children(pid);
            found.extend(children.into_iter().filter(|child| seen.insert(*child)));
        }
        found
    }
}

/// Whether a signal reached its process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reached {
    Yes,
    /// It has ended.
    No,
    /// It is of another user.
    Refused,
}

/// Where the children of a process are read.
#[derive(Debug)]
enum Processes {
    /// In `/proc/PID/task/*/children`.
    Listed,
    /// This kernel has no such file: the parents of all processes were read instead.
    ByParent(HashMap<Pid, Vec<Pid>>),
}

impl Processes {
    fn look() -> Self {
        let own = getpid().as_raw_pid();
        match fs::exists(format!("/proc/self/task/{own}/children")) {
            Ok(true) => Self::Listed,
            Ok(false) | Err(_) => Self::ByParent(by_parent()),
        }
    }

    fn children(&self, of: Pid) -> Vec<Pid> {
        match self {
            Self::Listed => listed(of),
            Self::ByParent(children) => children.get(&of).cloned().unwrap_or_default(),
        }
    }
}

/// Each thread has its own list.
fn listed(of: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    let threads = fs::read_dir(format!("/proc/{}/task", of.as_raw_pid()));
    for thread in threads.into_iter().flatten().flatten() {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(pid));
    }
    children
}

fn by_parent() -> HashMap<Pid, Vec<Pid>> {
    let mut children = HashMap::<Pid, Vec<Pid>>::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(process) = entry.file_name().to_str().and_then(pid)
            && let Some(parent) = parent(process)
        {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

/// Returns the parent of a process that has not ended.
fn parent(of: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", of.as_raw_pid())).ok()?;
    // The name of the program stands in parentheses and may hold anything. State and parent follow.
    stat.rsplit_once(") ")?.1.split(' ').nth(1).and_then(pid)
}

fn pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Both ways of looking find the child and the grandchild of a shell.
    #[test]
    fn the_descendants_are_found_by_lists_and_by_parents() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; read line; kill $!; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let process = Pid::from_child(&shell);
        let parents = Processes::ByParent(by_parent());
        for processes in [Processes::Listed, parents] {
            assert!(processes.children(getpid()).contains(&process));
            let [sleep] = processes.children(process)[..] else {
                panic!("one child: {processes:?}");
            };
            assert_eq!(parent(sleep), Some(process));
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(parent(process), None);
    }
}
