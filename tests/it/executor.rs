//! The smallest executor: one thread, parked between wake-ups.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The longest time of a story. After that, a wake-up must have been lost.
const MOST: Duration = Duration::from_secs(120);

/// Runs `future` on this thread.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        assert!(start.elapsed() < MOST, "the task was not woken");
        thread::park_timeout(MOST);
    }
}

/// Runs all futures side by side: polls each unfinished one at every wake-up.
pub(crate) async fn all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut open: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        open.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if open.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
