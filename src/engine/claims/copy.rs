//! What one token may have left on one node: a state, and what each event makes of it.
//!
//! A node can have the token only if a `SET` was sent to it. The state says how the `SET`s ended, what the
//! node has said of the key since, and where the release stands.
//!
//! # Guarantees
//!
//! * A copy is over ([`Absent`](Copy::Absent)) only when no `SET` can have left a key: each was withdrawn or
//!   denied, the release was answered behind the last of them, or the key has expired.
//! * A denial speaks for one `SET`. If an earlier one may have left a key, that key is still released.
//!
//! # Not here
//!
//! Time: when a copy expires is a fact of its claim. And whose state it is: [`super::copies`].

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum Copy {
    /// No `SET` can have left a key.
    Absent,
    /// The same, and the node has said that it lacks the key: it is due a copy.
    Wanted,
    /// Its only `SET` is unanswered.
    Sent,
    /// The same, and that `SET` is a copy: the node lacked the key before.
    CopySent,
    /// The answer to its only `SET` is lost. The `SET` may run at any time.
    Lost,
    /// The same, and the node has said since that it lacks the key.
    LostLacking,
    /// The node has the key, and has answered every `SET`.
    Granted,
    /// The node lacks the key, and has answered every `SET`. Its data may come back, so it is still released.
    Lacking,
    /// The node lacked the key. Another `SET` is unanswered; it has answered those before.
    Resent,
    /// The node has the key, and a `SET` is unanswered.
    GrantedResent,
    /// The node lacked the key. Another `SET` is unanswered, and an earlier one may still run.
    ResentLost,
    /// The node has the key, and a `SET` may still run.
    GrantedLost,
    /// The node lacks the key, and a `SET` may still run.
    LackingLost,
    /// The release is unanswered; the node has answered every `SET`.
    Releasing,
    /// The release is unanswered, and so is the `SET` before it.
    ReleasingSent,
    /// The release is unanswered. A `SET` may run after it.
    ReleasingLost,
    /// The same, and an earlier release has found the key of another.
    ReleasingBehind,
    /// The release is owed; the node has answered every `SET`.
    Owed,
    /// The release is owed, and its only `SET` is unanswered.
    OwedSent,
    /// The release is owed, a `SET` is unanswered, and an earlier one may have left a key.
    OwedResent,
    /// The release is owed, and a `SET` may still run: time does not end that.
    OwedLost,
    /// The same, and an earlier release has found the key of another.
    OwedBehind,
}

/// What happens to a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// A `SET` was put into the connection.
    Sent,
    /// The latest `SET` was not run: it was denied, or withdrawn before a byte of it left.
    NotRun,
    /// The answer to the latest `SET` does not say whether it was run, or will not come.
    Lost,
    /// The latest `SET` was run.
    Granted,
    /// The node was asked, and has the key.
    Has,
    /// The node was asked, and does not have the key.
    Lacks,
    /// The release was put into the connection.
    Asked,
    /// The release cannot go now, was refused, or its answer is lost.
    Owed,
    /// The release was answered.
    Freed,
    /// The release has read the key of another, which proves nothing where a `SET` may still run.
    Foreign,
    /// Its expiry is known, and has passed.
    Expired,
    /// The lock was handed over with what is known to stand on the node.
    HandedOver,
}

use self::Copy::{
    Absent, CopySent, Granted, GrantedLost, GrantedResent, Lacking, LackingLost, Lost, LostLacking,
    Owed, OwedBehind, OwedLost, OwedResent, OwedSent, Releasing, ReleasingBehind, ReleasingLost,
    ReleasingSent, Resent, ResentLost, Sent, Wanted,
};

impl Copy {
    /// Returns what `event` makes of it. `None`: that cannot happen here.
    ///
    /// An event that comes late changes nothing: a node may answer a `SET` when another answer has already told
    /// more, and a question or a release when another release was answered.
    #[inline(always)]
    pub(super) fn after(self, event: Event) -> Option<Self> {
        match event {
            Event::Sent => self.sent(),
            Event::NotRun => self.not_run(),
            Event::Lost => self.lost(),
            Event::Granted => self.granted(),
            Event::Has => Some(self.found()),
            Event::Lacks => Some(self.missed()),
            Event::Asked => self.asked(),
            Event::Owed => self.owed(),
            Event::Freed => self.freed(),
            Event::Foreign => self.foreign(),
            Event::Expired => (self == Owed).then_some(Absent),
            Event::HandedOver => Some(if self == Granted { Absent } else { self }),
        }
    }

    #[inline(always)]
    const fn sent(self) -> Option<Self> {
        Some(match self {
            Absent => Sent,
            Wanted => CopySent,
            Lacking => Resent,
            Lost | LostLacking | LackingLost => ResentLost,
            _ => return None,
        })
    }

    #[inline(always)]
    fn not_run(self) -> Option<Self> {
        Some(match self {
            Sent | OwedSent => Absent,
            CopySent => Wanted,
            Resent if guard!(DeniedCopyForgotten, true) => Lacking,
            Resent => Absent,
            GrantedResent => Granted,
            ResentLost => LackingLost,
            ReleasingSent => Releasing,
            OwedResent => Owed,
            late => return late.if_told_before(),
        })
    }

    #[inline(always)]
    const fn lost(self) -> Option<Self> {
        Some(match self {
            Sent => Lost,
            CopySent => LostLacking,
            Resent | ResentLost => LackingLost,
            GrantedResent => GrantedLost,
            ReleasingSent => ReleasingLost,
            OwedSent | OwedResent => OwedLost,
            late => return late.if_told_before(),
        })
    }

    #[inline(always)]
    const fn granted(self) -> Option<Self> {
        Some(match self {
            Sent | CopySent | Resent | GrantedResent => Granted,
            ResentLost => GrantedLost,
            ReleasingSent => Releasing,
            OwedSent | OwedResent => Owed,
            late => return late.if_told_before(),
        })
    }

    /// What an answer to a `SET` changes where an earlier `SET` was lost: nothing. The state says already that one
    /// may still run.
    const fn if_told_before(self) -> Option<Self> {
        match self {
            GrantedLost | LackingLost | ReleasingLost | ReleasingBehind | OwedLost | OwedBehind => {
                Some(self)
            }
            _ => None,
        }
    }

    /// The node has the key. Where there was one `SET`, that was it.
    const fn found(self) -> Self {
        match self {
            Absent | Wanted | Lost | LostLacking | Lacking => Granted,
            Sent | CopySent | Resent => GrantedResent,
            ResentLost | LackingLost => GrantedLost,
            late => late,
        }
    }

    const fn missed(self) -> Self {
        match self {
            Absent => Wanted,
            Sent => CopySent,
            Lost => LostLacking,
            Granted => Lacking,
            GrantedResent => Resent,
            GrantedLost => LackingLost,
            late => late,
        }
    }

    #[inline(always)]
    const fn asked(self) -> Option<Self> {
        Some(match self {
            Granted | Lacking | Owed => Releasing,
            Sent | CopySent | Resent | GrantedResent | OwedSent | OwedResent => ReleasingSent,
            Lost | LostLacking | ResentLost | GrantedLost | LackingLost | OwedLost => ReleasingLost,
            OwedBehind => ReleasingBehind,
            again => return again.if_leaving(),
        })
    }

    const fn owed(self) -> Option<Self> {
        Some(match self {
            Granted | Lacking | Releasing => Owed,
            Sent | CopySent => OwedSent,
            Resent | GrantedResent | ReleasingSent => OwedResent,
            Lost | LostLacking | ResentLost | GrantedLost | LackingLost | ReleasingLost => OwedLost,
            ReleasingBehind => OwedBehind,
            again => return again.if_leaving(),
        })
    }

    #[inline(always)]
    const fn freed(self) -> Option<Self> {
        if self.is_releasing() || matches!(self, Absent) {
            Some(Absent)
        } else {
            None
        }
    }

    const fn foreign(self) -> Option<Self> {
        match self {
            ReleasingLost | ReleasingBehind => Some(ReleasingBehind),
            other => other.freed(),
        }
    }

    /// What another release changes where one is under way or owed already, or was answered: nothing.
    const fn if_leaving(self) -> Option<Self> {
        if self.is_releasing() || self.is_owed() || matches!(self, Absent) {
            Some(self)
        } else {
            None
        }
    }

    // ----- questions ------------------------------------------------------------------------

    /// Returns `true` if the node may have the token, now or later.
    #[inline(always)]
    pub(crate) const fn may_hold(self) -> bool {
        !matches!(self, Absent | Wanted)
    }

    /// Returns `true` if the node said that it has the key, and not since that it lacks it.
    pub(crate) const fn has(self) -> bool {
        matches!(self, Granted | GrantedResent | GrantedLost)
    }

    /// Returns `true` if the node said that it lacks the key, and not since that it has it.
    pub(crate) const fn lacks(self) -> bool {
        matches!(
            self,
            Wanted | CopySent | Lacking | LostLacking | Resent | ResentLost | LackingLost
        )
    }

    /// Returns `true` if a `SET` is known to be unanswered. Where an earlier one was lost, that may be so unknown:
    /// see [`may_run`](Self::may_run).
    pub(crate) const fn is_open(self) -> bool {
        matches!(
            self,
            Sent | CopySent
                | Resent
                | GrantedResent
                | ResentLost
                | ReleasingSent
                | OwedSent
                | OwedResent
        )
    }

    /// Returns `true` if the node may still run a `SET`.
    pub(crate) const fn may_run(self) -> bool {
        !matches!(self, Absent | Wanted | Granted | Lacking | Releasing | Owed)
    }

    /// Returns `true` if the release is unanswered.
    #[inline(always)]
    pub(crate) const fn is_releasing(self) -> bool {
        matches!(
            self,
            Releasing | ReleasingSent | ReleasingLost | ReleasingBehind
        )
    }

    /// Returns `true` if the release is owed.
    #[inline(always)]
    pub(crate) const fn is_owed(self) -> bool {
        matches!(self, Owed | OwedSent | OwedResent | OwedLost | OwedBehind)
    }

    /// Returns `true` if a key that keeps another token of ours out there may be this one: it is being released, and no
    /// release has found the key of another.
    pub(crate) const fn explains_nil(self) -> bool {
        (self.is_releasing() || self.is_owed()) && !matches!(self, ReleasingBehind | OwedBehind)
    }

    /// Returns `true` if nothing but time has to pass until it is over, if its expiry is known.
    pub(crate) const fn ends_by_time(self) -> bool {
        matches!(self, Owed)
    }
}

#[cfg(test)]
mod tests;
