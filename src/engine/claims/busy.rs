//! The part of a claim that does not exist while the claim is idle.
//!
//! A claim is idle while its lock is held and kept, and nothing else happens: no operation in this handle wants the
//! lock, every node has answered, and no question about the claim is open. A handle may keep many locks, and most of
//! their claims are idle most of the time. An idle claim needs only the memory of the `Claim` itself.
//!
//! # Not here
//!
//! Callers of [`Claims::rest`](super::Claims::rest) decide when a claim may become idle: they call this method whenever
//! some work on the claim has ended. If a caller forgets to call `rest`, the claim only uses more memory until its next
//! extension.

use alloc::boxed::Box;
use core::time::Duration;

use crate::invariant::Must;
use crate::keys::{OperationKey, PlaceKey};
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::copies::Copies;

/// See the [module](self).
// The fields that the engine uses for each answer come first, so that they share a cache line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Busy {
    /// The longest time for which a node was asked to keep the key: the ttl plus the lock delay. The entry stores this
    /// time while the claim is idle.
    pub(crate) life: Duration,
    pub(crate) stage: Stage,
    pub(crate) copies: Copies,
    /// Whether the lock was granted to another engine, so that this engine does not know which nodes have the token.
    pub(crate) is_adopted: bool,
    /// The number of open extensions that count votes, up to 255. If more than 255 are open, the engine may later begin
    /// one extension too many, which costs one command per node.
    pub(crate) extending: u8,
    pub(crate) questions: Questions,
    /// The held lock's place in the queues, or [`PlaceKey::NONE`] if the lock is kept and no operation waits for it, or
    /// if the lock has several places.
    pub(crate) place: Option<PlaceKey>,
    /// The number of ticks before the end of the lock at which the engine reports that the lock is at risk. Zero means
    /// that the engine does not report the risk.
    pub(crate) alert: u64,
    /// The earliest time of the next extension, if an extension was tried before. A value of [`Instant::ZERO`] means
    /// that the extension begins as soon as it is due.
    pub(crate) again: Instant,
}

/// The open questions about a lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Questions {
    /// The newest question, if this question is still open.
    pub(crate) newest: Option<OperationKey>,
    /// The number of open questions.
    open: u32,
}

impl Questions {
    const NONE: Self = Self {
        newest: None,
        open: 0,
    };

    /// Makes `question` the newest question.
    pub(crate) fn begin(&mut self, question: OperationKey) {
        self.newest = Some(question);
        self.open += 1;
    }

    /// Ends `question`.
    pub(crate) fn end(&mut self, question: OperationKey) {
        self.newest = self.newest.filter(|newest| *newest != question);
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
    }

    /// Returns `true` if a question other than the newest is open.
    pub(crate) fn are_older_open(self) -> bool {
        u32::from(self.newest.is_some()) < self.open
    }
}

/// The stage of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// An operation counts votes for the claim, or has won but not yet reported its outcome.
    Attempt {
        /// The operation that counts votes.
        operation: OperationKey,
    },
    /// A caller holds the lock.
    Held {
        /// Whether the end of the lock was reported to the holder.
        told: bool,
    },
    /// The claim is being released on every node.
    Releasing {
        /// The operation that waits for the outcome.
        operation: Option<OperationKey>,
    },
}

impl Busy {
    /// The busy part of an idle claim, except for the fields `copies` and `life`. The claim itself stores the values of
    /// these two fields.
    pub(super) const REST: Self = Self {
        place: Some(PlaceKey::NONE),
        ..Self::of(Stage::Held { told: false }, Duration::ZERO)
    };

    /// Builds the busy part of a claim that was idle. All nodes that may have the token have confirmed it.
    pub(super) fn woken(nodes: NodeSet, life: Duration) -> Self {
        Self {
            copies: Copies::on(nodes),
            life,
            ..Self::REST
        }
    }

    /// Puts the busy part into `memory`, or into new memory if `memory` is `None`.
    pub(super) fn placed(self, memory: Option<Box<Self>>) -> Box<Self> {
        let Some(mut memory) = memory else {
            return Box::new(self);
        };
        *memory = self;
        memory
    }

    /// Builds the busy part of a claim in this stage, with defaults for all other fields.
    pub(super) const fn of(stage: Stage, life: Duration) -> Self {
        Self {
            stage,
            life,
            is_adopted: false,
            extending: 0,
            copies: Copies::NONE,
            questions: Questions::NONE,
            place: None,
            alert: 0,
            again: Instant::ZERO,
        }
    }
}
