//! The few stories that count on a real clock: how much goes on while something else is to happen.
//!
//! They are run alone. One that fails there is run once more.

use core::sync::atomic::AtomicUsize;

use super::unserved::tries_before_the_report;
use super::*;

/// It begins when the nodes have been down for long, so that not each attempt tries to connect. It tries for a while
/// before the lock ends, and then in the tick in which it ends: only in a small part of that.
#[test]
fn a_task_that_tries_again_at_once_does_not_delay_the_report_of_a_loss() {
    for waits in [false, true] {
        let [before, late] = tries_before_the_report(waits, 2_000 * MS);
        assert!(
            late < 20 + before / 4,
            "{late} tries, behind {before}, and a task waits: {waits}"
        );
    }
}

/// Each of many wakers takes some time, less than what lets another thread take over.
struct Slow {
    called: AtomicUsize,
    over: AtomicBool,
}

struct SlowTask(Arc<Slow>);

impl Wake for SlowTask {
    fn wake(self: Arc<Self>) {
        self.0.called.fetch_add(1, Ordering::SeqCst);
        if !self.0.over.load(Ordering::SeqCst) {
            thread::sleep(MS);
        }
    }
}

#[test]
fn many_slow_wakers_hold_up_no_thread() {
    const TASKS: usize = 2000;
    let world = World::new();
    let redlock = world.redlock();
    let _held = redlock.lock("held", LONG).unwrap();
    let slow = Arc::new(Slow {
        called: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let begin = |name: &str| {
        let waker = Waker::from(Arc::new(SlowTask(Arc::clone(&slow))));
        let mut task = Box::pin(redlock.lock_async(name, LONG));
        let mut context = Context::from_waker(&waker);
        assert!(task.as_mut().poll(&mut context).is_pending());
        task
    };
    // Tasks wait all the time.
    let _waiting: Vec<_> = (0..4).map(|_| begin("held")).collect();
    let stalled = stall(&redlock);
    let _tasks: Vec<_> = (0..TASKS).map(|task| begin(&task.to_string())).collect();
    drop(stalled);
    eventually("the first is called", || {
        slow.called.load(Ordering::SeqCst) != 0
    });
    redlock.lock("thread", LONG).unwrap().unlock().unwrap();
    let called = slow.called.load(Ordering::SeqCst);
    slow.over.store(true, Ordering::SeqCst);
    assert!(called < TASKS, "the thread has waited for all of them");
}
