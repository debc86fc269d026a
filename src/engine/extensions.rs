//! The extensions of locks that are kept: how many are open, and which wait.
//!
//! # Guarantees
//!
//! * No more than [`EXTENSIONS_AT_ONCE`] are open. What is due beyond that begins in the order in which it
//!   was due, as many at once as have ended.
//!
//! # Not here
//!
//! When an extension is due, and whether one that has waited still is: that is the claim's.

use alloc::collections::VecDeque;

use crate::invariant::Must;
use crate::keys::ClaimKey;
use crate::limits::EXTENSIONS_AT_ONCE;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Extensions {
    open: usize,
    /// What waits. Its lock may be over.
    due: VecDeque<ClaimKey>,
    /// There is a `News::Room` already.
    is_told: bool,
}

impl Extensions {
    /// Returns `true` if another can begin now.
    pub(super) fn has_room(&self) -> bool {
        self.open < EXTENSIONS_AT_ONCE
    }

    /// One has begun.
    pub(super) fn begun(&mut self) {
        self.open += 1;
    }

    /// One has ended. Returns `true` if others wait for that, here or `elsewhere`, and it is not told already.
    pub(super) fn ended(&mut self, elsewhere: bool) -> bool {
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
        (elsewhere || !self.due.is_empty()) && !core::mem::replace(&mut self.is_told, true)
    }

    /// That of `claim` waits.
    #[cold]
    pub(super) fn wait(&mut self, claim: ClaimKey) {
        self.due.push_back(claim);
    }

    /// Those that wait are told that some have ended.
    pub(super) fn told(&mut self) {
        self.is_told = false;
    }

    /// Returns the one that has waited for the longest time, if another can begin.
    pub(super) fn next(&mut self) -> Option<ClaimKey> {
        match self.has_room() {
            true => self.due.pop_front(),
            false => None,
        }
    }
}
