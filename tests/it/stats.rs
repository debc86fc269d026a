//! What a handle counts, over real servers. (`engine::tests::stats` checks the times.)

use std::thread;
use std::time::Duration;

use shearline::{LockError, LockOptions, NodeStats, Stats};

use crate::face::{await_ready, over};
use crate::servers::{self, LONG, SILENT, eventually};

/// Returns the counts of acquired and held, and of released, unconfirmed and unwatched.
fn counts(stats: &Stats) -> ([u64; 2], [u64; 3]) {
    let (taken, released) = (&stats.acquisitions, &stats.releases);
    (
        [taken.acquired, taken.held],
        [released.released, released.unconfirmed, released.unwatched],
    )
}

#[test]
fn each_call_is_counted_once_for_all_clones_of_a_handle() {
    not_with!(
        NoScripts,
        "counts locks, and each handle takes some before the story begins"
    );
    let cluster = servers::three();
    let builder = over(&cluster).node_timeout(SILENT);
    let redlock = builder.build().expect("valid");
    await_ready(|| redlock.nodes());
    let lock = redlock.try_lock("k", LONG).expect("free");
    assert_matches!(redlock.try_lock("k", LONG), Err(LockError::Held(_)));
    let patient = LockOptions::new(LONG).wait(Duration::from_secs(60));
    let waiter = thread::spawn({
        let redlock = redlock.clone();
        move || {
            redlock
                .lock_with("k", &patient)
                .expect("in the end")
                .unlock()
        }
    });
    eventually("it waits", || (redlock.stats().waiting == 1).then_some(()));
    let stats = redlock.stats();
    assert_eq!(counts(&stats), ([1, 1], [0, 0, 0]));
    assert_eq!((stats.held, stats.kept, stats.owed), (1, 0, 0));
    drop(lock);
    waiter.join().expect("no panic").expect("held");
    let kept = redlock.lock_with("other", &LockOptions::new(LONG).keep());
    let kept = kept.expect("free");
    let stats = redlock.stats();
    assert_eq!(counts(&stats), ([3, 1], [1, 0, 1]));
    assert_eq!((stats.waiting, stats.held, stats.kept), (0, 1, 1));
    // Two of three nodes are silent at its release. They get it later.
    (0..2).for_each(|node| cluster[node].freeze());
    kept.unlock().expect_err("one of three answers");
    (0..2).for_each(|node| cluster[node].thaw());
    let stats = redlock.stats();
    assert_eq!(counts(&stats), ([3, 1], [1, 1, 1]));
    assert_eq!((stats.held, stats.kept, stats.lost), (0, 0, 0));
    // Three locks were granted, one was refused, and three have ended.
    let [acquire, wait, hold, left] = [
        &stats.acquire,
        &stats.wait,
        &stats.hold,
        &stats.validity_left,
    ];
    let all = [acquire, wait, hold, left].map(|histogram| histogram.count());
    assert_eq!(all, [3, 4, 3, 3]);
    assert!(left.sum() <= 3 * LONG && hold.sum() + left.sum() >= LONG);
    cluster.assert_gone("other");
    // On a busy machine answers wait to be read, and such answers are not measured.
    eventually("ten answers of each node are measured", || {
        redlock.try_lock("more", LONG).ok()?.unlock().ok()?;
        let nodes = redlock.stats().nodes;
        let measured = |node: &NodeStats| node.latency.count() >= 10;
        nodes.iter().all(measured).then_some(())
    });
    let addresses = |node: &NodeStats| node.address.clone();
    let stated: Vec<_> = redlock.nodes().into_iter().map(|n| n.address).collect();
    let counted: Vec<_> = redlock.stats().nodes.iter().map(addresses).collect();
    assert_eq!(counted, stated);
}
