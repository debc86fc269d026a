//! `--fenced`: the number for the store rises from holder to holder, stays with the lock, and is refused if nodes
//! cannot give one.

use std::fs;

use serde_json::Value;

use super::json::Json;
use super::permits::users;
use super::tool::run;
use super::{Told, command, fed, over, patient, shearline, told};
use crate::servers::{self, Cluster, Options};

fn clusters() -> [Cluster; 2] {
    [Options::redis(), Options::valkey()].map(|options| Cluster::with(3, &options))
}

/// Runs a command under the lock `n` that prints its number, and returns its output and the report.
#[track_caller]
fn attempt(cluster: &Cluster, guard: &str, options: &[&str]) -> (Told, Json) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = folder.path().join("report");
    let mut command = command(&cluster.urls(), ["run", "--fenced", "--guard", guard]);
    command.args(options).arg("--report").arg(&report);
    command.args(["n", "--", "sh", "-c", "echo \"$SHEARLINE_FENCING_TOKEN\""]);
    let told = told(command);
    let report = fs::read_to_string(report).expect("a report");
    (told, Json::line(&report))
}

/// Returns the number of a run, which is the same in the command and in the report.
#[track_caller]
fn token_of_run(cluster: &Cluster, options: &[&str]) -> u64 {
    token_with_guard(cluster, "off", options)
}

#[track_caller]
fn token_with_guard(cluster: &Cluster, guard: &str, options: &[&str]) -> u64 {
    let (told, report) = attempt(cluster, guard, options);
    let token = told.line().parse().expect("a number");
    assert_eq!(report.number("fencing_token"), token);
    token
}

#[test]
fn a_permit_comes_with_a_number_for_its_slot() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    for cluster in clusters() {
        let trusted = token_of_run(&cluster, &["--trust", "--permits", "2"]);
        let token = token_of_run(&cluster, &["--permits", "2"]);
        assert!(trusted < token);
        assert!(token < token_of_run(&cluster, &["--permits", "2"]));
    }
}

/// Asserts that nothing was started, and that an operator has to repair something.
#[track_caller]
fn assert_refused(cluster: &Cluster) {
    let (told, report) = attempt(cluster, "off", &[]);
    let line = told.failed(78);
    assert!(line.contains("it has no counter floor"), "{line}");
    let once = "when no client can still hold an earlier lock, use `--trust` once; ";
    assert!(line.contains(once), "{line}");
    assert_eq!(report.text("outcome"), "failed");
    assert_eq!(report.at("started"), &Value::Bool(false));
    assert_eq!(report.at("fencing_token"), &Value::Null);
}

/// Returns the lock and its number.
#[track_caller]
fn parts(line: &str) -> (&str, u64) {
    let (lock, token) = line.split_once(' ').expect("two words");
    (lock, token.parse().expect("a number"))
}

#[test]
fn runs_one_after_the_other_get_rising_numbers() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for cluster in clusters() {
        assert_refused(&cluster);
        cluster.assert_gone("n");
        let first = token_of_run(&cluster, &["--trust"]);
        let second = token_of_run(&cluster, &[]);
        let third = token_of_run(&cluster, &["--trust"]);
        let strict = token_with_guard(&cluster, "strict", &["--trust"]);
        let observed = token_with_guard(&cluster, "observed", &["--trust"]);
        let all = [first, second, third, strict, observed];
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
        cluster.assert_gone("n");
    }
}

#[test]
fn the_number_of_a_lock_goes_with_its_text() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for cluster in clusters() {
        let line = shearline(&cluster, "lock n --fenced --trust --guard off").line();
        let (lock, token) = parts(&line);
        assert!(lock.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        // Passes the whole line, and the lock alone.
        let extend =
            |text: &str| told(command(&cluster.urls(), ["extend", text, "--guard", "off"]));
        let extended = extend(&line).line();
        assert_eq!(parts(&extended).1, token);
        assert_eq!(parts(&extend(lock).line()).1, token);
        let object = fed(&cluster, "extend - --guard off --json", &extended).object();
        assert_eq!(object.number("fencing_token"), token);
        for wrong in [format!("{lock} {}", token + 1), format!("{line} 1")] {
            let said = extend(&wrong).failed(64);
            assert!(said.contains("this is not a lock"), "{said}");
        }
        assert_eq!(fed(&cluster, "unlock --guard off", &extended).done(), "");
        cluster.assert_gone("n");

        let second = token_of_run(&cluster, &[]);
        assert!(token < second);
        let plain = shearline(&cluster, "lock n --guard off").line();
        let said = told(command(&cluster.urls(), ["unlock", &format!("{plain} 1")])).failed(64);
        assert!(said.contains("this is not a lock"), "{said}");
        shearline(&cluster, &format!("unlock {plain} --guard off")).done();
        let taken = shearline(&cluster, "lock n --guard off --fenced --json").object();
        assert!(second < taken.number("fencing_token"));
        let line = format!("unlock {} --guard off", taken.text("lock"));
        shearline(&cluster, &line).done();
        cluster.assert_gone("n");
    }
}

/// A server that has restarted gives no number before an operator trusts it. The others continue as long as they are a
/// majority.
#[test]
fn numbers_rise_over_restarts() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for mut cluster in clusters() {
        let first = token_of_run(&cluster, &["--trust"]);
        cluster[1].restart();
        let second = token_of_run(&cluster, &[]);
        assert!(first < second, "{first} {second}");
        cluster[1].restart();
        cluster[2].restart();
        assert_refused(&cluster);
        let third = token_of_run(&cluster, &["--trust"]);
        assert!(second < third, "{second} {third}");
        cluster.assert_gone("n");
    }
}

/// A run that lasts long enough repairs a server that has restarted, so that another may restart. If the machine is too
/// busy for a short ttl, the test uses a longer one.
#[test]
fn a_long_run_repairs_a_server_that_has_restarted() {
    not_with!(NoScripts, "fencing tokens need scripts");
    assert!([3, 10, 20].into_iter().any(is_repaired), "each run is lost");
}

/// Returns `false` if the lock of the run was lost, with this ttl in seconds.
fn is_repaired(ttl: u32) -> bool {
    let mut cluster = servers::three();
    let seconds = format!("{ttl}s");
    let options = ["--max-ttl", &seconds, "--ttl", &seconds];
    let first = token_of_run(&cluster, &["--trust"]);
    cluster[1].restart();
    let mut long = run(&cluster.urls(), &["--fenced"]);
    long.args(options).args(["n", "--", "sleep"]);
    let said = told({
        long.arg((ttl + 3).to_string());
        long
    });
    if said.status == 74 {
        return false;
    }
    assert_eq!(said.done(), "");
    cluster[2].restart();
    let second = token_of_run(&cluster, &options);
    assert!(first < second, "{first} {second}");
    true
}

/// For locks without a number, a node without a floor is like any other. Only `nodes --fenced` shows the difference.
#[test]
fn nodes_says_which_nodes_give_no_number() {
    not_with!(NoScripts, "fencing tokens need scripts");
    for mut cluster in clusters() {
        // Checks how many nodes give a number, and the status.
        let assert_given = |cluster: &Cluster, votes: u64, status: i32| {
            let said = shearline(cluster, "nodes --fenced --guard off --json");
            assert_eq!((said.status, said.err.as_str()), (status, ""), "{said:?}");
            let object = Json::line(&said.out);
            assert_eq!(object.number("votes"), votes, "{object:?}");
            let all = shearline(cluster, "nodes --guard off --json").object();
            assert_eq!(all.number("votes"), 3, "{all:?}");
            let all = shearline(cluster, "check --guard off --json").object();
            assert_eq!(all.number("votes"), 3, "{all:?}");
            object
        };
        assert_given(&cluster, 0, 78);
        token_of_run(&cluster, &["--trust"]);
        assert_given(&cluster, 3, 0);
        cluster[1].restart();
        let object = assert_given(&cluster, 2, 0);
        assert_eq!(object.at("nodes.1.may_lock"), &Value::Bool(false));
        let why = object.text("nodes.1.missing");
        assert!(
            why.contains("no fencing tokens, because it is new"),
            "{why}"
        );
        assert_eq!(object.text("nodes.1.reason"), why);
        assert_eq!(object.at("nodes.0.missing"), &Value::Null);
        assert_eq!(object.at("nodes.0.reason"), &Value::Null);
        cluster[2].restart();
        assert_given(&cluster, 1, 78);
        let text = shearline(&cluster, "nodes --fenced --guard off").out;
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        assert!(text.contains("would not vote: it gives"), "{text}");
        assert!(
            text.contains("; its user may take, extend and release a lock; "),
            "{text}"
        );
        let line = "nodes --fenced --guard off --without-scripts";
        let said = shearline(&cluster, line).failed(78);
        assert!(said.contains("scripts"), "{said}");
    }
}

/// The trial leaves a counter for a second.
#[test]
fn nodes_does_not_count_a_counter_of_its_own() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    let cluster = servers::three();
    token_of_run(&cluster, &["--trust"]);
    let line = "nodes --fenced --counters --guard off --json";
    let object = shearline(&cluster, line).object();
    for node in 0..3 {
        assert_eq!(
            object.at(&format!("nodes.{node}.may_lock")),
            &Value::Bool(true)
        );
        // The other nodes may have given the token of the run before this node was asked for it.
        assert!(
            object.number(&format!("nodes.{node}.counters")) <= 1,
            "{object:?}"
        );
    }
}

/// Plain locks need neither the keys of fencing tokens nor the `run_id`.
#[test]
fn nodes_says_which_users_may_not_have_a_number() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let cluster = servers::three();
    token_of_run(&cluster, &["--trust"]);
    let rules = [
        "~lock:* ~shearline:* &* +@all",
        "~lock:* &* +@all",
        "~lock:* ~shearline:* &* +@all -info",
    ];
    let urls = users(&cluster, rules);
    assert_eq!(over(&urls, "nodes --guard off").status, 0);
    for (name, status, why) in [
        ("", 69, "or the keys shearline:* of fencing tokens;"),
        (
            "lock:try",
            78,
            "or the keys `shearline:*` that fenced and shared locks need; permit both",
        ),
    ] {
        let line = format!("nodes {name} --fenced --guard off");
        let said = over(&urls, &line);
        assert_eq!(said.status, status, "{said:?}");
        let words: Vec<&str> = said.out.split_whitespace().collect();
        let text = words.join(" ");
        assert!(text.contains("1 of 3 nodes would vote"), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(
            text.contains("fencing tokens need; permit `INFO`"),
            "{text}"
        );
    }
}

/// Two nodes of four are enough to repair the others.
#[test]
fn nodes_asks_for_no_operator_where_floors_are_repaired() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let mut cluster = Cluster::with(4, &Options::redis());
    token_of_run(&cluster, &["--trust"]);
    for (node, status) in [(0, 0), (1, 69), (2, 78)] {
        cluster[node].restart();
        let said = shearline(&cluster, "nodes --fenced --guard off");
        assert_eq!(said.status, status, "{node} {said:?}");
    }
}

#[test]
fn nodes_that_run_no_scripts_give_no_number() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let cluster = servers::three();
    for line in ["lock n --fenced", "run --fenced n -- echo started"] {
        let line = line.replace("--fenced", "--fenced --without-scripts --guard off");
        let said = shearline(&cluster, &line).failed(78);
        assert!(said.contains("leave out `--without-scripts`"), "{said}");
        // The message is the same as for the other option that needs scripts.
        let other = line
            .replace("--guard off", "--guard strict")
            .replace("--fenced", "");
        assert_eq!(shearline(&cluster, &other).failed(78), said);
    }
    let user = |node: &servers::Server| {
        let mut raw = node.raw();
        raw.run("ACL SETUSER some on >secret ~* +@all -@scripting");
        node.url_with("some:secret")
    };
    let urls: Vec<String> = cluster.iter().map(user).collect();
    for line in ["lock n --fenced", "run --fenced n -- echo started"] {
        for options in ["--fenced --guard off", "--fenced --guard off --trust"] {
            let said = over(&urls, &line.replace("--fenced", options)).failed(78);
            assert!(
                said.to_lowercase().contains("permit `eval`") || said.contains("`eval`; permit it"),
                "{said}"
            );
        }
    }
    cluster.assert_empty();
}

#[test]
fn a_file_asks_for_numbers_and_an_option_does_not() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let cluster = servers::three();
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("shearline.toml");
    let said = |text: &str, option: &[&str]| {
        fs::write(&file, patient(text)).expect("a file");
        let mut lock = command(&cluster.urls(), ["lock", "n", "--trust", "--config"]);
        lock.arg(&file).args(option);
        told(lock)
    };
    let release = |line: &str| {
        told(command(&cluster.urls(), ["unlock", line, "--guard", "off"])).done();
    };
    for (text, option, is_fenced) in [
        ("", &[][..], false),
        ("fenced = true\n", &[], true),
        ("fenced = true\n", &["--fenced=false"], false),
        ("fenced = false\n", &["--fenced"], true),
    ] {
        let line = said(text, option).line();
        assert_eq!(line.contains(' '), is_fenced, "{text} {option:?}: {line}");
        release(&line);
    }
    // In that case, `nodes` tries such a lock. Commands that take no lock ignore it.
    let mut trial = command(&cluster.urls(), ["nodes", "--guard", "off", "--config"]);
    fs::write(&file, patient("fenced = true\n")).expect("a file");
    trial.arg(&file).arg("--json");
    assert_eq!(told(trial).object().number("votes"), 3);
    let mut looking = command(&cluster.urls(), ["check", "--guard", "off", "--config"]);
    looking.arg(&file);
    told(looking).done();
}

/// Inside another run, the command would mistake the number of the outer lock for its own.
#[test]
fn the_number_of_another_lock_is_not_passed_on() {
    not_with!(NoScripts, "fencing tokens need scripts");
    let cluster = servers::three();
    let mut plain = run(&cluster.urls(), &["n", "--", "sh", "-c"]);
    plain.arg("echo \"[$SHEARLINE_FENCING_TOKEN]\"");
    plain.env("SHEARLINE_FENCING_TOKEN", "7");
    assert_eq!(told(plain).line(), "[]");
    cluster.assert_empty();
}
