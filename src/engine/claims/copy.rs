//! The copy of one token on one node: its state, and the transitions that events cause.
//!
//! A node can have the token only after a `SET` was sent to it. The state says how each `SET` has ended, and how far
//! the release has progressed.
//!
//! # Guarantees
//!
//! * A copy becomes [`Absent`] only when each `SET` was withdrawn or denied, the release was answered, the key has
//!   expired, or the lock was handed over. If a connection is lost, its `SET` may still run after the node has answered
//!   the release on another connection. The engine cannot prevent a late `SET`, so the key lives until the ttl has
//!   passed.
//! * A denial concerns only one `SET`. If an earlier `SET` may have left a key, the engine still releases that key.
//!
//! # Not here
//!
//! The file `copies.rs` handles later answers of the node about the key, and the states of all nodes. The claim stores
//! the expiry of a copy.

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Copy {
    /// No `SET` can have left a key.
    Absent,
    /// The only `SET` is unanswered.
    Sent,
    /// The answer to the only `SET` is lost, so the `SET` may run at any time.
    Lost,
    /// Every `SET` was answered, and one `SET` has left a key.
    Stands,
    /// Another `SET` is unanswered. Every earlier `SET` was answered.
    Resent,
    /// Another `SET` is unanswered, and an earlier `SET` may still run.
    ResentLost,
    /// Several `SET`s were sent, and one `SET` may still run.
    StandsLost,
    /// The release is unanswered, and every `SET` was answered.
    Releasing,
    /// Both the release and the `SET` before it are unanswered.
    ReleasingSent,
    /// The release is unanswered, and a `SET` may still run after the release.
    ReleasingLost,
    /// The release must be sent, and every `SET` was answered.
    Owed,
    /// The release must be sent, and the only `SET` is unanswered.
    OwedSent,
    /// The release must be sent, a `SET` is unanswered, and an earlier `SET` may have left a key.
    OwedResent,
    /// The release must be sent even after the key's expiry, because a `SET` may still run.
    OwedLost,
}

/// An event in the life of a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// A `SET` was queued on the connection.
    Sent,
    /// The latest `SET` did not run, because the node denied it, or because it was withdrawn before any byte was sent.
    NotRun,
    /// The latest `SET` may or may not have run, because its answer is unclear or will never arrive.
    Lost,
    /// The latest `SET` has run.
    Granted,
    /// The node has answered a question, and has the key.
    Has,
    /// The release was queued on the connection.
    Asked,
    /// The release must be sent later: it cannot be sent now, was refused, or got no conclusive answer.
    Owed,
    /// The release was answered, or the key has expired.
    Freed,
    /// The lock was handed over with the key on the node. Later events about this copy are ignored.
    HandedOver,
}

use self::Copy::{
    Absent, Lost, Owed, OwedLost, OwedResent, OwedSent, Releasing, ReleasingLost, ReleasingSent,
    Resent, ResentLost, Sent, Stands, StandsLost,
};

impl Copy {
    /// Returns the state after `event`. Returns `None` if the event cannot happen in this state.
    ///
    /// The states `StandsLost`, `ReleasingLost` and `OwedLost` do not show whether a `SET` is still unanswered. In
    /// these states, the answer to a `SET` changes nothing, and neither does a late answer to a question.
    #[inline(always)]
    pub(super) fn after(self, event: Event) -> Option<Self> {
        Some(match (event, self) {
            (Event::Sent, Absent) => Sent,
            (Event::Sent, Stands) => Resent,
            (Event::Sent, Lost | StandsLost) => ResentLost,

            (Event::NotRun, Sent | OwedSent) => Absent,
            (Event::NotRun, Resent) if !guard!(DeniedCopyForgotten, true) => Absent,
            (Event::NotRun | Event::Granted, Resent) | (Event::Granted, Sent) => Stands,
            (Event::NotRun | Event::Granted | Event::Lost, ResentLost) => StandsLost,
            (Event::NotRun | Event::Granted, ReleasingSent) => Releasing,
            (Event::NotRun | Event::Granted, OwedResent) | (Event::Granted, OwedSent) => Owed,
            (Event::Lost, Sent) => Lost,
            (Event::Lost, Resent) => StandsLost,
            (Event::Lost, ReleasingSent) => ReleasingLost,
            (Event::Lost, OwedSent | OwedResent) => OwedLost,

            // Either the `SET` whose answer was lost has run, or the node has lost the key and restored it from a copy
            // of its data.
            (Event::Has, Absent | Lost) => Stands,
            (Event::Has, Sent) => Resent,
            (Event::Has, ResentLost) => StandsLost,

            (Event::Asked, Stands | Owed) => Releasing,
            (Event::Asked, Sent | Resent | OwedSent | OwedResent) => ReleasingSent,
            (Event::Asked, Lost | ResentLost | StandsLost | OwedLost) => ReleasingLost,
            (Event::Owed, Stands | Releasing) => Owed,
            (Event::Owed, Sent) => OwedSent,
            (Event::Owed, Resent | ReleasingSent) => OwedResent,
            (Event::Owed, Lost | ResentLost | StandsLost | ReleasingLost) => OwedLost,
            (Event::Freed, Owed | Releasing | ReleasingSent | ReleasingLost) => Absent,
            (Event::HandedOver, Stands | StandsLost) => Absent,

            (
                Event::NotRun | Event::Granted | Event::Lost,
                StandsLost | ReleasingLost | OwedLost,
            )
            | (Event::Has, _) => self,
            _ => return None,
        })
    }

    /// Returns `true` if the node may have the token, now or later.
    #[inline(always)]
    pub(crate) const fn may_hold(self) -> bool {
        !matches!(self, Absent)
    }

    /// Returns `true` if a `SET` is known to be unanswered. If the answer to an earlier `SET` is lost, the result may
    /// be `false` although another `SET` is unanswered: see [`may_run`](Self::may_run).
    pub(crate) const fn is_open(self) -> bool {
        matches!(
            self,
            Sent | Resent | ResentLost | ReleasingSent | OwedSent | OwedResent
        )
    }

    /// Returns `true` if the node may still run a `SET`.
    pub(crate) const fn may_run(self) -> bool {
        !matches!(self, Absent | Stands | Releasing | Owed)
    }

    /// Returns `true` if the release must be sent.
    #[inline(always)]
    pub(crate) const fn is_owed(self) -> bool {
        matches!(self, Owed | OwedSent | OwedResent | OwedLost)
    }
}

#[cfg(test)]
mod tests;
