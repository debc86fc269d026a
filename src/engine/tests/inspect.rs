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
        let len = token.len();
        self.say(node, &format!("*3|:{}|:0|${len}|{token}|", millis + 1));
    }

    /// `node` answers that it has no such key.
    pub(super) fn has_none(&mut self, node: usize) {
        self.say(node, "*3|:0|:0|$0||");
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

fn found(inspection: &Inspection) -> Vec<Found> {
    let nodes = inspection.nodes().iter();
    nodes.map(|node| node.found.clone()).collect()
}

fn left(millis: u64) -> Found {
    let left = Duration::from_millis(millis);
    Found::Holder { left }
}

fn copy(owner: &str, token: usize, millis: u64) -> Found {
    Found::Copy {
        owner: owner.as_bytes().into(),
        token,
        left: Duration::from_millis(millis),
    }
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
    let all = [
        left(9_000),
        left(4_000),
        left(8_000),
        left(7_000),
        Found::Free,
    ];
    assert_eq!(found(&told), all);
    assert_eq!(
        told.to_string(),
        "held for billing-7 by 4 nodes, 6.908s left (node0:6379 held, 9s left, node1:6379 held, \
         4s left, node2:6379 held, 8s left, node3:6379 held, 7s left, node4:6379 free)"
    );
}

/// The server of the third node is stopped: its machine accepts the connection, and nothing answers there.
#[test]
fn a_node_that_has_never_answered_is_shown_as_one_that_does_not_answer() {
    let mut world = World::new(3);
    world.greet(0);
    world.greet(1);
    world.ask_inspect();
    world.has_none(0);
    world.has_none(1);
    world.pass(60 * MS);
    let told = world.told().expect("a majority has answered");
    assert_eq!(
        told.to_string(),
        "free (node0:6379 free, node1:6379 free, node2:6379 unreachable: no answer yet)"
    );
}

#[test]
fn a_copy_on_a_minority_is_shown_with_what_is_left_of_it() {
    let mut world = World::ready(3);
    world.inspect();
    world.has_none(0);
    world.has(1, &format!("{ONE}billing-7"), 1_500);
    world.has_none(2);
    let told = world.inspected();
    assert!(told.is_free() && told.holder().is_none());
    let all = [Found::Free, copy("billing-7", 1, 1_500), Found::Free];
    assert_eq!(found(&told), all);
    assert_eq!(
        told.to_string(),
        "free (node0:6379 free, node1:6379 another token (1 for billing-7), 1.5s left, \
         node2:6379 free)"
    );
}

#[test]
fn where_neither_a_token_nor_its_absence_has_a_majority_it_is_neither_free_nor_held() {
    let mut world = World::ready(5);
    world.inspect();
    world.has(0, ONE, 100);
    world.has(1, OTHER, 200);
    world.has(2, ONE, 300);
    world.has_none(3);
    world.has_none(4);
    let told = world.inspected();
    assert!(!told.is_free() && told.holder().is_none());
    let all = [copy("", 0, 100), copy("", 1, 200), copy("", 0, 300)];
    assert_eq!(found(&told)[..3], all);
    let text = told.to_string();
    assert!(text.starts_with("neither free nor held"), "{text}");
    assert!(
        text.ends_with("; a copy without a majority ends with its ttl"),
        "{text}"
    );
}

#[test]
fn a_lock_that_expired_since_is_held_for_no_time() {
    let mut world = World::ready(3);
    world.inspect();
    for node in 0..3 {
        world.has(node, ONE, 10);
    }
    let told = world.inspected();
    assert!(told.holder().expect("held").valid_for < 10 * MS);
    // The answers took longer than the keys lived.
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
fn keys_without_an_expiry_are_kept_for_ever() {
    const PERMANENT: u64 = 9_000_000_000_000_000;
    let mut world = World::ready(3);
    world.inspect();
    world.has(0, ONE, PERMANENT);
    world.has(1, ONE, PERMANENT);
    world.has(2, ONE, 1_000);
    let told = world.inspected();
    assert_eq!(told.holder().expect("held").valid_for, Duration::MAX);
    let forever = Found::Holder {
        left: Duration::MAX,
    };
    assert_eq!(found(&told)[1], forever);
    assert!(
        told.to_string()
            .starts_with("held by 3 nodes without an expiry (")
    );
    // A single node with such a key does not lengthen the time.
    world.inspect();
    world.has(0, ONE, PERMANENT);
    world.has(1, ONE, 1_000);
    world.has(2, ONE, 2_000);
    let told = world.inspected();
    assert!(told.holder().expect("held").valid_for < 2_000 * MS);
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
    assert!(
        !told.is_free(),
        "two of three have said so, and one of them does not count"
    );
    assert_eq!(found(&told)[2], Found::Free);
    let counts: Vec<bool> = told.nodes().iter().map(|node| node.counts).collect();
    assert_eq!(counts, [true, true, false]);
    assert!(
        told.to_string()
            .contains("node2:6379 free, which does not count)")
    );
    // The same holds for a token.
    world.inspect();
    world.has_none(0);
    world.has(1, ONE, 1_000);
    world.has(2, ONE, 1_000);
    assert!(world.inspected().holder().is_none());
    // If this node is silent, the inspection does not wait longer for the others.
    world.inspect();
    world.has_none(0);
    world.has_none(1);
    assert_eq!(world.sleep_until_event(), 50 * MS);
    let told = world.told().expect("a majority has answered");
    assert!(told.is_free());
    assert_matches!(
        found(&told)[2],
        Found::Unknown(NodeOutcome::Quarantined { .. })
    );
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
fn a_key_of_another_type_is_neither() {
    let mut world = World::ready(3);
    world.inspect();
    world.has_none(0);
    world.say(1, "-WRONGTYPE Operation against a key|");
    world.say(2, "-WRONGTYPE Operation against a key|");
    let told = world.inspected();
    assert!(!told.is_free() && told.holder().is_none());
    assert_eq!(found(&told)[1..], [Found::OtherType, Found::OtherType]);
    assert!(told.to_string().ends_with(
        "node2:6379 held by something that is not a lock); delete the key on each node (`DEL`)"
    ));
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
        assert_eq!(
            outcome,
            NodeOutcome::Unusable(Unusable::Permission { command })
        );
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
        world.inspect();
        (0..3).for_each(|node| world.has(node, &token, 1_000));
        let told = world.inspected();
        assert_eq!(&*told.holder().expect("held").owner, owner.as_bytes());
        for shown in [told.to_string(), format!("{told:?}")] {
            assert!(
                !shown.contains("56a2d5b7c0de") && !shown.contains('\u{1b}'),
                "{shown}"
            );
            assert!(!shown.contains("1234567"), "{shown}");
        }
    }
    // A text that is longer than any token. Two such texts that differ only after that length look the same.
    let long = format!("{ONE}{}", "x".repeat(500));
    world.inspect();
    (0..3).for_each(|node| world.has(node, &long, 1_000));
    let told = world.inspected();
    assert_eq!(told.holder().expect("held").owner.len(), 65);
}

#[test]
fn an_answer_that_no_script_gives_ends_the_connection() {
    for answer in [
        "*2|:5|:0|",
        "*3|:5|:0|:7|",
        ":5|",
        "*3|:-5|:0|$1|a|",
        "+OK|",
        "$1|a|",
    ] {
        let mut world = World::ready(3);
        world.inspect();
        world.say(0, answer);
        assert_ne!(world.links[0], "up", "{answer}");
        world.has_none(1);
        world.has_none(2);
        assert!(world.told().expect("a majority has answered").is_free());
    }
}

#[test]
fn a_lock_that_is_held_here_is_not_touched() {
    let (mut world, lock) = World::held(3);
    let (claims, until) = (world.claims(), lock.valid_until());
    world.inspect();
    (0..3).for_each(|node| world.has_none(node));
    assert!(world.told().expect("answered").is_free());
    assert_eq!((world.claims(), lock.valid_until()), (claims, until));
    assert!(lock.is_valid_at(world.now));
    world.sleep(TTL);
    world.expired(&lock);
}

#[test]
fn a_node_is_asked_when_its_handshake_is_done() {
    let mut world = World::new(3);
    world.greet(0);
    world.ask_inspect();
    assert_eq!(world.take(0), ["EVAL inspect"]);
    world.has_none(0);
    world.greet(1);
    assert_eq!(world.take(1), ["EVAL inspect"]);
    world.has_none(1);
    assert!(world.events.is_empty());
    assert_eq!(world.sleep_until_event(), 50 * MS);
    let told = world.told().expect("a majority has answered");
    assert!(told.is_free());
    assert_matches!(found(&told)[2], Found::Unknown(NodeOutcome::Unreachable(_)));
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
    assert_matches!(
        refused,
        OperatorError::Invalid(InvalidRequest(RequestFault::EmptyResource { .. }))
    );
    while world.engine.load().rounds < crate::limits::ROUNDS_MAX {
        world
            .engine
            .inspect(world.now, b"k")
            .expect("there is room");
    }
    let refused = world.engine.inspect(world.now, b"k");
    assert_matches!(refused, Err(OperatorError::Saturated));
}

#[test]
fn a_node_in_quarantine_that_is_not_connected_is_not_waited_for() {
    let mut world = World::ready(3);
    world.comes_back_as(2, "another", 1);
    assert!(world.quarantined_until(2).is_some());
    world.lose(2);
    world.lose(2);
    world.take_all();
    world.ask_inspect();
    world.has_none(0);
    world.has_none(1);
    assert!(world.inspected().is_free(), "it is told at once");
}
