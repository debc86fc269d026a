//! Many threads share one handle: each thread has a clone of the handle and takes its own locks.
//!
//! Eight threads increment a counter that is not atomic: they read it, wait, and write the value plus one. Without the
//! lock, nearly every increment would be lost. With the lock, no increment is lost.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shearline::{LockError, LockOptions, Redlock, Retry};

mod nodes;

const THREADS: u64 = 8;
const COUNTS: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let resource = format!("many_threads:{}", std::process::id());
    let redlock = Redlock::builder()
        .nodes(&nodes.urls)
        // The threads hold a lock for only a millisecond, so waiters may ask again soon.
        .retry(Retry::new(
            32,
            Duration::from_millis(1)..=Duration::from_millis(5),
        ))
        .build()?;

    let counter = AtomicU64::new(0);
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                // All clones share one handle, with one connection to each node. The commands of simultaneous callers
                // share one write.
                let redlock = redlock.clone();
                scope.spawn(|| count(redlock, &resource, &counter))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| "a thread has panicked")??;
    }

    let counted = counter.load(Ordering::Relaxed);
    println!(
        "{THREADS} threads counted to {counted} of {}",
        THREADS * COUNTS
    );
    if counted != THREADS * COUNTS {
        return Err("counts were lost".into());
    }
    Ok(())
}

fn count(redlock: Redlock, resource: &str, counter: &AtomicU64) -> Result<(), LockError> {
    // The number of tries is unlimited, but the time for them is limited.
    let options = LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(30));
    for _ in 0..COUNTS {
        let _lock = redlock.lock_with(resource, &options)?;
        // The load and the store are deliberately not one atomic step.
        let seen = counter.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(1));
        counter.store(seen + 1, Ordering::Relaxed);
        // The guard is dropped here, which sends the release but does not wait for the answer.
    }
    Ok(())
}
