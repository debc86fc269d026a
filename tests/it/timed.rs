//! The few stories that need a real clock: timeouts that are shorter than a machine may stand still, and a
//! bound on a time.
//!
//! They run alone, and judge what they see by a delay that the same story measured
//! ([`watched`](crate::servers::watched)).

mod deadlines;
#[cfg(target_os = "linux")]
mod holes;
