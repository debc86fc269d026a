//! The part of a claim that exists only while the claim does not rest.
//!
//! A claim rests while its lock is held and kept, nothing else in this handle wants the lock, every node has answered,
//! and no question about it is open. There may be many kept locks, and nearly all of their claims rest nearly all the
//! time. A resting claim needs no more memory than the `Claim` itself.
//!
//! # Not here
//!
//! When a claim rests: callers of [`Claims::rest`](super::Claims::rest) ask for it whenever something about a claim has
//! ended. If one forgets it, the claim takes more memory until its next extension, and nothing else.

use alloc::boxed::Box;
use core::time::Duration;

use crate::invariant::Must;
use crate::keys::{OperationKey, PlaceKey};
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::copies::Copies;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Busy {
    pub(crate) stage: Stage,
    /// Another engine was granted the lock. So it is not known which nodes have the token.
    pub(crate) is_adopted: bool,
    /// The number of its extensions that count votes, up to 255. If there were more, the engine may begin one too many
    /// later, which costs a command to each node.
    pub(crate) extending: u8,
    /// The longest time that a node was asked to keep the key: the ttl and the lock delay. While the claim rests, its
    /// entry has this time.
    pub(crate) life: Duration,
    pub(crate) copies: Copies,
    pub(crate) questions: Questions,
    /// The place of its lock in the queues, while the lock is held. [`PlaceKey::NONE`] if the lock is kept and nothing
    /// waits for it, or if it has several places.
    pub(crate) place: Option<PlaceKey>,
    /// The number of ticks before the end at which its holder learns, once, that the lock is at risk. Zero: never.
    pub(crate) alert: u64,
    /// The earliest time of the next extension, after one was tried. [`Instant::ZERO`]: as soon as it is due.
    pub(crate) again: Instant,
}

/// The open questions about a lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Questions {
    /// The newest question, if it is still open.
    pub(crate) newest: Option<OperationKey>,
    /// How many are open.
    open: u32,
}

impl Questions {
    const NONE: Self = Self {
        newest: None,
        open: 0,
    };

    /// Makes `question` the newest one.
    pub(crate) fn begin(&mut self, question: OperationKey) {
        self.newest = Some(question);
        self.open += 1;
    }

    /// Ends `question`.
    pub(crate) fn end(&mut self, question: OperationKey) {
        self.newest = self.newest.filter(|newest| *newest != question);
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
    }

    /// Returns `true` if questions other than the newest are open.
    pub(crate) fn are_older_open(self) -> bool {
        u32::from(self.newest.is_some()) < self.open
    }
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// An operation counts votes for it, or has won and its outcome was not reported yet.
    Attempt {
        /// That operation.
        operation: OperationKey,
    },
    /// A caller holds its lock.
    Held {
        /// Its end was reported to its holder.
        told: bool,
    },
    /// It is being released on every node.
    Releasing {
        /// The operation that waits for the outcome.
        operation: Option<OperationKey>,
    },
}

impl Busy {
    /// The busy part of every claim at rest, without its copies and its life: the claim itself knows these.
    pub(super) const REST: Self = Self {
        place: Some(PlaceKey::NONE),
        ..Self::of(Stage::Held { told: false }, Duration::ZERO)
    };

    /// Builds the busy part of a claim that has rested. All nodes that may have the token have confirmed it.
    pub(super) fn woken(nodes: NodeSet, life: Duration) -> Self {
        Self {
            copies: Copies::on(nodes),
            life,
            ..Self::REST
        }
    }

    /// Puts it into `memory`, if there is some to be used again.
    pub(super) fn placed(self, memory: Option<Box<Self>>) -> Box<Self> {
        let Some(mut memory) = memory else {
            return Box::new(self);
        };
        *memory = self;
        memory
    }

    /// Builds the busy part of a claim in this stage with no other state.
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
