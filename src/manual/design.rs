//! The layers, and why they are as they are.
//!
//! ```text
//!   Redlock, LocalRedlock     blocking calls and futures; guards
//!   Driver                    sockets, TLS, names, the clock: the only part that waits
//!   engine                    the algorithm over N nodes; no I/O, no clock, no thread
//!     node                    one connection: handshake, commands in flight, releases that are owed
//!     quorum                  votes in, verdict out; a lock needs a proof of majority
//!     timer                   a hierarchical timing wheel
//!     resp                    bytes to values, commands to bytes
//! ```
//!
//! Each layer knows those below it and none above, and can be read and tested alone.
//! `Driver`, `engine` and `resp` can also be used alone.
//!
//! **Why no I/O in the engine.** Its inputs are bytes and the time, its outputs bytes and events;
//! the same inputs and seed give the same outputs. So the whole engine runs in a simulated world,
//! with faults that no real network repeats, and a recorded run is a bug report. It is also why one
//! algorithm serves blocking calls, futures and foreign event loops.
//!
//! **Why no async runtime.** A lock is a few small packets. A caller that waits for them on its own
//! thread pays for no switch between threads; a future has to be woken, and one thread of ours, or
//! the loop of the host, is enough for that.
//!
//! **Why connections are kept.** A server runs the commands that it was sent, also after the
//! connection was closed. Closing the connection to a slow node does not undo the `SET`: the release
//! has to follow it on the same connection, or on a later one. So a slow node keeps its connection,
//! and callers do not wait for it.
//!
//! **Why a proof.** Only the tally makes a proof of a majority, when it has counted
//! one, and without it no [`Lock`](crate::Lock) can be made and no validity can grow. So the compiler
//! checks that votes were counted. (A lock from bytes is no exception: it keeps the end that it had.)
//!
//! **Why a wheel.** Every command in flight has a timeout, and nearly all are cancelled. Arming and
//! cancelling cost constant time, and their memory is reused.
//!
//! Steady locking allocates nothing, and writes and reads once per node and round.
