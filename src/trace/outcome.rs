//! The word for each outcome of an operation, and the other fields of its span.

use tracing::Span;

use crate::engine::breaking::{BreakError, Broken};
use crate::engine::inspection::{InspectError, Inspection};
use crate::error::{
    ConfirmError, ExtendError, LockError, ReinitError, Released, Report, UnlockError,
};
use crate::quorum::Lock;

/// The value that a successful operation returns.
pub(crate) trait Success {
    fn record(&self, _: &Span) {}
}

/// The reason why an operation failed.
pub(crate) trait Failure {
    fn word(&self) -> &'static str;

    /// Returns the answer of each node, if nodes were asked.
    fn report(&self) -> Option<&Report>;
}

impl Success for Lock {
    fn record(&self, span: &Span) {
        span.record("granted", self.voters().len() as u64);
    }
}

impl Success for Released {
    fn record(&self, span: &Span) {
        span.record("deleted", self.deleted);
    }
}

impl Success for Inspection {}

impl Success for Broken {}

impl Success for () {}

/// The words. The variants with a report stand behind `;`.
macro_rules! words {
    ($($error:ident { $($plain:pat => $word:literal,)* ; $($reported:ident => $said:literal,)* })*) => {$(
        impl Failure for $error {
            fn word(&self) -> &'static str {
                match self {
                    $($plain => $word,)*
                    $(Self::$reported(_) => $said,)*
                }
            }

            fn report(&self) -> Option<&Report> {
                match self {
                    $($plain => None,)*
                    $(Self::$reported(report) => Some(report),)*
                }
            }
        }
    )*};
}

words! {
    LockError {
        Self::Invalid(_) => "invalid",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        Held => "held",
        NoQuorum => "no_quorum",
        TooSlow => "too_slow",
        OtherCluster => "other_cluster",
    }
    ExtendError {
        Self::Expired => "expired",
        Self::Limit => "limit",
        Self::Invalid(_) => "invalid",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        Lost => "lost",
        Unconfirmed => "unconfirmed",
    }
    ConfirmError {
        Self::Expired => "expired",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        Lost => "lost",
        Unconfirmed => "unconfirmed",
    }
    UnlockError {
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        NotHeld => "not_held",
        Unconfirmed => "unconfirmed",
    }
    InspectError {
        Self::Invalid(_) => "invalid",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        NoQuorum => "no_quorum",
    }
    BreakError {
        Self::NotHeld(_) => "not_held",
        Self::NoExpiry => "no_expiry",
        Self::TooLong => "too_long",
        Self::Invalid(_) => "invalid",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        Changed => "changed",
        NoQuorum => "no_quorum",
        Unconfirmed => "unconfirmed",
    }
    ReinitError {
        Self::NotStrict => "not_strict",
        Self::Saturated => "saturated",
        Self::Forked => "forked",
        Self::Closed => "closed",
        ;
        Unready => "unready",
        Incomplete => "incomplete",
    }
}
