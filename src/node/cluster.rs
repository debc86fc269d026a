//! One node in its cluster: what is sent so that it joins, and the statements of operators about it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{TrustError, Unusable};
use crate::time::Instant;

use super::Node;
use super::handshake::{Phase, Trouble};
use super::request::Step;
use super::trust::Mode;

impl Node {
    /// Asks the node to join its cluster with this longest ttl, if there are markers.
    ///
    /// # Errors
    ///
    /// The node does not report its `run_id`.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // This handshake has read it, which is a proof. A fact from an earlier handshake may no longer hold.
        let durable = match &self.handshake.phase {
            Phase::Handshake(server) => server.identity.is_durable(),
            Phase::Down | Phase::Connecting | Phase::Ready { .. } => None,
        };
        let Some(membership) = self.trust.membership_mut() else {
            return Ok(());
        };
        let run_id = self.handshake.run_id();
        let run_id = run_id.ok_or(Trouble::Unusable(Unusable::NoRunId))?;
        let mut command = Vec::new();
        membership.ask(&mut command, run_id, durable, longest);
        self.ask_server(now, Step::Join, &command);
        Ok(())
    }

    /// Counts the answers of the server with this `run_id` from now on: an operator states that every lock that it may
    /// have forgotten is over. Returns `true` if they did not count before.
    pub(crate) fn trust(
        &mut self,
        now: Instant,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustError> {
        let membership = self.trust.membership();
        if membership.is_some_and(|there| there.other.is_some()) {
            return Err(TrustError::OtherCluster);
        }
        if !(self.handshake.is_ready() || membership.is_some() && self.handshake.run_id().is_some())
        {
            return Err(TrustError::NotConnected);
        }
        let present = self.handshake.run_id().ok_or(TrustError::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustError::Changed { run_id });
        }
        let mut kept = self.trust.kept_until(now).is_some();
        self.trust.lift();
        let is_ready = self.handshake.is_ready();
        if let Some(membership) = self.trust.membership_mut() {
            kept |= !is_ready;
            membership.trust(longest);
            // A handshake that has not asked yet will ask so.
            if is_ready || membership.open != 0 {
                let _ = self.join(now, longest); // Its `run_id` is known.
            }
        }
        Ok(kept)
    }

    /// Makes the node a member of this cluster regardless of its marker: now, or in the next handshake.
    pub(crate) fn reinit(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = self.trust.membership_mut() {
            membership.mode = Mode::Reinit;
            if self.handshake.is_ready() {
                let _ = self.join(now, longest); // It is ready, so its `run_id` is known.
            }
        }
    }
}
