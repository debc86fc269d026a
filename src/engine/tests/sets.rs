//! Stories of locks on several resources: all of them or none, on each node.

use super::permissions::{lacks, unasked};
use super::*;
use crate::error::Report;

/// The command for a lock on `a` and `b`.
const TAKE: [&str; 1] = ["TAKE a b 10000"];
const RELEASE: [&str; 1] = ["RELEASE a b"];
const EXTEND: [&str; 1] = ["EXTEND a b 10000"];

const NAMES: [&[u8]; 2] = [b"a", b"b"];

impl World {
    pub(super) fn acquire_all(&mut self, names: &[&[u8]], options: &LockOptions) -> RoundId {
        self.begin(&Request::all(names, options))
    }

    pub(super) fn try_all(&mut self) -> RoundId {
        self.acquire_all(&NAMES, &once())
    }

    /// Asks for a set of `count` names, each of which has this number of `bytes`.
    fn acquire_long(&mut self, set: usize, count: usize, bytes: usize, options: &LockOptions) {
        let name = |name| format!("{set} {name} {:.<bytes$}", "").into_bytes();
        let names: Vec<_> = (0..count).map(|at| name(at)[..bytes].to_vec()).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        self.acquire_all(&names, options);
    }

    /// Makes a lock on `a` and `b` that all of three nodes granted.
    fn both_held() -> (Self, Lock) {
        let mut world = Self::ready(3);
        world.try_all();
        world.all_exchange(&TAKE, ":1|");
        let lock = world.lock();
        (world, lock)
    }

    /// Watches `name`, which is free according to every node.
    fn watch_free(&mut self, name: &[u8]) {
        let mut known = None;
        for before in ["+OK|+OK|", "+OK|"] {
            let watched = self.engine.watch(self.now, name, known.as_ref());
            watched.expect("asked");
            self.drain();
            self.all_say(0..3, &format!("{before}*3|:0|:0|$0||"));
            if known.is_none() {
                known = Some(self.told().expect("a watch is told what there is"));
            }
        }
        self.take_all();
        assert!(self.events.is_empty());
    }

    /// Asserts that the watch asks every node again soon.
    #[track_caller]
    fn looks_again(&mut self) {
        self.sleep(11 * MS);
        self.all_were_sent(&["CLIENT CACHING YES", "EVAL inspect"]);
    }

    #[track_caller]
    fn both_released(&mut self, lock: Lock) {
        self.release(lock);
        (0..3).for_each(|node| assert_eq!(self.take(node).last().unwrap(), RELEASE[0]));
        self.all_say(0..3, ":1|");
        assert!(self.unlocked().is_ok());
        self.is_clean();
    }
}

pub(super) fn named_held(report: &Report) -> Vec<Option<&[u8]>> {
    let nodes = report.nodes().iter();
    nodes.map(|node| node.resource.as_deref()).collect()
}

#[test]
fn debug_names_all_resources_once() {
    let (_, lock) = World::both_held();
    let text = format!("{lock:?}");
    let named = r#"Lock { resources: ["a", "b"], token: Token("#;
    assert!(text.starts_with(named), "{text}");
}

#[test]
fn names_that_no_lock_has_are_refused_before_any_io() {
    let mut world = World::ready(3);
    let (first, second) = (0, 2);
    let twice = RequestFault::DuplicateResource { first, second };
    let empty = RequestFault::EmptyResource { index: Some(1) };
    for (names, why) in [
        (&[][..], RequestFault::NoResources),
        (&[&b"a"[..], b""], empty),
        (&[b"a", b"b", b"a"], twice),
    ] {
        let options = LockOptions::new(TTL);
        let refused = world.invalid(&Request::all(names, &options));
        assert_eq!(refused, InvalidRequest(why));
    }
    world.is_clean();
}

#[test]
fn a_refusal_says_which_resource_is_held_and_what_was_taken_is_given_back() {
    let mut world = World::ready(3);
    world.try_all();
    world.take_all();
    world.say(0, ":1|");
    world.all_say(1..3, ":3|");
    let report = world.held_by_another();
    assert_eq!(report.held_resource(), Some(&b"b"[..]));
    assert_eq!(named_held(&report), [None, Some(&b"b"[..]), Some(b"b")]);
    assert_eq!(outcomes(&report)[1..], [NodeOutcome::Held; 2]);
    let text = format!("{:#}", LockError::Held(report));
    let begin = "lock `a` and another: `b` is held by another client: 1 of the 2";
    assert!(text.starts_with(begin), "{text}");
    let nodes = "node1:6379 and node2:6379 each held (b)";
    assert!(text.contains(nodes), "{text}");
    world.exchange(0, RELEASE, ":1|");
    assert_eq!(world.take(1), NOTHING, "it has nothing of it");
    world.is_clean();
    // Of the names that are held on as many nodes, the first is reported.
    world.try_all();
    world.each_says(&[":2|", ":3|"]);
    let report = world.held_by_another();
    assert_eq!(report.held_resource(), Some(&b"a"[..]));
    assert_eq!(named_held(&report), [Some(&b"a"[..]), Some(b"b"), None]);
    world.say(2, ":1|:1|");
    world.is_clean();
}

#[test]
fn a_copy_that_meets_a_foreign_name_is_no_vote() {
    let (mut world, mut lock) = World::both_held();
    for _ in 0..2 {
        world.extend_on(0..2, &mut lock);
        world.say(2, ":-1|");
    }
    let copy = world.take(2);
    assert!(copy.last().unwrap().starts_with("TAKE a b "), "{copy:?}");
    world.say(2, ":3|");
    // The node still lacks them, and gets another copy after the next extension.
    world.take_all();
    world.extend(&lock);
    world.all_say(0..2, ":1|");
    world.extended(&mut lock);
    world.exchange(2, [EXTEND[0], "TAKE a b 10000"], ":-1|:3|");
    world.take_all();
    world.extend(&lock);
    world.say(0, ":1|");
    world.say(2, ":-1|");
    assert!(world.events.is_empty(), "one of three");
    world.say(1, ":1|");
    world.extended(&mut lock);
    // The keys on the third node are released too.
    world.take_all();
    world.say(2, ":3|");
    world.both_released(lock);
}

#[test]
fn a_majority_that_misses_a_name_loses_the_set() {
    let (mut world, lock) = World::both_held();
    world.extend(&lock);
    world.take_all();
    world.each_says(&[":0|", ":-1|"]);
    world.expired_first(&lock);
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    world.all_were_sent(&RELEASE); // What is left of it goes.
}

#[test]
fn a_set_of_which_a_name_was_stolen_was_not_held() {
    let (mut world, lock) = World::both_held();
    world.release(lock);
    world.each_says(&[":-1|", ":0|", ":1|"]);
    let error = world.unlocked().expect_err("stolen");
    assert_matches!(error, UnlockError::NotHeld(_));
    world.take_all();
    world.is_clean();
}

/// Nodes do not report the writes of this engine to it.
#[test]
fn whoever_watches_any_name_of_a_set_looks_when_it_is_taken_and_when_a_node_gets_a_copy() {
    for name in NAMES {
        let mut world = World::ready(3);
        world.watch_free(name);
        world.try_all();
        world.all_reply(":1|");
        let mut lock = world.lock();
        world.looks_again();
        world.all_say(0..3, "+OK|*3|:0|:0|$0||");
        for copies in [false, true] {
            world.extend(&lock);
            world.pass(20 * MS);
            world.take_all();
            world.say(2, ":0|");
            world.all_say(0..2, ":1|");
            world.extended(&mut lock);
            let is_copy = |sent: &String| sent.starts_with("TAKE a b");
            assert_eq!(world.take(2).iter().any(is_copy), copies);
            world.all_say(0..3, "+OK|*3|:0|:0|$0||");
        }
        world.take_all();
        world.looks_again();
        drop(lock);
    }
}

#[test]
fn a_single_lock_is_refused_without_asking_while_its_name_is_in_a_set_that_is_held_here() {
    let (mut world, lock) = World::both_held();
    for name in NAMES {
        world.acquire_of(name, &once());
        assert!(world.held_by_another().is_held_here());
    }
    assert_eq!(world.take_all().concat(), NOTHING);
    world.both_released(lock);
}

#[test]
fn all_who_wait_for_one_of_its_names_ask_behind_the_release_of_a_set() {
    let (mut world, lock) = World::both_held();
    for name in NAMES {
        world.acquire_of(name, &LockOptions::new(TTL));
    }
    assert_eq!(world.take_all().concat(), NOTHING);
    world.give_back(lock);
    for node in 0..3 {
        let mut sent = world.take(node);
        assert_eq!(sent.remove(0), RELEASE[0]);
        sent.sort_unstable();
        assert_eq!(sent, ["SET a 10000", "SET b 10000"]);
        world.say(node, ":1|+OK|+OK|");
    }
    assert_eq!(world.events.len(), 2);
}

#[test]
fn a_set_is_refused_by_name_where_this_engine_holds_one_of_its_names() {
    let mut world = World::ready(1);
    let single = world.lock_of(b"b");
    world.take(0);
    world.try_all();
    assert_eq!(world.take(0), NOTHING);
    let report = world.held_by_another();
    assert_eq!(report.held_resource(), Some(&b"b"[..]));
    assert!(report.tries() == 0 && report.is_held_here());
    world.give_back(single);
    world.reply(0, ":1|");
    world.is_clean();
}

#[test]
fn a_set_that_is_handed_over_is_released_on_all_nodes_there() {
    let (mut world, lock) = World::both_held();
    let lock = world.detach(lock);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.is_clean();
    let (mut other, mut lock) = World::taken_over(world.now, lock);
    other.extend(&lock);
    other.all_exchange(&EXTEND, ":1|");
    other.extended(&mut lock);
    other.both_released(lock);
}

#[test]
fn a_missing_permission_is_named_and_nothing_is_left() {
    let no_multi = "-NOPERM no permissions to run the 'multi' command|-ERR EXEC without MULTI|+OK|";
    let key = "$-1|:-2|-ERR value is not an integer|";
    let no_msetex = "-ERR unknown command 'MSETEX', with args beginning with: |";
    for (answers, command) in [
        (&[":-2|"][..], "del"),
        (&[NO_EVAL, no_multi, key, key, no_msetex], "eval"),
    ] {
        let mut world = World::ready(1);
        world.try_all();
        answers.iter().for_each(|answer| world.say(0, answer));
        world.take(0);
        assert_eq!(outcomes(&world.no_quorum()), [lacks(command)]);
        assert_eq!(world.take(0), NOTHING);
        world.is_clean();
    }
}

/// An operator has granted the permission since then. No caller has asked for a lock on one resource.
#[test]
fn a_node_that_has_taken_a_set_lacks_no_permission() {
    let mut world = World::ready(1);
    world.try_all();
    world.say(0, ":-2|");
    world.no_quorum();
    let missing = Unusable::Permission { command: "del" };
    assert_eq!(world.state(0), NodeState::Unusable(missing));
    world.take(0);
    world.try_all();
    world.say(0, ":1|");
    let lock = world.lock();
    assert_eq!(world.state(0), NodeState::Ready);
    world.take(0);
    world.give_back(lock);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn the_first_command_on_a_connection_may_be_that_of_a_set() {
    let mut world = unasked(1);
    world.try_all();
    world.exchange(0, TAKE, ":1|");
    let lock = world.lock();
    world.give_back(lock);
    world.exchange(0, RELEASE, ":1|");
    world.is_clean();
}

#[test]
fn a_nil_that_meets_a_release_of_our_own_set_is_asked_again_behind_it() {
    let (mut world, lock) = World::both_held();
    world.give_back(lock);
    world.take_all();
    world.say(0, "-BUSY a script|");
    world.acquire_of(b"b", &once());
    world.exchange(0, ["SET b 10000"], "_|");
    assert_eq!(world.take(0), ["RELEASE a b", "SET b 10000"]);
}

#[test]
fn an_answer_that_no_such_command_has_ends_the_connection() {
    for answer in [":0|", ":-9|", "+QUEUED|"] {
        let mut world = World::ready(1);
        world.try_all();
        world.say(0, answer);
        assert_eq!(world.links[0], "reset", "{answer}");
    }
}

/// Each release is very long. Together the releases have more bytes than an out buffer takes.
#[test]
fn releases_of_the_longest_sets_are_sent_or_owed() {
    use crate::limits::{OUT_BYTES_MAX, RESOURCE_BYTES_MAX, RESOURCES_MAX};
    let mut world = World::ready(1);
    let sets = OUT_BYTES_MAX / (RESOURCES_MAX * RESOURCE_BYTES_MAX) + 1;
    let take = |set| {
        world.acquire_long(set, RESOURCES_MAX, RESOURCE_BYTES_MAX, &once());
        world.say(0, ":1|");
        world.lock()
    };
    let locks: Vec<Lock> = (0..sets).map(take).collect();
    world.take(0);
    world.window[0] = 0;
    locks.into_iter().for_each(|lock| world.give_back(lock));
    let load = world.engine.load();
    assert!(load.unsent <= OUT_BYTES_MAX, "{load:?}");
    assert_ne!(load.debts, 0, "{load:?}");
    assert_eq!(load.in_flight + load.debts, sets, "{load:?}");
    // The node takes them and answers. Each answer makes room for debts.
    world.make_room(0);
    let mut released = 0;
    while !world.sent[0].is_empty() {
        world.all_answer(|_, sent| {
            assert!(sent.starts_with("RELEASE "));
            released += 1;
            ":1|"
        });
    }
    assert_eq!(released, sets);
    world.is_clean();
}

/// The sets have as many names as allowed, each as long as allowed, and a node reads nothing.
#[test]
fn a_node_that_reads_nothing_is_not_asked_for_more_sets_than_it_has_room_for() {
    use crate::limits::{OUT_BYTES_MAX, SEVERAL_BYTES_MAX};
    let mut world = World::ready(1);
    world.window[0] = 0;
    for set in 0..200 {
        world.acquire_long(set, 64, 1_002, &LockOptions::new(TTL).wait(SECOND));
        let unsent = world.engine.load().unsent;
        assert!(unsent <= OUT_BYTES_MAX / 2 + SEVERAL_BYTES_MAX, "{unsent}");
    }
    assert!(world.events.is_empty(), "they rest, and try again");
    world.make_room(0);
    assert!(world.take(0).len() < 64);
}
