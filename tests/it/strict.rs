//! Nodes that carry markers, on real servers: what every client learns about a node that may have
//! forgotten or belongs to another group, and what an operator can do.

use std::time::Duration;

use shearline::internals::{BARRIER_KEY, MARKER_KEY};
use shearline::{
    Builder, Found, LockError, LockOptions, NodeOutcome, NodeState, NodeStatus, OperatorError,
    RestartGuard, Unusable,
};

use crate::contract::assert_held;
use crate::face::{Face, Which, at, no_quorum, over};
use crate::guard;
use crate::servers::{self, Cluster, LONG, Options, eventually, until};

/// The ttl of all clients in the stories that wait for a barrier.
const SHORT: Duration = Duration::from_secs(1);

fn strict(cluster: &Cluster, longest: Duration) -> Builder {
    let builder = over(cluster).restart_guard(RestartGuard::Strict);
    builder.max_ttl(longest)
}

/// Builds a face for which all nodes vote and have nothing in flight.
pub(crate) fn trusting(which: Which, builder: Builder) -> Face {
    let mut face = which.build(builder);
    let ready = |node: &NodeStatus| node.state == NodeState::Ready;
    until("all nodes vote", || {
        if !face.nodes().iter().all(ready) {
            face.trust_all();
        }
        face.settle();
        let nodes = face.nodes();
        nodes.iter().all(|node| ready(node) && node.in_flight == 0)
    });
    face
}

fn is_quarantined(face: &mut Face, node: usize) -> bool {
    match face.try_lock("probe", LONG) {
        Ok(lock) => {
            face.unlock(lock).expect("just granted");
            false
        }
        result => {
            let outcome = no_quorum(result).nodes()[node].outcome;
            matches!(outcome, NodeOutcome::Quarantined { .. })
        }
    }
}

#[test]
fn unused_nodes_wait_unless_an_operator_trusts_them() {
    not_with!(NoScripts, "a strict guard needs scripts");
    for options in [Options::redis(), Options::valkey()] {
        for which in Which::BOTH {
            let cluster = Cluster::with(3, &options);
            let mut face = which.build(strict(&cluster, LONG));
            let waits = |outcome| matches!(outcome, NodeOutcome::Quarantined { .. });
            until("all nodes have been heard, and wait", || {
                let report = no_quorum(face.try_lock("a", SHORT));
                let mut nodes = report.nodes().iter();
                nodes.all(|node| waits(node.outcome))
            });
            assert!(cluster[0].raw().exists(BARRIER_KEY));
            let told = face.inspect("a");
            assert_matches!(told, Err(OperatorError::NoQuorum(_)));
            assert_eq!(face.trust_all(), 3);
            assert_eq!(face.trust_all(), 3, "again");
            let mut lock = face.try_lock("a", SHORT * 10).expect("three vote");
            assert!(!cluster[0].raw().exists(BARRIER_KEY));
            face.extend(&mut lock, LONG).expect("held");
            face.confirm(&mut lock).expect("held");
            face.await_copies(&cluster, "a");
            assert_held(&face.inspect("a").expect("all count"), b"", 3);
            // Another client replaces the marker of one of them. The status shows it, and the node does not vote from
            // now on.
            let marker = [&b"SET"[..], MARKER_KEY, b"another"];
            cluster[0].raw().command(&marker);
            let told = face.inspect("a").expect("two count");
            assert_eq!(told.holder().expect("held").nodes, 2, "{told}");
            let first = &told.nodes()[0];
            assert_matches!(first.found, Found::Holder { .. }, "{told}");
            assert!(!first.counts && told.nodes()[1].counts, "{told}");
            drop(face.unlock(lock));
            face.assert_gone(&cluster, "a");
        }
    }
}

/// A lock that is known to be on disk when it is granted cannot be forgotten.
#[test]
fn a_node_that_writes_every_lock_to_disk_votes_at_once_when_it_is_back() {
    not_with!(
        Acl | NoScripts,
        "needs scripts, and +config|get besides, as the manual says"
    );
    let always = |fsync| {
        let arguments = ["--appendonly", "yes", "--appendfsync", fsync];
        [Options::redis(), Options::valkey()].map(|options| options.arguments(arguments))
    };
    let [redis, valkey] = always("always");
    let [everysec, _] = always("everysec");
    for (options, durable) in [(redis, true), (valkey, true), (everysec, false)] {
        for which in Which::BOTH {
            let mut cluster = Cluster::with(3, &options);
            let mut face = trusting(which, strict(&cluster, LONG));
            let lock = face.try_lock("a", LONG).expect("three vote");
            cluster[1].kill();
            cluster[0].restart();
            eventually(&format!("{options:?}, {which:?}"), || {
                face.settle();
                match durable {
                    true => face
                        .try_lock("b", LONG)
                        .ok()
                        .map(|lock| drop(face.unlock(lock))),
                    false => is_quarantined(&mut face, 0).then_some(()),
                }
            });
            assert!(face.try_lock("a", LONG).is_err(), "it is held");
            assert!(face.unlock(lock).is_ok());
        }
    }
}

/// The handle that asks first writes the marker again. The others find the new marker and the barrier, and later that
/// an operator has removed the barrier.
#[test]
fn every_handle_detects_a_flush() {
    not_with!(NoScripts, "a strict guard needs scripts");
    let mut cluster = servers::three();
    let mut faces = Which::BOTH.map(|which| trusting(which, strict(&cluster, LONG)));
    cluster[0].raw().run("FLUSHALL");
    cluster[1].kill();
    for face in &mut faces {
        assert!(is_quarantined(face, 0));
    }
    assert_eq!(faces[0].trust_all(), 2, "those that are connected");
    let lock = faces[0].try_lock("a", LONG).expect("two vote");
    faces[0].unlock(lock).expect("held");
    // The other handle asks whether the barrier still exists, long before it would have ended.
    let patient = LockOptions::new(LONG).wait(LONG);
    let lock = faces[1].lock_with("a", &patient).expect("two vote");
    faces[1].unlock(lock).expect("held");
}

#[test]
fn another_membership_gets_no_lock_until_it_reinitialises_the_nodes() {
    not_with!(NoScripts, "a strict guard needs scripts");
    for which in Which::BOTH {
        let mut cluster = Cluster::start(3);
        let two = |longest| {
            let urls = cluster.urls().into_iter().take(2);
            let builder = at(urls).max_ttl(longest);
            builder.restart_guard(RestartGuard::Strict)
        };
        let (two, three) = (two(SHORT), strict(&cluster, SHORT));
        let mut old = trusting(which, three);
        let mut new = which.build(two);
        let Err(LockError::OtherGroup(report)) = new.lock("a", SHORT) else {
            panic!("three are not two")
        };
        let other = Unusable::OtherGroup {
            nodes: 3,
            quorum: 2,
            name: false,
        };
        let mut outcomes = report.nodes().iter().map(|node| node.outcome);
        assert!(outcomes.any(|outcome| outcome == NodeOutcome::Unusable(other)));
        new.until("both say so", |face| {
            let mut nodes = face.nodes().into_iter();
            let other = NodeState::Unusable(other);
            nodes.all(|node| node.state == other)
        });
        assert_eq!(new.trust_all(), 0, "nor by an operator's word");

        cluster[1].kill();
        let error = eventually("it is known to be away", || {
            new.settle();
            match new.reinit() {
                Err(error @ OperatorError::NoQuorum(_)) => Some(error),
                _ => None,
            }
        });
        assert!(format!("{error:#}").contains("unreachable"), "{error:#}");
        cluster[1].restart();
        eventually("both are made its own", || {
            new.settle();
            new.reinit().ok()
        });
        let patient = LockOptions::new(SHORT).wait(LONG);
        let lock = new.lock_with("a", &patient).expect("behind the barrier");
        drop(new.unlock(lock));
        old.until("the old ones are refused", |face| {
            matches!(face.try_lock("a", SHORT), Err(LockError::OtherGroup(_)))
        });
    }
}

#[test]
fn nodes_that_forget_do_not_make_two_holders() {
    not_with!(NoScripts, "a strict guard needs scripts");
    guard::never_makes_two_holders(RestartGuard::Strict);
}
