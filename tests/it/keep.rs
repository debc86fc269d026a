//! Locks that are kept: each face extends them while another client tries to take them.
//!
//! When and how often a lock is extended is told by the stories of the engine (`engine::tests::keep`). Here
//! it is seen to outlive its first end, for as long as this machine gives it time to.

use std::thread;
use std::time::{Duration, Instant};

use shearline::{Lock, LockError, LockGuard, LockOptions, NodeState, Redlock, RestartGuard};

use crate::effort::with_a_ttl_that_lasts;
use crate::executor::block_on;
use crate::face::{Face, Held, Which, over, shared};
use crate::servers::{self, Cluster, LONG, Server, eventually};

/// Tries to take `key` until `held`, which is kept, has outlived the end that it had at first. Returns `None`
/// if it was lost before: nobody else may have the lock while it is valid.
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
    // As another process does: as bytes.
    ("handed over", |face, cluster, key, ttl| {
        let guard = shared(cluster).lock(key, ttl)?;
        let bytes = guard.into_lock().to_bytes();
        let mut held = face.adopt(Lock::from_bytes(&bytes).expect("a lock"));
        // On a busy machine it may have ended on the way.
        drop(face.keep_for(&mut held, LONG));
        Ok(held)
    }),
];

/// A lock of `which` face is kept while nothing is called, or in its turns.
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

#[test]
fn a_guard_that_was_taken_by_a_task_is_kept() {
    is_kept(Which::Future, &servers::three());
}

#[test]
fn a_lock_of_one_thread_is_kept_in_its_polls() {
    is_kept(Which::Local, &servers::three());
}

#[test]
fn a_lock_of_a_driver_is_kept_in_its_turns() {
    is_kept(Which::Driver, &servers::three());
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
    let (mut face, contender) = (Face::Shared(redlock.clone()), shared(&cluster));
    with_a_ttl_that_lasts(|ttl| {
        let key = format!("strict for {ttl:?}");
        let taken = redlock.lock_with(&key, &LockOptions::new(ttl).keep());
        cluster[0].freeze();
        let held = taken.ok().map(Held::Guard);
        let kept = held.and_then(|held| outlives_its_end(&mut face, held, &key, &contender));
        cluster[0].thaw();
        cluster.assert_gone(&key);
        kept
    });
}

/// Each of them forgets the lock, gets it again with an extension, and counts again.
#[test]
fn a_guard_is_kept_while_one_node_after_the_other_restarts() {
    let mut cluster = servers::three();
    with_a_ttl_that_lasts(|ttl| {
        let redlock = over(&cluster)
            .node_timeout(ttl / 8)
            .max_ttl(ttl)
            .restart_guard(RestartGuard::Observed)
            .build()
            .expect("a good configuration");
        eventually("every node votes", || all_vote(&redlock).then_some(()));
        let guard = redlock.lock_with("restarts", &LockOptions::new(ttl).keep());
        let guard = guard.ok()?;
        let kept = each_restarts(&mut cluster, &redlock, &guard);
        let released = guard.unlock().is_ok();
        cluster.assert_gone("restarts");
        kept.filter(|()| released)
    });
}

/// Returns `None` if the lock was lost meanwhile.
fn each_restarts(cluster: &mut Cluster, redlock: &Redlock, guard: &LockGuard) -> Option<()> {
    let lost = guard.lost();
    // Returns `true` if it waits no longer, because the lock is lost.
    let await_or_lost = |what: &str, mut is: Box<dyn FnMut() -> bool + '_>| {
        eventually(what, || (lost.is_lost() || is()).then_some(()));
        lost.is_lost()
    };
    // A first lock may stand on a bare majority, which does not outlive a restart of one of its nodes.
    let is_everywhere = |cluster: &Cluster| cluster.copies("restarts") == 3;
    if await_or_lost("every node has it", Box::new(|| is_everywhere(cluster))) {
        return None;
    }
    for node in 0..3 {
        let before = redlock.nodes()[node].run_id.clone();
        cluster[node].restart();
        let is_met = || {
            let run_id = &redlock.nodes()[node].run_id;
            run_id.is_some() && *run_id != before
        };
        let votes_with_its_copy = || all_vote(redlock) && is_everywhere(cluster);
        if await_or_lost("it is met again", Box::new(is_met))
            || await_or_lost("it votes, and has the lock", Box::new(votes_with_its_copy))
        {
            return None;
        }
        let value = cluster.values("restarts").swap_remove(node);
        assert_eq!(value.as_deref(), Some(guard.token().as_bytes()));
    }
    guard.is_valid().then_some(())
}

/// Returns `true` if the answers of every node count.
fn all_vote(redlock: &Redlock) -> bool {
    let nodes = redlock.nodes();
    nodes.iter().all(|node| node.state == NodeState::Ready)
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
        // After an extension it waits again, and after a release it never comes.
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
        // An extension that the servers had already run may have come in between, or the first one may not have
        // failed yet.
        if lost.is_lost() || is_late || health.failures == 0 {
            return None;
        }
        assert!(health.last_report.is_some());
        eventually("it is extended again, or over", || {
            let is_well = guard.health().failures == 0 && !guard.at_risk().is_at_risk();
            (is_well || lost.is_lost()).then_some(())
        });
        guard.unlock().ok().map(drop)
    });
}

/// The nodes end it by themselves: nobody extends it any more.
#[test]
fn a_guard_is_lost_at_the_limit() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    with_a_ttl_that_lasts(|ttl| {
        let options = LockOptions::new(ttl).keep_for(2 * ttl);
        let guard = redlock.lock_with("limit", &options).ok()?;
        let first = guard.valid_until();
        assert!(guard.lost().wait(Duration::MAX), "it has a limit");
        cluster.assert_gone("limit");
        assert!(!guard.is_valid());
        (first < guard.valid_until()).then_some(())
    });
}

/// The handle goes on extending it by its own ttl: a quarter of that is the alert, not of the other.
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
        // Less than a quarter of what it was extended by, and more than one of its own ttl.
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
