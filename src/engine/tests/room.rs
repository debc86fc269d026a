//! Stories of commands that wait for room in a socket: what is not sent any more is taken back.

use super::*;

#[test]
fn a_set_of_which_nothing_has_left_is_withdrawn() {
    let mut world = World::ready(3);
    world.window = vec![usize::MAX, 0, 0];
    world.try_once();
    world.say(0, "$-1|");
    world.pass(50 * MS);
    world.no_quorum();
    (1..3).for_each(|node| world.make_room(node));
    assert_eq!(world.take_all()[1..], [NOTHING, NOTHING]);
    world.is_clean();
}

#[test]
fn a_set_that_has_begun_to_leave_is_released_behind_itself() {
    let mut world = World::ready(1);
    world.window = vec![7];
    let round = world.try_once();
    world.cancel(round);
    world.make_room(0);
    assert_eq!(world.take(0), ["SET k 10000", "EVALSHA release"]);
    world.say(0, "+OK|:1|");
    world.is_clean();
    assert!(world.events.is_empty(), "a cancelled round tells nothing");
}

#[test]
fn a_set_that_waits_for_room_is_not_sent_behind_the_verdict() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    let lock = world.lock_on(0..2);
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING);
    world.take_all();
    world.release(lock);
    assert_eq!(world.take(2), NOTHING, "it has no key");
}

#[test]
fn a_set_is_not_sent_behind_its_node_timeout() {
    let mut world = World::new(5);
    for node in [0, 1, 3, 4] {
        world.greet(node);
    }
    world.greet_late(2, 90 * MS, World::pass);
    world.window[4] = 0;
    world.try_once();
    world.all_say(0..2, "+OK|");
    world.pass(60 * MS);
    assert!(world.events.is_empty(), "the third is far away");
    world.say(2, "+OK|");
    drop(world.lock());
    world.make_room(4);
    assert_eq!(world.take(4), NOTHING);
}

#[test]
fn a_set_that_was_not_sent_while_its_lock_was_valid_is_not_sent_at_all() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    drop(world.lock_on(0..2));
    world.pass(TTL);
    assert!(matches!(world.event(), Event::Expired { .. }));
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING);
}

#[test]
fn a_release_waits_for_no_node_whose_set_was_taken_back() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    let lock = world.lock_on(0..2);
    world.release(lock);
    world.say(0, ":1|");
    world.say(1, ":0|");
    assert!(world.unlocked().is_ok(), "nothing is open any more");
    world.is_clean();
}

#[test]
fn an_extension_that_waits_for_room_is_not_sent_behind_its_end() {
    let ends: [fn(&mut World, RoundId); 3] = [
        |world, _| world.all_say(0..2, ":1|"), // Its verdict.
        |world, round| world.engine.cancel(world.now, round),
        |world, _| world.pass(60 * MS), // The node timeout.
    ];
    for end in ends {
        let (mut world, lock) = World::held(3);
        world.window[2] = 0;
        let round = world.extend(&lock);
        end(&mut world, round);
        world.make_room(2);
        assert_eq!(world.take(2), NOTHING);
    }
}

#[test]
fn an_extension_is_not_sent_behind_the_release_that_ends_it() {
    let (mut world, lock) = World::held(3);
    world.window[2] = 0;
    world.extend(&lock);
    world.release(lock);
    world.make_room(2);
    assert_eq!(world.take(2), ["EVALSHA release"]);
}

/// How a question ends that waits for room on node 2 of three.
fn ends_while_it_waits(end: impl FnOnce(&mut World, &mut Lock, RoundId)) {
    let (mut world, mut lock) = World::held(3);
    world.window[2] = 0;
    let round = world.ask_confirm(&lock);
    assert_eq!(world.take_all()[..2], [["EVAL confirm"], ["EVAL confirm"]]);
    end(&mut world, &mut lock, round);
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING);
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_when_it_was_cancelled() {
    ends_while_it_waits(|world, _, round| world.cancel(round));
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_behind_its_verdict() {
    ends_while_it_waits(|world, lock, _| {
        world.all_keep(0..2, 9_999);
        world.extended(lock);
    });
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_behind_its_node_timeout() {
    ends_while_it_waits(|world, _, _| {
        world.pass(50 * MS);
        world.unconfirmed();
    });
}

/// A socket takes nothing, and the time of very many attempts is up: to withdraw what they have put into the
/// out buffer looks at each of them a few times, and not at all others for each.
#[test]
fn what_waits_for_a_socket_is_withdrawn_with_few_steps_each() {
    const CALLS: usize = 10_000;
    let mut world = World::ready(3);
    world.window[2] = 0;
    let options = LockOptions::new(TTL).tries(1);
    for index in 0..CALLS {
        world.acquire_of(format!("k{index}").as_bytes(), &options);
        // Two do not answer; they have read it.
        world.sent.iter_mut().for_each(Vec::clear);
    }
    assert_eq!(world.engine.parts.nodes[id(2)].in_flight(), CALLS);
    while world.engine.parts.nodes[id(2)].in_flight() != 0 {
        world.sleep_until_timer();
    }
    let steps = world.engine.parts.nodes[id(2)].steps();
    assert!(steps < 8 * CALLS, "{steps}");
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING, "nothing is sent late");
}
