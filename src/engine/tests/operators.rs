//! Stories of what only an operator can mend: it is told at once, and by its name.

use super::*;

const REFUSED: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";

impl World {
    /// The server behind `node` does not let us in.
    fn turn_away(&mut self, node: usize) {
        self.welcome_as(node, REFUSED);
        assert_eq!(self.links[node], "reset");
    }

    fn refused_outright(&mut self) -> Vec<NodeOutcome> {
        let LockError::NoQuorum(report) = self.refusal() else {
            panic!("too few can vote")
        };
        assert_eq!(report.tries(), 1, "{report}");
        outcomes(&report)
    }
}

fn wrong_credentials() -> NodeOutcome {
    NodeOutcome::Unusable(Unusable::WrongCredentials)
}

#[test]
fn a_majority_that_an_operator_has_to_mend_ends_a_call_in_its_first_try() {
    let mut world = World::new(3);
    world.acquire(&LockOptions::new(TTL));
    world.turn_away(2);
    assert!(world.events.is_empty(), "two are left");
    world.turn_away(0);
    assert_eq!(world.refused_outright()[0], wrong_credentials());
    // And the next call, which asks none of them again so soon.
    world.acquire(&LockOptions::new(TTL).wait(TTL));
    assert_eq!(world.links, ["reset", "connecting", "reset"]);
    assert_eq!(world.refused_outright()[2], wrong_credentials());
    world.is_clean();
}

#[test]
fn half_of_four_that_an_operator_has_to_mend_leave_no_majority_either() {
    let mut world = World::new(4);
    (0..2).for_each(|node| world.greet(node));
    (2..4).for_each(|node| world.turn_away(node));
    world.acquire(&LockOptions::new(TTL));
    let said = world.refused_outright();
    assert_eq!(said[2..], [wrong_credentials(), wrong_credentials()]);
}

#[test]
fn a_minority_that_an_operator_has_to_mend_is_no_reason_to_give_up() {
    let mut world = World::new(3);
    (0..2).for_each(|node| world.greet(node));
    world.turn_away(2);
    world.acquire(&LockOptions::new(TTL));
    world.say(0, "-OOM command not allowed|");
    world.say(1, "$-1|:0|"); // The `SET`, and the release behind it.
    assert!(world.events.is_empty(), "it is tried again");
    world.pass(Duration::from_millis(250));
    (0..2).for_each(|node| world.say(node, "+OK|"));
    drop(world.lock());
}

#[test]
fn what_an_operator_has_mended_is_seen_by_the_next_call() {
    let mut world = World::new(1);
    world.turn_away(0);
    world.pass(Duration::from_millis(1));
    while world.links[0] != "connecting" {
        world.pass(Duration::from_millis(10));
    }
    // It was refused once. Whether it still is shows on the connection that is being opened.
    world.try_once();
    assert!(world.events.is_empty(), "it may have been mended");
    world.greet(0);
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.say(0, "+OK|");
    drop(world.lock());
}

#[test]
fn a_check_names_what_an_operator_has_to_mend() {
    use crate::error::CheckError;
    let mut world = World::new(3);
    let Err(CheckError::NoQuorum(report)) = world.engine.check(world.now) else {
        panic!("nobody has answered yet")
    };
    let new = NodeOutcome::Unreachable(LinkError::NotYet);
    assert_eq!(outcomes(&report), [new; 3]);
    world.greet(0);
    world.turn_away(1);
    assert!(matches!(
        world.engine.check(world.now),
        Err(CheckError::NoQuorum(_))
    ));
    world.turn_away(2);
    let Err(CheckError::Unusable(report)) = world.engine.check(world.now) else {
        panic!("two of three are not let in")
    };
    let mended = [
        NodeOutcome::Granted,
        wrong_credentials(),
        wrong_credentials(),
    ];
    assert_eq!(outcomes(&report), mended);
    assert_eq!((report.quorum(), report.granted()), (2, 1));
    while world.links[2] != "connecting" {
        world.pass(Duration::from_millis(10));
    }
    world.greet(2);
    assert!(world.engine.check(world.now).is_ok());
}

// ----- permissions --------------------------------------------------------------------------

const FIRST: &str = "EVAL SET k 10000 if get del set evalsha";
const NO_COMMAND: &str = "-NOPERM this user has no permissions to run the 'x' command|";
const NO_KEY: &str = "-NOPERM No permissions to access a key|";
const IN_SCRIPT: &str = "-ERR The user executing the script can't run this command or subcommand|";
const VALKEY: &str = "%4|+server|+valkey|+version|+9.1.0|+role|+master|+mode|+standalone|";

fn lacks(command: &'static str) -> NodeOutcome {
    NodeOutcome::Unusable(Unusable::Permission { command })
}

/// `nodes` nodes that have greeted, and that nobody has asked for a lock.
fn unasked(nodes: usize) -> World {
    let mut world = World::new(nodes);
    world.unpermitted = true;
    (0..nodes).for_each(|node| world.greet(node));
    world
}

#[test]
fn the_first_set_on_a_connection_is_done_only_if_its_release_is_permitted() {
    let mut world = unasked(2);
    world.try_once();
    assert_eq!(world.take_all(), [[FIRST], [FIRST]]);
    (0..2).for_each(|node| world.say(node, ":1|"));
    let lock = world.lock();
    let until = Instant::from_millis(1_000).saturating_add(TTL - Duration::from_millis(102));
    assert_eq!(lock.valid_until(), until);
    world.release(lock);
    assert_eq!(world.take_all(), vec![["EVALSHA release"]; 2]);
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert_eq!(world.unlocked().expect("released").deleted, 2);
    world.is_clean();
    // And from then on nothing is asked over this connection. Another one may be another user's.
    world.lose(1);
    while world.links[1] != "connecting" {
        world.pass(Duration::from_millis(10));
    }
    world.greet(1);
    world.try_once();
    assert_eq!(world.take_all(), [["SET k 10000"], [FIRST]]);
    world.say(0, "+OK|");
    world.say(1, ":0|");
    let LockError::Held(report) = world.refusal() else {
        panic!("another has it there")
    };
    assert_eq!(outcomes(&report), [NodeOutcome::Granted, NodeOutcome::Held]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn who_may_not_release_gets_no_lock_and_learns_what_is_missing() {
    for (reply, missing) in [
        (NO_COMMAND, lacks("eval")),
        (":-1|", lacks("get")),
        (":-2|", lacks("del")),
        (":-3|", lacks("set")),
        (":-4|", lacks("evalsha")),
        (NO_KEY, NodeOutcome::Unusable(Unusable::KeyPermission)),
    ] {
        let mut world = unasked(1);
        world.acquire(&LockOptions::new(TTL));
        world.say(0, reply);
        assert_eq!(world.take(0), [FIRST], "{missing:?}: nothing to release");
        assert_eq!(world.refused_outright(), [missing]);
        world.is_clean();
        // The node says so until it is mended, but for a key: other names may do.
        let state = match missing {
            NodeOutcome::Unusable(Unusable::KeyPermission) => NodeState::Ready,
            NodeOutcome::Unusable(reason) => NodeState::Unusable(reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(world.engine.node_state(world.now, id(0)), state);
        world.try_once();
        assert_eq!(world.take(0), [FIRST], "it is asked again");
        world.say(0, ":1|");
        assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
        drop(world.lock());
    }
}

/// A node that has a native release, asked for a lock for the first time.
fn native() -> World {
    let mut world = World::new(1);
    world.unpermitted = true;
    world.welcome_as(0, VALKEY);
    world.finish(0, "run0");
    world.take(0);
    world.try_once();
    assert_eq!(world.take(0), [FIRST]);
    world
}

#[test]
fn who_may_not_run_scripts_releases_by_the_native_command() {
    for found in [":0|", ":-1|", "-WRONGTYPE Operation against a key|"] {
        let mut world = native();
        world.say(0, NO_COMMAND);
        assert_eq!(world.take(0), ["DELIFEQ k"]);
        world.say(0, found);
        assert_eq!(world.take(0), ["SET k 10000"]);
        world.say(0, "+OK|");
        let lock = world.lock();
        world.release(lock);
        assert_eq!(world.take(0), ["DELIFEQ k"]);
        world.say(0, ":1|");
        world.is_clean();
    }
}

/// Valkey knows `EVAL` also where its module for Lua is not loaded.
#[test]
fn a_server_without_lua_releases_by_the_native_command() {
    let mut world = native();
    world.say(0, "-ERR Could not find scripting engine 'lua'|");
    assert_eq!(world.take(0), ["DELIFEQ k"]);
    world.say(0, ":0|");
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.say(0, "+OK|");
    let lock = world.lock();
    world.release(lock);
    assert_eq!(world.take(0), ["DELIFEQ k"]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn who_may_not_run_the_native_command_either_gets_no_lock() {
    for refusal in [NO_COMMAND, "-ERR unknown command 'DELIFEQ'|"] {
        let mut world = native();
        world.say(0, ":-2|");
        world.say(0, refusal);
        assert_eq!(world.take(0), ["DELIFEQ k"]);
        let LockError::NoQuorum(report) = world.refusal() else {
            panic!("it cannot be released")
        };
        assert_eq!(outcomes(&report), [lacks("del")]);
        world.is_clean();
    }
}

#[test]
fn the_script_stands_in_for_a_native_release_that_is_refused() {
    let mut world = native();
    world.say(0, ":1|");
    let lock = world.lock();
    world.release(lock);
    world.say(0, NO_COMMAND);
    assert_eq!(world.take(0), ["DELIFEQ k", "EVAL release"]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn a_node_without_the_scripts_is_not_asked_about_their_digests() {
    let mut world = World::new(1);
    world.unpermitted = true;
    world.welcome(0);
    world.say(0, &format!("$-1|$-1|$-1|{NO_COMMAND}{NO_COMMAND}"));
    world.take(0);
    world.try_once();
    assert_eq!(world.take(0), ["EVAL SET k 10000 if get del set"]);
}

#[test]
fn an_attempt_that_is_over_sends_no_set_when_the_permission_is_told() {
    let mut world = native();
    world.say(0, NO_COMMAND);
    world.take(0);
    let round = world.engine.operations.keys()[0];
    world.engine.cancel(world.now, RoundId(round));
    world.say(0, ":0|");
    assert!(world.take(0).is_empty());
    world.is_clean();
    // The next one need not ask again.
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
}

#[test]
fn a_first_set_that_was_not_answered_is_owed_its_release() {
    let mut world = unasked(1);
    let round = world.try_once();
    world.engine.cancel(world.now, round);
    world.drain();
    assert_eq!(world.take(0), [FIRST, "EVALSHA release"]);
    world.say(0, ":1|");
    world.say(0, ":1|");
    world.is_clean();
    // One that had not left is taken back.
    let mut world = unasked(1);
    world.window[0] = 0;
    let round = world.try_once();
    world.engine.cancel(world.now, round);
    world.window[0] = usize::MAX;
    world.input(Input::Writable { node: id(0) });
    assert!(world.take(0).is_empty());
    world.is_clean();
}

/// An answer that the first `SET` does not have says nothing of the key.
#[test]
fn a_first_set_that_was_answered_by_nonsense_is_owed_its_release() {
    for nonsense in [":7|", ":-9|", ":-9223372036854775808|", "*0|"] {
        let mut world = unasked(1);
        world.try_once();
        world.take(0);
        world.say(0, nonsense);
        world.refusal();
        while world.links[0] != "connecting" {
            world.pass(Duration::from_millis(10));
        }
        world.welcome(0);
        assert_eq!(world.take(0)[0], "EVAL release", "{nonsense}");
        world.say(0, ":1|");
        world.finish(0, "run0");
        world.is_clean();
    }
}

#[test]
fn what_cannot_be_told_just_now_is_no_missing_permission() {
    let mut world = unasked(1);
    world.try_once();
    world.say(0, "-BUSY Redis is busy running a script.|");
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("it is busy")
    };
    let busy = crate::error::ServerError::from_line(b"BUSY");
    assert_eq!(outcomes(&report), [NodeOutcome::Refused(busy)]);
    assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
    world.is_clean();
}

#[test]
fn a_refused_extension_says_what_is_missing() {
    for (refusal, why, missing) in [
        (IN_SCRIPT, Some(":-3|"), lacks("pexpire")),
        (IN_SCRIPT, Some(":-2|"), lacks("pttl")),
        (IN_SCRIPT, Some(NO_COMMAND), lacks("eval")),
        (NO_COMMAND, None, lacks("evalsha")),
        (NO_KEY, None, NodeOutcome::Unusable(Unusable::KeyPermission)),
    ] {
        let (mut world, lock) = World::held(1);
        world.engine.extend(world.now, &lock, TTL).expect("valid");
        world.drain();
        assert_eq!(world.take(0), ["EVALSHA extend"]);
        world.say(0, refusal);
        if let Some(why) = why {
            assert_eq!(world.take(0), ["EVAL permits get pttl pexpire"]);
            world.say(0, why);
        }
        let Event::Extended {
            result: Err(ExtendError::Unconfirmed(report)),
            ..
        } = world.event()
        else {
            panic!("it was refused")
        };
        assert_eq!(outcomes(&report), [missing]);
        // Locks can be had there all the same.
        assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
        assert_eq!(world.take(0), [""; 0]);
    }
}

// ----- texts --------------------------------------------------------------------------------

#[test]
fn an_early_cause_is_not_hidden_by_an_attempt_without_an_answer() {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.say(
        0,
        "-OOM command not allowed when used memory > 'maxmemory'.|",
    );
    world.say(
        1,
        "-OOM command not allowed when used memory > 'maxmemory'.|",
    );
    assert!(world.events.is_empty());
    world.pass(Duration::from_millis(250));
    world.pass(Duration::from_millis(51));
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("nobody answered")
    };
    let oom = NodeOutcome::Refused(crate::error::ServerError::from_line(b"OOM"));
    assert_eq!(outcomes(&report), [oom, oom, NodeOutcome::TimedOut]);
    assert_eq!(report.tries(), 2);
}

#[test]
fn a_vote_of_the_last_attempt_stands_beside_an_earlier_cause() {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.say(
        0,
        "-OOM command not allowed when used memory > 'maxmemory'.|",
    );
    world.say(
        1,
        "-OOM command not allowed when used memory > 'maxmemory'.|",
    );
    world.pass(Duration::from_millis(250));
    world.say(0, "$-1|");
    world.say(1, "$-1|");
    let LockError::Held(report) = world.refusal() else {
        panic!("it is held")
    };
    let said = [NodeOutcome::Held, NodeOutcome::Held, NodeOutcome::Pending];
    assert_eq!(outcomes(&report), said);
}

#[test]
fn a_reset_in_the_handshake_is_told_from_one_behind_it() {
    let mut world = World::new(1);
    world.links[0] = "up";
    world.input(Input::Connected { node: id(0) });
    world.lose(0);
    world.try_once();
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("it is away")
    };
    let reset = NodeOutcome::Unreachable(LinkError::HandshakeReset);
    assert_eq!(outcomes(&report), [reset]);
    assert!(format!("{report}").contains("TLS"), "{report}");
}
