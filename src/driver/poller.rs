//! The poller is separate from the sockets, so that one thread can sleep in the poller while another reads and writes.
//!
//! The method [`Poller::sleep`] returns the sockets that became ready, and [`Wire::note`](super::Wire::note) records
//! them.

use core::fmt;
use core::time::Duration;
use std::io;

use mio::event::Event;
use mio::{Events, Poll, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::Ready;
use crate::config::Config;
use crate::engine::NodeId;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

const NANOS_PER_MILLI: u32 = 1_000_000;

/// The token of the waker. This token is larger than the tokens of the nodes, which are their indexes.
pub(super) const WAKER: Token = Token(NODES_MAX);

/// The token of the first node's probe.
pub(super) const PROBES: usize = NODES_MAX + 1;

/// Returns the readiness that an event reports.
pub(super) fn ready(event: &Event) -> Ready {
    let ending = event.is_read_closed() || event.is_error();
    Ready {
        readable: event.is_readable() || ending,
        writable: event.is_writable() || event.is_write_closed(),
        ending,
    }
}

/// The sockets that became ready while a thread slept in the poller. No entry may be lost, because the system reports
/// each event only once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(super) readable: NodeSet,
    pub(super) writable: NodeSet,
    pub(super) ending: NodeSet,
    pub(super) probes: NodeSet,
}

impl Readiness {
    /// Returns a readiness that makes the wire read from all nodes, even without an event.
    pub(crate) fn all_readable(nodes: usize) -> Self {
        Self {
            readable: NodeSet::first(nodes),
            ..Self::default()
        }
    }

    /// Adds the readiness that `other` reports.
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
        // The waker's event is not recorded, because the thread is already awake.
    }
}

/// The poller, in which one thread at a time sleeps.
pub(crate) struct Poller {
    poll: Poll,
    /// A buffer with room for one event of each source, so that one sleep returns all events.
    events: Events,
}

impl Poller {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(2 * config.nodes().len() + 1),
        })
    }

    /// Returns the registry for sockets. The descriptor of the registry is readable when a socket is ready.
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Sleeps until a socket is ready or `limit` has passed, and returns the ready sockets. A sleep may be up to a
    /// millisecond too short, because the poller has a resolution of milliseconds and must not be late. The next call
    /// then sleeps exactly for the remaining time.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) -> io::Result<Readiness> {
        match self.wait(limit) {
            Ok(()) => {}
            // After a signal, mio does not retry. This function reports that no socket is ready, and the caller checks
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
