//! The extensions of kept locks: how many are open, and which wait.
//!
//! # Guarantees
//!
//! * At most [`EXTENSIONS_AT_ONCE`] are open. Others wait and begin in the order in which they were due, as open ones
//!   end.
//!
//! # Not here
//!
//! When an extension is due, and whether it still is after its wait: the claim decides that.

use alloc::collections::VecDeque;

use crate::invariant::Must;
use crate::keys::ClaimKey;
use crate::limits::EXTENSIONS_AT_ONCE;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Extensions {
    open: usize,
    /// The claims that wait. Their locks may be over.
    due: VecDeque<ClaimKey>,
    /// There already is a `News::Room`.
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

    /// An extension has ended. Returns `true` if others wait, here or `elsewhere`, and there is no `News::Room` yet.
    pub(super) fn ended(&mut self, elsewhere: bool) -> bool {
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
        (elsewhere || !self.due.is_empty()) && !core::mem::replace(&mut self.is_told, true)
    }

    /// Lets the extension of `claim` wait.
    #[cold]
    pub(super) fn wait(&mut self, claim: ClaimKey) {
        self.due.push_back(claim);
    }

    /// The engine has handled `News::Room`.
    pub(super) fn told(&mut self) {
        self.is_told = false;
    }

    /// Returns the claim that has waited for the longest time, if another extension can begin.
    pub(super) fn next(&mut self) -> Option<ClaimKey> {
        match self.has_room() {
            true => self.due.pop_front(),
            false => None,
        }
    }
}
