//! Stories of calls, and of the keys and debts that they leave.

use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::LockOptions;
use crate::error::{ExtendError, InvalidRequest, LockError, RequestFault};

const EMPTY: RequestFault = RequestFault::EmptyResource { index: None };

#[test]
fn what_cannot_succeed_is_refused_on_every_way() {
    let (_world, redlock) = World::start();
    let none = LockOptions::new(LONG).tries(0);
    for (refused, fault) in [
        (redlock.lock("", LONG), EMPTY),
        (block_on(redlock.lock_async("", LONG)), EMPTY),
        (redlock.lock_with("a", &none), RequestFault::NoTries),
    ] {
        assert_matches!(refused, Err(LockError::Invalid(why)) if why == InvalidRequest(fault));
    }
    let once = LockOptions::new(LONG).extensions(1);
    let mut guard = redlock.lock_with("a", &once).unwrap();
    guard.extend(LONG).unwrap();
    assert_matches!(guard.extend(LONG), Err(ExtendError::Limit));
    assert_matches!(guard.extend(Duration::ZERO), Err(ExtendError::Invalid(_)));
    assert!(guard.is_valid());
}

/// The outcome is there, but the caller has not taken it.
#[test]
fn a_future_dropped_when_it_has_won_leaves_no_key() {
    let (world, redlock) = World::start();
    for _ in 0..20 {
        let mut future = Box::pin(redlock.lock_async("a", LONG));
        if poll_once(&mut future).is_pending() {
            eventually("it is granted", || world.copies("a") == 3);
        }
        drop(future);
        world.assert_gone("a");
    }
    world.assert_empty();
}

/// The child has a copy of the outcome, but only the parent holds the lock.
#[test]
fn a_forked_child_does_not_get_the_lock_of_its_parent() {
    let (world, redlock) = World::start();
    let mut future = Box::pin(redlock.lock_async("a", LONG));
    world.pause();
    assert!(poll_once(&mut future).is_pending());
    world.resume();
    eventually("it is granted", || world.copies("a") == 3);
    redlock.shared().process.pretend(true);
    let polled = poll_once(&mut future);
    redlock.shared().process.pretend(false);
    assert_matches!(polled, Poll::Ready(Err(LockError::Forked)));
}

/// The operations and the I/O thread belong to the parent.
#[test]
fn what_a_forked_child_drops_goes_on_in_its_parent() {
    let (world, redlock) = World::start();
    let guard = redlock.lock("held", LONG).unwrap();
    let lost = guard.lost();
    world.pause();
    let mut future = Box::pin(redlock.lock_async("open", LONG));
    assert!(poll_once(&mut future).is_pending());
    eventually("it has begun", || load(&redlock).rounds == 1);
    let (process, shared) = (redlock.shared().process.clone(), shared_of(&redlock));
    process.pretend(true);
    assert!(lost.clone().is_lost());
    drop((future, guard));
    process.pretend(false);
    assert!(!lost.clone().is_lost());
    let left = load(&redlock);
    assert_eq!((left.rounds, left.claims), (1, 2));
    world.resume();
    process.pretend(true);
    drop(redlock);
    assert!(shared.upgrade().is_some(), "the I/O thread goes on");
    assert!(2 <= world.copies("held"));
}

/// The attempt won in time, but the caller fetched the lock too late. (If the machine was too slow to see that it had
/// won, the test tries again.)
#[test]
fn a_lock_that_is_not_taken_in_time_is_too_slow() {
    let (world, redlock) = World::start();
    let mut ttl = 100 * MS;
    let refused = loop {
        ttl *= 2;
        let end = clock::now().saturating_add(ttl);
        let mut future = Box::pin(redlock.lock_async("a", ttl));
        if poll_once(&mut future).is_ready() {
            return; // The nodes were quicker than this thread, so this case did not happen.
        }
        eventually("it is granted, or over", || {
            world.copies("a") == 3 || end <= clock::now()
        });
        let was_granted = world.copies("a") == 3;
        eventually("it has expired", || {
            end <= clock::now() && world.copies("a") == 0
        });
        if was_granted {
            break poll_once(&mut future);
        }
    };
    let Poll::Ready(Err(LockError::TooSlow(report))) = refused else {
        panic!("it was granted, and is over")
    };
    assert!(2 <= report.granted(), "{report}");
}

#[test]
fn a_future_of_building_that_is_dropped_ends_by_itself() {
    let world = World::new();
    for polls in 0..3 {
        let mut building = world.builder().build_async();
        for _ in 0..polls {
            let _ = poll_once(&mut building).is_pending();
        }
    }
    let unnamed = Redlock::builder().build_async();
    assert_matches!(block_on(unnamed), Err(crate::driver::BuildError::Config(_)));
}

#[test]
fn the_last_handle_ends_the_thread_and_leaves_no_key() {
    let world = World::new();
    for turn in 0..20 {
        let redlock = world.builder().shutdown_timeout(PATIENCE).build().unwrap();
        let shared = shared_of(&redlock);
        let guard = redlock.lock("a", LONG).unwrap();
        drop(redlock);
        assert!(shared.upgrade().is_some(), "a guard is a handle");
        match turn % 3 {
            0 => drop(guard),
            1 => drop(guard.unlock()),
            _ => drop(block_on(guard.unlock_async())),
        }
        assert!(shared.upgrade().is_none(), "the thread has ended");
        world.assert_empty();
    }
}

#[test]
fn a_handle_dropped_while_callers_wait_takes_nothing_from_them() {
    let world = World::new();
    let holder = world.redlock();
    let guard = holder.lock("a", LONG).unwrap();
    let redlock = world.builder().shutdown_timeout(PATIENCE).build().unwrap();
    let shared = shared_of(&redlock);
    thread::scope(|scope| {
        for _ in 0..4 {
            let redlock = redlock.clone();
            scope.spawn(move || redlock.lock("a", LONG).unwrap().unlock().unwrap());
        }
        let future = redlock.lock_async("a", LONG);
        scope.spawn(move || drop(block_on(future).unwrap()));
        drop(redlock);
        guard.unlock().unwrap();
    });
    assert!(shared.upgrade().is_none());
    world.assert_empty();
}

#[test]
fn a_wait_for_a_loss_ends_in_time_and_with_the_release() {
    let (_world, redlock) = World::start();
    let guard = redlock.lock("a", LONG).unwrap();
    let lost = guard.lost();
    assert!(!lost.wait(Duration::ZERO) && !lost.wait(MS));
    let waiting = thread::spawn(move || lost.wait(PATIENCE));
    guard.unlock().unwrap();
    assert!(!waiting.join().unwrap());
}

/// A task with many calls is polled inside its waker, under a mutex that the waker needs too. The calls of another task
/// are decided between them.
#[test]
fn a_task_that_is_polled_does_not_wake_itself() {
    let (world, redlock) = World::start();
    let calls = |task: &'static str| {
        let redlock = redlock.clone();
        (0..20).map(move |call| {
            let redlock = redlock.clone();
            async move {
                for _ in 0..20 {
                    let name = format!("{task} {call}");
                    let guard = redlock.lock_async(name, LONG).await.unwrap();
                    guard.unlock_async().await.unwrap();
                }
            }
        })
    };
    let done = Arc::new(AtomicBool::new(false));
    let task = {
        let (calls, done) = (calls("at once"), Arc::clone(&done));
        async move {
            all(calls).await;
            done.store(true, Ordering::SeqCst);
        }
    };
    AtOnce::begin(task);
    block_on(all(calls("later")));
    eventually("it is done", || done.load(Ordering::SeqCst));
    world.assert_empty();
}

/// The request of the task is refused without asking the nodes, so the task asks again at once.
#[test]
fn a_task_that_is_refused_at_once_again_and_again_does_not_keep_others_from_the_nodes() {
    let (_world, redlock) = World::start();
    let held = redlock.lock("held", LONG).unwrap();
    let mut waiting = pin!(redlock.lock_async("held", LONG));
    assert!(poll_once(&mut waiting).is_pending());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let never = block_on(redlock.lock_async("never", Duration::MAX));
                assert!(matches!(never, Err(LockError::Invalid(_))));
            }
        });
        let honest = block_on(redlock.lock_async("free", LONG)).unwrap();
        honest.unlock().unwrap();
        done.store(true, Ordering::Relaxed);
    });
    held.unlock().unwrap();
}

/// The nodes do not read, so that at some point the kernel takes no more.
#[test]
fn what_the_kernel_does_not_take_goes_first_when_it_takes_again() {
    const MANY: usize = 20_000;
    let (world, redlock) = World::start();
    let mut begin = |name: usize| {
        let mut future = Box::pin(redlock.lock_async(alloc::format!("{name:01000}"), LONG));
        assert!(poll_once(&mut future).is_pending());
        future
    };
    let has_rest = || {
        let section = redlock.shared().enter().unwrap();
        let wire = section.roles.wire.as_ref();
        wire.is_some_and(|wire| wire.has_rest())
    };
    world.pause();
    let mut begun = Vec::new();
    while !has_rest() {
        assert!(begun.len() < MANY, "the kernel takes everything");
        begun.push(begin(begun.len()));
    }
    // The engine has more to write, and waits for the socket.
    begun.extend((MANY..MANY + 20).map(&mut begin));
    world.resume();
    for future in begun {
        drop(block_on(future).unwrap());
    }
    world.assert_empty();
}

/// Futures that wait behind others, for a lock of this handle or of another client, are dropped, except the last one.
#[test]
fn waiters_that_are_dropped_leave_their_places_to_the_next() {
    let world = World::new();
    let (other, redlock) = (world.redlock(), world.redlock());
    let foreign = other.try_lock("foreign", LONG).unwrap();
    let own = redlock.try_lock("own", LONG).unwrap();
    let poll = |index: usize| {
        let mut future = Box::pin(redlock.lock_async(["foreign", "own"][index % 2], LONG));
        assert!(poll_once(&mut future).is_pending());
        future
    };
    let mut waiting: Vec<_> = (0..1_000).map(poll).collect();
    let rounds = || load(&redlock).rounds;
    assert_eq!(rounds(), 1_000);
    let last = waiting.split_off(998);
    drop(waiting);
    assert_eq!(rounds(), 2);
    foreign.unlock().unwrap();
    own.unlock().unwrap();
    for next in last {
        block_on(next).unwrap().unlock().unwrap();
    }
    assert_eq!(rounds(), 0);
    world.assert_empty();
}
