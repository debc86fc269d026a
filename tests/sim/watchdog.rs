//! A watchdog: a call of an engine that does not return would block a sweep for ever.
//!
//! Each thread that runs a history shows its progress. If one has worked for [`PATIENCE`] of
//! processor time without progress, the process ends, and its last message names the history. Time
//! for which the thread did not run does not count, so a busy machine does no harm.
//!
//! # Not here
//!
//! Histories that make progress without an end: [`World::endless`](crate::world::World::endless).

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sweep::{say, time_of};

/// The most processor time without progress: calls are over within microseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the watchdog looks.
const PERIOD: Duration = Duration::from_secs(1);

/// The exit status of the process.
const STATUS: i32 = 102;

/// The patience in the tests of the watchdog itself, in milliseconds.
const SHORTER: &str = "WATCHDOG_MS";

/// One history that is being run.
#[derive(Debug)]
struct Run {
    name: String,
    /// The folder of its thread in `/proc`.
    thread: String,
    beats: AtomicU64,
    /// How many beats there were when a look last found progress, and the processor time that it had used then.
    seen: Mutex<(u64, Duration)>,
}

static RUNS: Mutex<Vec<Arc<Run>>> = Mutex::new(Vec::new());
static LOOKS: std::sync::Once = std::sync::Once::new();

thread_local! {
    static OWN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

/// Locks what a thread that panics leaves as it should be.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lives while this thread runs a history.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Run>);

impl Watched {
    pub(crate) fn new(name: String) -> Self {
        let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let run = Arc::new(Run {
            name,
            thread: format!("/proc/{}", thread.display()),
            beats: AtomicU64::new(0),
            seen: Mutex::new((u64::MAX, Duration::ZERO)),
        });
        OWN.set(Some(Arc::clone(&run)));
        locked(&RUNS).push(Arc::clone(&run));
        LOOKS.call_once(|| {
            std::thread::spawn(look);
        });
        Self(run)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        OWN.set(None);
        locked(&RUNS).retain(|run| !Arc::ptr_eq(run, &self.0));
    }
}

/// Notes that the history of this thread has made progress.
pub(crate) fn beat() {
    OWN.with_borrow(|run| {
        if let Some(run) = run {
            run.beats.fetch_add(1, Ordering::Relaxed);
        }
    });
}

fn patience() -> Duration {
    crate::replay::number(SHORTER).map_or(PATIENCE, Duration::from_millis)
}

/// Looks at all runs until one of them makes no progress. Where the system does not report processor time, the time
/// that passes counts.
fn look() {
    let patience = patience();
    let period = PERIOD.min(patience);
    let mut passed = Duration::ZERO;
    loop {
        std::thread::sleep(period);
        passed += period;
        for run in locked(&RUNS).iter() {
            let beats = run.beats.load(Ordering::Relaxed);
            let taken = time_of(&run.thread).unwrap_or(passed);
            let mut seen = locked(&run.seen);
            if seen.0 != beats {
                *seen = (beats, taken);
            } else if patience <= taken.saturating_sub(seen.1) {
                end(run, beats);
            }
        }
    }
}

/// Ends the process: a thread that does not return cannot be ended in another way.
fn end(run: &Run, beats: u64) -> ! {
    say(&format!(
        "an engine does not return: {}, after {beats} steps",
        run.name
    ));
    std::process::exit(STATUS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Keep, Kind};
    use crate::kinds::kind;
    use std::process::Command;

    /// A kind whose plan is never drawn: it loops for ever.
    const STUCK: Kind = kind("stuck", |_| {
        loop {
            std::hint::spin_loop();
        }
    });

    const CHILD: &str = "WATCHDOG_CHILD";

    /// The test runs in another process, because the watchdog ends that.
    #[test]
    fn a_call_that_does_not_return_is_named() {
        if std::env::var_os(CHILD).is_some() {
            Case::of_seed(STUCK, 17).run(Keep::default());
            return;
        }
        let own = std::env::current_exe().expect("it runs");
        let name = "watchdog::tests::a_call_that_does_not_return_is_named";
        let child = Command::new(own)
            .args([name, "--exact"])
            .env(CHILD, "1")
            .env(SHORTER, "200")
            .output()
            .expect("it can be started");
        let words = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(STATUS), "{words}");
        assert!(words.contains("seed 17 of stuck"), "{words}");
    }
}
