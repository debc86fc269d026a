//! A majority stops again and again. With default settings each call ends while the nodes are stopped.
//!
//! `engine::tests::patience` checks that the cost of a call does not grow.

use std::thread;
use std::time::Duration;

use shearline::Redlock;

use crate::effort::times;
use crate::face::{Face, Which, no_quorum};
use crate::scene::{freeze, thaw};
use crate::servers::{self, LONG};

/// Longer than the usual node timeout, and than the silence that makes a node suspect.
const STALL: Duration = Duration::from_millis(150);

#[test]
fn a_majority_that_stalls_at_every_attempt_does_not_prolong_the_next_one() {
    let cluster = servers::three();
    let mut faces = Which::BOTH.map(|which| which.build(Redlock::builder().nodes(cluster.urls())));
    // Each call has a name of its own: the key that the call before has left on the third node is released later.
    let mut names = (0..).map(|call| format!("attempt:{call}"));
    // In the long run there are more calls than answers from which a round trip is measured.
    for _ in 0..times(6, 40) {
        freeze(&cluster[..2]);
        for face in &mut faces {
            no_quorum(face.try_lock(names.next().unwrap(), LONG));
        }
        thread::sleep(STALL);
        thaw(&cluster[..2]);
        faces.iter_mut().for_each(Face::await_ready);
    }
    cluster.assert_empty();
}
