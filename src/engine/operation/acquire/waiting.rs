//! How an acquisition waits between two attempts.
//!
//! # Not here
//!
//! The [policy](crate::engine::queues::Wait) decides when a refused contender asks the nodes again.

use core::time::Duration;

use super::nodes::why_at_last;
use super::{Acquire, Verdict};
use crate::engine::check::is_out_of_reach;
use crate::engine::operation::Context;
use crate::engine::operation::round::State;
use crate::engine::queues::{Next, Refusal, between};
use crate::engine::settings::SHORTEST_REST;
use crate::time::Instant;

/// Another attempt is planned only if the time before the caller's deadline is at least this constant plus two round
/// trips. The attempt begins while at least half of the time before the deadline is left, because an attempt that the
/// deadline cuts short makes the report less informative.
pub(super) const LAST_CHANCE: Duration = Duration::from_millis(2);

impl Acquire {
    /// Waits after a refused attempt, at the resource that most nodes have reported as taken. The random delay ends at
    /// `delay`.
    pub(super) fn rest_until(&mut self, delay: Instant, after: Refusal, cx: &mut Context<'_>) {
        let rest = delay.saturating_since(cx.now);
        // A refused reader asks again as soon as enough nodes may admit readers, instead of after the random delay.
        let delay = match after == Refusal::Held {
            true => self.kept_out_until(delay, cx),
            false => delay,
        };
        if self.steps_back(delay, after, cx) {
            return;
        }
        let several = self.several();
        let named = several.and_then(|several| Some((several, several.most_named()?)));
        let others = named.map(|(several, most)| several.named_others(most));
        let intents = self.intents();
        let place = named.map_or(self.place, |(several, most)| several.places[most]);
        self.wait_at(place, cx);
        let said = cx.round.ballots.iter().map(|ballot| ballot.outcome);
        let nodes = cx.parts.nodes.len();
        let parts = &mut *cx.parts;
        let waiting = parts.queues.begin_waiting(self.place, nodes);
        waiting.refused(
            after,
            said,
            others.unwrap_or(intents),
            (delay, rest),
            &mut parts.random,
        );
        waiting.set_wants(self.wants());
        if after == Refusal::Held {
            let wants = self.wants();
            cx.parts.queues.met_others(cx.now, self.place, wants);
        }
        self.verdict = Verdict::Refused(after);
        if self.reading().is_none() || after != Refusal::Held || !self.learns_of_slots(cx) {
            self.look(cx);
        }
        self.wait(cx);
    }

    /// Asks nodes whether the lock is free, and asks them to report the next change. Skips nodes that were already
    /// asked and have reported nothing since then.
    fn look(&self, cx: &mut Context<'_>) {
        let (now, place) = (cx.now, self.place);
        let claims = &mut cx.parts.claims;
        let (mut command, mut who) = (claims.command(), claims.command());
        let delays = cx.parts.settings.retry.delay().into_inner();
        let (random, nodes) = (&mut cx.parts.random, &mut cx.parts.nodes);
        if let Some((waiting, resource)) = cx.parts.queues.waiting(place)
            && waiting.why == Refusal::Held
        {
            let is_due = waiting.begin_to_look(now);
            for node in nodes.set().iter() {
                let there = nodes.writing_to(node);
                if waiting.belief.is_to_be_asked(node)
                    && there.look(now, place, resource, &mut command)
                {
                    waiting.belief.asked(node);
                    let is_known = !is_due && waiting.belief.is_set_on(node);
                    if waiting.asks_holder(now) && !is_known {
                        there.ask_holder(now, place, resource, &mut who);
                    }
                }
            }
            waiting.looked(now, nodes.round_trip(), delays, random);
        }
        cx.parts.claims.sent(command);
        cx.parts.claims.sent(who);
        cx.parts.leave_intent(now, place);
    }

    /// Waits until the next attempt or check is due. If the operation's time has passed, ends the operation, even
    /// before its timer fires.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let end = self.rest_end(cx);
        if end <= cx.now {
            return self.end_rest(cx);
        }
        let next = self.next(cx).unwrap_or(Next::Look(Instant::MAX));
        if let Some(at) = next.reminder(cx.now) {
            cx.parts.queues.remind(at, self.place);
        }
        let until = next.at().min(end);
        cx.round.rest(State::Resting { until }, cx.parts);
    }

    /// Like [`tries_end`](Self::tries_end), but for the wait between two attempts. Returns [`Instant::MAX`] if too few
    /// nodes have answered: each attempt then uses up a try, so no time limit is needed.
    pub(super) fn rest_end(&self, cx: &Context<'_>) -> Instant {
        match self.verdict {
            Verdict::Open | Verdict::Refused(Refusal::Held) => self.tries_end(cx),
            Verdict::Refused(_) | Verdict::Granted(..) | Verdict::HandedOut => Instant::MAX,
        }
    }

    /// Ends the delay if it began because no majority answered.
    pub(super) fn regained(&mut self, cx: &mut Context<'_>) {
        if matches!(cx.round.state, State::Resting { .. })
            && matches!(self.verdict, Verdict::Refused(Refusal::NoQuorum))
        {
            let at = cx.now.saturating_add(SHORTEST_REST);
            self.rest_until(at, Refusal::NoQuorum, cx);
        }
    }

    /// Ends the delay if its time has passed. The delay ends at `until` at the latest.
    pub(super) fn rested(&mut self, until: Instant, cx: &mut Context<'_>) {
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        if deadline.min(self.rest_end(cx)) <= cx.now {
            self.end_rest(cx);
        } else if cx.now < until {
            cx.round.arm(&mut cx.parts.timers);
        } else {
            self.go_on(cx);
        }
    }

    /// Ends the operation, because its time has passed.
    fn end_rest(&mut self, cx: &mut Context<'_>) {
        match self.verdict {
            Verdict::Refused(why) if cx.round.tries != 0 => {
                let why = why_at_last(why, cx);
                self.decide(Verdict::Refused(why), cx);
            }
            // The operation made no attempt: it only waited, or gave way to others.
            Verdict::Refused(_) | Verdict::Open | Verdict::Granted(..) | Verdict::HandedOut => {
                self.give_up_waiting(cx);
            }
        }
    }

    /// Returns the next step of an acquisition that waits between attempts.
    fn next(&self, cx: &mut Context<'_>) -> Option<Next> {
        let now = cx.now;
        let (waiting, _) = cx.parts.queues.waiting(self.place)?;
        let from = |node| cx.parts.nodes[node].may_count_from(now);
        Some(waiting.next(now, cx.round.started, from))
    }

    /// Makes an attempt if it is due, or continues to wait. If this engine holds one of the resources, waits for a
    /// turn.
    ///
    /// If the acquisition has asked the nodes before, and only an operator can restore a majority, the acquisition ends
    /// now. An acquisition that has sent nothing yet continues, because the fault that stopped other calls may no
    /// longer exist.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_>) {
        if self.held_here(cx).is_some() {
            return self.wait_for_turn(cx);
        }
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

    /// Makes another attempt. It must be the operation's turn, and [this engine must hold](Self::held_here) none of the
    /// operation's resources.
    pub(super) fn try_again(&mut self, cx: &mut Context<'_>) {
        if cx.parts.claims.has_room() {
            cx.round.reset(cx.now, cx.parts);
            self.ask_nodes(cx);
        } else {
            self.decide(Verdict::Refused(Refusal::Saturated), cx);
        }
    }

    /// Returns the time at which the next attempt may begin. The next attempt comes after a random delay, if tries and
    /// time are left.
    ///
    /// If the delay would end too late for another attempt, draws a shorter delay from the remaining time. So a waiter
    /// still makes an attempt shortly before it gives up.
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
