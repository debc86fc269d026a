//! Votes in, verdict out; the arithmetic of validity; a lock needs a proof of majority.
//!
//! * [`Tally`] counts the answers of one round and says when its outcome is certain: the moment a
//!   majority agrees, or can no longer agree. It waits for no straggler.
//! * [`Drift`] says until when a lock may be trusted.
//! * [`Lock`] is the result. It is made from a [`Majority`], which only the tally can make, so
//!   "we counted" is checked by the compiler and not by review.
//! * `Keeping` says when a lock is extended by its engine.
//!
//! Pure: no bytes, no sockets, no clock.

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
