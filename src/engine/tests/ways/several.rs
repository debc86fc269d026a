//! Stories of locks on several resources that are taken by transactions.

mod at_once;

use super::*;
use crate::engine::tests::sets::named_held;

/// The commands of a later question, which does not ask for `MSETEX`.
const AGAIN: [&str; 9] = [
    "MULTI",
    "EXEC",
    "WATCH a b",
    "GET a",
    "PTTL a",
    "PEXPIRE a ?",
    "GET b",
    "PTTL b",
    "PEXPIRE b ?",
];
const TAKING: [&str; 4] = ["MULTI", "SET a 10000", "SET b 10000", "EXEC"];
const RELEASING: [&str; 5] = ["MULTI", "EXEC", "WATCH a b", "GET a", "GET b"];
const DELETING: [&str; 4] = ["MULTI", "PEXPIRE a -1", "PEXPIRE b -1", "EXEC"];
pub(super) const TAKEN: &str = "+OK|+QUEUED|+QUEUED|*2|+OK|+OK|";
const DELETED: &str = "+OK|+QUEUED|+QUEUED|*2|:1|:1|";

/// Returns the commands of the first question.
fn reading() -> Vec<&'static str> {
    [&AGAIN[..], &["MSETEX a b ?"]].concat()
}

/// The answers of a node that has neither key, to a user who may write both.
const FREE_AGAIN: &str = "+OK|*0|+OK|$-1|:-2|-ERR value is not an integer or out of range|\
    $-1|:-2|-ERR value is not an integer or out of range|";
/// The answers that both keys have the token.
const BOTH: &str = "+OK|*0|+OK|@a@b";

/// Like [`FREE_AGAIN`], from a node that has no `MSETEX`.
pub(super) fn free() -> String {
    format!("{FREE_AGAIN}{UNKNOWN}")
}

/// Makes one node without scripts that was asked for both names, is free and takes them now.
fn taking() -> (World, RoundId) {
    let mut world = bare(1);
    let round = world.try_all();
    world.exchange(0, reading(), &free());
    assert_eq!(world.take(0), TAKING);
    (world, round)
}

/// Lets the node take both keys, and releases them.
fn taken_and_released(world: &mut World) {
    world.exchange(0, TAKING, TAKEN);
    let lock = world.lock();
    released(world, lock);
}

fn released(world: &mut World, lock: Lock) {
    world.release(lock);
    world.told_of(0, &RELEASING, BOTH);
    world.exchange(0, DELETING, DELETED);
    world.is_released();
}

#[test]
fn all_are_taken_extended_and_released_by_two_round_trips_each() {
    let (mut world, _) = taking();
    world.say(0, TAKEN);
    let mut lock = world.lock();
    let until = Instant::from_millis(1_000).saturating_add(TTL - 102 * MS);
    assert_eq!(lock.valid_until(), until);
    world.pass(3_000 * MS);
    world.extend(&lock);
    let sent = world.take(0);
    let read = ["WATCH a b", "GET a", "PTTL a", "GET b", "PTTL b"];
    assert_eq!(sent[2..], read);
    world.tell(0, "+OK|*0|+OK|@a:7000|@b:7000|");
    let raising = ["MULTI", "PEXPIRE a 10000", "PEXPIRE b 10000", "EXEC"];
    world.exchange(0, raising, DELETED);
    world.extended(&mut lock);
    released(&mut world, lock);
}

/// Without scripts, no permission is checked before the transaction, which finds out each time what the user may do.
#[test]
fn nothing_is_taken_while_one_is_anothers() {
    for (a, b, held) in [
        ("$-1|:-2|", "$7|another|:5000|", "b"),
        ("$7|another|:5000|", "$-1|:-2|", "a"),
        ("$7|another|:5000|", "$7|another|:5000|", "a"),
        ("-WRONGTYPE Operation against a key|:-1|", "$-1|:-2|", "a"),
    ] {
        let mut world = bare(1);
        world.try_all();
        world.reply(0, &format!("{WATCHED}{a}{NO_NUMBER}{b}{NO_NUMBER}"));
        world.say(0, UNKNOWN);
        assert_eq!(world.take(0), NOTHING);
        let report = world.held_by_another();
        assert_eq!(named_held(&report), [Some(held.as_bytes())]);
        world.is_clean();
    }
}

#[test]
fn what_has_changed_since_it_was_read_is_read_again() {
    let (mut world, _) = taking();
    for _ in 0..3 {
        world.say(0, "+OK|+QUEUED|+QUEUED|$-1|");
        world.exchange(0, AGAIN, FREE_AGAIN);
        assert_eq!(world.take(0), TAKING);
    }
    world.say(0, "+OK|+QUEUED|+QUEUED|$-1|");
    world.exchange(0, AGAIN, &format!("{FREE}$7|another|:5000|{NO_NUMBER}"));
    assert_eq!(world.take(0), NOTHING);
    world.held_by_another();
    world.is_clean();
}

#[test]
fn what_the_user_could_not_release_is_not_taken() {
    let missing = |command| NodeOutcome::Unusable(Unusable::Permission { command });
    let no_key = NodeOutcome::Unusable(Unusable::KeyPermission);
    let no_watch = format!("+OK|*0|{NO_COMMAND}{FREE_KEY}{FREE_KEY}");
    for (said, outcome) in [
        (format!("{FREE}$-1|:-2|{NO_COMMAND}"), missing("pexpire")),
        (no_watch, missing("watch")),
        (format!("{FREE}$-1|:-2|{NO_KEY}"), no_key),
    ] {
        let mut world = bare(1);
        world.try_all();
        world.exchange(0, reading(), &(said + UNKNOWN));
        assert_eq!(world.take(0), NOTHING);
        assert_eq!(outcomes(&world.no_quorum()), [outcome]);
        assert_eq!(world.state(0), NodeState::Ready, "for one name");
        world.is_clean();
    }
    // A refusal between `MULTI` and `EXEC` discards all of it.
    let (mut world, _) = taking();
    let refused = "-EXECABORT Transaction discarded because of previous errors.|";
    world.say(0, &format!("+OK|+QUEUED|{NO_COMMAND}{refused}"));
    assert_eq!(world.take(0), NOTHING);
    assert_eq!(outcomes(&world.no_quorum()), [missing("set")]);
    world.is_clean();
}

#[test]
fn an_attempt_that_is_over_takes_nothing_for_which_it_has_only_read() {
    let mut world = bare(1);
    let round = world.try_all();
    world.take(0);
    world.cancel(round);
    assert_eq!(world.claims(), 0);
    world.say(0, &free());
    assert_eq!(world.take(0), NOTHING);
    world.is_clean();
    // Work that waits for another transaction is not done either.
    let round = world.try_all();
    let other = world.acquire_all(&[b"b", b"c"], &once());
    assert_eq!(world.take(0), AGAIN);
    world.cancel(other);
    assert_eq!(world.claims(), 1);
    world.cancel(round);
    world.say(0, FREE_AGAIN);
    assert_eq!(world.take(0), NOTHING);
    world.is_clean();
}

/// This gives the lock one more copy.
#[test]
fn a_node_that_has_only_read_when_a_majority_decides_takes_all_the_same() {
    let mut world = bare(3);
    world.try_all();
    world.all_say(0..2, &free());
    world.take_all();
    world.all_say(0..2, TAKEN);
    let lock = world.lock();
    world.say(2, &free());
    world.exchange(2, TAKING, TAKEN);
    world.release(lock);
    assert_eq!(world.take(2), RELEASING);
}

#[test]
fn what_is_being_taken_for_an_attempt_that_is_over_is_released_behind_it() {
    for aborted in [false, true] {
        let (mut world, round) = taking();
        world.cancel(round);
        assert_eq!((world.claims(), world.take(0).len()), (1, 0));
        if aborted {
            world.say(0, "+OK|+QUEUED|+QUEUED|$-1|");
            world.exchange(0, RELEASING, "+OK|*0|+OK|$-1|$-1|");
            world.exchange(0, DELETING, "+OK|+QUEUED|+QUEUED|*2|:0|:0|");
        } else {
            world.say(0, TAKEN);
            world.told_of(0, &RELEASING, BOTH);
            world.exchange(0, DELETING, DELETED);
        }
        world.is_clean();
    }
}

/// A server that really executes its queue never does this.
#[test]
fn what_was_taken_in_part_is_owed_its_release_whatever_it_was_refused_by() {
    for (first, second) in [
        ("-OOM command not allowed|", None),
        (NO_COMMAND, None),
        ("$-1|", Some("$7|another|:5000|")),
        ("$-1|", Some("-LOADING Redis is loading|:-2|")),
    ] {
        let (mut world, _) = taking();
        world.say(0, &format!("+OK|+QUEUED|+QUEUED|*2|+OK|{first}"));
        if let Some(second) = second {
            // It is taken once more.
            let said = format!("{WATCHED}@a:9999|{NO_NUMBER}{second}{NO_NUMBER}");
            world.told_of(0, &AGAIN, &said);
        }
        world.no_quorum();
        assert_eq!(world.claims(), 1, "{first} {second:?}");
        assert_eq!(world.take(0), RELEASING);
    }
}

/// When the lock is taken once more, it shares a transaction with another one. The whole transaction is refused, so
/// each is asked for alone.
#[test]
fn what_was_taken_in_part_is_owed_its_release_also_when_it_is_asked_for_alone() {
    for cancelled in [false, true] {
        let (mut world, round) = taking();
        world.acquire_all(&[b"c", b"d"], &once());
        world.say(0, "+OK|+QUEUED|+QUEUED|*2|+OK|$-1|");
        assert_eq!(world.take(0)[2], "WATCH a b c d");
        if cancelled {
            world.cancel(round);
        }
        let refused = format!("+OK|*0|{NO_COMMAND}");
        let both_refused = refused.clone() + &FREE_KEY.repeat(2);
        world.say(0, &(refused + &FREE_KEY.repeat(4)));
        if !cancelled {
            world.exchange(0, AGAIN, &both_refused);
        }
        assert_eq!(world.take(0)[2], "WATCH c d");
        world.say(0, &both_refused);
        assert_eq!(world.claims(), 1);
        assert_eq!(world.take(0)[..5], RELEASING, "cancelled: {cancelled}");
        world.say(0, &format!("{WATCHED}$-1|$-1|"));
        world.say(0, "+OK|+QUEUED|+QUEUED|*2|:1|:0|");
        assert_eq!(world.claims(), 0, "cancelled: {cancelled}");
    }
}

#[test]
fn two_that_have_a_resource_in_common_share_no_transaction() {
    let mut world = bare(1);
    world.acquire_all(&[b"x", b"y"], &once());
    assert_eq!(world.take(0)[2], "WATCH x y");
    for names in [[b"a", b"b"], [b"c", b"d"], [b"b", b"e"]] {
        world.acquire_all(&names.map(|name| &name[..]), &once());
    }
    world.say(0, &free());
    world.reply(0, TAKEN);
    drop(world.lock());
    assert_eq!(world.take(0)[2], "WATCH a b c d");
    world.say(0, &(WATCHED.to_string() + &FREE_KEY.repeat(4)));
    let taking = ["SET a 10000", "SET b 10000", "SET c 10000", "SET d 10000"];
    assert_eq!(world.take(0)[1..5], taking);
    world.say(0, "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*4|+OK|+OK|+OK|+OK|");
    (0..2).for_each(|_| drop(world.next_acquired().1.expect("granted")));
    assert_eq!(world.take(0)[2], "WATCH b e");
    let another = format!("{WATCHED}$7|another|:5000|{NO_NUMBER}");
    world.say(0, &(another + FREE_KEY));
    world.held_by_another();
}

/// The answer to the first transaction of the last node was lost, and it has run late. The node is being asked for
/// another copy when the lock is handed over. The keys that the node takes after that would be released by nobody.
#[test]
fn a_lock_that_is_handed_over_is_not_taken_afterwards() {
    let mut world = bare(3);
    world.try_all();
    world.all_say(0..3, &free());
    world.take_all();
    world.all_say(0..2, TAKEN);
    let mut lock = world.lock();
    let has_both = "+OK|*0|+OK|@a:7000|@b:7000|";
    greet_again(&mut world, 2);
    for found in [true, false] {
        world.wait(SECOND);
        world.extend(&lock);
        if found {
            world.say(2, &format!("{WATCHED}$-1|:-2|$-1|:-2|"));
        }
        for node in 0..2 {
            world.tell(node, has_both);
            world.say(node, DELETED);
        }
        world.extended(&mut lock);
    }
    world.tell(2, has_both);
    world.take_all();
    world.say(2, DELETED);
    assert_eq!(world.take(2), reading(), "the copy");
    let lock = world.detach(lock);
    assert_eq!((lock.voters().len(), world.claims()), (3, 0));
    world.say(2, &free()); // The new owner has released the lock.
    assert_eq!(world.take(2), NOTHING);
}
