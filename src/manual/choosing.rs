//! Choosing: whether a lock is what you need, one node or a quorum, ttl, waiting, delay, and what to do without
//! fencing tokens.
//!
//! # In short
//!
//! | your work | take |
//! | --- | --- |
//! | Twice is a waste, and does no harm: a cache that is filled, a mail digest, a scraper. | One node, or three. A ttl of a few seconds, [`keep`](crate::LockOptions::keep). |
//! | Twice would be wrong, and a store can refuse the second: rows of a database, objects with conditional writes. | Let the store refuse it ([below](#without-fencing-tokens)). A lock beside it saves work: three nodes. |
//! | Twice would be wrong, and nothing can refuse it: a printer, a payment interface without idempotency keys, a machine. | Five nodes or three, [`RestartGuard::Strict`](crate::RestartGuard::Strict), a [lock delay](#a-lock-delay), and a person who knows that it can still happen. |
//! | One job of several machines, from cron. | `shearline run` ([`command`](super::command)). |
//! | One process, or one machine. | A mutex; a file lock, or the command `flock`. Not this. |
//!
//! # When not to use a lock, or not this one
//!
//! * **The data is in one database.** A transaction, a unique key, `SELECT .. FOR UPDATE` or an advisory lock
//!   of that database ends together with the transaction or connection that does the work, and needs no clocks.
//! * **The work can be made harmless when it is done twice**, by an idempotency key or a compare-and-set. That is
//!   better than any lock with an expiry, because it is still right when the lock is not.
//! * **Exclusion must not depend on clocks or pauses.** Redlock's does, like that of every lock with an expiry: a
//!   holder that is stopped between its check and its effect acts after its end. What the assumptions are stands
//!   in [`guarantees`](super::guarantees). A system with consensus (etcd, ZooKeeper, Consul) needs fewer of them
//!   for the lock itself, and gives a number that grows with each holder; a paused holder it cannot stop
//!   either. If you already run one, use it.
//! * **The lock has to survive the loss of a majority of its nodes**, or the deletion of its keys there (the holder of
//!   a kept lock learns of it, but another can have the lock by then), or be held for days without anyone who
//!   extends it. Then it is a record in a database.
//! * **You need shared locks, semaphores, re-entrance, or an order between machines.** None of these are here.
//! * **You have a service with a failover, and no other servers.** Replicas that take the place of their master
//!   lose the newest locks. [`hosted`](super::hosted) says which services are of that kind.
//! * **Windows.** The sockets are for Unix only.
//!
//! # One node or a quorum
//!
//! | | one node | three | five |
//! | --- | --- | --- | --- |
//! | there are no locks while | it is down, or in quarantine after a restart | two are | three are |
//! | after one node has forgotten a lock and no client has noticed (`FLUSHALL`, eviction) | two clients can hold it | the same, if no more than a majority had it | the same |
//! | a slow node | slows every call | is not waited for | two are not waited for |
//! | cost of a call | one small command | three, at the same time | five, at the same time |
//! | to run | one server that you have | three servers on three machines | five |
//!
//! One node is a fair choice where a lock saves work. It takes the same path, with the same validity, waiting,
//! and restart guard. A quorum is for going on when a machine fails. It is no help against pauses of the holder. An
//! even number of nodes tolerates no more failures than one node fewer. Three databases of one server, or
//! three servers on one machine, fail together like one node.
//!
//! How nodes are set up is in [`operating`](super::operating). If several programs share the nodes, give each
//! a user of its own ([`permissions`](super::permissions)).
//!
//! # The ttl
//!
//! It is the time that others wait after your program has died, and the time that a restarted node does not
//! vote. So it should be short. It is also the time in which the nodes may be out of reach before a lock is lost. So
//! it should not be too short.
//!
//! * **Work of known length, below some seconds**: about ten times what it usually takes, and no extension.
//! * **Longer work, or of unknown length**: 10 to 30 s and [`keep`](crate::LockOptions::keep), with
//!   [`keep_for`](crate::LockOptions::keep_for) the longest time that a sane run can take
//!   ([`keeping`](super::keeping)). Stop when `at_risk` comes.
//! * **At least** ten round trips to the nodes, and 100 ms if the lock is kept.
//! * **The same longest ttl everywhere**: [`Builder::max_ttl`](crate::Builder::max_ttl).
//!
//! # How long to wait
//!
//! | you want | write |
//! | --- | --- |
//! | Skip it if another does it. | `try_lock` |
//! | Wait as long as a user waits. | [`LockOptions::wait`](crate::LockOptions::wait) with a few seconds; `lock` waits for 5 s |
//! | Do it in any case, some time. | `wait` with `Duration::MAX`, on a thread or task that may wait |
//! | Stop when the caller goes away. | A future, and drop it. |
//!
//! Waiters are woken ([`waiting`](super::waiting)), so shorter delays of [`Retry`](crate::Retry) win little, and
//! many waiters cost little. `Held` is not a failure: another is at work. `NoQuorum` is one.
//!
//! # A lock delay
//!
//! [`Builder::lock_delay`](crate::Builder::lock_delay) keeps others out for longer after a holder that did not
//! release. It is for effects that outlast the program: requests that are under way, a supervisor that needs 20 s to
//! kill. It costs that time after each crash, and nothing after a release. It covers pauses up to its length, and
//! none that are longer.
//!
//! # Which restart guard
//!
//! | [`RestartGuard`](crate::RestartGuard) | take it if |
//! | --- | --- |
//! | `Observed`, the default | The nodes have no persistence, and you set [`max_ttl`](crate::Builder::max_ttl) in every client. |
//! | `Strict` | Two holders would be worse than no holder: it also notices `FLUSHALL` and replicas that were promoted, for all clients. It needs scripts, and all clients have to use it. |
//! | `Off` | The nodes write every lock to disk before they answer (`appendfsync always`), or in tests. |
//!
//! # With fencing tokens
//!
//! A fencing token is a number that grows with every holder, so that a store can refuse the one who comes with an
//! older number. [`LockOptions::fenced`](crate::LockOptions::fenced) takes a lock that comes with one. Take it if the
//! store can compare numbers and your nodes run scripts. It has a price: each node has to be given a floor by an
//! operator once, and gives no token for a while after each restart ([why](super::safety#fencing-tokens)).
//!
//! # Without fencing tokens
//!
//! The token of a lock is random: it can be compared for equality, and not for age. What you can do:
//!
//! 1. **Write on condition.** Read the row with its version, and write with `WHERE version = ..`. Objects
//!    have `If-Match`, Redis has `WATCH`. Whoever was overtaken writes nothing. This needs no lock to be
//!    right, and the lock makes conflicts rare.
//! 2. **Claim the job in the store first**, if it has many steps. The holder writes its token into a row, and
//!    each further write asks for it:
//!
//!    ```sql
//!    UPDATE job SET holder = :token WHERE id = 42;              -- first
//!    UPDATE job SET page = 7 WHERE id = 42 AND holder = :token; -- each step; no row changed: stop
//!    ```
//!
//!    So only one of them writes at any time. It is not a fencing token: one that was paused *before* its
//!    claim takes the job from a newer holder, who then has to stop. Make steps so that the next one can go on
//!    where the last has stopped.
//! 3. **Have the store keep a number itself**: `UPDATE job SET epoch = epoch + 1 .. RETURNING epoch` as the claim,
//!    and `AND epoch = :epoch` in each step. The same as 2, with something to show in a log.
//! 4. **Where nothing can refuse a write**, look at the validity right before each effect, and leave more of it
//!    than the effect takes:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockOptions, Redlock};
//!
//! # fn pages() -> Vec<u32> { Vec::new() }
//! # fn print(_: u32) {}
//! /// No page takes longer than this.
//! const PAGE: Duration = Duration::from_secs(2);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::builder()
//!     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .lock_delay(Duration::from_secs(15)) // if a pause comes between the check and the page
//!     .max_ttl(Duration::from_secs(60))
//!     .build()?;
//! let kept = LockOptions::new(Duration::from_secs(20)).keep();
//! let lock = redlock.lock_with("printer", &kept)?;
//! for page in pages() {
//!     if lock.validity() < PAGE {
//!         return Err("the lock will not last for another page".into());
//!     }
//!     print(page);
//! }
//! lock.unlock()?;
//! # Ok(())
//! # }
//! ```
//!
//! That makes it unlikely, and not impossible, that two print at once.
