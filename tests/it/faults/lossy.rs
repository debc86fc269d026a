//! Packets that are lost by chance, doubled and overtaken, on the links to a minority and to a
//! majority of the nodes: every promise is kept, and no key is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use shearline::{Builder, ExtendError, LockError, NodeState, RestartGuard, UnlockError};

use crate::face::{Face, Held, Which, at};
use crate::namespaces::{Namespaces, PROBE, run, story_to_play};
use crate::servers::{Cluster, LONG, Link, Options, Weather, until, within_patience};

const OWN: Namespaces = Namespaces {
    arguments: &["--net"],
    inside: "faults::lossy::inside",
};

/// The node timeout if most links are bad. It is short, so that there are many attempts in each weather.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(4);

/// How long each weather lasts at least.
const WHILE: Duration = Duration::from_millis(600);

/// The length of a burst in which every packet is lost.
const BURST: Duration = Duration::from_millis(150);

#[test]
fn no_key_is_left_where_packets_are_lost_by_chance() {
    OWN.play_all(&[
        "one of three",
        "two of five",
        "two of three",
        "given up by a shared handle",
        "given up by a local handle",
    ]);
}

/// The part of the process in the namespaces. Without a story it does nothing.
#[test]
#[ignore = "a part of another test"]
fn inside() {
    let Some((story, _)) = story_to_play() else {
        return;
    };
    run("ip link set lo up");
    match story.as_str() {
        PROBE => drop(Link::new(0)),
        "one of three" => weathers(&Field::new(3, 1), Promise::Kept),
        "two of five" => weathers(&Field::new(5, 2), Promise::Kept),
        "two of three" => weathers(&Field::new(3, 2), Promise::Open),
        "given up by a shared handle" => given_up(&Field::new(3, 1), Which::Shared),
        "given up by a local handle" => given_up(&Field::new(3, 1), Which::Local),
        other => panic!("no such story: {other}"),
    }
}

/// Servers, the first of which are reached over a bad link.
struct Field {
    cluster: Cluster,
    victims: usize,
    link: Link,
}

impl Field {
    fn new(nodes: usize, victims: usize) -> Self {
        let everywhere = ["--bind", "0.0.0.0", "--protected-mode", "no"];
        Self {
            cluster: Cluster::with(nodes, &Options::redis().arguments(everywhere)),
            victims,
            link: Link::new(10 * nodes as u64 + victims as u64),
        }
    }

    fn builder(&self) -> Builder {
        let urls = self.cluster.iter().enumerate();
        let urls = urls.map(|(node, server)| match node < self.victims {
            true => self.link.url(server),
            false => server.url(),
        });
        let builder = at(urls).restart_guard(RestartGuard::Off);
        match 2 * self.victims < self.cluster.len() {
            true => builder,
            false => builder.node_timeout(NODE_TIMEOUT),
        }
    }

    /// Returns how many `SET`s the first victim has run.
    fn sets(&self) -> u64 {
        self.cluster[0].raw().calls("set")
    }
}

/// The promise that the good links allow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Promise {
    /// The good links lead to a majority: every call succeeds.
    Kept,
    /// The good links lead to a minority: a call may also get too few answers.
    Open,
}

/// Three holders compete for one key, and each has another key to itself, in every weather.
fn weathers(field: &Field, promise: Promise) {
    let (over, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut faces = [Which::Shared, Which::Local, Which::Shared].map(|which| {
        let mut face = which.build(field.builder());
        face.await_ready();
        face
    });
    thread::scope(|scope| {
        let holders: Vec<_> = (0..)
            .zip(&mut faces)
            .map(|(number, face)| {
                let (over, inside) = (&over, &inside);
                scope.spawn(move || {
                    let own = format!("own:{number}");
                    // The holder continues until it has had its turn, if the good links promise one.
                    let mut has_had_it = promise == Promise::Open;
                    while !over.load(Ordering::Relaxed) || !has_had_it {
                        alone(face, &own, promise);
                        has_had_it |= together(face, inside);
                        // Other tests run at the same time.
                        thread::sleep(PAUSE);
                    }
                })
            })
            .collect();
        pass(&field.link);
        over.store(true, Ordering::Relaxed);
        for holder in holders {
            holder.join().expect("it has said why");
        }
    });
    faces.iter_mut().for_each(Face::await_settled);
    field.cluster.assert_empty();
    for face in &mut faces {
        let lock = face.try_lock("after", LONG).expect("all is well again");
        face.unlock(lock).expect("held");
        face.await_settled();
    }
    field.cluster.assert_empty();
}

/// Plays all weathers one after another; the last one is good.
fn pass(link: &Link) {
    let weathers = [
        Weather::lost(5),
        Weather::lost(20),
        Weather::lost(50),
        Weather {
            lost_there: 30,
            doubled: 30,
            delayed: 50,
            ..Weather::default()
        },
        Weather {
            lost_back: 30,
            doubled: 30,
            delayed: 50,
            ..Weather::default()
        },
    ];
    for weather in weathers {
        let before = link.lost();
        link.set(weather);
        thread::sleep(WHILE);
        until("something is lost", || before < link.lost());
    }
    for _ in 0..4 {
        link.set(Weather::lost(100));
        thread::sleep(BURST);
        link.set(Weather::default());
        thread::sleep(BURST);
    }
}

/// Takes the key that only this holder uses.
fn alone(face: &mut Face, key: &str, promise: Promise) {
    let open = promise == Promise::Open;
    let mut lock = match face.try_lock(key, LONG) {
        Ok(lock) => lock,
        Err(LockError::NoQuorum(_)) if open => return,
        Err(other) => panic!("{other:?}"),
    };
    match face.extend(&mut lock, 2 * LONG) {
        Ok(()) => assert!(LONG < lock.validity()),
        Err(ExtendError::Unconfirmed(_)) if open => assert!(lock.is_valid()),
        Err(other) => panic!("{other:?}"),
    }
    give_back(face, lock, promise);
}

/// Returns `true` if this holder got the shared key.
fn together(face: &mut Face, inside: &AtomicBool) -> bool {
    match face.try_lock("together", LONG) {
        Ok(lock) => {
            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
            thread::sleep(Duration::from_millis(1));
            assert!(inside.swap(false, Ordering::SeqCst), "two were inside");
            // The nodes that have the lock may be others than those that are reached.
            give_back(face, lock, Promise::Open);
            true
        }
        Err(LockError::Held(_) | LockError::NoQuorum(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn give_back(face: &mut Face, lock: Held, promise: Promise) {
    match face.unlock(lock) {
        Ok(_) => {}
        Err(UnlockError::Unconfirmed(_)) if promise == Promise::Open => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// If the kernel can send its bytes for a node within five seconds (the user timeout), they are sent late, followed by
/// their release. After that time they are never sent, and the release is sent over the next connection.
fn given_up(field: &Field, which: Which) {
    // Only the kernel gives up a connection.
    let mut face = which.build(field.builder().dead_after(LONG));
    face.await_ready();
    let before = field.sets();
    field.link.set(Weather::lost(100));
    a_few(&mut face);
    assert_eq!(field.sets(), before, "all was lost");
    field.link.set(Weather::default());
    face.await_settled();
    assert!(before < field.sets(), "it came late");
    field.cluster.assert_empty();

    let answers = Weather {
        lost_back: 100,
        ..Weather::default()
    };
    field.link.set(answers);
    let before = field.sets() + 1;
    let lock = face.try_lock("answered too late", LONG);
    let lock = lock.expect("two of three");
    face.until("the victim has it too", |_| field.sets() == before);
    field.link.set(Weather::lost(100));
    a_few(&mut face);
    let given_up = within_patience(|| {
        face.settle();
        let state = face.nodes()[0].state;
        matches!(state, NodeState::Down(_) | NodeState::Connecting).then_some(())
    });
    assert!(given_up.is_some(), "{:?}", face.nodes());
    face.unlock(lock).expect("two of three");
    field.link.set(Weather::default());
    face.await_settled();
    assert_eq!(field.sets(), before, "what was given up is not sent");
    field.cluster.assert_empty();
}

/// Takes and releases a few locks that two of three nodes grant.
fn a_few(face: &mut Face) {
    for number in 0..5 {
        let lock = face.try_lock(format!("few:{number}"), LONG);
        face.unlock(lock.expect("two of three"))
            .expect("two of three");
    }
}
