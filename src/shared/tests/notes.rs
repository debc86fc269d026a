//! Requests that are only noted. Here the test prepares the places. Meanwhile it keeps the mutex of the engine, so that
//! no other thread begins the noted requests.

use alloc::collections::VecDeque;

use super::*;
use crate::engine::Request;
use crate::error::{InvalidRequest, RequestFault, UnlockError};
use crate::shared::callers::WaitsAs;
use crate::shared::notes::{Asked, Note};
use crate::shared::relay::Relay;
use crate::shared::slot::Slot;
use crate::shared::state::Core;
use crate::time::Instant;

/// Lets tasks note requests, for which there are `places`, and asserts that none begins. `is_pending` polls the tasks.
fn noting(redlock: &Redlock, places: usize, is_pending: impl FnOnce() -> bool) {
    noting_and(redlock, places, is_pending, |_, _| {});
}

/// Like `noting`. Then calls `after`.
fn noting_and(
    redlock: &Redlock,
    places: usize,
    is_pending: impl FnOnce() -> bool,
    after: impl FnOnce(&mut Core, &Notes),
) {
    let shared = redlock.shared();
    let mut core = shared.core.lock();
    let before = core.engine.load().rounds;
    shared.notes.set_out(places, false);
    assert!(is_pending());
    assert_eq!(core.engine.load().rounds, before);
    after(&mut core, &shared.notes);
    drop(core);
    shared.notes.gather(&shared.relay, Instant::MAX);
    if let Ok(section) = shared.enter() {
        assert!(shared.notes.is_empty());
        shared.flush(section);
    }
}

#[test]
fn a_note_is_begun_by_the_next_section() {
    let (world, redlock) = World::start();
    let mut one = redlock.lock_async("a", LONG);
    let mut set = redlock.lock_all_async(["b", "c"], LONG);
    noting(&redlock, 3, || {
        poll_once(&mut one).is_pending() && poll_once(&mut set).is_pending()
    });
    let (one, set) = (block_on(one).unwrap(), block_on(set).unwrap());
    assert_eq!((one.resource(), set.resources().len()), (&b"a"[..], 2));
    let mut release = Box::pin(one.unlock_async());
    let is_pending = || poll_once(&mut release).is_pending();
    noting_and(&redlock, 1, is_pending, |_, _| {
        assert_ne!(world.copies("a"), 0)
    });
    assert_ne!(block_on(release).unwrap().deleted, 0);
    world.assert_gone("a");
}

#[test]
fn a_request_that_finds_no_place_does_not_overtake_a_note() {
    let (_world, redlock) = World::start();
    let (mut first, mut second) = (redlock.lock_async("a", LONG), redlock.lock_async("a", LONG));
    let is_pending = || poll_once(&mut first).is_pending();
    noting_and(&redlock, 1, is_pending, |_, notes| {
        assert!(!notes.has_place())
    });
    assert!(poll_once(&mut second).is_pending());
    let held = block_on(first).unwrap();
    assert!(poll_once(&mut second).is_pending());
    drop(held);
    block_on(second).unwrap().unlock().unwrap();
}

#[test]
fn a_noted_request_that_is_invalid_is_refused() {
    let (_world, redlock) = World::start();
    let mut empty = redlock.lock_async("", LONG);
    noting(&redlock, 1, || poll_once(&mut empty).is_pending());
    let expected = InvalidRequest(RequestFault::EmptyResource { index: None });
    let refused = poll_once(&mut empty);
    assert_matches!(refused, Poll::Ready(Err(LockError::Invalid(why))) if why == expected);
}

#[test]
fn a_noted_future_that_is_dropped_leaves_no_key() {
    let (world, redlock) = World::start();
    let mut dropped = redlock.lock_async("a", LONG);
    noting(&redlock, 2, || poll_once(&mut dropped).is_pending());
    drop(dropped);
    redlock.lock("a", LONG).unwrap().unlock().unwrap();
    world.assert_empty();
}

/// A waker that blocks would delay the I/O thread, which has to begin the noted requests.
#[test]
fn a_thread_notes_nothing_while_wakers_are_called() {
    let options = LockOptions::new(LONG);
    let note = |waiter| {
        let asked = Asked::acquire(&Request::new(b"a", &options));
        Note::new(&Arc::default(), waiter, asked)
    };
    for (calls_wakers, taken) in [(true, [false, true]), (false, [true, true])] {
        let notes = Notes::default();
        notes.set_out(2, calls_wakers);
        let put = |waiter| notes.put(note(waiter)).is_ok();
        assert_eq!([WaitsAs::Thread, WaitsAs::Task].map(put), taken);
        assert_eq!(notes.has_place(), calls_wakers);
        let mut noted = VecDeque::new();
        notes.take(&mut noted);
        assert_eq!(noted.len(), if calls_wakers { 1 } else { 2 });
    }
}

#[test]
fn a_broken_engine_refuses_what_is_noted() {
    let (_world, redlock) = World::start();
    let held = redlock.lock("held", LONG).unwrap();
    let (mut task, mut release) = (redlock.lock_async("a", LONG), Box::pin(held.unlock_async()));
    let are_pending = || poll_once(&mut task).is_pending() && poll_once(&mut release).is_pending();
    noting_and(&redlock, 3, are_pending, Core::break_down);
    let refused = poll_once(&mut task);
    assert!(matches!(refused, Poll::Ready(Err(LockError::Closed))));
    let refused = poll_once(&mut release);
    assert!(matches!(refused, Poll::Ready(Err(UnlockError::Closed))));
    assert!(!redlock.shared().notes.has_place());
}

/// A waker that counts its wake-ups.
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_relay_wakes_one_task_at_once_and_each_of_the_others_once() {
    let counts = || Arc::new(Counts(AtomicUsize::new(0)));
    let (relay, all, polled) = (Relay::default(), counts(), counts());
    let woken = || [&all, &polled].map(|counts| counts.0.load(Ordering::SeqCst));
    for end in [Relay::run, |relay: &Relay| relay.wake_tasks(Waker::noop())] {
        let [before, polled_before] = woken();
        let own = Waker::from(Arc::clone(&polled));
        let mut tasks = alloc::vec![Waker::from(Arc::clone(&all)); 20];
        tasks.insert(7, own.clone());
        relay.start(&mut tasks);
        assert_eq!((woken()[0] - before, tasks.len()), (1, 0));
        relay.wake_tasks(&own);
        // The task that is polled at this moment is not woken.
        assert_eq!(woken(), [before + 20, polled_before]);
        end(&relay);
    }
    relay.run();
    assert_eq!(woken(), [40, 2]);
}

/// None of the tasks is polled, so each of them would wait for another to wake it.
#[test]
fn a_thread_that_gathers_wakes_whom_no_task_has_woken() {
    let (notes, relay) = (Notes::default(), Relay::default());
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let mut tasks = alloc::vec![Waker::from(Arc::clone(&counts)); 20];
    notes.set_out(20, true);
    relay.start(&mut tasks);
    assert_eq!(counts.0.load(Ordering::SeqCst), 1);
    assert_eq!(notes.gather(&relay, Instant::MAX), 20);
    assert_eq!(counts.0.load(Ordering::SeqCst), 20);
    assert!(!notes.has_place());
}

#[test]
fn a_thread_that_a_relay_wakes_wakes_the_next() {
    let relay = Relay::default();
    let mut threads: Vec<_> = (0..5).map(|_| Arc::<Slot>::default()).collect();
    let all = threads.clone();
    relay.add(&mut threads);
    relay.start(&mut Vec::new());
    let is_left = |slot: &&Arc<Slot>| 1 < Arc::strong_count(slot);
    let left = || all.iter().filter(is_left).count();
    assert_eq!((threads.len(), left()), (0, 3), "two are woken at once");
    assert!(relay.pass_on());
    assert_eq!(left(), 2);
    relay.run();
    assert_eq!(left(), 0);
    assert!(!relay.pass_on());
}
