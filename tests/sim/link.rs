//! A connection has two pipes that keep the order, and the state of each end.

use std::collections::VecDeque;

use shearline::Instant;
use shearline::engine::NodeId;
use shearline::internals::resp::Inbox;
use shearline::internals::{LinkFault, Session};

use crate::bare::Transaction;
use crate::clock::{NEVER, Time};
use crate::oracle::{Answer, Process};
use crate::written::{Writing, Written};

/// The direction of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// Bytes that were sent and have not arrived.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    segments: VecDeque<Segment>,
    /// The arrival time of the last byte. No byte overtakes another.
    last: Time,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    arrives: Time,
    len: usize,
    sent: Time,
}

impl Pipe {
    /// Returns when a segment arrives that could arrive at `at`: [`NEVER`] if one before it never arrives.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Time, at: Time) -> Time {
        let arrives = at.max(self.last);
        self.last = arrives;
        self.bytes.extend(bytes);
        self.segments.push_back(Segment {
            arrives,
            len: bytes.len(),
            sent: now,
        });
        arrives
    }

    /// Moves what has arrived by `now` to the end of `into`, and calls `note` for each segment with
    /// its length and the time of its sending.
    fn arrive(&mut self, now: Time, into: &mut Vec<u8>, mut note: impl FnMut(usize, Time)) {
        let mut len = 0;
        while let Some(segment) = self.segments.front().filter(|front| front.arrives <= now) {
            len += segment.len;
            note(segment.len, segment.sent);
            self.segments.pop_front();
        }
        let (front, back) = self.bytes.as_slices();
        let (first, second) = (len.min(front.len()), len.saturating_sub(front.len()));
        into.extend_from_slice(&front[..first]);
        into.extend_from_slice(&back[..second]);
        self.bytes.drain(..len);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> impl Iterator<Item = &u8> {
        self.bytes.iter()
    }

    /// Returns when the oldest byte on its way was sent.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.segments.front().map(|segment| segment.sent)
    }

    /// Delivers the bytes on their way at once, so that later bytes of any connection come after them.
    pub(crate) fn hurry(&mut self, now: Time) {
        for segment in &mut self.segments {
            segment.arrives = segment.arrives.min(now);
        }
        self.last = self.last.min(now);
    }

    /// Lets only the first `kept` segments arrive, and never the others.
    pub(crate) fn keep(&mut self, kept: usize) {
        self.segments.truncate(kept);
        let len = self.segments.iter().map(|segment| segment.len).sum();
        self.bytes.truncate(len);
        self.last = self.segments.back().map_or(0, |segment| segment.arrives);
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns `true` if a partition holds something back.
    pub(crate) fn is_held(&self) -> bool {
        self.last >= NEVER
    }

    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// Ends the partition. The bytes that waited arrive at `at`.
    pub(crate) fn heal(&mut self, at: Time) {
        for segment in &mut self.segments {
            if segment.arrives >= NEVER {
                segment.arrives = at;
            }
        }
        self.last = self.segments.back().map_or(0, |segment| segment.arrives);
    }
}

/// One connection to a node, of a client or of a stranger.
#[derive(Debug, Default)]
pub(crate) struct Conn {
    /// Its owner: the clients first, then the strangers.
    pub(crate) peer: usize,
    pub(crate) process: Process,
    /// The node's place in the configuration, which is also the engine's name for it.
    pub(crate) node: usize,
    pub(crate) id: Option<NodeId>,
    pub(crate) server: usize,
    pub(crate) opened: Time,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// Nothing sent over it arrives any more, and no end is notified.
    pub(crate) dark: bool,
    /// The connection was reset: bytes that are sent from now on are lost, because earlier ones are.
    pub(crate) cut: bool,
    pub(crate) near: Near,
    pub(crate) far: Far,
    pub(crate) written: Written,
    /// Answers of the server that the client has not read.
    pub(crate) answers: VecDeque<Answer>,
    /// Commands that are not about locks, and answers that were errors.
    pub(crate) talk: u32,
    pub(crate) errors: u32,
    /// How often the client had a reason to join again.
    pub(crate) asked_to_join: u32,
    /// An operator has trusted the node over this connection.
    pub(crate) trusted: bool,
    /// The range of bytes in which the server's replies are invalid.
    pub(crate) garbage: Option<(u64, u64)>,
    /// How often the client has asked for the time.
    pub(crate) times: u64,
    /// The database that the client has selected.
    pub(crate) database: u32,
    /// The server has said that it serves no locks.
    pub(crate) turned_down: bool,
    pub(crate) transaction: Transaction,
    /// The server executes one command that contains several.
    pub(crate) batched: bool,
}

/// The client's end.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// The connection was established, and the engine does not know it yet.
    pub(crate) news: bool,
    /// Received by the kernel, not yet read.
    pub(crate) arrived: Vec<u8>,
    /// How many bytes the client has read.
    pub(crate) read: u64,
    /// When something was last read, by the client's clock; `shown` before that read.
    pub(crate) last_read: Option<Instant>,
    /// How the connection ended. This is reported when everything that arrived has been read.
    pub(crate) end: Option<LinkFault>,
    /// How the connection has ended, if its kernel could not be told yet.
    pub(crate) ends_with: Option<LinkFault>,
    /// The kernel took only a part of a write.
    pub(crate) blocked: bool,
    /// The beginning of the rest of that write, in worlds without scripts.
    pub(crate) cut_off: Vec<u8>,
    pub(crate) blocked_since: Time,
    /// The client has not tried to write the rest of that write again.
    pub(crate) has_rest: bool,
    /// When the kernel last had room again, or when the client then wrote.
    pub(crate) unblocked_at: Time,
    /// The client has closed the connection.
    pub(crate) gone: bool,
    /// The client has closed with FIN: its kernel still sends the bytes that it was given, and then the end.
    pub(crate) lingers: bool,
}

/// The server's end.
#[derive(Debug, Default)]
pub(crate) struct Far {
    pub(crate) state: FarState,
    pub(crate) session: Option<Session>,
    /// The commands, as long as the connection is open.
    pub(crate) commands: Option<Box<Inbox>>,
    /// Received by the kernel, not yet read by the server.
    pub(crate) unread: Vec<u8>,
    /// When which bytes were sent.
    marks: VecDeque<(u64, Time)>,
    received: u64,
    consumed: u64,
    /// How many bytes were answered.
    pub(crate) replied: u64,
    /// The other end is gone: the server closes when it has read everything.
    pub(crate) ended: bool,
    /// The connection is in the server's list of readable ones.
    pub(crate) ready: bool,
    /// The next command is a write, and waits for the end of a pause of writes.
    pub(crate) postponed: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum FarState {
    /// The connection does not exist yet, or is gone.
    #[default]
    Gone,
    /// The kernel has accepted the connection, the server has not.
    Backlog,
    Open,
}

/// How the other end learns that a connection has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The process has ended or closed the connection: a FIN follows the last byte.
    Polite,
    Reset,
}

impl Conn {
    /// Returns the bytes on their way in this direction.
    pub(crate) fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::ToServer => &mut self.up,
            Way::ToClient => &mut self.down,
        }
    }

    /// Moves the bytes that have arrived to the server's kernel.
    pub(crate) fn arrive_far(&mut self, now: Time) {
        let Self { up, far, .. } = self;
        up.arrive(now, &mut far.unread, |len, sent| {
            far.received += len as u64;
            far.marks.push_back((far.received, sent));
        });
    }

    /// Returns how the first byte of the next command was written.
    pub(crate) fn begun(&mut self) -> Writing {
        self.written.writing_of(self.far.consumed)
    }

    /// Returns the byte up to which the server has read commands.
    pub(crate) fn asked(&self) -> u64 {
        self.far.consumed
    }

    /// Returns `true` if an answer that ends there comes after an invalid reply.
    pub(crate) fn is_garbage(&self, end: u64) -> bool {
        self.garbage.is_some_and(|(from, _)| from < end)
    }

    /// Returns whether the client has read some of an invalid reply, or all of it. A refused `MULTI` counts as one at
    /// once, although the server may not have run the commands after it.
    pub(crate) fn has_read_garbage(&self) -> bool {
        let refused = self.transaction.refused_multi;
        self.is_garbage(self.near.read) || refused.is_some_and(|(from, _)| from < self.near.read)
    }

    pub(crate) fn has_read_all_garbage(&self) -> bool {
        self.garbage.is_some_and(|(_, to)| to <= self.near.read)
    }

    /// Moves the answers that have arrived to the client's kernel.
    pub(crate) fn arrive_near(&mut self, now: Time) {
        self.down.arrive(now, &mut self.near.arrived, |_, _| {});
    }

    /// Returns how many written bytes the server has not read.
    pub(crate) fn waiting(&self) -> usize {
        self.up.len() + self.far.unread.len()
    }

    /// Lets the server forget the connection.
    pub(crate) fn forget_far(&mut self) {
        self.far.state = FarState::Gone;
        self.far.session = None;
        self.far.commands = None;
        self.far.unread = Vec::new();
        self.far.marks.clear();
        self.far.ready = false;
        self.far.postponed = false;
        self.up.keep(0);
    }
}

impl Far {
    /// Moves the bytes that the server reads at once, `most` at most, into `bytes`, which is empty.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, most: usize) {
        if self.unread.len() <= most {
            std::mem::swap(bytes, &mut self.unread);
        } else {
            bytes.extend(self.unread.drain(..most));
        }
    }

    /// Notes that the server has read a command of `len` bytes. Returns when its end was sent.
    pub(crate) fn consume(&mut self, len: usize) -> Time {
        self.consumed += len as u64;
        while let Some((end, sent)) = self.marks.front() {
            if self.consumed <= *end {
                return *sent;
            }
            self.marks.pop_front();
        }
        0
    }

    /// Puts back `bytes`, which the server has not read after all.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.unread);
        self.unread = bytes;
    }
}
