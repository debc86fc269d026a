//! Builds a [`Redlock`], on the caller's thread or as a future.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::thread::JoinHandle;

use super::io_thread::{run, spawn};
use super::monitor::Monitor;
use super::tenure::wake;
use super::{Handle, Redlock, Shared};
use crate::config::{Builder, Config};
use crate::driver::{BuildError, Loop, Refusal};
use crate::process::Process;

pub(super) type Building = Pin<Box<dyn Future<Output = Result<Redlock, BuildError>> + Send + Sync>>;

impl Builder {
    /// Builds a [`Redlock`] and starts its I/O thread. Waits until a majority of the nodes is ready, and then until
    /// every other node has answered, for at most another 50 ms. Returns after the connect timeout at the latest, even
    /// if nodes are down.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Config`] for the first wrong setting, before any I/O, and for an unusable certificate or
    /// key. Returns [`BuildError::Io`] if the operating system provides no descriptor, random bytes or thread.
    pub fn build(&self) -> Result<Redlock, BuildError> {
        let shared = connect(&self.config()?)?;
        let here = Arc::clone(&shared);
        let io_thread = spawn(move || run(&here))?;
        Ok(Redlock::new(shared, io_thread))
    }

    /// Like [`build`](Self::build), but returns a future for any executor. Nothing happens before the first poll.
    ///
    /// The I/O thread opens the connections. If the future is dropped before it completes, the I/O thread ends after
    /// the connect timeout at the latest. In a forked child, a future that was polled before the fork completes with an
    /// error.
    pub fn build_async(&self) -> Building {
        let builder = self.clone();
        Box::pin(async move {
            let mut waiting = Waiting::begin(&builder)?;
            drop(builder);
            let shared = poll_fn(|context| waiting.poll(context)).await?;
            let io_thread = waiting.io_thread.take().expect("it was spawned");
            Ok(Redlock::new(shared, io_thread))
        })
    }
}

impl Redlock {
    fn new(shared: Arc<Shared>, io_thread: JoinHandle<()>) -> Self {
        let io_thread = Some(io_thread);
        Self {
            handle: Arc::new(Handle { shared, io_thread }),
        }
    }
}

fn connect(config: &Config) -> Result<Arc<Shared>, BuildError> {
    let (engine, wire, poller) = Loop::connected(config)?;
    Ok(Arc::new(Shared::new(engine, wire, poller, config)?))
}

/// A future that builds a handle.
struct Waiting {
    site: Arc<Site>,
    io_thread: Option<JoinHandle<()>>,
    process: Process,
}

/// The place where the I/O thread puts its result.
#[derive(Debug)]
struct Site(Monitor<State>);

#[derive(Debug)]
enum State {
    Building(Option<Waker>),
    Built(Result<Arc<Shared>, BuildError>),
    /// The caller has taken the result, or has dropped the future.
    Over,
}

impl Waiting {
    fn begin(builder: &Builder) -> Result<Self, BuildError> {
        let config = builder.config()?;
        let site = Arc::new(Site(Monitor::new(State::Building(None))));
        let here = Arc::clone(&site);
        let io_thread = spawn(move || {
            let built = connect(&config);
            let shared = built.as_ref().ok().map(Arc::clone);
            if here.put(built)
                && let Some(shared) = shared
            {
                drop(here);
                run(&shared);
            }
        })?;
        Ok(Self {
            site,
            io_thread: Some(io_thread),
            process: Process::current(),
        })
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<Arc<Shared>, BuildError>> {
        if self.process.is_foreign() {
            // A thread of the parent may have held the mutex of `site` at the fork, so the child never locks this
            // mutex.
            return Poll::Ready(Err(io::Error::from(Refusal::Forked).into()));
        }
        self.site.poll(context.waker())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.process.is_foreign() {
            // The I/O thread does not exist in a forked child, so it can be neither joined nor detached.
            mem::forget(self.io_thread.take());
            return;
        }
        let state = mem::replace(&mut *self.site.0.lock(), State::Over);
        if let State::Built(Ok(shared)) = state {
            shared.dismiss();
        }
    }
}

impl Site {
    /// Stores the result. Returns `false` if the future was dropped.
    fn put(&self, built: Result<Arc<Shared>, BuildError>) -> bool {
        let mut state = self.0.lock();
        let State::Building(waker) = &mut *state else {
            return false;
        };
        let waker = waker.take();
        *state = State::Built(built);
        drop(state);
        if let Some(waker) = waker {
            wake(waker);
        }
        true
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Arc<Shared>, BuildError>> {
        let waker = waker.clone();
        let mut state = self.0.lock();
        if let State::Building(known) = &mut *state {
            let before = known.replace(waker);
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        match mem::replace(&mut *state, State::Over) {
            State::Built(built) => Poll::Ready(built),
            State::Building(_) | State::Over => unreachable!("it is taken once"),
        }
    }
}
