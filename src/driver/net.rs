//! The poll and the sockets of all nodes.
//!
//! The two are apart, so that one thread can sleep in the poll while another moves bytes.
//! [`Poller::sleep`] returns what became ready, [`Net::note`] keeps it, [`Net::service`] acts on it.
//!
//! # Not here
//!
//! What is written, and why: the engine decides. `turn` and `wire` carry it out.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use core::fmt;
use core::time::Duration;
use std::io;

use mio::event::Event;
use mio::{Events, Poll, Registry, Token, Waker};
use rand::TryRng;
use rand::rngs::SysRng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::{Link, Ready};
use super::probe::Probe;
use super::socket::Tools;
use crate::config::Config;
use crate::engine::{Input, NodeId};
use crate::error::LinkError;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

/// Bytes read at once. A reply to a `SET` has five; this is room for thousands.
const BUFFER_BYTES: usize = 64 << 10;

const NANOS_PER_MILLI: u32 = 1_000_000;

/// Beyond the tokens of the nodes, which are their places.
const WAKER: Token = Token(NODES_MAX);

/// The token of the first node's probe.
const PROBES: usize = NODES_MAX + 1;

/// Returns random bytes of the operating system.
pub(crate) fn fresh_seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SysRng.try_fill_bytes(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}

/// Returns what an event reports of a connection.
pub(super) fn ready(event: &Event) -> Ready {
    let ending = event.is_read_closed() || event.is_error();
    Ready {
        readable: event.is_readable() || ending,
        writable: event.is_writable() || event.is_write_closed(),
        ending,
    }
}

/// What became ready while a thread slept in the poll. None of it may be lost: each event is reported
/// once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    readable: NodeSet,
    writable: NodeSet,
    ending: NodeSet,
    probes: NodeSet,
}

impl Readiness {
    /// Returns one with which every node of `nodes` is read, whether an event reported it or not.
    pub(crate) fn all_readable(nodes: usize) -> Self {
        Self {
            readable: NodeSet::first(nodes),
            ..Self::default()
        }
    }

    /// Adds what `other` reports.
    pub(crate) fn merge(&mut self, other: Self) {
        self.readable = self.readable.union(other.readable);
        self.writable = self.writable.union(other.writable);
        self.ending = self.ending.union(other.ending);
        self.probes = self.probes.union(other.probes);
    }

    fn add(&mut self, event: &Event) {
        let Token(place) = event.token();
        if let Some(probe) = place.checked_sub(PROBES) {
            self.probes.insert(NodeId::new(probe));
        } else if place < NODES_MAX {
            let ready = ready(event);
            for (set, holds) in [
                (&mut self.readable, ready.readable),
                (&mut self.writable, ready.writable),
                (&mut self.ending, ready.ending),
            ] {
                if holds {
                    set.insert(NodeId::new(place));
                }
            }
        }
        // That of the waker has done its work: the thread is awake.
    }
}

/// The poll, which one thread at a time sleeps in.
pub(crate) struct Poller {
    poll: Poll,
    /// Room for one event of each source, so that a sleep returns all of them.
    events: Events,
}

impl Poller {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(2 * config.nodes().len() + 1),
        })
    }

    /// Returns where sockets are registered. It is also the descriptor that is readable when something
    /// is ready.
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Sleeps for at most `limit`, or until something is ready, and returns what is ready. It may sleep up
    /// to a millisecond less than `limit`; the next call then sleeps exactly for the rest. (The poll knows
    /// whole milliseconds only, and would be late by up to one.)
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> io::Result<Readiness> {
        match self.wait(limit) {
            Ok(()) => {}
            // A signal is no failure, and mio does not retry: nothing is ready, and the caller looks at
            // its timers.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            Err(error) => return Err(error),
        }
        let mut readiness = Readiness::default();
        for event in &self.events {
            readiness.add(event);
        }
        Ok(readiness)
    }

    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
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
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

/// The connections to all nodes, and their probes.
pub(crate) struct Net {
    links: Box<[Link]>,
    probes: Box<[Probe]>,
    buffer: Box<[u8]>,
    waker: Arc<Waker>,
}

impl Net {
    pub(crate) fn new(config: &Config, poller: &Poller) -> io::Result<Self> {
        let nodes = config.nodes().iter().zip((0..).map(NodeId::new));
        let links: Box<[_]> = nodes
            .map(|(node, id)| Link::new(id, node.address()))
            .collect();
        Ok(Self {
            probes: (0..links.len())
                .map(|node| Probe::new(Token(PROBES + node)))
                .collect(),
            links,
            buffer: vec![0; BUFFER_BYTES].into(),
            waker: Arc::new(Waker::new(poller.registry(), WAKER)?),
        })
    }

    /// Returns what ends a sleep in the poll, from any thread.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Returns how many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.links.len()
    }

    /// Returns `true` if a socket has more to read that no event will report.
    pub(crate) fn has_more(&self) -> bool {
        self.links.iter().any(Link::has_more)
    }

    /// Records what a sleep has brought, for the next [`Self::service`].
    pub(crate) fn note(&mut self, readiness: Readiness) {
        let links = readiness.readable.union(readiness.writable);
        for node in links.iter() {
            if let Some(link) = self.links.get_mut(node.index()) {
                link.note(Ready {
                    readable: readiness.readable.contains(node),
                    writable: readiness.writable.contains(node),
                    ending: readiness.ending.contains(node),
                });
            }
        }
        for node in readiness.probes.iter() {
            self.probes[node.index()].note();
        }
    }

    /// Reads what has arrived, and finishes what was begun, on every link.
    pub(crate) fn service(&mut self, registry: &Registry, sink: &mut impl FnMut(Input<'_>)) {
        let (links, probes, mut tools) = self.parts(registry);
        for link in links {
            link.service(&mut tools, sink);
        }
        // After the links: what they have received counts first.
        for (probe, node) in probes.iter_mut().zip((0..).map(NodeId::new)) {
            if probe.service(&mut tools) {
                sink(Input::Probed { node });
            }
        }
    }

    /// Writes as much of `bytes` as the kernel takes, and returns how much. If that is not all,
    /// `Writable` will be reported. On an error, call [`Self::give_up`].
    pub(crate) fn write(
        &mut self,
        registry: &Registry,
        node: NodeId,
        bytes: &[u8],
    ) -> Result<usize, LinkError> {
        let (links, _, tools) = self.parts(registry);
        links[node.index()].write(bytes, &tools)
    }

    /// After a failed write: delivers what the node had sent, then reports the end.
    pub(crate) fn give_up(
        &mut self,
        registry: &Registry,
        node: NodeId,
        reason: LinkError,
        sink: &mut impl FnMut(Input<'_>),
    ) {
        let (links, _, mut tools) = self.parts(registry);
        links[node.index()].give_up(reason, &mut tools, sink);
    }

    /// Returns `true` while the connection to `node` is up.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.links[node.index()].is_up()
    }

    pub(crate) fn connect(
        &mut self,
        registry: &Registry,
        node: NodeId,
        sink: &mut impl FnMut(Input<'_>),
    ) {
        let (links, _, tools) = self.parts(registry);
        links[node.index()].open(&tools, sink);
    }

    pub(crate) fn disconnect(&mut self, registry: &Registry, node: NodeId) {
        self.links[node.index()].abort(registry);
    }

    pub(crate) fn open_probe(&mut self, registry: &Registry, node: NodeId, bytes: &'static [u8]) {
        if let Some(target) = self.links[node.index()].target() {
            self.probes[node.index()].open(target, bytes, registry);
        }
    }

    pub(crate) fn close_probe(&mut self, registry: &Registry, node: NodeId) {
        self.probes[node.index()].close(registry);
    }

    /// Closes every connection after what was written to it.
    pub(crate) fn close(&mut self, registry: &Registry) {
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

    fn parts<'a>(
        &'a mut self,
        registry: &'a Registry,
    ) -> (&'a mut [Link], &'a mut [Probe], Tools<'a>) {
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
        // Not the buffer: servers repeat what they were sent.
        f.debug_struct("Net")
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}
