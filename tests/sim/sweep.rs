//! Runs many histories of one kind, on all cores. One thread runs each history, from its seed alone.

use std::io::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::case::{Case, Keep, Kind, Tally};
use crate::mutations::Chosen;
use crate::oracle::Violation;

/// The result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) tally: Tally,
    /// The objections, by seed.
    pub(crate) failures: Vec<(u64, Violation)>,
    pub(crate) spent: Duration,
    /// The processor time of the threads, also on a busy machine.
    pub(crate) cpu: Duration,
}

/// When a sweep ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Until {
    /// After the last seed.
    Last,
    /// At the first seed to which an oracle objects, whichever thread is faster.
    Objection,
}

/// Runs the histories of `seeds`.
pub(crate) fn sweep(kind: Kind, seeds: Range<u64>, until: Until) -> Sweep {
    let begin = real_time();
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let sum = Mutex::new(Sweep::default());
    let said = AtomicU64::new(0);
    let work = || {
        let (since, taken) = (real_time(), thread_time());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                break;
            }
            let outcome = Case::of_seed(kind, seed).run(Keep::default());
            let mut sum = sum.lock().expect("no thread panics here");
            sum.tally.add(&outcome.tally);
            if let Some(violation) = outcome.violation {
                if until == Until::Last {
                    say(&crate::replay::report(kind, seed, &violation));
                }
                sum.failures.push((seed, violation));
                if until == Until::Objection {
                    end.fetch_min(seed, Ordering::Relaxed);
                }
            }
            let passed = begin.elapsed().as_secs();
            if said.load(Ordering::Relaxed) + SAID_EVERY <= passed {
                said.store(passed, Ordering::Relaxed);
                let (worlds, objections) = (sum.tally.worlds, sum.failures.len());
                say(&format!(
                    "{worlds} histories, {objections} objections, {passed} s"
                ));
            }
        }
        let taken = taken.and_then(|taken| Some(thread_time()? - taken));
        let taken = taken.unwrap_or_else(|| since.elapsed());
        sum.lock().expect("no thread panics here").cpu += taken;
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(work);
        }
    });
    let mut sum = sum.into_inner().expect("no thread panics here");
    sum.failures.sort_by_key(|(seed, _)| *seed);
    sum.spent = begin.elapsed();
    sum
}

/// Plays the first `histories` of a kind, and says what happened.
///
/// # Panics
///
/// If an oracle objects.
pub(crate) fn keep_their_promises(kind: Kind, histories: u64) -> Tally {
    let _chosen = Chosen::in_world(None, kind);
    let sweep = sweep(kind, 0..histories, Until::Last);
    say(&format!("{}: {}", kind.name, sweep.summary()));
    sweep.assert_no_objection(kind);
    sweep.tally
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a sweep takes is no part of any world"
)]
pub(crate) fn real_time() -> Instant {
    Instant::now()
}

fn thread_time() -> Option<Duration> {
    time_of("/proc/thread-self")
}

/// Returns how much processor time the thread with this folder has used, where the system reports it.
pub(crate) fn time_of(thread: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("{thread}/schedstat")).ok()?;
    let nanos = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Sweep {
    /// Returns the lowest seed to which an oracle objected.
    pub(crate) fn first(&self) -> Option<&(u64, Violation)> {
        self.failures.first()
    }

    /// Prints how to see each of the first objections.
    ///
    /// # Panics
    ///
    /// If there is an objection.
    pub(crate) fn assert_no_objection(&self, kind: Kind) {
        for (seed, violation) in self.failures.iter().take(5) {
            println!("{}", crate::replay::report(kind, *seed, violation));
        }
        let (name, bad) = (kind.name, self.failures.len());
        assert_eq!(bad, 0, "oracles object to {bad} histories of {name}");
    }

    /// Returns the result in a few lines.
    pub(crate) fn summary(&self) -> String {
        let (tally, cpu) = (&self.tally, self.cpu.as_secs_f64());
        format!(
            "{} histories in {:.1} s, {cpu:.1} s of a core: \
             {:.1} histories and {:.2} million inputs in a second of one core\n{tally:?}",
            tally.worlds,
            self.spent.as_secs_f64(),
            tally.worlds as f64 / cpu,
            tally.inputs as f64 / cpu / 1e6,
        )
    }
}

/// After how many seconds a sweep prints its progress again.
const SAID_EVERY: u64 = 10;

/// Prints a line past the capture of the test harness.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
