//! Checks whether a majority of the nodes would vote now, and if not, what an operator must fix.
//!
//! # Guarantees
//!
//! * The check sends and changes nothing: it reads only what the engine already knows.
//! * The check distinguishes faults that only an operator can fix from faults that may pass.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use crate::engine::operators::OperatorError;
use crate::error::{Asked, NodeOutcome, NodeReport, Report, Unusable};
use crate::node::NodeState;
use crate::quorum::quorum_of;
use crate::time::Instant;

use super::contract::NodeStatus;

/// Checks whether a majority of nodes in these states would vote at `now`.
pub(crate) fn check(now: Instant, statuses: &[NodeStatus]) -> Result<(), OperatorError> {
    let outcomes = || statuses.iter().map(|node| outcome_of(now, node.state));
    let ready = outcomes().filter(|outcome| *outcome == NodeOutcome::Granted);
    let quorum = quorum_of(statuses.len());
    let another = |outcome| matches!(outcome, NodeOutcome::Unusable(Unusable::OtherGroup { .. }));
    let is_split = outcomes().any(another);
    if quorum <= ready.count() && !is_split {
        return Ok(());
    }
    let nodes: Box<[NodeReport]> = statuses
        .iter()
        .zip(outcomes())
        .map(|(node, outcome)| {
            let report = NodeReport::new(Arc::clone(&node.address), outcome, None);
            report.in_words(node.words.as_ref())
        })
        .collect();
    let report = Report::new(now, nodes, quorum as u8, 1, Duration::ZERO).of(Asked::Nothing);
    Err(OperatorError::NoQuorum(report))
}

/// Returns `true` if no majority is possible until an operator fixes a node.
pub(super) fn is_out_of_reach(outcomes: impl ExactSizeIterator<Item = NodeOutcome>) -> bool {
    let nodes = outcomes.len();
    let may_recover =
        |outcome: &NodeOutcome| !matches!(outcome, NodeOutcome::Unusable(why) if why.is_lasting());
    outcomes.filter(may_recover).count() < quorum_of(nodes)
}

/// Returns the outcome of a question to a node in this state.
pub(super) fn outcome_of(now: Instant, state: NodeState) -> NodeOutcome {
    match state {
        NodeState::Ready => NodeOutcome::Granted,
        NodeState::New | NodeState::Connecting => {
            NodeOutcome::Unreachable(crate::error::LinkFault::NotYet.into())
        }
        NodeState::Quarantined { left } => NodeOutcome::Quarantined {
            until: now.saturating_add(left),
        },
        NodeState::Suspect => NodeOutcome::TimedOut,
        NodeState::Down(reason) => NodeOutcome::Unreachable(reason),
        NodeState::Unusable(reason) => NodeOutcome::Unusable(reason),
    }
}
