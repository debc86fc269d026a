//! Stories of a node that has granted the lock while the token is not known. Its vote waits for the other nodes, and
//! the report says that it granted the lock.

use super::*;

const GRANTED: NodeOutcome = NodeOutcome::Granted;
const TIMED_OUT: NodeOutcome = NodeOutcome::TimedOut;

/// The third caller waits for less time than a node has to answer.
#[test]
fn a_node_that_has_granted_is_reported_so_whether_the_others_are_silent_or_deny_it() {
    let soon = LockOptions::new(TTL).wait(5 * MS).fenced();
    for (options, said, others) in [
        (fenced(), "", TIMED_OUT),
        (fenced(), "*3|:2|:0|:0|", NodeOutcome::Held),
        (soon, "", NodeOutcome::Pending),
    ] {
        let mut world = timed();
        world.acquire(&options);
        grants(&mut world, 0, 7);
        world.all_say(1..3, said);
        world.sleep_until_event();
        let (LockError::NoQuorum(report) | LockError::Held(report)) = world.refusal() else {
            panic!("two have not granted it")
        };
        assert_eq!(outcomes(&report), [GRANTED, others, others]);
        assert!(report.nodes()[0].latency.is_some());
    }
}

/// The node was asked to raise its counter, and has not answered.
#[test]
fn a_node_that_has_not_raised_its_counter_is_silent() {
    let mut world = asked_by_two();
    assert_eq!(world.take(0), ["RAISE k 9"]);
    world.sleep_until_event();
    let report = world.no_quorum();
    assert_eq!(outcomes(&report), [TIMED_OUT, GRANTED, TIMED_OUT]);
}

/// Each node has its own time to answer. A node in its first handshake has more time.
#[test]
fn a_node_that_has_granted_waits_for_the_others_beyond_its_own_time() {
    let mut world = World::new(3);
    world.greet_as(0, "run0", 1_000);
    world.acquire(&fenced());
    world.take_all();
    grants(&mut world, 0, 7);
    world.sleep(100 * MS);
    assert!(world.events.is_empty());
    world.greet_as(1, "run1", 1_000);
    assert_eq!(world.take(1), ["TAKE k 1", "LOOK run1"]);
    grants(&mut world, 1, 7);
    assert_eq!(token(&mut world), Some(7));
}
