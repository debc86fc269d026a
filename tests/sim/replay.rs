//! Describes a failure, and prints the command that replays it.
//!
//! | variable | what it does |
//! | --- | --- |
//! | `SEED=17` | plays this one history, with its trace |
//! | `MINIMISE=1` | the same, made as short as possible: at most half a minute or so |
//! | `STORE=path` | writes the shortened history there, to be kept as a test |
//! | `WORLD=name` | a kind of world other than `any` |
//! | `ONLY=oracle` | only this oracle is on |
//! | `MUTANT=name` | takes out a guard, or breaks something else: `bash tests/breakages.sh --play` |
//! | `ROWS=name,name` | only these rows of the table of mutants |
//! | `SEEDS=n`, `FIRST_SEED=n` | so many histories, from that seed on |
//! | `FRESH_SECONDS=n`, `FRESH_SEED=n` | fresh histories for so much processor time, from that seed on |
//! | `SHEARLINE_TEST_LONG=1` | all numbers as in `tests/long.sh` |
//! | `HISTORY=name` | a history of `histories/`, with its trace |
//! | `BYTES=path` | the input that a fuzzer has found, with its trace |
//! | `RECORD_ANEW=1` | records all of `histories/` again, as [`crate::history`] says |

use crate::case::{ANY, Case, Choices, Keep, Kind};
use crate::history::History;
use crate::minimise::minimise;
use crate::oracle::Violation;
use crate::trace::{millis, objection};

/// Returns `few` in the ordinary run, and `many` in the long one (`SHEARLINE_TEST_LONG=1`).
pub(crate) fn effort(few: u64, many: u64) -> u64 {
    match is_long() {
        true => many,
        false => few,
    }
}

/// Returns `true` in the long run.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SHEARLINE_TEST_LONG").is_some_and(|value| value == "1")
}

/// Returns the number that a variable holds, if it is set.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    )
}

/// Returns the kind of world that a variable names.
pub(crate) fn kind() -> Kind {
    std::env::var("WORLD").map_or(ANY, |name| {
        Kind::of_name(&name).unwrap_or_else(|| panic!("there is no world of the name {name}"))
    })
}

/// Says what an oracle objected to, and how to play it again.
pub(crate) fn report(kind: Kind, seed: u64, violation: &Violation) -> String {
    let command = command(kind, seed);
    format!(
        "seed {seed} of {}: {}\n    see it:     {command}\n    shorten it: MINIMISE=1 {command}",
        kind.name,
        words(violation)
    )
}

fn words(violation: &Violation) -> String {
    let Violation { oracle, text, at } = violation;
    format!("{oracle} objects at {} ms: {text}", millis(*at))
}

fn command(kind: Kind, seed: u64) -> String {
    let mutant = crate::mutations::chosen();
    let mutant = mutant.map_or_else(String::new, |name| format!("MUTANT={name} "));
    let run = match mutant.is_empty() {
        true => {
            "cargo test --features embedded --test sim -- --exact worlds_keep_their_promises --nocapture"
        }
        false => "bash tests/breakages.sh --play",
    };
    format!("{mutant}WORLD={} SEED={seed} {run}", kind.name)
}

/// Plays the history that a variable names, if one does. Returns whether it did.
pub(crate) fn replay() -> bool {
    if let Ok(path) = std::env::var("BYTES") {
        let bytes = std::fs::read(&path).expect("it can be read");
        show(&Case {
            kind: ANY,
            choices: Choices::Bytes(bytes),
        });
        return true;
    }
    if let Ok(name) = std::env::var("HISTORY") {
        let history = History::of_name(&name);
        show(&history.expect("the name of a history").case());
        return true;
    }
    let Some(seed) = number("SEED") else {
        return false;
    };
    let case = Case::of_seed(kind(), seed);
    match number("MINIMISE") {
        Some(1..) => shorten(&case, seed),
        _ => show(&case),
    }
    true
}

/// Prints the trace of a history, and fails if it fails.
pub(crate) fn show(case: &Case) {
    let keep = Keep {
        trace: true,
        ..Keep::default()
    };
    let outcome = case.run(keep);
    for line in &outcome.lines {
        println!("{line}");
    }
    let Some(violation) = &outcome.violation else {
        println!("no oracle objects");
        return;
    };
    println!("{}", objection(violation));
    panic!("{}", words(violation));
}

fn shorten(case: &Case, seed: u64) {
    let Some((tape, violation)) = minimise(case) else {
        println!("no oracle objects");
        return;
    };
    let history = History {
        story: vec![format!("{}.", violation.text)],
        kind: case.kind,
        seed,
        mutant: crate::mutations::chosen(),
        oracle: Some(violation.oracle.to_owned()),
        tape,
    };
    if let Ok(path) = std::env::var("STORE") {
        std::fs::write(&path, history.to_string()).expect("it can be written");
        println!("written to {path}: tell its story there");
    } else {
        println!("{history}");
    }
    show(&history.case());
}
