//! Stories of nodes that restarted: which of them vote, and which get a copy again.

use super::*;
use crate::config::RestartGuard;

/// The longest ttl of all clients in these stories, and the length of a quarantine that follows from it.
pub(super) const LONGEST: Duration = Duration::from_secs(20);
pub(super) const QUARANTINE: Duration = Duration::from_millis(20_202);

/// Makes `nodes` nodes that have long been running when they are first connected.
pub(super) fn guarded(nodes: usize) -> World {
    let mut world = World::with(named(nodes).max_ttl(LONGEST));
    for node in 0..nodes {
        world.greet_as(node, &format!("run{node}"), 1_000);
    }
    world
}

/// Makes three such nodes, and a lock that `granted` have granted. The others have not answered.
pub(super) fn guarded_lock(granted: &[usize]) -> (World, Lock) {
    let mut world = guarded(3);
    let lock = world.lock_by(granted);
    (world, lock)
}

impl World {
    /// The server behind `node` restarts, and another process greets.
    pub(super) fn restart(&mut self, node: usize) {
        self.comes_back_as(node, &format!("again{node}"), 0);
        self.take(node);
    }

    /// Asserts that all of `nodes` were asked for the lock, and lets them say yes.
    pub(super) fn grant(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.exchange(*node, ["SET k 10000"], "+OK|");
        }
    }

    /// Makes a lock that `nodes` grant at the first try.
    #[track_caller]
    pub(super) fn lock_by(&mut self, nodes: &[usize]) -> Lock {
        self.try_once();
        self.grant(nodes);
        self.lock()
    }

    pub(super) fn ask_extension(&mut self, lock: &Lock) {
        self.extend(lock);
        self.all_were_sent(&["EVALSHA extend"]);
    }

    /// Nodes 0 and 1 confirm an extension.
    pub(super) fn extend_by_two(&mut self, lock: &mut Lock) {
        self.extend_but_for_2(lock, "");
    }

    /// Like [`extend_by_two`](Self::extend_by_two), after node 2 has said something else.
    pub(super) fn extend_but_for_2(&mut self, lock: &mut Lock, said: &str) {
        self.ask_extension(lock);
        self.say(2, said);
        self.all_say(0..2, ":1|");
        self.extended(lock);
    }
}

#[test]
fn a_node_that_restarted_is_asked_and_not_counted() {
    let mut world = guarded(3);
    world.restart(2);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(2), Some(until));
    world.try_once();
    world.grant(&[2, 0]);
    assert!(world.events.is_empty(), "one of the two counts");
    world.grant(&[1]);
    let lock = world.lock();
    world.release(lock);
    world.all_were_sent(&["EVALSHA release"]);
}

#[test]
fn without_a_majority_that_votes_no_set_is_sent() {
    let mut world = guarded(3);
    world.restart(0);
    world.restart(2);
    let until = world.quarantined_until(2).expect("it restarted");
    world.try_once();
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[2], NodeOutcome::Quarantined { until });
    assert_eq!(world.take_all().concat(), NOTHING);
    world.is_clean();
    world.now = until;
    let _lock = world.lock_by(&[0, 2]);
}

/// Makes three nodes of which only some have greeted. A round may last longer because of the others.
fn greeted_by_some(nodes: &[usize]) -> World {
    let builder = named(3).max_ttl(LONGEST);
    let mut world = World::with(builder.connect_timeout(Duration::from_secs(60)));
    for node in nodes {
        world.greet_as(*node, &format!("run{node}"), 1_000);
    }
    world
}

#[test]
fn a_node_that_does_not_vote_is_not_asked_when_its_time_is_over() {
    let mut world = greeted_by_some(&[0, 2]);
    world.restart(2);
    world.pass(Duration::from_secs(2));
    world.lose(2);
    world.try_once();
    world.grant(&[0]);
    world.pass(60 * MS);
    world.greet_as(2, "again2", 2);
    assert_eq!(world.take(2), NOTHING);
    assert!(world.events.is_empty(), "another has not greeted");
}

#[test]
fn a_set_that_does_not_count_and_waits_for_room_is_not_sent_late() {
    let mut world = greeted_by_some(&[2]);
    world.restart(2);
    world.window[2] = 0;
    world.try_once();
    // The engine is woken for this, and only once.
    let timeout = 50 * MS;
    let (at, wake) = world.engine.poll_timeout().expect("a timer");
    assert!(at <= world.now.saturating_add(timeout + MS));
    assert_eq!(wake.0, Cause::NodeTimeout);
    world.pass(timeout);
    let (at, _) = world.engine.poll_timeout().expect("a timer");
    assert!(world.now.saturating_add(timeout) < at, "not at once again");
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING);
    assert!(world.events.is_empty(), "it waits for the others");
}

#[test]
fn an_extension_does_not_count_who_may_have_forgotten() {
    let (mut world, lock) = guarded_lock(&[0, 1, 2]);
    world.restart(2);
    world.ask_extension(&lock);
    world.say(0, ":1|");
    world.say(2, ":0|");
    world.lose(1);
    let said = world.unconfirmed();
    assert_eq!(said[0], NodeOutcome::Granted);
    assert_matches!(said[2], NodeOutcome::Quarantined { .. });
}

#[test]
fn a_guard_that_is_off_counts_every_node() {
    let off = named(3).restart_guard(RestartGuard::Off);
    let mut world = World::with(off.max_ttl(LONGEST)).greeted();
    world.restart(2);
    assert_eq!(world.quarantined_until(2), None);
    let _lock = world.lock_by(&[2, 0]);
    world.reply(1, "-LOADING Redis is loading the dataset in memory|");
    assert_eq!(world.links[1], "up");
}

/// A longer ttl that this handle was asked for also lengthens the quarantine.
#[test]
fn the_longest_ttl_that_was_asked_for_counts() {
    let mut world = World::ready(1);
    let options = LockOptions::new(Duration::from_secs(100)).tries(1);
    world.acquire(&options);
    world.reply(0, "+OK|");
    let _held = world.lock();
    world.restart(0);
    let quarantine = 101_002 * MS;
    let until = world.now.saturating_add(quarantine);
    assert_eq!(world.quarantined_until(0), Some(until));
}
