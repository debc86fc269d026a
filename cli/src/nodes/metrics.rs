//! The output of `check --prometheus`: metrics as text, for example for the textfile collector of `node_exporter`.
//!
//! The metrics are the fields of the object that `--json` prints.

use serde_json::{Value, json};

use super::Seen;
use crate::json::joined;

/// The metrics of all nodes together. A row has the name, the JSON field, a divisor, and the meaning. The divisor
/// converts the unit of the field into the unit of the metric.
const OF_ALL: &str = "
shearline_can_lock can_lock 1 Whether a majority would vote for a lock now.
shearline_votes votes 1 Nodes that would vote.
shearline_votes_needed needed 1 Nodes that are a majority.
shearline_next_restart_seconds next_restart_ms 1000 Time after which a node may be restarted.
";

/// The metrics of each node.
const OF_EACH: &str = "
shearline_node_votes votes 1 Whether the node would vote.
shearline_node_wrong wrong 1 Whether something is wrong with the node.
shearline_node_uptime_seconds uptime_s 1 Time for which the server is up, at least.
shearline_node_round_trip_seconds round_trip_us 1000000 Round trip to the node.
shearline_node_memory_ratio memory_percent 100 Used part of maxmemory.
shearline_node_evicts_locks evicts_locks 1 Whether the node may evict locks.
shearline_node_clock_steps clock_steps 1 Steps of the node's clock that were seen.
";

/// Returns the metrics as text.
pub(super) fn text(seen: &Seen) -> String {
    let all = [(String::new(), seen.object("check"))];
    let each = seen.nodes.iter().map(|node| {
        let label = format!("{{node={:?}}}", node.status.address);
        let wrong = json!({ "wrong": node.is_wrong() });
        (label, joined([node.object(), wrong]))
    });
    let each: Vec<(String, Value)> = each.collect();
    let all = OF_ALL.lines().filter_map(|row| metric(row, &all));
    let each = OF_EACH.lines().filter_map(|row| metric(row, &each));
    all.chain(each).collect::<String>().trim_end().to_owned()
}

/// Returns the lines of a metric if at least one of its values is known. Each line consists of the label of an object
/// and its value.
fn metric(row: &str, objects: &[(String, Value)]) -> Option<String> {
    let mut words = row.splitn(4, ' ');
    let (name, field) = (words.next()?, words.next()?);
    let (units, help) = (words.next()?.parse::<f64>().ok()?, words.next()?);
    let values = objects.iter().filter_map(|(label, object)| {
        let value = &object[field];
        let is = value.as_bool().map(|is| f64::from(u8::from(is)));
        let value = is.or(value.as_f64())? / units;
        Some(format!("{name}{label} {value}\n"))
    });
    let values: String = values.collect();
    let lines = format!("# HELP {name} {help}\n# TYPE {name} gauge\n{values}");
    (!values.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    /// The alert rules in the manual only name metrics of `check` or the library.
    #[test]
    fn alert_rules_are_about_metrics_that_exist() {
        let (_, rules) = include_str!("../../../docs/troubles.md")
            .split_once("\n## Alerts\n")
            .expect("the rules");
        let (ours, library) = (
            include_str!("metrics.rs"),
            shearline::Stats::default().to_prometheus(),
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
            let exists = ours.contains(&format!("\n{name} "))
                || library.contains(&format!("# TYPE {name} "));
            assert!(exists, "there is no {name}");
        }
    }
}
