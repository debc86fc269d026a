//! The fault matrix, against real servers.
//!
//! A [`story::Fault`] is a way to mistreat a node and to make it good again. Each is told four
//! times, with either face, of one node of three and of two:
//!
//! * **One of three**, between lock and unlock and before the lock: lock, extension and unlock
//!   succeed by the other two; a report says of the node what it should; when it is over, the node
//!   gets a copy of every lock again.
//! * **Two of three**: nothing can be had, which is said in time, and the first call after the end
//!   of it has the lock.
//! * In the end no node has a key.
//!
//! Where what:
//!
//! * [`network`]: what happens between the client and a server, by way of a relay.
//! * [`process`]: servers that stand still, are busy, are killed, load their data.
//! * [`refusing`]: servers that answer and refuse, and those that let nobody in.
//! * [`forgetful`]: servers that come back as others, and the restart guard's word on it.
//! * [`hostile`]: what answers is out to do harm.
//! * [`places`]: addresses at which nobody can be reached, and running out of descriptors.
//! * [`packets`]: packets that are lost, in a network namespace of the test's own.
//! * [`lossy`]: the same by chance.
//! * [`holes`]: all of them for a while, and how soon a lock is had behind that.

mod forgetful;
#[cfg(target_os = "linux")]
mod holes;
mod hostile;
#[cfg(target_os = "linux")]
mod lossy;
mod network;
mod packets;
mod places;
mod process;
mod refusing;
mod story;
