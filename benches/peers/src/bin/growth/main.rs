//! How the costs of the engine grow: with nodes, locks held, callers, and the length of names.
//!
//! Over nodes in memory, so without a server: the engine alone is counted and timed, in
//! instructions (under `valgrind`) and in processor time. Prints tables in Markdown, which go into
//! `README.md` beside this file unchanged, and with `--pictures` draws a picture of each.

mod dimension;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use shearline_instructions::callgrind;
use shearline_peers::curve::Picture;
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::measure::{Failure, Plan, measure};
use shearline_peers::table::Table;

use dimension::{DIMENSIONS, Dimension, bytes_held};

/// How long a turn is.
const SLOT: Duration = Duration::from_millis(10);

/// Counts, times and draws how the costs of the engine grow.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest, at least; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// What is to grow, more than once for several; everything by default.
    #[arg(long = "case", value_parser = PossibleValuesParser::new(DIMENSIONS.map(|one| one.name)))]
    cases: Vec<String>,

    /// Draws a picture of each table into this directory.
    #[arg(long)]
    pictures: Option<PathBuf>,

    /// End with status 1 if anything grows faster than it must.
    #[arg(long)]
    check: bool,

    /// Under the counter: does what is counted, for the one case.
    #[arg(long, hide = true)]
    play: bool,
}

fn main() -> ExitCode {
    match grow(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether the status is zero.
fn grow(arguments: &Arguments) -> Result<bool, Failure> {
    let chosen = |one: &&Dimension| {
        arguments.cases.is_empty() || arguments.cases.iter().any(|chosen| chosen == one.name)
    };
    let dimensions = DIMENSIONS.iter().filter(chosen);
    if arguments.play {
        dimensions.for_each(play);
        return Ok(true);
    }
    if cfg!(debug_assertions) {
        eprintln!("built without --release: the figures mean nothing");
    }
    let plan = Plan {
        rounds: usize::try_from(arguments.rounds)?,
        time: Duration::ZERO,
        slot: SLOT,
    };
    if let Some(place) = &arguments.pictures {
        fs::create_dir_all(place)?;
    }
    let mut judgement = Judgement::default();
    for dimension in dimensions {
        eprintln!("{}", dimension.of);
        let counts = counts(dimension)?;
        println!("### By {}: {}\n", dimension.of, dimension.work);
        println!("{}", table(&plan, dimension, &counts)?);
        for line in judge(&mut judgement, dimension, &counts) {
            println!("* {line}");
        }
        let file = format!("{}.svg", dimension.name);
        if let Some(place) = &arguments.pictures {
            draw(dimension, &counts, &place.join(&file))?;
        }
        println!("\n![{}](pictures/{file})\n", dimension.of);
    }
    println!("{judgement}");
    Ok(!arguments.check || judgement.good())
}

/// Under the counter: plays all sizes, and prints how many operations each has done.
fn play(dimension: &Dimension) {
    for size in dimension.sizes {
        println!("{}", (dimension.prepare)(*size).play());
    }
}

/// Returns the instructions of one operation, in the order of the sizes.
fn counts(dimension: &Dimension) -> Result<Vec<f64>, Failure> {
    let program = env::current_exe()?;
    let place = program.parent().ok_or("a program without a directory")?;
    let place = place.join("growth.counted");
    let run = callgrind::run(
        &program,
        &["--play", "--case", dimension.name],
        &place,
        false,
    )?;
    let mut counts = Vec::new();
    // The first sum of each size is the warm-up.
    for (sums, units) in run.sums.chunks_exact(2).zip(run.output.lines()) {
        let units: f64 = units.parse()?;
        counts.push(sums[1].instructions as f64 / units);
    }
    match counts.len() == dimension.sizes.len() {
        true => Ok(counts),
        false => Err("something was not counted".into()),
    }
}

fn table(plan: &Plan, dimension: &Dimension, counts: &[f64]) -> Result<Table, Failure> {
    let with_bytes = dimension.name == "held";
    let mut contestants: Vec<_> = dimension
        .sizes
        .iter()
        .map(|size| (dimension.prepare)(*size).contestant())
        .collect();
    let rounds = measure(plan, &mut contestants, |_| ())?;
    drop(contestants);
    let mut head = vec![dimension.of, "instructions", "time", "ns"];
    head.extend(with_bytes.then_some("bytes for each"));
    let mut table = Table::new(&head);
    for (index, size) in dimension.sizes.iter().enumerate() {
        let mut row = vec![
            size.to_string(),
            format!("{:.0}", counts[index]),
            rounds.ratio(index, 0).to_string(),
            format!("{:.0}", rounds.nanos(index)),
        ];
        row.extend(with_bytes.then(|| format!("{:.0}", bytes_held(*size))));
        table.row(row);
    }
    Ok(table)
}

fn judge(judgement: &mut Judgement, dimension: &Dimension, counts: &[f64]) -> Vec<String> {
    let cost = |size: usize| {
        let place = dimension.sizes.iter().position(|one| *one == size);
        place.map_or(f64::NAN, |place| counts[place])
    };
    let judged = dimension.claims.iter().map(|claim| {
        let times = cost(claim.large) / cost(claim.small);
        let times = (times * 100.0).round() / 100.0;
        let verdict = judgement.note_exact(times, Bound::AtMost(claim.times));
        format!("By instructions, growth is {}: {verdict}.", claim.growth)
    });
    judged.collect()
}

fn draw(dimension: &Dimension, counts: &[f64], file: &Path) -> Result<(), Failure> {
    let sizes = dimension.sizes.iter().map(|size| *size as f64);
    let points: Vec<_> = sizes.zip(counts.iter().copied()).collect();
    let picture = Picture {
        title: &format!("{}: instructions (dashed: linear)", dimension.work),
        across: dimension.of,
        points: &points,
    };
    Ok(fs::write(file, picture.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work itself checks that every lock was granted and released.
    #[test]
    fn every_dimension_runs_at_its_smallest_size_and_claims_name_existing_sizes() {
        for dimension in &DIMENSIONS {
            let mut contestant = (dimension.prepare)(dimension.sizes[0]).contestant();
            contestant.rehearse().unwrap();
            for claim in dimension.claims {
                for size in [claim.small, claim.large] {
                    assert!(dimension.sizes.contains(&size));
                }
            }
        }
    }

    #[test]
    fn linear_growth_lies_on_the_dashed_line() {
        let points = [(1.0, 10.0), (10.0, 100.0), (100.0, 1_000.0)];
        let (title, across) = ("title", "across");
        let picture = Picture {
            title,
            across,
            points: &points,
        };
        let drawn = picture.to_string();
        assert!(
            drawn.contains("<polyline points=\"80.0,272.0 350.0,154.0 620.0,36.0\""),
            "{drawn}"
        );
        let dashed = "x1=\"80.0\" y1=\"272.0\" x2=\"620.0\" y2=\"36.0\" stroke=\"#999\"";
        assert!(drawn.contains(dashed), "{drawn}");
    }
}
