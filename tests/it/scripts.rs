//! Servers that have forgotten the scripts.

use crate::face::{Which, over};
use crate::scene::{FOREIGN, Scene};
use crate::servers::{Cluster, LONG, Options};

#[test]
fn scripts_flushed_between_lock_and_unlock_are_sent_again() {
    not_with!(NoScripts, "is about scripts");
    Scene::each(|scene| {
        let mut lock = scene.take(LONG / 2);
        flush(scene.cluster);
        scene.face.extend(&mut lock, LONG).expect("held");
        flush(scene.cluster);
        scene.face.unlock(lock).expect("held");
        scene.await_gone();
        // After that it works as before.
        let lock = scene.take(LONG);
        scene.face.unlock(lock).expect("held");
        scene.await_gone();
    });
}

/// A node that is silent at the unlock answers the release with NOSCRIPT when the caller has gone.
/// The release is repaired nevertheless.
#[test]
fn a_release_reaches_a_silent_node_whose_scripts_were_flushed() {
    not_with!(NoScripts, "is about scripts");
    let cluster = Cluster::with(3, &Options::redis());
    for which in Which::ALL {
        let mut scene = Scene::new(&cluster, which, over(&cluster));
        let lock = scene.take(LONG);
        flush(&cluster);
        cluster[2].freeze();
        assert_eq!(scene.face.unlock(lock).expect("two of three").deleted, 2);
        cluster[2].thaw();
        scene.await_gone();
    }
}

/// The same for a refused attempt, whose releases no caller waits for.
#[test]
fn a_refused_attempt_is_released_although_the_scripts_were_flushed() {
    not_with!(NoScripts, "is about scripts");
    Scene::each(|scene| {
        (0..2).for_each(|node| scene.steal(node));
        flush(scene.cluster);
        assert!(scene.face.try_lock(&scene.key, LONG).is_err());
        scene.await_values([Some(FOREIGN), Some(FOREIGN), None]);
        scene.clear();
    });
}

fn flush(cluster: &Cluster) {
    for raw in &mut cluster.raws() {
        raw.run("SCRIPT FLUSH");
    }
}
