//! What goes into an engine and what comes out: the whole of its contract with the world.
//!
//! One way in ([`Input`] and the calls), one way out ([`Output`]), time as an argument, and "never"
//! is `None`. The sequence of inputs is the bug report: the same seed and inputs give the same
//! outputs, byte for byte.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::config::LockOptions;
use crate::entry::Entry;
use crate::error::LinkError;
#[cfg(feature = "std")]
use crate::error::{ConfirmError, ExtendError};
use crate::keys::OperationKey;
use crate::node::{NodeState, Waking};
use crate::quorum::{Lock, LockId, Majority};
use crate::time::Instant;

pub use super::operation::Event;
pub use crate::keys::NodeId;

/// An operation that a caller waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RoundId(pub(crate) OperationKey);

impl RoundId {
    /// Returns a small number that no other open round has: an index for the caller's own table.
    #[must_use]
    pub fn index(self) -> usize {
        let (waits, place) = self.place();
        place * 2 + usize::from(waits)
    }

    /// Returns its place among the open rounds of its kind, and whether it is of those that have waited
    /// for their turn.
    pub(crate) fn place(self) -> (bool, usize) {
        match self.0.waiter() {
            Some(waiter) => (true, waiter.0.index() as usize),
            None => (false, self.0.0.index() as usize),
        }
    }
}

/// Which lock is wanted, and how.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Request<'a> {
    pub(crate) resource: &'a [u8],
    /// If several are wanted: all of them.
    pub(crate) all: Option<&'a [&'a [u8]]>,
    pub(crate) options: &'a LockOptions,
}

impl<'a> Request<'a> {
    /// A lock on `resource`, taken as `options` say.
    pub fn new(resource: &'a [u8], options: &'a LockOptions) -> Self {
        Self {
            resource,
            all: None,
            options,
        }
    }

    /// One lock on all of `resources`: each node keeps all of them for it, or none. They have to differ,
    /// and there may be 64; their order makes no difference to
    /// others.
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
            resource: b"",
            all: Some(resources),
            options,
        }
    }

    /// Returns what is to be locked.
    #[cfg(feature = "tracing")]
    pub(crate) fn resources(&self) -> &[&'a [u8]] {
        self.all.unwrap_or(core::slice::from_ref(&self.resource))
    }
}

/// Everything that can happen to an engine from outside, besides the calls of its user.
///
/// `Debug` shows how many bytes there are, not which: servers repeat what they were sent.
#[derive(Clone, Copy)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to know every input there is"
)]
pub enum Input<'a> {
    /// The connection that [`Output::Connect`] asked for is up.
    Connected {
        /// To which node.
        node: NodeId,
    },
    /// A node whose last write was cut short can be written to again.
    Writable {
        /// Which node.
        node: NodeId,
    },
    /// Bytes arrived. They may end in the middle of a reply. The time given with them is read
    /// after the read that produced them.
    Received {
        /// From which node.
        node: NodeId,
        /// What it sent.
        bytes: &'a [u8],
    },
    /// The first `len` bytes of the last [`Output::Transmit`] were taken, by the operating system or by a
    /// driver that will write them: no command of them is withdrawn any more. If that is less
    /// than was offered, nothing more is offered until [`Input::Writable`].
    Transmitted {
        /// To which node.
        node: NodeId,
        /// How many bytes.
        len: usize,
    },
    /// The connection ended, or did not come about. All that had arrived before was handed in.
    Disconnected {
        /// To which node.
        node: NodeId,
        /// Why.
        reason: LinkError,
    },
    /// The probe that [`Output::Probe`] asked for was answered, by any answer. The engine has it
    /// closed.
    Probed {
        /// By which node.
        node: NodeId,
    },
    /// All that one turn brought has been fed in, and this is the time. Always allowed, never
    /// required early: a spurious or late one is harmless.
    Tick,
}

/// What the driver must do next. Feed in all that one turn brought, then poll until `None`.
///
/// `Debug` shows how many bytes there are, not which: there are credentials and tokens among them.
#[must_use]
#[allow(
    clippy::exhaustive_enums,
    reason = "a driver has to obey every output there is"
)]
pub enum Output<'a> {
    /// Open a connection, then report [`Input::Connected`] or [`Input::Disconnected`]. The engine
    /// keeps the time: a connection that takes too long is disconnected.
    Connect {
        /// To which node.
        node: NodeId,
    },
    /// Write these bytes, then report how many went with [`Input::Transmitted`].
    Transmit {
        /// To which node.
        node: NodeId,
        /// Everything that is due for it.
        bytes: &'a [u8],
    },
    /// Close the connection, or stop opening it, by a reset (RST) and not by an orderly end (FIN):
    /// what is still on its way must not be run long after. Nothing is to be reported.
    Disconnect {
        /// To which node.
        node: NodeId,
    },
    /// Open a probe: a connection beside the one there is, of which nothing changes. When it is up,
    /// write these bytes and never anything else; when anything comes back, report
    /// [`Input::Probed`]. A probe that cannot be opened or that ends is closed, and nothing is
    /// reported. One that is open to this node already is closed first.
    Probe {
        /// To which node.
        node: NodeId,
        /// What it is asked.
        bytes: &'static [u8],
    },
    /// Close the probe, or stop opening it. Nothing is to be reported.
    CloseProbe {
        /// To which node.
        node: NodeId,
    },
    /// Something a user waits for.
    Event(Event),
}

/// The outcome of an extension or a confirmation: a majority has confirmed the lock.
#[must_use = "an extension does not count before it is applied to its lock"]
pub struct Extension {
    pub(crate) lock: LockId,
    /// All locks without a claim have the same id.
    pub(crate) entry: Entry,
    pub(crate) majority: Majority,
    pub(crate) confirmed_until: Instant,
    /// It is one of the extensions that the lock may have.
    pub(crate) counts: bool,
}

impl Extension {
    /// Counts it as one of the extensions that `lock` may have, if it is one, and notes which nodes have said yes. The
    /// lock that the call was about has its new end already; a copy of it, that was read from bytes, gets it now.
    /// Returns `true` if it is that lock or a copy; otherwise `lock` does not change.
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

    /// Returns the end of the validity that was confirmed, or an earlier one that was found since.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.confirmed_until.min(self.entry.end())
    }
}

/// Why a lock was not extended, or not confirmed.
#[cfg(feature = "std")]
pub(crate) trait NotProlonged: From<ConfirmError> {
    /// Returns the outcome in `event`.
    fn outcome(event: Event) -> Result<Extension, Self>;

    /// Returns `true` if a majority says that the lock is not there, or not any longer.
    fn is_over(&self) -> bool;
}

#[cfg(feature = "std")]
macro_rules! not_prolonged {
    ($($error:ident in $event:ident,)*) => {$(
        impl NotProlonged for $error {
            fn outcome(event: Event) -> Result<Extension, Self> {
                let Event::$event { result, .. } = event else {
                    unreachable!("not the outcome that was waited for: {event:?}");
                };
                result
            }

            fn is_over(&self) -> bool {
                matches!(self, Self::Lost(_) | Self::Expired)
            }
        }
    )*};
}

#[cfg(feature = "std")]
not_prolonged!(ExtendError in Extended, ConfirmError in Confirmed,);

/// Does to `lock` what the outcome of its extension or confirmation says. The last act is to compare its
/// end with a clock that is read for it.
#[cfg(feature = "std")]
pub(crate) fn prolong<E: NotProlonged>(
    lock: &mut Lock,
    outcome: Event,
    clock: impl Fn() -> Instant,
) -> Result<(), E> {
    match E::outcome(outcome) {
        Ok(extension) => extension.apply(lock),
        Err(error) => {
            if error.is_over() {
                lock.lost(clock());
            }
            return Err(error);
        }
    };
    match lock.is_valid_at(clock()) {
        true => Ok(()),
        false => Err(ConfirmError::Expired.into()),
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

/// Why the engine wants to wake. Carried beside the time, so that a log line or a stuck test names
/// its cause: `Debug` shows it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Wake(pub(crate) Cause);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a [`Wake`] is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// Outputs are waiting to be polled.
    Output,
    /// A connection is to be tried again, or takes too long to come about.
    Connection,
    /// A node has been silent while answers of it are open.
    Silence,
    /// A node has not answered a round in time.
    NodeTimeout,
    /// The random delay before the next try is over.
    Retry,
    /// A caller's deadline.
    Deadline,
    /// The validity of a lock ends.
    Expiry,
    /// A lock that is kept is to be extended, or is at risk, or is to be looked at.
    Extension,
    /// A release that is owed is tried again, or its key is gone by now.
    Debt,
    /// A node that has no floor for its fencing tokens may be repaired.
    Repair,
}

/// The state of one node, for an operator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// Whether it votes, and if not, why.
    pub state: NodeState,
    /// Why it does not vote, in words of others. See [`NodeReport::words`](crate::NodeReport::words).
    pub words: Option<Arc<str>>,
    /// Which server it is: an identifier that it makes at each of its starts, and the argument of
    /// `Redlock::trust_node`. `None` while there is no connection, or if its user may not ask `INFO
    /// server`.
    pub run_id: Option<String>,
    /// What it says it is, such as `redis 7.0.15` or `valkey 9.1.2`. `None` while there is no connection,
    /// and where it does not say (`HELLO` is refused).
    pub product: Option<String>,
    /// The shortest of its last 32 round trips, each from the writing of a command to the reading of
    /// its answer; `None` if it has never answered.
    pub round_trip: Option<Duration>,
    /// How often it has granted a lock to this handle, stragglers and attempts that failed
    /// included. A node whose count falls behind the others grants fewer locks than they do.
    pub grants: u64,
    /// Commands that it has not answered.
    pub in_flight: usize,
    /// Releases that wait for a connection, for room, or for another try.
    pub owed: usize,
    /// How often its wall clock was seen to have been stepped, by more than the drift of the locks allows for.
    /// Servers end keys by it: a lock may have ended early there. See
    /// [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    pub clock_steps: u32,
    /// Its policy may evict locks: `maxmemory` is set and `maxmemory-policy` is not `noeviction`.
    pub evicts_locks: bool,
    /// How much of its `maxmemory` it used when it was connected, in percent. `None` if it has no `maxmemory`, or if its
    /// user may not ask `INFO memory`; at most 255. A node that has used it up grants no locks.
    pub memory_percent: Option<u8>,
    /// How it tells those who wait for a lock that it may be free.
    pub waking: Waking,
    /// How it releases locks: by `a script`, `DELIFEQ` (Valkey 9), `DELEX` (Redis 8.4), `SET IFEQ` (Valkey 8.1)
    /// or `a transaction` (two round trips). `None` if no lock was taken on this connection, or nothing permits
    /// its release; locks on several resources, and those with a
    /// [fencing token](crate::LockOptions::fenced), do not show it.
    pub releasing: Option<&'static str>,
    /// For how long its server has been up, at least: servers tell it in whole seconds, and up to two seconds
    /// less are shown. `None` while it is not connected, and if its user may not ask `INFO server`.
    pub uptime: Option<Duration>,
    /// The longest ttl of all clients, as the marker on it says. Only with
    /// [`RestartGuard::Strict`](crate::RestartGuard); `None` while this handle does not know the marker.
    pub marked_ttl: Option<Duration>,
    /// For how much longer a barrier stands on it: it may have forgotten locks, and no client with
    /// [`RestartGuard::Strict`](crate::RestartGuard) counts its answers. `None` if this handle knows of
    /// none.
    pub barrier: Option<Duration>,
    /// It has given this handle no [fencing token](crate::LockOptions::fenced), because it has no floor, and is not known
    /// to have one since. `false` also where no token was asked for.
    pub lacks_floor: bool,
}

/// One line for an operator: the address, the state, and what is out of the ordinary.
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
        if self.lacks_floor {
            f.write_str(", no floor for fencing tokens")?;
        }
        if matches!(self.waking, Waking::Resp2 | Waking::Refused(_)) {
            write!(f, ", {}", self.waking)?;
        }
        Ok(())
    }
}

/// What an engine has open, for a driver that has to know whether it may sleep or end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Operations whose callers wait.
    pub rounds: usize,
    /// Tokens that may have a copy on some node: locks held, attempts, releases not yet confirmed.
    pub claims: usize,
    /// Commands that nodes have not answered.
    pub in_flight: usize,
    /// Bytes not yet taken by the operating system.
    pub unsent: usize,
    /// Releases that wait for a connection, for room, or for another try.
    pub owed: usize,
    /// Invariants that were found broken in this process: a fault of this library, and to be
    /// reported as one. Always 0.
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
        for (status, line) in [
            (status(NodeState::Ready, 210, 0), "ready, round trip 210µs"),
            (
                status(NodeState::Suspect, 0, 3),
                "silent, 3 releases owed, may evict locks, no floor for fencing tokens",
            ),
            (
                status(NodeState::Quarantined { left }, 0, 0),
                "in quarantine for 4s more",
            ),
            (
                status(NodeState::Down(LinkFault::Refused.into()), 0, 0),
                "down: connection refused",
            ),
        ] {
            assert_eq!(status.to_string(), format!("10.0.0.2:6379: {line}"));
        }
        let unusable = NodeState::Unusable(Unusable::NoRunId).to_string();
        assert!(unusable.starts_with("unusable: "), "{unusable}");
    }
}
