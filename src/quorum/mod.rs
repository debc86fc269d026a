//! Counts votes, decides outcomes, and computes validity. A lock can be created only with proof that a majority has
//! agreed.
//!
//! * [`Tally`] counts the answers of one round. The outcome is certain as soon as a majority agrees, or can no longer
//!   agree. The tally does not wait for late answers.
//! * [`Drift`] computes the end of a lock's validity.
//! * [`Lock`] is the result of a successful attempt. A lock is created from a [`Majority`], which only the tally can
//!   create. So the compiler checks that the votes were counted.
//! * `Keeping` decides when the engine extends a lock.
//!
//! The module is pure: it uses no bytes, no sockets and no clock.

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
