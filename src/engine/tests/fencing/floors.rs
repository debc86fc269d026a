//! Stories of floors: when they are looked at, what an answer about one is worth, and what an operator gives.

use super::*;

/// Its handshake was not done when the others were asked.
#[test]
fn a_node_that_comes_while_the_floors_are_looked_at_is_looked_at_too() {
    let mut world = asked();
    (0..3).for_each(|node| grants(&mut world, node, 7));
    assert_eq!(token(&mut world), Some(7));
    world.all_say(0..3, ":1|");
    world.is_clean();
    world.take_all();
    world.lose(0);
    world.greet_as(0, "run0", 1_000);
    for (node, sent) in world.take_all().iter().enumerate() {
        assert_eq!(*sent, [format!("LOOK run{node}")]);
    }
    world.lose(2);
    world.greet_as(2, "run9", 1_000);
    assert_eq!(world.take(2), NOTHING);
    world.all_say(0..2, "*2|:1|:7|");
    for (node, run_id) in [(0, "run0"), (1, "run1"), (2, "run9")] {
        assert_eq!(world.take(node), [format!("LOOK {run_id}")]);
    }
}

/// The second one finds no mark any more, because the first has repaired the floor.
#[test]
fn a_repair_that_was_sent_twice_is_over() {
    let mut world = in_repair();
    let repair = vec!["REPAIR run1 5 9".to_string()];
    assert_eq!(due(&mut world)[1], repair);
    world.lose(0);
    world.greet_as(0, "run0", 1_000);
    world.say(0, "*2|:1|:8|");
    world.say(2, "*2|:1|:9|");
    world.take_all();
    world.sleep(60 * MS); // It is not waited for.
    assert_eq!(world.take(1), repair);
    world.say(1, ":1|*2|:1|:9|:0|");
    world.is_clean();
    world.acquire(&fenced());
    world.say(0, "*3|:-1|:0|:0|");
    world.sleep_until_event();
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[0], IN_REPAIR);
}

/// Clocks were ahead when these floors were written, and are right now: the time says nothing.
#[test]
fn a_floor_that_is_given_is_as_high_as_those_of_the_others() {
    const HIGH: u64 = PROPOSED + 3_600_000_000;
    let mut world = in_repair();
    world.lose(0);
    world.greet_as(0, "run0", 1_000);
    world.say(0, &format!("*2|:1|:{HIGH}|"));
    world.say(1, "*2|:0|:5|");
    world.say(2, "*2|:1|:9|");
    world.take_all();
    assert_eq!(world.engine.trust(world.now, id(1), "run1"), Ok(false));
    world.drain();
    let time = SINCE_1970.as_micros() as u64 + world.now.as_nanos() / 1_000;
    let proposed = time + 1_000_000;
    assert_eq!(world.take(1), [format!("FLOOR run1 {HIGH} {proposed}")]);
    // Nothing is proposed from it: the counters are lower.
    world.say(1, ":1|");
    world.acquire(&fenced());
    assert_eq!(world.take(2), [format!("by digest TAKE k {time}")]);
}
