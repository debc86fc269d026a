//! Many threads on one handle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shearline::{LockOptions, Retry};

use crate::face::over;
use crate::servers::{self, LONG};

const THREADS: u64 = 64;

/// Only the lock protects the counter: each thread reads it, lets others run, and writes the value plus one.
#[test]
fn sixty_four_threads_on_one_key_lose_no_count() {
    let cluster = servers::five();
    let redlock = over(&cluster)
        .retry(Retry::new(
            1,
            Duration::from_millis(1)..=Duration::from_millis(20),
        ))
        .build()
        .expect("valid");
    let options = LockOptions::new(LONG).wait(Duration::from_secs(100));
    let (counter, inside) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let redlock = redlock.clone();
            scope.spawn(|| {
                let redlock = redlock;
                for _ in 0..5 {
                    let guard = redlock.lock_with("one", &options).expect("in its turn");
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                    let counted = counter.load(Ordering::SeqCst);
                    thread::yield_now();
                    counter.store(counted + 1, Ordering::SeqCst);
                    inside.store(false, Ordering::SeqCst);
                    guard.unlock().expect("held");
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 5 * THREADS);
    cluster.assert_gone("one");
}

/// A guard is dropped instead of unlocked. The next attempt of the same thread runs after its release, and never finds
/// the thread's own key.
#[test]
fn a_thread_can_lock_again_right_after_a_drop() {
    not_with!(
        NoScripts,
        "a single try may come before a transaction has released it"
    );
    let cluster = servers::five();
    let redlock = over(&cluster).build().expect("valid");
    for turn in 0..200 {
        let guard = redlock.try_lock("again", LONG);
        drop(guard.unwrap_or_else(|error| panic!("in turn {turn}: {error}")));
    }
    cluster.assert_empty();
}
