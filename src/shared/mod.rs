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
//! Each part has one rule.
//!
//! * **Engine and callers** are under one mutex, held for computation only. Every section begins with [`Shared::enter`]
//!   and ends with a drop, after which threads are woken. There is no other way in. An outcome goes to the slot of its
//!   caller in the section that decides it. So at any time either an operation is open, or its outcome is in the slot.
//! * **The wire** is a role. A thread tries to take it to move bytes ([`Shared::move_bytes`]). Under the mutex, the
//!   engine gets the bytes that were read, and the bytes that it wants written are copied out. The system calls are
//!   made between two such sections. The last section finds that neither side has more, and puts the wire back. So a
//!   thread that finds the wire taken has nothing to do: the thread that has it will see its request.
//! * **The poll** is a role too. The thread that has it sleeps until a socket is ready or a timer is due
//!   ([`Shared::sleep_in_poll`]), and records what is ready for the wire. A thread that waits without the poll sleeps
//!   in its slot.
//!
//! How callers share them:
//!
//! * **Beginning**: a caller enters, begins its operation, and takes the poll if that is free and few operations wait.
//!   If the I/O thread serves, the caller leaves the writing to it, and wakes it if it sleeps. Otherwise the caller
//!   moves the bytes itself.
//! * **Serving**: while many operations wait, or tasks do, the I/O thread has the poll. It reads, wakes callers, and
//!   then writes what they ask for next, once for each look at the poll ([`Moves::Once`](serve::Moves)).
//! * **Gathering**: if the I/O thread wakes many callers at once, it waits until they have asked again, or no more of
//!   them come. They only [note](notes::Notes) their requests, and [wake one another](relay::Relay). So their requests
//!   begin in one section, and share one write to each node.
//! * **Passing on**: a caller that has its outcome gives the poll back, to another thread while few operations wait, or
//!   else to the I/O thread. The I/O thread gives the poll back after a millisecond in which only few threads have
//!   waited.
//! * **Waking**: the thread that decides an outcome wakes the thread that waits for it. Wakers are user code: the I/O
//!   thread, or the thread that polls another task, calls them without the mutex and without a role, so a waker may
//!   call the handle. It must return promptly, as `std` asks. Until it does, threads poll for themselves, but no other
//!   task is woken, and a thread that waits for the loss of a lock has only its own clock.
//! * **Resting**: a task that waits for another holder's lock asks no node. The I/O thread does not keep the poll for
//!   it, but watches the descriptor, as it does between calls. So even if there are ten thousand such tasks, another
//!   caller polls for itself. For a millisecond after such a call the I/O thread naps, so it may learn a millisecond
//!   late that the lock has become free.
//! * **Dropping** a guard writes the release at once if the wire is free, even while another thread sleeps in the poll.
//!   Otherwise the drop waits until the thread that has the wire has written it.
//!
//! | file | subject |
//! | --- | --- |
//! | `redlock`, `operator`, `guard`, `with_lock`, `future`, `lost`, `at_risk`, `changes`, `election` | the types that
//! users hold |
//! | `reply`, `slot`, `tenure`, `signal` | where outcomes are delivered, and the loss of a lock is reported |
//! | `notes`, `relay`, `gathering` | requests of many callers that begin together, and how these callers are woken |
//! | `monitor` | a value with threads that wait for a change |
//! | `state` | the state under the mutex: the engine, `callers` (by `table`), and the roles |
//! | `roles` | which thread has which role, and which threads are woken: why no wake-up is lost |
//! | `serve` | sections, moving bytes, sleeping in the poll, waiting for an outcome |
//! | `io_thread`, `call` | the I/O thread, and how it is called |
//! | `build`, `ending` | building a handle, and its end |
//!
//! # What can go wrong, and why it does not
//!
//! * *A wake-up is lost*: one mutex covers which threads sleep, which were called, and what is left to do. Each section
//!   ends with [`Roles::leave`](roles::Roles::leave), which never leaves work without a thread that will do it.
//!   `tests/interleavings` walks through every order of the steps.
//! * *Two threads in the poll*: the poll is a value that is taken out of `Core`. The I/O thread that watches an idle
//!   handle waits for the descriptor without the poll, and takes no event.
//! * *An operation is cancelled while it is served*: the tables are under the mutex. Either the operation is still
//!   there and is cancelled, or its outcome is in the slot, and its lock is released.
//! * *A fork*: the process id is compared before anything is locked; a child only tries the mutex.
//! * *A request is only noted*: there are places for notes only while the I/O thread is about to gather. Every section
//!   begins the noted requests, so a caller that cancels, or a thread whose time is up, finds its own operation.
//! * *The end of the program*: the thread that drops a guard writes the release.
//! * *A call or a drop inside a waker*: the thread that calls the waker has neither the mutex nor a role.
//! * *A panic* under the mutex, with the wire or with the poll closes the handle.
//! * *A thread moves the bytes of others without end*: after sixteen rounds the I/O thread does the rest.
//! * *Traffic without end*: once the result of a look at the poll is read, timers fire in the next section, even if
//!   another look has brought more.
//!
//! # Guarantees
//!
//! * **No call waits longer than its own deadline** for a node, or for another thread that moves bytes or sleeps: a
//!   caller looks at its own clock. It waits without a deadline only for the mutex, which is held for microseconds. A
//!   call without a deadline ends when its nodes would be given up. While the I/O thread serves, it ends such a call.
//!   If it cannot, because a thread keeps the wire, it calls the others, and they look at their own clocks.
//! * **A lone caller pays nothing for the others**: one `getpid`, an uncontended mutex, no wake-up, one allocation for
//!   a lock and its release.
//! * **A dropped guard or future releases its lock**, on any thread and also during a panic, without waiting for an
//!   answer. A release is never refused for lack of room.
//! * **The last handle waits for the releases**: before its drop returns, they are written, and answered within
//!   [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). The remaining debts are sent in the background,
//!   for as long as the keys live.
//! * **A panic is reported**: if the engine panics, every call returns `Closed`, and every held lock is reported as
//!   lost. A panic of a waker is caught.
//! * **A forked child does no harm**: calls return `Forked`, and dropping only closes descriptors.
//!
//! # Not here
//!
//! The queue of callers that wait for the same lock: it belongs to the engine.

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
use rustix::process::{Pid, getpid};

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

/// How much longer than its deadline a call waits for another thread to deliver its outcome.
const GRACE: Duration = Duration::from_millis(20);

/// How long a caller waits for the thread that serves it, beyond the time that the nodes may take.
const OWN_GRACE: Duration = Duration::from_millis(100);

/// The state that all clones, guards and futures share. When it is dropped, the I/O thread ends.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    io_thread: Option<JoinHandle<()>>,
}

/// The state that the I/O thread and all handles share.
#[derive(Debug)]
struct Shared {
    /// The process in which the handle was made.
    process: Pid,
    /// The engine and its callers. The monitor wakes drops that wait until their releases are written.
    core: Monitor<Core>,
    /// Requests that the I/O thread is about to begin.
    notes: Notes,
    /// The callers that the first of them will wake.
    relay: Relay,
    /// Where sockets are registered. Readable when something is ready.
    registry: Registry,
    /// Wakes the thread that sleeps in the poll.
    waker: Arc<Waker>,
    /// Wakes the I/O thread while it rests.
    call: Call,
    /// The number of open watches.
    watches: AtomicUsize,
    /// The stage of the I/O thread's end. The last handle waits for it.
    ending: Monitor<EndStage>,
    /// An empty list that is reused for the threads to wake after a section.
    spare: Mutex<Vec<Arc<Slot>>>,
    reporter: Reporter,
    shutdown_timeout: Duration,
    spin: bool,
    /// The node timeout, if the user has set one.
    node_timeout: Option<Duration>,
    /// The node timeout of the farthest node, in nanoseconds, as the I/O thread last computed it. Used if the user has
    /// set no node timeout.
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
            process: getpid(),
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

    /// Returns how long a caller waits, by its own clock, for an answer about a lock of `ttl`: twice the node timeout,
    /// and some time for the thread that serves. An answer takes longer only if that thread is not scheduled.
    fn patience(&self, ttl: Duration) -> Duration {
        let distant = Duration::from_nanos(self.distant_timeout.load(Ordering::Relaxed));
        let timeout = self
            .node_timeout
            .unwrap_or_else(|| usual_timeout(ttl).max(distant));
        timeout.saturating_mul(2).saturating_add(OWN_GRACE)
    }

    /// Returns how long a caller without a deadline waits for a lock, by its own clock: the time of all attempts, and
    /// the same time again for the waits behind other callers.
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

    /// Returns `true` in a forked child. Then everything here belongs to the parent: threads that the child does not
    /// have may hold the mutexes.
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
}
