//! Stories of nodes that refuse scripts, and get none from then on.

use super::super::permissions::{FIRST, lacks, unasked};
use super::*;

const NO_ENGINE: &str = "-ERR Could not find scripting engine 'lua'|";
const REFUSALS: [&str; 6] = [
    NO_COMMAND,
    UNKNOWN,
    NO_ENGINE,
    // Proxies and servers that resemble Redis.
    "-ERR bad lua script for redis cluster, all the keys should be passed by KEYS|",
    "-ERR unsupported command `eval`|",
    "-EVAL is disabled|",
];

/// Returns the answers of a node that knows none of these ways but the transaction, which was tried with them.
fn only_by_transaction() -> String {
    only_watches(NO_NUMBER)
}

#[test]
fn a_node_that_refuses_scripts_is_asked_how_it_releases_and_grants_the_lock() {
    for refusal in REFUSALS {
        let mut world = unasked(1);
        world.try_once();
        world.exchange(0, [FIRST], refusal);
        assert_eq!(world.take(0), asked(), "{refusal}");
        world.say(0, &only_by_transaction());
        world.exchange(0, ["SET k 10000"], "+OK|");
        let lock = world.lock();
        let token = lock.token().as_bytes().to_vec();
        assert_eq!(world.state(0), NodeState::Ready);
        world.release(lock);
        assert_eq!(world.take(0), RELEASING);
        say_token(&mut world, WATCHED, &token, "");
        world.exchange(0, DELETING, "+OK|+QUEUED|*1|:1|");
        assert_eq!(world.unlocked().expect("released").deleted, 1);
        world.is_clean();
        // From then on, no script is sent over this connection.
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
    }
}

/// The other nodes are still asked by scripts.
#[test]
fn each_node_of_a_cluster_is_asked_in_its_own_way() {
    let mut world = unasked(3);
    world.try_once();
    world.take_all();
    world.say(0, ":1|");
    world.say(1, UNKNOWN);
    world.say(2, NO_COMMAND);
    let others = format!("{UNKNOWN}{SYNTAX}{WATCHED}$-1|:-2|{NO_NUMBER}");
    world.say(1, &format!(":0|{others}"));
    world.say(2, &only_by_transaction());
    assert_eq!(world.take(1).last().unwrap(), "SET k 10000");
    assert_eq!(world.take(2).last().unwrap(), "SET k 10000");
    world.all_say(1..3, "+OK|");
    let lock = world.lock();
    world.take_all();
    world.release(lock);
    let released = world.take_all();
    assert_eq!(released[0], ["EVALSHA release"]);
    assert_eq!(released[1], ["DELIFEQ k"]);
    assert_eq!(released[2], RELEASING);
}

#[test]
fn an_extension_that_is_refused_as_a_script_is_asked_by_a_transaction() {
    for refusal in REFUSALS {
        let (mut world, mut lock) = World::held(1);
        let token = lock.token().as_bytes().to_vec();
        world.extend(&lock);
        world.exchange(0, ["EVALSHA extend"], refusal);
        assert_eq!(world.take(0), EXTENDING, "{refusal}");
        say_token(&mut world, WATCHED, &token, ":3000|");
        world.exchange(0, RAISING, "+OK|+QUEUED|*1|:1|");
        world.extended(&mut lock);
        world.ask_confirm(&lock);
        assert_eq!(world.take(0), ["MULTI", "GET k", "PTTL k", "EXEC"]);
    }
}

#[test]
fn an_extension_that_is_refused_in_both_ways_names_the_script() {
    let (mut world, lock) = World::held(1);
    world.extend(&lock);
    world.say(0, NO_COMMAND);
    world.take(0);
    let refused = format!("{NO_COMMAND}-ERR EXEC without MULTI|{NO_COMMAND}$-1|:-2|");
    world.say(0, &refused);
    assert_eq!(world.unconfirmed(), [lacks("evalsha")]);
    assert_eq!(world.state(0), NodeState::Ready);
    assert_eq!(world.take(0), NOTHING);
}

#[test]
fn a_release_that_is_refused_as_a_script_is_done_in_another_way() {
    for refusal in REFUSALS {
        let (mut world, lock) = World::held(1);
        let token = lock.token().as_bytes().to_vec();
        world.release(lock);
        world.exchange(0, ["EVALSHA release"], refusal);
        assert_eq!(world.take(0), ["DELIFEQ k"], "{refusal}");
        world.say(0, UNKNOWN);
        world.exchange(0, ["DELEX k"], NO_COMMAND);
        world.exchange(0, ["SET k IFEQ"], SYNTAX);
        assert_eq!(world.take(0), RELEASING);
        say_token(&mut world, WATCHED, &token, "");
        world.say(0, "+OK|+QUEUED|*1|:1|");
        assert_eq!(world.unlocked().expect("released").deleted, 1);
        world.is_clean();
    }
}

/// Makes a node that has granted a lock on two names by a script, and is asked to release it.
fn releasing_several() -> World {
    let mut world = World::ready(1);
    world.try_all();
    world.say(0, ":1|");
    let lock = world.lock();
    world.take(0);
    world.release(lock);
    world
}

#[test]
fn several_are_taken_and_released_where_scripts_are_refused() {
    let mut world = World::ready(1);
    world.try_all();
    world.exchange(0, ["TAKE a b 10000"], NO_COMMAND);
    let key = format!("$-1|:-2|{NO_NUMBER}");
    assert_eq!(world.take(0)[2], "WATCH a b");
    world.say(0, &format!("{WATCHED}{key}{key}{UNKNOWN}"));
    world.take(0);
    world.say(0, "+OK|+QUEUED|+QUEUED|*2|+OK|+OK|");
    drop(world.lock());
    // The lock is also released if scripts are forbidden in between.
    let mut world = releasing_several();
    world.exchange(0, ["RELEASE a b"], NO_COMMAND);
    assert_eq!(
        world.take(0),
        ["MULTI", "EXEC", "WATCH a b", "GET a", "GET b"]
    );
}

/// The debt is tried by a script again, which may be permitted by then.
#[test]
fn a_release_of_several_that_is_refused_in_both_ways_is_asked_by_script_again() {
    let mut world = releasing_several();
    let no_watch = "-NOPERM this user has no permissions to run the 'watch' command|";
    for round in 0..3 {
        assert_eq!(world.take(0), ["RELEASE a b"], "{round}");
        world.say(0, NO_COMMAND);
        assert_eq!(world.take(0)[2], "WATCH a b");
        world.say(0, &format!("+OK|*0|{no_watch}$-1|$-1|"));
        assert_eq!(world.owed(), 1);
        world.pass(Duration::from_secs(2));
    }
    world.exchange(0, ["RELEASE a b"], ":1|");
    assert_eq!((world.claims(), world.owed()), (0, 0));
}

/// The trial of the ways without scripts says nothing about the native command that is used beside scripts.
#[test]
fn a_node_that_is_asked_by_scripts_again_is_asked_for_permission_again() {
    let mut world = World::new(1);
    world.welcome_as(0, VALKEY);
    world.finish(0, "run0");
    world.try_all();
    world.say(0, ":1|");
    let lock = world.lock();
    world.take(0);
    world.release(lock);
    world.say(0, NO_COMMAND);
    world.take(0);
    world.try_once();
    assert_eq!(world.take(0)[0], "DELIFEQ k");
    let no_watch = "-NOPERM this user has no permissions to run the 'watch' command|";
    world.say(0, &format!("+OK|*0|{no_watch}$-1|$-1|"));
    world.say(0, &format!("{NO_COMMAND}{UNKNOWN}$-1|"));
    assert_eq!(world.take(0).last().expect("it is asked"), "SET k 10000");
    world.events.clear();
    world.say(0, &format!("+OK|*0|{no_watch}$-1|:-2|{NO_NUMBER}+OK|"));
    let _held = world.lock();
    world.pass(250 * MS);
    assert_eq!(world.take(0), ["RELEASE a b"]);
    world.acquire_of(b"l", &once());
    assert_eq!(world.take(0), [FIRST.replace('k', "l")]);
}

#[test]
fn a_node_that_refuses_everything_names_the_script_and_is_asked_by_it_again() {
    let mut world = unasked(1);
    for _ in 0..2 {
        world.try_once();
        world.exchange(0, [FIRST], NO_COMMAND);
        assert_eq!(world.take(0), asked());
        let no_way = format!("{NO_COMMAND}-ERR EXEC without MULTI|{NO_COMMAND}{NO_COMMAND}");
        world.say(0, &format!("{UNKNOWN}{UNKNOWN}{SYNTAX}{no_way}"));
        world.say(0, &format!("{NO_COMMAND}{NO_COMMAND}"));
        assert_eq!(outcomes(&world.no_quorum()), [lacks("eval")]);
        assert_eq!(
            world.state(0),
            NodeState::Unusable(Unusable::Permission { command: "eval" })
        );
        world.is_clean();
    }
    world.try_once();
    world.say(0, ":1|");
    assert_eq!(world.state(0), NodeState::Ready);
    drop(world.lock());
}

#[test]
fn a_node_that_has_loaded_the_scripts_again_is_asked_by_them() {
    for loads in [false, true] {
        let mut world = unasked(1);
        world.try_once();
        world.say(0, NO_COMMAND);
        let others = format!("{UNKNOWN}{SYNTAX}{WATCHED}$-1|:-2|{NO_NUMBER}");
        world.say(0, &format!(":0|{others}+OK|"));
        let lock = world.lock();
        world.take(0);
        world.lose(0);
        world.welcome_again(0);
        world.say(0, "$11|run_id:run0|$-1|$-1|");
        match loads {
            true => world.say(0, &digests()),
            false => world.say(0, &NO_COMMAND.repeat(4)),
        }
        world.take(0);
        world.release(lock);
        let way = match loads {
            true => "EVALSHA release",
            false => "DELIFEQ k",
        };
        assert_eq!(world.take(0), [way], "{loads}");
    }
}

/// The guard reads a marker by scripts. Callers do not wait for a fault that only an operator can repair.
#[test]
fn a_strict_guard_says_at_once_that_it_needs_scripts() {
    for refusal in REFUSALS {
        let guard = crate::RestartGuard::Strict;
        let mut world = World::with(named(3).restart_guard(guard));
        world.unpermitted = true;
        for node in 0..2 {
            world.welcome(node);
            let identity = format!("$11|run_id:run{node}|$-1|$-1|");
            world.say(node, &format!("{identity}{}", NO_COMMAND.repeat(5)));
            world.say(node, refusal);
            let missing = NodeState::Unusable(Unusable::NeedsScripts);
            assert_eq!(world.state(node), missing, "{refusal}");
        }
        world.acquire(&LockOptions::new(TTL));
        let outcomes = world.refused_outright();
        let missing = NodeOutcome::Unusable(Unusable::NeedsScripts);
        assert_eq!(outcomes[..2], [missing; 2]);
    }
}

/// A temporary fault does not turn scripts off, and is shown.
#[test]
fn an_error_that_says_nothing_known_is_shown_in_its_words() {
    let without = "use `without_scripts`: locks without a fencing token need no scripts";
    for (words, advice) in [
        (
            "upstream failure",
            format!("; if this error refuses scripts, {without}"),
        ),
        ("no luck with EVAL", format!("; {without}")),
    ] {
        let mut world = unasked(1);
        world.try_once();
        world.take(0);
        world.say(0, &format!("-ERR {words}|"));
        let text = format!("{:#}", world.refusal());
        let said = format!("refused: ERR ({words}){advice}");
        assert!(text.contains(&said), "{text}");
        assert_eq!(world.take(0), ["EVALSHA release"]);
        world.say(0, ":1|");
        world.try_once();
        if words.contains("EVAL") {
            assert_eq!(world.take(0), ["EVAL permits get del set evalsha"]);
            world.say(0, ":0|");
        }
        assert_eq!(world.take(0), [FIRST]);
    }
}
