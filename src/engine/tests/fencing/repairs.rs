//! Stories of repair, over nodes that run the scripts: a token that only the lost nodes have confirmed is smaller than
//! every later one, or there is no later one.

use super::super::net::Net;
use super::stores::{client, report, take_token, trust};
use super::*;
use crate::config::{Builder, RestartGuard};
use crate::embedded::Memory;
use crate::error::Report;
use crate::resource::FLOOR_KEY;

/// The shortest time for which a node is in repair.
const QUARANTINE: Duration = Duration::from_millis(10_102);

const NO_FLOOR: NodeOutcome = NodeOutcome::Unusable(Unusable::NoFloor);

/// The fate of the nodes that are lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Becomes {
    /// All of them are repaired.
    Repaired,
    /// They wait for nodes that are down, and are repaired then.
    Waits,
    /// Only an operator can help.
    Lost,
}
use Becomes::{Lost, Repaired, Waits};

struct Story {
    net: Net,
    builder: Builder,
    nodes: usize,
}

impl Story {
    /// Makes nodes with floors, a client that sees everything, and a client whose clock is ahead.
    fn new(nodes: usize, guard: RestartGuard) -> Self {
        let builder = named(nodes).watch_clocks(false).max_ttl(TTL);
        let builder = builder.restart_guard(guard);
        let mut net = Net::new(nodes as u64);
        client(&mut net, builder.clone(), Duration::ZERO);
        client(&mut net, builder.clone(), 100 * SECOND);
        net.pass(2 * TTL);
        trust(&mut net, 0);
        net.pass(2 * SECOND);
        take_token(&mut net, 0);
        Self {
            net,
            builder,
            nodes,
        }
    }

    /// Makes three nodes. Node 1 has lost its data, and with it a token that otherwise node 0 alone knows.
    fn lost(guard: RestartGuard, memory: Memory) -> (Self, u64) {
        let mut story = Self::new(3, guard);
        let token = story.hidden_token(&[0, 1]);
        story.net.restart(1, memory);
        (story, token)
    }

    /// Makes only these nodes reachable from now on.
    fn only(&mut self, reachable: &[usize]) {
        for node in 0..self.nodes {
            self.net.unreachable(node, !reachable.contains(&node));
        }
        self.net.pass(3 * SECOND); // All clients have tried again to connect.
    }

    /// Makes a token that only these nodes have confirmed, and that no other node knows. It is larger than the time.
    fn hidden_token(&mut self, nodes: &[usize]) -> u64 {
        self.only(nodes);
        let token = take_token(&mut self.net, 1);
        self.only(&Vec::from_iter(0..self.nodes));
        token
    }

    /// Makes a client that has seen nothing and has no clock, so that its tokens come from the nodes alone.
    fn stranger(&mut self) -> usize {
        self.net.client(self.builder.clone())
    }

    /// Returns what a new client is told about why it gets no token.
    fn report_to_stranger(&mut self) -> Report {
        let stranger = self.stranger();
        let _ = report(&mut self.net, stranger); // This client has not seen all nodes yet.
        report(&mut self.net, stranger)
    }

    /// Returns the floor of `node`, if it gives tokens.
    fn floor(&self, node: usize) -> Option<u64> {
        let engine = &self.net.clients[0].engine;
        let status = engine.node_statuses(self.net.now).nth(node);
        let run_id = status.and_then(|status| status.run_id)?;
        let floor = self.net.value(node, FLOOR_KEY)?;
        let words: Vec<&str> = floor.split(':').collect();
        let &[owner, base, number] = words.as_slice() else {
            panic!("{floor}")
        };
        (owner == run_id && base.parse::<u64>().is_ok()).then(|| number.parse().expect("a number"))
    }

    fn are_sound(&self, nodes: &[usize], least: u64) -> bool {
        nodes.iter().all(|node| Some(least) <= self.floor(*node))
    }

    fn are_in_repair(&self, nodes: &[usize]) -> bool {
        nodes.iter().all(|node| self.floor(*node).is_none())
    }
}

/// Each line: the number of nodes, the nodes that lose their data at the same time, and the other nodes that are down
/// then.
#[test]
fn what_becomes_of_nodes_that_lose_their_data() {
    for (nodes, lost, down, becomes) in [
        (3, &[1][..], &[][..], Repaired),
        (3, &[0], &[2], Waits),
        (3, &[0], &[1], Waits),
        (3, &[0, 1], &[], Lost),
        (3, &[0, 1, 2], &[], Lost),
        (5, &[3], &[], Repaired),
        (5, &[0], &[4], Repaired),
        (5, &[0, 4], &[], Repaired),
        (5, &[0], &[1, 2], Waits),
        (5, &[0, 1], &[4], Waits),
        (5, &[0, 1, 2], &[], Lost),
        (4, &[2], &[], Repaired),
        (4, &[2], &[0], Repaired),
        (4, &[1, 2], &[], Repaired),
        (4, &[1, 2], &[0], Waits),
        (4, &[1, 2, 3], &[], Lost),
        (2, &[0], &[], Repaired),
        (2, &[0, 1], &[], Lost),
        (1, &[0], &[], Lost),
    ] {
        for (guard, memory) in [
            (RestartGuard::Off, Memory::Kept),
            (RestartGuard::Observed, Memory::Lost),
            (RestartGuard::Strict, Memory::Lost),
        ] {
            let mut story = Story::new(nodes, guard);
            becomes_of(&mut story, (lost, down), memory, becomes);
        }
    }
}

fn becomes_of(
    story: &mut Story,
    (lost, down): (&[usize], &[usize]),
    memory: Memory,
    becomes: Becomes,
) {
    let all = Vec::from_iter(0..story.nodes);
    let quorum = story.nodes / 2 + 1;
    let others =
        |nodes: &[usize]| Vec::from_iter(all.iter().copied().filter(|node| !nodes.contains(node)));
    // The lost nodes, then the nodes that are down, then others. The remaining nodes have never seen the token.
    let mut majority = [lost, down, &others(&[lost, down].concat())].concat();
    majority.truncate(quorum);
    let token = story.hidden_token(&majority);
    let reachable = others(down);
    story.only(&reachable);
    for node in lost {
        story.net.restart(*node, memory);
    }
    story.net.pass(2 * QUARANTINE);
    match becomes {
        Repaired => {}
        Waits => {
            assert!(story.are_in_repair(lost));
            let report = story.report_to_stranger();
            assert!(outcomes(&report).contains(&IN_REPAIR), "{report}");
            assert!(!report.needs_operator(), "{report}");
            story.only(&all);
            story.net.pass(QUARANTINE); // The nodes that were down may be in quarantine.
        }
        Lost => {
            story.net.pass(3 * QUARANTINE);
            assert!(story.are_in_repair(lost));
            let report = story.report_to_stranger();
            assert!(outcomes(&report).contains(&NO_FLOOR), "{report}");
            assert!(report.needs_operator(), "{report}");
            trust(&mut story.net, 0);
        }
    }
    assert!(story.are_sound(lost, token));
    // The lost nodes, and as few as possible of the nodes that know the token.
    let mut rest = [lost, &others(&majority), &others(lost)].concat();
    rest.truncate(quorum.max(lost.len()));
    story.only(&rest);
    let stranger = story.stranger();
    assert!(token < take_token(&mut story.net, stranger));
    story.only(&all);
    story.net.pass(2 * SECOND); // The debts to the nodes that were down are sent.
    story.net.is_clean();
}

/// A flush breaks no connection, so no client notices it before it looks again. After a restart the floor comes back
/// with the data, and so does the mark. Both belong to the earlier server process.
#[test]
fn a_flush_in_between_begins_the_wait_again() {
    let flushed: fn(&mut Net) = |net| net.admin(1, "FLUSHALL");
    let begins: [(fn(&mut Net), _, _); 3] = [
        (flushed, Memory::Lost, 3 * QUARANTINE / 2),
        (|net| net.restart(1, Memory::Lost), Memory::Lost, QUARANTINE),
        (|net| net.restart(1, Memory::Kept), Memory::Kept, QUARANTINE),
    ];
    for (begin_again, memory, waits) in begins {
        let (mut story, token) = Story::lost(RestartGuard::Observed, memory);
        story.net.pass(QUARANTINE / 2);
        begin_again(&mut story.net);
        story.net.pass(QUARANTINE / 2 + SECOND);
        assert!(story.are_in_repair(&[1]));
        story.net.pass(waits - QUARANTINE / 2 - 2 * SECOND);
        assert!(story.are_in_repair(&[1]));
        story.net.pass(2 * SECOND);
        assert!(story.are_sound(&[1], token));
    }
}

/// A repair that is due comes late, to a node that has lost its data again.
#[test]
fn a_repair_of_an_earlier_loss_comes_to_nothing() {
    let mut story = Story::new(3, RestartGuard::Off);
    story.net.restart(1, Memory::Lost);
    story.net.pass(QUARANTINE - 20 * MS);
    story.net.hold(0, 0);
    story.net.pass(30 * MS);
    story.net.admin(1, "FLUSHALL");
    let stranger = story.stranger();
    let _ = story.net.lock_with(stranger, &fenced()); // This call marks the node.
    story.net.let_through(0, 0);
    story.net.pass(SECOND);
    assert!(story.are_in_repair(&[1]));
    assert!(story.net.value(1, FLOOR_KEY).is_some());
}

/// A client that has seen the mark of another client waits from then on, and continues alone.
#[test]
fn a_repair_outlives_the_client_that_began_it() {
    let (mut story, token) = Story::lost(RestartGuard::Off, Memory::Lost);
    let stranger = story.stranger();
    let _ = story.net.lock_with(stranger, &fenced());
    let mark = story.net.value(1, FLOOR_KEY);
    story.net.clients.drain(..2);
    story.net.pass(QUARANTINE - SECOND);
    assert_eq!(story.net.value(1, FLOOR_KEY), mark);
    story.net.pass(2 * SECOND);
    assert!(story.are_sound(&[1], token));
}

/// An operator need not wait for the end of a repair.
#[test]
fn an_operator_ends_a_repair() {
    let (mut story, token) = Story::lost(RestartGuard::Observed, Memory::Lost);
    story.net.pass(SECOND);
    assert!(story.are_in_repair(&[1]));
    trust(&mut story.net, 0);
    assert!(story.are_sound(&[1], token));
    story.net.pass(2 * QUARANTINE);
    story.net.is_clean();
}
