//! Kept locks: what very many of them on one handle over three real nodes cost in memory, processor time and delay of
//! other locks.
//!
//! Prints tables in Markdown, which go unchanged into the `README.md` next to this file. The meaning of the figures is
//! explained there.

mod beside;
mod gauges;
mod idle;
mod kept;
mod sweep;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use shearline_peers::Failure;
use shearline_peers::allocations::keep_counting;
use shearline_peers::judgement::{Judgement, status};
use shearline_peers::progress::{Progress, load};
use shearline_peers::servers::{self, Server};

const NODES: usize = 3;

/// Keeps very many locks on servers that it starts itself, and prints what that costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many locks the sweep keeps, more than once for several; 10,000 to a million by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    locks: Vec<u64>,

    /// What to measure, more than once for several; everything by default.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,

    /// How many rounds the comparisons have; fewer than five say little.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: u64,

    /// Everything smaller and shorter: below 30 seconds. The figures say whether it works.
    #[arg(long)]
    quick: bool,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Case {
    /// Memory, renewals and processor time by the number of locks.
    Sweep,
    /// The lock of another key beside 30,000 renewals a second.
    Beside,
    /// Locks that are held and nothing else, beside a bare loop.
    Idle,
}

/// How large everything is.
#[derive(Clone, Debug)]
struct Plan {
    sweep: Vec<usize>,
    rounds: usize,
    /// The ttl of the locks while another is taken. Their number follows from it.
    ttl: Duration,
    /// How long another key is locked and released in a turn.
    turn: Duration,
    /// How many locks an idle handle has, and their ttl: 2,000 are extended in a second.
    idle: (usize, Duration),
    /// How long an idle handle is measured in a turn.
    look: Duration,
}

impl Plan {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let rounds = usize::try_from(arguments.rounds)?;
        let mut plan = match arguments.quick {
            true => Self {
                sweep: vec![10_000],
                rounds: rounds.min(2),
                ttl: Duration::from_secs(2),
                turn: Duration::from_millis(800),
                idle: (4_000, Duration::from_secs(4)),
                look: Duration::from_secs(1),
            },
            false => Self {
                sweep: vec![10_000, 100_000, 1_000_000],
                rounds,
                ttl: Duration::from_secs(10),
                turn: Duration::from_secs(4),
                idle: (10_000, Duration::from_secs(10)),
                look: Duration::from_secs(4),
            },
        };
        if !arguments.locks.is_empty() {
            let sizes = arguments.locks.iter().map(|size| *size as usize);
            plan.sweep = sizes.collect();
        }
        Ok(plan)
    }
}

fn main() -> ExitCode {
    // Count before anything is allocated that could be freed later.
    keep_counting();
    let arguments = Arguments::parse();
    status(arguments.check, measure(&arguments))
}

/// Measures and prints. Returns whether every bound is met.
fn measure(arguments: &Arguments) -> Result<bool, Failure> {
    let plan = Plan::new(arguments)?;
    let all = Case::value_variants().iter().copied();
    let chosen = all.filter(|case| arguments.cases.is_empty() || arguments.cases.contains(case));
    let chosen: Vec<Case> = chosen.collect();
    let steps = chosen.iter().map(|case| match case {
        Case::Sweep => plan.sweep.len(),
        Case::Beside | Case::Idle => 1,
    });
    let mut progress = Progress::new(steps.sum());
    let mut judgement = Judgement::default();
    println!("Load of the machine at the beginning: {}.\n", load());
    for case in chosen {
        run(case, &plan, &mut progress, &mut judgement)?;
    }
    progress.end();
    println!("{judgement}");
    Ok(judgement.good())
}

fn run(
    case: Case,
    plan: &Plan,
    progress: &mut Progress,
    judgement: &mut Judgement,
) -> Result<(), Failure> {
    match case {
        Case::Sweep => {
            let rows = sweep::measure(&plan.sweep, progress)?;
            println!("## By the number of locks\n");
            println!("{}", sweep::memory(&rows, judgement));
            println!("{}", sweep::renewals(&rows, judgement));
            Ok(())
        }
        Case::Beside => {
            let table = beside::measure(plan, progress, judgement)?;
            println!("## The lock of another key beside them\n\n{table}");
            Ok(())
        }
        Case::Idle => {
            let table = idle::measure(plan, progress, judgement)?;
            println!("## Held and idle\n\n{table}");
            Ok(())
        }
    }
}

fn start() -> Result<(Vec<Server>, Vec<String>), Failure> {
    let servers = servers::start(NODES)?;
    let urls = servers.iter().map(Server::url).collect();
    Ok((servers, urls))
}
