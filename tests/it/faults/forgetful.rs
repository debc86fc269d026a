//! Servers that come back as others, and the restart guard's word on it.
//!
//! Whatever a server may have forgotten, its answers do not count before every lock is over that it
//! may have known of; its copy of a lock keeps others out meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use shearline::{NodeOutcome, NodeState, NodeStatus, RestartGuard};

use super::story::{Scene, report_of};
use crate::face::{Face, Which};
use crate::servers::{End, LONG, Options, Server, eventually, within_patience};

/// The longest ttl of all clients in these stories, and so how long a node is kept from voting.
const TTL: Duration = Duration::from_secs(3);

/// What makes a node one that may have forgotten.
struct Event {
    name: &'static str,
    options: fn() -> Options,
    happens: fn(&mut Scene, &mut Face),
}

/// What only a marker tells.
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
        options: || {
            Options::redis().arguments([
                "--enable-debug-command",
                "yes",
                "--loading-process-events-interval-bytes",
                "1024",
            ])
        },
        happens: |scene, face| reload(&scene.cluster[0], face),
    },
];

/// Another server stands at the address from now on, which had followed the first until it died.
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
    // Whatever asks the first node from outside asks this one.
    scene.cluster[0] = replica;
}

/// The data is loaded again, with the connections open, and that takes until it was noticed.
fn reload(server: &Server, face: &mut Face) {
    let mut raw = server.raw();
    let fill = b"for i = 1, 10000 do redis.call('set', 'filler:' .. i, string.rep('x', 200)) end";
    raw.command(&[b"EVAL", fill, b"0"]);
    raw.run("CONFIG SET key-load-delay 3000");
    let mut loading = server.raw();
    let loading = thread::spawn(move || drop(loading.try_command(&[b"DEBUG", b"RELOAD"])));
    await_unusable(face);
    server.raw().run("CONFIG SET key-load-delay 0");
    loading.join().expect("it only waits");
}

/// Whoever is asked to write and cannot is given up, to be greeted anew.
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
        for event in &EVENTS {
            for which in Which::BOTH {
                scope.spawn(move || tell(event, which, RestartGuard::Observed));
            }
        }
    });
}

#[test]
fn a_node_whose_marker_shows_that_it_may_have_forgotten_does_not_vote_for_as_long() {
    thread::scope(|scope| {
        for event in EVENTS.iter().chain([&FLUSHALL]) {
            for which in Which::BOTH {
                scope.spawn(move || tell(event, which, RestartGuard::Strict));
            }
        }
    });
}

/// Tells it until the node was seen while it did not vote.
fn tell(event: &Event, which: Which, guard: RestartGuard) {
    let seen = (0..5).any(|_| is_seen_not_to_vote(event, which, guard));
    assert!(seen, "{}: every look came too late", event.name);
}

/// Returns `false` if the first look came when every lock was over that the node may have known of.
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

    // A stranger has one of the two others, so that the vote of this one would decide.
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

    // It gets its copy of a lock that the others grant, and the copy of one that was refused goes.
    let lock = face.lock("c", TTL).expect("two of three");
    eventually(&format!("{name}, {which:?}: all have it"), || {
        face.settle();
        (scene.cluster.copies("c") == 3).then_some(())
    });
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

/// Waits until every node votes, of which some are too young to do so unless they are vouched for.
fn all_vote(face: &mut Face) {
    eventually("all nodes vote", || {
        face.trust();
        face.settle();
        let ready = |node: &NodeStatus| node.state == NodeState::Ready;
        face.nodes().iter().all(ready).then_some(())
    });
}

/// What no handle can see, which is why the guarantees name it.
#[test]
fn data_that_is_flushed_is_not_noticed() {
    let scene = Scene::new(&Options::redis());
    for which in Which::BOTH {
        let builder = scene.builder().restart_guard(RestartGuard::Observed);
        let mut face = which.build(builder.max_ttl(TTL));
        all_vote(&mut face);
        scene.cluster[0].raw().run("FLUSHALL");
        scene.cluster[1].raw().set_px(b"a", b"foreign", LONG);
        let lock = face.try_lock("a", TTL).expect("the first and the third");
        face.unlock(lock).expect("two of three");
        assert_eq!(face.nodes()[0].state, NodeState::Ready);
    }
}
