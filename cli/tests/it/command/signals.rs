//! Signals that `shearline run` gets: passed on to the command, or the end of a wait.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal, getpgid, kill_process_group};

use super::tool::{
    NOTES_SIGNALS, Tool, await_file, await_signal, code, handles, is_stopped, numbers, run,
    signals, started,
};
use super::variables;
use crate::face::shared;
use crate::servers::{LONG, eventually, three};

/// The tool is in a session of its own, where no terminal stops a process.
#[test]
fn every_signal_that_can_be_handled_is_passed_on() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("setsid");
    command
        .args([env!("CARGO_BIN_EXE_shearline"), "run", "--guard", "off"])
        .args(["n", "--", "sh", "-c", NOTES_SIGNALS, "sh"])
        .arg(folder.path())
        .arg(numbers())
        .envs(variables(&cluster.urls()));
    let mut tool = Tool::start(&mut command);
    await_file(&folder.path().join("ready"));
    for signal in signals() {
        tool.signal(signal);
        await_signal(folder.path(), signal);
    }
    assert!(tool.is_running());
    fs::write(folder.path().join("end"), "").expect("a file");
    assert_eq!(code(tool.wait()), 0);
    cluster.assert_empty();
}

/// This also holds for signals that programs do not usually handle: real-time signals, or the one for a power failure.
#[test]
fn the_tool_ends_by_the_signal_that_ended_the_command() {
    let cluster = three();
    let stops = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
    for signal in signals().filter(|signal| !stops.contains(signal)) {
        let number = signal.as_raw().to_string();
        let script = format!("kill -{number} $$; exit 9");
        let mut command = run(&cluster.urls(), &["n", "--", "sh", "-c", &script]);
        let status = Tool::start(&mut command).wait();
        match status.signal() {
            Some(ended_by) => assert_eq!(ended_by, signal.as_raw()),
            // This signal ends no process.
            None => assert_eq!(status.code(), Some(9), "{signal:?}"),
        }
    }
    cluster.assert_empty();
}

/// Without a terminal, tool, watchdog and command are groups of their own: a signal to the group of the tool reaches
/// the command once, through the tool.
#[test]
fn without_a_terminal_the_command_has_a_group_of_its_own() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "trap 'echo INT >>$1/ints' INT; echo $$ >$1/command; : >$1/ready
        while ! [ -e $1/ints ]; do sleep 0.02; done; sleep 0.2; exit 7";
    let tool = started(&cluster, &[], script, folder.path());
    let command = fs::read_to_string(folder.path().join("command")).expect("a number");
    let command = Pid::from_raw(command.trim().parse().expect("a number"));
    let group = |process| getpgid(process).expect("it runs");
    assert_eq!(Some(group(command)), command);
    assert_eq!(group(Some(tool.watchdog())), tool.watchdog());
    assert_eq!(group(Some(tool.id())), tool.id());
    kill_process_group(tool.id(), Signal::INT).expect("it runs");
    assert_eq!(code(tool.wait()), 7);
    let ints = fs::read_to_string(folder.path().join("ints")).expect("a file");
    assert_eq!(ints, "INT\n");
    cluster.assert_empty();
}

/// As in a shell, a stopped command is continued, so that it receives the signal that asks it to end.
#[test]
fn a_command_that_is_stopped_can_be_ended() {
    let cluster = three();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = format!(
            "trap 'exit 7' {name}; echo $$ >$1/command; : >$1/ready; kill -STOP $$; \
             while :; do sleep 0.02; done"
        );
        let tool = started(&cluster, &[], &script, folder.path());
        let command = fs::read_to_string(folder.path().join("command")).expect("a number");
        let command = Pid::from_raw(command.trim().parse().expect("a number")).expect("a process");
        eventually("it is stopped", || is_stopped(command).then_some(()));
        tool.signal(signal);
        assert_eq!(code(tool.wait()), 7, "{name}");
    }
    cluster.assert_empty();
}

#[test]
fn a_signal_ends_the_wait_for_the_lock() {
    let cluster = three();
    let guard = shared(&cluster).try_lock("n", LONG).expect("free");
    let value = cluster.values("n");
    // Signals that end no process do not end the wait.
    let none = [Signal::WINCH, Signal::URG, Signal::CONT, Signal::PIPE];
    let some = [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::ALARM,
        Signal::IO,
        Signal::POWER,
    ];
    for signal in some {
        let mut command = run(&cluster.urls(), &["--report", "1", "n", "--", "true"]);
        let mut tool = Tool::start(&mut command);
        // The tool handles signals when it waits, and SIGCHLD is the last one that it prepares for.
        eventually("it handles signals", || {
            handles(tool.id(), Signal::CHILD).then_some(())
        });
        none.into_iter().for_each(|signal| tool.signal(signal));
        tool.signal(signal);
        assert!(tool.output().contains("\"interrupted\",\"started\":false"));
        assert_eq!(tool.wait().signal(), Some(signal.as_raw()));
    }
    assert_eq!(cluster.values("n"), value);
    guard.unlock().expect("held");
    cluster.assert_empty();
}

/// The command ignores what was ignored (`nohup`, units of systemd), and nothing else. The runtime of Rust ignores PIPE
/// before `main`, and its `exec` restores it.
#[test]
fn an_ignored_signal_stays_ignored() {
    let cluster = three();
    let ignored = |trap: &str| {
        let run = "exec \"$0\" run --guard off n -- grep SigIgn /proc/self/status";
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{trap}; {run}")])
            .arg(env!("CARGO_BIN_EXE_shearline"))
            .envs(variables(&cluster.urls()));
        let output = command.output().expect("a shell");
        assert_eq!(code(output.status), 0, "{trap}");
        let line = String::from_utf8(output.stdout).expect("it is text");
        let bits = line.trim_start_matches("SigIgn:").trim();
        let bits = u64::from_str_radix(bits, 16).expect("bits");
        (1..=64)
            .filter(|it| bits >> (it - 1) & 1 == 1)
            .collect::<Vec<_>>()
    };
    let before = ignored(":");
    for signal in [Signal::HUP, Signal::PIPE] {
        assert!(!before.contains(&signal.as_raw()), "{before:?}");
    }
    for (trap, signals) in [
        ("trap '' HUP", vec![Signal::HUP]),
        ("trap '' PIPE", vec![Signal::PIPE]),
        ("trap '' HUP PIPE", vec![Signal::HUP, Signal::PIPE]),
    ] {
        let mut expected: Vec<i32> = signals.into_iter().map(Signal::as_raw).collect();
        expected.extend(&before);
        expected.sort_unstable();
        assert_eq!(ignored(trap), expected, "{trap}");
    }
    cluster.assert_empty();
}
