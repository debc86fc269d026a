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

    /// All nodes extend `lock`. Returns how long they were asked to keep it.
    #[track_caller]
    fn extend_on_all(&mut self, lock: &mut Lock) -> Vec<u64> {
        self.extend(lock);
        self.take_all();
        self.all_say(0..self.sent.len(), ":1|");
        self.extended(lock);
        assert_eq!(lock.valid_until(), self.now.saturating_add(VALIDITY));
        self.lives.clone()
    }

    /// Node 2 is away when `lock` is released, and stays away. The release stays a debt until `gone`.
    #[track_caller]
    fn owes_until(&mut self, gone: Instant, lock: Lock) {
        self.lose(2);
        self.release_on(0..2, lock);
        while self.engine.load().owed != 0 {
            assert!(self.now < gone.saturating_add(2 * MS), "{:?}", self.now);
            if self.links[2] == "connecting" {
                self.lose(2);
            }
            self.sleep_until_timer();
        }
        assert!(gone <= self.now, "{:?} < {gone:?}", self.now);
    }

    /// Makes servers that have been up for long. Node 2 has lost its copy of `lock`, and restarts.
    fn lacking_a_copy(builder: Builder) -> (Self, Lock) {
        let mut world = Self::with(builder);
        for node in 0..3 {
            world.greet_as(node, &format!("run{node}"), 1_000);
        }
        let lock = world.lock_on(0..3);
        world.take_all();
        world.restart(2);
        (world, lock)
    }
}

#[test]
fn a_release_does_not_wait_for_the_delay() {
    for late in [Duration::ZERO, VALIDITY + 500 * MS] {
        let (mut world, lock) = World::delaying(3);
        world.sleep(late);
        world.events.clear();
        world.release(lock);
        assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
        world.all_say(0..3, ":1|");
        assert_eq!(
            world.unlocked().map(|done| done.deleted).ok(),
            Some(2),
            "after {late:?}"
        );
        world.is_clean();
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
        while world.take(0).is_empty() {
            world.sleep_until_timer();
        }
        assert_eq!(world.now, begun.saturating_add(half), "by its validity");
        assert_eq!(world.lives, [life; 3], "of {most:?}");
        world.all_say(0..2, ":1|");
        let ttl = Duration::from_millis(life - 1_000);
        let until = Drift::default().valid_for(world.now, ttl, TTL);
        assert_eq!(
            lock.valid_until(),
            until,
            "the drift is that of the whole ttl"
        );
    }
}

#[test]
fn a_copy_lives_as_long_as_those_that_were_not_lost() {
    let (mut world, mut lock) = World::lacking_a_copy(delayed(3).max_ttl(LONGEST));
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
    world.pass(4 * SECOND);
    let sent = world.now;
    world.confirm(&lock);
    world.wait(20 * MS);
    world.all_keep(0..2, 8_000);
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 7_000));
    world.keeps(2, 8_000);
    // An operator has shortened the keys, so no more than the delay is left.
    world.pass(SECOND);
    world.confirm(&lock);
    world.all_keep(0..3, 1_000);
    world.runs_out(&lock);
}

/// Without the delay, the new end would be later. With the delay it is earlier, so the engine first waits for the third
/// node.
#[test]
fn a_confirmation_that_would_shorten_the_lock_waits_for_all() {
    let (mut world, mut lock) = World::delaying(3);
    let sent = world.now;
    world.confirm(&lock);
    world.all_keep(0..2, 10_800);
    assert!(world.events.is_empty());
    world.keeps(2, 11_000);
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 9_800));
}

#[test]
fn a_lock_that_was_handed_over_keeps_its_own_delay() {
    for (own, other, life) in [
        (DELAY, Duration::ZERO, 11_000),
        (Duration::ZERO, DELAY, 10_000),
    ] {
        let mut world = World::with(named(3).lock_delay(own)).greeted();
        let lock = world.lock_on(0..3);
        let lock = world.detach(lock);
        let mut heir = World::with(named(3).lock_delay(other)).greeted();
        heir.now = world.now;
        let mut lock = heir.adopt(lock);
        heir.pass(SECOND);
        assert_eq!(heir.extend_on_all(&mut lock), [life; 3]);
        heir.pass(SECOND);
        let sent = heir.now;
        heir.confirm(&lock);
        heir.all_keep(0..3, life - 2_000);
        heir.extended(&mut lock);
        assert_eq!(lock.valid_until(), end(sent, 8_000));
        heir.release_on(0..3, lock);
    }
}

#[test]
fn a_lock_from_another_clock_is_confirmed_without_its_delay() {
    let (mut world, lock) = World::delaying(3);
    let lock = world.detach_without_end(lock);
    let mut lock = world.adopt(lock);
    let sent = world.now;
    world.confirm(&lock);
    world.all_keep(0..3, 6_000);
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 5_000));
}

/// The keys are still there, but the validity has already ended. The lock was adopted by an engine, or by none.
#[test]
fn a_lock_from_another_clock_of_which_the_delay_is_left_is_over() {
    for adopted in [true, false] {
        let (mut world, lock) = World::delaying(3);
        let mut lock = world.detach_without_end(lock);
        if adopted {
            lock = world.adopt(lock);
        }
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

#[test]
fn a_quarantine_lasts_as_long_as_the_longest_key() {
    // The assumed ttl is 60 s; the handle was asked for 70 s of ttl and a second of delay.
    let (mut world, _) = World::lacking_a_copy(delayed(3));
    world.acquire(&LockOptions::new(70 * SECOND).tries(1));
    world.comes_back_as(1, "again1", 0);
    let span = 71 * SECOND + Drift::default().of(71 * SECOND);
    assert_eq!(
        world.quarantined_until(1),
        Some(world.now.saturating_add(span))
    );
}

/// A handle that has asked for no lock yet knows its own delay, and assumes that others have the same.
#[test]
fn the_quarantine_that_is_assumed_allows_for_the_delay() {
    for (delay, longest) in [(DELAY, 61 * SECOND), (Duration::ZERO, 60 * SECOND)] {
        let mut world = World::with(named(3).lock_delay(delay));
        world.greet_as(1, "run1", 1_000);
        world.comes_back_as(1, "again1", 0);
        let span = longest + Drift::default().of(longest);
        let until = world.now.saturating_add(span);
        assert_eq!(world.quarantined_until(1), Some(until), "{delay:?}");
    }
}

/// The previous owner may have sent an unconfirmed extension of 60 s.
#[test]
fn what_is_assumed_of_a_lock_from_elsewhere_allows_for_its_delay() {
    let (mut world, lock) = World::delaying(3);
    let until = lock.valid_until();
    let lock = world.detach(lock);
    let (mut heir, lock) = World::taken_over(world.now, lock);
    let gone = Drift::default().gone_by(until, 61 * SECOND);
    heir.owes_until(gone, lock);
}

#[test]
fn the_longest_ttl_includes_the_delay() {
    let mut world = World::with(delayed(3).max_ttl(11 * SECOND));
    for node in 0..3 {
        world.greet_as(node, &format!("run{node}"), 1_000);
    }
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
    world.acquire(&LockOptions::new(TTL).wait(3600 * SECOND));
    world.sleep(VALIDITY);
    world.expired(&lock);
    assert_eq!(world.take_all(), vec![vec!["SET k 11000"]; 3], "one try");
    world.all_say(0..3, "_|");
    for node in 0..3 {
        let sent = world.take(node);
        assert!(sent.contains(&LOOK[1].into()), "{sent:?}");
        let released = sent.iter().any(|sent| sent == "EVALSHA release");
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

#[test]
fn a_release_is_owed_for_as_long_as_the_key_lives() {
    let (mut world, lock) = World::delaying(3);
    let granted = world.now;
    let gone = Drift::default().gone_by(granted, 11 * SECOND);
    world.owes_until(gone, lock);
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

/// A majority has lost it, and its holder may hang: the remaining copies keep others out.
#[test]
fn what_is_left_of_a_lost_lock_stays_for_the_delay() {
    for (delay, at_once) in [(DELAY, 0), (Duration::ZERO, 5)] {
        let mut world = World::with(named(5).lock_delay(delay)).greeted();
        let lock = world.lock_on(0..5);
        world.take_all();
        world.pass(SECOND);
        world.extend(&lock);
        world.take_all();
        world.all_say(0..3, ":0|");
        world.expired_first(&lock);
        assert_matches!(world.not_extended(), ExtendError::Lost(_));
        assert_eq!(world.take_all().concat(), vec!["EVALSHA release"; at_once]);
        // The holder can still release the lock.
        world.release(lock);
        assert_eq!(world.take_all().concat(), vec!["EVALSHA release"; 5]);
    }
}

/// A waiter has its turn at once, and the copies that stay are a minority.
#[test]
fn what_is_left_of_a_lost_lock_does_not_keep_its_own_handle_out() {
    let mut world = World::with(delayed(5)).greeted();
    let lock = world.lock_on(0..5);
    world.take_all();
    world.acquire(&LockOptions::new(TTL).wait(3600 * SECOND));
    world.pass(SECOND);
    world.extend(&lock);
    world.take_all();
    world.all_say(0..3, ":0|");
    world.expired_first(&lock);
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    assert_eq!(world.take_all(), vec![vec!["SET k 11000"]; 5]);
    for node in 3..5 {
        world.say(node, ":1|");
        world.say(node, "_|");
    }
    world.all_say(0..3, "+OK|");
    let second = world.lock();
    assert_eq!(second.valid_until(), world.now.saturating_add(VALIDITY));
    world.take_all();
    // A late release names the first lock only.
    world.release(lock);
    assert_eq!(world.take_all().concat(), vec!["EVALSHA release"; 5]);
    assert!(second.is_valid_at(world.now));
}
