//! Stories of callers that wait for several resources at once: programs on the same three nodes, which answer at once
//! and report changes as a server does.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::net::Net;
use super::*;
use crate::effort::effort;
use crate::error::Report;

mod turns;

const NODES: usize = 3;

struct Programs {
    net: Net,
    programs: Vec<Program>,
}

/// The outcomes of a program, by operation.
#[derive(Default)]
struct Program {
    locks: BTreeMap<RoundId, Lock>,
    refused: BTreeMap<RoundId, LockError>,
}

impl Programs {
    /// Makes this number of connected programs.
    fn new(programs: usize) -> Self {
        let mut net = Net::new(NODES as u64);
        for _ in 0..programs {
            net.client(named(NODES).watch_clocks(false));
        }
        Self {
            net,
            programs: (0..programs).map(|_| Program::default()).collect(),
        }
    }

    /// Lets everything happen that takes no time.
    fn pump(&mut self) {
        self.net.pump();
        self.tell();
    }

    fn tell(&mut self) {
        for (client, program) in self.net.clients.iter_mut().zip(&mut self.programs) {
            for event in client.events.drain(..) {
                match event {
                    Event::Acquired { round, result } => match result {
                        Ok(lock) => drop(program.locks.insert(round, lock)),
                        Err(error) => drop(program.refused.insert(round, error)),
                    },
                    Event::Expired { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Moves the time, and lets timers fire.
    fn pass(&mut self, span: Duration) {
        self.net.pass(span);
        self.tell();
    }

    /// Breaks the connection of a program to a node.
    fn cut(&mut self, program: usize, node: usize) {
        self.net.cut_link(program, node);
        self.pump();
    }

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

    /// Asserts that no two programs hold the same name at the same time.
    fn exclude_each_other(&self) {
        let programs = self.programs.iter();
        let locks = programs.flat_map(|program| program.locks.values());
        let valid = locks.filter(|lock| lock.is_valid_at(self.net.now));
        let mut names: Vec<&[u8]> = valid.flat_map(Lock::resources).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two have one name");
    }

    // ----- calls ----------------------------------------------------------------------------

    /// Makes a program ask for the resources whose names are these letters, with these `options`.
    fn wants_as(&mut self, program: usize, names: &str, options: &LockOptions) -> RoundId {
        let names: Vec<&[u8]> = names.as_bytes().chunks(1).collect();
        let request = match names[..] {
            [name] => Request::new(name, options),
            _ => Request::all(&names, options),
        };
        let now = self.net.now;
        let round = self.engine(program).acquire(now, &request);
        self.pump();
        round.expect("valid")
    }

    fn wants(&mut self, program: usize, names: &str) -> RoundId {
        self.wants_as(program, names, &patient())
    }

    fn has(&self, program: usize, round: RoundId) -> bool {
        self.programs[program].locks.contains_key(&round)
    }

    #[track_caller]
    fn gives_back(&mut self, program: usize, round: RoundId) {
        let lock = self.programs[program].locks.remove(&round);
        let now = self.net.now;
        self.engine(program)
            .give_back(now, lock.expect("it is held"));
        self.pump();
    }

    fn cancel(&mut self, program: usize, round: RoundId) {
        let now = self.net.now;
        self.engine(program).cancel(now, round);
        self.pump();
    }

    /// Returns why `round` was refused.
    #[track_caller]
    fn refusal(&mut self, program: usize, round: RoundId) -> Report {
        let error = self.programs[program].refused.remove(&round);
        match error.expect("it is refused") {
            LockError::Held(report) => report,
            error => panic!("{error:?}"),
        }
    }

    /// Releases the held locks until no caller waits and there is no debt, which takes at most a second.
    fn serve_all(&mut self) {
        for _ in 0..1_000 {
            for program in 0..self.programs.len() {
                while let Some(round) = self.programs[program].locks.keys().next().copied() {
                    self.gives_back(program, round);
                }
            }
            let mut loads = self.net.clients.iter().map(|client| client.engine.load());
            if loads.all(|load| load.rounds + load.claims == 0) {
                return self.is_clean();
            }
            self.pass(MS);
        }
        panic!("somebody waits for ever");
    }

    /// Asserts that nothing is open, and that no node has a key.
    fn is_clean(&self) {
        self.net.is_clean();
        for client in &self.net.clients {
            let parts = &client.engine.work.parts;
            assert!(parts.queues.is_empty());
            assert_eq!(client.engine.resting(), 0);
        }
        for node in &self.net.nodes {
            assert_eq!(node.store.keys(self.net.now), 0);
        }
        assert_eq!(crate::invariant::count(), 0);
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
        assert!(!world.has(0, behind), "the name is left free");
        assert_eq!(world.sent(0), sent, "nothing has changed");
        world.gives_back(program, held);
        assert!(world.has(0, set), "it was told");
        assert_eq!(world.attempts(0), program + 1);
        world.gives_back(0, set);
        world.pass(2 * MS);
        assert!(world.has(0, behind));
        world.serve_all();
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
        world.cancel(0, set);
        assert!(!world.has(0, set));
        world.gives_back(program, held);
        world.pass(50 * MS);
        let have = behind.map(|who| world.has(0, who));
        assert_eq!(have, [true, false, true, false], "stage {stage}");
        world.serve_all();
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
        assert!(world.programs[0].refused.is_empty());
        world.pass(3 * MS);
        let report = world.refusal(0, set);
        assert_eq!(report.held_resource(), Some(&b"b"[..]), "program {program}");
        assert_eq!(report.is_held_here(), program == 0);
        assert_eq!(report.tries() == 0, program == 0);
        world.gives_back(program, held);
        world.pass(10 * MS);
        assert!(world.has(0, behind));
        world.serve_all();
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
    let report = world.refusal(0, set);
    assert_eq!(
        (report.tries(), report.held_resource()),
        (0, Some(&b"b"[..]))
    );
    assert_eq!(outcomes(&report)[..2], [NodeOutcome::Held; 2]);
    world.gives_back(1, held);
    assert!(world.has(0, before));
    world.serve_all();
}

/// The set has learned that this name was held, and then that another one is held.
#[test]
fn a_caller_behind_a_set_is_told_nothing_that_the_set_has_left_behind() {
    let mut world = Programs::new(2);
    let [first, second] = [world.wants(1, "a"), world.wants(1, "b")];
    let set = world.wants(0, "ab");
    world.pass(MS);
    world.gives_back(1, first);
    world.pass(50 * MS);
    assert_eq!(world.attempts(0), 2);
    let behind = world.wants_as(0, "a", &LockOptions::new(TTL).wait(100 * MS));
    world.pass(102 * MS);
    let report = world.refusal(0, behind);
    assert_eq!(outcomes(&report), [NodeOutcome::Pending; 3], "{report}");
    world.cancel(0, set);
    world.gives_back(1, second);
    world.serve_all();
}

#[test]
fn a_single_try_for_a_set_of_which_a_name_is_held_here_is_refused_without_asking() {
    let mut world = Programs::new(1);
    let held = world.wants(0, "b");
    let sent = world.sent(0);
    let once = world.wants_as(0, "ab", &LockOptions::new(TTL).tries(1));
    let report = world.refusal(0, once);
    assert!(report.tries() == 0 && report.is_held_here());
    assert_eq!(world.sent(0), sent);
    world.gives_back(0, held);
    world.is_clean();
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
    let mut rounds = Vec::new();
    for _ in 0..150 {
        let program = below(programs);
        match below(9) {
            0..4 => {
                let mut names: Vec<char> = "abcd".chars().collect();
                (1..4).rev().for_each(|at| names.swap(at, below(at + 1)));
                names.truncate(1 + below(4));
                let options = match below(5) {
                    0 => LockOptions::new(TTL).tries(1),
                    1 => LockOptions::new(TTL).wait(30 * MS),
                    _ => patient(),
                };
                let names: String = names.into_iter().collect();
                rounds.push((program, world.wants_as(program, &names, &options)));
            }
            4..7 => {
                if let Some(&round) = world.programs[program].locks.keys().next() {
                    world.gives_back(program, round);
                }
            }
            7 if !rounds.is_empty() => {
                let (program, round) = rounds.swap_remove(below(rounds.len()));
                if !world.has(program, round) {
                    world.cancel(program, round);
                }
            }
            8 if below(4) == 0 => also(&mut world, program),
            _ => world.pass(Duration::from_micros([100, 2_000, 60_000][below(3)])),
        }
        world.exclude_each_other();
        see(&mut world);
    }
    world.serve_all();
}

#[test]
fn whatever_happens_sets_exclude_each_other_and_all_have_their_turn() {
    for seed in 0..effort(20, 60) {
        let mut node = 0;
        let cut = |world: &mut Programs, program| {
            node = (node + 1) % NODES;
            world.cut(program, node);
        };
        at_random(3, seed, cut, |_| {});
    }
}

/// The test looks at what one write to a node contains.
#[test]
fn a_set_goes_behind_the_release_of_the_one_before_it_in_the_same_write() {
    let mut world = World::ready(3);
    let names: [&[u8]; 2] = [b"a", b"b"];
    let options = patient();
    for names in [names, [b"b", b"a"]] {
        let request = Request::all(&names, &options);
        let round = world.engine.acquire(world.now, &request);
        world.drain();
        round.expect("valid");
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
    let options = patient();
    let round = world
        .engine
        .acquire(world.now, &Request::all(&names, &options));
    world.drain();
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
    world.cancel(round.expect("valid"));
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
