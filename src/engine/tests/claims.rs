//! Stories of claims: which nodes may have a token, and what ends that.

use super::restarts::{copy_sent, guarded};
use super::*;
use crate::engine::claims::claim::Claim;
use crate::limits::CLAIMS_MAX;
use crate::quorum::NodeSet;

/// Longer than any key of these stories lives.
const LONG: Duration = Duration::from_secs(3_600);

impl World {
    /// The connection to `node` ends, and the same server is connected again.
    fn break_and_mend(&mut self, node: usize) {
        self.lose(node);
        self.take(node);
        self.reconnect(node);
        self.welcome(node);
        self.finish_as(node, &format!("run{node}"), 2_000);
        self.take(node);
    }

    /// Nodes 0 and 1 confirm an extension.
    fn extend_by_two(&mut self, lock: &mut Lock) {
        self.ask_extension(lock);
        (0..2).for_each(|node| self.say(node, ":1|"));
        self.extended(lock);
    }

    /// All but node 2 answer a release that was sent, and after a long time this is what is left.
    fn claims_long_after(&mut self, lock: Lock) -> usize {
        self.release(lock);
        (0..2).for_each(|node| self.say(node, ":1|"));
        assert!(self.unlocked().is_ok());
        self.pass(LONG);
        self.engine.load().claims
    }

    #[track_caller]
    fn is_clean_of_claims(&self) {
        assert_eq!(self.engine.load().claims, 0);
    }

    #[track_caller]
    fn is_released_on_2(&mut self, lock: Lock) {
        self.release(lock);
        let release = self.take(2);
        assert!(
            matches!(&release[..], [one] if one.ends_with("release")),
            "{release:?}"
        );
        (0..3).for_each(|node| self.say(node, ":1|"));
        assert!(self.unlocked().is_ok());
        self.is_clean();
    }
}

/// How the answer to a copy is lost, though it was run.
const LOSSES: [fn(&mut World); 2] = [
    |world| world.break_and_mend(2),
    |world| world.say(2, "-ERR timed out behind a proxy|"),
];

#[test]
fn a_copy_that_meets_our_own_copy_is_released() {
    for lose in LOSSES {
        let (mut world, mut lock) = copy_sent();
        lose(&mut world);
        world.extend_by_two(&mut lock);
        assert_eq!(world.take(2), ["SET k 10000"], "another copy");
        world.say(2, ":1|_|"); // The first one was run, and is in the way of the second.
        world.is_released_on_2(lock);
    }
}

#[test]
fn a_copy_that_is_taken_back_does_not_hide_an_earlier_one() {
    for lose in LOSSES {
        let (mut world, mut lock) = copy_sent();
        lose(&mut world);
        world.ask_extension(&lock);
        world.window[2] = 0;
        (0..2).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
        assert_eq!(world.take(2), Vec::<String>::new(), "it waits for room");
        world.say(2, ":1|");
        world.window[2] = usize::MAX;
        world.release(lock);
        world.input(Input::Writable { node: id(2) });
        assert_eq!(world.take(2).len(), 1, "a release alone");
        (0..3).for_each(|node| world.say(node, ":1|"));
        assert!(world.unlocked().is_ok());
        world.is_clean();
    }
}

/// It is taken back by the end of the lock, or with its connection.
#[test]
fn a_copy_that_never_left_does_not_hide_an_earlier_one() {
    let ends: [fn(&mut World); 2] = [|world| world.pass(TTL), |world| world.break_and_mend(2)];
    for end in ends {
        let (mut world, mut lock) = copy_sent();
        world.break_and_mend(2);
        world.ask_extension(&lock);
        world.window[2] = 0;
        (0..2).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
        end(&mut world);
        world.events.clear();
        world.window[2] = usize::MAX;
        world.input(Input::Writable { node: id(2) });
        world.take(2);
        world.release(lock);
        assert_eq!(world.take(2).len(), 1, "a release alone");
    }
}

/// What a node was granted once it may have, whatever it says to a copy.
#[test]
fn a_denied_copy_says_nothing_of_what_was_granted_before_it() {
    let (mut world, lock) = copy_sent();
    world.say(2, "_|");
    world.is_released_on_2(lock);
}

#[test]
fn a_node_that_denied_every_set_is_not_asked_to_release() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1]);
    let mut lock = world.lock();
    world.take(2);
    world.say(2, "_|");
    for _ in 0..2 {
        world.ask_extension(&lock);
        world.say(2, ":-1|");
        (0..2).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
    }
    assert_eq!(world.take(2), ["SET k 10000"]);
    world.say(2, "_|");
    world.release(lock);
    assert_eq!(world.take(2), Vec::<String>::new());
}

/// A lock that two nodes have granted, and a `SET` to the third whose answer is lost.
fn set_lost() -> (World, Lock) {
    let mut world = guarded(3);
    world.pass(Duration::from_secs(2));
    world.try_once();
    world.grant(&[0, 1]);
    let lock = world.lock();
    world.break_and_mend(2);
    (world, lock)
}

/// A server that postpones writes may run the `SET` later, over the connection that is gone.
#[test]
fn a_set_without_an_answer_is_owed_also_where_the_key_was_missing_later() {
    let (mut world, mut lock) = set_lost();
    world.extend_by_two(&mut lock);
    world.say(2, ":0|");
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

#[test]
fn a_set_without_an_answer_is_owed_also_where_its_release_was_refused() {
    let (mut world, lock) = set_lost();
    world.release(lock);
    world.take(2);
    world.say(2, "-MISCONF x|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    world.lose(2);
    world.pass(LONG);
    assert_eq!(world.engine.load().claims, 1);
    world.welcome(2);
    world.say(2, ":0|");
    world.is_clean_of_claims();
}

#[test]
fn an_answer_that_no_set_has_leaves_its_release_owed() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1]);
    let lock = world.lock();
    world.say(2, ":7|");
    assert_eq!(world.links[2], "reset");
    assert_eq!(world.claims_long_after(lock), 1);
}

/// Where the key is there its only `SET` has been run, and cannot be run again.
#[test]
fn a_set_without_an_answer_has_been_run_where_the_key_is_there() {
    let (mut world, mut lock) = set_lost();
    world.extend_by_two(&mut lock);
    world.say(2, ":1|");
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 0, "it has expired by now");
    let (mut world, lock) = set_lost();
    world.engine.confirm(world.now, &lock).expect("asked");
    world.drain();
    world.say(2, ":9001|");
    let lock = world.engine.detach(world.now, lock);
    assert!(lock.voters().contains(2), "it is handed over");
    world.is_clean_of_claims();
}

#[test]
fn a_copy_without_an_answer_is_owed_also_where_the_key_is_there() {
    let (mut world, mut lock) = copy_sent();
    world.break_and_mend(2);
    world.ask_extension(&lock);
    world.say(2, ":1|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

#[test]
fn an_extension_without_an_answer_may_have_been_run_whatever_an_earlier_one_says() {
    let (mut world, mut lock) = {
        let mut world = guarded(3);
        world.try_once();
        world.grant(&[0, 1, 2]);
        let lock = world.lock();
        (world, lock)
    };
    world.ask_extension(&lock);
    world.ask_extension(&lock);
    world.say(2, ":1|");
    (0..2).for_each(|node| world.say(node, ":1|:1|"));
    world.events.truncate(1);
    world.extended(&mut lock);
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

/// The one who takes it over is told of no `SET` that may be run when he has released it.
#[test]
fn a_copy_without_an_answer_is_not_handed_over() {
    let (mut world, mut lock) = copy_sent();
    world.break_and_mend(2);
    world.ask_extension(&lock);
    world.say(2, ":1|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    let lock = world.engine.detach(world.now, lock);
    world.drain();
    assert_eq!(world.take(2).len(), 1, "a release");
    assert!(!lock.voters().contains(2));
}

/// A lock that nobody releases is forgotten when its keys are gone, but not which answers were lost.
#[test]
fn a_set_without_an_answer_is_owed_also_where_its_lock_was_over_long_ago() {
    let (mut world, lock) = set_lost();
    world.pass(TTL);
    assert!(matches!(world.event(), Event::Expired { .. }));
    world.pass(LONG);
    world.take(2);
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

/// An extension may have been run though it was answered by an error.
#[test]
fn an_extension_without_a_certain_answer_leaves_the_expiry_unknown() {
    let (mut world, mut lock) = {
        let mut world = guarded(3);
        world.try_once();
        world.grant(&[0, 1, 2]);
        let lock = world.lock();
        (world, lock)
    };
    world.ask_extension(&lock);
    world.say(2, "-ERR timed out behind a proxy|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

/// What it holds may be another's by the time at which it votes for the next holder.
#[test]
fn a_lock_that_is_handed_over_does_not_stand_on_nodes_that_do_not_vote() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let lock = world.lock();
    world.restart(2);
    let lock = world.engine.detach(world.now, lock);
    assert_eq!(lock.voters(), NodeSet::first(2));
}

/// More is owed than fits into one buffer.
#[test]
fn a_debt_that_finds_no_room_is_paid_when_there_is_some() {
    let mut world = World::ready(1);
    world.pass(Duration::from_secs(2));
    let long = vec![b'k'; crate::limits::RESOURCE_BYTES_MAX];
    let options = LockOptions::new(TTL).tries(1);
    let (locks, mut held) = (4_000, Vec::new());
    for _ in 0..locks {
        let request = Request::new(&long, &options);
        world.engine.acquire(world.now, &request).expect("valid");
        world.drain();
        world.say(0, "+OK|");
        held.push(world.lock());
    }
    world.lose(0);
    for lock in held {
        world.engine.give_back(world.now, lock);
    }
    assert_eq!(world.engine.load().owed, locks);
    world.take(0);
    world.welcome(0);
    let mut answered = 0;
    while answered < locks {
        let sent = world.take(0);
        let released = sent.iter().filter(|sent| sent.ends_with("release")).count();
        assert!(0 < released && released < locks, "{released}");
        world.say(0, &":1|".repeat(released));
        if answered == 0 {
            world.finish(0, "run0"); // Behind what was owed first.
        }
        answered += released;
    }
    assert_eq!(world.engine.load().owed, 0);
}

/// As many claims as there may be, none of which is on any node.
fn fill(world: &mut World) {
    let until = world.now.saturating_add(TTL);
    while world.engine.parts.claims.len() < CLAIMS_MAX {
        let empty = Claim::adopted(NodeSet::EMPTY, TTL, until, until);
        world.engine.parts.claims.insert(empty);
    }
}

#[test]
fn there_are_no_more_claims_than_there_may_be() {
    let (mut world, lock) = World::held(1);
    let adopted = world.engine.detach(world.now, lock);
    let options = LockOptions::new(TTL).tries(2);
    world.acquire(&options);
    world.say(0, "_|");
    assert!(world.events.is_empty(), "there is another try");
    fill(&mut world);
    let full = world.engine.load().claims;
    // A call,
    let options = LockOptions::new(TTL).tries(1);
    let refused = world
        .engine
        .acquire(world.now, &Request::new(b"k", &options));
    assert!(matches!(refused, Err(LockError::Saturated)));
    // another try,
    world.pass(Duration::from_millis(250));
    assert!(matches!(world.refusal(), LockError::Saturated));
    // and a lock in nobody's care that is lost.
    world.extend(&adopted);
    world.say(0, ":0|");
    assert!(matches!(
        world.event(),
        Event::Extended {
            result: Err(ExtendError::Lost(_)),
            ..
        }
    ));
    assert_eq!(world.engine.load().claims, full);
}

/// For so long the last handle pays in the background.
#[cfg(feature = "std")]
#[test]
fn a_key_whose_set_was_not_answered_may_live_for_a_whole_ttl_from_now() {
    let mut world = World::ready(1);
    world.try_once();
    world.lose(0);
    world.refusal();
    let whole = |world: &World| world.engine.parts.settings.drift.gone_by(world.now, TTL);
    assert_eq!(world.engine.keys_end_by(world.now), whole(&world));
    // Also if it is not answered over a connection that stands.
    let mut world = World::ready(1);
    let round = world.try_once();
    world.engine.cancel(world.now, round);
    world.drain();
    world.pass(Duration::from_millis(50));
    assert_eq!(world.engine.keys_end_by(world.now), whole(&world));
}
