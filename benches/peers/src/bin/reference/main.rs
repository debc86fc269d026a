//! Compares this tree of the library with an older one, in one run.
//!
//! Two trees of one library cannot be in one program, so each is in a process of its own, a player of
//! `benches/reference`. Prints tables in Markdown; the `README.md` next to this file explains the figures.

mod cases;
mod contest;
mod player;
mod record;
mod trees;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use shearline_peers::Failure;
use shearline_peers::judgement::{print, status};
use shearline_peers::progress::Progress;
use shearline_peers::servers;

use cases::{Case, SHORT};
use contest::Contest;
use trees::contestants;

/// Compares this tree of the library with an older one, the reference tree, on servers that it starts itself, and
/// prints tables of ratios.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest; fewer than 31 say little.
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// How many nodes there are.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    nodes: u64,

    /// A way of calling and how many callers, as `joined-64`; more than once for several. The ways are local, threads,
    /// joined and contention. One caller, 64 futures, 64 threads and contention by default.
    #[arg(long = "case", default_values_t = SHORT)]
    cases: Vec<Case>,

    /// One more checkout of the library that takes part; more than once for several.
    #[arg(long = "tree")]
    trees: Vec<PathBuf>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,

    /// Append the ratios of this tree to this file.
    #[arg(long)]
    record: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    status(arguments.check, compare(&arguments))
}

/// Measures, prints and records. Returns whether every bound is met.
fn compare(arguments: &Arguments) -> Result<bool, Failure> {
    let trees = contestants(&arguments.trees)?;
    let servers = servers::start(usize::try_from(arguments.nodes)?)?;
    let mut progress = Progress::new(arguments.cases.len());
    let mut contests = Vec::new();
    for case in arguments.cases.iter().copied() {
        progress.next(case.to_string());
        let rounds = usize::try_from(arguments.rounds)?;
        contests.push(Contest::hold(case, &trees, &servers, rounds, &progress)?);
    }
    progress.end();
    if let Some(path) = &arguments.record {
        record::append(path, arguments.nodes, &contests)?;
    }
    Ok(print(&contests))
}
