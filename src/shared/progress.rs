//! How far the writing has come, for a drop that waits until its release is written.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::driver::clock;
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    put_back: u64,
}

impl Progress {
    /// So many requests are written, and the wire was put back so often.
    pub(super) fn tell(&self, written: u64, put_back: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.written = state.written.max(written);
        state.put_back = state.put_back.max(put_back);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until so many requests are written, or the wire was put back more often. Returns `false`
    /// if neither was by `until`.
    pub(super) fn wait(&self, written: u64, put_back: u64, until: Instant) -> bool {
        let left = until.saturating_since(clock::now());
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| state.written < written && state.put_back <= put_back;
        let waited = self.changed.wait_timeout_while(state, left, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}
