//! Stories of connections that bring nothing although their servers are alive.

use super::*;

/// The silence after which a node is suspect: four of the usual node timeouts.
const SUSPECT: Duration = Duration::from_millis(200);

const AGAIN: Duration = Duration::from_millis(250);

impl World {
    /// Makes three nodes that are ready, and an attempt that none of them answers.
    fn in_a_hole(options: &LockOptions) -> Self {
        let mut world = Self::ready(3);
        world.acquire(options);
        world.pass(Duration::ZERO);
        world.pass(50 * MS);
        world.pass(SUSPECT - 50 * MS);
        world.take_all();
        world
    }

    /// `node` greets, gets a release first, and answers it with `found`.
    fn greet_owed(&mut self, node: usize, found: &str) {
        self.welcome(node);
        assert_eq!(self.take(node)[0], "EVAL release");
        self.say(node, found);
        self.finish(node, &format!("run{node}"));
    }

    fn answer_probe(&mut self, node: usize) {
        self.input(Input::Probed { node: id(node) });
    }

    /// Returns for each node: the number of probes so far, whether one is open, and the state of the connection.
    fn lines(&self) -> Vec<(u32, bool, &'static str)> {
        let line = |node| (self.probes[node], self.probing[node], self.links[node]);
        (0..self.links.len()).map(line).collect()
    }
}

#[test]
fn a_silent_majority_is_probed_every_250_ms() {
    let mut world = World::in_a_hole(&once());
    assert_eq!(world.state(0), NodeState::Suspect);
    world.pass(AGAIN - MS);
    assert_eq!(world.lines(), [(0, false, "up"); 3]);
    for probes in 1..4 {
        world.pass(if probes == 1 { MS } else { AGAIN });
        assert_eq!(world.lines(), [(probes, true, "up"); 3]);
    }
    assert_eq!(world.take_all().concat(), NOTHING, "all over probes");
}

#[test]
fn the_answer_to_a_probe_replaces_a_connection_that_brings_nothing() {
    let mut world = World::in_a_hole(&once());
    world.no_quorum();
    world.pass(AGAIN);
    world.answer_probe(1);
    let lines = [(1, true, "up"), (1, false, "connecting"), (1, true, "up")];
    assert_eq!(world.lines(), lines);
    world.answer_probe(0);
    for node in 0..2 {
        world.greet_owed(node, ":1|"); // The debts go first.
    }
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.all_say(0..2, "+OK|");
    drop(world.lock());
    world.pass(AGAIN);
    let last = world.lines()[2];
    assert_eq!(last, (1, false, "up"), "a majority needs no probe");
}

#[test]
fn an_answer_over_the_connection_ends_the_probe() {
    let mut world = World::in_a_hole(&once());
    world.pass(AGAIN);
    world.say(0, "+OK|:1|");
    assert_eq!(world.lines()[0], (1, false, "up"));
    world.answer_probe(0); // The answer was already on its way.
    assert_eq!(world.lines()[0], (1, false, "up"));
    assert_eq!(world.state(0), NodeState::Ready);
    world.answer_probe(1);
    assert_eq!(world.links[1], "connecting", "of another node");
}

#[test]
fn a_silent_minority_is_waited_for() {
    let mut world = World::ready(3);
    drop(world.lock_on(0..2));
    world.pass(Duration::ZERO);
    world.pass(SUSPECT);
    assert_eq!(world.state(2), NodeState::Suspect);
    world.sleep(8 * AGAIN);
    assert_eq!(world.lines(), [(0, false, "up"); 3]);
}

#[test]
fn nodes_are_not_probed_while_no_lock_is_wanted() {
    let (mut world, lock) = World::held(3);
    world.extend(&lock);
    drop(world.detach(lock));
    world.pass(Duration::ZERO);
    world.pass(SUSPECT);
    world.events.clear();
    assert_eq!(world.state(0), NodeState::Suspect);
    assert_eq!(world.claims(), 0);
    world.sleep(8 * AGAIN);
    assert_eq!(world.lines(), [(0, false, "up"); 3]);
    world.try_once();
    world.no_quorum();
    world.acquire(&LockOptions::new(TTL).wait(3 * AGAIN));
    world.pass(AGAIN);
    assert_eq!(world.lines(), [(1, true, "up"); 3], "now a lock is wanted");
    world.sleep_until_event();
    world.events.clear();
    world.pass(AGAIN);
    assert!(!world.lines()[0].1, "and now it is not");
}

/// The connections of the node are lost too, and the packets of every try are lost.
#[test]
fn while_a_call_waits_each_node_is_tried_every_250_ms() {
    let mut world = World::ready(3);
    (0..3).for_each(|node| world.lose(node));
    world.acquire(&LockOptions::new(TTL).wait(Duration::from_secs(60)));
    let mut tries = [0; 3];
    for _ in 0..40 {
        let (probes, links) = (world.probes.clone(), world.links.clone());
        world.links.fill("asked");
        world.sleep(AGAIN);
        world.pass(MS);
        for (node, tries) in tries.iter_mut().enumerate() {
            let is_asked = world.links[node] == "connecting";
            *tries += usize::from(is_asked || probes[node] < world.probes[node]);
            if world.links[node] == "asked" {
                let still = links[node] == "connecting";
                world.links[node] = if still { "connecting" } else { "" };
            }
        }
    }
    assert!(tries.iter().all(|tries| 36 <= *tries), "{tries:?}");
}

#[test]
fn a_connection_that_does_not_come_about_is_begun_again_when_the_probe_is_answered() {
    let mut world = World::new(3);
    world.acquire(&LockOptions::new(TTL).wait(Duration::from_secs(60)));
    world.pass(AGAIN);
    assert_eq!(world.lines(), [(1, true, "connecting"); 3]);
    world.links.fill("");
    world.answer_probe(0);
    world.answer_probe(2);
    assert_eq!(world.links, ["connecting", "", "connecting"]);
    world.greet(0);
    world.greet(2);
    world.pass(MS);
    for node in [0, 2] {
        world.exchange(node, ["SET k 10000"], "+OK|");
    }
    drop(world.lock());
}

/// A waiting call continues when there is a majority again, and not at the end of a random delay.
#[test]
fn a_call_that_waits_goes_on_as_soon_as_a_majority_is_back() {
    for by_probe in [true, false] {
        let mut world = World::in_a_hole(&LockOptions::new(TTL).wait(Duration::from_secs(60)));
        world.pass(AGAIN + MS);
        world.sleep(AGAIN - 10 * MS);
        for node in 0..2 {
            assert_eq!(world.take(node), NOTHING);
            if by_probe {
                world.answer_probe(node);
                world.greet_owed(node, ":0|");
            } else {
                world.say(node, "+OK|:1|");
            }
        }
        world.pass(MS);
        (0..2).for_each(|node| assert_eq!(world.take(node), ["SET k 10000"], "{by_probe}"));
    }
}

/// The server answers `HELLO` and postpones writes, so the next connection is silent as well.
#[test]
fn a_server_that_answers_probes_and_nothing_else_is_left_alone_for_longer_and_longer() {
    let mut world = World::in_a_hole(&once());
    let mut resets = 0;
    let start = world.now;
    while world.now < start.saturating_add(Duration::from_secs(25)) {
        world.pass(10 * MS);
        for node in 0..3 {
            if world.probing[node] {
                world.answer_probe(node);
            }
            if world.links[node] == "connecting" {
                world.welcome(node);
                world.take(node);
                resets += usize::from(node == 0);
            }
        }
    }
    assert!((5..15).contains(&resets), "{resets}");
}

#[test]
fn what_a_probe_is_asked_has_no_credentials() {
    let config = Config::builder().node("redis://user:secret@a:6379");
    let mut world = World::with(config);
    world.acquire(&LockOptions::new(TTL).wait(Duration::from_secs(60)));
    world.pass(AGAIN); // The net of the test compares the bytes to write.
    assert_eq!(world.probes, [1]);
}
