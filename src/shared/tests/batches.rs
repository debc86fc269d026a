//! Many tasks are woken at once, and the first of their wakers does something in between.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use super::*;
use crate::error::LockError;
use crate::shared::hub::{Engaged, Reach};
use crate::shared::mailbox::Letter;
use crate::shared::slot::Slot;

/// How many are woken at once.
const TASKS: usize = 20;

type Act = Box<dyn FnOnce() + Send>;

/// Counts wakes. The first one also acts.
struct Batch {
    woken: AtomicUsize,
    first: Mutex<Option<Act>>,
}

/// One task of it: tasks are told apart by their wakers.
struct Task(Arc<Batch>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.woken.fetch_add(1, Ordering::SeqCst);
        let act = self.0.first.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

impl Batch {
    fn new(first: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicUsize::new(0),
            first: Mutex::new(Some(Box::new(first))),
        })
    }

    #[track_caller]
    fn assert_all_are_woken(&self) {
        eventually("all are woken", || {
            self.woken.load(Ordering::SeqCst) == TASKS
        });
    }
}

fn stall(redlock: &Redlock) -> Engaged<'_> {
    let mut engaged = None;
    eventually("the engine is free", || {
        if let Reach::Free(taken) = redlock.hub().engage() {
            engaged = Some(taken);
        }
        engaged.is_some()
    });
    engaged.unwrap()
}

/// Lets the I/O thread wake the whole `batch` at once, while `waiting` keeps it serving. None of the
/// tasks is polled again by itself.
fn wake_at_once(
    redlock: &Redlock,
    batch: &Arc<Batch>,
    waiting: &mut Pin<Box<Acquiring>>,
) -> Vec<Pin<Box<Acquiring>>> {
    let engaged = stall(redlock);
    // What they ask for is refused, but only once it is read.
    let mut tasks: Vec<_> = (0..TASKS)
        .map(|_| Box::pin(redlock.lock_async("never", Duration::MAX)))
        .collect();
    for task in &mut tasks {
        let waker = Waker::from(Arc::new(Task(Arc::clone(batch))));
        let mut context = Context::from_waker(&waker);
        assert!(task.as_mut().poll(&mut context).is_pending());
    }
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(engaged);
    tasks
}

#[test]
fn nobody_depends_on_another_task_while_somebody_waits() {
    let world = World::new();
    let redlock = world.redlock();
    let held = redlock.lock("held", LONG).unwrap();
    let mut waiting = Box::pin(redlock.lock_async("held", LONG));
    let batch = Batch::new(|| {});
    let _tasks = wake_at_once(&redlock, &batch, &mut waiting);
    batch.assert_all_are_woken();
    drop(held);
}

/// The letters of the others never come.
#[test]
fn a_letter_is_read_while_others_are_expected_for_ever() {
    let world = World::new();
    let redlock = world.redlock();
    let held = redlock.lock("held", LONG).unwrap();
    let mut waiting = Box::pin(redlock.lock_async("held", LONG));
    let clone = redlock.clone();
    let slot = Arc::new(Slot::new());
    let letter = Letter::Look {
        slot: Arc::clone(&slot),
    };
    let batch = Batch::new(move || assert!(clone.hub().mailbox.put(letter).is_ok()));
    let _tasks = wake_at_once(&redlock, &batch, &mut waiting);
    eventually("it is read", || !slot.is_pending());
    batch.assert_all_are_woken();
    drop(held);
}

#[test]
fn a_task_that_is_polled_wakes_those_that_the_io_thread_does_not_come_to() {
    let world = World::new();
    let redlock = world.redlock();
    let held = redlock.lock("held", LONG).unwrap();
    let mut waiting = Box::pin(redlock.lock_async("held", LONG));
    let gate = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&gate);
    let batch = Batch::new(move || eventually("it goes on", || closed.load(Ordering::SeqCst)));
    let _tasks = wake_at_once(&redlock, &batch, &mut waiting);
    eventually("the first is woken", || {
        batch.woken.load(Ordering::SeqCst) != 0
    });
    assert_eq!(batch.woken.load(Ordering::SeqCst), 1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(batch.woken.load(Ordering::SeqCst), TASKS);
    gate.store(true, Ordering::SeqCst);
    drop(held);
}

/// The I/O thread has no reason to come back to those that it left to others, except this one.
#[test]
fn all_are_woken_if_a_caller_takes_the_engine_meanwhile() {
    let world = World::new();
    let redlock = world.redlock();
    let held = redlock.lock("held", LONG).unwrap();
    let mut waiting = Box::pin(redlock.lock_async("held", LONG));
    let taken = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&taken);
    let batch = Batch::new(move || eventually("it is taken", || seen.load(Ordering::SeqCst)));
    let _tasks = wake_at_once(&redlock, &batch, &mut waiting);
    eventually("the first is woken", || {
        batch.woken.load(Ordering::SeqCst) != 0
    });
    let engaged = stall(&redlock);
    taken.store(true, Ordering::SeqCst);
    batch.assert_all_are_woken();
    drop(engaged);
    drop(held);
}

#[test]
fn all_are_woken_if_the_engine_breaks_meanwhile() {
    let world = World::new();
    let redlock = world.redlock();
    let _held = redlock.lock("held", LONG).unwrap();
    let mut waiting = Box::pin(redlock.lock_async("held", LONG));
    let clone = redlock.clone();
    let slot = Arc::new(Slot::new());
    let batch = Batch::new(move || {
        let letter = Letter::Break { slot };
        assert!(clone.hub().mailbox.put(letter).is_ok());
    });
    let _tasks = wake_at_once(&redlock, &batch, &mut waiting);
    batch.assert_all_are_woken();
    assert!(matches!(block_on(waiting), Err(LockError::Closed)));
}
