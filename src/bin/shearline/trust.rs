//! `--trust`, for nodes that are connected later than the command begins.
//!
//! Who says `--trust` knows that no lock can be alive that one of the *servers that run now* has forgotten.
//! The nodes that are connected when the command begins are trusted then. One that is connected later is
//! trusted when it is met for the first time, if its server was up before the command began. One that was
//! started after that may have forgotten a lock that was taken meanwhile, and waits as any other.
//!
//! Fencing tokens need a floor on each node, and who trusts a node gives it one: of nodes that are connected
//! when the lock is asked for, and of those above.
//!
//! # Not here
//!
//! A strict guard: what is trusted there is written on the node, and holds for all clients. So only the
//! nodes that are connected when the command begins are trusted.

use std::sync::Arc;
use std::thread;

use shearline::engine::{NodeState, NodeStatus};
use shearline::{Instant, Redlock};

use crate::clock::now;
use crate::connect::{is_on_its_way, settled};

/// The nodes that are to be trusted when they come.
#[derive(Debug)]
pub(crate) struct Trust {
    begun: Instant,
    awaited: Vec<Arc<str>>,
    /// The nodes are to get a floor for fencing tokens, if one is asked for.
    gives_floors: bool,
}

impl Trust {
    /// Trusts nobody.
    pub(crate) fn none() -> Self {
        Self {
            begun: Instant::ZERO,
            awaited: Vec::new(),
            gives_floors: false,
        }
    }

    /// The nodes were trusted by a command that has `begun` then. Those of `nodes` that no server has answered
    /// for yet are trusted when they come.
    pub(crate) fn given(begun: Instant, nodes: &[NodeStatus]) -> Self {
        let awaited = nodes.iter().filter(|node| is_unmet(node.state));
        Self {
            begun,
            awaited: awaited.map(|node| Arc::clone(&node.address)).collect(),
            gives_floors: true,
        }
    }

    /// Gives the nodes floors for fencing tokens, once, when each has answered or failed. To be called from time to
    /// time, when `redlock` was asked for a token: before, it says nothing about them. Returns `true` if it did.
    pub(crate) fn give_floors(&mut self, redlock: &Redlock) -> bool {
        let gives = self.gives_floors && !redlock.nodes().iter().any(is_on_its_way);
        if gives {
            redlock.trust_nodes();
            self.gives_floors = false;
        }
        gives
    }

    /// Does the same for a lock that was refused. Waits for the nodes if it has to.
    pub(crate) fn give_floors_now(&mut self, redlock: &Redlock) -> bool {
        if self.gives_floors {
            settled(redlock);
        }
        self.give_floors(redlock)
    }

    /// Trusts those that have come, without waiting for what they say to it. To be called from time to time.
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
                trust_elsewhere(redlock, address, run_id);
            }
            false
        });
    }
}

/// Trusts a node on another thread: this one may have a command to end in time. If another server has come to the
/// address meanwhile, that is not trusted.
fn trust_elsewhere(redlock: &Redlock, address: &Arc<str>, run_id: &str) {
    let (redlock, address, run_id) = (redlock.clone(), Arc::clone(address), run_id.to_owned());
    let trust = move || redlock.trust_node(address, run_id);
    // Without a thread the node is one that is not trusted.
    let _ = thread::Builder::new().spawn(trust);
}

/// Returns `true` if no server has answered there yet.
fn is_unmet(state: NodeState) -> bool {
    matches!(
        state,
        NodeState::New | NodeState::Connecting | NodeState::Down(_)
    )
}
