//! Invariants: what must be so, whatever servers, drivers and callers do.
//!
//! One that is broken panics where debug assertions are on, and is counted elsewhere: the count is
//! [`Load::broken`](crate::engine::Load::broken). What follows from it is the safe side: a lock that is
//! not granted, a release that is tried again.

use core::sync::atomic::{AtomicUsize, Ordering};

/// How many were found broken in this process.
static BROKEN: AtomicUsize = AtomicUsize::new(0);

/// Something that must be there.
pub(crate) trait Must: Sized {
    /// Returns what it is called on. That there is something is an invariant.
    fn must(self) -> Self;
}

impl<T> Must for Option<T> {
    #[inline]
    #[track_caller]
    fn must(self) -> Self {
        if self.is_none() {
            broken();
        }
        self
    }
}

/// Returns how many invariants were found broken in this process. Always 0.
pub(crate) fn count() -> usize {
    BROKEN.load(Ordering::Relaxed)
}

#[cold]
#[track_caller]
fn broken() {
    debug_assert!(false, "a record that must be there is missing");
    BROKEN.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "must be there")]
    fn what_must_be_there_and_is_not_is_heard() {
        let _ = None::<u8>.must();
    }

    #[test]
    fn what_is_there_is_returned() {
        assert_eq!(Some(1).must(), Some(1));
        assert_eq!(count(), 0);
    }
}
