//! Stories of copies: a node that lacks the keys gets them again, because a majority has them.

use super::restarts::guarded_lock;
use super::*;
use crate::quorum::Drift;

impl World {
    #[track_caller]
    fn is_released_on_2(&mut self, lock: Lock) {
        self.release(lock);
        let release = self.take(2);
        assert_matches!(&release[..], [one] if one.ends_with("release"));
        self.all_say(0..3, ":1|");
        assert!(self.unlocked().is_ok());
        self.is_clean();
    }
}

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
    assert_eq!(
        world.take_all(),
        vec![Vec::<String>::new(); 3],
        "it was not known before"
    );
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
        let first = "EVAL SET k 10000 if get del set evalsha";
        let lacks = |command| NodeState::Unusable(Unusable::Permission { command });
        match missing {
            None => assert_eq!(copies, [first, "SET k 10000"]),
            Some(command) => {
                assert_eq!(copies, [first]);
                assert_eq!(world.state(2), lacks(command));
            }
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
#[test]
fn a_node_that_has_got_its_copy_meanwhile_gets_no_other() {
    let (mut world, mut lock) = copy_sent();
    world.extend_but_for_2(&mut lock, "+OK|");
    assert_eq!(world.take(2), NOTHING);
}

/// The release of the next holder may arrive before the copy.
#[test]
fn a_copy_that_is_unanswered_is_given_back_when_its_lock_is_handed_over() {
    let (mut world, lock) = copy_sent();
    let _handed_over = world.detach(lock);
    assert_eq!(world.take(2), ["EVALSHA release"]);
    assert!(world.take(0).is_empty() && world.take(1).is_empty());
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
    assert_eq!(
        world.take(2),
        ["SET k 10000"],
        "a nil is no vote, and no end"
    );
    world.say(2, "_|");
    world.release(lock);
    assert_eq!(world.take(2), NOTHING, "it has denied every `SET`");
}

/// Ways to lose the answer to a copy that was run.
const LOSSES: [fn(&mut World); 2] = [
    |world| world.break_and_mend(2),
    |world| world.say(2, "-ERR timed out behind a proxy|"),
];

#[test]
fn a_copy_that_meets_our_own_copy_is_released() {
    for lose in LOSSES {
        let (mut world, mut lock) = copy_sent();
        lose(&mut world);
        world.extend_by_two(&mut lock);
        assert_eq!(world.take(2), ["SET k 10000"], "another copy");
        world.say(2, ":1|_|"); // The first one was run, and its key prevents the second one.
        world.is_released_on_2(lock);
    }
}

/// The copy arrived when the extension had begun, and was lost before the node was asked.
#[test]
fn a_copy_that_is_lost_within_an_extension_is_sent_again_with_the_next_one() {
    let (mut world, mut lock) = copy_sent();
    world.extend_but_for_2(&mut lock, "+OK|:0|");
    assert_eq!(world.take(2), NOTHING, "it was not known before");
    world.extend_by_two(&mut lock);
    world.exchange(2, ["SET k 10000"], ":0|+OK|");
    world.is_released_on_2(lock);
}

#[test]
fn a_copy_that_is_taken_back_does_not_hide_an_earlier_one() {
    for lose in LOSSES {
        let (mut world, mut lock) = copy_sent();
        lose(&mut world);
        world.ask_extension(&lock);
        world.window[2] = 0;
        world.all_say(0..2, ":1|");
        world.extended(&mut lock);
        assert_eq!(world.take(2), NOTHING, "it waits for room");
        world.say(2, ":1|");
        world.window[2] = usize::MAX;
        world.release(lock);
        world.input(Input::Writable { node: id(2) });
        assert_eq!(world.take(2).len(), 1, "a release alone");
        world.all_say(0..3, ":1|");
        assert!(world.unlocked().is_ok());
        world.is_clean();
    }
}

/// The end of the lock, or of the connection, withdraws the copy.
#[test]
fn a_copy_that_never_left_does_not_hide_an_earlier_one() {
    let ends: [fn(&mut World); 2] = [|world| world.pass(TTL), |world| world.break_and_mend(2)];
    for end in ends {
        let (mut world, mut lock) = copy_sent();
        world.break_and_mend(2);
        world.ask_extension(&lock);
        world.window[2] = 0;
        world.all_say(0..2, ":1|");
        world.extended(&mut lock);
        end(&mut world);
        world.events.clear();
        world.make_room(2);
        world.take(2);
        world.release(lock);
        assert_eq!(world.take(2).len(), 1, "a release alone");
    }
}

/// A node may still have a key that it granted before, whatever it answers to a copy.
#[test]
fn a_denied_copy_says_nothing_of_what_was_granted_before_it() {
    let (mut world, lock) = copy_sent();
    world.say(2, "_|");
    world.is_released_on_2(lock);
}

#[test]
fn a_copy_without_an_answer_is_owed_also_where_the_key_is_there() {
    let (mut world, mut lock) = copy_sent();
    world.break_and_mend(2);
    world.extend_but_for_2(&mut lock, ":1|");
    world.lose(2);
    assert_eq!(world.claims_long_after(lock), 1);
}

/// The key of the first copy would make the node deny a second one, and this answer says nothing about the first.
#[test]
fn a_copy_that_is_unanswered_is_not_sent_again() {
    let (mut world, mut lock) = copy_sent();
    for _ in 0..2 {
        world.extend_by_two(&mut lock);
        assert_eq!(world.take(2), NOTHING);
    }
    drop(lock);
}

/// The new owner does not know that a `SET` may still run after its release.
#[test]
fn a_copy_without_an_answer_is_not_handed_over() {
    let (mut world, lock) = copy_sent();
    world.break_and_mend(2);
    let lock = world.detach(lock);
    assert_eq!(world.take(2).len(), 1, "a release");
    assert!(!lock.voters().contains(id(2)));
}
