//! `--trust`, for nodes that are connected later than the command begins.
//!
//! With `--trust` an operator says that none of the *servers that run now* has forgotten a lock that can be alive.
//! The nodes that are connected when the command begins are trusted then. One that is connected later is
//! trusted when it is met for the first time, if its server was up before the command began. One that was
//! started after that may have forgotten a lock that was taken meanwhile, and waits as any other.
//!
//! Fencing tokens need a floor on each node. To trust a node gives it one, if it is connected when the lock is asked
//! for, or is one of those above.
//!
//! # Not here
//!
//! A strict guard: what is trusted there is written on the node, and holds for all clients. So only the
//! nodes that are connected when the command begins are trusted.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shearline::internals::now;
use shearline::{Instant, NodeState, NodeStatus, Redlock};

use crate::connect::{is_on_its_way, settled};

/// The nodes that are to be trusted when they come.
#[derive(Debug)]
pub(crate) struct Trust {
    begun: Instant,
    awaited: Vec<Arc<str>>,
    /// How long nodes that are on their way are waited for.
    patience: Duration,
    /// The nodes are to get a floor for fencing tokens, if one is asked for.
    gives_floors: bool,
    /// They wait for nodes, so that the thread that takes the lock does not. Each has a handle, so they end before
    /// the last one is dropped.
    threads: Vec<JoinHandle<()>>,
}

impl Trust {
    /// Trusts no node.
    pub(crate) fn none() -> Self {
        Self {
            begun: Instant::ZERO,
            awaited: Vec::new(),
            patience: Duration::ZERO,
            gives_floors: false,
            threads: Vec::new(),
        }
    }

    /// The nodes were trusted by a command that has `begun` then. Those of `nodes` that no server has answered
    /// for yet are trusted when they come.
    pub(crate) fn given(begun: Instant, nodes: &[NodeStatus], patience: Duration) -> Self {
        let awaited = nodes.iter().filter(|node| is_unmet(node.state));
        Self {
            begun,
            awaited: awaited.map(|node| Arc::clone(&node.address)).collect(),
            patience,
            gives_floors: true,
            threads: Vec::new(),
        }
    }

    /// Gives the nodes floors for fencing tokens, once, when each has answered or failed. To be called from time to
    /// time, when `redlock` was asked for a token: before, it says nothing about them. Returns `true` if this call gives
    /// them, and does not wait for what they say to it.
    pub(crate) fn give_floors(&mut self, redlock: &Redlock) -> bool {
        let gives = self.gives_floors && !redlock.nodes().iter().any(is_on_its_way);
        let begins = gives && self.elsewhere(redlock, |redlock| drop(redlock.trust_nodes()));
        self.gives_floors &= !begins;
        begins
    }

    /// Does the same for a lock that was refused, and waits for the nodes until `by`. Returns `true` if they were given
    /// floors now or before.
    pub(crate) fn give_floors_now(
        &mut self,
        redlock: &Redlock,
        were_given: bool,
        by: Instant,
    ) -> bool {
        self.wait();
        let gives = std::mem::take(&mut self.gives_floors);
        if gives {
            settled(redlock, self.patience, by);
            redlock.trust_nodes();
        }
        gives || were_given
    }

    /// Trusts those that have come, without waiting for what they say to it. To be called from time to time.
    pub(crate) fn look(&mut self, redlock: &Redlock) {
        if self.awaited.is_empty() {
            return;
        }
        let nodes = redlock.nodes();
        // Read after the uptimes: a server seems to have been started too late rather than too early.
        let since = now().saturating_since(self.begun);
        let mut met = Vec::new();
        self.awaited.retain(|address| {
            let node = nodes.iter().find(|node| node.address == *address);
            let Some(node) = node.filter(|node| !is_unmet(node.state)) else {
                return true;
            };
            if let (Some(run_id), true) = (&node.run_id, node.uptime.is_some_and(|up| since <= up))
            {
                met.push((Arc::clone(address), run_id.clone()));
            }
            false
        });
        for (address, run_id) in met {
            // If another server has come to the address meanwhile, that is not trusted.
            self.elsewhere(redlock, |redlock| {
                drop(redlock.trust_node(address, run_id));
            });
        }
    }

    /// Trusts nodes on another thread. Returns `false` if there can be none.
    fn elsewhere(
        &mut self,
        redlock: &Redlock,
        trust: impl FnOnce(&Redlock) + Send + 'static,
    ) -> bool {
        let redlock = redlock.clone();
        let thread = thread::Builder::new().spawn(move || trust(&redlock));
        let begins = thread.is_ok();
        self.threads.extend(thread);
        begins
    }

    /// Waits until all that are being trusted have answered, a connect timeout at most.
    fn wait(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Trust {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Returns `true` if no server has answered there yet.
fn is_unmet(state: NodeState) -> bool {
    matches!(
        state,
        NodeState::New | NodeState::Connecting | NodeState::Down(_)
    )
}
