//! Stories of inspections: who holds a resource, and which nodes disagree.

use super::inspection::{Found, Inspection};
use super::*;
use crate::engine::operators::OperatorError;
use crate::error::Report;
use crate::quorum::Drift;

/// The random parts of the tokens of two clients. A server echoes them.
pub(super) const ONE: &str = "\u{1}123456789abcdefghij";
pub(super) const OTHER: &str = "\u{2}123456789abcdefghij";

impl World {
    /// Asks every node for the holder of the resource.
    pub(super) fn inspect(&mut self) -> RoundId {
        let round = self.ask_inspect();
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), ["EVAL inspect"], "node {node}");
        }
        round
    }

    fn ask_inspect(&mut self) -> RoundId {
        let round = self.engine.inspect(self.now, b"k").expect("asked");
        self.drain();
        round
    }

    /// `node` answers that it has `token` for this many more milliseconds.
    pub(super) fn has(&mut self, node: usize, token: &str, millis: u64) {
        self.say(node, &having(token, millis));
    }

    /// `node` answers that it has no such key.
    pub(super) fn has_none(&mut self, node: usize) {
        self.say(node, NONE);
    }

    /// Returns the inspection in which each node gives one of these answers.
    pub(super) fn answered(&mut self, answers: &[&str]) -> Inspection {
        self.inspect();
        for (node, answer) in answers.iter().enumerate() {
            self.say(node, answer);
        }
        self.inspected()
    }

    #[track_caller]
    pub(super) fn told(&mut self) -> Result<Inspection, OperatorError> {
        match self.event() {
            Event::Inspected { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn inspected(&mut self) -> Inspection {
        let told = self.told().expect("a majority has answered");
        self.is_clean();
        told
    }

    #[track_caller]
    fn not_known(&mut self) -> Report {
        match self.told() {
            Err(OperatorError::NoQuorum(report)) => report,
            other => panic!("{other:?}"),
        }
    }
}

/// The answer of a node that has no such key.
pub(super) const NONE: &str = "*3|:0|:0|$0||";

/// The answer of a node that has `token` for this many more milliseconds.
pub(super) fn having(token: &str, millis: u64) -> String {
    format!("*3|:{}|:0|${}|{token}|", millis + 1, token.len())
}

#[test]
fn a_majority_with_the_same_token_holds_it_for_as_long_as_a_majority_keeps_it() {
    let mut world = World::ready(5);
    let sent = world.now;
    world.inspect();
    world.wait(20 * MS);
    let token = format!("{ONE}billing-7");
    for (node, millis) in [(0, 9_000), (1, 4_000), (2, 8_000), (3, 7_000)] {
        world.has(node, &token, millis);
    }
    world.has_none(4);
    let told = world.inspected();
    let holder = told.holder().expect("held");
    assert!(!told.is_free());
    assert_eq!((&*holder.owner, holder.nodes), (&b"billing-7"[..], 4));
    let end = Drift::default().valid_until(sent, 7_000 * MS);
    assert_eq!(holder.valid_for, end.saturating_since(world.now));
    assert_eq!(
        told.to_string(),
        "held for billing-7 by 4 nodes, 6.908s left (node0:6379 held, 9s left, node1:6379 held, \
         4s left, node2:6379 held, 8s left, node3:6379 held, 7s left, node4:6379 free)"
    );
}

/// Each line: the answers, and what is told, without the addresses of the nodes.
#[test]
fn what_is_told_of_what_the_nodes_have() {
    const WRONG: &str = "-WRONGTYPE Operation against a key|";
    let lives = [10, 1_000, 2_000, 9_000_000_000_000_000];
    let [short, second, longer, endless] = &lives.map(|millis| having(ONE, millis));
    let (billing, other) = (format!("{ONE}billing-7"), having(OTHER, 200));
    let (neither, no_lock) = (
        "neither free nor held",
        "held by something that is not a lock",
    );
    let for_ever = " without an expiry";
    let advice = "delete the key on each node (`DEL`)";
    for (answers, told) in [
        // A copy on a minority.
        (
            &[NONE, &having(&billing, 1_500), NONE][..],
            "free (free, another token (1 for billing-7), 1.5s left, free)".to_string(),
        ),
        // Neither a token nor its absence has a majority.
        (
            &[second, &other, longer, NONE, NONE],
            format!(
                "{neither} by a majority (another token (0), 1s left, another token (1), 200ms left, \
                 another token (0), 2s left, free, free); a copy without a majority ends with its ttl"
            ),
        ),
        (
            &[NONE, WRONG, WRONG],
            format!("{neither} by a majority (free, {no_lock}, {no_lock}); {advice}"),
        ),
        (
            &[short; 3].map(|short| &**short),
            "held by 3 nodes, 7ms left (held, 10ms left, held, 10ms left, held, 10ms left)".into(),
        ),
        (
            &[endless, endless, second],
            format!("held by 3 nodes{for_ever} (held{for_ever}, held{for_ever}, held, 1s left)"),
        ),
        // A single node with such a key does not lengthen the time.
        (
            &[endless, second, longer],
            format!("held by 3 nodes, 1.978s left (held{for_ever}, held, 1s left, held, 2s left)"),
        ),
    ] {
        let inspection = World::ready(answers.len()).answered(answers);
        let mut all = inspection.to_string();
        for node in 0..answers.len() {
            all = all.replace(&format!("node{node}:6379 "), "");
        }
        assert_eq!(all, told);
        assert_eq!(inspection.is_free(), told.starts_with("free"), "{told}");
        let is_held = told.starts_with("held");
        assert_eq!(inspection.holder().is_some(), is_held, "{told}");
    }
}

/// The answers took longer than the keys lived.
#[test]
fn a_lock_that_expired_since_is_held_for_no_time() {
    let mut world = World::ready(3);
    world.inspect();
    world.wait(30 * MS);
    world.has_none(2);
    world.has(0, ONE, 10);
    world.has(1, ONE, 20);
    let told = world.inspected();
    let holder = told.holder().expect("a majority had it");
    assert_eq!((holder.valid_for, holder.nodes), (Duration::ZERO, 2));
}

#[test]
fn a_quarantined_node_is_shown_and_is_no_part_of_a_majority() {
    let mut world = World::ready(3);
    world.comes_back_as(2, "another", 1);
    world.take_all();
    assert!(world.quarantined_until(2).is_some());
    world.inspect();
    world.has_none(0);
    world.has(1, ONE, 1_000);
    assert!(world.events.is_empty(), "it is heard as well");
    world.has_none(2);
    let told = world.inspected();
    assert!(!told.is_free(), "one of the two does not count");
    let counts: Vec<bool> = told.nodes().iter().map(|node| node.counts).collect();
    assert_eq!(counts, [true, true, false]);
    let all = told.to_string();
    assert!(all.contains("free, which does not count)"), "{all}");
    // The same holds for a token.
    let one = &*having(ONE, 1_000);
    assert!(world.answered(&[NONE, one, one]).holder().is_none());
    // If this node is silent, the inspection does not wait longer for the others.
    world.inspect();
    world.has_none(0);
    world.has_none(1);
    assert_eq!(world.sleep_until_event(), 50 * MS);
    let told = world.told().expect("a majority has answered");
    assert!(told.is_free());
    let silent = &told.nodes()[2].found;
    assert_matches!(silent, Found::Unknown(NodeOutcome::Quarantined { .. }));
    // If it is not connected, nothing waits for it.
    world.lose(2);
    world.lose(2);
    world.take_all();
    world.ask_inspect();
    world.all_say(0..2, NONE);
    assert!(world.inspected().is_free(), "it is told at once");
}

#[test]
fn an_answer_does_not_count_if_the_quarantine_began_behind_it() {
    let mut world = World::ready(3);
    world.inspect();
    world.has(0, ONE, 1_000);
    let until = world.now.saturating_add(TTL);
    let operations = &mut world.engine.work;
    operations.lose_answers(world.now, id(0), NodeOutcome::Quarantined { until });
    world.has(1, ONE, 1_000);
    world.has_none(2);
    let told = world.inspected();
    assert!(told.holder().is_none(), "one that counts has it");
    assert!(!told.nodes()[0].counts);
}

#[test]
fn a_silent_majority_is_an_error_that_names_the_nodes() {
    let mut world = World::ready(5);
    world.inspect();
    world.has_none(0);
    world.has(3, ONE, 1_000);
    world.lose(1);
    assert_eq!(world.sleep_until_event(), 50 * MS);
    let report = world.not_known();
    let silent = NodeOutcome::TimedOut;
    let lost = NodeOutcome::Unreachable(LinkFault::Reset.into());
    let granted = NodeOutcome::Granted;
    assert_eq!(outcomes(&report), [granted, lost, silent, granted, silent]);
    assert_eq!(
        format!("{:#}", OperatorError::NoQuorum(report)),
        "lock `k`: it is not known who holds it: 2 of the 3 answers needed (node0:6379 and node3:6379 each answered; \
         node1:6379 unreachable: connection reset; node2:6379 and node4:6379 each timed out); check the nodes named here; \
         see the manual (`shearline::manual::troubles`)"
    );
    // Their answers come too late now.
    world.has(2, ONE, 1_000);
    world.has(4, ONE, 1_000);
    assert!(world.events.is_empty());
}

#[test]
fn a_refusal_is_no_answer_and_a_missing_permission_is_named() {
    let mut world = World::ready(3);
    world.inspect();
    world.say(0, "-OOM command not allowed|");
    world.say(1, NO_EVAL);
    world.say(
        1,
        "-NOPERM no permissions to run the 'multi' command|$-1|:-2|-ERR EXEC without MULTI|",
    );
    world.say(2, "-ERR ACL failure in script: User u has no permissions|");
    world.exchange(2, ["EVAL permits get pttl pexpire"], ":-2|");
    let report = world.not_known();
    let [refused, no_eval, no_pttl] = outcomes(&report)[..] else {
        panic!("{report}");
    };
    assert_matches!(refused, NodeOutcome::Refused(_));
    for (outcome, command) in [(no_eval, "eval"), (no_pttl, "pttl")] {
        let missing = Unusable::Permission { command };
        assert_eq!(outcome, NodeOutcome::Unusable(missing));
    }
}

#[test]
fn tokens_of_other_libraries_and_forged_ones_show_no_label_and_no_token() {
    let mut world = World::ready(3);
    let uuid = "7f9c24e8-3b12-4fef-91e0-56a2d5b7c0de";
    for (token, owner) in [
        (uuid.to_string(), ""),
        ("short".to_string(), ""),
        (String::new(), ""),
        (format!("{ONE}\u{1b}[2Jx"), "\u{1b}[2Jx"),
    ] {
        let told = world.answered(&[&*having(&token, 1_000); 3]);
        assert_eq!(&*told.holder().expect("held").owner, owner.as_bytes());
        for shown in [told.to_string(), format!("{told:?}")] {
            let hidden = ["56a2d5b7c0de", "\u{1b}", "1234567"];
            assert!(!hidden.iter().any(|part| shown.contains(part)), "{shown}");
        }
    }
    // A text that is longer than any token. Two such texts that differ only after that length look the same.
    let long = format!("{ONE}{}", "x".repeat(500));
    let told = world.answered(&[&*having(&long, 1_000); 3]);
    assert_eq!(told.holder().expect("held").owner.len(), 65);
}

/// The server of the third node is stopped: its machine accepts the connection, and nothing answers there.
#[test]
fn a_node_is_asked_when_its_handshake_is_done() {
    let mut world = World::new(3);
    world.greet(0);
    world.ask_inspect();
    world.exchange(0, ["EVAL inspect"], NONE);
    world.greet(1);
    world.exchange(1, ["EVAL inspect"], NONE);
    assert!(world.events.is_empty());
    assert_eq!(world.sleep_until_event(), 50 * MS);
    assert_eq!(
        world.told().expect("a majority has answered").to_string(),
        "free (node0:6379 free, node1:6379 free, node2:6379 unreachable: no answer yet)"
    );
}

#[test]
fn a_cancelled_inspection_tells_nothing_and_leaves_nothing() {
    let mut world = World::ready(3);
    world.window[1] = 0;
    let round = world.ask_inspect();
    world.has_none(0);
    world.cancel(round);
    world.make_room(1);
    assert_eq!(world.take(1), NOTHING, "it was not sent yet");
    world.has_none(2);
    assert!(world.events.is_empty());
    world.is_clean();
}

#[test]
fn what_can_never_succeed_and_what_is_too_much_is_refused_before_anything_is_sent() {
    let mut world = World::ready(3);
    let refused = world.engine.inspect(world.now, b"").expect_err("no name");
    let nameless = InvalidRequest(RequestFault::EmptyResource { index: None });
    assert_matches!(refused, OperatorError::Invalid(why) if why == nameless);
    while world.engine.load().rounds < crate::limits::ROUNDS_MAX {
        let _ = world.engine.inspect(world.now, b"k").expect("room");
    }
    let refused = world.engine.inspect(world.now, b"k");
    assert_matches!(refused, Err(OperatorError::Saturated));
}
