//! What was measured: in words, for programs, and what limits it.

use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;
use shearline::{Histogram, NodeStats};

use super::callers::Seen;
use super::picture::{counted, draw};
use super::time;
use super::usage::Usage;
use crate::json::Object;
use crate::output::{BAD, count, item, painted};

/// From so many percent on, something is busy all the time, or waits too long.
const BUSY: u64 = 85;
const QUEUED: u64 = 15;

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) ours: Seen,
    pub(super) our_usage: Usage,
    pub(super) floor: Seen,
    pub(super) floor_usage: Usage,
    /// Why there were no plain sockets.
    pub(super) no_floor: Option<String>,
    callers: u16,
    /// The median answer of each node, and whether the answer of this one completes a majority.
    nodes: Vec<(Arc<str>, Option<Duration>, bool)>,
}

/// What limits it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Limit {
    /// Other programs have the processors.
    Machine,
    /// This program.
    Processor,
    /// The nodes, and the way to them.
    Nodes,
}

impl Measured {
    pub(super) fn with(mut self, callers: u16, quorum: usize, nodes: &[NodeStats]) -> Self {
        self.callers = callers;
        let median = |node: &NodeStats| node.latency.quantile(0.5);
        let mut order: Vec<Duration> = nodes.iter().filter_map(median).collect();
        order.sort_unstable();
        let decisive = order.get(quorum.saturating_sub(1)).copied();
        let decisive = nodes.iter().position(|node| median(node) == decisive);
        let nodes = nodes.iter().enumerate();
        self.nodes = nodes
            .map(|(place, node)| {
                let is_decisive = decisive == Some(place);
                (Arc::clone(&node.address), median(node), is_decisive)
            })
            .collect();
        self
    }

    /// Returns `true` if every lock was taken.
    pub(super) fn is_good(&self) -> bool {
        self.ours.failed == 0 && self.ours.cycle.count() != 0
    }

    fn plain(&self) -> Option<&Histogram> {
        Some(&self.floor.cycle).filter(|cycle| cycle.count() != 0)
    }

    fn limit(&self) -> Limit {
        let usage = &self.our_usage;
        match (usage.queued_percent(), usage.busy_percent()) {
            (QUEUED.., _) => Limit::Machine,
            (_, BUSY..) => Limit::Processor,
            _ => Limit::Nodes,
        }
    }

    fn limited_by(&self) -> String {
        let usage = &self.our_usage;
        match self.limit() {
            Limit::Machine => format!(
                "this machine: for {} % of the time this program waited for a processor that others had",
                usage.queued_percent()
            ),
            Limit::Processor => format!(
                "the processor: this program uses {} % of one ({} % with plain sockets)",
                usage.busy_percent(),
                self.floor_usage.busy_percent()
            ),
            Limit::Nodes => {
                let decisive = self.nodes.iter().find(|(.., is_decisive)| *is_decisive);
                let whom = decisive.and_then(|(address, median, _)| {
                    Some(format!(
                        "; the majority waits for {address}, which answers within {} half of the time",
                        time((*median)?)
                    ))
                });
                let whom = whom.unwrap_or_default();
                format!("the nodes and the way to them{}{whom}", self.share())
            }
        }
    }

    /// How much of a cycle plain sockets take.
    fn share(&self) -> String {
        let median = |cycle: &Histogram| cycle.quantile(0.5);
        let both = median(&self.ours.cycle).zip(self.plain().and_then(median));
        both.map_or_else(String::new, |(ours, floor)| {
            let share = 100.0 * floor.as_secs_f64() / ours.as_secs_f64().max(1e-9);
            format!(": plain sockets take {share:.0} % of the time")
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let (callers, nodes) = (usize::from(self.callers), self.nodes.len());
        let ours = &self.our_usage;
        let mut lines = vec![format!(
            "{}, {}, for {:.1} s",
            count(nodes, "node"),
            count(callers, "caller"),
            (ours.time + self.floor_usage.time).as_secs_f64()
        )];
        lines.push(String::new());
        let floor = self.plain().map(|_| "plain sockets").unwrap_or_default();
        let row = |name: &str, ours: String, floor: Option<String>| {
            let floor = floor.filter(|_| self.plain().is_some());
            let floor = floor.unwrap_or_default();
            format!("{name:<24}{ours:>12}{floor:>16}")
                .trim_end()
                .to_owned()
        };
        lines.push(painted(
            Style::new().bold(),
            row("", "shearline".into(), Some(floor.into())),
        ));
        let (cycles, plain) = (&self.ours.cycle, &self.floor.cycle);
        lines.push(row(
            "taken and released / s",
            ours.per_second(cycles.count()).to_string(),
            Some(self.floor_usage.per_second(plain.count()).to_string()),
        ));
        for (name, share) in SHARES {
            let shown = |of: &Histogram| of.quantile(share).map(time);
            lines.push(row(name, shown(cycles).unwrap_or_default(), shown(plain)));
        }
        lines.push(row(
            "of a processor",
            format!("{} %", ours.busy_percent()),
            Some(format!("{} %", self.floor_usage.busy_percent())),
        ));
        lines.push(String::new());
        lines.extend(draw(cycles, self.plain()));
        lines.push(String::new());
        for (address, median, is_decisive) in &self.nodes {
            let median = median.map_or_else(|| "no answer".to_owned(), time);
            let note = match is_decisive {
                true => ", which completes the majority",
                false => "",
            };
            lines.push(item(
                address,
                &format!("half of its answers within {median}{note}"),
            ));
        }
        if let Some(why) = &self.no_floor {
            lines.push(item("no plain sockets beside it:", why));
        }
        if self.ours.failed != 0 {
            let why = self.ours.why.as_deref().unwrap_or_default();
            let failed = format!("{} were not taken", self.ours.failed);
            lines.push(item(&painted(BAD, failed), why));
        }
        lines.push(item("limit:", &self.limited_by()));
        lines
    }

    pub(super) fn object(&self) -> Object {
        let node = |(address, median, is_decisive): &(Arc<str>, Option<Duration>, bool)| {
            Object::new()
                .with("address", &**address)
                .with("p50_ns", median.map(nanos))
                .with("decisive", *is_decisive)
        };
        let floor = self.plain().map(|cycle| of(cycle, &self.floor_usage));
        Object::of("bench")
            .with("callers", u64::from(self.callers))
            .with("failed", self.ours.failed)
            .with("shearline", of(&self.ours.cycle, &self.our_usage))
            .with("plain_sockets", floor)
            .with("limit", self.limit().word())
            .with("limited_by", self.limited_by())
            .with("nodes", self.nodes.iter().map(node).collect::<Vec<_>>())
    }
}

/// Shares of all cycles that took no longer.
const SHARES: [(&str, f64); 4] = [
    ("half took at most", 0.5),
    ("90 % took at most", 0.9),
    ("99 % took at most", 0.99),
    ("the longest", 1.0),
];

fn of(cycle: &Histogram, usage: &Usage) -> Object {
    let quantile = |share| cycle.quantile(share).map(nanos);
    let bucket = |bucket: shearline::Bucket| {
        Object::new()
            .with("upper_ns", nanos(bucket.upper))
            .with("count", bucket.count)
    };
    Object::new()
        .with("cycles", cycle.count())
        .with("per_second", usage.per_second(cycle.count()))
        .with("p50_ns", quantile(0.5))
        .with("p90_ns", quantile(0.9))
        .with("p99_ns", quantile(0.99))
        .with("max_ns", quantile(1.0))
        .with("busy_percent", usage.busy_percent())
        .with("queued_percent", usage.queued_percent())
        .with("histogram", counted(cycle).map(bucket).collect::<Vec<_>>())
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Limit {
    const fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Processor => "processor",
            Self::Nodes => "nodes",
        }
    }
}
