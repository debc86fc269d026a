//! Several holders at a time: shared locks and permits.
//!
//! # Shared locks
//!
//! Many clients may read a document at once, but nobody may read it while one changes it. Readers take a shared lock,
//! the writer takes the lock:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::Redlock;
//!
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let ttl = Duration::from_secs(10);
//!
//! let reading = redlock.lock_shared("document:7", ttl)?; // Beside other readers.
//! reading.unlock()?;
//!
//! let writing = redlock.lock("document:7", ttl)?; // Alone.
//! let reading = writing.downgrade()?; // Readers may come; no other writer has been here.
//! reading.unlock()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * The writer's lock is a plain one. Locks of other libraries exclude readers, and readers exclude them.
//! * A shared lock has all that a lock has: it is extended, kept, confirmed and reported as lost in the same way.
//! * While a writer waits, readers who come later wait behind it. After 2.2 s, and then each time after twice as long, all
//!   of them pass it together, within a quarter of a second. So if readers hold their locks for less than two seconds, a
//!   writer and a reader wait for each other for about 2.5 s at most. Where readers hold longer, each side waits for up to
//!   twice as long, and a writer for up to four times.
//! * [`downgrade`](crate::LockGuard::downgrade) turns a lock into a shared one. There is no way back: two readers who
//!   both wanted to write would wait for each other.
//!
//! With a [fencing token](crate::LockOptions::fenced) a reader gets a number too. The store then keeps two: the largest
//! number `r` of a read, and the largest number `w` of a write. It accepts a read whose number is at least `w`, and a
//! write whose number is at least `w` and at least `r`.
//!
//! # Permits
//!
//! At most four programs may use a GPU at once, or eight may call a service:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockOptions, Redlock};
//!
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let kept = LockOptions::new(Duration::from_secs(10)).keep();
//! let permit = redlock.permit_with("gpu", 4, &kept)?;
//! println!("on GPU {}", permit.slot()); // 0 to 3: it is ours alone.
//! permit.unlock()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * Permits are numbered slots. A client holds a permit when a majority of the nodes has given it the same slot. So
//!   there are never more holders than permits, and a slot never has two.
//! * All clients of a resource name the same number of permits. A client that names another number is refused while
//!   others hold permits: its error says so.
//! * Callers of one handle are served in the order in which they came. Programs do not take turns yet: one with more
//!   callers than permits can keep others waiting until their calls end.
//! * A lock and permits on one resource exclude each other, and so do shared locks and permits.
//!
//! # What the nodes keep
//!
//! The holders stand in a sorted set under the name of the lock: the token of each with the time of its end, by the
//! clock of that node. The set expires with its last holder. `shearline inspect` and `shearline status` show all of
//! them. The nodes have to run scripts, and the user needs permission for the commands in
//! [`permissions`](super::permissions).
