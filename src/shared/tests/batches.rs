//! Many tasks are woken at once, and the first of their wakers acts in between.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use super::*;
use crate::error::LockError;

/// The number of tasks that are woken at once.
const TASKS: usize = 20;

type Act = Box<dyn FnOnce() + Send>;

/// Counts wakes. The first one also acts.
struct Batch {
    woken: AtomicUsize,
    first: Mutex<Option<Act>>,
}

/// One task of the batch. Tasks differ by their wakers.
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

/// A world in which the I/O thread serves, because a thread waits for a held lock.
struct Scene {
    redlock: Redlock,
    _held: LockGuard,
    waiting: Pin<Box<Acquiring>>,
    world: World,
}

impl Scene {
    fn new() -> Self {
        let (world, redlock) = World::start();
        let held = redlock.lock("held", LONG).unwrap();
        let waiting = Box::pin(redlock.lock_async("held", LONG));
        Self {
            redlock,
            _held: held,
            waiting,
            world,
        }
    }

    /// Lets the I/O thread wake the whole `batch` at once. None of its tasks is polled again.
    fn wake_at_once(&mut self, batch: &Arc<Batch>) -> Vec<Pin<Box<Acquiring>>> {
        let redlock = self.redlock.clone();
        let stalled = stall(&redlock);
        let mut tasks: Vec<_> = (0..TASKS)
            .map(|task| Box::pin(redlock.lock_async(task.to_string(), LONG)))
            .collect();
        for task in &mut tasks {
            let waker = Waker::from(Arc::new(Task(Arc::clone(batch))));
            let mut context = Context::from_waker(&waker);
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
        self.poll_waiting();
        drop(stalled);
        tasks
    }

    /// Lets the I/O thread wake a batch whose first waker does this, and asserts that all are woken.
    fn assert_all_are_woken(&mut self, first: impl FnOnce() + Send + 'static) {
        let batch = Batch::new(first);
        let _tasks = self.wake_at_once(&batch);
        batch.assert_all_are_woken();
    }

    fn poll_waiting(&mut self) {
        // It has the same kind of executor as a batch.
        let waker = Waker::from(Arc::new(Task(Batch::new(|| {}))));
        let mut context = Context::from_waker(&waker);
        assert!(self.waiting.as_mut().poll(&mut context).is_pending());
    }
}

/// A waker begins an operation, like an executor that polls a task inside its waker.
#[test]
fn a_waker_may_begin_an_operation() {
    let mut scene = Scene::new();
    let redlock = scene.redlock.clone();
    let begun = Arc::new(Mutex::new(None));
    let here = Arc::clone(&begun);
    scene.assert_all_are_woken(move || {
        let mut future = Box::pin(redlock.lock_async("begun", LONG));
        let polled = poll_once(&mut future);
        *here.lock().unwrap() = Some((future, polled));
    });
    let (future, polled) = begun.lock().unwrap().take().unwrap();
    match polled {
        Poll::Ready(guard) => drop(guard.unwrap()),
        Poll::Pending => drop(block_on(future).unwrap()),
    }
}

/// A waker drops a guard, and the drop writes the release.
#[test]
fn a_waker_may_drop_a_guard() {
    let mut scene = Scene::new();
    let guard = scene.redlock.lock("dropped", LONG).unwrap();
    scene.assert_all_are_woken(move || drop(guard));
    scene.world.assert_gone("dropped");
}

#[test]
fn all_are_woken_if_a_thread_takes_the_wire_meanwhile() {
    let mut scene = Scene::new();
    let taken = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&taken);
    let batch = Batch::new(move || eventually("it is taken", || seen.load(Ordering::SeqCst)));
    let _tasks = scene.wake_at_once(&batch);
    eventually("the first is woken", || {
        batch.woken.load(Ordering::SeqCst) != 0
    });
    let stalled = stall(&scene.redlock);
    taken.store(true, Ordering::SeqCst);
    batch.assert_all_are_woken();
    drop(stalled);
}

#[test]
fn all_are_woken_if_the_engine_breaks_meanwhile() {
    let mut scene = Scene::new();
    let redlock = scene.redlock.clone();
    scene.assert_all_are_woken(move || break_engine(&redlock));
    assert!(matches!(block_on(scene.waiting), Err(LockError::Closed)));
}
