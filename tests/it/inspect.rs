//! Inspections: who holds a resource, and which nodes disagree.

use std::time::Duration;

use shearline::engine::Event;
use shearline::{Builder, Found, InspectError, Inspection, LockOptions, NodeOutcome, RestartGuard};

use crate::executor::block_on;
use crate::face::{Face, Which, await_ready, over, shared};
use crate::servers::{self, Cluster, LONG, Options, SILENT, eventually};

const MINUTE: Duration = Duration::from_secs(60);

/// What a token of another client may be.
const FOREIGN: &[u8] = b"\x01oreign-foreign-foreanother";

#[test]
fn an_inspection_says_who_holds_a_resource_and_which_nodes_disagree() {
    story(&servers::three());
}

pub(crate) fn story(cluster: &Cluster) {
    for which in Which::BOTH {
        let key = which.key("inspected");
        let mut face = which.build(over(cluster).owner("billing-7"));
        face.await_ready();
        let told = face.inspect(&key).expect("all answer");
        assert!(told.is_free() && told.holder().is_none());
        assert_eq!(found(&told), [Found::Free, Found::Free, Found::Free]);

        let lock = face.try_lock(&key, LONG).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        let told = face.inspect(&key).expect("all answer");
        assert_held(&told, b"billing-7", 3);
        // Another handle is told the same.
        let other = shared(cluster).inspect(&key).expect("all answer");
        assert_held(&other, b"billing-7", 3);

        // One node has lost it, or has another's.
        assert!(cluster[0].raw().del(key.as_bytes()));
        let told = face.inspect(&key).expect("all answer");
        assert_held(&told, b"billing-7", 2);
        assert_eq!(found(&told)[0], Found::Free);
        cluster[0].raw().set_px(key.as_bytes(), FOREIGN, MINUTE / 2);
        let told = face.inspect(&key).expect("all answer");
        assert_held(&told, b"billing-7", 2);
        let Found::Copy { owner, token, left } = &found(&told)[0] else {
            panic!("it has another token: {told}");
        };
        assert_eq!((&**owner, *token), (&b"another"[..], 0));
        assert!(!left.is_zero() && *left <= MINUTE / 2);

        // Two without an expiry.
        for server in &cluster[1..] {
            let command = [&b"PERSIST"[..], key.as_bytes()];
            assert_eq!(server.raw().integer(&command), 1);
        }
        let told = face.inspect(&key).expect("all answer");
        assert_eq!(told.holder().expect("held").valid_for, Duration::MAX);

        // Nothing was changed by any of that.
        assert_eq!(cluster[0].raw().get(key.as_bytes()), Some(FOREIGN.to_vec()));
        let token = Some(lock.token());
        assert_eq!(cluster.values(&key)[1..], [token.clone(), token]);
        assert_eq!(cluster[1].raw().pttl(key.as_bytes()), -1);

        // One key that no lock can be, and the lock is gone.
        drop(face.unlock(lock));
        assert!(cluster[0].raw().del(key.as_bytes()));
        face.assert_gone(cluster, &key);
        let command = [&b"LPUSH"[..], key.as_bytes(), b"x"];
        assert_eq!(cluster[1].raw().integer(&command), 1);
        let told = face.inspect(&key).expect("all answer");
        assert!(told.is_free());
        assert_eq!(found(&told)[1], Found::OtherType);
        assert!(cluster[1].raw().del(key.as_bytes()));
    }
}

#[track_caller]
fn assert_held(told: &Inspection, owner: &[u8], nodes: usize) {
    let holder = told.holder().expect("held");
    assert_eq!((&*holder.owner, holder.nodes), (owner, nodes), "{told}");
    assert!(
        MINUTE < holder.valid_for && holder.valid_for < LONG,
        "{told}"
    );
    let same = found(told).into_iter();
    let same = same.filter(|found| matches!(found, Found::Holder { left } if MINUTE < *left));
    assert_eq!(same.count(), nodes, "{told}");
    assert!(!told.is_free());
}

fn found(told: &Inspection) -> Vec<Found> {
    told.nodes().iter().map(|node| node.found.clone()).collect()
}

#[test]
fn a_task_and_an_event_loop_are_told_the_same() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    await_ready(|| redlock.nodes());
    let guard = redlock.try_lock("a", LONG).expect("free");
    eventually("all three have it", || {
        (cluster.copies("a") == 3).then_some(())
    });
    let told = block_on(redlock.inspect_async("a")).expect("all answer");
    assert_held(&told, b"", 3);
    assert!(
        block_on(redlock.inspect_async("b"))
            .expect("all answer")
            .is_free()
    );
    // Dropped at the first poll, it leaves nothing behind.
    drop(redlock.inspect_async("a"));
    let refused = block_on(redlock.inspect_async(""));
    assert!(
        matches!(refused, Err(InspectError::Invalid(_))),
        "{refused:?}"
    );

    let mut driver = over(&cluster).build_driver().expect("valid");
    await_ready(|| {
        driver
            .turn(Some(Duration::from_millis(1)))
            .expect("it turns");
        driver.nodes()
    });
    let round = driver.inspect(b"a").expect("asked");
    let told = loop {
        driver.turn(None).expect("it turns");
        if let Some(Event::Inspected { round: of, result }) = driver.poll_event() {
            assert_eq!(of, round);
            break result.expect("all answer");
        }
    };
    assert_held(&told, b"", 3);
    driver.shut_down(Duration::ZERO);
    assert!(matches!(driver.inspect(b"a"), Err(InspectError::Closed)));
    guard.unlock().expect("held");
}

#[test]
fn a_silent_minority_is_waited_for_and_a_silent_majority_is_an_error() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("silent");
        let mut face = which.build(over(&cluster).node_timeout(SILENT));
        face.await_ready();
        cluster[2].freeze();
        let told = face.inspect(&key).expect("two of three");
        assert!(told.is_free());
        let unknown = Found::Unknown(NodeOutcome::TimedOut);
        assert_eq!(found(&told), [Found::Free, Found::Free, unknown]);
        cluster[1].freeze();
        let result = face.inspect(&key);
        let Err(InspectError::NoQuorum(report)) = result else {
            panic!("one of three: {result:?}");
        };
        assert_eq!(report.nodes()[0].outcome, NodeOutcome::Granted);
        cluster[1].thaw();
        cluster[2].thaw();
    }
}

#[test]
fn with_a_strict_guard_nodes_that_do_not_vote_are_shown_and_do_not_count() {
    not_with!(NoScripts, "a strict guard needs scripts");
    for options in [Options::redis(), Options::valkey()] {
        let cluster = Cluster::with(3, &options);
        for which in Which::BOTH {
            let key = which.key("strict");
            let mut face = which.build(strict(&cluster));
            if which == Which::Shared {
                let result = face.inspect(&key);
                assert!(
                    matches!(result, Err(InspectError::NoQuorum(_))),
                    "{result:?}"
                );
            }
            assert_eq!(face.trust_all(), 3);
            let told = face.inspect(&key).expect("all count");
            assert!(told.is_free(), "{told}");
            let lock = face.try_lock(&key, LONG).expect("free");
            eventually("all three have it", || {
                face.settle();
                (cluster.copies(&key) == 3).then_some(())
            });
            assert_held(&face.inspect(&key).expect("all count"), b"", 3);
            // The marker of one of them is another's: its answer does not count from now on.
            let marker = [&b"SET"[..], shearline::MARKER_KEY, b"another"];
            cluster[0].raw().command(&marker);
            let told = face.inspect(&key).expect("two count");
            assert_held_by(&told, 2);
            drop(face.unlock(lock));
            face.assert_gone(&cluster, &key);
            let reset = [&b"DEL"[..], shearline::MARKER_KEY];
            cluster[0].raw().command(&reset);
        }
    }
}

#[track_caller]
fn assert_held_by(told: &Inspection, nodes: usize) {
    assert_eq!(told.holder().expect("held").nodes, nodes, "{told}");
    assert!(
        matches!(found(told)[0], Found::Holder { .. }),
        "it is shown: {told}"
    );
    assert!(!told.nodes()[0].counts && told.nodes()[1].counts);
}

fn strict(cluster: &Cluster) -> Builder {
    over(cluster)
        .restart_guard(RestartGuard::Strict)
        .max_ttl(LONG)
}

/// An inspection holds no lock: who waits for one is not delayed by it.
#[test]
fn inspections_beside_each_other_and_beside_locks_disturb_nothing() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let told = redlock.inspect("busy").expect("all answer");
                    assert!(told.nodes().iter().all(|node| node.counts), "{told}");
                }
            });
        }
        for _ in 0..50 {
            let options = LockOptions::new(LONG);
            let guard = redlock.lock_with("busy", &options).expect("alone");
            guard.unlock().expect("held");
        }
    });
    cluster.assert_gone("busy");
    let mut face = Face::Shared(redlock);
    assert!(face.inspect("busy").expect("all answer").is_free());
}
