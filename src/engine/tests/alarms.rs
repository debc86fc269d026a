//! Stories of nodes that refuse as replicas, and of one server under several names.

use super::restarts::{LONGEST, QUARANTINE, guarded};
use super::*;

const READONLY: &str = "-READONLY You can't write against a read only replica.|";

impl World {
    /// The server behind `node` refuses a `SET`, as a replica does.
    fn refuse_as_a_replica(&mut self, node: usize) {
        self.try_once();
        self.take(node);
        self.say(node, READONLY);
    }

    /// Asserts that `node` does not vote for as long as a lock may last.
    #[track_caller]
    fn is_quarantined_from_now(&self, node: usize) {
        let until = self.now.saturating_add(QUARANTINE);
        assert_eq!(self.quarantined_until(node), Some(until));
    }
}

/// Four names, of which the last two belong to the same server. The first `names` of them were connected.
fn met(names: usize) -> World {
    let mut world = World::with(named(4).max_ttl(LONGEST));
    for node in 0..names {
        world.greet_as(node, &format!("run{}", node.min(2)), 1_000);
    }
    world
}

/// Four such names that were all connected.
fn twins() -> World {
    let world = met(4);
    assert_eq!(world.state(3), NodeState::Unusable(Unusable::SameServer(2)));
    world
}

#[test]
fn a_node_that_refuses_as_a_replica_is_greeted_again_and_does_not_vote() {
    let mut world = guarded(3);
    world.refuse_as_a_replica(2);
    assert_eq!(world.links[2], "reset");
    world.grant(&[0, 1]);
    let lock = world.lock();
    world.release(lock);
    // Everything that the server says about itself is as before.
    world.greet_as(2, "run2", 1_100);
    world.is_quarantined_from_now(2);
}

/// The server may next greet under its other name, under which it has refused nothing or was never connected.
#[test]
fn an_alarm_is_for_all_names_of_a_server() {
    for is_met in [true, false] {
        let mut world = match is_met {
            true => twins(),
            false => met(3),
        };
        world.refuse_as_a_replica(2);
        world.greet_as(3, "run2", 1_100);
        world.is_quarantined_from_now(3);
    }
}

/// The server refuses under the name that has no vote, and votes under the other name.
#[test]
fn an_alarm_that_a_twin_hears_is_for_the_name_that_votes() {
    let mut world = twins();
    // The debt is sent in the handshake, and the server refuses it there.
    let lock = world.lock_by(&[0, 1, 2]);
    let lock = world.detach(lock);
    let lock = world.adopt(lock);
    world.release(lock);
    world.welcome_again(3);
    world.take(3);
    world.say(3, READONLY);
    assert_eq!(world.links[2], "reset", "it has to greet anew");
    world.take(2);
    world.welcome_again(2);
    assert_eq!(world.take(2)[0], "EVAL release", "it is owed");
    world.say(2, ":1|");
    world.finish_as(2, "run2", 1_100);
    world.is_quarantined_from_now(2);
}

/// If a server was refused as a twin, its later identity is compared with the one that it gave then, even if the
/// longest ttl is not known.
#[test]
fn a_twin_is_known_when_it_comes_back_as_another() {
    let mut world = World::new(3);
    for (node, run_id) in [(0, "run0"), (1, "run0"), (2, "run2")] {
        world.greet_as(node, run_id, 1_000);
    }
    let twin = NodeState::Unusable(Unusable::SameServer(0));
    assert_eq!(world.state(1), twin);
    world.lose(0);
    world.greet_as(1, "again", 0);
    assert!(world.quarantined_until(1).is_some());
}
