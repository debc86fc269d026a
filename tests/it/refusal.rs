//! Nodes that do not vote: refused connections, strangers, servers that must not be used. The
//! others go on, and the report says why for each.

use std::time::Duration;

use shearline::{LinkError, LockOptions, NodeOutcome, Unusable};

use crate::face::{Which, at, held, no_quorum, over};
use crate::servers::{
    self, BRIEF, ClosedPort, Cluster, LONG, Manner, Options, Server, Stranger, eventually,
};

#[test]
fn a_refused_connection_is_named_and_the_others_go_on() {
    let refused = NodeOutcome::Unreachable(LinkError::Refused);
    check(&ClosedPort::new().url(), &[refused]);
}

#[test]
fn one_node_is_no_majority_of_two_or_three() {
    let cluster = Cluster::start(1);
    let closed = [ClosedPort::new(), ClosedPort::new()];
    for nodes in 1..=2 {
        for which in Which::BOTH {
            let key = which.key("refused");
            // It waits for the nodes that may come.
            let builder = over(&cluster).connect_timeout(BRIEF / 2);
            let urls = closed[..nodes].iter().map(ClosedPort::url);
            let mut face = which.build(builder.nodes(urls));
            let report = no_quorum(face.try_lock(&key, LONG));
            for node in &report.nodes()[1..] {
                let refused = NodeOutcome::Unreachable(LinkError::Refused);
                assert_eq!(node.outcome, refused, "{report}");
            }
            face.assert_gone(&cluster, &key);
        }
    }
}

/// With a node timeout that is longer than any test may take, only early certainty gives a verdict.
#[test]
fn a_half_to_half_vote_settles_at_once() {
    for nodes in [2, 4] {
        let cluster = Cluster::start(nodes);
        for server in &cluster[..nodes / 2] {
            server.raw().set_px(b"half:Shared", b"foreign", LONG);
            server.raw().set_px(b"half:Local", b"foreign", LONG);
        }
        for which in Which::BOTH {
            let key = which.key("half");
            let mut face = which.build(over(&cluster).node_timeout(LONG).dead_after(2 * LONG));
            let report = held(face.try_lock(&key, 2 * LONG));
            assert_eq!((report.quorum(), report.tries()), (nodes / 2 + 1, 1));
            let report = held(face.lock_with(&key, &LockOptions::new(2 * LONG).tries(3)));
            // The other half is not asked for in vain: it waits until a majority may be free.
            assert_eq!(report.tries(), 1);
            for (node, raw) in cluster.raws().iter_mut().enumerate() {
                if node < nodes / 2 {
                    assert_eq!(raw.get(key.as_bytes()).as_deref(), Some(&b"foreign"[..]));
                } else {
                    eventually("our half is given back", || {
                        face.settle();
                        (!raw.exists(key.as_bytes())).then_some(())
                    });
                }
            }
        }
    }
}

#[test]
fn a_server_that_does_not_speak_resp_is_unusable_and_the_others_go_on() {
    for manner in [Manner::Http, Manner::Garbage] {
        let stranger = Stranger::new(manner);
        check(
            &stranger.url(),
            &[NodeOutcome::Unusable(Unusable::NotRedis)],
        );
    }
}

#[test]
fn a_server_that_closes_at_once_is_unreachable_and_the_others_go_on() {
    let stranger = Stranger::new(Manner::Closes);
    check(
        &stranger.url(),
        &[
            NodeOutcome::Unreachable(LinkError::Closed),
            // It closed with our first command unread.
            NodeOutcome::Unreachable(LinkError::HandshakeReset),
        ],
    );
}

#[test]
fn a_server_that_never_answers_is_unreachable_and_the_others_go_on() {
    let stranger = Stranger::new(Manner::Silent);
    check(
        &stranger.url(),
        &[NodeOutcome::Unreachable(LinkError::ConnectTimeout)],
    );
}

#[test]
fn a_replica_is_unusable_and_the_others_go_on() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::with(&Options::redis().arguments(["--replicaof", "127.0.0.1", &port]));
    check(&replica.url(), &[NodeOutcome::Unusable(Unusable::Replica)]);
}

#[test]
fn a_cluster_node_is_unusable_and_the_others_go_on() {
    not_with!(
        Tls,
        "its port for other nodes of a cluster is the TLS port here"
    );
    let server = Server::with(&Options::redis().arguments(["--cluster-enabled", "yes"]));
    check(&server.url(), &[NodeOutcome::Unusable(Unusable::Mode)]);
}

#[test]
fn a_missing_database_is_unusable_and_the_others_go_on() {
    not_with!(
        Acl | Tls | NoScripts,
        "appends to a URL, and needs +select besides"
    );
    let server = Server::with(&Options::redis().arguments(["--databases", "2"]));
    check(
        &format!("{}/7", server.url()),
        &[NodeOutcome::Unusable(Unusable::NoDatabase)],
    );
}

/// A full server says so without a request, and closes.
#[test]
fn a_full_server_is_unusable_and_the_others_go_on() {
    not_with!(Tls, "with TLS a full server closes without a word");
    let server = Server::start();
    let mut inside = server.raw();
    inside.run("CONFIG SET maxclients 1");
    check(
        &server.url(),
        &[NodeOutcome::Unusable(Unusable::TooManyClients)],
    );
}

/// The node at `url` with two good ones: they give the lock, and the report of a refusal gives one
/// of `outcomes` for it.
pub(crate) fn check(url: &str, outcomes: &[NodeOutcome]) {
    let cluster = Cluster::start(2);
    for which in Which::BOTH {
        let builder = at([url])
            .nodes(cluster.urls())
            .connect_timeout(Duration::from_secs(1));
        let mut face = which.build(builder);
        let key = which.key("others");
        let lock = face.lock(&key, LONG).expect("two of three are a majority");
        assert_eq!(cluster.copies(&key), 2);
        face.unlock(lock).expect("two of three");
        face.assert_gone(&cluster, &key);

        // A refusal gives a report: a stranger takes one of the two good nodes.
        let key = which.key("reported");
        cluster[0].raw().set_px(key.as_bytes(), b"foreign", LONG);
        let mut last = None;
        let seen = servers::within_patience(|| {
            face.settle();
            let error = face.try_lock(&key, LONG).expect_err("one vote of three");
            let report = report_of(&error).clone();
            let said = report.nodes()[0].outcome;
            last = Some(said);
            assert_eq!(report.nodes()[1].outcome, NodeOutcome::Held, "{report}");
            outcomes.contains(&said).then_some(())
        });
        assert!(
            seen.is_some(),
            "{outcomes:?} was expected, {last:?} was reported"
        );
        assert_eq!(
            cluster[0].raw().get(key.as_bytes()).as_deref(),
            Some(&b"foreign"[..])
        );
    }
}

fn report_of(error: &shearline::LockError) -> &shearline::Report {
    match error {
        shearline::LockError::Held(report) | shearline::LockError::NoQuorum(report) => report,
        other => panic!("no report in {other:?}"),
    }
}
