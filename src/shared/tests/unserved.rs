//! A thread gives up, or tasks begin operations without end: other callers are served all the same.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use super::*;
use crate::config::LockOptions;
use crate::engine::{Input, NodeState};
use crate::error::LockError;
use crate::shared::roles::{Orders, Owner, Poll as Role, Roles, Wake as Wakes};
use crate::time::Instant;

/// The mutex is held by a thread that offers the poll to a caller, and is stopped until the time of that
/// caller is over.
#[test]
fn an_offer_to_a_caller_that_has_given_up_does_not_hold() {
    let world = World::new();
    let redlock = world.redlock();
    let shared = redlock.shared();
    world.pause();
    let mut section = shared.enter().unwrap();
    while !section.roles.take_poll(false, 0) {
        drop(section);
        thread::yield_now();
        section = shared.enter().unwrap();
    }
    drop(section);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let options = LockOptions::new(LONG).wait(50 * MS);
            redlock.lock_with("a", &options)
        });
        eventually("it is asked for", || {
            shared.enter().unwrap().callers.waiting() == 1
        });
        let mut section = shared.enter().unwrap();
        section.pass_on_poll();
        eventually("it has given up", || caller.is_finished());
        assert!(matches!(
            caller.join().unwrap(),
            Err(LockError::NoQuorum(_))
        ));
        drop(section);
    });
    world.resume();
    let options = LockOptions::new(LONG).wait(PATIENCE);
    redlock.lock_with("b", &options).unwrap().unlock().unwrap();
    world.assert_empty();
}

/// Another thread has read the answer for a caller that sleeps in the poll. The caller is woken at once, and
/// not by the next timer.
#[test]
fn a_caller_does_not_sleep_in_the_poll_with_its_outcome() {
    let world = World::new();
    let redlock = world.redlock();
    let shared = redlock.shared();
    world.pause();
    thread::scope(|scope| {
        let caller = scope.spawn(|| redlock.try_lock("a", LONG));
        let mut asleep = None;
        eventually("it sleeps in the poll", || {
            let section = shared.enter().unwrap();
            let sleeps = matches!(section.roles.poll, Role::Asleep(Owner::Caller, _));
            asleep = (sleeps && !section.roles.wire_is_taken).then_some(section);
            asleep.is_some()
        });
        let mut section = asleep.unwrap();
        assert!(section.roles.take_wire());
        let mut wire = section.wire.take().unwrap();
        let late = clock::now().saturating_add(PATIENCE);
        section.engine.handle(late, Input::Tick);
        section.exchange(&mut wire);
        section.put_back(wire);
        assert!(section.leave().descriptor, "it is woken");
        shared.waker.wake().unwrap();
        drop(section);
        assert!(matches!(
            caller.join().unwrap(),
            Err(LockError::NoQuorum(_))
        ));
    });
    world.resume();
}

/// A caller that waits in its slot enters at the time of the next timer, and the thread that sleeps in the
/// poll has not woken yet. It is woken then, and the caller does not come again and again until it wakes.
#[test]
fn a_caller_that_enters_for_a_timer_wakes_the_one_in_the_poll() {
    let world = World::new();
    let redlock = world.redlock();
    let shared = redlock.shared();
    world.pause();
    thread::scope(|scope| {
        let caller = scope.spawn(|| redlock.lock_with("a", &LockOptions::new(LONG).wait(300 * MS)));
        let mut asleep = None;
        eventually("it sleeps in the poll, for long enough", || {
            let section = shared.enter().unwrap();
            let late = clock::now().saturating_add(50 * MS);
            let sleeps =
                matches!(section.roles.poll, Role::Asleep(Owner::Caller, until) if late < until);
            asleep = (sleeps && !section.roles.wire_is_taken).then_some(section);
            asleep.is_some()
        });
        let mut section = asleep.unwrap();
        let options = LockOptions::new(LONG).wait(10 * MS);
        let (engine, now) = (&mut section.engine, clock::now());
        let request = crate::engine::Request::new(b"b", &options);
        let round = engine.acquire(now, &request).unwrap();
        let mut wire = section.wire.take().unwrap();
        assert!(section.roles.take_wire());
        while section.exchange(&mut wire) {
            wire.run(&shared.registry);
        }
        section.put_back(wire);
        let at = section
            .set_alarm()
            .expect("it is due before the other wakes");
        assert!(!section.leave().descriptor, "the other sleeps on");
        eventually("the timer is due", || at <= clock::now());
        section.roles.end_alarm();
        assert_eq!(section.set_alarm(), None, "it would come again at once");
        assert!(section.leave().descriptor, "the other is woken");
        shared.waker.wake().unwrap();
        section.engine.cancel(clock::now(), round);
        drop(section);
        assert!(caller.join().unwrap().is_err());
    });
    world.resume();
}

/// Calls that need no node look into no poll, however many there are. The I/O thread does not rest because
/// of them: tasks wait for what nodes tell, and for timers.
#[test]
fn calls_that_need_no_node_do_not_keep_the_io_thread_from_looking() {
    let calls = |roles: &mut Roles, look: bool| {
        for _ in 0..3 {
            assert!(roles.take_poll(false, 1));
            if look {
                roles.fall_asleep(Instant::MAX);
                roles.wake_up();
                roles.work = false;
            }
            roles.give_back_poll();
            assert_eq!(roles.leave(0, false, || Instant::MAX), Wakes::default());
        }
    };
    let mut roles = Roles::new();
    for _ in 0..2 {
        calls(&mut roles, true);
        assert_eq!(roles.orders(0, true), Orders::Nap, "they read the answers");
    }
    calls(&mut roles, false);
    assert_eq!(roles.orders(0, true), Orders::Serve);
}

/// A task that is polled where it is woken.
struct AtOnce(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

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

/// Without a node the engine refuses it at once. The I/O thread, on which it is polled, fires timers in
/// between, and reports a loss to another task, whether another task waits all the time or none does.
#[test]
fn a_task_that_tries_again_at_once_does_not_delay_the_report_of_a_loss() {
    for waits in [false, true] {
        let late = tries_before_the_report(waits);
        assert!(late < 20, "{late} tries, and a task waits: {waits}");
    }
}

/// Returns how often a task that is polled on the I/O thread has tried to lock in vain between the end of
/// a lock and the report of its loss.
fn tries_before_the_report(waits: bool) -> usize {
    let world = World::new();
    let redlock = world.redlock();
    // On a busy machine the waker would be taken for one that blocks, and would go on beside the timers.
    redlock.shared().wakers.pretend_standby();
    let [held, first, guard] = [("held", LONG), ("first", 2000 * MS), ("lost", 2300 * MS)]
        .map(|(name, ttl)| redlock.lock(name, ttl).unwrap());
    let mut waiting = waits.then(|| Box::pin(redlock.lock_async("held", LONG)));
    if let Some(waiting) = &mut waiting {
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    for node in &world.nodes {
        node.stop().unwrap();
    }
    let is_down = |node: &crate::NodeStatus| matches!(node.state, NodeState::Down(_));
    eventually("the nodes are down", || redlock.nodes().iter().all(is_down));
    let (end, lost) = (guard.valid_until(), guard.lost());
    let tries = Arc::new(AtomicUsize::new(0));
    let is_told = Arc::new(AtomicBool::new(false));
    let begins = first.lost();
    let task = {
        let (redlock, tries, is_told) = (redlock.clone(), Arc::clone(&tries), Arc::clone(&is_told));
        async move {
            begins.await; // It goes on in the waker, which the I/O thread calls.
            while !is_told.load(Ordering::SeqCst) {
                assert!(redlock.try_lock_async("a", LONG).await.is_err());
                tries.fetch_add(usize::from(end <= clock::now()), Ordering::SeqCst);
            }
        }
    };
    let told = Arc::clone(&is_told);
    let watcher = async move {
        lost.await;
        told.store(true, Ordering::SeqCst);
    };
    let tasks: [Pin<Box<dyn Future<Output = ()> + Send>>; 2] = [Box::pin(watcher), Box::pin(task)];
    for task in tasks {
        Arc::new(AtOnce(Mutex::new(Some(task)))).wake();
    }
    assert!(first.is_valid(), "the machine has stopped for two seconds");
    eventually("it is reported", || is_told.load(Ordering::SeqCst));
    drop((held, guard));
    tries.load(Ordering::SeqCst)
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
