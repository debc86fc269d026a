//! Why two clients do not hold one lock, in steps, and what each step rests on.
//!
//! This is an argument, not a proof: each step names the assumption it rests on, and the oracle of
//! the simulator that objects if the engine does not do its part. The simulator (`tests/sim` in the
//! repository) runs whole engines, not models of them, in worlds with virtual time. The end of this
//! page says what it does not cover.
//!
//! # What is claimed
//!
//! At no true instant do two clients believe that they hold one resource. A client believes from
//! the return of the call that gave it the lock, until it releases, drops or hands the lock over,
//! until the loss is reported to it, or until its own clock shows the end of the validity, whichever
//! comes first.
//!
//! # The argument in short
//!
//! A belief rests on one *round*: the acquisition, or the latest extension or confirmation that
//! succeeded. In that round a majority of the nodes said that they have the token. Every one of
//! these nodes keeps it for as long as the belief lasts. So **while a client believes, its token is on
//! a majority of the nodes.** A node has one token for a resource, and two majorities share a node.
//! So no two clients believe at once.
//!
//! It does not matter how the token came to the node: by the grant of the first round, or by a copy
//! that was sent later. The node had it when it was asked, and keeps it; that is enough.
//!
//! The steps below say why each part of this holds. A node that forgets its keys is the exception, and
//! step 6 says what is done about it.
//!
//! # The steps
//!
//! 1. **A majority said yes, to this very question.** A belief begins, or is prolonged, only when q
//!    of the *configured* nodes have said yes in one round. To `SET key token NX PX ttl` a yes means:
//!    no key was there, and now the token is. To an extension or a confirmation it means: the token
//!    is there. No two attempts share a token (step 11), so an answer cannot be about another
//!    attempt. Answers are matched to commands by their order on one connection, so a command on a
//!    lost connection gets no answer: a yes whose connection is lost before the verdict is taken
//!    back. Each of the q nodes had the token at an instant between the first byte of the round and
//!    its verdict, and the belief begins after the verdict. *Oracle*: votes. *Assumption*: 20 random
//!    bytes do not repeat.
//! 2. **Two majorities share a node.** 2q > N, and one server behind two addresses has one vote. So
//!    for two clients to believe at one instant, one node must have said yes to both, in the rounds on
//!    which these beliefs rest.
//!    *Oracle*: votes (identities are distinct). *Assumption*: all clients name the same nodes, and
//!    the nodes may be asked for their identity.
//! 3. **That node had lost one token before it had the other.** A key has one value, and `SET NX`
//!    succeeds only where no key is. Call the client *first* whose token the node had first. Before
//!    the node had the second token, the first key had been deleted, or had expired, or was
//!    forgotten. Steps 4 to 6 take these in turn, and show that the belief of the first client had
//!    ended by then, or that the yes to the second did not count.
//! 4. **No client deletes the key of another, nor its own while it believes.** A release compares the
//!    token inside the node, in one step with the deletion. So the first key was deleted by its own
//!    client. A release ends the belief before its first byte is sent, and a hand-over ends it before
//!    the next holder begins. After a hand-over only those nodes count from which the former holder
//!    had an answer, because its commands to the others have no order against those of the next
//!    holder. A node where the answer to a second `SET` of the token was lost does not count either:
//!    the former holder releases it. *Oracles*: foreign key, early release. *Assumption*: no operator
//!    deletes or shortens locks (the worlds `key-deleted` and `key-expired` show what happens
//!    otherwise; the holder of a [kept](super::keeping) lock learns of a deletion two round trips later), and other
//!    clients of the resource are Redlock clients too.
//! 5. **A key outlives the belief in it.** Belief ends, by the client's clock, at the time before
//!    the first byte of its round was sent, plus ttl, minus drift. The node counts the same ttl from
//!    when it *executed* the command, which is later. The two clocks may disagree: the key still
//!    outlives the belief as long as (1 + the fastest node) / (1 - the slowest client) is at most
//!    1 / 0.99, and 2 ms pay for whole milliseconds.
//!
//!    A clock that is *set* spends the same allowance. The key outlives the belief if, from its execution on, the
//!    node's clock never gains more on the client's than the drift of the ttl, by rate and by steps together. So
//!    of the default 1 %, 0.2 % is for the rate (four times what a kernel slews), 0.8 % for the sum of all steps
//!    while the key lives, and the 2 ms stay for whole milliseconds. Steps back let the key live longer.
//!    A holder cannot see a step that comes after its round; the *next* client has to. It measures each node's clock
//!    against its own by `TIME`, in front of its requests, once a second at most: since any earlier answer the difference may
//!    have grown by 0.2 % of the time between, and by 0.8 % of T in all, where T is the shortest ttl that this client was asked
//!    for. Take a lock of ttl L, at least T, with a key that was executed at u. While the next client counts the
//!    node at t, the node's clock has gained since u no more than 0.2 % of (t - u) and 0.8 % of T, and so no more than
//!    1 % of L: the key is still there, or its ttl is over. If the clock has gained more, the node does
//!    not vote (step 6), and what it gains later is counted from there: all locks from before are over when it votes
//!    again. A client that asks for less than before looks at what it has measured: it asks for the time at once if that is
//!    too much now. A lock that is kept has the drift of its whole ttl taken off also where its last extension asks for
//!    less. And while a node's clock is known to be set, the holder counts on it for eleven twelfths of the ttl: so fast do
//!    time daemons slew at most.
//!
//!    *What this does not cover*: a step within the last second, which is asked for at most once a second;
//!    one that is not larger than the allowance and the round trips that measure it; one that was taken back before it was
//!    measured, or came before this client had asked the node for the first time; after a pause of more than two seconds in
//!    which this client asked the node for nothing, 0.05 % of the pause (1.8 s after an hour); up
//!    to 10 ms, also where 0.8 % of T is less; and locks that are shorter than T, of a client that asks for less than
//!    every other client of its resource.
//!    *Oracles*: votes (each expiry against the true time at which the belief ends), validity,
//!    exclusion. *Assumption*: clocks drift apart and are set by less than the allowance, or the excess is detected; a
//!    suspended machine's clock goes on (`CLOCK_BOOTTIME`). The worlds `drift-just-inside` and
//!    `drift-just-outside`, `steps-just-inside` and `steps-just-outside`, `suspended-boottime` and
//!    `suspended-monotonic` show both sides.
//!
//!    The allowance is the user's: [`Builder::drift`](crate::Builder::drift) may be zero. Then nothing
//!    allows for a node whose clock runs faster than the client's, and the claim holds only where no
//!    node's does. The loss is small but real: with a difference of 50 parts in a million and a
//!    ttl of 10 s, a holder that uses its whole validity may share the last half millisecond with
//!    the next one. Quarantines, and debts that time ends, are shorter by the same allowance.
//! 6. **A node that may have forgotten a key that a client trusts does not vote.** This is the known
//!    hole of the algorithm: a node that restarts without its memory can vote a second time. A client
//!    asks every node for its identity at each handshake. If that has changed or cannot be read, or
//!    the node answered like one that is loading or follows another, or it has only just started when
//!    the client first connects, its answers count for nothing until every lock that it may have
//!    forgotten is over ([`RestartGuard`](crate::RestartGuard)). That is the longest ttl, counted
//!    from after the restart: the belief that rested on the forgotten key had at most so long to go.
//!    If it was prolonged in the meantime, it rests on a later round, in which this node's answer did
//!    not count. That is why the quarantine is for extensions, confirmations and the majority that
//!    permits a new copy too: a node that forgot one client's token and was given a copy of another's
//!    says correctly that it has the copy, and is still missing from the first one's majority. Where
//!    it was counted, two holders were measured. *Oracles*: votes (no vote of a node whose
//!    quarantine, as the world knows it, is not over, or that had no marker or a barrier when it
//!    voted), exclusion. *Assumption*: the guard is on, knows the longest ttl of all clients, and
//!    every client has it. Otherwise nodes write every change to disk before they answer, or stay
//!    away for one ttl. The worlds `restart-without-memory`, `restart-before-ttl`,
//!    `restart-after-ttl`, `restart-with-memory` and `restart-guarded` show the hole and the three
//!    ways to close it.
//!
//!    A node whose clock was *stepped* has forgotten nothing but keys that the step has ended, so less is needed. Its
//!    answer to a new request does not count. But a yes to an extension or confirmation counts if the node had said yes
//!    for this token while its answers counted, and has not lacked it since: then the token was there before the
//!    step, so no token of another was, and the step has ended none. A copy that it got later does not count. (Where
//!    the token came within the second before a step was detected, it came as in step 5: not covered. The holder goes
//!    on with it, and a holder before it finds out at its next extension, or at the end of its validity.) *Oracle*:
//!    votes. This is how kept locks stand while clocks are slewed by 8 %, as time daemons do.
//!
//!    The uptime of a node comes from the node, by its *wall clock*: the time now less the time of its
//!    start. A clock that is stepped forward in between makes it look older than it is, and a client
//!    that connects for the first time counts it too early. So clocks must be right before a server
//!    starts, and slewed from then on. A client that was connected before does not need the uptime,
//!    because it has seen another `run_id`.
//!
//!    With [`RestartGuard::Strict`](crate::RestartGuard::Strict) the node itself keeps the
//!    quarantine, by a barrier that every request checks where it is executed, and no uptime is read.
//!    Two assumptions remain: all clients use it, and the marker is lost where a lock is. The worlds
//!    `flushed-observed` and `flushed-strict` show the difference, and so do those of promotions
//!    (`promoted-`) and of masters that follow another and come back (`followed-`); `barrier-deleted`
//!    shows what it rests on.
//! 7. **An extension leaves no gap.** A yes to it means that the token is there and expires no
//!    earlier than the new ttl says; it never lowers an expiry. Its new end counts from before *its*
//!    first byte, so steps 1 to 5 hold for it word for word. And it counts only if its majority
//!    answered within the old validity, by the earliest end that is known by then. So at no instant
//!    between the two rounds was the client without a belief, and no other client can have held the
//!    lock in between. *Oracles*: votes, validity.
//! 8. **A copy takes no lock from another client.** A node that answered an extension with "no such
//!    key" may be sent the token again. Three things make that safe. It is a `SET NX`: where
//!    another's key is, it does nothing. Its answer is no vote: a belief stands on that node only
//!    after a later round has asked it (step 1), and its quarantine, if it has one, is over (step 6).
//!    And it is sent only when a majority *without* that node has confirmed the token, in a round
//!    that began after the loss was seen, while the lock is held and no release of it is queued. So
//!    the lock needs no copy to be held, and copies never bring together a majority for a lock that
//!    had lost it. A copy expires with the others, and a release follows it. It may meet an earlier
//!    copy whose answer was lost; the denial then says nothing, and the node is still sent the
//!    release. *Oracles*: copy, orphans, exclusion.
//! 9. **A confirmation gives no more time than a majority keeps.** Each node says for how many whole
//!    milliseconds the key still lives. Servers round that down: a key lives at least so long from
//!    then on (measured on Redis 7.0 and Valkey 9.1). Sorted from the longest, the q-th answer is the
//!    time for which q nodes keep the token; fewer than q keep it any longer. The belief then ends at
//!    the time before the first byte of the request, plus that time, less the drift: steps 1 and 5
//!    with the remaining time in place of the ttl. The drift is that of the whole ttl (or of the remaining time, if
//!    that is more), because the node's clock may be set by all that is allowed for just after the question. A
//!    confirmation never gives more than the longest ttl that is known, also for a key without an expiry: no quarantine would wait for
//!    longer.
//!
//!    So nothing in a confirmation depends on what was known before. That is why it may give a lock an
//!    earlier end (if its keys were shortened: the belief ends earlier, which is always safe), and why
//!    it is the only way to give an end to a lock that comes from another clock, from another machine
//!    or another boot: its old end is a time of a clock that is not ours, and counts for nothing. A
//!    confirmation revives no lock: nothing is asked about a lock whose end is known and over.
//!    *Oracles*: votes, validity, told.
//! 10. **A holder learns of the end in time.** The clock is read after the last answer was parsed,
//!    and again before a lock is handed to its caller; a lock without validity left is released
//!    instead. A timer reports the loss one tick before the end, also when every node is silent.
//!    *Oracles*: validity (no lock is returned that is over), told, settling. *Assumption*: the work
//!    under the lock checks its validity.
//! 11. **No two attempts share a token.** 20 bytes for each come from a generator (ChaCha) that the
//!    operating system seeds. The child of a fork is refused
//!    ([`LockError::Forked`](crate::LockError::Forked)). A machine that is cloned, or restored from a
//!    snapshot, has a copy of the generator, and both would draw the same tokens: the release of one
//!    would delete the lock of the other. So fresh bytes of the operating system are mixed in before
//!    each connection is opened. A connection that one copy goes on using does not work in another,
//!    and without a connection no lock is taken. *Assumption*: the system's own generator differs in
//!    the copy. Linux ensures that from 5.18 on, if the hypervisor reports the copy (`vmgenid`). An
//!    [`Engine`](crate::engine::Engine) without the driver is given its bytes by its user
//!    ([`reseed`](crate::engine::Engine::reseed)).
//!
//!    *Not promised*: locks that were held when the snapshot was taken. The copy believes in them
//!    too, with the same token, and its clock may not have seen the time that has passed. Nor is
//!    anything promised for copies that go on using one connection together. End the program before
//!    its machine is copied, or start it again in the copy. If you cannot, the protected resource has
//!    to refuse the older holder.
//!
//! # What the simulator checks besides safety
//!
//! * Every key that an ended attempt may have left is released, behind its `SET` on the same
//!   connection or first on a later one, and only an answer, or an expiry that is known, ends the
//!   debt. *Oracles*: orphans, order, expiry.
//! * Nothing is sent after its time. *Oracle*: late.
//! * Every call ends by its deadline, and no outcome says what the nodes did not do.
//!   *Oracles*: settling, outcome.
//! * A node keeps all names of a lock on several resources, or none. *Oracle*: set. Callers that name them in
//!   different orders all get them. *Oracle*: liveness. Both in the worlds `sets` and, with a lock delay and with
//!   each restart guard, `guarded-sets`.
//! * A lock that its handle keeps does not end while a majority could have extended it, and is not extended after
//!   its holder has let it go. *Oracles*: kept, late. In the worlds `keeping`, `outages` and, where that begins when
//!   the lock is held or was handed over, `kept-later`.
//! * A silent node is not asked, and its connection is given up in the end. *Oracle*: silence.
//! * The nodes are not asked more often than the work needs, only one waiter of a handle asks,
//!   and open operations stay within their limits. *Oracles*: storm, starvation, memory.
//! * After the faults, every operation ends within a time that can be computed, and every lock can be
//!   taken. *Oracle*: liveness.
//!
//! # How the oracles are tested
//!
//! The guards that safety rests on have names in the code (`src/guards.rs`) and can be taken out one at
//! a time: a vote kept over a reconnection, a validity that is not checked. Everything else that can be
//! wrong in the engine is broken by patches (`tests/breakages`): a quorum off by one, a validity that
//! counts from the answer, a debt forgotten. Together these are more than a hundred, in a build of
//! their own. The same holds for what a driver could do wrong: a clock that stops in a suspend, a clock
//! read too early, a connection closed with FIN, a release that overtakes its `SET`. For each of them an
//! oracle objects, or the engine itself panics, in a history that is on record (`tests/breakages/heard.tsv`);
//! and each oracle objects at least once while all others are silent. The stories of the engine
//! (`engine::tests`) notice those that the worlds do not reach. The table is printed by
//!
//! ```text
//! bash tests/breakages.sh
//! ```
//!
//! # What no lock with a timeout can do
//!
//! A client may stop between its last look at the clock and what it does next. Then it acts
//! although its belief is over, and no client and no node can know. Only the protected resource can
//! refuse it, by a number that grows with every holder: a *fencing token*
//! ([`LockOptions::fenced`](crate::LockOptions::fenced)).
//!
//! Martin Kleppmann wrote in 2016 that a lock with a timeout is unsafe without such a number, and that Redlock had
//! none. He also asked what the lock is still good for where the store compares numbers. Salvatore Sanfilippo
//! answered that the random token of Redlock is enough for a store that can compare and set, and that few stores
//! can do more. Both are right about most programs: the lock saves work that would be done twice, the number saves
//! the data when that happens all the same.
//!
//! # Fencing tokens
//!
//! **Claim.** Of two locks on one resource that were taken with tokens, the later one has the larger token. No clock
//! is part of the argument: keys may end at any instant.
//!
//! Each node counts for each resource. A node that grants the lock raises its counter first, in the same script,
//! by one at least, and returns it. A node *confirms* a number by having returned just that one, or by raising its
//! counter to it later, in a script that looks whether the key still holds the token of the lock. The number that a
//! majority has confirmed first is the token, and then the lock is taken. Where the first majority has returned different
//! numbers, those with smaller ones are asked to raise their counters to the largest.
//!
//! 1. **Each node that confirms had the key while its counter was as high as the token.** Either the grant made it
//!    so, or the second script did, which looked for the key. (`engine::operation::acquire::fencing`)
//! 2. **Two majorities share a node**, which has one key for the resource at a time. Say that it had the key of the
//!    lock A first, and B's later.
//! 3. **So B has the larger token.** The counter of that node was as high as A's token while it had A's key (1),
//!    therefore before it granted B. Its grant of B returned more than that. B's token is at least what each node
//!    that confirms it has returned: one that returned more than the token does not confirm, and its number does not
//!    matter.
//! 4. **What a node has counted it does not forget.** A counter ends a day after it was raised
//!    ([`Builder::counter_ttl`](crate::Builder::counter_ttl)). One that is missing reads as the *floor* of the node
//!    (`shearline:floor`), which every raise of a counter raises too. So memory does not grow with the
//!    number of names that were ever used.
//! 5. **A node that may have lost its counters does not count.** The floor names the `run_id` of the server that has
//!    written it. Where it is missing, or names another, the script refuses: also for a process that has never seen
//!    the loss. A server that restarts is refused whether it has its data or not.
//! 6. **A node that is repaired has a floor as high as every token that it confirmed before.** The next section says
//!    why. So steps 3 and 4 hold for it again.
//!
//! *Not promised*: that a lock is had. An attempt may lose its keys before it is confirmed, and is tried again.
//!
//! *Searched*: this engine in every order of events of a small world (`tests/sim/search`): three nodes, two clients, three
//! attempts, keys that end at any time, a connection that is lost with its messages, a node that loses its data and is
//! repaired. No token was wrong in any of 8,811,426 states, and 26,847,041 with nodes that had counted differently
//! before. Each step above that is left out on purpose gives a wrong token there within 40,000 states.
//!
//! ## Repair
//!
//! A node that has no floor is repaired from the others, by any handle that was refused a token there
//! (`engine::operation::repair`). The handle has the node write a random number, the *mark*, in place of its floor, with
//! the `run_id`; or finds the mark of another handle. It waits for as long as a quarantine lasts: the longest ttl and the
//! drift. Then it asks the others for their floors. When N - q + 1 of them have one, the largest becomes the floor of the
//! node, by a script that looks whether the mark still stands. That is two others of three nodes, three of five.
//!
//! Say that the node has confirmed a token T, and lost that. Why is the new floor at least T?
//!
//! 1. **The loss was before the mark was first seen**, and nothing was confirmed since: a node with a mark refuses. If it
//!    loses its data once more, the mark is gone or names another `run_id`, and the wait begins again.
//! 2. **All that counts an answer from before the loss is decided when the others are asked.** An attempt is over when
//!    the ttl of its lock has passed, before the wait has. So each node that confirms T has done so by then, or never
//!    does. This step alone needs clocks: those of the client that takes the lock and of the one that repairs, apart by
//!    less than the drift; and that no client has a longer ttl than the one that repairs knows of
//!    ([`Builder::max_ttl`](crate::Builder::max_ttl), where the marker of `Strict` does not tell).
//! 3. **One of those that are asked has confirmed T too.** At least q - 1 of the N - 1 others have. Those that are not
//!    asked are (N - 1) - (N - q + 1) = q - 2: too few to be all of them.
//! 4. **It still knows T.** Its floor is at least T from when it confirmed (4 above). If it has lost that meanwhile, it
//!    has no floor and is not asked, or was repaired itself, with a floor of at least T, by this very argument: it is
//!    about the earlier of two repairs first.
//!
//! A counter that came back from a disk reads as the floor with which the repair has begun, if it is lower. The number in
//! a floor that came back from a disk is never lowered.
//!
//! Handles that repair one node at once do no harm: they wait for the same mark, each from when it has seen it, and the
//! first write takes it away. One that ends in between leaves the mark, and the next one that sees it begins to wait. A
//! handle that lives for less than the longest ttl repairs nothing.
//!
//! With fewer than N - q + 1 others nothing is repaired, because the only other node that has confirmed T may be
//! missing. If these are only away the node waits for them
//! ([`Unusable::InRepair`](crate::Unusable::InRepair)). If a majority has no floor, as after a power failure, nobody
//! knows, and an operator has to vouch for all ([`Unusable::NoFloor`](crate::Unusable::NoFloor)). With one node that is
//! so after each restart; plain locks are never affected.
//!
//! A floor is given by an operator (`Redlock::trust_node`, `trust_nodes`, on a handle that was asked for a token
//! before: one that uses none leaves no floor), who states by that that no older token is
//! larger than the floor: the largest token and floor that this handle has seen, and a second more than the present
//! time. Tokens are proposed from the time in microseconds, and a node takes a proposal, and the time of an operator,
//! for a second more than its own clock at most. So the statement holds where no clock of a client or node was set
//! back, or is behind those of the others, by more than the node was
//! away. A node that was trusted wrongly gives tokens that are too small, and nobody notices. One that has not said
//! that it wrote its floor is named ([`TrustError::NoFloor`](crate::TrustError::NoFloor)).
//!
//! A counter that is no number, and a floor that no script could have written, read as missing. The largest token is 9 * 10^15, which
//! the time reaches in 2255. A node that has given it refuses
//! ([`Unusable::NoMoreTokens`](crate::Unusable::NoMoreTokens)).
//!
//! | guard | what is lost is noticed by | a node gives tokens again | what tokens rest on besides |
//! | --- | --- | --- | --- |
//! | [`Off`](crate::RestartGuard::Off) | the floor | when it is repaired, which waits also with this guard | that nobody trusts a node wrongly; that no server goes on under its `run_id` with an older data set that has its floor; in a repair, the longest ttl and the drift |
//! | [`Observed`](crate::RestartGuard::Observed) | the floor, and the identity | when it is repaired and no handle's quarantine is left | the same |
//! | [`Strict`](crate::RestartGuard::Strict) | the floor and the marker, in one script | when it is repaired and its barrier is over | the same, but the longest ttl is that of all clients |
//!
//! With `Off` two clients may hold one lock after a loss, as without tokens: but the tokens tell who came later.
//!
//! ## What the store has to do
//!
//! It keeps the largest token that it has seen, and refuses a write with a smaller one. It has to compare and write in
//! one step, and to keep the number as durably as the data.
//!
//! **A read that a write is computed from has to bring the token too**, and the store to keep it, if it is the largest,
//! before it answers. Otherwise the store hears of a new holder only when he writes: what an older one writes
//! between that read and that write is accepted, and then overwritten by a value that was computed without it. Writes
//! that replace everything need no such read.
//!
//! * SQL: a column `token BIGINT NOT NULL DEFAULT 0` in each row that is protected (a token has up to 53 bits, and
//!   `NULL` compares with nothing), and `UPDATE account SET value = ?, token = ? WHERE id = ? AND token <= ?`. No row
//!   changed: stale, or there is no such row. A row that may be new: `INSERT INTO account (id, value, token) VALUES
//!   (?, ?, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value, token = excluded.token WHERE account.token <=
//!   excluded.token`. Every writer has to come with a token. What is computed from a row is read after the lock was
//!   taken, by `UPDATE account SET token = ? WHERE id = ? AND token <= ? RETURNING value` (no row: stale), and written as
//!   above. Several rows: one transaction, rolled back if one of them has refused.
//! * An object store with conditional writes: the token stands in the object. Read it with its version, compare,
//!   write on condition that the version is the same. What is computed from it is computed from that same reading.
//! * Redis: a script that compares and writes, and one that compares, keeps the token and reads. Numbers of Lua are
//!   exact for every token.
//!
//! The write and the comparison come before the effect: a mail that was sent is not taken back by a row that did not
//! change. `examples/fenced_store` is such a store, with a worker that is stopped for longer than its lock lasts.
//!
//! ## Two views of it
//!
//! **Martin Kleppmann** ("How to do distributed locking", 2016) asks whether a lock is there to save work or to keep
//! data right, and finds Redlock too much for the first. For the second it is not enough: a holder that is paused
//! after its last look at the clock writes when somebody else has the lock, and only a number that grows, checked by
//! the store, stops that. He adds that Redlock had no such number, and that its safety rests on bounds of delays,
//! pauses and clocks.
//!
//! **Salvatore Sanfilippo** ("Is Redlock safe?", 2016), whose algorithm it is, answers that a client looks at the clock
//! after it has its majority, so that slow messages cost it the lock and nothing else. A pause after that look is a
//! problem of every lock that ends by itself. And a store that can compare numbers in one step could compare random
//! tokens as well, and hardly needs the lock then.
//!
//! Both are right about pauses, which is why there are tokens here, and why validity is computed so that it errs early.
//! A store that refuses stale holders keeps the data right by itself. What the lock does then is to save work:
//! without it, all compute and all but one are refused.
//!
//! # What the simulator does not cover
//!
//! * The driver: sockets, `mio`, threads, the faces. It has a model of them that does the same things
//!   in the same order; the real ones are tested on real servers (`tests/it`).
//! * Real servers: its nodes are the embedded store, which is held against `redis-server` command
//!   by command (`it::embedded`), behind a model of the server's loop and its kernel that follows
//!   what was measured.
//! * Networks that let a later connection overtake an earlier one between the same two machines: in
//!   the simulator a connection that was given up delivers its last bytes before a later one is
//!   accepted, unless its end had not reached the server.
//! * Copies of a machine: `driver::tests::two_copies_of_a_process_draw_different_tokens`.
//! * Bytes that are changed on the way, and servers that give wrong answers.
//! * With [`RestartGuard::Strict`](crate::RestartGuard::Strict): `reinit`, which has stories in
//!   `engine::tests::strict`; servers that show that they lose nothing in a restart; nodes that
//!   forget while there are clients of another cluster (but exclusion is checked, in the world
//!   `other-nodes`); and different longest ttls beyond what is promised for them (all nodes know the
//!   longest, and fewer than a majority forget).
//! * More than seven nodes, more than eight clients, more than some minutes.
