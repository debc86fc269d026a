//! One node of five is frozen while the other nodes keep running.

use std::time::Duration;

use crate::face::{Which, over};
use crate::servers::{self, Cluster, LONG, Options};

/// Longer than any test may take: an operation that waited for the frozen node would not end.
const NODE_TIMEOUT: Duration = Duration::from_secs(3_000);

#[test]
fn a_thousand_locks_leave_no_key_while_one_node_of_five_is_frozen() {
    story(&servers::five(), &[2], 1_000);
    story(&Cluster::with(5, &Options::valkey()), &[2], 200);
}

/// Two frozen nodes of five are the most that a majority of three allows.
#[test]
fn two_frozen_nodes_of_five_leave_a_majority() {
    story(&servers::five(), &[0, 3], 50);
}

/// Every operation succeeds without waiting for a frozen node, and a frozen node has no key when it runs again.
fn story(cluster: &Cluster, frozen: &[usize], locks: usize) {
    for which in Which::BOTH {
        let builder = over(cluster).node_timeout(NODE_TIMEOUT);
        let mut face = which.build(builder.dead_after(NODE_TIMEOUT));
        let lock = face.try_lock("before", LONG).expect("free");
        face.unlock(lock).expect("held");
        frozen.iter().for_each(|node| cluster[*node].freeze());
        for turn in 0..locks {
            let key = format!("frozen:{}", turn % 7);
            let lock = face
                .try_lock(&key, LONG)
                .unwrap_or_else(|error| panic!("lock {turn} of {which:?}: {error}"));
            face.unlock(lock)
                .unwrap_or_else(|error| panic!("unlock {turn}: {error}"));
        }
        frozen.iter().for_each(|node| cluster[*node].thaw());
        // Wait for its answers first: it also has no key before it has run the commands that it was sent.
        face.await_quiet();
        cluster.assert_empty();
    }
}
