//! The kinds of locks that a [`Guard`](crate::Guard) can hold, as types without values. Programs rarely need these
//! types: use [`LockGuard`](crate::LockGuard), [`SharedGuard`](crate::SharedGuard), [`PermitGuard`](crate::PermitGuard)
//! and [`Leadership`](crate::Leadership).

use crate::quorum::Lock;

/// The kind of lock that a guard holds, as one of the types of this module.
pub trait Holds: 'static {
    /// The name of the guard in its `Debug` output.
    const GUARD: &str;

    /// Returns `true` if the lock is of this kind.
    fn is_of(lock: &Lock) -> bool;
}

macro_rules! holds {
    ($($(#[$doc:meta])* $what:ident $guard:literal $is_of:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $what {}

        impl Holds for $what {
            const GUARD: &str = $guard;

            fn is_of(lock: &Lock) -> bool {
                $is_of(lock)
            }
        }
    )+};
}

holds! {
    /// A lock that one client holds alone: [`Redlock::lock`](crate::Redlock::lock).
    Exclusive "LockGuard" |lock: &Lock| !lock.is_shared() && lock.slot().is_none();
    /// A lock that many clients share while no client holds it
    /// alone: [`Redlock::lock_shared`](crate::Redlock::lock_shared).
    Shared "SharedGuard" Lock::is_shared;
    /// One of several permits: [`Redlock::permit`](crate::Redlock::permit).
    Permit "PermitGuard" |lock: &Lock| lock.slot().is_some();
    /// A term as the leader of an election: [`Redlock::campaign`](crate::Redlock::campaign).
    Term "Leadership" Exclusive::is_of;
}
