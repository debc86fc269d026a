//! Releases: of a lock that is held, of one that is not any more, and by a drop.

use std::thread;

use shearline::{LockOptions, Redlock, UnlockError};

use crate::face::{Which, over, shared};
use crate::servers::{self, BRIEF, LONG, PATIENCE, SILENT, eventually};

#[test]
fn unlocking_after_the_expiry_is_an_error() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("late");
        let mut face = which.build(over(&cluster));
        let lock = face.try_lock(&key, BRIEF).expect("free");
        eventually("it expires", || (cluster.copies(&key) == 0).then_some(()));
        let result = face.unlock(lock);
        assert!(matches!(result, Err(UnlockError::NotHeld(_))), "{result:?}");
    }
}

#[test]
fn unlocking_after_the_expiry_does_not_touch_the_next_holder() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("next");
        let mut face = which.build(over(&cluster));
        let late = face.try_lock(&key, BRIEF).expect("free");
        let next = shared(&cluster);
        let options = LockOptions::new(LONG).wait(PATIENCE);
        let guard = next.lock_with(&key, &options).expect("free again soon");
        let result = face.unlock(late);
        assert!(matches!(result, Err(UnlockError::NotHeld(_))), "{result:?}");
        guard.unlock().expect("still held by the next one");
        face.assert_gone(&cluster, &key);
    }
}

#[test]
fn unlocking_a_lost_lock_is_an_error_and_releases_the_rest() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("lost");
        let mut face = which.build(over(&cluster));
        face.await_ready();
        let lock = face.try_lock(&key, LONG).expect("free");
        eventually("all three have it", || {
            face.settle();
            (cluster.copies(&key) == 3).then_some(())
        });
        cluster[0].raw().set_px(key.as_bytes(), b"foreign", LONG);
        cluster[1].raw().del(key.as_bytes());
        let result = face.unlock(lock);
        assert!(matches!(result, Err(UnlockError::NotHeld(_))), "{result:?}");
        eventually("the rest is cleared", || {
            face.settle();
            (cluster.values(&key) == [Some(b"foreign".to_vec()), None, None]).then_some(())
        });
    }
}

/// `Unconfirmed`, and yet every key is released when the nodes are back: the releases stay owed.
#[test]
fn unlocking_with_a_silent_majority_is_unconfirmed_and_stays_owed() {
    let cluster = servers::three();
    for which in Which::BOTH {
        let key = which.key("owed");
        let mut face = which.build(over(&cluster).node_timeout(SILENT));
        let lock = face.try_lock(&key, LONG).expect("free");
        cluster[0].freeze();
        cluster[1].freeze();
        let result = face.unlock(lock);
        assert!(
            matches!(result, Err(UnlockError::Unconfirmed(_))),
            "{result:?}"
        );
        cluster[0].thaw();
        cluster[1].thaw();
        face.assert_gone(&cluster, &key);
    }
}

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

/// The plain value releases nothing by itself; a handle that adopts it does.
#[test]
fn a_detached_lock_stays_until_it_is_adopted() {
    let cluster = servers::three();
    let redlock = shared(&cluster);
    let plain = redlock.try_lock("plain", LONG).expect("free").into_lock();
    let token = plain.token().to_vec();
    let other = shared(&cluster);
    assert!(other.try_lock("plain", LONG).is_err(), "it is held");
    // What the other has taken on a third node it releases.
    eventually("its copies alone are there", || {
        let copies = cluster.values("plain").into_iter().flatten();
        let copies: Vec<_> = copies.collect();
        let ours = copies.iter().all(|copy| *copy == token);
        (2 <= copies.len() && ours).then_some(())
    });

    let mut guard = other.adopt(plain);
    assert!(guard.is_valid());
    guard.extend(LONG).expect("held");
    guard.unlock().expect("held");
    cluster.assert_gone("plain");

    let plain = redlock.try_lock("again", LONG).expect("free").into_lock();
    drop(redlock.adopt(plain));
    cluster.assert_gone("again");
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

/// A release follows each unanswered `SET`; the copies on the nodes that voted stay.
#[test]
fn a_detached_local_lock_can_be_adopted_by_another_face() {
    let cluster = servers::three();
    let mut local = over(&cluster).build_local().expect("valid");
    let lock = local.try_lock("handed", LONG).expect("free");
    let lock = local.detach(lock);
    drop(local);
    assert!(cluster.copies("handed") >= 2);
    let redlock: Redlock = shared(&cluster);
    redlock.adopt(lock).unlock().expect("held");
    cluster.assert_gone("handed");
}
