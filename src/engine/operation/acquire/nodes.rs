//! The state of the nodes before an attempt asks them, and after the attempt has failed.

use crate::engine::operation::Context;
use crate::engine::operation::ballot::Bounds;
use crate::engine::operation::patience::Patience;
use crate::engine::queues::Refusal;
use crate::error::NodeOutcome;
use crate::keys::NodeId;
use crate::node::Access;
use crate::quorum::Vote;

/// Records which nodes cannot be asked, and how long the other nodes may take to answer.
pub(super) fn prepare_ballots(cx: &mut Context<'_>) {
    let patience = Patience::for_vote(cx.round.ttl, &cx.parts.settings);
    for node in cx.parts.nodes.ids() {
        let there = &mut cx.parts.nodes[node];
        let until = patience.until(cx.now, there);
        cx.round[node].deadline = match there.access() {
            Access::Handshake { first: true } => {
                let connected = cx.now.saturating_add(cx.parts.settings.connect_timeout);
                until.max(connected)
            }
            // Reconnecting may take as long as connecting, so the node gets one connect timeout, but at most half of
            // the ttl.
            Access::Handshake { first: false } if cx.parts.nodes.were_closed() => {
                let settings = &cx.parts.settings;
                let longest = settings.connect_timeout.min(settings.half_of(cx.round.ttl));
                until.max(cx.now.saturating_add(longest))
            }
            Access::Open | Access::Handshake { first: false } => until,
            Access::Shut(outcome) => {
                cx.round.record(node, Vote::Abstain, outcome);
                continue;
            }
        };
        Bounds::NONE.leave_out(node, cx);
    }
}

/// Returns why too few nodes answered: either too many are down, or too many are too far away to answer within half of
/// the ttl.
pub(super) fn why_no_quorum(cx: &Context<'_>) -> Refusal {
    let half = cx.parts.settings.half_of(cx.round.ttl);
    let too_far = |&node: &NodeId| {
        cx.round[node].outcome == NodeOutcome::TimedOut
            && half < cx.parts.nodes[node].connection.pulse.distance()
    };
    let far = cx.parts.nodes.ids().filter(too_far).count();
    match cx.round.tally.quorum() <= cx.round.tally.can_vote() + far {
        true => Refusal::TooSlow,
        false => Refusal::NoQuorum,
    }
}

/// Returns why a call that has waited does not get the lock: the reason `why`, or that too few nodes can be asked now.
/// The report says which nodes are down, and omits their earlier answers.
pub(super) fn why_at_last(why: Refusal, cx: &mut Context<'_>) -> Refusal {
    let outcomes = || cx.parts.nodes.outcomes(cx.now);
    let there = outcomes().filter(|outcome| *outcome == NodeOutcome::Granted);
    if cx.round.tally.quorum() <= there.count() {
        return why;
    }
    for (ballot, outcome) in cx.round.ballots.iter_mut().zip(outcomes()) {
        ballot.forget_answer();
        ballot.outcome = match outcome == NodeOutcome::Granted {
            true => NodeOutcome::Pending,
            false => outcome,
        };
    }
    Refusal::NoQuorum
}

/// Marks the nodes of other groups in the report. Returns `true` if any node belongs to another group.
pub(super) fn name_other_groups(cx: &mut Context<'_>) -> bool {
    let mut any = false;
    if !cx.parts.restarts.uses_markers() {
        return any;
    }
    for node in cx.parts.nodes.ids() {
        let membership = cx.parts.nodes[node].trust.membership();
        if let Some(reason) = membership.and_then(|there| there.other) {
            cx.round[node].outcome = NodeOutcome::Unusable(reason);
            any = true;
        }
    }
    any
}
