//! Makes a history short: the fewest choices that the same oracle still objects to, and of those
//! the tamest.
//!
//! First other worlds are looked for: fewer nodes, fewer clients, fewer kinds of faults, with other
//! choices after that, until one fails sooner. Then the tape of that history is cut: pieces are
//! left out, overwritten with zeros, and single choices lowered. Whatever is shorter and still
//! fails is kept.
//!
//! It ends when nothing more is found or a number of inputs has been run, so that its result is the
//! same on every machine.

use crate::case::{Case, Choices, Keep, Kind};
use crate::oracle::Violation;
use crate::sweep::say;

/// Inputs that engines are handed in all attempts together: a minute or two.
const INPUTS_MAX: u64 = 150_000_000;

/// How many other histories of one plan are tried.
const OTHERS: u64 = 24;

/// The shortest tape found and what an oracle objects to in it, if one objects at all.
pub(crate) fn minimise(case: &Case) -> Option<(Vec<u32>, Violation)> {
    let mut search = Search::begin(case)?;
    search.say("recorded");
    search.other_worlds();
    search.say("other worlds tried");
    search.shorter_tapes();
    search.say("done");
    Some((search.best, search.violation))
}

struct Search {
    kind: Kind,
    best: Vec<u32>,
    violation: Violation,
    /// What the best one took.
    inputs: u64,
    /// Of all attempts.
    spent: u64,
}

impl Search {
    fn begin(case: &Case) -> Option<Self> {
        let keep = Keep {
            tape: true,
            ..Keep::default()
        };
        let outcome = case.run(keep);
        Some(Self {
            kind: case.kind,
            best: outcome.tape,
            violation: outcome.violation?,
            inputs: outcome.tally.inputs,
            spent: 0,
        })
    }

    fn is_over(&self) -> bool {
        self.spent > INPUTS_MAX
    }

    fn say(&self, what: &str) {
        say(&format!(
            "{what}: {} choices, {} of them not zero; {} inputs; {} million tried",
            self.best.len(),
            self.best.iter().filter(|choice| **choice > 0).count(),
            self.inputs,
            self.spent / 1_000_000
        ));
    }

    /// Runs a history, and keeps it if it is a better one. Whether it is.
    fn attempt(&mut self, choices: Choices) -> bool {
        if self.is_over() {
            return false;
        }
        let case = Case {
            kind: self.kind,
            choices,
        };
        let keep = Keep {
            tape: true,
            trace: false,
            inputs_max: Some(self.inputs + self.inputs / 4 + 100),
        };
        let outcome = case.run(keep);
        self.spent += outcome.tally.inputs + 1;
        let Some(violation) = outcome.violation else {
            return false;
        };
        let better =
            violation.oracle == self.violation.oracle && size(&outcome.tape) < size(&self.best);
        if better {
            self.best = outcome.tape;
            self.violation = violation;
            self.inputs = outcome.tally.inputs;
        }
        better
    }

    // ----- other worlds -------------------------------------------------------------------------

    /// Tames the plan, one choice after the other, and lets others choose what comes then.
    fn other_worlds(&mut self) {
        let mut plan = self.plan_len();
        let mut at = 0;
        self.others(plan);
        while at < plan && !self.is_over() {
            let most = self.best[at];
            let tamer = [0, most / 2, most.saturating_sub(1)];
            let changed = tamer.into_iter().filter(|tame| *tame < most).any(|tame| {
                let mut prefix = self.best[..plan].to_vec();
                prefix[at] = tame;
                (0..OTHERS).any(|seed| self.attempt(Choices::Both(prefix.clone(), seed)))
            });
            if changed {
                plan = self.plan_len();
            } else {
                at += 1;
            }
        }
        self.others(plan);
    }

    /// How many choices the plan took.
    fn plan_len(&self) -> usize {
        let mut entropy = crate::entropy::Entropy::of_tape(self.best.clone()).recording();
        let _ = (self.kind.draw)(&mut entropy);
        entropy.into_tape().len().min(self.best.len())
    }

    fn others(&mut self, plan: usize) {
        let prefix = self.best[..plan].to_vec();
        for seed in 0..4 * OTHERS {
            self.attempt(Choices::Both(prefix.clone(), seed));
        }
    }

    // ----- shorter tapes ------------------------------------------------------------------------

    fn shorter_tapes(&mut self) {
        loop {
            let before = size(&self.best);
            self.in_pieces("left out", |tape, from, to| {
                tape.drain(from..to);
            });
            self.in_pieces("tamed", |tape, from, to| tape[from..to].fill(0));
            self.lower();
            if self.is_over() || size(&self.best) == before {
                return;
            }
        }
    }

    /// Tries a change on every piece of the tape, of every size from half of it down to one.
    fn in_pieces(&mut self, what: &str, change: impl Fn(&mut Vec<u32>, usize, usize)) {
        let mut piece = self.best.len() / 2;
        while piece > 0 && !self.is_over() {
            let mut end = self.best.len();
            while end > 0 && !self.is_over() {
                let start = end.saturating_sub(piece);
                let mut tape = self.best.clone();
                change(&mut tape, start, end);
                if tape != self.best {
                    self.attempt(Choices::Tape(tape));
                }
                end = start.min(self.best.len());
            }
            piece /= 2;
        }
        self.say(what);
    }

    /// Tries smaller numbers, one choice after the other.
    fn lower(&mut self) {
        let mut at = 0;
        while at < self.best.len() && !self.is_over() {
            let most = self.best[at];
            let tamer = [most / 2, most.saturating_sub(1)];
            let changed = tamer.into_iter().filter(|tame| *tame < most).any(|tame| {
                let mut tape = self.best.clone();
                tape[at] = tame;
                self.attempt(Choices::Tape(tape))
            });
            if !changed {
                at += 1;
            }
        }
        self.say("lowered");
    }
}

/// Fewer choices are better, then tamer ones.
fn size(tape: &[u32]) -> (usize, u64) {
    (tape.len(), tape.iter().copied().map(u64::from).sum())
}
