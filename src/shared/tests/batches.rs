//! Many tasks are woken at once, and the first of their wakers does something in between.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use super::*;
use crate::error::LockError;
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

/// A world in which the I/O thread serves, because somebody waits for a lock that is held.
struct Scene {
    redlock: Redlock,
    _held: LockGuard,
    waiting: Pin<Box<Acquiring>>,
    _world: World,
}

impl Scene {
    fn new() -> Self {
        let world = World::new();
        let redlock = world.redlock();
        let held = redlock.lock("held", LONG).unwrap();
        let waiting = Box::pin(redlock.lock_async("held", LONG));
        Self {
            redlock,
            _held: held,
            waiting,
            _world: world,
        }
    }

    /// Lets the I/O thread wake the whole `batch` at once. None of its tasks is polled again.
    fn wake_at_once(&mut self, batch: &Arc<Batch>) -> Vec<Pin<Box<Acquiring>>> {
        let redlock = self.redlock.clone();
        let engaged = stall(&redlock);
        // What they ask for is refused, but only once it is read.
        let mut tasks: Vec<_> = (0..TASKS)
            .map(|_| Box::pin(redlock.lock_async("never", Duration::MAX)))
            .collect();
        for task in &mut tasks {
            let waker = Waker::from(Arc::new(Task(Arc::clone(batch))));
            let mut context = Context::from_waker(&waker);
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
        self.poll_waiting();
        drop(engaged);
        tasks
    }

    fn poll_waiting(&mut self) {
        // Of the same kind of executor as a batch.
        let waker = Waker::from(Arc::new(Task(Batch::new(|| {}))));
        let mut context = Context::from_waker(&waker);
        assert!(self.waiting.as_mut().poll(&mut context).is_pending());
    }
}

#[test]
fn nobody_depends_on_another_task_while_somebody_waits() {
    let mut scene = Scene::new();
    let batch = Batch::new(|| {});
    let _tasks = scene.wake_at_once(&batch);
    batch.assert_all_are_woken();
}

/// The letters of the others never come.
#[test]
fn a_letter_is_read_while_others_are_expected_for_ever() {
    let mut scene = Scene::new();
    let redlock = scene.redlock.clone();
    let slot = Arc::new(Slot::new());
    let letter = Letter::Look {
        slot: Arc::clone(&slot),
    };
    let batch = Batch::new(move || assert!(redlock.hub().mailbox.put(letter).is_ok()));
    let _tasks = scene.wake_at_once(&batch);
    eventually("it is read", || !slot.is_pending());
    batch.assert_all_are_woken();
}

/// The I/O thread is held up in the first waker, and another thread goes on with the others.
#[test]
fn a_waker_that_blocks_holds_up_no_other_task() {
    let mut scene = Scene::new();
    let gate = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&gate);
    let batch = Batch::new(move || eventually("it goes on", || opened.load(Ordering::SeqCst)));
    let _tasks = scene.wake_at_once(&batch);
    batch.assert_all_are_woken();
    gate.store(true, Ordering::SeqCst);
}

#[test]
fn a_task_that_is_polled_wakes_those_that_the_io_thread_does_not_come_to() {
    let mut scene = Scene::new();
    let redlock = scene.redlock.clone();
    let batch = Batch::new(|| {});
    // More threads than may be are held up, so that nobody but this one calls wakers.
    for _ in 0..100 {
        redlock.hub().standby.pretend_held_up();
    }
    let _tasks = scene.wake_at_once(&batch);
    eventually("they are there", || redlock.hub().relay.len() == TASKS);
    scene.poll_waiting();
    assert_eq!(batch.woken.load(Ordering::SeqCst), TASKS);
}

/// If this thread is held up for a few milliseconds, another one has seen to the tasks before the
/// engine is taken, and nothing was shown: then once more.
#[test]
fn all_are_woken_if_a_caller_takes_the_engine_meanwhile() {
    let shown = (0..20).any(|_| takes_the_engine_meanwhile());
    assert!(shown, "the engine was never had in time");
}

/// Returns `true` if the engine was taken while the first waker was being called.
fn takes_the_engine_meanwhile() -> bool {
    let mut scene = Scene::new();
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let batch = Batch::new(move || eventually("it goes on", || seen.load(Ordering::SeqCst)));
    let _tasks = scene.wake_at_once(&batch);
    eventually("the first is woken", || {
        batch.woken.load(Ordering::SeqCst) != 0
    });
    let mut engaged = None;
    eventually("it is taken, or another thread has woken all", || {
        if let Reach::Free(taken) = scene.redlock.hub().engage() {
            engaged = Some(taken);
        }
        engaged.is_some() || batch.woken.load(Ordering::SeqCst) == TASKS
    });
    over.store(true, Ordering::SeqCst);
    batch.assert_all_are_woken();
    engaged.is_some()
}

#[test]
fn all_are_woken_if_the_engine_breaks_meanwhile() {
    let mut scene = Scene::new();
    let redlock = scene.redlock.clone();
    let slot = Arc::new(Slot::new());
    let batch = Batch::new(move || {
        let letter = Letter::Break { slot };
        assert!(redlock.hub().mailbox.put(letter).is_ok());
    });
    let _tasks = scene.wake_at_once(&batch);
    batch.assert_all_are_woken();
    assert!(matches!(block_on(scene.waiting), Err(LockError::Closed)));
}
