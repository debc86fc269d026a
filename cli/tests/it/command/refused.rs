//! Bad input: one line that says what to do, the documented status, and nothing on any node.

#[cfg(target_os = "linux")]
use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt as _;

use super::{command, fed, over, shearline, told};
use crate::canary::{ESCAPED, Secrets, USER};
use crate::servers;

/// The unit tests of the command (`tests::words`) check the message about each mistake, without processes.
#[test]
fn wrong_arguments_are_refused_and_leave_nothing() {
    not_with!(NoScripts, "asks for a strict guard, which needs scripts");
    let cluster = servers::three();
    for (line, said) in [
        ("lock", "see `shearline lock --help`"),
        ("look report", "similar subcommands exist: 'unlock', 'lock'"),
        ("lock shearline:marker --guard strict", "are reserved"),
        ("lock report --guard strict --ttl 61s", "raise `--max-ttl`"),
        ("unlock lock", "this is not a lock"),
        ("man nothing", "there is no command"),
    ] {
        let error = shearline(&cluster, line).failed(64);
        assert!(error.contains(said), "{line}: {error}");
    }
    let mut empty = command(&cluster.urls(), ["lock", "--guard", "strict"]);
    empty.arg("");
    let error = told(empty).failed(64);
    assert!(error.contains("give the lock a name"), "{error}");
    fed(&cluster, "unlock", "").failed(64);
    fed(&cluster, "extend", "no lock\n").failed(64);
    cluster.assert_empty();
}

/// A program that reads objects gets one even if another argument is wrong.
#[test]
fn programs_get_an_object_for_wrong_arguments() {
    for line in [
        "lock report --json --what",
        "lock --json",
        "check --json report once",
    ] {
        let said = over(&[], line);
        assert_eq!(said.status, 64, "{said:?}");
        let object = said.object();
        assert_eq!(object.text("outcome"), "usage");
        assert_eq!(said.err, format!("shearline: {}\n", object.text("error")));
    }
    over(&[], "lock report --what -- --json").failed(64);
    over(&[], "run --json report -- true").failed(64);
}

/// Nothing is started either: the command would say so on stdout.
#[test]
#[cfg(target_os = "linux")]
fn wrong_arguments_of_run_are_refused_and_leave_nothing() {
    not_with!(NoScripts, "asks for a strict guard, which needs scripts");
    let cluster = servers::three();
    let long = "x".repeat(1_025);
    for (options, status, said) in [
        (&*format!("{long} --guard strict"), 64, "1025 bytes"),
        ("report --guard strict --ttl 61s", 64, "raise `--max-ttl`"),
        ("report --guard strict --ttl 2ms", 64, "too short"),
        ("report --ttl 1s", 64, "give 2s or more"),
        ("shearline:barrier --guard strict", 64, "are reserved"),
        ("report --node x://y", 78, "node"),
        ("report --config /nowhere", 78, "No such file"),
        (
            "report --report 77",
            64,
            "Bad file descriptor (os error 9); give --report a file that can be written",
        ),
        ("report --report /no/such/file", 64, "report"),
    ] {
        let line = format!("run {options} -- echo started");
        let error = shearline(&cluster, &line).failed(status);
        assert!(error.contains(said), "{options}: {error}");
    }
    over(&[], "run report -- echo started").failed(78);
    cluster.assert_empty();
}

#[test]
fn a_lock_that_was_damaged_on_its_way_is_refused() {
    let cluster = servers::three();
    let lock = shearline(&cluster, "lock report --trust").line();
    let last = if lock.ends_with('0') { '1' } else { '0' };
    let damaged = format!("{}{last}", &lock[..lock.len() - 1]);
    let error = shearline(&cluster, &format!("unlock {damaged} --trust")).failed(64);
    assert!(error.contains("damaged"), "{error}");
    assert!(2 <= cluster.copies("report"), "the lock is what it was");
    // The lock is in a place where it does not belong.
    for line in [
        format!("unlock {lock} {lock}"),
        format!("extend {lock} --ttl {lock}"),
        lock.clone(),
    ] {
        let error = shearline(&cluster, &line).failed(64);
        assert!(error.contains("(hidden: it may hold a lock)"), "{error}");
        assert!(!error.contains(&lock), "{error}");
    }
    shearline(&cluster, &format!("unlock {lock} --trust")).done();
    cluster.assert_empty();
}

#[test]
fn a_wrong_configuration_is_refused_without_its_secrets() {
    let none: [String; 0] = [];
    let error = over(&none, "lock report").failed(78);
    let what_to_do = "no node was given; give --node, or set SHEARLINE_NODES";
    assert!(error.contains(what_to_do), "{error}");
    let one_slash = over(&["redis:/127.0.0.1".to_owned()], "lock report").failed(78);
    assert!(
        one_slash.ends_with("write redis://host:port, with a port from 1 to 65535"),
        "{one_slash}"
    );
    let url = format!("redis://{USER}:{ESCAPED}@127.0.0.1:70000");
    for arguments in [
        vec!["lock", "report", "--node", &url],
        vec!["nodes", "--node", &url],
        vec!["demo", "--node", &url],
        vec!["check", "--node", "127.0.0.1:1", "--node", "127.0.0.1:1"],
        vec![
            "lock",
            "report",
            "--node",
            "127.0.0.1:1",
            "--max-ttl",
            "1ms",
        ],
        vec![
            "lock",
            "report",
            "--node",
            "127.0.0.1:1",
            "--group",
            "two words",
        ],
        vec![
            "lock",
            "report",
            "--node",
            "127.0.0.1:1",
            "--ca",
            "/nowhere",
        ],
    ] {
        let error = told(command(&none, &arguments)).failed(78);
        Secrets::credentials().assert_not_in("an argument", &error);
    }
    // The URL is in a place where none belongs.
    let error = told(command(&none, ["watch", "report", "--nodes", &url])).failed(64);
    Secrets::credentials().assert_not_in("a wrong argument", &error);
}

/// No part of the password is taken for a host: a resolver would be asked for it, and it would be shown.
#[test]
fn a_comma_in_a_password_is_refused_by_name() {
    let comma = "redis://me:1,locker:6543,z@10.0.0.1,redis://127.0.0.1:1";
    let no_scheme = ":locker@127.0.0.1:1,:6543@10.0.0.1";
    for (list, line) in [
        (comma, "status report"),
        (comma, "nodes"),
        (comma, "run report -- echo started"),
        (no_scheme, "status report"),
    ] {
        let error = over(&[list.to_owned()], line).failed(78);
        let both = "a user or a password contains a comma, or a URL with credentials has no scheme";
        assert!(error.contains(both), "{line}: {error}");
        for part in ["locker", "6543", "10.0.0.1"] {
            assert!(!error.contains(part), "{line}: {error}");
        }
    }
}

/// With fewer nodes, other nodes are a majority: perhaps a variable for one of them is not set.
#[test]
fn an_empty_entry_in_a_list_of_nodes_is_refused() {
    for list in [
        "127.0.0.1:1,,127.0.0.1:2",
        "127.0.0.1:1,",
        ",127.0.0.1:1",
        " , ",
    ] {
        let error = over(&[list.to_owned()], "nodes").failed(78);
        assert!(error.contains("an entry of the list is empty"), "{error}");
    }
    let none = over(&[String::new()], "nodes").failed(78);
    assert!(none.contains("no node was given"), "{none}");
}

/// A terminal obeys escapes, and a carriage return overwrites the text before it. A variable that is not valid text is
/// shown without omissions too.
#[test]
#[cfg(target_os = "linux")]
fn what_was_typed_is_shown_without_control_characters() {
    let cluster = servers::three();
    let typed = "/no\u{1b}[2K\rwhere";
    let shown = "/no\\u{1b}[2K\\rwhere: No such file";
    let run = ["run", "report", "--guard=off", "--", typed];
    for (arguments, status) in [
        (run.as_slice(), 127),
        (["check", "--config", typed].as_slice(), 78),
    ] {
        let mut colourful = command(&cluster.urls(), arguments);
        colourful.env("CLICOLOR_FORCE", "1");
        let said = told(colourful);
        assert_eq!(said.status, status, "{said:?}");
        assert!(said.err.contains(shown), "{said:?}");
    }
    cluster.assert_empty();
    let mut looking = command(&[], ["check"]);
    looking.env("SHEARLINE_NODES", OsStr::from_bytes(b"127.0.0.\xff"));
    let error = told(looking).failed(78);
    assert!(error.contains("invalid UTF-8"), "{error}");
}

#[test]
fn help_is_a_command_too() {
    for (command, option) in [("help", "--help"), ("help run", "run --help")] {
        let help = over(&[], command).done();
        assert_eq!(help, over(&[], option).done());
    }
    let error = over(&[], "help show").failed(64);
    assert!(
        error.contains("unrecognized subcommand 'show'; see `shearline --help`"),
        "{error}"
    );
}

/// A host that does not exist counts as a node that does not answer, because it may exist later.
#[test]
fn unknown_nodes_are_no_quorum() {
    let urls = ["127.0.0.1:1", "127.0.0.1:2", "nowhere.invalid"].map(str::to_owned);
    let error = over(&urls, "lock report -n").failed(69);
    let words = "127.0.0.1:1 and 127.0.0.1:2 each unreachable: ";
    assert!(error.contains(words), "{error}");
    assert_eq!(over(&urls, "check").status, 69);
}
