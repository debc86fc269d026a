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
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, getpid};

use super::Redlock;
use super::hub::Hub;
use super::keeper::Keeper;
use crate::config::{Builder, Config};
use crate::driver::{BuildError, Driver, Refusal};

/// The name of the I/O thread.
const THREAD_NAME: &str = "shearline";

/// What all clones, guards and futures share. Its end is the end of the I/O thread.
#[derive(Debug)]
pub(super) struct Handle {
    hub: Arc<Hub>,
    keeper: Option<JoinHandle<()>>,
}

impl Handle {
    pub(super) fn hub(&self) -> &Hub {
        &self.hub
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn shared_hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            self.hub.close(keeper);
        }
    }
}

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
        let hub = connect(&self.config()?)?;
        let keeper = Keeper::new(Arc::clone(&hub));
        let keeper = spawn(move || keeper.run())?;
        Ok(Redlock::new(hub, keeper))
    }

    /// [`build`](Self::build) for any executor. Nothing happens before the first poll.
    pub fn build_async(&self) -> Building {
        Building(Stage::Asleep(Box::new(self.clone())))
    }
}

impl Redlock {
    fn new(hub: Arc<Hub>, keeper: JoinHandle<()>) -> Self {
        let keeper = Some(keeper);
        Self {
            handle: Arc::new(Handle { hub, keeper }),
        }
    }
}

fn connect(config: &Config) -> Result<Arc<Hub>, BuildError> {
    let mut driver = Driver::new(config)?;
    driver.wait_until_ready()?;
    Ok(Arc::new(Hub::new(driver, config)?))
}

pub(super) fn spawn(life: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(THREAD_NAME.into()).spawn(life)
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
    cradle: Arc<Cradle>,
    keeper: Option<JoinHandle<()>>,
    process: Pid,
}

/// Where the I/O thread puts what it has built.
#[derive(Debug)]
struct Cradle(Mutex<State>);

#[derive(Debug)]
enum State {
    Building(Option<Waker>),
    Built(Result<Arc<Hub>, BuildError>),
    /// It was taken, or nobody wants it any more.
    Over,
}

impl Building {
    fn begin(builder: &Builder) -> Result<Waiting, BuildError> {
        let config = builder.config()?;
        let cradle = Arc::new(Cradle(Mutex::new(State::Building(None))));
        let here = Arc::clone(&cradle);
        let keeper = spawn(move || {
            let built = connect(&config);
            let hub = built.as_ref().ok().map(Arc::clone);
            if here.put(built)
                && let Some(hub) = hub
            {
                drop(here);
                Keeper::new(hub).run();
            }
        })?;
        Ok(Waiting {
            cradle,
            keeper: Some(keeper),
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
            // The mutex of the cradle may be held for ever by a thread that is not here.
            return Poll::Ready(Err(io::Error::from(Refusal::Forked).into()));
        }
        match waiting.cradle.poll(context.waker()) {
            Poll::Pending => {
                self.0 = Stage::Waiting(waiting);
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(hub)) => {
                let keeper = waiting.keeper.take().expect("it was spawned");
                Poll::Ready(Ok(Redlock::new(hub, keeper)))
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
            mem::forget(self.keeper.take());
            return;
        }
        let state = mem::replace(&mut *self.cradle.lock(), State::Over);
        if let State::Built(Ok(hub)) = state {
            hub.dismiss();
        }
    }
}

impl Cradle {
    /// Puts down what was built; whether somebody wants it.
    fn put(&self, built: Result<Arc<Hub>, BuildError>) -> bool {
        let mut state = self.lock();
        let State::Building(waker) = &mut *state else {
            return false;
        };
        let waker = waker.take();
        *state = State::Built(built);
        drop(state);
        if let Some(waker) = waker {
            super::relay::wake(waker);
        }
        true
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Arc<Hub>, BuildError>> {
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
