//! One node of five stands still while the others go on.

use std::time::{Duration, Instant};

use shearline::Redlock;

use crate::face::{Which, over};
use crate::servers::{self, Cluster, LONG, Proxy, Server};

/// Longer than a thousand rounds take: an operation that waited for the frozen node would show.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn a_thousand_locks_while_one_node_of_five_is_frozen() {
    story(&servers::five(), 1_000);
}

/// Every operation succeeds, none waits for the frozen node, and it keeps no key when it goes on.
pub(crate) fn story(cluster: &Cluster, locks: usize) {
    for which in Which::BOTH {
        let mut face = which.build(over(cluster).node_timeout(NODE_TIMEOUT));
        let lock = face.try_lock("before", LONG).expect("free");
        face.unlock(lock).expect("held");
        cluster[2].freeze();
        for turn in 0..locks {
            let start = Instant::now();
            let key = format!("frozen:{}", turn % 7);
            let lock = face
                .try_lock(&key, LONG)
                .unwrap_or_else(|error| panic!("lock {turn} of {which:?}: {error}"));
            face.unlock(lock)
                .unwrap_or_else(|error| panic!("unlock {turn}: {error}"));
            let took = start.elapsed();
            assert!(
                took < NODE_TIMEOUT,
                "turn {turn} waited for the frozen node: {took:?}"
            );
        }
        cluster[2].thaw();
        for key in (0..7).map(|key| format!("frozen:{key}")) {
            face.assert_gone(cluster, key);
        }
        cluster.assert_empty();
    }
}

/// The same with the node timeout that nobody set, which a lock must not depend on either; and the
/// lock is still held when the node goes on.
#[test]
fn a_lock_held_while_a_node_freezes_and_goes_on() {
    let cluster = servers::five();
    let proxies = far_away(&cluster);
    for which in Which::BOTH {
        let builder = Redlock::builder().nodes(proxies.iter().map(Proxy::url));
        let mut face = which.build(builder.connect_timeout(NODE_TIMEOUT));
        for turn in 0..3 {
            let key = which.key(&format!("held:{turn}"));
            cluster[4].freeze();
            let mut lock = face.try_lock(&key, LONG).expect("four of five");
            face.extend(&mut lock, LONG).expect("four of five");
            cluster[4].thaw();
            face.extend(&mut lock, LONG).expect("five of five");
            face.unlock(lock).expect("five of five");
            face.assert_gone(&cluster, &key);
        }
        cluster.assert_empty();
    }
}

/// Nodes whose answers come so late that a second is derived from it as the node timeout, the most
/// there is: a machine may stand still for a while, as it may not where nodes are near.
fn far_away(cluster: &Cluster) -> Vec<Proxy> {
    let to = |server: &Server| {
        let proxy = Proxy::to(server.address());
        proxy.delay(Duration::from_millis(250));
        proxy
    };
    cluster.iter().map(to).collect()
}

/// Two frozen nodes of five are the most that a majority of three allows.
#[test]
fn two_frozen_nodes_of_five_leave_a_majority() {
    let cluster = servers::five();
    for which in Which::BOTH {
        let mut face = which.build(over(&cluster).node_timeout(NODE_TIMEOUT));
        cluster[0].freeze();
        cluster[3].freeze();
        for turn in 0..50 {
            let lock = face.try_lock("two", LONG).expect("three of five");
            face.unlock(lock)
                .unwrap_or_else(|error| panic!("unlock {turn}: {error}"));
        }
        cluster[0].thaw();
        cluster[3].thaw();
        face.assert_gone(&cluster, "two");
    }
}
