//! Releases by a drop, and locks that nobody drops. (Those by a call are in `contract`.)

use std::thread;

use crate::face::{over, shared};
use crate::servers::{self, LONG};

#[test]
fn a_dropped_guard_releases_on_any_thread() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    drop(redlock.try_lock("here", LONG).expect("free"));
    cluster.assert_gone("here");

    let guard = redlock.try_lock("there", LONG).expect("free");
    thread::spawn(move || drop(guard)).join().expect("no panic");
    cluster.assert_gone("there");
}

/// A guard counts as a handle: it works, and releases, also after its handle is dropped.
#[test]
fn a_guard_outlives_its_handle() {
    let cluster = servers::five();
    let redlock = shared(&cluster);
    let mut guard = redlock.try_lock("outlives", LONG).expect("free");
    let second = redlock.try_lock("dropped", LONG).expect("free");
    drop(redlock);
    guard.extend(LONG).expect("held");
    drop(second);
    cluster.assert_gone("dropped");
    guard.unlock().expect("held");
    cluster.assert_gone("outlives");
}

/// The plain value releases nothing by itself; a guard that adopts it does.
#[test]
fn a_detached_lock_is_released_by_the_guard_that_adopts_it() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let plain = redlock.try_lock("plain", LONG).expect("free").into_lock();
    drop(redlock.adopt(plain));
    cluster.assert_gone("plain");
}

/// A `Lock` of the local face is a plain value: without an unlock it stays.
#[test]
fn a_forgotten_local_lock_stays_on_the_nodes() {
    let cluster = servers::three();
    let mut local = over(&cluster).build_local().expect("valid");
    let lock = local.try_lock("forgotten", LONG).expect("free");
    drop(lock);
    drop(local);
    assert!(cluster.copies("forgotten") >= 2);
}
