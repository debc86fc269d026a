//! The waiting half of [`Acquire`]: its turn, its rests, and its actions between two attempts.
//!
//! # Not here
//!
//! When a refused contender asks again: the [policy](crate::engine::queues::Wait). The queue in which operations wait
//! for their turn: the [queues](crate::engine::queues).

use core::time::Duration;

use super::{Acquire, Verdict};
use crate::engine::check::is_out_of_reach;
use crate::engine::operation::Context;
use crate::engine::operation::round::State;
use crate::engine::queues::{Extra, Next, Refusal, Waiter, between};
use crate::engine::settings::SHORTEST_REST;
use crate::error::NodeOutcome;
use crate::quorum::NodeSet;
use crate::time::Instant;

/// Another attempt is planned only if this and two round trips are left before the caller's deadline. It begins while
/// at least half of that is left: cut short, it would say less than the one before it.
const LAST_CHANCE: Duration = Duration::from_millis(2);

impl Acquire {
    // ----- its turn ---------------------------------------------------------------------------

    /// Returns `true` if a lock of this engine on the resource is valid, so that no operation asks for it. The end of a
    /// lock that is over may not have been reported yet.
    pub(super) fn is_held_here(&self, cx: &Context<'_>) -> bool {
        let claim = cx.parts.queues.holder(self.place);
        let claim = claim.and_then(|claim| cx.parts.claims.get(claim));
        claim.is_some_and(|claim| cx.now < claim.entry.end())
    }

    /// Joins the end of the queue for the resource. Only its [`Waiter`] record is kept.
    #[cold]
    pub(super) fn queue(&mut self, cx: &mut Context<'_>) {
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
        self.waiter = cx.parts.queue(waiter);
        let (keep, fenced) = (self.keep, self.fencing.is_some());
        if let Some(waiter) = self.waiter
            && (keep != 0 || fenced)
        {
            let extra = Extra { keep, fenced };
            cx.parts.queues.waiters.want(waiter, extra);
        }
        if let Some(fencing) = self.fencing.take() {
            cx.parts.fencing.give_spare(fencing);
        }
    }

    /// Waits until the lock that this engine holds is released, the contender before it has ended, or its tries would
    /// have been used up.
    pub(super) fn wait_for_turn(&mut self, cx: &mut Context<'_>) {
        let until = self.tries_end(cx);
        cx.round.rest(State::Queued { until }, cx.parts);
    }

    /// Returns when the operation has waited for others for as long as its tries could have taken.
    pub(super) fn tries_end(&self, cx: &Context<'_>) -> Instant {
        let settings = &cx.parts.settings;
        settings.tries_end(cx.round.started, self.tries_allowed)
    }

    /// Like [`tries_end`](Self::tries_end), for a rest. After too few answers there is no such end, because each
    /// attempt counts.
    pub(super) fn rest_end(&self, cx: &Context<'_>) -> Instant {
        match self.verdict {
            Verdict::Open | Verdict::Refused(Refusal::Held) => self.tries_end(cx),
            Verdict::Refused(_) | Verdict::Granted(..) | Verdict::HandedOut => Instant::MAX,
        }
    }

    /// Returns `true` if there is time to leave the lock to others for a while and then ask.
    pub(super) fn has_time(&self, cx: &Context<'_>) -> bool {
        let least = LAST_CHANCE.saturating_add(cx.parts.nodes.round_trip().saturating_mul(16));
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        cx.now.saturating_add(least) < deadline.min(self.tries_end(cx))
    }

    /// Ends without an attempt. The report has what the nodes said to the latest attempt for this resource. If this
    /// engine holds the lock, the nodes that have granted it count as held.
    pub(super) fn give_up_waiting(&mut self, cx: &mut Context<'_>) {
        if self.wants_several() {
            self.wait_where_it_is_held(cx);
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

    // ----- between attempts -------------------------------------------------------------------

    /// Waits after a refused attempt. The random delay ends at `delay`. The nodes in `elsewhere` have refused it
    /// because of another resource than the one at which it waits.
    pub(super) fn rest_until(
        &mut self,
        delay: Instant,
        after: Refusal,
        elsewhere: NodeSet,
        cx: &mut Context<'_>,
    ) {
        let said = cx.round.ballots.iter().map(|ballot| ballot.outcome);
        let nodes = cx.parts.nodes.len();
        let parts = &mut *cx.parts;
        let waiting = parts.queues.begin_waiting(self.place, nodes);
        waiting.refused(after, said, elsewhere, delay, &mut parts.random);
        if after == Refusal::Held {
            cx.parts.queues.met_others(cx.now, self.place);
        }
        self.verdict = Verdict::Refused(after);
        self.look(cx);
        self.wait(cx);
    }

    /// Asks nodes whether the lock is free, and asks them to report the next change. It skips nodes that it has asked
    /// since they last reported anything.
    fn look(&self, cx: &mut Context<'_>) {
        let (now, place) = (cx.now, self.place);
        let claims = &mut cx.parts.claims;
        let (mut command, mut who) = (claims.command(), claims.command());
        let delays = cx.parts.settings.retry.delay().into_inner();
        let (random, nodes) = (&mut cx.parts.random, &mut cx.parts.nodes);
        if let Some((waiting, resource)) = cx.parts.queues.waiting(place)
            && waiting.why == Refusal::Held
        {
            waiting.begin_to_look(now);
            for node in nodes.set().iter() {
                let there = nodes.writing_to(node);
                if waiting.belief.is_to_be_asked(node)
                    && there.look(now, place, resource, &mut command)
                {
                    waiting.belief.asked(node);
                    if waiting.asks_holder(now) {
                        there.ask_holder(now, place, resource, &mut who);
                    }
                }
            }
            waiting.looked(now, nodes.round_trip(), delays, random);
        }
        cx.parts.claims.sent(command);
        cx.parts.claims.sent(who);
    }

    /// Waits until the next attempt or look is due.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let next = self.next(cx).unwrap_or(Next::Look(Instant::MAX));
        if let Some(at) = next.reminder(cx.now) {
            cx.parts.queues.remind(at, self.place);
        }
        let until = next.at().min(self.rest_end(cx));
        cx.round.rest(State::Resting { until }, cx.parts);
    }

    /// Returns the next step of a resting acquisition.
    fn next(&self, cx: &mut Context<'_>) -> Option<Next> {
        let now = cx.now;
        let (waiting, _) = cx.parts.queues.waiting(self.place)?;
        let from = |node| cx.parts.nodes[node].may_count_from(now);
        Some(waiting.next(now, cx.round.started, from))
    }

    /// Makes an attempt if it is time for that, or continues to wait. An acquisition that has asked before ends here if
    /// only an operator can make a majority possible again. One that has not asked goes on, because a fault that other
    /// calls met may be repaired by now.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_>) {
        if cx.round.tries != 0 && is_out_of_reach(cx.parts.nodes.outcomes(cx.now)) {
            let why = why_at_last(Refusal::Held, cx);
            self.decide(Verdict::Refused(why), cx);
            return;
        }
        let mut next = self.next(cx);
        if matches!(next, Some(Next::Look(at)) if at <= cx.now) {
            self.look(cx);
            next = self.next(cx);
        }
        match next {
            Some(Next::Attempt(at)) if cx.now < at => self.wait(cx),
            Some(Next::Look(_)) => self.wait(cx),
            Some(Next::Attempt(_)) | None => self.try_again(cx),
        }
    }

    pub(super) fn try_again(&mut self, cx: &mut Context<'_>) {
        match cx.parts.claims.has_room() {
            true if self.wants_several() && !self.leads(cx) => self.wait_for_turn(cx),
            true => self.attempt(cx),
            false => self.decide(Verdict::Refused(Refusal::Saturated), cx),
        }
    }

    /// Returns when the next attempt may begin: after a random delay, and while tries and time are left.
    ///
    /// If the delay would end too late for another attempt, another is drawn from the time that is left, so that a
    /// waiter still looks shortly before it gives up.
    pub(super) fn rest(&self, cx: &mut Context<'_>) -> Option<Instant> {
        let tries = cx.round.tries;
        if self.tries_allowed.is_some_and(|most| most <= tries) {
            return None;
        }
        let (shortest, longest) = cx.parts.settings.retry.delay().into_inner();
        let delay = between(&mut cx.parts.random, shortest, longest).max(SHORTEST_REST);
        let Some(deadline) = cx.round.deadline else {
            return Some(cx.now.saturating_add(delay));
        };
        let left = deadline.saturating_since(cx.now);
        let round_trips = cx.parts.nodes.round_trip().saturating_mul(2);
        let least = LAST_CHANCE.saturating_add(round_trips);
        if delay.saturating_add(least / 2) <= left {
            return Some(cx.now.saturating_add(delay));
        }
        let late = || between(&mut cx.parts.random, left / 2, left - least / 2);
        (least < left)
            .then(late)
            .map(|rest| cx.now.saturating_add(rest))
    }
}

/// Returns why a call that has waited gets no lock. If too few nodes can be asked now, that is the reason, and the
/// report says which are away. What the nodes said before no longer matters then.
pub(super) fn why_at_last(why: Refusal, cx: &mut Context<'_>) -> Refusal {
    let outcomes = || cx.parts.nodes.outcomes(cx.now);
    let there = outcomes().filter(|outcome| *outcome == NodeOutcome::Granted);
    if cx.round.tally.quorum() <= there.count() {
        return why;
    }
    for (ballot, outcome) in cx.round.ballots.iter_mut().zip(outcomes()) {
        ballot.latency = None;
        ballot.outcome = match outcome == NodeOutcome::Granted {
            true => NodeOutcome::Pending,
            false => outcome,
        };
    }
    Refusal::NoQuorum
}
