//! What `Held` says about a lock for which a caller of the same handle waits.

use std::thread;

use super::*;
use crate::face::{await_ready, held};

/// Makes a handle over the nodes of `cluster`, which is connected to all of them.
fn shared(cluster: &Cluster, configure: fn(Builder) -> Builder) -> Redlock {
    let redlock = Which::Shared.build(configure(quiet(cluster))).into_shared();
    await_ready(|| redlock.nodes());
    redlock
}

/// Lets one caller wait for `key` until `end` is called. Meanwhile another caller, which does not wait, asks again and
/// again. Returns its report as soon as `is_known` accepts one.
fn told_beside_a_waiter(
    cluster: &Cluster,
    is_known: fn(&Report) -> bool,
    end: impl FnOnce(),
) -> Report {
    let redlock = shared(cluster, |builder| builder);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| redlock.lock_with("key", &PATIENT));
        let report = eventually("it is known", || {
            let report = held(redlock.try_lock("key", LONG));
            is_known(&report).then_some(report)
        });
        end();
        let lock = waiting.join().expect("no panic").expect("it has ended");
        lock.unlock().expect("held");
        report
    })
}

#[test]
fn a_caller_who_waits_for_long_asks_who_holds_the_lock() {
    not_with!(NoScripts, "a script asks that");
    for cluster in clusters() {
        let billing = shared(&cluster, |builder| builder.owner("billing-7"));
        let lock = billing.try_lock("key", LONG).expect("free");
        let token = lock.token().as_bytes().escape_ascii().to_string();
        let report = told_beside_a_waiter(
            &cluster,
            |report| report.holder().is_some(),
            || _ = lock.unlock().expect("held"),
        );
        assert_eq!(report.holder(), Some(&b"billing-7"[..]));
        assert!(!report.is_held_here() && !report.never_expires());
        assert!(report.held_for().is_some_and(|left| left <= LONG));
        let text = LockError::Held(report).to_string();
        assert!(
            text.starts_with("lock `key`: held by billing-7 for another "),
            "{text}"
        );
        assert!(!text.contains(&token[..8]), "a token is secret: {text}");
    }
}

#[test]
fn a_key_without_an_expiry_is_reported_and_wakes_when_it_is_deleted() {
    for cluster in clusters() {
        cluster.run("SET key foreign");
        let report =
            told_beside_a_waiter(&cluster, Report::never_expires, || cluster.delete("key"));
        assert_eq!(report.held_for(), None);
    }
}
