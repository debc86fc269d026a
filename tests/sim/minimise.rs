//! Shortens a history to the fewest and calmest choices to which the same oracle still objects.
//!
//! It first tries other seeds: if the same oracle objects sooner there, it is most likely for the same reason. Then the
//! tape of that history is cut: its end is left out, choosers that are not needed choose nothing, the world gets fewer
//! nodes, clients and kinds of faults, spans of time and pieces of strands are left out or overwritten with zeros, and
//! single choices are lowered. Every change that makes the history smaller is kept if the history still fails.
//!
//! It ends when nothing smaller is found or a number of inputs has been run, so that the result is
//! the same on every machine.

use std::ops::Range;

use crate::case::{Case, Choices, Keep, Kind};
use crate::clock::Time;
use crate::entropy::{Entropy, FATE, PLAN, Recorded, Tape};
use crate::oracle::Violation;

/// Inputs for engines in all attempts together: about half a minute.
const INPUTS_MAX: u64 = 20_000_000;

/// Making a world takes as long as this many inputs.
const BEGINNING: u64 = 100;

/// How many other histories of a plan are tried.
const OTHERS: u64 = 16;

/// Into how many parts a history is cut at most.
const PARTS: u64 = 512;

/// Returns the smallest tape that was found and the objection to it, if an oracle objects at all.
pub(crate) fn minimise(case: &Case) -> Option<(Tape, Violation)> {
    let mut search = Search::begin(case)?;
    search.other_seeds();
    search.cut();
    search.other_worlds();
    loop {
        let before = search.best.tape.size();
        search.shorter_tapes();
        if search.is_over() || search.best.tape.size() == before {
            break;
        }
    }
    Some((search.best.tape, search.violation))
}

struct Search {
    kind: Kind,
    best: Recorded,
    violation: Violation,
    /// How many inputs the best history took.
    inputs: u64,
    /// The inputs of all attempts, and the most for the current step.
    spent: u64,
    limit: u64,
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
            best: outcome.recorded,
            violation: outcome.violation?,
            inputs: outcome.tally.inputs,
            spent: 0,
            limit: INPUTS_MAX,
        })
    }

    fn is_over(&self) -> bool {
        self.spent > self.limit
    }

    /// Keeps a part of the budget for the next step.
    fn spare(&mut self, part: u64) {
        self.limit = self.spent + (INPUTS_MAX - self.spent.min(INPUTS_MAX)) / part;
    }

    /// Runs a history, and keeps it if it is smaller. Returns whether it is.
    fn attempt(&mut self, tape: Tape, then: Option<u64>) -> bool {
        if self.is_over() {
            return false;
        }
        let case = Case {
            kind: self.kind,
            choices: Choices::Tape(tape, then),
        };
        let keep = Keep {
            tape: true,
            trace: false,
            inputs_max: Some(self.inputs + self.inputs / 4 + 100),
        };
        let outcome = case.run(keep);
        self.spent += outcome.tally.inputs + BEGINNING;
        let Some(violation) = outcome.violation else {
            return false;
        };
        let smaller = violation.oracle == self.violation.oracle
            && outcome.recorded.tape.size() < self.best.tape.size();
        if smaller {
            self.best = outcome.recorded;
            self.violation = violation;
            self.inputs = outcome.tally.inputs;
        }
        smaller
    }

    /// Tries the best tape with a change of one strand, if that changes anything.
    fn attempt_change(&mut self, strand: usize, change: impl FnOnce(&mut Vec<u32>)) -> bool {
        let mut tape = self.best.tape.clone();
        tape.0.get_mut(strand).map(change);
        tape != self.best.tape && self.attempt(tape, None)
    }

    /// Returns how many choices a strand has.
    fn len(&self, strand: usize) -> usize {
        self.best.tape.0.get(strand).map_or(0, Vec::len)
    }

    // ----- other worlds -------------------------------------------------------------------------

    /// Looks for a seed that the same oracle objects to sooner.
    fn other_seeds(&mut self) {
        self.spare(3);
        let mut seed = 0;
        while !self.is_over() {
            self.attempt(Tape::default(), Some(seed));
            seed += 1;
        }
    }

    /// Tries to leave out the end, and choosers that are not needed.
    fn cut(&mut self) {
        self.spare(4);
        for _ in 0..2 {
            let mut parts = 2;
            while parts <= PARTS {
                let end = self.end();
                if !self.without(end - end / parts..end + 1) {
                    parts *= 2;
                }
            }
            for strand in (FATE..self.best.tape.0.len()).rev() {
                self.attempt_change(strand, Vec::clear);
            }
        }
    }

    /// Calms the plan, one choice after another. The calmer world has the same history as far as possible, or any
    /// history if the failure is frequent.
    fn other_worlds(&mut self) {
        self.spare(3);
        let often = self.others(&self.plan());
        let mut at = 0;
        while at < self.plan().len() && !self.is_over() {
            let mut tamer = self.tamer(self.plan()[at]);
            if !tamer.any(|tame| self.other_world(at, tame, often)) {
                at += 1;
            }
        }
        if often {
            self.others(&self.plan());
        }
    }

    /// Returns the world with one choice of its plan calmed.
    fn other_world(&mut self, at: usize, tame: u32, often: bool) -> bool {
        let mut plan = self.plan();
        plan[at] = tame;
        self.attempt_change(PLAN, |choices| {
            choices.drain(..plan.len());
            choices.splice(..0, plan.iter().copied());
        }) || (often && self.others(&plan))
    }

    /// Tries other histories of a plan. Returns whether one is smaller.
    fn others(&mut self, plan: &[u32]) -> bool {
        (0..OTHERS).any(|seed| self.attempt(Tape(vec![plan.to_vec()]), Some(seed)))
    }

    /// Returns the choices of the plan alone.
    fn plan(&self) -> Vec<u32> {
        let mut entropy = Entropy::of_tape(self.best.tape.clone(), None).recording();
        let _ = (self.kind.draw)(&mut entropy);
        let strands = entropy.into_recorded().tape.0;
        strands.into_iter().next().unwrap_or_default()
    }

    // ----- shorter tapes ------------------------------------------------------------------------

    fn shorter_tapes(&mut self) {
        self.cut();
        self.spare(2);
        self.without_spans();
        self.spare(2);
        self.in_pieces(|choices, from, to| {
            choices.drain(from..to);
        });
        self.spare(1);
        self.in_pieces(|choices, from, to| choices[from..to].fill(0));
        self.lower();
    }

    /// Leaves out all choices of a span of time, for every useful length, from the end to the
    /// beginning. Later choices move forward.
    fn without_spans(&mut self) {
        let mut parts = 1;
        while parts <= PARTS && !self.is_over() {
            let mut part = parts;
            let mut found = false;
            while part > 0 {
                part -= 1;
                let end = self.end();
                found |= self.without(end * part / parts..end * (part + 1) / parts + 1);
            }
            // An obstacle may have gone.
            parts = match found && parts > 1 {
                true => parts / 2,
                false => parts * 2,
            };
        }
    }

    /// Returns when the last choice was made.
    fn end(&self) -> Time {
        let last = self.best.times.iter().filter_map(|times| times.last());
        last.copied().max().unwrap_or(0)
    }

    fn without(&mut self, span: Range<Time>) -> bool {
        let mut tape = self.best.tape.clone();
        for (choices, times) in tape.0.iter_mut().zip(&self.best.times).skip(FATE) {
            let mut times = times.iter();
            choices.retain(|_| times.next().is_none_or(|time| !span.contains(time)));
        }
        tape != self.best.tape && self.attempt(tape, None)
    }

    /// Tries a change on every piece of every strand. The pieces have every size from the whole strand down to one
    /// choice, or down to a small part of a long strand.
    fn in_pieces(&mut self, change: impl Fn(&mut Vec<u32>, usize, usize)) {
        let longest = self.best.tape.0.iter().map(Vec::len).max().unwrap_or(0);
        let mut piece = longest.next_power_of_two();
        while piece > longest / 256 && !self.is_over() {
            for strand in (FATE..self.best.tape.0.len()).rev() {
                let mut end = self.len(strand);
                while end > 0 {
                    let start = end.saturating_sub(piece);
                    self.attempt_change(strand, |choices| change(choices, start, end));
                    end = start.min(self.len(strand));
                }
            }
            piece /= 2;
        }
    }

    /// Tries smaller numbers, one choice after the other.
    fn lower(&mut self) {
        for strand in 0..self.best.tape.0.len() {
            let mut at = 0;
            while at < self.len(strand) && !self.is_over() {
                self.lower_one(strand, at);
                at += 1;
            }
        }
    }

    /// Tries zero. If the history then passes, approaches the smallest number with which it fails by halving, until the
    /// distance is small. The last digits do not matter.
    fn lower_one(&mut self, strand: usize, at: usize) {
        let mut high = self.best.tape.0[strand][at];
        if high == 0 || self.attempt_change(strand, |choices| choices[at] = 0) {
            return;
        }
        let mut low = 0;
        while high - low > 1 + high / 8 && at < self.len(strand) {
            let middle = low + (high - low) / 2;
            if self.attempt_change(strand, |choices| choices[at] = middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
    }

    /// Returns replacements for a choice, the calmest first.
    fn tamer(&self, choice: u32) -> impl Iterator<Item = u32> + use<> {
        let fewer = [0, choice / 2, choice.saturating_sub(1)];
        fewer.into_iter().filter(move |tame| *tame < choice)
    }
}
