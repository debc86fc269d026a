//! The fault matrix, against real servers.
//!
//! A [`story::Fault`] is a way to disturb a node and to undo it. Each is played on one node of three and on two,
//! with one face each; in the long run with either face on both:
//!
//! * **One of three**, between lock and unlock and before the lock: lock, extension and unlock
//!   succeed by the other two; a report says of the node what it should; afterwards the node gets a
//!   copy of every lock again.
//! * **Two of three**: every call fails, and the first call afterwards gets the lock.
//! * In the end no node has a key.
//!
//! Files:
//!
//! * [`network`]: faults between the client and a server, by a relay.
//! * [`process`]: servers that stand still, are busy, are killed, load their data.
//! * [`refusing`]: servers that answer and refuse, also every client.
//! * [`forgetful`]: servers that restart or are replaced, and the restart guard.
//! * [`hostile`]: hostile servers.
//! * [`places`]: running out of descriptors.
//! * [`packets`]: lost packets, in a separate network namespace.
//! * [`lossy`]: the same by chance.
//!
//! All packets lost for a while, and how soon the first lock comes afterwards: [`crate::timed`].

mod forgetful;
mod hostile;
#[cfg(target_os = "linux")]
mod lossy;
mod network;
mod packets;
mod places;
mod process;
mod refusing;
mod story;
