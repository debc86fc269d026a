//! One node of five stands still while the others go on.

use std::time::{Duration, Instant};

use shearline::{NodeStatus, Redlock};

use crate::face::{Face, Which, over};
use crate::servers::{self, Cluster, LONG, STOOD_STILL_MAX, Server, watched};

/// Longer than a thousand rounds take: an operation that waited for the frozen node would exceed
/// it.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn a_thousand_locks_leave_no_key_while_one_node_of_five_is_frozen() {
    story(&servers::five(), 1_000);
}

/// Every operation succeeds, none waits for the frozen node, and it has no key when it goes on.
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
        // Its answers and its debts come first: before it has run what it was sent it has no key either.
        let mut raws = cluster.raws();
        servers::eventually("no node owes an answer or has a key", || {
            face.settle();
            let idle = |node: &NodeStatus| node.in_flight == 0 && node.owed == 0;
            let done = face.nodes().iter().all(idle);
            (done && raws.iter_mut().all(|raw| raw.keys() == 0)).then_some(())
        });
    }
}

/// How often the story below has to be observed.
const TURNS: u32 = 10;

/// The same with the default node timeout, which a lock must not depend on either. The lock is
/// still held when the node goes on.
#[test]
fn a_lock_outlives_a_node_that_freezes_and_goes_on() {
    let cluster = servers::five();
    let mut healthy = cluster[..4].iter().map(Server::raw).collect::<Vec<_>>();
    for which in Which::BOTH {
        let mut face = which.build(Redlock::builder().nodes(cluster.urls()));
        let mut seen = 0;
        for turn in 0.. {
            if seen == TURNS {
                break;
            }
            assert!(turn < 10 * TURNS, "something stands still in each turn");
            face.await_ready();
            let key = which.key(&format!("held:{turn}"));
            let (result, stood_still) = watched(&mut healthy, || {
                freezes_and_goes_on(&mut face, &cluster[4], &key)
            });
            cluster[4].thaw();
            face.assert_gone(&cluster, &key);
            match result {
                Ok(()) => seen += 1,
                Err(error) => assert!(STOOD_STILL_MAX / 2 < stood_still, "{error}"),
            }
        }
        cluster.assert_empty();
    }
}

/// Four of five nodes confirm every call, and then all do.
fn freezes_and_goes_on(face: &mut Face, server: &Server, key: &str) -> Result<(), String> {
    server.freeze();
    let lock = face.try_lock(key, LONG);
    let mut lock = lock.map_err(|error| error.to_string())?;
    let frozen = face.extend(&mut lock, LONG);
    server.thaw();
    let again = face.extend(&mut lock, LONG);
    let released = face.unlock(lock);
    frozen.and(again).map_err(|error| error.to_string())?;
    released.map(drop).map_err(|error| error.to_string())
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
