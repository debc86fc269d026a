//! A connection: two pipes that keep the order, and what each end knows of it.

use std::collections::VecDeque;

use shearline::embedded::Session;
use shearline::engine::NodeId;
use shearline::resp::Inbox;
use shearline::{Instant, LinkError};

use crate::clock::{NEVER, Time};
use crate::oracle::{Answer, Process};
use crate::written::{Writing, Written};

/// Which way bytes go.
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
    /// When the last of them arrives: nothing overtakes.
    last: Time,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    arrives: Time,
    len: usize,
    sent: Time,
}

impl Pipe {
    /// When a segment arrives that could do so at `at`: [`NEVER`] behind one that does not.
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

    /// Moves what has arrived by `now` to the end of `into`, and tells `note` of each segment: its
    /// length, and when it was sent.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        into: &mut Vec<u8>,
        mut note: impl FnMut(usize, Time),
    ) {
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

    /// When the oldest byte on its way was sent.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.segments.front().map(|segment| segment.sent)
    }

    /// What is on its way arrives at once: what is sent later, over whatever connection, comes
    /// behind it.
    pub(crate) fn hurry(&mut self, now: Time) {
        for segment in &mut self.segments {
            segment.arrives = segment.arrives.min(now);
        }
        self.last = self.last.min(now);
    }

    /// The first `kept` segments still arrive, the others never.
    pub(crate) fn keep(&mut self, kept: usize) {
        self.segments.truncate(kept);
        let len = self.segments.iter().map(|segment| segment.len).sum();
        self.bytes.truncate(len);
        self.last = self.segments.back().map_or(0, |segment| segment.arrives);
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Whether something waits behind a partition.
    pub(crate) fn is_held(&self) -> bool {
        self.last >= NEVER
    }

    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// The partition is over: what waited behind it arrives at `at`.
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
#[derive(Debug)]
pub(crate) struct Conn {
    /// Whose it is: the clients first, the strangers behind them.
    pub(crate) peer: usize,
    pub(crate) process: Process,
    /// The node by its place in the configuration; for a client also as the engine names it.
    pub(crate) node: usize,
    pub(crate) id: Option<NodeId>,
    pub(crate) server: usize,
    pub(crate) opened: Time,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// Nothing sent over it arrives any more, and nobody is told.
    pub(crate) dark: bool,
    /// It was reset: what is sent from now on is lost, because what was sent before it is.
    pub(crate) cut: bool,
    pub(crate) near: Near,
    pub(crate) far: Far,
    pub(crate) written: Written,
    /// What the server has answered and the client has not read.
    pub(crate) answers: VecDeque<Answer>,
    /// Commands other than those of locks, and answers that were errors.
    pub(crate) talk: u32,
    pub(crate) errors: u32,
    /// How often there was a reason to join once more.
    pub(crate) asked_to_join: u32,
    /// An operator has vouched for the node over it.
    pub(crate) vouched: bool,
    /// From which byte on what the server says is no answer to anything, and up to which that lasts.
    pub(crate) garbage: Option<(u64, u64)>,
    /// How often the client has asked for the time.
    pub(crate) times: u64,
    /// The database that the client has selected.
    pub(crate) database: u32,
    /// The server has said that it is not one that serves.
    pub(crate) turned_down: bool,
}

/// The client's end.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// It was established, and the engine has not been told.
    pub(crate) news: bool,
    /// Received by the kernel, not yet read.
    pub(crate) arrived: Vec<u8>,
    /// How many bytes were read.
    pub(crate) read: u64,
    /// When something was last read, by the client's clock; `shown` before that read.
    pub(crate) heard: Option<Instant>,
    /// How it ended, told when all that arrived has been read.
    pub(crate) end: Option<LinkError>,
    /// How it has ended, where that could not be told yet.
    pub(crate) ends_with: Option<LinkError>,
    /// A write was cut short.
    pub(crate) blocked: bool,
    pub(crate) blocked_since: Time,
    /// When that was last over.
    pub(crate) unblocked_at: Time,
    /// The client has let go of it.
    pub(crate) gone: bool,
    /// It did so politely: its kernel still sends what it was given, and then the end.
    pub(crate) lingers: bool,
}

/// The server's end.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) state: FarState,
    pub(crate) session: Option<Session>,
    /// As long as it is open.
    pub(crate) commands: Option<Box<Inbox>>,
    /// Received by the kernel, not yet read by the server.
    pub(crate) unread: Vec<u8>,
    /// Up to which byte what was sent when.
    marks: VecDeque<(u64, Time)>,
    received: u64,
    consumed: u64,
    /// Bytes that were answered.
    pub(crate) replied: u64,
    /// The other end is gone: to be closed when all has been read.
    pub(crate) ended: bool,
    /// It is in the server's list of what to look at.
    pub(crate) ready: bool,
    /// Its next command is a write, and waits until writes are allowed again.
    pub(crate) postponed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FarState {
    /// Not there yet, or not any more.
    Gone,
    /// In the backlog: the kernel accepted it, the server did not.
    Backlog,
    Open,
}

/// How the other end learns that a connection is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The process is gone or has closed it: a FIN behind the last byte.
    Polite,
    Reset,
}

impl Conn {
    pub(crate) fn new(
        peer: usize,
        process: Process,
        node: usize,
        server: usize,
        opened: Time,
    ) -> Self {
        Self {
            opened,
            peer,
            process,
            node,
            id: None,
            server,
            up: Pipe::default(),
            down: Pipe::default(),
            dark: false,
            cut: false,
            near: Near::default(),
            far: Far {
                state: FarState::Gone,
                session: None,
                commands: None,
                unread: Vec::new(),
                marks: VecDeque::new(),
                received: 0,
                consumed: 0,
                replied: 0,
                ended: false,
                ready: false,
                postponed: false,
            },
            written: Written::default(),
            answers: VecDeque::new(),
            talk: 0,
            errors: 0,
            asked_to_join: 0,
            vouched: false,
            garbage: None,
            times: 0,
            database: 0,
            turned_down: false,
        }
    }

    /// What was sent reaches the server's kernel.
    pub(crate) fn arrive_far(&mut self, now: Time) {
        let Self { up, far, .. } = self;
        let Far {
            unread,
            marks,
            received,
            ..
        } = far;
        up.arrive(now, unread, |len, sent| {
            *received += len as u64;
            marks.push_back((*received, sent));
        });
    }

    /// How the first byte left of the command that the server reads next.
    pub(crate) fn begun(&mut self) -> Writing {
        self.written.writing_of(self.far.consumed)
    }

    /// Up to which byte the server has read commands.
    pub(crate) fn asked(&self) -> u64 {
        self.far.consumed
    }

    /// Whether an answer that ends there stands behind what is none.
    pub(crate) fn is_garbage(&self, end: u64) -> bool {
        self.garbage.is_some_and(|(from, _)| from < end)
    }

    /// Whether the client has read some of what is no answer, or all of it.
    pub(crate) fn has_read_garbage(&self) -> bool {
        self.is_garbage(self.near.read)
    }

    pub(crate) fn has_read_all_garbage(&self) -> bool {
        self.garbage.is_some_and(|(_, to)| to <= self.near.read)
    }

    /// What was answered reaches the client's kernel.
    pub(crate) fn arrive_near(&mut self, now: Time) {
        self.down.arrive(now, &mut self.near.arrived, |_, _| {});
    }

    /// Bytes that were written and that the server has not read.
    pub(crate) fn waiting(&self) -> usize {
        self.up.len() + self.far.unread.len()
    }

    /// The server forgets it.
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
    /// Takes what the server reads at once, `most` at most, into `bytes`, which is empty.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>, most: usize) {
        if self.unread.len() <= most {
            std::mem::swap(bytes, &mut self.unread);
        } else {
            bytes.extend(self.unread.drain(..most));
        }
    }

    /// The server has read a command of `len` bytes. When its end was sent.
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

    /// The server has not read `bytes` after all.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.unread);
        self.unread = bytes;
    }
}
