//! The ways in which an operation of a caller can fail: lock, extend, confirm, unlock.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::config::NEED_SCRIPTS;
use super::report::gone;
use super::span::Span;
use super::told::{Told, resource, told};
use super::{Report, Shown, ends_by};
use crate::limits::{OWNER_BYTES_MAX, PERMITS_MAX, RESOURCE_BYTES_MAX, RESOURCES_MAX};

/// Why a lock was not taken.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Enough nodes answered, but other clients hold the lock on too many nodes. Other causes: this handle itself holds
    /// the lock ([`Report::is_held_here`]), or it reserves the name for a caller that waits for several names
    /// ([`manual::waiting`](crate::manual::waiting)). Trying again later may succeed. [`Report::held_for`] returns the
    /// remaining time and [`Report::holder`] the holder, if they are known. [`Report::never_expires`] returns `true` if
    /// the lock has no expiry. If several resources were requested, [`Report::held_resource`] returns the resource that
    /// is held.
    Held(Report),
    /// Too few nodes answered, or their answers do not count. The lock may be free.
    NoQuorum(Report),
    /// A majority granted the lock, but so late that no validity is left. Or the ttl is so short that too many nodes
    /// cannot answer within half of it. The handle releases the granted keys.
    TooSlow(Report),
    /// A node has the marker of another group ([`RestartGuard::Strict`](crate::RestartGuard)): other clients use this
    /// node together with other nodes, or with another group name. Two groups that share some nodes can have majorities
    /// without a common node. So the handle takes no lock while any node reports the marker of another group, and the
    /// call does not try again. The handle still extends held locks, on the nodes whose answers count.
    OtherGroup(Report),
    /// The request can never succeed as written; nothing was sent.
    Invalid(InvalidRequest),
    /// The handle has reached one of its limits; nothing was sent. Held locks are not affected.
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent. The handle does not detect a child
    /// that `_Fork` or the bare system call `clone` has made.
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
    Closed,
}

impl LockError {
    /// Returns `true` if other clients hold the lock: [`Held`](Self::Held). This error is the normal answer for a
    /// client that was not the first.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Returns `true` if the same call may succeed later without a change to the program, its configuration or the
    /// nodes' configuration. Returns `false` if other clients use a different [number of
    /// permits](Report::other_permits).
    ///
    /// ```
    /// use shearline::LockError;
    ///
    /// assert!(LockError::Saturated.is_retryable());
    /// assert!(!LockError::Closed.is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            // A call with a different number of permits does not wait, so a retry loop would run without pauses.
            Self::Held(report) => report.other_permits().is_none(),
            Self::Saturated => true,
            Self::NoQuorum(report) | Self::TooSlow(report) => !report.needs_operator(),
            Self::OtherGroup(_) | Self::Invalid(_) | Self::Forked | Self::Closed => false,
        }
    }

    fn told(&self) -> Told {
        match self {
            Self::Held(report) => {
                report.told(&held(report), "", format_args!("; {}", advice(report)))
            }
            Self::NoQuorum(report) => report.told(
                ": too few nodes could vote",
                ", so no lock was taken",
                format_args!("{}; check the nodes named here", ends_by(report)),
            ),
            Self::TooSlow(report) => report.told(
                ": the nodes are too slow for such a short ttl",
                ", so no lock was taken",
                "; ask for a longer ttl, or check the latency of the nodes",
            ),
            // The report says what to do.
            Self::OtherGroup(report) => report.told(
                ": a node belongs to another group",
                ", so no lock is taken",
                "",
            ),
            Self::Invalid(why) => Told::of(why),
            Self::Saturated => Told::of(
                "too many operations or locks are open on this handle, so nothing was sent; wait until some have \
                 ended, or use another handle",
            ),
            Self::Forked => Told::of(
                "the handle belongs to the parent process, so nothing was sent; build a new handle after the fork",
            ),
            Self::Closed => {
                Told::of("the handle is closed, so no lock was taken; build a new handle")
            }
        }
    }
}

/// Returns who holds the lock and for how much longer, if that is known.
fn held(report: &Report) -> String {
    let which = report
        .held_resource()
        .map(|name| format!("`{}` is ", Shown(name)));
    let which = which.unwrap_or_default();
    // If `is_known` is `false`, no caller in the queue has asked the nodes yet, so the text names only the earlier
    // callers.
    let is_known = report.tries() != 0 || report.held_for().is_some() || report.never_expires();
    let holder = match report.holder() {
        _ if let Some(permits) = report.other_permits() => {
            return format!(": other clients use it with {permits} permits");
        }
        _ if let Some(permits) = report.permits_taken() => {
            return match permits {
                1 => ": the only permit is taken".into(),
                permits => format!(": all {permits} permits are taken"),
            };
        }
        None if !is_known && !report.is_held_here() => {
            return ": earlier callers of this handle are waiting for it".into();
        }
        _ if report.is_held_here() => "this handle".into(),
        None | Some([]) => "another client".into(),
        Some(label) => format!("{}", Shown(label)),
    };
    let left = match report.held_for() {
        _ if report.never_expires() => ", without an expiry".into(),
        Some(left) => format!(" for another {}", Span(left).in_tenths()),
        None => String::new(),
    };
    format!(": {which}held by {holder}{left}")
}

/// Returns what to do about a lock that is held.
fn advice(report: &Report) -> &'static str {
    match report.never_expires() {
        _ if report.other_permits().is_some() => {
            "ask for the same number of permits, or use another name"
        }
        true => "the lock never expires, so if its holder is gone, delete the key",
        false => "try again later, or wait longer",
    }
}

/// Why a lock was not extended, or not confirmed. The errors [`Limit`](Self::Limit) and [`Invalid`](Self::Invalid)
/// occur only for extensions.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock's validity had ended by the clock of this machine, or its keys have expired on a majority. The handle
    /// never extends or confirms an expired lock, because the work since then may have overlapped with the work of
    /// another holder. A lock from another clock has no validity until it is confirmed, so it is not extended either.
    Expired,
    /// A majority reports that the key is missing or belongs to another client. The lock is lost.
    Lost(Report),
    /// Too few nodes answered. The lock stays valid until its old deadline.
    Unconfirmed(Report),
    /// The lock has reached its limit of extensions.
    Limit,
    /// The request can never succeed as written; nothing was sent.
    Invalid(InvalidRequest),
    /// The handle has reached one of its limits; nothing was sent, and the lock is unchanged.
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent. The handle does not detect a child
    /// that `_Fork` or the bare system call `clone` has made.
    Forked,
    /// The lock was already released, or the handle is closed.
    Closed,
}

impl ExtendError {
    fn told(&self) -> Told {
        match self {
            Self::Expired => Told::of(
                "the lock had expired and cannot be revived; stop the work, and take the lock again",
            ),
            Self::Lost(report) => {
                let rest = "; stop the work that the lock protects, and check what is half done";
                report.told(" was lost", "", format_args!("{}{rest}", gone(report)))
            }
            Self::Unconfirmed(report) => {
                let advice = match report.has_quarantine() {
                    _ if report.needs_operator() => {
                        "repair the nodes named here before the deadline"
                    }
                    true => {
                        "finish the work before the deadline, because a quarantine usually ends after it"
                    }
                    false => "try again before the deadline",
                };
                let rest = format_args!("; the lock stays valid until its old deadline: {advice}");
                report.told(": too few nodes confirmed that it is held", "", rest)
            }
            Self::Limit => Told::of(
                "the lock has no extensions left; finish the work before the deadline, or allow more \
                 (`LockOptions::extensions`)",
            ),
            Self::Invalid(why) => Told::of(why),
            Self::Saturated => Told::of(
                "too many operations are open on this handle, so nothing was sent; the lock stays valid: try again \
                 when some operations have ended",
            ),
            Self::Forked => Told::of(
                "the lock belongs to the parent process, so nothing was sent; take a lock of your own with a handle \
                 built after the fork",
            ),
            Self::Closed => Told::of(
                "the lock was released meanwhile, or its handle is closed; stop the work that the lock protects",
            ),
        }
    }
}

/// Why a lock was not released in time, or why its release is not certain.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// A majority no longer had the lock: the critical section may have overlapped with the work of another holder.
    NotHeld(Report),
    /// Too few nodes answered. The handle sends the releases again when the nodes are back. If the lock was valid until
    /// now, no other client has held it. If its validity had ended, the critical section may have overlapped with the
    /// work of another holder, and no node could report the overlap.
    Unconfirmed(Report),
    /// The handle was made before a `fork`, in the parent process; nothing was sent. The handle does not detect a child
    /// that `_Fork` or the bare system call `clone` has made.
    Forked,
    /// The handle is closed, or a thread has panicked inside it. The key expires with its ttl.
    Closed,
}

impl UnlockError {
    /// Returns `true` if no other client held the lock before this call: the lock was still valid, and only its release
    /// is [unconfirmed](Self::Unconfirmed). The handle repeats the release, so you need to do nothing.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Unconfirmed(report) if report.was_valid())
    }

    fn told(&self) -> Told {
        match self {
            Self::NotHeld(report) => report.told(
                " was no longer held",
                "",
                "; the work that the lock protected may have overlapped with the work of another holder",
            ),
            Self::Unconfirmed(report) => report.told(
                ": too few nodes confirmed its release",
                "",
                "; the release is repeated until they confirm it or the keys expire; check the nodes named here; if \
                 the validity had ended, the work may have overlapped with the work of another holder",
            ),
            Self::Forked => Told::of(
                "the lock belongs to the parent process, so nothing was sent; only the parent can unlock it",
            ),
            Self::Closed => Told::of(
                "the handle is closed, so the lock was not released; its key expires after its ttl",
            ),
        }
    }
}

/// The result of a successful release.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// The number of nodes that had deleted the key when the majority was complete. Other nodes may have deleted it
    /// later.
    pub deleted: u8,
}

/// A request that can never succeed as written. The handle refuses an invalid request before any I/O. The text says
/// what is wrong, and what to ask for instead.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct InvalidRequest(#[from] pub(crate) RequestFault);

impl InvalidRequest {
    /// Returns `true` if the request needs scripts, and the handle uses none
    /// ([`Builder::without_scripts`](crate::Builder::without_scripts)): a fenced or shared lock, or a permit.
    #[must_use]
    pub fn needs_scripts(&self) -> bool {
        self.0 == RequestFault::NeedsScripts
    }
}

/// See [`InvalidRequest`]. The index of a resource is counted from 0.
#[allow(missing_docs, reason = "the text of each variant describes it")]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RequestFault {
    #[error("the resource name{} is empty; give the lock a name", place(*.index))]
    EmptyResource { index: Option<usize> },
    /// The name begins with `shearline:`, the prefix of the keys that this library uses itself.
    #[error("resource names that begin with `shearline:` are reserved; use another name")]
    ReservedResource,
    #[error(
        "the resource name{} has {bytes} bytes, but at most {RESOURCE_BYTES_MAX} are allowed; use a hash of the name",
        place(*.index)
    )]
    ResourceTooLong { index: Option<usize>, bytes: usize },
    #[error("no resource was given; give at least one")]
    NoResources,
    #[error(
        "{count} resources are too many for one lock; lock at most {RESOURCES_MAX}, or use one name for several of them"
    )]
    TooManyResources { count: usize },
    #[error(
        "the resources {first} and {second} (counted from 0) are the same; give each resource only once"
    )]
    DuplicateResource { first: usize, second: usize },
    #[error("{NEED_SCRIPTS}")]
    NeedsScripts,
    #[error(
        "a resource can have 1 to {PERMITS_MAX} permits, not {permits}; ask for a number in this range"
    )]
    Permits { permits: u16 },
    /// The lock that should become a shared lock is on several resources, or is a permit.
    #[error("only an exclusive lock on one resource can become a shared lock")]
    NotExclusive,
    /// The guard was adopted for a lock of another kind.
    #[error(
        "the lock was adopted as another kind; adopt a shared lock with `adopt_shared`, a permit with \
         `adopt_permit`, and any other lock with `adopt`"
    )]
    OtherKind,
    #[error(
        "the owner text has {bytes} bytes, but at most {OWNER_BYTES_MAX} are allowed; shorten the text"
    )]
    OwnerTooLong { bytes: usize },
    /// No validity would be left even if every node answered immediately.
    #[error(
        "a ttl of {} is too short, because its drift alone is {}; ask for a longer ttl",
        Span(*ttl), Span(*drift)
    )]
    TtlTooShort { ttl: Duration, drift: Duration },
    #[error(
        "a ttl of {} is longer than the {} that this handle allows; ask for a shorter ttl and extend the lock, or \
         raise `Builder::max_ttl`", Span(*ttl), Span(*maximum)
    )]
    TtlTooLong { ttl: Duration, maximum: Duration },
    /// The ttl and the lock delay together exceed the longest ttl.
    #[error(
        "a ttl of {} is longer than {}, the longest ttl of this handle minus the lock delay; ask for a shorter ttl and \
         extend the lock, raise `Builder::max_ttl`, or shorten `Builder::lock_delay`",
        Span(*ttl), Span(*maximum)
    )]
    TtlWithDelayTooLong { ttl: Duration, maximum: Duration },
    #[error("zero tries were requested; request at least one")]
    NoTries,
    /// The handle uses no markers, so it cannot write them again.
    #[error("only handles with a strict restart guard write markers; this handle needs no markers")]
    NotStrict,
}

/// Returns the text that shows the position of a name in the list of resources, if there is a list.
fn place(index: Option<usize>) -> String {
    let place = index.map(|index| format!(" at position {index} (counted from 0)"));
    place.unwrap_or_default()
}

impl From<RequestFault> for LockError {
    fn from(fault: RequestFault) -> Self {
        Self::Invalid(fault.into())
    }
}

told! {
    LockError { Held, NoQuorum, TooSlow, OtherGroup }
    ExtendError { Lost, Unconfirmed }
    UnlockError { NotHeld, Unconfirmed }
}

resource!(LockError ExtendError UnlockError);

impl From<RequestFault> for ExtendError {
    fn from(fault: RequestFault) -> Self {
        Self::Invalid(fault.into())
    }
}

// Every layer returns an error by value, so an error should fit into a few registers.
const _: () = assert!(size_of::<LockError>() <= 40);
