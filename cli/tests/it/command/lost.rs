//! A lock is lost while the command of `shearline run` runs, once in each way. `losses` plays all of them at once.

use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use tempfile::TempDir;

use super::tool::{Tool, await_file, children, code, free, is_free, run, started, take_away};
use super::{Cluster, command, shearline};
use crate::canary::LOCKER;
use crate::servers::{LONG, Mischief, Options, Proxy, Server, Way, eventually, three};

/// The message before the command is killed.
const KILLED: &str =
    "shearline: n: the lock is lost, so the command and all its processes are killed\n";

/// A majority says that the lock is gone: the command is killed at once, not at the end of the ttl, and not when the lock
/// is next extended, which would be in half an hour.
#[test]
fn a_lock_that_is_taken_away_ends_the_command() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "trap '' TERM; : >$1/ready; exec sleep 1000";
    let options = ["--ttl", "1h", "--max-ttl", "1h", "--trust", "--report", "1"];
    let mut tool = started(&cluster, &options, script, folder.path());
    // A majority is enough to begin.
    cluster.await_copies("n");
    take_away(&cluster, 1..3);
    let errors = tool.errors();
    let lost = "shearline: lost the lock n, so the command was ended";
    assert!(errors.starts_with(&format!("{KILLED}{lost}")), "{errors}");
    assert_in_troubles(lost);
    let report = tool.output();
    let killed = "\"command_status\":null,\"command_signal\":9,\"status\":74,";
    assert!(report.contains(killed), "{report}");
    assert_eq!(code(tool.wait()), 74);
    free(&cluster, 1..3);
    cluster.assert_empty();
}

/// The message comes after the report, and after the release if the lock was only at risk.
#[test]
fn a_run_whose_stderr_nobody_reads_ends_its_command_and_writes_the_report() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = folder.path().join("report");
    let (reader, mut full) = std::io::pipe().expect("a pipe");
    full.write_all(&[b' '; 65_536]).expect("so much is taken");
    let script = "trap '' TERM; : >$1/ready; exec sleep 1000 2>/dev/null";
    let mut command = run(&cluster.urls(), &["--ttl", "60s", "--report"]);
    command
        .arg(&report)
        .args(["n", "--", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .stderr(full);
    let tool = Tool::start(command.process_group(0));
    drop(command);
    await_file(&folder.path().join("ready"));
    cluster.await_copies("n");
    take_away(&cluster, 1..3);
    let line = eventually("the report is written", || {
        fs::read_to_string(&report)
            .ok()
            .filter(|line| !line.is_empty())
    });
    assert!(
        line.contains("\"command_signal\":9,\"status\":74,"),
        "{line}"
    );
    drop(reader);
    assert_eq!(code(tool.wait()), 74);
    free(&cluster, 1..3);
    cluster.assert_empty();
}

/// The lock of a command that hangs is broken: the command is ended, and others are kept out meanwhile.
#[test]
fn a_lock_that_is_broken_ends_the_command() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "trap '' TERM; : >$1/ready; exec sleep 1000";
    let mut tool = started(&cluster, &["--ttl", "60s"], script, folder.path());
    eventually("all nodes have it", || {
        (cluster.copies("n") == 3).then_some(())
    });
    shearline(&cluster, "break n --guard off --yes").done();
    let errors = tool.errors();
    let lost = "shearline: lost the lock n, so the command was ended";
    assert!(errors.starts_with(&format!("{KILLED}{lost}")), "{errors}");
    let broken = "; its key has another token: an operator has broken the lock, or another client has taken it\n";
    assert!(errors.ends_with(broken), "{errors}");
    assert_eq!(code(tool.wait()), 74);
    // The run learned of this before it would have extended the lock, and others are still kept out. On a node that was
    // not reached yet, the holder may have released the lock.
    let kept = cluster.raws().into_iter();
    assert!(
        2 <= kept
            .filter_map(|mut raw| (30_000 < raw.pttl(b"n")).then_some(()))
            .count()
    );
    cluster.at_once(0..3, &[b"DEL", b"n"]);
}

#[test]
fn a_run_says_that_a_node_has_restarted_and_when_the_next_may() {
    // The nodes keep their keys, so the lock does not end at the second restart.
    let persistent = Options::redis().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut cluster = Cluster::with(3, &persistent);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().display().to_string();
    let script = ": >$1/ready; while ! [ -e $1/end ]; do sleep 0.02; done";
    let arguments = ["run", "--trust", "n", "--", "sh", "-c", script, "sh", &path];
    let mut run = command(&cluster.urls(), arguments)
        .spawn()
        .expect("the binary runs");
    await_file(&folder.path().join("ready"));
    let errors = run.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(errors).lines();
    for (node, votes) in [
        (0, "2 of 3 nodes vote now; wait "),
        (1, "1 of 3 nodes vote now, so the lock may be lost; wait "),
    ] {
        cluster[node].restart();
        let address = cluster[node].address_for_clients().to_string();
        let begin = format!(
            "shearline: n: {address} does not vote, because it may have forgotten locks; {votes}"
        );
        let end = " before you restart the next node";
        let line = lines.next().expect("it says so").expect("text");
        assert!(line.starts_with(&begin) && line.ends_with(end), "{line}");
    }
    fs::write(folder.path().join("end"), "").expect("a file");
    assert!(run.wait().expect("it ends").success());
}

/// With `--again`, this repeats until the command ends by itself or the user asks it to end. HUP may be a request for a
/// reload. Each command is started with the same priority and limits.
#[test]
fn with_again_the_command_is_started_again_after_a_loss() {
    let cluster = three();
    for (end, status) in [
        ("exit 6", 6),
        ("trap 'exit 7' TERM; : >$1/second; sleep 60 & wait", 7),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = format!(
            "echo $(nice) $(ulimit -Sn) >>$1/starts; if [ $(wc -l <$1/starts) -eq 2 ]; then {end}; fi; \
             trap '' TERM HUP; : >$1/ready; exec sleep 1000"
        );
        let mut tool = started(
            &cluster,
            &["--ttl", "5s", "--again", "--report", "1"],
            &script,
            folder.path(),
        );
        tool.signal(Signal::HUP);
        take_away(&cluster, 0..3);
        eventually("it waits", || children(tool.id()).is_empty().then_some(()));
        free(&cluster, 0..3);
        if status == 7 {
            await_file(&folder.path().join("second"));
            tool.signal(Signal::TERM);
        }
        let report = tool.output();
        assert!(report.contains("\"outcome\":\"released\""), "{report}");
        assert!(report.contains("\"losses\":1,"), "{report}");
        let errors = tool.errors();
        assert!(
            errors.starts_with(&format!("{KILLED}shearline: lost the lock n, so ")),
            "{errors}"
        );
        assert_eq!(code(tool.wait()), status);
        let starts = fs::read_to_string(folder.path().join("starts")).expect("a file");
        let starts: Vec<&str> = starts.lines().collect();
        assert_eq!(starts, [starts[0]; 2]);
        cluster.assert_empty();
    }
}

/// `--trust` is for the nodes as they are when the command begins. It does not cover data that they lose later: a
/// second start does not take the lock from another client.
#[test]
fn with_again_no_node_is_trusted_that_has_restarted_since() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let mut cluster = three();
    let (tool, _folder) = trusting(&cluster, "--max-ttl 2m");
    cluster.await_copies("n");
    // An operator ends the lock of the run, another client takes it, and two nodes restart, before the run finds the
    // loss.
    tool.signal(Signal::STOP);
    cluster.at_once(0..3, &[b"DEL", b"n"]);
    let other = crate::face::shared(&cluster)
        .try_lock("n", LONG)
        .expect("free");
    cluster[0].restart();
    cluster[1].restart();
    tool.signal(Signal::CONT);
    assert_eq!(code(tool.wait()), 74, "it is not started again");
    assert!(other.is_valid(), "the other still holds it");
}

/// With a strict guard, the word of an operator is written on the nodes, so it would affect every lock of every client.
#[test]
fn with_again_no_barrier_of_a_strict_guard_is_ended() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for restarts in [true, false] {
        let mut cluster = three();
        let (tool, _folder) = trusting(&cluster, "--guard strict");
        let _held = shearline(&cluster, "lock other --guard strict --ttl 50s").line();
        match restarts {
            true => (0..2).for_each(|node| cluster[node].restart()),
            false => drop(cluster.at_once(0..3, &[b"FLUSHALL"])),
        }
        assert_eq!(code(tool.wait()), 74, "it is not started again");
        let second = shearline(&cluster, "lock other --guard strict --no-wait");
        assert_eq!(second.status, 69, "two hold another lock: {second:?}");
    }
}

/// Starts a run with a fencing token that trusts the nodes. After a loss it waits for two seconds; a second start of
/// its command ends with status 9.
fn trusting(cluster: &Cluster, options: &str) -> (Tool, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().display().to_string();
    let script = "if [ -e $1/ready ]; then exit 9; fi; : >$1/ready; exec sleep 1000";
    let line = format!("run {options} --fenced --trust --again --ttl 5s --wait 2s n -- sh -c");
    let arguments = line.split(' ').chain([script, "sh", &path]);
    let tool = Tool::start(&mut command(&cluster.urls(), arguments));
    await_file(&folder.path().join("ready"));
    (tool, folder)
}

/// The command may have left work half done, so the message is about the loss.
#[test]
fn with_again_the_loss_is_told_if_the_lock_is_not_taken_again() {
    let cluster = three();
    for (options, signal, told, status) in [
        (["--again", "--no-wait"], None, "lost", 74),
        (
            ["--again", "--wait=1h"],
            Some(Signal::TERM),
            "interrupted",
            143,
        ),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let options = [&options[..], &["--ttl", "5s", "--report", "1"]].concat();
        let mut tool = started(
            &cluster,
            &options,
            ": >$1/ready; exec sleep 60",
            folder.path(),
        );
        for raw in &mut cluster.raws() {
            raw.set_px(b"n", b"of another", LONG);
        }
        if let Some(signal) = signal {
            eventually("it waits", || children(tool.id()).is_empty().then_some(()));
            tool.signal(signal);
        }
        let report = tool.output();
        let expected = format!("\"outcome\":\"{told}\",\"started\":true,");
        assert!(report.contains(&expected), "{report}");
        assert!(report.contains("\"losses\":1,"), "{report}");
        let errors = tool.errors();
        let lines = if signal.is_some() { 2 } else { 3 };
        assert_eq!(errors.lines().count(), lines, "{errors}");
        assert_eq!(code(tool.wait()), status);
        cluster.delete("n");
        cluster.assert_empty();
    }
}

/// A command is done if it had ended by itself, or had been asked to end, before the lock was lost.
#[test]
fn with_again_a_command_that_is_done_is_not_started_again() {
    let cluster = three();
    let leaves = "(trap ': >$1/asked' TERM; : >$1/ready; while :; do sleep 0.02; done) >&- 2>&- &
        while ! [ -e $1/ready ]; do sleep 0.02; done; exit 5";
    let goes_on = "trap '' TERM USR1; : >$1/asked; : >$1/ready; exec sleep 1000";
    for (script, signal) in [(leaves, None), (goes_on, Some(Signal::USR1))] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = format!("echo >>$1/starts; {script}");
        let options = ["--ttl", "5s", "--again", "--grace", "1m", "--stop-signal"];
        let name = signal.map_or("TERM", |_| "USR1");
        let options = [&options[..], &[name]].concat();
        let tool = started(&cluster, &options, &script, folder.path());
        await_file(&folder.path().join("asked"));
        cluster.await_copies("n");
        signal.into_iter().for_each(|signal| tool.signal(signal));
        take_away(&cluster, 0..3);
        assert_eq!(code(tool.wait()), 74, "{name}");
        let starts = fs::read_to_string(folder.path().join("starts")).expect("a file");
        assert_eq!(starts.lines().count(), 1, "{name}");
        free(&cluster, 0..3);
        cluster.assert_empty();
    }
}

/// The watchdog does not wait for the deadline, which is half a minute away.
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

/// A session with a shell that has a job in a group of its own, and 130 processes that wait for the end of another one.
/// So many do not die at the same time. A shell's death continues its jobs that are stopped (HUP, CONT).
const SESSION: &str = "mkfifo $1/pipe $1/other
    for n in {1..130}; do (exec 8<$1/pipe; echo >>$1/waiting; read -r line <&8; : >$1/woken) & done
    exec 7<>$1/other; set -m
    sh -c 'trap \": >$1/continued\" HUP; : >$1/job; read line <&7' sh $1 &
    set +m; sleep 60 >$1/pipe &
    while ! [ -e $1/job ] || [ $(wc -l <$1/waiting) -lt 130 ]; do sleep 0.02; done
    : >$1/ready; wait";

/// All processes are stopped before the first one is killed, and killed in an order in which nothing continues them.
#[test]
fn from_the_first_that_is_killed_none_does_anything() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    fs::write(path.join("session"), SESSION).expect("a file");
    let script = "exec 9>>$1/flock; flock 9; setsid -w bash $1/session $1";
    let tool = started(&cluster, &["--ttl", "60s"], script, path);
    tool.signal(Signal::KILL);
    eventually("nothing is left", || is_free(path).then_some(()));
    assert_eq!(code(tool.wait()), 128 + 9);
    for file in ["woken", "continued"] {
        assert!(!path.join(file).exists(), "{file}");
    }
}

/// When the lock is at risk, every process gets the chance to end by itself. On a busy machine the ttl has to be
/// longer.
#[test]
fn processes_are_asked_to_end_before_they_are_killed() {
    let goes_on = "trap '' TERM; exec >&- 2>&-; (trap - TERM; exec setsid sh $1/asked.sh $1) & \
                   sleep 60; sleep 60";
    let is_asked = |ttl| is_asked_to_end(ttl, &[], goes_on);
    assert!(
        [5, 10, 20].into_iter().any(is_asked),
        "it is killed each time before it has ended"
    );
}

/// The command ends at once. The processes that it leaves need longer, and get the time.
#[test]
fn with_leave_children_what_is_left_at_risk_is_asked_to_end_too() {
    let ends = "exec >&- 2>&-; sh $1/asked.sh $1 & exec sleep 60";
    let is_asked = |ttl| is_asked_to_end(ttl, &["--leave-children"], ends);
    assert!(
        [5, 10, 20].into_iter().any(is_asked),
        "it is killed each time before it has ended"
    );
}

/// Runs a command under a lock with this ttl in seconds. Returns `false` if the process that runs `asked.sh` was killed
/// first.
fn is_asked_to_end(ttl: u32, options: &[&str], script: &str) -> bool {
    let cluster = three();
    let proxies: Vec<Proxy> = cluster.iter().map(Server::address).map(Proxy::to).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    let asked =
        "trap 'sleep 0.2; : >$1/asked; exit' TERM; : >$1/ready; while :; do sleep 0.02; done";
    fs::write(path.join("asked.sh"), asked).expect("a file");
    let ttl = format!("{ttl}s");
    let mut command = run(&urls, &["--ttl", &ttl, "--node-timeout", "1s"]);
    command.args(options);
    command.args(["n", "--", "sh", "-c", script, "sh"]);
    let mut tool = Tool::start(command.arg(path));
    await_file(&path.join("ready"));
    for proxy in &proxies[1..] {
        proxy.set(Mischief::Hold(Way::ToServer));
    }
    let errors = tool.errors();
    let asked = "shearline: n: the lock is at risk, so the command is asked to end\n";
    assert!(errors.contains(asked), "{errors}");
    let words = "n, so the command was ended; the lock's last extension got ";
    assert!(errors.contains(words), "{errors}");
    // The lock may end while the last extension is under way.
    let silent = ["each timed out)", "each not waited for)"];
    let says_so = silent.iter().any(|words| errors.contains(words));
    assert!(says_so, "{errors}");
    assert_eq!(code(tool.wait()), 74);
    path.join("asked").exists()
}

/// A lock that is not released keeps others out until its end, and then for the delay. All processes of the command are
/// dead long before that.
#[test]
fn after_a_loss_the_next_holder_waits_for_the_lock_delay() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "exec 9>>$1/flock; flock 9; : >$1/ready; exec sleep 60";
    let options = ["--ttl", "20s", "--lock-delay", "30s"];
    let tool = started(&cluster, &options, script, folder.path());
    cluster.await_copies("n");
    tool.signal(Signal::KILL);
    assert_eq!(code(tool.wait()), 128 + 9);
    // Two of three nodes are needed, so the second one that becomes free decides.
    let mut left: Vec<i64> = cluster
        .raws()
        .iter_mut()
        .map(|raw| raw.pttl(b"n"))
        .collect();
    left.sort_unstable();
    assert!(20_000 < left[1], "longer than the ttl: {left:?}");
    eventually("nothing is left", || is_free(folder.path()).then_some(()));
    assert!(2 <= cluster.copies("n"), "nobody can have it yet");
}

/// A run of a command that ends with status 5 on request.
struct Ordered {
    tool: Tool,
    folder: TempDir,
}

impl Ordered {
    fn start(urls: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path();
        let script = ": >$1/ready; while ! [ -e $1/end ]; do sleep 0.02; done; exit 5";
        // The lock is not extended before half of this time is over. On a busy machine a node may get its copy only
        // then.
        let mut command = run(urls, &["--ttl", "16s", "--report"]);
        command.arg(path.join("report"));
        command
            .args(["n", "--", "sh", "-c", script, "sh"])
            .arg(path);
        let tool = Tool::start(&mut command);
        await_file(&path.join("ready"));
        Self { tool, folder }
    }

    fn end_command(&self) {
        fs::write(self.folder.path().join("end"), "").expect("a file");
    }

    #[track_caller]
    fn assert(mut self, outcome: &str, command_status: &str, status: i32, said: &str) {
        assert_eq!(self.tool.errors(), said);
        assert_eq!(code(self.tool.end()), status);
        let report = fs::read_to_string(self.folder.path().join("report")).expect("a report");
        let error = said
            .strip_prefix("shearline: ")
            .map_or("null".into(), |it| format!("\"{}\"", it.trim_end()));
        let losses = u8::from(outcome == "lost");
        let expected = format!(
            "{{\"version\":1,\"command\":\"run\",\"resource\":\"n\",\"outcome\":\"{outcome}\",\"started\":true,\
             \"command_status\":{command_status},\"command_signal\":null,\"status\":{status},\"losses\":{losses},\
             \"fencing_token\":null,\"error\":{error}}}\n"
        );
        assert_eq!(report, expected);
        assert_in_troubles(said);
    }
}

/// Asserts that the page about troubles of the manual has the message of a run at its end.
#[track_caller]
fn assert_in_troubles(said: &str) {
    let words = said.trim_start_matches("shearline: ").trim_end();
    let row = format!("`{}`", words.replace("lock n", "lock NAME"));
    let is_there = said.is_empty() || include_str!("../../../../docs/troubles.md").contains(&row);
    assert!(is_there, "{row}");
}

/// The nodes may not send notifications, and have done the first two extensions: the one before the start, and the one
/// of the keeper.
#[test]
fn a_lock_that_is_gone_at_the_end_was_lost() {
    not_with!(NoScripts, "its first extension is seen by its script");
    let cluster = three();
    for user in ["default", LOCKER] {
        cluster.run(&format!("ACL SETUSER {user} -client|tracking"));
    }
    let run = Ordered::start(&cluster.urls());
    eventually("all nodes have extended it", || {
        let mut raws = cluster.raws().into_iter();
        raws.all(|mut raw| raw.calls("evalsha") >= 2).then_some(())
    });
    take_away(&cluster, 0..3);
    run.end_command();
    let said = "shearline: the lock n was no longer held when the command ended\n";
    run.assert("lost", "5", 74, said);
    free(&cluster, 0..3);
    cluster.assert_empty();
}

/// The command has ended while the lock was held: its status counts.
#[test]
fn a_release_that_too_few_nodes_confirm_is_reported() {
    let cluster = three();
    let proxies: Vec<Proxy> = cluster.iter().map(Server::address).map(Proxy::to).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let run = Ordered::start(&urls);
    for proxy in &proxies[1..] {
        proxy.set(Mischief::Hold(Way::ToServer));
    }
    run.end_command();
    run.assert("release_unconfirmed", "5", 5, "");
}

#[test]
fn a_watchdog_that_is_killed_is_reported() {
    let cluster = three();
    let run = Ordered::start(&cluster.urls());
    kill_process(run.tool.watchdog(), Signal::KILL).expect("it runs");
    let said = "shearline: the command was killed, because its watchdog had ended or was stopped\n";
    run.assert("watchdog_ended", "null", 74, said);
    cluster.assert_empty();
}
