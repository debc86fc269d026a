//! Sixteen contenders, in two processes and in sixteen.

use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::progress::load;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::hands::{LIBRARIES, Who, stamp};
use crate::mate;
use crate::play::Part;
use crate::statistics::Statistics;
use crate::{Report, addresses};

/// How many contenders there are.
const CONTENDERS: usize = 16;

const HOLD: Duration = Duration::from_millis(1);

/// The time for telling all contenders when to begin.
const LEAD: Duration = Duration::from_millis(200);

/// How the contenders are distributed. They want the lock all the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    title: &'static str,
    processes: usize,
    /// The bounds on the longest wait in fair shares, and on messages for each node and hand-over.
    bounds: [Bound; 2],
}

/// Eight threads in each of two processes.
pub(crate) const TWO: Shape = Shape {
    title: "2 processes of 8",
    processes: 2,
    bounds: [Bound::AtMost(8.0), Bound::AtMost(6.0)],
};

/// One thread in each of sixteen processes.
pub(crate) const SIXTEEN: Shape = Shape {
    title: "16 processes",
    processes: CONTENDERS,
    bounds: [Bound::AtMost(10.0), Bound::AtMost(35.0)],
};

/// The results of one library.
pub(crate) struct Crowd {
    who: Who,
    /// All waits of all turns, in milliseconds.
    waits: Vec<f64>,
    /// For each turn, hand-overs in a second,
    rates: Vec<f64>,
    /// the longest wait in milliseconds,
    longest: Vec<f64>,
    /// and what each node executed for a hand-over.
    statistics: Vec<Statistics>,
}

impl Crowd {
    fn new(who: Who) -> Self {
        Self {
            who,
            waits: Vec::new(),
            rates: Vec::new(),
            longest: Vec::new(),
            statistics: Vec::new(),
        }
    }

    fn turn(&mut self, shape: Shape, servers: &[Server], time: Duration) -> Result<(), Failure> {
        let nodes = addresses(servers);
        let processes = shape.processes;
        let mates = (0..processes).map(|_| mate::process(Part::Contender, self.who, &nodes));
        let mut mates = mates.collect::<Result<Vec<_>, _>>()?;
        let before = Statistics::of(servers)?;
        let begin = stamp() + LEAD.as_nanos() as u64;
        let end = begin + time.as_nanos() as u64;
        let (threads, hold) = (CONTENDERS / processes, HOLD.as_micros());
        for mate in &mut mates {
            mate.tell(&format!("{threads} {hold} {begin} {end}"))?;
        }
        thread::sleep(LEAD + time);
        let mut locks = Vec::new();
        for mate in &mut mates {
            let said = mate.hear("locks")?;
            for lock in said.split_whitespace() {
                locks.push(stamps(lock)?);
            }
        }
        let statistics = Statistics::of(servers)?.since(&before);
        one_at_a_time(&mut locks)?;
        self.note(&locks, end, time, statistics);
        Ok(())
    }

    fn note(&mut self, locks: &[[u64; 3]], end: u64, time: Duration, statistics: Statistics) {
        let waits = locks.iter().map(|[wanted, granted, _]| granted - wanted);
        let waits: Vec<f64> = waits.map(|wait| wait as f64 / 1e6).collect();
        // Waits that had begun are finished after the end, and count as waits.
        let within = locks.iter().filter(|[_, granted, _]| *granted < end);
        self.rates.push(within.count() as f64 / time.as_secs_f64());
        self.longest.push(waits.iter().copied().fold(0.0, f64::max));
        self.statistics.push(statistics.divided(locks.len() as f64));
        self.waits.extend(waits);
    }

    /// Returns the longest wait of each turn, in fair shares. If all contenders took turns, each would wait for one
    /// share.
    fn shares(&self) -> Figure {
        let pairs = self.longest.iter().zip(&self.rates);
        let share = |rate: f64| CONTENDERS as f64 * 1e3 / rate;
        Figure::of(pairs.map(|(wait, rate)| wait / share(*rate)))
    }

    fn messages(&self) -> Figure {
        Figure::of(self.statistics.iter().map(Statistics::messages))
    }

    fn row(&self, nodes: usize, shape: Shape, verdicts: [String; 2]) -> Vec<String> {
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        let last = waits.len().saturating_sub(1);
        let rank = |hundredths: usize| waits.get(last * hundredths / 100).copied();
        let [p50, p99] = [50, 99].map(|of| rank(of).map_or(String::new(), |it| format!("{it:.1}")));
        let [shares, messages] = verdicts;
        vec![
            nodes.to_string(),
            shape.title.to_owned(),
            self.who.title().to_owned(),
            Figure::of(&self.rates).to_string(),
            p50,
            p99,
            format!("{:.0}", self.longest.iter().copied().fold(0.0, f64::max)),
            shares,
            messages,
            self.statistics
                .last()
                .map_or(String::new(), Statistics::words),
            load(),
        ]
    }
}

fn stamps(lock: &str) -> Result<[u64; 3], Failure> {
    let stamps: Result<Vec<u64>, _> = lock.split(':').map(str::parse).collect();
    stamps?.try_into().map_err(|_| "not three stamps".into())
}

/// Fails if two held the lock at the same time.
fn one_at_a_time(locks: &mut [[u64; 3]]) -> Result<(), Failure> {
    if locks.is_empty() {
        return Err("nobody got the lock".into());
    }
    locks.sort_by_key(|[_, granted, _]| *granted);
    let overlap = |pair: &[[u64; 3]]| pair[1][1] < pair[0][2];
    match locks.windows(2).find(|pair| overlap(pair)) {
        Some(pair) => Err(format!("two held the lock at a time: {pair:?}").into()),
        None => Ok(()),
    }
}

/// Lets both libraries take turns.
pub(crate) fn measure(
    servers: &[Server],
    shape: Shape,
    turns: usize,
    time: Duration,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut crowds = LIBRARIES.map(Crowd::new);
    for turn in 0..turns {
        for place in 0..crowds.len() {
            let index = (turn + place) % crowds.len();
            crowds[index].turn(shape, servers, time)?;
        }
        report.progress.round(turn + 1);
    }
    for crowd in &crowds {
        let [shares, messages] = shape.bounds;
        let judgement = &mut report.judgement;
        let verdicts = match crowd.who {
            Who::Redlock => [
                judgement.with_bound(crowd.shares(), shares),
                judgement.with_bound(crowd.messages(), messages),
            ],
            Who::Floor | Who::Rslock => [crowd.shares(), crowd.messages()].map(|it| it.to_string()),
        };
        report.crowds.row(crowd.row(servers.len(), shape, verdicts));
    }
    Ok(())
}

pub(crate) fn table() -> Table {
    Table::new(&[
        "nodes",
        "contenders",
        "client",
        "hand-overs/s",
        "wait p50, ms",
        "p99",
        "longest",
        "longest in fair shares",
        "messages per node and hand-over",
        "of which",
        "load",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_holders_at_a_time_are_found() {
        assert!(one_at_a_time(&mut [[0, 20, 30], [0, 10, 20]]).is_ok());
        let found = one_at_a_time(&mut [[0, 19, 30], [0, 10, 20]]).unwrap_err();
        assert!(found.to_string().starts_with("two held"), "{found}");
        assert!(one_at_a_time(&mut []).is_err());
        assert!(stamps("1:2").is_err());
        assert_eq!(stamps("1:2:3").unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_wait_of_a_whole_round_is_one_fair_share() {
        let mut crowd = Crowd::new(Who::Redlock);
        // 1,000 hand-overs in a second: 16 of them take 16 ms.
        let at = (0..1_000).map(|at| at * 1_000_000);
        let mut locks: Vec<[u64; 3]> = at.map(|at| [at, at, 0]).collect();
        locks[20][0] -= 16_000_000;
        crowd.note(
            &locks,
            1_000_000_000,
            Duration::from_secs(1),
            Statistics::default(),
        );
        assert_eq!(crowd.shares().median, 1.0);
        assert_eq!(crowd.rates, [1_000.0]);
    }
}
