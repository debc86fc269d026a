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

/// The user has only the permissions that the manual and the help ask for, and not those for shared locks.
#[test]
fn shared_locks_are_listed_to_a_user_that_may_not_take_them() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        for mut raw in cluster.raws() {
            raw.run("SET n:exclusive t");
            raw.run("ZADD n:shared 1 r/t");
        }
        cluster.run("ACL SETUSER some reset on >secret ~n:* &* +@all -zrange");
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        for (names, why) in Which::Shared.build(at(urls)).names("") {
            assert_eq!(all(&(names, why)), ["n:exclusive", "n:shared"]);
        }
    }
}

/// The name of the user must not decide how its missing permission is understood.
#[test]
fn a_user_with_any_name_is_told_which_command_it_may_not_run() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster.raws().iter_mut().for_each(|raw| raw.fill("n:", 12));
        for command in ["strlen", "type"] {
            let user = "ACL SETUSER keymaster reset on >secret ~n:* &* +@all -";
            cluster.run(&format!("{user}{command}"));
            let urls = cluster
                .iter()
                .map(|server| server.url_with("keymaster:secret"));
            let why = NodeOutcome::Unusable(Unusable::Permission { command });
            for listed in Which::Shared.build(at(urls)).names("") {
                assert_eq!(listed, (vec![], Some(why)));
            }
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

/// The log keeps only the latest entries. A list adds at most one for each step of 2,000 keys, on servers that can say
/// whether a user may read a key.
#[test]
fn a_list_fills_no_log_of_denied_keys() {
    not_with!(Acl | NoScripts, "its user may not run `SCAN` in a script");
    for cluster in clusters() {
        cluster
            .raws()
            .iter_mut()
            .for_each(|raw| raw.fill("other:", 1_200));
        cluster.run("ACL SETUSER some reset on >secret ~n:* &* +@all");
        cluster.run("ACL LOG RESET");
        let urls = cluster.iter().map(|server| server.url_with("some:secret"));
        for listed in Which::Shared.build(at(urls)).names("") {
            assert_eq!(listed, (vec![], None));
        }
        for mut raw in cluster.raws() {
            let can_ask = raw.run("EVAL return(redis.acl_check_cmd)and(1)or(0) 0");
            let Reply::Array(entries) = raw.run("ACL LOG") else {
                panic!("it is a list")
            };
            let is_bounded = entries.len() == 1 || can_ask == Reply::Integer(0);
            assert!(is_bounded, "{entries:?}");
        }
    }
}
