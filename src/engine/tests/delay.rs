//! Stories of the lock delay: nodes keep a key for longer than its holder trusts the lock.

use super::confirm::end;
use super::restarts::LONGEST;
use super::*;
use crate::config::Builder;
use crate::quorum::Drift;

/// By the clock of the fastest node, this takes a second.
const DELAY: Duration = Duration::from_millis(990);

/// Builds this number of nodes, with the delay.
fn delayed(nodes: usize) -> Builder {
    named(nodes).lock_delay(DELAY)
}

impl World {
    /// Makes `nodes` nodes that have granted a lock with the delay.
    fn delaying(nodes: usize) -> (Self, Lock) {
        let mut world = Self::with(delayed(nodes)).greeted();
        let lock = world.lock_on(0..nodes);
        assert_eq!(world.take_all(), vec![vec!["SET k 11000"]; nodes]);
        (world, lock)
    }
}

#[test]
fn a_kept_lock_is_extended_with_the_delay() {
    let half = VALIDITY / 2;
    for (most, life) in [(Duration::MAX, 11_000), (12 * SECOND, 8_051)] {
        let mut world = World::with(delayed(3)).greeted();
        world.acquire(&LockOptions::new(TTL).keep_for(most).tries(1));
        world.all_say(0..3, "+OK|");
        let lock = world.lock();
        assert_eq!(lock.valid_until(), world.now.saturating_add(VALIDITY));
        world.take_all();
        let begun = world.now;
        world.sleep_until_asked(0);
        assert_eq!(world.now, begun.saturating_add(half), "by its validity");
        assert_eq!(world.lives, [life; 3], "of {most:?}");
        world.all_say(0..2, ":1|");
        let ttl = Duration::from_millis(life - 1_000);
        let until = Drift::default().valid_for(world.now, ttl, TTL);
        assert_eq!(lock.valid_until(), until, "with the drift of the ttl");
    }
}

#[test]
fn a_copy_lives_as_long_as_those_that_were_not_lost() {
    let mut world = World::running(delayed(3).max_ttl(LONGEST));
    let mut lock = world.lock_on(0..3);
    world.take_all();
    world.restart(2);
    world.extend_but_for_2(&mut lock, ":0|");
    world.pass(SECOND);
    world.ask_extension(&lock);
    world.say(0, ":1|");
    world.pass(5 * MS);
    world.say(1, ":1|");
    world.extended(&mut lock);
    // 5 of 11,000 ms have passed.
    assert_eq!(world.take(2), ["SET k 10995"]);
}

#[test]
fn a_confirmation_subtracts_the_delay() {
    let (mut world, mut lock) = World::delaying(3);
    let sent = world.now;
    world.confirm(&lock);
    world.all_keep(0..2, 10_800);
    assert!(world.events.is_empty(), "the lock would end earlier");
    world.keeps(2, 11_000);
    world.extended_until(&mut lock, end(sent, 9_800));
    world.pass(4 * SECOND);
    let sent = world.now;
    world.confirm(&lock);
    world.wait(20 * MS);
    world.all_keep(0..2, 8_000);
    world.extended_until(&mut lock, end(sent, 7_000));
    world.keeps(2, 8_000);
    // An operator has shortened the keys, so no more than the delay is left.
    world.pass(SECOND);
    world.confirm(&lock);
    world.all_keep(0..3, 1_000);
    world.runs_out(&lock);
}

#[test]
fn a_lock_that_was_handed_over_keeps_its_own_delay() {
    let none = Duration::ZERO;
    for (own, other, life) in [(DELAY, none, 11_000), (none, DELAY, 10_000)] {
        let mut world = World::with(named(3).lock_delay(own)).greeted();
        let lock = world.lock_on(0..3);
        let lock = world.detach(lock);
        let mut heir = World::with(named(3).lock_delay(other)).greeted();
        heir.now = world.now;
        let mut lock = heir.adopt(lock);
        heir.pass(SECOND);
        heir.extend_on(0..2, &mut lock);
        assert_eq!(heir.lives, [life; 3]);
        assert_eq!(lock.valid_until(), heir.now.saturating_add(VALIDITY));
        heir.say(2, ":1|");
        heir.pass(SECOND);
        let sent = heir.now;
        heir.confirm(&lock);
        heir.all_keep(0..3, life - 2_000);
        heir.extended_until(&mut lock, end(sent, 8_000));
        heir.release_on(0..3, lock);
    }
}

/// A lock that was adopted by an engine, or by none, is confirmed without its delay. Then its keys are still there, but
/// its validity has ended.
#[test]
fn a_lock_from_another_clock_of_which_the_delay_is_left_is_over() {
    for adopted in [true, false] {
        let (mut world, lock) = World::delaying(3);
        let mut lock = world.detach_without_end(lock);
        if adopted {
            lock = world.adopt(lock);
        }
        world.confirm(&lock);
        world.all_keep(0..3, 6_000);
        world.extended_until(&mut lock, end(world.now, 5_000));
        world.confirm(&lock);
        world.all_keep(0..3, 900);
        match adopted {
            true => world.runs_out(&lock),
            false => assert_matches!(world.not_extended(), ExtendError::Expired),
        }
        // The remaining copies are not released, because the holder may hang.
        assert_eq!(world.take_all().concat(), NOTHING);
        assert!(!lock.is_valid_at(world.now));
        if adopted {
            world.is_expired(&lock);
        }
        world.is_clean();
    }
}

#[test]
fn a_lock_that_has_run_out_ends_other_questions_about_it() {
    let (mut world, lock) = World::delaying(3);
    let lock = world.detach_without_end(lock);
    let lock = world.adopt(lock);
    world.confirm(&lock);
    world.confirm(&lock);
    world.all_keep(0..2, 900);
    world.expired_first(&lock);
    assert_matches!(world.next_not_extended(), ExtendError::Expired);
    world.unconfirmed();
    world.all_keep(0..2, 8_000);
    assert!(world.events.is_empty(), "{:?}", world.events);
    world.is_expired(&lock);
}

/// The handle was asked for 70 s of ttl and has a second of delay. If it was asked for nothing yet, it assumes 60 s,
/// and that others have the same delay.
#[test]
fn a_quarantine_lasts_as_long_as_the_longest_key() {
    for (delay, asked, longest) in [
        (DELAY, Some(70), 71),
        (DELAY, None, 61),
        (Duration::ZERO, None, 60),
    ] {
        let mut world = World::running(named(3).lock_delay(delay));
        if let Some(ttl) = asked {
            let _ = world.kept_lock(b"k", LockOptions::new(ttl * SECOND));
        }
        world.comes_back_as(1, "again1", 0);
        let span = longest * SECOND + Drift::default().of(longest * SECOND);
        let until = world.now.saturating_add(span);
        assert_eq!(world.quarantined_until(1), Some(until), "{longest}");
    }
}

#[test]
fn the_longest_ttl_includes_the_delay() {
    let mut world = World::running(delayed(3).max_ttl(11 * SECOND));
    let ttl = TTL + MS;
    let maximum = TTL;
    let too_long = InvalidRequest(RequestFault::TtlWithDelayTooLong { ttl, maximum });
    assert_eq!(
        too_long.to_string(),
        "a ttl of 10.001s is longer than 10s, the longest ttl of this handle minus the lock delay; ask for a shorter \
         ttl and extend the lock, raise `Builder::max_ttl`, or shorten \
         `Builder::lock_delay`"
    );
    let options = LockOptions::new(ttl);
    assert_eq!(world.invalid(&Request::new(b"k", &options)), too_long);
    let lock = world.lock_on(0..3);
    let refused = world.engine.extend(world.now, &lock, ttl);
    assert_matches!(refused, Err(ExtendError::Invalid(why)) if why == too_long);
    world.take_all();
    world.extend(&lock);
    assert_eq!(world.lives, [11_000; 3]);
}

/// The holder hangs, so nothing releases the lock.
#[test]
fn a_waiter_of_the_same_handle_waits_for_the_delay_too() {
    let (mut world, lock) = World::delaying(3);
    world.acquire(&patient());
    world.sleep(VALIDITY);
    world.expired(&lock);
    assert_eq!(world.take_all(), vec![vec!["SET k 11000"]; 3], "one try");
    world.all_say(0..3, "_|");
    for node in 0..3 {
        let sent = world.take(node);
        assert!(sent.contains(&LOOK[1].into()), "{sent:?}");
        let released = sent.contains(&"EVALSHA release".into());
        world.say(node, if released { ":0|" } else { "" });
        world.say(node, "+OK|+OK|:1102|");
    }
    let begun = world.now;
    while !world.take_all().concat().contains(&"SET k 11000".into()) {
        world.sleep_until_timer();
        for node in 0..3 {
            if world.sent[node].contains(&"EVAL inspect".into()) {
                world.take(node);
                world.say(node, "*3|:1102|:0|$7|foreign|");
            }
        }
    }
    let waited = world.now.saturating_since(begun);
    assert!((1_102 * MS..1_120 * MS).contains(&waited), "{waited:?}");
}

/// The previous owner of a lock from elsewhere may have sent an unconfirmed extension of 60 s.
#[test]
fn a_release_is_owed_for_as_long_as_the_key_lives() {
    for is_from_elsewhere in [false, true] {
        let (mut world, mut lock) = World::delaying(3);
        let mut gone = Drift::default().gone_by(world.now, 11 * SECOND);
        if is_from_elsewhere {
            gone = Drift::default().gone_by(lock.valid_until(), 61 * SECOND);
            lock = world.detach(lock);
            (world, lock) = World::taken_over(world.now, lock);
        }
        world.lose(2);
        world.release_on(0..2, lock);
        world.owes_until(gone, 2 * MS);
    }
}

/// The engine waits for nodes as long as without the delay.
#[test]
fn the_delay_does_not_prolong_a_vote() {
    let span = |delay| {
        let mut world = World::with(named(3).lock_delay(delay)).greeted();
        world.acquire(&LockOptions::new(50 * MS).tries(1));
        world.sleep_until_event()
    };
    assert_eq!(span(100 * SECOND), span(Duration::ZERO));
}

/// No timer for the lock stays either. A lock that no engine has adopted has no claim, and shows that it is lost.
#[test]
fn what_is_left_of_a_lost_lock_of_another_handle_is_forgotten() {
    for adopted in [true, false] {
        let (mut world, lock) = World::delaying(3);
        let mut lock = world.detach(lock);
        if adopted {
            lock = world.adopt(lock);
        }
        world.extend(&lock);
        world.take_all();
        world.all_say(0..2, ":0|");
        if adopted {
            world.expired_first(&lock);
        }
        assert_matches!(world.not_extended(), ExtendError::Lost(_));
        assert_eq!(lock.valid_until(), world.now);
        world.say(2, ":1|");
        assert_eq!(world.take_all().concat(), NOTHING, "its copy stays");
        assert_eq!(world.engine.poll_timeout(), None);
        world.is_clean();
    }
}
