//! Locks that are kept: each face extends them while another client tries to take them.

use std::thread;
use std::time::{Duration, Instant};

use shearline::engine::Event;
use shearline::{
    ExtendError, Lock, LockError, LockGuard, LockOptions, NodeState, Redlock, RestartGuard, Retry,
};

use crate::executor::block_on;
use crate::face::over;
use crate::servers::{self, Cluster, eventually};

/// Half of its validity is longer than a busy machine stands still.
const TTL: Duration = Duration::from_secs(4);

/// A shared handle that takes an answer for one also where it comes late: on a busy machine three servers
/// may need more than the 10 ms of such a ttl, again and again.
#[track_caller]
fn patient(cluster: &Cluster) -> Redlock {
    let redlock = over(cluster).node_timeout(TTL / 8).build();
    redlock.expect("a good configuration")
}

const KEPT: LockOptions = LockOptions::new(TTL).keep();

/// Runs `hold`, which returns after three ttls, while another handle tries to take `key` all the
/// time. It must not get it.
#[track_caller]
fn against_a_contender<T>(cluster: &Cluster, key: &str, hold: impl FnOnce() -> T) -> T {
    let contender = over(cluster)
        .retry(Retry::new(1, Duration::ZERO..=Duration::ZERO))
        .node_timeout(TTL / 8)
        .build()
        .expect("a good configuration");
    thread::scope(|scope| {
        let contending = scope.spawn(move || {
            let end = Instant::now() + 3 * TTL - TTL / 10;
            let mut tries = 0;
            while Instant::now() < end {
                match contender.try_lock(key, TTL) {
                    Err(LockError::Held(_)) => tries += 1,
                    Err(LockError::NoQuorum(_)) => {} // A busy machine.
                    other => panic!("another client: {other:?}"),
                }
                thread::sleep(Duration::from_millis(5));
            }
            tries
        });
        let held = hold();
        assert!(contending.join().expect("never got it") > 10);
        held
    })
}

/// Takes `key` on `redlock`, and does nothing at all for three ttls.
#[track_caller]
fn is_held_while_nothing_is_called(redlock: &Redlock, cluster: &Cluster, key: &str) -> LockGuard {
    let guard = redlock.lock_with(key, &KEPT).expect("free");
    let lost = guard.lost();
    against_a_contender(cluster, key, || thread::sleep(3 * TTL));
    assert!(guard.is_valid() && !lost.is_lost());
    assert!(TTL / 4 < guard.validity(), "{:?}", guard.validity());
    guard
}

#[test]
fn a_guard_is_kept_whatever_the_threads_of_the_program_do() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let guard = is_held_while_nothing_is_called(&redlock, &cluster, "shared");
    assert!(2 <= guard.unlock().expect("held").deleted);
    cluster.assert_gone("shared");
}

#[test]
fn a_guard_that_was_taken_by_a_task_is_kept_until_it_is_dropped() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let guard = block_on(redlock.lock_with_async("task", &KEPT)).expect("free");
    against_a_contender(&cluster, "task", || thread::sleep(3 * TTL));
    assert!(guard.is_valid());
    drop(guard);
    cluster.assert_gone("task");
    thread::sleep(TTL);
    cluster.assert_gone("task");
}

#[test]
fn a_guard_is_kept_with_the_strict_guard_while_a_node_is_stopped() {
    not_with!(NoScripts, "a strict guard needs scripts");
    let cluster = servers::three();
    let redlock = over(&cluster)
        .restart_guard(RestartGuard::Strict)
        .build()
        .expect("a good configuration");
    redlock.trust_nodes();
    let guard = redlock.lock_with("strict", &KEPT).expect("free");
    cluster[0].freeze();
    thread::sleep(3 * TTL);
    assert!(guard.is_valid());
    cluster[0].thaw();
    assert!(2 <= guard.unlock().expect("held").deleted);
}

/// Each of them forgets the lock, gets it again with an extension, and counts again.
#[test]
fn a_guard_is_kept_while_one_node_after_the_other_restarts() {
    let mut cluster = servers::three();
    let redlock = over(&cluster)
        .node_timeout(TTL / 16)
        .max_ttl(TTL / 2)
        .restart_guard(RestartGuard::Observed)
        .build()
        .expect("a good configuration");
    eventually("every node votes", || all_vote(&redlock));
    let guard = redlock.lock_with("restarts", &LockOptions::new(TTL / 2).keep());
    let guard = guard.expect("free");
    let lost = guard.lost();
    // A first lock may stand on a bare majority, which does not outlive a restart of one of its nodes.
    eventually("every node has the lock", || {
        (cluster.copies("restarts") == 3).then_some(())
    });
    for node in 0..3 {
        let before = redlock.nodes()[node].run_id.clone();
        cluster[node].restart();
        eventually("it is met again", || {
            let run_id = &redlock.nodes()[node].run_id;
            (run_id.is_some() && *run_id != before).then_some(())
        });
        eventually("every node votes", || all_vote(&redlock));
        eventually("it has the lock again", || {
            let value = cluster.values("restarts").swap_remove(node)?;
            (value == guard.token().as_bytes()).then_some(())
        });
    }
    assert!(guard.is_valid() && !lost.is_lost());
    assert_eq!(cluster.copies("restarts"), 3);
    assert!(2 <= guard.unlock().expect("held").deleted);
    cluster.assert_gone("restarts");
}

/// Returns `Some` if the answers of every node count.
fn all_vote(redlock: &Redlock) -> Option<()> {
    let nodes = redlock.nodes();
    nodes
        .iter()
        .all(|node| node.state == NodeState::Ready)
        .then_some(())
}

#[test]
fn a_lock_of_one_thread_is_kept_in_its_polls() {
    let cluster = servers::three();
    let mut local = over(&cluster).build_local().expect("a good configuration");
    let lock = local.lock_with("local", &KEPT).expect("free");
    let first = lock.valid_until();
    against_a_contender(&cluster, "local", || {
        let end = Instant::now() + 3 * TTL;
        while Instant::now() < end {
            let told = local.poll(Some(TTL / 20)).expect("the loop turns");
            assert!(told.is_none(), "{told:?}");
        }
    });
    assert!(lock.is_valid() && first < lock.valid_until());
    assert!(2 <= local.unlock(lock).expect("held").deleted);
}

#[test]
fn a_lock_of_a_driver_is_kept_in_its_turns() {
    let cluster = servers::three();
    let mut driver = over(&cluster).build_driver().expect("a good configuration");
    driver.acquire(b"driver", &KEPT).expect("asked");
    let lock = eventually("it is taken", || {
        driver.turn(Some(TTL / 20)).expect("it turns");
        match driver.poll_event()? {
            Event::Acquired { result, .. } => Some(result.expect("free")),
            other => panic!("{other:?}"),
        }
    });
    let mut extensions = 0;
    against_a_contender(&cluster, "driver", || {
        let end = Instant::now() + 3 * TTL;
        while Instant::now() < end {
            driver.turn(Some(TTL / 20)).expect("it turns");
            while let Some(event) = driver.poll_event() {
                match event {
                    Event::Kept { lock: kept, result } if kept == lock.id() => {
                        assert_eq!(lock.valid_until(), result.expect("extended"));
                        extensions += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    assert!(lock.is_valid() && 3 <= extensions, "{extensions}");
    driver.release(lock).expect("it is open");
    driver.flush();
}

/// It goes from face to face as bytes, as to another process.
#[test]
fn a_lock_that_was_handed_over_is_kept_by_each_face_from_then_on() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let guard = redlock.lock("heir", TTL).expect("free");
    let bytes = guard.into_lock().to_bytes();

    let mut local = over(&cluster).build_local().expect("a good configuration");
    let mut lock = local.adopt(Lock::from_bytes(&bytes).expect("a lock"));
    local.keep(&mut lock).expect("valid");
    let end = Instant::now() + 2 * TTL;
    while Instant::now() < end {
        let told = local.poll(Some(TTL / 20)).expect("the loop turns");
        assert!(told.is_none(), "{told:?}");
    }
    assert!(lock.is_valid());
    let bytes = local.detach(lock).to_bytes();

    let mut driver = over(&cluster).build_driver().expect("a good configuration");
    let mut lock = driver.adopt(Lock::from_bytes(&bytes).expect("a lock"));
    driver.keep(&mut lock).expect("valid");
    let end = Instant::now() + 2 * TTL;
    while Instant::now() < end {
        driver.turn(Some(TTL / 20)).expect("it turns");
    }
    assert!(lock.is_valid());
    let bytes = driver.detach(lock).to_bytes();

    let mut guard = redlock.adopt(Lock::from_bytes(&bytes).expect("a lock"));
    guard.keep_for(2 * TTL).expect("valid");
    thread::sleep(3 * TTL / 2);
    assert!(guard.is_valid());
    assert!(guard.lost().wait(TTL), "at its limit");
    assert!(matches!(guard.keep(), Err(ExtendError::Expired)));
}

/// A quarter of the ttl is left, and the lock is still valid.
#[test]
fn a_lock_that_nobody_extends_is_at_risk_before_it_is_lost() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let mut guard = redlock.try_lock("risk", TTL).expect("free");
    let (task, thread) = (guard.at_risk(), guard.at_risk());
    let early = guard.at_risk().below(TTL);
    assert!(early.is_at_risk() && early.wait(Duration::MAX));
    assert!(!task.is_at_risk() && !thread.wait(Duration::ZERO));
    let waiting = thread::spawn(move || thread.wait(Duration::MAX));
    block_on(task);
    let left = guard.validity();
    assert!(left <= TTL / 4 + Duration::from_millis(2), "{left:?}");
    assert!(waiting.join().expect("it waits"));
    assert!(guard.at_risk().is_at_risk() && !guard.lost().is_lost());
    // After an extension it waits again, and after a release it never comes.
    guard.extend(TTL).expect("held");
    let again = guard.at_risk();
    assert!(!again.is_at_risk());
    guard.unlock().expect("held");
    assert!(!again.is_at_risk() && !again.wait(Duration::MAX));
}

#[test]
fn a_kept_lock_is_at_risk_when_no_node_answers_and_recovers() {
    let cluster = servers::three();
    let redlock = over(&cluster)
        .node_timeout(TTL / 40)
        .build()
        .expect("a good configuration");
    let kept = LockOptions::new(2 * TTL).keep();
    let guard = redlock.lock_with("health", &kept).expect("free");
    let health = guard.health();
    assert!(2 <= health.confirmed_by.len() && health.failures == 0);
    assert!(health.last_report.is_none());
    let (at_risk, lost) = (guard.at_risk(), guard.lost());
    assert!(!guard.at_risk().wait(4 * TTL), "two ttls long");
    cluster.iter().for_each(servers::Server::freeze);
    block_on(at_risk);
    let health = guard.health();
    assert!(health.failures != 0 && health.validity <= TTL / 2 + Duration::from_millis(2));
    assert!(health.last_report.is_some());
    let was_lost = lost.is_lost();
    cluster.iter().for_each(servers::Server::thaw);
    assert!(!was_lost);
    eventually("it is extended again", || {
        (guard.health().failures == 0 && !guard.at_risk().is_at_risk()).then_some(())
    });
    guard.unlock().expect("held");
}

#[test]
fn a_guard_is_lost_at_the_limit_and_not_before() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let most = 3 * TTL;
    let before = Instant::now();
    let guard = redlock
        .lock_with("limit", &LockOptions::new(TTL).keep_for(most))
        .expect("free");
    assert!(guard.lost().wait(Duration::MAX));
    let lasted = before.elapsed();
    assert!(!guard.is_valid());
    assert!(most - TTL / 10 < lasted, "{lasted:?}");
    // The nodes end it by themselves: nobody extends it any more.
    cluster.assert_gone("limit");
}

/// The handle goes on extending it by its own ttl: a quarter of that is the alert, not of the other.
#[test]
fn a_kept_lock_that_was_extended_for_longer_is_not_at_risk_while_it_is_kept() {
    let cluster = servers::three();
    let redlock = patient(&cluster);
    let mut guard = redlock.lock_with("longer", &KEPT).expect("free");
    guard.extend(5 * TTL).expect("held");
    let at_risk = guard.at_risk().below(5 * TTL);
    assert!(at_risk.wait(Duration::ZERO), "what was given is less");
    let at_risk = guard.at_risk();
    let end = Instant::now() + 7 * TTL;
    while Instant::now() < end {
        assert!(!at_risk.wait(TTL / 4), "{:?} left", guard.validity());
    }
    guard.unlock().expect("held");
}
