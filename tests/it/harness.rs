//! Tests of the harness itself: it does what the stories rely on.

use std::io::ErrorKind;
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::servers::{self, End, Mischief, Proxy, Raw, Reply, Server, Way};

#[test]
fn a_server_ends_when_its_value_is_dropped_in_a_panic() {
    let mut address = None;
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        let server = Server::start();
        server.freeze();
        address = Some(server.address());
        panic!("expected: the story of this test");
    }));
    assert!(result.is_err());
    let again = Raw::connect(address.expect("it started"));
    assert!(again.is_err(), "the process is gone");
}

#[test]
fn the_proxy_does_the_mischief_that_is_set() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let connect = || Raw::connect(proxy.address()).expect("the proxy listens");
    let mut raw = connect();
    let ping: &[&[u8]] = &[b"PING"];

    // "+PONG\r\n" comes in seven pieces, and takes seven fiftieths of a second.
    for slow in [
        Mischief::Drip(Duration::from_millis(5)),
        Mischief::Bandwidth(50),
    ] {
        proxy.set(slow);
        let start = Instant::now();
        assert_eq!(raw.run("PING"), Reply::Simple("PONG".into()));
        assert!(start.elapsed() >= Duration::from_millis(30), "{slow:?}");
    }

    // The bytes that were held pass afterwards.
    for way in [Way::ToServer, Way::ToClient] {
        proxy.set(Mischief::Hold(way));
        let (outside, key) = (&mut server.raw(), b"held");
        outside.del(key);
        let asked = std::thread::spawn(move || {
            raw.run("INCR held");
            raw
        });
        match way {
            Way::ToServer => assert!(!outside.exists(key)),
            Way::ToClient => servers::until("it has arrived", || outside.exists(key)),
        }
        proxy.set(Mischief::None);
        raw = asked.join().expect("answered");
    }

    for (end, kind) in [
        (End::Fin, ErrorKind::UnexpectedEof),
        (End::Rst, ErrorKind::ConnectionReset),
    ] {
        proxy.set(Mischief::Cut(0, end));
        let error = connect().try_command(ping).expect_err("it ends");
        assert_eq!(error.kind(), kind);
        proxy.set(Mischief::None);
        let mut open = connect();
        open.run("PING");
        proxy.cut(end);
        let error = open.reply().expect_err("it ends");
        assert_eq!(error.kind(), kind);
    }
}
