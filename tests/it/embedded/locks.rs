//! The library on embedded nodes, as in a demo or in a user's test.

use shearline::embedded::{EmbeddedNode, Memory};
use shearline::internals::Flavour;

use crate::face::{Face, Which, at};
use crate::servers::LONG;

/// The manual says so about nodes that know neither `CLIENT` nor `INFO`, like some services and proxies: nothing shows
/// that they have forgotten their keys.
#[test]
fn a_restart_of_nodes_without_info_is_not_noticed() {
    let node = || EmbeddedNode::spawn_with(|store| store.set_flavour(Flavour::Proxied));
    let nodes = [(); 3].map(|()| node().expect("a node"));
    let driver = || -> Face { Which::Driver.build(at(nodes.iter().map(EmbeddedNode::url))) };
    let mut one = driver();
    let first = one.try_lock("invoice:42", LONG).expect("free");
    for node in &nodes {
        node.stop().expect("stopped");
        node.restart(Memory::Lost).expect("restarted");
    }
    let second = driver().try_lock("invoice:42", LONG);
    let second = second.expect("nobody knows");
    assert!(first.is_valid() && second.is_valid(), "two holders");
}
