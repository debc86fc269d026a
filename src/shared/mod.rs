//! The shared handle: one engine for all threads and tasks of a program.
//!
//! ```text
//!   lock, unlock, extend, drop ..       threads and tasks
//!          |
//!          v          the mutex: the engine, the table of callers, the roles.
//!        Core         Held for computation: no system call, no code of a user, no sleep.
//!        /  \
//!     wire  poller    Two roles. A thread takes the wire (sockets, buffers) to move bytes, and never
//!                     sleeps with it. It takes the poller to sleep on the descriptor, and holds nothing else.
//! ```
//!
//! The parts of the handle:
//!
//! * **Engine and callers** are under one mutex, which threads hold for computation only. Every section under the mutex
//!   begins with [`Shared::enter`]. Dropping the section unlocks the mutex and wakes threads. The section that decides
//!   an outcome also puts the outcome into the slot of the caller. At any time, either an operation is open, or its
//!   outcome is in the slot.
//! * **The wire** is a role. A thread that has bytes to move tries to take the wire ([`Shared::move_bytes`]). Under the
//!   mutex, received bytes go to the engine, and bytes to send are copied out of the engine. The thread makes its
//!   system calls without the mutex, between two sections. When neither the engine nor the sockets have more bytes, the
//!   thread puts the wire back. A thread that finds the wire taken has nothing to do: the thread with the wire handles
//!   all requests before it puts the wire back.
//! * **The poller** is a role too. The thread that has the poller sleeps until a socket is ready or a timer is due
//!   ([`Shared::sleep_in_poll`]). After the sleep, the thread records for the wire which sockets are ready. A thread
//!   that waits without the poller sleeps until its slot wakes it.
//!
//! How callers share the engine and the two roles:
//!
//! * **Beginning**: a caller locks the mutex, begins its operation, and takes the poller if the poller is free and few
//!   operations wait. If the I/O thread serves, the caller leaves the writing to the I/O thread, and wakes that thread
//!   if it sleeps. If the I/O thread does not serve, the caller moves the bytes itself.
//! * **Serving**: while many threads or any tasks wait, the I/O thread has the poller. Each time it has polled the
//!   sockets, the I/O thread reads once, wakes callers, and writes their next requests ([`Moves::Once`](serve::Moves)).
//! * **Gathering**: after the I/O thread has woken many callers together, it waits for their next requests, until no
//!   more requests arrive. The woken callers only [note](notes::Notes) their requests, and [wake one
//!   another](relay::Relay). All noted requests begin in one section, and share one write to each node.
//! * **Passing on**: a caller that has its outcome passes the poller to another waiting thread, or to the I/O thread if
//!   many operations wait. The I/O thread gives the poller back after a millisecond with few waiting threads.
//! * **Waking**: the thread that decides an outcome wakes the thread that waits for it. Wakers are user code. The I/O
//!   thread, or a thread that polls another task, calls the wakers without the mutex and without a role, so a waker may
//!   call the handle. A waker must return promptly, as `std` requires. While a waker blocks, waiting threads poll the
//!   sockets themselves, and no other task is woken. Meanwhile, a thread that waits for the loss of a lock relies on
//!   its own clock.
//! * **Resting**: a task that waits for another holder's lock sends nothing to the nodes. While tasks rest, the I/O
//!   thread does not keep the poller. Instead, it waits without the poller until a socket is ready, as it does between
//!   calls. So another caller can poll the sockets itself, even if ten thousand tasks rest. After a call, the I/O
//!   thread naps for a millisecond, so it may notice a free lock a millisecond late.
//! * **Dropping** a guard writes the release immediately if the wire is free, even while another thread sleeps in the
//!   poller. If the wire is taken, the drop waits until the thread with the wire has written the release.
//!
//! | file | subject |
//! | --- | --- |
//! | `redlock`, `operator`, `guard`, `with_lock`, `future`, `lost`, `at_risk`, `changes`, `election` | public types |
//! | `reply`, `slot`, `tenure`, `signal` | where outcomes are delivered, and the loss of a lock is reported |
//! | `notes`, `relay`, `gathering` | requests of many callers that begin together, and how these callers are woken |
//! | `monitor` | a value with threads that wait for a change |
//! | `state` | the state under the mutex: the engine, `callers` (by `table`), and the roles |
//! | `roles` | which thread has which role, and which threads are woken: why no wake-up is lost |
//! | `serve` | sections, moving bytes, sleeping in the poller, waiting for an outcome |
//! | `io_thread`, `call` | the I/O thread, and how it is called |
//! | `build`, `ending` | building a handle, and its end |
//!
//! # What can go wrong, and why it does not
//!
//! * *No wake-up is lost*: one mutex protects the records of sleeping threads, of called threads and of the remaining
//!   work. Each section ends with [`Roles::leave`](roles::Roles::leave), which ensures that a thread does the remaining
//!   work. `tests/interleavings` checks every interleaving of the threads.
//! * *Only one thread uses the poller*: a thread takes the poller out of `Core`, so no other thread can have it. While
//!   the handle is idle, the I/O thread waits for ready sockets without the poller, and reads no events.
//! * *An operation can be cancelled at any time*: under the mutex, either the operation is still open and is cancelled,
//!   or its outcome is in the slot and the lock is released.
//! * *A fork is noticed*: each call checks for a fork before it locks anything. A forked child never waits for the
//!   mutex.
//! * *No noted request is forgotten*: a caller can note a request only while the I/O thread is about to gather. Every
//!   section begins the noted requests, so the request of a caller that cancels or times out has already begun.
//! * *The program may end right after a drop*: a drop returns only when the release is written.
//! * *A waker may call the handle or drop a guard*: the thread that calls the waker has neither the mutex nor a role.
//! * *A panic closes the handle* if the thread that panics has the mutex, the wire or the poller.
//! * *No thread moves the bytes of others for long*: after sixteen rounds of reading and writing, the I/O thread takes
//!   over.
//! * *Steady traffic does not delay timers*: timers fire in the section after each read, even if more bytes have
//!   arrived.
//!
//! # Guarantees
//!
//! * **No call waits longer than its own deadline** for a node or for another thread, because each caller checks its
//!   own clock. A caller waits without a deadline only for the mutex, which is held for microseconds. A call without a
//!   deadline ends, at the latest, after the longest time that the nodes may take. While the I/O thread serves the
//!   callers, it enforces this limit. If a thread keeps the wire for too long, the I/O thread wakes the waiting
//!   threads, and each checks its own clock.
//! * **A lone caller does not pay for sharing**: a call locks an uncontended mutex, and wakes no thread. A lock and its
//!   release cost one allocation.
//! * **A dropped guard or future releases its lock**, on any thread and also during a panic, without waiting for an
//!   answer. The engine accepts every release, even at its limits.
//! * **The last handle waits for the releases**: its drop writes the releases, and waits up
//!   to [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) for the answers. After that, the I/O thread
//!   repeats unanswered releases in the background, until the keys have expired.
//! * **A panic is reported**: if the engine panics, every call returns `Closed`, and every held lock is reported as
//!   lost. A panic of a waker is caught.
//! * **A forked child does no harm**: calls return `Forked`, and dropping only closes descriptors.
//!
//! # Not here
//!
//! The engine keeps the queue of callers that wait for the same lock.

mod at_risk;
mod build;
mod call;
mod callers;
mod changes;
mod election;
mod ending;
mod future;
mod gathering;
mod guard;
pub mod held;
mod holders;
mod io_thread;
mod lost;
mod monitor;
mod notes;
mod operator;
mod redlock;
mod relay;
mod reply;
mod roles;
mod serve;
mod signal;
mod slot;
mod state;
mod table;
mod tenure;
#[cfg(all(test, feature = "embedded"))]
pub(crate) mod tests;
mod with_lock;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Mutex;
use std::thread::JoinHandle;

use mio::{Registry, Waker};

use self::call::Call;
use self::ending::EndStage;
use self::monitor::Monitor;
use self::notes::Notes;
use self::relay::Relay;
use self::slot::Slot;
use self::state::Core;
use crate::config::{Config, LockOptions, Retry};
use crate::driver::{Poller, Refusal, Reporter, Wire};
use crate::engine::{Engine, distant_timeout, usual_timeout};
use crate::process::Process;
use crate::time::nanos;
use crate::trace::Tracer;

pub use self::at_risk::{AtRisk, Health};
pub use self::changes::Watch;
pub(crate) use self::election::Told;
pub use self::election::{Leader, Leadership, Observer};
pub use self::future::Acquiring;
pub use self::guard::{Guard, LockGuard, PermitGuard, SharedGuard};
pub use self::lost::{LockLost, Lost};
pub use self::redlock::Redlock;
pub use self::with_lock::WithLockError;

/// How long a call still waits after its deadline, so that another thread can deliver the outcome.
const GRACE: Duration = Duration::from_millis(20);

/// How long a caller waits for the serving thread, in addition to the time that the nodes may take.
const OWN_GRACE: Duration = Duration::from_millis(100);

/// The state that all clones, guards and futures share. Dropping the state ends the I/O thread.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    io_thread: Option<JoinHandle<()>>,
}

/// The state that the I/O thread and all handles share.
#[derive(Debug)]
struct Shared {
    /// The process that created the handle.
    process: Process,
    /// The engine and its callers. A thread that drops a guard waits on this monitor until the release is written.
    core: Monitor<Core>,
    /// Requests that the I/O thread is about to begin.
    notes: Notes,
    /// The callers that other callers will wake.
    relay: Relay,
    /// The registry of the sockets. The descriptor of the registry is readable when a socket is ready.
    registry: Registry,
    /// Wakes the thread that sleeps in the poller.
    waker: Arc<Waker>,
    /// Wakes the I/O thread while it rests.
    call: Call,
    /// The number of open watches.
    watches: AtomicUsize,
    /// Whether the I/O thread still serves the handle. The drop of the last handle waits on this monitor.
    ending: Monitor<EndStage>,
    /// An empty list that is reused for the threads to wake after a section.
    spare: Mutex<Vec<Arc<Slot>>>,
    reporter: Reporter,
    shutdown_timeout: Duration,
    spin: bool,
    /// The node timeout, if the user has set one.
    node_timeout: Option<Duration>,
    /// The node timeout of the farthest node, in nanoseconds, as the I/O thread last computed it. This timeout applies
    /// if the user has set no node timeout.
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
        let distant = nanos(distant_timeout(engine.nodes().iter()));
        Ok(Self {
            process: Process::current(),
            core: Monitor::new(Core::new(engine, wire, poller)),
            notes: Notes::default(),
            relay: Relay::default(),
            registry,
            waker,
            call: Call::new()?,
            watches: AtomicUsize::new(0),
            ending: Monitor::default(),
            spare: Mutex::default(),
            reporter: Reporter::new(config),
            shutdown_timeout: config.shutdown_timeout(),
            spin: config.spin(),
            node_timeout: config.node_timeout(),
            distant_timeout: AtomicU64::new(distant),
            retry: *config.retry(),
            tracer: Tracer::new(config),
        })
    }

    // ----- how long a caller waits ------------------------------------------------------------

    /// Returns how long a caller without a deadline waits for the outcome of an operation on a lock of `ttl`. The
    /// result is twice the node timeout, plus some time for the serving thread. An outcome takes longer only if the
    /// system does not schedule the serving thread.
    fn patience(&self, ttl: Duration) -> Duration {
        let distant = Duration::from_nanos(self.distant_timeout.load(Ordering::Relaxed));
        let timeout = self
            .node_timeout
            .unwrap_or_else(|| usual_timeout(ttl).max(distant));
        timeout.saturating_mul(2).saturating_add(OWN_GRACE)
    }

    /// Returns how long a caller without a deadline waits to get a lock. The result is about twice the time of all
    /// attempts, because the caller may wait behind other callers.
    fn patience_for_lock(&self, options: &LockOptions) -> Option<Duration> {
        let tries = options.tries_allowed(&self.retry)?;
        let waits = match tries {
            0 | 1 => Duration::ZERO,
            _ => self.retry.delay().end().saturating_mul(tries),
        };
        let rounds = self.patience(options.ttl()).saturating_mul(tries);
        Some(rounds.saturating_add(waits))
    }

    // ----- processes ------------------------------------------------------------

    /// Returns `true` in a forked child. A child must not wait for the mutexes, because threads of the parent may have
    /// held them at the fork.
    fn is_foreign(&self) -> bool {
        self.process.is_foreign()
    }

    /// Refuses a call in a forked child.
    fn check_process(&self) -> Result<(), Refusal> {
        match self.is_foreign() {
            true => Err(Refusal::Forked),
            false => Ok(()),
        }
    }
}
