//! `shearline run`: statuses, reports, arguments, and what the command finds.

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::documented::assert_documented;
use super::json::Json;
use super::tool::{Tool, code, run};
use super::variables;
use crate::face::shared;
use crate::servers::{ClosedPort, LONG, eventually, three};

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
        let error = match self.errors.lines().last() {
            _ if ["released", "interrupted"].contains(&outcome) => json!(null),
            Some(line) => json!(line.strip_prefix("shearline: ")),
            // With `-q` the error is not printed.
            None => json!(Json::line(&self.report).text("error")),
        };
        let expected = format!(
            "{{\"version\":1,\"command\":\"run\",\"resource\":\"n\",\"outcome\":\"{outcome}\",\
             \"started\":{started},{command},\"status\":{status},\"losses\":0,\
             \"fencing_token\":null,\"error\":{error}}}\n"
        );
        assert_eq!(
            (&self.report, self.code),
            (&expected, status),
            "{}",
            self.errors
        );
        assert_documented(&Json::line(&self.report));
    }
}

const NO_STATUS: &str = "\"command_status\":null,\"command_signal\":null";

fn status(status: i32) -> String {
    format!("\"command_status\":{status},\"command_signal\":null")
}

fn signal(signal: i32) -> String {
    format!("\"command_status\":null,\"command_signal\":{signal}")
}

#[test]
fn the_status_of_the_command_is_ours() {
    let cluster = three();
    for exit in [0, 3, 255] {
        let run = Run::of(&cluster.urls(), &[], &format!("exit {exit}"));
        run.assert("released", true, &status(exit), exit);
        assert_eq!(run.errors, "");
        cluster.assert_empty();
    }
}

/// The lock is extended meanwhile, and its deadline with it. If the machine is too busy for a short ttl, the test uses
/// a longer one.
#[test]
fn the_command_may_run_longer_than_the_ttl() {
    let cluster = three();
    let does = |ttl: u32| {
        let script = format!("sleep {}; exit 3", ttl + 1);
        let run = Run::of(&cluster.urls(), &["--ttl", &format!("{ttl}s")], &script);
        assert!([3, 74].contains(&run.code), "{}", run.report);
        assert_eq!(run.code == 3, run.errors.is_empty(), "{}", run.errors);
        run.code == 3
    };
    assert!([4, 8, 16].into_iter().any(does), "it is ended each time");
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

/// By default, the command waits as long as it takes.
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

/// The tool and the watchdog have a higher priority and may open more files, if that is permitted. The command does
/// not.
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
fn the_lock_is_kept_for_at_least_so_long() {
    let cluster = three();
    let start = Instant::now();
    let run = Run::of(&cluster.urls(), &["--at-least", "1.2s"], "exit 4");
    assert!(Duration::from_millis(1200) <= start.elapsed());
    run.assert("released", true, &status(4), 4);
    cluster.assert_empty();
}

/// This is how systemd hands sockets to a service: the variables name a process, which has to be the command.
#[test]
fn what_names_the_tool_in_variables_of_systemd_names_the_command() {
    let cluster = three();
    let script = "echo socket >input; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_PIDFDID=7 WATCHDOG_PID=1 exec \"$0\" 3<input run --guard off n -- sh -c \
        'cat <&3; echo $LISTEN_FDS $WATCHDOG_PID $((LISTEN_PID - $$)) ${LISTEN_PIDFDID-none}'";
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(env!("CARGO_BIN_EXE_shearline"))
        .current_dir(folder.path())
        .envs(variables(&cluster.urls()));
    let output = command.output().expect("a shell");
    let said = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(said, "socket\n1 1 0 none\n");
    cluster.assert_empty();
}
