//! Stories of permissions: no lock is left on a node where the user may not release it.

use super::ways::bare;
use super::*;

pub(super) const FIRST: &str = "EVAL SET k 10000 if get del set evalsha";
const NO_COMMAND: &str = "-NOPERM this user has no permissions to run the 'x' command|";

pub(super) fn lacks(command: &'static str) -> NodeOutcome {
    NodeOutcome::Unusable(Unusable::Permission { command })
}

/// Makes `nodes` nodes that have greeted, and were never asked for a lock.
pub(super) fn unasked(nodes: usize) -> World {
    let mut world = World::new(nodes);
    world.unpermitted = true;
    (0..nodes).for_each(|node| world.greet(node));
    world
}

/// The first `SET` is withdrawn, or lost with its connection.
#[test]
fn a_first_set_without_an_answer_keeps_nothing_of_its_lock() {
    for (mut world, is_withdrawn) in [(unasked(1), true), (unasked(1), false), (bare(1), false)] {
        if is_withdrawn {
            world.window[0] = 0;
            world.engine.inspect(world.now, b"other").expect("asked");
        }
        let round = world.try_once();
        let claim = world.only_claim();
        match is_withdrawn {
            true => world.cancel(round),
            false => world.lose(0),
        }
        assert!(world.node(0).abilities.end_trial(claim).is_none());
    }
}

#[test]
fn the_first_set_on_a_connection_is_done_only_if_its_release_is_permitted() {
    let mut world = unasked(2);
    world.try_once();
    assert_eq!(world.take_all(), [[FIRST], [FIRST]]);
    world.all_say(0..2, ":1|");
    let lock = world.lock();
    let until = Instant::from_millis(1_000).saturating_add(TTL - 102 * MS);
    assert_eq!(lock.valid_until(), until);
    world.release(lock);
    assert_eq!(world.take_all(), vec![["EVALSHA release"]; 2]);
    world.all_say(0..2, ":1|");
    assert_eq!(world.unlocked().expect("released").deleted, 2);
    world.is_clean();
    // From then on, no permission is asked for over this connection. Another connection may have another user.
    world.greet_again(1);
    world.try_once();
    assert_eq!(world.take_all(), [["SET k 10000"], [FIRST]]);
    world.each_says(&["+OK|", ":0|"]);
    let report = world.held_by_another();
    assert_eq!(outcomes(&report), [NodeOutcome::Granted, NodeOutcome::Held]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn a_user_who_may_not_release_gets_no_lock_and_learns_what_is_missing() {
    let missing = |command| Unusable::Permission { command };
    for (reply, reason) in [
        (":-1|", missing("get")),
        (":-2|", missing("del")),
        (":-3|", missing("set")),
        (":-4|", missing("evalsha")),
        (NO_KEY, Unusable::KeyPermission),
    ] {
        let mut world = unasked(1);
        world.acquire(&LockOptions::new(TTL));
        world.say(0, reply);
        assert_eq!(world.take(0), [FIRST], "{reason:?}: nothing to release");
        assert_eq!(world.refused_outright(), [NodeOutcome::Unusable(reason)]);
        world.is_clean();
        // The status of the node says so until it is repaired. A key is an exception, because other names may be
        // allowed.
        let is_ready = world.state(0) == NodeState::Ready;
        assert_eq!(is_ready, reason == Unusable::KeyPermission);
        assert!(is_ready || world.state(0) == NodeState::Unusable(reason));
        world.try_once();
        assert_eq!(world.take(0), [FIRST], "it is asked again");
        world.say(0, ":1|");
        assert_eq!(world.state(0), NodeState::Ready);
        drop(world.lock());
    }
}

/// Makes a node that has a native release, and asks it for a lock for the first time.
fn native() -> World {
    let mut world = World::new(1);
    world.unpermitted = true;
    world.greet_as_valkey(0);
    world.try_once();
    assert_eq!(world.take(0), [FIRST]);
    world
}

#[test]
fn a_user_whose_scripts_may_not_delete_releases_by_the_native_command() {
    for found in [":0|", ":-1|", "-WRONGTYPE Operation against a key|"] {
        let mut world = native();
        world.say(0, ":-2|");
        world.exchange(0, ["DELIFEQ k"], found);
        world.exchange(0, ["SET k 10000"], "+OK|");
        let lock = world.lock();
        world.release(lock);
        world.exchange(0, ["DELIFEQ k"], ":1|");
        world.is_clean();
    }
}

/// The native command still releases a lock on one name.
#[test]
fn a_set_that_scripts_may_not_delete_leaves_a_node_with_a_native_release_ready() {
    let mut world = native();
    world.say(0, ":-2|");
    world.say(0, ":0|");
    world.say(0, "+OK|");
    drop(world.lock());
    world.try_all();
    world.say(0, ":-2|");
    assert_eq!(outcomes(&world.no_quorum()), [lacks("del")]);
    assert_eq!(world.state(0), NodeState::Ready);
}

#[test]
fn a_user_who_may_not_run_the_native_command_either_gets_no_lock() {
    for refusal in [NO_COMMAND, "-ERR unknown command 'DELIFEQ'|"] {
        let mut world = native();
        world.say(0, ":-2|");
        world.say(0, refusal);
        assert_eq!(world.take(0), ["DELIFEQ k"]);
        let report = world.no_quorum();
        assert_eq!(outcomes(&report), [lacks("del")]);
        world.is_clean();
        // The native release is not tried again on the next connection.
        world.lose(0);
        world.reconnect(0);
        world.greet_as_valkey(0);
        world.try_once();
        world.exchange(0, [FIRST], ":-2|");
        assert_eq!(outcomes(&world.no_quorum()), [lacks("del")]);
        assert!(world.take(0).is_empty());
    }
}

#[test]
fn what_cannot_be_told_just_now_is_no_missing_permission() {
    let mut world = unasked(1);
    world.try_once();
    world.say(0, "-BUSY Redis is busy running a script.|");
    let report = world.no_quorum();
    let busy = crate::error::ServerError::from_line(b"BUSY");
    assert_eq!(outcomes(&report), [NodeOutcome::Refused(busy)]);
    assert_eq!(world.state(0), NodeState::Ready);
    world.is_clean();
}

/// Redis 6.2 stops a script at the first key that the user may not write. The keys before it are taken.
#[test]
fn a_script_that_was_stopped_may_have_taken_some_of_the_keys() {
    let stopped = "-ERR The user executing the script can't run this command or subcommand|";
    let mut world = World::ready(1);
    world.try_all();
    world.exchange(0, ["TAKE a b 10000"], stopped);
    let reason = NodeOutcome::Unusable(Unusable::NoPermission);
    assert_eq!(outcomes(&world.no_quorum()), [reason]);
    world.exchange(0, ["RELEASE a b"], ":1|");
    world.is_clean();
}
