//! The resident memory of a waiting caller, measured in a separate program, before and after its futures wait. The
//! futures themselves belong to the caller.

use std::env;
use std::future::Future;
use std::process::Stdio;
use std::task::{Context, Waker};

use crate::face::over;
use crate::parts::{memory, part};
use crate::servers::{Cluster, LONG, Options};

use super::PATIENT;

/// The environment variable that gives the program the number of waiters.
const WAITERS: &str = "SHEARLINE_WAITERS";

/// The most bytes that one of many waiters may cost.
const BYTES_MAX: u64 = 300;

/// Anything else that takes memory does so in some processes, not in each.
#[test]
fn a_waiter_costs_300_bytes_of_resident_memory_at_most() {
    let failures: Vec<String> = (0..3).map_while(|_| measured().err()).collect();
    assert!(failures.len() < 3, "{failures:#?}");
}

/// Measures in a process of its own. Returns what that printed if a waiter cost too much.
fn measured() -> Result<(), String> {
    // There are so many waiters that the other pages of the process do not matter.
    let output = part("waiting::memory::program")
        .env(WAITERS, "60000")
        .stdin(Stdio::null())
        .output()
        .expect("this binary starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let failed = || format!("{said}\n{errors}");
    output.status.success().then_some(()).ok_or_else(failed)
}

/// Runs in a process of its own, and does nothing elsewhere.
#[test]
#[ignore = "a part of another test"]
fn program() {
    let Ok(waiters) = env::var(WAITERS) else {
        return;
    };
    let waiters = waiters.parse().expect("a number");
    let cluster = Cluster::with(3, &Options::redis());
    let redlock = over(&cluster).build().expect("a good configuration");
    let lock = redlock.try_lock("own", LONG).expect("free");
    let wait = |_| Box::pin(redlock.lock_with_async("own", &PATIENT));
    let mut waiting: Vec<_> = (0..waiters).map(wait).collect();
    let resident = || memory("VmRSS:").expect("this is Linux");
    let before = resident();
    let mut context = Context::from_waker(Waker::noop());
    for future in &mut waiting {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    let each = (resident() - before) / waiters;
    println!("{each} B each of {waiters}");
    assert!(each <= BYTES_MAX, "{each} B each of {waiters}");
    drop(waiting);
    lock.unlock().expect("held");
}
