//! The whole life of a lock: taken, used, extended, given back; and what a second client sees.
//!
//! ```text
//! cargo run --features embedded --example quickstart                       nodes in this process
//! SHEARLINE_NODES=redis://10.0.0.1,... cargo run --example quickstart      your own
//! ```

use std::error::Error;
use std::time::Duration;

use shearline::{ExtendError, LockError, LockGuard, LockOptions, Redlock, UnlockError};

mod nodes;

const TTL: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let resource = format!("quickstart:{}", std::process::id());

    // Nodes that are down are no error here: they are tried again for as long as the handle lives.
    let redlock = Redlock::builder()
        .nodes(&nodes.urls)
        .owner("quickstart")
        .build()?;

    // Waits, and tries again after a random delay: 32 times by default.
    let mut lock = redlock.lock(&resource, TTL)?;
    println!("taken: {resource}, valid for {:?}", lock.validity());

    second_client_is_refused(&nodes.urls, &resource)?;

    for step in 1..=3 {
        work(step);
        keep(&mut lock)?;
    }

    // Dropping the guard would release too, but would not tell how it went.
    match lock.unlock() {
        Ok(released) => println!("released, so far on {} nodes", released.deleted),
        // The work may have overlapped with somebody else's: the time to look at its result.
        Err(UnlockError::NotHeld(report)) => println!("it had been lost before: {report}"),
        // Nothing to be done: the releases stay owed and are paid when the nodes are back.
        Err(error) => println!("{error}"),
    }
    Ok(())
}

/// Between two steps of work: extends the lock in time, and says so when it is over.
fn keep(lock: &mut LockGuard) -> Result<(), ExtendError> {
    // A real program would ask `if lock.validity() < TTL / 2` first.
    match lock.extend(TTL) {
        Ok(_) => println!("  extended, valid for {:?}", lock.validity()),
        // Too few nodes answered. The lock is what it was, and there is time for another try.
        Err(ExtendError::Unconfirmed(report)) if lock.is_valid() => {
            println!(
                "  not extended, still valid for {:?}: {report}",
                lock.validity()
            );
        }
        // Lost or expired: stop the work, somebody else may have the lock by now.
        Err(over) => return Err(over),
    }
    Ok(())
}

/// Somebody else, with a handle of their own. Waits a moment and is refused.
fn second_client_is_refused(urls: &[String], resource: &str) -> Result<(), Box<dyn Error>> {
    let other = Redlock::connect(urls)?;
    let patience = LockOptions::new(TTL).wait(Duration::from_millis(200));
    match other.lock_with(resource, &patience) {
        Ok(_) => return Err("two clients hold one lock".into()),
        Err(LockError::Held(report)) => println!("a second client: held by another, {report}"),
        // Too few nodes, too slow, or a mistake: the text names the nodes and what to do.
        Err(error) => println!("a second client: {error}"),
    }
    Ok(())
}

fn work(step: u32) {
    println!("  step {step} of the work that nobody else may do meanwhile");
    std::thread::sleep(Duration::from_millis(50));
}
