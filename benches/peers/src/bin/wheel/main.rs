//! The timer wheel beside the queue of `tokio-util`, a `BTreeMap` and a `BinaryHeap`: in one run, on
//! the same deadlines.
//!
//! Prints tables of ratios in Markdown, which go into `README.md` beside this file unchanged. What
//! a figure means is explained there, in `shearline_peers::measure` and in
//! `shearline_peers::figure`.

mod timers;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::measure::{Contestant, Failure, Plan, Rounds, measure};
use shearline_peers::table::Table;

use timers::{CLOCK, Heap, Ours, Queue, Sorted};
use work::{bytes, churn, fill_fire, fire, pair};

/// The length of a turn: long enough that the cache holds mostly the contestant's own data.
const SLOT: Duration = Duration::from_millis(60);

/// All in the first cache, and most in none.
const FEW: usize = 64;
const MANY: usize = 1_000_000;

/// Compares the timer wheel of shearline with others and prints tables of ratios.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest, at least; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// Seconds that each contest takes, at least.
    #[arg(long, default_value_t = 0)]
    seconds: u64,

    /// What to compare, more than once for several; everything by default.
    #[arg(long = "case", value_parser = ["pair", "churn", "fill-fire", "dead"])]
    cases: Vec<String>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

/// The contestants, and ours again beside itself.
const NAMES: [&str; 5] = [
    "shearline",
    "shearline against itself",
    "`DelayQueue` of tokio-util",
    "`BTreeMap`",
    "`BinaryHeap`, cleaned when half is dead",
];
const OTHERS: [usize; 3] = [2, 3, 4];

/// By place in [`OTHERS`]. `None`: shown, and not compared with a bound.
type Bounds = [Option<f64>; OTHERS.len()];

/// An operation on timers: its name, how ours and the others do it, and the bounds.
struct Case {
    name: &'static str,
    title: &'static str,
    contestants: fn(usize) -> [Contestant<'static>; NAMES.len()],
    /// How many times as long each of the others takes at least, with few armed and with many.
    bounds: [Bounds; 2],
}

macro_rules! of_all {
    ($work:ident) => {
        |armed| {
            [
                $work::<Ours>(armed),
                $work::<Ours>(armed),
                $work::<Queue>(armed),
                $work::<Sorted>(armed),
                $work::<Heap<true>>(armed),
            ]
        }
    };
}

const CASES: [Case; 3] = [
    Case {
        name: "pair",
        title: "arm a timer and cancel it",
        contestants: of_all!(pair),
        bounds: [[Some(1.5); 3], [Some(3.0), Some(3.0), None]],
    },
    Case {
        name: "churn",
        title: "cancel any timer and arm another",
        contestants: of_all!(churn),
        bounds: [[Some(1.5); 3], [Some(3.0), Some(3.0), None]],
    },
    Case {
        name: "fill-fire",
        title: "arm all and let all fire",
        contestants: of_all!(fill_fire),
        bounds: [[None; 3], [Some(1.0); 3]],
    },
];

/// A million timers cost at most so many times as much as 64.
const GROWTH: Bound = Bound::AtMost(10.0);

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures and prints. Returns whether the status is zero.
fn compare(arguments: &Arguments) -> Result<bool, Failure> {
    if cfg!(debug_assertions) {
        eprintln!("built without --release: the figures mean nothing");
    }
    let plan = Plan {
        rounds: usize::try_from(arguments.rounds)?,
        time: Duration::from_secs(arguments.seconds),
        slot: SLOT,
    };
    let _context = CLOCK.enter();
    let chosen = |case: &str| {
        arguments.cases.is_empty() || arguments.cases.iter().any(|chosen| chosen == case)
    };
    let mut judgement = Judgement::default();
    let mut figures = Table::new(&["work", "timers", "64 armed", "ns", "1,000,000 armed", "ns"]);
    let mut bounds = Table::new(&["work", "time", "64 armed", "1,000,000 armed"]);
    for case in CASES.iter().filter(|case| chosen(case.name)) {
        let rounds = contest(&plan, case)?;
        write(&mut figures, case, &rounds);
        judge(&mut bounds, &mut judgement, case, &rounds);
    }
    if judgement.any() {
        println!("### Bounds of the wheel\n\n{bounds}\n{judgement}\n\n### Timers\n\n{figures}");
    }
    if chosen("dead") {
        println!("### Dead entries\n\n{}", dead(&plan)?);
    }
    Ok(!arguments.check || judgement.good())
}

/// All with few timers, then all with many, in turns of one contest.
fn contest(plan: &Plan, case: &Case) -> Result<Rounds, Failure> {
    eprintln!("{}", case.title);
    let few = (case.contestants)(FEW).into_iter();
    let mut contestants: Vec<_> = few.chain((case.contestants)(MANY)).collect();
    measure(plan, &mut contestants, |_| ())
}

/// The place of a contestant with many timers.
const fn many(index: usize) -> usize {
    NAMES.len() + index
}

fn write(table: &mut Table, case: &Case, rounds: &Rounds) {
    for (index, name) in NAMES.iter().enumerate() {
        let title = if index == 0 { case.title } else { "" };
        table.row([
            title.to_string(),
            (*name).to_string(),
            rounds.ratio(index, 0).to_string(),
            format!("{:.1}", rounds.nanos(index)),
            rounds.ratio(many(index), many(0)).to_string(),
            format!("{:.1}", rounds.nanos(many(index))),
        ]);
    }
}

fn judge(table: &mut Table, judgement: &mut Judgement, case: &Case, rounds: &Rounds) {
    let mut title = case.title;
    for (place, other) in OTHERS.into_iter().enumerate() {
        let ratios = [rounds.ratio(other, 0), rounds.ratio(many(other), many(0))];
        let bounds = case.bounds.map(|bounds| bounds[place]);
        if bounds == [None; 2] {
            continue;
        }
        let cells: Vec<String> = ratios
            .into_iter()
            .zip(bounds)
            .map(|(ratio, bound)| match bound {
                Some(times) => {
                    let verdict = judgement.note(ratio, Bound::AtLeast(times));
                    format!("{verdict}, at least {times}")
                }
                None => format!("{ratio}, no bound"),
            })
            .collect();
        let [few, many] = [&cells[0], &cells[1]].map(String::clone);
        let ratio = format!("{} ÷ shearline", NAMES[other]);
        table.row([title.to_string(), ratio, few, many]);
        title = "";
    }
    let growth = judgement.note(rounds.ratio(many(0), 0), GROWTH);
    let ratio = "shearline ÷ shearline with 64 armed".to_string();
    table.row([
        String::new(),
        ratio,
        String::new(),
        format!("{growth}, {GROWTH}"),
    ]);
}

/// The cost that a heap defers when a timer is cancelled.
fn dead(plan: &Plan) -> Result<Table, Failure> {
    eprintln!("dead entries");
    let mut contestants = [
        fire::<Ours>(MANY, 0),
        fire::<Ours>(MANY, 2),
        fire::<Heap<false>>(MANY, 0),
        fire::<Heap<false>>(MANY, 2),
        fire::<Heap<true>>(MANY, 2),
    ];
    let names = [
        ("shearline", "none", bytes::<Ours>(MANY, 0)),
        ("shearline", "two for each", bytes::<Ours>(MANY, 2)),
        ("`BinaryHeap`", "none", bytes::<Heap<false>>(MANY, 0)),
        (
            "`BinaryHeap`, never cleaned",
            "two for each",
            bytes::<Heap<false>>(MANY, 2),
        ),
        (
            "`BinaryHeap`, cleaned when half is dead",
            "two for each",
            bytes::<Heap<true>>(MANY, 2),
        ),
    ];
    let rounds = measure(plan, &mut contestants, |_| ())?;
    let head = [
        "timers",
        "armed and cancelled before",
        "bytes for each live",
        "to fire",
        "ns",
    ];
    let mut table = Table::new(&head);
    for (index, (name, cancelled, bytes)) in names.into_iter().enumerate() {
        table.row([
            name.to_string(),
            cancelled.to_string(),
            format!("{bytes:.0}"),
            rounds.ratio(index, 0).to_string(),
            format!("{:.0}", rounds.nanos(index)),
        ]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_fires_every_timer_once() {
        let _context = CLOCK.enter();
        for mut contestant in of_all!(fill_fire)(100) {
            assert_eq!(contestant.rehearse().unwrap().0, 100);
        }
        for mut contestant in [fire::<Heap<false>>(100, 2), fire::<Heap<true>>(100, 2)] {
            assert_eq!(contestant.rehearse().unwrap().0, 100);
        }
    }

    #[test]
    fn every_wheel_cancels_armed_timers() {
        let _context = CLOCK.enter();
        for contestants in [of_all!(pair)(8), of_all!(churn)(8)] {
            for mut contestant in contestants {
                contestant.rehearse().unwrap();
            }
        }
    }
}
