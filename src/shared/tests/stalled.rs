//! A thread is stopped with the wire: no caller waits for it beyond its own deadline.

use super::*;
use crate::config::LockOptions;
use crate::engine::{Input, Output, RoundId};
use crate::error::{ExtendError, LockError, NodeOutcome, UnlockError};
use crate::keys::OperationKey;
use crate::slab::Key;

#[test]
fn a_caller_gives_up_at_its_own_deadline() {
    let (world, redlock) = World::start();
    let stalled = stall(&redlock);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let options = LockOptions::new(LONG).wait(30 * MS);
            redlock.lock_with("a", &options)
        });
        let Err(LockError::NoQuorum(report)) = caller.join().unwrap() else {
            panic!("no node was asked")
        };
        assert_eq!(report.nodes().len(), 3);
        let pending = |node: &crate::NodeReport| node.outcome == NodeOutcome::Pending;
        assert!(report.nodes().iter().all(pending));
    });
    drop(stalled);
    // The operation that the stopped thread had asked for never begins.
    redlock.lock("b", LONG).unwrap().unlock().unwrap();
    assert_eq!(world.copies("a"), 0);
}

/// Every blocking call ends by its own clock, and its result is true and safe.
#[test]
fn calls_without_a_deadline_give_up_when_their_nodes_would_have_been_given_up() {
    let world = World::new();
    let redlock = world.builder().node_timeout(20 * MS).build().unwrap();
    let lock = |name| {
        let mut guard = None;
        eventually("the nodes answer", || {
            guard = redlock.try_lock(name, LONG).ok();
            guard.is_some()
        });
        guard.unwrap()
    };
    let (mut extended, unlocked) = (lock("extended"), lock("unlocked"));
    let stalled = stall(&redlock);
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let refused = redlock.try_lock("never", LONG);
            assert_matches!(refused, Err(LockError::NoQuorum(_)));
            assert_matches!(extended.extend(LONG), Err(ExtendError::Unconfirmed(_)));
            assert!(extended.is_valid());
            assert_matches!(unlocked.unlock(), Err(UnlockError::Unconfirmed(_)));
        });
        eventually("each of them returns", || others.is_finished());
    });
    drop(stalled);
    drop(extended);
    world.assert_empty();
}

/// The I/O thread serves, so the threads sleep without a timer. Without the wire it cannot fire those of the engine.
#[test]
fn calls_without_a_timer_give_up_as_well() {
    let world = World::new();
    let redlock = world.builder().node_timeout(1_000 * MS).build().unwrap();
    world.pause();
    let mut task = Box::pin(redlock.try_lock_async("task", LONG));
    assert!(poll_once(&mut task).is_pending());
    eventually("the I/O thread serves", || {
        redlock.shared().enter().unwrap().roles.serving
    });
    thread::scope(|scope| {
        let redlock = &redlock;
        let call = |name| scope.spawn(move || redlock.try_lock(name, LONG));
        let calls = ["a", "b", "c"].map(call);
        eventually("they wait", || {
            redlock.shared().enter().unwrap().waiting() == 4
        });
        let stalled = stall(redlock);
        let end = clock::now().saturating_add(PATIENCE / 3);
        let finished = || calls.iter().filter(|call| call.is_finished()).count();
        while clock::now() < end && finished() != 3 {
            thread::sleep(MS);
        }
        let finished = finished();
        drop(stalled); // Otherwise the other threads would not end.
        assert_eq!(finished, 3);
        for call in calls {
            let refused = call.join().unwrap();
            assert!(matches!(refused, Err(LockError::NoQuorum(_))));
        }
    });
    drop(task);
    world.resume();
    world.assert_empty();
}

#[test]
fn what_is_dropped_meanwhile_is_given_back_afterwards() {
    let (world, redlock) = World::start();
    let mut guards: Vec<_> = (0..6)
        .map(|key| redlock.lock(format!("{key}"), LONG).unwrap())
        .collect();
    let adopted = guards.pop().unwrap().into_lock();
    let stalled = stall(&redlock);
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            drop(redlock.adopt(adopted));
            drop(guards.pop());
            let plain = guards.pop().unwrap().into_lock();
            drop(redlock.adopt(plain));
            let mut future = Box::pin(redlock.lock_async("future", LONG));
            assert!(poll_once(&mut future).is_pending());
            drop(future);
            let mut unlocking = Box::pin(guards.pop().unwrap().unlock_async());
            assert!(poll_once(&mut unlocking).is_pending());
            drop(unlocking);
            let mut guard = guards.pop().unwrap();
            {
                let mut extending = Box::pin(guard.extend_async(2 * LONG));
                assert!(poll_once(&mut extending).is_pending());
            }
            assert!(guard.is_valid());
        });
        others.join().unwrap();
    });
    drop(stalled);
    drop(guards);
    world.assert_empty();
}

/// A waiting thread notices a loss by its own clock. No extension waits beyond the validity within which it has to
/// come.
#[test]
fn who_waits_for_a_loss_or_an_extension_learns_of_the_end_of_the_validity() {
    let (world, redlock) = World::start();
    let mut guard = short_lock(&redlock, "a", 100 * MS, |options| options);
    let stalled = stall(&redlock);
    let lost = guard.lost();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || lost.wait(PATIENCE));
        let extending = scope.spawn(|| guard.extend(LONG));
        let ended = extending.join().unwrap();
        assert!(matches!(ended, Err(ExtendError::Expired)), "{ended:?}");
        assert!(waiting.join().unwrap());
    });
    assert!(!guard.is_valid());
    drop(stalled);
    drop(guard);
    world.assert_empty();
}

/// The guard was made before the engine gave the lock an id. The loss is reported to it nevertheless.
#[test]
fn a_lock_that_is_adopted_and_extended_meanwhile_learns_its_new_end() {
    let (world, redlock) = World::start();
    let mut plain = redlock.lock("a", LONG).unwrap().into_lock();
    let before = plain.valid_until();
    let stalled = stall(&redlock);
    let mut guard = redlock.adopt(plain);
    let mut extending = Box::pin(guard.extend_async(2 * LONG));
    assert!(poll_once(&mut extending).is_pending());
    drop(stalled);
    block_on(extending).unwrap();
    assert!(before < guard.valid_until());
    // The same holds for a lock that has no end before it is confirmed.
    plain = guard.into_lock();
    plain.forget_end();
    let stalled = stall(&redlock);
    let mut guard = redlock.adopt(plain);
    assert!(!guard.lost().is_lost());
    let mut confirming = Box::pin(guard.confirm_async());
    assert!(poll_once(&mut confirming).is_pending());
    drop(stalled);
    block_on(confirming).unwrap();
    assert!(before < guard.valid_until());
    guard.unlock().unwrap();
    world.assert_empty();
}

/// The I/O thread watches the descriptor and is called. A caller takes the events before that thread is scheduled. The
/// thread comes nevertheless.
#[test]
fn the_io_thread_is_called_although_a_caller_takes_the_events() {
    let world = World::new();
    let redlock = world.builder().node_timeout(20 * MS).build().unwrap();
    let shared = redlock.shared();
    let mut rounds = 0;
    while rounds < 20 {
        eventually("the nodes answer", || redlock.lock("a", LONG).is_ok());
        eventually("the I/O thread waits for the nodes", || {
            is_watching(&redlock)
        });
        world.pause();
        // The I/O thread is called, and a caller has the poll and takes the events.
        let mut future = Box::pin(redlock.try_lock_async("b", LONG));
        if poll_once(&mut future).is_ready() {
            world.resume(); // This thread was away for so long that the nodes count as silent.
            continue;
        }
        rounds += 1;
        let mut section = shared.enter().unwrap();
        if section.take_poll(RoundId(OperationKey(Key::NONE))) {
            section = shared.sleep_in_poll(section, Some(clock::now())).unwrap();
            section.roles.give_back_poll();
        }
        drop(section);
        assert!(matches!(block_on(future), Err(LockError::NoQuorum(_))));
        world.resume();
    }
    world.assert_empty();
}

/// The nodes have said that a lock ends earlier, and its holder no longer wants to know. A caller that waits for it to
/// be at risk still learns of it.
#[test]
fn a_lock_that_was_found_to_end_earlier_is_at_risk_before_that_end() {
    let world = World::new();
    let redlock = world.builder().watch_clocks(false).build().unwrap();
    let mut guard = redlock.lock("a", LONG).unwrap();
    let (task, thread) = (guard.at_risk(), guard.at_risk());
    eventually("each node has answered", || load(&redlock).in_flight == 0);
    let stalled = stall(&redlock);
    let mut confirming = Box::pin(guard.confirm_async());
    assert!(poll_once(&mut confirming).is_pending());
    say_in_place_of_the_nodes(&redlock, b":20001\r\n");
    drop(confirming);
    drop(stalled);
    block_on(task);
    assert!(thread.wait(Duration::ZERO));
    assert!(guard.is_valid() && !guard.lost().is_lost());
    drop(guard);
    world.assert_empty();
}

/// The thread gives up before it learns of the outcome, which counts nevertheless.
#[test]
fn an_extension_that_a_majority_has_confirmed_is_one_if_no_news_of_it_comes() {
    let world = World::new();
    let builder = world.builder().watch_clocks(false);
    let redlock = builder.node_timeout(1_000 * MS).build().unwrap();
    let mut guard = redlock.lock("a", LONG).unwrap();
    eventually("each node has answered", || load(&redlock).in_flight == 0);
    let before = guard.valid_until();
    let stalled = stall(&redlock);
    thread::scope(|scope| {
        let extending = scope.spawn(|| guard.extend(2 * LONG));
        eventually("it has begun", || load(&redlock).rounds != 0);
        say_in_place_of_the_nodes(&redlock, b":1\r\n");
        extending.join().unwrap().unwrap();
    });
    assert!(before.saturating_add(LONG / 2) < guard.valid_until());
    drop(stalled);
    drop(guard);
    world.assert_empty();
}

/// Lets the nodes give this answer to all their questions. No caller learns of the outcome yet.
fn say_in_place_of_the_nodes(redlock: &Redlock, reply: &[u8]) {
    let mut section = redlock.shared().enter().unwrap();
    let engine = &mut section.engine;
    let mut asked = Vec::new();
    while let Some(output) = engine.poll(clock::now()) {
        let Output::Transmit { node, bytes } = output else {
            panic!("{output:?}")
        };
        let len = bytes.len();
        asked.push(node);
        engine.handle(clock::now(), Input::Transmitted { node, len });
    }
    assert_eq!(asked.len(), 3);
    for node in asked {
        let said = Input::Received { node, bytes: reply };
        engine.handle(clock::now(), said);
    }
}
