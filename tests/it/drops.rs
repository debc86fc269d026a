//! Guards and futures are dropped in a panic, half-way, or before the first poll.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use shearline::{LockError, LockGuard, Redlock};

use crate::executor::block_on;
use crate::face::shared;
use crate::scene::{freeze, thaw};
use crate::servers::{self, LONG, PATIENCE, eventually, until};

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
    // A future that is never polled sends nothing. (A release may be a `SET` too.)
    let sets = || cluster.raws().iter_mut().map(|raw| raw.calls("set")).max();
    let lock = || {
        let guard = redlock.try_lock("other", LONG).expect("free");
        guard.unlock().expect("held");
        // A majority had answered: the others may not have run the `SET` yet.
        until("all have answered", || {
            let nodes = redlock.nodes();
            let mut nodes = nodes.iter();
            nodes.all(|node| node.in_flight + node.debts == 0)
        });
        sets().expect("five nodes")
    };
    lock(); // This lock finds out how each node releases.
    let (before, after) = (lock(), lock());
    drop(redlock.lock_async("lazy", LONG));
    assert_eq!(lock() - after, after - before);
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

/// A future is dropped while every node is stopped with the `SET` in its socket. When the nodes continue, they run the
/// `SET`, and then the release after it.
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

/// A timer reports the loss, because no node answers.
#[test]
fn the_loss_of_a_lock_is_reported_while_every_node_is_silent() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    // A lock that comes too late is not granted.
    let brief = Duration::from_millis(500);
    let guard = eventually("it is free", || redlock.try_lock("lost", brief).ok());
    freeze(&cluster);
    assert!(guard.lost().wait(PATIENCE));
    block_on(guard.lost());
    // The signal comes up to a tick early.
    until("the end of the validity", || !guard.is_valid());
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
