//! How many bounds were met.

use std::fmt;
use std::process::ExitCode;

use crate::Failure;
use crate::figure::{Bound, Figure, Verdict};

/// Counts verdicts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Judgement {
    /// Within the bound, or undecided.
    pub met: usize,
    /// Certainly beyond it.
    pub missed: usize,
    /// Without a contestant to compare with.
    pub unjudged: usize,
}

impl Judgement {
    /// Returns `true` if anything was compared with a bound.
    #[must_use]
    pub const fn any(self) -> bool {
        self.met + self.missed + self.unjudged > 0
    }

    /// Returns `true` if everything was compared and met.
    #[must_use]
    pub const fn good(self) -> bool {
        self.missed == 0 && self.unjudged == 0
    }

    /// Compares a figure with a bound, and says the result.
    pub fn note(&mut self, figure: Figure, bound: Bound) -> String {
        format!("{figure} {}", self.count(bound.judge(figure)))
    }

    /// Compares an exact number with a bound, and says the result.
    pub fn note_exact(&mut self, number: f64, bound: Bound) -> String {
        let figure = Figure {
            median: number,
            low: number,
            high: number,
        };
        format!("{} {}", number, self.count(bound.judge(figure)))
    }

    fn count(&mut self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Met | Verdict::Open => self.met += 1,
            Verdict::Missed => self.missed += 1,
        }
        verdict
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            met,
            missed,
            unjudged,
        } = self;
        write!(f, "{met} met, {missed} not met, {unjudged} not judged.")
    }
}

/// Returns the exit status of a program that has `measured`: 0 if that is good, 1 if it is not, 2 if it failed, which it
/// also says.
pub fn status(measured: Result<bool, Failure>) -> ExitCode {
    match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
