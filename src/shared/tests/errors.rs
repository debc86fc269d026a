//! The texts of errors name the lock, and in their short form no node.

use super::*;
use crate::engine::operators::OperatorError;
use crate::error::{ExtendError, UnlockError};
use crate::local::LocalRedlock;

impl World {
    fn remove(&self, key: &str) {
        let removed = self.nodes.iter().filter(|node| node.remove(key));
        assert_ne!(removed.count(), 0);
    }

    fn impatient(&self) -> Builder {
        self.builder()
            .node_timeout(20 * MS)
            .retry(Retry::new(1, MS..=MS))
    }
}

/// Checks both texts of an error about the lock "a": the short one names no node, the long one names each.
#[track_caller]
fn says(error: impl core::fmt::Display, short: &str, long: &str) {
    let (said, all) = (format!("{error}"), format!("{error:#}"));
    assert_eq!(said, short);
    assert!(!said.contains("127.0.0.1:"), "{said}");
    assert!(all.starts_with(short) && all.contains(long), "{all}");
    assert!(all.contains("127.0.0.1:"), "{all}");
}

#[test]
fn a_refusal_names_its_lock() {
    let (world, redlock) = World::start();
    let guard = redlock.lock("a", LONG).unwrap();
    let error = world.redlock().try_lock("a", LONG).unwrap_err();
    assert_eq!(error.resource(), Some(&b"a"[..]));
    assert!(error.is_held() && error.is_retryable());
    says(error, "lock `a`: held by another client", " votes needed (");
    let once = LockOptions::new(LONG).tries(1);
    let error = redlock.lock_all_with(["b", "a"], &once).unwrap_err();
    let text = error.to_string();
    let begin = "lock `b` and another: `a` is held by this handle for another ";
    assert!(text.starts_with(begin), "{text}");
    drop(guard);
    let redlock = world.impatient().build().unwrap();
    world.pause();
    let error = redlock.try_lock("a", LONG).unwrap_err();
    assert!(!error.is_held() && error.is_retryable());
    let short = "lock `a`: too few nodes could vote";
    says(error, short, "no lock was taken");
}

#[test]
fn a_loss_names_its_lock() {
    // With one node, nothing is known about the lock any more after this node has answered.
    for nodes in [3, 1] {
        let world = World::new();
        let urls = || world.nodes[..nodes].iter().map(EmbeddedNode::url);
        let redlock = Redlock::builder().nodes(urls()).build().unwrap();
        let mut local = LocalRedlock::connect(urls()).unwrap();
        let lost = "lock `a` was lost";
        let lost_guard = || {
            let guard = redlock.lock("a", LONG).unwrap();
            world.remove("a");
            guard
        };
        let error = lost_guard().confirm().unwrap_err();
        assert_matches!(error, ExtendError::Lost(_));
        says(error, lost, "its key is gone");
        let error = lost_guard().extend(LONG).unwrap_err();
        assert_matches!(error, ExtendError::Lost(_));
        says(error, lost, "stop the work that the lock protects");
        let unlocked = lost_guard().unlock();
        for unlocked in [unlocked, block_on(lost_guard().unlock_async())] {
            let error = unlocked.unwrap_err();
            assert!(!error.is_harmless());
            assert_eq!(error.resource(), Some(&b"a"[..]));
            says(error, "lock `a` was no longer held", "may have overlapped");
        }
        let lock = local.lock("a", LONG).unwrap();
        world.remove("a");
        let error = local.unlock(lock).unwrap_err();
        assert_eq!(error.to_string(), "lock `a` was no longer held");
    }
}

/// The last node to answer may or may not have the lock. Many locks are lost at once.
#[test]
fn a_lock_that_one_node_still_has_is_named_too() {
    let (world, redlock) = World::start();
    let names: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    for has_it in 0..3 {
        let locks = names.iter().map(|name| redlock.lock(name, LONG).unwrap());
        let locks: Vec<_> = locks.collect();
        eventually("all have them", || {
            names.iter().all(|name| world.copies(name) == 3)
        });
        for (number, node) in world.nodes.iter().enumerate() {
            assert!(number == has_it || names.iter().all(|name| node.remove(name)));
        }
        let ended: Vec<_> = locks.into_iter().map(LockGuard::unlock_async).collect();
        for (name, ended) in names.iter().zip(ended) {
            let text = block_on(ended).unwrap_err().to_string();
            assert_eq!(text, format!("lock `{name}` was no longer held"));
        }
    }
}

/// The handle does not serve the caller in time, so no answer is known.
#[test]
fn a_call_that_ends_by_its_own_clock_names_its_lock() {
    let world = World::new();
    let redlock = world.impatient().build().unwrap();
    let guards = ["a", "b"].map(|name| redlock.lock(name, LONG).unwrap());
    let stalled = stall(&redlock);
    let [mut guard, other] = guards;
    says(
        guard.extend(LONG).unwrap_err(),
        "lock `a`: too few nodes confirmed that it is held",
        "try again before the deadline",
    );
    let error = other.unlock().unwrap_err();
    assert!(error.is_harmless());
    says(error, "lock `b`: too few nodes confirmed its release", "");
    let error = redlock.inspect("c").unwrap_err();
    assert_matches!(error, OperatorError::NoQuorum(_));
    says(
        error,
        "lock `c`: it is not known who holds it",
        " answers needed (",
    );
    let error = redlock.try_lock("d", LONG).unwrap_err();
    assert_eq!(error.to_string(), "lock `d`: too few nodes could vote");
    drop(stalled);
}

#[test]
fn an_unlock_that_is_only_unconfirmed_harms_nobody_while_the_lock_is_valid() {
    let world = World::new();
    let redlock = world.impatient().build().unwrap();
    let guard = redlock.lock("a", LONG).unwrap();
    let short = short_lock(&redlock, "b", 300 * MS, |options| options);
    world.pause();
    let error = guard.unlock().unwrap_err();
    assert_matches!(error, UnlockError::Unconfirmed(_));
    assert!(error.is_harmless());
    says(
        error,
        "lock `a`: too few nodes confirmed its release",
        "is repeated until",
    );
    eventually("it is over", || short.valid_until() <= clock::now());
    let error = short.unlock().unwrap_err();
    assert!(!error.is_harmless(), "{error:#}");
    world.resume();
}

#[test]
fn an_inspection_has_no_grants() {
    let world = World::new();
    let redlock = world.impatient().build().unwrap();
    world.nodes[..2]
        .iter()
        .for_each(|node| node.pause().unwrap());
    let error = redlock.inspect("a").unwrap_err();
    let report = error.report().unwrap().to_string();
    assert!(
        report.contains(" answered") && !report.contains("granted"),
        "{report}"
    );
    says(
        error,
        "lock `a`: it is not known who holds it",
        "1 of the 2 answers needed",
    );
    world.resume();
    let redlock = world.redlock();
    let error = redlock.break_lock("a").unwrap_err();
    assert_matches!(error, OperatorError::NotHeld(_));
    assert_eq!(error.resource(), Some(&b"a"[..]));
    says(error, "lock `a`: no client holds it", "nothing was changed");
    let reader = redlock.lock_shared("a", LONG).unwrap();
    let error = redlock.break_lock("a").unwrap_err();
    assert_matches!(error, OperatorError::NotHeld(_));
    says(
        error,
        "lock `a`: shared locks and permits cannot be broken",
        ", so nothing was changed: shared ",
    );
    drop(reader);
}
