//! Stories of several questions about one lock that are open at once.

use super::confirm::end;
use super::*;
use crate::entry::Entry;

impl World {
    /// Asserts that the end of `lock` is reported within its last ticks.
    #[track_caller]
    fn is_told_at_its_end(&mut self, lock: &Lock) {
        self.sleep_until_event();
        self.expired(lock);
        let left = lock.valid_until().saturating_since(self.now);
        assert!(lock.is_valid_at(self.now) && left <= 2 * MS, "{left:?}");
    }
}

/// A majority's answer counts even if the caller no longer wants to know it.
#[test]
fn cancelling_a_question_takes_nothing_back_that_a_majority_has_said() {
    for (told, counts) in [(":1|:1|", true), (":1|:0|", false), (":1|-ERR x|", true)] {
        let (mut world, lock) = World::held(1);
        world.pass(5 * SECOND);
        let first = world.extend(&lock);
        world.pass(10 * MS);
        let second = world.extend(&lock);
        world.say_undrained(0, told);
        world.engine.cancel(world.now, first);
        world.cancel(second);
        if !counts {
            assert!(!lock.is_valid_at(world.now));
            continue;
        }
        assert!(TTL - SECOND < lock.validity_at(world.now));
        world.is_told_at_its_end(&lock);
    }
}

/// The later answer counts: an extension has raised the expiry of the keys after the confirmation read it, or was over
/// before that.
#[test]
fn a_confirmation_that_is_cancelled_counts_as_one_that_is_told() {
    for is_first in [true, false] {
        let (mut world, lock) = World::held(1);
        let questions = [is_first, !is_first].map(|confirms| {
            let (asked, said) = match confirms {
                true => (world.engine.confirm(world.now, &lock).ok(), ":1001|"),
                false => (world.engine.extend(world.now, &lock, TTL).ok(), ":1|"),
            };
            world.say_undrained(0, said);
            asked.expect("asked")
        });
        world.engine.cancel(world.now, questions[1]);
        world.cancel(questions[0]);
        let left = lock.valid_until().saturating_since(world.now);
        assert_eq!(left < SECOND, !is_first);
        world.is_told_at_its_end(&lock);
    }
}

/// The end of the lock counts, or an earlier one that a confirmation has found, even before the holder has applied it
/// and before a timer has fired. The extension was asked for after that; or was sent before, to a node that had
/// forgotten the script.
#[test]
fn an_extension_counts_only_within_an_earlier_end_that_was_found_after_it_was_asked() {
    let not_found: fn(&mut World, &Lock) = |world, lock| {
        world.extend(lock);
    };
    let asked_after_it: fn(&mut World, &Lock) = |world, lock| {
        world.ask_confirm(lock);
        world.say(0, ":2001|");
        world.extend(lock);
    };
    let sent_before: fn(&mut World, &Lock) = |world, lock| {
        world.extend(lock);
        world.ask_confirm(lock);
        world.say(0, "-NOSCRIPT x|:2001|");
        world.say(0, &digests());
    };
    for (ask, end) in [
        (not_found, VALIDITY),
        (asked_after_it, 2 * SECOND),
        (sent_before, 2 * SECOND),
    ] {
        let (mut world, lock) = World::held(1);
        ask(&mut world, &lock);
        world.wait(end);
        world.say(0, ":1|");
        world.events.drain(..world.events.len() - 1);
        assert_eq!(world.unconfirmed(), [NodeOutcome::TimedOut], "{end:?}");
    }
}

/// The node had forgotten the script, and got the extension again after the confirmation.
#[test]
fn an_earlier_end_stands_also_where_an_earlier_extension_is_confirmed_after_it() {
    let (mut world, mut lock) = World::held(1);
    world.extend_for(&lock, 100 * MS);
    world.ask_confirm(&lock);
    world.say(0, "-NOSCRIPT x|:2001|");
    world.apply_next(&mut lock);
    let told = lock.valid_until();
    assert!(told < world.now.saturating_add(Duration::from_secs(2)));
    world.say(0, &(digests() + ":1|"));
    world.apply_next(&mut lock);
    assert_eq!(lock.valid_until(), told);
}

#[test]
fn a_hand_over_ends_an_extension_that_is_open() {
    let (mut world, lock) = World::held(3);
    let asked = world.extend(&lock);
    world.say(0, ":1|");
    let _handed_over = world.detach(lock);
    assert_eq!(world.events[0].round(), Some(asked));
    assert_matches!(world.not_extended(), ExtendError::Closed);
    world.all_say(1..3, ":1|");
    world.is_clean();
}

#[test]
fn an_extension_that_is_asked_for_later_is_not_shortened() {
    let (mut world, mut lock) = World::held(3);
    world.confirm(&lock);
    world.extend(&lock);
    let sent = world.now;
    world.all_say(0..2, ":1001|:1|");
    world.extended_until(&mut lock, end(sent, 10_000));
    world.say(2, ":1001|:1|");
    world.extended_until(&mut lock, end(sent, 10_000));
}

/// In the other order, the later question has the newer answer.
#[test]
fn an_earlier_end_stands_when_an_earlier_extension_is_told_after_it() {
    let (mut world, mut lock) = World::held(3);
    world.extend_for(&lock, SECOND);
    world.take_all();
    world.confirm(&lock);
    let sent = world.now;
    // No answer to the extension counted: two nodes refused it.
    world.all_say(0..2, "-ERR x|:501|");
    assert_matches!(world.next_not_extended(), ExtendError::Unconfirmed(_));
    world.say(2, ":1|:501|");
    world.extended_until(&mut lock, end(sent, 500));
}

/// An extension was confirmed, and the loss was found before the caller had its outcome.
#[test]
fn an_extension_that_is_told_after_the_loss_revives_nothing() {
    let (mut world, mut lock) = World::held(1);
    world.extend(&lock);
    world.take_all();
    world.confirm(&lock);
    world.say(0, ":1|:0|");
    world.apply_next(&mut lock);
    assert_eq!(lock.valid_until(), world.now);
}

/// Makes a lock that no engine has adopted. The engine knows nothing about it but the questions.
fn detached(nodes: usize) -> (World, Lock) {
    let (mut world, lock) = World::held(nodes);
    let lock = world.detach(lock);
    world.take_all();
    (world, lock)
}

/// The confirmation has its majority, and waits for the last node, because it would shorten the lock.
#[test]
fn a_confirmation_does_not_revive_what_another_question_has_found_to_be_lost() {
    let (mut world, lock) = detached(3);
    world.ask_confirm(&lock);
    world.extend(&lock);
    world.all_say(0..2, ":2001|:0|");
    assert_matches!(world.next_not_extended(), ExtendError::Lost(_));
    assert!(!lock.is_valid_at(world.now));
    world.pass(MS);
    world.say(2, ":2001|");
    assert_matches!(world.next_not_extended(), ExtendError::Expired);
    assert!(!lock.is_valid_at(world.now));
}

/// The copy was read from the same bytes.
#[test]
fn an_outcome_is_applied_to_a_copy_of_its_lock() {
    let (mut world, lock) = detached(1);
    let entry = Entry::new(Vec::new(), lock.resource(), lock.token().as_bytes());
    let mut copy = Lock::transferred(entry, lock.valid_until(), lock.ttl(), lock.voters());
    world.ask_confirm(&lock);
    world.say(0, ":2001|");
    world.apply_next(&mut copy);
    assert!(copy.valid_until() < world.now.saturating_add(2 * SECOND));
    assert_eq!(copy.valid_until(), lock.valid_until());
}

/// The timer that reports the loss does not know another end.
#[test]
fn a_question_that_is_open_when_a_lock_is_adopted_does_not_change_its_end() {
    let (mut world, lock) = World::held(1);
    world.confirm(&lock);
    let known = lock.valid_until();
    let (mut other, lock) = World::taken_over(world.now, lock);
    world.say(0, ":2001|");
    assert_eq!(lock.valid_until(), known);
    other.is_told_at_its_end(&lock);
    // The same engine adopts it.
    let (mut world, lock) = detached(1);
    world.confirm(&lock);
    let lock = world.adopt(lock);
    world.say(0, ":2001|");
    assert_eq!(lock.valid_until(), known);
    world.events.clear();
    world.is_told_at_its_end(&lock);
}
