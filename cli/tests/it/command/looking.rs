//! `status`, `watch`, `nodes`, `check` and `reinit`: what an operator sees and does.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Going, Json, assert_documented, command, fed, over, shearline};
use crate::servers::{self, ClosedPort, Options};

/// A possible token of another client.
const FOREIGN: &[u8] = b"\x01oreign-foreign-foreanother";
/// Why a key has no expiry.
const FOREIGN_KEY: &str = "another program wrote the key, or removed its expiry";
pub(super) const MINUTE: Duration = Duration::from_secs(60);

#[track_caller]
pub(super) fn assert_narrow(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

#[test]
fn status_says_who_holds_a_lock_and_which_nodes_disagree() {
    let cluster = servers::three();
    let free = shearline(&cluster, "status report --guard off");
    assert_eq!(free.status, 1);
    assert!(free.out.starts_with("report  free\n"), "{free:?}");
    let object = shearline(&cluster, "status report --guard off --json").object();
    assert_eq!(
        (object.text("state"), object.at("holder")),
        ("free", &Value::Null)
    );

    let lock = shearline(&cluster, "lock report --trust --ttl 50s --owner billing-7").line();
    let mut raw = cluster[0].raw();
    raw.set_px(b"report", FOREIGN, MINUTE / 2);
    let held = shearline(&cluster, "status report --guard off").done();
    assert!(held.starts_with("report  held by billing-7, 4"), "{held}");
    assert!(held.contains("s left, on 2 of 3 nodes\n"), "{held}");
    let copy = format!(
        "\n  {}  another token (no. 0) by another, 2",
        address(&cluster[0])
    );
    assert!(held.contains(&copy), "{held}");
    assert_narrow(&held);

    let object = shearline(&cluster, "status report --guard off --json").object();
    assert_eq!(
        object.names(),
        [
            "command", "holder", "holders", "nodes", "resource", "state", "version"
        ]
    );
    assert_eq!(
        (object.text("state"), object.text("holder.owner")),
        ("held", "billing-7")
    );
    assert_eq!(object.number("holder.nodes"), 2);
    assert!((1..50_000).contains(&object.number("holder.valid_for_ms")));
    assert_eq!(object.text("nodes.0.address"), address(&cluster[0]));
    let found = (0..3).map(|node| object.text(&format!("nodes.{node}.found")).to_owned());
    assert_eq!(found.collect::<Vec<_>>(), ["copy", "holder", "holder"]);
    assert_eq!(object.text("nodes.0.owner"), "another");

    // Two keys have no expiry.
    for server in &cluster[1..] {
        assert_eq!(server.raw().integer(&[b"PERSIST", b"report"]), 1);
    }
    let object = shearline(&cluster, "status report --guard off --json").object();
    assert_eq!(object.at("holder.valid_for_ms"), &Value::Null);
    let held = shearline(&cluster, "status report --guard off").done();
    let endless = format!(" without an expiry, on 2 of 3 nodes; {FOREIGN_KEY}\n");
    assert!(held.replace("\n    ", " ").contains(&endless), "{held}");

    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    let split = shearline(&cluster, "status report --guard off");
    assert_eq!(split.status, 1);
    assert!(raw.del(b"report"));
}

fn address(server: &servers::Server) -> String {
    server.address_for_clients().to_string()
}

#[test]
fn status_shows_the_fencing_token_and_all_holders() {
    let cluster = servers::three();
    let line = "lock n --fenced --trust --guard off --ttl 50s --owner 10.0.0.7:80 --json";
    let term = shearline(&cluster, line).object().number("fencing_token");
    let status = shearline(&cluster, "status n --guard off").done();
    let said = status.replace("\n    ", " ");
    assert!(said.starts_with("n  held by 10.0.0.7:80, 4"), "{said}");
    assert!(
        said.contains(&format!("s left, on 3 of 3 nodes, fencing token {term}\n")),
        "{said}"
    );
    let object = shearline(&cluster, "watch n --count 1 --guard off --json").object();
    assert_eq!(object.number("holder.fencing_token"), term);
    assert_eq!(object.at("holder"), object.at("holders.0"));

    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let until = now.expect("after 1970").as_millis() + MINUTE.as_millis();
    for (key, member) in [("read", "r/"), ("gpu", "4/1/"), ("gpu", "4/3/")] {
        let member = [
            member.as_bytes(),
            b"\x01oreign-foreign-fore",
            key.as_bytes(),
        ]
        .concat();
        let until = until.to_string();
        let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), until.as_bytes(), &member];
        cluster.at_once(0..3, &words);
    }
    let read = shearline(&cluster, "status read --guard off").done();
    assert!(
        read.starts_with("read  shared by 1 reader\n  reader  by read, 5"),
        "{read}"
    );
    assert!(read.contains("  1 holder, 5"), "{read}");
    let line = shearline(&cluster, "watch gpu --count 1 --guard off").done();
    let (_, said) = line.split_once(' ').expect("a time");
    assert!(
        said.starts_with("gpu  held, 2 of 4 permits taken; slot 1 "),
        "{line}"
    );
    let object = shearline(&cluster, "status gpu --guard off --json").object();
    assert_eq!(
        (object.text("state"), object.at("holder")),
        ("permits", &Value::Null)
    );
    assert_eq!(
        (
            object.number("holders.1.slot"),
            object.number("holders.1.permits")
        ),
        (3, 4)
    );
    assert_eq!(object.text("nodes.0.found"), "holders");
}

#[test]
fn status_does_not_guess() {
    let cluster = servers::three();
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let urls = [cluster.urls()[0].clone(), gone[0].url(), gone[1].url()];
    let unknown = over(&urls, "status report --guard off").failed(69);
    assert!(unknown.contains("1 of the 2 answers needed"), "{unknown}");
    let unknown = over(&urls, "status report --guard off --json");
    assert_eq!(
        (unknown.status, unknown.object().text("outcome")),
        (69, "no_quorum")
    );
    // Nodes that have just been started may have forgotten the lock.
    for line in ["status report", "break report --yes"] {
        let young = shearline(&cluster, line).failed(69);
        assert!(young.contains("in quarantine for "), "{young}");
        // These commands have no `--trust`.
        let advice = "or count these nodes anyway with `--guard off`";
        assert!(young.contains(advice), "{young}");
        assert!(!young.contains("--trust"), "{young}");
    }
}

#[test]
fn break_ends_a_lock_and_keeps_others_out_until_its_holder_must_have_stopped() {
    let cluster = servers::three();
    let free = shearline(&cluster, "break report --guard off --yes").failed(1);
    assert!(free.contains("lock `report`: no client holds it"), "{free}");
    let lock = shearline(&cluster, "lock report --trust --ttl 50s --owner billing-7").line();
    // There is no terminal for a question.
    for line in ["break report --guard off", "break report --guard off --now"] {
        let asked = fed(&cluster, line, "y\n").failed(64);
        assert!(asked.contains("pass --yes"), "{asked}");
    }
    let tokens = cluster.values("report");
    let done = shearline(&cluster, "break report --guard off --yes").done();
    let said = done.replace("\n    ", " ");
    let begin = "report  held by billing-7, broken on 3 of 3 nodes: free in 4";
    assert!(said.starts_with(begin), "{said}");
    assert_narrow(&done);
    for (value, before) in cluster.values("report").iter().zip(&tokens) {
        assert!(value.is_some() && value != before);
    }
    let held = shearline(&cluster, "status report --guard off").done();
    assert!(
        held.starts_with("report  held by (broken) billing-7, 4"),
        "{held}"
    );
    shearline(&cluster, "lock report -n --trust").failed(75);
    let lost = shearline(&cluster, &format!("extend {lock} --trust")).failed(74);
    assert!(!lost.contains("other nodes"), "its keys are there: {lost}");
    assert!(lost.contains(" each with another token"), "{lost}");

    let object = shearline(&cluster, "break report --guard off --yes --json").object();
    assert_eq!(
        (object.number("broken"), object.number("holder.nodes")),
        (3, 3)
    );
    assert!((40_000..=50_000).contains(&object.number("free_in_ms")));
    // An operator who knows that the holder is gone need not wait.
    let done = shearline(&cluster, "break report --guard off --now --yes").done();
    let said = done.replace("\n    ", " ");
    let free = said.strip_prefix("report  held by (broken) billing-7, deleted, and free on ");
    let end = ": if its holder still works, two clients can hold the lock now\n";
    let free = free.and_then(|free| free.strip_suffix(end));
    // The command does not wait for the last node.
    assert!(
        matches!(free, Some("2 of 3 nodes at least" | "3 of 3 nodes")),
        "{said}"
    );
    cluster.assert_gone("report");

    // A key without an expiry is left alone if the other keys expire, because then the lock becomes free.
    for how in ["", " --without-scripts"] {
        if !how.is_empty() && servers::is_with_acl_line() {
            continue; // Its user may run scripts and no transactions.
        }
        shearline(&cluster, "lock report --trust --ttl 50s").line();
        cluster.raws()[0].run("PERSIST report");
        let tokens = cluster.values("report");
        let line = format!("break report --guard off --yes --json{how}");
        let object = shearline(&cluster, &line).object();
        assert_eq!(object.number("broken"), 2);
        assert!(object.number("free_in_ms") <= 50_000, "{object:?}");
        let kept = cluster.values("report");
        assert!(kept[0] == tokens[0] && kept[1] != tokens[1]);
        for raw in &mut cluster.raws() {
            raw.run("DEL report");
        }
    }

    // A lock of another library has no owner.
    cluster.at_once(
        0..3,
        &[b"SET", b"report", b"some-other-library", b"PX", b"50000"],
    );
    shearline(&cluster, "break report --guard off --yes").done();
    let held = shearline(&cluster, "status report --guard off").done();
    assert!(held.starts_with("report  held by (broken), 4"), "{held}");

    // Without an expiry, the key would stay for ever.
    for raw in &mut cluster.raws() {
        raw.run("SET report forever-forever-forever");
    }
    let held = format!("held, without an expiry, on 3 of 3 nodes; {FOREIGN_KEY}");
    let refused = shearline(&cluster, "run report -n --trust -- true").failed(75);
    let advice = "; if no program needs the key, delete it with `shearline break --now`";
    assert!(
        refused.ends_with(&format!("lock `report`: {held}{advice}")),
        "{refused}"
    );
    let watched = shearline(&cluster, "watch report --count 1 --guard off").line();
    assert!(watched.ends_with(&held), "{watched}");
    let endless = shearline(&cluster, "break report --guard off --yes").failed(1);
    assert!(endless.contains("removed their expiry, so"), "{endless}");
    assert!(endless.contains("delete them with `--now`"), "{endless}");
    shearline(&cluster, "break report --guard off --yes --now").done();
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let urls = [cluster.urls()[0].clone(), gone[0].url(), gone[1].url()];
    let unknown = over(&urls, "break report --guard off --yes").failed(69);
    assert!(unknown.contains("1 of the 2 answers needed"), "{unknown}");
    cluster.assert_empty();
}

#[test]
fn a_key_of_another_type_is_held_by_something_that_is_no_lock() {
    let cluster = servers::three();
    cluster.run("RPUSH report one two");
    let status = shearline(&cluster, "status report --guard off");
    assert_eq!(status.status, 1);
    let said = status.out.replace("\n    ", " ");
    let begin = "report  held by something that is not a lock, such as a list or a hash; no client gets the lock \
                 before an operator deletes the key on each node (`DEL`)\n";
    assert!(said.starts_with(begin), "{said}");
    let nodes = said
        .matches("  held by something that is not a lock\n")
        .count();
    assert_eq!(nodes, 3, "{said}");
    let refused = shearline(&cluster, "break report --guard off --yes").failed(1);
    let nodes = refused
        .matches(" held by something that is not a lock")
        .count();
    assert_eq!(nodes, 3, "{refused}");
    let said = "lock `report`: held by something that is not a lock, such as a list or a hash; no client gets the lock \
                before an operator deletes the key on each node (`DEL`)";
    for command in [
        "lock report -n --trust",
        "run report -n --trust -- true",
        "lock report -w 300ms --trust",
        "run report -w 300ms --trust -- true",
    ] {
        let refused = shearline(&cluster, command).failed(75);
        assert!(refused.contains(said), "{refused}");
    }
    cluster.delete("report");
    cluster.assert_empty();
}

/// Returns the lines of a command that watches, without their times.
fn lines_of(watching: &mut Going) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(watching.0.stdout.take().expect("it is piped")).lines();
    lines.map(|line| {
        let line = line.expect("text");
        let (at, said) = line.split_once(' ').expect("a time");
        let digits = at.replace(|letter: char| letter.is_ascii_digit(), "0");
        assert_eq!(digits, "0000-00-00T00:00:00.000Z");
        said.to_owned()
    })
}

#[test]
fn watch_tells_each_change() {
    let cluster = servers::three();
    let child = command(&cluster.urls(), ["watch", "report", "--guard", "off"]).spawn();
    let mut watching = Going(child.expect("the binary runs"));
    let mut lines = lines_of(&mut watching);
    let words = ["watch", "report", "--guard", "off", "-q", "--count", "3"];
    let child = command(&cluster.urls(), words).spawn();
    let mut quiet = Going(child.expect("the binary runs"));
    let mut without = lines_of(&mut quiet);
    assert_eq!(without.next().expect("a line"), "report  free");
    let mut until = |begin: &str| {
        let line = lines.find(|line| line.starts_with(&format!("report  {begin}")));
        line.expect("it goes on")
    };
    assert_eq!(until(""), "report  free");
    let lock = shearline(&cluster, "lock report --trust --ttl 30s --owner me").line();
    until("new holder: held by me, 2");
    let lock = shearline(&cluster, &format!("extend {lock} --trust --ttl 60s")).line();
    until("extended: held by me, 5");
    // Another client may see the lock for the first time.
    let object = shearline(&cluster, "watch report --guard off --count 1 --json").object();
    assert_eq!(
        (object.text("state"), object.at("change")),
        ("held", &Value::Null)
    );
    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    until("released: free");
    let without: Vec<_> = without.collect();
    assert_eq!(
        without.len(),
        2,
        "it does not count hidden lines: {without:?}"
    );
    assert!(without[0].starts_with("report  new holder: held by me, "));
    let hidden = without.iter().all(|line| !line.contains("extended"));
    assert!(hidden, "{without:?}");
    // The client that breaks a lock does not hold it.
    shearline(&cluster, "lock report --trust --ttl 20s --owner me").line();
    until("new holder: held by me, 1");
    shearline(&cluster, "break report --guard off --yes").done();
    until("broken: held by (broken) me, 1");
    shearline(&cluster, "break report --guard off --yes --now").done();
    until("released: free");
    cluster.at_once(0..3, &[b"SET", b"report", FOREIGN, b"PX", b"50000"]);
    until("new holder: held by another, ");
    // An operator deletes the keys and writes them again. This is neither a new holder nor an extension.
    cluster.at_once(0..3, &[b"DEL", b"report"]);
    until("released: free");
    cluster.at_once(0..3, &[b"SET", b"report", FOREIGN, b"PX", b"3000"]);
    let mut back = until("");
    while !back.contains("held by another, ") {
        back = until("");
    }
    assert!(back.starts_with("report  held by another, "), "{back}");
    // A key that has expired may have been deleted a moment earlier.
    let mut ended = until("");
    while !ended.ends_with("free") {
        ended = until("");
    }
    assert_eq!(ended, "report  free");
    kill_process(Pid::from_child(&watching.0), Signal::INT).expect("it is there");
    let status = watching.0.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()), "{status:?}");

    let line = "watch report --guard off --count 1 --json";
    let object = shearline(&cluster, line).object();
    assert_eq!(
        (object.text("command"), object.text("state")),
        ("watch", "free")
    );
}

/// Otherwise the lock would seem to have been taken and released in between.
#[test]
fn watch_says_only_once_that_a_lock_is_free() {
    let mut cluster = servers::three();
    let child = command(&cluster.urls(), ["watch", "report", "--guard", "off"]).spawn();
    let mut watching = Going(child.expect("the binary runs"));
    let mut lines = lines_of(&mut watching);
    assert_eq!(lines.next().expect("a line"), "report  free");
    cluster[0].kill();
    assert_eq!(shearline(&cluster, "status report --guard off").status, 1);
    cluster[1].kill();
    let next = lines.next().expect("a line");
    assert!(next.starts_with("report  not known"), "{next}");
    // Each node is named once.
    kill_process(Pid::from_child(&watching.0), Signal::INT).expect("it is there");
    let silent = watching.0.stderr.take().expect("it is piped");
    let silent: Vec<_> = BufReader::new(silent)
        .lines()
        .map_while(Result::ok)
        .collect();
    assert_eq!(silent.len(), 2, "{silent:?}");
    for (line, server) in silent.iter().zip(&*cluster) {
        let begin = format!("shearline: report: {} unreachable: ", address(server));
        assert!(line.starts_with(&begin), "{line}");
    }
}

#[test]
fn nodes_and_check_say_who_would_vote_and_why_not() {
    not_with!(ValkeyForRedis, "its text is that of a Redis");
    let cluster = servers::three();
    let young = shearline(&cluster, "nodes");
    assert_eq!(young.status, 69);
    let text = young.out.replace("\n    ", " ");
    let words = "would not vote: in quarantine, because it may have forgotten locks: it votes in";
    assert_eq!(text.matches(words).count(), 3, "{text}");
    assert!(
        young
            .out
            .ends_with("\n0 of 3 nodes would vote, 2 are needed: no lock can be taken now\n")
    );
    assert_narrow(&young.out);
    // The node permits this to its user, but does not do it now.
    assert_eq!(
        text.matches("; its user may take, extend and release a lock")
            .count(),
        3,
        "{text}"
    );
    for line in ["nodes", "check"] {
        let young = shearline(&cluster, line).out.replace("\n    ", " ");
        assert!(young.contains("\nrestarts  wait "), "{young}");
        let object = shearline(&cluster, &format!("{line} --json")).object();
        assert!((1..=66_000).contains(&object.number("next_restart_ms")));
    }
    let all = shearline(&cluster, "nodes --guard off").done();
    assert_eq!(all.matches("  would vote; ").count(), 3, "{all}");
    assert_eq!(all.matches("; round trip ").count(), 3, "{all}");
    assert!(all.ends_with("\n3 of 3 nodes would vote, 2 are needed: locks can be taken\n"));
    let good = "3 of 3 nodes would vote, 2 are needed: locks can be taken\n";
    assert_eq!(shearline(&cluster, "check --guard off").done(), good);
    let metrics = shearline(&cluster, "check --guard off --prometheus").done();
    let address = cluster.urls()[2]
        .rsplit('@')
        .next()
        .expect("one")
        .replace("redis://", "");
    assert!(
        metrics.starts_with("# HELP shearline_can_lock "),
        "{metrics}"
    );
    for line in [
        "shearline_can_lock 1",
        "shearline_votes 3",
        "# TYPE shearline_node_wrong gauge",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{metrics}");
    }
    let of_node = format!("\nshearline_node_votes{{node=\"{address}\"}} 1\n");
    assert!(metrics.contains(&of_node), "{of_node} in {metrics}");
    assert!(
        !metrics.contains("memory_ratio"),
        "without maxmemory: {metrics}"
    );

    // One node is down. Locks can still be taken, and monitoring reports the node.
    let gone = [ClosedPort::new(), ClosedPort::new()];
    let mut urls = cluster.urls();
    urls[2] = gone[0].url();
    over(&urls, "nodes --guard off").done();
    let degraded = over(&urls, "check --guard off");
    assert_eq!(degraded.status, 1);
    assert!(
        degraded
            .out
            .contains("would not vote: connection refused\n"),
        "{degraded:?}"
    );
    assert_eq!(degraded.out.lines().count(), 2, "{degraded:?}");
    let metrics = over(&urls, "check --guard off --prometheus");
    assert_eq!(metrics.status, 1);
    let silent = metrics
        .out
        .lines()
        .filter(|line| line.starts_with("shearline_node_votes{"));
    assert_eq!(
        silent.filter(|line| line.ends_with("} 0")).count(),
        1,
        "{metrics:?}"
    );
    urls[1] = gone[1].url();
    for line in ["nodes --guard off --json", "check --guard off --json"] {
        let bad = over(&urls, line);
        assert_eq!(bad.status, 69);
        let bad = bad.object();
        assert_eq!(bad.at("can_lock"), &Value::Bool(false));
        assert_eq!((bad.number("votes"), bad.number("needed")), (1, 2));
        let votes = (0..3).map(|node| bad.at(&format!("nodes.{node}.votes")).clone());
        assert_eq!(
            votes.collect::<Vec<_>>(),
            [true, false, false].map(Value::Bool)
        );
        assert_eq!(bad.text("nodes.1.reason"), "connection refused");
        assert_eq!(bad.at("nodes.0.marked_ttl_ms"), &Value::Null);
        assert_eq!(bad.text("nodes.0.run_id").len(), 40);
    }
    cluster.assert_empty();
}

#[test]
fn check_is_a_plugin_of_a_monitor() {
    let cluster = servers::three();
    let gone = ClosedPort::new();
    let [one, two, three] = &cluster.urls()[..] else {
        panic!("three servers");
    };
    let another = ClosedPort::new();
    let (down, other) = (gone.url(), another.url());
    for (urls, status, begin, data) in [
        (
            [one, two, three],
            0,
            "OK - 3 of 3 nodes would vote",
            "votes=3;3:;2:;0;3",
        ),
        (
            [one, two, &down],
            1,
            "WARNING - 2 of 3 nodes would vote",
            "votes=2;3:;2:;0;3",
        ),
        ([one, &down, &down], 3, "UNKNOWN - ", "given twice"),
        (
            [one, &down, &other],
            2,
            "CRITICAL - 1 of 3 nodes",
            "votes=1;3:;2:;0;3",
        ),
    ] {
        let urls = urls.map(String::clone);
        let said = over(&urls, "check --nagios --guard off");
        assert_eq!((said.status, &*said.err), (status, ""), "{said:?}");
        let line = said.out.strip_suffix('\n').expect("a line");
        assert!(
            !line.contains('\n') && line.starts_with(&format!("SHEARLINE {begin}")),
            "{line}"
        );
        assert!(line.contains(data), "{line}");
        assert_eq!(
            line.matches('|').count(),
            usize::from(status != 3),
            "{line}"
        );
    }
    let mistyped = shearline(&cluster, "check --nagios --what");
    assert_eq!(mistyped.status, 3);
    let said = "SHEARLINE UNKNOWN - unexpected argument '--what' found";
    assert!(mistyped.out.starts_with(said), "{mistyped:?}");
}

#[test]
fn a_password_that_is_missing_is_for_an_operator() {
    let cluster = servers::Cluster::with(3, &Options::redis().password("swordfish"));
    let urls: Vec<String> = cluster.iter().map(|server| server.url_without()).collect();
    for line in ["lock report --trust", "status report", "unlock 00"] {
        let said = over(&urls, line);
        let status = if line.starts_with("unlock") { 64 } else { 78 };
        said.failed(status);
    }
    let refused = over(&urls, "nodes");
    assert_eq!(refused.status, 78);
    let reason = "it requires a password; give `--password-file`, or credentials in the URL";
    let in_one_line = refused.out.replace("\n    ", " ");
    assert_eq!(in_one_line.matches(reason).count(), 3, "{in_one_line}");
    assert_narrow(&refused.out);
    assert_eq!(over(&urls, "check").status, 78);
    cluster.assert_empty();
}

/// The counters of each node are counted, or a reason says why they are not known.
#[test]
fn nodes_counts_counters_of_fencing_tokens_if_it_is_asked_to() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    let cluster = servers::three();
    cluster[0].raw().fill("shearline:fence:", 2_500);
    cluster[0].raw().fill("other:", 20_000);
    cluster[1].raw().fill("shearline:fence:", 1);
    let said = shearline(&cluster, "nodes --guard off --counters").done();
    assert_narrow(&said);
    let said = said.replace("\n    ", " ");
    let counted = said.lines().map(|line| line.rsplit("; ").next());
    let counted: Vec<_> = counted.flatten().take(3).collect();
    assert_eq!(counted, ["2500 counters", "1 counter", "0 counters"]);
    let object = shearline(&cluster, "nodes --guard off --counters --json").object();
    for (node, number) in [(0, 2_500), (1, 1), (2, 0)] {
        assert_eq!(object.number(&format!("nodes.{node}.counters")), number);
        let more = object.at(&format!("nodes.{node}.uncounted"));
        assert_eq!(more, &Value::Null);
    }

    // Counters are counted only on request, and a node that does not count them may still vote.
    let other = shearline(&cluster, "nodes --guard off --json").object();
    assert!(!format!("{other:?}").contains("count"), "{other:?}");
    let gone = ClosedPort::new();
    cluster[1]
        .raw()
        .run("ACL SETUSER some reset on >secret ~* &* +@all -scan");
    let urls = [
        cluster.urls()[0].clone(),
        cluster[1].url_with("some:secret"),
        gone.url(),
    ];
    let said = over(&urls, "nodes --guard off --counters").done();
    let said = said.replace("\n    ", " ");
    let why = "; at least 0 counters: unusable: its user may not run `scan`";
    assert!(said.contains(why), "{said}");
    assert!(
        said.contains("connection refused\n2 of 3 nodes would vote"),
        "{said}"
    );
    let object = over(&urls, "nodes --guard off --counters --json").object();
    assert_eq!(object.number("nodes.0.counters"), 2_500);
    for (node, why) in [
        (
            1,
            "its user may not run `scan`; permit it (`ACL SETUSER .. +scan`)",
        ),
        (2, "unreachable: connection refused"),
    ] {
        assert_eq!(object.at(&format!("nodes.{node}.counters")), &Value::Null);
        let said = object.text(&format!("nodes.{node}.uncounted"));
        assert!(said.ends_with(why), "{said}");
    }
}

/// Locks that are free or have no majority, and keys of another type, are not shown.
#[test]
fn list_shows_each_lock_that_is_held() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    let cluster = servers::three();
    assert_eq!(shearline(&cluster, "list --guard off").done(), "");
    for line in ["report --owner r", "build* --owner b"] {
        shearline(&cluster, &format!("lock {line} --trust --ttl 50s")).done();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let until = now.expect("after 1970").as_millis() + 50_000;
    let (until, member) = (until.to_string(), b"r/\x01oreign-foreign-forea");
    let reader: [&[u8]; 4] = [b"ZADD", b"read", until.as_bytes(), member];
    cluster.at_once(1..3, &reader); // Only the other nodes list this name.
    cluster[0].raw().set_px(b"copy", FOREIGN, MINUTE);
    cluster[1].raw().set_px(b"copy", b"another", MINUTE);
    cluster.run("RPUSH list a");
    let listed = |line: &str| {
        let out = shearline(&cluster, line).done();
        let lines = out.lines().map(|line| {
            let (before, left) = line.split_once(", 4").expect("a time");
            let (_, after) = left.split_once("s left, ").expect("its end");
            format!("{before}, {after}")
        });
        lines.collect::<Vec<_>>()
    };
    let all = [
        "build*  held by b, on 3 of 3 nodes",
        "read  shared by 1 reader; reader by a, on 2 of 3 nodes",
        "report  held by r, on 3 of 3 nodes",
    ];
    assert_eq!(listed("list --guard off"), all);
    assert_eq!(listed("list re --guard off"), all[1..]);
    assert_eq!(listed("list build* --guard off"), all[..1]);
    assert_eq!(shearline(&cluster, "list copy --guard off").done(), "");

    let out = shearline(&cluster, "list --guard off --json").done();
    let objects: Vec<_> = out
        .lines()
        .map(|line| Json::line(&format!("{line}\n")))
        .collect();
    objects.iter().for_each(assert_documented);
    let said = objects
        .iter()
        .map(|it| (it.text("resource"), it.text("state")));
    let said: Vec<_> = said.collect();
    assert_eq!(
        said,
        [("build*", "held"), ("read", "shared"), ("report", "held")]
    );
}

#[test]
fn list_says_what_may_be_missing() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    let cluster = servers::three();
    let young = shearline(&cluster, "list").failed(69);
    assert!(
        young.contains("or count these nodes anyway with `--guard off`"),
        "{young}"
    );
    shearline(&cluster, "lock report --trust --ttl 50s").done();
    let gone = ClosedPort::new();
    cluster.run("ACL SETUSER some reset on >secret ~* &* +@all -scan");
    let urls = cluster.urls();
    let without_scan = cluster[1].url_with("some:secret");
    let urls = |second: &str, third: &str| [&urls[0], second, third].map(String::from);
    // A majority of the nodes has each held lock, so two complete lists suffice.
    let said = over(&urls(&cluster.urls()[1], &gone.url()), "list --guard off");
    assert_eq!(said.status, 0);
    assert!(said.out.starts_with("report  held by "), "{said:?}");
    assert!(
        said.err.ends_with(": unreachable: connection refused\n"),
        "{said:?}"
    );
    let said = over(&urls(&without_scan, &gone.url()), "list --guard off");
    assert_eq!((said.status, said.err.lines().count()), (78, 3), "{said:?}");
    assert!(said.out.starts_with("report  held by "), "{said:?}");
    assert!(said.err.contains("its user may not run `scan`"), "{said:?}");
    let end = "shearline: a held lock may be missing from the list\n";
    assert!(said.err.ends_with(end), "{said:?}");
    cluster.raws()[..2]
        .iter_mut()
        .for_each(|raw| raw.fill("many:", 1_001));
    let said = shearline(&cluster, "list many: --guard off");
    assert_eq!((said.status, said.err.lines().count()), (1, 3), "{said:?}");
    assert!(said.err.contains("more than 1000 such names"), "{said:?}");
}

#[test]
fn reinit_makes_a_new_cluster_and_nodes_show_it() {
    not_with!(NoScripts, "asks for a strict guard, which needs scripts");
    let cluster = servers::three();
    let urls = cluster.urls();
    let asked = shearline(&cluster, "reinit").failed(64);
    assert!(asked.contains("--yes"), "{asked}");
    assert_eq!(fed(&cluster, "reinit", "y\n").status, 64); // Not a terminal.
    for guard in ["observed", "off"] {
        let line = format!("reinit --yes --guard {guard}");
        let useless = shearline(&cluster, &line).failed(78);
        assert!(useless.contains("give --guard strict, or do without reinit"));
    }
    for line in ["lock report --group other", "nodes --group other"] {
        let refused = shearline(&cluster, line).failed(78);
        let what = "shearline: --group works only with --guard strict: give both";
        assert_eq!(refused, what);
    }
    cluster.assert_empty();

    let done = shearline(&cluster, "reinit --yes --guard strict --max-ttl 10s").done();
    let begin = "the group default now has 3 nodes; no client with --guard strict can take a lock for the next ";
    let wait = done.strip_prefix(begin).expect("a barrier");
    assert!(wait == "10s\n" || wait.starts_with("9."), "{wait}"); // Some of it may be over.
    let one = over(&urls[..1], "reinit --yes --trust");
    assert_eq!(one.out, "the group default now has 1 node\n", "{one:?}");
    let left = format!(
        "shearline: {} leaves a group of 3 nodes (its group is `default`; this client has 1 node in the group \
         `default`)\n",
        address(&cluster[0])
    );
    assert_eq!(one.err, left);
    // The node belongs to another group now, so no client gets a lock. A single try may end before the node has said
    // so.
    let other = shearline(&cluster, "lock report --guard strict --wait 60s --ttl 5s").failed(78);
    let groups = "or see `shearline reinit` (its group is `default`; this client has 3 nodes in the group `default`)";
    assert!(other.contains(groups), "{other}");
    let nodes = shearline(&cluster, "nodes --guard strict").out;
    let nodes = nodes.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(nodes.contains(groups), "{nodes}");
    let done = shearline(&cluster, "reinit --yes --json").object();
    assert_eq!((done.number("nodes"), done.text("group")), (3, "default"));
    let behind = shearline(&cluster, "nodes --guard strict --json");
    assert_eq!(behind.status, 69);
    let behind = behind.object();
    assert_eq!(behind.number("nodes.2.marked_ttl_ms"), 60_000);
    assert!((50_000..=61_000).contains(&behind.number("nodes.2.barrier_ms")));

    shearline(&cluster, "reinit --yes --trust").done();
    let free = shearline(&cluster, "nodes --guard strict").done();
    let free = free.replace("\n    ", " ");
    assert_eq!(free.matches("; marker 60s; ").count(), 3, "{free}");
    assert!(!free.contains("barrier"), "{free}");
    let lock = shearline(&cluster, "lock report --guard strict").line();
    shearline(&cluster, &format!("unlock {lock} --guard strict")).done();
    cluster.assert_gone("report");

    // The other nodes are enough to know who holds the lock.
    cluster[2].raw().run("SET shearline:marker unreadable");
    over(&urls[2..], "reinit --yes --trust").done();
    let said = shearline(&cluster, "status report --guard strict");
    assert_eq!(said.status, 1, "{said:?}");
    assert_narrow(&said.out);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.ends_with("or see `shearline reinit`"), "{words}");
    let said = shearline(&cluster, "status report --guard strict --json").object();
    let reason = said.text("nodes.2.reason");
    assert!(reason.ends_with("or see `shearline reinit`"), "{reason}");
    let said = shearline(
        &cluster,
        "watch report --guard strict --group other --count 1",
    );
    let end = "; `shearline nodes` says why\n";
    assert!(said.out.ends_with(end), "{said:?}");
    assert_eq!(said.err.matches("shearline reinit").count(), 3, "{said:?}");
}

/// With a longer ttl than in the markers, no client would get a lock before that time has passed. So the default is the
/// ttl in the markers.
#[test]
fn the_markers_say_the_longest_ttl_where_no_option_does() {
    not_with!(NoScripts, "asks for a strict guard, which needs scripts");
    let cluster = servers::three();
    let lock = "lock other --guard strict --max-ttl 20s --ttl 20s --trust";
    shearline(&cluster, lock).line();
    for (line, status) in [
        ("status other", 0),
        ("watch other --count 1", 0),
        ("check", 0),
        ("nodes", 0),
        ("lock report -n --ttl 5s", 0),
    ] {
        let said = shearline(&cluster, &format!("{line} --guard strict"));
        assert_eq!(said.status, status, "{line}: {said:?}");
    }
    let too_long = shearline(&cluster, "lock third -n --ttl 21s --guard strict").failed(64);
    assert!(too_long.contains("20s"), "{too_long}");
    let nodes = shearline(&cluster, "nodes --guard strict --json").object();
    for node in 0..3 {
        assert_eq!(nodes.number(&format!("nodes.{node}.marked_ttl_ms")), 20_000);
    }
    // A user who gives a longer ttl wants it.
    let raised = shearline(&cluster, "check --guard strict --max-ttl 30s");
    assert_eq!(raised.status, 69, "{raised:?}");
}
