//! Tasks begin operations without end, or traffic does not end. Other callers are served nevertheless.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::driver::Readiness;
use crate::engine::{Event, Input, NodeState, Output};
use crate::error::LockError;
use crate::shared::roles::{Orders, Owner, Poll as Role, Roles, Wake as Wakes};
use crate::time::Instant;

/// Another thread has read the answer for a caller that sleeps in the poll. The caller is woken at once, and not by the
/// next timer.
#[test]
fn a_caller_does_not_sleep_in_the_poll_with_its_outcome() {
    let (world, redlock) = World::start();
    let shared = redlock.shared();
    world.pause();
    thread::scope(|scope| {
        let caller = scope.spawn(|| redlock.try_lock("a", LONG));
        let mut asleep = None;
        eventually("it sleeps in the poll", || {
            let section = shared.enter().unwrap();
            let sleeps = matches!(section.roles.poll, Role::Asleep(Owner::Caller(_), _));
            asleep = (sleeps && section.roles.wire.is_some()).then_some(section);
            asleep.is_some()
        });
        let mut section = asleep.unwrap();
        let mut wire = section.roles.wire.take().unwrap();
        let late = clock::now().saturating_add(PATIENCE);
        section.engine.handle(late, Input::Tick);
        section.exchange(&mut wire);
        section.put_back(wire);
        assert!(section.leave().sleeper, "it is woken");
        shared.waker.wake().unwrap();
        drop(section);
        assert_matches!(caller.join().unwrap(), Err(LockError::NoQuorum(_)));
    });
    world.resume();
}

/// Each time a thread has read everything, the poll has brought more.
#[test]
fn steady_traffic_does_not_put_off_a_timer() {
    let (world, redlock) = World::start();
    let guard = short_lock(&redlock, "a", 300 * MS, |options| options);
    let (lost, mut stalled) = (guard.lost(), stall(&redlock));
    world.pause();
    eventually("it is over", || lost.is_lost());
    let (shared, wire) = (redlock.shared(), stalled.wire.as_mut().unwrap());
    for _ in 0..2 {
        let mut section = shared.enter().unwrap();
        section.note(Readiness::default());
        assert!(section.exchange(wire), "there is something to read");
        drop(section);
        wire.run(&shared.registry);
    }
    let mut section = shared.enter().unwrap();
    let reported = section.engine.poll(clock::now());
    assert_matches!(reported, Some(Output::Event(Event::Expired { .. })));
    drop((section, stalled));
    world.resume();
}

/// Calls that need no node do not look into the poll, however many there are. The I/O thread does not rest because of
/// them: tasks wait for news of nodes, and for timers.
#[test]
fn calls_that_need_no_node_do_not_keep_the_io_thread_from_looking() {
    let calls = |roles: &mut Roles<(), u8>, look: bool| {
        for _ in 0..3 {
            assert!(roles.take_poll(0, 1));
            if look {
                roles.fall_asleep(Instant::MAX);
                roles.wake_up();
                roles.work = false;
            }
            roles.give_back_poll();
            let wakes = roles.leave(0, |_| true, false, || Instant::MAX);
            assert_eq!(wakes, Wakes::default());
        }
    };
    let mut roles = Roles::new(());
    for _ in 0..2 {
        calls(&mut roles, true);
        assert_eq!(roles.orders(0, false), Orders::Nap, "they read the answers");
    }
    calls(&mut roles, false);
    assert_eq!(roles.orders(0, false), Orders::Serve);
}

/// A waker may call the handle and wait, on the I/O thread itself.
#[test]
fn while_wakers_are_called_a_caller_takes_the_poll_however_many_wait() {
    let mut roles = Roles::new(());
    assert_eq!(roles.orders(100, true), Orders::Serve);
    assert!(!roles.take_poll(0, 100));
    roles.go_away();
    assert!(roles.take_poll(0, 100));
    assert!(!roles.come_back(), "a caller has it");
    roles.go_away();
    roles.give_back_poll();
    assert!(roles.come_back());
}

/// Without a node, the engine refuses the request at once. The task is polled on the I/O thread, which fires timers in
/// between, and reports a loss to another task, whether or not a further task waits all the time.
#[test]
fn a_task_that_tries_again_at_once_does_not_keep_a_loss_from_its_report() {
    for waits in [false, true] {
        tries_before_the_report(waits, 300 * MS);
    }
}

/// Returns how often a task that is polled on the I/O thread has tried to lock in vain before the end of a lock, and
/// between the end and the report of the loss.
pub(super) fn tries_before_the_report(waits: bool, mut ttl: Duration) -> [usize; 2] {
    loop {
        if let Some(tries) = tries_until(waits, ttl) {
            return tries;
        }
        ttl *= 2; // This machine was too slow to begin in that time.
        assert!(ttl < LONG);
    }
}

fn tries_until(waits: bool, ttl: Duration) -> Option<[usize; 2]> {
    let (world, redlock) = World::start();
    let held = redlock.lock("held", LONG).unwrap();
    let first = redlock.lock("first", ttl).ok()?;
    let guard = redlock.lock("lost", ttl + 300 * MS).ok()?;
    let mut waiting = waits.then(|| Box::pin(redlock.lock_async("held", LONG)));
    if let Some(waiting) = &mut waiting {
        assert!(poll_once(waiting).is_pending());
    }
    for node in &world.nodes {
        node.stop().unwrap();
    }
    let is_down = |node: &crate::NodeStatus| matches!(node.state, NodeState::Down(_));
    eventually("the nodes are down", || redlock.nodes().iter().all(is_down));
    let (end, lost) = (guard.valid_until(), guard.lost());
    let tries = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let is_told = Arc::new(AtomicBool::new(false));
    let begins = first.lost();
    let told = Arc::clone(&is_told);
    AtOnce::begin(async move {
        lost.await;
        told.store(true, Ordering::SeqCst);
    });
    let (here, told, counted) = (redlock.clone(), Arc::clone(&is_told), Arc::clone(&tries));
    AtOnce::begin(async move {
        begins.await; // It continues in the waker, which the I/O thread calls.
        while !told.load(Ordering::SeqCst) {
            assert!(here.try_lock_async("a", LONG).await.is_err());
            let is_late = end <= clock::now();
            counted[usize::from(is_late)].fetch_add(1, Ordering::SeqCst);
        }
    });
    let has_begun = first.is_valid();
    eventually("it is reported", || is_told.load(Ordering::SeqCst));
    drop((held, guard));
    has_begun.then(|| tries.each_ref().map(|tries| tries.load(Ordering::SeqCst)))
}
