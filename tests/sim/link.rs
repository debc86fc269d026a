//! A connection: two pipes that keep the order, and what each end knows of it.

use std::collections::VecDeque;

use shearline::LinkError;
use shearline::embedded::Session;
use shearline::engine::NodeId;
use shearline::resp::{Inbox, Limits};

use crate::clock::{NEVER, Time};

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
    /// When it was sent; of an answer, when what it answers was sent.
    mark: Time,
    sent: Time,
}

impl Pipe {
    /// When a segment arrives that could do so at `at`: [`NEVER`] behind one that does not.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Time, at: Time, mark: Time) -> Time {
        let arrives = at.max(self.last);
        self.last = arrives;
        self.bytes.extend(bytes);
        self.segments.push_back(Segment {
            arrives,
            len: bytes.len(),
            mark,
            sent: now,
        });
        arrives
    }

    /// Hands what has arrived by `now` to `sink`, with its mark.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        mut sink: impl FnMut(&mut dyn Iterator<Item = u8>, usize, Time),
    ) {
        while let Some(segment) = self.segments.front().copied() {
            if segment.arrives > now {
                return;
            }
            self.segments.pop_front();
            sink(
                &mut self.bytes.drain(..segment.len),
                segment.len,
                segment.mark,
            );
        }
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

/// One connection of a client to a node.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) client: usize,
    pub(crate) node: NodeId,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// Nothing sent over it arrives any more, and nobody is told.
    pub(crate) dark: bool,
    /// It was reset: what is sent from now on is lost, because what was sent before it is.
    pub(crate) cut: bool,
    pub(crate) near: Near,
    pub(crate) far: Far,
}

/// The client's end.
#[derive(Debug, Default)]
pub(crate) struct Near {
    /// It was established, and the engine has not been told.
    pub(crate) news: bool,
    /// Received by the kernel, not yet read.
    pub(crate) arrived: Vec<u8>,
    /// The newest command that is answered therein.
    pub(crate) mark: Time,
    /// How it ended, told when all that arrived has been read.
    pub(crate) end: Option<LinkError>,
    /// A write was cut short.
    pub(crate) blocked: bool,
    pub(crate) blocked_since: Time,
    /// The engine has let go of it.
    pub(crate) gone: bool,
}

/// The server's end.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) state: FarState,
    pub(crate) session: Option<Session>,
    pub(crate) commands: Inbox,
    /// Received by the kernel, not yet read by the server.
    pub(crate) unread: VecDeque<u8>,
    /// Up to which byte what was sent when.
    pub(crate) marks: VecDeque<(u64, Time)>,
    pub(crate) received: u64,
    pub(crate) consumed: u64,
    /// The other end is gone: to be closed when all has been read.
    pub(crate) ended: bool,
    /// It is in the server's list of what to look at.
    pub(crate) ready: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FarState {
    /// Not there yet, or not any more.
    Gone,
    /// In the backlog: the kernel accepted it, the server did not.
    Backlog,
    Open,
}

impl Conn {
    pub(crate) fn new(client: usize, node: NodeId) -> Self {
        Self {
            client,
            node,
            up: Pipe::default(),
            down: Pipe::default(),
            dark: false,
            cut: false,
            near: Near::default(),
            far: Far {
                state: FarState::Gone,
                session: None,
                commands: Inbox::new(Limits::DEFAULT),
                unread: VecDeque::new(),
                marks: VecDeque::new(),
                received: 0,
                consumed: 0,
                ended: false,
                ready: false,
            },
        }
    }

    /// The server forgets it.
    pub(crate) fn forget_far(&mut self) {
        self.far.state = FarState::Gone;
        self.far.session = None;
        self.far.unread = VecDeque::new();
        self.far.marks.clear();
        self.far.ready = false;
        self.up.keep(0);
    }
}
