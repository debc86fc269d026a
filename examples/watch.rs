//! A small dashboard, which prints one line for each change of the locks that it watches.
//!
//! One thread per lock waits for changes, and sends nothing while nothing changes. In this example, a worker of the
//! same program takes one lock after another, as any client could. The dashboard ends when it has seen all changes by
//! the worker, or when nothing has changed for ten seconds.

use std::error::Error;
use std::thread;
use std::time::Duration;

use shearline::{Inspection, LockError, Redlock};

mod nodes;

const QUIET: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let names = ["invoices", "reports"].map(|name| format!("{name}:{}", std::process::id()));
    let dashboard = Redlock::connect(&nodes.urls)?;
    let worker = Redlock::builder()
        .nodes(&nodes.urls)
        .owner("worker-1")
        .build()?;
    let seen = thread::scope(|scope| {
        let watching: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(|| show(&dashboard, name).map_err(|e| e.to_string())))
            .collect();
        scope.spawn(|| work(&worker, &names).map_err(|error| eprintln!("{error}")));
        let ends = watching.into_iter().map(|thread| thread.join());
        ends.collect::<Vec<_>>()
    });
    for seen in seen {
        if !seen.map_err(|_| "a thread has panicked")?? {
            return Err("nothing has changed for ten seconds".into());
        }
    }
    Ok(())
}

/// Prints each state of `name`, until it was held and is free again. Returns `false` if nothing has
/// changed for ten seconds.
fn show(redlock: &Redlock, name: &str) -> Result<bool, Box<dyn Error>> {
    let mut watch = redlock.watch(name)?;
    let mut was_held = false;
    while let Some(state) = watch.next(QUIET) {
        println!("{name:<16} {}", line(&state));
        if was_held && state.is_free() {
            return Ok(true);
        }
        was_held |= state.holder().is_some();
    }
    Ok(false)
}

/// Returns the state in a few words. The `Display` output of the inspection would also show the state of each node.
fn line(state: &Inspection) -> String {
    match state.holder() {
        Some(holder) => format!(
            "{} has it on {} nodes for {:.1?}",
            holder.owner.escape_ascii(),
            holder.nodes,
            holder.valid_for,
        ),
        None if state.is_free() => "free".to_owned(),
        None => format!("unclear: {state}"),
    }
}

/// Takes the locks one after another, and holds each lock long enough for the dashboard to see it.
fn work(redlock: &Redlock, names: &[String]) -> Result<(), LockError> {
    for name in names {
        thread::sleep(Duration::from_millis(300));
        let mut lock = redlock.lock(name, Duration::from_secs(5))?;
        thread::sleep(Duration::from_millis(500));
        // An extension changes when the lock expires, so the dashboard shows it as a change. If the extension fails,
        // the dashboard shows no change.
        let _ = lock.extend(Duration::from_secs(10));
        thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}
