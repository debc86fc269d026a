//! Decides how long a new driver waits for its nodes.

use core::time::Duration;

use crate::engine::{Engine, NodeState};
use crate::error::Unusable;
use crate::time::Instant;

/// The time to wait for the remaining nodes after a majority is ready.
const LAGGARDS: Duration = Duration::from_millis(50);

/// See the [module](self).
pub(super) struct Readying {
    /// The nodes that have answered, one bit each.
    answered: u32,
    end: Instant,
    majority_seen: bool,
}

impl Readying {
    pub(super) fn new(now: Instant, connect_timeout: Duration) -> Self {
        Self {
            answered: 0,
            end: now.saturating_add(connect_timeout),
            majority_seen: false,
        }
    }

    /// Returns when the wait ends, according to the states of the engine's nodes.
    pub(super) fn wait_until_of(&mut self, now: Instant, engine: &Engine) -> Instant {
        let nodes = engine.nodes();
        self.wait_until(
            now,
            nodes.iter().map(|node| node.state(now)),
            nodes.quorum(),
        )
    }

    /// Returns when the wait ends, according to the states of the `nodes`.
    fn wait_until(
        &mut self,
        now: Instant,
        nodes: impl ExactSizeIterator<Item = NodeState>,
        quorum: usize,
    ) -> Instant {
        let count = nodes.len();
        let (mut ready, mut unusable, mut foreign) = (0, 0, 0);
        for (node, state) in nodes.enumerate() {
            match state {
                NodeState::New | NodeState::Connecting => continue,
                NodeState::Ready | NodeState::Quarantined { .. } => ready += 1,
                NodeState::Unusable(Unusable::OtherGroup { .. }) => foreign += 1,
                NodeState::Unusable(_) => unusable += 1,
                NodeState::Suspect | NodeState::Down(_) => {}
            }
            self.answered |= 1 << node;
        }
        if count - unusable < quorum {
            return now; // An operator has to repair something, so waiting does not help.
        }
        // If nodes of another group prevent a majority, the driver also waits for the other nodes, because `reinit`
        // needs every node.
        if quorum <= ready || count - unusable - foreign < quorum {
            if self.answered.count_ones() as usize == count {
                return now;
            }
            if !self.majority_seen {
                self.majority_seen = true;
                self.end = self.end.min(now.saturating_add(LAGGARDS));
            }
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinkFault;

    /// Returns the length of the wait in milliseconds, for three nodes in these states.
    fn waits(nodes: [NodeState; 3]) -> u64 {
        let mut readying = Readying::new(Instant::ZERO, Duration::from_secs(1));
        let until = readying.wait_until(Instant::ZERO, nodes.into_iter(), 2);
        until.as_nanos() / 1_000_000
    }

    #[test]
    fn the_last_node_is_waited_for_a_while_once_the_others_have_answered() {
        use NodeState::{Connecting, New, Ready};
        let foreign = NodeState::Unusable(Unusable::OtherGroup {
            nodes: 5,
            quorum: 3,
            name: false,
        });
        let unusable = NodeState::Unusable(Unusable::NoRunId);
        let down = NodeState::Down(LinkFault::Refused.into());
        for (nodes, wait) in [
            ([New, New, Ready], 1000),
            ([Ready, Connecting, Ready], 50),
            ([Ready, down, Ready], 0),
            ([Ready, down, down], 1000),
            ([unusable, New, unusable], 0),
            // `reinit` may have to put these nodes into one group, and needs all nodes for that.
            ([foreign, Connecting, foreign], 50),
            ([foreign, Ready, foreign], 0),
            ([foreign, foreign, foreign], 0),
            ([foreign, unusable, New], 50),
            ([foreign, Ready, New], 1000),
        ] {
            assert_eq!(waits(nodes), wait, "{nodes:?}");
        }
    }
}
