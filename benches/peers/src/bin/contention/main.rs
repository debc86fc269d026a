//! Measures contention: how a lock is handed from one caller to the next, inside a process and between processes.
//!
//! The program starts itself again for the other processes. It prints tables in Markdown, which go unchanged into the
//! `README.md` next to this file.

mod crowd;
mod expiry;
mod handover;
mod hands;
mod many;
mod mate;
mod play;
mod raw;
mod statistics;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use shearline_peers::Failure;
use shearline_peers::judgement::{Judgement, status};
use shearline_peers::progress::{Progress, load};
use shearline_peers::servers::{self, Server};
use shearline_peers::table::Table;

use crowd::{SIXTEEN, TWO};
use hands::Who;
use play::Part;

/// Measures how a lock is handed from one caller to the next, on separate servers, and prints tables.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of hand-overs and expiries; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// What to measure, more than once for several; everything by default.
    #[arg(long = "case")]
    cases: Vec<Case>,

    /// On how many nodes, more than once for several; 1, 3 and 5 by default, crowds only on 3 and 5.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=9))]
    nodes: Vec<u64>,

    /// How long a turn of contenders is, in milliseconds.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    millis: u64,

    /// How many turns each crowd has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,

    /// The number of waiting callers in the case `many`.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    waiters: u64,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,

    /// In a process that this program started: its part,
    #[arg(long, hide = true, requires_all = ["who", "at"])]
    play: Option<Part>,

    /// its library,
    #[arg(long, hide = true)]
    who: Option<Who>,

    /// and the nodes.
    #[arg(long, hide = true, value_delimiter = ',')]
    at: Vec<SocketAddr>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Case {
    /// From a release to the lock of a lone waiter.
    HandOver,
    /// Sixteen contenders in two processes.
    Two,
    /// Sixteen contenders in sixteen processes.
    Sixteen,
    /// A waiter on a key that expires.
    Expiry,
    /// Very many waiters in one process.
    Many,
}

impl Case {
    /// Returns on how many nodes the case runs by default.
    const fn nodes(self) -> &'static [u64] {
        match self {
            Self::HandOver => &[1, 3, 5],
            Self::Two | Self::Sixteen | Self::Expiry | Self::Many => &[3, 5],
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match (arguments.play, arguments.who) {
        (Some(part), Some(who)) => play::play(part, who, &arguments.at).map(|()| true),
        _ => measure(&arguments),
    };
    status(arguments.check, ended)
}

/// The tables, the number of bounds that were met, and the progress.
struct Report {
    judgement: Judgement,
    progress: Progress,
    hand_over: Table,
    crowds: Table,
    expiry: Table,
    many: Table,
}

/// Measures and prints. Returns whether every bound is met.
fn measure(arguments: &Arguments) -> Result<bool, Failure> {
    let contests = chosen(arguments);
    let mut report = Report {
        judgement: Judgement::default(),
        progress: Progress::new(contests.len()),
        hand_over: handover::table(),
        crowds: crowd::table(),
        expiry: expiry::table(),
        many: many::table(),
    };
    for (case, nodes) in contests {
        let name = case.to_possible_value().map(|it| it.get_name().to_owned());
        let name = name.unwrap_or_default();
        let title = format!("{name}, {nodes} nodes, load {}", load());
        report.progress.next(title);
        let servers = servers::start(usize::try_from(nodes)?)?;
        report.contest(case, &servers, arguments)?;
    }
    report.progress.end();
    report.print();
    Ok(report.judgement.good())
}

fn chosen(arguments: &Arguments) -> Vec<(Case, u64)> {
    let wanted = |case: &&Case| arguments.cases.is_empty() || arguments.cases.contains(case);
    let nodes = |case: &Case| match arguments.nodes.is_empty() {
        true => case.nodes().to_vec(),
        false => arguments.nodes.clone(),
    };
    let cases = Case::value_variants().iter().filter(wanted);
    cases
        .flat_map(|case| nodes(case).into_iter().map(|nodes| (*case, nodes)))
        .collect()
}

impl Report {
    fn contest(
        &mut self,
        case: Case,
        servers: &[Server],
        arguments: &Arguments,
    ) -> Result<(), Failure> {
        let [rounds, turns] = [arguments.rounds, arguments.turns].map(|it| it as usize);
        let time = Duration::from_millis(arguments.millis);
        match case {
            Case::HandOver => handover::measure(servers, rounds, self),
            Case::Two => crowd::measure(servers, TWO, turns, time, self),
            Case::Sixteen => crowd::measure(servers, SIXTEEN, turns, time, self),
            Case::Expiry => expiry::measure(servers, rounds, self),
            Case::Many => many::measure(servers, arguments.waiters, time, self),
        }
    }

    fn print(&self) {
        print("A lone waiter", &self.hand_over);
        print("Sixteen contenders, holds of 1 ms", &self.crowds);
        print("A key that expires", &self.expiry);
        print("Many waiters", &self.many);
        println!("{}", self.judgement);
    }
}

/// Prints the table of a case that was measured.
fn print(title: &str, table: &Table) {
    if !table.is_empty() {
        println!("## {title}\n\n{table}");
    }
}

fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(Server::address).collect()
}
