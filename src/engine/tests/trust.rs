//! Stories of an operator who vouches for a server.

use super::restarts::{LONGEST, QUARANTINE, guarded};
use super::*;
use crate::error::TrustFault;

impl World {
    /// An operator vouches for the server with this `run_id` behind a node.
    pub(super) fn trust(&mut self, node: usize, run_id: &str) -> Result<bool, TrustFault> {
        let trusted = self.engine.trust_for(self.now, id(node), run_id);
        trusted.map(|(kept, _)| kept)
    }
}

#[test]
fn a_node_that_has_just_started_does_not_vote_before_it_is_trusted() {
    let mut world = World::with(Config::builder().node("node0:6379").max_ttl(LONGEST));
    world.greet_as(0, "run0", 3);
    let rest = QUARANTINE + Duration::from_secs(2) - Duration::from_secs(3);
    let until = world.now.saturating_add(rest);
    assert_eq!(world.quarantined_until(0), Some(until));
    assert_eq!(world.trust(0, "run0"), Ok(true));
    assert_eq!(world.quarantined_until(0), None);
    assert_eq!(world.trust(0, "run0"), Ok(false));
    let nobody = Err(TrustFault::UnknownNode);
    assert_eq!(world.trust(7, "run0"), nobody);
    // Without a wall clock the engine does not know which counter floor is high enough.
    let _lock = world.lock_by(&[0]);
}

/// Another server came between the operator's look and the assertion.
#[test]
fn trust_in_a_server_that_was_replaced_is_not_trust_in_the_next() {
    let mut world = guarded(3);
    let status = world.engine.node_statuses(world.now).nth(2);
    let seen = status.expect("three").run_id.expect("it has told");
    assert_eq!(seen, "run2");
    world.restart(2);
    let until = world.now.saturating_add(QUARANTINE);
    let changed = TrustFault::Changed {
        run_id: "again2".into(),
    };
    assert_eq!(world.trust(2, &seen), Err(changed));
    assert_eq!(world.quarantined_until(2), Some(until), "it still is");
    assert_eq!(world.trust(2, "again2"), Ok(true));
    assert_eq!(world.quarantined_until(2), None);
    // It is not known which server a node without a connection will be.
    world.restart(2);
    world.lose(1);
    let away = Err(TrustFault::NotConnected);
    assert_eq!(world.trust(1, "run1"), away);
    let (trusted, _) = world.engine.trust_all(world.now);
    assert_eq!(trusted, [(id(0), "run0".into()), (id(2), "again2".into())]);
    assert_eq!(world.quarantined_until(2), None);
}

/// A server that does not report its run_id cannot be trusted by its run_id. It is not trusted together with the others
/// either.
#[test]
fn a_server_that_does_not_tell_its_run_id_is_not_trusted() {
    let mut world = guarded(1);
    world.lose(0);
    world.welcome_again(0);
    world.say(0, "$-1|$-1|$-1|$-1|$-1|$-1|$-1|");
    assert!(world.quarantined_until(0).is_some());
    let untold = Err(TrustFault::NoRunId);
    assert_eq!(world.trust(0, "run0"), untold);
    assert!(world.engine.trust_all(world.now).0.is_empty());
    assert!(world.quarantined_until(0).is_some());
}
