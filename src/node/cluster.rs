//! One node in its cluster: the questions and facts for its restart guard, and the statements of operators about it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{TrustError, Unusable};
use crate::time::Instant;

use super::Node;
use super::phase::{Phase, Trouble};
use super::request::Step;
use super::trust::{Mode, Terms};

impl Node {
    /// The handshake is done: decides whether the node's answers count, and if not, until when. Returns `true` if the
    /// other names of its server have to learn of the decision.
    pub(crate) fn guard_handshake(&mut self, now: Instant, terms: Terms) -> bool {
        let server = self.phase.server().filter(|_| self.is_ready());
        server.is_some_and(|server| self.guard.handshake_done(now, &server.identity, terms))
    }

    /// Returns when the quarantine of the node ends, if it is in quarantine at `now`.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        self.guard.kept_until(now, self.is_ready())
    }

    /// Returns `true` if the node's clock was seen to be stepped, and its answers do not count at `now`.
    pub(crate) fn is_kept_by_steps(&self, now: Instant) -> bool {
        self.clock.steps() != 0 && self.kept_until(now).is_some()
    }

    /// Returns `true` if the node's answers count at `now`, or would if its clock had not been stepped.
    pub(crate) fn counts_but_for_steps(&self, now: Instant) -> bool {
        self.guard.counts_but_for_steps(now, self.is_ready())
    }

    /// Returns when the node may be asked questions that check the marker again. Until then its answers would not
    /// count. `None` if it may be asked at `now`.
    pub(crate) fn unasked_until(&self, now: Instant) -> Option<Instant> {
        self.guard.unasked_until(now, self.is_ready())
    }

    /// Asks the node to join its cluster with this longest ttl, if there are markers.
    ///
    /// # Errors
    ///
    /// The node does not report its `run_id`.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // This handshake has read it, which is a proof. A fact from an earlier handshake may no longer hold.
        let durable = match &self.phase {
            Phase::Handshake(server) => server.identity.is_durable(),
            Phase::Down | Phase::Connecting | Phase::Ready { .. } => None,
        };
        let Some(membership) = self.guard.membership_mut() else {
            return Ok(());
        };
        let server = self.phase.server();
        let run_id = server.and_then(|server| server.identity.run_id.as_deref());
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
        if self.other_cluster().is_some() {
            return Err(TrustError::OtherCluster);
        }
        let marked = self.guard.membership().is_some();
        if !(self.is_ready() || marked && self.run_id().is_some()) {
            return Err(TrustError::NotConnected);
        }
        let present = self.run_id().ok_or(TrustError::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustError::Changed { run_id });
        }
        let mut kept = self.kept_until(now).is_some();
        self.guard.trust();
        if marked {
            kept |= !self.is_ready();
            kept &= self.join_trusted(now, longest);
        }
        Ok(kept)
    }

    /// Asks the node to join without a barrier because an operator trusts it, now or as part of the handshake that is
    /// under way. Returns `true` if the request was sent or will be.
    fn join_trusted(&mut self, now: Instant, longest: Duration) -> bool {
        let has_link = self.has_link();
        let membership = self.guard.membership_mut();
        let Some(membership) = membership.filter(|there| has_link && there.other.is_none()) else {
            return false;
        };
        membership.trust(longest);
        match &self.phase {
            Phase::Ready { .. } => self.join(now, longest).is_ok(),
            // The handshake has already sent that question.
            Phase::Handshake(_) if membership.open != 0 => self.join(now, longest).is_ok(),
            Phase::Handshake(_) | Phase::Connecting | Phase::Down => true,
        }
    }

    /// Makes the node a member of this cluster regardless of its marker: now, or in the next handshake.
    pub(crate) fn reinit(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = self.guard.membership_mut() {
            membership.mode = Mode::Reinit;
            if self.is_ready() {
                let _ = self.join(now, longest); // It is ready, so its `run_id` is known.
            }
        }
    }

    /// Cancels an operator's request to join that was not sent yet.
    pub(crate) fn cancel_join(&mut self, mode: Mode) {
        if let Some(membership) = self.guard.membership_mut()
            && membership.mode == mode
        {
            membership.mode = Mode::Join;
        }
    }

    /// Requires a marker with this longest ttl. Returns `true` if the node voted until now and no longer does.
    pub(crate) fn demand(&mut self, longest: Duration) -> bool {
        let membership = self.guard.membership_mut();
        membership.is_some_and(|membership| membership.demand(longest))
    }

    /// Returns `true` if the node is connected, has to join again, and has no open request to join.
    pub(crate) fn is_to_join(&self) -> bool {
        self.has_joined() == Some(false)
    }

    /// Returns `true` if the node has joined and has no open request to join.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_joined() == Some(true)
    }

    /// Returns whether the node has joined, if it is connected and has answered every request to join.
    fn has_joined(&self) -> Option<bool> {
        let membership = self.guard.membership()?;
        (self.is_ready() && membership.open == 0).then_some(membership.joined)
    }

    /// Returns the longest ttl in the node's marker.
    pub(crate) fn longest(&self) -> Duration {
        let membership = self.guard.membership();
        membership.map_or(Duration::ZERO, |membership| membership.longest)
    }

    /// Returns the longest ttl in the node's marker, if that marker is known to stand.
    pub(crate) fn marked_ttl(&self) -> Option<Duration> {
        let membership = self.guard.membership()?;
        membership.joined.then_some(membership.longest)
    }

    /// Returns how much longer the node's barrier stands, by its last answer.
    pub(crate) fn barrier(&self, now: Instant) -> Option<Duration> {
        let until = self.guard.membership()?.barrier?;
        (now < until).then(|| until.saturating_since(now))
    }

    /// Returns why the node belongs to another cluster, if its last answer said so.
    pub(crate) fn other_cluster(&self) -> Option<Unusable> {
        self.guard.membership()?.other
    }
}
