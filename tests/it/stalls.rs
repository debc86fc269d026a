//! A majority that stops again and again, with default settings: the cost of a call does not grow.

use std::thread;
use std::time::{Duration, Instant};

use shearline::{ExtendError, Redlock, UnlockError};

use crate::face::{Face, Held, Which, no_quorum};
use crate::servers::{self, Cluster, LONG};

/// The most that an attempt, an extension or a release may take while a majority is silent.
const BOUND: Duration = Duration::from_millis(300);

/// More than the answers by which a round trip is measured.
const STALLS: usize = 40;

/// Longer than the usual node timeout, and than the silence that makes a node suspect.
const STALL: Duration = Duration::from_millis(150);

#[test]
fn a_majority_that_stalls_at_every_attempt_does_not_prolong_the_next_one() {
    let cluster = servers::three();
    let mut faces = Which::BOTH.map(|which| which.build(Redlock::builder().nodes(cluster.urls())));
    let mut took = Vec::new();
    for turn in 0..STALLS {
        stalled(&cluster, &mut faces, |face| {
            let start = Instant::now();
            no_quorum(face.try_lock(format!("attempt:{turn}"), LONG));
            took.push(start.elapsed());
        });
    }
    assert_bounded(&took);
    cluster.assert_empty();
}

#[test]
fn a_majority_that_stalls_at_every_extension_and_release_does_not_prolong_the_next_one() {
    not_with!(
        NoScripts,
        "a local handle releases in its turns, and has none here"
    );
    let cluster = servers::three();
    let mut faces = Which::BOTH.map(|which| which.build(Redlock::builder().nodes(cluster.urls())));
    let (mut extending, mut releasing) = (Vec::new(), Vec::new());
    for turn in 0..STALLS / 4 {
        let mut locks: Vec<Held> = Vec::new();
        for face in &mut faces {
            let key = format!("held:{turn}:{}", locks.len());
            locks.push(face.lock(key, LONG).expect("free"));
        }
        let mut locks = locks.into_iter();
        stalled(&cluster, &mut faces, |face| {
            let mut lock = locks.next().expect("one for each face");
            let start = Instant::now();
            let extended = face.extend(&mut lock, LONG);
            extending.push(start.elapsed());
            assert!(
                matches!(extended, Err(ExtendError::Unconfirmed(_))),
                "{extended:?}"
            );
            let start = Instant::now();
            let released = face.unlock(lock);
            releasing.push(start.elapsed());
            assert!(
                matches!(released, Err(UnlockError::Unconfirmed(_))),
                "{released:?}"
            );
        });
    }
    assert_bounded(&extending);
    assert_bounded(&releasing);
    cluster.assert_empty();
}

/// Calls `call` with each face while two nodes of three are stopped, and lets them go on.
fn stalled(cluster: &Cluster, faces: &mut [Face], mut call: impl FnMut(&mut Face)) {
    for node in 0..2 {
        cluster[node].freeze();
    }
    for face in &mut *faces {
        call(face);
    }
    thread::sleep(STALL);
    for node in 0..2 {
        cluster[node].thaw();
    }
    for face in faces {
        face.await_ready();
    }
}

/// Of six calls in a row one is within the bound: a busy machine may have delayed the others.
#[track_caller]
fn assert_bounded(took: &[Duration]) {
    for (turn, calls) in took.chunks_exact(6).enumerate() {
        assert!(
            calls.iter().min() < Some(&BOUND),
            "from call {}: {took:?}",
            6 * turn
        );
    }
}
