//! Counts the instructions of the hot paths and compares them with the baseline.
//!
//! ```text
//! cd benches/instructions
//! cargo run --release              # status 1 if a path costs over 3 % more than the baseline
//! cargo run --release -- record    # the costs of now are the baseline from now on
//! cargo run --release -- table     # the same for people
//! ```

#[cfg(not(chacha20_backend = "soft"))]
compile_error!("build this in benches/instructions, where .cargo/config.toml has the flags for it");

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use shearline_instructions::baseline::{Costs, conditions, table};
use shearline_instructions::callgrind::{self, Failure};
use shearline_instructions::paths::{self, Played};

const SAME: &str = "No path costs over 3 % more than the stored baseline.";
const RECORD: &str = "If it has to be so, record it and say why in the commit:
    cd benches/instructions && cargo run --release -- record";

/// The argument of the program under the counter.
const PLAY: &str = "play";

fn main() -> Result<ExitCode, Failure> {
    let argument = env::args().nth(1);
    match argument.as_deref() {
        Some(PLAY) => play(),
        Some("table") => print!("{}", table(&count()?)),
        Some("record") => {
            let costs = count()?.to_string();
            fs::write(baseline(), &costs)?;
            print!("{costs}");
        }
        Some(other) => {
            return Err(format!("{other} is neither record nor table").into());
        }
        None => return check(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays all paths under the counter, and prints how many operations each has done.
fn play() {
    for path in paths::all() {
        let Played { once, twice } = path.play();
        println!("{once} {twice}");
    }
}

/// Returns the cost of each path.
fn count() -> Result<Costs, Failure> {
    let run = callgrind::run(&env::current_exe()?, &[PLAY], &place()?)?;
    let mut sums = run.sums.chunks_exact(3);
    let mut lines = run.output.lines();
    let mut costs = Vec::new();
    for path in paths::all() {
        // The first sum is the warm-up.
        let (Some(&[_, once, twice]), Some(line)) = (sums.next(), lines.next()) else {
            return Err(format!("{} was not counted", path.name).into());
        };
        let things = line.split_once(' ').ok_or("no numbers of things")?;
        let played = Played {
            once: things.0.parse()?,
            twice: things.1.parse()?,
        };
        costs.push((path.name.to_string(), played.each(once, twice)));
    }
    Ok(Costs {
        conditions: conditions(),
        paths: costs,
    })
}

fn check() -> Result<ExitCode, Failure> {
    let costs = count()?;
    print!("{costs}");
    println!();
    let stored = fs::read_to_string(baseline()).map_err(Failure::from);
    let stored = stored.and_then(|text| Ok(Costs::parse(&text)?))?;
    let mut good = true;
    if costs.conditions == stored.conditions {
        let worse = costs.worse_than(&stored);
        good = worse.is_empty();
        for line in worse {
            println!("WORSE: {line}");
        }
        println!("{}", if good { SAME } else { RECORD });
    } else {
        println!(
            "NOT CHECKED: whether any path has become worse. The stored baseline holds under these conditions:\n{}",
            stored.conditions
        );
    }
    let claims = claims(&costs);
    for claim in &claims {
        println!("NOT TRUE any more: {claim}");
    }
    if good && claims.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::FAILURE)
    }
}

/// Checks the claims that hold with every compiler.
fn claims(costs: &Costs) -> Vec<&'static str> {
    let cost = |name: &str| costs.of(name).unwrap_or(f64::NAN);
    let at_most = |times: f64, name: &str, other: &str| cost(name) <= times * cost(other);
    [
        (
            "to decode +OK takes less than to search its end with memchr",
            at_most(1.0, "decode +OK", "memchr2 over +OK"),
        ),
        (
            "to arm a timer takes no more with a million armed than with 64",
            at_most(
                1.03,
                "wheel insert, 1,000,000 armed",
                "wheel insert, 64 armed",
            ),
        ),
        (
            "to cancel a timer takes no more with a million armed than with 64",
            at_most(
                1.03,
                "wheel cancel, 1,000,000 armed",
                "wheel cancel, 64 armed",
            ),
        ),
    ]
    .into_iter()
    .filter_map(|(claim, holds)| (!holds).then_some(claim))
    .collect()
}

fn baseline() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.txt")
}

/// Returns the directory for files, next to this program.
fn place() -> Result<PathBuf, Failure> {
    let program = env::current_exe()?;
    let place = program.parent().ok_or("a program without a directory")?;
    Ok(place.join("instructions"))
}
