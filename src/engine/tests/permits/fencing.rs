//! Stories of permits with fencing tokens: a number for each slot, which a majority gave.

use NodeOutcome::{Granted, Held, Missing};

use super::*;

/// Returns the answer of a node that has given this slot and this number.
fn numbered(slot: u16, number: u64) -> String {
    format!("*4|:1|:0|:{slot}|:{number}|")
}

const ALONE: &str = "NUMBERED SLOT k 10000 alone 3 of 4 from 1";

/// Begins one attempt to get one of four permits from `nodes` nodes.
fn asked_of(nodes: usize) -> World {
    let mut world = World::ready(nodes);
    world.ask_for(4, &once().fenced());
    world.all_were_sent(&["NUMBERED SLOT k 10000 2 of 4 from 1"]);
    world
}

/// Makes nodes, of which two have given these slots and numbers.
fn given(nodes: usize, [first, second]: [(u16, u64); 2]) -> World {
    let mut world = asked_of(nodes);
    world.each_says(&[&numbered(first.0, first.1), &numbered(second.0, second.1)]);
    world
}

#[track_caller]
fn holds(world: &mut World, slot: u16, number: u64, second_round_trips: u64) {
    let lock = world.lock();
    let found = (lock.slot(), lock.fencing_token());
    assert_eq!(found, (Some(slot), Some(number)));
    let stats = world.engine.stats();
    assert_eq!(stats.second_round_trips, second_round_trips);
    let bytes = Lock::from_bytes(&lock.to_bytes()).expect("its own bytes");
    assert_eq!((bytes.slot(), bytes.fencing_token()), found);
    world.release(lock);
}

#[test]
fn one_round_trip_is_enough_where_a_majority_gives_one_slot_and_one_number() {
    let mut world = given(3, [(2, 7), (2, 7)]);
    holds(&mut world, 2, 7, 0);
    assert_eq!(world.take(0), ["RELEASE k 4/2/"]);
    // The next proposal is larger than all numbers that were seen.
    world.say(2, &numbered(2, 9));
    world.all_say(0..2, ":1|");
    world.take_all();
    world.say(2, ":1|");
    world.is_clean();
    world.ask_for(4, &once().fenced());
    world.all_were_sent(&["NUMBERED SLOT k 10000 2 of 4 from 10"]);
}

#[test]
fn counters_that_differ_are_raised_in_the_slot_that_is_to_be_held() {
    let mut world = given(3, [(2, 7), (2, 9)]);
    assert!(world.events.is_empty());
    world.play(&[(&["RAISE k 4/2/ to 9"], ":1|"), (&[], "")]);
    holds(&mut world, 2, 9, 1);

    // A member that is over did not raise its counter, so the node gives no vote. The last node has the number, too.
    let mut world = given(3, [(2, 7), (2, 9)]);
    world.play(&[(&["RAISE k 4/2/ to 9"], ":0|"), (&[], "")]);
    assert!(world.events.is_empty());
    world.say(2, &numbered(2, 8));
    assert!(world.events.is_empty());
    world.exchange(2, ["RAISE k 4/2/ to 9"], ":1|");
    holds(&mut world, 2, 9, 1);

    // A node that has given a larger number since then may have given it to the previous holder.
    let mut world = given(3, [(2, 7), (2, 9)]);
    world.take_all();
    world.say(2, &numbered(2, 10));
    assert!(world.events.is_empty());
    world.say(0, ":0|");
    assert_eq!(outcomes(&world.no_quorum()), [Missing, Granted, Granted]);
}

/// The node gave the number with a slot that the token has left. Another client may have had the right slot since then,
/// with a larger number.
#[test]
fn a_node_that_has_moved_the_token_gives_another_number() {
    let mut world = given(3, [(2, 7), (3, 9)]);
    world.exchange(0, ["MOVE k 4/3/", ALONE], ":1|");
    assert!(world.events.is_empty());
    world.all_were_sent(&[]);
    world.say(0, &numbered(3, 12));
    assert!(world.events.is_empty());
    world.exchange(1, ["RAISE k 4/3/ to 12"], ":1|");
    holds(&mut world, 3, 12, 1);

    let mut world = given(3, [(2, 7), (3, 9)]);
    world.say(0, &format!(":1|{}", numbered(3, 9)));
    holds(&mut world, 3, 9, 0);
}

#[test]
fn a_node_that_cannot_move_the_token_says_so_with_its_next_number() {
    let mut world = given(3, [(2, 7), (3, 9)]);
    world.take_all();
    world.say(0, ":-1|");
    world.all_were_sent(&[]);
    world.say(0, &numbered(2, 8));
    let sent = ["MOVE k 4/2/", "NUMBERED SLOT k 10000 alone 2 of 4 from 1"];
    world.exchange(1, sent, &format!(":1|{}", numbered(2, 10)));
    world.exchange(0, ["RAISE k 4/2/ to 10"], ":1|");
    holds(&mut world, 2, 10, 1);
}

#[test]
fn a_token_that_is_gone_when_it_should_be_moved_has_no_vote_with_a_new_number_either() {
    let mut world = given(3, [(2, 7), (3, 9)]);
    world.say(0, &format!(":0|{}", numbered(3, 9)));
    assert!(world.events.is_empty());
    world.say(2, "*4|:2|:0|:101|:0|");
    let said = outcomes(&world.held_by_another());
    assert_eq!(said, [Missing, Granted, Held]);
}

/// Three of five have given one number, but not with one slot.
#[test]
fn numbers_of_other_slots_do_not_count() {
    let mut world = given(5, [(2, 7), (2, 9)]);
    world.say(2, &numbered(3, 7));
    world.say(3, &numbered(2, 8));
    assert!(world.events.is_empty());
    for (node, raised) in [(0, true), (1, false), (3, true)] {
        let sent = world.take(node);
        assert_eq!(sent == ["RAISE k 4/2/ to 9"], raised, "{node}: {sent:?}");
    }
    world.say(4, &numbered(3, 9)); // The node has the number, but not the slot.
    world.say(0, ":1|");
    assert!(world.events.is_empty());
    world.say(3, ":1|");
    holds(&mut world, 2, 9, 1);
}

#[test]
fn a_node_without_a_floor_gives_no_permit_with_a_number() {
    let mut world = asked_of(3);
    world.all_say(0..2, "*3|:-1|:0|:0|");
    let said = outcomes(&world.no_quorum());
    assert_eq!(said[1], NodeOutcome::Unusable(Unusable::NoFloor));
}

#[test]
fn a_caller_that_waits_for_a_number_is_told_of_the_next_change_too() {
    let full = "*4|:2|:0|:9001|:0|";
    let mut world = World::ready(3);
    world.ask_for(1, &patient().fenced());
    world.take_all();
    world.all_say(0..2, full);
    let again = [&WATCHED[..], &["NUMBERED SLOT k 10000 0 of 1 from 1"]].concat();
    assert_eq!(world.take(0), again);
    world.say(2, &format!("{full}:0|"));
    world.all_say(0..3, &format!("+OK|+OK|{full}"));
    world.take_all();
    world.say(2, ":0|+OK|:9000|");
    world.take_all();
    world.each_says(&[PUSH, PUSH]);
    let again = ["CLIENT CACHING YES", "NUMBERED SLOT k 10000 0 of 1 from 1"];
    assert_eq!(world.take(1), again);
    world.all_say(0..3, &format!("+OK|{}", numbered(0, 5)));
    holds(&mut world, 0, 5, 0);
}

/// A node that lacks the permit gets a copy in its slot. The copy does not raise a counter.
#[test]
fn a_copy_has_no_number() {
    let mut world = given(3, [(2, 7), (2, 7)]);
    let lock = world.lock();
    world.take_all();
    world.say(2, &numbered(3, 8));
    world.exchange(2, COPY, &format!(":1|{}", gives(2)));
    assert_eq!(lock.fencing_token(), Some(7));
    world.release(lock);
    world.all_were_sent(&["RELEASE k 4/2/"]);
}

/// The attempt would have waited for that node until the end of its call.
#[test]
fn a_node_that_has_the_token_in_another_slot_than_a_majority_is_not_waited_for() {
    const ENDED: [NodeOutcome; 2] = [Missing, Granted];
    let mut world = given(3, [(2, 7), (2, 9)]);
    world.say(2, &numbered(3, 8));
    assert!(world.events.is_empty());
    world.exchange(0, ["RAISE k 4/2/ to 9"], ":0|");
    assert_eq!(outcomes(&world.no_quorum())[..2], ENDED);

    // Each of two nodes has given the slot of the other one to another client.
    let mut world = given(3, [(2, 7), (3, 9)]);
    assert_eq!(world.take(0)[0], "MOVE k 4/3/");
    world.say(0, &format!(":-1|{}", numbered(2, 8)));
    assert_eq!(world.take(1)[0], "MOVE k 4/2/");
    world.say(1, &format!(":-1|{}", numbered(3, 10)));
    world.say(2, &numbered(3, 5));
    assert!(world.events.is_empty());
    world.exchange(2, ["RAISE k 4/3/ to 10"], ":0|");
    let said = outcomes(&world.no_quorum());
    assert_eq!([said[2], said[1]], ENDED);
}
