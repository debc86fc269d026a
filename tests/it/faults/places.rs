//! Running out of descriptors.

use std::env;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shearline::internals::LinkFault;
use shearline::{BuildError, LockOptions, NodeOutcome, RestartGuard};

use crate::face::{Which, at, no_quorum};
use crate::parts::{part, played};
use crate::servers::{Cluster, LONG, PATIENCE, Raw, within_patience};

/// The environment variable with the addresses of the nodes, for the process with no descriptor left.
const NODES: &str = "SHEARLINE_TEST_NO_DESCRIPTOR";

/// The limit is per process, so another process runs into it.
#[test]
fn a_process_without_descriptors_goes_on_with_the_connections_it_has() {
    let cluster = Cluster::start(3);
    let mut alone = part("faults::places::with_no_descriptor_left");
    alone.args(["--test-threads", "1"]);
    played(alone.env(NODES, cluster.urls().join(",")));
    cluster.assert_empty();
}

/// Plays the part of the other process. Without a part it does nothing.
#[test]
#[ignore = "a part of another test"]
fn with_no_descriptor_left() {
    let Ok(nodes) = env::var(NODES) else {
        return;
    };
    for which in Which::BOTH {
        without_descriptors(which, &nodes);
    }
}

fn without_descriptors(which: Which, nodes: &str) {
    let builder = at(nodes.split(',')).restart_guard(RestartGuard::Off);
    let mut face = which.build(builder.clone());
    face.await_ready();
    let mut inside: Vec<Raw> = nodes
        .split(',')
        .map(|url| url.rsplit(['/', '@']).next().expect("behind all else"))
        .map(|address| Raw::connect(address.parse().expect("an address")).expect("it listens"))
        .collect();
    // No new descriptor can be opened, and the number of a closed one is not reused either.
    let usual = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        ..usual
    };
    setrlimit(Resource::Nofile, none).expect("less is allowed");
    assert_matches!(builder.build_local(), Err(BuildError::Io(_)));

    // The open connections still work; one that ends cannot be made again.
    let lock = face.try_lock("few", LONG).expect("three of three");
    inside[0].run("CLIENT KILL TYPE normal SKIPME yes");
    face.unlock(lock).expect("two of three");
    let mut lock = face.try_lock("few", LONG).expect("two of three");
    face.extend(&mut lock, LONG).expect("two of three");
    face.unlock(lock).expect("two of three");
    inside[1].run("CLIENT KILL TYPE normal SKIPME yes");
    let none_left = NodeOutcome::Unreachable(LinkFault::Os(24).into());
    let mut last = None;
    let named = within_patience(|| {
        face.settle();
        let report = no_quorum(face.try_lock("few", LONG));
        let outcomes: Vec<_> = report.nodes().iter().map(|node| node.outcome).collect();
        let named = outcomes[..2] == [none_left, none_left];
        last = Some(outcomes);
        named.then_some(())
    });
    assert!(named.is_some(), "{last:?}");

    setrlimit(Resource::Nofile, usual).expect("as before");
    let options = LockOptions::new(LONG).wait(2 * PATIENCE);
    let lock = face.lock_with("few", &options).expect("as before");
    face.unlock(lock).expect("as before");
    face.until("no key is left", |_| {
        inside.iter_mut().all(|raw| !raw.exists(b"few"))
    });
}
