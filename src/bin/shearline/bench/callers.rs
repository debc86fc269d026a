//! Callers that take and release locks through the library.
//!
//! A lone caller blocks, as a program with one thread does. Several are futures of one thread, so that what
//! is measured is not the change of threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use shearline::{Histogram, LockError, LockOptions, Redlock};

/// A signal, and the end of a turn, are seen this late at most.
const NAP: Duration = Duration::from_millis(20);

/// What callers have seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// From the call that takes a lock until its release is confirmed.
    pub(super) cycle: Histogram,
    pub(super) failed: u64,
    /// The first failure.
    pub(super) why: Option<String>,
}

impl Seen {
    fn add(&mut self, result: Result<Duration, LockError>) {
        match result {
            Ok(took) => self.cycle.record(took),
            Err(error) => {
                self.failed += 1;
                self.why.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// Takes and releases the locks of these names, each by a caller of its own, until then.
pub(super) fn turn(
    redlock: &Redlock,
    names: &[Vec<u8>],
    options: &LockOptions,
    until: Instant,
    seen: &mut Seen,
) {
    if let [name] = names {
        while Instant::now() < until {
            seen.add(one(redlock, name, options));
        }
        return;
    }
    let mut callers: Vec<_> = names
        .iter()
        .map(|name| Caller::new(many(redlock, name, options, until)))
        .collect();
    while !callers.is_empty() {
        let mut polled = false;
        callers.retain_mut(|caller| match caller.poll() {
            Polled::Asleep => true,
            Polled::Pending => {
                polled = true;
                true
            }
            Polled::Done(results) => {
                results.into_iter().for_each(|result| seen.add(result));
                false
            }
        });
        if !polled && !callers.is_empty() {
            thread::park_timeout(NAP);
        }
    }
}

fn one(redlock: &Redlock, name: &[u8], options: &LockOptions) -> Result<Duration, LockError> {
    let begin = Instant::now();
    // What became of the release is not part of the promise that is measured.
    let _ = redlock.lock_with(name, options)?.unlock();
    Ok(begin.elapsed())
}

async fn many(
    redlock: &Redlock,
    name: &[u8],
    options: &LockOptions,
    until: Instant,
) -> Vec<Result<Duration, LockError>> {
    let mut results = Vec::new();
    while Instant::now() < until {
        let begin = Instant::now();
        let taken = match redlock.lock_with_async(name, options).await {
            Ok(guard) => {
                let _ = guard.unlock_async().await;
                Ok(begin.elapsed())
            }
            Err(error) => Err(error),
        };
        results.push(taken);
    }
    results
}

/// A future of this thread.
struct Caller<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    flag: Arc<Flag>,
    waker: Waker,
}

enum Polled<T> {
    /// Nobody has woken it.
    Asleep,
    Pending,
    Done(T),
}

impl<'a, T> Caller<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Self {
        let flag = Arc::new(Flag {
            woken: AtomicBool::new(true),
            thread: thread::current(),
        });
        Self {
            future: Box::pin(future),
            waker: Waker::from(Arc::clone(&flag)),
            flag,
        }
    }

    fn poll(&mut self) -> Polled<T> {
        if !self.flag.woken.swap(false, SeqCst) {
            return Polled::Asleep;
        }
        match self
            .future
            .as_mut()
            .poll(&mut Context::from_waker(&self.waker))
        {
            std::task::Poll::Ready(output) => Polled::Done(output),
            std::task::Poll::Pending => Polled::Pending,
        }
    }
}

struct Flag {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.thread.unpark();
    }
}
