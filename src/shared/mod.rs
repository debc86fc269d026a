//! The shared handle: one engine for all threads and tasks of a program.
//!
//! ```text
//!   lock, unlock, extend, drop ..       threads and tasks
//!          |
//!          v          the mutex: the engine, the table of callers, the roles.
//!        Core         Held for computation: no system call, no code of a user, no sleep.
//!        /  \
//!     wire   poll     Two roles. A thread takes the wire (sockets, buffers) to move bytes, and never
//!                     sleeps with it. It takes the poll to sleep on the descriptor, and holds nothing else.
//! ```
//!
//! Every section under the mutex begins with [`Shared::enter`] and ends with a drop, after which threads
//! are woken and outcomes are delivered. There is no other way in.
//!
//! * **Beginning**: a caller enters, begins its operation, and takes the poll if that is free and few
//!   operations wait. If the I/O thread serves, the caller leaves the writing to it, and wakes it if it
//!   sleeps. Otherwise the caller moves the bytes itself, if the wire is free.
//! * **Moving bytes** ([`Shared::move_bytes`]): under the mutex the engine gets what was read, and what it
//!   wants written is copied out. The system calls are made between two such sections. The last section
//!   finds that neither side has more, and puts the wire back. So a thread that finds the wire taken has
//!   nothing to do: its request will be seen. While the I/O thread serves it reads, delivers outcomes, and
//!   then writes what the callers ask for next, once for each look at the poll ([`Shared::serve_bytes`]).
//!   Measured with 64 threads: otherwise they take twice as many writes.
//! * **Sleeping** ([`Shared::sleep_in_poll`]): the thread that has the poll sleeps until a socket is ready
//!   or a timer is due, and records what is ready for the wire. A thread that waits without the poll
//!   sleeps in its slot, by its own clock.
//! * **Passing on**: a caller that has its outcome gives back the poll: to another thread while few
//!   operations wait; to the I/O thread when many do, when tasks wait, or when tasks are to be woken. The
//!   I/O thread gives it back before it calls wakers, and to a thread when only few threads have waited
//!   for a millisecond.
//! * **Resting**: a task that waits for a lock that another holds asks no node. The I/O thread does not keep
//!   the poll for it: it watches the descriptor, as while there are no calls. So a caller beside ten
//!   thousand of such tasks polls for itself. For a millisecond after such a call the I/O thread naps, and
//!   may read by so much later that the lock has become free.
//! * **Dropping** a guard writes the release at once if the wire is free, even while another thread sleeps
//!   in the poll. Otherwise the drop waits until the thread that has the wire has written it.
//!
//! | file | subject |
//! | --- | --- |
//! | `redlock`, `operator`, `guard`, `future`, `lost`, `at_risk`, `changes` | what users hold |
//! | `reply`, `slot`, `tenure` | where outcomes are delivered, and the loss of a lock is reported |
//! | `monitor`, `mutex` | a value with threads that wait for a change; a mutex with a deadline |
//! | `state` | what is under the mutex: the engine, `callers` (by `table`), and the roles |
//! | `roles` | which thread has what, and which threads are woken: why no wake-up is lost |
//! | `serve` | sections, moving bytes, sleeping in the poll, waiting for an outcome |
//! | `progress` | a drop that waits until its release is written |
//! | `io_thread`, `call`, `wakers` | the I/O thread, the tasks it wakes, and a waker that blocks |
//! | `build`, `ending` | building a handle, and its end |
//!
//! # What can go wrong, and why it does not
//!
//! * *A wake-up is lost*: which threads sleep, which were called and what is left to do are under one
//!   mutex. Each section ends with [`Roles::leave`](roles::Roles::leave), which leaves no work without a
//!   thread that does it. `tests/interleavings` walks through every order of the steps.
//! * *Two threads in the poll*: the poll is a value that is taken out of `Core`. The I/O thread that
//!   watches an idle handle waits for the descriptor without it, and takes no event.
//! * *Cancelled while it is served*: the tables are under the mutex. Either the operation is still there
//!   and is cancelled, or another thread is about to deliver its outcome. The drop of a future waits for
//!   that moment, so that it can give the lock back before the program may end.
//! * *A waker that blocks* is called without a role, and another thread takes over.
//! * *A fork*: the process id is compared before anything is locked; a child only tries the mutex.
//! * *The end of the program*: the thread that drops a guard writes the release.
//! * *A drop inside a waker*: the thread has no mutex there, and no role.
//! * *A panic* under the mutex, with the wire or with the poll closes the handle.
//! * *A thread is stopped with the mutex*: calls wait for it by their own clock. A caller that gives up
//!   then leaves behind what it has: its operation, the wire or the poll. The next thread that enters puts
//!   it back, and the I/O thread is woken for that.
//! * *A thread moves the bytes of others without end*: after sixteen rounds the I/O thread does the rest.
//!
//! # Guarantees
//!
//! * **No call waits longer than its own deadline**: a caller that is served by another thread looks at
//!   its own clock.
//! * **A lone caller pays nothing for the others**: one `getpid`, an uncontended mutex, no
//!   wake-up, one allocation for a lock and its release.
//! * **What is dropped is given back**, a guard or a future, on any thread, during a panic too, without
//!   waiting for an answer. A release is never refused for want of room.
//! * **The last handle waits for the releases**: they are written, and answered within
//!   [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout), before its drop returns. Those that
//!   silent nodes are owed then are sent in the background, for as long as the keys live.
//! * **A waker that blocks holds up its own task only**: threads go on at once, and after 5 to 10 ms another
//!   thread goes on with everything else.
//! * **A panic is reported**: if the engine panics, every call returns `Closed`, and every lock that is
//!   held is reported as lost. A panic of a waker is caught.
//! * **A forked child does no harm**: calls return `Forked`, and dropping closes descriptors and
//!   nothing else.
//!
//! # Not here
//!
//! A queue of those who wait for the same lock: that is the engine's. Only the I/O thread calls wakers.

mod at_risk;
mod build;
mod call;
mod callers;
mod changes;
mod ending;
mod future;
mod guard;
mod io_thread;
mod lost;
mod monitor;
mod mutex;
mod operator;
mod progress;
mod redlock;
mod reply;
mod roles;
mod serve;
mod slot;
mod state;
mod table;
mod tenure;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod wakers;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Mutex;
use std::thread::{self, JoinHandle, Thread, ThreadId};

use mio::{Registry, Waker};
use rustix::process::{Pid, getpid};

use self::call::Call;
use self::ending::EndStage;
use self::monitor::Monitor;
use self::mutex::TimedMutex;
use self::progress::Progress;
use self::serve::Batch;
use self::state::{Core, Left};
use self::wakers::Wakers;
use crate::config::{Config, LockOptions, Retry};
use crate::driver::{Poller, Refusal, Reporter, Wire};
use crate::engine::{Engine, usual_timeout};
use crate::time::nanos;
use crate::trace::Tracer;

pub use self::at_risk::{AtRisk, Health};
pub use self::build::Building;
pub use self::changes::Watch;
pub use self::future::Acquiring;
pub use self::guard::LockGuard;
pub use self::lost::Lost;
pub use self::redlock::Redlock;

/// How much longer than its deadline a call waits for another thread to deliver its outcome.
const GRACE: Duration = Duration::from_millis(20);

/// How much longer a caller waits for the thread that serves it than the nodes may take.
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
    /// The process in which the handle was made.
    process: Pid,
    core: TimedMutex<Core>,
    /// Where sockets are registered. Readable when something is ready.
    registry: Registry,
    /// Wakes the thread that sleeps in the poll.
    waker: Arc<Waker>,
    /// The I/O thread. `None` until it has stored itself here; until then it is awake.
    io_thread: Monitor<Option<Thread>>,
    /// Wakes the I/O thread where it watches the descriptor.
    call: Call,
    wakers: Arc<Wakers>,
    left: Monitor<Left>,
    /// Something is left for the next thread that enters.
    has_left: AtomicBool,
    /// How many watches there are.
    watches: AtomicUsize,
    progress: Progress,
    /// How far the I/O thread has come with its end, for the last handle, which waits for it.
    ending: Monitor<EndStage>,
    spare: Mutex<Batch>,
    reporter: Reporter,
    shutdown_timeout: Duration,
    spin: bool,
    /// The node timeout, if the user has fixed it.
    node_timeout: Option<Duration>,
    /// Otherwise that of the farthest node, in nanoseconds, when the I/O thread last looked.
    distant_timeout: AtomicU64,
    retry: Retry,
    tracer: Tracer,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(io_thread) = self.io_thread.take() {
            self.shared.close(io_thread);
        }
    }
}

impl Shared {
    fn new(engine: Engine, wire: Wire, poller: Poller, config: &Config) -> io::Result<Self> {
        let (registry, waker) = (poller.registry().try_clone()?, Arc::clone(wire.waker()));
        let distant = engine.distant_timeout();
        let shared = Self {
            process: getpid(),
            core: TimedMutex::new(Core::new(engine, wire, poller)),
            registry,
            waker,
            io_thread: Monitor::new(None),
            call: Call::new()?,
            wakers: Arc::new(Wakers::new()),
            left: Monitor::default(),
            has_left: AtomicBool::new(false),
            watches: AtomicUsize::new(0),
            progress: Progress::default(),
            ending: Monitor::default(),
            spare: Mutex::default(),
            reporter: Reporter::new(config),
            shutdown_timeout: config.shutdown_timeout(),
            spin: config.spin(),
            node_timeout: config.node_timeout(),
            distant_timeout: AtomicU64::new(0),
            retry: *config.retry(),
            tracer: Tracer::new(config),
        };
        shared.learn_distance(distant);
        Ok(shared)
    }

    // ----- how long a caller waits ----------------------------------------------------------

    /// Stores the node timeout that the farthest node has by its round trips.
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

    /// Returns for how long a caller without a deadline waits for a lock, by its own clock: all tries, and
    /// as long beside them as they may wait for others.
    fn patience_for_lock(&self, options: &LockOptions) -> Option<Duration> {
        let tries = options.tries_allowed(&self.retry)?;
        let waits = match tries {
            0 | 1 => Duration::ZERO,
            _ => self.retry.delay().end().saturating_mul(tries),
        };
        let rounds = self.patience(options.ttl()).saturating_mul(tries);
        Some(rounds.saturating_add(waits))
    }

    // ----- processes and threads ------------------------------------------------------------

    /// Returns `true` in a forked child. Everything here belongs to the parent then: threads that the child
    /// does not have may hold its mutexes.
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

    /// Stores that this thread is the I/O thread.
    fn set_io_thread(&self) {
        *self.io_thread.lock() = Some(thread::current());
    }

    fn unpark_io_thread(&self) {
        if let Some(thread) = &*self.io_thread.lock() {
            thread.unpark();
        }
    }

    /// Returns `true` if `id` is the id of the I/O thread.
    fn is_io_thread(&self, id: ThreadId) -> bool {
        let thread = self.io_thread.lock();
        thread.as_ref().is_some_and(|thread| thread.id() == id)
    }
}
