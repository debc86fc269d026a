//! Stories of copies: a node that lacks the keys gets them again, because a majority has them.

use super::restarts::guarded_lock;
use super::*;
use crate::quorum::Drift;

/// Makes a lock on three nodes. The last node has lost its copy, and was sent another one.
pub(super) fn copy_sent() -> (World, Lock) {
    let (mut world, mut lock) = guarded_lock(&[0, 1, 2]);
    for _ in 0..2 {
        world.extend_but_for_2(&mut lock, ":0|");
    }
    assert_eq!(world.take(2), ["SET k 10000"]);
    (world, lock)
}

/// DESIGN 3.4: there were two holders in a measurement in which a node with a new copy counted during its quarantine.
#[test]
fn a_copy_is_sent_again_after_two_rounds_and_counts_after_the_quarantine() {
    let (mut world, mut lock) = guarded_lock(&[0, 1, 2]);
    world.restart(2);
    world.extend_by_two(&mut lock);
    world.say(2, ":0|");
    assert_eq!(world.take_all().concat(), NOTHING, "not known before");
    world.pass(Duration::from_secs(1));
    world.ask_extension(&lock);
    world.say(0, ":1|");
    assert_eq!(world.take(2), NOTHING, "one is no majority");
    world.say(1, ":1|");
    world.extended(&mut lock);
    let left = lock.valid_until().saturating_since(world.now);
    let ttl = left + Drift::default().of(TTL);
    world.exchange(2, [format!("SET k {}", ttl.as_millis())], ":0|+OK|");
    // The node has the key now, but its answer does not count yet.
    world.ask_extension(&lock);
    world.say(0, ":1|");
    world.say(2, ":1|");
    assert!(world.events.is_empty());
    world.say(1, ":1|");
    world.extended(&mut lock);
    let until = world.quarantined_until(2).expect("still");
    while world.now < until {
        world.pass(Duration::from_secs(5));
        world.ask_extension(&lock);
        world.all_say(0..3, ":1|");
        world.extended(&mut lock);
    }
    // Now its answer counts.
    world.ask_extension(&lock);
    world.say(2, ":1|");
    world.say(0, ":1|");
    world.extended(&mut lock);
    world.say(1, ":1|");
    world.release(lock);
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
}

/// The first `SET` on the connection to a node that came back may be a copy.
#[test]
fn a_copy_is_left_only_where_it_may_be_released() {
    for (answer, missing) in [(":1|", None), (":-2|", Some("del"))] {
        let (mut world, mut lock) = guarded_lock(&[0, 1, 2]);
        world.unpermitted = true;
        world.restart(2);
        let mut copies = Vec::new();
        for _ in 0..4 {
            world.extend_by_two(&mut lock);
            world.say(2, ":0|");
            for copy in world.take(2) {
                copies.push(copy);
                world.say(2, answer);
            }
        }
        // The copy is lost again, and sent again. If the user may not release it, it is not sent.
        let sent = ["EVAL SET k 10000 if get del set evalsha", "SET k 10000"];
        assert_eq!(copies, sent[..2 - usize::from(missing.is_some())]);
        if let Some(command) = missing {
            let lacking = NodeState::Unusable(Unusable::Permission { command });
            assert_eq!(world.state(2), lacking);
        }
    }
}

/// The node may have said meanwhile that it has the token. Then it still has the lock when its copy is refused. The
/// trial of the native release names another token.
#[test]
fn a_way_to_release_is_tried_on_a_token_that_no_node_has() {
    for answer in [":1|", ":0|"] {
        let (mut world, mut lock) = guarded_lock(&[0, 1]);
        world.say(2, "_|");
        world.take(2);
        world.unpermitted = true;
        world.lose(2);
        world.reconnect(2);
        world.welcome_as(2, VALKEY);
        world.finish_as(2, "again2", 0);
        world.take(2);
        world.extend_by_two(&mut lock);
        world.say(2, ":0|");
        world.extend_by_two(&mut lock);
        world.exchange(2, [permissions::FIRST], answer);
        world.say(2, ":-2|");
        assert_eq!(world.take(2), ["DELIFEQ k"]);
    }
}

/// When the extension began, it was not known that the node has its copy. When the extension is confirmed, it is known.
/// If the node is silent, the key of the first copy would make it deny a second one, and this answer would say nothing
/// about the first.
#[test]
fn a_node_that_has_got_its_copy_meanwhile_gets_no_other() {
    for answers in [["+OK|", ":1|:1|"], ["", ""]] {
        let (mut world, mut lock) = copy_sent();
        for said in answers {
            world.extend_but_for_2(&mut lock, said);
            assert_eq!(world.take(2), NOTHING, "{answers:?}");
        }
    }
}

/// A key that a node denied when the lock was taken may be granted later.
#[test]
fn a_node_that_held_another_lock_gets_a_copy_too() {
    let (mut world, mut lock) = guarded_lock(&[0, 1]);
    world.take(2);
    world.say(2, "_|");
    for _ in 0..2 {
        world.extend_but_for_2(&mut lock, ":-1|");
    }
    world.exchange(2, ["SET k 10000"], "_|");
    world.extend_but_for_2(&mut lock, ":0|");
    world.exchange(2, ["SET k 10000"], "_|"); // A nil is no vote, and no end.
    world.release(lock);
    assert_eq!(world.take(2), NOTHING, "it has denied every `SET`");
}

/// A node may still have a key that it granted before, whatever it answers to a copy.
#[test]
fn a_denied_copy_says_nothing_of_what_was_granted_before_it() {
    let (mut world, lock) = copy_sent();
    world.say(2, "_|");
    world.release(lock);
    world.all_exchange(&["EVALSHA release"], ":1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

/// A release is sent to the node, because the release of the next holder may arrive before the copy. The next holder
/// does not know that a `SET` may still run after its release.
#[test]
fn a_copy_without_an_answer_is_not_handed_over() {
    for is_lost in [false, true] {
        let (mut world, lock) = copy_sent();
        if is_lost {
            world.break_and_mend(2);
        }
        let lock = world.detach(lock);
        let sent = world.take_all();
        assert!(sent[0].is_empty() && sent[1].is_empty(), "{sent:?}");
        assert_matches!(&sent[2][..], [one] if one.ends_with("release"));
        assert!(!lock.voters().contains(id(2)));
    }
}
