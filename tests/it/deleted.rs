//! Other clients delete or replace the keys of kept locks. The holder finds the loss at once, before its next
//! extension.

use std::time::Duration;

use shearline::{LockOptions, Waking};

use crate::face::{Face, Held, Which, over};
use crate::scene::clusters;
use crate::servers::{Cluster, until};

/// The commands with which other clients change a key.
const CHANGES: [&str; 6] = [
    "DEL KEY",
    "UNLINK KEY",
    "RENAME KEY elsewhere",
    "SET KEY another",
    "FLUSHDB",
    "FLUSHALL",
];

/// Takes a lock for ten minutes, which is not extended in the life of a test.
fn kept(face: &mut Face, cluster: &Cluster, key: &str) -> Held {
    let options = LockOptions::new(Duration::from_secs(600)).keep();
    let held = face.lock_with(key, &options).expect("free");
    face.await_copies(cluster, key);
    held
}

/// Repeats the change until the holder reports the loss. One change may not be enough, because the two nodes do not run
/// it at the same time, and the handle copies back a key that only one node lacks.
fn change_until_told(face: &mut Face, held: &Held, mut change: impl FnMut()) {
    until("the loss is told", || {
        change();
        face.await_quiet();
        !held.is_valid()
    });
}

#[test]
fn a_lock_whose_keys_are_deleted_on_a_majority_is_lost_at_once() {
    for cluster in clusters() {
        for which in Which::BOTH {
            let mut face = which.build(over(&cluster));
            let key = which.key("deleted");
            let deletion = [&b"DEL"[..], key.as_bytes()];
            // Right after it was taken, before a node was asked to notify the handle.
            let fresh = kept(&mut face, &cluster, &key);
            change_until_told(&mut face, &fresh, || drop(cluster.at_once(0..2, &deletion)));
            drop(fresh);
            cluster.run(&format!("DEL {key}"));
            for change in CHANGES {
                let held = kept(&mut face, &cluster, &key);
                face.until("the nodes tell of changes", |face| {
                    let tells = |node: &shearline::NodeStatus| node.waking == Waking::Push;
                    face.nodes().iter().all(tells)
                });
                face.await_quiet();
                let change = change.replace("KEY", &key);
                let words: Vec<&[u8]> = change.split(' ').map(str::as_bytes).collect();
                change_until_told(&mut face, &held, || drop(cluster.at_once(0..2, &words)));
                drop(held);
                cluster.run(&format!("DEL {key} elsewhere"));
            }
            // After the third extension as after the first.
            let mut often = kept(&mut face, &cluster, &key);
            for minutes in 11..13 {
                let ttl = Duration::from_secs(60 * minutes);
                face.extend(&mut often, ttl).expect("held");
            }
            face.await_quiet();
            change_until_told(&mut face, &often, || drop(cluster.at_once(1..3, &deletion)));
        }
    }
}
