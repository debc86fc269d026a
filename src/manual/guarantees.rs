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
//! # With nodes that say what they have forgotten
//!
//! What a client has seen of a node, no other client knows; and a `FLUSHALL` nobody sees. With
//! [`RestartGuard::Strict`](crate::RestartGuard::Strict) the nodes tell. Beside the locks stands a
//! *marker* that names the incarnation of the server, and goes where the locks go. Each question about
//! a lock carries the marker that the client knows, and the node compares the two in the same step in
//! which it does what was asked. A marker that is gone, or names another incarnation, is written anew
//! together with a *barrier*, a key that lives for as long as any lock may that was forgotten. An
//! answer counts only if the marker is the one given and there is no barrier, whoever wrote it. So
//!
//! * what is lost with the marker is known to be lost, by everybody, from the next question on;
//! * an extension or a confirmation by a node behind its barrier is not counted, also if that node was
//!   given a new copy meanwhile: otherwise the copy could vote for a lock whose other half is gone;
//! * a client that wrote a marker for shorter locks than another's, because it came first, raises it
//!   behind a longer barrier as soon as it learns of that, and does not count the node before;
//! * who counts other nodes is refused by the first node that both know.
//!
//! It does not help where a lock is lost alone and the marker is not: eviction, `DEL` by hand, and a
//! master that for a while follows a replica of its own, which had not got all its writes. The marker
//! that comes back with the data is its own, and only a client that greets it before *and* after sees
//! that its history is another. That is one more reason to have no replicas.
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
