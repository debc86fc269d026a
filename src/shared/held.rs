//! What a [`Guard`](crate::Guard) holds, as types that have no values. [`LockGuard`](crate::LockGuard),
//! [`SharedGuard`](crate::SharedGuard) and [`PermitGuard`](crate::PermitGuard) name them for you.

/// What a guard holds: one of the types of this module.
pub trait Holds: 'static {
    /// The name of the guard, as its `Debug` form shows it.
    const GUARD: &str;
}

macro_rules! holds {
    ($($(#[$doc:meta])* $what:ident $guard:literal)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $what {}

        impl Holds for $what {
            const GUARD: &str = $guard;
        }
    )+};
}

holds! {
    /// A lock that one client holds alone: [`Redlock::lock`](crate::Redlock::lock).
    Exclusive "LockGuard"
    /// A lock that many clients share, while nobody holds it alone: [`Redlock::lock_shared`](crate::Redlock::lock_shared).
    Shared "SharedGuard"
    /// One of several permits: [`Redlock::permit`](crate::Redlock::permit).
    Permit "PermitGuard"
}
