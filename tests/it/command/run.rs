//! `shearline run`: statuses, reports, signals, standard input, what is left behind.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use shearline::LockOptions;
use shearline::limits::RESOURCE_BYTES_MAX;

use super::tool::{Tool, code, run};
use super::variables;
use crate::face::shared;
use crate::servers::{ClosedPort, Cluster, LONG, Mischief, Proxy, Server, Way, eventually, three};

/// Runs `sh -c SCRIPT sh FOLDER` under the lock `n`, to its end.
struct Run {
    code: i32,
    output: String,
    errors: String,
    report: String,
}

impl Run {
    fn of(urls: &[String], options: &[&str], script: &str) -> Self {
        Self::command(urls, options, &["sh", "-c", script])
    }

    fn command(urls: &[String], options: &[&str], command: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let report = folder.path().join("report");
        let mut run = run(urls, options);
        run.arg("--report").arg(&report);
        let output = run.args(["n", "--"]).args(command).output();
        let output = output.expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("it is text");
        Self {
            code: code(output.status),
            output: text(output.stdout),
            errors: text(output.stderr),
            report: fs::read_to_string(report).unwrap_or_default(),
        }
    }

    #[track_caller]
    fn assert(&self, outcome: &str, started: bool, command: &str, status: i32) {
        let expected = format!(
            "{{\"version\":1,\"command\":\"run\",\"resource\":\"n\",\"outcome\":\"{outcome}\",\
             \"started\":{started},{command},\"status\":{status},\"fencing_token\":null}}\n"
        );
        assert_eq!(
            (&self.report, self.code),
            (&expected, status),
            "{}",
            self.errors
        );
    }
}

const NO_STATUS: &str = "\"command_status\":null,\"command_signal\":null";

fn status(status: i32) -> String {
    format!("\"command_status\":{status},\"command_signal\":null")
}

fn signal(signal: i32) -> String {
    format!("\"command_status\":null,\"command_signal\":{signal}")
}

/// Starts `sh -c SCRIPT sh FOLDER` under the lock `n`, and waits until it has made the file `ready`.
fn started(cluster: &Cluster, options: &[&str], script: &str, folder: &Path) -> Tool {
    let mut command = run(&cluster.urls(), options);
    command
        .args(["n", "--", "sh", "-c", script, "sh"])
        .arg(folder);
    // A group that is not in the foreground of a terminal, wherever the tests run.
    let tool = Tool::start(command.process_group(0));
    await_file(&folder.join("ready"));
    tool
}

#[track_caller]
fn await_file(path: &Path) {
    eventually(&format!("{path:?} is there"), || {
        path.exists().then_some(())
    });
}

#[test]
fn the_status_of_the_command_is_ours() {
    let cluster = three();
    for (exit, said) in [(0, ""), (3, ""), (255, "")] {
        let run = Run::of(&cluster.urls(), &[], &format!("exit {exit}"));
        run.assert("released", true, &status(exit), exit);
        assert_eq!(run.errors, said);
        cluster.assert_empty();
    }
}

/// The lock is extended meanwhile, and its deadline with it.
#[test]
fn the_command_may_run_longer_than_the_ttl() {
    let cluster = three();
    let run = Run::of(&cluster.urls(), &["--ttl", "6s"], "sleep 7; exit 3");
    assert_eq!((run.code, run.errors.as_str()), (3, ""), "{}", run.report);
    cluster.assert_empty();
}

#[test]
fn a_signal_that_ended_the_command_ends_us() {
    let cluster = three();
    for number in [1, 2, 3, 6, 9, 10, 13, 15] {
        let run = Run::of(&cluster.urls(), &[], &format!("kill -{number} $$"));
        run.assert("released", true, &signal(number), 128 + number);
        assert_eq!(run.errors, "");
    }
    cluster.assert_empty();
}

#[test]
fn a_command_that_cannot_be_run_has_the_status_of_env() {
    let cluster = three();
    for (command, exit, reason) in [
        ("no-such-command", 127, "No such file or directory"),
        ("/no/such/command", 127, "No such file or directory"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/", 126, "Permission denied"),
        ("", 127, "No such file or directory"),
    ] {
        let run = Run::command(&cluster.urls(), &[], &[command]);
        run.assert("not_started", false, NO_STATUS, exit);
        let command = if command.is_empty() { "''" } else { command };
        let line = format!("shearline: cannot run {command}: {reason}");
        assert!(run.errors.starts_with(&line), "{}", run.errors);
        assert_eq!(run.errors.lines().count(), 1, "{}", run.errors);
        cluster.assert_empty();
    }
}

#[test]
fn a_lock_that_another_holds_is_a_conflict() {
    let cluster = three();
    let guard = shared(&cluster).try_lock("n", LONG).expect("free");
    let value = cluster.values("n");
    for (options, exit, quiet) in [
        (&["-n"][..], 75, false),
        (&["-w", "100ms"], 75, false),
        (&["--no-wait", "-E", "9"], 9, false),
        (&["-n", "-q", "-E", "0"], 0, true),
    ] {
        let run = Run::of(&cluster.urls(), options, "echo started");
        run.assert("held", false, NO_STATUS, exit);
        assert_eq!(run.output, "");
        assert_eq!(
            run.errors.lines().count(),
            usize::from(!quiet),
            "{}",
            run.errors
        );
    }
    assert_eq!(cluster.values("n"), value);
    guard.unlock().expect("held");
    cluster.assert_empty();
}

/// It waits as long as it takes if nothing else was asked for.
#[test]
fn the_lock_is_waited_for() {
    let cluster = three();
    let redlock = shared(&cluster);
    let guard = redlock.try_lock("n", LONG).expect("free");
    let mut tools = [&["-w", "60s"][..], &[]].map(|options| {
        let mut command = run(&cluster.urls(), options);
        Tool::start(command.args(["n", "--", "echo", "started"]))
    });
    guard.unlock().expect("held");
    for tool in &mut tools {
        assert_eq!(tool.output(), "started\n");
    }
    for tool in tools {
        assert_eq!(code(tool.wait()), 0);
    }
    cluster.assert_empty();
}

#[test]
fn too_few_nodes_are_no_quorum() {
    let cluster = three();
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let urls = [cluster.urls()[0].clone(), gone[0].url(), gone[1].url()];
    let run = Run::of(&urls, &["-w", "200ms"], "echo started");
    run.assert("no_quorum", false, NO_STATUS, 69);
    assert_eq!((run.output.as_str(), run.errors.lines().count()), ("", 1));
    cluster.assert_empty();
}

#[test]
fn arguments_that_cannot_be_used_start_nothing() {
    let cluster = three();
    let urls = cluster.urls();
    let long = "x".repeat(RESOURCE_BYTES_MAX + 1);
    for (options, exit, said) in [
        (
            &["--ttl", "1s", "n", "--", "echo"][..],
            64,
            "give 2s or more",
        ),
        (&["--ttl", "61s", "n", "--", "echo"], 64, "--max-ttl"),
        (&["--ttl", "x", "n", "--", "echo"], 64, "--ttl"),
        (&["-n", "-w", "1s", "n", "--", "echo"], 64, "--wait"),
        (&["n"], 64, "COMMAND"),
        (&["n", "echo"], 64, "echo"),
        (&[&long, "--", "echo"], 64, "name"),
        (&["--node", "x://y", "n", "--", "echo"], 78, "node"),
        (&["--report", "77", "n", "--", "echo"], 64, "report"),
        (
            &["--report", "/no/such/file", "n", "--", "echo"],
            64,
            "report",
        ),
    ] {
        let output = run(&urls, options).output().expect("the binary runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(output.status), exit, "{options:?}: {errors}");
        assert!(errors.contains(said), "{options:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{options:?}: {errors}");
        assert!(output.stdout.is_empty(), "{options:?}");
    }
    let run = Run::of(&[], &[], "echo started");
    run.assert("failed", false, NO_STATUS, 78);
    cluster.assert_empty();
}

#[test]
fn the_command_has_our_input_and_finds_the_lock_in_its_environment() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let input = folder.path().join("input");
    fs::write(&input, "input\n").expect("a file");
    let script = "cat; echo \"$SHEARLINE_RESOURCE\"; echo \"$SHEARLINE_TOKEN\"; \
                  while ! [ -e \"$1/seen\" ]; do sleep 0.02; done";
    let mut command = run(&cluster.urls(), &["n", "--", "sh", "-c", script, "sh"]);
    command.arg(folder.path());
    let mut tool = Tool::start(command.stdin(File::open(input).expect("a file")));
    let token = eventually("the lock is held", || cluster.values("n")[0].clone());
    fs::write(folder.path().join("seen"), "").expect("a file");
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(tool.output(), format!("input\nn\n{token}\n"));
    assert_eq!(code(tool.wait()), 0);
    cluster.assert_empty();
}

/// Those who watch over it run before others, and may open more files, where that is permitted. It does not.
#[test]
fn the_command_has_our_priority_and_limits() {
    let cluster = three();
    let script = "nice; ulimit -Sn; exec \"$0\" run --guard off n -- sh -c 'nice; ulimit -Sn'";
    let mut command = Command::new("nice");
    command
        .args(["-n", "1", "sh", "-c"])
        .arg(format!("ulimit -Sn 200; {script}"))
        .arg(env!("CARGO_BIN_EXE_shearline"))
        .envs(variables(&cluster.urls()));
    let output = command.output().expect("a shell");
    let said = String::from_utf8(output.stdout).expect("it is text");
    let lines: Vec<&str> = said.lines().collect();
    let [before, "200", inside, "200"] = lines[..] else {
        panic!("{said:?}");
    };
    assert_eq!(before, inside);
    cluster.assert_empty();
}

#[test]
fn signals_are_passed_on() {
    let cluster = three();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script =
            format!("trap 'echo {name}; exit 7' {name}; : >$1/ready; while :; do sleep 0.02; done");
        let mut tool = started(&cluster, &[], &script, folder.path());
        tool.signal(signal);
        assert_eq!(tool.output(), format!("{name}\n"));
        assert_eq!(code(tool.wait()), 7);
    }
    cluster.assert_empty();
}

#[test]
fn a_signal_ends_the_wait_for_the_lock() {
    let cluster = three();
    let guard = shared(&cluster).try_lock("n", LONG).expect("free");
    let value = cluster.values("n");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut command = run(&cluster.urls(), &["--report", "1", "n", "--", "true"]);
        let mut tool = Tool::start(&mut command);
        // It handles signals when it waits, and the end of children is the last that it prepares for.
        eventually("it handles signals", || {
            handles(tool.id(), Signal::CHILD).then_some(())
        });
        tool.signal(signal);
        assert!(tool.output().contains("\"interrupted\",\"started\":false"));
        assert_eq!(tool.wait().signal(), Some(signal.as_raw()));
    }
    assert_eq!(cluster.values("n"), value);
    guard.unlock().expect("held");
    cluster.assert_empty();
}

fn handles(process: Pid, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", process.as_raw_pid());
    let status = fs::read_to_string(path).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("Linux").trim(), 16).expect("bits");
    caught & 1 << (signal.as_raw() - 1) != 0
}

/// What was started with HUP ignored ignores it (`nohup`).
#[test]
fn an_ignored_signal_stays_ignored() {
    let cluster = three();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "trap '' HUP; exec \"$0\" run --guard off n -- sh -c 'kill -HUP $$; exit 6'",
        ])
        .arg(env!("CARGO_BIN_EXE_shearline"))
        .envs(variables(&cluster.urls()));
    assert_eq!(code(command.status().expect("a shell")), 6);
    cluster.assert_empty();
}

/// What is left behind is asked to end, then killed, and only then the lock is released.
#[test]
fn what_the_command_leaves_behind_is_ended() {
    let cluster = three();
    let leaves = |trap: &str| {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = format!(
            "exec 9>>$1/flock; flock 9;
            (trap '{trap}' TERM; : >$1/trap; while :; do sleep 0.02; done) >&- &
            while ! [ -e $1/trap ]; do sleep 0.02; done; : >$1/ready; exit 5"
        );
        let tool = started(&cluster, &[], &script, folder.path());
        assert_eq!(code(tool.wait()), 5);
        assert!(is_free(folder.path()), "nothing is left");
        cluster.assert_empty();
        folder
    };
    assert!(leaves(": >$1/asked; exit").path().join("asked").exists());
    leaves("");
}

/// Whoever takes the lock next finds nothing of the command, also if that ignores what it is asked.
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

#[test]
fn the_lock_is_kept_for_at_least_so_long() {
    let cluster = three();
    let start = Instant::now();
    let run = Run::of(&cluster.urls(), &["--at-least", "1.2s"], "exit 4");
    assert!(Duration::from_millis(1200) <= start.elapsed());
    run.assert("released", true, &status(4), 4);
    cluster.assert_empty();
}

/// A majority says that the lock is gone: the command is killed at once, not at the end of the ttl.
#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "trap '' TERM; : >$1/ready; exec sleep 1000";
    let mut tool = started(&cluster, &["--ttl", "4s"], script, folder.path());
    // A majority is enough to begin.
    eventually("all nodes have it", || {
        (cluster.copies("n") == 3).then_some(())
    });
    for raw in &mut cluster.raws()[1..] {
        assert!(raw.del(b"n"));
    }
    let errors = tool.errors();
    assert_eq!(
        errors,
        "shearline: lost the lock n: the command was ended\n"
    );
    assert_eq!(code(tool.wait()), 74);
    cluster.assert_empty();
}

/// It does not wait for the deadline, which is half a minute away.
#[test]
fn a_killed_tool_ends_the_command_at_once() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "exec 9>>$1/flock; flock 9; trap '' TERM; setsid sleep 60 & : >$1/ready; wait";
    let tool = started(&cluster, &[], script, folder.path());
    tool.signal(Signal::KILL);
    eventually("nothing is left", || is_free(folder.path()).then_some(()));
    assert_eq!(code(tool.wait()), 128 + 9);
    assert!(2 <= cluster.copies("n"), "nobody released the lock");
}

/// At risk, every process gets the chance to end by itself.
#[test]
fn processes_are_asked_to_end_before_they_are_killed() {
    let cluster = three();
    let proxies: Vec<Proxy> = cluster.iter().map(Server::address).map(Proxy::to).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    let asked = "trap ': >$1/asked; exit' TERM; : >$1/ready; while :; do sleep 0.02; done";
    fs::write(path.join("asked.sh"), asked).expect("a file");
    let script = "trap '' TERM; exec >&- 2>&-; (trap - TERM; exec setsid sh $1/asked.sh $1) & \
                  sleep 60; sleep 60";
    let mut command = run(&urls, &["--ttl", "4s", "n", "--", "sh", "-c", script, "sh"]);
    let mut tool = Tool::start(command.arg(path));
    await_file(&path.join("ready"));
    for proxy in &proxies[1..] {
        proxy.set(Mischief::Hold(Way::ToServer));
    }
    assert_eq!(
        tool.errors(),
        "shearline: lost the lock n: the command was ended\n"
    );
    assert_eq!(code(tool.wait()), 74);
    assert!(path.join("asked").exists());
}

fn is_free(folder: &Path) -> bool {
    let mut flock = Command::new("flock");
    flock.arg("-n").arg(folder.join("flock")).arg("true");
    flock.status().expect("it is there").success()
}

/// The children that the process had before it became the tool are none of its business.
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

/// In the foreground of a terminal the command reads from it, and gets its signals once.
#[test]
fn a_command_in_the_foreground_of_a_terminal_reads_from_it() {
    use std::io::Write as _;
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    let script = "trap 'echo INT >>\"$1/ints\"' INT; read line; echo \"$line\" >\"$1/line\"; \
                  while ! [ -e \"$1/ints\" ]; do sleep 0.02; done; sleep 0.2; exit 8";
    fs::write(path.join("script"), script).expect("a file");
    let shearline = env!("CARGO_BIN_EXE_shearline");
    let line = format!(
        "exec {shearline} run --guard off n -- sh {0}/script {0}",
        path.display()
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .envs(variables(&cluster.urls()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut terminal = terminal.spawn().expect("`script` is there");
    let keys = terminal.stdin.as_mut().expect("it is piped");
    keys.write_all(b"typed\n").expect("it is read");
    // The shell makes the file before it writes to it.
    let line = eventually("it has read a line", || {
        let line = fs::read_to_string(path.join("line")).ok()?;
        line.ends_with('\n').then_some(line)
    });
    assert_eq!(line, "typed\n");
    keys.write_all(b"\x03").expect("it is read");
    let status = terminal.wait().expect("our own child");
    assert_eq!(
        fs::read_to_string(path.join("ints")).expect("a file"),
        "INT\n"
    );
    assert_eq!(code(status), 8);
    cluster.assert_empty();
}

#[test]
fn the_help_says_what_is_not_promised() {
    let output = run(&[], &["--help"]).output().expect("the binary runs");
    let help = String::from_utf8(output.stdout).expect("it is text");
    for said in [
        "Dead before the next one lives",
        "Not promised",
        "KillMode=control-group",
        "SHEARLINE_FENCING_TOKEN",
        "126",
    ] {
        assert!(help.contains(said), "{said}: {help}");
    }
    assert!(!help.contains("run-guardian"), "{help}");
    assert!(
        help.lines().all(|line| line.chars().count() <= 80),
        "{help}"
    );
}
