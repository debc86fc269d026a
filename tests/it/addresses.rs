//! The ways to name a server: TCP, a unix socket, a host name; and one server named twice.

use shearline::{NodeOutcome, Unusable};

use crate::face::{Which, at, no_quorum};
use crate::servers::{Cluster, LONG, Options, Server, eventually};

#[test]
fn locks_work_over_unix_sockets() {
    let cluster = Cluster::with(3, &Options::redis().unix_socket());
    for which in Which::BOTH {
        let key = which.key("unix");
        let mut face = which.build(at(cluster.iter().map(Server::unix_url)));
        let mut lock = face.try_lock(&key, LONG).expect("free");
        assert!(cluster.copies(&key) >= 2);
        face.extend(&mut lock, LONG).expect("held");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}

#[test]
fn a_lock_goes_to_the_database_of_a_unix_url() {
    not_with!(
        Acl | NoScripts,
        "its URLs name no user, and the manual's user has no +select"
    );
    let server = Server::with(&Options::redis().unix_socket());
    let mut face = Which::Local.build(at([server.unix_url() + "?db=2"]));
    let lock = face.try_lock("k", LONG).expect("free");
    let mut raw = server.raw();
    assert!(!raw.exists(b"k"));
    raw.run("SELECT 2");
    assert_eq!(raw.get(b"k"), Some(lock.token()));
    face.unlock(lock).expect("held");
}

#[test]
fn locks_work_with_host_names_and_bare_addresses() {
    let cluster = Cluster::start(3);
    let urls = [
        format!("redis://localhost:{}", cluster[0].port()),
        format!("localhost:{}", cluster[1].port()),
        format!("127.0.0.1:{}", cluster[2].port()),
    ];
    for which in Which::BOTH {
        let key = which.key("name");
        let mut face = which.build(at(&urls));
        eventually("a lock on all three", || {
            face.settle();
            let lock = face.try_lock(&key, LONG).ok()?;
            let copies = cluster.copies(&key);
            face.unlock(lock).expect("held");
            (copies == 3).then_some(())
        });
        face.assert_gone(&cluster, &key);
    }
}

/// One server under two addresses has one vote, whatever the addresses look like.
#[test]
fn one_server_under_two_addresses_has_one_vote() {
    let cluster = Cluster::with(2, &Options::redis().unix_socket());
    let twice = [cluster[0].url(), cluster[0].unix_url()];
    for which in Which::BOTH {
        // Two addresses, one vote: no majority of two.
        let key = which.key("twice");
        let mut face = which.build(at(&twice));
        let report = no_quorum(face.try_lock(&key, LONG));
        let same = report
            .nodes()
            .iter()
            .filter(|node| matches!(node.outcome, NodeOutcome::Unusable(Unusable::SameServer(_))));
        assert_eq!(same.count(), 1, "{report}");
        face.assert_gone(&cluster, &key);

        // With a second server there are two votes of three.
        let key = which.key("thrice");
        let mut face = which.build(at(&twice).node(cluster[1].url()));
        let lock = face.try_lock(&key, LONG).expect("two votes of three");
        assert_eq!(cluster.copies(&key), 2);
        assert_eq!(face.unlock(lock).expect("two votes of three").deleted, 2);
        face.assert_gone(&cluster, &key);
    }
}

/// The client list of the server shows our name.
#[test]
fn connections_carry_a_name() {
    let server = Server::start();
    let mut face = Which::Local.build(at([server.url()]));
    let lock = face.try_lock("k", LONG).expect("free");
    face.unlock(lock).expect("held");
    let list = server.raw().run("CLIENT LIST").into_text();
    assert!(list.contains("name=shearline"), "{list}");
}
