//! A link with TLS against rustls as the server, in a thread of its own.

use super::*;
use crate::config::Config;
use crate::driver::tls;
use crate::driver::tls::peer::{Peer, Stream};
use rustls::{HandshakeKind, ServerConfig};
use std::string::String;
use std::thread::JoinHandle;

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

    /// The same over what `change` makes of the socket.
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
        // An end that is not announced would be an error.
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

/// What was encrypted cannot be taken back, so it counts as written: a `SET` among it runs, and its
/// release is owed. Nothing more is taken before the kernel has it.
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
    // The kernel goes on moving bytes to its other end for a moment.
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

#[test]
fn data_and_the_end_together() {
    for announced in [true, false] {
        let mut pair = Pair::new();
        let serving = pair.connected(move |stream| {
            stream.conn.writer().write_all(b"-ERR bye\r\n").unwrap();
            if announced {
                stream.conn.send_close_notify();
            }
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut stream.sock).unwrap();
            }
        });
        serving.join().unwrap();
        let end = Disconnected(LinkError::Closed);
        let said = pair.world.turn_until(&end);
        assert_eq!(said, [received(b"-ERR bye\r\n"), end], "{announced}");
        assert!(pair.world.is_idle());
    }
}

/// An end that is announced need not come with one of TCP, and then no event reports it.
#[test]
fn an_announced_end_is_met_behind_the_data() {
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| {
        stream.conn.writer().write_all(b"-ERR bye\r\n").unwrap();
        stream.conn.send_close_notify();
        let mut all = vec![];
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut all).unwrap();
        }
        stream.sock.write_all(&all).unwrap();
        stream.sock.read(&mut [0; 99]).unwrap_err().kind()
    });
    let end = Disconnected(LinkError::Closed);
    let said = pair.world.turn_until(&end);
    assert_eq!(said, [received(b"-ERR bye\r\n"), end]);
    assert_eq!(serving.join().unwrap(), io::ErrorKind::ConnectionReset);
}

/// What was read with the end of the handshake waits here, and no event reports it.
#[test]
fn what_was_read_with_the_handshake_is_not_forgotten() {
    let mut pair = Pair::with(|server| server.send_half_rtt_data = true);
    let (write, written) = mpsc::channel::<()>();
    let serving = pair.serve(move |stream| {
        greet(stream);
        write.send(()).unwrap();
        handshake(stream);
    });
    pair.world.open();
    let writable = Ready {
        writable: true,
        ..Ready::default()
    };
    pair.world.turn(); // TCP is connected: the hello goes out.
    written.recv().unwrap();
    pair.world.link.note(writable);
    pair.world.service();
    assert_eq!(pair.world.take(), [Connected, received(b"-ERR max\r\n")]);
    serving.join().unwrap();
}

/// Answers the hello, and says something with that.
fn greet(stream: &mut Stream<TcpStream>) {
    while stream.conn.wants_read() && !stream.conn.wants_write() {
        stream.conn.read_tls(&mut stream.sock).unwrap();
        stream.conn.process_new_packets().unwrap();
    }
    stream.conn.writer().write_all(b"-ERR max\r\n").unwrap();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock).unwrap();
    }
}

/// It may say why it closes the connection before it was asked anything.
#[test]
fn what_the_node_says_with_its_handshake_is_read() {
    let mut pair = Pair::with(|server| server.send_half_rtt_data = true);
    let serving = pair.serve(|stream| {
        greet(stream);
        handshake(stream);
    });
    pair.world.open();
    let reply = received(b"-ERR max\r\n");
    let said = pair.world.turn_until(&reply);
    assert_eq!(said, [Connected, received(b"-ERR max\r\n")]);
    serving.join().unwrap();
}

/// Writes single bytes.
struct Torn(TcpStream);

impl Write for Torn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Torn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

#[test]
fn torn_records_are_put_together() {
    let mut pair = Pair::new();
    let serving = pair.serve_over(Torn, |stream| {
        stream.write_all(b"+OK\r\n").unwrap();
        stream.write_all(b"+PONG\r\n").unwrap();
        stream.read_to_end(&mut vec![]).unwrap();
    });
    pair.world.open();
    let mut said = pair.world.take();
    let mut bytes = vec![];
    while bytes != b"+OK\r\n+PONG\r\n" {
        for said in said.drain(..).filter(|said| *said != Connected) {
            let Said::Received(some) = said else {
                panic!("{said:?}")
            };
            bytes.extend(some);
        }
        if !pair.world.link.has_more() {
            pair.world.wait(PATIENCE);
        }
        pair.world.service();
        said = pair.world.take();
    }
    pair.close();
    serving.join().unwrap();
}

/// One record holds thousands of replies, of which a turn reads a few: the next turns go on, though no
/// event reports the rest.
#[test]
fn long_records_are_read_in_many_turns() {
    const LEN: usize = 50_000;
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| {
        stream.write_all(&vec![7; LEN]).unwrap();
        stream.read_to_end(&mut vec![]).unwrap();
    });
    let (mut len, mut unreported) = (0, 0);
    let world = &mut pair.world;
    while len < LEN {
        if !world.link.has_more() {
            world.wait(PATIENCE);
        } else if world.wait(Duration::ZERO) == 0 {
            unreported += 1;
        }
        world.service();
        let said = world.take();
        assert!(said.len() <= READS_PER_TURN);
        for said in said {
            let Said::Received(bytes) = said else {
                panic!("{said:?}")
            };
            assert!(bytes.iter().all(|byte| *byte == 7));
            len += bytes.len();
        }
    }
    assert_eq!(len, LEN);
    assert!(0 < unreported, "{unreported}");
    pair.close();
    serving.join().unwrap();
}

/// The event of bytes that arrive while a record is read in many turns is used up with one of these.
#[test]
fn what_arrives_while_a_record_is_read_is_not_forgotten() {
    const LEN: usize = READS_PER_TURN * BUFFER + 6;
    let mut pair = Pair::new();
    let (more, go_on) = mpsc::channel::<()>();
    let serving = pair.connected(move |stream| {
        stream.write_all(&[7; LEN]).unwrap();
        go_on.recv().unwrap();
        stream.write_all(b"+OK\r\n").unwrap();
        stream.read_to_end(&mut vec![]).unwrap();
    });
    let world = &mut pair.world;
    world.turn();
    while world.said.len() < READS_PER_TURN {
        world.turn();
    }
    assert!(world.link.has_more());
    more.send(()).unwrap();
    assert_ne!(world.wait(PATIENCE), 0);
    world.take();
    world.service();
    let mut rest = vec![7; 6];
    rest.extend(b"+OK\r\n");
    assert_eq!(world.take(), [received(&rest)]);
    pair.close();
    serving.join().unwrap();
}

/// The engine limits the time of a handshake.
#[test]
fn a_peer_that_stalls_in_the_handshake_is_given_up() {
    let mut pair = Pair::new();
    pair.world.open();
    let mut peer = pair.listener.accept().unwrap().0;
    let mut hello = [0; 5];
    while pair.world.wait(Duration::from_millis(50)) != 0 {
        pair.world.service();
    }
    peer.read_exact(&mut hello).unwrap();
    assert_eq!(hello[..2], [22, 3], "a handshake record");
    assert_eq!(pair.world.take(), []);
    assert_eq!(pair.world.write(b"SET"), Err(LinkError::Closed));
    pair.world.with(|link, tools| link.abort(tools.registry));
    assert_eq!(pair.world.take(), []);
    assert!(pair.world.is_idle());
}

#[test]
fn an_abort_resets_and_announces_nothing() {
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| stream.read(&mut [0; 9]).unwrap_err().kind());
    pair.world.with(|link, tools| link.abort(tools.registry));
    assert_eq!(serving.join().unwrap(), io::ErrorKind::ConnectionReset);
}

/// As in a forked child: the parent has the same sockets, and goes on using them.
#[test]
fn dropping_a_link_with_tls_only_closes_its_descriptor() {
    let mut pair = Pair::new();
    let (end, ended) = mpsc::channel::<()>();
    let serving = pair.connected(move |stream| {
        ended.recv().unwrap();
        let brief = Some(Duration::from_millis(20));
        stream.sock.set_read_timeout(brief).unwrap();
        stream.sock.read(&mut [0; 9]).unwrap_err().kind()
    });
    let parents = pair.world.socket().as_fd().try_clone_to_owned().unwrap();
    let Pair { world, .. } = pair;
    drop(world);
    end.send(()).unwrap();
    assert_eq!(serving.join().unwrap(), io::ErrorKind::WouldBlock);
    drop(parents);
}

/// Connects, reads a reply, behind the tickets for later sessions, and closes.
fn kind_of_a_connection(pair: &mut Pair) -> HandshakeKind {
    let serving = pair.serve(|stream| {
        stream.write_all(b"+OK\r\n").unwrap();
        stream.read_to_end(&mut vec![]).unwrap();
        stream.conn.handshake_kind().unwrap()
    });
    pair.world.open();
    pair.world.turn_until(&received(b"+OK\r\n"));
    pair.close();
    serving.join().unwrap()
}

/// Resuming one checks no certificate.
#[test]
fn sessions_are_resumed_until_something_was_wrong() {
    use HandshakeKind::{Full, Resumed};
    let mut pair = Pair::new();
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);

    // A handshake that was given up.
    pair.world.open();
    drop(pair.listener.accept().unwrap());
    pair.world.with(|link, tools| link.abort(tools.registry));
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);

    // One that failed.
    pair.world.open();
    let mut peer = pair.listener.accept().unwrap().0;
    peer.write_all(b"-ERR unknown command\r\n").unwrap();
    let failed = Disconnected(LinkError::Tls(crate::error::TlsFailure::NotTls));
    assert_eq!(pair.world.turn_until(&failed).len(), 1);
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);
}

/// What rustls reports as an alert after the handshake is about the client's certificate.
#[test]
fn a_connection_that_was_tampered_with_is_a_broken_protocol() {
    let mut pair = Pair::new();
    let serving = pair.connected(|stream| {
        // A record of application data that was not encrypted by anyone.
        let mut forged = String::from("\u{17}\u{3}\u{3}\0\u{20}").into_bytes();
        forged.extend([7; 32]);
        stream.sock.write_all(&forged).unwrap();
    });
    let broken = Disconnected(LinkError::Protocol);
    assert_eq!(pair.world.turn_until(&broken).len(), 1);
    serving.join().unwrap();
}
