//! A link with TLS against rustls as the server, in a thread of its own.

use super::*;
use crate::config::Config;
use crate::driver::tls;
use crate::driver::tls::peer::{Peer, Stream};
use rustls::ServerConfig;
use std::thread::JoinHandle;

mod ends;
mod reading;

/// A server, and a client that trusts it.
struct Pair {
    listener: TcpListener,
    peer: Peer,
    world: World,
}

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let peer = Peer::new(change);
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let client = Config::builder()
            .node(alloc::format!("rediss://{address}"))
            .tls(peer.options());
        let mut world = World::new(&tcp(address));
        let mut connectors = tls::connectors(&client.config().unwrap()).unwrap();
        world.link.tls = connectors.remove(0);
        Self {
            listener,
            peer,
            world,
        }
    }

    /// Accepts one connection, and plays the server on it.
    fn serve<T: Send + 'static>(
        &self,
        story: impl FnOnce(&mut Stream<TcpStream>) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.serve_over(|stream| stream, story)
    }

    /// Like `serve`, but over the stream that `change` makes of the socket.
    fn serve_over<S: Read + Write, T: Send + 'static>(
        &self,
        change: impl FnOnce(TcpStream) -> S + Send + 'static,
        story: impl FnOnce(&mut Stream<S>) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let listener = self.listener.try_clone().unwrap();
        let server = self.peer.accept();
        thread::spawn(move || {
            let socket = listener.accept().unwrap().0;
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.set_nodelay(true).unwrap();
            let mut stream = Stream::new(server, change(socket));
            story(&mut stream)
        })
    }

    /// Connects to a server that plays this when both have done the handshake.
    fn connected<T: Send + 'static>(
        &mut self,
        story: impl FnOnce(&mut Stream<TcpStream>) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let (begin, begun) = mpsc::channel::<()>();
        let (shake, shaken) = mpsc::channel::<()>();
        let serving = self.serve(move |stream| {
            handshake(stream);
            shake.send(()).unwrap();
            begun.recv().unwrap();
            story(stream)
        });
        self.world.open();
        assert_eq!(self.world.turn_until(&Connected), [Connected]);
        shaken.recv().unwrap();
        begin.send(()).unwrap();
        serving
    }

    fn close(&mut self) {
        self.world.with(|link, tools| link.close(tools.registry));
    }
}

fn handshake(stream: &mut Stream<impl Read + Write>) {
    stream.conn.complete_io(&mut stream.sock).unwrap();
}

#[test]
fn bytes_flow_both_ways_and_the_end_is_announced() {
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| {
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(b"+OK\r\n").unwrap();
        let mut rest = vec![];
        // An end that was not announced would be an error here.
        stream.read_to_end(&mut rest).unwrap();
        (bytes, rest)
    });
    assert_eq!(pair.world.write(b"HELLO"), Ok(5));
    let reply = received(b"+OK\r\n");
    assert_eq!(pair.world.turn_until(&reply), [received(b"+OK\r\n")]);
    assert_eq!(pair.world.write(b"EVAL"), Ok(4));
    pair.close();
    assert_eq!(serving.join().unwrap(), (*b"HELLO", b"EVAL".to_vec()));
}

#[test]
fn a_connection_with_tls_has_the_options_of_tcp() {
    let mut pair = Pair::new();
    let serving = pair.connected(|_| ());
    let socket = pair.world.socket();
    assert!(sockopt::tcp_nodelay(socket).unwrap());
    assert!(sockopt::socket_keepalive(socket).unwrap());
    serving.join().unwrap();
}

/// Encrypted bytes cannot be withdrawn, so they count as written: a `SET` in them may run, and its release is a debt.
/// No more bytes are taken until the kernel has these.
#[test]
fn what_was_encrypted_counts_as_written() {
    let mut pair = Pair::new();
    let (begin, begun) = mpsc::channel::<()>();
    let serving = pair.connected(move |stream| {
        begun.recv().unwrap();
        let mut bytes = vec![];
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let world = &mut pair.world;
    let all: Vec<u8> = (0..32 << 20)
        .map(|place: u32| (place % 251) as u8)
        .collect();
    let mut written = 0;
    // For a moment, the kernel still moves bytes to the other end.
    while written < all.len() {
        match world.write(&all[written..]).unwrap() {
            0 => break,
            len => written += len,
        }
    }
    assert!(written < all.len(), "the kernel is full");
    assert!(world.socket().has_unsent());
    assert_eq!(world.write(&all[written..]), Ok(0));
    begin.send(()).unwrap();
    assert_eq!(world.turn_until(&Writable), [Writable]);
    assert!(!world.socket().has_unsent());
    pair.close();
    assert!(
        serving.join().unwrap() == all[..written],
        "all of it, and no more"
    );
}

/// If a connection that takes no more bytes ends, only few bytes are lost, and there are only few debts.
#[test]
fn no_more_than_a_record_waits_for_the_kernel() {
    const KEPT: usize = 4 << 10;
    let mut pair = Pair::new();
    sockopt::set_socket_recv_buffer_size(&pair.listener, KEPT).unwrap();
    let (begin, begun) = mpsc::channel::<()>();
    let serving = pair.connected(move |stream| {
        begun.recv().unwrap();
        let mut bytes = vec![];
        // The end was not announced.
        stream.read_to_end(&mut bytes).unwrap_err();
        bytes.len()
    });
    let world = &mut pair.world;
    sockopt::set_socket_send_buffer_size(world.socket(), KEPT).unwrap();
    let (all, mut written) = (vec![7; 1 << 20], 0);
    while let len @ 1.. = world.write(&all[written..]).unwrap() {
        written += len;
    }
    assert!(world.socket().has_unsent() && written < all.len());
    rustix::net::shutdown(world.socket(), rustix::net::Shutdown::Write).unwrap();
    begin.send(()).unwrap();
    assert_eq!(written - serving.join().unwrap(), 16 << 10);
}

#[test]
fn what_was_encrypted_is_written_before_the_end() {
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| {
        let mut bytes = vec![];
        stream.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    let bytes = vec![7; 3 * (16 << 10) + 1];
    assert_eq!(pair.world.write(&bytes), Ok(bytes.len()));
    pair.close();
    assert_eq!(serving.join().unwrap(), bytes.len());
}
