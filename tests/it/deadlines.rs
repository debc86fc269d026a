//! Every call ends even if every node is stalled. The nodes stay stalled, so a call that waits for them never returns.
//!
//! Tests in virtual time (`engine::tests::acquire`, `calls`, `waits`) check that no caller waits past its deadline.
//! Calls during the silence of a majority are in `contract`.

use std::thread;
use std::time::Duration;

use shearline::LockOptions;

use crate::face::{Face, Which, no_quorum, over, shared};
use crate::scene::{freeze, thaw};
use crate::servers::{self, LONG};

const WAIT: Duration = Duration::from_millis(200);

/// Locks that are held meanwhile are in `contract::a_silent_majority_leaves_every_lock_as_it_was`.
#[test]
fn every_operation_ends_with_every_node_stalled() {
    let cluster = servers::three();
    let build = |which: Which| which.build(over(&cluster).node_timeout(WAIT));
    let mut faces = Which::ALL.map(|which| (which, build(which)));
    freeze(&cluster);
    thread::scope(|scope| {
        for (which, face) in &mut faces {
            scope.spawn(|| stalled_locks(face, &which.key("stalled")));
        }
    });
    // The last handles are also dropped while every node is stalled, without waiting.
    drop(faces);
    thaw(&cluster);
    cluster.assert_empty();
}

fn stalled_locks(face: &mut Face, key: &str) {
    let options = LockOptions::new(LONG);
    for options in [
        options.wait(WAIT),
        options.wait(Duration::ZERO),
        options.tries(3),
    ] {
        no_quorum(face.lock_with(key, &options));
    }
    no_quorum(face.try_lock(key, LONG));
}

/// Threads that wait for each other at the engine have deadlines too.
#[test]
fn many_callers_end_with_every_node_stalled() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    freeze(&cluster);
    thread::scope(|scope| {
        for caller in 0..16 {
            let redlock = &redlock;
            scope.spawn(move || {
                let options = LockOptions::new(LONG).wait(WAIT);
                let result = redlock.lock_with(format!("many:{caller}"), &options);
                assert!(result.is_err(), "{result:?}");
            });
        }
    });
    thaw(&cluster);
    drop(redlock);
}
