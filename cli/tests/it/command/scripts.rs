//! `lock`, `extend` and `unlock`: a lock that a script holds over several commands.

use std::fs;
use std::io::pipe;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Going, command, fed, of, over, patient, shearline, told, variables};
use crate::servers::{self, Cluster, Proxy, eventually};

/// The distance of a node.
const DISTANCE: Duration = Duration::from_millis(200);

#[test]
fn a_script_takes_extends_and_releases_a_lock() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust --ttl 50s").line();
    assert!(lock.bytes().all(|byte| byte.is_ascii_hexdigit()), "{lock}");
    assert!(2 <= cluster.copies("report"));

    let refused = shearline(&cluster, "lock report --trust -n").failed(75);
    let held = format!("lock `report`: held by {}:{}, ", host(), std::process::id());
    assert!(refused.contains(&held), "{refused}");
    assert_eq!(shearline(&cluster, "lock report --trust -n -q").err, "");
    shearline(&cluster, "lock report --trust -n -E 9").failed(9);
    let waited = shearline(&cluster, "lock report --trust -w 300ms").failed(75);
    assert!(waited.contains(&held), "{waited}");

    let extended = shearline(&cluster, &format!("extend {lock} --trust --ttl 60s")).line();
    assert_ne!(extended, lock);
    let mut raws = cluster.raws();
    let left = raws.iter_mut().map(|raw| raw.pttl(b"report"));
    assert!(2 <= left.filter(|left| 50_000 < *left).count());

    let unlocked = shearline(&cluster, &format!("unlock {extended} --trust"));
    assert_eq!(unlocked.done(), "");
    cluster.assert_gone("report");
    let again = shearline(&cluster, &format!("unlock {extended} --trust")).failed(74);
    let both =
        "lock `report` was no longer held, or these are not the nodes on which it was taken: ";
    assert!(again.contains(both), "{again}");
    let late = shearline(&cluster, &format!("extend {extended} --trust")).failed(74);
    let both = "lock `report` was lost, or these are not the nodes on which it was taken: ";
    assert!(late.contains(both), "{late}");
    cluster.assert_empty();
}

#[test]
fn a_lock_comes_in_on_stdin_too() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust").done();
    let extended = fed(&cluster, "extend --trust", &lock).done();
    assert_eq!(fed(&cluster, "unlock - --trust", &extended).done(), "");
    cluster.assert_gone("report");
    let error = fed(&cluster, "unlock --trust", "\n").failed(64); // A `lock` that failed prints nothing.
    assert!(error.contains("no lock was given"), "{error}");
}

/// If a person at a terminal forgot the lock, a message says so. People do not type locks.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_is_not_waited_for() {
    let mut terminal = Command::new("script");
    let line = format!("{} unlock", env!("CARGO_BIN_EXE_shearline"));
    terminal.args(["-qec", &line, "/dev/null"]);
    terminal.env("SHEARLINE_NODES", "127.0.0.1:1");
    terminal.stdin(Stdio::null());
    let output = terminal.output().expect("`script` is there");
    let said = String::from_utf8(output.stdout).expect("it is text");
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("no lock was given"), "{said}");
}

/// The text that `lock` has printed ends when the lock would have ended. The text that `extend` has printed stays
/// valid.
#[test]
fn a_lock_that_has_ended_is_not_extended() {
    let cluster = servers::three();
    // A short ttl may be over before the lock can be printed.
    let taken = [1, 2, 4, 8, 16].iter().find_map(|ttl| {
        let told = shearline(&cluster, &format!("lock report --trust --ttl {ttl}s"));
        (told.status == 0).then(|| told.line())
    });
    let lock = taken.expect("one lives long enough");
    cluster.assert_gone("report"); // By its ttl.
    shearline(&cluster, &format!("extend {lock} --trust")).failed(74);
    cluster.assert_empty();
}

/// A program repeats the release by itself. This process has ended, so its user has to repeat it.
#[test]
fn a_release_that_too_few_confirm_is_to_be_repeated() {
    let mut cluster = servers::three();
    let lock = shearline(&cluster, "lock report --guard off").line();
    (0..2).for_each(|node| cluster[node].kill());
    let error = shearline(&cluster, &format!("unlock {lock} --guard off")).failed(69);
    let what_to_do =
        "; repeat the command, or wait until the keys expire; check the nodes named here";
    assert!(error.contains(what_to_do), "{error}");
}

/// After `unlock` the process is gone, so it waits for a node that is still connecting. A majority is connected long
/// before.
#[test]
fn a_node_that_is_reached_late_is_told_of_the_release() {
    let cluster = servers::three();
    let proxy = Proxy::to(cluster[0].address_for_clients());
    proxy.delay(DISTANCE);
    let mut urls = cluster.urls();
    urls[0] = proxy.url();
    let lock = shearline(&cluster, "lock report --guard off").line();
    over(&urls, &format!("unlock {lock} --guard off")).done();
    assert_eq!(cluster.copies("report"), 0);
}

/// In the script of the help, an extension fails. The lock is released nevertheless.
#[test]
fn the_example_releases_a_lock_that_it_cannot_extend() {
    let (cluster, folder) = (servers::three(), tempfile::tempdir().expect("a directory"));
    let help = over(&[], "lock --help").done();
    let (_, example) = help.split_once("\nExamples:\n").expect("an example");
    let (example, _) = example.split_once("\n\n").expect("its end");
    let script = example.replace("first-step", "SHEARLINE_CONFIG=$1");
    let script = script.replace("second-step", "echo second");
    let binary = Path::new(env!("CARGO_BIN_EXE_shearline"));
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", binary.parent().expect("a folder").display());
    for (ttl, status, out) in [("60s", 0, "second\n"), ("61s", 64, "")] {
        let file = folder.path().join(ttl);
        let text = format!("guard = \"off\"\nttl = \"{ttl}\"\n");
        fs::write(&file, patient(&text)).expect("a file");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(&file);
        shell.envs(variables(&cluster.urls())).env("PATH", &path);
        shell.env("SHEARLINE_CONFIG", folder.path().join("60s"));
        let said = of(shell.output().expect("a shell"));
        assert_eq!((said.status, said.out.as_str()), (status, out), "{said:?}");
        assert_eq!(
            said.err.contains("raise `--max-ttl`"),
            status == 64,
            "{said:?}"
        );
        cluster.assert_empty();
    }
}

#[test]
fn programs_get_objects() {
    let cluster = servers::three();
    let taken = shearline(&cluster, "lock report --trust --ttl 50s --owner me --json").object();
    assert_eq!(
        taken.names(),
        [
            "command",
            "fencing_token",
            "lock",
            "resource",
            "ttl_ms",
            "valid_for_ms",
            "version"
        ]
    );
    assert_eq!(
        (taken.text("command"), taken.text("resource")),
        ("lock", "report")
    );
    assert_eq!(taken.number("ttl_ms"), 50_000);
    assert!((1..50_000).contains(&taken.number("valid_for_ms")));

    let refused = shearline(&cluster, "lock report --trust -n -q --json");
    assert_eq!((refused.status, refused.err.as_str()), (75, ""));
    let refused = refused.object();
    assert_eq!(
        refused.names(),
        ["command", "error", "outcome", "status", "version"]
    );
    assert_eq!(
        (refused.number("status"), refused.text("outcome")),
        (75, "held")
    );
    let refused = shearline(&cluster, "lock report --trust -n -E 3 --json");
    assert_eq!((refused.status, refused.object().number("status")), (3, 3));

    let lock = taken.text("lock");
    let extended = shearline(&cluster, &format!("extend {lock} --trust --ttl 60s --json")).object();
    assert_eq!(extended.names(), taken.names());
    assert_eq!(extended.number("ttl_ms"), 60_000);
    let lock = extended.text("lock");
    let unlocked = shearline(&cluster, &format!("unlock {lock} --trust --json")).object();
    assert_eq!(
        unlocked.names(),
        ["command", "deleted", "resource", "version"]
    );
    assert!((2..=3).contains(&unlocked.number("deleted")));
    let again = shearline(&cluster, &format!("unlock {lock} --trust --json"));
    assert_eq!((again.status, again.object().text("outcome")), (74, "lost"));
    cluster.assert_empty();
}

/// A majority is enough to get a lock, and the text can only name the nodes that have answered. So the
/// command waits a moment for the others.
#[test]
fn a_lock_stands_on_a_distant_node_too() {
    let cluster = servers::three();
    let distant = Proxy::to(cluster[2].address_for_clients());
    distant.delay(DISTANCE);
    let mut urls = cluster.urls();
    urls[2] = distant.url();
    let lock = over(&urls, "lock report --trust").line();
    assert_eq!(cluster.copies("report"), 3);
    over(&urls, &format!("unlock {lock} --trust")).done();
    assert_eq!(cluster.copies("report"), 0);
}

/// No process could release it later.
#[test]
fn a_lock_that_cannot_be_printed_is_released() {
    let cluster = servers::three();
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut command = command(&cluster.urls(), ["lock", "report", "--trust"]);
    let output = command.stdout(writer).output().expect("the binary runs");
    let told = of(output);
    assert_eq!((told.status, told.err.as_str()), (1, ""));
    let acquired = |raw: &mut servers::Raw| raw.info("commandstats", "cmdstat_set").is_some();
    assert!(cluster.raws().iter_mut().any(acquired));
    cluster.assert_gone("report");
    cluster.assert_empty();
}

/// Returns when a client waits for a lock.
fn await_waiter(cluster: &Cluster) {
    let tracked = |raw: &mut servers::Raw| {
        let clients: u32 = raw.info("clients", "tracking_clients")?.parse().ok()?;
        (clients != 0).then_some(())
    };
    eventually("it waits", || cluster.raws().iter_mut().find_map(tracked));
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing() {
    let cluster = servers::three();
    for signal in [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::XCPU,
    ] {
        let lock = shearline(&cluster, "lock report --trust").line();
        let waiting = command(&cluster.urls(), ["lock", "report", "--trust"]).spawn();
        let mut waiting = Going(waiting.expect("the binary runs"));
        await_waiter(&cluster);
        kill_process(Pid::from_child(&waiting.0), signal).expect("it is there");
        let status = waiting.0.wait().expect("it ends");
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status:?}");
        shearline(&cluster, &format!("unlock {lock} --trust")).done();
        cluster.assert_empty();
    }
}

/// Whenever a signal comes, a lock whose text was not printed is released, if the program still lives.
#[test]
#[cfg(target_os = "linux")]
fn no_lock_is_left_without_its_text_whenever_a_signal_comes() {
    use rustix_libc_wrappers::process::SignalExt as _;
    let cluster = servers::three();
    let signals = [
        Signal::QUIT,
        Signal::USR1,
        Signal::VTALARM,
        Signal::ALARM,
        Signal::POWER,
        Signal::rt_min(),
    ];
    for (turn, signal) in (0..10).flat_map(|turn| signals.map(|signal| (turn, signal))) {
        let taking = command(&cluster.urls(), ["lock", "report", "--guard=off", "-n"]).spawn();
        let taking = taking.expect("the binary runs");
        thread::sleep(Duration::from_millis(2 * turn));
        let _ = kill_process(Pid::from_child(&taking), signal); // The process may have ended.
        let output = taking.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("it is text");
        if let Some(lock) = text.strip_suffix('\n') {
            shearline(&cluster, &format!("unlock {lock} --guard=off")).done();
        }
        cluster.assert_gone("report");
    }
    cluster.assert_empty();
}

/// `nohup` ignores a signal in this way.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_is_ignored_does_not_end_the_wait() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust").line();
    let mut waiting = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" lock report --trust";
    waiting.args(["-c", script, env!("CARGO_BIN_EXE_shearline")]);
    waiting
        .envs(variables(&cluster.urls()))
        .stdout(Stdio::piped());
    let mut waiting = Going(waiting.spawn().expect("a shell"));
    await_waiter(&cluster);
    kill_process(Pid::from_child(&waiting.0), Signal::HUP).expect("it is there");
    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    let status = waiting.0.wait().expect("it ends");
    assert!(status.success(), "{status:?}");
}

/// Locks that the attempt got on a minority are released.
#[test]
fn a_signal_ends_an_attempt_that_too_few_answer_and_leaves_nothing() {
    let cluster = servers::three();
    let urls = cluster.urls();
    for server in &cluster[1..] {
        server.freeze();
    }
    let asked = |raw: &mut servers::Raw| raw.info("commandstats", "cmdstat_set").map(drop);
    let waiting = command(&urls, ["lock", "report", "--guard", "off", "--ttl", "60s"]).spawn();
    let mut waiting = Going(waiting.expect("the binary runs"));
    eventually("it has asked", || asked(&mut cluster[0].raw()));
    kill_process(Pid::from_child(&waiting.0), Signal::TERM).expect("it is there");
    let status = waiting.0.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status:?}");
    for server in &cluster[1..] {
        server.thaw();
    }
    cluster.assert_empty();
}

#[test]
fn who_waits_gets_the_lock_when_it_is_released() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust").line();
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| shearline(&cluster, "lock report --trust --wait 1m"));
        shearline(&cluster, &format!("unlock {lock} --trust")).done();
        waiting.join().expect("it ends")
    });
    shearline(&cluster, &format!("unlock {} --trust", waiting.line())).done();
    cluster.assert_empty();
}

/// Names are bytes. The owner is the given text, or this host and the process for which the lock is taken.
#[test]
fn names_and_owners_are_those_of_the_script() {
    use std::os::unix::ffi::OsStrExt as _;
    let cluster = servers::three();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let mut taking = command(&cluster.urls(), ["lock", "--trust", "--json"]);
    taking.arg(name);
    let taken = told(taking).object();
    assert_eq!(taken.text("resource_hex"), "636166e9");
    let mut looking = command(&cluster.urls(), ["status", "--guard", "off", "--json"]);
    looking.arg(name);
    let seen = told(looking).object();
    let parent = format!("{}:{}", host(), std::process::id());
    assert_eq!(seen.text("holder.owner"), parent);
    let mut looking = command(&cluster.urls(), ["status", "--guard", "off"]);
    looking.arg(name);
    let seen = told(looking).done();
    assert!(seen.starts_with("caf\\xe9  held by "), "{seen}");
}

fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_str().expect("text").to_owned()
}
