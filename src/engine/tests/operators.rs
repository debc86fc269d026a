//! Stories of faults that only an operator can repair: they are reported at once, and by name.

use super::*;
use crate::engine::operators::OperatorError;
use crate::error::ServerError;

const REFUSED: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";

impl World {
    /// The server behind `node` refuses our login.
    fn turn_away(&mut self, node: usize) {
        self.welcome_as(node, REFUSED);
        assert_eq!(self.links[node], "reset");
    }

    pub(super) fn refused_outright(&mut self) -> Vec<NodeOutcome> {
        let LockError::NoQuorum(report) = self.refusal() else {
            panic!("too few can vote")
        };
        assert_eq!(report.tries(), 1, "{report}");
        outcomes(&report)
    }
}

const WRONG: NodeOutcome = NodeOutcome::Unusable(Unusable::WrongCredentials);

#[test]
fn a_majority_that_an_operator_has_to_mend_ends_a_call_in_its_first_try() {
    let mut world = World::new(3);
    world.acquire(&LockOptions::new(TTL));
    world.turn_away(2);
    assert!(world.events.is_empty(), "two are left");
    world.turn_away(0);
    assert_eq!(world.refused_outright()[0], WRONG);
    // The same holds for the next call, which asks none of the nodes again so soon.
    world.acquire(&LockOptions::new(TTL).wait(TTL));
    assert_eq!(world.links, ["reset", "connecting", "reset"]);
    assert_eq!(world.refused_outright()[2], WRONG);
    world.is_clean();
}

#[test]
fn a_majority_that_an_operator_has_to_mend_ends_a_call_that_waits() {
    let (mut world, _) = World::one_waits();
    (0..2).for_each(|node| world.lose(node));
    world.pass(60 * MS);
    world.turn_away(0);
    assert!(world.events.is_empty(), "two may be left");
    world.pass(60 * MS);
    world.turn_away(1);
    let report = world.no_quorum();
    assert_eq!((report.tries(), outcomes(&report)[1]), (1, WRONG));
    let mut latencies = report.nodes().iter().map(|node| node.latency);
    assert!(latencies.all(|latency| latency.is_none()), "{report}");
}

#[test]
fn a_minority_that_an_operator_has_to_mend_is_no_reason_to_give_up() {
    let mut world = World::new(3);
    (0..2).for_each(|node| world.greet(node));
    world.turn_away(2);
    world.acquire(&LockOptions::new(TTL));
    world.say(0, "-OOM command not allowed|");
    world.say(1, "$-1|:0|"); // Answers the `SET`, and the release after it.
    assert!(world.events.is_empty(), "it is tried again");
    world.pass(250 * MS);
    world.all_say(0..2, "+OK|");
    drop(world.lock());
}

#[test]
fn what_an_operator_has_mended_is_seen_by_the_next_call() {
    let mut world = World::new(1);
    world.turn_away(0);
    world.pass(MS);
    world.reconnect(0);
    // The login was refused once. The connection that is being opened will show whether this is still so.
    world.try_once();
    assert!(world.events.is_empty(), "it may have been mended");
    world.greet(0);
    world.exchange(0, ["SET k 10000"], "+OK|");
    drop(world.lock());
}

#[test]
fn a_check_names_what_an_operator_has_to_mend() {
    let mut world = World::new(3);
    let checked = |world: &World| match world.engine.check(world.now) {
        Err(OperatorError::NoQuorum(report)) => report,
        other => panic!("{other:?}"),
    };
    let new = NodeOutcome::Unreachable(LinkFault::NotYet.into());
    assert_eq!(outcomes(&checked(&world)), [new; 3]);
    world.greet(0);
    world.turn_away(1);
    checked(&world);
    world.turn_away(2);
    let report = checked(&world);
    assert_eq!(outcomes(&report), [NodeOutcome::Granted, WRONG, WRONG]);
    assert_eq!((report.quorum(), report.granted()), (2, 1));
    world.reconnect(2);
    world.greet(2);
    assert!(world.engine.check(world.now).is_ok());
}

/// Two nodes have no memory, and a second attempt is under way.
fn second_attempt_behind_oom() -> World {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.all_say(0..2, "-OOM command not allowed|");
    assert!(world.events.is_empty());
    world.pass(250 * MS);
    world
}

#[test]
fn an_early_cause_is_not_hidden_by_an_attempt_without_an_answer() {
    let mut world = second_attempt_behind_oom();
    world.pass(51 * MS);
    let report = world.no_quorum();
    let oom = NodeOutcome::Refused(ServerError::from_line(b"OOM"));
    assert_eq!(outcomes(&report), [oom, oom, NodeOutcome::TimedOut]);
    assert_eq!(report.tries(), 2);
}

/// The last attempt does not ask the node, because its connection is being opened again.
#[test]
fn an_early_cause_is_not_hidden_by_a_connection_that_was_lost_later() {
    const OOM: &str = "-OOM command not allowed|";
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.all_say(0..2, OOM);
    world.lose(0);
    world.pass(250 * MS);
    assert_eq!(world.links[0], "connecting");
    world.say(1, OOM);
    world.say(2, &alloc::format!("{OOM}:0|{OOM}")); // Its answers to the first attempt are late.
    let oom = NodeOutcome::Refused(ServerError::from_line(b"OOM"));
    assert_eq!(outcomes(&world.no_quorum()), [oom; 3]);
}

/// The nodes vote as far as questions show, so nothing else says why no lock is granted.
#[test]
fn a_status_names_what_a_node_refuses_with_until_it_grants_a_lock_or_is_connected_again() {
    let mut world = second_attempt_behind_oom();
    let refused = |world: &World| -> Vec<String> {
        let nodes = world.engine.node_statuses(world.now);
        let refused = nodes.filter_map(|node| node.refused);
        refused.map(|error| error.to_string()).collect()
    };
    assert_eq!(world.state(0), NodeState::Ready);
    assert_eq!(refused(&world), ["OOM", "OOM"]);
    world.say(0, "+OK|");
    assert_eq!(refused(&world), ["OOM"]);
    world.take(1);
    world.lose(1);
    world.reconnect(1);
    world.greet(1);
    assert_eq!(refused(&world), [""; 0]);
    // This error is ordinary, and answered by another command.
    world.say(2, "-NOSCRIPT No matching script|");
    assert_eq!(refused(&world), [""; 0]);
}

/// In the last attempt, the node only said that the caller's own key is there; it refuses the release of this key.
#[test]
fn an_earlier_cause_is_not_said_to_have_taken_as_long_as_a_later_answer() {
    let (mut world, lock) = World::held(3);
    world.release(lock);
    world.each_says(&[":1|", "-BUSY x|", ":1|"]);
    assert!(world.unlocked().is_ok());
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.each_says(&["+OK|", "-BUSY x|", "-BUSY x|"]);
    world.say(0, ":1|");
    world.take_all();
    world.pass(249 * MS); // This is before the engine tries the release again.
    world.each_says(&["+OK|", "$-1|"]);
    // The last node to answer gets the release, and the `SET` before and behind it.
    assert_eq!(world.take(1).len(), 3);
    world.say(1, "-BUSY x|$-1|");
    world.pass(51 * MS);
    let report = world.no_quorum();
    let busy = NodeOutcome::Refused(ServerError::from_line(b"BUSY"));
    assert_eq!(outcomes(&report), [NodeOutcome::Granted, busy, busy]);
    let latencies = [0, 1, 2].map(|node| report.nodes()[node].latency);
    assert_eq!(latencies, [Some(Duration::ZERO), None, None]);
}

#[test]
fn a_vote_of_the_last_attempt_stands_beside_an_earlier_cause() {
    let mut world = second_attempt_behind_oom();
    world.all_say(0..2, "$-1|");
    let report = world.held_by_another();
    let said = [NodeOutcome::Held, NodeOutcome::Held, NodeOutcome::Pending];
    assert_eq!(outcomes(&report), said);
}
