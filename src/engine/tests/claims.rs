//! Stories of claims: which nodes may have a token, and when they no longer have it.

use super::restarts::{guarded, guarded_lock};
use super::*;

/// A time that is longer than any key of these stories lives.
const LONG: Duration = Duration::from_secs(3_600);

impl World {
    /// Ends the connection to `node`, and connects to the same server again.
    pub(super) fn break_and_mend(&mut self, node: usize) {
        self.lose(node);
        self.take(node);
        self.greet_as(node, &format!("run{node}"), 2_000);
        self.take(node);
    }

    /// Releases `lock`; all nodes but 2 answer. Returns how many claims are left after a long time.
    pub(super) fn claims_long_after(&mut self, lock: Lock) -> usize {
        self.release_on(0..2, lock);
        self.pass(LONG);
        self.claims()
    }
}

/// A server that postpones writes may run the `SET` later, over the connection that is gone. The same holds if the lock
/// was over long ago.
#[test]
fn a_set_without_an_answer_is_owed_also_where_the_key_was_missing_later() {
    for is_over in [false, true] {
        let mut world = guarded(3);
        world.pass(2 * SECOND);
        let mut lock = world.lock_by(&[0, 1]);
        world.break_and_mend(2);
        if is_over {
            world.pass(TTL);
            world.expired(&lock);
            world.pass(LONG);
            world.take(2);
        } else {
            world.extend_by_two(&mut lock);
            world.say(2, ":0|");
        }
        world.lose(2);
        assert_eq!(world.claims_long_after(lock), 1, "{is_over}");
    }
}

#[test]
fn an_answer_that_no_set_has_leaves_its_release_owed() {
    let (mut world, lock) = guarded_lock(&[0, 1]);
    world.say(2, ":7|");
    assert_eq!(world.links[2], "reset");
    assert_eq!(world.claims_long_after(lock), 1);
}

#[test]
fn an_extension_without_an_answer_may_have_been_run_whatever_an_earlier_one_says() {
    let (mut world, mut lock) = guarded_lock(&[0, 1, 2]);
    world.ask_extension(&lock);
    world.ask_extension(&lock);
    world.say(2, ":1|");
    world.all_say(0..2, ":1|:1|");
    world.events.truncate(1);
    world.extended(&mut lock);
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

/// An extension may have run even though the answer was an error.
#[test]
fn an_extension_without_a_certain_answer_leaves_the_expiry_unknown() {
    let (mut world, mut lock) = guarded_lock(&[0, 1, 2]);
    world.extend_but_for_2(&mut lock, "-ERR timed out behind a proxy|");
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

#[test]
fn a_lock_that_is_handed_over_does_not_stand_on_nodes_that_do_not_vote() {
    let (mut world, lock) = guarded_lock(&[0, 1, 2]);
    world.restart(2);
    let lock = world.detach(lock);
    assert_eq!(lock.voters(), crate::quorum::NodeSet::first(2));
}
