//! One link against a listener of the standard library, on the same thread: the loopback delivers at once, so a turn
//! sees everything that the peer did before it.

use super::*;
use crate::config::Config;
use crate::driver::inbox::Inbox;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use mio::{Events, Poll, Waker};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;

use rustix::net::sockopt;

mod families;
#[cfg(feature = "tls")]
mod tls;

const BUFFER: usize = 16;
const NODE: NodeId = NodeId::new(3);
/// Never reached unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// An input of the engine, as an owned value.
#[derive(Debug, Eq, PartialEq)]
enum Said {
    Connected,
    Writable,
    Received(Vec<u8>),
    Disconnected(LinkFault),
}

use Said::{Connected, Disconnected, Writable};

fn received(bytes: &[u8]) -> Said {
    Said::Received(bytes.into())
}

/// Returns all data, of a link that says nothing else.
#[track_caller]
fn data_of(said: &[Said]) -> Vec<u8> {
    let data = said.iter().flat_map(|said| {
        let Said::Received(bytes) = said else {
            panic!("{said:?}")
        };
        bytes
    });
    data.copied().collect()
}

fn of(node: NodeId, said: Said) -> Said {
    assert_eq!(node, NODE);
    said
}

fn keep(input: Input<'_>) -> Said {
    match input {
        Input::Connected { node } => of(node, Connected),
        Input::Writable { node } => of(node, Writable),
        Input::Received { node, bytes } => of(node, received(bytes)),
        Input::Disconnected { node, reason } => of(node, Disconnected(reason.fault())),
        Input::Transmitted { .. } | Input::Probed { .. } | Input::Tick => {
            panic!("a link does not say {input:?}")
        }
    }
}

fn tcp(address: SocketAddr) -> Address {
    Address::Tcp {
        host: Host::Ip(address.ip()),
        port: address.port(),
    }
}

fn name(name: &str, port: u16) -> Address {
    Address::Tcp {
        host: Host::Name(name.into()),
        port,
    }
}

fn unix(path: &str) -> Address {
    Address::Unix { path: path.into() }
}

struct World {
    link: Link,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    buffer: [u8; BUFFER],
    said: Vec<Said>,
}

impl World {
    fn new(address: &Address) -> Self {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(99)).unwrap());
        let events = Events::with_capacity(8);
        Self {
            link: Link::new(NODE, address, None, None),
            poll,
            events,
            waker,
            buffer: [0; BUFFER],
            said: Vec::new(),
        }
    }

    /// Makes a world in which the look-up of the node's name returns the result of `work`.
    fn named(work: impl FnOnce() -> io::Result<Addresses> + Send + 'static) -> Self {
        let mut world = Self::new(&name("never.looked.up", 1));
        world.link.lookup = Some(Lookup::run(None, &world.waker, work).unwrap());
        world
    }

    fn connected() -> (Self, TcpStream) {
        Self::connected_to(&listener())
    }

    fn connected_to(listener: &TcpListener) -> (Self, TcpStream) {
        let mut world = Self::new(&tcp(listener.local_addr().unwrap()));
        world.open();
        let peer = listener.accept().unwrap().0;
        world.turn();
        assert_eq!(world.take(), [Connected]);
        (world, peer)
    }

    /// Makes a world that is connected to a Unix socket.
    fn connected_unix() -> (Self, UnixStream) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let mut world = Self::new(&unix(path.to_str().unwrap()));
        world.open();
        assert_eq!(world.take(), [Connected]);
        (world, listener.accept().unwrap().0)
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Link, &mut Tools<'_>) -> T) -> T {
        let mut inbox = Inbox::default();
        let mut tools = Tools {
            registry: self.poll.registry(),
            waker: &self.waker,
            buffer: &mut self.buffer,
            inbox: &mut inbox,
        };
        let result = act(&mut self.link, &mut tools);
        inbox.drain(|input| self.said.push(keep(input)));
        if inbox.writable.contains(NODE) {
            self.said.push(Writable);
        }
        result
    }

    fn open(&mut self) {
        self.with(Link::open);
    }

    fn service(&mut self) {
        self.with(Link::service);
    }

    /// Records what is ready now or within `limit`, and returns how much that was.
    fn wait(&mut self, limit: Duration) -> usize {
        self.poll.poll(&mut self.events, Some(limit)).unwrap();
        let of_node = |event: &&mio::event::Event| event.token() == Token(NODE.index());
        for event in self.events.iter().filter(of_node) {
            self.link.note(crate::driver::poller::ready(event));
        }
        self.events.iter().count()
    }

    fn turn(&mut self) {
        assert_ne!(
            self.wait(PATIENCE),
            0,
            "nothing happened, behind {:?}",
            self.said
        );
        self.service();
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, LinkFault> {
        self.with(|link, tools| link.write(bytes, tools))
    }

    fn give_up(&mut self, reason: LinkFault) {
        self.with(|link, tools| link.give_up(reason, tools));
    }

    fn abort(&mut self) {
        self.with(|link, tools| link.abort(tools.registry));
    }

    fn close(&mut self) {
        self.with(|link, tools| link.close(tools.registry));
    }

    fn take(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.said)
    }

    fn turn_until(&mut self, last: &Said) -> Vec<Said> {
        while self.said.last() != Some(last) {
            self.turn();
        }
        self.take()
    }

    fn is_idle(&self) -> bool {
        matches!(self.link.state, State::Idle)
    }

    fn socket(&self) -> &Socket {
        self.link.socket()
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Returns an address of this machine on which no server listens.
fn unused_address() -> SocketAddr {
    listener().local_addr().unwrap()
}

#[test]
fn bytes_flow_both_ways() {
    let (mut world, mut peer) = World::connected();
    assert_eq!(world.write(b"HELLO"), Ok(5));
    let mut bytes = [0; 5];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"HELLO");
    peer.write_all(b"+OK\r\n").unwrap();
    world.turn();
    assert_eq!(world.take(), [received(b"+OK\r\n")]);
}

#[test]
fn a_connection_that_is_up_has_its_options() {
    let (world, _peer) = World::connected();
    let socket = world.socket();
    assert!(sockopt::tcp_nodelay(socket).unwrap());
    assert!(sockopt::socket_keepalive(socket).unwrap());
    let seconds = Duration::from_secs;
    assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), seconds(5));
    assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), seconds(1));
    assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), 3);
    assert_eq!(sockopt::socket_linger(socket).unwrap(), None);
    #[cfg(target_os = "linux")]
    assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 5000);
    let flags = rustix::io::fcntl_getfd(socket).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn no_server_listens() {
    let mut world = World::new(&tcp(unused_address()));
    world.open();
    assert_eq!(world.turn_until(&Disconnected(LinkFault::Refused)).len(), 1);
    assert!(world.is_idle());

    let mut world = World::new(&unix("/nowhere/s"));
    world.open();
    assert_eq!(world.take(), [Disconnected(LinkFault::NotFound)]);
}

#[test]
fn a_connection_to_itself_is_none() {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&descriptor, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let stream = TcpStream::from(descriptor);
    let own = stream.local_addr().unwrap();
    connect(&stream, &own).unwrap();
    let mut socket = Socket::from_std(stream);
    assert_eq!(socket.is_connected(), Err(LinkFault::Refused));
}

#[test]
fn a_short_read_ends_the_reading() {
    let (mut world, mut peer) = World::connected();
    peer.write_all(&[1; BUFFER + 5]).unwrap();
    world.wait(PATIENCE);
    // After the short read comes the end. If the link read on, it would find the end in the same turn.
    drop(peer);
    world.service();
    assert_eq!(world.take(), [received(&[1; BUFFER]), received(&[1; 5])]);
    assert!(!world.link.has_more());
    world.turn();
    assert_eq!(world.take(), [Disconnected(LinkFault::Closed)]);
}

#[test]
fn the_whole_life_of_a_connection_in_one_event() {
    let listener = listener();
    let mut world = World::new(&tcp(listener.local_addr().unwrap()));
    world.open();
    let mut peer = listener.accept().unwrap().0;
    peer.write_all(b"-ERR max\r\n").unwrap();
    drop(peer);
    world.turn();
    let whole = [
        Connected,
        received(b"-ERR max\r\n"),
        Disconnected(LinkFault::Closed),
    ];
    assert_eq!(world.take(), whole);
    assert!(world.is_idle());
}

#[test]
fn a_turn_reads_a_bounded_number_of_buffers_and_the_next_one_goes_on() {
    let (mut world, mut peer) = World::connected();
    let most = READS_PER_TURN * BUFFER;
    peer.write_all(&vec![1; most + BUFFER]).unwrap();
    world.turn();
    assert_eq!(world.take().len(), READS_PER_TURN);
    assert!(world.link.has_more());
    // No event reports the rest. It is read nevertheless, and after a full buffer the link reads once more.
    assert_eq!(world.wait(Duration::ZERO), 0);
    world.service();
    assert_eq!(world.take(), [received(&[1; BUFFER])]);
    assert!(!world.link.has_more());

    peer.write_all(&vec![2; most]).unwrap();
    drop(peer);
    world.turn();
    assert_eq!(world.take().len(), READS_PER_TURN);
    assert!(world.link.has_more());
    world.service();
    assert_eq!(world.take(), [Disconnected(LinkFault::Closed)]);
}

#[test]
fn what_was_sent_in_front_of_a_failed_write_is_delivered() {
    let (mut world, mut peer) = World::connected();
    let reply = b"-ERR max number of clients reached\r\n";
    peer.write_all(reply).unwrap();
    sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    assert_eq!(world.write(b"SET"), Err(LinkFault::Reset));
    assert_eq!(world.take(), []);
    world.give_up(LinkFault::Reset);
    let said = world.take();
    let (last, data) = said.split_last().unwrap();
    assert_eq!(*last, Disconnected(LinkFault::Reset));
    assert_eq!(data_of(data), reply);
    assert!(world.is_idle());
    assert_eq!(world.write(b"more"), Err(LinkFault::Closed));
}

/// Fills the socket, has the peer read, and returns how much was written.
fn fill_and_drain(world: &mut World, mut peer: impl Read + Send + 'static) {
    let chunk = vec![7; 1 << 20];
    let mut written = 0;
    loop {
        let sent = world.write(&chunk).unwrap();
        written += sent;
        if sent < chunk.len() {
            break;
        }
    }
    assert_eq!(world.take(), []);
    let reader = thread::spawn(move || {
        let mut bytes = vec![];
        peer.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    assert_eq!(world.turn_until(&Writable), [Writable]);
    written += world.write(b"!").unwrap();
    // The end is reported once, and the socket is closed after everything that was written.
    world.close();
    assert_eq!(reader.join().unwrap(), written);
}

#[test]
fn a_full_socket_reports_when_it_takes_bytes_again() {
    let (mut world, peer) = World::connected();
    fill_and_drain(&mut world, peer);
}

#[test]
fn a_full_unix_socket_reports_when_it_takes_bytes_again() {
    let (mut world, peer) = World::connected_unix();
    fill_and_drain(&mut world, peer);
}

#[test]
fn a_unix_socket_is_not_woken_by_each_read_of_its_peer() {
    let (mut world, mut peer) = World::connected_unix();
    for _ in 0..3 {
        assert_eq!(world.write(b"PING"), Ok(4));
        peer.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(world.wait(Duration::ZERO), 0);
    }
    peer.write_all(b"+PONG\r\n").unwrap();
    world.turn();
    assert_eq!(world.take(), [received(b"+PONG\r\n")]);
}

#[test]
fn a_name_that_does_not_resolve() {
    for work in [
        Box::new(|| Err(io::ErrorKind::NotFound.into())) as Box<dyn FnOnce() -> _ + Send>,
        Box::new(|| Ok(vec![])),
    ] {
        let mut world = World::named(work);
        world.open();
        let said = world.turn_until(&Disconnected(LinkFault::Unresolved));
        assert_eq!(said.len(), 1);
        assert!(world.is_idle());
    }
}

/// The provider is also asked for a node with an address, which needs no look-up.
#[test]
fn a_provider_of_credentials_that_fails_or_panics() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    for panics in [false, true] {
        let builder = Config::builder().node(alloc::format!("{address}"));
        let builder = builder.credentials(move |_| match panics {
            true => panic!("of this test"),
            false => Err("sealed".into()),
        });
        let config = builder.config().unwrap();
        let node = &config.nodes()[0];
        let mut world = World::new(&tcp(address));
        world.link.login = Some((config.provider(node).unwrap().clone(), node.clone()));
        world.open();
        let said = world.turn_until(&Disconnected(LinkFault::Credentials));
        assert_eq!(said.len(), 1);
        assert!(world.is_idle());
    }
}

#[test]
fn the_addresses_of_a_name_are_tried_in_turn() {
    let listener = listener();
    let (bad, good) = (unused_address(), listener.local_addr().unwrap());
    let mut world = World::named(move || Ok(vec![bad, bad, good]));
    world.open();
    assert_eq!(world.turn_until(&Connected), [Connected]);
    assert_eq!(
        world.link.first, 1,
        "the one that worked is first the next time"
    );

    let mut world = World::named(move || Ok(vec![bad, unused_address()]));
    world.open();
    let said = world.turn_until(&Disconnected(LinkFault::Refused));
    assert_eq!(said.len(), 1);
}

#[test]
fn localhost_is_found_wherever_it_listens() {
    let listener = listener();
    let port = listener.local_addr().unwrap().port();
    let mut world = World::new(&name("localhost", port));
    world.open();
    assert_eq!(world.turn_until(&Connected), [Connected]);
}

#[test]
fn an_address_that_was_waited_for_in_vain_comes_last_the_next_time() {
    let listeners = [listener(), listener()];
    let addresses = listeners
        .each_ref()
        .map(|listener| listener.local_addr().unwrap());
    let mut world = World::named(move || Ok(addresses.into()));
    world.open();
    while matches!(world.link.state, State::Resolving) {
        world.turn();
    }
    world.abort();
    assert_eq!(world.take(), []);
    world.link.lookup =
        Some(Lookup::run(None, &world.waker, move || Ok(addresses.into())).unwrap());
    world.open();
    assert_eq!(world.turn_until(&Connected), [Connected]);
    let peer = peer_of(world.socket());
    assert_eq!(peer, addresses[1]);
}

fn peer_of(socket: &Socket) -> SocketAddr {
    rustix::net::getpeername(socket)
        .unwrap()
        .unwrap()
        .try_into()
        .unwrap()
}

#[test]
fn an_abandoned_lookup_serves_the_next_attempt_or_none() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let found_later = || {
        let (found, finding) = mpsc::channel::<()>();
        let world = World::named(move || {
            let _ = finding.recv();
            Ok(vec![address])
        });
        (found, world)
    };
    let (found, mut world) = found_later();
    // The connection is opened, aborted and opened again: one look-up is enough, and there is one connection.
    world.open();
    world.abort();
    world.open();
    assert_eq!(world.wait(Duration::ZERO), 0);
    drop(found);
    assert_eq!(world.turn_until(&Connected), [Connected]);
    assert!(world.link.lookup.is_none());

    // The connection is aborted for good: the answer is dropped, and the link does nothing.
    let (found, mut world) = found_later();
    world.open();
    world.abort();
    drop(found);
    world.turn();
    assert_eq!(world.take(), []);
    assert!(world.is_idle() && world.link.lookup.is_none());
}

#[test]
fn a_lookup_may_outlive_its_driver() {
    let (found, finding) = mpsc::channel::<()>();
    let (ended, end) = mpsc::channel::<()>();
    let mut world = World::named(move || {
        let _ended = ended;
        let _ = finding.recv();
        Ok(vec![])
    });
    world.open();
    drop(world);
    drop(found);
    assert_eq!(
        end.recv_timeout(PATIENCE),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
}

#[test]
fn an_abort_resets_and_a_close_does_not() {
    let listener = listener();
    let (mut world, mut peer) = World::connected_to(&listener);
    world.abort();
    let error = peer.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let (mut world, mut peer) = World::connected_to(&listener);
    assert_eq!(world.write(b"EVAL"), Ok(4));
    world.close();
    let mut bytes = vec![];
    peer.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"EVAL");
    assert_eq!(world.take(), []);
}

/// This is the case of a forked child: the parent has the same sockets, and still uses them.
#[test]
fn dropping_a_link_only_closes_its_descriptor() {
    let (world, mut peer) = World::connected();
    let parents = TcpStream::from(world.socket().as_fd().try_clone_to_owned().unwrap());
    drop(world);
    (&parents).write_all(b"PING").unwrap();
    peer.read_exact(&mut [0; 4]).unwrap();
    peer.write_all(b"+PONG\r\n").unwrap();
    parents.set_nonblocking(false).unwrap();
    (&parents).read_exact(&mut [0; 7]).unwrap();
}

#[test]
fn a_readiness_that_means_nothing_does_nothing() {
    let (mut world, mut peer) = World::connected();
    let all = Ready {
        readable: true,
        writable: true,
        ending: true,
    };
    world.link.ready = all;
    world.service();
    assert_eq!(world.take(), []);
    // The report does not affect later connections either.
    peer.write_all(b"+OK\r\n").unwrap();
    world.turn();
    assert_eq!(world.take(), [received(b"+OK\r\n")]);

    world.abort();
    world.link.ready = all;
    world.service();
    assert_eq!(world.take(), []);
    assert!(!world.link.has_more());
}
