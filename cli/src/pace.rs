//! Nodes that do not vote, and the pace at which operators may restart nodes. A node that has restarted does not vote
//! until every lock that it may have forgotten has expired. If another node restarts meanwhile, too few nodes may vote,
//! and then clients cannot extend their locks.

use std::time::Duration;
use std::{mem, thread};

use anstyle::Style;
use shearline::{NodeState, NodeStatus, Redlock};

use crate::duration;
use crate::failure::in_words;
use crate::json::millis;
use crate::output::{BAD, NOTE, complain, count};

/// Returns the time until the end of a node's quarantine. Returns `None` if the quarantine has ended and the handle
/// still checks the node.
fn left(state: NodeState) -> Option<Duration> {
    let NodeState::Quarantined { left } = state else {
        return None;
    };
    (!left.is_zero()).then_some(left)
}

/// Returns `true` if the node votes, or will vote after its quarantine.
fn is_there(node: &NodeStatus) -> bool {
    node.state == NodeState::Ready || left(node.state).is_some()
}

/// Returns how long to wait before restarting the next node, if one of these nodes has restarted.
fn longest(nodes: &[NodeStatus]) -> Option<Duration> {
    let left = nodes.iter().filter_map(|node| left(node.state));
    left.max().map(wait)
}

/// Returns a text that says how long to wait before restarting the next node.
pub(crate) fn advice(nodes: &[NodeStatus]) -> Option<String> {
    let wait = duration::shown(longest(nodes)?);
    let text = format!("wait {wait} before you restart the next node");
    Some(match nodes.iter().all(is_there) {
        true => text,
        false => format!("{text}; also wait until all nodes vote"),
    })
}

/// Returns how many milliseconds to wait before restarting the next node. Zero means that no node is in quarantine.
/// Returns `None` if a node does not answer, because the time is then unknown.
pub(crate) fn next_restart_in(nodes: &[NodeStatus]) -> Option<u64> {
    let all = nodes.iter().all(is_there);
    all.then(|| longest(nodes).map_or(0, millis))
}

/// Returns the time until a node in quarantine votes and stores the locks that clients extend. The node gets these
/// locks shortly after its quarantine ends, so the function adds at least two seconds to `left`.
pub(crate) fn wait(left: Duration) -> Duration {
    let started = u64::from(left.subsec_nanos() != 0);
    Duration::from_secs(left.as_secs().saturating_add(started).saturating_add(2))
}

/// Returns why a node does not vote, in words for an operator.
pub(crate) fn reason(node: &NodeStatus) -> String {
    let words = node.words.as_ref().map(|words| format!(" ({words})"));
    let reason = match node.state {
        NodeState::Quarantined { left } if !left.is_zero() => {
            return format!(
                "in quarantine, because {}: it votes in {} (or now, with --trust for `run` and `lock`, but only if no \
                 client can still hold an earlier lock)",
                quarantined(node),
                duration::shown(wait(left)),
            );
        }
        NodeState::Suspect => "it does not answer".to_owned(),
        NodeState::Down(reason) => in_words(reason),
        NodeState::Unusable(reason) => in_words(reason),
        _ => "no answer yet".to_owned(),
    };
    reason + &words.unwrap_or_default()
}

/// Returns why a node is in quarantine.
fn quarantined(node: &NodeStatus) -> String {
    let words = node.words.as_deref();
    in_words(words.unwrap_or("it may have forgotten locks"))
}

/// While a long command runs, warns about nodes that do not vote.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Whether to report every node that does not vote. If `false`, only nodes that have voted and are now in
    /// quarantine are reported.
    is_verbose: bool,
    /// For each node, whether to report its next fault, and whether to report its next quarantine. After a report, the
    /// value is `false` until the node votes again.
    wanted: Vec<[bool; 2]>,
}

impl Pace {
    pub(crate) fn new(is_verbose: bool) -> Self {
        let wanted = Vec::new();
        Self { is_verbose, wanted }
    }

    /// Writes a line for each node that has stopped voting since the last call. With `--verbose`, the first call also
    /// reports nodes that have never voted. Later calls also write a line if a reported node votes again. `run` calls
    /// this function repeatedly while its command runs.
    pub(crate) fn look(&mut self, redlock: &Redlock, name: &str) {
        for (style, line) in self.lines(&redlock.nodes(), name) {
            // A separate thread writes the line, because a slow reader would block the supervision of the command.
            // If the thread cannot start, the line is lost.
            drop(thread::Builder::new().spawn(move || complain(style, line)));
        }
    }

    /// Returns the lines of [`look`](Self::look), and their styles.
    fn lines(&mut self, nodes: &[NodeStatus], name: &str) -> Vec<(Style, String)> {
        let mut lines = Vec::new();
        let votes = nodes.iter().filter(|node| node.state == NodeState::Ready);
        let votes = votes.count();
        self.wanted.resize(nodes.len(), [self.is_verbose; 2]);
        for (node, wanted) in nodes.iter().zip(&mut self.wanted) {
            let (what, advice) = match node.state {
                NodeState::Ready => {
                    let wanted = mem::replace(wanted, [self.is_verbose, true]);
                    if !self.is_verbose || wanted == [true; 2] {
                        continue;
                    }
                    ("votes again".to_owned(), None)
                }
                NodeState::Quarantined { .. }
                    if left(node.state).is_some() && mem::take(&mut wanted[1]) =>
                {
                    let advice = advice(nodes).map(|advice| format!("; {advice}"));
                    let why = quarantined(node);
                    (format!("does not vote, because {why}"), advice)
                }
                NodeState::Suspect | NodeState::Down(_) | NodeState::Unusable(_)
                    if mem::take(&mut wanted[0]) =>
                {
                    (format!("does not vote: {}", reason(node)), None)
                }
                _ => continue,
            };
            let (address, advice) = (&node.address, advice.unwrap_or_default());
            let (style, danger) = match votes <= nodes.len() / 2 {
                true => (BAD, ", so the lock may be lost"),
                false => (NOTE, ""),
            };
            let votes = format!("{votes} of {} vote now{danger}", count(nodes.len(), "node"));
            lines.push((style, format!("{name}: {address} {what}; {votes}{advice}")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shearline::Unusable;
    use shearline::embedded::EmbeddedNode;

    /// After a quarantine, the handle does not know whether the node votes until it has read the node's marker again.
    #[test]
    fn a_quarantine_that_is_over_is_no_restart() {
        for (seconds, told) in [(0, false), (1, true)] {
            let left = Duration::from_secs(seconds);
            let state = NodeState::Quarantined { left };
            assert_eq!(super::left(state), told.then_some(left));
        }
        assert_eq!(left(NodeState::Ready), None);
    }

    /// Returns the states of three nodes that vote.
    fn three() -> Vec<NodeStatus> {
        let node = EmbeddedNode::spawn().expect("a node");
        let redlock = Redlock::connect([node.url()]).expect("a handle");
        let mut status = redlock.nodes().remove(0);
        (status.address, status.state) = ("a".into(), NodeState::Ready);
        vec![status; 3]
    }

    /// The words come from the marker of the node. They name options of the library.
    #[test]
    fn a_node_in_quarantine_is_explained_by_its_words() {
        let mut node = three().remove(0);
        let left = Duration::from_secs(5);
        node.state = NodeState::Quarantined { left };
        node.words = Some("of a longer `Builder::max_ttl`".into());
        let begin = "in quarantine, because of a longer `--max-ttl`: it votes in 7.0s (";
        assert!(reason(&node).starts_with(begin), "{}", reason(&node));
    }

    /// Each row: the state of the first of three nodes, and the line about it. The others vote. Without `-v`, only the
    /// quarantine gets a line.
    #[test]
    fn a_node_that_stops_voting_is_told_once_until_it_votes_again() {
        let quarantined = |seconds| NodeState::Quarantined {
            left: Duration::from_secs(seconds),
        };
        let refused = NodeState::Unusable(Unusable::WrongCredentials);
        let silent = "n: a does not vote: it does not answer; 2 of 3 nodes vote now";
        let again = "n: a votes again; 3 of 3 nodes vote now";
        let lost = "n: a does not vote, because it may have forgotten locks; 2 of 3 nodes vote now; wait 7.0s before \
                    you restart the next node";
        let story = [
            (NodeState::Ready, ""),
            (NodeState::Suspect, silent),
            (refused, ""),
            (quarantined(0), ""),
            (NodeState::Ready, again),
            (quarantined(5), lost),
            (quarantined(4), ""),
            (NodeState::Ready, again),
            (NodeState::Suspect, silent),
        ];
        let mut nodes = three();
        for is_verbose in [false, true] {
            let mut pace = Pace::new(is_verbose);
            for (state, line) in story {
                nodes[0].state = state;
                let told: Vec<String> =
                    pace.lines(&nodes, "n").into_iter().map(|it| it.1).collect();
                let is_told = is_verbose || line == lost;
                let line = if is_told { line } else { "" };
                assert_eq!(told.concat(), line, "{state:?}");
            }
        }
    }
}
