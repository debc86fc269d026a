//! Those who hold locks, beside very many who wait for another one in the same process.
//!
//! Two handles take turns: one has the waiters, the other has none. First nothing else happens; then
//! eight threads of the same handle lock and unlock keys of their own without a pause.
//!
//! Not here: what the waiters cost, and how fast they are served ([`many`](crate::many)).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use shearline::{LockGuard, LockOptions, Redlock};
use shearline_peers::clients::runtime;
use shearline_peers::clients::shearline::patient;
use shearline_peers::cycle::{TTL, now};
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::judgement::Judgement;
use shearline_peers::measure::Failure;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;
use tokio::runtime::Runtime;

use crate::hands::{Hands, urls};
use crate::play::WANTED;
use crate::raw::Raw;
use crate::{addresses, load, middle};

/// The key that all wait for lives longer than anybody looks.
const LONG: Duration = Duration::from_secs(3_600);

/// From the last waiter to the first turn.
const REST: Duration = Duration::from_secs(1);

/// The ttl of the lock that is extended.
const HELD: Duration = Duration::from_secs(5);

/// How many threads lock and unlock in busy loops.
const BUSY: usize = 8;

/// How often each call is timed in a turn without them.
const EACH: usize = 40;

/// How many times as long a call may take beside waiters.
const DELAY: f64 = 1.1;

/// The same for extensions beside busy loops.
const BUSY_DELAY: f64 = 2.0;

/// How the lock is called.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Face {
    Blocking,
    Future,
}

const FACES: [Face; 2] = [Face::Blocking, Face::Future];

impl Face {
    const fn title(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Future => "future",
        }
    }
}

/// The calls that are timed, in the order of [`Times`].
const CALLS: [&str; 3] = ["extension", "unlock", "lock of another key"];

/// Microseconds: for each call one time, or all of a turn.
type Times = [Vec<f64>; 3];

/// A handle of which one lock is held.
struct Side {
    handle: Redlock,
    held: LockGuard,
    name: &'static str,
}

impl Side {
    fn new(servers: &[Server], name: &'static str) -> Result<Self, Failure> {
        let handle = patient(&urls(&addresses(servers))).build()?;
        let held = handle.lock(name, HELD)?;
        Ok(Self { handle, held, name })
    }

    /// Returns the median of each call in a turn without busy loops.
    fn turn(&mut self, face: Face, runtime: &Runtime) -> Result<[f64; 3], Failure> {
        let mut times = Times::default();
        for _ in 0..EACH {
            let taken = match face {
                Face::Blocking => self.call(),
                Face::Future => runtime.block_on(self.await_calls()),
            };
            for (times, time) in times.iter_mut().zip(taken?) {
                times.push(time);
            }
        }
        Ok(times.map(|times| middle(&times)))
    }

    fn call(&mut self) -> Result<[f64; 3], Failure> {
        let begin = now();
        self.held.extend(HELD)?;
        let extended = now();
        let other = self.handle.lock("of another", TTL)?;
        let locked = now();
        other.unlock()?;
        Ok(spans(begin, extended, locked))
    }

    async fn await_calls(&mut self) -> Result<[f64; 3], Failure> {
        let begin = now();
        self.held.extend_async(HELD).await?;
        let extended = now();
        let other = self.handle.lock_async("of another", TTL).await?;
        let locked = now();
        other.unlock_async().await?;
        Ok(spans(begin, extended, locked))
    }

    /// Extends the lock for so long, one extension after the other, beside busy loops of this handle.
    fn busy_turn(&mut self, time: Duration, seen: &mut Extensions) -> Result<(), Failure> {
        let (over, locks) = (AtomicBool::new(false), AtomicU64::new(0));
        let handle = &self.handle;
        let held = &mut self.held;
        let (begin, mut times) = (now(), Vec::new());
        thread::scope(|scope| {
            for number in 0..BUSY {
                let (over, locks) = (&over, &locks);
                scope.spawn(move || lock_and_unlock(handle, number, over, locks));
            }
            while times.is_empty() || begin.elapsed() < time {
                let asked = now();
                if let Err(error) = held.extend(HELD) {
                    seen.failed += 1;
                    eprintln!("an extension failed: {error}");
                    break;
                }
                times.push(micros(asked, now()) / 1e3);
            }
            over.store(true, Ordering::Relaxed);
        });
        let locks = locks.into_inner() as f64 / begin.elapsed().as_secs_f64();
        if !self.held.is_valid() {
            self.held = self.handle.lock(self.name, HELD)?;
        }
        seen.note(times, locks);
        Ok(())
    }
}

/// Locks and unlocks a key of its own until it is `over`, and counts that.
fn lock_and_unlock(handle: &Redlock, number: usize, over: &AtomicBool, locks: &AtomicU64) {
    let name = format!("busy {number}");
    while !over.load(Ordering::Relaxed) {
        let ended = handle
            .lock(&name, TTL)
            .map(|lock| lock.unlock().map(|_| ()));
        match ended {
            Ok(Ok(())) => _ = locks.fetch_add(1, Ordering::Relaxed),
            Ok(Err(error)) => eprintln!("a busy loop: {error}"),
            Err(error) => eprintln!("a busy loop: {error}"),
        }
    }
}

fn spans(begin: Instant, extended: Instant, locked: Instant) -> [f64; 3] {
    [
        micros(begin, extended),
        micros(locked, now()),
        micros(extended, locked),
    ]
}

fn micros(from: Instant, until: Instant) -> f64 {
    (until - from).as_secs_f64() * 1e6
}

/// Extensions beside busy loops, of all turns. Milliseconds.
#[derive(Default)]
struct Extensions {
    medians: Vec<f64>,
    tails: Vec<f64>,
    longest: Vec<f64>,
    count: usize,
    failed: u32,
    locks: Vec<f64>,
}

impl Extensions {
    fn note(&mut self, mut times: Vec<f64>, locks: f64) {
        times.sort_by(f64::total_cmp);
        let rank = |hundredths: usize| {
            times.get((times.len() * hundredths / 100).min(times.len().saturating_sub(1)))
        };
        self.medians.extend(rank(50));
        self.tails.extend(rank(99));
        self.longest.extend(times.last());
        self.count += times.len();
        self.locks.push(locks);
    }
}

pub(crate) struct Tables {
    pub(crate) calls: Table,
    pub(crate) busy: Table,
}

pub(crate) fn measure(
    servers: &[Server],
    rounds: usize,
    waiters: u64,
    time: Duration,
    progress: &Progress,
    judgement: &mut Judgement,
    tables: &mut Tables,
) -> Result<(), Failure> {
    let runtime = runtime(true)?;
    let mut holder = Raw::connect(&addresses(servers))?;
    holder.hold(WANTED, LONG)?;
    let mut sides = [
        Side::new(servers, "held, without waiters")?,
        Side::new(servers, "held, with waiters")?,
    ];
    for _ in 0..waiters {
        let options = LockOptions::new(TTL).wait(LONG);
        let waiter = sides[1].handle.lock_with_async(WANTED, &options);
        runtime.spawn(async move {
            if let Err(error) = waiter.await {
                eprintln!("a waiter: {error}");
            }
        });
    }
    thread::sleep(REST);
    calls(
        servers.len(),
        &mut sides,
        rounds,
        &runtime,
        progress,
        judgement,
        &mut tables.calls,
    )?;
    busy(
        servers.len(),
        &mut sides,
        rounds,
        time,
        progress,
        judgement,
        &mut tables.busy,
    )?;
    // The waiters are dropped while the key is held.
    runtime.shutdown_background();
    drop(sides);
    holder.release()
}

/// Both sides take turns, without busy loops.
fn calls(
    nodes: usize,
    sides: &mut [Side; 2],
    rounds: usize,
    runtime: &Runtime,
    progress: &Progress,
    judgement: &mut Judgement,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut times: [[Times; 2]; 2] = Default::default();
    for round in 0..rounds {
        for (face, times) in FACES.into_iter().zip(&mut times) {
            for place in 0..2 {
                let side = (round + place) % 2;
                let medians = sides[side].turn(face, runtime)?;
                for (times, median) in times[side].iter_mut().zip(medians) {
                    times.push(median);
                }
            }
        }
        progress.round(round + 1);
    }
    for (face, [without, with]) in FACES.into_iter().zip(&times) {
        for (call, (without, with)) in CALLS.into_iter().zip(without.iter().zip(with)) {
            table.row([
                nodes.to_string(),
                face.title().to_owned(),
                call.to_owned(),
                Figure::of(without).to_string(),
                Figure::of(with).to_string(),
                times_as_long(judgement, without, with, DELAY),
                load(),
            ]);
        }
    }
    Ok(())
}

/// Both sides take turns, beside busy loops.
fn busy(
    nodes: usize,
    sides: &mut [Side; 2],
    rounds: usize,
    time: Duration,
    progress: &Progress,
    judgement: &mut Judgement,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut seen = [Extensions::default(), Extensions::default()];
    for round in 0..rounds {
        for place in 0..2 {
            let side = (round + place) % 2;
            // The lock of the other side is not extended meanwhile.
            sides[1 - side].held.extend(TTL.max(time * 2))?;
            sides[side].busy_turn(time, &mut seen[side])?;
        }
        progress.round(round + 1);
    }
    let [without, with] = &seen;
    let none = Bound::AtMost(0.0);
    let verdicts = [
        times_as_long(judgement, &without.medians, &with.medians, BUSY_DELAY),
        times_as_long(judgement, &without.tails, &with.tails, BUSY_DELAY),
        times_as_long(judgement, &without.longest, &with.longest, BUSY_DELAY),
        format!(
            "{}, {none}",
            judgement.note_exact(f64::from(with.failed), none)
        ),
    ];
    for (who, side, verdicts) in [("none", without, None), ("many", with, Some(verdicts))] {
        let [median, tail, longest, failed] = verdicts
            .unwrap_or_else(|| ["", "", "", &without.failed.to_string()].map(str::to_owned));
        table.row([
            nodes.to_string(),
            who.to_owned(),
            side.count.to_string(),
            Figure::of(&side.medians).to_string(),
            median,
            Figure::of(&side.tails).to_string(),
            tail,
            Figure::of(&side.longest).to_string(),
            longest,
            format!("{:.1}", side.longest.iter().copied().fold(0.0, f64::max)),
            failed,
            Figure::of(&side.locks).to_string(),
            load(),
        ]);
    }
    Ok(())
}

/// Compares the turns of each round.
fn times_as_long(judgement: &mut Judgement, without: &[f64], with: &[f64], most: f64) -> String {
    let pairs = with.iter().zip(without);
    let ratios: Vec<f64> = pairs.map(|(with, without)| with / without).collect();
    let bound = Bound::AtMost(most);
    format!("{}, {bound}", judgement.note(Figure::of(&ratios), bound))
}

pub(crate) fn tables() -> Tables {
    Tables {
        calls: Table::new(&[
            "nodes",
            "calls",
            "what",
            "without waiters, µs",
            "with, µs",
            "times as long",
            "load",
        ]),
        busy: Table::new(&[
            "nodes",
            "waiters",
            "extensions",
            "p50, ms",
            "times as long",
            "p99, ms",
            "times as long",
            "longest of a turn, ms",
            "times as long",
            "longest of all",
            "failed",
            "locks/s of the busy loops",
            "load",
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_by_its_median_its_tail_and_its_longest() {
        let mut seen = Extensions::default();
        seen.note((1..=100).map(f64::from).collect(), 7.0);
        seen.note(vec![3.0], 7.0);
        assert_eq!(seen.medians, [51.0, 3.0]);
        assert_eq!(seen.tails, [100.0, 3.0]);
        assert_eq!((seen.longest, seen.count), (vec![100.0, 3.0], 101));
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        let mut judgement = Judgement::default();
        let said = times_as_long(&mut judgement, &[10.0, 20.0], &[11.0, 22.0], 1.1);
        assert_eq!(said, "1.10 [1.10, 1.10] met, at most 1.1");
        let said = times_as_long(&mut judgement, &[10.0, 20.0], &[12.0, 24.0], 1.1);
        assert!(said.contains("**NOT met**"), "{said}");
        assert_eq!((judgement.met, judgement.missed), (1, 1));
    }
}
