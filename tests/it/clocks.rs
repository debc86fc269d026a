//! The wall clocks of nodes are stepped while they are watched, and while they are not. A client cannot step the clock
//! of a real server, so the tests use embedded nodes.

use std::thread;
use std::time::Duration;

use shearline::embedded::EmbeddedNode;
use shearline::{NodeOutcome, Redlock};

use crate::face::{held, no_quorum, ready};
use crate::servers::{LONG, until};

/// A node is asked for its time at most once in this period (`engine::tests::clocks`).
const EVERY: Duration = Duration::from_secs(1);

/// A node timeout that is longer than any pause of a node.
const CALM: Duration = Duration::from_secs(20);

#[test]
fn stepped_clocks_make_two_holders_only_without_the_watch() {
    for watch in [false, true] {
        let nodes = [(); 3].map(|()| EmbeddedNode::spawn().expect("a node"));
        let [one, other] = [(); 2].map(|()| {
            let builder = Redlock::builder().nodes(nodes.iter().map(EmbeddedNode::url));
            // A client that connects after the step cannot detect it.
            ready(builder.node_timeout(CALM).watch_clocks(watch))
        });
        let holder = one.lock("k", LONG).expect("free");
        held(other.try_lock("k", LONG));
        until("the last answer is read", || {
            other.nodes().iter().all(|node| node.in_flight == 0)
        });
        thread::sleep(EVERY); // Every node is asked for its time again.
        nodes[..2].iter().for_each(|node| node.step_clock(2 * LONG));
        assert!(holder.is_valid(), "the holder does not know");
        let result = other.try_lock("k", LONG);
        if !watch {
            let second = result.expect("two nodes have expired it");
            assert!(holder.is_valid() && second.is_valid(), "two holders");
            continue;
        }
        // The third node may already have answered that the key is held.
        assert!(result.is_err(), "stepped nodes do not vote");
        until("both steps are seen", || {
            let steps = other.nodes().into_iter().map(|node| node.clock_steps);
            steps.collect::<Vec<_>>() == [1, 1, 0]
        });
        let report = no_quorum(other.try_lock("k", LONG));
        let outcomes = report.nodes().iter().map(|node| node.outcome);
        let kept = |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Quarantined { .. });
        assert_eq!(outcomes.filter(kept).count(), 2, "{report}");
    }
}
