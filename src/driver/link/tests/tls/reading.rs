//! How a link reads what a node has encrypted: records that are torn, long or the last.

use super::*;

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
        let end = Disconnected(LinkFault::Closed);
        let said = pair.world.turn_until(&end);
        assert_eq!(said, [received(b"-ERR bye\r\n"), end], "{announced}");
        assert!(pair.world.is_idle());
    }
}

/// The announced end of TLS may come without the end of TCP, and then no event reports it.
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
    let end = Disconnected(LinkFault::Closed);
    let said = pair.world.turn_until(&end);
    assert_eq!(said, [received(b"-ERR bye\r\n"), end]);
    assert_eq!(serving.join().unwrap(), io::ErrorKind::ConnectionReset);
}

/// Data that was read together with the end of the handshake waits in the session, and no event reports it.
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

/// Answers the hello, and sends more in the same piece.
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
    let mut bytes = vec![];
    while bytes != b"+OK\r\n+PONG\r\n" {
        if !pair.world.link.has_more() {
            assert_ne!(pair.world.wait(PATIENCE), 0, "forgotten behind {bytes:?}");
        }
        pair.world.service();
        let mut said = pair.world.take();
        said.retain(|said| *said != Connected);
        bytes.extend(data_of(&said));
    }
    pair.close();
    serving.join().unwrap();
}

/// One record holds thousands of replies, of which a turn reads a few: the next turns continue, although no event
/// reports the rest.
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
        let bytes = data_of(&said);
        assert!(bytes.iter().all(|byte| *byte == 7));
        len += bytes.len();
    }
    assert_eq!(len, LEN);
    assert!(0 < unreported, "{unreported}");
    pair.close();
    serving.join().unwrap();
}

/// If bytes arrive while a record is read in many turns, one of these turns uses up their event.
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
    let mut rest = vec![7; 6];
    rest.extend(b"+OK\r\n");
    let mut read = Vec::new();
    while read.len() < rest.len() {
        world.service();
        read.extend(data_of(&world.take()));
        // The event may have been for the six bytes. In that case another one follows.
        let is_whole = read.len() == rest.len() || world.link.has_more();
        assert!(is_whole || world.wait(PATIENCE) != 0, "forgotten: {read:?}");
    }
    assert_eq!(read, rest);
    pair.close();
    serving.join().unwrap();
}
