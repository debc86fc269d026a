//! The library on embedded nodes, as in a demo or in a user's test.

use std::thread;

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::internals::{Flavour, Store};
use shearline::{Builder, LockOptions, NodeState, RestartGuard, Unusable, Waking};

use crate::face::{Face, Which, at};
use crate::servers::{LONG, eventually};

const KEY: &str = "invoice:42";

fn over(nodes: &[EmbeddedNode]) -> Builder {
    at(nodes.iter().map(EmbeddedNode::url))
}

fn driver(nodes: &[EmbeddedNode]) -> Face {
    Which::Driver.build(over(nodes))
}

/// Waits until exactly `copies` of the nodes have the key.
fn await_copies(face: &mut Face, nodes: &[EmbeddedNode], copies: usize) {
    eventually("so many copies", || {
        face.settle();
        let have = nodes.iter().filter(|node| node.get(KEY).is_some());
        (have.count() == copies).then_some(())
    });
}

/// Starts three nodes that know neither `CLIENT` nor `INFO`, like some services and proxies.
fn proxied() -> Vec<EmbeddedNode> {
    let prepare = |store: &mut Store| store.set_flavour(Flavour::Proxied);
    let spawn = |_| EmbeddedNode::spawn_with(prepare).expect("a node");
    (0..3).map(spawn).collect()
}

#[test]
fn nodes_that_know_neither_client_nor_info_serve_locks() {
    let nodes = proxied();
    let mut driver = driver(&nodes);
    let mut held = driver.try_lock(KEY, LONG).expect("free");
    await_copies(&mut driver, &nodes, 3);
    driver.extend(&mut held, 2 * LONG).expect("held");
    // Another handle waits: it looks from time to time, because no node notifies it of the release.
    let other = over(&nodes).build().expect("valid");
    let patient = LockOptions::new(LONG).wait(LONG);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.lock_with(KEY, &patient));
        let unknown = |waking| matches!(waking, Waking::Refused(error) if error.code() == "ERR");
        eventually("the nodes have refused to tell", || {
            let statuses = other.nodes();
            let told = statuses.iter().filter(|status| unknown(status.waking));
            (2 <= told.count()).then_some(())
        });
        driver.unlock(held).expect("held");
        let lock = waiting.join().expect("no panic").expect("it waits");
        lock.unlock().expect("held");
    });
    await_copies(&mut driver, &nodes, 0);
    for status in other.nodes() {
        assert_eq!((status.state, status.run_id), (NodeState::Ready, None));
    }
}

/// The manual says so about such nodes: nothing shows that they have forgotten their keys.
#[test]
fn a_restart_of_nodes_without_info_is_not_noticed() {
    let nodes = proxied();
    let mut driver = driver(&nodes);
    let first = driver.try_lock(KEY, LONG).expect("free");
    for node in &nodes {
        node.stop().expect("stopped");
        node.restart(Memory::Lost).expect("restarted");
    }
    let mut other = self::driver(&nodes);
    let second = other.try_lock(KEY, LONG).expect("nobody knows");
    assert!(first.is_valid() && second.is_valid(), "two holders");
}

#[test]
fn nodes_without_info_are_refused_by_a_strict_guard() {
    let nodes = proxied();
    let mut driver = Which::Driver.build(over(&nodes).restart_guard(RestartGuard::Strict));
    eventually("all are refused", || {
        driver.settle();
        let refused = NodeState::Unusable(Unusable::NoRunId);
        let statuses = driver.nodes();
        let all = statuses.iter().all(|status| status.state == refused);
        all.then_some(())
    });
}
