//! Stories of nodes that refuse scripts, and get none from then on.

use super::super::permissions::{FIRST, lacks, unasked};
use super::doubt::{BY_TEXT, OWN, PROBE, doubted, held_in_doubt};
use super::several::{TAKEN, free};
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

/// The answers of a node that releases by `DELIFEQ`, and by no other way but the transaction.
const BY_DELIFEQ: &str = ":0|-ERR unknown command 'X', with args beginning with: |-ERR syntax error|\
    +OK|*0|+OK|$-1|:-2|-ERR value is not an integer or out of range|";
const NO_WATCH: &str = "-NOPERM this user has no permissions to run the 'watch' command|";

/// Makes worlds of one node and its refusals: those of `known`, and `doubt` if it refuses in words of its own.
fn refusing<T>(known: fn() -> T, doubt: fn() -> T) -> impl Iterator<Item = (T, &'static str)> {
    let refusals = REFUSALS.into_iter().map(move |refusal| (known(), refusal));
    refusals.chain([(doubt(), OWN)])
}

#[test]
fn a_node_that_refuses_scripts_is_asked_how_it_releases_and_grants_the_lock() {
    for (mut world, refusal) in refusing(|| unasked(1), doubted) {
        world.try_once();
        let probe = if refusal == OWN { PROBE } else { FIRST };
        world.exchange(0, [probe], refusal);
        assert_eq!(world.take(0), asked(), "{refusal}");
        world.say(0, &only_watches(NO_NUMBER));
        world.exchange(0, ["SET k 10000"], "+OK|");
        let mut lock = world.lock();
        assert_eq!(world.state(0), NodeState::Ready);
        world.extend(&lock);
        world.extended_by_a_transaction(&mut lock);
        world.release(lock);
        world.released_by_a_transaction();
        // From then on, no script is sent over this connection.
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
    }
}

/// The other nodes are still asked by scripts.
#[test]
fn each_node_of_a_group_is_asked_in_its_own_way() {
    let mut world = unasked(3);
    world.try_once();
    world.take_all();
    world.each_says(&[":1|", UNKNOWN, NO_COMMAND]);
    world.say(1, BY_DELIFEQ);
    world.say(2, &only_watches(NO_NUMBER));
    assert_eq!(world.take(1).last().unwrap(), "SET k 10000");
    assert_eq!(world.take(2).last().unwrap(), "SET k 10000");
    world.all_say(1..3, "+OK|");
    let lock = world.lock();
    world.take_all();
    world.release(lock);
    let ways = [&["EVALSHA release"][..], &["DELIFEQ k"], &RELEASING];
    assert_eq!(world.take_all(), ways);
}

#[test]
fn an_extension_that_is_refused_as_a_script_is_asked_by_a_transaction() {
    for refusal in REFUSALS {
        let (mut world, mut lock) = World::held(1);
        world.extend(&lock);
        world.exchange(0, ["EVALSHA extend"], refusal);
        world.extended_by_a_transaction(&mut lock);
        world.ask_confirm(&lock);
        assert_eq!(world.take(0), INSPECTING, "{refusal}");
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
    for ((mut world, lock), refusal) in refusing(|| World::held(1), held_in_doubt) {
        world.release(lock);
        let (script, others) = match refusal {
            OWN => (BY_TEXT, [OWN; 3]),
            _ => ("EVALSHA release", [UNKNOWN, NO_COMMAND, SYNTAX]),
        };
        world.exchange(0, [script], refusal);
        for (way, said) in asked().into_iter().zip(others) {
            assert_eq!(world.take(0), [way], "{refusal}");
            world.say(0, said);
        }
        world.released_by_a_transaction();
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
    for (mut world, refusal) in refusing(|| World::ready(1), doubted) {
        world.try_all();
        assert!(world.take(0)[0].starts_with("TAKE a b"));
        world.say(0, refusal);
        assert_eq!(world.take(0)[2], "WATCH a b", "{refusal}");
        world.say(0, &free());
        world.say(0, TAKEN);
        drop(world.lock());
    }
    // The lock is also released if scripts are forbidden in between.
    let mut world = releasing_several();
    world.exchange(0, ["RELEASE a b"], NO_COMMAND);
    let reading = ["MULTI", "EXEC", "WATCH a b", "GET a", "GET b"];
    assert_eq!(world.take(0), reading);
}

/// The debt is tried by a script again, which may be permitted by then.
#[test]
fn a_release_of_several_that_is_refused_in_both_ways_is_asked_by_script_again() {
    let mut world = releasing_several();
    for round in 0..3 {
        assert_eq!(world.take(0), ["RELEASE a b"], "{round}");
        world.say(0, NO_COMMAND);
        assert_eq!(world.take(0)[2], "WATCH a b");
        world.say(0, &format!("+OK|*0|{NO_WATCH}$-1|$-1|"));
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
    world.say(0, &format!("+OK|*0|{NO_WATCH}$-1|$-1|"));
    world.say(0, &format!("{NO_COMMAND}{UNKNOWN}$-1|"));
    assert_eq!(world.take(0).last().expect("it is asked"), "SET k 10000");
    world.events.clear();
    world.say(0, &format!("+OK|*0|{NO_WATCH}{FREE_KEY}+OK|"));
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
        let missing = Unusable::Permission { command: "eval" };
        assert_eq!(world.state(0), NodeState::Unusable(missing));
        world.is_clean();
    }
    world.try_once();
    world.say(0, ":1|");
    assert_eq!(world.state(0), NodeState::Ready);
    drop(world.lock());
}

#[test]
fn a_node_that_has_loaded_the_scripts_again_is_asked_by_them() {
    for (way, loaded) in [
        ("EVALSHA release", digests()),
        ("DELIFEQ k", NO_COMMAND.repeat(4)),
    ] {
        for (mut world, refusal) in [(unasked(1), NO_COMMAND), (doubted(), OWN)] {
            world.try_once();
            world.say(0, refusal);
            world.say(0, &format!("{BY_DELIFEQ}+OK|"));
            let lock = world.lock();
            world.take(0);
            world.lose(0);
            world.welcome_again(0);
            world.say(0, "$11|run_id:run0|$-1|$-1|");
            world.reply(0, &loaded);
            world.take(0);
            world.release(lock);
            assert_eq!(world.take(0), [way], "{refusal}");
        }
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
        ("upstream failure", "; if the server refuses scripts, "),
        ("no luck with EVAL", "; "),
    ] {
        let mut world = unasked(1);
        world.try_once();
        world.reply(0, &format!("-ERR {words}|"));
        let text = format!("{:#}", world.refusal());
        let said = format!("refused: ERR ({words}){advice}{without}");
        assert!(text.contains(&said), "{text}");
        world.exchange(0, ["EVALSHA release"], ":1|");
        world.try_once();
        if words.contains("EVAL") {
            world.exchange(0, ["EVAL permits get del set evalsha"], ":0|");
        }
        assert_eq!(world.take(0), [FIRST]);
    }
}
