//! Latency while nodes are disturbed, and what happens without a majority.
//!
//! Prints tables in Markdown, which go unchanged into the `README.md` next to this file. The meaning of the figures is
//! explained there, in `shearline_peers::turns` and in `shearline_peers::figure`.

mod face;
mod majority;
mod minority;
mod trouble;

use std::process::ExitCode;

use clap::Parser;
use clap::ValueEnum;
use shearline_peers::Failure;
use shearline_peers::judgement::{Judgement, status};
use shearline_peers::progress::Progress;
use shearline_peers::servers::{self, Server};

use majority::Lost;
use minority::Contest;
use trouble::Trouble;

/// How many nodes there are.
const NODES: usize = 5;

/// Measures lock rounds while one, two or three of five servers are in trouble, and prints tables.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest, and episodes without a majority; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// Which trouble, more than once for several; everything by default.
    #[arg(long = "case")]
    cases: Vec<Trouble>,

    /// Of how many nodes, more than once for several; 1, 2 and 3 by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3))]
    nodes: Vec<u64>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    status(arguments.check, measure(&arguments))
}

/// Measures and prints. Returns whether every bound is met.
fn measure(arguments: &Arguments) -> Result<bool, Failure> {
    let rounds = usize::try_from(arguments.rounds)?;
    let contests = chosen(arguments);
    let servers = servers::start(NODES)?;
    let mut progress = Progress::new(contests.len());
    let mut judgement = Judgement::default();
    let (mut minority, mut summary) = (minority::table(), minority::summary());
    let mut majority = majority::table();
    for (trouble, nodes) in contests {
        progress.next(format!("{trouble}, {nodes} of {NODES}"));
        if nodes <= NODES / 2 {
            let contest = Contest::hold(&servers, trouble, nodes, rounds, &progress)?;
            contest.report(&mut judgement, &mut summary, &mut minority);
        } else {
            let lost = Lost::measure(&servers, trouble, nodes, rounds, &progress)?;
            lost.report(&mut judgement, &mut majority);
        }
    }
    progress.end();
    println!("### With a majority\n\n{summary}\n{minority}");
    println!("### Without a majority\n\n{majority}\n{judgement}");
    Ok(judgement.good())
}

/// Returns every trouble that was asked for. Slow nodes still answer, so a slow majority is no lost majority.
fn chosen(arguments: &Arguments) -> Vec<(Trouble, usize)> {
    let wanted = |trouble: &Trouble, nodes: u64| {
        (arguments.cases.is_empty() || arguments.cases.contains(trouble))
            && (arguments.nodes.is_empty() || arguments.nodes.contains(&nodes))
            && !(*trouble == Trouble::Slow && nodes == 3)
    };
    let all = Trouble::value_variants().iter();
    all.flat_map(|trouble| (1..=3).map(move |nodes| (*trouble, nodes)))
        .filter(|(trouble, nodes)| wanted(trouble, *nodes))
        .map(|(trouble, nodes)| (trouble, nodes as usize))
        .collect()
}

/// Returns the URLs of these servers.
fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}
