//! Kept locks: they have slots only while there is something to report.

use super::*;

/// The lock is extended after half of this.
const SHORT: Duration = Duration::from_secs(1);

fn kept(ttl: Duration) -> LockOptions {
    LockOptions::new(ttl).keep()
}

/// Returns how many locks have a slot while they are held.
fn slots(redlock: &Redlock) -> usize {
    redlock.shared().enter().unwrap().callers.locks.len()
}

#[test]
fn a_kept_lock_has_a_slot_only_when_somebody_has_asked() {
    let (_world, redlock) = World::start();
    let guards = ["a", "b", "c", "d"].map(|name| redlock.lock_with(name, &kept(LONG)).unwrap());
    assert_eq!(slots(&redlock), 0);
    let both = |guard: &LockGuard| (guard.lost(), guard.at_risk());
    let signals = guards.each_ref().map(both);
    assert_eq!(slots(&redlock), 4);
    let is_well = |guard: &LockGuard| guard.health().failures == 0 && guard.is_valid();
    assert!(guards.iter().all(is_well));
    thread::scope(|scope| {
        let waits = signals.clone().map(|(lost, at_risk)| {
            scope.spawn(move || lost.wait(PATIENCE) || at_risk.wait(PATIENCE))
        });
        let [a, b, c, d] = guards;
        a.unlock().unwrap();
        block_on(b.unlock_async()).unwrap();
        drop((c.into_lock(), d));
        for wait in waits {
            assert!(!wait.join().unwrap(), "a release is no loss");
        }
    });
    assert_eq!(slots(&redlock), 0);
    for (lost, at_risk) in signals {
        assert!(!lost.is_lost() && !at_risk.is_at_risk());
    }
}

#[test]
fn a_lock_that_is_kept_from_now_on_stays_with_its_slot() {
    let (_world, redlock) = World::start();
    let mut guards = ["a", "b"].map(|name| redlock.lock(name, LONG).unwrap());
    let lost = guards.each_ref().map(LockGuard::lost);
    for guard in &mut guards {
        guard.keep().unwrap();
        assert!(guard.is_valid() && guard.health().failures == 0);
    }
    assert_eq!(slots(&redlock), 2);
    let [a, b] = guards;
    a.unlock().unwrap();
    drop(b);
    assert_eq!(slots(&redlock), 0);
    assert!(lost.iter().all(|lost| !lost.wait(PATIENCE)));
}

#[test]
fn a_kept_lock_that_is_lost_says_so_to_all_who_have_asked_and_who_ask_then() {
    let (world, redlock) = World::start();
    let guards = ["a", "b"].map(|name| short_lock(&redlock, name, SHORT, LockOptions::keep));
    let (thread, task) = (guards[0].lost(), guards[0].at_risk());
    world.pause();
    assert!(thread.wait(PATIENCE));
    block_on(task);
    for guard in &guards {
        assert!(guard.lost().wait(PATIENCE) && !guard.is_valid());
        block_on(guard.lost());
        assert!(guard.at_risk().is_at_risk());
    }
    world.resume();
    drop(guards);
    assert_eq!(slots(&redlock), 0);
    world.assert_empty();
}

/// The extension that is under way when a lock is detached ends without an outcome for it.
#[test]
fn a_kept_lock_that_is_detached_while_it_is_extended_has_no_slot_after_that() {
    let (world, redlock) = World::start();
    let guard = short_lock(&redlock, "a", SHORT, LockOptions::keep);
    world.pause();
    eventually("an extension is under way", || load(&redlock).rounds != 0);
    let lock = guard.into_lock();
    eventually("it has ended", || load(&redlock).rounds == 0);
    assert_eq!(slots(&redlock), 0);
    world.resume();
    drop(redlock.adopt(lock));
    world.assert_empty();
}

#[test]
fn extensions_of_a_kept_lock_that_fail_are_counted_before_anybody_asks() {
    let world = World::new();
    let redlock = world.builder().node_timeout(100 * MS).build().unwrap();
    let eight = kept(Duration::from_secs(8));
    let guard = redlock.lock_with("a", &eight).unwrap();
    world.pause();
    eventually("an extension has failed", || slots(&redlock) == 1);
    eventually("it has a report", || guard.health().last_report.is_some());
    assert!(guard.health().failures != 0 && guard.is_valid());
    world.resume();
    eventually("it was extended", || guard.health().failures == 0);
    // A caller that looks at the health of the lock meanwhile holds the slot. The next extension finds that no caller
    // holds it any more.
    eventually("it has no slot", || slots(&redlock) == 0);
    guard.unlock().unwrap();
}

#[test]
fn a_kept_lock_of_a_broken_engine_is_lost() {
    let (_world, redlock) = World::start();
    let guards = ["a", "b"].map(|name| redlock.lock_with(name, &kept(LONG)).unwrap());
    let (thread, task) = (guards[0].lost(), guards[0].lost());
    break_engine(&redlock);
    assert!(thread.wait(PATIENCE));
    block_on(task);
    for guard in &guards {
        assert!(!guard.is_valid() && guard.lost().is_lost());
    }
}

/// The claim of the lock is forgotten some time after its end, and another lock gets the index of the claim.
#[test]
fn who_asks_about_a_kept_lock_that_is_over_takes_no_signal_from_another() {
    let (world, redlock) = World::start();
    let over = short_lock(&redlock, "a", 200 * MS, |options| options.keep_for(MS));
    eventually("its claim is forgotten", || load(&redlock).claims == 0);
    for (name, is_kept) in [("b", false), ("c", true)] {
        let guard = match is_kept {
            true => short_lock(&redlock, name, SHORT, LockOptions::keep),
            false => short_lock(&redlock, name, SHORT, |options| options),
        };
        let (lost, at_risk) = (guard.lost(), guard.at_risk());
        assert!(over.lost().is_lost() && over.at_risk().is_at_risk());
        assert_eq!(over.health().failures, 0);
        world.pause();
        block_on(at_risk);
        block_on(lost);
        assert!(!guard.is_valid());
        world.resume();
        drop(guard);
        world.assert_empty();
    }
    drop(over);
    assert_eq!(slots(&redlock), 0);
}

/// Another handle has kept the lock.
#[test]
fn a_kept_lock_that_a_broken_handle_adopts_is_not_valid_there_and_not_kept() {
    let world = World::new();
    let (broken, redlock) = (world.redlock(), world.redlock());
    break_engine(&broken);
    let mut local = world.builder().build_local().unwrap();
    let lock = redlock.lock_with("a", &kept(LONG)).unwrap().into_lock();
    let kept_on = local.lock_with("b", &kept(LONG)).unwrap();
    for lock in [lock, kept_on] {
        let mut guard = broken.adopt(lock);
        assert!(!guard.is_valid() && guard.lost().is_lost());
        assert!(guard.keep().is_err());
        assert_eq!(guard.health().validity, Duration::ZERO);
        assert!(!guard.into_lock().is_kept());
    }
}
