//! The messages while a command waits for a lock, and nodes that come back meanwhile.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{ChildStderr, Command, Stdio};
use std::time::Duration;

use super::{Going, command, over, shearline, told, variables};
use crate::servers::{self, ClosedPort, Cluster, Mischief, Proxy, Raw, Way, eventually};

/// A possible token of another client.
const FOREIGN: &[u8] = b"\x01oreign-foreign-foreanother";

/// Starts a command that keeps running. Returns it with its stderr.
fn going(mut command: Command) -> (Going, BufReader<ChildStderr>) {
    let mut going = Going(command.spawn().expect("the binary runs"));
    let errors = going.0.stderr.take().expect("it is piped");
    (going, BufReader::new(errors))
}

fn line(from: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("it is text");
    line
}

fn rest(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("it is text");
    text
}

#[test]
fn who_waits_is_told_once_for_whom_unless_quiet_or_for_a_time() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust --ttl 60s --owner me").line();
    let run = |options: &str| {
        let line = format!("run report --guard off {options} -- true");
        going(command(&cluster.urls(), line.split_whitespace()))
    };
    let silent = ["-q", "-w 60s"].map(run);
    let (mut told, mut errors) = run("");
    let said = line(&mut errors);
    let begin = "shearline: waiting for report: held by me, ";
    assert!(said.starts_with(begin), "{said}");
    assert!(said.ends_with(" of 3 nodes\n"), "{said}");
    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    assert_eq!(rest(errors), "");
    assert!(told.0.wait().expect("it ends").success());
    for (mut going, errors) in silent {
        assert_eq!(rest(errors), "");
        assert!(going.0.wait().expect("it ends").success());
    }
    cluster.assert_empty();
}

#[test]
fn what_happens_to_the_lock_is_told_to_who_asks() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report -v --trust --ttl 60s --owner me");
    let said = lock.err.strip_suffix('\n').expect("a line");
    let said = said.strip_prefix("shearline: report: took the lock in ");
    let (_, said) = said
        .expect("its begin")
        .split_once(", valid for ")
        .expect("its validity");
    let (valid, nodes) = said.split_once("s, on ").expect("its nodes");
    assert!(
        (50..60).contains(&valid.parse().expect("seconds")),
        "{valid}"
    );
    let known = cluster.urls().join(",");
    assert!(
        2 <= nodes
            .split(", ")
            .filter(|node| known.contains(*node))
            .count(),
        "{nodes}"
    );
    // With a time to wait, only this option says why the command waits.
    let words = "run report other -v -w 60s --guard off -- true";
    let (mut told, mut errors) = going(command(&cluster.urls(), words.split(' ')));
    let said = line(&mut errors);
    assert!(
        said.starts_with("shearline: waiting for report: held by me, "),
        "{said}"
    );
    shearline(&cluster, &format!("unlock {} --trust", lock.out.trim())).done();
    let said = rest(errors);
    let (taken, released) = said.split_once('\n').expect("two lines");
    assert!(
        taken.starts_with("shearline: report, other: took the lock in "),
        "{taken}"
    );
    assert_eq!(released, "shearline: report, other: released the lock\n");
    assert!(told.0.wait().expect("it ends").success());
    cluster.assert_empty();
}

/// Each node is named once, also a node that has never voted.
#[test]
fn a_node_that_does_not_vote_while_the_command_runs_is_told_to_who_asks() {
    let mut cluster = servers::three();
    let mut urls = cluster.urls();
    urls[2] = cluster[2].url_with("nobody:wrong");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let end = folder.path().join("end").display().to_string();
    let script = "n=0; while ! [ -e $1 ] && [ $n -lt 3000 ]; do n=$((n + 1)); sleep 0.02; done";
    let words = [
        "run", "report", "-v", "--guard", "off", "--", "sh", "-c", script,
    ];
    let (mut told, mut errors) = going(command(&urls, words.into_iter().chain(["sh", &end])));
    assert!(line(&mut errors).starts_with("shearline: report: took the lock in "));
    let [one, three] = [0, 2].map(|node| cluster[node].address_for_clients().to_string());
    let said = line(&mut errors);
    let begin = format!("shearline: report: {three} does not vote: it refuses the credentials; ");
    assert!(said.starts_with(&begin), "{said}");
    let votes = "`--password-file`; 2 of 3 nodes vote now\n";
    assert!(said.ends_with(votes), "{said}");
    cluster[0].kill();
    let said = line(&mut errors);
    let begin = format!("shearline: report: {one} does not vote: connection ");
    assert!(said.starts_with(&begin), "{said}");
    let votes = "; 1 of 3 nodes vote now, so the lock may be lost\n";
    assert!(said.ends_with(votes), "{said}");
    cluster[2]
        .raw()
        .run("ACL SETUSER nobody on >wrong ~* &* +@all");
    let again = format!("shearline: report: {three} votes again; 2 of 3 nodes vote now\n");
    assert_eq!(line(&mut errors), again);
    fs::write(&end, "").expect("a file");
    // Perhaps the third node gives the answer that confirms the release.
    let released = ["", "shearline: report: released the lock\n"];
    assert!(released.contains(&&*rest(errors)));
    assert!(told.0.wait().expect("it ends").success());
}

/// Without a terminal, the next holder is not told, but what is wrong with the nodes is.
#[test]
fn who_waits_is_told_when_nodes_refuse_the_lock_later() {
    let cluster = servers::three();
    shearline(&cluster, "lock report --guard off --ttl 5s").line();
    let (_going, mut errors) = going(command(
        &cluster.urls(),
        "run report --guard off -- true".split(' '),
    ));
    let said = line(&mut errors);
    assert!(said.contains("waiting for report: held by "), "{said}");
    cluster.run("CONFIG SET maxmemory 1");
    let said = line(&mut errors);
    assert!(
        said.contains("waiting for report: the lock is free, but not granted: "),
        "{said}"
    );
    assert!(said.contains("OOM"), "{said}");
}

#[test]
fn who_waits_for_nodes_is_told_why() {
    let cluster = servers::three();
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let urls = [cluster.urls()[0].clone(), gone[0].url(), gone[1].url()];
    let (_going, mut errors) = going(command(&urls, ["lock", "report", "--guard", "off"]));
    let said = line(&mut errors);
    let begin = "shearline: waiting for report: lock `report`: it is not known who holds it: ";
    assert!(said.starts_with(begin), "{said}");
    let both = " each unreachable: connection refused";
    assert!(said.contains(both), "{said}");
}

/// The wait for the nodes counts as part of the time. After it, there is neither another try nor another wait.
#[test]
fn who_waits_for_a_time_does_not_wait_longer_for_nodes_that_do_not_answer() {
    not_with!(NoScripts, "a strict guard needs scripts");
    let cluster = servers::three();
    for node in &*cluster {
        node.freeze();
    }
    let mut commands = vec!["lock report"];
    if cfg!(target_os = "linux") {
        commands.push("run report");
    }
    for command in commands {
        for guard in ["off --trust", "observed", "strict"] {
            let line = format!("{command} -w 2s --connect-timeout 2s --guard {guard}");
            let line = match command.starts_with("run") {
                true => line + " -- echo started",
                false => line,
            };
            let error = over(&cluster.urls(), &line).failed(69);
            let said = "too few nodes could vote, so no lock was taken: 0 of the 2 votes needed (127.0.0.1:";
            assert!(error.contains(said), "{line}: {error}");
            assert!(!error.contains(" tries in "), "{line}: {error}");
        }
    }
}

/// Two nodes do not answer. So the third is not asked for the lock, not even by another handle.
#[test]
fn who_does_not_wait_asks_for_no_lock_that_too_few_would_grant() {
    not_with!(NoScripts, "a strict guard needs scripts");
    let cluster = servers::three();
    let mut raw = cluster[2].raw();
    cluster[0].freeze();
    cluster[1].freeze();
    for guard in ["off", "observed", "strict"] {
        raw.run("CONFIG RESETSTAT");
        let line = format!("lock report -w 0 --guard {guard}");
        over(&cluster.urls(), &line).failed(69);
        let connections = raw.info("stats", "total_connections_received");
        assert_eq!(connections.as_deref(), Some("1"), "{guard}");
        // A strict guard has read the marker by a script.
        let scripts = raw.info("commandstats", "cmdstat_eval");
        assert_eq!(scripts.is_some(), guard == "strict", "{guard}");
    }
    // This is the shortest possible timeout.
    let line = "lock report -w 0 --ttl 2s --connect-timeout 1ms --guard strict";
    over(&cluster.urls(), line).failed(69);
}

/// Nodes that answer get the time that an answer takes.
#[test]
fn who_does_not_wait_gets_a_lock_that_is_free() {
    not_with!(NoScripts, "a strict guard needs scripts");
    let cluster = servers::three();
    for (name, guard) in [
        ("a", "off"),
        ("b", "observed --trust"),
        ("c", "strict --trust"),
    ] {
        shearline(&cluster, &format!("lock {name} -w 0 --guard {guard}")).done();
    }
}

/// The nodes load scripts and refuse to run them, in unknown words. The message comes even after a message with another
/// reason, because there will be no other one.
#[test]
fn who_waits_for_nodes_that_refuse_scripts_is_told_what_helps() {
    not_with!(Tls | NoScripts, "the words of the servers are replaced");
    let cluster = servers::three();
    cluster.run("ACL SETUSER some on >secret ~* +@all -eval");
    let nowhere = ClosedPort::new();
    let proxies = [(); 3].map(|()| Proxy::to(nowhere.address()));
    for proxy in &proxies {
        proxy.set(Mischief::Reword(b"-NOPERM", b"-ERR out of luck\r\n"));
    }
    let urls = proxies
        .each_ref()
        .map(|proxy| proxy.url_with("some:secret"));
    let run = |options: &str| {
        let line = format!("run report --guard off {options} -- true");
        command(&urls, line.split_whitespace())
    };
    let (_going, mut errors) = going(run("--connect-timeout 1s"));
    let said = line(&mut errors);
    assert!(said.contains(" each unreachable: "), "{said}");
    for (proxy, server) in proxies.iter().zip(&*cluster) {
        proxy.redirect(server.address_for_clients());
    }
    // Two nodes are enough, so the command may not wait for the answer of the third.
    let refused = " each refused: ERR (out of luck); if the server refuses scripts, use `--without-scripts`: locks \
                   without a fencing token need no scripts";
    let said = line(&mut errors);
    assert!(said.contains(refused), "{said}");
    let failed = told(run("-w 1s")).failed(69);
    assert!(failed.contains(refused), "{failed}");
    told(run("--without-scripts")).done();
    cluster.assert_empty();
}

/// The nodes answer questions, but refuse the lock.
#[test]
fn who_waits_for_a_lock_that_is_free_is_told_which_nodes_refuse_it() {
    not_with!(NoScripts, "their nodes refuse to answer questions too");
    let cluster = servers::three();
    cluster.at_once(0..3, &[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let line = "run report --guard off -- true";
    let (mut run, mut errors) = going(command(&cluster.urls(), line.split_whitespace()));
    let said = self::line(&mut errors);
    let begin = "shearline: waiting for report: the lock is free, but not granted: 127.0.0.1:";
    assert!(said.starts_with(begin), "{said}");
    let why = " refused: OOM (its memory is full: raise its `maxmemory`, or remove other keys";
    assert!(said.contains(why), "{said}");
    cluster.at_once(0..3, &[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    assert_eq!(rest(errors), "");
    assert!(run.0.wait().expect("it ends").success());
    cluster.assert_empty();
}

/// An answer that takes longer than either option does not count. With longer timeouts, the command waits for nodes
/// that are only far away.
#[test]
fn nodes_that_are_far_away_need_longer_timeouts() {
    let cluster = servers::three();
    let proxies = [1, 2].map(|node| Proxy::to(cluster[node].address_for_clients()));
    let near = cluster.urls()[0].clone();
    let urls = [near, proxies[0].url(), proxies[1].url()];
    let refuses = |line: &str, why| {
        let refused = over(&urls, line).failed(69);
        assert!(refused.contains(why), "{refused}");
    };
    // No answer comes at all, because a late answer could count if the command itself stood still for that time.
    for node in [1, 2] {
        cluster[node].raw().run("CLIENT PAUSE 100000 WRITE");
    }
    refuses(
        "lock first -n --guard off --node-timeout 100ms",
        "each timed out",
    );
    for node in [1, 2] {
        cluster[node].raw().run("CLIENT UNPAUSE");
    }
    for proxy in &proxies {
        proxy.set(Mischief::Hold(Way::ToClient));
    }
    refuses(
        "lock second -n --guard off --connect-timeout 100ms",
        "no answer within the connect timeout",
    );
    for proxy in &proxies {
        proxy.delay(Duration::from_millis(500));
    }
    let lock = over(&urls, "lock report -n --guard off").line();
    assert_eq!(cluster.copies("report"), 3);
    over(&urls, &format!("unlock {lock} --guard off")).done();
    assert_eq!(cluster.copies("report"), 0);
    for name in ["first", "second"] {
        cluster.assert_gone(name);
    }
}

/// A person at a terminal sees each change of the holder, in colours.
#[test]
fn a_terminal_shows_each_holder() {
    let cluster = servers::three();
    shearline(&cluster, "lock report --trust --ttl 60s --owner me").line();
    let line = format!(
        "exec {} lock report --guard off",
        env!("CARGO_BIN_EXE_shearline")
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .envs(variables(&cluster.urls()))
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut terminal = Going(terminal.spawn().expect("`script` is there"));
    let shown = terminal.0.stdout.take().expect("it is piped");
    let mut shown = BufReader::new(shown).lines().map_while(Result::ok);
    let mut until = |text: &str| {
        let found = shown.find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("{text:?} is not shown"))
    };
    let said = until("held");
    assert!(said.contains("\x1b["), "{said:?}");
    assert!(said.contains(" by me, "), "{said:?}");
    for raw in &mut cluster.raws() {
        raw.set_px(b"report", FOREIGN, super::looking::MINUTE);
    }
    until(" by another, ");
}

/// Makes three servers, and URLs that lead only to the first.
fn one_of_three() -> (Cluster, [Proxy; 2], Vec<String>, ClosedPort) {
    let cluster = servers::three();
    let nowhere = ClosedPort::new();
    let proxies = [(); 2].map(|()| Proxy::to(nowhere.address()));
    let urls = vec![
        cluster.urls()[0].clone(),
        proxies[0].url(),
        proxies[1].url(),
    ];
    (cluster, proxies, urls, nowhere)
}

/// The command waits long enough to say so.
#[test]
fn a_server_that_was_started_later_is_not_trusted() {
    assert!([3, 12, 48].into_iter().any(is_in_quarantine), "too late");
}

/// Returns `false` if the servers came too late for a command that waits for this number of seconds.
fn is_in_quarantine(seconds: u32) -> bool {
    let (mut cluster, proxies, urls, _nowhere) = one_of_three();
    let line = format!("lock report --trust --max-ttl 1h -w {seconds}s");
    let (mut going, errors) = going(command(&urls, line.split_whitespace()));
    let asked = |raw: &mut Raw| raw.info("commandstats", "cmdstat_set").map(drop);
    let has_begun = eventually("it has begun, or ended", || {
        let asked = asked(&mut cluster[0].raw()).map(|()| true);
        let ended = going.0.try_wait().expect("our own child");
        asked.or(ended.map(|_| false))
    });
    if !has_begun {
        return false;
    }
    for (place, proxy) in proxies.iter().enumerate() {
        cluster[place + 1].restart();
        proxy.redirect(cluster[place + 1].address_for_clients());
    }
    let said = rest(errors);
    assert_eq!(going.0.wait().expect("it ends").code(), Some(69), "{said}");
    assert!(over(&cluster.urls(), "status report --guard off").status == 1);
    said.contains("in quarantine for ")
}
