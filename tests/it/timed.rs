//! The few stories that need a real clock: default timeouts, which are shorter than a machine may stand still.
//!
//! They run alone, and judge what they see by a delay that the same story measured
//! ([`watched`](crate::servers::watched)).

mod frozen;
