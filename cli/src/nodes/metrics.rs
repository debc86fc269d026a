//! What `check --prometheus` prints: metrics as text, for the textfile collector of `node_exporter`, for example.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Seen, pace};
use crate::status::Status;

/// A metric of all nodes together, or of each: its name, what it means, and its values.
type Metric<'a> = (&'a str, &'a str, Vec<(Option<usize>, Option<f64>)>);

/// Returns what was seen.
pub(super) fn text(seen: &Seen) -> String {
    let mut text = String::new();
    for (name, help, values) in all(seen) {
        if values.iter().all(|(_, value)| value.is_none()) {
            continue;
        }
        // A `String` takes everything.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (place, value) in values {
            let Some(value) = value else {
                continue; // It is not known.
            };
            let node =
                place.map(|place| format!("{{node=\"{}\"}}", escaped(&seen.nodes[place].address)));
            let _ = writeln!(text, "{name}{} {value}", node.unwrap_or_default());
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn all(seen: &Seen) -> Vec<Metric<'_>> {
    let one = |value: f64| vec![(None, Some(value))];
    let can_lock = seen.status() == Status::Success;
    let next = pace::next_restart_in(&seen.nodes).filter(|_| seen.votes_or_waits());
    let next = next.map(|millis| Duration::from_millis(millis).as_secs_f64());
    vec![
        (
            "shearline_can_lock",
            "Whether a majority would vote for a lock now.",
            one(number(can_lock)),
        ),
        (
            "shearline_votes",
            "Nodes that would vote.",
            one(count(seen.votes())),
        ),
        (
            "shearline_votes_needed",
            "Nodes that are a majority.",
            one(count(seen.needed())),
        ),
        (
            "shearline_next_restart_seconds",
            "Time after which a node may be restarted.",
            vec![(None, next)],
        ),
        (
            "shearline_node_votes",
            "Whether the node would vote.",
            each(seen, |place| Some(number(seen.would_vote(place)))),
        ),
        (
            "shearline_node_wrong",
            "Whether something is wrong with the node.",
            each(seen, |place| Some(number(seen.is_wrong(place)))),
        ),
        (
            "shearline_node_uptime_seconds",
            "Time for which the server is up, at least.",
            each(seen, |place| {
                seen.nodes[place].uptime.map(|it| it.as_secs_f64())
            }),
        ),
        (
            "shearline_node_round_trip_seconds",
            "Round trip to the node.",
            each(seen, |place| {
                seen.nodes[place].round_trip.map(|it| it.as_secs_f64())
            }),
        ),
        (
            "shearline_node_memory_ratio",
            "Used part of maxmemory.",
            each(seen, |place| {
                seen.nodes[place]
                    .memory_percent
                    .map(|it| f64::from(it) / 100.0)
            }),
        ),
        (
            "shearline_node_evicts_locks",
            "Whether the node may evict locks.",
            each(seen, |place| Some(number(seen.nodes[place].evicts_locks))),
        ),
        (
            "shearline_node_clock_steps",
            "Steps of the node's clock that were seen.",
            each(seen, |place| Some(f64::from(seen.nodes[place].clock_steps))),
        ),
    ]
}

fn each(seen: &Seen, value: impl Fn(usize) -> Option<f64>) -> Vec<(Option<usize>, Option<f64>)> {
    seen.places()
        .map(|place| (Some(place), value(place)))
        .collect()
}

fn number(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn count(nodes: usize) -> f64 {
    // There are 31 at most.
    f64::from(u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// Returns `text` as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    /// The rules of the manual name metrics that `check` or `Stats::to_prometheus` of the library has.
    #[test]
    fn alert_rules_are_about_metrics_that_exist() {
        let (_, rules) = include_str!("../../../docs/troubles.md")
            .split_once("\n## Alerts\n")
            .expect("the rules");
        let (ours, library) = (
            include_str!("metrics.rs"),
            include_str!("../../../src/engine/stats/prometheus.rs"),
        );
        let rest = rules
            .match_indices("shearline_")
            .map(|(at, _)| &rules[at..]);
        let names = rest.map(|rest| {
            let is_part = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
            &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())]
        });
        let names: Vec<&str> = names.collect();
        assert!(names.len() >= 7, "{names:?}");
        for name in names {
            // The library adds the rest.
            let short = name.trim_start_matches("shearline_");
            let short = format!("\"{}\",", short.trim_end_matches("_total"));
            let exists = ours.contains(&format!("\"{name}\"")) || library.contains(&short);
            assert!(exists, "there is no {name}");
        }
    }
}
