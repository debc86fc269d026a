//! A heap profile of steady locking: how much is allocated for a cycle, and whether live memory
//! grows.
//!
//! Five real servers, one client after another. Prints a table in Markdown, which goes into
//! `README.md` beside this file unchanged. What a figure means is explained there.

mod record;
mod steady;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use shearline_peers::allocations::keep_counting;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::measure::Failure;
use shearline_peers::progress::Progress;
use shearline_peers::servers;
use shearline_peers::table::Table;

use record::Profile;
use steady::{Plan, Who};

const NODES: usize = 5;

/// How much more may be live at the end, for each caller: memory of operations that are open at one
/// moment and not at another.
const UNDER_WAY: f64 = 1024.0;

/// Locks and releases steadily on servers that it starts itself, and tells what becomes of the heap.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long each client locks behind its warm-up; less than 60 says little.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// How long it locks before that, when every server has been slow once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    rest: u64,

    /// Who locks, more than once for several; everybody by default.
    #[arg(long = "case", value_enum)]
    cases: Vec<Who>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    // Before anything is allocated that could be freed later.
    keep_counting();
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether the status is zero.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let who = Who::ALL.into_iter();
    let chosen: Vec<Who> = who
        .filter(|who| arguments.cases.is_empty() || arguments.cases.contains(who))
        .collect();
    let servers = servers::start(NODES)?;
    let plan = Plan {
        lag: Duration::from_millis(500),
        rest: Duration::from_secs(arguments.rest),
        seconds: arguments.seconds,
    };
    let mut progress = Progress::new(chosen.len());
    let mut profiles = Vec::new();
    for who in chosen {
        progress.next(who.to_string());
        let profile = steady::lock(who, &servers, plan, &progress)?;
        profiles.push((who, profile));
    }
    progress.end();
    let mut judgement = Judgement::default();
    println!("{}\n{judgement}", table(&profiles, &mut judgement));
    Ok(!arguments.check || judgement.good())
}

fn table(profiles: &[(Who, Profile)], judgement: &mut Judgement) -> Table {
    let mut table = Table::new(&[
        "client",
        "cycles",
        "allocations for each",
        "frees",
        "live at the beginning, bytes",
        "at the end",
        "more",
        "highest",
        "slope, bytes/s",
    ]);
    for (who, profile) in profiles {
        let mut judged = |number: f64, most: f64| {
            let bound = Bound::AtMost(most);
            format!("{}, {bound}", judgement.note_exact(number, bound))
        };
        table.row([
            who.to_string(),
            profile.cycles.to_string(),
            judged(round(profile.allocations), who.allocations_at_most()),
            round(profile.frees).to_string(),
            profile.begin.to_string(),
            profile.end.to_string(),
            judged(
                (profile.end - profile.begin) as f64,
                UNDER_WAY * who.callers() as f64,
            ),
            profile.highest.to_string(),
            format!("{:.1}", profile.slope),
        ]);
    }
    table
}

/// Rounds to a ten-thousandth, but what is more than zero does not become zero.
fn round(number: f64) -> f64 {
    match (number * 1e4).round() / 1e4 {
        0.0 => number,
        rounded => rounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_allocation_is_not_rounded_away() {
        assert_eq!(round(1.000_04), 1.0);
        assert_eq!(round(0.0), 0.0);
        assert_eq!(round(1e-6), 1e-6);
    }

    #[test]
    fn a_bound_that_is_exceeded_is_not_met() {
        let profile = |allocations, end| Profile {
            cycles: 1,
            allocations,
            frees: 0.0,
            begin: 5_000,
            end,
            highest: 9_000,
            slope: 0.0,
        };
        for (who, allocations, end, missed) in [
            (Who::Local, 0.0, 6_024, 0),
            (Who::Local, 1e-6, 6_024, 1),
            (Who::Local, 0.0, 6_025, 1),
            (Who::Redlock, 2.05, 6_024, 0),
            (Who::Redlock, 2.06, 6_025, 2),
            (Who::Futures, 2.05, 70_536, 0),
            (Who::Futures, 2.05, 70_537, 1),
        ] {
            let mut judgement = Judgement::default();
            table(&[(who, profile(allocations, end))], &mut judgement);
            assert_eq!(judgement.missed, missed, "{who:?} {allocations} {end}");
        }
    }
}
