//! What an operation receives of an answer, after claims and nodes have learnt from it.

use crate::error::{NodeOutcome, Unusable};
use crate::keys::OperationKey;
use crate::node::{Reply, Said, Trouble};
use crate::quorum::Vote;

/// An answer and the operation that it is for, if any; or what is wrong with the connection.
pub(super) type Answered = Result<Option<(OperationKey, Answer)>, Trouble>;

/// What a node has said to an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// A vote, and the outcome for the report.
    Vote((Vote, NodeOutcome)),
    /// To a `SET`: the node already has a key of this name.
    Nil,
    /// To the script that takes several keys: this one exists already, counted from 0.
    Named(u8),
    /// To the script that takes a fenced lock: granted, with this number. To a look at a counter floor: the floor is
    /// this high. To a count: the node has this many more counters.
    Counted(u64),
    /// To the script that raises counters: they are raised.
    Raised,
    /// To a `SET`: the node has forgotten the script and did not run it. Holds the outcome for the report.
    Forgotten(NodeOutcome),
    /// The `SET` may be sent, because the node can release its lock.
    Permitted,
    /// The `SET` may not be sent, or a release that waited need not be. Holds the reason.
    Withheld(NodeOutcome),
    /// To a question: the reply, and what it says of the token.
    Question(Reply, Said),
}

/// Returns the vote of a node whose user lacks a permission.
pub(super) fn unusable(missing: Unusable) -> (Vote, NodeOutcome) {
    (Vote::Abstain, NodeOutcome::Unusable(missing))
}
