//! Why two clients do not hold one lock, in steps, and what stands behind each step.
//!
//! This is an argument, not a proof: each step names the assumption it rests on, and the oracle of
//! the simulator that would object if the engine did not do its part. The simulator
//! (`tests/sim`) runs whole engines, not models of them, in worlds with time of their own; what it
//! does not cover stands at the end.
//!
//! # What is claimed
//!
//! At no true instant do two clients believe that they hold one resource. A client believes from
//! the return of the call that gave it the lock, until it releases, drops or hands the lock over,
//! is told of the loss, or its own clock shows the end of the validity, whichever comes first.
//!
//! # The steps
//!
//! 1. **A majority said yes, to this very attempt.** A lock comes into being only from q of the
//!    *configured* nodes, each of which executed `SET key token NX PX ttl` with the token of this
//!    attempt after the attempt began. Tokens are never used twice, so an answer cannot belong to
//!    another attempt; answers are matched to commands by their order on one connection, and what
//!    was asked on a connection that is gone is answered by nobody. *Oracle*: votes.
//!    *Assumption*: 20 random bytes do not repeat.
//! 2. **Two majorities share a node.** 2q > N, and one server behind two addresses has one vote. So
//!    for two clients to hold the resource, one node must have said yes to both.
//!    *Oracle*: votes (identities distinct).
//! 3. **That node had let go of the first before it took the second.** `SET NX` succeeds only where
//!    no key is. So before the second `SET` the first key had been deleted, or had expired, or was
//!    forgotten. Steps 4 to 6 take these in turn.
//! 4. **Nobody deletes a key that is not its own.** A release compares the token inside the node, in
//!    one step with the deletion. *Oracle*: foreign key. *Assumption*: no operator deletes or
//!    shortens locks, and other clients of the resource are Redlock clients too.
//!    So the first key was deleted by its own client, which no longer believes: a release ends the
//!    belief before its first byte is sent, and a hand-over before the next holder begins.
//! 5. **A key outlives the belief in it.** Belief ends, by the client's clock, at the time before
//!    the first byte was sent, plus ttl, minus drift. The node counts the same ttl from when it
//!    *executed* the command, which is later. The two clocks may disagree: the key still outlives
//!    the belief as long as (1 + the fastest node) / (1 - the slowest client) is at most 1 / 0.99,
//!    and 2 ms pay for whole milliseconds. An extension raises the expiry on a majority and never
//!    lowers it, and the new end counts from before *its* first byte; it counts only if its
//!    majority answered within the old validity, so there was no gap for another to slip into.
//!    *Oracles*: votes (each expiry against true time), exclusion. *Assumption*: clocks drift apart
//!    by less than the allowance, and do not jump; a suspended machine's clock goes on
//!    (`CLOCK_BOOTTIME`). The pair of worlds in `tests/sim/assumptions.rs` shows both sides of the
//!    margin.
//! 6. **No node forgets a key that somebody still trusts.** This is the known hole of the algorithm: a node that
//!    restarts without its memory can vote a second time. It holds if nodes write every change to
//!    disk before they answer, or stay away for one ttl after a crash. *Assumption* today, because
//!    the guard of DESIGN 3.4 is not built yet; `assumptions.rs` shows that without it two holders
//!    are found, and with a delayed restart none.
//! 7. **Who holds is told in time.** The clock is read after the last answer was parsed, and again
//!    before a lock is handed to its caller; a lock without validity left is released instead. The
//!    loss is told by a timer, one tick before the end, when every node is silent too.
//!    *Oracles*: told, settling.
//!
//! What follows is not safety, but is watched as closely: whatever an ended attempt may have left
//! is released, in order behind its `SET` or on a later connection (*orphans*); every call ends by
//! its deadline (*settling*); and when the faults end, everything that was begun is over within a
//! time that can be computed (*liveness*).
//!
//! # What no lock with a timeout can do
//!
//! A client may stop between its last look at the clock and what it does next. Then it acts
//! although its belief is over, and nobody can know. Only the protected resource can refuse it, by
//! a number that grows with every holder.
//!
//! # What the simulator does not cover
//!
//! * The driver: sockets, `mio`, threads, the faces. It has a model of them, in their order of
//!   doing things; the real ones are tested on real servers (`tests/it`).
//! * Real servers: its nodes are the embedded store, which is held against `redis-server` command
//!   by command (`it::embedded`), behind a model of the server's loop and its kernel that follows
//!   what was measured.
//! * Networks that let a later connection overtake an earlier one between the same two machines:
//!   what a connection that was given up still delivers, it delivers before a later one is
//!   accepted.
//! * Bytes that arrive changed.
//! * More than seven nodes, more than eight clients, more than a few minutes.
