//! DOC
mod build;
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

use self::callers::Told;
use self::ending::Ending;
use self::mutex::TimedMutex;
use self::progress::Progress;
use self::state::Core;
use self::wakers::Wakers;
use crate::config::{Config, LockOptions, Retry};
use crate::driver::{Net, Poller, Refusal, Reporter, Wire};
use crate::engine::{Engine, usual_timeout};
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
    /// Wakes a thread that sleeps in the poll or watches the descriptor.
    waker: Arc<Waker>,
    /// The I/O thread. Before it has said who it is, it is awake.
    io_thread: Mutex<Option<Thread>>,
    wakers: Arc<Wakers>,
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
            wakers: Arc::new(Wakers::new()),
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
