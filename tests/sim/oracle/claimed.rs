//! Reinitialisations: an operator calls `reinit` for nodes that are of this group already.
//!
//! * *outcome*: the call is refused exactly if a node cannot be asked. It succeeds if every node has confirmed it since
//!   the call, and fails if one has not.
//! * *settling*: it ends when a connection would have.
//!
//! The oracles `exclusion` and `quarantine` check that it breaks no other lock: a claimed node has
//! a barrier as long as the longest lock.
//!
//! # What it does not see
//!
//! Nodes of another group: here all belong to one.

use shearline::{Instant, NodeState, OperatorError};

use super::TICK;
use super::wake::after;
use crate::clock::NEVER;
use crate::plan::CONNECT_TIMEOUT;
use crate::user::Call;
use crate::world::World;

/// The outcome of `reinit`.
type Claimed = Result<(), OperatorError>;

impl World {
    /// Checks a call that was refused.
    pub(crate) fn check_unclaimed(&mut self, client: usize, error: &OperatorError) {
        let there = &self.clients[client];
        let statuses = there.engine.node_statuses(there.shown);
        let ready = |state| matches!(state, NodeState::Ready | NodeState::Quarantined { .. });
        let all = statuses.into_iter().all(|status| ready(status.state));
        let narrow = crate::mutations::is_narrow();
        let why = matches!(error, OperatorError::NoQuorum(_))
            || narrow && matches!(error, OperatorError::Saturated);
        self.oracle.counts.sights.note("Unclaimed");
        // A node without room is no more ready than one without a connection.
        if !why || !narrow && all && there.paths.iter().all(|path| !path.was_full()) {
            let text = format!("client {client} cannot claim its nodes: {error:?}");
            self.object("outcome", text);
        }
    }

    /// Checks a call that has ended.
    pub(crate) fn check_claimed(&mut self, client: usize, call: &Call, result: &Claimed) {
        let since = |at: &u64| call.since <= *at;
        let all = self.oracle.anew[client].iter().all(since);
        let right = match result {
            Ok(()) => all,
            Err(OperatorError::Unconfirmed(_)) => true,
            Err(_) => false,
        };
        if result.is_ok() {
            self.oracle.counts.sights.note("Claimed");
        }
        self.object_if(!right, "outcome", || {
            format!("client {client} has claimed its nodes: {result:?}")
        });
    }

    /// Checks that a call ends in time.
    pub(crate) fn claims_in_time(&mut self, client: usize, ticked: Instant) {
        let call = self.clients[client].reinit;
        let late = call.is_some_and(|call| {
            let end = after(call.begun, CONNECT_TIMEOUT).saturating_add(2 * TICK);
            call.since < NEVER && end <= ticked
        });
        self.object_of(client, late, "settling", "claims its nodes for too long");
    }
}
