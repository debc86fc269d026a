//! Stories of nodes that extend many locks one after the other, so that a majority is free for others.

use super::keep::{answers, renewals};
use super::*;
use crate::limits::{RENEWALS_FEW, RENEWALS_WAIT};

/// A number of renewals that have to wait for a turn.
const MANY: usize = RENEWALS_FEW + 1;

/// Makes `nodes` nodes that have granted `count` kept locks, whose renewals are due and were begun.
fn renewing(nodes: usize, count: usize) -> (World, Vec<Lock>) {
    renewing_in(World::ready(nodes), count)
}

/// Like [`renewing`], in `world`.
fn renewing_in(mut world: World, count: usize) -> (World, Vec<Lock>) {
    let locks = world.kept_locks(count);
    world.sleep_until_renewed();
    (world, locks)
}

impl World {
    /// Returns how many unanswered renewals each node has.
    fn renewing(&self) -> Vec<usize> {
        self.sent.iter().map(|sent| renewals(sent)).collect()
    }

    fn sleep_until_renewed(&mut self) {
        while self.sent.iter().all(Vec::is_empty) {
            self.sleep_until_timer();
        }
    }

    /// Lets `node` confirm everything that it was sent.
    fn confirms(&mut self, node: usize) {
        let sent = self.take(node);
        self.say(node, &answers(&sent, ":1|"));
    }
}

/// A node that no majority needs any more has its turn too.
#[test]
fn one_node_of_three_extends_many_locks_at_a_time() {
    let (mut world, _locks) = renewing(3, MANY);
    assert_eq!(world.renewing(), [MANY, 0, 0]);
    world.confirms(0);
    assert_eq!(world.renewing(), [0, MANY, 0]);
    world.confirms(1);
    assert_eq!(world.extended_by_engine(), MANY);
    assert_eq!(world.renewing(), [0, 0, MANY]);
    world.confirms(2);
    let load = world.engine.load();
    assert_eq!((load.in_flight, load.unsent, load.rounds), (0, 0, 0));
}

#[test]
fn as_many_nodes_as_a_majority_can_do_without_extend_at_a_time() {
    for (nodes, first) in [(1, 1), (2, 2), (4, 1), (5, 2), (7, 3)] {
        let (world, _locks) = renewing(nodes, MANY);
        let asked = (0..nodes).map(|node| if node < first { MANY } else { 0 });
        assert_eq!(world.renewing(), asked.collect::<Vec<_>>());
    }
    let (mut world, _locks) = renewing(5, MANY);
    world.confirms(1);
    assert_eq!(world.renewing(), [MANY, 0, MANY, 0, 0]);
}

#[test]
fn few_renewals_wait_for_nothing() {
    let (mut world, _locks) = renewing(3, RENEWALS_FEW);
    assert_eq!(world.renewing(), [RENEWALS_FEW; 3]);
    world.confirms(0);
    world.confirms(2);
    assert_eq!(world.extended_by_engine(), RENEWALS_FEW);
}

#[test]
fn a_lock_is_taken_and_released_ahead_of_renewals_that_wait() {
    let (mut world, _locks) = renewing(3, MANY);
    world.acquire_of(b"other", &LockOptions::new(TTL));
    for node in [1, 2] {
        world.exchange(node, ["SET other 10000"], "+OK|");
    }
    let lock = world.lock();
    world.release(lock);
    for node in [1, 2] {
        world.exchange(node, ["EVALSHA release"], ":1|");
    }
    assert!(world.unlocked().is_ok());
    // Their turn comes when the first node has answered everything.
    let sent = world.take(0);
    world.say(0, &(answers(&sent[..1], ":1|") + "+OK|:1|"));
    assert_eq!(world.renewing(), [0, MANY, 0]);
}

/// The command that raises the counter belongs to the acquisition of another lock.
#[test]
fn a_counter_is_raised_ahead_of_renewals_that_wait() {
    let (mut world, _locks) = renewing(3, MANY);
    let since = Duration::from_secs(1_790_000_000);
    world.engine.set_wall_clock(world.now, since);
    world.acquire_of(b"other", &LockOptions::new(TTL).fenced());
    for (node, number) in [(1, 7), (2, 9)] {
        world.reply(node, &format!("*3|:1|:0|:{number}|"));
    }
    assert_eq!(world.take(1), ["RAISE other 9"]);
}

/// The release is for one of the locks that are being extended.
#[test]
fn a_release_goes_behind_the_renewal_of_its_lock_that_waits() {
    let (mut world, mut locks) = renewing(5, MANY);
    world.confirms(0);
    world.confirms(1);
    assert_eq!(world.renewing(), [0, 0, MANY, MANY, 0]);
    let sent = world.take(2);
    world.say_undrained(2, &answers(&sent, ":1|"));
    world.release(locks.remove(3));
    let sent = world.take(4);
    assert_eq!((sent.len(), renewals(&sent[..1])), (2, MANY));
    assert_eq!(sent[1], "EVALSHA release");
}

/// If a lock is released before a majority has extended it, its waiting renewal is not sent at all.
#[test]
fn a_renewal_that_waits_is_taken_back_when_its_lock_is_released() {
    let (mut world, mut locks) = renewing(3, MANY + 1);
    world.release(locks.remove(3));
    assert_eq!(world.take(1), ["EVALSHA release"]);
    assert_eq!(world.take(2), ["EVALSHA release"]);
    let sent = world.take(0);
    world.say(0, &(answers(&sent[..1], ":1|") + ":1|"));
    assert_eq!(world.renewing(), [0, MANY, 0]);
}

/// A node that does not answer delays the others for at most that long.
#[test]
fn renewals_wait_for_two_milliseconds_at_most() {
    let (mut world, _locks) = renewing(3, MANY);
    let (at, wake) = world.engine.poll_timeout().expect("a timer");
    assert_eq!(at, world.now.saturating_add(RENEWALS_WAIT));
    assert_eq!(wake.0, Cause::Extension);
    world.sleep_until_timer();
    assert_eq!(world.renewing(), [MANY; 3]);
    world.confirms(1);
    world.confirms(2);
    assert_eq!(world.extended_by_engine(), MANY);
}

/// The renewals are sent before their time is up.
#[test]
fn renewals_wait_for_half_of_a_short_node_timeout() {
    let world = World::with(named(3).node_timeout(2 * MS)).greeted();
    let (world, _locks) = renewing_in(world, MANY);
    let (at, _) = world.engine.poll_timeout().expect("a timer");
    assert_eq!(at, world.now.saturating_add(MS));
}

#[test]
fn a_connection_that_is_lost_ends_the_turn_of_its_node() {
    let (mut world, _locks) = renewing(5, MANY);
    world.lose(0);
    world.take(0);
    assert_eq!(world.renewing(), [0, MANY, MANY, 0, 0]);
    // The engine skips a node that had to wait for its turn and is lost.
    world.lose(3);
    world.confirms(1);
    assert_eq!(world.renewing(), [0, 0, MANY, 0, MANY]);
    world.confirms(2);
    world.confirms(4);
    assert_eq!(world.extended_by_engine(), MANY);
}

/// A node that takes no bytes delays no other node.
#[test]
fn a_node_that_takes_no_bytes_has_no_turn() {
    let mut world = World::ready(3);
    let _locks = world.kept_locks(MANY);
    world.window[0] = 0;
    world.acquire_of(b"other", &LockOptions::new(TTL));
    world.all_say(1..3, "+OK|");
    let _other = world.lock();
    world.take_all();
    world.sleep_until_renewed();
    assert_eq!(world.renewing(), [0, MANY, 0]);
    world.confirms(1);
    assert_eq!(world.renewing(), [0, 0, MANY]);
    world.confirms(2);
    assert_eq!(world.extended_by_engine(), MANY);
}
