//! Histories that were recorded and shortened: each is a test with its story.
//!
//! A file in `histories/` begins with the story, in lines that begin with `#`. Then come the kind of world, the mutant
//! if the history needs one, the oracle that objects, the seed that showed the history first, and the tape of all
//! choices, a line for each strand. An oracle objects to a history with its mutant, and does not object without it.
//!
//! A new history is made by `MINIMISE=1 SEED=17 STORE=tests/sim/histories/name.txt`; its story is then written by hand.
//! These commands show a stored one, without and with a mutant:
//!
//! ```text
//! HISTORY=restart-without-memory cargo test --profile sim --features embedded --test sim -- --exact worlds_keep_their_promises --nocapture
//! HISTORY=twin-votes MUTANT=TwinVotes bash tests/breakages.sh --play
//! ```
//!
//! If the simulator chooses something else, or in another order, the same tapes give other histories. Then all are
//! recorded again, from their seeds or the next ones that the same oracle objects to. Their stories stay as they are
//! (so a story says what happens, not at which node). The command is
//!
//! ```text
//! RECORD_ANEW=1 bash tests/breakages.sh --play
//! ```

use std::fmt;

use crate::case::{Case, Choices, Keep, Kind};
use crate::entropy::Tape;
use crate::minimise::minimise;
use crate::mutations::Chosen;
use crate::sweep::say;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sim/histories");

/// How many seeds are tried to find a history again.
const SEEDS: u64 = 5_000;

/// One history.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) story: Vec<String>,
    pub(crate) kind: Kind,
    /// The name of the guard that is removed, or of another breakage.
    pub(crate) mutant: Option<String>,
    /// Which oracle objects, if one does.
    pub(crate) oracle: Option<String>,
    /// The seed from which it can be recorded again.
    pub(crate) seed: u64,
    pub(crate) tape: Tape,
}

impl History {
    pub(crate) fn case(&self) -> Case {
        Case {
            kind: self.kind,
            choices: Choices::Tape(self.tape.clone(), None),
        }
    }

    /// The oracle that objects.
    pub(crate) fn objection(&self) -> Option<String> {
        let outcome = self.case().run(Keep::default());
        Some(outcome.violation?.oracle.to_owned())
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut history = Self {
            story: Vec::new(),
            kind: crate::case::ANY,
            mutant: None,
            oracle: None,
            seed: 0,
            tape: Tape::default(),
        };
        for line in text.lines() {
            if let Some(told) = line.strip_prefix('#') {
                history.story.push(told.trim().to_owned());
            } else if let Some((name, value)) = line.split_once(": ") {
                match name {
                    "strand" => {
                        let all = value.split_whitespace().flat_map(choices);
                        history.tape.0.push(all.collect());
                    }
                    "world" => history.kind = Kind::of_name(value).expect("the name of a world"),
                    "mutant" => history.mutant = Some(value.to_owned()),
                    "oracle" => history.oracle = Some(value.to_owned()),
                    "seed" => history.seed = value.parse().expect("a number"),
                    _ => panic!("unknown: {line}"),
                }
            }
        }
        history
    }

    /// Returns all stored histories with the names of their files.
    pub(crate) fn kept() -> Vec<(String, Self)> {
        let mut kept: Vec<_> = std::fs::read_dir(FOLDER)
            .expect("the histories are committed")
            .map(|file| {
                let file = file.expect("it can be read");
                let text = std::fs::read_to_string(file.path()).expect("it is text");
                let name = file.file_name().to_string_lossy().into_owned();
                (name, Self::parse(&text))
            })
            .collect();
        kept.sort_by(|one, other| one.0.cmp(&other.0));
        kept
    }

    /// Returns the history of this name, with or without the ending of its file.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let same = |file: &str| file == name || file.strip_suffix(".txt") == Some(name);
        let mut kept = Self::kept().into_iter();
        Some(kept.find(|(file, _)| same(file))?.1)
    }

    /// Finds the first seed, from the known one on, to which the same oracle objects. Returns it
    /// with the shortened tape.
    fn again(&self) -> Option<(u64, Tape)> {
        let oracle = self.oracle.as_deref();
        let kind = self.kind;
        let objects = |seed: &u64| {
            let violation = Case::of_seed(kind, *seed).run(Keep::default()).violation;
            violation.map(|violation| violation.oracle) == oracle
        };
        let mut seeds = (self.seed..self.seed + SEEDS).chain(0..self.seed);
        let seed = seeds.find(objects)?;
        let (tape, _) = minimise(&Case::of_seed(kind, seed))?;
        Some((seed, tape))
    }
}

/// Records all stored histories again if the environment asks for it. Returns whether it did.
pub(crate) fn record_anew() -> bool {
    if crate::replay::number("RECORD_ANEW").unwrap_or(0) == 0 {
        return false;
    }
    for (name, mut history) in History::kept() {
        say(&name);
        let _chosen = Chosen::new(history.mutant.as_deref());
        let (seed, tape) = history
            .again()
            .unwrap_or_else(|| panic!("{name} is not seen any more, in {SEEDS} histories"));
        history.seed = seed;
        history.tape = tape;
        std::fs::write(format!("{FOLDER}/{name}"), history.to_string()).expect("it can be written");
    }
    true
}

/// Returns the choices in a word: `5` is one choice, `30*5` is the choice 5 thirty times.
fn choices(word: &str) -> impl Iterator<Item = u32> {
    let (times, choice) = word.split_once('*').unwrap_or(("1", word));
    let times = times.parse().expect("how often");
    let choice: u32 = choice.parse().expect("a choice");
    std::iter::repeat_n(choice, times)
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "# {line}")?;
        }
        writeln!(f, "world: {}", self.kind.name)?;
        if let Some(mutant) = &self.mutant {
            writeln!(f, "mutant: {mutant}")?;
        }
        if let Some(oracle) = &self.oracle {
            writeln!(f, "oracle: {oracle}")?;
        }
        writeln!(f, "seed: {}", self.seed)?;
        for strand in &self.tape.0 {
            let runs = strand.chunk_by(|one, other| one == other);
            let words: Vec<_> = runs.map(word).collect();
            writeln!(f, "strand: {}", words.join(" "))?;
        }
        Ok(())
    }
}

fn word(run: &[u32]) -> String {
    match run {
        [choice] => choice.to_string(),
        _ => format!("{}*{}", run.len(), run[0]),
    }
}

/// The least number of stored histories.
const STORIES: usize = 10;

/// An oracle objects to a history that has no mutant; a history that has one ends without an objection here, where the
/// mutant is missing.
#[test]
fn recorded_histories_end_as_recorded() {
    let _none = Chosen::new(None);
    let kept = History::kept();
    assert!(kept.len() >= STORIES, "{} histories", kept.len());
    for (name, history) in kept {
        assert!(history.story.len() > 1, "{name} has no story");
        let expected = history.oracle.clone().filter(|_| history.mutant.is_none());
        let objection = history.objection();
        assert_eq!(objection, expected, "read it by HISTORY={name}");
        let again = History::parse(&history.to_string());
        assert_eq!(again.tape, history.tape, "{name}");
    }
}
