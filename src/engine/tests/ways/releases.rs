//! Stories of releases by transactions.

use super::*;

const ABORTED: &str = "-EXECABORT Transaction discarded|";

/// Takes locks of these names on one node, and releases all of them.
fn released(names: &[&[u8; 1]]) -> World {
    let mut world = watching(1);
    let take = |name: &&[u8; 1]| world.lock_of(*name);
    let locks: Vec<_> = names.iter().map(take).collect();
    world.take(0);
    locks.into_iter().for_each(|lock| world.release(lock));
    world
}

/// Makes three such releases, of which the first is done.
fn two_released_behind_one() -> World {
    let mut world = released(&[b"a", b"b", b"c"]);
    world.tell(0, "+OK|*0|+OK|@a");
    world.say(0, WRITTEN);
    world.take(0);
    world
}

#[test]
fn a_release_deletes_what_has_not_changed_since_it_was_read() {
    let mut world = releasing();
    for _ in 0..3 {
        world.told_of(0, &RELEASING, "+OK|*0|+OK|@k");
        world.exchange(0, DELETING, "+OK|+QUEUED|$-1|"); // Another client has written to the key.
    }
    assert!(world.events.is_empty());
    // The key belongs to another client by now.
    world.exchange(0, RELEASING, "+OK|*0|+OK|$7|another|");
    assert_eq!(world.take(0), NOTHING);
    assert!(world.unlocked().is_err());
    world.is_clean();
}

#[test]
fn a_key_that_is_missing_is_written_to_before_its_release_is_settled() {
    let mut world = releasing();
    world.exchange(0, RELEASING, "+OK|*0|+OK|$-1|");
    assert_eq!(world.claims(), 1);
    world.exchange(0, DELETING, "+OK|+QUEUED|$-1|"); // A postponed `SET` has run.
    world.told_of(0, &RELEASING, "+OK|*0|+OK|@k");
    world.say(0, WRITTEN);
    world.is_released();
}

#[test]
fn where_multi_is_not_accepted_nothing_is_sent_behind_it() {
    let mut world = releasing();
    world.tell(0, &format!("{NO_COMMAND}-ERR EXEC without MULTI|+OK|@k"));
    world.exchange(0, [&RELEASING[..], &["DELIFEQ k"]].concat(), ":1|");
    world.is_released();
    // `MULTI` was forbidden in between, so it is not known whether a command after it was run.
    let mut world = releasing();
    world.tell(0, "+OK|*0|+OK|@k");
    world.say(0, NO_COMMAND);
    assert_eq!((world.links[0], world.owed()), ("reset", 1));
}

#[test]
fn a_command_that_is_refused_in_a_transaction_refuses_its_own_work_alone() {
    let mut world = two_released_behind_one();
    world.tell(0, "+OK|*0|+OK|@b@c");
    world.say(0, &format!("+OK|{NO_KEY}+QUEUED|{ABORTED}"));
    assert_eq!(world.owed(), 1);
    let again = ["MULTI", "EXEC", "WATCH c", "GET c"];
    assert_eq!(world.take(0)[4..], again);
    world.tell(0, "+OK|*0|+OK|@c");
    world.say(0, WRITTEN);
    assert_eq!((world.claims(), world.owed()), (1, 1));
}

/// The first refusal ends the connection. The second lock still has to be released.
#[test]
fn what_was_refused_with_another_whose_refusal_ends_the_connection_is_owed_too() {
    let mut world = two_released_behind_one();
    world.tell(0, "+OK|*0|+OK|@b@c");
    world.say(0, &format!("+OK|-READONLY x|-READONLY x|{ABORTED}"));
    let left = (world.links[0], world.claims(), world.owed());
    assert_eq!(left, ("reset", 2, 2));
}

#[test]
fn a_watch_that_is_refused_is_asked_for_each_key_alone() {
    let mut world = two_released_behind_one();
    let refused = format!("+OK|*0|{NO_KEY}{NO_KEY}");
    world.tell(0, &format!("{refused}@c"));
    world.exchange(0, ["MULTI", "EXEC", "WATCH b", "GET b"], &refused);
    world.told_of(0, &["MULTI", "EXEC", "WATCH c", "GET c"], "+OK|*0|+OK|@c");
    world.say(0, WRITTEN);
    assert_eq!((world.claims(), world.owed()), (1, 1));
}

/// Its debt is tried again for as long as the other client holds the lock, and hides that lock from no caller.
#[test]
fn a_lost_set_behind_the_lock_of_another_hides_that_lock_from_nobody() {
    let mut world = watching(1);
    let round = world.try_once();
    world.lose(0);
    world.cancel(round);
    world.take(0);
    world.welcome_again(0);
    world.reply(0, "+OK|*0|+OK|$7|another|");
    finish(&mut world, 0);
    world.events.clear();
    only_watches_from_now_on(&mut world, 0);
    for (releasing, said) in [(false, "$-1|"), (true, "+OK|*0|+OK|$7|another|$-1|")] {
        if releasing {
            world.pass(250 * MS);
            assert_eq!(world.take(0), RELEASING);
        }
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
        world.say(0, said);
        world.next_is_held();
        assert_eq!((world.claims(), world.owed()), (1, 1));
    }
    // The debt is settled when the other lock is over.
    world.pass(250 * MS);
    world.exchange(0, RELEASING, "+OK|*0|+OK|$-1|");
    world.exchange(0, DELETING, "+OK|+QUEUED|*1|:0|");
    world.is_clean();
}

/// A release waits for the release of another lock. A `SET` that has met the key is sent again when the first release
/// is written.
#[test]
fn a_lock_that_is_wanted_behind_a_release_that_waits_is_taken_behind_its_transaction() {
    let mut world = released(&[b"a", b"k"]);
    world.try_once();
    assert_eq!(world.take(0)[3..], ["GET a", "SET k 10000"]);
    world.tell(0, "+OK|*0|+OK|@a$-1|");
    world.exchange(0, ["MULTI", "PEXPIRE a -1", "EXEC"], WRITTEN);
    world.told_of(0, &RELEASING, "+OK|*0|+OK|@k");
    let sent = [&DELETING[..], &["SET k 10000"]].concat();
    world.exchange(0, sent, &format!("{WRITTEN}+OK|"));
    assert_eq!(world.events.len(), 3);
    world.events.drain(..2);
    drop(world.lock());
}

/// A connection ends with its handshake because another name of the server votes. Debts are paid before that.
#[test]
fn what_is_owed_under_another_name_of_a_server_is_paid_before_its_connection_is_given_up() {
    let mut world = World::with(named(3).without_scripts(true));
    world.unpermitted = true;
    world.welcome(1);
    world.take(1);
    finish(&mut world, 1);
    only_watches_from_now_on(&mut world, 1);
    let round = world.try_once();
    assert_eq!(world.take(1), ["SET k 10000"]);
    world.lose(1);
    world.cancel(round);
    assert_eq!((world.claims(), world.owed()), (1, 1));
    // This is the same server, under the name that votes from now on.
    world.welcome(0);
    world.reply(0, "$11|run_id:run1|$-1|$-1|");
    assert_eq!(world.state(0), NodeState::Ready);
    world.welcome_again(1);
    assert_eq!(world.take(1)[..4], RELEASING);
    world.tell(1, "+OK|*0|+OK|@k$11|run_id:run1|$-1|$-1|");
    world.exchange(1, DELETING, WRITTEN);
    assert_eq!((world.claims(), world.owed()), (0, 0));
    let twin = NodeState::Unusable(Unusable::SameServer(0));
    assert_eq!(world.state(1), twin);
}

/// If other clients write all the time, fewer releases are tried at once.
#[test]
fn releases_that_were_aborted_together_are_done_again_by_fewer() {
    let mut world = two_released_behind_one();
    world.tell(0, "+OK|*0|+OK|@b@c");
    world.say(0, "+OK|+QUEUED|+QUEUED|$-1|");
    let again = ["MULTI", "EXEC", "WATCH b", "GET b"];
    assert_eq!(world.take(0)[4..], again);
}
