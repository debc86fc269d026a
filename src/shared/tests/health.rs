//! Stories of `health` for a lock that is over.

use super::*;
use crate::config::RestartGuard;
use crate::error::NodeOutcome;

/// The lock is extended after half of this.
const TTL: Duration = Duration::from_secs(2);

/// Two of three nodes say that the key is gone. Their answers are available as soon as the loss is reported.
#[test]
fn health_shows_the_extension_that_found_the_loss() {
    let world = World::new();
    let unguarded = world.builder().restart_guard(RestartGuard::Off);
    let redlock = unguarded.build().unwrap();
    let guard = short_lock(&redlock, "a", TTL, LockOptions::keep);
    assert_eq!(guard.health().failures, 0);
    for node in &world.nodes[..2] {
        node.restart(crate::embedded::Memory::Lost).unwrap();
    }
    assert!(guard.lost().wait(PATIENCE));
    let health = guard.health();
    assert_eq!(health.validity, Duration::ZERO);
    assert_ne!(health.failures, 0);
    let report = health.last_report.expect("it has found the loss");
    let missing = report.nodes().iter();
    let missing = missing.filter(|node| node.outcome == NodeOutcome::Missing);
    assert_eq!(missing.count(), 2, "{report}");
    assert!(health.confirmed_by.is_empty());
}

/// No node confirms a lock that is over, even while its keys are remembered. No node confirms an adopted lock before it
/// has been asked.
#[test]
fn a_lock_that_is_not_valid_is_confirmed_by_no_node() {
    let (_world, redlock) = World::start();
    let guard = short_lock(&redlock, "a", 300 * MS, |options| options);
    assert!(guard.lost().wait(PATIENCE));
    assert!(guard.health().confirmed_by.is_empty());
    let lock = redlock.lock("b", LONG).unwrap().into_lock();
    let mut guard = redlock.adopt(lock);
    assert!(guard.is_valid() && guard.health().confirmed_by.is_empty());
    guard.confirm().unwrap();
    assert!(2 <= guard.health().confirmed_by.len());
}
