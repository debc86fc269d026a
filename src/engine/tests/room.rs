//! Stories of commands that wait for room in a socket: those that are no longer needed are withdrawn.

use super::*;

/// A lock on one name, and one on several.
#[test]
fn a_command_that_waits_for_room_is_not_sent_behind_the_verdict() {
    for (names, granted) in [(&[&b"k"[..]][..], "+OK|"), (&[b"a", b"b"], ":1|")] {
        let mut world = World::ready(3);
        world.window[2] = 0;
        world.acquire_all(names, &once());
        world.all_say(0..2, granted);
        let lock = world.lock();
        world.make_room(2);
        assert_eq!(world.take(2), NOTHING, "{names:?}");
        world.release(lock);
        assert_eq!(world.take(2), NOTHING, "it has no key");
        world.each_says(&[":1|", ":0|"]);
        assert!(world.unlocked().is_ok(), "nothing is open any more");
        world.is_clean();
    }
}

#[test]
fn a_question_that_waits_for_room_is_not_sent_behind_its_end() {
    type End = fn(&mut World, RoundId, &str);
    let ends: [End; 3] = [
        |world, _, said| world.all_say(0..2, said), // The attempt has its verdict.
        |world, round, _| world.cancel(round),
        |world, _, _| world.pass(60 * MS), // The node timeout passes.
    ];
    for (end, told) in ends.into_iter().zip([1, 0, 1]) {
        for (asks, said) in [
            (World::extend as fn(&mut World, &Lock) -> RoundId, ":1|"),
            (World::ask_confirm, ":10000|"),
        ] {
            let (mut world, lock) = World::held(3);
            world.window[2] = 0;
            let round = asks(&mut world, &lock);
            let asked = world.take_all();
            assert_eq!([asked[0].len(), asked[1].len(), asked[2].len()], [1, 1, 0]);
            end(&mut world, round, said);
            assert_eq!(world.events.len(), told, "{:?}", world.events);
            world.make_room(2);
            assert_eq!(world.take(2), NOTHING);
        }
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

/// A socket takes nothing, and the time of very many attempts is up. Withdrawing their commands from the out buffer
/// looks at each a few times, and not at all others for each.
#[test]
fn what_waits_for_a_socket_is_withdrawn_with_few_steps_each() {
    const CALLS: usize = 10_000;
    let mut world = World::ready(3);
    world.window[2] = 0;
    for index in 0..CALLS {
        world.acquire_of(format!("k{index}").as_bytes(), &once());
        // Two nodes have read the command and do not answer.
        world.sent.iter_mut().for_each(Vec::clear);
    }
    assert_eq!(world.node(2).connection.in_flight(), CALLS);
    while world.node(2).connection.in_flight() != 0 {
        world.sleep_until_timer();
    }
    let steps = world.node(2).connection.wire.in_flight.steps();
    assert!(steps < 8 * CALLS, "{steps}");
    world.make_room(2);
    assert_eq!(world.take(2), NOTHING, "nothing is sent late");
}
