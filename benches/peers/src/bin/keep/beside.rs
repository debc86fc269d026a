//! The lock of another key, in turns with some 30,000 renewals a second and without any.

use std::thread;
use std::time::{Duration, Instant};

use shearline_peers::Failure;
use shearline_peers::clients::shearline::{Shared, patient};
use shearline_peers::cycle::{Caller, now};
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::table::Table;

use crate::Plan;
use crate::gauges::Gauges;
use crate::kept::KeptLocks;

const RENEWALS_A_SECOND: f64 = 30_000.0;

/// The pause between two cycles, as of a program that locks a thousand times a second.
const PAUSE: Duration = Duration::from_micros(500);

/// The times that it took to take the lock, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Turn {
    median: f64,
    tail: f64,
}

/// Turns with renewals and turns without.
#[derive(Debug, Default)]
struct Turns {
    none: Vec<Turn>,
    renewals: Vec<Turn>,
    /// How many renewals there were in a second.
    rates: Vec<f64>,
    /// How much processor time each server took for a renewal.
    servers: Vec<f64>,
    lost: usize,
}

pub(crate) fn measure(
    plan: &Plan,
    progress: &mut Progress,
    judgement: &mut Judgement,
) -> Result<Table, Failure> {
    progress.next("the lock of another key".into());
    let (servers, urls) = crate::start()?;
    let mut ours = Shared::build(&patient(&urls), "another")?;
    let half = plan.ttl / 2;
    let locks = (RENEWALS_A_SECOND * half.as_secs_f64()) as usize;
    let mut turns = Turns::default();
    turn(&mut ours, plan.turn / 4)?;
    for round in 0..plan.rounds {
        turns.none.push(turn(&mut ours, plan.turn)?);
        let kept = KeptLocks::take(&ours.handle, locks, plan.ttl, Some(half))?;
        // From here on, extensions are as evenly spread over time as the locks were when they were taken.
        let (ends, gauges) = (kept.ends(), Gauges::read(&servers)?);
        turns.renewals.push(turn(&mut ours, plan.turn)?);
        let grown = gauges.grown(&servers)?;
        let renewals = kept.extended_since(&ends) as f64;
        turns.rates.push(renewals / grown.time.as_secs_f64());
        turns
            .servers
            .push(grown.servers.as_secs_f64() * 1e6 / renewals / servers.len() as f64);
        turns.lost = turns.lost.max(kept.state().lost).max(kept.release()?);
        progress.round(round + 1);
    }
    Ok(table(&turns, judgement))
}

/// Takes and releases the lock of another key for this long.
fn turn(caller: &mut impl Caller, time: Duration) -> Result<Turn, Failure> {
    let mut taken = Vec::with_capacity(1 << 16);
    let end = now() + time;
    while now() < end {
        thread::sleep(PAUSE);
        let begin: Instant = now();
        let lock = caller.acquire()?;
        taken.push(begin.elapsed().as_secs_f64() * 1e6);
        caller.release(lock)?;
    }
    taken.sort_by(f64::total_cmp);
    let rank = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    Ok(Turn {
        median: rank(0.5),
        tail: rank(0.99),
    })
}

fn table(turns: &Turns, judgement: &mut Judgement) -> Table {
    let mut table = Table::new(&[
        "renewals a second",
        "p50, us",
        "p99, us",
        "p50, times none",
        "p99, times none",
        "a server's CPU for a renewal and what was locked beside it, us",
        "lost",
    ]);
    table.row([
        "0".into(),
        of(&turns.none, MEDIAN).to_string(),
        of(&turns.none, TAIL).to_string(),
        "1".into(),
        "1".into(),
        String::new(),
        String::new(),
    ]);
    let tail = of_pairs(&turns.renewals, &turns.none, TAIL);
    table.row([
        Figure::of(&turns.rates).to_string(),
        of(&turns.renewals, MEDIAN).to_string(),
        of(&turns.renewals, TAIL).to_string(),
        of_pairs(&turns.renewals, &turns.none, MEDIAN).to_string(),
        judgement.with_bound(tail, Bound::AtMost(1.3)),
        Figure::of(&turns.servers).to_string(),
        judgement.exact_with_bound(turns.lost as f64, Bound::AtMost(0.0)),
    ]);
    table
}

const MEDIAN: fn(&Turn) -> f64 = |turn| turn.median;
const TAIL: fn(&Turn) -> f64 = |turn| turn.tail;

fn of(turns: &[Turn], get: fn(&Turn) -> f64) -> Figure {
    Figure::of(turns.iter().map(get))
}

/// Returns the ratio of each turn to the other one.
fn of_pairs(turns: &[Turn], others: &[Turn], get: fn(&Turn) -> f64) -> Figure {
    let pairs = turns.iter().zip(others);
    Figure::of(pairs.map(|(one, other)| get(one) / get(other)))
}
