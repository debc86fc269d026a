//! Waits for a lock and takes it, for the commands `lock` and `run`.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::Poll;

use shearline::held::Holds;
use shearline::internals::now;
use shearline::{Acquiring, Guard, Instant, LockOptions, Redlock};

use crate::acquire::Acquire;
use crate::connect::left;
use crate::duration::shown;
use crate::failure::Failure;
use crate::waiting;

/// A future that completes on the next poll, and does not wake the task.
pub(crate) async fn next_look() {
    let mut was_polled = false;
    poll_fn(|_| match mem::replace(&mut was_polled, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Requests a lock with these options.
pub(crate) type Ask<'a, H> = &'a dyn Fn(&LockOptions) -> Acquiring<H>;

/// Takes the lock on these names with these options. While it waits, prints who holds the lock. Gives up at `by`,
/// unless `by` is `Instant::MAX`.
pub(crate) async fn take<H: Holds>(
    acquire: &Acquire,
    redlock: &Redlock,
    names: &[&[u8]],
    ask: Ask<'_, H>,
    (options, by): (LockOptions, Instant),
) -> Result<Guard<H>, Failure> {
    let options = match by {
        Instant::MAX => options,
        by => options.wait(left(by)),
    };
    let begin = now();
    let mut talking = pin!(waiting::talk(redlock, names, acquire.talks()));
    let mut asking = pin!(ask(&options));
    let taken = poll_fn(|context| {
        let polled = asking.as_mut().poll(context);
        if polled.is_pending() {
            let _ = talking.as_mut().poll(context);
        }
        polled
    });
    match taken.await {
        Ok(guard) => {
            let (took, health) = (shown(now().saturating_since(begin)), guard.health());
            let (valid, nodes) = (shown(health.validity), health.confirmed_by.join(", "));
            let what = format!("took the lock in {took}, valid for {valid}, on {nodes}");
            acquire.tell(names, &what);
            Ok(guard)
        }
        Err(error) => Err(acquire.failure(error, redlock, names).await),
    }
}
