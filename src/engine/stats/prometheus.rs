//! Statistics in the text format of Prometheus.

use alloc::format;
use alloc::string::String;
use core::fmt::Display;
use core::time::Duration;

use super::Stats;
use crate::histogram::Histogram;

/// The bounds of the buckets, in microseconds. A histogram has more.
const BOUNDS: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000,
    5_000_000, 30_000_000,
];

impl Stats {
    /// Returns the statistics in the text format of Prometheus (version 0.0.4). The page `troubles` of the manual has
    /// alert rules for them. A histogram has fourteen buckets, from 0.1 ms to 30 s.
    ///
    /// Serve it from the web server that the program has, or as the example `prometheus` does:
    ///
    /// ```
    /// let page = shearline::Stats::default().to_prometheus();
    /// assert!(page.contains("\nshearline_acquisitions_total{outcome=\"acquired\"} 0\n"));
    /// ```
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut page = Page(String::new());
        let (taken, extended, released) = (&self.acquisitions, &self.extensions, &self.releases);
        page.outcomes(
            "acquisitions",
            "Calls that take a lock, by outcome.",
            &[
                ("acquired", taken.acquired),
                ("held", taken.held),
                ("no_quorum", taken.no_quorum),
                ("too_slow", taken.too_slow),
                ("other_cluster", taken.other_cluster),
                ("saturated", taken.saturated),
                ("cancelled", taken.cancelled),
            ],
        );
        page.outcomes(
            "extensions",
            "Extensions, by outcome.",
            &[
                ("extended", extended.extended),
                ("unconfirmed", extended.unconfirmed),
                ("lost", extended.lost),
                ("expired", extended.expired),
                ("limit", extended.limit),
                ("saturated", extended.saturated),
                ("cancelled", extended.cancelled),
            ],
        );
        page.outcomes(
            "releases",
            "Releases, by outcome.",
            &[
                ("released", released.released),
                ("not_held", released.not_held),
                ("unconfirmed", released.unconfirmed),
                ("unwatched", released.unwatched),
            ],
        );
        for (name, help, value) in [
            (
                "adopted",
                "Locks from another engine or process.",
                self.adopted,
            ),
            (
                "lost",
                "Locks that ended before they were released.",
                self.lost,
            ),
            (
                "second_round_trips",
                "Locks whose fencing token took a second round trip.",
                self.second_round_trips,
            ),
        ] {
            page.single(&format!("{name}_total"), "counter", help, value);
        }
        for (name, help, value) in [
            ("waiting", "Callers that wait for a lock.", self.waiting),
            ("held", "Locks that are held.", self.held),
            ("kept", "Locks that are extended by the handle.", self.kept),
            ("owed", "Releases that nodes are owed.", self.owed),
        ] {
            page.single(name, "gauge", help, value);
        }
        for (name, help, histogram) in [
            ("acquire", "From the call to the grant.", &self.acquire),
            (
                "wait",
                "From the call to the attempt that was granted, or to the refusal.",
                &self.wait,
            ),
            ("hold", "From the grant to the release or loss.", &self.hold),
            (
                "validity_left",
                "Validity that was left at the release.",
                &self.validity_left,
            ),
        ] {
            page.head(&format!("{name}_seconds"), "histogram", help);
            page.buckets(name, "", histogram);
        }
        page.head(
            "node_latency_seconds",
            "histogram",
            "From a command to its answer, by node.",
        );
        for node in &self.nodes {
            let address = node.address.replace('\\', "\\\\").replace('"', "\\\"");
            let address = address.replace('\n', "\\n");
            let label = format!("node=\"{address}\"");
            page.buckets("node_latency", &label, &node.latency);
        }
        page.0
    }
}

/// The lines so far.
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

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn outcomes(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        let name = format!("{name}_total");
        self.head(&name, "counter", help);
        for (outcome, value) in values {
            self.line(&name, &format!("outcome=\"{outcome}\""), value);
        }
    }

    /// A bucket counts all that is no longer than its bound, so it contains the shorter ones.
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
        (stats.acquisitions.held, stats.owed, stats.lost) = (3, 2, 1);
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
        has("# TYPE shearline_owed gauge\nshearline_owed 2");
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
        // Each metric has one head, and each line is of the metric of its head.
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
