//! Nodes that restart without their memory, with and without the restart guard.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use shearline::{
    Builder, LockError, LockGuard, NodeOutcome, NodeState, NodeStatus, Redlock, RestartGuard,
    Retry, TrustError,
};

use crate::face::{at, no_quorum};
use crate::servers::{self, ClosedPort, Cluster, eventually};

/// The longest ttl of all clients where nodes forget again and again.
pub(crate) const TTL: Duration = Duration::from_millis(300);

/// The longest ttl of all clients where a test waits for a node that forgot.
const BRIEF: Duration = Duration::from_secs(3);

/// The ttl of a lock that is extended.
const LONG: Duration = Duration::from_secs(60);

fn over(urls: impl IntoIterator<Item = String>, longest: Duration) -> Builder {
    let retry = Retry::new(
        u32::MAX,
        Duration::from_millis(1)..=Duration::from_millis(9),
    );
    at(urls).max_ttl(longest).retry(retry)
}

/// A handle that lets all its nodes vote at once, however short their uptime.
fn trusting(builder: &Builder) -> Redlock {
    let redlock = builder.build().expect("built");
    eventually("all that answer are trusted", || {
        redlock.trust_nodes();
        let settled =
            |node: &NodeStatus| matches!(node.state, NodeState::Ready | NodeState::Down(_));
        redlock.nodes().iter().all(settled).then_some(())
    });
    redlock
}

fn quarantined(redlock: &Redlock, node: usize) -> bool {
    let outcome = no_quorum(redlock.try_lock("probe", BRIEF)).nodes()[node].outcome;
    matches!(outcome, NodeOutcome::Quarantined { .. })
}

#[test]
fn a_node_that_forgot_does_not_vote_before_every_lock_is_over() {
    let mut cluster = servers::three();
    let redlock = trusting(&over(cluster.urls(), BRIEF));
    redlock
        .lock("a", BRIEF)
        .expect("three vote")
        .unlock()
        .expect("held");
    cluster[1].kill();
    cluster[0].restart();
    eventually("the restart is seen", || {
        quarantined(&redlock, 0).then_some(())
    });
    let lock = redlock.lock("a", BRIEF).expect("two vote in the end");
    lock.unlock().expect("held");
}

#[test]
fn a_node_that_has_just_started_votes_at_once_if_an_operator_trusts_it() {
    let cluster = servers::three();
    let redlock = over(cluster.urls(), LONG).build().expect("built");
    eventually("all are met", || {
        let all = (0..3).all(|node| quarantined(&redlock, node));
        all.then_some(())
    });
    for (node, url) in cluster.urls().iter().enumerate() {
        let run_id = cluster[node]
            .raw()
            .info("server", "run_id")
            .expect("reported");
        assert_eq!(redlock.nodes()[node].run_id.as_ref(), Some(&run_id));
        assert_eq!(
            redlock.trust_node(url, &run_id),
            Ok(true),
            "it was kept out"
        );
        assert_eq!(redlock.trust_node(url, &run_id), Ok(false), "it is not");
        let other = "0123456789012345678901234567890123456789";
        let changed = Err(TrustError::Changed { run_id });
        assert_eq!(redlock.trust_node(url, other), changed);
    }
    let unknown = redlock.trust_node("10.0.0.1:6379", "0123");
    assert_eq!(unknown, Err(TrustError::UnknownNode));
    let lock = redlock.try_lock("a", LONG).expect("three vote");
    lock.unlock().expect("held");
}

#[test]
fn a_forgotten_copy_is_restored_by_the_extensions() {
    not_with!(NoScripts, "its first lock is to be on all nodes");
    let mut cluster = servers::three();
    let redlock = trusting(&over(cluster.urls(), LONG));
    let mut lock = redlock.lock("a", LONG).expect("three vote");
    eventually("all have it", || (cluster.copies("a") == 3).then_some(()));
    cluster[2].restart();
    assert_eq!(cluster.copies("a"), 2);
    eventually("it is there again", || {
        lock.extend(LONG).expect("two of three");
        (cluster.copies("a") == 3).then_some(())
    });
    lock.unlock().expect("held");
    cluster.assert_empty();
}

/// Each holder checks whether another's lock is valid too.
#[derive(Default)]
struct Witness {
    held: Mutex<[Option<LockGuard>; CLIENTS]>,
    locks: AtomicU32,
    together: AtomicU32,
    over: AtomicBool,
}

const CLIENTS: usize = 4;

impl Witness {
    fn held(&self) -> MutexGuard<'_, [Option<LockGuard>; CLIENTS]> {
        self.held
            .lock()
            .expect("no thread panics while it holds this")
    }

    fn hold(&self, client: usize, lock: LockGuard) {
        let mut held = self.held();
        let others = held.iter().flatten().any(LockGuard::is_valid);
        self.together
            .fetch_add(u32::from(others && lock.is_valid()), Ordering::Relaxed);
        self.locks.fetch_add(1, Ordering::Relaxed);
        held[client] = Some(lock);
    }

    /// Takes the lock and keeps it for nearly as long as it lasts, again and again.
    fn contend(&self, client: usize, redlock: &Redlock, ttl: Duration) {
        while !self.over.load(Ordering::Relaxed) {
            match redlock.lock_with("a", &shearline::LockOptions::new(ttl).wait(ttl)) {
                Ok(lock) => self.hold(client, lock),
                Err(LockError::Held(_) | LockError::NoQuorum(_) | LockError::TooSlow(_)) => {
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            thread::sleep(ttl * 4 / 5);
            let lock = self.held()[client].take().expect("it was held");
            drop(lock.unlock());
        }
    }
}

/// Two pairs of clients. Each pair reaches two nodes of three, and both reach the middle one, which
/// is killed and restarted empty once a second, until `enough` says so after a number of times,
/// locks of `ttl`, and locks beside another. Returns these numbers.
pub(crate) fn restarts(
    guard: RestartGuard,
    ttl: Duration,
    enough: impl Fn(u32, u32, u32) -> bool,
) -> (u32, u32) {
    let mut cluster = Cluster::start(3);
    let away = ClosedPort::new();
    let [left, middle, right] = [0, 1, 2].map(|node| cluster[node].url());
    let handles: Vec<Redlock> = [[&left, &middle], [&middle, &right]]
        .iter()
        .flat_map(|nodes| [nodes; CLIENTS / 2])
        .map(|nodes| {
            let urls = nodes.iter().copied().cloned();
            trusting(&over(urls.chain([away.url()]), ttl).restart_guard(guard))
        })
        .collect();
    let witness = Witness::default();
    thread::scope(|scope| {
        for (client, redlock) in handles.iter().enumerate() {
            let witness = &witness;
            scope.spawn(move || witness.contend(client, redlock, ttl));
        }
        for times in 1..=120 {
            let begin = Instant::now();
            cluster[1].restart();
            while begin.elapsed() < Duration::from_secs(1) {
                thread::sleep(Duration::from_millis(10));
            }
            let [locks, together] =
                [&witness.locks, &witness.together].map(|count| count.load(Ordering::Relaxed));
            if enough(times, locks, together) {
                break;
            }
        }
        witness.over.store(true, Ordering::Relaxed);
    });
    (witness.locks.into_inner(), witness.together.into_inner())
}

/// The known hole of Redlock, which the guard closes.
#[test]
fn nodes_that_forget_make_two_holders_only_without_the_guard() {
    // If a restart takes longer than these locks last, the test uses longer ones.
    let found = [1, 4, 16].iter().any(|times_as_long| {
        let enough = |times, _, together| 20 <= times || 0 < together;
        0 < restarts(RestartGuard::Off, TTL * *times_as_long, enough).1
    });
    assert!(found, "never two at once");
    // On a machine with time for it there is more than a lock a second.
    let enough = |times, locks, _| 8 <= times && 8 <= locks;
    let (locks, together) = restarts(RestartGuard::Observed, TTL, enough);
    assert_eq!(together, 0, "{locks} locks");
    assert!(8 <= locks, "{locks} locks");
}
