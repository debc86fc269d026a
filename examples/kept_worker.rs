//! A worker that keeps its lock while it works, and stops when the lock is at risk. The example runs the worker on a
//! thread, and as a future.
//!
//! The handle extends the lock from its own thread, even while the worker computes. In this example the handle stops
//! extending after a second and a half, as if the nodes were unreachable, and the second piece of work needs more time
//! than that. The worker notices when a quarter of the ttl is left, so it can stop before another client begins.

use std::error::Error;
use std::future::Future;
use std::thread;
use std::time::Duration;

use futures_lite::future;
use shearline::{LockError, LockGuard, LockOptions, Redlock, Released, UnlockError};

mod nodes;

const TTL: Duration = Duration::from_millis(800);
const AT_MOST: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let redlock = Redlock::connect(&nodes.urls)?;
    let name = format!("report:{}", std::process::id());
    // A real worker calls `.keep()`, which has no time limit.
    let kept = LockOptions::new(TTL).keep_for(AT_MOST);
    for steps in [20, 1000] {
        let lock = redlock.lock_with(&name, &kept)?;
        print_end("thread", work(&lock, steps), steps);
        // The next worker may begin immediately, before the ttl has passed.
        print_released(lock.unlock());
    }
    for steps in [20, 1000] {
        let worker = async {
            let lock = redlock.lock_with_async(&name, &kept).await?;
            let mut done = 0;
            while_safe(&lock, work_async(steps, &mut done)).await;
            print_end("future", done, steps);
            print_released(lock.unlock_async().await);
            Ok::<_, LockError>(())
        };
        pollster::block_on(worker)?;
    }
    Ok(())
}

/// Works on this thread, and checks before each step that the lock is safe. A step must not take longer than a quarter
/// of the ttl, because a lock is at risk when only that much time is left. Returns the number of finished steps.
fn work(lock: &LockGuard, steps: u32) -> u32 {
    let at_risk = lock.at_risk();
    for done in 0..steps {
        if at_risk.is_at_risk() {
            return done;
        }
        thread::sleep(STEP);
    }
    steps
}

/// Polls `work` until it ends or the lock is at risk. If the lock is at risk, drops `work` at its current step.
async fn while_safe(lock: &LockGuard, work: impl Future<Output = ()>) {
    // `or` polls the signal first, so that no step begins when the lock is at risk.
    future::or(lock.at_risk(), work).await;
}

/// Counts the finished steps in `done`, because this future can be dropped after each step.
async fn work_async(steps: u32, done: &mut u32) {
    while *done < steps {
        step().await;
        *done += 1;
    }
}

/// Waits for a step that another thread performs.
async fn step() {
    let step = thread::spawn(|| thread::sleep(STEP));
    while !step.is_finished() {
        future::yield_now().await;
        thread::yield_now(); // A real runtime would do other work meanwhile.
    }
}

/// Prints the outcome of the release. The work may have overlapped if the worker did not stop in time, or if a majority
/// reports that the lock is gone. If the lock was still valid, an unconfirmed release harms no client, because the
/// nodes get the release later.
fn print_released(released: Result<Released, UnlockError>) {
    match released {
        Ok(_) => {}
        Err(error) if error.is_harmless() => println!("{error:#}"),
        Err(error) => println!("the work may have overlapped: {error:#}"),
    }
}

fn print_end(who: &str, done: u32, steps: u32) {
    match done == steps {
        true => println!("{who}: all of {steps} steps are done"),
        false => println!("{who}: stopped after {done} of {steps} steps, the lock was at risk"),
    }
}
