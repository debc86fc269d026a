//! The lock delay on real servers: a killed holder keeps other clients out until the validity of its lock and the delay
//! have ended.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shearline::{Instant, LockOptions, Redlock};

use crate::face::{at, over, shared};
use crate::processes::{start, tell_and_hang};
use crate::servers::{self, Cluster, LONG, eventually};

const KEY: &str = "delayed";
const TTL: Duration = Duration::from_millis(1_500);
const DELAY: Duration = Duration::from_millis(1_200);

/// Returns the time of the clock that locks use.
fn now() -> Instant {
    let now = clock_gettime(ClockId::Boottime);
    Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn delaying(cluster: &Cluster, delay: Duration) -> Redlock {
    let redlock = over(cluster).lock_delay(delay).build();
    redlock.expect("a good configuration")
}

/// Plays the part of a process that takes the lock, writes its end into `file`, and hangs.
pub(crate) fn hold<'a>(nodes: impl Iterator<Item = &'a str>, file: &Path) {
    let redlock = at(nodes).lock_delay(DELAY).build();
    let redlock = redlock.expect("a good configuration");
    let guard = redlock.lock(KEY, TTL).expect("free");
    tell_and_hang(file, &guard.valid_until().as_nanos().to_string());
}

#[test]
fn a_holder_that_is_killed_keeps_others_out_for_the_delay_too() {
    let cluster = servers::three();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("end");
    let mut holder = start("hold", &cluster, file.to_str().expect("a plain path"));
    let end = eventually("the other process has the lock", || {
        fs::read_to_string(&file).ok()
    });
    holder.kill().expect("our own child");
    holder.wait().expect("it is dead");
    let end = Instant::from_nanos(end.parse().expect("a number"));
    let patient = LockOptions::new(LONG).wait(LONG);
    let guard = shared(&cluster).lock_with(KEY, &patient).expect("in time");
    let over = end.saturating_add(DELAY);
    assert!(
        over <= now(),
        "{:?} too early",
        over.saturating_since(now())
    );
    guard.unlock().expect("held");
    cluster.assert_gone(KEY);
}

#[test]
fn a_release_frees_the_lock_at_once() {
    let cluster = servers::three();
    let (redlock, other) = (delaying(&cluster, LONG), shared(&cluster));
    for unlocks in [true, false] {
        let guard = redlock.try_lock(KEY, LONG).expect("free");
        // A majority has the key; the third copy may still be on its way.
        let kept = cluster
            .raws()
            .iter_mut()
            .map(|raw| raw.pttl(KEY.as_bytes()))
            .max();
        let kept = kept.expect("three nodes");
        assert!((LONG * 3 / 2).as_millis() as i64 <= kept, "{kept} ms");
        assert!(guard.validity() < LONG);
        match unlocks {
            true => assert!(guard.unlock().is_ok()),
            false => drop(guard),
        }
        cluster.assert_gone(KEY);
        let guard = other.try_lock(KEY, LONG).expect("free");
        guard.unlock().expect("held");
    }
}
