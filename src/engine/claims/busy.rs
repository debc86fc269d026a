//! What a claim needs unless it rests.
//!
//! A claim rests while its lock is held and kept, nobody else wants it, every node has answered, and no
//! question about it is open. Locks that are kept are many, and nearly all of them rest nearly always: each
//! then has no more than what is in the `Claim` itself.
//!
//! # Not here
//!
//! When a claim rests: [`Claims::rest`](super::Claims::rest) looks at it whenever something about it is over.
//! One that is missed there takes more memory until its next extension, and nothing else.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::invariant::Must;
use crate::keys::{OperationKey, PlaceKey};
use crate::limits::POOL_MAX;
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::copies::Copies;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Busy {
    pub(crate) stage: Stage,
    /// Another engine has made the attempt: only what holds for every lock is assumed of it.
    pub(crate) is_adopted: bool,
    /// How many extensions of it count votes. At 255 it stays: when some of more have ended, the engine may
    /// begin one of its own beside those that are open, which costs a command for each node.
    pub(crate) extending: u8,
    /// The longest that any node was asked to keep it: the ttl and the lock delay. Of one that rests, its lock and
    /// its entry tell that.
    pub(crate) life: Duration,
    pub(crate) copies: Copies,
    pub(crate) questions: Questions,
    /// Where others wait for its lock, while it is held. [`PlaceKey::NONE`]: it is kept, and nobody else
    /// wants it.
    pub(crate) place: Option<PlaceKey>,
    /// So many ticks before its end its holder is to be told, once, that it is at risk. Zero: never.
    pub(crate) alert: u64,
    /// Its extension was tried, and is not tried again before. [`Instant::ZERO`]: when it is due.
    pub(crate) again: Instant,
}

/// The questions about a lock that may be open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Questions {
    /// The newest one, if it is open.
    newest: Option<OperationKey>,
    /// How many are open.
    open: u32,
}

impl Questions {
    const NONE: Self = Self {
        newest: None,
        open: 0,
    };

    /// `question` is the newest one from now on.
    pub(crate) fn begin(&mut self, question: OperationKey) {
        self.newest = Some(question);
        self.open += 1;
    }

    /// `question` is not open any more.
    pub(crate) fn end(&mut self, question: OperationKey) {
        self.newest = self.newest.filter(|newest| *newest != question);
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
    }

    /// Returns the newest one, if it is open.
    pub(crate) fn newest(self) -> Option<OperationKey> {
        self.newest
    }

    /// Returns `true` if others than the newest one are open.
    pub(crate) fn are_older_open(self) -> bool {
        u32::from(self.newest.is_some()) < self.open
    }
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// An operation is counting votes for it, or has won and was not reported yet.
    Attempt {
        /// Which operation.
        operation: OperationKey,
    },
    /// A lock of a caller has it.
    Held {
        /// Its end was reported to its holder.
        told: bool,
    },
    /// It is released on every node.
    Releasing {
        /// The operation of a caller who waits for the outcome.
        operation: Option<OperationKey>,
    },
}

impl Busy {
    /// A claim at rest is as this, but for two fields that it has elsewhere then: the nodes that have it, and how
    /// long it lives.
    pub(super) const REST: Self = Self {
        place: Some(PlaceKey::NONE),
        ..Self::of(Stage::Held { told: false }, Duration::ZERO)
    };

    /// What a claim needs that has rested: the nodes that may have it have said so.
    pub(super) fn woken(nodes: NodeSet, life: Duration) -> Self {
        Self {
            copies: Copies::on(nodes),
            life,
            ..Self::REST
        }
    }

    /// A claim that stands there, and of which nothing else is known.
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

/// Memory for what claims need that do not rest: a stack, [`POOL_MAX`] at most.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "each box is handed out as it is")]
pub(crate) struct Boxes(Vec<Box<Busy>>);

impl Boxes {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns `busy` in a box.
    #[inline]
    pub(crate) fn put(&mut self, busy: Busy) -> Box<Busy> {
        match self.0.pop() {
            Some(mut there) => {
                *there = busy;
                there
            }
            None => Box::new(busy),
        }
    }

    /// Keeps a box for the next [`Boxes::put`].
    #[inline]
    pub(crate) fn give(&mut self, busy: Box<Busy>) {
        if self.0.len() < POOL_MAX {
            self.0.push(busy);
        }
    }
}
