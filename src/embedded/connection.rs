//! A connection of an embedded node: the socket of a client, and the buffers for both directions.
//!
//! Both buffers are bounded. While [`OUT_BYTES_MAX`] bytes of replies wait for a client that does not read, the node
//! executes no command of this client. The node reads more bytes only after it has executed all the bytes that it has
//! already read. Commands of other clients cause pushes, so stopping this client does not stop its pushes.
//! If [`PUSHED_BYTES_MAX`] bytes are waiting when a push comes, the node closes the connection.

use std::io::{self, Read, Write};
use std::vec::Vec;

use mio::net::TcpStream;

use crate::resp::{Frame, Inbox};
use crate::time::Instant;

use super::session::Session;
use super::store::Store;

/// If this many bytes of replies are waiting, the node executes no further command. The last reply may exceed this
/// limit.
const OUT_BYTES_MAX: usize = 256 << 10;

/// If this many bytes are waiting when a push comes, the node closes the connection, because the client does not read.
/// This limit is larger than [`OUT_BYTES_MAX`] and the longest reply together.
const PUSHED_BYTES_MAX: usize = 2 << 20;

/// The number of bytes to read at a time. If a client sends more, the other clients get their turn before the node
/// reads the rest.
const READ_BYTES: usize = 16 << 10;

pub(super) struct Connection {
    stream: TcpStream,
    session: Session,
    inbox: Inbox,
    /// The bytes that were read. The first `taken` bytes were already executed.
    input: Vec<u8>,
    taken: usize,
    out: Vec<u8>,
    /// `true` if the connection may have bytes to read, commands to execute, or waiting bytes that the socket accepts.
    pub(super) ready: bool,
    /// `true` if the node reads no more bytes. The node writes the waiting bytes if possible, and then closes the
    /// connection.
    closing: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, session: Session) -> Self {
        Self {
            stream,
            session,
            inbox: Inbox::default(),
            input: Vec::new(),
            taken: 0,
            out: Vec::new(),
            ready: true,
            closing: false,
        }
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    /// Adds a push, which the node writes at the next turn of the connection.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.ready = true;
        self.closing |= self.out.len() >= PUSHED_BYTES_MAX;
        if !self.closing {
            self.out.extend_from_slice(bytes);
        }
    }

    /// Reads once, executes the commands that have arrived, and writes as much as possible. The amount of work is
    /// bounded. Returns `false` if the connection has ended.
    pub(super) fn serve(&mut self, store: &mut Store, now: Instant) -> bool {
        self.ready = false;
        let has_read = self.may_read();
        let read = if has_read { self.read() } else { Ok(()) };
        self.run(store, now);
        let written = read.and_then(|()| self.write());
        // The poll reports arrived bytes only once, so the connection stays ready if it had no chance to read them.
        self.ready |= self.may_run() || !has_read && self.may_read();
        written.is_ok() && !(self.closing && self.out.is_empty())
    }

    fn may_read(&self) -> bool {
        !self.closing && self.input.len() == self.taken
    }

    fn may_run(&self) -> bool {
        self.taken < self.input.len() && self.out.len() < OUT_BYTES_MAX
    }

    fn read(&mut self) -> io::Result<()> {
        self.taken = 0;
        self.input.resize(READ_BYTES, 0);
        let result = self.stream.read(&mut self.input);
        self.input.truncate(result.as_ref().map_or(0, |len| *len));
        match result {
            Ok(0) => self.closing = true,
            Ok(_) => self.ready = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.ready = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Executes the commands that were read, until [`OUT_BYTES_MAX`] bytes of replies are waiting.
    fn run(&mut self, store: &mut Store, now: Instant) {
        let mut piece = self.input.get(self.taken..).unwrap_or_default();
        while !piece.is_empty() && self.out.len() < OUT_BYTES_MAX {
            let words = match self.inbox.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(frame)) => words(&frame),
                Err(_) => None,
            };
            let Some(words) = words else {
                let error = b"-ERR Protocol error: no array of bulk strings\r\n";
                self.out.extend_from_slice(error);
                self.closing = true;
                piece = &[];
                break;
            };
            store.execute(&mut self.session, now, &words, &mut self.out);
        }
        self.taken = self.input.len() - piece.len();
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the words of a command. An empty array is a command without words.
fn words<'a>(frame: &Frame<'a>) -> Option<Vec<&'a [u8]>> {
    let items = frame.value.as_items()?;
    items.iter().map(|word| word.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::command;

    /// Returns a connection, and its client.
    fn connection() -> (Connection, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let connection = Connection::new(TcpStream::from_std(stream), Store::session());
        (connection, client)
    }

    #[test]
    fn a_client_that_reads_no_pushes_is_closed() {
        let mut store = Store::new(1, Instant::ZERO);
        let (mut connection, mut client) = connection();
        let push = [b'x'; 1 << 10];
        for _ in 0..PUSHED_BYTES_MAX >> 10 {
            connection.push(&push);
            assert!(!connection.closing);
        }
        connection.push(&push);
        assert_eq!(
            (connection.closing, connection.out.len()),
            (true, PUSHED_BYTES_MAX)
        );
        // The connection first sends the queued bytes, and then ends.
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        while connection.serve(&mut store, Instant::ZERO) {}
        drop(connection);
        assert_eq!(reader.join().unwrap().unwrap(), PUSHED_BYTES_MAX);
    }

    #[test]
    fn unread_replies_stay_bounded() {
        const VALUE_BYTES: usize = 100_000;
        let mut store = Store::new(1, Instant::ZERO);
        let (mut connection, mut client) = connection();

        let mut bytes = Vec::new();
        command(&mut bytes, &[b"SET", b"k", &[b'v'; VALUE_BYTES]]);
        for _ in 0..1_000 {
            command(&mut bytes, &[b"GET", b"k"]);
        }
        let writer = std::thread::spawn(move || {
            client.write_all(&bytes).unwrap();
            client
        });
        // The replies are far longer than the kernel's buffers, so they must pile up in `out`.
        while connection.out.len() < OUT_BYTES_MAX {
            assert!(connection.serve(&mut store, Instant::ZERO));
            assert!(connection.out.len() < OUT_BYTES_MAX + VALUE_BYTES + 16);
            assert!(connection.input.len() <= READ_BYTES);
        }
        assert!(!connection.ready, "nothing to do until the client reads");
        drop(connection);
        drop(writer.join());
    }
}
