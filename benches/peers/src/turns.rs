//! Interleaved turns of clients that lock, and ratios of the figures of one round.
//!
//! The clients take turns, in reversed order every second round, and only turns of the same round are compared. A turn
//! lasts for a fixed time and gives several figures: see [`Metric`].

use std::fmt;
use std::time::Duration;

use crate::Failure;
use crate::allocations::counted;
use crate::cycle::{Client, Log, Span, Until, now, process_time};
use crate::figure::{Figure, median};
use crate::table::Table;

/// A figure of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Metric {
    /// The median latency of a part of the cycle, in nanoseconds.
    Median(Span),
    /// The latency that only one in a hundred exceeds, in nanoseconds.
    Tail(Span),
    /// Processor time of this process for each cycle, all its threads and the kernel's work for
    /// them included, in nanoseconds.
    Cpu,
    /// Cycles in a second.
    Rate,
}

/// The figures of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    median: [f64; Span::ALL.len()],
    tail: [f64; Span::ALL.len()],
    cpu: f64,
    rate: f64,
}

impl Sample {
    /// Makes the figures of a turn that was measured elsewhere: the number of cycles, how long they and the processor
    /// took altogether, and the median and the tail of one cycle. There are no parts of a cycle.
    #[must_use]
    pub fn of_cycles(cycles: u64, elapsed: Duration, cpu: Duration, [p50, p99]: [u32; 2]) -> Self {
        let only = |nanos: u32| {
            Span::ALL.map(|span| match span {
                Span::Cycle => f64::from(nanos),
                Span::Acquire | Span::Extend | Span::Release => f64::NAN,
            })
        };
        Self {
            median: only(p50),
            tail: only(p99),
            cpu: cpu.as_nanos() as f64 / cycles as f64,
            rate: cycles as f64 / elapsed.as_secs_f64(),
        }
    }

    /// Returns this figure.
    #[must_use]
    pub fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Median(span) => self.median[span as usize],
            Metric::Tail(span) => self.tail[span as usize],
            Metric::Cpu => self.cpu,
            Metric::Rate => self.rate,
        }
    }
}

/// The figures of all turns, by client and round.
#[derive(Clone, Debug)]
pub struct Turns {
    samples: Vec<Vec<Sample>>,
}

/// Lets the clients take turns, each for this long and until the open cycle has ended. Reports to `progress` how many
/// rounds are over. A first turn of each does not count.
///
/// # Errors
///
/// The first error of a client.
pub fn take_turns(
    rounds: usize,
    slot: Duration,
    clients: &mut [&mut dyn Client],
    progress: impl FnMut(usize),
) -> Result<Turns, Failure> {
    let mut log = Log::default();
    let contestants = clients.len();
    let turn = |index: usize| turn(slot, clients[index], &mut log);
    interleave(rounds, contestants, turn, progress)
}

/// Does the same as [`take_turns`] for this many contestants of any kind: `turn` lets the one at a place have a turn.
///
/// # Errors
///
/// The first error of a turn.
pub fn interleave(
    rounds: usize,
    contestants: usize,
    mut turn: impl FnMut(usize) -> Result<Sample, Failure>,
    mut progress: impl FnMut(usize),
) -> Result<Turns, Failure> {
    for index in 0..contestants {
        turn(index)?;
    }
    let mut samples = vec![Vec::new(); contestants];
    for round in 0..rounds {
        for place in 0..contestants {
            let reversed = contestants - 1 - place;
            let index = if round % 2 == 0 { place } else { reversed };
            samples[index].push(turn(index)?);
        }
        progress(round + 1);
    }
    Ok(Turns { samples })
}

/// Lets a client run for this long.
///
/// # Errors
///
/// That of the client.
pub fn turn(slot: Duration, client: &mut dyn Client, log: &mut Log) -> Result<Sample, Failure> {
    client.prepare()?;
    log.clear();
    let cpu = process_time();
    let begin = now();
    client.run(Until::Time(begin + slot), log)?;
    let elapsed = begin.elapsed();
    let cpu = process_time() - cpu;
    client.settle()?;
    let cycles = log.cycles() as f64;
    Ok(Sample {
        median: Span::ALL.map(|span| rank(log.times(span), 50)),
        tail: Span::ALL.map(|span| rank(log.times(span), 99)),
        cpu: cpu.as_nanos() as f64 / cycles,
        rate: cycles / elapsed.as_secs_f64(),
    })
}

/// Returns how often a client allocates for each cycle once it is warm. This is computed from the difference between a
/// short and a longer turn, so allocations that happen once in a turn do not count.
///
/// # Errors
///
/// That of the client.
pub fn allocations(client: &mut dyn Client, cycles: u64) -> Result<f64, Failure> {
    let mut counts = [0; 2];
    let mut log = Log::with_capacity(usize::try_from(4 * cycles)?);
    client.prepare()?;
    client.run(Until::Cycles(2 * cycles), &mut log)?;
    for (count, times) in counts.iter_mut().zip([1, 2]) {
        log.clear();
        let (ran, counted) = counted(|| client.run(Until::Cycles(times * cycles), &mut log));
        ran?;
        *count = counted;
    }
    client.settle()?;
    let [short, long] = counts;
    Ok(long.saturating_sub(short) as f64 / cycles as f64)
}

impl Turns {
    /// Returns the median over all rounds.
    #[must_use]
    pub fn median(&self, metric: Metric, client: usize) -> f64 {
        let mut values: Vec<f64> = self.samples[client]
            .iter()
            .map(|sample| sample.get(metric))
            .collect();
        median(&mut values)
    }

    /// Returns how many times as much one client took as another.
    #[must_use]
    pub fn ratio(&self, metric: Metric, client: usize, other: usize) -> Figure {
        self.paired(metric, client, other, |value, other| value / other)
    }

    /// Returns by how much one client exceeds this many times another.
    #[must_use]
    pub fn excess(&self, metric: Metric, client: usize, times: f64, other: usize) -> Figure {
        self.paired(metric, client, other, |value, other| value - times * other)
    }

    /// Returns these figures of all clients, by their names, each with its ratio to that of the first.
    #[must_use]
    pub fn table(&self, names: &[String], metrics: &[Metric]) -> Table {
        let mut head = vec!["client".to_string()];
        for metric in metrics {
            head.extend([
                format!("{metric}, {}", metric.thousands()),
                "÷ first".into(),
            ]);
        }
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut table = Table::new(&head);
        for (index, name) in names.iter().enumerate() {
            let mut row = vec![name.clone()];
            for metric in metrics {
                row.push(format!("{:.1}", self.median(*metric, index) / 1e3));
                row.push(match index {
                    0 => "1".into(),
                    _ => self.ratio(*metric, index, 0).to_string(),
                });
            }
            table.row(row);
        }
        table
    }

    fn paired(
        &self,
        metric: Metric,
        client: usize,
        other: usize,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Figure {
        let pairs = self.samples[client].iter().zip(&self.samples[other]);
        Figure::of(pairs.map(|(one, other)| compare(one.get(metric), other.get(metric))))
    }
}

impl Metric {
    /// The unit of a thousandth: nanoseconds and single cycles are both a thousand times too small.
    const fn thousands(self) -> &'static str {
        match self {
            Self::Rate => "thousands",
            Self::Median(_) | Self::Tail(_) | Self::Cpu => "µs",
        }
    }
}

/// Returns the nearest rank: this many hundredths of the times are not larger.
fn rank(times: &mut [u32], hundredths: usize) -> f64 {
    if times.is_empty() {
        return f64::NAN;
    }
    let place = (times.len() * hundredths).div_ceil(100).max(1) - 1;
    f64::from(*times.select_nth_unstable(place).1)
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median(Span::Cycle) => f.write_str("p50"),
            Self::Median(span) => write!(f, "p50 of {span}"),
            Self::Tail(Span::Cycle) => f.write_str("p99"),
            Self::Tail(span) => write!(f, "p99 of {span}"),
            Self::Cpu => f.write_str("CPU for each cycle"),
            Self::Rate => f.write_str("cycles/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank_is_one_of_the_times() {
        let mut times: Vec<u32> = (1..=200).rev().collect();
        assert_eq!(rank(&mut times, 50), 100.0);
        assert_eq!(rank(&mut times, 99), 198.0);
        assert_eq!(rank(&mut [7], 50), 7.0);
        assert_eq!(rank(&mut [7], 99), 7.0);
    }

    /// A client that says how long its cycles take, without any time passing.
    struct Scripted {
        micros: u64,
        order: std::rc::Rc<std::cell::RefCell<String>>,
        name: char,
    }

    impl Client for Scripted {
        fn run(&mut self, _: Until, log: &mut Log) -> Result<(), Failure> {
            self.order.borrow_mut().push(self.name);
            let begun = now();
            let step = Duration::from_micros(self.micros);
            log.note(begun, begun + step, begun + step, begun + 3 * step);
            Ok(())
        }

        fn settle(&mut self) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[test]
    fn turns_are_compared_within_a_round_and_reversed_in_every_second_round() {
        let order = std::rc::Rc::default();
        let scripted = |name, micros| Scripted {
            micros,
            order: std::rc::Rc::clone(&order),
            name,
        };
        let (mut one, mut other) = (scripted('a', 4), scripted('b', 2));
        let turns = take_turns(3, Duration::ZERO, &mut [&mut one, &mut other], |_| ()).unwrap();
        assert_eq!(*order.borrow(), "ab ab ba ab".replace(' ', ""));
        let (cycle, acquire) = (Metric::Median(Span::Cycle), Metric::Tail(Span::Acquire));
        assert_eq!(turns.ratio(cycle, 0, 1).median, 2.0);
        assert_eq!(turns.median(cycle, 0), 12_000.0);
        assert_eq!(turns.median(acquire, 1), 2_000.0);
        assert_eq!(turns.excess(acquire, 0, 1.5, 1).median, 1_000.0);
    }
}
