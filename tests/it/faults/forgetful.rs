//! Servers that restart or are replaced, and what the restart guard says about them.
//!
//! The answers of a server that may have forgotten locks do not count before all of them are over;
//! its copies of locks keep others out meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use shearline::{NodeOutcome, NodeState, NodeStatus, RestartGuard};

use super::process::{FILL, reloading};
use super::story::Scene;
use crate::effort::is_long;
use crate::face::{Face, Which, report_of};
use crate::servers::{End, LONG, Options, Server, eventually, until, within_patience};

/// The longest ttl of all clients in these stories, and so the length of the quarantine.
const TTL: Duration = Duration::from_secs(3);

/// An event after which a node may have forgotten its locks.
struct Event {
    name: &'static str,
    options: fn() -> Options,
    happens: fn(&mut Scene, &mut Face),
}

/// An event that only a marker reveals.
const FLUSHALL: Event = Event {
    name: "FLUSHALL",
    options: Options::redis,
    happens: |scene, _| drop(scene.cluster[0].raw().run("FLUSHALL")),
};

const EVENTS: [Event; 5] = [
    Event {
        name: "restart, empty",
        options: Options::redis,
        happens: |scene, _| scene.cluster[0].restart(),
    },
    Event {
        name: "restart, AOF",
        options: || Options::redis().arguments(["--appendonly", "yes"]),
        happens: |scene, _| scene.cluster[0].restart(),
    },
    Event {
        name: "promoted replica",
        options: Options::redis,
        happens: |scene, _| promote(scene),
    },
    Event {
        name: "REPLICAOF and back",
        options: Options::redis,
        happens: |scene, face| {
            let mut raw = scene.cluster[0].raw();
            raw.run("REPLICAOF 127.0.0.1 1");
            await_unusable(face);
            raw.run("REPLICAOF NO ONE");
        },
    },
    Event {
        name: "LOADING",
        options: reloading,
        happens: |scene, face| reload(&scene.cluster[0], face),
    },
];

/// Replaces the server at the address by its replica, which had followed it until it died.
fn promote(scene: &mut Scene) {
    let port = scene.cluster[0].port().to_string();
    let follower = Options::redis().arguments(["--replicaof", "127.0.0.1", &port]);
    let replica = Server::with(&follower);
    let mut raw = replica.raw();
    eventually("it follows", || {
        let link = raw.info("replication", "master_link_status")?;
        (link == "up").then_some(())
    });
    scene.cluster[0].kill();
    raw.run("REPLICAOF NO ONE");
    scene.proxies[0].redirect(replica.address());
    scene.proxies[0].cut(End::Rst);
    // Connections from outside to the first node go to this one now.
    scene.cluster[0] = replica;
}

/// Makes the server load its data again, with the connections open, until the handle notices.
fn reload(server: &Server, face: &mut Face) {
    let mut raw = server.raw();
    raw.command(&[b"EVAL", FILL, b"0"]);
    raw.run("CONFIG SET key-load-delay 3000");
    let mut loading = server.raw();
    let loading = thread::spawn(move || drop(loading.try_command(&[b"DEBUG", b"RELOAD"])));
    await_unusable(face);
    server.raw().run("CONFIG SET key-load-delay 0");
    loading.join().expect("it only waits");
}

/// Waits until a node that cannot write is unusable: the handle gives up its connection and connects again.
fn await_unusable(face: &mut Face) {
    eventually("the node is given up", || {
        if let Ok(lock) = face.try_lock("await", TTL) {
            drop(face.unlock(lock));
        }
        match face.nodes()[0].state {
            NodeState::Unusable(_) | NodeState::Down(_) => Some(()),
            _ => None,
        }
    });
}

#[test]
fn a_node_that_may_have_forgotten_does_not_vote_for_as_long_as_a_lock_lasts() {
    thread::scope(|scope| {
        for (number, event) in EVENTS.iter().enumerate() {
            for which in faces(number) {
                scope.spawn(move || play(event, which, RestartGuard::Observed));
            }
        }
    });
}

#[test]
fn a_node_whose_marker_was_lost_does_not_vote_for_as_long_as_a_lock_lasts() {
    thread::scope(|scope| {
        for (number, event) in EVENTS.iter().chain([&FLUSHALL]).enumerate() {
            for which in faces(number + 1) {
                scope.spawn(move || play(event, which, RestartGuard::Strict));
            }
        }
    });
}

/// Returns the face for the story of this number, or both in the long run.
fn faces(number: usize) -> impl Iterator<Item = Which> {
    let faces = (number..).zip(Which::BOTH);
    faces.filter_map(|(place, which)| (is_long() || place.is_multiple_of(2)).then_some(which))
}

/// Repeats the story until the node was observed while it did not vote.
fn play(event: &Event, which: Which, guard: RestartGuard) {
    let seen = (0..5).any(|_| is_seen_not_to_vote(event, which, guard));
    assert!(seen, "{}: every look came too late", event.name);
}

/// Returns `false` if the node was first observed after the end of every lock that it may have known.
fn is_seen_not_to_vote(event: &Event, which: Which, guard: RestartGuard) -> bool {
    let name = event.name;
    let mut scene = Scene::new(&(event.options)());
    let builder = scene.builder().restart_guard(guard);
    let mut face = which.build(builder.node_timeout(TTL).max_ttl(TTL));
    all_vote(&mut face);
    let lock = face.try_lock("a", TTL).expect("three vote");
    face.unlock(lock).expect("held");

    let begin = Instant::now();
    (event.happens)(&mut scene, &mut face);

    // A stranger holds one of the two others, so that the vote of this node would decide.
    scene.cluster[1].raw().set_px(b"b", b"foreign", LONG);
    let mut last = None;
    let seen = within_patience(|| {
        face.settle();
        let error = match face.try_lock("b", TTL) {
            Ok(lock) => {
                let late = begin.elapsed();
                assert!(TTL <= late, "{name}: it votes after {late:?}: {lock:?}");
                return Some(false);
            }
            Err(error) => error,
        };
        let said = report_of(&error).nodes()[0].outcome;
        last = Some(said);
        matches!(said, NodeOutcome::Quarantined { .. }).then_some(true)
    });
    match seen {
        Some(true) => {}
        Some(false) => return false,
        None => panic!("{name}: reported was {last:?}"),
    }

    // The node gets a copy of a lock that the others grant, and loses its copy of a refused one.
    let lock = face.lock("c", TTL).expect("two of three");
    face.await_copies(&scene.cluster, "c");
    face.unlock(lock).expect("two of three");
    face.assert_gone(&scene.cluster, "c");

    let again = within_patience(|| {
        face.settle();
        face.try_lock("b", TTL).ok()
    });
    let lock = again.unwrap_or_else(|| panic!("{name}: it never votes again"));
    face.unlock(lock).expect("two of three");
    scene.cluster[1].raw().del(b"b");
    face.assert_gone(&scene.cluster, "b");
    true
}

/// Waits until every node votes. Some have too short an uptime unless they are trusted.
fn all_vote(face: &mut Face) {
    until("all nodes vote", || {
        face.trust_all();
        face.settle();
        let ready = |node: &NodeStatus| node.state == NodeState::Ready;
        face.nodes().iter().all(ready)
    });
}
