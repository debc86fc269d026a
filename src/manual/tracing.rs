//! Spans and events for subscribers of [`tracing`](https://docs.rs/tracing): the feature `tracing`.
//!
//! The names, levels and fields of the tables are stable: programs may filter and count by them. New ones may
//! come; none of these changes or goes without a new major version. The text of an event is for people, and
//! may change. The target of all is `shearline`.
//!
//! # Spans: one for each operation
//!
//! | span | level | fields |
//! | --- | --- | --- |
//! | `acquire` | DEBUG | `resource`, `resources`, `ttl_ms`, `outcome`, `granted`, `attempts`, `elapsed_us` |
//! | `extend` | DEBUG | `resource`, `ttl_ms`, `outcome`, `granted`, `elapsed_us` |
//! | `confirm` | DEBUG | `resource`, `outcome`, `granted`, `elapsed_us` |
//! | `release` | DEBUG | `resource`, `outcome`, `deleted`, `elapsed_us` |
//! | `inspect` | DEBUG | `resource`, `outcome`, `elapsed_us` |
//! | `break` | DEBUG | `resource`, `outcome`, `elapsed_us` |
//! | `reinit` | DEBUG | `outcome`, `elapsed_us` |
//!
//! Each call of a `Redlock`, a `LockGuard` or a `LocalRedlock` that asks nodes is such a span, and a child of
//! the span that the caller is in. That of a future begins with its first poll and is entered at each poll.
//! Dropping a guard is a `release`. A `Driver` has no spans, because its caller joins beginnings and outcomes
//! itself, and so does no `watch` and no extension of a lock that is
//! [kept](crate::LockOptions::keep).
//!
//! | field | what it is |
//! | --- | --- |
//! | `resource` | the resource ([below](#resources)); of several the first |
//! | `resources` | how many are wanted |
//! | `ttl_ms` | the ttl that was asked for, in milliseconds |
//! | `outcome` | a word, see below |
//! | `granted` | how many nodes had granted it when it was decided; of an extension and a confirmation, how many have said so up to then. Missing with an error that has no report |
//! | `deleted` | on how many nodes the key was deleted before the outcome was certain; only with `ok` |
//! | `attempts` | how many attempts there were, of an acquisition; missing with an error that has no report |
//! | `elapsed_us` | how long it took, in microseconds |
//!
//! The outcome is `ok`, or the variant of the error in small letters with underscores: `held` is
//! [`LockError::Held`](crate::LockError::Held), `no_quorum` is
//! [`LockError::NoQuorum`](crate::LockError::NoQuorum), and so on ([`outcomes`](super::outcomes)). Two more are
//! of no error: `cancelled` where a future was dropped before it completed, and `dropped` for the release of a
//! guard that was dropped, which waits for no answer.
//!
//! # Events: what no caller waits for
//!
//! | event | level | fields |
//! | --- | --- | --- |
//! | `restart` | INFO | `node` |
//! | `quarantine` | INFO | `node`, `left_ms` |
//! | `quarantine_end` | INFO | `node` |
//! | `clock_step` | WARN | `node`, `steps` |
//! | `debt` | WARN | `node`, `owed` |
//! | `debt_paid` | INFO | `node` |
//! | `loss` | WARN | `resource` |
//! | `dropped` | WARN | `events` |
//!
//! The word in the first column is the name of the event's metadata; each has a `message` besides.
//!
//! * `node` is its address as it was configured, without credentials.
//! * `restart`: another process answers at this address than before. If the
//!   [restart guard](crate::RestartGuard) is on, a `quarantine` follows: for `left_ms` milliseconds its answers
//!   do not count. One that is prolonged is reported again.
//! * `clock_step`: `steps` is how often so far. See
//!   [`Builder::watch_clocks`](crate::Builder::watch_clocks).
//! * `debt`: `owed` releases could not be sent, or were refused. Reported at 1, and each time that it has doubled,
//!   until `debt_paid`.
//! * `loss`: a lock that was not released has ended, or a majority has said so. Of several resources the first is
//!   named.
//! * `dropped`: so many events were not emitted, because the subscriber was too slow. 256 wait at most.
//!
//! They are found when the handle has something to do: the end of a quarantine of an idle handle is reported
//! with its next call. Somebody has to listen at the level INFO; who begins to listen later is told how the
//! nodes stand then.
//!
//! # Resources
//!
//! A resource is shown as 16 hexadecimal digits: a hash of 64 bits, with a secret key that each process draws.
//! So it is the same wherever the resource occurs in one process, differs between processes, and nobody can
//! find out a name by trying. Names may tell who does what; to see them, as in
//! [`escape_ascii`](slice::escape_ascii), set `Builder::trace_resources`.
//! Tokens and credentials are never shown.
//!
//! # Who is called, and when
//!
//! A subscriber is code of the program. It is called without any lock of this library, and may call the handle.
//! Spans are opened and closed by the thread of the caller. Events of a `Redlock` come from
//! its I/O thread, or from a thread that polls one of its futures, as wakers do. Like these a subscriber has to return
//! promptly: while it blocks, the I/O thread may wake no task and extend no lock. They go to the
//! subscriber that was the default of the thread that has built the handle, or, if there was none or it was
//! built by `build_async`, to the global one. Events of a
//! `LocalRedlock` and a `Driver` are emitted at the end of a call, on its
//! thread.
//!
//! While nobody listens nothing is formatted, hashed or timed.
//!
//! ```no_run
//! # #[cfg(feature = "tracing")] {
//! use shearline::Redlock;
//!
//! // Set a subscriber first: `tracing_subscriber::fmt::init()`, for example.
//! let redlock = Redlock::builder()
//!     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .trace_resources(true)
//!     .build()?;
//! # }
//! # Ok::<(), shearline::BuildError>(())
//! ```
//!
//! `examples/tracing.rs` is a whole program.
