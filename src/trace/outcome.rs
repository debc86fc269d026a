//! The word for each outcome of an operation, and the remaining fields of its span.

use tracing::Span;

use crate::engine::breaking::Broken;
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::error::{ExtendError, LockError, Released, Report, UnlockError};
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

/// The word for each variant of an error.
macro_rules! words {
    ($($error:ident { $($variant:ident: $word:literal),* $(,)? })*) => {$(
        impl Failure for $error {
            fn word(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)*
                }
            }

            fn report(&self) -> Option<&Report> {
                self.report()
            }
        }
    )*};
}

words! {
    LockError {
        Held: "held", NoQuorum: "no_quorum", TooSlow: "too_slow", OtherGroup: "other_group",
        Invalid: "invalid", Saturated: "saturated", Forked: "forked", Closed: "closed",
    }
    ExtendError {
        Lost: "lost", Unconfirmed: "unconfirmed",
        Expired: "expired", Limit: "limit", Invalid: "invalid", Saturated: "saturated", Forked: "forked",
        Closed: "closed",
    }
    UnlockError {
        NotHeld: "not_held", Unconfirmed: "unconfirmed",
        Forked: "forked", Closed: "closed",
    }
    OperatorError {
        Changed: "changed", NoQuorum: "no_quorum", Unconfirmed: "unconfirmed",
        NotHeld: "not_held", NotOurs: "not_ours", NotTrusted: "not_trusted", Invalid: "invalid",
        Saturated: "saturated", Forked: "forked", Closed: "closed",
    }
}
