//! Watches on real servers: what they report, and what they send.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use shearline::engine::Event;
use shearline::{Found, Inspection, Redlock, Watch};

use crate::contract::OTHERS as FOREIGN;
use crate::executor::block_on;
use crate::face::{over, ready};
use crate::scene::clusters;
use crate::servers::{Cluster, LONG, Options, Raw, eventually};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Makes a handle that sends nothing by itself, connected to all nodes.
fn quiet(cluster: &Cluster) -> Redlock {
    ready(over(cluster).watch_clocks(false).owner("billing-7"))
}

/// Waits until the watch reports a state for which `is` holds, and skips other states.
#[track_caller]
fn until(watch: &mut Watch, is: impl Fn(&Inspection) -> bool) -> Inspection {
    loop {
        let told = watch.next(MINUTE).expect("it changes");
        if is(&told) {
            return told;
        }
    }
}

fn everywhere(told: &Inspection, what: impl Fn(&Found) -> bool) -> bool {
    told.nodes().iter().all(|node| what(&node.found))
}

fn is_free(told: &Inspection) -> bool {
    everywhere(told, |found| *found == Found::Free)
}

fn is_held_by(told: &Inspection, owner: &[u8]) -> bool {
    let held = |found: &Found| matches!(found, Found::Holder { .. });
    told.holder().is_some_and(|holder| &*holder.owner == owner) && everywhere(told, held)
}

fn is_taken_by_another(raws: &mut [Raw]) {
    for raw in raws {
        raw.set_px(b"k", FOREIGN, LONG);
    }
}

/// Returns how many commands the servers have run, including those that ask for this number.
fn total(raws: &mut [Raw]) -> u64 {
    let mut sum = 0;
    for raw in raws {
        let all = raw.info("stats", "total_commands_processed");
        let all: u64 = all.and_then(|all| all.parse().ok()).expect("a number");
        sum += all;
    }
    sum
}

/// Waits until only this test sends anything. (`engine::tests::watch` checks that a watch sends nothing while nothing
/// changes; on a busy machine something may still be on its way.)
#[track_caller]
fn await_quiet(raws: &mut [Raw]) {
    eventually("nothing but the questions of the test is sent", || {
        let before = total(raws);
        thread::sleep(SECOND / 4);
        (total(raws) - before == raws.len() as u64).then_some(())
    });
}

#[test]
fn a_watch_tells_each_change_and_sends_nothing_while_there_is_none() {
    for cluster in clusters() {
        let redlock = quiet(&cluster);
        let mut raws = cluster.raws();
        let mut watch = redlock.watch("k").expect("asked");
        assert!(is_free(&watch.next(MINUTE).expect("the present state")));
        assert!(watch.next(SECOND / 10).is_none(), "nothing has changed");
        await_quiet(&mut raws);
        // Another client takes and releases the lock.
        is_taken_by_another(&mut raws);
        until(&mut watch, |told| is_held_by(told, b"another"));
        assert!(watch.next(SECOND / 10).is_none());
        await_quiet(&mut raws);
        assert!(raws[0].del(b"k"));
        let told = until(&mut watch, |told| told.nodes()[0].found == Found::Free);
        assert_eq!(told.holder().expect("two have it").nodes, 2);
        let _ = watch.next(SECOND / 10);
        for raw in &mut raws[1..] {
            assert!(raw.del(b"k"));
        }
        until(&mut watch, is_free);
        // This handle itself takes the lock.
        let mut lock = redlock.try_lock("k", LONG / 2).expect("free");
        let told = until(&mut watch, |told| is_held_by(told, b"billing-7"));
        let before = told.holder().expect("held").valid_for;
        lock.extend(LONG).expect("held");
        let longer = |told: &Inspection| {
            told.holder()
                .is_some_and(|holder| before < holder.valid_for)
        };
        until(&mut watch, |told| {
            is_held_by(told, b"billing-7") && longer(told)
        });
        lock.unlock().expect("held");
        until(&mut watch, is_free);
        // The key expires.
        is_taken_by_another(&mut raws);
        until(&mut watch, |told| is_held_by(told, b"another"));
        for raw in &mut raws {
            assert_eq!(raw.integer(&[b"PEXPIRE", b"k", b"200"]), 1);
        }
        until(&mut watch, is_free);
        // All keys are deleted at once.
        is_taken_by_another(&mut raws);
        until(&mut watch, |told| is_held_by(told, b"another"));
        cluster.run("FLUSHALL");
        until(&mut watch, is_free);
        assert!(watch.next(SECOND / 10).is_none());
        // After it is dropped, a change is of no interest.
        drop(watch);
        await_quiet(&mut raws);
        let before = total(&mut raws);
        is_taken_by_another(&mut raws);
        thread::sleep(SECOND / 4);
        let own = 2 * raws.len() as u64;
        assert_eq!(total(&mut raws) - before, own, "those of the test");
    }
}

#[test]
fn a_task_and_an_event_loop_are_told_the_same() {
    let cluster = Cluster::with(3, &Options::redis());
    let redlock = quiet(&cluster);
    let mut raws = cluster.raws();
    let mut watch = redlock.watch("k").expect("asked");
    assert!(is_free(
        &block_on(watch.changed()).expect("the present state")
    ));
    // A future that is dropped loses nothing.
    {
        let mut changed = pin!(watch.changed());
        let mut context = Context::from_waker(Waker::noop());
        assert_matches!(changed.as_mut().poll(&mut context), Poll::Pending);
    }
    let mut driver = over(&cluster).build_driver().expect("valid");
    driver.wait_until_ready().expect("a majority is there");
    is_taken_by_another(&mut raws);
    let mut known: Option<Inspection> = None;
    let is_told = |known: &Option<Inspection>| {
        known
            .as_ref()
            .is_some_and(|told| is_held_by(told, b"another"))
    };
    while !is_told(&known) {
        let round = driver.watch(b"k", known.as_ref()).expect("asked");
        known = loop {
            driver.turn(None).expect("it turns");
            if let Some(Event::Inspected { round: of, result }) = driver.poll_event() {
                assert_eq!(of, round);
                break Some(result.expect("a state"));
            }
        };
    }
    while !is_held_by(&block_on(watch.changed()).expect("it changes"), b"another") {}
    drop(redlock); // The watch is a handle.
    cluster.delete("k");
    until(&mut watch, is_free);
}

#[test]
fn a_watch_tells_of_a_node_that_goes_and_of_its_return() {
    for mut cluster in clusters() {
        let redlock = quiet(&cluster);
        let mut watch = redlock.watch("k").expect("asked");
        assert!(is_free(&watch.next(MINUTE).expect("the present state")));
        assert!(watch.next(SECOND / 10).is_none());
        cluster[2].kill();
        let told = until(&mut watch, |told| {
            matches!(told.nodes()[2].found, Found::Unknown(_))
        });
        assert!(told.is_free(), "{told}");
        cluster[1].kill();
        let told = until(&mut watch, |told| {
            matches!(told.nodes()[1].found, Found::Unknown(_))
        });
        assert!(!told.is_free() && told.holder().is_none(), "{told}");
        cluster[1].restart();
        cluster[2].restart();
        until(&mut watch, is_free);
        // The requests for notification were lost with the servers, and the handle asked them again. The servers are in
        // quarantine.
        assert!(watch.next(SECOND / 10).is_none());
        is_taken_by_another(&mut cluster.raws());
        let told = until(&mut watch, |told| {
            everywhere(told, |found| matches!(found, Found::Copy { .. }))
        });
        let counts: Vec<bool> = told.nodes().iter().map(|node| node.counts).collect();
        assert_eq!(counts, [true, false, false], "{told}");
    }
}
