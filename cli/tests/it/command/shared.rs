//! `shearline run --shared` and `--permits`: several commands at once, but none at the same time as an exclusive lock.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::documented::assert_documented;
use super::json::Json;
use super::tool::{Tool, await_file, code, free, run, started, take_away};
use super::{shearline, told};
use crate::servers::{Cluster, Raw, eventually, three};

/// Makes the file `$2`, waits for a file `$3`, and writes a line to `log`.
const MEETS: &str =
    ": >\"$1/$2\"; while ! [ -e \"$1/$3\" ]; do sleep 0.02; done; echo \"$4\" >>\"$1/log\"";

/// Starts a run with a shared lock on `n`, which waits in `folder`.
fn meets(cluster: &Cluster, folder: &Path, words: [&str; 3]) -> Tool {
    let options = ["--shared", "n", "--", "sh", "-c", MEETS, "sh"];
    let mut command = run(&cluster.urls(), &options);
    Tool::start(command.arg(folder).args(words))
}

/// Each waits for the other.
#[test]
fn two_shared_runs_are_there_at_once() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let words = [["one", "other", "done"], ["other", "one", "done"]];
    let runs = words.map(|words| meets(&cluster, folder.path(), words));
    for mut run in runs {
        assert_eq!((run.output(), run.errors()), (String::new(), String::new()));
        assert_eq!(code(run.wait()), 0);
    }
    let log = fs::read_to_string(folder.path().join("log")).expect("both are done");
    assert_eq!(log, "done\ndone\n");
    cluster.assert_empty();
}

#[test]
fn a_plain_run_waits_for_all_shared_ones_and_keeps_later_ones_out() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let words = [["one", "end", "shared"], ["other", "end", "shared"]];
    let shared = words.map(|words| meets(&cluster, folder.path(), words));
    for name in ["one", "other"] {
        await_file(&folder.path().join(name));
    }
    let error = shearline(&cluster, "run --guard off -n n -- echo started").failed(75);
    let held = "shearline: lock `n`: shared by 2 readers";
    assert!(error.starts_with(held), "{error}");
    let options = ["n", "--", "sh", "-c", MEETS, "sh"];
    let mut alone = run(&cluster.urls(), &options);
    let mut alone = Tool::start(alone.arg(folder.path()).args(["alone", "last", "alone"]));
    let mut errors = BufReader::new(alone.stderr());
    let mut line = String::new();
    errors.read_line(&mut line).expect("it is text");
    assert_eq!(line, "shearline: waiting for n: shared by 2 readers\n");
    let later = "run --guard off --shared -n n -- true";
    eventually("it keeps a later one out", || {
        (shearline(&cluster, later).status == 75).then_some(())
    });
    fs::write(folder.path().join("end"), "").expect("a file");
    for run in shared {
        assert_eq!(code(run.wait()), 0);
    }
    await_file(&folder.path().join("alone"));
    shearline(&cluster, later).failed(75);
    fs::write(folder.path().join("last"), "").expect("a file");
    assert_eq!(code(alone.wait()), 0);
    let log = fs::read_to_string(folder.path().join("log")).expect("all are done");
    assert_eq!(log, "shared\nshared\nalone\n");
    cluster.assert_gone("n");
}

/// The third run gets the slot of the run that has ended.
#[test]
fn each_of_as_many_runs_as_there_are_permits_has_a_slot_of_its_own() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name);
    let script = "echo $SHEARLINE_SLOT >\"$1/$2.new\"; mv \"$1/$2.new\" \"$1/$2\"; \
                  while ! [ -e \"$1/$2.end\" ]; do sleep 0.02; done";
    let start = |name: &str| {
        let options = ["--permits", "2", "--report", "1"];
        let mut command = run(&cluster.urls(), &options);
        command.args(["n", "--", "sh", "-c", script, "sh"]);
        Tool::start(command.arg(folder.path()).arg(name))
    };
    let slot = |name: &str| {
        await_file(&path(name));
        fs::read_to_string(path(name)).expect("its slot")
    };
    let (mut one, other) = (start("one"), start("other"));
    let slots = [slot("one"), slot("other")];
    let mut sorted = slots.clone();
    sorted.sort();
    assert_eq!(sorted, ["0\n", "1\n"]);
    for (options, said) in [
        ("", "held, 2 of 2 permits taken"),
        ("--shared", "held, 2 of 2 permits taken"),
        ("--permits 2", "held, 2 of 2 permits taken"),
        ("--permits 3", "other clients use it with 2 permits: "),
    ] {
        let line = format!("run --guard off -n {options} n -- echo started");
        let error = shearline(&cluster, &line).failed(75);
        let begin = format!("shearline: lock `n`: {said}");
        let is_advised = error.ends_with("takes a free permit");
        assert!(
            error.starts_with(&begin) && !is_advised,
            "{options}: {error}"
        );
    }
    let mut third = start("third");
    let mut errors = BufReader::new(third.stderr());
    let mut line = String::new();
    errors.read_line(&mut line).expect("it is text");
    assert_eq!(
        line,
        "shearline: waiting for n: held, 2 of 2 permits taken\n"
    );
    assert!(!path("third").exists());
    fs::write(path("one.end"), "").expect("a file");
    let report = Json::line(&one.output());
    assert_documented(&report);
    assert_eq!(format!("{}\n", report.number("slot")), slots[0]);
    assert_eq!(slot("third"), slots[0]);
    fs::write(path("third.end"), "").expect("a file");
    assert_eq!(code(third.wait()), 0);
    // One permit is free, but not the whole lock.
    let error = shearline(&cluster, "run --guard off -n n -- true").failed(75);
    let advice = "`shearline run --permits 2` takes a free permit";
    assert_eq!(
        error,
        format!("shearline: lock `n`: held, 1 of 2 permits taken; {advice}")
    );
    fs::write(path("other.end"), "").expect("a file");
    for tool in [one, other] {
        assert_eq!(code(tool.wait()), 0);
    }
    cluster.assert_empty();
}

#[test]
fn a_run_inside_another_has_its_own_names_and_no_slot() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    let shown = "echo \"$SHEARLINE_RESOURCE, $SHEARLINE_RESOURCES, ${SHEARLINE_SLOT-none}\"";
    let inner = format!("{shown}; exec \"$0\" run --guard off c -- sh -c '{shown}'");
    let options = ["--permits", "1", "n", "--", "sh", "-c", &inner];
    let mut command = run(&cluster.urls(), &options);
    command.arg(env!("CARGO_BIN_EXE_shearline"));
    assert_eq!(told(command).done(), "n, n, 0\nc, c, none\n");
    cluster.assert_empty();
}

#[test]
fn the_loss_of_a_shared_lock_or_a_permit_ends_the_command() {
    not_with!(Acl | NoScripts, "needs scripts, and more permissions");
    let cluster = three();
    for kind in ["--shared", "--permits=2"] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = "trap '' TERM; : >$1/ready; exec sleep 1000";
        let mut tool = started(&cluster, &["--ttl", "60s", kind], script, folder.path());
        eventually("it stands on all nodes", || {
            let count = |mut raw: Raw| raw.integer(&[b"ZCARD", b"n"]);
            let counts: Vec<i64> = cluster.raws().into_iter().map(count).collect();
            (counts == [1; 3]).then_some(())
        });
        take_away(&cluster, 1..3);
        let errors = tool.errors();
        let lost = "shearline: n: the lock is lost, so the command and all its processes are killed\n\
                    shearline: lost the lock n, so the command was ended";
        assert!(errors.starts_with(lost), "{errors}");
        assert_eq!(code(tool.wait()), 74);
        free(&cluster, 1..3);
        cluster.assert_empty();
    }
}

#[test]
fn shared_locks_and_permits_need_scripts() {
    let cluster = three();
    for kind in ["--shared", "--permits 2"] {
        let line = format!("run --guard off --without-scripts {kind} n -- echo started");
        let error = shearline(&cluster, &line).failed(78);
        assert!(error.contains("shared locks, permits"), "{error}");
    }
    cluster.assert_empty();
}
