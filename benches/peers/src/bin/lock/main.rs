//! Lock rounds on real servers: shearline, the floor and other libraries.
//!
//! Prints tables in Markdown, which go unchanged into the `README.md` next to this file. The meaning of the figures is
//! explained there, in `shearline_peers::turns` and in `shearline_peers::figure`.

mod cases;
mod contest;
mod who;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use shearline_peers::Failure;
use shearline_peers::judgement::{print, status};
use shearline_peers::progress::Progress;

use cases::{CASES, Case};
use contest::Contest;
use world::World;

/// Compares lock rounds of shearline with the floor and with others, on servers that it starts
/// itself, and prints tables of ratios.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// What to compare, more than once for several; everything by default.
    #[arg(long = "case", value_parser = PossibleValuesParser::new(CASES.iter().map(|case| case.name)))]
    cases: Vec<String>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    status(arguments.check, compare(&arguments))
}

/// Measures and prints. Returns whether every bound is met.
fn compare(arguments: &Arguments) -> Result<bool, Failure> {
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|case| {
            let mut chosen = arguments.cases.iter();
            arguments.cases.is_empty() || chosen.any(|name| name == case.name)
        })
        .collect();
    let world = World::start(NODES)?;
    let mut progress = Progress::new(chosen.len());
    let mut contests = Vec::new();
    for case in chosen {
        progress.next(case.name.into());
        let rounds = usize::try_from(arguments.rounds)?;
        contests.push(Contest::hold(&world, case, rounds, &progress)?);
    }
    progress.end();
    Ok(print(&contests))
}

/// How many nodes there are.
const NODES: usize = 5;

/// The length of a turn of one caller.
const SOLO: Duration = Duration::from_millis(60);

/// The length of a turn of many callers.
const CROWD: Duration = Duration::from_millis(150);
