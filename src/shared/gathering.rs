//! Whether the I/O thread gathers the next requests of callers that it wakes together.
//!
//! Callers with other work to do do not come back at once, and a gathering that nobody comes to delays everybody else.
//! After each one in vain, twice as many batches go by without one.

/// From this number of callers on, to wait for them is worth while. With 32, tasks and threads make a tenth more cycles
/// than if nothing is gathered. With 8, tasks make a twentieth less.
const CALLERS_MIN: usize = 16;

/// The most doublings of the batches that go by.
const VAIN_MAX: u32 = 6;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// The number of gatherings in vain, in a row.
    vain: u32,
    /// The number of batches that go by before the next gathering.
    skips: u32,
}

impl Gathering {
    /// Returns `true` if the requests of the `callers` that are woken next are gathered.
    pub(super) fn is_due(&mut self, callers: usize) -> bool {
        if callers < CALLERS_MIN {
            return false;
        }
        let is_due = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        is_due
    }

    /// So many of the `callers` that were expected have not come. It was in vain if less than half of them came.
    pub(super) fn learn(&mut self, callers: usize, missing: usize) {
        if missing <= callers / 2 {
            self.vain = 0;
        } else {
            self.vain = VAIN_MAX.min(self.vain + 1);
            self.skips = 1 << self.vain;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_gatherings_in_vain_more_and_more_batches_go_by() {
        let mut gathering = Gathering::default();
        assert!(!gathering.is_due(CALLERS_MIN - 1), "they are few");
        for skips in [2, 4, 8, 16, 32, 64, 64] {
            assert!(gathering.is_due(20));
            gathering.learn(20, 11);
            assert_eq!((0..skips).filter(|_| gathering.is_due(20)).count(), 0);
        }
        for missing in [10, 0] {
            assert!(gathering.is_due(20));
            gathering.learn(20, missing);
        }
        assert!(gathering.is_due(21));
        gathering.learn(21, 21);
        assert_eq!((0..3).filter(|_| gathering.is_due(21)).count(), 1);
    }
}
