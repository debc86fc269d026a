//! Sixty-four threads use one handle while the nodes are frozen, killed and cut off at random. Afterwards no resource
//! has been used up.
//!
//! The test takes three seconds, or as many as `SOAK_SECONDS` says. It counts the descriptors, threads and pages of a
//! whole process, so it runs in a process of its own, which is this test binary again. With `--nocapture` it prints a
//! line each second.
//!
//! Exclusion is not checked here: servers without a disk that are killed forget their keys.

use std::alloc::System;
use std::env;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use cap::Cap;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use shearline::{
    ExtendError, LockError, LockOptions, NodeState, Redlock, RestartGuard, UnlockError,
};

use crate::parts::{part, played};
use crate::servers::{self, Cluster, End, LONG, Mischief, Proxy, eventually, until};

const SECONDS: &str = "SOAK_SECONDS";
const ALONE: &str = "SHEARLINE_TEST_SOAK";
const THREADS: usize = 64;

/// How many locks are taken before anything is counted.
const FIRST_TURNS: u64 = 100;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The most memory that may still be in use at the end. After one minute it is about 5 MiB, and after four still that.
const KEPT_KIB: usize = 16 << 10;
/// Four threads contend for each.
const KEYS: usize = 16;

#[test]
fn faults_use_up_no_resource() {
    let said = played(part("soak::process_of_its_own").env(ALONE, "1"));
    // The summary of that process must not be counted as one of this run.
    let lines = said.lines().filter(|line| !line.starts_with("test result"));
    lines.for_each(|line| println!("{line}"));
    assert!(said.contains(" after, "), "it was played: {said}");
}

/// The part of the process of its own. Without that part it does nothing.
#[test]
#[ignore = "a part of another test"]
fn process_of_its_own() {
    if env::var_os(ALONE).is_none() {
        return;
    }
    let seconds = env::var(SECONDS).map_or(3, |text| text.parse().expect("a number of seconds"));
    let mut scene = Scene::start();
    let counts = Counts::default();
    scene.work(&counts, |_| {
        until("there is something to do", || {
            let turns = counts.locked.load(Relaxed);
            FIRST_TURNS <= turns
        });
    });
    let before = scene.settled("before");

    let mut samples = 0;
    let seed = u64::from(std::process::id());
    let mut random = StdRng::seed_from_u64(seed);
    println!("seed {seed}");
    scene.work(&counts, |scene| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            if samples <= start.elapsed().as_secs() {
                println!("{samples:3} s {:?}", Sample::now(&scene.redlock));
                samples += 1;
            }
            scene.disturb(&mut random);
        }
    });
    let after = scene.settled("after");
    println!("{before:?} before, {after:?} after, {counts:?}");
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    assert_eq!((after.debts, after.in_flight), (0, 0));
    // Buffers stay allocated for as many operations as were ever open at once, and that number is bounded.
    assert!(after.allocated_kib < before.allocated_kib + KEPT_KIB);
}

/// Five servers, each behind a relay, and a handle.
struct Scene {
    cluster: Cluster,
    proxies: Vec<Proxy>,
    redlock: Redlock,
}

/// What the workers saw.
#[derive(Debug, Default)]
struct Counts {
    locked: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

#[derive(Clone, Copy)]
enum Fault {
    Freeze,
    Kill,
    Cut(End),
    Mischief(Mischief),
}

const FAULTS: [Fault; 7] = [
    Fault::Freeze,
    Fault::Kill,
    Fault::Cut(End::Fin),
    Fault::Cut(End::Rst),
    Fault::Mischief(Mischief::HalfOpen),
    Fault::Mischief(Mischief::Delay(Duration::from_millis(60))),
    Fault::Mischief(Mischief::Cut(40, End::Rst)),
];

impl Scene {
    fn start() -> Self {
        let cluster = servers::five();
        let proxies = cluster.proxies();
        let redlock = Redlock::builder()
            .nodes(proxies.iter().map(Proxy::url))
            .node_timeout(Duration::from_millis(100))
            .connect_timeout(Duration::from_millis(500))
            .restart_guard(RestartGuard::Off)
            .build()
            .expect("a good configuration");
        Self {
            cluster,
            proxies,
            redlock,
        }
    }

    /// Lets all threads take and release locks while `meanwhile` runs.
    fn work(&mut self, counts: &Counts, meanwhile: impl FnOnce(&mut Self)) {
        /// Ends the threads, also when `meanwhile` fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (redlock, over) = (self.redlock.clone(), &over);
                scope.spawn(move || {
                    for turn in thread.. {
                        if over.load(Relaxed) {
                            return;
                        }
                        take_and_give_back(&redlock, thread % KEYS, turn, counts);
                    }
                });
            }
            let _over = Over(&over);
            meanwhile(self);
        });
    }

    /// One or two nodes are disturbed for a moment.
    fn disturb(&mut self, random: &mut StdRng) {
        let [first, second] = [(); 2].map(|()| random.random_range(0..self.proxies.len()));
        let mut fault = || FAULTS[random.random_range(0..FAULTS.len())];
        let mut struck = vec![(first, fault())];
        if first != second {
            struck.push((second, fault()));
        }
        for &(node, fault) in &struck {
            match fault {
                Fault::Freeze => self.cluster[node].freeze(),
                Fault::Kill => self.cluster[node].kill(),
                Fault::Cut(end) => self.proxies[node].cut(end),
                Fault::Mischief(mischief) => self.proxies[node].set(mischief),
            }
        }
        thread::sleep(Duration::from_millis(random.random_range(0..250)));
        for &(node, fault) in &struck {
            match fault {
                Fault::Freeze => self.cluster[node].thaw(),
                Fault::Kill => self.cluster[node].restart(),
                Fault::Cut(_) => {}
                Fault::Mischief(_) => self.proxies[node].set(Mischief::None),
            }
        }
    }

    /// Waits until every node votes, nothing is open or still to be released, and no key is left. Returns the resources
    /// that are in use then.
    #[track_caller]
    fn settled(&self, when: &str) -> Sample {
        until(&format!("{when}: all vote, and owe nothing"), || {
            let nodes = self.redlock.nodes();
            nodes
                .iter()
                .all(|node| node.state == NodeState::Ready && node.debts + node.in_flight == 0)
        });
        self.cluster.assert_empty();
        // The relays close their connections a little later.
        let connections = 2 * self.proxies.len();
        let mut last = Sample::now(&self.redlock);
        eventually(&format!("{when}: no number moves"), || {
            thread::sleep(Duration::from_millis(100));
            let sample = Sample::now(&self.redlock);
            let rests = (sample.descriptors, sample.threads) == (last.descriptors, last.threads);
            last = sample;
            (rests && connections < last.descriptors).then_some(last)
        })
    }
}

fn take_and_give_back(redlock: &Redlock, key: usize, turn: usize, counts: &Counts) {
    let options = LockOptions::new(LONG).wait(Duration::from_millis(300));
    let mut guard = match redlock.lock_with(format!("soak:{key}"), &options) {
        Ok(guard) => guard,
        Err(LockError::Held(_) | LockError::NoQuorum(_)) => {
            counts.refused.fetch_add(1, Relaxed);
            return;
        }
        Err(other) => panic!("nothing else may happen: {other}"),
    };
    counts.locked.fetch_add(1, Relaxed);
    if turn.is_multiple_of(3) {
        match guard.extend(LONG) {
            Ok(()) | Err(ExtendError::Unconfirmed(_)) => {}
            Err(ExtendError::Lost(_)) => drop(counts.lost.fetch_add(1, Relaxed)),
            Err(other) => panic!("nothing else may happen: {other}"),
        }
    }
    if turn.is_multiple_of(2) {
        match guard.unlock() {
            Ok(_) | Err(UnlockError::Unconfirmed(_)) => {}
            Err(UnlockError::NotHeld(_)) => drop(counts.lost.fetch_add(1, Relaxed)),
            Err(other) => panic!("nothing else may happen: {other}"),
        }
    }
}

/// The resources of this process at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    descriptors: usize,
    threads: usize,
    allocated_kib: usize,
    debts: usize,
    in_flight: usize,
}

impl Sample {
    fn now(redlock: &Redlock) -> Self {
        let count = |of| fs::read_dir(of).expect("this is Linux").count();
        let nodes = redlock.nodes();
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            allocated_kib: ALLOCATOR.allocated() / 1024,
            debts: nodes.iter().map(|node| node.debts).sum(),
            in_flight: nodes.iter().map(|node| node.in_flight).sum(),
        }
    }
}
