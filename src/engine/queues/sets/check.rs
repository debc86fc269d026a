//! What holds of sets at any time, and what they cost, for tests.

use core::cell::Cell;

use crate::keys::{OperationKey, PlaceKey};

use super::{Member, PASSED_AT_ONCE_MAX, Sets, Stage};
use crate::engine::queues::Queues;

std::thread_local! {
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// A set was looked at that stands before another in a line.
pub(super) fn looked() {
    LOOKS.with(|looks| looks.set(looks.get() + 1));
}

/// Returns how often that was done on this thread, and forgets it.
pub(super) fn looks() -> usize {
    LOOKS.with(Cell::take)
}

impl Sets {
    /// Returns how many records stand in lines.
    pub(in crate::engine::queues) fn records(&self) -> usize {
        self.open.values().map(|set| set.members.len()).sum()
    }
}

impl Queues {
    /// Asserts that nobody may have `place`, which was left free, but those who wait for others of their
    /// names; unless the next is about to be named.
    pub(in crate::engine::queues) fn check_left_free(&self, place: PlaceKey) {
        let at = self.places.get(place.0).expect("a place");
        assert!(
            at.waiting.is_none() && at.overtaken.is_none() && at.is_wanted()
                || self.is_pending(place),
            "{at:?}"
        );
        let mut may_pass = !self.is_pending(place);
        let line = self.waiters.of(&at.line).into_iter();
        for record in line.take(PASSED_AT_ONCE_MAX + 1) {
            let (set, _) = self.waiters.set_of(record);
            assert!(!may_pass || set.is_some(), "{record:?} may have {at:?}");
            may_pass &= set.is_some_and(|set| self.sets.may_be_passed(set, place));
        }
    }

    fn is_pending(&self, place: PlaceKey) -> bool {
        self.sets.freed.iter().any(|(freed, _)| *freed == place)
    }

    /// Asserts that each set is what its stage says, and that none waits whose turn it is.
    pub(in crate::engine::queues) fn check_sets(&self, is_open: impl Fn(OperationKey) -> bool) {
        for (key, set) in &self.sets.open {
            assert!(is_open(*key), "{set:?} is over");
            let leads = |member: &Member| self.contender(member.place) == Some(*key);
            let leading = set.members.iter().filter(|member| leads(member)).count();
            match set.stage {
                Stage::Wants => {
                    assert_eq!(leading, 0, "{set:?}");
                    let pending = set
                        .members
                        .iter()
                        .any(|member| self.is_pending(member.place));
                    let ready = set.members.iter().all(|member| self.may_have(member, *key));
                    assert!(pending || !ready, "nobody leads {set:?}");
                }
                // One that asks beside it may have overtaken it.
                Stage::Leads => {}
                Stage::Rests(_) => assert!(leading <= 1, "{set:?}"),
            }
        }
    }
}
