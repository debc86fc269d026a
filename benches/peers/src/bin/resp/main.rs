//! The RESP codec beside those of redis-protocol, redis and hiredis, and beside a tokenizer by
//! hand that knows the lock replies only: in one run, on the same bytes.
//!
//! Prints tables of ratios in Markdown, which go into `README.md` beside this file unchanged. What
//! a figure means is explained there, in `shearline_peers::measure` and in
//! `shearline_peers::figure`.

mod bounds;
mod commands;
mod contest;
mod decoders;
mod stream;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use shearline_peers::figure::Figure;
use shearline_peers::measure::{Failure, Plan, measure};
use shearline_peers::progress::Progress;

use bounds::judge;
use commands::{Command, Lock};
use contest::Contest;
use decoders::{Form, shearline};
use stream::{Stream, streams};
use table::{Comparison, decoding, encoding};

/// How long a turn is, unless one pass over the stream takes longer.
const SLOT: Duration = Duration::from_millis(3);

/// Compares the RESP codec of shearline with others and prints tables of ratios.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each contest, at least; fewer than 31 say little.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// Seconds that each contest takes, at least.
    #[arg(long, default_value_t = 0)]
    seconds: u64,

    /// What to compare, more than once for several; everything by default.
    #[arg(long = "case", value_parser = PossibleValuesParser::new(cases()))]
    cases: Vec<String>,

    /// End with status 1 unless every bound is met.
    #[arg(long)]
    check: bool,
}

/// Cases that are no streams.
const HEADER: &str = "header";
const COMMANDS: &str = "commands";

fn cases() -> Vec<&'static str> {
    let streams = streams().iter().map(|stream| stream.name).collect();
    [streams, vec![HEADER, COMMANDS]].concat()
}

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
    let chosen = |case: &str| {
        arguments.cases.is_empty() || arguments.cases.iter().any(|chosen| chosen == case)
    };
    let all = streams();
    let streams: Vec<&Stream> = all.iter().filter(|stream| chosen(stream.name)).collect();
    let (with_header, with_commands) = (chosen(HEADER), chosen(COMMANDS));
    let contests = 2 * streams.len()
        + usize::from(with_header)
        + usize::from(with_commands) * Command::ALL.len();
    let mut progress = Progress::new(contests);

    let mut comparisons = Vec::new();
    for stream in streams {
        comparisons.push(decoders(&plan, stream, &mut progress)?);
    }
    let mut in_header = None;
    if with_header {
        in_header = Some(header(&plan, &all, &mut progress)?);
    }
    let mut encoders = Vec::new();
    if with_commands {
        for command in Command::ALL {
            encoders.push((command.title(), encode(&plan, command, &mut progress)?));
        }
    }
    progress.end();

    let (table, judgement) = judge(&comparisons, in_header.as_ref());
    if judgement.any() {
        println!("### Bounds\n\n{table}\n{judgement}\n");
    }
    if !comparisons.is_empty() {
        println!("### Decoding\n\n{}", decoding(&comparisons));
    }
    if !encoders.is_empty() {
        println!("### Encoding\n\n{}", encoding(&encoders));
    }
    Ok(!arguments.check || judgement.good())
}

fn decoders(plan: &Plan, stream: &Stream, progress: &mut Progress) -> Result<Comparison, Failure> {
    let mut hold = |form, in_words| {
        progress.next(format!("{}, {in_words}", stream.name));
        let entrants = decoders::entrants(stream, form);
        Contest::hold(plan, stream.sum, entrants, |round| progress.round(round))
    };
    Ok(Comparison {
        name: stream.name,
        title: stream.title,
        whole: hold(Form::Whole, "in one piece")?,
        torn: hold(Form::Torn, "torn")?,
    })
}

/// Returns how many times as long shearline takes for a bulk of 64 KiB as for one of 20 bytes.
fn header(plan: &Plan, streams: &[Stream], progress: &mut Progress) -> Result<Figure, Failure> {
    progress.next(HEADER.into());
    let find = |name| streams.iter().find(|stream| stream.name == name);
    let (Some(large), Some(small)) = (find("bulk-64k"), find("bulk-300")) else {
        return Err("a stream has another name now".into());
    };
    let mut sizes = [large, small].map(|stream| shearline::contestant(stream, Form::Whole));
    let rounds = measure(plan, &mut sizes, |round| progress.round(round))?;
    Ok(rounds.ratio(0, 1))
}

fn encode(plan: &Plan, command: Command, progress: &mut Progress) -> Result<Contest, Failure> {
    progress.next(format!("commands, {}", command.title()));
    let lock = Lock::EXAMPLE;
    let (entrants, sum) = commands::entrants(command, &lock)?;
    Contest::hold(plan, sum, entrants, |round| progress.round(round))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Family;

    const PLAN: Plan = Plan {
        rounds: 1,
        time: Duration::ZERO,
        slot: Duration::ZERO,
    };

    /// The contest itself checks that all sums agree.
    #[test]
    fn every_decoder_gets_the_same_sum_from_what_it_can_read() {
        const THREE: &str = "_";
        const TWO: &str = "$-1";
        for stream in &streams() {
            for form in [Form::Whole, Form::Torn] {
                let entrants = decoders::entrants(stream, form);
                let contest = Contest::hold(&PLAN, stream.sum, entrants, |_| ()).unwrap();
                for entry in contest.entries {
                    // Which hiredis there is, if any, depends on the machine.
                    if entry.family == Family::Hiredis {
                        continue;
                    }
                    let of_three = stream.title.contains(THREE) || stream.name == "deep-map";
                    let refused = entry.name.contains("RESP2") && of_three
                        || entry.name.contains("RESP3") && stream.title.contains(TWO);
                    assert_eq!(
                        entry.result.is_err(),
                        refused,
                        "{}, {}",
                        stream.name,
                        entry.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_encoder_writes_the_same_commands() {
        for command in Command::ALL {
            let contest = encode(&PLAN, command, &mut Progress::new(1)).unwrap();
            assert!(contest.entries.iter().all(|entry| entry.result.is_ok()));
        }
    }

    #[test]
    fn a_decoder_with_another_result_ends_the_contest() {
        let stream = &streams()[0];
        let entrants = decoders::entrants(stream, Form::Torn);
        let error = Contest::hold(&PLAN, stream.sum + 1, entrants, |_| ()).unwrap_err();
        let sums = format!(
            "floor found {}, but there is {}",
            stream.sum,
            stream.sum + 1
        );
        assert_eq!(error.to_string(), sums);
    }
}
