//! Stories of callers that wait for several resources at once: programs on the same three nodes, which answer at once
//! and report changes as a server does.

use super::programs::{Call, NODES, Programs};
use super::*;
use crate::effort::effort;

mod turns;

impl Programs {
    /// Returns how many commands a program has sent.
    fn sent(&self, program: usize) -> usize {
        self.net.clients[program].sent
    }

    /// Returns how often a program has tried to take a set.
    fn attempts(&self, program: usize) -> usize {
        self.net.clients[program].sets
    }

    fn wants(&mut self, program: usize, names: &str) -> Call {
        self.wants_as(program, names, &patient())
    }
}

/// This program holds the name, or another one does. The set learns this by asking once.
#[test]
fn while_a_name_of_a_set_is_held_callers_behind_it_wait_until_its_end_wakes_the_set() {
    for program in 0..2 {
        let mut world = Programs::new(2);
        let held = world.wants(program, "b");
        let set = world.wants(0, "ab");
        assert_eq!(world.attempts(0), program);
        let behind = world.wants(0, "a");
        let sent = world.sent(0);
        world.pass(190 * MS);
        assert!(!world.has(behind), "the name is left free");
        assert_eq!(world.sent(0), sent, "nothing has changed");
        world.gives_back(held);
        assert!(world.has(set), "it was told");
        assert_eq!(world.attempts(0), program + 1);
        world.gives_back(set);
        world.pass(2 * MS);
        assert!(world.has(behind));
        world.serve_in_a_second();
    }
}

#[test]
fn a_set_that_is_cancelled_leaves_no_trace_wherever_it_stands() {
    for stage in 0..3 {
        let mut world = Programs::new(2);
        let (program, holds) = match stage {
            0 => (0, "b"),
            1 => (0, "abc"),
            _ => (1, "b"),
        };
        let held = world.wants(program, holds);
        let set = world.wants(0, "abc");
        let behind = ["ab", "a", "c", "cb"].map(|names| world.wants(0, names));
        world.cancel(set);
        assert!(!world.has(set));
        world.gives_back(held);
        world.pass(50 * MS);
        let have = behind.map(|who| world.has(who));
        assert_eq!(have, [true, false, true, false], "stage {stage}");
        world.serve_in_a_second();
    }
}

/// The set may wait for a time, or for three of the longest delays between its tries, wherever it is in its queues.
#[test]
fn a_set_whose_time_is_up_says_which_name_is_held_and_hands_its_names_on() {
    let options = LockOptions::new(TTL);
    for (options, millis) in [(options.wait(100 * MS), 100), (options.tries(3), 750)] {
        for program in 0..2 {
            let mut world = Programs::new(2);
            let held = world.wants(program, "b");
            let set = world.wants_as(0, "ab", &options);
            let behind = world.wants(0, "ab");
            world.pass((millis - 1) * MS);
            assert!(world.refused.is_empty());
            world.pass(4 * MS);
            let report = world.refusal(set);
            assert_eq!(report.held_resource(), Some(&b"b"[..]), "program {program}");
            assert_eq!(report.is_held_here(), program == 0);
            assert_eq!(report.tries(), program as u32);
            world.gives_back(held);
            world.pass(10 * MS);
            assert!(world.has(behind));
            world.serve_in_a_second();
        }
    }
}

#[test]
fn a_set_behind_one_that_knows_the_holder_says_so_without_asking() {
    let mut world = Programs::new(2);
    let held = world.wants(1, "b");
    let before = world.wants(0, "b");
    world.pass(MS);
    let set = world.wants_as(0, "ab", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(102 * MS);
    let report = world.refusal(set);
    assert_eq!(report.tries(), 0);
    assert_eq!(report.held_resource(), Some(&b"b"[..]));
    assert_eq!(outcomes(&report)[..2], [NodeOutcome::Held; 2]);
    world.gives_back(held);
    assert!(world.has(before));
    world.serve_in_a_second();
}

/// The set has learned that this name was held, and then that another one is held.
#[test]
fn a_caller_behind_a_set_is_told_nothing_that_the_set_has_left_behind() {
    let mut world = Programs::new(2);
    let [first, second] = [world.wants(1, "a"), world.wants(1, "b")];
    let set = world.wants(0, "ab");
    world.pass(MS);
    world.gives_back(first);
    world.pass(50 * MS);
    assert_eq!(world.attempts(0), 2);
    let behind = world.wants_as(0, "a", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(102 * MS);
    let report = world.refusal(behind);
    assert_eq!(outcomes(&report), [NodeOutcome::Pending; 3], "{report}");
    world.cancel(set);
    world.gives_back(second);
    world.serve_in_a_second();
}

/// Makes random calls for names in any order.
fn at_random(programs: usize, seed: u64, calm: bool) {
    Programs::new(programs).at_random(seed, calm, |world, program, options, below| {
        let mut names: Vec<char> = "abcd".chars().collect();
        (1..4).rev().for_each(|at| names.swap(at, below(at + 1)));
        names.truncate(1 + below(4));
        world.wants_as(program, &String::from_iter(names), options)
    });
}

#[test]
fn whatever_happens_sets_exclude_each_other_and_all_have_their_turn() {
    for seed in 0..effort(20, 60) {
        at_random(3, seed, false);
    }
}

/// Without the help of a timer, some caller has a lock as soon as nothing is held.
#[test]
fn nobody_waits_where_nothing_is_held() {
    for programs in 1..=3 {
        for seed in 0..effort(10, 40) {
            at_random(programs, seed, true);
        }
    }
}

/// The test looks at what one write to a node contains.
#[test]
fn a_set_goes_behind_the_release_of_the_one_before_it_in_the_same_write() {
    let mut world = World::ready(3);
    for names in [[&b"a"[..], b"b"], [b"b", b"a"]] {
        world.acquire_all(&names, &patient());
    }
    world.all_reply(":1|");
    let lock = world.lock();
    assert_eq!(world.take_all().concat(), NOTHING);
    world.give_back(lock);
    world.all_exchange(&["RELEASE a b", "TAKE b a 10000"], ":1|:1|");
    let lock = world.lock();
    world.give_back(lock);
}

/// Three other clients have one of the names on one node each: no majority has a name, and none can be taken.
#[test]
fn a_set_that_each_node_keeps_out_by_another_name_waits_for_the_random_delay() {
    let mut world = World::ready(3);
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    let round = world.acquire_all(&names, &patient());
    world.take_all();
    world.each_says(&[":2|", ":3|", ":4|"]);
    for (node, left) in [":10000|", ":-2|", ":-2|"].iter().enumerate() {
        let asked = world.take(node);
        let look = [FIRST_LOOK[0], FIRST_LOOK[1], "PTTL a"];
        assert_eq!(asked[asked.len() - 3..], look);
        let release = ":0|".repeat(asked.len() - 3);
        world.say(node, &format!("{release}+OK|+OK|{left}"));
    }
    world.all_were_sent(&[]); // It does not ask again and again.
    let before = world.now;
    world.sleep_until_asked(0);
    let waited = world.now.saturating_since(before);
    assert!((50 * MS..=251 * MS).contains(&waited), "{waited:?}");
    world.all_were_sent(&["TAKE a b c 10000"]);
    world.cancel(round);
}

/// Names that nodes have given in an earlier attempt do not count in the present one.
#[test]
fn a_set_waits_for_the_name_by_which_nodes_keep_it_out_now() {
    let mut world = World::ready(5);
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    let round = world.acquire_all(&names, &patient());
    world.take_all();
    for node in [3, 4, 0] {
        world.say(node, ":2|");
    }
    for node in 0..5 {
        let release = world.take(node).len() - 3;
        let denied = if release == 0 { "" } else { ":2|" };
        let released = ":0|".repeat(release);
        world.say(node, &format!("{denied}{released}+OK|+OK|:10000|"));
    }
    world.all_exchange(&[], ">2|$10|invalidate|*1|$1|a|");
    world.all_were_sent(&["TAKE a b c 10000"]);
    world.each_says(&[":3|", ":3|", ":4|"]);
    assert_eq!(world.take(0), [LOOK[0], "PTTL b"]);
    world.cancel(round);
}
