//! The fault matrix, against real servers.
//!
//! A [`story::Fault`] is a way to disturb a node and to undo it. Each is played on one node of three and on two,
//! with one face each; in the long run with either face on both:
//!
//! * **One of three**, between lock and unlock and before the lock: lock, extension and unlock succeed by the other
//!   two; a report names the fault of the node; afterwards the node gets a copy of every lock again.
//! * **Two of three**: every call fails, and the first call afterwards gets the lock.
//! * At the end no node has a key.
//!
//! Files:
//!
//! * [`network`]: faults between the client and a server, by a relay.
//! * [`process`]: servers that stand still, are busy, are killed, or load their data.
//! * [`refusing`]: servers that answer and refuse, some of them to every client.
//! * [`forgetful`]: servers that restart or are replaced, and the restart guard.
//! * [`hostile`]: hostile servers.
//! * [`places`]: running out of descriptors.
//! * [`packets`]: lost packets, in a separate network namespace.
//! * [`lossy`]: packets that are lost by chance.
//!
//! [`crate::timed`] measures how soon the first lock comes after a while in which all packets are lost.

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
