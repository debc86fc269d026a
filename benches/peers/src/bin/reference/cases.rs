//! The comparisons, and the bounds that shearline has set itself.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use shearline_peers::cycle::Span;
use shearline_peers::figure::Bound::{self, AtLeast, AtMost};
use shearline_peers::turns::Metric;

/// How the library is called; the player has the same names.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Way {
    Local,
    Threads,
    Joined,
    Contention,
}

/// One contest: this many callers that call in this way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Case {
    pub(crate) way: Way,
    pub(crate) callers: u16,
}

/// A bound on the ratio of this tree to another contestant.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) case: Case,
    pub(crate) metric: Metric,
    pub(crate) under: Under,
    pub(crate) bound: Bound,
}

/// The contestant with which this tree is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Under {
    Reference,
    /// The batched floor that waits for all answers.
    Floor,
}

const P50: Metric = Metric::Median(Span::Cycle);
pub(crate) const METRICS: [Metric; 4] = [Metric::Rate, Metric::Cpu, P50, Metric::Tail(Span::Cycle)];

const LOCAL: Case = Case::new(Way::Local, 1);
const LONE: Case = Case::new(Way::Threads, 1);
const FUTURES: Case = Case::new(Way::Joined, 64);
const THREADS: Case = Case::new(Way::Threads, 64);
const CONTENTION: Case = Case::new(Way::Contention, 16);

/// The cases that take less than two minutes.
pub(crate) const SHORT: [Case; 5] = [LOCAL, LONE, FUTURES, THREADS, CONTENTION];

pub(crate) const RULES: [Rule; 6] = [
    Rule::new(LOCAL, P50, Under::Reference, AtMost(1.05)),
    Rule::new(LONE, P50, Under::Reference, AtMost(1.05)),
    Rule::new(FUTURES, Metric::Rate, Under::Floor, AtLeast(0.95)),
    Rule::new(FUTURES, Metric::Cpu, Under::Reference, AtMost(1.05)),
    Rule::new(THREADS, Metric::Rate, Under::Reference, AtLeast(1.05)),
    Rule::new(CONTENTION, Metric::Rate, Under::Reference, AtLeast(1.5)),
];

impl Case {
    const fn new(way: Way, callers: u16) -> Self {
        Self { way, callers }
    }
}

impl Rule {
    const fn new(case: Case, metric: Metric, under: Under, bound: Bound) -> Self {
        Self {
            case,
            metric,
            under,
            bound,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().ok_or(fmt::Error)?.get_name())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.way, self.callers)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (way, callers) = text.rsplit_once('-').ok_or("not like `joined-64`")?;
        match (Way::from_str(way, false)?, callers.parse()) {
            (way, Ok(callers @ 1..)) if way != Way::Local || callers == 1 => {
                Ok(Self::new(way, callers))
            }
            _ => Err(format!("{callers} is no number of callers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_is_printed() {
        for case in SHORT {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        for wrong in ["joined", "joined-0", "joined-x", "other-1", "local-2", "-1"] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_bound_is_about_a_case_that_is_run_and_a_contestant_in_it() {
        for rule in &RULES {
            assert!(SHORT.contains(&rule.case), "{rule:?}");
            let there = rule.under == Under::Reference || rule.case.way == Way::Joined;
            assert!(there, "{rule:?}");
        }
    }
}
