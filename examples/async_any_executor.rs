//! Runs the same futures on two async executors, which have no special support for this library.
//!
//! The futures of `shearline` need no runtime: any executor can poll them. This example uses `pollster`, which runs one
//! future on one thread, and `async-executor`, on which several tasks share a thread. The work races against the loss
//! of its lock, so that the work is dropped as soon as the lock is lost.

use std::error::Error;
use std::future::{Future, pending};
use std::time::Duration;

use async_executor::LocalExecutor;
use futures_lite::future;
use shearline::{LockError, LockGuard, Redlock};

mod nodes;

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let redlock = Redlock::connect(&nodes.urls)?;
    let resource = format!("async:{}", std::process::id());

    println!("pollster, one future on one thread:");
    pollster::block_on(one_task(&redlock, &resource, "alone"))?;
    pollster::block_on(work_that_takes_too_long(&redlock, &resource))?;

    println!("async-executor, three tasks on one thread, one after the other in the lock:");
    let executor = LocalExecutor::new();
    let tasks: Vec<_> = ["first", "second", "third"]
        .map(|name| executor.spawn(one_task(&redlock, &resource, name)))
        .into();
    future::block_on(executor.run(async {
        for task in tasks {
            task.await?;
        }
        Ok::<(), Box<dyn Error>>(())
    }))
}

/// Takes the lock, works, extends the lock, and releases it.
async fn one_task(redlock: &Redlock, resource: &str, name: &str) -> Result<(), Box<dyn Error>> {
    // Nothing is sent before the first poll. If the future is dropped, any lock that it has won is released.
    let mut lock = redlock
        .lock_async(resource, Duration::from_secs(10))
        .await?;
    println!("  {name}: has the lock");
    match while_held(&lock, work()).await {
        Some(sum) => println!("  {name}: done, {sum}"),
        None => return Err("the lock was lost in the middle of the work".into()),
    }
    lock.extend_async(Duration::from_secs(20)).await?;
    let released = lock.unlock_async().await?;
    println!("  {name}: released, so far on {} nodes", released.deleted);
    Ok(())
}

/// Runs endless work under a lock with a ttl of 200 ms, which nothing extends.
async fn work_that_takes_too_long(redlock: &Redlock, resource: &str) -> Result<(), LockError> {
    let lock = redlock
        .lock_async(resource, Duration::from_millis(200))
        .await?;
    match while_held(&lock, pending::<()>()).await {
        Some(()) => unreachable!("it never ends by itself"),
        None => println!("  too long: the lock has ended, and the work was dropped with it"),
    }
    Ok(())
}

/// Returns the output of `work`. If the lock is lost first, drops the unfinished `work` and returns `None`.
///
/// A timer of the library signals the loss, even while every node is silent.
async fn while_held<T>(lock: &LockGuard, work: impl Future<Output = T>) -> Option<T> {
    let lost = async {
        lock.lost().await;
        None
    };
    // `or` polls the loss first, because work that finishes after the loss is too late.
    future::or(lost, async { Some(work.await) }).await
}

async fn work() -> u32 {
    let mut sum = 0;
    for number in 1..=10 {
        sum += number;
        future::yield_now().await;
    }
    sum
}
