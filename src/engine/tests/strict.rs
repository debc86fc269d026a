//! Stories of nodes that carry markers: several clients over the stores of embedded nodes, which run the scripts
//! themselves.

mod chance;
mod durable;
mod elsewhere;
mod groups;
mod markers;
mod names;

use super::net::{Net, builder};
use super::*;
use crate::config::RestartGuard;
use crate::embedded::Memory;
use crate::engine::operators::OperatorError;
use crate::error::TrustFault;
use crate::resource::{BARRIER_KEY, MARKER_KEY};

/// The longest ttl of all clients in these stories, and the length of a barrier that follows from it.
const LONGEST: Duration = Duration::from_secs(20);
const BARRIER: Duration = Duration::from_millis(20_202);

/// By how much a client that finds a barrier overestimates its length.
const GRAIN: Duration = MS;

impl Net {
    /// An operator vouches for the servers that a client is connected to. Returns their number.
    fn trust_all(&mut self, client: usize) -> usize {
        self.clients[client].engine.trust_all(self.now).0.len()
    }

    /// An operator vouches for one server, by the name under which the client knows the node.
    fn trust(&mut self, client: usize, node: usize) -> Result<bool, TrustFault> {
        let engine = &mut self.clients[client].engine;
        let status = engine.node_statuses(self.now).nth(node);
        let run_id = status.and_then(|status| status.run_id).unwrap_or_default();
        let trusted = engine.trust_for(self.now, id(node), &run_id);
        trusted.map(|(kept, _)| kept)
    }
}

/// Makes `clients` clients of three nodes, which are new and have barriers.
fn barred(clients: usize) -> Net {
    let mut net = Net::new(3);
    for _ in 0..clients {
        net.client(builder(3).max_ttl(LONGEST));
    }
    net.pump();
    net
}

/// Makes `clients` clients of three nodes for which an operator has vouched.
fn trusted(clients: usize) -> Net {
    let mut net = barred(clients);
    assert_eq!(net.trust_all(0), 3);
    net.pump();
    for client in 1..clients {
        // The other clients know of barriers that are gone, and would only ask again in a second.
        assert_eq!(net.trust_all(client), 3);
    }
    net.pump();
    net
}

fn refusal(result: Result<Lock, LockError>) -> crate::error::Report {
    match result {
        Err(LockError::NoQuorum(report)) => report,
        other => panic!("{other:?}"),
    }
}

/// The command that ends the barrier follows the question whose answer names it.
#[test]
fn trust_in_a_node_that_is_just_asked_to_join_again_is_the_last() {
    let mut net = trusted(1);
    net.unreachable(2, true);
    net.hold(0, 1);
    net.acquire(0, b"other", TTL);
    net.let_through(0, 1);
    drop(net.acquired(0).1.expect("two vote"));
    net.admin(1, "FLUSHALL");
    refusal(net.try_lock(0, TTL));
    net.hold(0, 1);
    net.admin(1, "FLUSHALL");
    assert_eq!(net.trust(0, 1), Ok(true));
    net.acquire(0, b"k", TTL);
    net.let_through(0, 1);
    // The word was there before the question.
    let lock = net.acquired(0).1.expect("it votes");
    assert_eq!(net.value(1, BARRIER_KEY), None);
    net.release(0, lock);
}

#[test]
fn trust_in_a_node_that_is_not_connected_is_not_kept() {
    let mut net = trusted(1);
    net.pass(Duration::from_secs(2));
    net.unreachable(2, true);
    assert_eq!(net.trust(0, 2), Err(TrustFault::NotConnected));
    net.restart(2, Memory::Lost);
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    let until = net.kept_until(0, 2);
    assert!(until.is_some(), "it restarted after the word");
}

/// The node is not known to have a barrier, and may join in time.
#[test]
fn a_node_in_its_next_handshake_is_waited_for() {
    let mut net = trusted(1);
    net.pass(Duration::from_secs(2));
    net.unreachable(2, true);
    net.hold(0, 1);
    net.reconnect(1);
    net.acquire(0, b"k", TTL);
    assert!(net.event(0).is_none(), "two of three may say yes");
    net.let_through(0, 1);
    let lock = net.acquired(0).1.expect("it has greeted in time");
    net.release(0, lock);
}

/// A yes from before the flush does not count either, once the flush is known.
#[test]
fn a_yes_is_taken_back_when_its_node_is_found_to_have_forgotten() {
    let mut net = trusted(1);
    net.hold(0, 0);
    net.hold(0, 2);
    let first = net.acquire(0, b"k", TTL);
    net.admin(1, "FLUSHALL");
    net.acquire(0, b"other", TTL);
    net.let_through(0, 0);
    assert!(net.event(0).is_none(), "the second has taken its yes back");
    net.let_through(0, 2);
    let (round, result) = net.acquired(0);
    assert_eq!(round, first);
    drop(result.expect("the first and the third"));
}

/// DESIGN 3.4: there were two holders in a measurement in which a node with a new copy counted during its quarantine.
#[test]
fn an_extension_on_a_node_behind_its_barrier_is_not_counted() {
    let mut net = trusted(2);
    net.pass(Duration::from_secs(2));
    // The first client has the lock on the first two nodes.
    net.unreachable(2, true);
    let mut lock = net.try_lock(0, LONGEST).expect("two vote");
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    // The second of these nodes forgets the lock. It gets a copy again after two extensions.
    net.restart(1, Memory::Lost);
    for _ in 0..3 {
        drop(net.extend(0, &mut lock, LONGEST));
    }
    net.unreachable(0, true);
    // Now the first node is away, and only nodes 1 and 2 could say yes. One of them does not count.
    let result = net.extend(0, &mut lock, LONGEST);
    assert_matches!(result, Err(ExtendError::Unconfirmed(_)));
    assert!(net.try_lock(1, TTL).is_err());
}

#[test]
fn a_confirmation_on_a_node_behind_its_barrier_is_not_counted() {
    let mut net = trusted(1);
    let mut lock = net.try_lock(0, LONGEST).expect("three vote");
    assert!(net.confirm(0, &mut lock).is_ok());
    net.admin(1, "SET shearline:barrier 1 PX 20202");
    net.unreachable(2, true);
    let Err(ExtendError::Unconfirmed(report)) = net.confirm(0, &mut lock) else {
        panic!("one vote is no majority")
    };
    let until = net.now.saturating_add(BARRIER + GRAIN);
    assert_eq!(outcomes(&report)[1], NodeOutcome::Quarantined { until });
}

#[test]
fn names_of_the_guard_are_no_names_of_locks() {
    let mut net = trusted(1);
    for name in [MARKER_KEY, BARRIER_KEY] {
        let options = LockOptions::new(TTL);
        let request = Request::new(name, &options);
        let result = net.clients[0].engine.acquire(net.now, &request);
        let reserved = InvalidRequest(RequestFault::ReservedResource);
        assert_matches!(result, Err(LockError::Invalid(error)) if error == reserved);
    }
}
