//! Wrong and missing credentials. No output ever shows a credential.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use shearline::{Credentials, NodeOutcome, OperatorError, Unusable};

use crate::canary::{ESCAPED, PASSWORD, Secrets, WRONG};
use crate::face::{Which, at, no_quorum};
use crate::servers::{Cluster, LONG, Options, Raw, Reply, SILENT, Server, eventually};

#[test]
fn wrong_or_missing_credentials_are_named_and_not_shown() {
    let cluster = Cluster::with(3, &Options::redis().password(PASSWORD));
    for (credentials, unusable) in [
        (format!(":{WRONG}"), Unusable::WrongCredentials),
        (format!("nobody:{WRONG}"), Unusable::WrongCredentials),
        (String::new(), Unusable::NoCredentials),
    ] {
        let urls = match &*credentials {
            "" => cluster.iter().map(Server::url_without).collect(),
            some => urls(&cluster, some),
        };
        for which in Which::BOTH {
            let builder = at(&urls);
            assert_not_shown(&format!("{builder:?}"));
            let mut face = which.build(builder);
            assert_not_shown(&format!("{face:?}"));
            let result = face.try_lock("secret", LONG);
            if let Err(error) = &result {
                assert_not_shown(&format!("{error:#} {error:?}"));
            }
            let report = no_quorum(result);
            // Two nodes with wrong credentials decide the call. The third node may not have answered yet.
            let named = |expected| {
                report
                    .nodes()
                    .iter()
                    .filter(|n| n.outcome == expected)
                    .count()
            };
            let named = (
                named(NodeOutcome::Unusable(unusable)),
                named(NodeOutcome::Pending),
            );
            assert_matches!(named, (3, 0) | (2, 1), "{report}");
        }
    }
    cluster.assert_empty();
}

/// If only an operator can repair a majority, a call fails at its first try, also on a new handle.
/// (The default number of tries and their delays would take five seconds.)
#[test]
fn a_majority_with_wrong_credentials_is_reported_in_the_first_try() {
    let cluster = Cluster::with(3, &Options::redis().password(PASSWORD));
    let mut urls = urls(&cluster, &format!(":{WRONG}"));
    urls[0] = cluster[0].url_with(&format!(":{ESCAPED}"));
    let mut admins = cluster.raws();
    let mut want = |password: &str| {
        for admin in &mut admins[1..] {
            admin.command(&[b"CONFIG", b"SET", b"requirepass", password.as_bytes()]);
        }
    };
    for which in Which::BOTH {
        let mut face = which.build(at(&urls));
        let Err(OperatorError::NoQuorum(report)) = face.check() else {
            panic!("two of three refuse the credentials")
        };
        let wrong = NodeOutcome::Unusable(Unusable::WrongCredentials);
        assert_eq!(report.nodes()[1].outcome, wrong, "{report}");
        let report = no_quorum(face.lock("k", LONG));
        assert_eq!(report.tries(), 1, "{report}");
        // The operator repairs the passwords on the servers, so the URLs are right now.
        want(WRONG);
        eventually("the repair is noticed", || {
            face.settle();
            face.check().ok()
        });
        let lock = face.lock("k", LONG).expect("three of three");
        face.unlock(lock).expect("held");
        want(PASSWORD);
    }
}

#[test]
fn the_database_of_the_url_holds_the_key() {
    not_with!(
        Acl | Tls | NoScripts,
        "appends to a URL, and needs +select besides"
    );
    let server = Server::start();
    for which in Which::BOTH {
        let key = which.key("database");
        let mut face = which.build(at([format!("{}/3", server.url())]));
        let lock = face.try_lock(&key, LONG).expect("free");
        let mut raw: Raw = server.raw();
        assert!(!raw.exists(key.as_bytes()), "not in database 0");
        assert_eq!(raw.run("SELECT 3"), Reply::Simple("OK".into()));
        assert_eq!(raw.get(key.as_bytes()), Some(lock.token()));
        face.unlock(lock).expect("held");
        assert!(!raw.exists(key.as_bytes()));
    }
}

fn urls(cluster: &Cluster, credentials: &str) -> Vec<String> {
    cluster
        .iter()
        .map(|server| server.url_with(credentials))
        .collect()
}

#[track_caller]
fn assert_not_shown(text: &str) {
    Secrets::credentials().assert_not_in("auth", text);
}

/// The password of every server is changed. The credentials provider knows the new password, but is late for one node,
/// and fails for another.
#[test]
fn credentials_are_asked_for_before_each_connection() {
    not_with!(Acl | NoScripts, "logs in as the default user");
    let cluster = Cluster::with(5, &Options::redis().password(WRONG));
    let urls: Vec<String> = cluster.iter().map(Server::url_without).collect();
    let mut admins = cluster.raws();
    let mut want = |password: &str, line: &str| {
        for admin in &mut admins {
            admin.command(&[b"CONFIG", b"SET", b"requirepass", password.as_bytes()]);
            admin.run(line);
        }
    };
    for which in Which::BOTH {
        let password = Arc::new(Mutex::new(WRONG));
        let known = Arc::clone(&password);
        let (late, failing) = (urls[0].clone(), urls[1].clone());
        let builder = at(&urls).connect_timeout(SILENT);
        let builder = builder.credentials(move |node| {
            let label = &**node.label();
            if late.contains(label) {
                thread::sleep(Duration::from_secs(600));
            } else if failing.contains(label) {
                return Err("the vault\x1b is sealed".into());
            }
            Ok(Credentials::new(*known.lock().expect("no panic")))
        });
        assert_not_shown(&format!("{builder:?}"));
        let mut face = which.build(builder);
        assert_not_shown(&format!("{face:?}"));
        for (place, said) in [
            (0, "the provider has not answered in time"),
            (1, "the vault  is sealed"),
        ] {
            eventually("why there are no credentials", || {
                face.settle();
                let node = face.nodes().swap_remove(place);
                assert_not_shown(&format!("{node} {node:?}"));
                node.words.filter(|words| **words == *said)
            });
        }
        let lock = face.lock(which.key("given"), LONG).expect("three of five");
        face.unlock(lock).expect("held");
        // The provider is asked for each new connection, and returns the valid password.
        *password.lock().expect("no panic") = PASSWORD;
        want(PASSWORD, "CLIENT KILL TYPE normal");
        let lock = eventually("connections with the new password", || {
            face.settle();
            face.lock(which.key("again"), LONG).ok()
        });
        face.unlock(lock).expect("held");
        want(WRONG, "PING");
    }
}
