//! Waiters of a handle that lets some nodes not vote: with markers and barriers, and after a restart.

use shearline::{NodeState, RestartGuard};

use super::*;
use crate::face::ready;
use crate::strict::trusting;

/// Makes a builder for a handle with markers on nodes that an operator has trusted, so that all of them vote.
fn strict(cluster: &Cluster) -> Builder {
    let builder = || {
        quiet(cluster)
            .restart_guard(RestartGuard::Strict)
            .max_ttl(LONG)
    };
    drop(trusting(Which::Shared, builder()));
    builder()
}

#[test]
fn a_strict_guard_keeps_a_restarted_node_out_while_a_caller_waits() {
    not_with!(NoScripts, "a strict guard needs scripts");
    restarted_while_one_waits(strict);
}

#[test]
fn an_observed_restart_keeps_a_node_out_while_a_caller_waits() {
    restarted_while_one_waits(quiet);
}

/// One of three nodes restarts without the key while a caller waits, and then another loses the key: that
/// is a majority of the nodes, but not of those that vote. The third loses it later.
fn restarted_while_one_waits(builder: fn(&Cluster) -> Builder) {
    for mut cluster in clusters() {
        let redlock = ready(builder(&cluster));
        foreign(&cluster, "key");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| redlock.lock_with("key", &PATIENT));
            let mut raws = cluster.raws();
            await_told(&mut raws, &[0; 3]);
            cluster[0].restart();
            raws[0] = cluster[0].raw();
            await_told(&mut raws, &[0; 3]); // The node is asked, and has to notify the handle as well.
            let state = redlock.nodes()[0].state;
            assert_matches!(state, NodeState::Quarantined { .. });
            let sets = |raws: &mut [Raw]| [raws[1].calls("set"), raws[2].calls("set")];
            let before = sets(&mut raws);
            assert!(raws[1].del(b"key"));
            thread::sleep(Duration::from_millis(500));
            assert!(!waiting.is_finished(), "one vote of three");
            assert_eq!(sets(&mut raws), before, "it is not believed free");
            assert!(raws[2].del(b"key"));
            let lock = waiting.join().expect("no panic").expect("two of three");
            assert_eq!(
                raws[2].get(b"key").as_deref(),
                Some(lock.token().as_bytes())
            );
            lock.unlock().expect("held");
        });
        cluster.assert_gone("key");
    }
}
