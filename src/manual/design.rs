//! How the parts lie on one another, and why.
//!
//! ```text
//!   Redlock, LocalRedlock     blocking calls and futures; guards
//!   Driver                    sockets, look-up of names, the clock: the only part that waits
//!   engine                    the algorithm over N nodes; no I/O, no clock, no thread
//!     node                    one connection: handshake, order of what is in flight, what is owed
//!     quorum                  votes in, verdict out; a lock needs a proof of majority
//!     timer                   a hierarchical timing wheel
//!     resp                    bytes to values and back
//! ```
//!
//! Each layer knows those below it and none above, and can be read, tested and used alone.
//!
//! **Why no I/O in the engine.** Its inputs are bytes and the time, its outputs bytes and events;
//! the same inputs and seed give the same outputs. So the whole of it runs in a simulated world,
//! with faults that no real network shows twice, and a recorded run is a bug report. It is also why
//! one algorithm serves blocking calls, futures and foreign event loops.
//!
//! **Why no async runtime.** A lock is a few small packets. A caller that waits for them on its own
//! thread pays for no hand-over between threads; a future needs somebody who wakes it, and one
//! thread of ours, or the loop of the host, is enough for that.
//!
//! **Why connections are kept.** A server runs what it was sent, also after the connection was
//! closed. A client that gives up on a slow node by closing cannot take its `SET` back: the release
//! has to travel behind it on the same connection, or on a later one. So a slow node keeps its
//! connection, and its silence is made cheap instead.
//!
//! **Why a proof.** The tally makes a [`Majority`](crate::quorum::Majority) when it has counted one,
//! and only with that can a [`Lock`](crate::Lock) be made or its validity grow: that we have counted
//! is checked by the compiler. (A lock from bytes is no exception; it has the end that it had.)
//!
//! **Why a wheel.** Every command in flight has a timeout, and nearly all are cancelled. Arming and
//! cancelling costs constant time, in memory that is used again.
//!
//! Steady locking allocates nothing, and writes and reads once per node and round.
