//! Stories of the shared handle, on embedded nodes.
//!
//! Nothing here sleeps for a result. Tests poll for results of other threads, up to a time at which they fail. Stories
//! that do count or measure on the real clock are in [`timed`].

#![expect(
    clippy::unwrap_used,
    reason = "a test that finds nothing there has failed"
)]

mod batches;
mod errors;
mod health;
mod interleavings;
mod kept;
mod notes;
mod panics;
mod prefix;
mod stalled;
mod stories;
mod stress;
mod timed;
mod unserved;
mod work;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::{self, Thread};

use super::notes::Notes;
use super::roles::IoThread;
use super::serve::Moves;
use super::{Acquiring, LockGuard, Lost, Redlock, Shared};
use crate::clock;
use crate::config::{Builder, LockOptions, Retry};
use crate::driver::Wire;
use crate::embedded::EmbeddedNode;
use crate::engine::Load;
use crate::error::LockError;
use crate::quorum::Lock;

/// A ttl that is longer than any test, so a key that is gone was released.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// After this time without a result, something was lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const MS: Duration = Duration::from_millis(1);

const fn is_shared<T: Send + Sync + 'static>() {}

const fn is_unwind_safe<T: core::panic::UnwindSafe + core::panic::RefUnwindSafe>() {}

const _: () = {
    is_unwind_safe::<Redlock>();
    is_shared::<Redlock>();
    is_shared::<LockGuard>();
    is_shared::<Lock>();
    is_shared::<Acquiring>();
    is_unwind_safe::<Lost>();
    is_shared::<Lost>();
    is_unwind_safe::<crate::AtRisk>();
    is_shared::<crate::AtRisk>();
};

struct World {
    nodes: Vec<EmbeddedNode>,
}

impl World {
    fn new() -> Self {
        let nodes = (0..3).map(|_| EmbeddedNode::spawn().unwrap()).collect();
        Self { nodes }
    }

    fn start() -> (Self, Redlock) {
        let world = Self::new();
        let redlock = world.redlock();
        (world, redlock)
    }

    /// The handle is patient, because on a busy machine a slow node has not failed.
    fn builder(&self) -> Builder {
        let urls: Vec<String> = self.nodes.iter().map(EmbeddedNode::url).collect();
        Redlock::builder()
            .nodes(urls)
            .node_timeout(Duration::from_secs(10))
            .retry(Retry::new(u32::MAX, MS..=3 * MS))
    }

    fn redlock(&self) -> Redlock {
        self.builder().build().unwrap()
    }

    fn copies(&self, key: &str) -> usize {
        let holders = self.nodes.iter().filter(|node| node.get(key).is_some());
        holders.count()
    }

    #[track_caller]
    fn assert_gone(&self, key: &str) {
        eventually("the key has gone", || self.copies(key) == 0);
    }

    #[track_caller]
    fn assert_empty(&self) {
        eventually("no key is left", || {
            self.nodes.iter().all(|node| node.keys() == 0)
        });
    }

    fn pause(&self) {
        for node in &self.nodes {
            node.pause().unwrap();
        }
    }

    fn resume(&self) {
        for node in &self.nodes {
            node.resume().unwrap();
        }
    }
}

/// Waits until `is_so` returns `true`. Looks often at first and then rarely, so a state that lasts only a moment may be
/// missed.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::now().saturating_add(PATIENCE);
    let mut looks = 0;
    while !is_so() {
        assert!(clock::now() < end, "not in time: {what}");
        looks += 1;
        match looks < LOOKS_OFTEN {
            true => thread::yield_now(),
            false => thread::sleep(MS),
        }
    }
}

/// How many times a test looks often.
const LOOKS_OFTEN: u32 = 1_000;

/// The result is dead when the I/O thread and everything else that uses the engine is gone.
fn shared_of(redlock: &Redlock) -> Weak<Shared> {
    Arc::downgrade(&redlock.handle.shared)
}

fn load(redlock: &Redlock) -> Load {
    redlock.shared().enter().unwrap().engine.load()
}

/// Wakes a thread, and records it.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Takes the wire, like a thread that moves bytes and is then never scheduled again.
fn stall(redlock: &Redlock) -> Stalled<'_> {
    let mut wire = None;
    eventually("the wire is free", || {
        let mut section = redlock.shared().enter().unwrap();
        wire = section.roles.wire.take();
        wire.is_some()
    });
    Stalled {
        shared: redlock.shared(),
        wire,
    }
}

/// The thread continues when this is dropped.
struct Stalled<'a> {
    shared: &'a Shared,
    wire: Option<Box<Wire>>,
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        if let Ok(mut section) = self.shared.enter() {
            section.put_back(self.wire.take().unwrap());
            section.ask();
            drop(self.shared.move_bytes(section, Moves::All));
        }
    }
}

/// Returns `true` if the I/O thread waits for the descriptor without the poll.
fn is_watching(redlock: &Redlock) -> bool {
    let section = redlock.shared().enter().unwrap();
    matches!(section.roles.io_thread, IoThread::Watching(_))
}

/// Breaks the engine of `redlock`, as a bug in it would.
fn break_engine(redlock: &Redlock) {
    let shared = redlock.shared();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _section = shared.enter().unwrap();
        panic!("expected: the story of a test");
    }));
    assert!(broken.is_err());
}

/// Polls all of them as one task.
async fn all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut open: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        open.retain_mut(|future| future.as_mut().poll(context).is_pending());
        match open.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Polls a future once. It wakes nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future again only after it was woken.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let end = clock::now().saturating_add(PATIENCE);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        while !unpark.1.swap(false, Ordering::SeqCst) {
            let left = end.saturating_since(clock::now());
            assert!(!left.is_zero(), "the task was not woken");
            thread::park_timeout(left);
        }
    }
}

/// Takes a lock that ends soon: after `ttl`, or later if that is too short for this machine.
fn short_lock(
    redlock: &Redlock,
    name: &str,
    mut ttl: Duration,
    also: fn(LockOptions) -> LockOptions,
) -> LockGuard {
    loop {
        match redlock.lock_with(name, &also(LockOptions::new(ttl))) {
            Err(LockError::TooSlow(_)) if ttl < LONG => ttl *= 2,
            other => return other.unwrap(),
        }
    }
}

/// A task that is polled inside its waker.
struct AtOnce(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl AtOnce {
    fn begin(task: impl Future<Output = ()> + Send + 'static) {
        Arc::new(Self(Mutex::new(Some(Box::pin(task))))).wake();
    }
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut task = self.0.lock().unwrap();
        if let Some(future) = task.as_mut()
            && future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
        {
            *task = None;
        }
    }
}
