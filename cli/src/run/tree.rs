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
//!   away: all are stopped first, until a look finds no new one. From then on none of them does anything, however
//!   long the machine takes to end them. So children are killed before their parents: the kernel continues the jobs
//!   that are stopped when their shell dies.
//!
//! # Not here
//!
//! Haste for many hundreds of processes: those are a matter of a service manager and its control groups. Processes that this one may not signal (programs of another user). They are left.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getpriority_process, getrlimit,
    kill_process, setpriority_process, setrlimit, wait,
};
use shearline::Instant;
use shearline::internals::now;

use super::processes::{Process, Reached, children, opened};

/// How long killed processes are given before the next look at what is left: they need the processors that a look
/// needs too.
const PAUSE: Duration = Duration::from_millis(1);

/// How often new processes are looked for before those that were found are killed: until a look finds none, at least
/// twice, at most 64 times, and no more when 250 ms are over.
const LOOKS_MIN: u32 = 2;
const LOOKS_MAX: u32 = 64;
const LOOKS_END: Duration = Duration::from_millis(250);

/// After this time all that are left are killed once more.
const AGAIN: Duration = Duration::from_secs(1);

/// The most urgent that a process can be.
const FIRST: i32 = -20;

/// What this thread and its process were before they went first. Dropping it makes them that again.
#[derive(Debug)]
pub(super) struct Before {
    priority: Option<i32>,
    limit: Rlimit,
}

/// Makes this thread one that runs before others, where that is permitted, and gives it room for one descriptor per
/// process. What this process has started already does not inherit it; what it starts next would.
///
/// A machine is at its busiest when processes have to be ended. Without room for descriptors no list of children can be
/// read, and processes that are not found live on.
#[must_use]
pub(super) fn go_first() -> Before {
    let before = Before {
        priority: getpriority_process(None).ok(),
        limit: getrlimit(Resource::Nofile),
    };
    // Only root, mostly, is permitted to do so.
    let _ = setpriority_process(None, FIRST);
    let all = Rlimit {
        current: before.limit.maximum,
        ..before.limit
    };
    let _ = setrlimit(Resource::Nofile, all);
    before
}

impl Drop for Before {
    fn drop(&mut self) {
        let _ = self.priority.map(|it| setpriority_process(None, it));
        let _ = setrlimit(Resource::Nofile, self.limit);
    }
}

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
    /// Children from before this program was started in the process (`exec`), and those that came to it from them.
    strangers: HashSet<Pid>,
    began_with_strangers: bool,
    child: Option<(Pid, Child)>,
}

impl Tree {
    /// The descendants from now on.
    pub(super) fn new() -> Self {
        let root = getpid();
        let children = children(root);
        Self {
            root,
            began_with_strangers: !children.is_empty(),
            strangers: children.into_iter().collect(),
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

    /// Counts the other children as strangers. The remembered one has to be a child subreaper: while it lives no
    /// process of the command comes to this one, so who did is an orphan of a stranger.
    pub(super) fn spare_orphans(&mut self) {
        let Some((heir, _)) = self.child.filter(|_| self.began_with_strangers) else {
            return;
        };
        let mut children = children(self.root);
        children.retain(|pid| *pid != heir);
        // In this order: its processes come to this one before its end is seen.
        if Process::open(heir).is_some_and(|heir| !heir.has_ended()) {
            self.strangers.extend(children);
        }
    }

    /// Sends a signal to the remembered child if it has not ended.
    pub(super) fn signal_child(&self, signal: Signal) {
        if let Some((pid, Child::Running | Child::Stopped)) = self.child {
            // It has not been waited for, so its number is its own. It may refuse.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal to every descendant, and lets those that are stopped receive it. Ends at the time that is
    /// named, whether all have it or not.
    pub(super) fn signal(&self, signal: Signal, until: Instant) {
        let mut met = Met::default();
        self.look(&mut met, |process| {
            process.send(signal);
            process.send(Signal::CONT);
            now() < until
        });
    }

    /// Waits for every process that has ended. Returns `false` if no descendant is left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) => self.ended(pid, ExitStatus::from_raw(status.as_raw())),
                Ok(None) => return self.has_children(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Returns `true` if a process that has not ended is a child of this one, and no stranger.
    fn has_children(&self) -> bool {
        let is_ours = |pid: &Pid| !self.strangers.contains(pid);
        self.strangers.is_empty() || children(self.root).iter().any(is_ours)
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
    ///
    /// `last` is a child that may be doing the same: it is left to do so until all others are killed.
    pub(super) fn end(&mut self, last: Option<Pid>) -> bool {
        loop {
            let mut met = Met::default();
            self.stop(&mut met, last);
            met.kill(last);
            if !self.wait_for_dead(&mut met) {
                return true;
            }
            if met.are_of_others() {
                return false;
            }
        }
    }

    /// Stops every descendant, so that none starts another.
    fn stop(&self, met: &mut Met, last: Option<Pid>) {
        let end = now().saturating_add(LOOKS_END);
        for look in 1..=LOOKS_MAX {
            let before = met.processes.len();
            self.look(met, |process| {
                if Some(process.pid) != last {
                    process.send(Signal::STOP);
                }
                true
            });
            if LOOKS_MIN <= look && (met.processes.len() == before || end <= now()) {
                break;
            }
        }
    }

    /// Waits for those that were killed, for [`AGAIN`] at most, and kills what they had started before they were
    /// stopped and no look has found yet. Returns `false` if no descendant is left.
    fn wait_for_dead(&mut self, met: &mut Met) -> bool {
        let end = now().saturating_add(AGAIN);
        loop {
            self.look(met, |process| {
                process.send(Signal::KILL);
                true
            });
            let is_any_left = self.reap();
            if !is_any_left || end <= now() {
                return is_any_left;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Meets the descendants that were not met yet, parents first, until one is not to be followed by another. Some
    /// that are just being started may be missing.
    fn look(&self, met: &mut Met, mut meet: impl FnMut(&Process) -> bool) {
        let mut seen = HashSet::new();
        let mut parents = vec![self.root];
        let mut next = 0;
        while let Some(parent) = parents.get(next).copied() {
            next += 1;
            let mut children = children(parent);
            children.retain(|pid| !self.strangers.contains(pid) && seen.insert(*pid));
            let (known, new): (Vec<Pid>, Vec<Pid>) = children
                .into_iter()
                .partition(|pid| met.numbers.contains(pid));
            parents.extend(known);
            for process in opened(parent, &new) {
                let goes_on = meet(&process);
                parents.push(process.pid);
                met.add(process);
                if !goes_on {
                    return;
                }
            }
        }
    }
}

/// The descendants that were met, parents first.
#[derive(Debug, Default)]
struct Met {
    processes: Vec<Process>,
    numbers: HashSet<Pid>,
}

impl Met {
    fn add(&mut self, process: Process) {
        self.numbers.insert(process.pid);
        self.processes.push(process);
    }

    /// Kills all of them, children first. No number is that of another process yet: no parent goes on, and this one has
    /// not waited for a child.
    fn kill(&self, last: Option<Pid>) {
        for process in children_first(&self.processes, |process| Some(process.pid) == last) {
            // To die, a process needs the processor too.
            let _ = setpriority_process(Some(process.pid), FIRST);
            process.send(Signal::KILL);
        }
    }

    /// Returns `true` if some have not ended, and this process may signal none of those.
    fn are_of_others(&self) -> bool {
        let alive = |process: &&Process| !process.has_ended();
        let mut left = self.processes.iter().filter(alive).peekable();
        left.peek().is_some() && left.all(|process| process.send(Signal::KILL) == Reached::Refused)
    }
}

/// Returns what was met parents first in the order in which it is killed.
fn children_first<P>(met: &[P], is_last: impl Fn(&P) -> bool) -> impl Iterator<Item = &P> {
    let (last, others): (Vec<_>, Vec<_>) = met.iter().rev().partition(|it| is_last(it));
    others.into_iter().chain(last)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::{PipeReader, Read as _, pipe};
    use std::process::{self, Command, Stdio};

    use rustix::io::ioctl_fionbio;
    use rustix::process::set_child_subreaper;

    use super::super::processes::state;
    use super::*;

    /// Is set in the process that has the story to itself.
    const ALONE: &str = "SHEARLINE_TEST_ALONE";

    /// Four families, three of them of orphans: each prints a dot. They end by themselves after a minute.
    const FAMILIES: &str = "
        (setsid sh -c 'printf .; sleep 60; :' &)
        setsid sh -c '(trap \"\" TERM; sleep 60 & printf .; sleep 60; :) & exit'
        chain() { sleep 0.005; chain & exit; }; (printf .; chain) &
        printf .; exec sleep 60";

    #[test]
    fn children_die_before_their_parents_and_the_watchdog_last() {
        let order = children_first(&[1, 2, 3, 4, 5], |it| *it == 2);
        assert_eq!(Vec::from_iter(order), [&5, &4, &3, &1, &2]);
    }

    /// Plays this story in a process of its own: it ends all children, those of other tests too.
    fn alone(name: &str, play: impl FnOnce(Families)) {
        if env::var_os(ALONE).is_some() {
            return play(Families::start());
        }
        let name = format!("run::tree::tests::{name}");
        let mut alone = Command::new(env::current_exe().unwrap());
        let output = alone.args(["--exact", &name]).env(ALONE, "1").output();
        let said = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(said.contains("test result: ok. 1 passed"), "{said}");
    }

    /// [`FAMILIES`] that have all begun.
    struct Families {
        tree: Tree,
        shell: process::Child,
        /// A pipe that all of them inherit: its end is read only when none of them is alive.
        alive: PipeReader,
    }

    impl Families {
        fn start() -> Self {
            set_child_subreaper(Some(getpid())).unwrap();
            let mut tree = Tree::new();
            let (mut alive, inherited) = pipe().unwrap();
            let mut shell = Command::new("sh");
            shell.args(["-c", FAMILIES]).stdin(Stdio::null());
            let child = shell.stdout(inherited).spawn().unwrap();
            let mut dots = [0; 4];
            alive.read_exact(&mut dots).unwrap();
            assert_eq!(&dots, b"....");
            assert!(tree.reap());
            Self {
                tree,
                shell: child,
                alive,
            }
        }

        fn assert_ended(mut self) {
            ioctl_fionbio(&self.alive, true).unwrap();
            let left = self.alive.read(&mut [0]);
            assert!(matches!(left, Ok(0)), "somebody is alive: {left:?}");
            assert!(!self.tree.reap());
            assert!(self.shell.wait().is_err(), "the tree has waited for it");
        }
    }

    /// Also of a story that has failed.
    impl Drop for Families {
        fn drop(&mut self) {
            self.tree.end(None);
        }
    }

    #[test]
    fn orphans_are_found_and_ended() {
        alone("orphans_are_found_and_ended", |mut families| {
            assert!(families.tree.end(None));
            families.assert_ended();
        });
    }

    #[test]
    fn all_are_found_where_the_limit_of_descriptors_was_low() {
        alone(
            "all_are_found_where_the_limit_of_descriptors_was_low",
            |mut families| {
                let few = Rlimit {
                    current: Some(8), // Four of them are open.
                    ..getrlimit(Resource::Nofile)
                };
                setrlimit(Resource::Nofile, few).unwrap();
                let _before = go_first();
                let mut met = Met::default();
                families.tree.stop(&mut met, None);
                assert!(4 <= met.processes.len(), "{met:?}");
                assert!(families.tree.end(None));
                families.assert_ended();
            },
        );
    }

    #[test]
    fn none_goes_on_that_was_stopped() {
        alone("none_goes_on_that_was_stopped", |mut families| {
            let mut met = Met::default();
            families.tree.stop(&mut met, None);
            // One that waits for a child that it has forked by `vfork` (D) does not stop before that goes on.
            let goes_on = |it: &&Process| matches!(state(it.pid).as_deref(), Some("R" | "S"));
            // The kernel stops a process that runs elsewhere at the end of its turn. Less than the minute after
            // which these processes end by themselves.
            let end = now().saturating_add(Duration::from_secs(20));
            while let Some(process) = met.processes.iter().find(goes_on) {
                assert!(now() < end, "{process:?} {:?}", state(process.pid));
                thread::sleep(PAUSE);
            }
            assert!(families.tree.end(None));
            families.assert_ended();
        });
    }
}
