//! Work under a lock, and what it returns if the lock is lost meanwhile.

use alloc::borrow::ToOwned;

use super::*;
use crate::error::UnlockError;
use crate::{LockLost, WithLockError};

/// An executor with many threads can run it.
fn is_sent(_: &impl Send) {}

#[test]
fn work_under_a_lock_returns_its_value_unless_the_lock_is_lost() {
    let (world, redlock) = World::start();
    let options = LockOptions::new(LONG);
    let here = |guard: &mut LockGuard| guard.resource().to_owned();
    assert_eq!(redlock.with_lock("a", &options, here).unwrap(), b"a");
    let there = async |guard: &mut LockGuard| guard.resource().to_owned();
    let done = redlock.with_lock_async("a", &options, there);
    is_sent(&done);
    let done = block_on(done);
    assert_eq!(done.unwrap(), b"a");
    world.assert_gone("a");
    let loses = |_: &mut LockGuard| {
        let removed = world.nodes.iter().filter(|node| node.remove("a"));
        assert!(2 <= removed.count());
    };
    let error = redlock.with_lock("a", &options, loses).unwrap_err();
    assert_matches!(error, WithLockError::Lost(UnlockError::NotHeld(_)));
    assert!(!error.is_held() && !error.is_retryable());
    assert_eq!(error.to_string(), "lock `a` was no longer held");
    let _held = redlock.lock("a", LONG).unwrap();
    let error: Result<(), _> = world
        .redlock()
        .with_lock("a", &options.tries(1), |_| panic!("it is held"));
    let error = error.unwrap_err();
    assert_matches!(error, WithLockError::NotTaken(LockError::Held(_)));
    assert!(error.is_held() && error.is_retryable());
}

#[test]
fn work_that_is_unlocked_without_an_answer_has_its_value() {
    let world = World::new();
    let redlock = world.builder().node_timeout(20 * MS).build().unwrap();
    let done = redlock.with_lock("a", &LockOptions::new(LONG), |_| world.pause());
    assert_matches!(done, Ok(()));
    world.resume();
}

#[test]
fn a_future_runs_while_the_lock_is_held() {
    struct Dropped<'a>(&'a AtomicBool);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let (_world, redlock) = World::start();
    let guard = short_lock(&redlock, "a", 300 * MS, |options| options);
    assert_eq!(block_on(guard.while_held(async { 7 })), Ok(7));
    let dropped = AtomicBool::new(false);
    let work = async {
        let _dropped = Dropped(&dropped);
        core::future::pending::<()>().await;
    };
    let error = block_on(guard.while_held(work)).unwrap_err();
    assert!(dropped.load(Ordering::SeqCst) && guard.lost().is_lost());
    assert_eq!(error, LockLost(b"a"[..].into()));
    assert_eq!(
        error.to_string(),
        "lock `a`: lost before the work had ended"
    );
    let whole = "lock `a`: lost before the work had ended, so the work was dropped; see what it left half done, and \
                 take the lock again";
    assert_eq!(alloc::format!("{error:#}"), whole);
    assert_eq!(alloc::format!("{error:?}"), "LockLost(a)");
    // Work that has begun too late does not begin.
    let never = async { panic!("the lock is lost") };
    assert_matches!(block_on(guard.while_held(never)), Err::<(), _>(_));
}

#[test]
fn a_handle_is_connected_without_a_thread_that_waits() {
    let world = World::new();
    let urls = world.nodes.iter().map(EmbeddedNode::url);
    let redlock = block_on(Redlock::connect_async(urls)).unwrap();
    redlock.lock("a", LONG).unwrap().unlock().unwrap();
}
