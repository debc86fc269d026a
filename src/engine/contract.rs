//! The interface between the engine and its environment: everything that goes in or comes out.
//!
//! There is one way in ([`Input`] and the calls) and one way out ([`Output`]). Time is an argument, and "never" is
//! `None`. The same seed and inputs give the same outputs, byte for byte, so the recorded inputs reproduce a bug.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::config::LockOptions;
use crate::entry::Entry;
#[cfg(feature = "std")]
use crate::error::ExtendError;
use crate::error::{LinkError, RequestFault, ServerError};
use crate::keys::OperationKey;
use crate::limits::PERMITS_MAX;
use crate::node::{NodeState, Waking};
use crate::quorum::{Lock, LockId, Majority};
use crate::time::Instant;

pub use super::operation::Event;
pub use crate::keys::NodeId;

/// An operation that a caller waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RoundId(pub(crate) OperationKey);

impl RoundId {
    /// The id of an operation that could not begin.
    #[cfg(feature = "std")]
    pub(crate) const NONE: Self = Self(OperationKey::NONE);

    /// Returns a small number that no other open operation has, as an index for the caller's own table.
    #[must_use]
    pub fn index(self) -> usize {
        let (waits, place) = self.place();
        place * 2 + usize::from(waits)
    }

    /// Returns whether the operation began as a waiter, and its index among the open operations of that kind.
    pub(crate) fn place(self) -> (bool, usize) {
        match self.0.waiter() {
            Some(waiter) => (true, waiter.0.index() as usize),
            None => (false, self.0.0.index() as usize),
        }
    }
}

/// The lock that a caller wants, and its options.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Request<'a> {
    pub(crate) resource: &'a [u8],
    /// All resources, if the caller wants several.
    pub(crate) all: Option<&'a [&'a [u8]]>,
    pub(crate) options: &'a LockOptions,
    /// The caller wants a shared lock.
    pub(crate) shared: bool,
    /// The caller wants one of this number of permits.
    pub(crate) permits: Option<u32>,
}

impl<'a> Request<'a> {
    /// Asks for a lock on `resource` with these `options`.
    pub fn new(resource: &'a [u8], options: &'a LockOptions) -> Self {
        Self {
            resource,
            all: None,
            options,
            shared: false,
            permits: None,
        }
    }

    /// Asks for a shared lock on `resource`. Shared locks can be held at the same time, but not together with an
    /// exclusive lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use shearline::LockOptions;
    /// use shearline::engine::Request;
    ///
    /// let options = LockOptions::new(Duration::from_secs(10));
    /// let request = Request::shared(b"doc:7", &options);
    /// # let _ = request;
    /// ```
    pub fn shared(resource: &'a [u8], options: &'a LockOptions) -> Self {
        Self {
            shared: true,
            ..Self::new(resource, options)
        }
    }

    /// Asks for one of the `permits` of `resource`. At most this number of callers, from 1 to 1,024, hold a permit at
    /// the same time. Each holder has its own slot, which [`Lock::slot`](crate::Lock::slot) returns. All clients of a
    /// resource have to agree on the number of permits. Permits cannot be held together with an exclusive or a shared
    /// lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use shearline::LockOptions;
    /// use shearline::engine::Request;
    ///
    /// let options = LockOptions::new(Duration::from_secs(10));
    /// let request = Request::permit(b"gpu", 4, &options);
    /// # let _ = request;
    /// ```
    pub fn permit(resource: &'a [u8], permits: u32, options: &'a LockOptions) -> Self {
        Self {
            permits: Some(permits),
            ..Self::new(resource, options)
        }
    }

    /// Asks for one lock on all of `resources`. Each node keeps all resources for this lock, or none. The resources
    /// must differ, and there may be at most 64 of them. The order of the resources does not matter.
    ///
    /// ```
    /// use std::time::Duration;
    /// use shearline::LockOptions;
    /// use shearline::engine::Request;
    ///
    /// let options = LockOptions::new(Duration::from_secs(10));
    /// let request = Request::all(&[b"account:1", b"account:2"], &options);
    /// # let _ = request;
    /// ```
    pub fn all(resources: &'a [&'a [u8]], options: &'a LockOptions) -> Self {
        Self {
            all: Some(resources),
            ..Self::new(b"", options)
        }
    }

    /// Returns the resources to be locked.
    pub(crate) fn resources(&self) -> &[&'a [u8]] {
        self.all.unwrap_or(core::slice::from_ref(&self.resource))
    }

    /// Returns an error if the request is for a shared lock or a permit that cannot be taken.
    #[cold]
    #[inline(never)]
    pub(super) fn check_beside(&self, without_scripts: bool) -> Result<(), RequestFault> {
        match self.permits {
            Some(permits) if !(1..=PERMITS_MAX.into()).contains(&permits) => {
                Err(RequestFault::Permits { permits })
            }
            _ if without_scripts => Err(RequestFault::NeedsScripts),
            _ => Ok(()),
        }
    }
}

/// Everything that can happen to an engine from outside, besides the calls of its user.
///
/// `Debug` shows the number of bytes instead of the bytes, because servers repeat what they receive.
#[derive(Clone, Copy)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to know every input there is"
)]
pub enum Input<'a> {
    /// The connection that [`Output::Connect`] asked for is up.
    Connected {
        /// The node.
        node: NodeId,
    },
    /// A node whose last write was cut short can be written to again.
    Writable {
        /// The node.
        node: NodeId,
    },
    /// Bytes arrived. The bytes may end in the middle of a reply. The driver reads the time for this input after it has
    /// read the bytes.
    Received {
        /// The node.
        node: NodeId,
        /// The bytes that the node sent.
        bytes: &'a [u8],
    },
    /// The operating system has taken the first `len` bytes of the last [`Output::Transmit`], or the driver has taken
    /// them and will write them. After this input, the engine withdraws none of the commands in these bytes. If the
    /// engine offered more bytes, it offers nothing else until [`Input::Writable`].
    Transmitted {
        /// The node.
        node: NodeId,
        /// The number of bytes.
        len: usize,
    },
    /// The connection has ended or could not be opened. The driver has already passed in everything that arrived before
    /// the end.
    Disconnected {
        /// The node.
        node: NodeId,
        /// The reason.
        reason: LinkError,
    },
    /// Bytes have arrived over the probe that [`Output::Probe`] asked for. The engine then asks the driver to close the
    /// probe.
    Probed {
        /// The node.
        node: NodeId,
    },
    /// The driver has passed in every input of this turn. A tick is allowed at any time. An extra or late tick is
    /// harmless.
    Tick,
}

/// The next thing that the driver must do. Pass in every input of one turn, then poll until the result is `None`.
///
/// `Debug` shows the number of bytes instead of the bytes, because the bytes may be credentials and tokens.
#[must_use]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to obey every output there is"
)]
pub enum Output<'a> {
    /// Open a connection, then report [`Input::Connected`] or [`Input::Disconnected`]. The engine watches the time, and
    /// disconnects a connection that takes too long.
    Connect {
        /// The node.
        node: NodeId,
    },
    /// Write these bytes, then report with [`Input::Transmitted`] how many bytes were taken.
    Transmit {
        /// The node.
        node: NodeId,
        /// All bytes that are due for this node.
        bytes: &'a [u8],
    },
    /// Close the connection, or stop opening it, with a reset (RST) instead of an orderly end (FIN). After an orderly
    /// end, the server could still run commands much later that are on their way now. Report nothing.
    Disconnect {
        /// The node.
        node: NodeId,
    },
    /// Open a probe, which is a second connection. The first connection stays as it is. When the probe is up, write
    /// these bytes and nothing else. When anything arrives over the probe, report [`Input::Probed`]. If the probe
    /// cannot be opened or ends, close it and report nothing. If a probe to this node is already open, close the old
    /// probe first.
    Probe {
        /// The node.
        node: NodeId,
        /// The command to write.
        bytes: &'static [u8],
    },
    /// Close the probe, or stop opening it. Report nothing.
    CloseProbe {
        /// The node.
        node: NodeId,
    },
    /// An outcome for a caller, or news of a lock.
    Event(Event),
}

/// The outcome of an extension or a confirmation: a majority has confirmed the lock.
#[must_use = "an extension does not count before it is applied to its lock"]
pub struct Extension {
    pub(crate) lock: LockId,
    /// Distinguishes locks without a claim, which all have the same id.
    pub(crate) entry: Entry,
    pub(crate) majority: Majority,
    pub(crate) confirmed_until: Instant,
    /// Whether this extension counts towards the limit on extensions.
    pub(crate) counts: bool,
}

impl Extension {
    /// Notes in `lock` which nodes have agreed, and counts the extension if the number of extensions is limited. The
    /// extended lock already has its new end. A copy of the lock that was read from bytes gets the new end now. Returns
    /// `false` and changes nothing if the extension is for another lock.
    pub fn apply(&self, lock: &mut Lock) -> bool {
        let own = lock.id() == self.lock && lock.token() == self.entry.token();
        if own {
            lock.confirmed(
                &self.majority,
                (&self.entry, self.valid_until()),
                self.counts,
            );
        }
        own
    }

    /// Returns the end of the confirmed validity, or an earlier end that became known later.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.confirmed_until.min(self.entry.end())
    }
}

/// Applies the outcome of an extension or a confirmation to `lock`, then reads the clock to check that the lock has not
/// ended.
#[cfg(feature = "std")]
pub(crate) fn prolong(
    lock: &mut Lock,
    outcome: Event,
    clock: impl Fn() -> Instant,
) -> Result<(), ExtendError> {
    let (Event::Extended { result, .. } | Event::Confirmed { result, .. }) = outcome else {
        unreachable!("not the outcome that was waited for: {outcome:?}");
    };
    match result {
        Ok(extension) => extension.apply(lock),
        Err(error) => {
            if matches!(error, ExtendError::Lost(_) | ExtendError::Expired) {
                lock.lost(clock());
            }
            return Err(error);
        }
    };
    match lock.is_valid_at(clock()) {
        true => Ok(()),
        false => Err(ExtendError::Expired),
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { node } => show(f, "Connected", node, None),
            Self::Writable { node } => show(f, "Writable", node, None),
            Self::Received { node, bytes } => {
                show(f, "Received", node, Some(("len", &bytes.len())))
            }
            Self::Transmitted { node, len } => show(f, "Transmitted", node, Some(("len", len))),
            Self::Disconnected { node, reason } => {
                show(f, "Disconnected", node, Some(("reason", reason)))
            }
            Self::Probed { node } => show(f, "Probed", node, None),
            Self::Tick => f.write_str("Tick"),
        }
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { node } => show(f, "Connect", node, None),
            Self::Transmit { node, bytes } => {
                show(f, "Transmit", node, Some(("len", &bytes.len())))
            }
            Self::Disconnect { node } => show(f, "Disconnect", node, None),
            Self::Probe { node, bytes } => show(f, "Probe", node, Some(("len", &bytes.len()))),
            Self::CloseProbe { node } => show(f, "CloseProbe", node, None),
            Self::Event(event) => f.debug_tuple("Event").field(event).finish(),
        }
    }
}

fn show(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    node: &NodeId,
    more: Option<(&str, &dyn fmt::Debug)>,
) -> fmt::Result {
    let mut shown = f.debug_struct(name);
    shown.field("node", node);
    if let Some((name, value)) = more {
        shown.field(name, value);
    }
    shown.finish()
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension")
            .field("lock", &self.lock)
            .field("token", &self.entry.token())
            .field("valid_until", &self.valid_until())
            .finish_non_exhaustive()
    }
}

/// The reason why the engine wants to wake up. The reason is stored beside the time, so that a log line or a stuck test
/// shows the cause.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Wake(pub(crate) Cause);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason for a [`Wake`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// Outputs are waiting to be polled.
    Output,
    /// It is time to open a connection again, or opening one takes too long.
    Connection,
    /// A node is silent while it has commands to answer.
    Silence,
    /// A node has not answered an operation in time.
    NodeTimeout,
    /// The random delay before the next try is over.
    Retry,
    /// A caller's deadline.
    Deadline,
    /// The validity of a lock ends.
    Expiry,
    /// A kept lock has to be extended or looked at, or it is at risk.
    Extension,
    /// It is time to retry a debt, or the key of a debt has expired.
    Debt,
    /// It may be time to repair the counter floor of a node.
    Repair,
}

/// The state of one node, for an operator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// Whether the node votes, and if not, why.
    pub state: NodeState,
    /// Why the node does not vote, in the words of the server or the system.
    /// See [`NodeReport::words`](crate::NodeReport::words).
    pub words: Option<Arc<str>>,
    /// The identifier that the server chooses at each start. `Redlock::trust_node` takes this identifier as an
    /// argument. `None` while there is no connection, or if the user may not ask `INFO server`.
    pub run_id: Option<String>,
    /// The product that the server reports, such as `redis 7.0.15` or `valkey 9.1.2`. `None` while there is no
    /// connection, and if the server refuses `HELLO`.
    pub product: Option<String>,
    /// The shortest of the node's last 32 round trips, each measured from writing a command to reading its answer.
    /// `None` if the node has never answered.
    pub round_trip: Option<Duration>,
    /// The number of locks that the node has granted to this handle, including late answers and attempts that failed. A
    /// node that falls behind grants fewer locks than the other nodes.
    pub grants: u64,
    /// The last error by which the node has refused a command about a lock, if an operator can repair it: `OOM` or
    /// `NOREPLICAS`, for example. A node in this state still answers questions, so its [`state`](Self::state) is ready.
    /// `None` after the next grant, and on a new connection.
    pub refused: Option<ServerError>,
    /// The number of commands that the node has not answered.
    pub in_flight: usize,
    /// The number of releases that wait for a connection, for room, or for another try.
    pub owed: usize,
    /// How often this handle saw the node's wall clock step by more than the drift of the locks allows for. Servers end
    /// keys by the wall clock, so a lock may have ended early on this node.
    /// See [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    pub clock_steps: u32,
    /// The server may evict locks, because `maxmemory` is set and `maxmemory-policy` is not `noeviction`.
    pub evicts_locks: bool,
    /// The part of `maxmemory` that the server used when the connection was made, in percent, at most 255. `None` if
    /// the server has no `maxmemory`, or if the user may not ask `INFO memory`. A node without free memory grants no
    /// locks.
    pub memory_percent: Option<u8>,
    /// How the node wakes waiters when a lock may be free.
    pub waking: Waking,
    /// How the node releases locks: by `a script`, `DELIFEQ` (Valkey 9), `DELEX` (Redis 8.4), `SET IFEQ` (Valkey 8.1)
    /// or `a transaction` (two round trips). `None` if no lock was taken on this connection, or if the user may not
    /// release locks. This field says nothing about locks on several resources and [fenced](crate::LockOptions::fenced)
    /// locks.
    pub releasing: Option<&'static str>,
    /// The server has been up for at least this long. Up to two seconds may be missing, because servers report whole
    /// seconds. `None` while there is no connection, and if the user may not ask `INFO server`.
    pub uptime: Option<Duration>,
    /// The longest ttl of all clients, as the node's marker says. Known only with the
    /// guard [`RestartGuard::Strict`](crate::RestartGuard). `None` while this handle does not know the marker.
    pub marked_ttl: Option<Duration>,
    /// The remaining time of a barrier on the node. Until the barrier ends, clients
    /// with [`RestartGuard::Strict`](crate::RestartGuard) do not count the answers of the node, because it may have
    /// forgotten locks. `None` if this handle knows of no barrier.
    pub barrier: Option<Duration>,
    /// The node has refused this handle a [fencing token](crate::LockOptions::fenced) because it has no counter floor.
    /// Since then, the node has not shown a floor. `false` if the handle has asked for no token.
    pub lacks_floor: bool,
}

/// Writes one line for an operator: the address, the state, and everything out of the ordinary.
///
/// ```text
/// 10.0.0.2:6379: ready, round trip 210µs, 3 releases owed
/// ```
impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.state)?;
        if let Some(words) = &self.words {
            write!(f, " ({words})")?;
        }
        if let Some(round_trip) = self.round_trip {
            write!(f, ", round trip {round_trip:.0?}")?;
        }
        if self.owed != 0 {
            write!(f, ", {} releases owed", self.owed)?;
        }
        if self.clock_steps != 0 {
            write!(f, ", clock stepped {} times", self.clock_steps)?;
        }
        if self.evicts_locks {
            f.write_str(", may evict locks")?;
        }
        if let Some(error) = self.refused {
            write!(f, ", refuses with {error}")?;
        }
        if self.lacks_floor {
            f.write_str(", no floor for fencing tokens")?;
        }
        if matches!(self.waking, Waking::Resp2 | Waking::Refused(_)) {
            write!(f, ", {}", self.waking)?;
        }
        Ok(())
    }
}

/// The open work of an engine, for a driver that has to know whether it may sleep or end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Operations with a waiting caller.
    pub rounds: usize,
    /// Tokens that may have a copy on some node: held locks, attempts, and unconfirmed releases.
    pub claims: usize,
    /// Commands that the nodes have not answered.
    pub in_flight: usize,
    /// Bytes that the operating system has not taken yet.
    pub unsent: usize,
    /// Releases that wait for a connection, for room, or for another try.
    pub owed: usize,
    /// The number of broken invariants that this process has found. This number should always be 0. Each broken
    /// invariant is a fault of this library. Please report it.
    pub broken: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{LinkFault, Unusable};
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn a_status_reads_as_one_line() {
        let status = |state, round_trip, owed| NodeStatus {
            words: None,
            address: "10.0.0.2:6379".into(),
            run_id: None,
            product: None,
            state,
            round_trip: Some(Duration::from_micros(round_trip)).filter(|trip| !trip.is_zero()),
            grants: 7,
            refused: (owed != 0).then(|| ServerError::from_line(b"OOM command not allowed")),
            in_flight: 1,
            owed,
            clock_steps: 0,
            evicts_locks: owed != 0,
            memory_percent: None,
            waking: Waking::Push,
            releasing: Some("a script"),
            uptime: None,
            marked_ttl: None,
            barrier: None,
            lacks_floor: owed != 0,
        };
        let left = Duration::from_millis(4_200);
        let owes = "silent, 3 releases owed, may evict locks, refuses with OOM, no floor for fencing tokens";
        let refused = NodeState::Down(LinkFault::Refused.into());
        let quarantined = NodeState::Quarantined { left };
        for (status, line) in [
            (status(NodeState::Ready, 210, 0), "ready, round trip 210µs"),
            (status(NodeState::Suspect, 0, 3), owes),
            (status(quarantined, 0, 0), "in quarantine for 4s more"),
            (status(refused, 0, 0), "down: connection refused"),
        ] {
            assert_eq!(status.to_string(), format!("10.0.0.2:6379: {line}"));
        }
        let unusable = NodeState::Unusable(Unusable::NoRunId).to_string();
        assert!(unusable.starts_with("unusable: "), "{unusable}");
    }
}
