//! Stories of confirmations: how much longer a majority keeps a lock.

use super::*;
use crate::limits::TTL_ASSUMED_MAX;
use crate::quorum::{Drift, NodeSet};

impl World {
    pub(super) fn confirm(&mut self, lock: &Lock) -> RoundId {
        let round = self.ask_confirm(lock);
        self.all_were_sent(&["EVAL confirm"]);
        round
    }

    /// `node` answers that it has the token for this many more milliseconds.
    pub(super) fn keeps(&mut self, node: usize, millis: u64) {
        self.say(node, &format!(":{}|", millis + 1));
    }

    /// Each of `nodes` answers that it has the token for this many more milliseconds.
    pub(super) fn all_keep(&mut self, nodes: Range<usize>, millis: u64) {
        nodes.for_each(|node| self.keeps(node, millis));
    }

    /// Asserts that the confirmation finds that `lock` is over, and that the holder learns this first.
    #[track_caller]
    pub(super) fn runs_out(&mut self, lock: &Lock) {
        self.expired_first(lock);
        assert_matches!(self.not_extended(), ExtendError::Expired);
        self.sleep(TTL); // The loss is not reported twice.
        assert!(self.events.is_empty(), "{:?}", self.events);
    }

    #[track_caller]
    pub(super) fn is_expired(&mut self, lock: &Lock) {
        let refused = self.engine.confirm(self.now, lock);
        assert_matches!(refused, Err(ExtendError::Expired));
        self.drain();
        let sent = self.take_all().concat();
        assert_eq!(sent, NOTHING, "before any byte is sent");
    }

    /// Hands `lock` over to a process that does not know its end.
    pub(super) fn detach_without_end(&mut self, lock: Lock) -> Lock {
        let mut lock = self.detach(lock);
        lock.forget_end();
        lock
    }
}

/// Returns the end of a lock that the nodes keep for this many milliseconds from `sent` on.
pub(super) fn end(sent: Instant, millis: u64) -> Instant {
    Drift::default().valid_for(sent, Duration::from_millis(millis), TTL)
}

#[test]
fn what_a_majority_keeps_counts_from_before_the_send() {
    let (mut world, mut lock) = World::held(5);
    world.pass(Duration::from_secs(4));
    let (sent, known) = (world.now, lock.valid_until());
    world.confirm(&lock);
    world.wait(20 * MS);
    world.keeps(3, 7_000);
    world.keeps(0, 9_000);
    assert!(world.events.is_empty());
    world.keeps(1, 6_500);
    world.extended_until(&mut lock, end(sent, 6_500));
    assert!(known < lock.valid_until(), "an extension was not confirmed");
    world.keeps(2, 9_000);
    world.say(4, ":0|");
    assert!(world.events.is_empty(), "a straggler changes nothing");
    // The loss is reported at the new end.
    world.now = known;
    world.pass(Duration::ZERO);
    assert!(world.events.is_empty());
    world.sleep_until_event();
    world.expired(&lock);
    assert!(lock.is_valid_at(world.now));
}

/// If the other nodes are silent, the lock ends earlier, because they may not keep it.
#[test]
fn a_node_that_keeps_the_key_for_less_time_than_the_others_shortens_nothing() {
    for (is_told, millis) in [(true, 9_997), (false, 1_000)] {
        let (mut world, mut lock) = World::held(5);
        let sent = world.now;
        world.confirm(&lock);
        for (node, millis) in [(0, 1_000), (1, 9_998), (2, 9_999)] {
            world.keeps(node, millis);
        }
        assert!(world.events.is_empty(), "others may know better");
        match is_told {
            true => world.keeps(3, 9_997),
            false => world.pass(51 * MS),
        }
        world.extended_until(&mut lock, end(sent, millis));
    }
}

#[test]
fn a_key_that_never_ends_is_trusted_for_the_longest_ttl_that_is_known() {
    let (mut world, mut lock) = World::held(1);
    let sent = world.now;
    world.confirm(&lock);
    world.keeps(0, 9_000_000_000_000_000);
    world.extended(&mut lock);
    let millis = TTL_ASSUMED_MAX.as_millis() as u64;
    assert_eq!(lock.valid_until(), end(sent, millis));
    assert_eq!(lock.ttl(), TTL_ASSUMED_MAX);
}

#[test]
fn a_lock_from_another_clock_that_is_not_confirmed_is_over_with_its_keys() {
    let (mut world, lock) = World::held(3);
    let lock = world.detach_without_end(lock);
    let lock = world.adopt(lock);
    let keys_gone = Drift::default().gone_by(world.now, TTL_ASSUMED_MAX);
    world.sleep_until_event();
    world.expired(&lock);
    let early = keys_gone.saturating_since(world.now);
    assert!(world.now <= keys_gone && early < 2 * MS, "{early:?}");
    world.is_expired(&lock);
    world.is_clean();
}

#[test]
fn what_was_told_to_be_over_is_not_revived_by_a_confirmation() {
    let (mut world, lock) = World::held(3);
    world.now = lock.valid_until().saturating_sub(MS);
    world.pass(Duration::ZERO);
    assert_matches!(world.event(), Event::Expired { .. });
    assert!(lock.is_valid_at(world.now), "told early");
    world.is_expired(&lock);
    // A lock that has run out by the clock of its holder is over for the next holder too.
    let (mut world, lock) = World::held(3);
    let lock = world.detach(lock);
    world.now = lock.valid_until();
    world.is_expired(&lock);
}

#[test]
fn of_a_lock_that_was_handed_over_those_alone_count_that_it_stands_on() {
    let (mut world, lock) = World::won(3, 2);
    let lock = world.detach_without_end(lock);
    assert_eq!(lock.voters(), NodeSet::first(2));
    let (mut other, mut lock) = World::taken_over(world.now, lock);
    other.confirm(&lock);
    other.keeps(1, 9_000);
    other.keeps(2, 9_000);
    assert!(other.events.is_empty(), "the third is being released");
    other.keeps(0, 9_000);
    other.extended(&mut lock);
}

#[test]
fn a_confirmation_is_none_of_the_extensions_that_are_allowed() {
    let mut world = World::ready(1);
    let mut lock = world.kept_lock(b"k", LockOptions::new(TTL).extensions(1));
    world.confirm(&lock);
    world.keeps(0, 9_999);
    world.extended(&mut lock);
    assert_eq!(lock.extensions_left(), 1);
    world.extend_on(0..1, &mut lock);
    assert_matches!(world.extension_refused(&lock), ExtendError::Limit);
}

#[test]
fn a_node_that_is_found_without_the_key_gets_a_copy_with_the_next_extension() {
    let (mut world, mut lock) = World::held(3);
    world.confirm(&lock);
    world.say(2, ":0|");
    world.all_keep(0..2, 9_999);
    world.extended(&mut lock);
    assert_eq!(world.take_all().concat(), NOTHING, "a question only");
    world.extend_on(0..2, &mut lock);
    assert_eq!(world.take(2), ["SET k 10000"]);
}
