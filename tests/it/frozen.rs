//! One node of five is frozen while the other nodes keep running.

use std::time::Duration;

use shearline::{Builder, NodeStatus};

use crate::face::{Which, over};
use crate::servers::{self, Cluster, LONG, Options};

/// Longer than any test may take: an operation that waited for the frozen node would not end.
const NODE_TIMEOUT: Duration = Duration::from_secs(3_000);

fn patient(cluster: &Cluster) -> Builder {
    let builder = over(cluster).node_timeout(NODE_TIMEOUT);
    builder.dead_after(NODE_TIMEOUT)
}

#[test]
fn a_thousand_locks_leave_no_key_while_one_node_of_five_is_frozen() {
    story(&servers::five(), 1_000);
    story(&Cluster::with(5, &Options::valkey()), 200);
}

/// Every operation succeeds without waiting for the frozen node, and the frozen node has no key when it runs again.
fn story(cluster: &Cluster, locks: usize) {
    for which in Which::BOTH {
        let mut face = which.build(patient(cluster));
        let lock = face.try_lock("before", LONG).expect("free");
        face.unlock(lock).expect("held");
        cluster[2].freeze();
        for turn in 0..locks {
            let key = format!("frozen:{}", turn % 7);
            let lock = face
                .try_lock(&key, LONG)
                .unwrap_or_else(|error| panic!("lock {turn} of {which:?}: {error}"));
            face.unlock(lock)
                .unwrap_or_else(|error| panic!("unlock {turn}: {error}"));
        }
        cluster[2].thaw();
        // Wait for its answers first: it also has no key before it has run the commands that it was sent.
        let mut raws = cluster.raws();
        servers::eventually("no node owes an answer or has a key", || {
            face.settle();
            let idle = |node: &NodeStatus| node.in_flight == 0 && node.owed == 0;
            let done = face.nodes().iter().all(idle);
            (done && raws.iter_mut().all(|raw| raw.keys() == 0)).then_some(())
        });
    }
}

/// Two frozen nodes of five are the most that a majority of three allows.
#[test]
fn two_frozen_nodes_of_five_leave_a_majority() {
    let cluster = servers::five();
    for which in Which::BOTH {
        let mut face = which.build(patient(&cluster));
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
