//! Servers that have forgotten the scripts.

use crate::face::{Which, over};
use crate::servers::{self, Cluster, LONG, Options, eventually};

#[test]
fn scripts_flushed_between_lock_and_unlock_are_sent_again() {
    story(&servers::five());
}

pub(crate) fn story(cluster: &Cluster) {
    for which in Which::ALL {
        let key = which.key("flushed");
        let mut face = which.build(over(cluster));
        let mut lock = face.try_lock(&key, LONG / 2).expect("free");
        flush(cluster);
        face.extend(&mut lock, LONG).expect("held");
        flush(cluster);
        face.unlock(lock).expect("held");
        face.assert_gone(cluster, &key);
        // After that it works as before.
        let lock = face.try_lock(&key, LONG).expect("free");
        face.unlock(lock).expect("held");
        face.assert_gone(cluster, &key);
    }
}

/// A node that is silent at the unlock answers the release with NOSCRIPT when the caller has gone.
/// The release is repaired nevertheless.
#[test]
fn a_release_reaches_a_silent_node_whose_scripts_were_flushed() {
    let cluster = Cluster::with(3, &Options::redis());
    for which in Which::ALL {
        let key = which.key("silent");
        let mut face = which.build(over(&cluster));
        face.await_ready();
        let lock = face.try_lock(&key, LONG).expect("free");
        face.await_copies(&cluster, &key);
        flush(&cluster);
        cluster[2].freeze();
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        cluster[2].thaw();
        face.assert_gone(&cluster, &key);
    }
}

/// The same for a refused attempt, whose releases no caller waits for.
#[test]
fn a_refused_attempt_is_released_although_the_scripts_were_flushed() {
    let cluster = servers::three();
    for which in Which::ALL {
        let key = which.key("refused");
        let mut face = which.build(over(&cluster));
        for server in &cluster[..2] {
            server.raw().set_px(key.as_bytes(), b"foreign", LONG);
        }
        flush(&cluster);
        assert!(face.try_lock(&key, LONG).is_err());
        let foreign = Some(b"foreign".to_vec());
        eventually("our copy is given back", || {
            face.settle();
            (cluster.values(&key) == [foreign.clone(), foreign.clone(), None]).then_some(())
        });
    }
}

fn flush(cluster: &Cluster) {
    for raw in &mut cluster.raws() {
        raw.run("SCRIPT FLUSH");
    }
}
