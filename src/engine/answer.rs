//! What is left of an answer for the operation that asked, when claims and nodes have learnt from it.

use crate::error::{NodeOutcome, Unusable};
use crate::keys::OperationKey;
use crate::node::{Reply, Said, Trouble};
use crate::quorum::Vote;

/// An answer with the operation that it is for, if there is one; or what is wrong with the connection.
pub(super) type Answered = Result<Option<(OperationKey, Answer)>, Trouble>;

/// What a node has said to an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// This vote, and this is what a report says of it.
    Vote((Vote, NodeOutcome)),
    /// To a `SET`: it has a key of this name.
    Nil,
    /// To the script that takes several keys: this one is there, counted from 0.
    Named(u8),
    /// To the script that takes a lock with a fencing token: taken, with this number. To a look at a floor: it is
    /// there, and as high. To a count: so many more counters.
    Counted(u64),
    /// To the script that raises counters: done.
    Raised,
    /// To a `SET`: it has forgotten the script, which was not run; and what a report says of that.
    Forgotten(NodeOutcome),
    /// The `SET` may be sent: its lock may be released there.
    Permitted,
    /// The `SET` may not be sent, and why; or a release that waited need not be.
    Withheld(NodeOutcome),
    /// To a question: this reply, which says this of the token.
    Question(Reply, Said),
}

/// Returns the vote of a node where the user lacks a permission.
pub(super) fn unusable(missing: Unusable) -> (Vote, NodeOutcome) {
    (Vote::Abstain, NodeOutcome::Unusable(missing))
}
