//! Nodes that are killed and restarted between lock and unlock.

use shearline::{RestartGuard, UnlockError};

use crate::face::{Face, Which, over};
use crate::servers::{self, Cluster, LONG, Options, eventually};

#[test]
fn a_lock_outlives_a_node_that_is_killed_and_restarted() {
    story(&mut servers::three());
}

/// Two nodes of three still have the key; the third has forgotten it and gets no copy.
pub(crate) fn story(cluster: &mut Cluster) {
    for which in Which::BOTH {
        let key = which.key("restarted");
        let mut face = which.build(over(cluster));
        face.await_ready();
        let lock = face.try_lock(&key, LONG).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        cluster[0].restart();
        assert_eq!(cluster.copies(&key), 2);
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        face.assert_gone(cluster, &key);
    }
}

/// A killed node is missing for lock, extension and unlock.
#[test]
fn a_node_that_stays_dead_costs_nothing() {
    let mut cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("dead");
        let mut face = which.build(over(&cluster).restart_guard(RestartGuard::Off));
        let mut lock = face.try_lock(&key, LONG).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        cluster[1].kill();
        face.extend(&mut lock, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        let lock = face.try_lock(&key, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        cluster[1].restart();
        face.assert_gone(&cluster, &key);
    }
}

/// With its data on disk a node comes back with the key. It was dead at the unlock, so the release
/// is owed to it and is sent when it is back.
#[test]
fn a_release_owed_to_a_dead_node_is_paid_when_it_is_back() {
    let persistent = Options::redis().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut cluster = Cluster::with(3, &persistent);
    for which in Which::BOTH {
        let key = which.key("owed");
        let mut face = which.build(over(&cluster).restart_guard(RestartGuard::Off));
        face.await_ready();
        let lock = face.try_lock(&key, LONG).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        cluster[2].kill();
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        cluster[2].restart();
        face.assert_gone(&cluster, &key);
    }
}

/// A lock that a majority has forgotten was not held to the end.
#[test]
fn an_unlock_reports_a_majority_that_restarted_empty() {
    let mut cluster = servers::five();
    for which in Which::BOTH {
        let (key, probe) = (which.key("forgotten"), which.key("probe"));
        let mut face = which.build(over(&cluster).restart_guard(RestartGuard::Off));
        let lock = face.try_lock(&key, LONG).expect("free");
        for server in &mut cluster[..3] {
            server.restart();
        }
        // Nodes that are not connected again would be missing from the votes, which is another
        // story.
        on_all_nodes(&mut face, &cluster, &probe);
        let result = face.unlock(lock);
        assert!(matches!(result, Err(UnlockError::NotHeld(_))), "{result:?}");
        face.assert_gone(&cluster, &key);
    }
}

/// Every node is killed and restarted: the handle connects to all of them again.
#[test]
fn a_handle_finds_all_nodes_again() {
    let mut cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("again");
        let builder = over(&cluster).restart_guard(RestartGuard::Off);
        let mut face = which.build(builder);
        for server in &mut *cluster {
            server.kill();
        }
        assert!(face.try_lock(&key, LONG).is_err(), "no node is there");
        for server in &mut *cluster {
            server.restart();
        }
        on_all_nodes(&mut face, &cluster, &key);
        face.assert_gone(&cluster, &key);
    }
}

/// Takes and releases locks until one was on every node.
fn on_all_nodes(face: &mut Face, cluster: &Cluster, key: &str) {
    eventually("a lock on all nodes", || {
        face.settle();
        let lock = face.try_lock(key, LONG).ok()?;
        let copies = cluster.copies(key);
        drop(face.unlock(lock));
        (copies == cluster.len()).then_some(())
    });
}
