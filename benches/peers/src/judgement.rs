//! How many bounds were met.

use std::fmt;
use std::process::ExitCode;

use crate::Failure;
use crate::figure::{Bound, Figure, Verdict};
use crate::table::Table;

/// Counts verdicts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Judgement {
    /// How many figures are within the bound, or undecided.
    pub met: usize,
    /// How many figures are certainly beyond it.
    pub missed: usize,
}

impl Judgement {
    /// Returns `true` if no bound was missed.
    #[must_use]
    pub const fn good(self) -> bool {
        self.missed == 0
    }

    /// Compares a figure with a bound, and returns the result as text.
    pub fn note(&mut self, figure: Figure, bound: Bound) -> String {
        format!("{figure} {}", self.count(bound.judge(figure)))
    }

    /// Compares an exact number with a bound, and returns the result as text.
    pub fn note_exact(&mut self, number: f64, bound: Bound) -> String {
        let figure = Figure {
            median: number,
            low: number,
            high: number,
        };
        format!("{} {}", number, self.count(bound.judge(figure)))
    }

    /// Does the same as [`note`](Self::note), and adds the bound to the text.
    pub fn with_bound(&mut self, figure: Figure, bound: Bound) -> String {
        format!("{}, {bound}", self.note(figure, bound))
    }

    /// Does the same as [`note_exact`](Self::note_exact), and adds the bound to the text.
    pub fn exact_with_bound(&mut self, number: f64, bound: Bound) -> String {
        format!("{}, {bound}", self.note_exact(number, bound))
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
        let Self { met, missed } = self;
        write!(f, "{met} met, {missed} not met.")
    }
}

/// A measurement and its bounds.
pub trait Contest {
    /// Returns the title of its table.
    fn title(&self) -> String;

    /// Adds a line for each bound: the case, what, the bound and the figure.
    fn judge(&self, judgement: &mut Judgement, table: &mut Table);

    /// Returns the table of all measurements.
    fn table(&self) -> Table;
}

/// Prints all tables. Returns whether every bound is met.
pub fn print(contests: &[impl Contest]) -> bool {
    let mut judgement = Judgement::default();
    let mut bounds = Table::new(&["case", "what", "bound", "figure"]);
    for contest in contests {
        contest.judge(&mut judgement, &mut bounds);
    }
    if !bounds.is_empty() {
        println!("### Bounds\n\n{bounds}\n{judgement}\n");
    }
    for contest in contests {
        println!("### {}\n\n{}", contest.title(), contest.table());
    }
    judgement.good()
}

/// Returns the exit status of a program that has `measured`: 0 if that is good or is not checked, 1 if it is not good,
/// and 2 if it failed, which it also says.
pub fn status(check: bool, measured: Result<bool, Failure>) -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("built without --release: the figures mean nothing");
    }
    match measured {
        Ok(good) if good || !check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
