//! The commands that the nodes have executed, from `INFO commandstats`.

use std::collections::BTreeMap;
use std::fmt::Write;

use shearline_peers::Failure;
use shearline_peers::servers::Server;

/// The calls of each command on all nodes together, as numbers that can be divided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    calls: BTreeMap<String, f64>,
    nodes: f64,
}

/// Commands that are no messages of clients: scripts call them, this program sends them itself, or they belong to
/// another one. `CACHING` is sent with the `PTTL` after it, and both count as one.
const NO_MESSAGES: [&str; 6] = ["get", "del", "client|caching", "info", "eval", "time"];

impl Statistics {
    pub(crate) fn of(servers: &[Server]) -> Result<Self, Failure> {
        let mut calls = BTreeMap::new();
        for server in servers {
            for (name, count) in server.info("commandstats")?.lines().filter_map(calls_of) {
                *calls.entry(name.to_owned()).or_default() += count;
            }
        }
        Ok(Self {
            calls,
            nodes: servers.len() as f64,
        })
    }

    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (name, calls) in &mut self.calls {
            *calls -= before.calls.get(name).copied().unwrap_or_default();
        }
        self
    }

    /// Returns the calls for each node and for each of this many.
    pub(crate) fn divided(mut self, by: f64) -> Self {
        for calls in self.calls.values_mut() {
            *calls /= by * self.nodes;
        }
        self
    }

    fn sent(&self) -> impl Iterator<Item = (&String, &f64)> {
        let sent = |(name, _): &(&String, &f64)| !NO_MESSAGES.contains(&name.as_str());
        self.calls.iter().filter(sent)
    }

    /// Returns how many messages clients sent.
    pub(crate) fn messages(&self) -> f64 {
        self.sent().map(|(_, calls)| calls).sum()
    }

    /// Returns the messages by command, without the rare ones.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for (name, calls) in self.sent().filter(|(_, calls)| 0.05 <= **calls) {
            let comma = if words.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(words, "{comma}{name} {calls:.1}");
        }
        words
    }
}

/// Reads a line such as `cmdstat_set:calls=3,usec=…`.
fn calls_of(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    Some((name, calls.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_clients_send() {
        let lines = [
            "cmdstat_set:calls=30,usec=1",
            "cmdstat_client|caching:calls=20,usec=1",
            "cmdstat_pttl:calls=20,usec=1",
            "cmdstat_evalsha:calls=10,usec=1",
            "cmdstat_get:calls=10,usec=1",
            "# Commandstats",
        ];
        let calls = lines.into_iter().filter_map(calls_of);
        let statistics = Statistics {
            calls: calls
                .map(|(name, calls)| (name.to_owned(), calls))
                .collect(),
            nodes: 2.0,
        };
        let each = statistics.since(&Statistics::default()).divided(5.0);
        assert_eq!(each.messages(), 6.0);
        assert_eq!(each.words(), "evalsha 1.0, pttl 2.0, set 3.0");
    }
}
