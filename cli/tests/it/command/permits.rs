//! What the user of a node may do: `nodes`, and locks without scripts.

use std::fs;

use serde_json::Value;

use super::{command, over, patient, shearline, told};
use crate::acl::acl_line;
use crate::servers::{self, Cluster, Mischief, Options, Proxy};

/// Returns the URLs for a user with these permissions, one rule for each node.
pub(super) fn users(cluster: &Cluster, rules: [&str; 3]) -> Vec<String> {
    let one = |(node, rules): (&servers::Server, &str)| {
        let mut raw = node.raw();
        raw.run(&format!("ACL SETUSER some reset on >secret {rules}"));
        node.url_with("some:secret")
    };
    cluster.iter().zip(rules).map(one).collect()
}

/// Returns all permissions that a user needs, from the manual, except for these.
fn without(rules: &[&str]) -> String {
    let line = acl_line();
    let all = line.split(' ').skip(5);
    let kept: Vec<&str> = all.filter(|rule| !rules.contains(rule)).collect();
    kept.join(" ")
}

#[test]
fn nodes_say_what_their_users_may_do_and_how_they_do_it() {
    let cluster = servers::three();
    let (all, some, none) = (
        without(&[]),
        without(&["+pexpire", "+client|tracking"]),
        without(&["+del"]),
    );
    let urls = users(&cluster, [&all, &some, &none]);
    let said = over(&urls, "nodes lock:try --guard off");
    assert_eq!(said.status, 0);
    super::looking::assert_narrow(&said.out);
    let text = said.out.replace("\n    ", " ");
    for words in [
        "  would vote; ",
        "; its user may take, extend and release lock:try by a script; it tells of releases\n",
        "; its user may take lock:try and release it by a script, but not extend it: its user may not run `pexpire`",
        "; it does not tell of releases (NOPERM; the user needs ",
        "  would not vote: its user may not run `del`",
        "2 of 3 nodes would vote, 2 are needed: locks can be taken, but not extended\n",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }

    let object = over(&urls, "nodes lock:try --guard off --json").object();
    let column = |name: &str| {
        let of = |node| object.at(&format!("nodes.{node}.{name}")).clone();
        (0..3).map(of).collect::<Vec<_>>()
    };
    let text = |text: &str| Value::String(text.to_owned());
    assert_eq!(column("votes"), [true, true, false].map(Value::Bool));
    assert_eq!(column("may_lock"), [true, true, false].map(Value::Bool));
    assert_eq!(column("may_extend"), [true, false, false].map(Value::Bool));
    assert_eq!(
        column("waking"),
        [text("push"), text("refused"), Value::Null]
    );
    assert_eq!(
        column("releasing"),
        [text("script"), text("script"), Value::Null]
    );
    assert_eq!(column("missing")[0], Value::Null);
    assert_eq!(column("reason")[..2], [Value::Null, Value::Null]);
    assert!(
        object
            .text("nodes.2.reason")
            .starts_with("its user may not run `del`")
    );
    cluster.assert_empty();

    // A majority extends locks.
    let urls = users(&cluster, [&all, &all, &some]);
    let said = over(&urls, "nodes lock:try --guard off").done();
    assert!(said.ends_with(": locks can be taken\n"), "{said}");

    // A majority forbids it, so an operator has to permit it.
    let urls = users(&cluster, [&all, &none, &none]);
    let said = over(&urls, "nodes lock:try --guard off");
    assert_eq!(said.status, 78);
    assert!(
        said.out.ends_with(": an operator must repair the nodes\n"),
        "{said:?}"
    );
    // Uses names that the user may not use.
    let urls = users(&cluster, [&all, &all, &all]);
    let said = over(&urls, "nodes other --guard off");
    assert_eq!(said.status, 78);
    let text = said.out.replace("\n    ", " ");
    let words = "its user may not use this key";
    assert_eq!(text.matches(words).count(), 3, "{text}");
    cluster.assert_empty();
}

#[test]
fn nodes_say_whose_users_may_take_shared_locks_and_permits() {
    let cluster = servers::three();
    let more = " ~shearline:* +zrange +zscore +zadd +zrem +pexpireat +exists";
    let all = without(&[]) + more;
    let urls = users(&cluster, [&all, &all, &all.replace(" +zadd", "")]);
    let said = over(&urls, "nodes lock:try --guard off --shared");
    let text = said.out.replace("\n    ", " ");
    let may = "; its user may take, extend and release lock:try";
    assert_eq!((said.status, text.matches(may).count()), (0, 2), "{text}");
    let missing = "  would not vote: its user may not run `zadd`";
    assert!(text.contains(missing), "{text}");
    let said = over(&urls, "nodes lock:try --guard off");
    let text = said.out.replace("\n    ", " ");
    assert_eq!((said.status, text.matches(may).count()), (0, 3), "{text}");
    over(&urls, "nodes --without-scripts --guard off --shared").failed(78);
    cluster.assert_empty();
}

/// Otherwise the command would be ended halfway.
#[test]
#[cfg(target_os = "linux")]
fn run_does_not_start_a_command_whose_lock_cannot_be_extended() {
    let [redis, valkey] = [Options::redis(), Options::valkey()].map(|it| Cluster::with(3, &it));
    let run = "run lock:try --guard off --ttl 4s -- echo started";
    // Half of that time would be too long for a test.
    let at_once = "run lock:try --guard off --max-ttl 1h --ttl 1h -w";
    let at_once = ["1h", "0"].map(|wait| format!("{at_once} {wait} -- echo started"));
    // Valkey releases a lock without `GET`.
    for (cluster, missing, more) in [
        (&redis, "pexpire", ""),
        (&redis, "pttl", ""),
        (&valkey, "get", " +delifeq"),
    ] {
        let [all, some] = ["", missing].map(|it| without(&[&format!("+{it}")]) + more);
        let urls = users(cluster, [&all, &some, &some]);
        let error = over(&urls, &at_once[0]).failed(78);
        let begin =
            "shearline: lock `lock:try`: it cannot be extended, so the command was not started: ";
        assert!(error.starts_with(begin), "{error}");
        let words = format!("its user may not run `{missing}`");
        assert!(error.contains(&words), "{error}");
        cluster.assert_empty();
        // A majority permits it.
        let urls = users(cluster, [&all, &all, &some]);
        assert_eq!(over(&urls, run).done(), "started\n");
        cluster.assert_empty();
        // One node of this majority is gone, and does not come back in time.
        let mut urls = users(cluster, [&all, &some, &all]);
        urls[2] = servers::ClosedPort::new().url();
        over(&urls, run).failed(69);
        cluster.assert_empty();
        // The command does not wait for it any longer than that.
        over(&urls, &at_once[1]).failed(69);
        cluster.assert_empty();
    }
}

/// Such a node would refuse any client. It does not vote, whatever its user may do.
#[test]
fn nodes_say_which_of_them_refuse_a_lock() {
    let cluster = servers::three();
    for (refusing, status) in [(1, 0), (2, 69)] {
        cluster[refusing - 1].raw().run("CONFIG SET maxmemory 1");
        let said = shearline(&cluster, "nodes lock:try --guard off");
        assert_eq!(said.status, status, "{said:?}");
        let text = said.out.replace("\n    ", " ");
        let words = "would not vote: refused: OOM";
        assert_eq!(text.matches(words).count(), refusing, "{text}");
        assert_eq!(text.matches("would not vote").count(), refusing, "{text}");
        let end = format!("\n{} of 3 nodes would vote, 2 are needed: ", 3 - refusing);
        assert!(text.contains(&end), "{text}");
        let said = shearline(&cluster, "nodes lock:try --guard off --json");
        let object = said.object();
        assert_eq!(said.status, status);
        assert_eq!(object.at("can_lock"), &Value::Bool(status == 0));
        assert_eq!(object.at("nodes.0.votes"), &Value::Bool(false));
        assert_eq!(object.at("nodes.0.may_lock"), &Value::Null);
        assert_eq!(object.at("next_restart_ms"), &Value::Null);
        for field in ["nodes.0.reason", "nodes.0.missing"] {
            assert!(object.text(field).starts_with("refused: OOM"), "{object:?}");
        }
    }
    // `lock` finds the same.
    shearline(&cluster, "lock report --guard off -n").failed(69);
    cluster.assert_empty();
}

/// Unknown words help an operator who knows the server, or the proxy before it.
#[test]
fn the_words_of_a_refusal_are_shown() {
    not_with!(Tls, "the words of the servers are replaced");
    let cluster = servers::three();
    cluster.at_once(0..3, &[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let proxies = cluster.proxies();
    for proxy in &proxies {
        proxy.set(Mischief::Reword(b"-OOM", b"-ERR out of luck\r\n"));
    }
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let refused = "refused: ERR (out of luck); if the server refuses scripts, use `--without-scripts`: locks without a \
                   fencing token need no scripts";
    for command in ["nodes", "check"] {
        let said = over(&urls, &format!("{command} --guard off"));
        assert_eq!(said.status, 69, "{said:?}");
        let text = said.out.replace("\n    ", " ");
        let words = format!("would not vote: {refused}");
        assert_eq!(text.matches(&words).count(), 3, "{text}");
    }
    let object = over(&urls, "nodes --guard off --json").object();
    assert_eq!(object.text("nodes.0.missing"), refused);
}

/// The same holds for a refusal to serve at all: there is no such database.
#[test]
fn the_words_of_a_node_that_cannot_be_used_are_shown() {
    not_with!(
        Acl | Tls,
        "the words of the servers are replaced, and SELECT must be permitted"
    );
    let cluster = servers::three();
    let proxies = cluster.proxies();
    for proxy in &proxies {
        proxy.set(Mischief::Reword(b"-ERR", b"-LUCKLESS on Mondays\r\n"));
    }
    let urls: Vec<String> = proxies.iter().map(|it| it.url() + "/9999").collect();
    let words = "would not vote: it refused the handshake with LUCKLESS (on Mondays);";
    for command in ["nodes", "check"] {
        let said = over(&urls, &format!("{command} --guard off"));
        assert_eq!(said.status, 69, "{said:?}");
        let text = said.out.replace("\n    ", " ");
        assert_eq!(text.matches(words).count(), 3, "{text}");
    }
}

#[test]
fn nodes_leave_a_lock_that_is_held_alone() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust --ttl 60s").line();
    let before = cluster.values("report");
    let said = shearline(&cluster, "nodes report --guard off").done();
    let text = said.replace("\n    ", " ");
    let words = "report was not tried: the lock is held";
    assert!(2 <= text.matches(words).count(), "{text}");
    for (before, after) in before.iter().zip(cluster.values("report")) {
        assert!(before.is_none() || *before == after);
    }
    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    cluster.assert_empty();
}

/// Each server greets like a healthy one.
#[test]
fn check_finds_servers_that_do_not_write() {
    let check = "check --guard off --node-timeout 3s";
    for (trouble, words) in [
        ("CONFIG SET maxmemory 1", "would not vote: refused: OOM"),
        (
            "CONFIG SET min-replicas-to-write 1",
            "would not vote: refused: NOREPLICAS",
        ),
        ("CLIENT PAUSE 100000 WRITE", "would not vote: timed out"),
    ] {
        let cluster = servers::three();
        assert_eq!(shearline(&cluster, check).status, 0);
        for (refusing, status) in [(1, 1), (2, 69)] {
            let mut raw = cluster[refusing - 1].raw();
            raw.run(trouble);
            let said = shearline(&cluster, check);
            assert_eq!(said.status, status, "{trouble}: {said:?}");
            let text = said.out.replace("\n    ", " ");
            assert_eq!(text.matches(words).count(), refusing, "{trouble}: {text}");
            let begin = format!("{} of 3 nodes would vote, 2 are needed: ", 3 - refusing);
            assert!(text.starts_with(&begin), "{text}");
            super::looking::assert_narrow(&said.out);
        }
        let object = shearline(&cluster, &format!("{check} --json")).object();
        assert_eq!(object.at("can_lock"), &Value::Bool(false));
        for raw in &mut cluster.raws() {
            raw.run("CLIENT UNPAUSE");
        }
        cluster.assert_empty();
    }
}

#[test]
fn check_warns_of_a_memory_that_is_nearly_full() {
    let cluster = servers::three();
    let mut raw = cluster[0].raw();
    let used = raw.info("memory", "used_memory").expect("it is told");
    let used: u64 = used.parse().expect("a number");
    let most = used + used / 10;
    raw.run(&format!("CONFIG SET maxmemory {most}"));
    let said = shearline(&cluster, "check --guard off");
    assert_eq!(said.status, 1, "{said:?}");
    let text = said.out.replace("\n    ", " ");
    assert!(text.contains(" % full: raise maxmemory"), "{text}");
    let object = shearline(&cluster, "check --guard off --json").object();
    assert!(80 <= object.number("nodes.0.memory_percent"));
    assert_eq!(object.at("nodes.1.memory_percent"), &Value::Null);
    cluster.assert_empty();
}

/// The message does not hide that nothing could be written.
#[test]
fn check_says_that_its_user_may_not_use_the_name() {
    let cluster = servers::three();
    let other = without(&[]).replace("~lock:*", "~other:*");
    let urls = users(&cluster, [&other, &other, &other]);
    let said = over(&urls, "check --guard off");
    assert_eq!(said.status, 1, "{said:?}");
    assert!(said.out.contains("give a NAME"), "{said:?}");
    over(&urls, "check other:try --guard off").done();
    cluster.assert_empty();
}

/// Without a name, the command uses a name of its own. If a user may not use it, this says nothing about the names that
/// the user needs.
#[test]
fn nodes_try_permissions_without_a_name_too() {
    let cluster = servers::three();
    let (all, some) = (without(&[]), without(&["+pexpire"]));
    let other = all.replace("~lock:*", "~other:*");
    let urls = users(&cluster, [&all, &some, &other]);
    let said = over(&urls, "nodes --guard off").done();
    super::looking::assert_narrow(&said);
    let text = said.replace("\n    ", " ");
    for words in [
        "; its user may take, extend and release a lock by a script; it tells of releases\n",
        "; its user may take a lock and release it by a script, but not extend it: its user may not run `pexpire`",
        "; a lock was not tried: its user may not use the name lock:try:",
        "; give a NAME that it may use\n",
        "3 of 3 nodes would vote, 2 are needed: locks can be taken\n",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let object = over(&urls, "nodes --guard off --json").object();
    assert!(object.text("tried").starts_with("lock:try:"), "{object:?}");
    let may = (0..3).map(|node| object.at(&format!("nodes.{node}.may_lock")).clone());
    let may: Vec<Value> = may.collect();
    assert_eq!(may, [Value::Bool(true), Value::Bool(true), Value::Null]);
    assert!(
        object.text("nodes.2.missing").contains("give a NAME"),
        "{object:?}"
    );
    cluster.assert_empty();

    // A node that cannot be asked is reported once.
    let gone = servers::ClosedPort::new();
    let said = over(&[gone.url()], "nodes");
    assert_eq!(
        said.out.matches("connection refused").count(),
        1,
        "{said:?}"
    );
}

#[test]
fn an_option_a_variable_and_a_file_leave_out_scripts() {
    let cluster = servers::three();
    let rules = "~* +@all";
    let urls = users(&cluster, [rules, rules, rules]);
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("shearline.toml");
    fs::write(&file, patient("without-scripts = true\n")).expect("a file");
    // The option overrides the variable, and the variable overrides the file.
    for (option, variable, file_is_there, left_out) in [
        ("", "", false, false),
        ("--without-scripts", "", false, true),
        ("--without-scripts=true", "false", false, true),
        ("--without-scripts=false", "true", true, false),
        ("", "true", false, true),
        ("", "false", true, false),
        ("", "", true, true),
    ] {
        let mut nodes = command(&urls, ["nodes", "report", "--guard", "off", "--json"]);
        nodes.args(option.split_whitespace());
        nodes.env("SHEARLINE_WITHOUT_SCRIPTS", variable);
        if file_is_there {
            nodes.arg("--config").arg(&file);
        }
        let said = told(nodes);
        let case = format!("{option:?} {variable:?} {file_is_there}: {said:?}");
        assert_eq!(said.status, 0, "{case}");
        let object = said.object();
        let by_script = object.at("nodes.0.releasing") == &Value::String("script".into());
        assert_eq!(by_script, !left_out, "{case}");
        cluster.assert_empty();
    }
    let line = "lock report --without-scripts --guard strict";
    let error = over(&urls, line).failed(78);
    assert!(error.contains("`--without-scripts`"), "{error}");
    let mut wrong = command(&urls, ["status", "report"]);
    wrong.env("SHEARLINE_WITHOUT_SCRIPTS", "maybe");
    told(wrong).failed(78);
}

#[test]
fn colours_are_for_terminals_and_for_who_wants_them() {
    let cluster = servers::three();
    for (force, no, coloured) in [("", "", false), ("1", "", true), ("1", "1", false)] {
        let mut nodes = command(&cluster.urls(), ["nodes", "--guard", "off"]);
        nodes.env("CLICOLOR_FORCE", force).env("NO_COLOR", no);
        let said = told(nodes).done();
        assert_eq!(
            said.contains("\x1b[32mwould vote\x1b[0m"),
            coloured,
            "{said:?}"
        );
        let object = told({
            let mut nodes = command(&cluster.urls(), ["nodes", "--guard", "off", "--json"]);
            nodes.env("CLICOLOR_FORCE", force);
            nodes
        });
        assert!(!object.out.contains('\x1b'), "{object:?}");
        let mut wrong = command(&[], ["nodes"]);
        wrong.env("CLICOLOR_FORCE", force).env("NO_COLOR", no);
        let said = told(wrong).err;
        assert_eq!(said.contains('\x1b'), coloured, "{said:?}");
    }
}
