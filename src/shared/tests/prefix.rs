//! A handle whose names have a prefix.

use super::*;
use crate::config::RestartGuard;
use crate::error::{InvalidRequest, RequestFault};

impl World {
    fn prefixed(&self) -> Redlock {
        let builder = self.builder().restart_guard(RestartGuard::Off);
        builder.key_prefix("p:").build().unwrap()
    }
}

#[test]
fn every_name_of_a_handle_has_its_prefix() {
    let world = World::new();
    let (redlock, plain) = (world.prefixed(), world.redlock());
    let guard = redlock.lock("a", LONG).unwrap();
    assert_eq!(guard.resource(), b"p:a");
    assert_ne!(world.copies("p:a"), 0);
    assert_eq!(world.copies("a"), 0);
    // Another handle sees the lock under its key, and the handle itself under its name.
    let error = plain.try_lock("p:a", LONG).unwrap_err();
    assert_eq!(error.resource(), Some(&b"p:a"[..]));
    for seen in [
        plain.inspect("p:a").unwrap(),
        redlock.inspect("a").unwrap(),
        block_on(redlock.inspect_async("a")).unwrap(),
        redlock.watch("a").unwrap().next(PATIENCE).unwrap(),
    ] {
        assert!(seen.holder().is_some());
    }
    redlock.break_lock("a").unwrap();
    assert!(guard.unlock().is_err());
    // A lock that is adopted keeps its key.
    let lock = plain.lock("b", LONG).unwrap().into_lock();
    redlock.adopt(lock).unlock().unwrap();
    world.assert_gone("b");
}

#[test]
fn every_kind_of_lock_has_the_prefix() {
    let world = World::new();
    let redlock = world.prefixed();
    let both = redlock.lock_all(["a", "b"], LONG).unwrap();
    assert_eq!(both.resources().collect::<Vec<_>>(), [b"p:a", b"p:b"]);
    assert_eq!(redlock.lock_shared("c", LONG).unwrap().resource(), b"p:c");
    assert_eq!(redlock.permit("d", 2, LONG).unwrap().resource(), b"p:d");
    let later = block_on(redlock.lock_async("e", LONG)).unwrap();
    assert_eq!(later.resource(), b"p:e");
    let fenced = LockOptions::new(LONG).tries(1).fenced();
    let without_floors = redlock.lock_with("f", &fenced);
    assert!(without_floors.is_err());
    redlock.trust_nodes();
    let guard = redlock.lock_with("f", &fenced).unwrap();
    assert_eq!(guard.resource(), b"p:f");
    let counters = || world.copies("shearline:fence:p:f");
    eventually("a counter is there", || counters() != 0);
    assert_eq!(world.copies("shearline:fence:f"), 0);
    let leads = redlock.campaign("g", "10.0.0.7:80", LONG).unwrap();
    let leader = redlock.observe("g").unwrap().next(PATIENCE);
    assert_eq!(leader.unwrap().unwrap().term, leads.term());
    assert_ne!(world.copies("p:g"), 0);
}

#[test]
fn a_name_is_checked_with_its_prefix() {
    let world = World::new();
    let refusal = |redlock: &Redlock, name: &[u8]| match redlock.try_lock(name, LONG) {
        Err(LockError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    let redlock = world.prefixed();
    let empty = InvalidRequest(RequestFault::EmptyResource { index: None });
    assert_eq!(refusal(&redlock, b""), empty);
    let bytes = 1_025;
    let long = InvalidRequest(RequestFault::ResourceTooLong { index: None, bytes });
    assert_eq!(refusal(&redlock, &[b'n'; 1_023]), long);
    let _ = redlock.try_lock([b'n'; 1_022], LONG).unwrap();
    let _ = redlock.try_lock("shearline:a", LONG).unwrap();
    let redlock = world.builder().key_prefix("shear").build().unwrap();
    let reserved = InvalidRequest(RequestFault::ReservedResource);
    assert_eq!(refusal(&redlock, b"line:a"), reserved);
    let once = LockOptions::new(LONG).tries(1);
    let twice = redlock.lock_all_with(["a", "a"], &once).unwrap_err();
    let (first, second) = (0, 1);
    assert_matches!(twice, LockError::Invalid(why) if why == InvalidRequest(RequestFault::DuplicateResource { first, second }));
}
