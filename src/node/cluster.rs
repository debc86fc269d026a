//! One node in its cluster: what the restart guard is asked and told about it, and what an operator says
//! of it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{TrustError, Unusable};
use crate::time::Instant;

use super::Node;
use super::guard::Terms;
use super::membership::Mode;
use super::phase::{Phase, Trouble};
use super::request::Step;

impl Node {
    /// The handshake is done: decides whether and until when its answers do not count. Returns `true`
    /// if the other names of its server have to know of that.
    pub(crate) fn guard_handshake(&mut self, now: Instant, terms: Terms) -> bool {
        let server = self.phase.server().filter(|_| self.is_ready());
        server.is_some_and(|server| self.guard.handshake_done(now, &server.identity, terms))
    }

    /// Returns until when its answers do not count, if they do not at `now`.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        self.guard.kept_until(now, self.is_ready())
    }

    /// Returns `true` if its clock was seen to be stepped, and its answers do not count at `now`.
    pub(crate) fn is_kept_by_steps(&self, now: Instant) -> bool {
        self.clock.steps() != 0 && self.kept_until(now).is_some()
    }

    /// Returns `true` if its answers count at `now`, or do not only because its clock was stepped.
    pub(crate) fn counts_but_for_steps(&self, now: Instant) -> bool {
        self.guard.counts_but_for_steps(now, self.is_ready())
    }

    /// Returns until when it is not asked what checks the marker, because the answer would not count, if it is
    /// not at `now`.
    pub(crate) fn unasked_until(&self, now: Instant) -> Option<Instant> {
        self.guard.unasked_until(now, self.is_ready())
    }

    /// Asks it to join its cluster, if there are markers, with this longest ttl.
    ///
    /// # Errors
    ///
    /// It does not say which incarnation it is.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // What this handshake has read is a proof; what an earlier one has read may no longer hold.
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

    /// Counts the answers of the server with this `run_id` from now on: an operator states that
    /// every lock that it may have forgotten is over. Returns `true` if they did not count before.
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

    /// Asks it to join without a barrier, now or as part of the handshake that is under way,
    /// because an operator trusts it. Returns `true` if that will be done.
    fn join_trusted(&mut self, now: Instant, longest: Duration) -> bool {
        let has_link = self.has_link();
        let membership = self.guard.membership_mut();
        let Some(membership) = membership.filter(|there| has_link && there.other.is_none()) else {
            return false;
        };
        membership.trust(longest);
        match &self.phase {
            Phase::Ready { .. } => self.join(now, longest).is_ok(),
            // Its handshake is past that question.
            Phase::Handshake(_) if membership.open != 0 => self.join(now, longest).is_ok(),
            Phase::Handshake(_) | Phase::Connecting | Phase::Down => true,
        }
    }

    /// Makes it a node of this cluster, regardless of its marker: now, or in the next handshake.
    pub(crate) fn reinit(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = self.guard.membership_mut() {
            membership.mode = Mode::Reinit;
            if self.is_ready() {
                let _ = self.join(now, longest); // It is ready, so its `run_id` is known.
            }
        }
    }

    /// Cancels a request of an operator to join that was not sent yet.
    pub(crate) fn cancel_join(&mut self, mode: Mode) {
        if let Some(membership) = self.guard.membership_mut()
            && membership.mode == mode
        {
            membership.mode = Mode::Join;
        }
    }

    /// Requires a marker with this longest ttl. Returns `true` if the node voted until now and does
    /// not any more.
    pub(crate) fn demand(&mut self, longest: Duration) -> bool {
        let membership = self.guard.membership_mut();
        membership.is_some_and(|membership| membership.demand(longest))
    }

    /// Returns `true` if it is connected and has to join again, and was not asked to.
    pub(crate) fn is_to_join(&self) -> bool {
        self.has_joined() == Some(false)
    }

    /// Returns `true` if it has joined, and has nothing open about it.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_joined() == Some(true)
    }

    /// Returns whether it has joined, if it is connected and has answered all that it was asked about
    /// it.
    fn has_joined(&self) -> Option<bool> {
        let membership = self.guard.membership()?;
        (self.is_ready() && membership.open == 0).then_some(membership.joined)
    }

    /// Returns the longest ttl that its marker tells of.
    pub(crate) fn longest(&self) -> Duration {
        let membership = self.guard.membership();
        membership.map_or(Duration::ZERO, |membership| membership.longest)
    }

    /// Returns the longest ttl that its marker tells of, if that marker is known to stand.
    pub(crate) fn marked_ttl(&self) -> Option<Duration> {
        let membership = self.guard.membership()?;
        membership.joined.then_some(membership.longest)
    }

    /// Returns for how much longer its barrier stands, by its last answer.
    pub(crate) fn barrier(&self, now: Instant) -> Option<Duration> {
        let until = self.guard.membership()?.barrier?;
        (now < until).then(|| until.saturating_since(now))
    }

    /// Returns why it belongs to another cluster, if its last answer said so.
    pub(crate) fn other_cluster(&self) -> Option<Unusable> {
        self.guard.membership()?.other
    }
}
