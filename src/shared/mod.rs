//! The shared handle: one engine for all threads and tasks of a program.
//!
//! ```text
//!   lock, unlock, extend, drop ..       threads and tasks
//!          |
//!          v          the mutex: the engine, who waits, who has which role.
//!        Core         Held to compute: no system call, no code of a user, no sleep.
//!        /  \
//!     wire   poll     Two roles. The wire (sockets, buffers) is had to move bytes and never asleep.
//!                     The poll is had to sleep on the descriptor, with nothing else in hand.
//! ```
//!
//! Every section under the mutex begins with [`Shared::enter`] and ends with a drop, which wakes and
//! tells behind it. Everybody goes this way: there is no other way in.
//!
//! * **Starting**: a caller enters, starts its operation and takes the poll if that is free and few wait.
//!   If the I/O thread serves, it leaves the writing to that thread and wakes it if it sleeps. Otherwise it
//!   moves the bytes itself, if the wire is free.
//! * **Moving bytes** ([`Shared::move_bytes`]): under the mutex what was read is handed to the engine
//!   and what is to be written is copied out; the system calls are made between two such sections. It ends
//!   with a section in which neither side has more, and in that the wire is put back. So a thread
//!   that finds the wire taken has nothing to do: its request is seen. The I/O thread, while it serves,
//!   reads, tells, and then writes what those who were told ask for, once for each look at the poll
//!   ([`Shared::serve_bytes`]). Measured with 64 threads: otherwise they take twice as many writes.
//! * **Sleeping** ([`Shared::sleep_in_poll`]): the thread that has the poll sleeps until something is ready
//!   or a timer is due; what it brings is noted for the wire. A thread that waits without the poll sleeps
//!   in its slot, by its own clock.
//! * **Passing on**: a caller whose outcome is there gives back the poll, to another thread while few
//!   wait, to the I/O thread when many do, when tasks wait, and when tasks are to be woken. The I/O thread
//!   gives it back before it calls wakers, and to a thread when only few threads have waited for a
//!   millisecond.
//! * **Dropping** a guard writes the release at once if the wire is free, also while another thread sleeps in the poll.
//!   Otherwise the drop waits the moment until the thread that has the wire has written it.
//!
//! | file | subject |
//! | --- | --- |
//! | `redlock`, `guard`, `future`, `lost` | what users hold |
//! | `reply`, `slot`, `watch` | where outcomes are put, and the loss of a lock |
//! | `mutex` | a mutex that is waited for by a clock |
//! | `state` | what stands under it: the engine, `callers` (by `table`), and the roles |
//! | `roles` | who has what, and who has to be woken: why no wake-up is lost |
//! | `serve` | sections, moving bytes, sleeping in the poll, waiting for an outcome |
//! | `progress` | a drop that waits until its release is written |
//! | `io_thread`, `call`, `wakers` | the I/O thread, the tasks it wakes, and a waker that blocks |
//! | `build`, `ending` | making a handle, and its end |
//!
//! # What was tried on this drawing
//!
//! * *A wake-up that is lost*: who sleeps, who was called and what is left stand under one mutex, and each
//!   section ends with [`Roles::leave`](roles::Roles::leave), which leaves nothing without somebody who sees
//!   to it. `tests/interleavings` walks through every
//!   order of the steps.
//! * *Two threads in the poll*: it is a value that is taken out of `Core`. The I/O thread that watches
//!   an idle handle waits for the descriptor without it, and takes no event.
//! * *Cancelled while it is served*: the tables are under the mutex. Either the operation is still there
//!   and is cancelled, or its outcome is on its way to a slot that is abandoned, and is given back.
//! * *A waker that blocks* is called with no role held, and another thread takes over.
//! * *A fork*: the process id is compared before anything is locked; a child only tries the mutex.
//! * *The end of the program*: what is dropped is written by the thread that drops it.
//! * *A drop inside a waker*: no mutex is held there, and no role.
//! * *A panic* under the mutex, with the wire or with the poll closes the handle.
//! * *A thread that is stopped with the mutex*: calls wait for it by their own clock. One that has the
//!   wire or the poll has to put it back, and is late by as long as that thread is stopped.
//! * *A thread that moves the bytes of others for ever*: after sixteen rounds the rest is left to the
//!   I/O thread.
//!
//! # Guarantees
//!
//! * **Nobody waits longer than his own deadline**: a caller that is served by another thread looks at
//!   his own clock.
//! * **A lone caller pays nothing for the others**: one `getpid`, an uncontended mutex, no
//!   wake-up, one allocation for a lock and its release.
//! * **What is dropped is given back**, a guard or a future, on any thread, in a panic too, without
//!   waiting for an answer. A release is never refused for want of room.
//! * **The last handle waits for the releases**: they are written, and answered within
//!   [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout), before its drop returns. What
//!   silent nodes are owed then is paid in the background, for as long as the keys live.
//! * **A waker that blocks holds up its own task only**: threads go on at once, and after 5 to 10 ms another
//!   thread goes on with everything else.
//! * **A panic is told**: if the engine breaks, every call ends with `Closed`,
//!   and every lock that is held is told as lost. A panic of a waker is caught.
//! * **A forked child does no harm**: calls end with `Forked`, and dropping closes descriptors and
//!   nothing else.
//!
//! # Not here
//!
//! A queue of waiters: those who wait for the same lock try again after random delays, each by
//! itself. Wakers are called by the I/O thread alone.

mod build;
mod call;
mod callers;
mod ending;
mod future;
mod guard;
mod io_thread;
mod lost;
mod mutex;
mod progress;
mod redlock;
mod reply;
mod roles;
mod serve;
mod slot;
mod state;
mod table;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod wakers;
mod watch;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread, ThreadId};

use mio::{Registry, Waker};
use rustix::process::{Pid, getpid};

use self::call::Call;
use self::callers::Told;
use self::ending::Ending;
use self::mutex::TimedMutex;
use self::progress::Progress;
use self::state::Core;
use self::wakers::Wakers;
use crate::config::{Config, LockOptions, Retry};
use crate::driver::{Net, Poller, Refusal, Reporter, Wire};
use crate::engine::{Engine, RoundId, usual_timeout};
use crate::time::nanos;

pub use self::build::Building;
pub use self::future::Acquiring;
pub use self::guard::LockGuard;
pub use self::lost::Lost;
pub use self::redlock::Redlock;

/// How much longer than its deadline a call waits for another thread to tell its outcome.
const GRACE: Duration = Duration::from_millis(20);

/// How much longer than its nodes may take a caller waits for the thread that serves it.
const OWN_GRACE: Duration = Duration::from_millis(100);

/// What all clones, guards and futures share. Its end is the end of the I/O thread.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    io_thread: Option<JoinHandle<()>>,
}

/// What the I/O thread and all handles share.
#[derive(Debug)]
struct Shared {
    process: Pid,
    core: TimedMutex<Core>,
    /// Where sockets are registered. Readable when something is ready.
    registry: Registry,
    /// Wakes the thread that sleeps in the poll.
    waker: Arc<Waker>,
    /// The I/O thread. Before it has said who it is, it is awake.
    io_thread: Mutex<Option<Thread>>,
    /// Wakes the I/O thread where it watches the descriptor.
    call: Call,
    wakers: Arc<Wakers>,
    /// Operations to be cancelled, whose threads have met another one that was stopped with the mutex.
    given_up: Mutex<Vec<RoundId>>,
    progress: Progress,
    ending: Ending,
    /// The room of what was told last.
    spare: Mutex<Vec<Told>>,
    reporter: Reporter,
    shutdown_timeout: Duration,
    spin: bool,
    /// The node timeout, if the user has fixed it.
    node_timeout: Option<Duration>,
    /// What it is for the farthest node otherwise, in nanoseconds, when the I/O thread last looked.
    distant_timeout: AtomicU64,
    retry: Retry,
}

impl Handle {
    fn new(shared: Arc<Shared>, io_thread: JoinHandle<()>) -> Self {
        let io_thread = Some(io_thread);
        Self { shared, io_thread }
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(io_thread) = self.io_thread.take() {
            self.shared.close(io_thread);
        }
    }
}

impl Shared {
    fn new(engine: Engine, net: Net, poller: Poller, config: &Config) -> io::Result<Self> {
        let (registry, waker) = (poller.registry().try_clone()?, Arc::clone(net.waker()));
        let distant = engine.distant_timeout();
        let shared = Self {
            process: getpid(),
            core: TimedMutex::new(Core::new(engine, Wire::new(net), poller)),
            registry,
            waker,
            io_thread: Mutex::new(None),
            call: Call::new()?,
            wakers: Arc::new(Wakers::new()),
            given_up: Mutex::new(Vec::new()),
            progress: Progress::default(),
            ending: Ending::default(),
            spare: Mutex::new(Vec::new()),
            reporter: Reporter::new(config),
            shutdown_timeout: config.shutdown_timeout(),
            spin: config.spin(),
            node_timeout: config.node_timeout(),
            distant_timeout: AtomicU64::new(0),
            retry: *config.retry(),
        };
        shared.learn_distance(distant);
        Ok(shared)
    }

    // ----- how long a caller waits ----------------------------------------------------------

    /// Remembers the node timeout that the farthest node has by its round trips.
    fn learn_distance(&self, timeout: Duration) {
        self.distant_timeout
            .store(nanos(timeout), Ordering::Relaxed);
    }

    /// Returns for how long a caller waits, by its own clock, for an answer about a lock of `ttl`:
    /// twice the node timeout, and some time for the thread that serves. It is longer than any
    /// question takes while that thread is scheduled.
    fn patience(&self, ttl: Duration) -> Duration {
        let distant = Duration::from_nanos(self.distant_timeout.load(Ordering::Relaxed));
        let timeout = self
            .node_timeout
            .unwrap_or_else(|| usual_timeout(ttl).max(distant));
        timeout.saturating_mul(2).saturating_add(OWN_GRACE)
    }

    /// Returns for how long a caller waits for a lock that it did not set a deadline for: all tries
    /// and the delays between them.
    fn patience_for_lock(&self, options: &LockOptions) -> Option<Duration> {
        let tries = options.tries_allowed(&self.retry)?;
        let delays = self
            .retry
            .delay()
            .end()
            .saturating_mul(tries.saturating_sub(1));
        let rounds = self.patience(options.ttl()).saturating_mul(tries);
        Some(rounds.saturating_add(delays))
    }

    // ----- processes and threads ------------------------------------------------------------

    /// The process in which the handle was made.
    fn process(&self) -> Pid {
        self.process
    }

    /// Whether this is a forked child. Everything here belongs to the parent then: its mutexes may
    /// be held for ever by threads that the child does not have.
    fn is_foreign(&self) -> bool {
        getpid() != self.process
    }

    /// Refuses a call in a forked child.
    fn check_process(&self) -> Result<(), Refusal> {
        match self.is_foreign() {
            true => Err(Refusal::Forked),
            false => Ok(()),
        }
    }

    /// This thread is the I/O thread from here on.
    fn set_io_thread(&self) {
        *self.lock_io_thread() = Some(thread::current());
    }

    fn unpark_io_thread(&self) {
        if let Some(thread) = &*self.lock_io_thread() {
            thread.unpark();
        }
    }

    /// Returns `true` if `id` is that of the I/O thread.
    fn is_io_thread(&self, id: ThreadId) -> bool {
        let thread = self.lock_io_thread();
        thread.as_ref().is_some_and(|thread| thread.id() == id)
    }

    fn lock_io_thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.io_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
