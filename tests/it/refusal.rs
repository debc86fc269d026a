//! Some nodes do not vote: they refuse connections, or are servers of another kind or unsuitable servers. The other
//! nodes grant locks, and the report contains the reason of each node.

use shearline::internals::LinkFault;
use shearline::{NodeOutcome, Unusable};

use crate::face::{Which, at, report_of};
use crate::servers::{
    self, ClosedPort, Cluster, End, LONG, Mischief, Options, Proxy, SILENT, Server, Way,
};

/// What servers of other kinds send.
pub(crate) const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
pub(crate) const GARBAGE: &[u8] = b"\x00\xff garbage \r\n\x16\x03\x01 more of it\r\n";

/// Refused connections, and servers of other kinds.
#[test]
fn an_address_without_a_server_of_ours_is_named_and_the_others_go_on() {
    use LinkFault::{Closed, ConnectTimeout, HandshakeReset, Refused};
    let unreachable = |fault: LinkFault| NodeOutcome::Unreachable(fault.into());
    let not_ours = [NodeOutcome::Unusable(Unusable::NotRedis)];
    // A server that closes may do so before it has read our first command.
    let closes = [Closed, HandshakeReset].map(unreachable);
    check(&ClosedPort::new().url(), &[unreachable(Refused)]);
    let server = Server::start();
    for (mischief, outcomes) in [
        (Mischief::Flood(HTTP), &not_ours[..]),
        (Mischief::Flood(GARBAGE), &not_ours),
        (Mischief::Cut(0, End::Fin), &closes),
        (
            Mischief::Hold(Way::ToClient),
            &[unreachable(ConnectTimeout)],
        ),
    ] {
        let proxy = Proxy::to(server.address());
        proxy.set(mischief);
        check(&format!("redis://{}", proxy.address()), outcomes);
    }
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

/// Checks the node at `url` together with two good ones: those give the lock, and the report of a refusal gives one of
/// `outcomes` for the node.
pub(crate) fn check(url: &str, outcomes: &[NodeOutcome]) {
    let cluster = Cluster::start(2);
    for which in Which::BOTH {
        let builder = at([url]).nodes(cluster.urls()).connect_timeout(SILENT);
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
