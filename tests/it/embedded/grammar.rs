//! Grammars of commands, from which random numbers choose.
//!
//! A line `name = words | other words` is a rule with two alternatives, and a line that begins with `|` continues it.
//! `3* words` counts thrice. Some words stand for others:
//!
//! * `<name>`: an alternative of that rule. A text may precede it: `r/<name>`.
//! * `<v*2..9>`: two to eight times that byte. `ff` is the byte 255.
//! * `<RELEASE>`: the verb and the text or digest of a script. `<=RELEASE>`: its text alone.
//! * `<unique>`: a time to live ([`Grammar::unique`]).
//! * `''`: an empty word.
//! * `#`: the number of words until `/`.
//! * In other words, the [`ESCAPES`] are replaced.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shearline::internals::scripts::*;

use super::short;

pub(super) type Words = Vec<Vec<u8>>;

macro_rules! named {
    ($($script:ident)+) => { [$((stringify!($script), $script)),+] };
}

const SCRIPTS: [(&str, Script); 28] = named!(
    RELEASE RELEASE_EACH EXTEND EXTEND_EACH CONFIRM INSPECT JOIN CHECKED_ACQUIRE CHECKED_EXTEND CHECKED_CONFIRM
    TAKE_SEVERAL EXTEND_SEVERAL CONFIRM_SEVERAL RELEASE_SEVERAL TAKE_SHARED TAKE_SLOT MOVE_SLOT EXTEND_MEMBER
    CONFIRM_MEMBER RELEASE_MEMBER TAKE_SHARED_FENCED TAKE_SLOT_FENCED RAISE_MEMBER TAKE_FENCED RAISE_FENCED SET_FLOOR
    LOOK_AT_FLOOR REPAIR_FLOOR
);

const ESCAPES: [(&str, &str); 7] = [
    ("~", " "),
    ("\\r", "\r"),
    ("\\n", "\n"),
    ("\\t", "\t"),
    ("\\v", "\u{b}"),
    ("\\s", "\u{a0}"),
    ("\\0", "\0"),
];

pub(super) struct Grammar {
    random: StdRng,
    rules: BTreeMap<String, Vec<String>>,
    /// How many times to live have been used. None occurs twice.
    ttls: u64,
}

impl Grammar {
    pub(super) fn new(seed: u64, text: &str) -> Self {
        let text = text.replace("\n|", " |");
        let rules = text.lines().filter(|line| !line.is_empty());
        let rules = rules.map(|line| {
            let (name, alternatives) = line.split_once(" =").expect("a rule");
            let alternatives = alternatives.split('|').flat_map(|words| {
                let (times, words) = words.split_once("* ").unwrap_or(("1", words));
                let times = times.trim().parse().expect("a number");
                std::iter::repeat_n(words.trim().to_owned(), times)
            });
            (name.to_owned(), alternatives.collect())
        });
        Self {
            random: StdRng::seed_from_u64(seed),
            rules: rules.collect(),
            ttls: 0,
        }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Returns one of the alternatives of this rule.
    pub(super) fn words(&mut self, rule: &str) -> Words {
        let all = self.rules.get(rule);
        let count = all.unwrap_or_else(|| panic!("a rule `{rule}`")).len();
        let at = self.below(count);
        let alternative = self.rules[rule][at].clone();
        let (mut words, mut number) = (Words::new(), 0);
        for word in alternative.split_ascii_whitespace() {
            match (word, word.split_once('<')) {
                ("#", _) => {
                    number = words.len();
                    words.push(Vec::new());
                }
                ("/", _) => words[number] = (words.len() - number - 1).to_string().into_bytes(),
                ("''", _) => words.push(Vec::new()),
                (word, None) => words.push(literal(word)),
                (_, Some((before, part))) => {
                    let mut part = self.part(part.trim_end_matches('>'));
                    if !before.is_empty() {
                        part[0].splice(..0, literal(before));
                    }
                    words.append(&mut part);
                }
            }
        }
        words
    }

    fn part(&mut self, part: &str) -> Words {
        if let Some((byte, lens)) = part.split_once('*') {
            let byte = if byte == "ff" {
                0xff
            } else {
                byte.as_bytes()[0]
            };
            let (least, end) = lens.split_once("..").expect("a range");
            let [least, end] = [least, end].map(|text| text.parse().expect("a number"));
            return vec![vec![byte; self.random.random_range(least..end)]];
        }
        let mut scripts = SCRIPTS.iter();
        let name = part.trim_start_matches('=');
        let script = scripts.find_map(|(known, script)| (*known == name).then_some(script));
        let verb = |verb: &str, script: &str| vec![verb.into(), script.into()];
        match script {
            Some((text, _)) if part != name => vec![text.as_bytes().to_vec()],
            Some((text, _)) if self.one_in(2) => verb("EVAL", text),
            Some((_, digest)) => verb("EVALSHA", digest),
            None if part == "unique" => vec![self.unique()],
            None => self.words(part),
        }
    }

    /// Returns a number of milliseconds that is at least 1000 s from every other, and by turns longer and shorter than
    /// the earlier ones.
    fn unique(&mut self) -> Vec<u8> {
        const STEP: u64 = 1_000_000;
        self.ttls += 1;
        let middle = 100_000;
        let steps = match self.ttls % 2 {
            0 => middle + self.ttls,
            _ => middle - self.ttls,
        };
        (steps * STEP).to_string().into_bytes()
    }
}

fn literal(word: &str) -> Vec<u8> {
    let mut text = word.to_owned();
    for (escaped, is) in ESCAPES {
        text = text.replace(escaped, is);
    }
    text.into_bytes()
}

/// Returns the words of one line.
pub(super) fn words(line: &str) -> Words {
    line.split(' ').map(Vec::from).collect()
}

/// Returns the command with the names of its scripts.
pub(super) fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| {
        let is = |(text, digest): &Script| word == text.as_bytes() || word == digest.as_bytes();
        match SCRIPTS.iter().find(|(_, script)| is(script)) {
            Some((name, _)) => (*name).to_owned(),
            None => short(word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
