//! The batch with a queue in front of it, for callers on threads of their own.
//!
//! One thread has the sockets. A caller puts its step into the queue, wakes that thread if it
//! sleeps, and parks until the step is done.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use rustix::event::{EventfdFlags, eventfd};

use super::Step;
use super::batch::Batch;
use crate::Failure;
use crate::cycle::Caller;

/// The thread that has the sockets. Dropping it ends the thread.
#[derive(Debug)]
pub struct Post {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    mailbox: Mutex<Vec<Letter>>,
    asleep: AtomicBool,
    closed: AtomicBool,
    wake: OwnedFd,
    done: Vec<AtomicBool>,
}

struct Letter {
    lock: u16,
    step: Step,
    from: Thread,
}

impl Post {
    /// Connects to all nodes, for locks of these names.
    ///
    /// # Errors
    ///
    /// A server does not answer.
    pub fn open(addresses: &[SocketAddr], names: &[String]) -> Result<Self, Failure> {
        let batch = Batch::connect(addresses, names, None)?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        batch.sockets().add(&wake)?;
        let shared = Arc::new(Shared {
            mailbox: Mutex::new(Vec::new()),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            wake,
            done: names.iter().map(|_| AtomicBool::new(false)).collect(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            if let Err(error) = deliver(&own, batch) {
                // Otherwise callers would wait for ever.
                eprintln!("the threaded floor failed: {error}");
                std::process::exit(2);
            }
        });
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns a caller for the lock at this place.
    #[must_use]
    pub fn caller(&self, lock: u16) -> Posting {
        Posting {
            shared: Arc::clone(&self.shared),
            lock,
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // The thread has reported the reason if it failed.
            let _ = thread.join();
        }
    }
}

/// A caller on a thread of its own.
#[derive(Debug)]
pub struct Posting {
    shared: Arc<Shared>,
    lock: u16,
}

impl Posting {
    fn step(&self, step: Step) {
        let Self { shared, lock } = self;
        let letter = Letter {
            lock: *lock,
            step,
            from: thread::current(),
        };
        lock_of(&shared.mailbox).push(letter);
        if shared.asleep.swap(false, Ordering::SeqCst) {
            shared.wake();
        }
        while !shared.done[usize::from(*lock)].swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

impl Caller for Posting {
    type Lock = ();

    fn acquire(&mut self) -> Result<(), Failure> {
        self.step(Step::Acquire);
        Ok(())
    }

    fn release(&mut self, (): ()) -> Result<(), Failure> {
        self.step(Step::Release);
        Ok(())
    }
}

impl Shared {
    fn wake(&self) {
        // The event is edge-triggered, so it need not be read; it is full after 2^64 wakes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn deliver(shared: &Shared, mut batch: Batch) -> Result<(), Failure> {
    let mut letters = Vec::new();
    let mut waiting: Vec<Option<Thread>> = shared.done.iter().map(|_| None).collect();
    while !shared.closed.load(Ordering::SeqCst) {
        std::mem::swap(&mut letters, &mut lock_of(&shared.mailbox));
        for Letter { lock, step, from } in letters.drain(..) {
            batch.ask(lock, step);
            waiting[usize::from(lock)] = Some(from);
        }
        batch.flush()?;
        shared.asleep.store(true, Ordering::SeqCst);
        if !lock_of(&shared.mailbox).is_empty() {
            shared.asleep.store(false, Ordering::SeqCst);
            continue;
        }
        batch.wait(|lock| {
            let place = usize::from(lock);
            shared.done[place].store(true, Ordering::Release);
            if let Some(thread) = waiting[place].take() {
                thread.unpark();
            }
        })?;
        shared.asleep.store(false, Ordering::SeqCst);
    }
    Ok(())
}

fn lock_of<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
