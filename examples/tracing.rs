//! Prints the spans and events of a handle with `tracing-subscriber`.
//!
//! Two threads want the same lock. Each operation is a span, which is printed when the operation ends. The output shows
//! a hash instead of each resource name.

use std::error::Error;
use std::thread;
use std::time::Duration;

use shearline::{LockError, Redlock};
use tracing_subscriber::fmt::format::FmtSpan;

mod nodes;

fn main() -> Result<(), Box<dyn Error>> {
    // Sets the subscriber before the handle is built, so that no event is missed. With the feature `env-filter` of
    // `tracing-subscriber`, a real program would use `RUST_LOG=shearline=debug`.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .init();
    let nodes = nodes::nodes();
    let redlock = Redlock::connect(&nodes.urls)?;
    let name = format!("invoice:{}", std::process::id());
    let ends = thread::scope(|scope| {
        let workers = [1, 2].map(|number| {
            let (redlock, name) = (&redlock, &name);
            scope.spawn(move || work(redlock, name, number))
        });
        workers.map(|worker| worker.join())
    });
    for end in ends {
        end.map_err(|_| "a thread has panicked")?
            .map_err(|error| error.to_string())?;
    }
    println!("{}", redlock.inspect(&name)?);
    Ok(())
}

/// Holds the lock for a while. Events during this time belong to this span.
fn work(redlock: &Redlock, name: &str, number: u32) -> Result<(), LockError> {
    let _work = tracing::info_span!("work", number).entered();
    let mut lock = redlock.lock(name, Duration::from_secs(5))?;
    thread::sleep(Duration::from_millis(100));
    // If the extension fails, its span says so.
    let _ = lock.extend(Duration::from_secs(5));
    Ok(())
}
