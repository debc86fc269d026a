//! `shearline run` as the first process of a container, such as that of `examples/docker`: the kernel gives it no
//! signal that it does not handle, and it cannot end by a signal.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};
use rustix_libc_wrappers::process::SignalExt as _;

use super::tool::{NOTES_SIGNALS, Tool, await_file, await_signal, code, handles, numbers};
use super::variables;
use crate::face::shared;
use crate::servers::{Cluster, LONG, eventually, three};
use crate::variants::say_not_run;

/// A container as far as it matters here: its own processes, and a `/proc` that shows them.
const CONTAINER: [&str; 4] = ["--pid", "--mount-proc", "--fork", "--kill-child"];

fn container() -> Command {
    let root = rustix::process::geteuid().is_root();
    let mut container = Command::new("unshare");
    container.args(CONTAINER);
    container.args((!root).then_some("--map-root-user"));
    container.stdin(Stdio::null()).stdout(Stdio::piped());
    container
}

/// Returns `true` if the system allows such a container. If not, a message that bypasses the test harness says that the
/// story was not run.
fn can_be_had() -> bool {
    let probe = container().arg("true").output();
    if probe.as_ref().is_ok_and(|output| output.status.success()) {
        return true;
    }
    say_not_run(&format!("no containers here: {probe:?}"));
    false
}

/// Runs this under the lock `n` as the first process of a container.
fn start(cluster: &Cluster, options: &[&str], command: &[&str]) -> Tool {
    let mut container = of_command(cluster, "run");
    container.args(options).args(["n", "--"]).args(command);
    Tool::start(&mut container)
}

fn of_command(cluster: &Cluster, command: &str) -> Command {
    let mut container = container();
    container
        .args([env!("CARGO_BIN_EXE_shearline"), command, "--guard", "off"])
        .envs(variables(&cluster.urls()));
    container
}

#[test]
fn the_first_process_of_a_container_has_the_status_of_the_command() {
    if !can_be_had() {
        return;
    }
    let cluster = three();
    for (script, expected) in [
        (
            "exit 3",
            "\"command_status\":3,\"command_signal\":null,\"status\":3,",
        ),
        (
            "kill -KILL $$",
            "\"command_status\":null,\"command_signal\":9,\"status\":137,",
        ),
        (
            "(sleep 60 &); exit 4",
            "\"command_status\":4,\"command_signal\":null,\"status\":4,",
        ),
    ] {
        let mut tool = start(&cluster, &["--report", "1"], &["sh", "-c", script]);
        let report = tool.output();
        assert!(report.contains("\"outcome\":\"released\","), "{report}");
        assert!(report.contains(expected), "{script}: {report}");
        let status = format!("\"status\":{},", code(tool.wait()));
        assert!(expected.ends_with(&status), "{script}: {status}");
        cluster.assert_empty();
    }
}

/// The kernel gives the first process only signals that it handles.
#[test]
fn every_signal_reaches_the_command_in_a_container() {
    if !can_be_had() {
        return;
    }
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().to_str().expect("a plain path");
    let numbers = numbers();
    let command = ["sh", "-c", NOTES_SIGNALS, "sh", path, &numbers];
    let tool = start(&cluster, &[], &command);
    await_file(&folder.path().join("ready"));
    for signal in [
        Signal::TERM,
        Signal::WINCH,
        Signal::CONT,
        Signal::PIPE,
        Signal::URG,
        Signal::ALARM,
        Signal::POWER,
        Signal::rt_min(),
        Signal::rt_max(),
    ] {
        kill_process(tool.child(), signal).expect("it runs");
        await_signal(folder.path(), signal);
    }
    fs::write(folder.path().join("end"), "").expect("a file");
    assert_eq!(code(tool.wait()), 0);
    cluster.assert_empty();
}

/// It ends with a status: 128 plus the signal.
#[test]
fn term_ends_the_wait_in_a_container() {
    if !can_be_had() {
        return;
    }
    let cluster = three();
    let guard = shared(&cluster).try_lock("n", LONG).expect("free");
    let value = cluster.values("n");
    let mut tool = start(&cluster, &["--report", "1"], &["true"]);
    terminate(&tool, Signal::CHILD);
    let report = tool.output();
    let expected = "\"outcome\":\"interrupted\",\"started\":false,";
    assert!(report.contains(expected), "{report}");
    assert!(report.contains("\"status\":143,"), "{report}");
    assert_eq!(code(tool.wait()), 143);
    for command in ["lock", "watch"] {
        let tool = Tool::start(of_command(&cluster, command).arg("n"));
        terminate(&tool, Signal::TERM);
        assert_eq!(code(tool.wait()), 143, "{command}");
    }
    assert_eq!(cluster.values("n"), value);
    guard.unlock().expect("held");
    cluster.assert_empty();
}

/// Asks the first process to end, as soon as it handles this signal.
fn terminate(tool: &Tool, handled: Signal) {
    let first = tool.child();
    eventually("it handles signals", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", first.as_raw_pid())).ok()?;
        (name == "shearline\n" && handles(first, handled)).then_some(())
    });
    kill_process(first, Signal::TERM).expect("it runs");
}
