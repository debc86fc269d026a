//! Measures how soon the first lock comes after a hole, which is a while in which every packet to and from every node
//! is lost.
//!
//! The packets are real, lost between the kernel's two ends of TCP connections ([`crate::servers::Link`]), so that TCP
//! waits as it does before it sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use shearline::{Redlock, UnlockError};

use crate::effort::is_long;
use crate::face::{Face, Held, Which};
use crate::namespaces::{Namespaces, PROBE, run, story_to_play};
use crate::servers::{Cluster, LONG, Link, Options, Raw, Reply, Weather, encrypted, longest_stop};

const OWN: Namespaces = Namespaces {
    arguments: &["--net"],
    inside: "timed::holes::inside",
};

/// How long the first lock after a hole may take, with six round trips of a few microseconds.
const BOUND: Duration = Duration::from_millis(310);

/// How often servers and this process take turns until there is a lock. Each turn may be delayed by as long as
/// something stood still, which is measured.
const TURNS: u32 = 12;

/// The bound over TLS. Handshakes take processor time of the client and of the servers, which are busy and slow in test
/// builds. After the longer holes, TCP's next try would come later than this.
const BOUND_OVER_TLS: Duration = Duration::from_secs(1);

/// The lengths of holes in milliseconds, and how often each is played. The bound holds for the best of them.
const HOLES: [(&str, u64, usize); 4] = [
    ("hole of 0.3 s", 300, 5),
    ("hole of 1 s", 1_000, 3),
    ("hole of 3 s", 3_000, 1),
    ("hole of 8 s", 8_000, 2),
];

/// How many of these holes the short run plays.
const SHORT: usize = 3;

#[test]
fn the_first_lock_after_a_network_hole_comes_soon() {
    let stories = HOLES.map(|(story, ..)| story);
    let holes = if is_long() { HOLES.len() } else { SHORT };
    OWN.play_all(&stories[..holes]);
}

/// The part of the process in the namespace. Without a story it does nothing.
#[test]
#[ignore = "a part of another test"]
fn inside() {
    let Some((story, _)) = story_to_play() else {
        return;
    };
    run("ip link set lo up");
    if story == PROBE {
        return drop(Link::new(0));
    }
    let hole = HOLES.iter().find(|(name, ..)| *name == story);
    let (name, millis, times) = hole.expect("a story");
    behind(name, Duration::from_millis(*millis), *times);
}

fn behind(name: &str, hole: Duration, times: usize) {
    let everywhere = ["--bind", "0.0.0.0", "--protected-mode", "no"];
    let cluster = Cluster::with(3, &Options::redis().arguments(everywhere));
    let link = Link::new(3);
    let mut faces = Which::BOTH.map(|which| {
        let urls = cluster.iter().map(|server| link.url(server));
        which.build(Redlock::builder().nodes(urls))
    });
    let mut monitors: Vec<Raw> = cluster.raws();
    for raw in &mut monitors {
        assert_eq!(raw.run("MONITOR"), Reply::Simple("OK".into()));
    }
    let mut took = [Vec::new(), Vec::new()];
    faces.iter_mut().for_each(Face::await_ready);
    let mut beside = cluster.raws();
    let open = descriptors();
    for turn in 0..times {
        for face in &mut faces {
            face.await_ready();
            let lock = face.lock("before", LONG).expect("free");
            give_back(face, lock);
        }
        link.set(Weather::lost(100));
        let over = Mutex::new(None);
        let over = &over;
        thread::scope(|scope| {
            let looks = (0..).zip(&mut faces).map(|(place, face)| {
                scope.spawn(move || first_lock(face, &format!("{place}:{turn}"), over))
            });
            let looks: Vec<_> = looks.collect();
            thread::sleep(hole);
            let end = Instant::now();
            {
                // The holder of the mutex looks at the value only when it is there.
                let mut over = over.lock().expect("no thread panics while it holds this");
                link.set(Weather::default());
                *over = Some(Instant::now());
            }
            let had = || looks.iter().all(ScopedJoinHandle::is_finished);
            let stood_still = longest_stop(&mut beside, end, had);
            for (took, look) in took.iter_mut().zip(looks) {
                let look = look.join().expect("it has said why");
                took.push(look.saturating_sub(TURNS * stood_still));
            }
        });
    }
    faces.iter_mut().for_each(Face::await_settled);
    assert_eq!(descriptors(), open, "every probe is closed");
    cluster.assert_empty();
    for (node, raw) in monitors.iter_mut().enumerate() {
        released_once(&cluster, node, raw);
    }
    println!("{name}: shared {:?}, local {:?}", took[0], took[1]);
    let bound = match encrypted::is_usual() {
        true => BOUND_OVER_TLS,
        false => BOUND,
    };
    for took in took {
        assert!(took.iter().min() < Some(&bound), "{name}: {took:?}");
    }
}

/// Tries until there is a lock. Returns how long after the end of the hole that was.
fn first_lock(face: &mut Face, name: &str, over: &Mutex<Option<Instant>>) -> Duration {
    for attempt in 0.. {
        if let Ok(lock) = face.try_lock(format!("{name}:{attempt}"), LONG) {
            let had = Instant::now();
            let over = over.lock().expect("no thread panics while it holds this");
            let over = over.expect("no packet gets through before");
            give_back(face, lock);
            return had.saturating_duration_since(over);
        }
        thread::sleep(Duration::from_millis(3));
    }
    unreachable!("it goes on until there is one")
}

/// Releases a lock. With default settings a release waits for a shorter time than a machine may stand still; after that
/// it is sent in the background.
fn give_back(face: &mut Face, lock: Held) {
    let released = face.unlock(lock);
    assert_matches!(released, Ok(_) | Err(UnlockError::Unconfirmed(_)));
}

fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("there is a list");
    all.count()
}

/// Checks that every `SET` that the node has seen is followed by a release, and that none is
/// released twice over one connection.
#[track_caller]
fn released_once(cluster: &Cluster, node: usize, monitor: &mut Raw) {
    cluster[node].raw().run("ECHO the-end");
    let mut releases: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut sets = BTreeSet::new();
    loop {
        let Reply::Simple(line) = monitor.reply().expect("a line") else {
            panic!("a line of the monitor");
        };
        if line.contains("the-end") {
            break;
        }
        // Each word is in quotation marks, after the time and the client.
        let words: Vec<&str> = line.split("\" \"").collect();
        let (front, verb) = words[0].split_once('"').unwrap_or_default();
        match (verb, words.len()) {
            ("SET", _) => drop(sets.insert(words[1].to_owned())),
            // With a key and a token: not the request that checks a permission.
            ("EVAL" | "EVALSHA", 5) if 20 <= words[4].len() => {
                let from = front.split(' ').nth(2).unwrap_or_default();
                let place = (words[3].to_owned(), from.to_owned());
                *releases.entry(place).or_default() += 1;
            }
            _ => {}
        }
    }
    for (place, count) in &releases {
        assert!(*count == 1 || place.0 == "before", "{place:?}: {count}");
    }
    for set in &sets {
        assert!(releases.keys().any(|(key, _)| key == set), "{set} stays");
    }
}
