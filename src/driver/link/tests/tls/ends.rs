//! How a connection with TLS ends, and whether the next one to that node resumes a session.

use super::*;
use rustls::HandshakeKind;

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
    assert_eq!(pair.world.write(b"SET"), Err(LinkFault::Closed));
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

/// This is the case of a forked child: the parent has the same sockets, and still uses them.
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

/// Connects, reads the tickets for later sessions and a reply after them, and closes.
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

/// Resuming a session checks no certificate.
#[test]
fn sessions_are_resumed_until_something_was_wrong() {
    use HandshakeKind::{Full, Resumed};
    let mut pair = Pair::new();
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);

    // The handshake is given up.
    pair.world.open();
    drop(pair.listener.accept().unwrap());
    pair.world.with(|link, tools| link.abort(tools.registry));
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);

    // The handshake fails.
    pair.world.open();
    let mut peer = pair.listener.accept().unwrap().0;
    peer.write_all(b"-ERR unknown command\r\n").unwrap();
    let failed = Disconnected(LinkFault::Tls(crate::error::TlsFault::NotTls));
    assert_eq!(pair.world.turn_until(&failed).len(), 1);
    assert_eq!(kind_of_a_connection(&mut pair), Full);
    assert_eq!(kind_of_a_connection(&mut pair), Resumed);
}

/// An alert after the handshake is about the client's certificate. Bytes that are no TLS do not mean, at this point,
/// that the node does not speak TLS.
#[test]
fn a_connection_that_was_tampered_with_is_a_broken_protocol() {
    // A record of application data that is not encrypted at all.
    let mut forged = b"\x17\x03\x03\0\x20".to_vec();
    forged.extend([7; 32]);
    for bytes in [forged, b"-ERR max number of clients reached\r\n".to_vec()] {
        let mut pair = Pair::new();
        let serving = pair.connected(move |stream| stream.sock.write_all(&bytes).unwrap());
        let broken = Disconnected(LinkFault::Protocol);
        assert_eq!(pair.world.turn_until(&broken), [broken]);
        serving.join().unwrap();
    }
}
