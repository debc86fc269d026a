//! Why two clients do not hold one lock, in steps, and what stands behind each step.
//!
//! This is an argument, not a proof: each step names the assumption it rests on, and the oracle of
//! the simulator that objects if the engine does not do its part. The simulator (`tests/sim` in the
//! repository) runs whole engines, not models of them, in worlds with time of their own; what it
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
//!    was asked on a connection that is gone is answered by nobody: a yes whose connection is lost
//!    before the verdict is taken back.
//!    *Oracle*: votes. *Assumption*: 20 random bytes do not repeat.
//! 2. **Two majorities share a node.** 2q > N, and one server behind two addresses has one vote. So
//!    for two clients to hold the resource, one node must have said yes to both.
//!    *Oracle*: votes (identities are distinct). *Assumption*: all clients name the same nodes, and
//!    the nodes may be asked who they are.
//! 3. **That node had let go of the first before it took the second.** `SET NX` succeeds only where
//!    no key is. So before the second `SET` the first key had been deleted, or had expired, or was
//!    forgotten. Steps 4 to 6 take these in turn.
//! 4. **Nobody deletes a key that is not its own, and nobody its own while it believes.** A release
//!    compares the token inside the node, in one step with the deletion. So the first key was
//!    deleted by its own client, and a release ends the belief before its first byte is sent, a
//!    hand-over before the next holder begins. Of a lock that was handed over only those nodes count
//!    from then on of which the former holder had heard, because what it sends to the others has no
//!    order against what the next one sends.
//!    *Oracles*: foreign key, early release. *Assumption*: no operator deletes or shortens locks (the
//!    worlds `key-deleted` and `key-expired` show what happens otherwise), and other clients of the
//!    resource are Redlock clients too.
//! 5. **A key outlives the belief in it.** Belief ends, by the client's clock, at the time before
//!    the first byte was sent, plus ttl, minus drift. The node counts the same ttl from when it
//!    *executed* the command, which is later. The two clocks may disagree: the key still outlives
//!    the belief as long as (1 + the fastest node) / (1 - the slowest client) is at most 1 / 0.99,
//!    and 2 ms pay for whole milliseconds. An extension raises the expiry on a majority and never
//!    lowers it, and the new end counts from before *its* first byte; it counts only if its
//!    majority answered within the old validity, so there was no gap for another to slip into.
//!    *Oracles*: votes (each expiry against the true time at which the belief ends), validity,
//!    exclusion. *Assumption*: clocks drift apart by less than the allowance, and do not jump; a
//!    suspended machine's clock goes on (`CLOCK_BOOTTIME`). The worlds `drift-just-inside` and
//!    `drift-just-outside`, `suspended-boottime` and `suspended-monotonic` show both sides.
//! 6. **A node that may have forgotten a key that somebody trusts does not vote.** This is the known
//!    hole of the algorithm: a node that restarts without its memory can vote a second time. A
//!    client asks every node at each greeting who it is; if that has changed, or cannot be told, or
//!    the node refused as one does that loads or follows another, or it is young when it is met, its
//!    answers count for nothing until every lock that it may have forgotten is over
//!    ([`RestartGuard`](crate::RestartGuard)). That holds for extensions and for the majority that
//!    permits a new copy too: two holders were measured where it did not.
//!    *Oracles*: votes (no vote of a node whose quarantine, as the world knows it, is not over, or that
//!    had no marker or a barrier when it voted), exclusion. *Assumption*: the guard is on, knows the longest ttl of all clients, and every client
//!    has it. Otherwise nodes write every change to disk before they answer, or stay away for one
//!    ttl. The worlds `restart-without-memory`, `restart-before-ttl`, `restart-after-ttl`,
//!    `restart-with-memory` and `restart-guarded` show the hole and the three ways to close it.
//!    With [`RestartGuard::Strict`](crate::RestartGuard::Strict) the node itself keeps the time out, by a
//!    barrier that every question checks where it is executed; of the assumptions remains that all
//!    clients use it, and that the marker is lost where a lock is. The worlds `flushed-observed` and
//!    `flushed-strict` show the difference, and so do those of promotions (`promoted-`) and of masters
//!    that follow another and come back (`followed-`); `barrier-deleted` shows what it rests on.
//! 7. **Who holds is told in time.** The clock is read after the last answer was parsed, and again
//!    before a lock is handed to its caller; a lock without validity left is released instead. The
//!    loss is told by a timer, one tick before the end, when every node is silent too.
//!    *Oracles*: validity (no lock is told that is over), told, settling. *Assumption*: what is done
//!    under the lock looks at its validity.
//!
//! # What is not safety, and watched as closely
//!
//! * Whatever an ended attempt may have left is released, in order behind its `SET` or first thing
//!   on a later connection, and only an answer, or an expiry that is known, ends what is owed.
//!   *Oracles*: orphans, order, expiry.
//! * Nothing is sent after its time. *Oracle*: late.
//! * Every call ends by its deadline, and no outcome says what the nodes did not do.
//!   *Oracles*: settling, outcome.
//! * Who is silent is not asked, and in the end given up. *Oracle*: silence.
//! * The nodes are not asked more often than the work needs, waiters look again after random rests,
//!   and what is open stays within its limits. *Oracles*: storm, starvation, memory.
//! * When the faults end, everything that was begun is over within a time that can be computed, and
//!   every lock can be taken. *Oracle*: liveness.
//!
//! # How it is known that the oracles see
//!
//! Some ninety guards of the engine can be taken out one at a time, in a build of their own
//! (`src/mutant.rs`): a quorum off by one, a validity that counts from the answer, a vote kept over a
//! reconnection, a debt forgotten. The same holds for what a driver could do wrong: a clock that stops
//! in a suspend, a clock read too early, a polite close, a release that overtakes its `SET`. For each
//! of them an oracle objects, or the engine itself panics, within the histories of the ordinary test
//! run; and each oracle is heard objecting while all others are silent. The table is printed by
//!
//! ```text
//! RUSTFLAGS='--cfg shearline_mutants' CARGO_TARGET_DIR=target/mutants \
//!   cargo test --profile sim --features embedded --test sim mutants -- --nocapture
//! ```
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
//!   accepted, unless the server had not heard of its end.
//! * Bytes that arrive changed, and servers that answer what they should not.
//! * With [`RestartGuard::Strict`](crate::RestartGuard::Strict): `reinit`, which has stories in
//!   `engine::tests::strict`; servers that show that they lose nothing in a restart; nodes that forget
//!   while clients of another cluster are about, but for exclusion (the world `other-nodes`); and
//!   different longest ttls beyond what is promised for them (all nodes know the longest, and fewer than
//!   a majority forget).
//! * Confirmations, and the watch over the clocks of the nodes: they have stories of their own
//!   (`engine::tests::confirm`, `it::clocks`).
//! * More than seven nodes, more than eight clients, more than some minutes.
