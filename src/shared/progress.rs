//! How far the writing has come, for a drop that waits until its release is written.

use super::monitor::Monitor;
use crate::driver::clock;
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Progress(Monitor<State>);

#[derive(Debug, Default)]
struct State {
    written: u64,
    put_back: u64,
}

impl Progress {
    /// Reports that so many requests are written, and that the wire was put back so often.
    pub(super) fn advance(&self, written: u64, put_back: u64) {
        let mut state = self.0.lock();
        state.written = state.written.max(written);
        state.put_back = state.put_back.max(put_back);
        drop(state);
        self.0.wake_all();
    }

    /// Waits until so many requests are written, or the wire was put back more often. Returns `false`
    /// if neither was by `until`.
    pub(super) fn wait(&self, written: u64, put_back: u64, until: Instant) -> bool {
        let left = until.saturating_since(clock::now());
        let waits = |state: &mut State| state.written < written && state.put_back <= put_back;
        let mut state = self.0.wait_while(self.0.lock(), left, waits);
        !waits(&mut state)
    }
}
