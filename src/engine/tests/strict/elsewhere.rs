//! Stories of barriers that another client has ended for an operator.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Three nodes behind barriers that two clients have seen just now, and that the second of these has ended.
fn trusted_by_another() -> Net {
    let mut net = Net::new(3);
    for _ in 0..2 {
        net.client(builder(3).max_ttl(LONGEST));
    }
    net.pump();
    refusal(net.try_lock(0, TTL));
    assert_eq!(net.trust_all(1), 3);
    net.pump();
    net
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

/// What it waits for at first is the end of another's lock.
#[test]
fn a_call_that_waits_for_a_holder_asks_behind_his_barriers_too() {
    let mut net = trusted(2);
    let lock = net.try_lock(1, TTL).expect("three vote");
    let wait = LockOptions::new(TTL).wait(LONGEST);
    net.acquire_with(0, b"k", &wait);
    net.pass(SECOND);
    for node in 0..3 {
        net.set(node, BARRIER_KEY, b"1");
        net.admin(node, "PEXPIRE shearline:barrier 60000");
    }
    net.release(1, lock);
    net.pass(SECOND);
    assert!(net.event(0).is_none(), "they do not count");
    assert_eq!(net.trust_all(1), 3);
    let lock = net.acquired(0).1.expect("they do again");
    net.release(0, lock);
}

#[test]
fn an_extension_counts_when_the_barriers_are_ended() {
    let mut net = trusted(2);
    let mut lock = net.try_lock(0, LONGEST).expect("three vote");
    for node in 0..3 {
        net.set(node, BARRIER_KEY, b"1");
        net.admin(node, "PEXPIRE shearline:barrier 60000");
    }
    assert!(net.extend(0, &mut lock, LONGEST).is_err());
    assert_eq!(net.trust_all(1), 3);
    net.pass(SECOND);
    net.extend(0, &mut lock, LONGEST).expect("they count again");
    net.release(0, lock);
}
