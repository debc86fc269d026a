//! Which scripts the node was given since it started.
//!
//! Not here: which there are, and what they do. That is in `scripts`.

/// A set of scripts, by their places in the table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scripts(u64);

impl Scripts {
    pub(super) const fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(super) const fn contains(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }
}
