//! Addresses that cannot be reached, and running out of descriptors.
//!
//! Refused connections and strangers are in [`crate::refusal`].

use std::env;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shearline::{BuildError, LinkError, LockOptions, NodeOutcome, RestartGuard};

use crate::face::{Which, at, no_quorum};
use crate::parts::part;
use crate::refusal::check;
use crate::servers::{Cluster, LONG, PATIENCE, Raw, eventually, within_patience};

/// The addresses of the nodes, for the process with no descriptor left.
const NODES: &str = "SHEARLINE_TEST_NO_DESCRIPTOR";

/// A listener that does not accept and whose queue is full: the kernel answers no further
/// connection.
struct Crowded {
    port: u16,
    _listener: OwnedFd,
    _queue: Vec<OwnedFd>,
}

impl Crowded {
    fn new() -> Self {
        let listener = socket(SocketFlags::empty());
        rustix::net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("free");
        rustix::net::listen(&listener, 0).expect("bound");
        let address = rustix::net::getsockname(&listener).expect("bound");
        let port = std::net::SocketAddr::try_from(address)
            .expect("ours")
            .port();
        let mut queue = Vec::new();
        loop {
            let address = (Ipv4Addr::LOCALHOST, port).into();
            match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
                Ok(stream) => queue.push(stream.into()),
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => panic!("{error}"),
            }
        }
        Self {
            port,
            _listener: listener,
            _queue: queue,
        }
    }
}

fn socket(flags: SocketFlags) -> OwnedFd {
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .expect("a socket")
}

#[test]
fn a_listener_whose_queue_is_full_is_unreachable_and_the_others_go_on() {
    let crowded = Crowded::new();
    check(
        &format!("redis://127.0.0.1:{}", crowded.port),
        &[NodeOutcome::Unreachable(LinkError::ConnectTimeout)],
    );
}

/// If there is a name server, it may not answer in time.
#[test]
fn a_name_that_does_not_resolve_is_unreachable_and_the_others_go_on() {
    check(
        "redis://nowhere.invalid:6379",
        &[
            NodeOutcome::Unreachable(LinkError::Unresolved),
            NodeOutcome::Unreachable(LinkError::ConnectTimeout),
        ],
    );
}

/// The limit is per process, so another process runs into it.
#[test]
fn a_process_without_descriptors_goes_on_with_the_connections_it_has() {
    let cluster = Cluster::start(3);
    let output = part("faults::places::with_no_descriptor_left")
        .args(["--test-threads", "1"])
        .env(NODES, cluster.urls().join(","))
        .output()
        .expect("this binary again");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    cluster.assert_empty();
}

/// The part of the other process. Without a part it does nothing.
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
    assert!(matches!(builder.build_local(), Err(BuildError::Io(_))));

    // The open connections go on; one that ends cannot be made again.
    let lock = face.try_lock("few", LONG).expect("three of three");
    inside[0].run("CLIENT KILL TYPE normal SKIPME yes");
    face.unlock(lock).expect("two of three");
    let mut lock = face.try_lock("few", LONG).expect("two of three");
    face.extend(&mut lock, LONG).expect("two of three");
    face.unlock(lock).expect("two of three");
    inside[1].run("CLIENT KILL TYPE normal SKIPME yes");
    let none_left = NodeOutcome::Unreachable(LinkError::Os(24));
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
    eventually("no key is left", || {
        face.settle();
        inside
            .iter_mut()
            .all(|raw| !raw.exists(b"few"))
            .then_some(())
    });
}
