//! Statistics in the text format of Prometheus.

use alloc::format;
use alloc::string::String;
use core::fmt::Display;
use core::time::Duration;

use super::{Outcomes, Stats};
use crate::histogram::Histogram;

/// The upper bounds of the buckets, in microseconds. The histogram itself has more buckets.
const BOUNDS: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];

impl Stats {
    /// Returns the statistics in the text format of Prometheus (version 0.0.4). The page `troubles` of the manual has
    /// alert rules for these statistics. Each histogram has fourteen buckets, from 0.1 ms to 30 s.
    ///
    /// A program can serve this text from its own web server, as the example `prometheus` does:
    ///
    /// ```
    /// let page = shearline::Stats::default().to_prometheus();
    /// assert!(page.contains("\nshearline_acquisitions_total{outcome=\"acquired\"} 0\n"));
    /// ```
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut page = Page(String::new());
        for (name, help, outcomes) in self.outcomes() {
            let name = format!("{name}_total");
            page.head(&name, "counter", help);
            for (outcome, count) in outcomes {
                page.line(&name, &format!("outcome=\"{outcome}\""), count);
            }
        }
        for (name, help, value) in self.numbers() {
            let is_counter = name.ends_with("_total");
            page.head(name, if is_counter { "counter" } else { "gauge" }, help);
            page.line(name, "", value);
        }
        for (name, help, histogram) in self.times() {
            page.head(&format!("{name}_seconds"), "histogram", help);
            page.buckets(name, "", histogram);
        }
        let help = "From a command to its answer, by node.";
        page.head("node_latency_seconds", "histogram", help);
        for node in &self.nodes {
            let address = node.address.replace('\\', "\\\\").replace('"', "\\\"");
            let label = format!("node=\"{}\"", address.replace('\n', "\\n"));
            page.buckets("node_latency", &label, &node.latency);
        }
        page.0
    }

    /// Returns the name, the help text, and the count of each outcome, for each kind of call.
    fn outcomes(&self) -> [(&str, &str, Outcomes); 3] {
        let [taken, extended] = [self.acquisitions.each(), self.extensions.each()];
        [
            ("acquisitions", "Calls that take a lock, by outcome.", taken),
            ("extensions", "Extensions, by outcome.", extended),
            ("releases", "Releases, by outcome.", self.releases.each()),
        ]
    }

    /// Returns the metrics that are single numbers, each with its name and a help text. The names of counters end in
    /// `_total`.
    fn numbers(&self) -> [(&str, &str, u64); 7] {
        let adopted = "Locks from another engine or process.";
        let lost = "Locks that ended before they were released.";
        let second = "Locks whose fencing token took a second round trip.";
        let kept = "Locks that are extended by the handle.";
        [
            ("adopted_total", adopted, self.adopted),
            ("lost_total", lost, self.lost),
            ("second_round_trips_total", second, self.second_round_trips),
            (
                "waiting",
                "Callers that wait for a lock.",
                self.waiting as u64,
            ),
            ("held", "Locks that are held.", self.held as u64),
            ("kept", kept, self.kept as u64),
            (
                "debts",
                "Releases that nodes have not confirmed.",
                self.debts as u64,
            ),
        ]
    }

    /// Returns the histograms of the handle, each with its name and a help text.
    fn times(&self) -> [(&str, &str, &Histogram); 4] {
        let wait = "From the call to the attempt that was granted, or to the refusal.";
        let left = "Validity that was left at the release.";
        [
            ("acquire", "From the call to the grant.", &self.acquire),
            ("wait", wait, &self.wait),
            ("hold", "From the grant to the release or loss.", &self.hold),
            ("validity_left", left, &self.validity_left),
        ]
    }
}

/// The text of the page.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.0 += &format!("# HELP shearline_{name} {help}\n# TYPE shearline_{name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let labels = match labels {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        self.0 += &format!("shearline_{name}{labels} {value}\n");
    }

    /// Writes the buckets of `histogram`. A bucket counts all times up to its bound, so it includes all buckets with
    /// lower bounds.
    fn buckets(&mut self, name: &str, label: &str, histogram: &Histogram) {
        let before = if label.is_empty() { "" } else { "," };
        let bucket = |bound: &dyn Display| format!("{label}{before}le=\"{bound}\"");
        let (name, all) = (format!("{name}_seconds"), histogram.count());
        for bound in BOUNDS.map(Duration::from_micros) {
            let labels = bucket(&bound.as_secs_f64());
            self.line(&format!("{name}_bucket"), &labels, histogram.within(bound));
        }
        self.line(&format!("{name}_bucket"), &bucket(&"+Inf"), all);
        let sum = histogram.sum().as_secs_f64();
        self.line(&format!("{name}_sum"), label, sum);
        self.line(&format!("{name}_count"), label, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeStats;
    use crate::time::Instant;

    #[test]
    fn the_text_has_each_number_under_its_name() {
        let mut stats = Stats::default();
        (stats.acquisitions.held, stats.debts, stats.lost) = (3, 2, 1);
        let since = |micros: u64| (Instant::ZERO, Instant::from_nanos(micros * 1_000));
        for (from, to) in [since(400), since(20_000), since(60_000_000)] {
            stats.hold.record_since(from, to);
        }
        stats.nodes.push(NodeStats {
            address: "unix:///a\"b\n".into(),
            latency: stats.hold.clone(),
        });
        let page = stats.to_prometheus();
        let has =
            |lines: &str| assert!(page.contains(&format!("\n{lines}\n")), "{lines} in {page}");
        has("shearline_acquisitions_total{outcome=\"held\"} 3");
        has(
            "# HELP shearline_lost_total Locks that ended before they were released.\n\
             # TYPE shearline_lost_total counter\nshearline_lost_total 1",
        );
        has("# TYPE shearline_debts gauge\nshearline_debts 2");
        has(
            "# TYPE shearline_hold_seconds histogram\nshearline_hold_seconds_bucket{le=\"0.0001\"} 0\n\
             shearline_hold_seconds_bucket{le=\"0.00025\"} 0\nshearline_hold_seconds_bucket{le=\"0.0005\"} 1",
        );
        has(
            "shearline_hold_seconds_bucket{le=\"30\"} 2\nshearline_hold_seconds_bucket{le=\"+Inf\"} 3\n\
             shearline_hold_seconds_sum 60.0204\nshearline_hold_seconds_count 3",
        );
        has(
            "shearline_node_latency_seconds_bucket{node=\"unix:///a\\\"b\\n\",le=\"0.025\"} 2\n\
             shearline_node_latency_seconds_bucket{node=\"unix:///a\\\"b\\n\",le=\"0.05\"} 2",
        );
        has("shearline_node_latency_seconds_count{node=\"unix:///a\\\"b\\n\"} 3");
        // Checks that each metric has one `TYPE` line, and that each sample belongs to the metric of the last `HELP`
        // line.
        let mut of = "";
        for line in page.lines() {
            if let Some(head) = line.strip_prefix("# HELP ") {
                of = head.split(' ').next().expect("a name");
                assert_eq!(page.matches(&format!("# TYPE {of} ")).count(), 1);
            }
            assert!(line.starts_with("# ") || line.starts_with(of), "{line}");
        }
    }
}
