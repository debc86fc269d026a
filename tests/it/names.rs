//! The names of locks, as each node lists them.

use shearline::{NodeOutcome, Unusable};

use crate::face::{Listed, Which, at, over};
use crate::scene::clusters;
use crate::servers::Reply;

/// Returns the names that a node has listed completely.
#[track_caller]
fn all((names, why): &Listed) -> Vec<String> {
    assert_eq!(*why, None);
    let names = names
        .iter()
        .map(|name| String::from_utf8_lossy(name).into());
    names.collect()
}

/// There are more keys than a node examines in one step, and more bytes of names than fit into one reply.
#[test]
fn the_names_on_each_node_are_listed_by_every_face_that_blocks() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        let mut raws = cluster.raws();
        raws[0].fill("other:", 5_000);
        raws[0].fill(&format!("n:{}", "x".repeat(1_000)), 500);
        raws[1].fill("n:", 1_001);
        for (name, value) in [
            ("n:*", "t"),
            ("n:84", &"t".repeat(84)),
            ("n:85", &"t".repeat(85)),
            ("n:empty", ""),
            ("shearline:floor", "t"),
            (&"n:".repeat(513), "t"),
        ] {
            let words = ["SET", name, value].map(str::as_bytes);
            raws[2].command(&words);
        }
        for line in ["ZADD n:set 1 r/t", "RPUSH n:list t", "HSET n:hash t t"] {
            raws[2].run(line);
        }
        for which in Which::BOTH {
            let mut face = which.build(over(&cluster));
            let listed = face.names("n:");
            let long = all(&listed[0]);
            assert_eq!(long.len(), 500, "{which:?}");
            assert!(long.iter().all(|name| 1_003 <= name.len()), "{which:?}");
            assert_eq!(listed[1].0.len(), 1_000);
            assert_eq!(listed[1].1, Some(NodeOutcome::Pending));
            assert_eq!(all(&listed[2]), ["n:*", "n:84", "n:set"]);
            let some = face.names("n:*");
            assert_eq!(
                some.iter().map(all).collect::<Vec<_>>(),
                [vec![], vec![], vec!["n:*"]]
            );
            assert_eq!(all(&face.names("")[2]), ["n:*", "n:84", "n:set"]);
        }
    }
}

/// Keys that the user may not read are not listed. If a command is not permitted, the node says so.
#[test]
fn a_user_lists_the_names_that_it_may_read() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster.raws().iter_mut().for_each(|raw| raw.fill("n:", 12));
        cluster.run("ACL SETUSER some reset on >secret ~n:1* &* +@all");
        for (node, less) in [(1, "-scan"), (2, "-strlen")] {
            cluster[node].raw().run(&format!("ACL SETUSER some {less}"));
        }
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        let listed = Which::Shared.build(at(urls)).names("");
        assert_eq!(all(&listed[0]), ["n:1", "n:10", "n:11"]);
        for (node, command) in [(1, "scan"), (2, "strlen")] {
            let why = NodeOutcome::Unusable(Unusable::Permission { command });
            assert_eq!(listed[node], (vec![], Some(why)));
        }
    }
}

/// The user has the permissions `+scan +strlen`, which the manual and the help ask for, but not those for shared locks.
#[test]
fn a_shared_lock_that_the_user_may_not_read_makes_the_list_incomplete() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        for mut raw in cluster.raws() {
            raw.run("SET n:exclusive t");
            raw.run("ZADD n:shared 1 r/t");
        }
        cluster.run("ACL SETUSER some reset on >secret ~n:* &* +@all -zrange");
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        for (names, why) in Which::Shared.build(at(urls)).names("") {
            assert!(names.len() == 2 || why.is_some(), "{names:?} and no more");
        }
    }
}

/// The name of the user must not decide how its missing permission is understood.
#[test]
fn a_user_with_any_name_is_told_that_it_may_not_run_strlen() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster.raws().iter_mut().for_each(|raw| raw.fill("n:", 12));
        cluster.run("ACL SETUSER keymaster reset on >secret ~n:* &* +@all -strlen");
        let urls = cluster
            .iter()
            .map(|server| server.url_with("keymaster:secret"));
        let why = NodeOutcome::Unusable(Unusable::Permission { command: "strlen" });
        for listed in Which::Shared.build(at(urls)).names("") {
            assert_eq!(listed, (vec![], Some(why)));
        }
    }
}

/// Monitoring counts errors, so a list must not cause one for each key that is no lock.
#[test]
fn a_list_counts_as_no_error_on_the_nodes() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster.run("HSET hash t t");
        cluster.run("CONFIG RESETSTAT");
        for listed in Which::Shared.build(over(&cluster)).names("") {
            assert_eq!(listed, (vec![], None));
        }
        for mut raw in cluster.raws() {
            let Reply::Bulk(errors) = raw.run("INFO errorstats") else {
                panic!("it is a text")
            };
            let errors = String::from_utf8_lossy(&errors);
            assert!(!errors.contains("WRONGTYPE"), "{errors}");
        }
    }
}

/// The log keeps only the latest entries, so a list must not fill it with one for each key that the user may not read.
#[test]
fn a_list_fills_no_log_of_denied_keys() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster
            .raws()
            .iter_mut()
            .for_each(|raw| raw.fill("other:", 12));
        cluster.run("ACL SETUSER some reset on >secret ~n:* &* +@all");
        cluster.run("ACL LOG RESET");
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        for listed in Which::Shared.build(at(urls)).names("") {
            assert_eq!(listed, (vec![], None));
        }
        for mut raw in cluster.raws() {
            assert_eq!(raw.run("ACL LOG"), Reply::Array(vec![]));
        }
    }
}
