//! `--trust`, for nodes that are connected later than the command begins.
//!
//! Who says `--trust` knows that no lock can be alive that one of the *servers that run now* has forgotten.
//! The nodes that are connected when the command begins are trusted then. One that is connected later is
//! trusted when it is met for the first time, if its server was up before the command began. One that was
//! started after that may have forgotten a lock that was taken meanwhile, and waits as any other.
//!
//! # Not here
//!
//! A strict guard: what is trusted there is written on the node, and holds for all clients. So only the
//! nodes that are connected when the command begins are trusted.

use std::sync::Arc;

use shearline::engine::{NodeState, NodeStatus};
use shearline::{Instant, Redlock};

use crate::clock::now;

/// The nodes that are to be trusted when they come.
#[derive(Debug)]
pub(crate) struct Trust {
    begun: Instant,
    awaited: Vec<Arc<str>>,
}

impl Trust {
    /// Trusts nobody.
    pub(crate) fn none() -> Self {
        Self {
            begun: Instant::ZERO,
            awaited: Vec::new(),
        }
    }

    /// Trusts those of `nodes` that no server has answered for yet, when they come. The command has `begun`
    /// then.
    pub(crate) fn later(begun: Instant, nodes: &[NodeStatus]) -> Self {
        let awaited = nodes.iter().filter(|node| is_unmet(node.state));
        Self {
            begun,
            awaited: awaited.map(|node| Arc::clone(&node.address)).collect(),
        }
    }

    /// Trusts those that have come. To be called from time to time.
    pub(crate) fn look(&mut self, redlock: &Redlock) {
        if self.awaited.is_empty() {
            return;
        }
        let nodes = redlock.nodes();
        // Read after the uptimes: a server seems to have been started too late rather than too early.
        let since = now().saturating_since(self.begun);
        self.awaited.retain(|address| {
            let node = nodes.iter().find(|node| node.address == *address);
            let Some(node) = node.filter(|node| !is_unmet(node.state)) else {
                return true;
            };
            if let (Some(run_id), true) = (&node.run_id, node.uptime.is_some_and(|up| since <= up))
            {
                // If another server has come to the address meanwhile, that is not trusted.
                let _ = redlock.trust_node(address, run_id);
            }
            false
        });
    }
}

/// Returns `true` if no server has answered there yet.
fn is_unmet(state: NodeState) -> bool {
    matches!(
        state,
        NodeState::New | NodeState::Connecting | NodeState::Down(_)
    )
}
