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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::sweep::say;

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
    over: AtomicBool,
}

static RUNS: Mutex<Vec<Arc<Run>>> = Mutex::new(Vec::new());
static LOOKS: std::sync::Once = std::sync::Once::new();

thread_local! {
    static OWN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

/// Lives while this thread runs a history.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Run>);

impl Watched {
    pub(crate) fn new(name: String) -> Self {
        let run = Arc::new(Run {
            name,
            thread: thread(),
            beats: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        OWN.set(Some(Arc::clone(&run)));
        RUNS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&run));
        LOOKS.call_once(|| {
            std::thread::spawn(look);
        });
        Self(run)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        OWN.set(None);
        self.0.over.store(true, Ordering::Relaxed);
        RUNS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|run| !Arc::ptr_eq(run, &self.0));
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

/// Returns the folder of this thread in `/proc`.
fn thread() -> String {
    let link = std::fs::read_link("/proc/thread-self");
    link.map_or_else(
        |_| String::new(),
        |link| format!("/proc/{}", link.display()),
    )
}

/// Returns how much processor time a thread has used. If the system does not report it, the time
/// that passes counts.
fn taken(run: &Run, passed: Duration) -> Duration {
    let text = std::fs::read_to_string(format!("{}/schedstat", run.thread));
    let nanos = text
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or(passed, Duration::from_nanos)
}

fn patience() -> Duration {
    crate::replay::number(SHORTER).map_or(PATIENCE, Duration::from_millis)
}

/// Looks at all runs until one of them makes no progress.
fn look() {
    let patience = patience();
    let period = PERIOD.min(patience);
    // The progress of each run when it last made some, and the processor time that it had used
    // then.
    let mut seen: Vec<(Arc<Run>, u64, Duration)> = Vec::new();
    let mut passed = Duration::ZERO;
    loop {
        std::thread::sleep(period);
        passed += period;
        seen.retain(|(run, ..)| !run.over.load(Ordering::Relaxed));
        let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for run in runs {
            let (beats, taken) = (run.beats.load(Ordering::Relaxed), taken(&run, passed));
            let known = seen.iter_mut().find(|(known, ..)| Arc::ptr_eq(known, &run));
            match known {
                Some((_, then, since)) if *then == beats => {
                    if patience <= taken.saturating_sub(*since) {
                        end(&run, beats);
                    }
                }
                Some(known) => *known = (run, beats, taken),
                None => seen.push((run, beats, taken)),
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
    use std::process::Command;

    /// A kind whose plan is never drawn: it loops for ever.
    const STUCK: Kind = Kind {
        name: "stuck",
        draw: |_| {
            loop {
                std::hint::spin_loop();
            }
        },
    };

    const CHILD: &str = "WATCHDOG_CHILD";

    /// The test runs in another process, because the watchdog ends that.
    #[test]
    fn a_call_that_does_not_return_is_named() {
        if std::env::var_os(CHILD).is_some() {
            Case::of_seed(STUCK, 17).run(Keep::default());
            return;
        }
        let own = std::env::current_exe().expect("it runs");
        let child = Command::new(own)
            .args([
                "watchdog::tests::a_call_that_does_not_return_is_named",
                "--exact",
            ])
            .env(CHILD, "1")
            .env(SHORTER, "200")
            .output()
            .expect("it can be started");
        let words = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(STATUS), "{words}");
        assert!(words.contains("seed 17 of stuck"), "{words}");
    }
}
