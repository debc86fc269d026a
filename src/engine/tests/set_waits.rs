//! Stories of callers that wait for several resources at once: programs on the same three nodes, which answer at once
//! and report changes as a server does.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::shared::programs::{NODES, Programs};
use super::*;
use crate::effort::effort;
use crate::error::Report;

mod turns;

/// A call of a program.
type Call = (usize, RoundId);

impl Programs {
    fn engine(&mut self, program: usize) -> &mut Engine {
        &mut self.net.clients[program].engine
    }

    /// Returns how many commands a program has sent.
    fn sent(&self, program: usize) -> usize {
        self.net.clients[program].sent
    }

    /// Returns how often a program has tried to take a set.
    fn attempts(&self, program: usize) -> usize {
        self.net.clients[program].sets
    }

    /// Makes a program ask for the resources whose names are these letters, with these `options`.
    fn wants_as(&mut self, program: usize, names: &str, options: &LockOptions) -> Call {
        let names: Vec<&[u8]> = names.as_bytes().chunks(1).collect();
        let request = match names[..] {
            [name] => Request::new(name, options),
            _ => Request::all(&names, options),
        };
        self.asks(program, &request)
    }

    fn wants(&mut self, program: usize, names: &str) -> Call {
        self.wants_as(program, names, &patient())
    }

    /// Returns why `call` was refused.
    #[track_caller]
    fn refusal(&mut self, call: Call) -> Report {
        match self.refused.remove(&call).expect("it is refused") {
            LockError::Held(report) => report,
            error => panic!("{error:?}"),
        }
    }

    /// Releases the held locks until no caller waits and there is no debt, which takes at most a second, and leaves
    /// nothing.
    fn serve_in_a_second(&mut self) {
        self.serve_within(1_000);
        self.nothing_is_left();
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

#[test]
fn a_set_whose_time_is_up_says_which_name_is_held_and_hands_its_names_on() {
    for program in 0..2 {
        let mut world = Programs::new(2);
        let held = world.wants(program, "b");
        let set = world.wants_as(0, "ab", &LockOptions::new(TTL).wait(100 * MS));
        let behind = world.wants(0, "ab");
        world.pass(99 * MS);
        assert!(world.refused.is_empty());
        world.pass(3 * MS);
        let report = world.refusal(set);
        assert_eq!(report.held_resource(), Some(&b"b"[..]), "program {program}");
        assert_eq!(report.is_held_here(), program == 0);
        assert_eq!(report.tries() == 0, program == 0);
        world.gives_back(held);
        world.pass(10 * MS);
        assert!(world.has(behind));
        world.serve_in_a_second();
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
    assert_eq!(
        (report.tries(), report.held_resource()),
        (0, Some(&b"b"[..]))
    );
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

#[test]
fn a_single_try_for_a_set_of_which_a_name_is_held_here_is_refused_without_asking() {
    let mut world = Programs::new(1);
    let held = world.wants(0, "b");
    let sent = world.sent(0);
    let once = world.wants_as(0, "ab", &once());
    let report = world.refusal(once);
    assert!(report.tries() == 0 && report.is_held_here());
    assert_eq!(world.sent(0), sent);
    world.gives_back(held);
    world.nothing_is_left();
}

/// Makes random calls: names in any order, deadlines and cancels, and `also` in one of 36 steps. Calls `see` after each
/// step.
fn at_random(
    programs: usize,
    seed: u64,
    mut also: impl FnMut(&mut Programs, usize),
    mut see: impl FnMut(&mut Programs),
) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut below = |bound: usize| random.random_range(0..bound);
    let mut world = Programs::new(programs);
    let mut calls = Vec::new();
    for _ in 0..150 {
        let program = below(programs);
        match below(9) {
            0..4 => {
                let mut names: Vec<char> = "abcd".chars().collect();
                (1..4).rev().for_each(|at| names.swap(at, below(at + 1)));
                names.truncate(1 + below(4));
                let options = match below(5) {
                    0 => once(),
                    1 => LockOptions::new(TTL).wait(30 * MS),
                    _ => patient(),
                };
                let names: String = names.into_iter().collect();
                calls.push(world.wants_as(program, &names, &options));
            }
            4..7 => {
                let mut held = world.locks.keys();
                if let Some(&call) = held.find(|(one, _)| *one == program) {
                    world.gives_back(call);
                }
            }
            7 if !calls.is_empty() => {
                let call = calls.swap_remove(below(calls.len()));
                if !world.has(call) {
                    world.cancel(call);
                }
            }
            8 if below(4) == 0 => also(&mut world, program),
            _ => world.pass(Duration::from_micros([100, 2_000, 60_000][below(3)])),
        }
        world.exclude_each_other();
        see(&mut world);
    }
    world.serve_in_a_second();
}

#[test]
fn whatever_happens_sets_exclude_each_other_and_all_have_their_turn() {
    for seed in 0..effort(20, 60) {
        let mut node = 0;
        let cut = |world: &mut Programs, program| {
            node = (node + 1) % NODES;
            world.net.cut_link(program, node);
            world.pump();
        };
        at_random(3, seed, cut, |_| {});
    }
}

/// The test looks at what one write to a node contains.
#[test]
fn a_set_goes_behind_the_release_of_the_one_before_it_in_the_same_write() {
    let mut world = World::ready(3);
    for names in [[&b"a"[..], b"b"], [b"b", b"a"]] {
        world.acquire_all(&names, &patient());
    }
    world.take_all();
    world.all_say(0..3, ":1|");
    let lock = world.lock();
    assert_eq!(world.take_all().concat(), NOTHING);
    world.give_back(lock);
    (0..3).for_each(|node| assert_eq!(world.take(node), ["RELEASE a b", "TAKE b a 10000"]));
    world.all_say(0..3, ":1|:1|");
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
    for (node, said) in [":2|", ":3|", ":4|"].iter().enumerate() {
        world.say(node, said);
    }
    for (node, left) in [":10000|", ":-2|", ":-2|"].iter().enumerate() {
        let asked = world.take(node);
        assert_eq!(
            asked[asked.len() - 3..],
            [FIRST_LOOK[0], FIRST_LOOK[1], "PTTL a"]
        );
        let release = ":0|".repeat(asked.len() - 3);
        world.say(node, &format!("{release}+OK|+OK|{left}"));
    }
    assert_eq!(
        world.take_all().concat(),
        NOTHING,
        "it does not ask again and again"
    );
    let before = world.now;
    while world.sent.iter().all(|sent| sent.is_empty()) {
        world.sleep_until_timer();
    }
    let waited = world.now.saturating_since(before);
    assert!((50 * MS..=251 * MS).contains(&waited), "{waited:?}");
    (0..3).for_each(|node| assert_eq!(world.take(node), ["TAKE a b c 10000"]));
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
    assert_eq!(world.take_all().concat(), NOTHING);
    world.all_say(0..3, ">2|$10|invalidate|*1|$1|a|");
    (0..5).for_each(|node| assert_eq!(world.take(node), ["TAKE a b c 10000"]));
    for (node, said) in [":3|", ":3|", ":4|"].iter().enumerate() {
        world.say(node, said);
    }
    assert_eq!(world.take(0), [LOOK[0], "PTTL b"]);
    world.cancel(round);
}
