//! No caller waits past its deadline, also with every node stalled.
//!
//! The bound of each assertion is generous: a busy machine meets it. A caller that waits for the
//! nodes does not, because they stay stalled while it waits.

use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use shearline::{ExtendError, LockError, LockOptions, Redlock, UnlockError};

use crate::executor::block_on;
use crate::face::{Face, Which, over, shared};
use crate::servers::{self, Cluster, LONG, Manner, SILENT, Stranger};

const WAIT: Duration = Duration::from_millis(200);
const BOUND: Duration = Duration::from_secs(10);

fn frozen(cluster: &Cluster) {
    for server in &**cluster {
        server.freeze();
    }
}

#[track_caller]
fn in_time<T>(call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = call();
    assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
    value
}

#[test]
fn every_operation_ends_with_every_node_stalled() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let mut face = which.build(over(&cluster).node_timeout(SILENT));
        let mut lock = face.try_lock(which.key("held"), LONG).expect("free");
        frozen(&cluster);
        stalled_locks(&mut face);
        let result = in_time(|| face.extend(&mut lock, LONG));
        assert!(
            matches!(result, Err(ExtendError::Unconfirmed(_))),
            "{result:?}"
        );
        let result = in_time(|| face.unlock(lock));
        assert!(
            matches!(result, Err(UnlockError::Unconfirmed(_))),
            "{result:?}"
        );
        for server in &*cluster {
            server.thaw();
        }
        face.assert_gone(&cluster, which.key("held"));
        face.assert_gone(&cluster, "stalled");
    }
}

fn stalled_locks(face: &mut Face) {
    let options = LockOptions::new(LONG);
    for options in [
        options.wait(WAIT),
        options.wait(Duration::ZERO),
        options.tries(3),
    ] {
        let result = in_time(|| face.lock_with("stalled", &options));
        assert!(
            matches!(result, Err(LockError::NoQuorum(_))),
            "{options:?}: {result:?}"
        );
    }
    let result = in_time(|| face.try_lock("stalled", LONG));
    assert!(matches!(result, Err(LockError::NoQuorum(_))), "{result:?}");
}

/// A caller that waits because others hold the lock.
#[test]
fn a_waiter_gives_up_at_its_deadline() {
    let cluster = servers::three();
    let holder = shared(&cluster);
    let _guard = holder.try_lock("waiter", LONG).expect("free");
    for which in Which::BOTH {
        let mut face = which.build(over(&cluster));
        let start = Instant::now();
        let options = LockOptions::new(LONG).wait(WAIT);
        let result = in_time(|| face.lock_with("waiter", &options));
        // The deadline may end an attempt before a majority has answered.
        assert!(
            matches!(result, Err(LockError::Held(_) | LockError::NoQuorum(_))),
            "{result:?}"
        );
        assert!(
            WAIT / 2 < start.elapsed(),
            "it gave up early, after {:?}",
            start.elapsed()
        );
    }
}

/// Threads that wait for each other at the engine have deadlines too.
#[test]
fn many_callers_end_with_every_node_stalled() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    frozen(&cluster);
    thread::scope(|scope| {
        for caller in 0..16 {
            let redlock = &redlock;
            scope.spawn(move || {
                let options = LockOptions::new(LONG).wait(WAIT);
                let result = in_time(|| redlock.lock_with(format!("many:{caller}"), &options));
                assert!(result.is_err(), "{result:?}");
            });
        }
    });
    for server in &*cluster {
        server.thaw();
    }
    drop(redlock);
}

#[test]
fn a_future_ends_with_every_node_stalled() {
    let cluster = servers::three();
    let retry = shearline::Retry::new(2, Duration::from_millis(1)..=Duration::from_millis(2));
    let builder = over(&cluster).node_timeout(SILENT).retry(retry);
    let redlock = builder.build().expect("valid");
    let guard = redlock.try_lock("held", LONG).expect("free");
    frozen(&cluster);
    let result = in_time(|| wait_for(redlock.lock_async("stalled", LONG)));
    assert!(matches!(result, Err(LockError::NoQuorum(_))), "{result:?}");
    let result = in_time(|| wait_for(guard.unlock_async()));
    assert!(
        matches!(result, Err(UnlockError::Unconfirmed(_))),
        "{result:?}"
    );
    // The last handle is dropped while every node is stalled, and does not wait for them.
    in_time(|| drop(redlock));
}

fn wait_for<F: Future>(future: F) -> F::Output {
    block_on(future)
}

/// Nodes that accept and never answer: building a handle ends, and so does every call.
#[test]
fn nodes_that_never_answer_delay_no_call() {
    let strangers: Vec<_> = (0..3).map(|_| Stranger::new(Manner::Silent)).collect();
    for which in Which::BOTH {
        let builder = Redlock::builder()
            .nodes(strangers.iter().map(Stranger::url))
            .connect_timeout(Duration::from_millis(300));
        let mut face = in_time(|| which.build(builder));
        stalled_locks(&mut face);
        in_time(|| drop(face));
    }
}

/// Dropping guards and handles waits for no answer.
#[test]
fn drops_end_with_every_node_stalled() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let guards: Vec<_> = (0..32)
        .map(|guard| {
            redlock
                .try_lock(format!("drop:{guard}"), LONG)
                .expect("free")
        })
        .collect();
    frozen(&cluster);
    in_time(|| drop(guards));
    in_time(|| drop(redlock));
    for server in &*cluster {
        server.thaw();
    }
    // The nodes run what was written before the handle was dropped.
    cluster.assert_empty();
}
