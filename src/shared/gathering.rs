//! Whether the I/O thread gathers the next requests of callers that it wakes together.
//!
//! Callers that have other work do not come back at once. Then gathering only delays the others. After each gathering
//! in vain, the number of batches without one doubles.

/// With at least this number of callers, gathering is worth while. With 32 callers, tasks and threads lock and unlock a
/// tenth more often than without gathering. With 8, tasks do so a twentieth less often.
const CALLERS_MIN: usize = 16;

/// The largest number of these doublings.
const VAIN_MAX: u32 = 6;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// The number of gatherings in a row that were in vain.
    vain: u32,
    /// The number of batches that go by before the next gathering.
    skips: u32,
}

impl Gathering {
    /// Returns `true` if the requests of these `callers`, which are woken next, should be gathered.
    pub(super) fn is_due(&mut self, callers: usize) -> bool {
        if callers < CALLERS_MIN {
            return false;
        }
        let is_due = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        is_due
    }

    /// Records that `missing` of the `callers` have not come. The gathering was in vain if less than half of them came.
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
