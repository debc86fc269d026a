//! Taking a lock: what happens while `lock` and `run` wait for it.

use std::future::{Future, poll_fn};
use std::pin::pin;
#[cfg(target_os = "linux")]
use std::time::Duration;

use shearline::held::Holds;
use shearline::{Acquiring, Guard, Instant, LockError, LockOptions, Redlock};

use crate::connect::left;
use crate::waiting::Waiting;

/// The time between two polls of [`take`].
#[cfg(target_os = "linux")]
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Asks for a lock with these options.
pub(crate) type Ask<'a, H> = &'a dyn Fn(&LockOptions) -> Acquiring<H>;

/// Takes the lock, and gives up at the time behind the options, unless that is the end of time. Meanwhile it says for
/// whom it waits.
///
/// Nodes that are `trusted` get a counter floor if a fencing token is wanted: by a handle that was asked for one.
pub(crate) async fn take<H: Holds>(
    ask: Ask<'_, H>,
    (options, by): (LockOptions, Instant),
    trusted: Option<&Redlock>,
    waiting: &mut Waiting<'_>,
) -> Result<Guard<H>, LockError> {
    if let Some(redlock) = trusted.filter(|_| options.is_fenced()) {
        if let Ok(guard) = ask(&options.tries(1)).await {
            return Ok(guard);
        }
        redlock.trust_nodes();
    }
    let options = match by {
        Instant::MAX => options,
        by => options.wait(left(by)),
    };
    let mut asking = pin!(ask(&options));
    poll_fn(|context| {
        let polled = asking.as_mut().poll(context);
        if polled.is_pending() {
            waiting.look(context);
        }
        polled
    })
    .await
}
