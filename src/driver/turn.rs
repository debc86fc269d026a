//! One turn of the loop: what became ready, what that means to the engine, what it wants done.
//!
//! [`Net`] is all that the operating system knows of a driver: the poll, the waker, the sockets.
//! The order within a turn is `wait`, `service`, then the engine's timers, then `drain`. Answers
//! come before timers, so that a process that was stalled does not time out what is already there.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use core::fmt;
use core::time::Duration;
use std::io;

use mio::{Events, Poll, Token, Waker};
use rand::TryRng;
use rand::rngs::SysRng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock;
use super::link::{Link, Tools};
use super::probe::Probe;
use crate::config::Config;
use crate::engine::{Engine, Event, Input, NodeId, Output};
use crate::limits::NODES_MAX;

/// Bytes read at once. A reply to a lock has five; this is room for the answers to thousands.
const BUFFER_BYTES: usize = 64 << 10;

const NANOS_PER_MILLI: u32 = 1_000_000;

/// Random bytes of the operating system.
pub(super) fn fresh_seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SysRng.try_fill_bytes(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}

/// Beyond the tokens of the nodes, which are their places.
const WAKER: Token = Token(NODES_MAX);

/// The token of the first node's probe.
const PROBES: usize = NODES_MAX + 1;

pub(super) struct Net {
    links: Box<[Link]>,
    probes: Box<[Probe]>,
    buffer: Box<[u8]>,
    /// One event per possible source: a turn harvests all there are.
    events: Events,
    waker: Arc<Waker>,
    poll: Poll,
}

impl Net {
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let nodes = (0..).map(NodeId).zip(config.nodes());
        let links: Box<[_]> = nodes
            .map(|(id, node)| Link::new(id, node.address()))
            .collect();
        Ok(Self {
            events: Events::with_capacity(2 * links.len() + 1),
            probes: (0..links.len())
                .map(|node| Probe::new(Token(PROBES + node)))
                .collect(),
            links,
            buffer: vec![0; BUFFER_BYTES].into(),
            waker,
            poll,
        })
    }

    pub(super) fn poll(&self) -> &Poll {
        &self.poll
    }

    pub(super) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Whether a socket has more to read that no event will tell of.
    pub(super) fn has_more(&self) -> bool {
        self.links.iter().any(Link::has_more)
    }

    /// Sleeps for at most `limit`, or until something is ready, and notes what is. It may be up to a
    /// millisecond less than `limit`, and then the rest of it is waited exactly by the next call:
    /// the poll knows whole milliseconds only, and would be late by as much.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        match self.sleep(limit) {
            Ok(()) => {}
            // A signal is not a failure, and mio does not retry: an empty turn. The next one has
            // a limit of its own, so nothing is lost, and its timers are looked at all the same.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            // The waker's has neither: waking was all there was to do.
            let Token(place) = event.token();
            if let Some(link) = self.links.get_mut(place) {
                link.note(event);
            } else if let Some(probe) = place.checked_sub(PROBES) {
                self.probes[probe].note(event);
            }
        }
        Ok(())
    }

    fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let part = limit.map_or(0, |limit| limit.subsec_nanos() % NANOS_PER_MILLI);
        let part = Duration::from_nanos(part.into());
        let mut whole = limit.map(|limit| limit.saturating_sub(part));
        if limit == Some(part) && !part.is_zero() {
            let time = Timespec::try_from(part).ok();
            let mut descriptors = [PollFd::new(self.poll.registry(), PollFlags::IN)];
            poll(&mut descriptors, time.as_ref())?;
            whole = Some(Duration::ZERO);
        }
        self.poll.poll(&mut self.events, whole)
    }

    /// Reads what is there to be read, and finishes what was begun, on every link. The time given
    /// with what was read is read after it.
    pub(super) fn service(&mut self, engine: &mut Engine) {
        let (links, probes, mut tools) = self.parts();
        let mut sink = |input: Input<'_>| engine.handle(clock::now(), input);
        for link in links {
            link.service(&mut tools, &mut sink);
        }
        // Behind the connections: what has come over those counts first.
        for (node, probe) in (0..).map(NodeId).zip(probes) {
            if probe.service(&mut tools) {
                sink(Input::Probed { node });
            }
        }
    }

    /// Does all that the engine wants done; what its users wait for goes into `events`.
    pub(super) fn drain(&mut self, engine: &mut Engine, events: &mut VecDeque<Event>) {
        let (links, probes, mut tools) = self.parts();
        let mut now = clock::now();
        while let Some(output) = engine.poll(now) {
            match output {
                Output::Transmit { node, bytes } => {
                    let link = &mut links[node.index()];
                    match link.write(bytes, &tools) {
                        Ok(len) => engine.handle(now, Input::Transmitted { node, len }),
                        Err(reason) => {
                            link.give_up(reason, &mut tools, &mut |input| {
                                engine.handle(clock::now(), input);
                            });
                            now = clock::now();
                        }
                    }
                }
                Output::Connect { node } => {
                    // A copy of this process draws other tokens from its next connection on.
                    if let Ok(seed) = fresh_seed() {
                        engine.reseed(seed);
                    }
                    let mut sink = |input: Input<'_>| engine.handle(now, input);
                    links[node.index()].open(&tools, &mut sink);
                }
                Output::Disconnect { node } => links[node.index()].abort(tools.registry),
                Output::Probe { node, bytes } => {
                    if let Some(target) = links[node.index()].target() {
                        probes[node.index()].open(target, bytes, tools.registry);
                    }
                }
                Output::CloseProbe { node } => probes[node.index()].close(tools.registry),
                Output::Event(event) => events.push_back(event),
            }
        }
    }

    /// Closes every connection behind what was written to it.
    pub(super) fn close(&mut self) {
        let registry = self.poll.registry();
        for link in &mut self.links {
            link.close(registry);
        }
        for probe in &mut self.probes {
            probe.close(registry);
        }
    }

    /// Reads in pieces of `bytes`, as if a node had sent a great deal.
    #[cfg(test)]
    pub(super) fn read_in_pieces_of(&mut self, bytes: usize) {
        self.buffer = vec![0; bytes].into();
    }

    fn parts(&mut self) -> (&mut [Link], &mut [Probe], Tools<'_>) {
        let registry = self.poll.registry();
        let tools = Tools {
            registry,
            waker: &self.waker,
            buffer: &mut self.buffer,
        };
        (&mut self.links, &mut self.probes, tools)
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what was read last: servers repeat what they were told.
        f.debug_struct("Net")
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}
