//! The interface between the engine and its environment: all inputs and all outputs.
//!
//! The engine has one way in ([`Input`] and the calls) and one way out ([`Output`]). Every call receives the time as an
//! argument. A time of `None` means "never". The same seed and the same inputs produce the same outputs, byte for byte,
//! so recorded inputs reproduce a bug.

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
    /// The id of an operation that was unable to begin.
    #[cfg(feature = "std")]
    pub(crate) const NONE: Self = Self(OperationKey::NONE);

    /// Returns a small index that is unique among the open operations.
    #[must_use]
    pub fn index(self) -> usize {
        let (waits, place) = self.place();
        place * 2 + usize::from(waits)
    }

    /// Returns whether the operation began as a waiter, and its index among the open operations that began in the same
    /// way.
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
    /// All resources, if the caller wants one lock on several resources.
    pub(crate) all: Option<&'a [&'a [u8]]>,
    pub(crate) options: &'a LockOptions,
    /// Whether the caller wants a shared lock.
    pub(crate) shared: bool,
    /// The number of permits of the resource, if the caller wants a permit.
    pub(crate) permits: Option<u16>,
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

    /// Asks for a shared lock on `resource`. Several clients can hold shared locks at the same time, but not together
    /// with an exclusive lock.
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

    /// Asks for one of the `permits` of `resource`. `permits` is between 1 and 1,024. At most this number of clients
    /// hold a permit at the same time. Each holder has its own slot, which [`Lock::slot`](crate::Lock::slot) returns.
    /// All clients of a resource must use the same number of permits. A resource cannot have permits and an exclusive
    /// or shared lock at the same time.
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
    pub fn permit(resource: &'a [u8], permits: u16, options: &'a LockOptions) -> Self {
        Self {
            permits: Some(permits),
            ..Self::new(resource, options)
        }
    }

    /// Asks for one lock on all of `resources`. Each node grants either all resources or none of them. The resources
    /// must differ, and there can be at most 64. The order of the resources does not matter.
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

    /// Returns the resources to lock.
    pub(crate) fn resources(&self) -> &[&'a [u8]] {
        self.all.unwrap_or(core::slice::from_ref(&self.resource))
    }

    /// Returns an error if the request is for a shared lock or a permit that cannot be taken.
    #[cold]
    #[inline(never)]
    pub(super) fn check_beside(&self, without_scripts: bool) -> Result<(), RequestFault> {
        match self.permits {
            Some(permits) if !(1..=PERMITS_MAX).contains(&permits) => {
                Err(RequestFault::Permits { permits })
            }
            _ if without_scripts => Err(RequestFault::NeedsScripts),
            _ => Ok(()),
        }
    }
}

/// Everything that can happen to an engine from outside, besides calls from its user.
///
/// `Debug` shows only the number of bytes, because a server may repeat secrets that it has received.
#[derive(Clone, Copy)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to know every input there is"
)]
pub enum Input<'a> {
    /// The connection that [`Output::Connect`] requested is up.
    Connected {
        /// The node of the new connection.
        node: NodeId,
    },
    /// A node that accepted only part of the last write can be written to again.
    Writable {
        /// The node that can be written to.
        node: NodeId,
    },
    /// Bytes have arrived. The bytes may end in the middle of a reply. The time of this input must be read after the
    /// bytes.
    Received {
        /// The node that sent the bytes.
        node: NodeId,
        /// The bytes that the node sent.
        bytes: &'a [u8],
    },
    /// The operating system or the driver has accepted the first `len` bytes of the last [`Output::Transmit`]. From
    /// then on, the engine cannot withdraw the commands in these bytes. If the engine had offered more bytes, it waits
    /// for [`Input::Writable`] before it offers bytes again.
    Transmitted {
        /// The node that the bytes are for.
        node: NodeId,
        /// The number of accepted bytes.
        len: usize,
    },
    /// The connection has ended or could not be opened. Before this input, the driver passes in everything that arrived
    /// on the connection.
    Disconnected {
        /// The node of the ended connection.
        node: NodeId,
        /// Why the connection has ended or could not be opened.
        reason: LinkError,
    },
    /// Bytes have arrived on the probe that [`Output::Probe`] requested. After this input, the engine asks the driver
    /// to close the probe.
    Probed {
        /// The node that was probed.
        node: NodeId,
    },
    /// The driver has passed in every input of this turn. A tick is allowed at any time. An extra or late tick is
    /// harmless.
    Tick,
}

/// The next action that the driver must take. Pass in every input of one turn, then poll until the result is `None`.
///
/// `Debug` shows only the number of bytes, because the bytes may contain credentials and tokens.
#[must_use]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to obey every output there is"
)]
pub enum Output<'a> {
    /// Open a connection, then report [`Input::Connected`] or [`Input::Disconnected`]. If the connection takes too long
    /// to open, the engine requests [`Output::Disconnect`].
    Connect {
        /// The node to connect to.
        node: NodeId,
    },
    /// Write these bytes, then report with [`Input::Transmitted`] how many bytes were accepted.
    Transmit {
        /// The node to write to.
        node: NodeId,
        /// All bytes that are ready to be sent to this node.
        bytes: &'a [u8],
    },
    /// Close the connection, or stop opening it, with a reset (RST) instead of an orderly end (FIN). After a FIN, the
    /// server could still run commands in transit, even much later. Report nothing for this output.
    Disconnect {
        /// The node to disconnect.
        node: NodeId,
    },
    /// Open a probe, which is a second connection. The first connection stays as it is. When the probe is up, write
    /// these bytes and nothing else. When bytes arrive on the probe, report [`Input::Probed`]. If the probe fails to
    /// open or is closed, drop it and report nothing. If a probe to this node is already open, close the old probe
    /// first.
    Probe {
        /// The node to probe.
        node: NodeId,
        /// The command to write.
        bytes: &'static [u8],
    },
    /// Close the probe, or stop opening it. Report nothing for this output.
    CloseProbe {
        /// The node of the probe.
        node: NodeId,
    },
    /// An outcome for a caller, or news about a lock.
    Event(Event),
}

/// The outcome of an extension or a confirmation: a majority has confirmed the lock.
#[must_use = "an extension does not count before it is applied to its lock"]
pub struct Extension {
    pub(crate) lock: LockId,
    /// The entry of the lock. Locks without a claim all have the same id, so only the entry distinguishes them.
    pub(crate) entry: Entry,
    pub(crate) majority: Majority,
    pub(crate) confirmed_until: Instant,
    /// Whether this extension counts towards the limit on extensions.
    pub(crate) counts: bool,
}

impl Extension {
    /// Records in `lock` which nodes have agreed, and counts the extension if the number of extensions is limited. The
    /// extended lock already has its new validity. If `lock` is a copy that was read from bytes, this call also sets
    /// the validity of the copy. If the extension is for another lock, returns `false` and changes nothing.
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

    /// Returns the end of the lock's validity, as confirmed by the nodes. If the lock ended before that time, returns
    /// the time at which it ended.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.confirmed_until.min(self.entry.end())
    }
}

/// Applies the outcome of an extension or a confirmation to `lock`, then reads the clock to check that the lock is
/// still valid.
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

/// The reason why the engine wants to wake up. The engine stores the reason with the time, so that log lines and stuck
/// tests can show it.
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
    /// The engine has outputs that the driver must poll.
    Output,
    /// A connection is due to be opened again, or takes too long to open.
    Connection,
    /// A node is silent although it has commands to answer.
    Silence,
    /// A node has not answered an operation in time.
    NodeTimeout,
    /// The random delay before the next attempt has passed.
    Retry,
    /// The deadline of a caller has passed.
    Deadline,
    /// The validity of a lock ends.
    Expiry,
    /// A kept lock is due for an extension or a check, or is at risk.
    Extension,
    /// A release must be sent again, or its key has expired.
    Debt,
    /// A repair of a node's counter floor may now be possible.
    Repair,
}

/// The state of one node, for operators.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// Whether the node votes, and if not, the reason.
    pub state: NodeState,
    /// Why the node does not vote, in the words of the server or of the operating system.
    /// See [`NodeReport::words`](crate::NodeReport::words).
    pub words: Option<Arc<str>>,
    /// The identifier that the server chooses at each start. `Redlock::trust_node` takes this identifier as an
    /// argument. `None` if there is no connection, or if the user may not run `INFO server`.
    pub run_id: Option<String>,
    /// The product that the server reports, such as `redis 7.0.15` or `valkey 9.1.2`. `None` if there is no connection,
    /// or if the server refuses `HELLO`.
    pub product: Option<String>,
    /// The shortest of the node's last 32 round trips, each measured from writing a command to reading its answer.
    /// `None` if the node has never answered.
    pub round_trip: Option<Duration>,
    /// The number of locks that the node has granted to this handle, including grants that came late or belonged to a
    /// failed attempt. A node that falls behind grants fewer locks than the other nodes.
    pub grants: u64,
    /// The latest error in reply to a lock command, if an operator can fix its cause, such as `OOM` or `NOREPLICAS`.
    /// The node still answers questions, so its [`state`](Self::state) stays ready. This field becomes `None` after the
    /// next grant, and on a new connection.
    pub refused: Option<ServerError>,
    /// The number of commands that the node has not answered.
    pub in_flight: usize,
    /// The number of releases that the engine still has to send or to retry.
    pub debts: usize,
    /// The number of times this handle has seen the node's wall clock step by more than the allowed drift. Keys expire
    /// by the server's wall clock, so a lock may have ended early on this node.
    /// See [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    pub clock_steps: u32,
    /// Whether the server may evict locks, because `maxmemory` is set and `maxmemory-policy` is not `noeviction`.
    pub evicts_locks: bool,
    /// The percentage of `maxmemory` that the server used when the connection was opened, at most 255. `None` if the
    /// server has no `maxmemory`, or if the user may not run `INFO memory`. A node without free memory grants no locks.
    pub memory_percent: Option<u8>,
    /// How the node wakes waiters when a lock may be free.
    pub waking: Waking,
    /// How the node releases locks: by `a script`, `DELIFEQ` (Valkey 9), `DELEX` (Redis 8.4), `SET IFEQ` (Valkey 8.1)
    /// or `a transaction` (two round trips). `None` if no lock was taken on this connection, or if the user may not
    /// release locks. This field says nothing about locks on several resources and [fenced](crate::LockOptions::fenced)
    /// locks.
    pub releasing: Option<&'static str>,
    /// The minimum time for which the server has been up. The actual time may be up to two seconds longer, because
    /// servers report whole seconds. `None` if there is no connection, or if the user may not run `INFO server`.
    pub uptime: Option<Duration>,
    /// The longest ttl of all clients, according to the node's marker. Only handles
    /// with [`RestartGuard::Strict`](crate::RestartGuard) read markers. `None` while this handle does not know the
    /// marker.
    pub marked_ttl: Option<Duration>,
    /// The remaining time of a barrier on the node. Until the barrier ends, clients
    /// with [`RestartGuard::Strict`](crate::RestartGuard) do not count the answers of the node, because it may have
    /// forgotten locks. `None` if this handle knows of no barrier.
    pub barrier: Option<Duration>,
    /// Whether the node has refused a [fencing token](crate::LockOptions::fenced) because it has no counter floor, and
    /// has not reported a floor since then. This field is `false` if the handle has requested no fencing token.
    pub lacks_floor: bool,
}

/// Writes one line for operators: the address, the state, and everything unusual.
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
        if self.debts != 0 {
            write!(f, ", {} releases owed", self.debts)?;
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

/// The open work of an engine, which shows a driver whether it may sleep or stop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// The number of operations with a waiting caller.
    pub rounds: usize,
    /// The number of tokens that may still be on a node: held locks, attempts, and unconfirmed releases.
    pub claims: usize,
    /// The number of commands that the nodes have not answered.
    pub in_flight: usize,
    /// The number of bytes that the operating system has not accepted yet.
    pub unsent: usize,
    /// The number of releases that the engine still has to send or to retry.
    pub debts: usize,
    /// The number of broken invariants that this process has found. The number of broken invariants should always be 0.
    /// Each broken invariant is a bug in this library. Please report any broken invariant.
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
        let status = |state, round_trip, debts| NodeStatus {
            words: None,
            address: "10.0.0.2:6379".into(),
            run_id: None,
            product: None,
            state,
            round_trip: Some(Duration::from_micros(round_trip)).filter(|trip| !trip.is_zero()),
            grants: 7,
            refused: (debts != 0).then(|| ServerError::from_line(b"OOM command not allowed")),
            in_flight: 1,
            debts,
            clock_steps: 0,
            evicts_locks: debts != 0,
            memory_percent: None,
            waking: Waking::Push,
            releasing: Some("a script"),
            uptime: None,
            marked_ttl: None,
            barrier: None,
            lacks_floor: debts != 0,
        };
        let left = Duration::from_millis(4_200);
        let owes = "silent, 3 releases owed, may evict locks, refuses with OOM, no floor for fencing tokens";
        let refused = NodeState::Down(LinkFault::Refused.into());
        let quarantined = NodeState::Quarantined { left };
        for (status, line) in [
            (status(NodeState::Ready, 210, 0), "ready, round trip 210µs"),
            (status(NodeState::Suspect, 0, 3), owes),
            (status(quarantined, 0, 0), "in quarantine for another 4s"),
            (status(refused, 0, 0), "down: connection refused"),
        ] {
            assert_eq!(status.to_string(), format!("10.0.0.2:6379: {line}"));
        }
        let unusable = NodeState::Unusable(Unusable::NoRunId).to_string();
        assert!(unusable.starts_with("unusable: "), "{unusable}");
    }
}
