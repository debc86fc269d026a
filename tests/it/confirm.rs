//! Confirmations of a lock that another process took. (Those of every face are in `contract`.)

use std::time::Duration;

use shearline::{Lock, Redlock};

use crate::contract::under_another_boot;
use crate::face::shared;
use crate::processes::{finish, hex, start, unhex};
use crate::servers::{self, LONG};

const MINUTE: Duration = Duration::from_secs(60);

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
