//! Counts votes and reaches verdicts; computes validity; makes a lock only from a proof of majority.
//!
//! * [`Tally`] counts the answers of one round and says when its outcome is certain: as soon as a majority agrees, or
//!   can no longer agree. It does not wait for late answers.
//! * [`Drift`] computes the end of a lock's validity.
//! * [`Lock`] is the result. It is made from a [`Majority`], which only the tally can make, so the compiler checks that
//!   votes were counted.
//! * `Keeping` decides when the engine extends a lock.
//!
//! It is pure: no bytes, no sockets, no clock.

mod keeping;
mod lock;
mod set;
mod tally;
mod validity;

pub(crate) use keeping::{Keeping, Kept};
pub use lock::{Lock, LockId};
pub(crate) use set::NodeSet;
pub(crate) use tally::{Acquisition, Extending, Majority, Releasing, Tally, Vote, quorum_of};
pub(crate) use validity::{Drift, SLEWED};
