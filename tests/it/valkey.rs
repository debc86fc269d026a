//! The main stories once more, on valkey-server; and on servers of both kinds together.

use crate::canary::{ESCAPED, PASSWORD};
use crate::face::{Which, at, over};
use crate::servers::{Cluster, LONG, Options, Server};
use crate::{confirm, frozen, names, restart, scripts, truth_table};

fn cluster(count: usize) -> Cluster {
    Cluster::with(count, &Options::valkey())
}

#[test]
fn the_truth_table() {
    truth_table::story(&cluster(5), 3..=5);
}

#[test]
fn lock_extend_unlock() {
    let cluster = cluster(5);
    for which in Which::BOTH {
        let key = which.key("cycle");
        let mut face = which.build(over(&cluster));
        let mut lock = face.try_lock(&key, LONG / 2).expect("free");
        assert!(face.try_lock(&key, LONG).is_err(), "it is held");
        face.extend(&mut lock, LONG).expect("held");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}

/// Its module for Lua can be left out, and locks can be had all the same.
#[test]
fn a_server_without_lua() {
    let options = Options::valkey().arguments(["--enable-module-command", "yes"]);
    let cluster = Cluster::with(3, &options);
    for raw in &mut cluster.raws() {
        raw.run("MODULE UNLOAD lua");
    }
    for which in Which::BOTH {
        let key = which.key("no lua");
        let mut face = which.build(over(&cluster));
        let lock = face.try_lock(&key, LONG).expect("free");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}

#[test]
fn scripts_flushed_between_lock_and_unlock() {
    scripts::story(&cluster(3));
}

#[test]
fn a_lock_is_confirmed() {
    confirm::story(&cluster(3));
}

#[test]
fn any_bytes_are_a_name() {
    names::story(&cluster(3));
}

#[test]
fn one_node_of_five_is_frozen() {
    frozen::story(&cluster(5), 200);
}

#[test]
fn a_node_killed_and_restarted() {
    restart::story(&mut cluster(3));
}

#[test]
fn credentials() {
    let cluster = Cluster::with(3, &Options::valkey().password(PASSWORD));
    let urls: Vec<_> = cluster
        .iter()
        .map(|server| server.url_with(&format!(":{ESCAPED}")))
        .collect();
    for which in Which::BOTH {
        let mut face = which.build(at(&urls));
        let lock = face.try_lock("k", LONG).expect("the password is right");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, "k");
    }
}

/// Each node is detected for itself: what one kind knows is not asked of the other.
#[test]
fn both_kinds_together() {
    let redis = [Server::start(), Server::start()];
    let valkey = Server::with(&Options::valkey());
    for which in Which::BOTH {
        let key = which.key("both");
        let urls = [redis[0].url(), valkey.url(), redis[1].url()];
        let mut face = which.build(at(urls));
        let mut lock = face.try_lock(&key, LONG / 2).expect("free");
        face.extend(&mut lock, LONG).expect("held");
        face.unlock(lock).expect("held");
        for server in redis.iter().chain([&valkey]) {
            let mut raw = server.raw();
            crate::servers::eventually("no key is left", || {
                face.settle();
                (!raw.exists(key.as_bytes())).then_some(())
            });
        }
    }
}
