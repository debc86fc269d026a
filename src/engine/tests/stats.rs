//! Stories of statistics: each outcome is counted once, with the right times.
//!
//! Every story of the engine also checks this: see [`World::counted_once`].

use super::*;
use crate::engine::stats::{Acquisitions, Extensions, Releases};
use crate::histogram::Histogram;

/// The reported outcomes, counted independently of the engine.
#[derive(Debug, Default)]
pub(super) struct Told {
    acquisitions: Acquisitions,
    extensions: Extensions,
    releases: Releases,
    lost: u64,
    /// How often the engine was drained.
    drains: u32,
}

impl Told {
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::Acquired { result, .. } => match result {
                Ok(_) => self.acquisitions.acquired += 1,
                Err(LockError::Held(_)) => self.acquisitions.held += 1,
                Err(LockError::NoQuorum(_)) => self.acquisitions.no_quorum += 1,
                Err(LockError::TooSlow(_)) => self.acquisitions.too_slow += 1,
                Err(LockError::OtherGroup(_)) => self.acquisitions.other_group += 1,
                Err(LockError::Saturated) => self.acquisitions.saturated += 1,
                Err(other) => panic!("{other:?} is no outcome"),
            },
            Event::Extended { result, .. } => self.extended(result.as_ref().err()),
            Event::Kept { result, .. } => self.extended(result.as_ref().err()),
            Event::Released { result, .. } => match result {
                Ok(_) => self.releases.released += 1,
                Err(UnlockError::NotHeld(_)) => self.releases.not_held += 1,
                Err(UnlockError::Unconfirmed(_)) => self.releases.unconfirmed += 1,
                Err(other) => panic!("{other:?} is no outcome"),
            },
            Event::Expired { .. } => self.lost += 1,
            _ => {}
        }
    }

    fn extended(&mut self, why: Option<&ExtendError>) {
        match why {
            None => self.extensions.extended += 1,
            Some(ExtendError::Unconfirmed(_)) => self.extensions.unconfirmed += 1,
            Some(ExtendError::Lost(_)) => self.extensions.lost += 1,
            Some(ExtendError::Expired) => self.extensions.expired += 1,
            Some(ExtendError::Limit) => self.extensions.limit += 1,
            Some(ExtendError::Closed) => self.extensions.cancelled += 1,
            Some(other) => panic!("{other:?} is no outcome"),
        }
    }
}

impl World {
    /// Checks that each reported outcome was counted once, and each lock that has ended. Calls that were refused at
    /// once, and callers that gave up, have no event and are left out.
    #[track_caller]
    pub(super) fn counted_once(&mut self) {
        self.told.drains += 1;
        let (stats, told) = (&self.engine.work.parts.stats, &self.told);
        let saturated = stats.acquisitions.saturated;
        assert!(told.acquisitions.saturated <= saturated);
        let acquisitions = Acquisitions {
            cancelled: stats.acquisitions.cancelled,
            saturated,
            ..told.acquisitions
        };
        assert_eq!(stats.acquisitions, acquisitions);
        let of = |all: &Extensions| (all.extended, all.unconfirmed, all.lost);
        assert_eq!(of(&stats.extensions), of(&told.extensions));
        let releases = Releases {
            unwatched: stats.releases.unwatched,
            ..told.releases
        };
        assert_eq!(stats.releases, releases);
        assert_eq!(stats.lost, told.lost);
        if told.drains % 8 == 0 && self.claims() < 100 {
            self.held_once();
        }
    }

    /// Checks the same for locks, one by one.
    #[track_caller]
    fn held_once(&self) {
        let (stats, told) = (&self.engine.work.parts.stats, &self.told);
        let claims = &self.engine.work.parts.claims;
        let held = || claims.iter().filter(|(_, it)| it.is_held());
        let begun = stats.acquisitions.acquired + stats.adopted;
        assert_eq!(begun - stats.hold.count(), held().count() as u64);
        let kept = held().filter(|(_, claim)| claim.kept.is_some());
        assert_eq!(stats.kept, kept.count());
        // Locks whose release is under way are reported later.
        let released = told.releases.released + told.releases.not_held + told.releases.unconfirmed;
        let asked_for = stats.validity_left.count();
        let rounds = self.engine.load().rounds as u64;
        let ended = released + stats.releases.unwatched;
        assert!(ended <= asked_for && asked_for <= ended + rounds);
    }
}

/// Returns how many times were counted, and their sum.
fn times(histogram: &Histogram) -> (u64, Duration) {
    (histogram.count(), histogram.sum())
}

/// Returns these, in order: acquisitions, and their waits; locks that have ended, and the validity that was left.
fn all_times(world: &World) -> [(u64, Duration); 4] {
    let it = world.engine.stats();
    [&it.acquire, &it.wait, &it.hold, &it.validity_left].map(times)
}

const NONE: (u64, Duration) = (0, Duration::ZERO);
const ZERO: (u64, Duration) = (1, Duration::ZERO);

#[test]
fn the_times_of_a_lock_are_those_of_its_calls() {
    let mut world = World::ready(3);
    world.try_once();
    world.wait(3 * MS);
    world.say(0, "+OK|");
    world.wait(2 * MS);
    world.say(1, "+OK|");
    let lock = world.lock();
    let granted = (1, 5 * MS);
    assert_eq!(all_times(&world), [granted, ZERO, NONE, NONE]);
    assert_eq!(world.engine.stats().held, 1);
    world.wait(2 * SECOND);
    world.release(lock);
    // The answers to the release are part of none of these times.
    let left = VALIDITY - 2 * SECOND - 5 * MS;
    let over = [granted, ZERO, (1, 2 * SECOND), (1, left)];
    assert_eq!(all_times(&world), over);
    world.wait(4 * MS);
    world.all_say(0..2, ":1|");
    assert!(world.unlocked().is_ok());
    assert_eq!(all_times(&world), over);
    let stats = world.engine.stats();
    assert_eq!((stats.held, stats.releases.released), (0, 1));
}

#[test]
fn who_waited_has_waited_until_the_attempt_that_was_granted() {
    let (mut world, lock) = World::held(3);
    (0..2).for_each(|_| _ = world.acquire(&patient()));
    assert_eq!(world.engine.stats().waiting, 2);
    world.wait(SECOND);
    world.give_back(lock);
    assert_eq!(world.engine.stats().waiting, 1);
    world.take_all();
    world.wait(7 * MS);
    world.all_say(0..3, ":1|+OK|");
    let lock = world.lock();
    let stats = world.engine.stats();
    assert_eq!(times(&stats.acquire), (2, SECOND + 7 * MS));
    assert_eq!(times(&stats.wait), (2, SECOND));
    drop(lock);
}

#[test]
fn who_waited_in_vain_has_waited_until_the_refusal() {
    let (mut world, _lock) = World::held(3);
    world.acquire(&LockOptions::new(TTL).wait(SECOND));
    let waited = world.sleep_until_event();
    world.held_by_another();
    let stats = world.engine.stats();
    assert_eq!(stats.acquisitions.held, 1);
    assert_eq!(times(&stats.wait), (2, waited));
    assert_eq!(times(&stats.acquire), ZERO);
    assert_eq!(stats.waiting, 0);
}

#[test]
fn who_gives_up_is_counted_where_it_waits_and_where_it_asks() {
    let (mut world, lock) = World::held(3);
    let waits = world.acquire(&patient());
    world.cancel(waits);
    world.cancel(waits);
    assert_eq!(world.engine.stats().acquisitions.cancelled, 1);
    let extends = world.extend(&lock);
    world.cancel(extends);
    assert_eq!(world.engine.stats().extensions.cancelled, 1);
    world.all_say(0..3, ":1|");
    let releases = world.engine.release(world.now, lock);
    world.drain();
    world.cancel(releases);
    world.all_say(0..3, ":1|");
    let asks = world.try_once();
    world.cancel(asks);
    // The same holds if it was granted, and this was not reported yet.
    world.all_reply("+OK|:1|");
    let asks = world.try_once();
    (0..2).for_each(|node| world.say_undrained(node, "+OK|"));
    world.cancel(asks);
    let stats = world.engine.stats();
    let ended = (stats.acquisitions.cancelled, stats.acquisitions.acquired);
    assert_eq!((ended, stats.releases.unwatched), ((3, 1), 1));
    assert_eq!((stats.hold.count(), stats.validity_left.count()), (1, 1));
}

#[test]
fn each_way_in_which_an_extension_ends_is_counted() {
    let (mut world, mut lock) = World::held(3);
    world.extend_on(0..3, &mut lock);
    world.extend(&lock);
    world.all_say(0..2, "-ERR x|");
    world.unconfirmed();
    world.say(2, "-ERR x|");
    world.extend(&lock);
    world.all_say(0..3, ":0|");
    world.expired_first(&lock);
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    world.cannot_be_extended(&lock);
    let stats = world.engine.stats();
    let expected = Extensions {
        extended: 1,
        unconfirmed: 1,
        lost: 1,
        expired: 1,
        ..Extensions::default()
    };
    assert_eq!((stats.extensions, stats.lost), (expected, 1));
}

#[test]
fn a_lock_that_was_extended_is_held_since_it_was_granted() {
    let (mut world, mut lock) = World::held(3);
    world.wait(6 * SECOND);
    world.extend_on(0..3, &mut lock);
    world.wait(6 * SECOND);
    world.release_on(0..3, lock);
    let [_, _, hold, left] = all_times(&world);
    assert_eq!((hold, left), ((1, 12 * SECOND), (1, VALIDITY - 6 * SECOND)));
}

/// The hold ends when the lock is lost. A late release has no validity left.
#[test]
fn a_lock_that_is_lost_is_counted_once_and_has_nothing_left() {
    let (mut world, lock) = World::held(3);
    world.sleep_until_event();
    world.expired(&lock);
    let [_, _, hold, left] = all_times(&world);
    assert_eq!((hold.0, left), (1, NONE));
    assert!((VALIDITY - 2 * MS..=VALIDITY).contains(&hold.1), "{hold:?}");
    assert!(lock.is_valid_at(world.now), "it was told early");
    world.release(lock);
    world.all_say(0..3, ":0|");
    assert_matches!(world.unlocked(), Err(UnlockError::NotHeld(_)));
    assert_eq!(all_times(&world)[2..], [hold, ZERO]);
    let stats = world.engine.stats();
    assert_eq!((stats.lost, stats.releases.not_held, stats.held), (1, 1, 0));
}

/// A lock that is handed over ends here, and begins in the engine that adopts it.
#[test]
fn a_lock_that_is_handed_over_is_held_here_and_there() {
    let (mut world, lock) = World::held(3);
    world.wait(SECOND);
    let lock = world.detach(lock);
    assert_eq!(all_times(&world)[2..], [(1, SECOND), NONE]);
    let (mut other, lock) = World::taken_over(world.now, lock);
    other.wait(2 * SECOND);
    let stats = other.engine.stats();
    assert_eq!((stats.adopted, stats.held), (1, 1));
    other.release_on(0..3, lock);
    let left = VALIDITY - 3 * SECOND;
    assert_eq!(all_times(&other), [NONE, NONE, (1, 2 * SECOND), (1, left)]);
    // A lock that was never adopted is counted only as a release.
    let (mut world, lock) = World::held(3);
    let lock = world.detach(lock);
    let mut other = World::ready(3);
    other.now = world.now;
    other.release_on(0..3, lock);
    assert_eq!(all_times(&other), [NONE, NONE, NONE, (1, VALIDITY)]);
    assert_eq!(other.engine.stats().held, 0);
}

#[test]
fn locks_that_are_kept_are_counted_while_they_are_held() {
    let mut world = World::ready(3);
    let one = world.kept_lock(b"one", LockOptions::new(TTL).keep());
    let mut two = world.kept_lock(b"two", LockOptions::new(TTL));
    let kept = |world: &World| {
        let stats = world.engine.stats();
        (stats.held, stats.kept)
    };
    assert_eq!(kept(&world), (2, 1));
    for _ in 0..2 {
        let most = Duration::from_secs(60);
        world.engine.keep(world.now, &mut two, most).expect("kept");
        assert_eq!(kept(&world), (2, 2));
    }
    world.give_back(two);
    assert_eq!(kept(&world), (1, 1));
    // No caller has it any more, so it is not extended and ends.
    drop(one);
    world.sleep_until_event();
    assert_eq!(kept(&world), (0, 0));
    assert_eq!(world.engine.stats().lost, 1);
}

#[test]
fn each_node_has_its_own_latency_and_what_waited_unread_has_none() {
    let mut world = World::ready(3);
    let latencies = |world: &World| {
        let nodes = world.engine.stats().nodes;
        let counts = nodes.iter().map(|node| times(&node.latency));
        counts.collect::<Vec<_>>()
    };
    let before = latencies(&world);
    world.try_once();
    world.wait(3 * MS);
    world.say(0, "+OK|");
    world.wait(MS);
    world.engine.was_away(world.now);
    world.say(1, "+OK|");
    let after = latencies(&world);
    assert_eq!(after[0], (before[0].0 + 1, before[0].1 + 3 * MS));
    assert_eq!(after[1..], before[1..]);
    let addresses = world.engine.stats().nodes;
    let addresses: Vec<_> = addresses.iter().map(|node| &*node.address).collect();
    assert_eq!(addresses, ["node0:6379", "node1:6379", "node2:6379"]);
}

#[test]
fn what_is_owed_is_counted_until_it_is_paid() {
    let (mut world, lock) = World::held(3);
    world.lose(2);
    world.release_on(0..2, lock);
    assert_eq!(world.engine.stats().debts, 1);
}
