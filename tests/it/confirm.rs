//! Confirmations: of a lock that ends earlier, and of one that another process took. (Those of every face are in
//! `contract`.)

use std::time::Duration;

use shearline::{ConfirmError, Lock, Redlock};

use crate::contract::under_another_boot;
use crate::executor::block_on;
use crate::face::{await_ready, shared};
use crate::processes::{finish, hex, start, unhex};
use crate::servers::{self, LONG, eventually};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_loss_is_reported_at_the_end_that_was_confirmed() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    await_ready(|| redlock.nodes());
    let mut guard = redlock.try_lock("earlier", LONG).expect("free");
    eventually("all three have it", || {
        (cluster.copies("earlier") == 3).then_some(())
    });
    let lost = guard.lost();
    for raw in &mut cluster.raws() {
        let command = [&b"PEXPIRE"[..], b"earlier", b"1000"];
        assert_eq!(raw.integer(&command), 1);
    }
    assert!(!lost.is_lost(), "the nodes were not asked");
    let waiting = lost.clone();
    let waiter = std::thread::spawn(move || waiting.wait(LONG));
    // On a busy machine it may have ended before it is confirmed.
    drop(block_on(guard.confirm_async()));
    block_on(lost);
    assert!(waiter.join().expect("reported"));
    let result = guard.confirm();
    assert!(matches!(result, Err(ConfirmError::Expired)), "{result:?}");
}

#[test]
fn the_process_that_a_lock_was_handed_to_confirms_it() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let lock = redlock.try_lock("handed", LONG).expect("free").into_lock();
    finish(start("confirm", &cluster, &hex(&lock.to_bytes())));
    let bytes = under_another_boot(lock.to_bytes());
    finish(start("confirm", &cluster, &hex(&bytes)));
    assert!(2 <= cluster.copies("handed"), "it was handed on");
    redlock.adopt(lock).unlock().expect("held");
    cluster.assert_gone("handed");
}

/// The part of the other process.
pub(crate) fn second_process(redlock: &Redlock, input: &str) {
    let lock = Lock::from_bytes(&unhex(input)).expect("the parent's lock");
    let mut guard = redlock.adopt(lock);
    guard.confirm().expect("held");
    assert!(MINUTE < guard.validity());
    guard.extend(LONG).expect("held");
    drop(guard.into_lock()); // The lock stays the parent's.
}
