//! Taking a lock: what happens while `lock` and `run` wait for it.
//!
//! # Guarantees
//!
//! * Nodes that are trusted give fencing tokens: a call with `--trust` is not refused because a node that is
//!   connected has no floor.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Context;
#[cfg(target_os = "linux")]
use std::time::Duration;

use shearline::held::Holds;
use shearline::{Acquiring, Guard, Instant, LockError, LockOptions, NodeOutcome, Redlock};

use crate::connect::left;
use crate::trust::Trust;
use crate::waiting::Waiting;

/// The time between two polls of [`take`].
#[cfg(target_os = "linux")]
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Asks for a lock with these options.
pub(crate) type Ask<'a, H> = &'a dyn Fn(&LockOptions) -> Acquiring<H>;

/// Takes the lock, and gives up at the time behind the options, unless that is the end of time. Meanwhile nodes are
/// trusted that come, and it says for whom it waits.
pub(crate) async fn take<H: Holds>(
    (redlock, trust): (&Redlock, &mut Trust),
    ask: Ask<'_, H>,
    (options, by): (LockOptions, Instant),
    waiting: &mut Waiting<'_>,
) -> Result<Guard<H>, LockError> {
    let options = || match by {
        Instant::MAX => options,
        by => options.wait(left(by)),
    };
    let mut has_given = false;
    let first = with(ask(&options()), |context| {
        has_given |= options().is_fenced() && trust.give_floors(redlock);
        trust.look(redlock);
        waiting.look(context);
    });
    let taken = first.await;
    let is_late = matches!(&taken, Err(error) if may_lack_floor(error));
    if !is_late || !trust.give_floors_now(redlock, has_given, by) {
        return taken;
    }
    // It was asked before the floors were there.
    let again = with(ask(&options()), |context| {
        trust.look(redlock);
        waiting.look(context);
    });
    again.await
}

/// Returns `true` if a node may have given no fencing token because it has no floor.
fn may_lack_floor(error: &LockError) -> bool {
    let LockError::NoQuorum(report) = error else {
        return false;
    };
    let lacks = |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Unusable(_));
    report.nodes().iter().any(|node| lacks(&node.outcome))
}

/// Waits for the future. Each time that it is polled in vain, `meanwhile` is called.
async fn with<F: Future>(future: F, mut meanwhile: impl FnMut(&mut Context<'_>)) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            meanwhile(context);
        }
        polled
    })
    .await
}
