//! The library on embedded nodes: what a demo or a user's test relies on.

use std::time::Duration;

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::engine::Event;
use shearline::internals::{Flavour, Options};
use shearline::{
    Driver, Lock, LockOptions, NodeState, RestartGuard, ServerError, Unusable, Waking,
};

use crate::face::at;
use crate::servers::{LONG, eventually};

const KEY: &str = "invoice:42";

fn driver(nodes: &[EmbeddedNode]) -> Driver {
    at(nodes.iter().map(EmbeddedNode::url))
        .build_driver()
        .expect("a driver")
}

fn next_event(driver: &mut Driver) -> Event {
    eventually("the round ends", || {
        driver
            .turn(Some(Duration::from_millis(20)))
            .expect("a turn");
        driver.poll_event()
    })
}

fn lock(driver: &mut Driver) -> Lock {
    let options = LockOptions::new(LONG).tries(1);
    driver.acquire(KEY.as_bytes(), &options).expect("a round");
    match next_event(driver) {
        Event::Acquired { result, .. } => result.expect("a lock"),
        other => panic!("{other:?}"),
    }
}

fn unlock(driver: &mut Driver, lock: Lock) {
    driver.release(lock).expect("a round");
    match next_event(driver) {
        Event::Released { result, .. } => drop(result.expect("released")),
        other => panic!("{other:?}"),
    }
}

/// Waits until exactly so many of the nodes have the key.
fn await_copies(driver: &mut Driver, nodes: &[EmbeddedNode], copies: usize) {
    eventually("so many copies", || {
        driver.turn(Some(Duration::from_millis(5))).expect("a turn");
        let have = nodes.iter().filter(|node| node.get(KEY).is_some());
        (have.count() == copies).then_some(())
    });
}

/// Three nodes that know neither `CLIENT` nor `INFO`, as some services and proxies.
fn proxied() -> Vec<EmbeddedNode> {
    let options = Options::new().flavour(Flavour::Proxied);
    let spawn = |_| EmbeddedNode::spawn_with(&options).expect("a node");
    (0..3).map(spawn).collect()
}

#[test]
fn nodes_that_know_neither_client_nor_info_serve_locks() {
    let nodes = proxied();
    let mut driver = driver(&nodes);
    let mut held = lock(&mut driver);
    await_copies(&mut driver, &nodes, 3);
    driver.extend(&held, 2 * LONG).expect("a round");
    match next_event(&mut driver) {
        Event::Extended { result, .. } => assert!(result.expect("extended").apply(&mut held)),
        other => panic!("{other:?}"),
    }
    // Another handle waits: it looks from time to time, because no node tells it of the release.
    let mut other = self::driver(&nodes);
    let patient = LockOptions::new(LONG).wait(LONG);
    other.acquire(KEY.as_bytes(), &patient).expect("a round");
    let unknown = Waking::Refused(ServerError::from_line(b"ERR"));
    eventually("the nodes have refused to tell", || {
        other.turn(Some(Duration::from_millis(5))).expect("a turn");
        let statuses = other.nodes();
        let told = statuses.iter().filter(|status| status.waking == unknown);
        (2 <= told.count()).then_some(())
    });
    unlock(&mut driver, held);
    let Event::Acquired { result, .. } = next_event(&mut other) else {
        panic!("it waits for a lock");
    };
    unlock(&mut other, result.expect("a lock"));
    await_copies(&mut other, &nodes, 0);
    for status in other.nodes() {
        assert_eq!((status.state, status.run_id), (NodeState::Ready, None));
    }
}

/// What the manual says of such nodes: nothing shows that they have forgotten their keys.
#[test]
fn a_restart_of_nodes_without_info_is_not_noticed() {
    let nodes = proxied();
    let mut driver = driver(&nodes);
    let first = lock(&mut driver);
    for node in &nodes {
        node.stop().expect("stopped");
        node.restart(Memory::Lost).expect("restarted");
    }
    let mut other = self::driver(&nodes);
    let second = lock(&mut other);
    assert!(first.is_valid() && second.is_valid(), "two holders");
}

#[test]
fn nodes_without_info_are_refused_by_a_strict_guard() {
    let nodes = proxied();
    let strict = at(nodes.iter().map(EmbeddedNode::url)).restart_guard(RestartGuard::Strict);
    let mut driver = strict.build_driver().expect("a driver");
    eventually("all are refused", || {
        driver.turn(Some(Duration::from_millis(5))).expect("a turn");
        let refused = NodeState::Unusable(Unusable::NoRunId);
        let statuses = driver.nodes();
        let all = statuses.iter().all(|status| status.state == refused);
        all.then_some(())
    });
}
