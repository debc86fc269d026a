//! The turns of an acquisition, which waits until it is the contender at all of its places.
//!
//! Between two attempts, an acquisition of several resources waits at only one place: at the resource that most nodes
//! have reported as taken. At this resource, the acquisition does what every contender does: it asks whether the lock
//! is free, learns of changes, and decides when to make another attempt ([`waiting`](super::waiting)). Meanwhile, the
//! acquisition stays the contender of its other resources.
//!
//! # Guarantees
//!
//! * An acquisition sends no requests while this engine holds one of its resources, or while another operation of this
//!   engine contends for one of them. An acquisition that makes only one attempt does not wait for other contenders.
//!
//! # Not here
//!
//! The module [queues](crate::engine::queues) contains the queue in which operations wait for their turn.

use alloc::boxed::Box;

use super::nodes::why_at_last;
use super::waiting::LAST_CHANCE;
use super::{Acquire, Special, Verdict};
use crate::engine::operation::Context;
use crate::engine::operation::round::State;
use crate::engine::queues::{Caller, Extra, Refusal, Waiter, Wants};
use crate::error::NodeOutcome;
use crate::keys::PlaceKey;
use crate::time::Instant;

impl Acquire {
    /// Returns `true` if the operation is the contender at all its places.
    pub(super) fn leads(&self, cx: &Context<'_>) -> bool {
        let leads = |place: &PlaceKey| cx.parts.queues.contender(*place) == Some(cx.round.key);
        self.places().iter().all(leads)
    }

    /// Returns the first resource, counted from 0, on which this engine holds a valid lock. No operation asks the nodes
    /// for a resource that this engine holds. A lock that has ended does not count as held, even if its end was not
    /// reported yet.
    pub(super) fn held_here(&self, cx: &Context<'_>) -> Option<usize> {
        let is_held = |place: &PlaceKey| {
            let claim = cx.parts.queues.holder(*place);
            let claim = claim.and_then(|claim| cx.parts.claims.get(claim));
            claim.is_some_and(|claim| cx.now < claim.entry.end())
        };
        self.places().iter().position(is_held)
    }

    /// Joins the end of the queue at each place where the operation is not the contender. If the operation wants one
    /// resource, only its [`Waiter`] record is kept.
    #[cold]
    pub(super) fn queue(&mut self, cx: &mut Context<'_>) {
        let (queues, key) = (&mut cx.parts.queues, cx.round.key);
        if let Some(Special::Several(several)) = self.special.as_deref_mut() {
            for (place, waiter) in several.places.iter().zip(&mut several.waiters) {
                if queues.contender(*place) != Some(key) {
                    *waiter = queues.queue(*place, Caller::Set(key));
                }
            }
            return self.wait_for_turn(cx);
        }
        cx.round.state = State::Queued {
            until: self.tries_end(cx),
        };
        let waiter = Waiter::new(
            self.place,
            cx.round.started,
            cx.round.deadline,
            cx.round.ttl,
            self.tries_allowed,
            self.extensions,
        );
        let own = self.fencing.as_ref().and_then(|it| it.owner.as_ref());
        let extra = Extra {
            keep: self.keep,
            fenced: self.fenced().is_some(),
            owner: own.copied().map(Box::new),
            shared: self.wants() == Wants::Reader,
            permits: self.slots().map_or(0, |slots| slots.permits),
        };
        self.waiter = cx.parts.queue(cx.now, waiter, extra);
        if let Some(fencing) = self.fencing.take() {
            cx.parts.spares.give(fencing);
        }
    }

    /// Waits until this engine has released its locks and the operation is the contender.
    pub(super) fn wait_for_turn(&mut self, cx: &mut Context<'_>) {
        let until = self.tries_end(cx).min(self.may_pass_at(cx));
        cx.round.rest(State::Queued { until }, cx.parts);
    }

    /// Makes the operation wait at `place` only. Forgets what is known about the operation's other places, because this
    /// knowledge becomes outdated during the wait.
    pub(super) fn wait_at(&mut self, place: PlaceKey, cx: &mut Context<'_>) {
        self.place = place;
        let others = self.places().iter().filter(|other| **other != place);
        others.for_each(|other| cx.parts.queues.stop_waiting(*other));
    }

    /// Begins the operation's turn, if its turn has come. Between attempts, the operation waits at the resource where
    /// it has waited before, or where an earlier contender has waited.
    pub(super) fn lead(&mut self, cx: &mut Context<'_>) {
        let waits = matches!(cx.round.state, State::Queued { .. } | State::Resting { .. });
        if !waits || !self.leads(cx) {
            return;
        }
        let mut places = core::iter::once(&self.place).chain(self.places());
        let known = places.find(|place| cx.parts.queues.waiting(**place).is_some());
        self.wait_at(*known.unwrap_or(&self.place), cx);
        self.begins_to_lead(cx);
        let waiting = cx.parts.queues.waiting(self.place);
        let is_fresh = waiting.is_none();
        let (after, leaves) = waiting.map_or((Verdict::Open, false), |(waiting, _)| {
            (Verdict::Refused(waiting.why), !waiting.has_asked())
        });
        self.verdict = after;
        if cx.round.deadline.is_some_and(|deadline| deadline <= cx.now) {
            self.give_up_waiting(cx); // Its questions would be withdrawn at once.
        } else if leaves && !self.has_time(cx) {
            self.try_again(cx);
        } else {
            self.go_on(cx);
        }
        if self.reading().is_some()
            && (is_fresh && self.slots().is_some() || cx.parts.queues.is_read(self.place))
        {
            self.ask_beside(cx);
        }
    }

    /// Ends the wait for a turn if its time has passed. The wait ends at `until` at the latest.
    pub(super) fn waited(&mut self, until: Instant, cx: &mut Context<'_>) {
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        if deadline.min(self.tries_end(cx)) <= cx.now {
            self.give_up_waiting(cx);
        } else if self.passes_by(cx) {
            // The operation now asks the nodes at the same time as the contender.
        } else if until <= cx.now {
            self.wait_for_turn(cx);
        } else {
            cx.round.arm(&mut cx.parts.timers);
        }
    }

    // ----- the end of the wait ----------------------------------------------------------------

    /// Returns when the wait for a turn ends, because all allowed tries would be over by then.
    pub(super) fn tries_end(&self, cx: &Context<'_>) -> Instant {
        let settings = &cx.parts.settings;
        settings.tries_end(cx.round.started, self.tries_allowed)
    }

    /// Returns `true` if there is enough time to give way to others for a while before the next attempt.
    pub(super) fn has_time(&self, cx: &Context<'_>) -> bool {
        let least = LAST_CHANCE.saturating_add(cx.parts.nodes.round_trip().saturating_mul(16));
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        cx.now.saturating_add(least) < deadline.min(self.tries_end(cx))
    }

    /// Ends the operation without an attempt. The report contains the nodes' answers to the latest attempt for the
    /// resource that this engine holds. If this engine holds none of the resources, the report describes the resource
    /// that an earlier contender waits for. The report says "held" for a node that has granted this engine's lock.
    pub(super) fn give_up_waiting(&mut self, cx: &mut Context<'_>) {
        let (queues, key) = (&mut cx.parts.queues, cx.round.key);
        let waits_behind = |place: &PlaceKey| {
            queues.contender(*place) != Some(key) && queues.waiting(*place).is_some()
        };
        let known = self.places().iter().position(waits_behind);
        if let Some(number) = self.held_here(cx).or(known) {
            self.place = self.places()[number];
            if let Some(Special::Several(several)) = self.special.as_deref_mut() {
                several.all_name(number);
            }
        }
        let mut why = Refusal::Held;
        if let Some((waiting, _)) = cx.parts.queues.waiting(self.place) {
            why = waiting.why;
            for (ballot, said) in cx.round.ballots.iter_mut().zip(&waiting.said) {
                ballot.outcome = *said;
            }
        }
        why = why_at_last(why, cx);
        let holder = cx.parts.queues.holder(self.place);
        if let Some(holder) = holder.and_then(|claim| cx.parts.claims.get(claim)) {
            why = Refusal::Held;
            for node in holder.copies().having.iter() {
                cx.round[node].outcome = NodeOutcome::Held;
            }
        }
        self.decide(Verdict::Refused(why), cx);
    }
}
