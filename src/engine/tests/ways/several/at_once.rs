//! Stories of nodes that have `MSETEX`: one command takes all keys, and no key is read before.

use super::*;
use crate::engine::RoundId;

const AT_ONCE: [&str; 7] = [
    "MULTI",
    "PEXPIRE a ?",
    "PEXPIRE b ?",
    "MSETEX a b 10000",
    "GET a",
    "GET b",
    "EXEC",
];
const QUEUED: &str = "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*5|";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.|";

/// Returns the answers before those to `GET`, if `MSETEX` was answered by `said`.
fn executed(said: &str) -> String {
    format!("{QUEUED}{NO_NUMBER}{NO_NUMBER}{said}")
}

/// Makes one node that has shown that it knows `MSETEX`, when a lock was taken and released.
fn known() -> World {
    let mut world = bare(1);
    world.try_all();
    world.exchange(0, reading(), &format!("{FREE_AGAIN}{NO_NUMBER}"));
    taken_and_released(&mut world); // It was read already.
    world
}

/// Asks for both names.
fn asked(world: &mut World) -> RoundId {
    let operation = world.try_all();
    assert_eq!(world.take(0), AT_ONCE);
    operation
}

/// The only node takes both names at once.
fn takes(world: &mut World) {
    world.tell(0, &format!("{}@a@b", executed(":1|")));
}

fn taken_at_once(world: &mut World) -> Lock {
    asked(world);
    takes(world);
    world.lock()
}

#[test]
fn all_are_taken_by_one_round_trip() {
    let mut world = known();
    for _ in 0..2 {
        let lock = taken_at_once(&mut world);
        released(&mut world, lock);
    }
    // The permission is asked for again over the next connection.
    greet_again(&mut world, 0);
    world.try_all();
    assert_eq!(world.take(0), reading());
}

/// Keys that were not taken leave no debt.
#[test]
fn nothing_is_taken_and_nothing_owed_where_one_is_anothers() {
    for (a, b, held) in [
        ("$-1|", "$7|another|", "b"),
        ("$7|another|", "$-1|", "a"),
        ("-WRONGTYPE Operation against a key|", "$-1|", "a"),
    ] {
        let mut world = known();
        asked(&mut world);
        world.say(0, &format!("{}{a}{b}", executed(":0|")));
        assert_eq!(world.take(0), NOTHING);
        let report = world.held_by_another();
        assert_eq!(named_held(&report), [Some(held.as_bytes())]);
        world.is_clean();
    }
}

/// A copy that finds a part of the lock works in the same way: only the missing key is set.
#[test]
fn what_meets_its_own_keys_is_read_and_the_missing_ones_are_set() {
    let mut world = known();
    asked(&mut world);
    world.tell(0, &format!("{}@a$-1|", executed(":0|")));
    let own = format!("{WATCHED}@a:9999|{NO_NUMBER}{FREE_KEY}");
    world.told_of(0, &AGAIN, &own);
    let taking = ["MULTI", "PEXPIRE a 10000", "SET b 10000", "EXEC"];
    world.exchange(0, taking, "+OK|+QUEUED|+QUEUED|*2|:1|+OK|");
    let lock = world.lock();
    released(&mut world, lock);
}

#[test]
fn a_node_that_refuses_it_later_is_read_first_from_then_on() {
    for refusal in [UNKNOWN, NO_COMMAND, "-ERR syntax error|"] {
        let mut world = known();
        asked(&mut world);
        world.say(0, &format!("+OK|+QUEUED|+QUEUED|{refusal}"));
        world.say(0, &format!("+QUEUED|+QUEUED|{ABORTED}"));
        for _ in 0..2 {
            assert_eq!(world.take(0), AGAIN, "{refusal}");
            world.say(0, FREE_AGAIN);
            taken_and_released(&mut world);
            world.try_all();
        }
    }
}

/// Only a server that executes its queue gives this answer. It is not known whether it has set anything.
#[test]
fn a_node_that_fails_at_it_is_read_first_and_owed_the_release() {
    for is_free in [true, false] {
        let mut world = known();
        asked(&mut world);
        world.say(0, &format!("{}$-1|$-1|", executed("-ERR syntax error|")));
        assert_eq!(world.take(0), AGAIN);
        if is_free {
            world.say(0, FREE_AGAIN);
            taken_and_released(&mut world);
        } else {
            let another = format!("$7|another|:5000|{NO_NUMBER}");
            world.say(0, &format!("{WATCHED}{another}{another}"));
            world.no_quorum();
            assert_eq!(world.claims(), 1);
            assert_eq!(world.take(0), RELEASING);
        }
    }
}

/// The transaction checks the permission for each key. If one is missing, the transaction is not run.
#[test]
fn no_key_is_taken_that_the_user_could_not_release() {
    let mut world = known();
    asked(&mut world);
    let queued = "+QUEUED|".repeat(3);
    world.say(0, &format!("+OK|+QUEUED|{NO_KEY}{queued}{ABORTED}"));
    assert_eq!(world.take(0), NOTHING);
    let outcome = NodeOutcome::Unusable(Unusable::KeyPermission);
    assert_eq!(outcomes(&world.no_quorum()), [outcome]);
    world.is_clean();
    // The refusal was about the key, so other keys are still taken in this way.
    asked(&mut world);
}

/// `MULTI` was permitted a moment ago. The commands behind it may have run at once.
#[test]
fn a_transaction_that_is_refused_when_it_is_begun_leaves_a_debt() {
    let mut world = known();
    asked(&mut world);
    world.say(0, NO_COMMAND);
    world.no_quorum();
    assert_eq!(world.owed(), 1);
}

#[test]
fn a_connection_that_is_lost_leaves_a_debt_of_all_names() {
    let mut world = known();
    asked(&mut world);
    world.lose(0);
    world.no_quorum();
    assert_eq!(world.owed(), 1);
    world.welcome_again(0);
    assert_eq!(world.take(0)[..5], RELEASING);
    world.say(0, &format!("{WATCHED}$-1|$-1|"));
    finish(&mut world, 0);
    let rest = world.take(0);
    assert_eq!(rest[rest.len() - 4..], DELETING, "also what was not seen");
    world.say(0, "+OK|+QUEUED|+QUEUED|*2|:0|:0|");
    world.is_clean();
}

#[test]
fn what_is_being_taken_for_an_attempt_that_is_over_is_released() {
    for is_taken in [true, false] {
        let mut world = known();
        let operation = asked(&mut world);
        world.cancel(operation);
        assert_eq!((world.claims(), world.take(0).len()), (1, 0));
        if is_taken {
            takes(&mut world);
            world.told_of(0, &RELEASING, BOTH);
            world.exchange(0, DELETING, DELETED);
        } else {
            world.say(0, &format!("{}$-1|$7|another|", executed(":0|")));
            world.exchange(0, RELEASING, &format!("{WATCHED}$-1|$7|another|"));
            world.exchange(0, ["MULTI", "PEXPIRE a -1", "EXEC"], "+OK|+QUEUED|*1|:0|");
        }
        world.is_clean();
    }
}

/// A command that waits while the keys of others are read is not run if no operation wants it any more.
#[test]
fn what_waits_beside_what_is_read_is_given_up_untaken() {
    let mut world = known();
    let lock = taken_at_once(&mut world);
    let other = world.acquire_all(&[b"x", b"y"], &once());
    assert_eq!(world.take(0)[3], "MSETEX x y 10000");
    world.release(lock);
    let waiting = world.acquire_all(&[b"c", b"d"], &once());
    world.cancel(other);
    world.say(0, &format!("{}$7|another|$-1|", executed(":0|")));
    let read = world.take(0);
    assert_eq!(read[2], "WATCH a b x y", "releases alone are read for");
    world.cancel(waiting);
    world.say(0, &format!("{WATCHED}$-1|$-1|$7|another|$-1|"));
    let written = world.take(0).concat();
    assert!(!written.contains('c'), "{written}");
}

/// An `EXEC` that was aborted because of other keys says nothing about `MSETEX`.
#[test]
fn an_aborted_transaction_is_done_again_in_the_same_way() {
    let mut world = known();
    asked(&mut world);
    for _ in 0..3 {
        world.say(0, "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|+QUEUED|$-1|");
        assert_eq!(world.take(0), AT_ONCE);
    }
}

/// If the user may not run `MSETEX`, this is asked only once on a connection.
#[test]
fn a_refusal_for_now_tells_nothing_and_a_refusal_of_the_command_all() {
    for (said, asks_again) in [
        (NO_COMMAND, false),
        (UNKNOWN, false),
        ("-BUSY Redis is busy running a script|", true),
        (NO_KEY, true),
    ] {
        let mut world = bare(1);
        world.try_all();
        world.reply(0, &format!("{FREE_AGAIN}{said}"));
        taken_and_released(&mut world);
        world.try_all();
        assert_eq!(world.take(0).len(), 9 + usize::from(asks_again), "{said}");
    }
}
