//! For each breakage, the seed of a history in which an oracle objects to it.
//!
//! `tests/breakages/heard.tsv` has a line for each breakage: its name, the kind of world, the only oracle that is
//! enabled (or `any`), and the seed. Changing the engine changes what a seed produces, so a recorded seed may stop
//! showing the breakage. The ordinary run then tries up to [`MORE`] other seeds for each breakage, and [`BUDGET`] of
//! processor time in all; it reports the breakage as *owed* if none shows it. The long run tries up to [`SEEDS`],
//! rewrites the file, and fails if none shows it.
#![cfg(shearline_mutants)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::SEEDS;
use crate::case::Kind;
use crate::mutations::Chosen;
use crate::oracle::Violation;
use crate::replay::is_long;
use crate::sweep::{Until, say, sweep};

/// The text of the file in the copy of the tree.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/breakages/heard.tsv");

/// How many more histories the ordinary run tries if the recorded one shows nothing.
const MORE: u64 = 40;

/// Processor time that the ordinary run spends on such looks.
const BUDGET: Duration = Duration::from_secs(30);

/// The most breakages that may be owed. With more, the record is useless.
const OWED_MAX: usize = 10;

/// A breakage, and the world in which an oracle has to notice it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The mutant of the library, or `None` if the kind of world itself does the wrong thing.
    pub(crate) mutant: Option<String>,
    pub(crate) kind: Kind,
    /// The only oracle that counts, if not all do.
    pub(crate) alone: Option<&'static str>,
}

/// The columns of a line that name a row, and its seed.
type Record = BTreeMap<[String; 3], u64>;

impl Row {
    /// Returns the name of what is broken.
    pub(crate) fn name(&self) -> &str {
        self.mutant.as_deref().unwrap_or(self.kind.name)
    }

    fn key(&self) -> [String; 3] {
        [self.name(), self.kind.name, self.alone.unwrap_or("any")].map(str::to_owned)
    }

    /// Plays these histories until an oracle objects. Returns the seed, the objection, and the processor time. If only
    /// one oracle counts, the search goes on after a history that a panic has ended first.
    fn play(&self, mut seeds: std::ops::Range<u64>) -> (Option<(u64, Violation)>, Duration) {
        let mut chosen = Chosen::in_world(self.mutant.as_deref(), self.kind);
        if let Some(oracle) = self.alone {
            chosen = chosen.listening(oracle);
        }
        let mut spent = Duration::ZERO;
        while !seeds.is_empty() {
            let sweep = sweep(self.kind, seeds.clone(), Until::Objection);
            spent += sweep.cpu;
            let Some((seed, found)) = sweep.failures.into_iter().next() else {
                break;
            };
            if self.alone.is_none_or(|alone| alone == found.oracle) {
                return (Some((seed, found)), spent);
            }
            seeds.start = seed + 1;
        }
        drop(chosen);
        (None, spent)
    }
}

/// Plays the recorded history of each row, and tries others if that shows nothing.
///
/// # Panics
///
/// If no oracle notices a breakage in the long run.
pub(crate) fn assert_heard(rows: Vec<Row>) {
    let mut record = read();
    let (mut owed, mut spent) = (Vec::new(), Duration::ZERO);
    for row in &rows {
        let recorded = record.get(&row.key()).copied();
        let heard = recorded.and_then(|seed| row.play(seed..seed + 1).0);
        let (found, how) = match heard {
            Some(found) => (Some(found), ""),
            None if is_long() => (row.play(0..SEEDS).0, ", recorded anew"),
            None if spent < BUDGET => {
                let (found, cpu) = row.play(0..MORE);
                spent += cpu;
                (found, ", which is not the one on record")
            }
            None => (None, ""),
        };
        let name = row.name();
        match found {
            Some((seed, Violation { oracle, .. })) => {
                record.insert(row.key(), seed);
                let world = row.kind.name;
                say(&format!("{name:<28} {oracle:<13} {world} {seed}{how}"));
            }
            None => {
                say(&format!("OWED: {name}: not heard in {}", row.kind.name));
                owed.push(name);
            }
        }
    }
    if !rows.is_empty() {
        let heard = rows.len() - owed.len();
        say(&format!("{heard} of {} are heard", rows.len()));
    }
    if is_long() {
        if std::env::var("ROWS").is_err() {
            let is_alone = |key: &[String; 3]| key[2] != "any";
            let keys: Vec<_> = rows.iter().map(Row::key).collect();
            let here = keys.first().is_some_and(is_alone);
            record.retain(|key, _| is_alone(key) != here || keys.contains(key));
        }
        write(&record);
        assert!(owed.is_empty(), "not noticed: {owed:?}");
    }
    assert!(owed.len() <= OWED_MAX, "search for them: {owed:?}");
}

fn read() -> Record {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let words: Vec<_> = line.split('\t').collect();
        let [name, kind, oracle, seed] = words[..] else {
            panic!("four columns: {line:?}");
        };
        let seed = seed.parse().expect("a number");
        ([name, kind, oracle].map(str::to_owned), seed)
    };
    lines.map(row).collect()
}

fn write(record: &Record) {
    let head = "# breakage, kind of world, oracle, seed: written by `bash tests/breakages.sh --worlds-anew`\n";
    let lines = record
        .iter()
        .map(|([name, kind, oracle], seed)| format!("{name}\t{kind}\t{oracle}\t{seed}\n"));
    let text: String = [head.to_owned()].into_iter().chain(lines).collect();
    std::fs::write(FILE, text).expect("it can be written");
}
