//! How an acquisition reacts to the end of a wait, to its turn, and to changes of nodes.

use super::waiting::why_at_last;
use super::{Acquire, Verdict};
use crate::engine::operation::round::State;
use crate::engine::operation::{Change, Context};
use crate::engine::queues::Refusal;
use crate::engine::settings::SHORTEST_REST;
use crate::keys::NodeId;
use crate::quorum::NodeSet;
use crate::time::Instant;

impl Acquire {
    /// Handles a change.
    pub(super) fn changed(&mut self, change: Change, cx: &mut Context<'_>) {
        match change {
            Change::Ready(node) => self.ask_now(node, cx),
            Change::Behind(node) => self.ask_behind(node, cx),
            Change::OtherCluster => self.other_cluster(cx),
            Change::MajorityBack => self.regained(cx),
            Change::Stirred => self.stirred(cx),
            Change::Turn => self.lead(cx),
            Change::OutOfTime => self.tries_allowed = Some(cx.round.tries),
            Change::Joined(_) => {}
        }
    }

    fn ask_behind(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let claim = self.claim.and_then(|key| cx.parts.claims.get(key));
        if claim.is_some_and(|claim| !claim.copy_on(node).is_open()) {
            let _ = self.ask_again(node, true, cx);
        }
    }

    /// Takes no lock if a node belongs to another group.
    fn other_cluster(&mut self, cx: &mut Context<'_>) {
        match cx.round.state {
            State::Voting | State::Queued { .. } | State::Resting { .. } => {
                _ = self.refuse_for_other_cluster(cx);
            }
            State::Decided => {}
        }
    }

    /// Ends the delay if it began because no majority answered.
    fn regained(&mut self, cx: &mut Context<'_>) {
        if matches!(cx.round.state, State::Resting { .. })
            && matches!(self.verdict, Verdict::Refused(Refusal::NoQuorum))
        {
            let at = cx.now.saturating_add(SHORTEST_REST);
            self.rest_until(at, Refusal::NoQuorum, NodeSet::EMPTY, cx);
        }
    }

    pub(super) fn rested(&mut self, until: Instant, cx: &mut Context<'_>) {
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        if deadline.min(self.rest_end(cx)) <= cx.now {
            match self.verdict {
                Verdict::Refused(why) => {
                    let why = why_at_last(why, cx);
                    self.decide(Verdict::Refused(why), cx);
                }
                // It has left the lock to others.
                Verdict::Open | Verdict::Granted(..) | Verdict::HandedOut => {
                    self.give_up_waiting(cx)
                }
            }
        } else if cx.now < until {
            cx.round.arm(&mut cx.parts.timers);
        } else if self.is_held_here(cx) {
            self.wait_for_turn(cx);
        } else {
            self.go_on(cx);
        }
    }

    pub(super) fn waited(&mut self, until: Instant, cx: &mut Context<'_>) {
        let deadline = cx.round.deadline.unwrap_or(Instant::MAX);
        if deadline.min(self.tries_end(cx)) <= cx.now {
            self.give_up_waiting(cx);
        } else if until <= cx.now {
            self.wait_for_turn(cx);
        } else {
            cx.round.arm(&mut cx.parts.timers);
        }
    }

    fn lead(&mut self, cx: &mut Context<'_>) {
        match cx.round.state {
            State::Queued { .. } | State::Resting { .. } => {
                if self.wants_several() {
                    if !self.leads(cx) {
                        return; // It waits for its other resources.
                    }
                    self.lead_several(cx);
                }
                let waiting = cx.parts.queues.waiting(self.place);
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
            }
            State::Voting | State::Decided => {}
        }
    }

    fn stirred(&mut self, cx: &mut Context<'_>) {
        if matches!(cx.round.state, State::Resting { .. }) && !self.is_held_here(cx) {
            self.go_on(cx);
        }
    }
}
