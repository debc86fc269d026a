//! Stories of waiters that learn when a lock may be free.

use super::*;
use crate::node::Waking;

const SET: [&str; 1] = ["SET k 10000"];

impl World {
    /// Makes three nodes that have refused the lock to a waiter, and are asked to report the next change.
    fn refused() -> Self {
        let mut world = Self::ready(3);
        world.acquire(&patient());
        world.all_reply("_|");
        world.take_all();
        world
    }

    /// Lets all nodes grant the lock to the waiter.
    fn granted(&mut self) -> Lock {
        for node in 0..3 {
            let sent = self.take(node);
            assert_eq!(sent.last().expect("it was asked"), SET[0]);
            self.say(node, &"+OK|:-2|"[..if sent.len() == 1 { 0 } else { 8 }]);
        }
        self.all_say(0..3, "+OK|");
        self.lock()
    }
}

#[test]
fn a_push_for_all_keys_wakes_and_one_for_another_key_does_not() {
    let (mut world, _) = World::one_waits();
    world.all_say(0..3, ">2|$10|invalidate|*1|$5|other|");
    world.all_say(0..3, ">3|$7|message|$1|k|$1|k|");
    assert_eq!(world.take_all().concat(), NOTHING);
    world.all_say(0..2, PUSH_ALL);
    assert!(world.take(0).contains(&SET[0].into()));
}

#[test]
fn a_lock_that_was_released_before_the_look_is_asked_for_at_once() {
    let mut world = World::refused();
    world.all_say(0..2, "+OK|+OK|:-2|");
    (0..3).for_each(|node| assert_eq!(world.take(node).last().unwrap(), SET[0]));
}

/// The holder extends its lock, or another client writes to the key.
#[test]
fn who_was_told_in_vain_again_and_again_looks_before_it_asks() {
    let (mut world, _) = World::one_waits();
    let asked = asks_in_vain(&mut world, Duration::ZERO);
    assert_eq!(asked, 3 * 19, "and the one before the story");
    world.all_say(0..3, PUSH);
    for (node, sent) in world.take_all().iter().enumerate() {
        world.say(node, ["", "+OK|:-2|"][usize::from(!sent.is_empty())]);
    }
    drop(world.granted());
}

/// The caller has lost the race for the lock each time. With a look before each attempt, it would lose all later ones
/// too.
#[test]
fn who_was_too_late_for_many_locks_asks_as_soon_as_the_next_one_is_released() {
    let (mut world, _) = World::one_waits();
    assert_eq!(asks_in_vain(&mut world, 12 * MS), 3 * 40);
    world.all_say(0..3, PUSH);
    drop(world.granted());
}

/// Lets the key change 40 times, each time after this `pause`, without becoming free. Returns the number of requests
/// for the lock.
fn asks_in_vain(world: &mut World, pause: Duration) -> usize {
    let mut asked = 0;
    for _ in 0..40 {
        world.sleep(pause);
        world.all_say(0..3, PUSH);
        world.sleep(MS);
        world.all_answer(|_, sent| {
            asked += usize::from(sent == SET[0]);
            match sent {
                "SET k 10000" => "_|",
                "EVALSHA release" => ":0|",
                look => answer(look),
            }
        });
        answer_looks(world);
    }
    asked
}

/// Returns the answer to a part of a look at a key that is held.
fn answer(look: &str) -> &'static str {
    match look {
        "CLIENT CACHING YES" => "+OK|",
        "PTTL k" => ":10000|",
        "EVAL inspect" => "*3|:9001|:0|$0||",
        other => panic!("it has no other question: {other}"),
    }
}

/// Answers the looks until the nodes are asked only for the lock.
fn answer_looks(world: &mut World) {
    loop {
        let looks = [0, 1, 2].map(|node| world.take(node));
        if looks.concat() == NOTHING {
            return;
        }
        world.sleep(MS);
        for (node, look) in looks.iter().enumerate() {
            let said: String = look.iter().map(|part| answer(part)).collect();
            world.say(node, &said);
        }
    }
}

#[test]
fn a_node_that_comes_back_is_looked_at_again() {
    let (mut world, _) = World::one_waits();
    world.lose(0);
    world.pass(60 * MS);
    world.welcome(0);
    world.finish(0, "run0");
    let sent = world.take(0);
    assert!(sent.ends_with(&FIRST_LOOK.map(String::from)), "{sent:?}");
    world.say(0, "+OK|+OK|:-2|");
    assert_eq!(world.take_all().concat(), NOTHING);
    world.say(2, PUSH);
    assert!(world.take(0).contains(&SET[0].into()));
}

#[test]
fn a_look_of_which_any_part_is_refused_registers_nothing() {
    for said in ["+OK|-NOPERM x|:10000|", "+OK|+OK|-NOPERM x|"] {
        let mut world = World::refused();
        world.say(0, said);
        let status = world.engine.node_statuses(world.now).next();
        let waking = status.expect("of the first node").waking;
        assert_matches!(waking, Waking::Refused(_), "{said}: {waking}");
    }
}

#[test]
fn a_lock_without_an_end_is_looked_at_again() {
    let mut world = World::refused();
    world.say(2, ":0|");
    world.all_say(0..3, "+OK|+OK|:-1|");
    let first = [LOOK[0], LOOK[1], "EVAL inspect"];
    for after in [1, 4] {
        world.sleep(Duration::from_secs(after));
        world.all_exchange(&first, "+OK|:-1|*3|:9000000000000001|:0|$7|foreign|");
    }
    // None of the nodes reports that it has been deleted.
    world.sleep(Duration::from_secs(4));
    world.all_exchange(&first, "+OK|:-2|*3|:0|:0|$0||");
    drop(world.granted());
}
