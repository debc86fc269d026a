//! A configuration may list one server under several names. A quarantine, an error that shows a loss of locks, or an
//! operator's trust under one name applies to all names of that server.

use core::time::Duration;

use crate::error::{ServerError, TrustFault};
use crate::keys::NodeId;
use crate::node::{Terms, Trouble};
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::Nodes;

impl Nodes {
    /// Returns another ready node that leads to the same server process.
    pub(in crate::engine) fn twin_of(&self, node: NodeId) -> Option<NodeId> {
        let own = self[node].handshake.run_id()?;
        self.ids().find(|&other| {
            let there = &self[other];
            other != node
                && there.handshake.is_ready()
                && guard!(TwinVotes, there.handshake.run_id() == Some(own))
        })
    }

    /// Returns the other names of the server behind `node`.
    pub(in crate::engine) fn other_names(&self, node: NodeId) -> NodeSet {
        let trust = &self[node].trust;
        let same = |other: NodeId| other != node && self[other].trust.is_of(trust);
        self.set().filter(same)
    }

    /// If `node` must be quarantined after its handshake, begins its quarantine.
    ///
    /// A server with several names gets one quarantine: the longest that any of its names requires. If the other names
    /// must be quarantined too, returns these names and the end of the quarantine. After an [`alarm`](Self::alarm), the
    /// other names are always quarantined too. If the guard uses markers, the names share every quarantine.
    pub(in crate::engine) fn begin_quarantine(
        &mut self,
        now: Instant,
        node: NodeId,
        terms: Terms,
    ) -> Option<(NodeSet, Instant)> {
        let there = &mut self[node];
        let identity = there.handshake.identity();
        let told = identity.is_some_and(|its| there.trust.handshake_done(now, its, terms));
        let present = self.other_names(node);
        self.note_names(node, present);
        for other in self[node].trust.names.iter() {
            if other != node {
                let same = present.contains(other);
                let until = self[other].trust.hand_on(now, terms, same);
                self[node].trust.keep_until(until);
            }
        }
        let until = self[node].trust.until(now).filter(|_| told)?;
        let names = self.other_names(node);
        for other in names.iter() {
            self[other].trust.keep_until(until);
        }
        Some((names, until))
    }

    /// Records that all current and earlier names of the server behind `node` lead to the same server.
    fn note_names(&mut self, node: NodeId, present: NodeSet) {
        let mut names = self[node].trust.names.union(present);
        names.insert(node);
        for other in present.iter() {
            names = names.union(self[other].trust.names);
        }
        for name in names.iter() {
            self[name].trust.names = names;
        }
    }

    /// Handles an `error`. If the error shows that the server is loading its data or is a replica, the server may have
    /// lost its locks. In this case, returns the other names under which the server is connected, and the reason to
    /// close their connections too.
    pub(in crate::engine) fn alarm(
        &mut self,
        node: NodeId,
        error: ServerError,
    ) -> Option<(NodeSet, Trouble)> {
        let trouble = self[node].trust.heard(error)?;
        let names = self
            .other_names(node)
            .filter(|name| self[name].handshake.is_ready());
        for name in names.iter() {
            self[name].trust.alarm();
        }
        Some((names, trouble))
    }

    /// Unless `node` has joined or was already asked, asks it to join, and declares the `longest` ttl. If this method
    /// fails, the caller closes the connection.
    pub(in crate::engine) fn rejoin(
        &mut self,
        now: Instant,
        node: NodeId,
        longest: Duration,
    ) -> Result<(), Trouble> {
        match self[node].trust.has_joined() == Some(false) {
            true => self.writing_to(node).join(now, longest),
            false => Ok(()),
        }
    }

    /// Trusts the server with this `run_id` behind `node`, under all of its names. Returns `true` if the server's votes
    /// did not count until now.
    pub(in crate::engine) fn trust(
        &mut self,
        now: Instant,
        node: NodeId,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustFault> {
        let there = self
            .all
            .get_mut(node.index())
            .ok_or(TrustFault::UnknownNode)?;
        let kept = there.trust(now, run_id, longest)?;
        self.to_write.insert(node);
        for other in self.other_names(node).iter() {
            self[other].trust.lift();
        }
        Ok(kept)
    }
}
