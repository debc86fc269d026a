//! What may be relied on, and on what that rests.
//!
//! The README has the table, with a test for each row. Here is the reasoning behind it.
//!
//! # Without any assumption about time
//!
//! * A release or an extension never touches another's lock: the server compares the token and acts
//!   in one step.
//! * An attempt that was given up leaves no key, because its release is ordered behind its `SET`.
//!   The exception is a process that dies with releases still owed: those keys end with their ttl.
//!
//! # With clocks that run alike
//!
//! Two clients never both hold a valid lock. Any two majorities share a node; that node gives its
//! key to one token at a time, and keeps it for the ttl by *its* clock, while the holder counts a
//! shorter time by *his*. The [drift](crate::Builder::drift) is the difference that is allowed for:
//! 1 % of the ttl, which is far more than disciplined clocks need, and 2 ms for the granularity of
//! the server's expiry. A server's clock that is *stepped* forward ends its keys early, by any
//! amount. It is seen when the node is next asked for a lock, and the node does not vote then
//! ([`Builder::watch_clocks`](crate::Builder::watch_clocks)); but who was let in before, within the
//! last second, has been let in. Slew it.
//!
//! Our own clock also runs while the machine is suspended (`CLOCK_BOOTTIME`), which
//! `std::time::Instant` does not on Linux: a lock does not look valid when a virtual machine comes
//! back after an hour.
//!
//! # With nodes that remember
//!
//! The shared node has to have its key still. It has lost it after a restart without persistence, a
//! failover, an eviction, `FLUSHALL`. One such node is enough, if it is the only one that two
//! majorities share. A node that was seen to restart is kept from voting until every lock that it may
//! have forgotten is over ([`RestartGuard`](crate::RestartGuard)); the rest is for operators, and
//! stands in the README.
//!
//! # Not at all
//!
//! * **A holder that is paused** between looking whether its [`Lock`](crate::Lock) is valid and
//!   acting acts without a lock. The gap can be made short, and never closed from here. Keep the ttl well
//!   above the time that the work takes, look at the validity right before each effect, and have
//!   the storage refuse what must not happen twice.
//! * **Who is next** is chance. There is no queue.
//! * **Other processes' lives.** A holder that dies keeps others out until its ttl has passed. A
//!   short ttl that is extended is better than a long one.
