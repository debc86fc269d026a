//! The switches of the reader, and how its reading can end early.

use super::differences::{Difference, Differences};

/// Why the other decoder is not asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unfit {
    /// It calls itself once per level until its stack is used up, and then the process ends.
    Deep,
    /// Its answer is random. It tells the two zeros apart by their hashes, of which a few bits
    /// under a random seed are compared, and otherwise takes them as equal.
    Zeros,
}

/// Why reading ends before the reply does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    Torn,
    Refused,
    Unfit(Unfit),
}

/// The switches, and which of them made a difference so far.
#[derive(Debug)]
pub(crate) struct Rules {
    in_force: Differences,
    met: Vec<Difference>,
}

impl Rules {
    pub(crate) fn new(in_force: Differences) -> Self {
        Self {
            in_force,
            met: Vec::new(),
        }
    }

    /// The switches that were met, in order.
    pub(crate) fn into_met(self) -> Vec<Difference> {
        self.met
    }

    /// Returns `true` if the switch is on.
    pub(crate) fn has(&self, difference: Difference) -> bool {
        self.in_force.contains(difference)
    }

    /// Returns `true` to do as the other decoder does, at a place where that matters.
    pub(crate) fn meet(&mut self, difference: Difference) -> bool {
        let meets = self.has(difference);
        if meets {
            self.met.push(difference);
        }
        meets
    }

    /// Ours refuses here; the other does not, because of this difference.
    pub(crate) fn allow(&mut self, difference: Difference) -> Result<(), Stop> {
        if self.meet(difference) {
            Ok(())
        } else {
            Err(Stop::Refused)
        }
    }

    /// The other refuses here because of this difference; ours does not.
    pub(crate) fn forbid(&mut self, difference: Difference) -> Result<(), Stop> {
        if self.meet(difference) {
            Err(Stop::Refused)
        } else {
            Ok(())
        }
    }
}
