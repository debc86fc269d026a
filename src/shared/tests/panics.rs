//! Panics: of the engine, of wakers, of callers that hold a guard.

use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::error::{ExtendError, LockError, UnlockError};

/// The engine breaks in a section, or at the end of one, when it is asked for its next timer.
#[test]
fn a_broken_engine_is_reported_to_every_caller() {
    let at_its_end = |redlock: &Redlock| {
        let broken = catch_unwind(AssertUnwindSafe(|| {
            redlock.shared().enter().unwrap().breaks_at_its_end = true;
        }));
        assert!(broken.is_err());
    };
    for breaks in [break_engine as fn(&Redlock), at_its_end] {
        let (_world, redlock) = World::start();
        let mut held = redlock.lock("held", LONG).unwrap();
        let (unlocked, kept) = (
            redlock.lock("unlocked", LONG).unwrap(),
            redlock.lock("kept", LONG).unwrap(),
        );
        let shared = shared_of(&redlock);
        let (thread, task) = (held.lost(), kept.lost());
        thread::scope(|scope| {
            let callers = [0; 3].map(|_| scope.spawn(|| redlock.lock("held", LONG)));
            let future = redlock.lock_async("held", LONG);
            let future = scope.spawn(move || block_on(future));
            let losing = scope.spawn(move || thread.wait(PATIENCE));
            breaks(&redlock);
            for caller in callers {
                assert!(matches!(caller.join().unwrap(), Err(LockError::Closed)));
            }
            assert!(matches!(future.join().unwrap(), Err(LockError::Closed)));
            assert!(losing.join().unwrap());
        });
        block_on(task);
        assert!(matches!(redlock.lock("b", LONG), Err(LockError::Closed)));
        let refused = block_on(redlock.lock_async("b", LONG));
        assert!(matches!(refused, Err(LockError::Closed)));
        assert!(matches!(held.extend(LONG), Err(ExtendError::Closed)));
        assert!(matches!(unlocked.unlock(), Err(UnlockError::Closed)));
        let lock = kept.into_lock();
        assert!(redlock.adopt(lock).lost().is_lost());
        drop((held, redlock));
        eventually("everything has ended", || shared.upgrade().is_none());
    }
}

/// "Nothing has changed" and "no change will be reported" are different answers.
#[test]
fn a_watch_of_a_broken_handle_is_closed() {
    let (_world, redlock) = World::start();
    let mut watch = redlock.watch("a").unwrap();
    assert!(watch.next(PATIENCE).is_some_and(|told| told.is_free()));
    assert!(watch.next(Duration::from_millis(20)).is_none());
    assert!(!watch.is_closed());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| watch.next(Duration::MAX));
        break_engine(&redlock);
        assert!(waiting.join().unwrap().is_none());
    });
    assert!(watch.is_closed());
    assert!(watch.next(Duration::MAX).is_none());
    assert!(block_on(watch.changed()).is_none());
}

/// Nothing that a user still has from the handle shows the nodes or the locks. The other cases are in
/// `tests/it/secrets.rs`, where no test can break an engine.
#[test]
fn a_broken_handle_shows_no_secret() {
    let world = World::new();
    let urls = world.nodes.iter().map(EmbeddedNode::url);
    let urls = urls.map(|url| url.replace("redis://", "redis://default:zilpzalp@"));
    let redlock = Builder::default().nodes(urls).build().unwrap();
    let guard = redlock.lock("held", LONG).unwrap();
    let token = &guard.token().as_bytes()[..4];
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let decimal = format!("{token:?}");
    let decimal = decimal.trim_matches(['[', ']']);
    let (lost, open) = (guard.lost(), redlock.lock_async("held", LONG));
    break_engine(&redlock);
    let refused = redlock.lock("b", LONG).unwrap_err();
    for shown in [
        format!("{redlock:?} {guard:?} {lost:?} {open:?} {refused:?} {refused}"),
        format!("{:?}", guard.unlock().unwrap_err()),
        format!("{:?}", shared_of(&redlock).upgrade().unwrap()),
    ] {
        for secret in ["zilpzalp", &hex, decimal] {
            assert!(!shown.contains(secret), "it would be in the log now");
        }
    }
}

struct Holds(Mutex<Option<Acquiring>>);

impl Wake for Holds {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().expect("no thread panics with it").take());
    }
}

/// The I/O thread wakes a task, and that drops the last handle there.
#[test]
fn the_last_handle_may_go_on_the_thread_that_it_ends() {
    let world = World::new();
    for _ in 0..20 {
        let redlock = world.redlock();
        let shared = shared_of(&redlock);
        let mut future = redlock.lock_async("a", LONG);
        let other = redlock.lock_async("b", LONG);
        let holder = Arc::new(Holds(Mutex::new(Some(other))));
        let waker = Waker::from(Arc::clone(&holder));
        let mut context = Context::from_waker(&waker);
        // This thread drops the polled future at any time. The thread that wakes drops the one in the waker.
        let polled = Pin::new(&mut future).poll(&mut context);
        drop(redlock);
        if let Poll::Ready(guard) = polled {
            drop(guard.unwrap());
        }
        drop(future);
        drop(waker);
        drop(holder);
        eventually("the thread has ended", || shared.upgrade().is_none());
        world.assert_empty();
    }
}

struct Blocks {
    entered: AtomicBool,
    gate: Mutex<()>,
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.entered.store(true, Ordering::Relaxed);
        drop(self.gate.lock().expect("no thread panics with it"));
    }
}

/// An executor may drop its tasks while it holds the queue that their wakers need.
#[test]
fn the_last_handle_may_be_dropped_by_a_thread_that_a_waker_waits_for() {
    let (world, redlock) = World::start();
    let shared = shared_of(&redlock);
    let blocks = Arc::new(Blocks {
        entered: false.into(),
        gate: Mutex::new(()),
    });
    let gate = blocks.gate.lock().unwrap();
    let waker = Waker::from(Arc::clone(&blocks));
    let mut future = Box::pin(redlock.lock_async("a", LONG));
    let mut context = Context::from_waker(&waker);
    world.pause();
    assert!(future.as_mut().poll(&mut context).is_pending());
    world.resume();
    eventually("the I/O thread calls the waker", || {
        blocks.entered.load(Ordering::Relaxed)
    });
    let guard = redlock.lock("b", LONG).unwrap();
    let dropping = thread::spawn(move || drop((future, guard, redlock)));
    eventually("the last drop returns", || dropping.is_finished());
    world.assert_empty();
    assert!(shared.upgrade().is_some(), "the thread is still held up");
    drop(gate);
    eventually("the thread has ended", || shared.upgrade().is_none());
}

/// The payload of a panic of a waker. It panics again when it is dropped.
struct PanicsTwice(AtomicBool);

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("expected: the second panic of a waker"));
    }
}

impl Wake for PanicsTwice {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new(PanicsWhenDropped));
    }
}

#[test]
fn what_a_waker_panics_with_may_panic_again() {
    let (world, redlock) = World::start();
    let held = redlock.lock("a", LONG).unwrap();
    let panics = Arc::new(PanicsTwice(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&panics));
    let mut task = Box::pin(redlock.lock_async("a", LONG));
    let mut context = Context::from_waker(&waker);
    assert!(task.as_mut().poll(&mut context).is_pending());
    held.unlock().unwrap();
    eventually("it is called", || panics.0.load(Ordering::SeqCst));
    eventually("it has panicked", || Arc::strong_count(&panics) == 2);
    drop(block_on(task).unwrap());
    drop(block_on(redlock.lock_async("b", LONG)).unwrap());
    world.assert_empty();
}
