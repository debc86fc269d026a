//! A running `shearline run`, its watchdog and its command.

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use rustix_libc_wrappers::process::SignalExt as _;

use crate::servers::{Cluster, Reply, eventually};

/// Returns the command with these options. The caller adds the arguments after `--`. No server restarts in these
/// stories, so nothing depends on when it was first connected.
pub(crate) fn run(urls: &[String], options: &[&str]) -> Command {
    super::command(urls, ["run", "--guard", "off"].iter().chain(options))
}

/// A running tool. Dropping it ends it and everything that it started.
#[derive(Debug)]
pub(crate) struct Tool(Child);

impl Tool {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the binary runs"))
    }

    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Returns its watchdog.
    pub(crate) fn watchdog(&self) -> Pid {
        self.child()
    }

    /// Returns its only child.
    pub(crate) fn child(&self) -> Pid {
        only_child(self.id())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("our own child");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("our own child").is_none()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.end()
    }

    /// Waits for its end, for tests that still need the value.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.0.wait().expect("our own child")
    }

    /// Returns its standard error, to be read line by line.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.0.stderr.take().expect("it is piped")
    }

    /// Returns what it writes to the standard output, until all processes that have the output have ended or closed it.
    pub(crate) fn output(&mut self) -> String {
        text(self.0.stdout.as_mut())
    }

    /// Returns what it writes to the standard error, until all processes that have it have ended or closed it.
    pub(crate) fn errors(&mut self) -> String {
        text(self.0.stderr.as_mut())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // A failed test may have stopped the watchdog. Once the tool has ended, the watchdog ends everything.
        for watchdog in children(self.id()) {
            let _ = kill_process(watchdog, Signal::CONT);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(from: Option<&mut impl Read>) -> String {
    let mut said = String::new();
    let from = from.expect("it is piped");
    from.read_to_string(&mut said).expect("it is text");
    said
}

fn only_child(of: Pid) -> Pid {
    eventually("there is one child", || match children(of)[..] {
        [child] => Some(child),
        _ => None,
    })
}

pub(crate) fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_pid();
    let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let children = list.split_whitespace();
    children
        .filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}

/// Returns the status as a shell shows it: for a signal, 128 plus its number.
pub(crate) fn code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).expect("it has ended")
}

/// Starts `sh -c SCRIPT sh FOLDER` under the lock `n`, and waits until it has made the file `ready`.
pub(crate) fn started(cluster: &Cluster, options: &[&str], script: &str, folder: &Path) -> Tool {
    let mut command = run(&cluster.urls(), options);
    command
        .args(["n", "--", "sh", "-c", script, "sh"])
        .arg(folder);
    // The tool gets a group that is not in the foreground of a terminal, wherever the tests run.
    let tool = Tool::start(command.process_group(0));
    await_file(&folder.join("ready"));
    tool
}

#[track_caller]
pub(crate) fn await_file(path: &Path) {
    eventually(&format!("{path:?} is there"), || {
        path.exists().then_some(())
    });
}

/// Notes each signal that is passed on, by its number, in the file `got`, until there is a file `end`.
pub(crate) const NOTES_SIGNALS: &str = "for it in $2; do trap \"echo $it >>$1/got\" $it; done
    : >$1/got; : >$1/ready; while ! [ -e $1/end ]; do sleep 0.02; done";

/// Returns every signal that can be passed on. These do not include KILL, STOP, signals about the tool itself, and
/// those that the C library reserves.
pub(crate) fn signals() -> impl Iterator<Item = Signal> {
    let others = [
        Signal::KILL,
        Signal::STOP,
        Signal::CHILD,
        Signal::ILL,
        Signal::FPE,
        Signal::SEGV,
        Signal::BUS,
    ];
    let all = (1..=64).filter_map(Signal::from_raw);
    all.filter(move |signal| !others.contains(signal))
}

/// Returns the numbers of [`signals`], for a shell.
pub(crate) fn numbers() -> String {
    let numbers = signals().map(|signal| signal.as_raw().to_string());
    numbers.collect::<Vec<_>>().join(" ")
}

/// Waits until the command has noted this signal.
#[track_caller]
pub(crate) fn await_signal(folder: &Path, signal: Signal) {
    let number = signal.as_raw().to_string();
    eventually(&format!("{signal:?} is passed on"), || {
        let got = fs::read_to_string(folder.join("got")).ok()?;
        got.lines().any(|line| line == number).then_some(())
    });
}

/// Returns `true` if no process has the `flock` of this folder.
pub(crate) fn is_free(folder: &Path) -> bool {
    let mut flock = Command::new("flock");
    flock.arg("-n").arg(folder.join("flock")).arg("true");
    flock.status().expect("it is there").success()
}

/// Returns `true` if the process handles this signal.
pub(crate) fn handles(process: Pid, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_pid());
    let status = fs::read_to_string(path).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("Linux").trim(), 16).expect("bits");
    caught & 1 << (signal.as_raw() - 1) != 0
}

pub(crate) fn is_stopped(process: Pid) -> bool {
    state(process).starts_with('T')
}

pub(crate) fn is_asleep(process: Pid) -> bool {
    state(process).starts_with('S')
}

/// Returns `true` if the process has ended. It must be our own child, or a child of a process that does not wait for it
/// now.
pub(crate) fn has_ended(process: Pid) -> bool {
    state(process).starts_with('Z')
}

fn state(process: Pid) -> String {
    let path = format!("/proc/{}/stat", process.as_raw_pid());
    let stat = fs::read_to_string(path).expect("its parent has not waited for it");
    let (_, state) = stat.rsplit_once(") ").expect("a state");
    state.to_owned()
}

/// Gives the lock `n` to another client on `nodes`, a majority. The token of that client stays there. If the keys were
/// only deleted, the holder that keeps the lock could copy them back one after the other.
#[track_caller]
pub(super) fn take_away(cluster: &Cluster, nodes: Range<usize>) {
    cluster.at_once(nodes, &[b"SET", b"n", b"another"]);
}

/// Releases the lock of the other client, to whom [`take_away`] has given it on these nodes.
#[track_caller]
pub(super) fn free(cluster: &Cluster, nodes: Range<usize>) {
    let replies = cluster.at_once(nodes, &[b"DEL", b"n"]);
    assert!(replies.iter().all(|reply| *reply == Reply::Integer(1)));
}
