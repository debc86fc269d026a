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
//! # The argument in short
//!
//! A belief stands on one *round*: the acquisition, or the latest extension or confirmation that
//! succeeded. In that round a majority of the nodes said that they have the token. Every one of
//! these nodes keeps it for as long as the belief lasts. So **while a client believes, its token is on
//! a majority of the nodes.** A node has one token for a resource, and two majorities share a node.
//! So no two clients believe at once.
//!
//! How a token came to a node does not matter for that: by the grant of the first round, or by a copy
//! that was sent later. What matters is that the node had it when it was asked, and keeps it.
//!
//! The steps below say why each part of this holds. A node that forgets its keys is the exception, and
//! step 6 says what is done about it.
//!
//! # The steps
//!
//! 1. **A majority said yes, to this very question.** A belief begins, or is prolonged, only when q of
//!    the *configured* nodes have said yes in one round. To `SET key token NX PX ttl` a yes means: no
//!    key was there, and now the token is. To an extension or a confirmation it means: the token is
//!    there. No two attempts share a token (step 11), so an answer cannot be about another attempt.
//!    Answers are matched to commands by their order on one connection, and what was asked on a
//!    connection that is gone is answered by nobody: a yes whose connection is lost before the verdict
//!    is taken back. Each of the q nodes had the token at an instant between the first byte of the
//!    round and its verdict, and the belief begins after the verdict.
//!    *Oracle*: votes. *Assumption*: 20 random bytes do not repeat.
//! 2. **Two majorities share a node.** 2q > N, and one server behind two addresses has one vote. So
//!    for two clients to believe at one instant, one node must have said yes to both, in the rounds on
//!    which these beliefs stand.
//!    *Oracle*: votes (identities are distinct). *Assumption*: all clients name the same nodes, and
//!    the nodes may be asked who they are.
//! 3. **That node let go of one token before it had the other.** A key has one value, and `SET NX`
//!    succeeds only where no key is. Call the client *first* whose token the node had first. Before
//!    the node had the second token, the first key had been deleted, or had expired, or was
//!    forgotten. Steps 4 to 6 take these in turn, and show that the belief of the first client had
//!    ended by then, or that the yes to the second did not count.
//! 4. **Nobody deletes a key that is not its own, and nobody its own while it believes.** A release
//!    compares the token inside the node, in one step with the deletion. So the first key was
//!    deleted by its own client, and a release ends the belief before its first byte is sent, a
//!    hand-over before the next holder begins. Of a lock that was handed over only those nodes count
//!    from then on of which the former holder had heard, because what it sends to the others has no
//!    order against what the next one sends. A node where the answer to a second `SET` of the token
//!    was lost does not count either: the former holder releases it.
//!    *Oracles*: foreign key, early release. *Assumption*: no operator deletes or shortens locks (the
//!    worlds `key-deleted` and `key-expired` show what happens otherwise), and other clients of the
//!    resource are Redlock clients too.
//! 5. **A key outlives the belief in it.** Belief ends, by the client's clock, at the time before
//!    the first byte of its round was sent, plus ttl, minus drift. The node counts the same ttl from
//!    when it *executed* the command, which is later. The two clocks may disagree: the key still
//!    outlives the belief as long as (1 + the fastest node) / (1 - the slowest client) is at most
//!    1 / 0.99, and 2 ms pay for whole milliseconds.
//!    *Oracles*: votes (each expiry against the true time at which the belief ends), validity,
//!    exclusion. *Assumption*: clocks drift apart by less than the allowance, and do not jump; a
//!    suspended machine's clock goes on (`CLOCK_BOOTTIME`). The worlds `drift-just-inside` and
//!    `drift-just-outside`, `suspended-boottime` and `suspended-monotonic` show both sides.
//!
//!    The allowance is the user's: [`Builder::drift`](crate::Builder::drift) may be zero. Then nothing
//!    pays for a node whose clock runs faster than the client's, and the claim holds only where no
//!    node's does. What is lost is small and real: with a difference of 50 parts in a million and a
//!    ttl of 10 s, a holder that uses its whole validity may share the last half millisecond with
//!    the next one. Quarantines, and debts that time ends, are shorter by the same allowance.
//! 6. **A node that may have forgotten a key that somebody trusts does not vote.** This is the known
//!    hole of the algorithm: a node that restarts without its memory can vote a second time. A
//!    client asks every node at each handshake who it is; if that has changed, or cannot be told, or
//!    the node refused as one does that loads or follows another, or it is young when it is met, its
//!    answers count for nothing until every lock that it may have forgotten is over
//!    ([`RestartGuard`](crate::RestartGuard)). "Every lock" is meant by the longest ttl, counted from
//!    after the restart: the belief that stood on the forgotten key had at most so long to go.
//!    If it was prolonged in the meantime, it stands on a later round, in which this node's answer did
//!    not count. That is why the quarantine is for extensions, confirmations and the majority that
//!    permits a new copy too: a node that forgot one client's token and was given a copy of another's
//!    says truly that it has it, and is still missing from the first one's majority. Two holders were
//!    measured where it was counted.
//!    *Oracles*: votes (no vote of a node whose quarantine, as the world knows it, is not over, or that
//!    had no marker or a barrier when it voted), exclusion. *Assumption*: the guard is on, knows the longest ttl of all clients, and every client
//!    has it. Otherwise nodes write every change to disk before they answer, or stay away for one
//!    ttl. The worlds `restart-without-memory`, `restart-before-ttl`, `restart-after-ttl`,
//!    `restart-with-memory` and `restart-guarded` show the hole and the three ways to close it.
//!
//!    How young a node is, it says itself, and it reckons that by its *wall clock*: the time now less
//!    the time at which it was started. A clock that is stepped forward in between makes it look
//!    older than it is, and a client that meets it for the first time counts it too early. So clocks
//!    are to be right before a server starts, and slewed from then on. A client that was connected
//!    before does not need the uptime, because it has seen another `run_id`.
//!
//!    With [`RestartGuard::Strict`](crate::RestartGuard::Strict) the node itself keeps the time out, by a
//!    barrier that every question checks where it is executed, and no uptime is read; of the
//!    assumptions remains that all clients use it, and that the marker is lost where a lock is. The
//!    worlds `flushed-observed` and `flushed-strict` show the difference, and so do those of
//!    promotions (`promoted-`) and of masters that follow another and come back (`followed-`);
//!    `barrier-deleted` shows what it rests on.
//! 7. **An extension leaves no gap.** A yes to it means that the token is there and expires no earlier
//!    than the new ttl says; it never lowers an expiry. Its new end counts from before *its* first
//!    byte, so steps 1 to 5 hold for it word for word. And it counts only if its majority answered
//!    within the old validity, by the earliest end that is known by then. So at no instant between the
//!    two rounds was the client without a belief, and nobody else can have held the lock in between.
//!    *Oracles*: votes, validity.
//! 8. **A copy takes nothing from anybody.** A node that answered an extension with "no such key" may be
//!    sent the token again. Three things make that safe. It is a `SET NX`: where another's key is, it
//!    does nothing. Its answer is no vote: a belief stands on that node only after a later round has
//!    asked it (step 1), and its quarantine, if it has one, is over (step 6). And it is sent only when
//!    a majority *without* that node has confirmed the token, in a round that was begun after the loss
//!    was seen, while the lock is held and no release of it is queued. So the lock needs no copy to be
//!    held, and copies never bring together a majority for a lock that had lost it. A copy expires
//!    with the others, and a release goes behind it. It may meet an earlier copy whose answer was
//!    lost; the denial then says nothing, and the node is still sent the release.
//!    *Oracles*: copy, orphans, exclusion.
//! 9. **A confirmation believes only what a majority keeps.** Each node says for how many whole
//!    milliseconds the key still lives. Servers round that down: a key lives at least so long from
//!    then on (measured on Redis 7.0 and Valkey 9.1). Sorted from the longest, the q-th answer is the time for which q nodes keep
//!    the token; the next longer one would be kept by fewer than q. The belief then ends at the time
//!    before the first byte of the question, plus that time, less its drift: steps 1 and 5 with what
//!    is left in place of the ttl. The drift is that of what is left, because only while that runs can
//!    the clocks part. It is never more than the longest ttl that is known, also for a key without an
//!    expiry: for longer no quarantine would wait.
//!
//!    So nothing of a confirmation depends on what was known before. That is why it may give a lock an
//!    earlier end (somebody has shortened its keys: the belief ends earlier, which is always safe),
//!    and why it is the only thing that gives an end to a lock that was read from another clock, from
//!    another machine or another boot: its old end is a number of a clock that is not ours, and counts
//!    for nothing. It revives nothing: a lock whose end is known, and over, is not asked about.
//!    *Oracles*: votes, validity, told.
//! 10. **Who holds is told in time.** The clock is read after the last answer was parsed, and again
//!    before a lock is handed to its caller; a lock without validity left is released instead. The
//!    loss is told by a timer, one tick before the end, when every node is silent too.
//!    *Oracles*: validity (no lock is told that is over), told, settling. *Assumption*: what is done
//!    under the lock looks at its validity.
//! 11. **No two attempts share a token.** 20 bytes for each come from a generator (ChaCha) that the
//!    operating system seeds. The child of a fork is refused
//!    ([`LockError::Forked`](crate::LockError::Forked)). A machine that is cloned, or restored from a
//!    snapshot, has a copy of the generator, and both would draw the same tokens: the release of one
//!    would delete the lock of the other. So fresh bytes of the operating system are added before each
//!    connection is opened. A connection that one copy has gone on using does not work in another, and
//!    without a connection no lock is taken.
//!    *Assumption*: the system's own generator differs in the copy. Linux sees to that from 5.18 on,
//!    where the hypervisor tells it of the copy (`vmgenid`). An [`Engine`](crate::engine::Engine)
//!    without the driver is given its bytes by its user
//!    ([`reseed`](crate::engine::Engine::reseed)).
//!
//!    *Not promised*: locks that were held when the snapshot was taken. The copy believes in them too,
//!    with the same token, and its clock may not have seen the time that has passed. Nor is anything
//!    promised of copies that go on using one connection together. End the program before its machine
//!    is copied, or start it anew in the copy; where that cannot be had, the protected resource has to
//!    refuse the older holder.
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
//! The guards that safety rests on have names in the code (`src/guards.rs`) and can be taken out one at
//! a time: a vote kept over a reconnection, a validity that nobody checks. What else can be wrong in the
//! engine is broken by patches (`tests/breakages`): a quorum off by one, a validity that counts from the
//! answer, a debt forgotten. Together they are more than a hundred, in a build of their own. The same
//! holds for what a driver could do wrong: a clock that stops
//! in a suspend, a clock read too early, a polite close, a release that overtakes its `SET`. For each
//! of them an oracle objects, or the engine itself panics, within the histories of the ordinary test
//! run; and each oracle is heard objecting while all others are silent. Those that its worlds do not
//! reach are noticed by the stories of the engine (`engine::tests`), run with them. The table is printed
//! by
//!
//! ```text
//! bash tests/breakages.sh
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
//! * Copies of a machine: `driver::tests::two_copies_of_a_process_draw_different_tokens`.
//! * Bytes that arrive changed, and servers that answer what they should not.
//! * With [`RestartGuard::Strict`](crate::RestartGuard::Strict): `reinit`, which has stories in
//!   `engine::tests::strict`; servers that show that they lose nothing in a restart; nodes that forget
//!   while clients of another cluster are about, but for exclusion (the world `other-nodes`); and
//!   different longest ttls beyond what is promised for them (all nodes know the longest, and fewer than
//!   a majority forget).
//! * More than seven nodes, more than eight clients, more than some minutes.
