//! A user lacks a permission that a lock needs. The first try names the permission, and no key is left.

mod own_words;
mod taken_away;

use std::sync::LazyLock;

use shearline::{ExtendError, NodeOutcome, OperatorError, Report, Unusable, Waking};

use crate::acl::acl_line;
use crate::face::{Face, Which, at, no_quorum};
use crate::servers::{Cluster, LONG, Options, Reply};
use crate::waiting::learned_by_looking;

/// All permissions that a user needs, as the manual lists them.
static LINE: LazyLock<String> = LazyLock::new(|| {
    let rules = acl_line();
    let rules = rules.strip_prefix("ACL SETUSER locker on >secret ");
    rules.expect("a user with a password").to_owned()
});

/// Gives the user of these tests exactly these rules.
fn permit(cluster: &Cluster, rules: &str) {
    cluster.run(&format!("ACL SETUSER some reset on >secret {rules}"));
}

fn without(rule: &str) -> String {
    let rules: Vec<&str> = LINE.split(' ').filter(|other| *other != rule).collect();
    assert_eq!(rules.len() + 1, LINE.split(' ').count(), "{rule} is there");
    rules.join(" ")
}

/// Makes a handle for that user.
fn face(which: Which, cluster: &Cluster) -> Face {
    let urls = cluster.iter().map(|server| server.url_with("some:secret"));
    which.build(at(urls))
}

fn lacks(command: &'static str) -> NodeOutcome {
    NodeOutcome::Unusable(Unusable::Permission { command })
}

/// Asserts that a majority reports `missing`. The last of three nodes may not have answered by then.
#[track_caller]
fn assert_names(report: &Report, missing: NodeOutcome) {
    let said = |outcome: NodeOutcome| {
        let all = report.nodes().iter();
        all.filter(|node| node.outcome == outcome).count()
    };
    let said = (said(missing), said(NodeOutcome::Pending));
    assert_matches!(said, (3, 0) | (2, 1), "{report}");
    assert_eq!(report.tries(), 1, "{report}");
}

/// Starts servers of Redis and of Valkey. Also returns whether they have a native way to release, as Valkey has from
/// 9.0 on.
fn clusters() -> [(Cluster, bool); 2] {
    [Options::redis(), Options::valkey()].map(|options| {
        let cluster = Cluster::with(3, &options);
        let said = cluster[0].raw().try_command(&[b"DELIFEQ", b"k", b"token"]);
        (cluster, matches!(said, Ok(Reply::Integer(0))))
    })
}

#[test]
fn a_user_who_may_not_release_gets_no_lock() {
    not_with!(
        Redis62,
        "a script cannot ask there what it may do, and takes the lock"
    );
    for (cluster, _) in clusters() {
        for command in ["get", "del", "eval", "evalsha", "set"] {
            for which in Which::BOTH {
                permit(&cluster, &without(&format!("+{command}")));
                let mut face = face(which, &cluster);
                if command == "eval" && releases_by_set(&cluster) {
                    let lock = face.lock("lock:a", LONG).expect("released by `SET`");
                    face.unlock(lock).expect("held");
                    face.assert_gone(&cluster, "lock:a");
                    continue;
                }
                let report = no_quorum(face.lock("lock:a", LONG));
                assert_names(&report, lacks(command));
                let rule = format!("+{command}");
                assert!(report.to_string().contains(&rule), "{report}");
                cluster.assert_empty();
                let Err(OperatorError::NoQuorum(report)) = face.check() else {
                    panic!("it is known by now")
                };
                let named = report
                    .nodes()
                    .iter()
                    .filter(|node| node.outcome == lacks(command));
                assert!(2 <= named.count(), "{report}");
                // The operator grants the permission; the connections stay.
                permit(&cluster, &LINE);
                let lock = face.lock("lock:a", LONG).expect("all is permitted");
                face.unlock(lock).expect("held");
                face.check().expect("all is permitted");
                face.assert_gone(&cluster, "lock:a");
            }
        }
    }
}

/// Returns `true` if a user needs no other permission than that of `SET` to release a lock.
fn releases_by_set(cluster: &Cluster) -> bool {
    let set: [&[u8]; 5] = [b"SET", b"k", b"token", b"IFEQ", b"token"];
    matches!(cluster[0].raw().try_command(&set), Ok(Reply::Nil))
}

#[test]
fn a_user_who_may_not_use_a_name_may_use_others() {
    for (cluster, _) in clusters() {
        permit(&cluster, &LINE);
        for which in Which::BOTH {
            let mut face = face(which, &cluster);
            let report = no_quorum(face.lock("other", LONG));
            assert_names(&report, NodeOutcome::Unusable(Unusable::KeyPermission));
            assert!(report.to_string().contains("~lock:*"), "{report}");
            face.check()
                .expect("of names nothing is known before they are asked for");
            let lock = face.lock("lock:a", LONG).expect("permitted");
            // On the same connection; the handle knows that other names are permitted on it.
            let report = no_quorum(face.lock("other", LONG));
            assert_names(&report, NodeOutcome::Unusable(Unusable::KeyPermission));
            face.unlock(lock).expect("held");
        }
        cluster.assert_empty();
    }
}

#[test]
fn a_user_who_may_not_extend_gets_locks_and_the_first_extension_says_so() {
    not_with!(Redis62, "the error does not say there what is missing");
    for (cluster, _) in clusters() {
        for command in ["pttl", "pexpire"] {
            for which in Which::BOTH {
                permit(&cluster, &without(&format!("+{command}")));
                let mut face = face(which, &cluster);
                face.await_ready();
                let mut lock = face.lock("lock:a", LONG / 2).expect("it can be released");
                face.await_copies(&cluster, "lock:a");
                let error = face.extend(&mut lock, LONG).expect_err("not permitted");
                let ExtendError::Unconfirmed(report) = &error else {
                    panic!("it stands: {error:?}");
                };
                assert_names(report, lacks(command));
                assert!(
                    format!("{error:#}").contains(&format!("+{command}")),
                    "{error:#}"
                );
                assert!(lock.is_valid());
                permit(&cluster, &LINE);
                face.extend(&mut lock, LONG).expect("permitted by now");
                face.confirm(&mut lock).expect("permitted by now");
                permit(&cluster, &without("+pttl"));
                let Err(ExtendError::Unconfirmed(report)) = face.confirm(&mut lock) else {
                    panic!("not permitted");
                };
                assert_names(&report, lacks("pttl"));
                face.unlock(lock).expect("held");
                face.assert_gone(&cluster, "lock:a");
            }
        }
    }
}

/// A permission that is taken away while a lock is held: its release reports that, and is sent
/// again when the permission is back.
#[test]
fn a_release_without_permission_is_reported_and_sent_again_when_permitted() {
    for (cluster, native) in clusters() {
        // The script, sent as text, replaces a native command that is not permitted.
        let command = if native { "eval" } else { "evalsha" };
        for which in Which::BOTH {
            permit(&cluster, &LINE);
            let mut face = face(which, &cluster);
            face.await_ready();
            let lock = face.lock("lock:a", LONG).expect("permitted");
            permit(&cluster, &without(&format!("+{command}")));
            if releases_by_set(&cluster) {
                face.unlock(lock).expect("released by `SET`");
                face.assert_gone(&cluster, "lock:a");
                continue;
            }
            let error = face.unlock(lock).expect_err("not permitted");
            let shearline::UnlockError::Unconfirmed(report) = &error else {
                panic!("no node took it: {error:?}");
            };
            assert_names(report, lacks(command));
            permit(&cluster, &LINE);
            face.until("the release is sent again", |_| {
                cluster.copies("lock:a") == 0
            });
        }
    }
}

/// If the servers may not notify the user of releases, the handle looks from time to time, and the status of the node
/// names the permissions.
#[test]
fn a_user_who_may_not_track_keys_waits_by_looking_from_time_to_time() {
    for (cluster, _) in clusters() {
        for rule in ["+client|tracking", "+client|caching"] {
            permit(&cluster, &without(rule));
            for which in Which::BOTH {
                let mut face = face(which, &cluster);
                face.await_ready();
                let key = which.key(&format!("lock:{rule}"));
                for waking in learned_by_looking(&cluster, &mut face, &key) {
                    assert!(
                        matches!(waking, Waking::Refused(error) if error.code() == "NOPERM"),
                        "without {rule}: {waking:?}"
                    );
                    assert!(waking.to_string().contains(rule), "{waking}");
                }
            }
        }
    }
}

#[test]
fn a_user_who_may_not_release_several_gets_none_and_a_lock_on_one_is_as_before() {
    not_with!(
        Redis62,
        "a script cannot ask there what it may do, and takes the lock"
    );
    for (cluster, _) in clusters() {
        for command in ["get", "del", "eval", "set"] {
            for which in Which::BOTH {
                permit(&cluster, &without(&format!("+{command}")));
                let mut face = face(which, &cluster);
                for _ in 0..2 {
                    let report = no_quorum(face.try_lock_all(["lock:a", "lock:b"], LONG));
                    assert_names(&report, lacks(command));
                }
                for key in ["lock:a", "lock:b"] {
                    assert_eq!(cluster.copies(key), 0);
                }
            }
        }
        for which in Which::BOTH {
            permit(&cluster, &LINE);
            let mut face = face(which, &cluster);
            let lock = face.try_lock_all(["lock:a", "lock:b"], LONG).expect("free");
            face.unlock(lock).expect("held");
            no_quorum(face.try_lock_all(["lock:a", "other:b"], LONG));
            face.assert_gone(&cluster, "lock:a");
        }
    }
}
