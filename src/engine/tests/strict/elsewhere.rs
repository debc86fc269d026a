//! Stories of barriers that another client has ended for an operator.

use super::*;

/// Makes three nodes with barriers that two clients have just seen. The second client has ended the barriers.
fn trusted_by_another() -> Net {
    let mut net = barred(2);
    refusal(net.try_lock(0, TTL));
    assert_eq!(net.trust_all(1), 3);
    net.pump();
    net
}

/// Puts a barrier of a minute on `node`.
fn bar(net: &mut Net, node: usize) {
    net.admin(node, "SET shearline:barrier 1 PX 60000");
}

#[test]
fn a_handle_asks_again_a_second_after_it_saw_a_barrier() {
    let mut net = trusted_by_another();
    net.pass(SECOND.saturating_sub(20 * MS));
    refusal(net.try_lock(0, TTL));
    net.pass(20 * MS);
    let lock = net.try_lock(0, TTL).expect("the barriers are gone");
    assert!(net.kept_until(0, 1).is_none());
    net.release(0, lock);
    net.is_clean();
}

#[test]
fn a_call_that_waits_gets_its_lock_when_the_barriers_are_ended() {
    let mut net = trusted_by_another();
    let before = net.now;
    let wait = LockOptions::new(TTL).wait(LONGEST);
    let lock = net.lock_with(0, &wait).expect("within a second or so");
    assert!(net.now.saturating_since(before) < SECOND * 2);
    net.release(0, lock);
}

/// One node is free, one has a barrier, and one has the key of another client.
#[test]
fn a_call_that_waits_for_a_holder_asks_behind_barriers_too() {
    let mut net = trusted(2);
    net.admin(2, "SET k other PX 20000");
    bar(&mut net, 1);
    net.asks(0, b"k", &LockOptions::new(TTL).wait(LONGEST));
    net.pass(SECOND * 3);
    assert!(net.event(0).is_none(), "one votes");
    assert!(net.kept_until(0, 1).is_some());
    let before = net.now;
    assert_eq!(net.trust_all(1), 3);
    let lock = net.acquired(0).1.expect("two vote");
    assert!(net.now.saturating_since(before) < SECOND * 2);
    net.release(0, lock);
}

#[test]
fn an_extension_counts_when_the_barriers_are_ended() {
    let mut net = trusted(2);
    let mut lock = net.try_lock(0, LONGEST).expect("three vote");
    (0..3).for_each(|node| bar(&mut net, node));
    assert!(net.extend(0, &mut lock, LONGEST).is_err());
    assert_eq!(net.trust_all(1), 3);
    net.pass(SECOND);
    net.extend(0, &mut lock, LONGEST).expect("they count again");
    net.release(0, lock);
}

/// Only an operator can set floors, so waiting does not help. The refusal says nothing about the barriers.
#[test]
fn a_call_for_a_token_behind_barriers_fails_for_lack_of_floors() {
    let mut net = barred(1);
    let known = net.kept_until(0, 1);
    net.pass(SECOND);
    let wait = LockOptions::new(TTL).wait(LONGEST).fenced();
    let report = refusal(net.lock_with(0, &wait));
    assert!(report.needs_operator(), "{report}");
    assert_eq!(net.kept_until(0, 1), known, "the barrier still stands");
}

#[test]
fn who_looks_is_told_when_the_barriers_are_ended() {
    let mut net = trusted_by_another();
    net.pass(SECOND);
    net.inspect(0).expect("the barriers are gone");
}
