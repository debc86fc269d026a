//! A server that is reached over a unix socket, and a server that is named twice.

use shearline::{NodeOutcome, Unusable};

use crate::face::{Which, at, no_quorum};
use crate::servers::{Cluster, LONG};

/// One server under two addresses has one vote, even if the addresses look different.
#[test]
fn one_server_under_two_addresses_has_one_vote() {
    let cluster = Cluster::start(2);
    let twice = [cluster[0].url(), cluster[0].unix_url()];
    for which in Which::BOTH {
        // Two addresses, one vote: no majority of two.
        let key = which.key("twice");
        let mut face = which.build(at(&twice));
        let report = no_quorum(face.try_lock(&key, LONG));
        let same = report
            .nodes()
            .iter()
            .filter(|node| matches!(node.outcome, NodeOutcome::Unusable(Unusable::SameServer(_))));
        assert_eq!(same.count(), 1, "{report}");
        face.assert_gone(&cluster, &key);

        // With a second server, over a unix socket, there are two votes of three.
        let key = which.key("thrice");
        let mut face = which.build(at(&twice).node(cluster[1].unix_url()));
        let lock = face.try_lock(&key, LONG).expect("two votes of three");
        assert_eq!(cluster.copies(&key), 2);
        assert_eq!(face.unlock(lock).expect("two votes of three").deleted, 2);
        face.assert_gone(&cluster, &key);
    }
}
