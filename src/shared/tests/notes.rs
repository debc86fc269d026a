//! Requests that are only noted. Here the test sets out the places, and no thread gathers.

use super::*;
use crate::error::{InvalidRequest, UnlockError};

/// Returns the number of open operations, without a section, which would begin what is noted.
fn open(redlock: &Redlock) -> usize {
    redlock.shared().core.lock().engine.load().rounds
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets the threads and tasks of `act` note up to so many requests, and then begins them.
fn noting<T>(redlock: &Redlock, places: usize, act: impl FnOnce() -> T) -> T {
    let shared = redlock.shared();
    shared.notes.set_out(places);
    let done = act();
    shared.notes.gather(&shared.relay);
    shared.flush(shared.enter().unwrap());
    done
}

#[test]
fn a_note_is_begun_by_the_next_section() {
    let (world, redlock) = World::start();
    let mut taken = redlock.lock_async("a", LONG);
    let mut set = redlock.lock_all_async(["b", "c"], LONG);
    let mut third = redlock.lock_async("d", LONG);
    noting(&redlock, 2, || {
        assert!(poll(&mut taken).is_pending() && poll(&mut set).is_pending());
        assert_eq!(open(&redlock), 0);
        assert!(poll(&mut third).is_pending(), "there is no place for it");
        assert_eq!(open(&redlock), 3, "none overtakes a note");
    });
    let (taken, set, third) = (block_on(taken), block_on(set), block_on(third));
    let (taken, set, _third) = (taken.unwrap(), set.unwrap(), third.unwrap());
    assert_eq!(set.resources().len(), 2);
    let mut release = Box::pin(taken.unlock_async());
    noting(&redlock, 1, || {
        assert!(poll(&mut release).is_pending());
        assert_eq!((open(&redlock), world.copies("a")), (0, 3));
    });
    assert_ne!(block_on(release).unwrap().deleted, 0);
    world.assert_gone("a");
}

#[test]
fn a_noted_request_that_is_invalid_is_refused() {
    let (_world, redlock) = World::start();
    let mut empty = redlock.lock_async("", LONG);
    noting(&redlock, 1, || assert!(poll(&mut empty).is_pending()));
    let refused = block_on(empty).unwrap_err();
    assert!(
        matches!(
            refused,
            LockError::Invalid(InvalidRequest::EmptyResource { .. })
        ),
        "{refused:?}"
    );
}

#[test]
fn a_noted_future_that_is_dropped_leaves_no_key() {
    let (world, redlock) = World::start();
    let mut dropped = redlock.lock_async("a", LONG);
    redlock.shared().notes.set_out(2);
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(open(&redlock), 0);
    redlock.lock("a", LONG).unwrap().unlock().unwrap();
    world.assert_empty();
}

/// Nobody begins what it has noted, as if a waker held up the I/O thread.
#[test]
fn a_thread_looks_after_its_own_note_before_long() {
    let (world, redlock) = World::start();
    redlock.shared().notes.set_out(3);
    let guard = redlock.lock("a", LONG).unwrap();
    assert_ne!(guard.unlock().unwrap().deleted, 0);
    world.assert_empty();
}

#[test]
fn a_broken_engine_refuses_what_is_noted() {
    let (_world, redlock) = World::start();
    let held = redlock.lock("held", LONG).unwrap();
    redlock.shared().notes.set_out(3);
    let (mut task, mut release) = (redlock.lock_async("a", LONG), Box::pin(held.unlock_async()));
    assert!(poll(&mut task).is_pending() && poll(&mut release).is_pending());
    thread::scope(|scope| {
        let thread = scope.spawn(|| redlock.lock("b", LONG));
        let shared = redlock.shared();
        // Not by a section, which would begin what is noted.
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let _holding = crate::shared::serve::Holding::new(shared);
            panic!("expected: the story of this test");
        }));
        assert!(broken.is_err());
        assert!(matches!(thread.join().unwrap(), Err(LockError::Closed)));
    });
    assert!(matches!(block_on(task), Err(LockError::Closed)));
    assert!(matches!(block_on(release), Err(UnlockError::Closed)));
}

/// Counts its wake-ups.
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_relay_wakes_one_task_at_once_and_each_of_the_others_once() {
    for gathers in [false, true] {
        let (_world, redlock) = World::start();
        let relay = &redlock.shared().relay;
        let counts = Arc::new(Counts(AtomicUsize::new(0)));
        let mut tasks = alloc::vec![Waker::from(Arc::clone(&counts)); 20];
        relay.start(&mut tasks, &mut Vec::new());
        let woken = || counts.0.load(Ordering::SeqCst);
        assert_eq!((woken(), tasks.len()), (1, 0));
        match gathers {
            // No task is polled, so the I/O thread wakes them.
            true => drop(redlock.shared().notes.gather(relay)),
            false => drop(poll(&mut redlock.lock_async("a", LONG))),
        }
        assert_eq!(woken(), 20);
        relay.run();
        assert_eq!(woken(), 20);
    }
}
