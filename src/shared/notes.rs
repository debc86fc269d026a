//! Requests that callers only note, so that the I/O thread begins them together.
//!
//! Callers that are woken together are likely to make their next requests together. So the I/O thread prepares one
//! place for each caller before it wakes them. A caller that finds a free place notes its request there, and has
//! nothing else to do. The I/O thread [gathers](Notes::gather) until all places are taken or no more requests arrive.
//! Then the I/O thread begins all requests in one section, and writes them together. With 64 tasks, notes save three
//! quarters of the writes and a fifth of the processor time.
//!
//! # Guarantees
//!
//! * **No request stays noted**: places exist only until the I/O thread has gathered, and the I/O thread gathers for a
//!   bounded time. Every section under the mutex of the engine begins the noted requests, so no other request overtakes
//!   a note.
//! * If the engine panics, the noted requests are refused.
//!
//! # Not here
//!
//! The module `gathering` decides whether gathering pays off.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::MutexGuard;

use super::callers::WaitsAs;
use super::monitor::Monitor;
use super::relay::Relay;
use super::slot::Slot;
use crate::clock;
use crate::config::{LockOptions, PackedOptions};
use crate::engine::Request;
use crate::quorum::Lock;
use crate::time::Instant;

/// The time that the I/O thread waits for each missing caller: about as long as a thread takes to wake up and to make a
/// request. The I/O thread waits again if some callers have made requests during the wait.
const PATIENCE: Duration = Duration::from_micros(4);

/// The shortest and the longest wait for missing callers.
const WAITS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(100)];

/// The limits on the sum of all waits: for each caller, and in total. During these waits, the I/O thread serves no
/// other callers.
const PATIENCE_FOR_ALL: Duration = Duration::from_micros(8);
const WAIT_MAX: Duration = Duration::from_millis(2);

/// A request of the caller that waits in `slot`.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) slot: Arc<Slot>,
    pub(super) waiter: WaitsAs,
    /// The request, or `None` while it begins.
    pub(super) asked: Option<Asked>,
}

#[derive(Debug)]
pub(super) enum Asked {
    Acquire(Wanted, PackedOptions),
    Release(Lock),
}

impl Note {
    pub(super) fn new(slot: &Arc<Slot>, waiter: WaitsAs, asked: Asked) -> Self {
        Self {
            slot: Arc::clone(slot),
            waiter,
            asked: Some(asked),
        }
    }
}

impl Asked {
    pub(super) fn acquire(request: &Request<'_>) -> Self {
        Self::Acquire(Wanted::of(request), request.options.packed())
    }
}

/// The kind of lock that the caller wants.
#[derive(Debug)]
pub(super) enum Wanted {
    One(Vec<u8>),
    Shared(Vec<u8>),
    /// One of several permits, with the number of permits.
    Permit(Vec<u8>, u16),
    All(Vec<Vec<u8>>),
}

impl Wanted {
    fn of(request: &Request<'_>) -> Self {
        let resource = || request.resource.to_vec();
        match (request.all, request.permits) {
            (None, None) if request.shared => Self::Shared(resource()),
            (None, None) => Self::One(resource()),
            (None, Some(permits)) => Self::Permit(resource(), permits),
            (Some(all), _) => Self::All(all.iter().map(|name| name.to_vec()).collect()),
        }
    }

    /// Calls `ask` with the request for this lock.
    pub(super) fn request<T>(
        &self,
        options: &LockOptions,
        ask: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        match self {
            Self::One(resource) => ask(&Request::new(resource, options)),
            Self::Shared(resource) => ask(&Request::shared(resource, options)),
            Self::Permit(resource, permits) => ask(&Request::permit(resource, *permits, options)),
            Self::All(resources) => {
                let resources: Vec<&[u8]> = resources.iter().map(Vec::as_slice).collect();
                ask(&Request::all(&resources, options))
            }
        }
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Notes {
    inner: Monitor<Inner>,
    /// `true` if there are notes, or free places for notes. This flag changes only while both the engine and the notes
    /// are locked, so a thread that has added a note does not miss it.
    in_use: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    notes: VecDeque<Note>,
    /// The number of free places.
    places: usize,
    /// `true` if threads may take places, and not only tasks.
    takes_threads: bool,
}

impl Notes {
    /// Returns `true` if there may be places or notes.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().notes.is_empty()
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn has_place(&self) -> bool {
        self.inner.lock().places != 0
    }

    // ----- callers ----------------------------------------------------------------------------

    /// Stores `note` if there is a free place for it, and otherwise returns it.
    pub(super) fn put(&self, note: Note) -> Result<(), Note> {
        if !self.is_in_use() {
            return Err(note);
        }
        let mut inner = self.inner.lock();
        let is_kept_out = note.waiter == WaitsAs::Thread && !inner.takes_threads;
        if inner.places == 0 || is_kept_out {
            return Err(note);
        }
        // Puts releases first, because they free names, and because consecutive releases share one command.
        if let Some(Asked::Release(_)) = note.asked {
            inner.notes.push_front(note);
        } else {
            inner.notes.push_back(note);
        }
        self.take_place(inner);
        Ok(())
    }

    /// Uses up the place of a caller that makes its request without a note.
    pub(super) fn pass(&self) {
        if self.is_in_use() {
            self.take_place(self.inner.lock());
        }
    }

    fn take_place(&self, mut inner: MutexGuard<'_, Inner>) {
        let is_last = inner.places == 1;
        inner.places = inner.places.saturating_sub(1);
        drop(inner);
        if is_last {
            self.inner.wake_one();
        }
    }

    // ----- calls that hold the engine's mutex -------------------------------------------------

    /// Prepares a place for each of the `callers` that are woken next. If `calls_wakers` is `true`, only tasks may take
    /// places, because a waker that blocks would delay threads.
    pub(super) fn set_out(&self, callers: usize, calls_wakers: bool) {
        let mut inner = self.inner.lock();
        (inner.places, inner.takes_threads) = (callers, !calls_wakers);
        self.in_use.store(true, Ordering::Relaxed);
    }

    /// Moves all notes to the list `empty`.
    pub(super) fn take(&self, empty: &mut VecDeque<Note>) {
        let mut inner = self.inner.lock();
        core::mem::swap(&mut inner.notes, empty);
        self.in_use.store(inner.places != 0, Ordering::Relaxed);
    }

    /// Removes all places, and moves all notes to `rest`.
    pub(super) fn close(&self, rest: &mut VecDeque<Note>) {
        let mut inner = self.inner.lock();
        inner.places = 0;
        rest.append(&mut inner.notes);
    }

    // ----- calls by the I/O thread ------------------------------------------------------------

    /// Waits until all places are taken, no caller has made a request for a while, a timer is `due`, or the wait has
    /// lasted too long. Then removes the free places, and returns their number. Meanwhile, lets `relay` wake callers.
    pub(super) fn gather(&self, relay: &Relay, due: Instant) -> usize {
        let (mut inner, mut now) = (self.inner.lock(), clock::now());
        let most = times(PATIENCE_FOR_ALL, inner.places).min(WAIT_MAX);
        let until = now.saturating_add(most).min(due);
        loop {
            let free = inner.places;
            let patience = times(PATIENCE, free).clamp(WAITS[0], WAITS[1]);
            let patience = patience.min(until.saturating_since(now));
            let waits = |inner: &mut Inner| inner.places != 0;
            drop(self.inner.wait_while(inner, patience, waits));
            relay.run();
            (inner, now) = (self.inner.lock(), clock::now());
            if inner.places == free || inner.places == 0 || until <= now {
                return core::mem::take(&mut inner.places);
            }
        }
    }
}

fn times(patience: Duration, callers: usize) -> Duration {
    patience.saturating_mul(u32::try_from(callers).unwrap_or(u32::MAX))
}
