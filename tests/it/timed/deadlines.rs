//! A call returns by its own deadline while every node stands still.

use std::time::{Duration, Instant};

use shearline::LockOptions;

use crate::face::{Which, no_quorum, over};
use crate::scene::{freeze, thaw};
use crate::servers::{self, LONG, Server, watched};

const WAIT: Duration = Duration::from_secs(1);

/// How much later than its deadline a call may return, in addition to the time for which the machine stood still.
const LATE_MAX: Duration = Duration::from_secs(1);

#[test]
fn a_call_returns_by_its_deadline_with_every_node_stalled() {
    let cluster = servers::three();
    // If something stands still on this machine, this server shows it.
    let healthy = Server::start();
    let mut faces = Which::ALL.map(|which| (which, which.build(over(&cluster))));
    freeze(&cluster);
    for (which, face) in &mut faces {
        let options = LockOptions::new(LONG).wait(WAIT);
        let (late, stood_still) = watched(&mut [healthy.raw()], || {
            let start = Instant::now();
            no_quorum(face.lock_with(which.key("stalled"), &options));
            start.elapsed().saturating_sub(WAIT)
        });
        assert!(
            late <= LATE_MAX + stood_still,
            "{which:?}: {late:?} late, and {stood_still:?} stood still"
        );
    }
    thaw(&cluster);
}
