//! What each operation may answer, and what to do then.
//!
//! Every outcome has a type, so matching needs no strings. An error that rests on what the nodes said
//! holds a [`Report`](crate::Report): what each node answered, how long it took, and how many tries
//! there were. Its text says what happened, what follows from it, and what to do. No error shows a
//! credential or a whole token.
//!
//! # Every operation
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `Forked` | The handle, or the lock, belongs to the parent process. Nothing was sent. | Build a handle after the fork. |
//! | `Closed` | The handle is closed, or a thread has panicked inside it. | Build a new handle. |
//!
//! # Lock
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | [`Held`](crate::LockError::Held) | Enough nodes answered, and others hold the lock on too many of them; or this handle itself holds it ([`Report::is_held_here`](crate::Report::is_held_here)); or a caller of this handle waits for several resources, and this one stays free for it ([waiting](super::waiting)). | Try again later, or wait longer ([`LockOptions::wait`](crate::LockOptions::wait)). [`Report::held_resource`](crate::Report::held_resource) says which of several resources is held. If a call has waited, [`Report::held_for`](crate::Report::held_for) says when, [`Report::holder`](crate::Report::holder) who holds it, and [`Report::never_expires`](crate::Report::never_expires) that only an operator can help if its holder is gone. |
//! | [`NoQuorum`](crate::LockError::NoQuorum) | Too few nodes answered to know. The lock may be free. | Check the nodes that the report names. Where [`needs_operator`](crate::Report::needs_operator) says so it came at once, whatever wait was asked for: pause before you call again. |
//! | [`TooSlow`](crate::LockError::TooSlow) | The lock was granted too late to be of use and was given back, or the nodes are too far away for so short a ttl. | Ask for a longer ttl, or use faster nodes. |
//! | [`OtherCluster`](crate::LockError::OtherCluster) | A node carries the marker of another cluster ([`RestartGuard::Strict`](crate::RestartGuard::Strict)). Nothing was sent. | Make the configurations alike, or call `Redlock::reinit`. |
//! | [`Invalid`](crate::LockError::Invalid) | The call can never succeed as written. Nothing was sent. | Correct the call. |
//! | [`Saturated`](crate::LockError::Saturated) | A bound of this handle is reached. Nothing was sent. | Wait until some operations or locks end. |
//!
//! # Extend
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `Ok` | The lock is valid for longer, or for as long as before if that was longer. | |
//! | [`Expired`](crate::ExtendError::Expired) | The lock had run out by the clock of this machine. It is not revived. | Stop. Take the lock again. |
//! | [`Lost`](crate::ExtendError::Lost) | A majority says that the key is missing or belongs to another. The lock is over now. | Stop. |
//! | [`Unconfirmed`](crate::ExtendError::Unconfirmed) | Too few nodes answered. The lock stands until its old deadline. | Extend again before that. |
//! | [`Limit`](crate::ExtendError::Limit) | The extensions that the lock was taken with are used up. | End in time. |
//! | [`Invalid`](crate::ExtendError::Invalid), [`Saturated`](crate::ExtendError::Saturated) | As for a lock. The lock stands. | As for a lock. |
//! | [`Closed`](crate::ExtendError::Closed) | Also: the lock was released while it was being extended. | Stop. |
//!
//! # Confirm
//!
//! As extend, by [`ConfirmError`](crate::ConfirmError): there is no `Limit` and no `Invalid`, and `Unconfirmed` leaves the
//! lock as it was, also a lock that has no deadline yet because it comes from another clock.
//!
//! # Inspect
//!
//! `Redlock::inspect` asks every node who holds a resource, and changes nothing. The token and its expiry are read
//! in one step: by a script, or by a transaction where scripts are not run
//! ([`permissions`](super::permissions#without-scripts)).
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `Ok` ([`Inspection`](crate::Inspection)) with `is_free` | A majority has no such key. | |
//! | .. with `holder` | A majority has the same token, and keeps it for at least `valid_for`. | |
//! | .. with `holders`, and no `holder` | Clients have shared locks or permits; a majority has each that is listed. | |
//! | .. with neither | No token and no absence has a majority: several clients try, or one of them has failed. | Look at `nodes`. What failed attempts left ends with its ttl. |
//! | [`NoQuorum`](crate::InspectError::NoQuorum) | Too few nodes answered, or too many of the answers do not count. | Check the nodes that the report names. |
//! | [`Invalid`](crate::InspectError::Invalid), [`Saturated`](crate::InspectError::Saturated) | As for a lock. | As for a lock. |
//!
//! # Break
//!
//! `Redlock::break_lock` ends the lock of another, for an operator; `break_seen` ends the one that an inspection has shown,
//! and no other. Others are kept out until the keys would have ended.
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `Ok` ([`Broken`](crate::Broken)) | The holder cannot extend it any more, and the lock is free after `free_in`. | |
//! | [`NotHeld`](crate::BreakError::NotHeld) | No majority has the same token. Nothing was changed. | What failed attempts left ends with its ttl. |
//! | [`Changed`](crate::BreakError::Changed) | The holder that was seen has released it, or another has taken it. | Look again. |
//! | [`NoExpiry`](crate::BreakError::NoExpiry) | The keys never end. Nothing was changed. | [`Breaking::AtOnce`](crate::Breaking::AtOnce) deletes them. |
//! | [`TooLong`](crate::BreakError::TooLong) | The value of the keys is longer than a token, so another program made it. Nothing was changed. | If its holder has stopped, delete the key on each node (`DEL`). |
//! | [`NoQuorum`](crate::BreakError::NoQuorum) | As for an inspection. | As for an inspection. |
//! | [`Unconfirmed`](crate::BreakError::Unconfirmed) | A majority has not confirmed it: the holder may go on. | Call again when the nodes answer. What a node has done counts then. |
//! | [`Invalid`](crate::BreakError::Invalid), [`Saturated`](crate::BreakError::Saturated) | As for a lock. | As for a lock. |
//!
//! # Watch
//!
//! `Redlock::watch` returns the same inspection once, and then after each change, by
//! `Watch::next` or `Watch::changed`:
//!
//! | what happens | is told | by |
//! | --- | --- | --- |
//! | A lock is taken, extended or released, by any client; `DEL`, `FLUSHALL`; another write to the key | if a node has something else than before, or its key ends at another time (by 100 ms or more) | The nodes tell. What this handle writes it tells itself. |
//! | The end of a ttl | yes | A timer: servers tell late of it, or never. |
//! | A node goes, or comes back; its quarantine begins or ends | yes | The connection. Where too few nodes answer there is neither a holder, nor is it free: it reads "not known, because too few answers count". |
//! | Any of these where nodes do not tell ([`Waking`](crate::Waking) is `Resp2` or `Refused`) | up to 250 ms later ([`Retry::new`](crate::Retry::new)) | Every node is asked at random intervals. |
//! | A node that is connected says again what it has: it was busy, too slow or refused | up to 250 ms later | As above, until it has said it. Not where the user may not run the script: that is found at the next change. |
//! | `SWAPDB` | not before the next change | |
//! | A node or a network falls silent, and the connection stands | when the operating system ends the connection (after about 8 s) or a call finds out | |
//!
//! `next` returns nothing when its time is over, and at once when nothing will be told any more: `is_closed`
//! tells the two apart.
//!
//! A lock that is [kept](crate::LockOptions::keep) changes with each extension, so every half of its ttl.
//! No token is shown: [`Inspection::same_holder`](crate::Inspection::same_holder) tells an extension from a new
//! holder. Give each handle a label of its own ([`Builder::owner`](crate::Builder::owner)) to see which.
//!
//! A look follows 10 ms after a change, so that a change that reaches the nodes one after the other is told
//! once; up to half a second later where nodes have much to answer, as after a `FLUSHALL` with thousands of
//! watches: locks come first. Shorter states may not be told. Nothing is sent while nothing changes; a change costs each watch
//! two commands for each node (`CLIENT CACHING` and the script of `inspect`). A caller who does not wait
//! for the next change costs nothing after it. `None` means that there was no change within the
//! timeout, or that the handle is closed or of the parent process.
//!
//! `Driver::watch` tells one change as an event, and is called again for the next. A
//! `LocalRedlock` does nothing between two calls, so it has no watch: use `Redlock::watch` or `Driver`.
//!
//! Tests: `watch::a_watch_tells_each_change_and_sends_nothing_while_there_is_none`,
//! `watch::a_watch_tells_of_a_node_that_goes_and_of_its_return`,
//! `watch::servers_that_speak_only_resp2_are_looked_at_from_time_to_time`,
//! `engine::tests::watch::a_node_that_did_not_say_what_it_has_is_asked_again`,
//! `engine::tests::watch::watches_take_no_room_from_those_who_want_a_lock`,
//! `engine::tests::watch::an_answer_to_an_earlier_look_is_none_to_the_present_one`.
//!
//! # Unlock
//!
//! The releases are sent whatever the outcome is, unless it is `Forked` or `Closed`.
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `Ok` ([`Released`](crate::Released)) | A majority has deleted its key: nobody else has had it. If `lost` came just before, its last milliseconds were left. | |
//! | [`NotHeld`](crate::UnlockError::NotHeld) | The lock had been lost before. | What it protected may have overlapped with another holder's work. |
//! | [`Unconfirmed`](crate::UnlockError::Unconfirmed) | Too few nodes answered. The releases stay owed and are sent when the nodes are back. | Nothing, if the lock was still valid (`is_valid`) when you called: nobody else has had it. Otherwise as for `NotHeld`. |
//!
//! `Unconfirmed` does not say that a node is down. `unlock` waits for a node timeout (5 to 50 ms by the ttl, if
//! none is set), and on a busy machine answers may take longer: the release is sent, and done, all the same. So
//! `guard.unlock()?` ends a program now and then whose lock was valid and is free. Where that is not what you
//! want, drop the guard, which waits for nobody, set a longer [`node_timeout`](crate::Builder::node_timeout),
//! or let it pass:
//!
//! ```no_run
//! use shearline::{LockGuard, UnlockError};
//!
//! fn done(guard: LockGuard) -> Result<(), UnlockError> {
//!     let was_valid = guard.is_valid();
//!     match guard.unlock() {
//!         Err(UnlockError::Unconfirmed(_)) if was_valid => Ok(()),
//!         other => other.map(drop),
//!     }
//! }
//! ```
//!
//! # Check
//!
//! `Redlock::check` asks, without sending anything, whether a majority of the nodes would vote now.
//! Call it when the program starts. Which permissions a user has depends on the name of the lock, so
//! a missing permission shows only after the first lock was asked for.
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | [`Unusable`](crate::CheckError::Unusable) | An operator has to repair something before any lock can be taken. | Repair what the report names. |
//! | [`NoQuorum`](crate::CheckError::NoQuorum) | Too few nodes vote now. That may pass: they are down, silent, or in quarantine. | Check the nodes that the report names. |
//!
//! # Trust
//!
//! `Redlock::trust_node` returns `true` if the node was kept from voting. It changes nothing where it
//! fails, but for `NoFloor`.
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | [`UnknownNode`](crate::TrustError::UnknownNode) | No node is configured by this address. | Take the address from `Redlock::nodes`. |
//! | [`NotConnected`](crate::TrustError::NotConnected) | There is no connection to the node now. | Try again when there is one. |
//! | [`Changed`](crate::TrustError::Changed) | Another server answers there than the one you saw. | Check whether that one may have forgotten a lock. |
//! | [`NoFloor`](crate::TrustError::NoFloor) | The handle was asked for fencing tokens. The node is trusted, and may have no floor for them. | Repair what the error names, then trust the node again. |
//! | [`NoRunId`](crate::TrustError::NoRunId) | The node does not say which server it is. | Permit `INFO`. |
//! | [`OtherCluster`](crate::TrustError::OtherCluster) | The node belongs to another cluster. | Call `Redlock::reinit`. |
//!
//! # Reinit
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | [`Unready`](crate::ReinitError::Unready) | A node cannot be asked. Nothing was changed. | Check it, then call again. |
//! | [`Incomplete`](crate::ReinitError::Incomplete) | Not all nodes have answered. | Call again before any client uses the new membership. |
//! | [`NotStrict`](crate::ReinitError::NotStrict) | There are no markers without [`RestartGuard::Strict`](crate::RestartGuard::Strict). | Nothing. |
//! | [`Saturated`](crate::ReinitError::Saturated) | A bound of this handle is reached. Nothing was changed. | Call again when some operations have ended. |
//!
//! # Build
//!
//! A node that is down is not an error: the handle connects when it is back.
//!
//! | outcome | meaning | what to do |
//! | --- | --- | --- |
//! | `BuildError::Config` ([`ConfigError`](crate::ConfigError)) | A setting is wrong. | As the text says. |
//! | `BuildError::Tls` | A certificate, key or name for TLS cannot be used. | As the text says; [`tls`](super::tls). |
//! | `BuildError::Io` | The operating system refused a descriptor or random bytes. | As the text says. |
