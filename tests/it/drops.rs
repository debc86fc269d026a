//! Guards and futures that are dropped: in a panic, half-way, before the first poll.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use shearline::{LockError, LockGuard, Redlock};

use crate::executor::{all, block_on};
use crate::face::{over, shared};
use crate::servers::{self, BRIEF, Cluster, LONG, PATIENCE, eventually};

#[test]
fn a_guard_dropped_in_a_panic_releases() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    let handle = redlock.clone();
    let panicked = thread::spawn(move || {
        let _guard = handle.try_lock("panic", LONG).expect("free");
        panic!("expected: the story of this test");
    });
    assert!(panicked.join().is_err());
    cluster.assert_gone("panic");
    // The handle still works.
    redlock
        .try_lock("panic", LONG)
        .expect("free")
        .unlock()
        .expect("held");
}

/// Polls a future k times and drops it: for every small k, then for some larger ones, until twenty
/// futures were ready before.
#[test]
fn a_future_dropped_at_any_point_leaves_no_key() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    let larger = std::iter::successors(Some(64_usize), |polls| Some(polls + polls / 8));
    let mut ready = 0;
    for polls in (0..64).chain(larger.take_while(|polls| *polls < 10_000_000)) {
        let key = format!("dropped:{polls}");
        if let Poll::Ready(guard) = poll_and_drop(&redlock, &key, polls) {
            ready += 1;
            drop(guard.expect("no other client wants it"));
        }
        cluster.assert_gone(&key);
        if ready == 20 {
            break;
        }
    }
    assert!(ready > 0, "ten million polls, and never ready");
    cluster.assert_empty();
}

/// The same at points of time: from at once to longer than a round takes.
#[test]
fn a_future_dropped_at_any_time_leaves_no_key() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    for micros in (0..2_000).step_by(40) {
        let key = format!("timed:{micros}");
        let start = Instant::now();
        let mut future = Box::pin(redlock.lock_async(&key, LONG));
        let mut context = Context::from_waker(Waker::noop());
        while future.as_mut().poll(&mut context).is_pending()
            && start.elapsed() < Duration::from_micros(micros)
        {
            thread::yield_now();
        }
        drop(future);
        cluster.assert_gone(&key);
    }
}

#[test]
fn a_future_that_was_never_polled_sends_nothing() {
    not_with!(NoScripts, "counts SETs, and one asks for a way to release");
    let cluster = servers::three();
    let redlock = shared(&cluster);
    drop(redlock.lock_async("lazy", LONG));
    redlock
        .try_lock("after", LONG)
        .expect("free")
        .unlock()
        .expect("held");
    for raw in &mut cluster.raws() {
        let calls = raw.info("commandstats", "cmdstat_set").unwrap_or_default();
        assert!(calls.is_empty() || calls.starts_with("calls=1,"), "{calls}");
    }
}

/// Dropped while every node is stopped with the `SET` in its socket: when they go on they run it,
/// and then the release behind it.
#[test]
fn a_future_dropped_while_the_nodes_are_frozen_leaves_no_key() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    freeze(&cluster);
    for key in ["frozen:0", "frozen:1", "frozen:2"] {
        let polled = poll_and_drop(&redlock, key, 3);
        assert!(polled.is_pending(), "no node answers");
    }
    thaw(&cluster);
    cluster.assert_empty_after("set");
}

/// The future holds the last handle; the lock is released before the handle ends.
#[test]
fn a_future_keeps_the_handle_alive() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let future = redlock.lock_async("alone", LONG);
    drop(redlock);
    let guard = block_on(future).expect("free");
    assert_eq!(guard.resource(), b"alone");
    drop(guard);
    cluster.assert_gone("alone");
}

#[test]
fn futures_lock_extend_and_unlock() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    block_on(async {
        let mut guard = redlock.lock_async("async", LONG / 2).await.expect("free");
        assert!(guard.is_valid());
        guard.extend_async(LONG).await.expect("held");
        guard.unlock_async().await.expect("held");
    });
    cluster.assert_gone("async");
}

/// Sixty-four futures on one thread, on eight keys: each key is held by one at a time.
#[test]
fn many_futures_lock_on_one_thread() {
    let cluster = servers::five();
    let redlock = over(&cluster)
        .retry(shearline::Retry::new(
            10_000,
            Duration::from_millis(1)..=Duration::from_millis(5),
        ))
        .build()
        .expect("valid");
    let inside = std::array::from_fn::<_, 8, _>(|_| std::cell::Cell::new(false));
    let (redlock, inside) = (&redlock, &inside);
    let tasks = (0..64).map(|task| async move {
        let guard = redlock
            .lock_async(format!("task:{}", task % 8), LONG)
            .await
            .expect("its turn");
        assert!(!inside[task % 8].replace(true), "two holders at once");
        inside[task % 8].set(false);
        guard.unlock_async().await.expect("held");
    });
    block_on(all(tasks));
    cluster.assert_empty();
}

/// A timer reports the loss: no node answers.
#[test]
fn the_loss_of_a_lock_is_reported_while_every_node_is_silent() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let guard = redlock.try_lock("lost", BRIEF).expect("free");
    freeze(&cluster);
    assert!(guard.lost().wait(PATIENCE));
    block_on(guard.lost());
    // The signal comes up to a tick early.
    eventually("the end of the validity", || {
        (!guard.is_valid()).then_some(())
    });
    thaw(&cluster);
}

fn poll_and_drop(redlock: &Redlock, key: &str, polls: usize) -> Poll<Result<LockGuard, LockError>> {
    let mut future = pin!(redlock.lock_async(key, LONG));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        let polled = future.as_mut().poll(&mut context);
        if polled.is_ready() {
            return polled;
        }
        thread::yield_now();
    }
    Poll::Pending
}

fn freeze(cluster: &Cluster) {
    for server in &**cluster {
        server.freeze();
    }
}

fn thaw(cluster: &Cluster) {
    for server in &**cluster {
        server.thaw();
    }
}
