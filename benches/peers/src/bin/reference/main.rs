//! This tree of the library beside an older one, in one run.
//!
//! Two trees of one library cannot be in one program, so each is in a process of its own, a player of
//! `benches/reference`. Prints tables in Markdown; `README.md` beside this file says what a figure is.

mod cases;
mod contest;
mod player;
mod record;
mod trees;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use shearline_peers::Failure;
use shearline_peers::judgement::{Judgement, status};
use shearline_peers::progress::Progress;
use shearline_peers::servers;
use shearline_peers::table::Table;

use cases::{Case, SHORT, all};
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
    /// joined, tokio, tokio-multi, smol and contention. One caller, 64 futures, 64 threads and contention by default.
    #[arg(long = "case")]
    cases: Vec<Case>,

    /// 1, 2, 8 and 64 callers in every way.
    #[arg(long, conflicts_with = "cases")]
    all: bool,

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
    status(compare(&arguments))
}

/// Measures, prints and records. Returns whether the status is zero.
fn compare(arguments: &Arguments) -> Result<bool, Failure> {
    let cases = match (&arguments.cases[..], arguments.all) {
        ([], true) => all(),
        ([], false) => SHORT.to_vec(),
        (some, _) => some.to_vec(),
    };
    let trees = contestants(&arguments.trees)?;
    let servers = servers::start(usize::try_from(arguments.nodes)?)?;
    let mut progress = Progress::new(cases.len());
    let mut contests = Vec::new();
    for case in cases {
        progress.next(case.to_string());
        let rounds = usize::try_from(arguments.rounds)?;
        contests.push(Contest::hold(case, &trees, &servers, rounds, &progress)?);
    }
    progress.end();
    if let Some(path) = &arguments.record {
        record::append(path, arguments.nodes, &contests)?;
    }
    Ok(print(&contests) || !arguments.check)
}

/// Prints all tables. Returns whether every bound is met.
fn print(contests: &[Contest]) -> bool {
    let mut judgement = Judgement::default();
    let mut bounds = Table::new(&["case", "what", "bound", "figure"]);
    for contest in contests {
        contest.judge(&mut judgement, &mut bounds);
    }
    if judgement.any() {
        println!("### Bounds\n\n{bounds}\n{judgement}\n");
    }
    for contest in contests {
        println!("### {}\n\n{}", contest.case, contest.table());
    }
    judgement.good()
}
