//! Finds, signals and ends the descendants of this process.
//!
//! This process must be a child subreaper: if the parent of a descendant ends, the descendant becomes a child of this
//! process. So when this process has no children, all processes of the command have ended.
//!
//! # Guarantees
//!
//! * [`end`](Tree::end) returns `true` only if the kernel says that no child is left.
//! * Only descendants get signals, even if the kernel gives the process id of a descendant to another process.
//! * The tree finds processes in every process group and session. A process cannot escape by forking, because the tree
//!   stops processes until a scan finds no new one, and only then kills them. Stopped processes do nothing more, even
//!   if it takes a while to kill them all. The tree kills children before their parents, because the kernel continues
//!   stopped jobs when their shell dies.
//!
//! # Not here
//!
//! The tree is slow with many hundreds of processes. For that many processes, use a service manager with control
//! groups. The tree cannot end a process that this process may not signal, such as a process of another user.

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

use super::processes::{Process, children, has_ended};

/// The pause between a kill and the next scan. During this pause, the killed processes get the processor time that they
/// need to end.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the tree scans for new processes before it kills all of them. The tree always scans at least twice.
const LOOKS_END: Duration = Duration::from_millis(250);

/// After this time, the tree kills all remaining processes once more.
const AGAIN: Duration = Duration::from_secs(1);

/// The highest priority of a process.
const FIRST: i32 = -20;

/// The priority and the limit of descriptors before [`go_first`], which are restored on drop.
#[derive(Debug)]
pub(super) struct Before(Option<i32>, Rlimit);

/// Raises this process's limit of descriptors to the maximum. If permitted (usually only to root), also gives this
/// thread the highest priority. Processes that start later inherit the limit and the priority.
///
/// The priority helps on a very busy machine. Without a free descriptor, the tree cannot find any process.
#[must_use]
pub(super) fn go_first() -> Before {
    let before = Before(getpriority_process(None).ok(), getrlimit(Resource::Nofile));
    let _ = setpriority_process(None, FIRST);
    let all = Rlimit {
        current: before.1.maximum,
        ..before.1
    };
    let _ = setrlimit(Resource::Nofile, all);
    before
}

impl Drop for Before {
    fn drop(&mut self) {
        let _ = self.0.map(|it| setpriority_process(None, it));
        let _ = setrlimit(Resource::Nofile, self.1);
    }
}

/// The state of the child whose exit status the tree remembers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Child {
    Running,
    Stopped,
    Ended(ExitStatus),
}

/// All descendants of this process, except those that existed before the tree was created.
#[derive(Debug)]
pub(super) struct Tree {
    /// Children that this process already had when it executed this program, and orphans that they left behind.
    strangers: HashSet<Pid>,
    began_with_strangers: bool,
    child: Option<(Pid, Child)>,
}

impl Tree {
    /// Creates a tree of all descendants that start from now on.
    pub(super) fn new() -> Self {
        let strangers: HashSet<Pid> = children(getpid()).into_iter().collect();
        Self {
            began_with_strangers: !strangers.is_empty(),
            strangers,
            child: None,
        }
    }

    /// Makes the tree remember the exit status of `child`.
    pub(super) fn remember(&mut self, child: Pid) {
        self.child = Some((child, Child::Running));
    }

    /// Returns the latest state of the [remembered](Self::remember) child that [`reap`](Self::reap) found.
    pub(super) fn child(&self) -> Child {
        self.child.map_or(Child::Running, |(_, state)| state)
    }

    /// Adds all children except the remembered child to `strangers`. The remembered child must be a child subreaper:
    /// while it lives, it adopts the command's orphans. So any other new child of this process is an orphan of a
    /// stranger.
    pub(super) fn spare_orphans(&mut self) {
        let Some((heir, _)) = self.child.filter(|_| self.began_with_strangers) else {
            return;
        };
        let mut children = children(getpid());
        children.retain(|pid| *pid != heir);
        // If `heir` has ended, the list may contain its former children, which must not count as strangers. So the code
        // checks `heir` after it has read the list.
        if !has_ended(heir) {
            self.strangers.extend(children);
        }
    }

    /// Sends a signal to the remembered child if it has not ended.
    pub(super) fn signal_child(&self, signal: Signal) {
        if let Some((pid, Child::Running | Child::Stopped)) = self.child {
            // This process has not yet waited for the child, so no other process has its id. Ignores an error, because
            // the child may belong to another user.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal to every descendant, and then CONT, so that stopped descendants handle the signal. Gives up at
    /// `until`, even if some descendants have not received the signal.
    pub(super) fn signal(&self, signal: Signal, until: Instant) {
        self.look(|process| {
            if now() < until {
                let _ = process.send(signal);
                let _ = process.send(Signal::CONT);
            }
        });
    }

    /// Collects the exit status of every child that has ended. Returns `false` if no descendant is left.
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

    /// Returns `true` if this process has a living child that is not in `strangers`.
    fn has_children(&self) -> bool {
        let is_ours = |pid: &Pid| !self.strangers.contains(pid);
        self.strangers.is_empty() || children(getpid()).iter().any(is_ours)
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

    /// Kills all descendants, and waits until they have ended. Returns `false` if this process may signal none of the
    /// remaining descendants.
    ///
    /// The child `last` may be killing the same processes. So the tree does not stop `last`, and kills it after all
    /// other processes.
    pub(super) fn end(&mut self, last: Option<Pid>) -> bool {
        loop {
            let met = self.stop(last);
            for process in children_first(&met, |process| Some(process.pid) == last) {
                // A killed process needs processor time to end.
                let _ = setpriority_process(Some(process.pid), FIRST);
                let _ = process.send(Signal::KILL);
            }
            let end = now().saturating_add(AGAIN);
            while now() < end {
                // Scans again, because some processes may have started just before their parents were stopped.
                self.look(|process| {
                    let _ = process.send(Signal::KILL);
                });
                if !self.reap() {
                    return true;
                }
                thread::sleep(PAUSE);
            }
            if self.are_of_others() {
                return false;
            }
        }
    }

    /// Scans for descendants and stops them, until a scan finds no new process. A stopped process cannot start another
    /// process. Returns all descendants, parents first.
    fn stop(&self, last: Option<Pid>) -> Vec<Process> {
        let end = now().saturating_add(LOOKS_END);
        let look = || {
            self.look(|process| {
                if Some(process.pid) != last {
                    let _ = process.send(Signal::STOP);
                }
            })
        };
        let mut before = look();
        loop {
            let met = look();
            if met == before || end <= now() {
                return met;
            }
            before = met;
        }
    }

    /// Returns `true` if some descendants have not ended and this process may signal none of them.
    fn are_of_others(&self) -> bool {
        let mut left = self.look(|_| {});
        left.retain(|process| !has_ended(process.pid));
        let is_refused = |process: &Process| process.send(Signal::KILL) == Err(Errno::PERM);
        !left.is_empty() && left.iter().all(is_refused)
    }

    /// Calls `meet` for each descendant, parents first, and returns all descendants. The result may lack processes that
    /// are just starting.
    fn look(&self, mut meet: impl FnMut(Process)) -> Vec<Process> {
        let mut seen = self.strangers.clone();
        let mut met: Vec<Process> = Vec::new();
        let mut parent = getpid();
        for next in 0.. {
            for pid in children(parent) {
                if seen.insert(pid) {
                    meet(Process { pid, parent });
                    met.push(Process { pid, parent });
                }
            }
            match met.get(next) {
                Some(process) => parent = process.pid,
                None => break,
            }
        }
        met
    }
}

/// Converts the order in which a scan found the processes (parents first) into the order in which the tree kills them.
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

    /// An environment variable that is set in a process that runs only one test.
    const ALONE: &str = "SHEARLINE_TEST_ALONE";

    /// A script that starts four trees of processes, three of them orphaned. One process in each tree prints a dot.
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

    /// Runs this test in a separate process, because the test ends all children, including those of other tests.
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

    /// [`FAMILIES`], after all of them have begun.
    struct Families {
        tree: Tree,
        shell: process::Child,
        /// A pipe that all processes of the script inherit. A reader sees the end of the pipe when all these processes
        /// have ended.
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
            assert!(matches!(left, Ok(0)), "a process is alive: {left:?}");
            assert!(!self.tree.reap());
            assert!(
                self.shell.wait().is_err(),
                "the tree did not reap the shell"
            );
        }
    }

    /// Ends all processes of the test, even if the test has failed.
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
                    current: Some(4), // Four descriptors are open already.
                    ..getrlimit(Resource::Nofile)
                };
                setrlimit(Resource::Nofile, few).unwrap();
                let _before = go_first();
                let met = families.tree.stop(None);
                assert!(4 <= met.len(), "{met:?}");
                assert!(families.tree.end(None));
                families.assert_ended();
            },
        );
    }

    #[test]
    fn none_goes_on_that_was_stopped() {
        alone("none_goes_on_that_was_stopped", |mut families| {
            let met = families.tree.stop(None);
            // A process in state D that has started a child with `vfork` stops only after the child continues.
            let goes_on = |it: &&Process| matches!(state(it.pid).as_deref(), Some("R" | "S"));
            // If a process runs on another processor, the kernel stops it at the end of its time slice. The limit is
            // shorter than a minute, because these processes end by themselves after a minute.
            let end = now().saturating_add(Duration::from_secs(20));
            while let Some(process) = met.iter().find(goes_on) {
                assert!(now() < end, "{process:?} {:?}", state(process.pid));
                thread::sleep(PAUSE);
            }
            assert!(families.tree.end(None));
            families.assert_ended();
        });
    }
}
