//! When tasks have to learn that a lock is at risk.
//!
//! The tasks are in the [`Watch`](super::watch::Watch) of the lock, which asks for one alert at a time:
//! for the first of them, if it is not extended before. An alert that comes too early, because the lock
//! was extended, is asked for again.

use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::slot::Slot;
use crate::time::Instant;

/// The alerts that are asked for. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Alerts(BinaryHeap<Alert>);

#[derive(Debug)]
struct Alert {
    at: Instant,
    slot: Arc<Slot>,
}

impl Alerts {
    pub(super) fn add(&mut self, at: Instant, slot: Arc<Slot>) {
        self.0.push(Alert { at, slot });
    }

    /// Returns when the next one is due; [`Instant::MAX`] if there is none.
    pub(super) fn next(&self) -> Instant {
        self.0.peek().map_or(Instant::MAX, |alert| alert.at)
    }

    /// Takes those that are due at `now`.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Arc<Slot>> {
        let mut due = Vec::new();
        while self.next() <= now
            && let Some(alert) = self.0.pop()
        {
            due.push(alert.slot);
        }
        due
    }
}

/// The earliest is the greatest.
impl Ord for Alert {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Alert {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alert {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Alert {}
