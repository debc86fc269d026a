//! Processes that the command of `shearline run` leaves behind: they are ended before the lock is released.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use shearline::LockOptions;

use super::tool::{Tool, await_file, code, free, has_ended, is_free, started, take_away};
use super::variables;
use crate::face::shared;
use crate::servers::{LONG, eventually, three};

/// Processes that are left behind are first asked to end, by the signal and for the time that the user chose.
#[test]
fn what_the_command_leaves_behind_is_asked_to_end() {
    let cluster = three();
    for (options, signal, time) in [
        (&[][..], "TERM", "0"),
        (&["--stop-signal", "usr1", "--grace", "1m"], "USR1", "2.5"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = format!(
            "exec 9>>$1/flock; flock 9
            (trap 'sleep {time}; : >$1/asked; exit' {signal}; : >$1/trap; while :; do sleep 0.02; done) >&- &
            while ! [ -e $1/trap ]; do sleep 0.02; done; : >$1/ready; exit 5"
        );
        let tool = started(&cluster, options, &script, folder.path());
        assert_eq!(code(tool.wait()), 5);
        assert!(is_free(folder.path()), "nothing is left");
        assert!(folder.path().join("asked").exists());
        cluster.assert_empty();
    }
}

/// Stopped processes are continued, so that they receive the signal.
#[test]
fn what_the_command_leaves_stopped_is_asked_to_end_too() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let left = "trap ': >$1/asked; exit' TERM; kill -STOP $$; while :; do sleep 0.02; done";
    fs::write(folder.path().join("left"), left).expect("a file");
    let script = "sh $1/left $1 >&- 2>&- & : >$1/ready
        until grep -q ') T ' /proc/$!/stat; do sleep 0.02; done; exit 5";
    let tool = started(&cluster, &["--grace", "1m"], script, folder.path());
    assert_eq!(code(tool.wait()), 5);
    assert!(folder.path().join("asked").exists());
    cluster.assert_empty();
}

/// The next holder of the lock finds no process of the command, even if the command ignores the request to end.
#[test]
fn the_lock_is_released_when_nothing_is_left() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "exec 9>>$1/flock; flock 9;
        (trap '' TERM; : >$1/trap; while :; do sleep 0.02; done) >&- &
        while ! [ -e $1/trap ]; do sleep 0.02; done; : >$1/ready; exit 5";
    let tool = started(&cluster, &[], script, folder.path());
    let options = LockOptions::new(LONG).wait(Duration::from_secs(60));
    let guard = shared(&cluster).lock_with("n", &options).expect("it ends");
    assert!(is_free(folder.path()), "nothing is left");
    guard.unlock().expect("held");
    assert_eq!(code(tool.wait()), 5);
    cluster.assert_empty();
}

#[test]
fn with_wait_all_what_the_command_leaves_behind_is_waited_for() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "(: >$1/ready; sleep 0.3; : >$1/done) & exit 5";
    let tool = started(&cluster, &["--wait-all"], script, folder.path());
    assert_eq!(code(tool.wait()), 5);
    assert!(folder.path().join("done").exists());
    cluster.assert_empty();
}

/// This is what `flock -o` does. If the lock is lost while the command runs, no process stays alive.
#[test]
fn with_leave_children_what_the_command_leaves_behind_lives_on() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "exec 9>>$1/flock; flock 9; mkfifo $1/end
        (read line <$1/end) >&- 2>&- & : >$1/ready; false && exec sleep 60; exit 5";
    let tool = started(&cluster, &["--leave-children"], script, folder.path());
    assert_eq!(code(tool.wait()), 5);
    cluster.assert_gone("n");
    assert!(!is_free(folder.path()), "it lives on");
    fs::write(folder.path().join("end"), "\n").expect("it reads");
    eventually("it ends", || is_free(folder.path()).then_some(()));

    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = script.replace("false", "true");
    let options = ["--leave-children", "--ttl", "5s"];
    let tool = started(&cluster, &options, &script, folder.path());
    take_away(&cluster, 0..3);
    assert_eq!(code(tool.wait()), 74);
    assert!(is_free(folder.path()), "nothing is left");
    free(&cluster, 0..3);
    cluster.assert_empty();
}

/// The lock is lost after the command has ended, and this was not noticed yet.
#[test]
fn with_leave_children_nothing_lives_on_after_a_loss() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "exec 9>>$1/flock; flock 9; sleep 60 >&- 2>&- & : >$1/ready
        while ! [ -e $1/end ]; do sleep 0.02; done; exit 5";
    let options = ["--leave-children", "--ttl", "5s"];
    let tool = started(&cluster, &options, script, folder.path());
    let watchdog = tool.watchdog();
    tool.signal(Signal::STOP);
    fs::write(folder.path().join("end"), "").expect("a file");
    eventually("the watchdog has ended", || {
        has_ended(watchdog).then_some(())
    });
    eventually("the lock has ended", || {
        (cluster.copies("n") == 0).then_some(())
    });
    tool.signal(Signal::CONT);
    assert_eq!(code(tool.wait()), 74);
    assert!(is_free(folder.path()), "nothing is left");
}

/// The tool leaves alone the children that the process had before it became the tool.
#[test]
fn children_from_before_are_left_alone() {
    let cluster = three();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "sleep 60 >&- & echo $!; exec \"$0\" run --guard off n -- sh -c 'sleep 60 & exit 6'",
        ])
        .arg(env!("CARGO_BIN_EXE_shearline"))
        .envs(variables(&cluster.urls()))
        .stdout(Stdio::piped());
    let mut tool = Tool::start(&mut command);
    let stranger = tool.output();
    let stranger = Pid::from_raw(stranger.trim().parse().expect("a number")).expect("a process");
    assert_eq!(code(tool.wait()), 6);
    test_kill_process(stranger).expect("it runs");
    kill_process(stranger, Signal::KILL).expect("it runs");
    cluster.assert_empty();
}

/// It also leaves alone the orphans that it inherits when such a child ends.
#[test]
fn orphans_of_children_from_before_are_left_alone() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    let child = "echo $$ >$1/child; while ! [ -e $1/ready ]; do sleep 0.02; done
        sleep 60 >&- 2>&- & echo $! >$1/orphan";
    let script = "trap 'exit 6' USR1; : >$1/ready; while :; do sleep 0.02; done";
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "sh -c \"$3\" sh \"$1\" & exec \"$0\" run --guard off n -- sh -c \"$2\" sh \"$1\"",
            env!("CARGO_BIN_EXE_shearline"),
        ])
        .arg(path)
        .args([script, child])
        .envs(variables(&cluster.urls()));
    let tool = Tool::start(&mut command);
    await_file(&path.join("orphan"));
    let process = |file| {
        let id = fs::read_to_string(path.join(file)).expect("a file");
        Pid::from_raw(id.trim().parse().expect("a number")).expect("a process")
    };
    eventually("the tool has waited for the child", || {
        test_kill_process(process("child")).is_err().then_some(())
    });
    // The tool looks at the consequences of this before it takes a signal.
    tool.signal(Signal::USR1);
    assert_eq!(code(tool.wait()), 6);
    test_kill_process(process("orphan")).expect("it runs");
    kill_process(process("orphan"), Signal::KILL).expect("it runs");
    cluster.assert_empty();
}
