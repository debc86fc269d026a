//! Takes a lock, works under it, extends it and releases it. Also shows what a second client sees.
//!
//! ```text
//! cargo run --features embedded --example quickstart                       nodes in this process
//! SHEARLINE_NODES=redis://10.0.0.1,... cargo run --example quickstart      your own
//! ```

use std::error::Error;
use std::time::Duration;

use shearline::{ExtendError, LockGuard, LockOptions, Redlock};

mod nodes;

const TTL: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let resource = format!("quickstart:{}", std::process::id());

    // A node that is down is not an error here: the handle tries to connect to it for as long as it lives.
    let redlock = Redlock::builder()
        .nodes(&nodes.urls)
        .owner("quickstart")
        .build()?;

    // If another client has the lock, this call waits for up to five seconds by default.
    let mut lock = redlock.lock(&resource, TTL)?;
    println!("taken: {resource}, valid for {:?}", lock.validity());

    second_client_is_refused(&nodes.urls, &resource)?;

    for step in 1..=3 {
        work(step);
        keep(&mut lock)?;
    }

    // Dropping the guard would also release the lock, but would not return the outcome.
    match lock.unlock() {
        Ok(released) => println!("released, so far on {} nodes", released.deleted),
        // The work may have overlapped with the work of another client: check the result.
        Err(error) if !error.is_harmless() => return Err(error.into()),
        // Do nothing: the handle sends the releases when the nodes are back.
        Err(error) => println!("{error:#}"),
    }
    Ok(())
}

/// Extends the lock in time, between two steps of work. Returns an error if the lock is lost.
fn keep(lock: &mut LockGuard) -> Result<(), ExtendError> {
    // A real program would extend only `if lock.validity() < TTL / 2`.
    match lock.extend(TTL) {
        Ok(_) => println!("  extended, valid for {:?}", lock.validity()),
        // Too few nodes answered. The lock stays valid until the same time as before, and there is time for another
        // try.
        Err(ExtendError::Unconfirmed(report)) if lock.is_valid() => {
            println!(
                "  not extended, still valid for {:?}: {report}",
                lock.validity()
            );
        }
        // The lock is lost or expired. Stop the work, because another client may have the lock now.
        Err(over) => return Err(over),
    }
    Ok(())
}

/// A second client, with its own handle, waits a moment and does not get the lock.
fn second_client_is_refused(urls: &[String], resource: &str) -> Result<(), Box<dyn Error>> {
    let other = Redlock::connect(urls)?;
    let patience = LockOptions::new(TTL).wait(Duration::from_millis(200));
    match other.lock_with(resource, &patience) {
        Ok(_) => return Err("two clients hold one lock".into()),
        Err(error) if error.is_held() => println!("a second client: {error}"),
        // Too few nodes answered, or they were too slow, or the request is wrong: the long text says
        // what to do.
        Err(error) => println!("a second client: {error:#}"),
    }
    Ok(())
}

fn work(step: u32) {
    println!("  step {step} of the work that no other client may do meanwhile");
    std::thread::sleep(Duration::from_millis(50));
}
