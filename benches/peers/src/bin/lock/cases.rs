//! The comparisons, and the bounds that shearline has set itself.

use std::time::Duration;

use shearline_peers::cycle::Span;
use shearline_peers::figure::Bound::{self, AtLeast, AtMost};
use shearline_peers::turns::Metric;

use crate::who::Who;
use crate::{CROWD, SOLO};

/// One contest.
#[derive(Debug)]
pub(crate) struct Case {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its name in the table.
    pub(crate) title: &'static str,
    /// How many locks at once.
    pub(crate) callers: usize,
    pub(crate) slot: Duration,
    /// The others are compared with the first.
    pub(crate) who: &'static [Who],
    pub(crate) metrics: &'static [Metric],
    pub(crate) counts_allocations: bool,
    pub(crate) rules: &'static [Rule],
}

/// A bound.
#[derive(Debug)]
pub(crate) enum Rule {
    /// A bound on the ratio of two contestants, in one round.
    Ratio(Metric, Who, Who, Bound),
    /// A bound on the ratio of the better of the first two.
    Best(Metric, [Who; 2], Who, Bound),
    /// A bound on the allocations for each cycle.
    Allocations(Who, Bound),
}

const P50: Metric = Metric::Median(Span::Cycle);
const P99: Metric = Metric::Tail(Span::Cycle);
const ONE: &[Metric] = &[P50, P99, Metric::Cpu];
const MANY: &[Metric] = &[Metric::Rate, Metric::Cpu, P50, P99];

/// The common part of the cases with one caller.
const SOME: Case = Case {
    name: "",
    title: "",
    callers: 1,
    slot: SOLO,
    who: &[],
    metrics: ONE,
    counts_allocations: false,
    rules: &[],
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "one-5",
        title: "One caller, five nodes: acquire and release",
        who: &[
            Who::Floor,
            Who::FloorAgain,
            Who::FloorAll,
            Who::FloorSpinning,
            Who::FloorSpinningAgain,
            Who::Local,
            Who::LocalSpinning,
            Who::Redlock,
            Who::RslockCurrent,
            Who::RslockMulti,
            Who::MultiplexedCurrent,
            Who::MultiplexedMulti,
        ],
        counts_allocations: true,
        rules: &[
            Rule::Ratio(P50, Who::Local, Who::Floor, AtMost(1.05)),
            Rule::Ratio(P99, Who::Local, Who::Floor, AtMost(1.15)),
            Rule::Ratio(Metric::Cpu, Who::Local, Who::Floor, AtMost(1.15)),
            Rule::Ratio(P50, Who::LocalSpinning, Who::FloorSpinning, AtMost(1.05)),
            Rule::Ratio(P50, Who::Redlock, Who::Local, AtMost(1.15)),
            Rule::Ratio(Metric::Cpu, Who::Redlock, Who::Local, AtMost(1.15)),
            Rule::Allocations(Who::Local, AtMost(0.0)),
            Rule::Allocations(Who::Redlock, AtMost(2.0)),
        ],
        ..SOME
    },
    Case {
        name: "fenced-5",
        title: "One caller, five nodes: with a fencing token and without",
        who: &[Who::Local, Who::LocalAgain, Who::LocalFenced],
        counts_allocations: true,
        rules: &[Rule::Ratio(P50, Who::LocalFenced, Who::Local, AtMost(1.25))],
        ..SOME
    },
    Case {
        name: "holders-5",
        title: "One caller, five nodes: a shared lock, a permit, and the lock",
        who: &[
            Who::Local,
            Who::LocalAgain,
            Who::LocalShared,
            Who::LocalPermit,
        ],
        counts_allocations: true,
        rules: &[
            Rule::Ratio(P50, Who::LocalShared, Who::Local, AtMost(1.25)),
            Rule::Ratio(P50, Who::LocalPermit, Who::Local, AtMost(1.25)),
        ],
        ..SOME
    },
    Case {
        name: "tls-5",
        title: "One caller, five nodes: TLS against none",
        who: &[
            Who::Local,
            Who::LocalAgain,
            Who::LocalTls,
            Who::Redlock,
            Who::RedlockTls,
            Who::Floor,
            Who::FloorTls,
        ],
        counts_allocations: true,
        rules: &[
            Rule::Ratio(Metric::Cpu, Who::LocalTls, Who::Local, AtMost(1.5)),
            Rule::Ratio(Metric::Cpu, Who::RedlockTls, Who::Redlock, AtMost(1.5)),
            Rule::Ratio(P50, Who::LocalTls, Who::FloorTls, AtMost(1.05)),
        ],
        ..SOME
    },
    Case {
        name: "futures-64",
        title: "64 callers on one thread, five nodes",
        callers: 64,
        slot: CROWD,
        who: &[
            Who::FloorBatched,
            Who::FloorBatchedAgain,
            Who::FloorBatchedAll,
            Who::RedlockJoined,
            Who::RedlockTasks,
            Who::RslockCurrent,
            Who::MultiplexedCurrent,
        ],
        metrics: MANY,
        counts_allocations: true,
        rules: &[
            Rule::Best(Metric::Rate, FUTURES, Who::FloorBatchedAll, AtLeast(0.95)),
            Rule::Best(Metric::Rate, FUTURES, Who::RslockCurrent, AtLeast(2.0)),
            Rule::Best(Metric::Cpu, FUTURES, Who::RslockCurrent, AtMost(0.333)),
        ],
    },
    Case {
        name: "threads-64",
        title: "64 threads, five nodes",
        callers: 64,
        slot: CROWD,
        who: &[
            Who::FloorThreads,
            Who::FloorThreadsAgain,
            Who::RedlockThreads,
            Who::RslockMulti,
            Who::MultiplexedMulti,
        ],
        metrics: MANY,
        rules: &[
            Rule::Ratio(
                Metric::Rate,
                Who::RedlockThreads,
                Who::FloorThreads,
                AtLeast(0.85),
            ),
            Rule::Ratio(
                Metric::Rate,
                Who::RedlockThreads,
                Who::RslockMulti,
                AtLeast(1.0),
            ),
        ],
        ..SOME
    },
];

const FUTURES: [Who; 2] = [Who::RedlockJoined, Who::RedlockTasks];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_about_a_contestant() {
        for case in CASES {
            for rule in case.rules {
                let about = match rule {
                    Rule::Ratio(_, over, under, _) => vec![over, under],
                    Rule::Best(_, [one, other], under, _) => vec![one, other, under],
                    Rule::Allocations(who, _) => vec![who],
                };
                assert!(about.iter().all(|who| case.who.contains(who)), "{rule:?}");
                let counted = case.counts_allocations || !matches!(rule, Rule::Allocations(..));
                assert!(counted, "{rule:?}");
            }
        }
    }
}
