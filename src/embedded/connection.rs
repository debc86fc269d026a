//! One client of an embedded node: its socket, and the bytes that wait on either side.
//!
//! Reading stops while more than [`OUT_BYTES_MAX`] of replies wait for a client that does not read
//! them, so neither buffer grows without bound.

use std::io::{self, Read, Write};
use std::vec::Vec;

use mio::net::TcpStream;

use crate::resp::{Frame, Inbox, Limits, Value};
use crate::time::Instant;

use super::session::Session;
use super::store::Store;

/// Most bytes of replies that may wait before no further command is read. One read's worth of
/// commands may come on top.
const OUT_BYTES_MAX: usize = 256 << 10;

/// Bytes that are read at a time. A client that sends more gets its next turn after the others.
const READ_BYTES: usize = 16 << 10;

/// What a command may be: far longer than any of this library's.
const COMMAND_LIMITS: Limits = Limits {
    line_bytes: 64,
    bulk_bytes: 1 << 20,
    elements: 1024,
    depth: 1,
    reply_bytes: 4 << 20,
};

pub(super) struct Connection {
    stream: TcpStream,
    session: Session,
    inbox: Inbox,
    out: Vec<u8>,
    /// There may be bytes to read: no read has come back empty since the last event.
    readable: bool,
    /// The same for room to write.
    writable: bool,
    /// Nothing more is read; what waits is written if it can be, then this ends.
    closing: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Served {
    /// There may be more to do at once.
    Again,
    /// Nothing to do before the next event.
    Idle,
    /// It is over.
    Ended,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, session: Session) -> Self {
        Self {
            stream,
            session,
            inbox: Inbox::new(COMMAND_LIMITS),
            out: Vec::new(),
            readable: true,
            writable: true,
            closing: false,
        }
    }

    /// Takes note of an event; nothing is done yet.
    pub(super) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Reads once, executes what has arrived, writes what it can: a bounded amount of work.
    pub(super) fn serve(&mut self, store: &mut Store, clock: fn() -> Instant) -> Served {
        let mut outcome = Ok(());
        if self.may_read() {
            outcome = self.read(store, clock);
        }
        if outcome.and_then(|()| self.write()).is_err() || self.closing && !self.must_write() {
            return Served::Ended;
        }
        if self.may_read() || self.must_write() && self.writable {
            Served::Again
        } else {
            Served::Idle
        }
    }

    fn may_read(&self) -> bool {
        self.readable && !self.closing && self.out.len() < OUT_BYTES_MAX
    }

    fn must_write(&self) -> bool {
        !self.out.is_empty()
    }

    fn read(&mut self, store: &mut Store, clock: fn() -> Instant) -> io::Result<()> {
        let mut buffer = [0; READ_BYTES];
        match retry(|| self.stream.read(&mut buffer)) {
            Ok(0) => self.closing = true,
            Ok(len) => self.run(&buffer[..len], store, clock()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Executes all commands that are complete with `piece`.
    fn run(&mut self, mut piece: &[u8], store: &mut Store, now: Instant) {
        let (session, out) = (&mut self.session, &mut self.out);
        loop {
            let words = match self.inbox.next(&mut piece) {
                Ok(None) => return,
                Ok(Some(frame)) => words(&frame),
                Err(_) => None,
            };
            let Some(words) = words else {
                out.extend_from_slice(b"-ERR Protocol error: no array of bulk strings\r\n");
                self.closing = true;
                return;
            };
            store.execute(session, now, &words, out);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while self.writable && !self.out.is_empty() {
            match retry(|| self.stream.write(&self.out)) {
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The words of a command. The null and the empty array are commands of no words.
fn words<'a>(frame: &Frame<'a>) -> Option<Vec<&'a [u8]>> {
    let word = |value| {
        let Value::Bulk(word) = value else {
            return None;
        };
        Some(word)
    };
    if let Value::Array(items) = frame.value {
        return items.iter().map(word).collect();
    }
    matches!(frame.value, Value::Null).then(Vec::new)
}

/// A signal is no reason to stop.
fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}
