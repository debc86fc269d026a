//! Stories of nodes that refuse scripts in unknown words, and have not loaded them for the same reason.

use super::super::permissions::{FIRST, lacks, unasked};
use super::several::{TAKEN, free};
use super::*;
use crate::error::ServerError;

pub(super) const OWN: &str = "-ERR unsupported here|";
const NAMED: &str = "-ERR no scripts here|";
pub(super) const PROBE: &str = "EVAL permits get del set";
const PROBE_BY_DIGESTS: &str = "EVAL permits get del set evalsha";
pub(super) const BY_TEXT: &str = "EVAL release";
const TAKING: &str = "EVAL SET k 10000 if get del set";

fn refused() -> NodeOutcome {
    NodeOutcome::Refused(ServerError::from_line(b"ERR"))
}

/// Ends the greeting of a node that refuses to load the scripts in these words.
fn finish_without(world: &mut World, node: usize, refusal: &str) {
    let loads = refusal.repeat(4);
    world.say(node, &format!("$11|run_id:run{node}|$-1|$-1|{loads}"));
    world.take(node);
}

/// Makes one node that has greeted in this way.
fn doubted_for(refusal: &str) -> World {
    let mut world = World::new(1);
    world.unpermitted = true;
    world.welcome(0);
    finish_without(&mut world, 0, refusal);
    world
}

pub(super) fn doubted() -> World {
    doubted_for(OWN)
}

/// The connection to the only node is lost. Behind the next one is a server that does not load the scripts.
fn comes_back_without(world: &mut World) {
    world.lose(0);
    world.welcome_again(0);
    finish_without(world, 0, OWN);
}

/// Makes a lock on a node that did not load the scripts when it was connected again.
pub(super) fn held_in_doubt() -> (World, Lock) {
    let (mut world, lock) = World::held(1);
    world.unpermitted = true;
    comes_back_without(&mut world);
    (world, lock)
}

/// Returns the answers of a node that knows only the transaction, and refuses everything else in words of its own.
fn watches_in_own_words() -> String {
    OWN.repeat(3) + FREE
}

/// Asserts that the report of a lock or a release has the words about scripts.
#[track_caller]
fn tells_the_words(text: &str) {
    assert!(text.contains("refused: ERR (unsupported here)"), "{text}");
}

/// Makes a lock on a node that releases by transactions.
fn held_by_one() -> (World, Lock) {
    let mut world = doubted();
    world.try_once();
    world.exchange(0, [PROBE], OWN);
    world.exchange(0, asked(), &watches_in_own_words());
    world.exchange(0, ["SET k 10000"], "+OK|");
    let lock = world.lock();
    (world, lock)
}

#[test]
fn a_native_release_is_used_where_there_is_one() {
    for (refusal, first) in [
        (OWN, OWN),
        ("-NOTHERE|", OWN),
        // The node knows no `SCRIPT`, and refuses the rest in unknown words.
        ("-ERR unknown command 'SCRIPT'|", OWN),
        // The node refuses scripts in known words.
        (OWN, "-EVAL is disabled|"),
    ] {
        let mut world = doubted_for(refusal);
        world.try_once();
        assert_eq!(world.take(0), [PROBE], "{refusal}");
        world.say(0, first);
        assert_eq!(world.take(0), asked(), "{refusal} {first}");
        world.say(0, ":0|");
        world.exchange(0, ["SET k 10000"], &format!("{OWN}{OWN}{FREE}+OK|"));
        let lock = world.lock();
        world.release(lock);
        world.exchange(0, ["DELIFEQ k"], ":1|");
        world.is_released();
    }
}

/// The trouble may be temporary, so the next lock tries a script again.
#[test]
fn a_node_that_stops_to_run_scripts_is_asked_without() {
    let mut world = doubted();
    world.try_once();
    world.say(0, ":0|:1|");
    let mut lock = world.lock();
    world.reply(0, &OWN.repeat(4));
    world.extend(&lock);
    world.exchange(0, ["EVAL extend"], OWN);
    world.extended_by_a_transaction(&mut lock);
    world.acquire_of(b"l", &once());
    world.exchange(0, [PROBE], ":0|:1|");
    let other = world.lock();
    world.reply(0, &OWN.repeat(4));
    world.extend(&lock);
    assert_eq!(world.take(0), ["EVAL extend"]);
    drop(other);
}

/// A temporary refusal to load scripts is no reason for doubt, and neither is a missing permission to load them. The
/// first script does not ask for the permission to run scripts by their digests.
#[test]
fn other_refusals_to_load_cost_no_round_trip() {
    for refusal in ["-BUSY x|", "-LOADING x|", NO_COMMAND, "-CLUSTERDOWN x|"] {
        let mut world = doubted_for(refusal);
        world.try_once();
        assert_eq!(world.take(0), [TAKING], "{refusal}");
    }
}

#[test]
fn a_refusal_that_passes_is_told_and_tried_again() {
    let mut world = doubted();
    for refusal in [NO_KEY, "-BUSY x|", "-OOM x|", "-READONLY x|"] {
        world.try_once();
        assert_eq!(world.take(0), [PROBE], "{refusal}");
        world.say(0, refusal);
        let error = ServerError::from_line(refusal.trim_matches(['-', '|']).as_bytes());
        let told = match refusal {
            NO_KEY => NodeOutcome::Unusable(Unusable::KeyPermission),
            _ => NodeOutcome::Refused(error),
        };
        assert_eq!(outcomes(&world.no_quorum()), [told]);
        assert_eq!(world.take(0), NOTHING);
        world.is_clean();
    }
}

/// Such an error turns scripts off for this connection only. Proxies may pass on scripts that they cannot load.
#[test]
fn scripts_are_used_again_after_an_error_that_has_passed() {
    let (mut world, mut lock) = held_by_one();
    comes_back_without(&mut world);
    // Held locks are extended as before.
    world.extend(&lock);
    world.extended_by_a_transaction(&mut lock);
    world.acquire_of(b"l", &once());
    world.exchange(0, [PROBE], ":0|");
    world.exchange(0, ["EVAL SET l 10000 if get del set"], ":1|");
    let other = world.lock();
    world.exchange(0, ["SCRIPT LOAD"; 4], &OWN.repeat(4)); // It is asked once more.
    world.release(other);
    world.exchange(0, [BY_TEXT], ":1|");
    world.events.clear();
    world.release(lock);
    assert_eq!(world.take(0), [BY_TEXT]);
}

/// The last way is a transaction, which the node refuses in known words, in its own words, or only for this user.
#[test]
fn where_every_way_is_refused_the_words_about_scripts_are_told() {
    for (no_way, no_watch) in [
        (OWN, "-ERR no transactions|"),
        (UNKNOWN, UNKNOWN),
        (NO_COMMAND, NO_COMMAND),
        ("-ERR upstream failure|", "-ERR upstream failure|"),
    ] {
        let mut world = doubted();
        for _ in 0..3 {
            world.try_once();
            world.exchange(0, [PROBE], OWN);
            assert_eq!(world.take(0), asked());
            let transaction = format!("{no_watch}-ERR EXEC without MULTI|{no_watch}$-1|:-2|");
            world.say(0, &(no_way.repeat(3) + &transaction + no_watch));
            tells_the_words(&format!("{:#}", world.refusal()));
            assert_eq!(world.state(0), NodeState::Ready);
            world.is_clean();
        }
        // The error is over.
        world.try_once();
        world.say(0, ":0|:1|");
        drop(world.lock());
    }
}

/// The server behind the proxy has another user by now.
#[test]
fn words_that_are_known_count_more_than_those_of_an_earlier_connection() {
    let (mut world, lock) = held_by_one();
    comes_back_without(&mut world);
    world.acquire_of(b"l", &once());
    world.exchange(0, [PROBE], NO_COMMAND);
    world.reply(0, &format!("{UNKNOWN}{UNKNOWN}{SYNTAX}{NO_COMMAND}"));
    world.say(0, "-ERR EXEC without MULTI|");
    world.say(0, &NO_COMMAND.repeat(4));
    assert_eq!(outcomes(&world.no_quorum()), [lacks("eval")]);
    drop(lock);
}

#[test]
fn those_who_ask_together_are_all_told() {
    let mut world = doubted();
    for name in [b"a", b"b"] {
        world.acquire_of(name, &once());
    }
    world.exchange(0, [PROBE; 2], &OWN.repeat(2));
    for _ in 0..6 {
        world.all_answer(|_, sent| match sent.split(' ').next() {
            Some("EXEC") => "-ERR EXEC without MULTI|",
            Some("GET") => "$-1|",
            Some("PTTL") => ":-2|",
            _ => OWN,
        });
    }
    for _ in 0..2 {
        tells_the_words(&format!("{:?}", world.events.remove(0)));
    }
    world.is_clean();
}

/// The answer is late: the other nodes have already granted the lock.
#[test]
fn a_node_that_shows_late_that_it_runs_none_gets_a_copy() {
    let mut world = World::new(3);
    world.greet(0);
    world.greet(1);
    world.unpermitted = true;
    world.welcome(2);
    finish_without(&mut world, 2, OWN);
    world.try_once();
    assert_eq!(world.take(2), [PROBE]);
    world.all_say(0..2, "+OK|");
    let _lock = world.lock();
    world.say(2, OWN);
    world.exchange(2, asked(), &watches_in_own_words());
    assert_eq!(world.take(2).len(), 1, "a copy");
}

/// There was no `SET` on this connection yet. RESP3 has a form for long errors.
#[test]
fn an_extension_that_is_refused_in_own_words_is_asked_by_a_transaction() {
    for own in [OWN, "!20|ERR unsupported here|"] {
        let (mut world, mut lock) = held_in_doubt();
        world.extend(&lock);
        world.exchange(0, ["EVAL extend"], own);
        world.extended_by_a_transaction(&mut lock);
        // The node refuses this in the same words, so the next question is asked by a script again.
        world.extend(&lock);
        world.exchange(0, EXTENDING, &(UNKNOWN.repeat(3) + "$-1|:-2|"));
        assert_eq!(world.unconfirmed(), [refused()]);
        world.extend(&lock);
        world.exchange(0, ["EVAL extend"], ":1|");
        world.extended(&mut lock);
    }
}

/// The report says how the script was refused. The release is tried again, as every debt is.
#[test]
fn a_release_that_is_refused_in_every_way_tells_the_words_about_scripts() {
    let (mut world, lock) = held_in_doubt();
    world.release(lock);
    for (way, said) in [
        (BY_TEXT, OWN),
        ("DELIFEQ k", UNKNOWN),
        ("DELEX k", UNKNOWN),
        ("SET k IFEQ", SYNTAX), // These words are not about scripts.
    ] {
        world.exchange(0, [way], said);
    }
    world.exchange(0, RELEASING, &format!("{UNKNOWN}{UNKNOWN}{UNKNOWN}$-1|"));
    tells_the_words(&format!("{:?}", world.events));
    world.events.clear();
    world.pass(250 * MS);
    world.exchange(0, [BY_TEXT], ":1|");
    world.is_clean();
}

/// The `SET` may have run, so another way is tried only with the next attempt.
#[test]
fn a_node_that_loads_the_scripts_and_refuses_the_first_is_asked_without() {
    let mut world = unasked(1);
    world.try_once();
    world.exchange(0, [FIRST], NAMED);
    assert_eq!(outcomes(&world.no_quorum()), [refused()]);
    world.try_once();
    let sent = world.take(0);
    assert!(sent.contains(&PROBE_BY_DIGESTS.into()), "{sent:?}");
    world.say(0, &NAMED.repeat(sent.len()));
    let tried = world.take(0);
    assert!(tried.contains(&"WATCH k".into()), "{tried:?}");
}

/// The node has run scripts on this connection. Perhaps a proxy has another server behind it by now.
#[test]
fn a_node_that_stops_to_run_loaded_scripts_is_asked_without() {
    let mut world = unasked(1);
    world.try_once();
    world.say(0, ":1|");
    let mut lock = world.lock();
    world.take(0);
    world.extend(&lock);
    world.exchange(0, ["EVALSHA extend"], NAMED);
    world.extended_by_a_transaction(&mut lock);
    world.release(lock);
    world.exchange(0, ["DELIFEQ k"], ":1|");
    // The next connection begins with the script that does nothing.
    world.greet_again(0);
    world.acquire_of(b"l", &once());
    assert_eq!(world.take(0), [PROBE_BY_DIGESTS]);
}

/// After that, a refusal in its own words is about the request itself.
#[test]
fn a_node_that_loads_the_scripts_later_is_not_doubted_any_more() {
    let mut world = doubted();
    world.try_once();
    world.say(0, ":0|:1|");
    let lock = world.lock();
    world.reply(0, &digests());
    world.extend(&lock);
    world.exchange(0, ["EVALSHA extend"], OWN);
    assert_eq!(world.take(0), NOTHING, "no other way is tried");
    assert_eq!(world.unconfirmed(), [refused()]);
}

/// The node has refused scripts in known words, and everything else too.
#[test]
fn a_script_is_tried_before_the_first_set_again_where_no_way_is_left() {
    let mut world = doubted();
    for _ in 0..2 {
        world.try_once();
        world.exchange(0, [PROBE], UNKNOWN);
        world.exchange(0, asked(), &(UNKNOWN.repeat(6) + FREE_KEY));
        assert_matches!(world.event(), Event::Acquired { result: Err(_), .. });
    }
}

#[test]
fn an_inspection_that_is_refused_as_a_script_is_asked_by_a_transaction() {
    for (mut world, refusal) in [(doubted(), OWN), (World::ready(1), NO_COMMAND)] {
        world.inspect();
        world.say(0, refusal);
        world.exchange(0, INSPECTING, "+OK|+QUEUED|+QUEUED|*2|$-1|:-2|");
        assert!(world.told().expect("it was answered").free);
    }
}

#[test]
fn transactions_of_several_are_refused_in_the_words_about_scripts() {
    for no_watch in [OWN, UNKNOWN] {
        let mut world = doubted();
        world.try_all();
        world.exchange(0, ["TAKE a b"], OWN);
        world.say(0, &format!("{no_watch}{no_watch}{no_watch}$-1|:-2|{OWN}"));
        world.say(0, &format!("$-1|:-2|{OWN}{OWN}"));
        assert_eq!(outcomes(&world.no_quorum()), [refused()], "{no_watch}");
        // A forbidden transaction has taken nothing. A transaction that fails in unknown words may have taken
        // something.
        assert_eq!(world.claims() == 0, no_watch == UNKNOWN);
    }
}

/// Scripts are tried again when the transaction that releases two names is refused. The refusal says nothing about the
/// native command, which releases one name.
#[test]
fn a_refused_transaction_is_no_refusal_of_the_native_release() {
    let mut world = World::new(1);
    world.unpermitted = true;
    world.welcome_as(0, VALKEY);
    finish_without(&mut world, 0, OWN);
    world.try_all();
    world.say(0, OWN);
    world.say(0, &free());
    world.say(0, TAKEN);
    let lock = world.lock();
    world.extend(&lock);
    world.release(lock);
    world.events.clear();
    world.say(0, &format!("{OWN}{OWN}{OWN}$-1|:-2|$-1|:-2|"));
    world.reply(0, &format!("{UNKNOWN}{UNKNOWN}{UNKNOWN}$-1|$-1|"));
    world.pass(250 * MS);
    world.exchange(0, ["RELEASE a b"], ":1|");
    world.is_clean();
    world.try_once();
    world.exchange(0, [PROBE], ":0|");
    world.reply(0, ":-2|");
    assert!(world.take(0).contains(&"DELIFEQ k".into()));
}

/// A fencing token needs scripts, so a script asks for it. The answer shows whether the node runs scripts by now.
#[test]
fn a_fencing_token_is_asked_for_by_a_script_all_the_same() {
    let (mut world, lock) = held_by_one();
    let since = Duration::from_secs(1_790_000_000);
    world.engine.set_wall_clock(world.now, since);
    let fenced = once().fenced();
    world.acquire_of(b"l", &fenced);
    assert!(world.take(0)[0].starts_with("TAKE l"));
    world.say(0, OWN);
    tells_the_words(&format!("{:#}", world.refusal()));
    world.exchange(0, ["MULTI", "EXEC", "WATCH l", "GET l"], "+OK|*0|+OK|$-1|");
    world.reply(0, "+OK|+QUEUED|*1|:0|");
    world.acquire_of(b"l", &fenced);
    assert!(world.take(0)[0].starts_with("TAKE l"));
    world.say(0, "$1|7|");
    let other = world.lock();
    world.release(other);
    world.exchange(0, [BY_TEXT], ":1|");
    world.events.clear();
    world.release(lock);
    assert_eq!(world.take(0), [BY_TEXT]);
}

/// The guard has read the marker by a script before that.
#[test]
fn a_strict_guard_tells_the_words() {
    let guard = crate::RestartGuard::Strict;
    let mut world = World::with(named(1).restart_guard(guard));
    world.unpermitted = true;
    world.welcome(0);
    world.say(0, &format!("$11|run_id:run0|$-1|$-1|{}", OWN.repeat(6)));
    let error = ServerError::from_line(b"ERR");
    let refused = NodeState::Unusable(Unusable::Refused(error));
    assert_eq!(world.state(0), refused);
}
