//! Inspections where not all nodes count, and beside locks. (What one says of a resource is in `contract`.)

use shearline::{Builder, Found, InspectError, Inspection, RestartGuard};

use crate::contract::{assert_held, found};
use crate::face::{Which, over};
use crate::servers::{Cluster, LONG, Options};

#[test]
fn with_a_strict_guard_nodes_that_do_not_vote_are_shown_and_do_not_count() {
    not_with!(NoScripts, "a strict guard needs scripts");
    for options in [Options::redis(), Options::valkey()] {
        let cluster = Cluster::with(3, &options);
        for which in Which::BOTH {
            let key = which.key("strict");
            let mut face = which.build(strict(&cluster));
            if which == Which::Shared {
                let result = face.inspect(&key);
                assert!(
                    matches!(result, Err(InspectError::NoQuorum(_))),
                    "{result:?}"
                );
            }
            assert_eq!(face.trust_all(), 3);
            let told = face.inspect(&key).expect("all count");
            assert!(told.is_free(), "{told}");
            let lock = face.try_lock(&key, LONG).expect("free");
            face.await_copies(&cluster, &key);
            assert_held(&face.inspect(&key).expect("all count"), b"", 3);
            // The marker of one of them is another's: its answer does not count from now on.
            let marker = [&b"SET"[..], shearline::internals::MARKER_KEY, b"another"];
            cluster[0].raw().command(&marker);
            let told = face.inspect(&key).expect("two count");
            assert_held_by(&told, 2);
            drop(face.unlock(lock));
            face.assert_gone(&cluster, &key);
            let reset = [&b"DEL"[..], shearline::internals::MARKER_KEY];
            cluster[0].raw().command(&reset);
        }
    }
}

#[track_caller]
fn assert_held_by(told: &Inspection, nodes: usize) {
    assert_eq!(told.holder().expect("held").nodes, nodes, "{told}");
    assert!(
        matches!(found(told)[0], Found::Holder { .. }),
        "it is shown: {told}"
    );
    assert!(!told.nodes()[0].counts && told.nodes()[1].counts);
}

fn strict(cluster: &Cluster) -> Builder {
    over(cluster)
        .restart_guard(RestartGuard::Strict)
        .max_ttl(LONG)
}
