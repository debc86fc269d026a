//! Making a handle, and its end.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, getpid};

use super::io_thread::{IoThread, spawn};
use super::wakers::wake;
use super::{Handle, Redlock, Shared};
use crate::config::{Builder, Config};
use crate::driver::{BuildError, Loop, Refusal};

impl Builder {
    /// A [`Redlock`], which has an I/O thread. Returns when a majority of the nodes is ready and
    /// the others have answered or 50 ms more have passed, after the connect timeout at the
    /// latest, also with nodes down.
    ///
    /// # Errors
    ///
    /// [`BuildError::Config`] for the first mistake in what was set, before any I/O;
    /// [`BuildError::Io`] if the operating system gives no descriptor, random bytes or thread.
    pub fn build(&self) -> Result<Redlock, BuildError> {
        let shared = connect(&self.config()?)?;
        let io_thread = IoThread::new(Arc::clone(&shared));
        let io_thread = spawn(move || io_thread.run())?;
        Ok(Redlock::new(shared, io_thread))
    }

    /// [`build`](Self::build) for any executor. Nothing happens before the first poll.
    pub fn build_async(&self) -> Building {
        Building(Stage::Asleep(Box::new(self.clone())))
    }
}

impl Redlock {
    fn new(shared: Arc<Shared>, io_thread: JoinHandle<()>) -> Self {
        Self {
            handle: Arc::new(Handle::new(shared, io_thread)),
        }
    }
}

fn connect(config: &Config) -> Result<Arc<Shared>, BuildError> {
    let (engine, net, poller) = Loop::connected(config)?;
    Ok(Arc::new(Shared::new(engine, net, poller, config)?))
}

/// A [`Redlock`] on its way, from [`Builder::build_async`].
///
/// The I/O thread connects. Dropped before it is done, the thread ends by itself, at the latest
/// when the connect timeout has passed. In a forked child a future that was polled before ends with
/// an error that says so.
#[must_use = "a future does nothing unless it is polled"]
pub struct Building(Stage);

enum Stage {
    Asleep(Box<Builder>),
    Waiting(Waiting),
    Done,
}

struct Waiting {
    site: Arc<Site>,
    io_thread: Option<JoinHandle<()>>,
    process: Pid,
}

/// Where the I/O thread puts what it has built.
#[derive(Debug)]
struct Site(Mutex<State>);

#[derive(Debug)]
enum State {
    Building(Option<Waker>),
    Built(Result<Arc<Shared>, BuildError>),
    /// It was taken, or nobody wants it any more.
    Over,
}

impl Building {
    fn begin(builder: &Builder) -> Result<Waiting, BuildError> {
        let config = builder.config()?;
        let site = Arc::new(Site(Mutex::new(State::Building(None))));
        let here = Arc::clone(&site);
        let io_thread = spawn(move || {
            let built = connect(&config);
            let shared = built.as_ref().ok().map(Arc::clone);
            if here.put(built)
                && let Some(shared) = shared
            {
                drop(here);
                IoThread::new(shared).run();
            }
        })?;
        Ok(Waiting {
            site,
            io_thread: Some(io_thread),
            process: getpid(),
        })
    }
}

/// # Panics
///
/// When polled after it was done.
impl Future for Building {
    type Output = Result<Redlock, BuildError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = match mem::replace(&mut self.0, Stage::Done) {
            Stage::Asleep(builder) => match Self::begin(&builder) {
                Ok(waiting) => waiting,
                Err(error) => return Poll::Ready(Err(error)),
            },
            Stage::Waiting(waiting) => waiting,
            Stage::Done => panic!("polled after it was done"),
        };
        if getpid() != waiting.process {
            // The mutex of the site may be held for ever by a thread that is not here.
            return Poll::Ready(Err(io::Error::from(Refusal::Forked).into()));
        }
        match waiting.site.poll(context.waker()) {
            Poll::Pending => {
                self.0 = Stage::Waiting(waiting);
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(shared)) => {
                let io_thread = waiting.io_thread.take().expect("it was spawned");
                Poll::Ready(Ok(Redlock::new(shared, io_thread)))
            }
        }
    }
}

impl fmt::Debug for Building {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Building").finish_non_exhaustive()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if getpid() != self.process {
            // The thread is not in this process: neither joined nor detached.
            mem::forget(self.io_thread.take());
            return;
        }
        let state = mem::replace(&mut *self.site.lock(), State::Over);
        if let State::Built(Ok(shared)) = state {
            shared.dismiss();
        }
    }
}

impl Site {
    /// Puts down what was built; whether somebody wants it.
    fn put(&self, built: Result<Arc<Shared>, BuildError>) -> bool {
        let mut state = self.lock();
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
        let mut state = self.lock();
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

    /// Nothing panics under this mutex.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
