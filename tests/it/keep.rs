//! Each kind of handle extends its kept locks while another client tries to take them.
//!
//! The stories of the engine (`engine::tests::keep`) check when and how often a lock is extended. Here a lock only has
//! to outlive its first end, if the machine is fast enough.

use std::thread;
use std::time::{Duration, Instant};

use shearline::{Lock, LockError, LockOptions, Redlock};

use crate::effort::with_a_ttl_that_lasts;
use crate::executor::block_on;
use crate::face::{Face, Held, Which, over, shared};
use crate::servers::{self, Cluster, LONG, Server, until};

/// Tries to take `key` until `held`, which is kept, has outlived its first end. No other client may get the lock while
/// it is valid. Returns `None` if it was lost before.
#[track_caller]
fn outlives_its_end(face: &mut Face, held: Held, key: &str, contender: &Redlock) -> Option<()> {
    let (first, given) = (held.valid_until(), held.validity());
    let begin = Instant::now();
    // The keys have ended when the drift is over too.
    let is_over = || given + given / 8 < begin.elapsed();
    loop {
        face.settle();
        let may_be_over = is_over();
        match contender.try_lock(key, LONG) {
            Ok(second) => {
                assert!(!held.is_valid(), "two holders of {key}: {held:?}");
                drop(second);
                return None;
            }
            Err(LockError::Held(_)) if may_be_over && held.is_valid() => break,
            Err(LockError::Held(_)) => {}
            // A busy machine.
            Err(LockError::NoQuorum(_) | LockError::TooSlow(_)) => {}
            Err(error) => panic!("another client: {error}"),
        }
        if !held.is_valid() {
            drop(face.unlock(held));
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(first < held.valid_until(), "an extension alone can do that");
    face.unlock(held).ok().map(drop)
}

/// Gets a lock that is kept.
type Taking = fn(&mut Face, &Cluster, &str, Duration) -> Result<Held, LockError>;

const TAKINGS: [(&str, Taking); 3] = [
    ("alone", |face, _, key, ttl| {
        face.lock_with(key, &LockOptions::new(ttl).keep())
    }),
    ("one of several", |face, _, key, ttl| {
        let names = [format!("{key}, too"), key.to_owned()];
        face.lock_all_with(names, &LockOptions::new(ttl).keep())
    }),
    // The lock is handed over as bytes, as to another process.
    ("handed over", |face, cluster, key, ttl| {
        let guard = shared(cluster).lock(key, ttl)?;
        let bytes = guard.into_lock().to_bytes();
        let mut held = face.adopt(Lock::from_bytes(&bytes).expect("a lock"));
        // On a busy machine the lock may have ended on the way.
        drop(face.keep_for(&mut held, LONG));
        Ok(held)
    }),
];

/// Checks that a lock of face `which` is kept, without a call or in the turns of that face.
fn is_kept(which: Which, cluster: &Cluster) {
    let contender = shared(cluster);
    let mut face = which.build(over(cluster));
    for (how, take) in TAKINGS {
        with_a_ttl_that_lasts(|ttl| {
            let key = which.key(&format!("{how} for {ttl:?}"));
            let held = take(&mut face, cluster, &key, ttl);
            let kept = outlives_its_end(&mut face, held.ok()?, &key, &contender);
            face.assert_gone(cluster, &key);
            kept
        });
    }
}

#[test]
fn a_guard_is_kept_whatever_the_threads_of_the_program_do() {
    is_kept(Which::Shared, &servers::three());
}

/// A task's lock is kept without a call; those of one thread and of a driver are kept in their turns.
#[test]
fn a_lock_of_each_other_face_is_kept() {
    thread::scope(|scope| {
        for which in [Which::Future, Which::Local, Which::Driver] {
            scope.spawn(move || is_kept(which, &servers::three()));
        }
    });
}

/// A quarter of the ttl is left, and the lock is still valid.
#[test]
fn a_lock_that_nobody_extends_is_at_risk_before_it_is_lost() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    with_a_ttl_that_lasts(|ttl| {
        let mut guard = redlock.try_lock("risk", ttl).ok()?;
        let (task, thread) = (guard.at_risk(), guard.at_risk());
        let early = guard.at_risk().below(ttl);
        assert!(early.is_at_risk() && early.wait(Duration::MAX));
        let is_early = task.is_at_risk() || thread.wait(Duration::ZERO);
        assert!(!is_early || guard.validity() <= ttl / 4 + Duration::from_millis(2));
        let waiting = thread::spawn(move || thread.wait(Duration::MAX));
        block_on(task);
        let left = guard.validity();
        assert!(left <= ttl / 4 + Duration::from_millis(2), "{left:?}");
        assert!(waiting.join().expect("it waits") && guard.at_risk().is_at_risk());
        // After an extension the alert waits again, and after a release it never comes.
        guard.extend(LONG).ok()?;
        let again = guard.at_risk();
        assert!(!again.is_at_risk());
        guard.unlock().expect("held");
        assert!(!again.is_at_risk() && !again.wait(Duration::MAX));
        Some(())
    });
}

#[test]
fn a_kept_lock_is_at_risk_when_no_node_answers_and_recovers() {
    let cluster = servers::three();
    with_a_ttl_that_lasts(|ttl| {
        let redlock = over(&cluster).node_timeout(ttl / 20).build();
        let redlock = redlock.expect("a good configuration");
        let key = format!("health for {ttl:?}");
        let guard = redlock
            .lock_with(&key, &LockOptions::new(ttl).keep())
            .ok()?;
        let health = guard.health();
        assert!(2 <= health.confirmed_by.len());
        assert_eq!(health.failures == 0, health.last_report.is_none());
        let (at_risk, lost) = (guard.at_risk(), guard.lost());
        cluster.iter().for_each(Server::freeze);
        block_on(at_risk);
        let health = guard.health();
        let is_late = ttl / 4 + Duration::from_millis(2) < health.validity;
        cluster.iter().for_each(Server::thaw);
        // An answer to an extension that the servers had already run may have come in between, or the first extension
        // may not have failed yet.
        if lost.is_lost() || is_late || health.failures == 0 {
            return None;
        }
        assert!(health.last_report.is_some());
        until("it is extended again, or over", || {
            let is_well = guard.health().failures == 0 && !guard.at_risk().is_at_risk();
            is_well || lost.is_lost()
        });
        guard.unlock().ok().map(drop)
    });
}

/// The handle keeps extending the lock by the lock's own ttl. The alert comes at a quarter of that ttl, not of the
/// longer one.
#[test]
fn a_kept_lock_that_was_extended_for_longer_is_not_at_risk_while_it_is_kept() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    with_a_ttl_that_lasts(|ttl| {
        let mut guard = redlock
            .lock_with("longer", &LockOptions::new(ttl).keep())
            .ok()?;
        guard.extend(5 * ttl).ok()?;
        let at_risk = guard.at_risk().below(5 * ttl);
        assert!(at_risk.wait(Duration::ZERO), "what was given is less");
        let at_risk = guard.at_risk();
        // Wait until less than a quarter of the longer ttl is left, but more than a quarter of its own.
        while ttl < guard.validity() {
            let is_early = at_risk.wait(ttl / 16);
            assert!(!is_early || guard.validity() <= ttl, "at once");
        }
        let was_at_risk = at_risk.is_at_risk();
        let is_in_time = ttl / 2 < guard.validity();
        assert!(!was_at_risk || !is_in_time, "{:?}", guard.validity());
        guard.unlock().ok().filter(|_| is_in_time).map(drop)
    });
}
