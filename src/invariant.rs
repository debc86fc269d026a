//! Invariants are conditions that must always hold, even if servers, drivers or callers misbehave.
//!
//! A broken invariant panics if debug assertions are on. Without debug assertions, a broken invariant is counted
//! (`Load::broken`), and the engine does the safe thing: it does not grant the lock, or it sends the release again.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The number of broken invariants found in this process.
static BROKEN: AtomicUsize = AtomicUsize::new(0);

/// An optional record that must exist.
pub(crate) trait Must: Sized {
    /// Returns the value unchanged. If there is no value, reports a broken invariant.
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

/// Returns the number of broken invariants found in this process, which should be 0.
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
    fn a_missing_record_panics_in_debug_builds() {
        let _ = None::<u8>.must();
    }

    #[test]
    fn a_present_record_is_returned() {
        assert_eq!(Some(1).must(), Some(1));
        assert_eq!(count(), 0);
    }
}
