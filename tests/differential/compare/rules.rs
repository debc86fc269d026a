//! The switches of the reader, and how its reading can end early.

use super::differences::{Difference, Differences};

/// Why the other decoder is not asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unfit {
    /// The other decoder calls itself once for each level. When its stack is used up, the process ends.
    Deep,
    /// The answer of the other decoder is random. It compares a few bits of the hashes of the two zeros, under a random
    /// seed. If these bits are the same, the zeros count as equal.
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

    /// Returns the switches that made a difference, in order.
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

    /// Our decoder refuses here. The other one does not, because of this difference.
    pub(crate) fn allow(&mut self, difference: Difference) -> Result<(), Stop> {
        if self.meet(difference) {
            Ok(())
        } else {
            Err(Stop::Refused)
        }
    }

    /// The other decoder refuses here, because of this difference. Ours does not.
    pub(crate) fn forbid(&mut self, difference: Difference) -> Result<(), Stop> {
        if self.meet(difference) {
            Err(Stop::Refused)
        } else {
            Ok(())
        }
    }
}
