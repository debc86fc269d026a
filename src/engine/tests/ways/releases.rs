//! Stories of releases by transactions.

use super::*;

/// Takes locks of these names on one node, and releases all of them. Returns their tokens, too.
fn released<const N: usize>(names: [&[u8; 1]; N]) -> (World, [Vec<u8>; N]) {
    let mut world = watching(1);
    let locks = names.map(|name| world.lock_of(name));
    world.take(0);
    let tokens = locks
        .each_ref()
        .map(|lock| lock.token().as_bytes().to_vec());
    for lock in locks {
        world.release(lock);
    }
    (world, tokens)
}

/// Makes three such releases, of which the first is done.
fn two_released_behind_one() -> (World, [Vec<u8>; 3]) {
    let (mut world, tokens) = released([b"a", b"b", b"c"]);
    say_token(&mut world, WATCHED, &tokens[0], "");
    world.say(0, "+OK|+QUEUED|*1|:1|");
    world.take(0);
    (world, tokens)
}

#[test]
fn a_release_deletes_what_has_not_changed_since_it_was_read() {
    let (mut world, token) = releasing();
    for _ in 0..3 {
        assert_eq!(world.take(0), RELEASING);
        say_token(&mut world, WATCHED, &token, "");
        assert_eq!(world.take(0), DELETING);
        world.say(0, "+OK|+QUEUED|$-1|"); // Another client has written to the key.
    }
    assert_eq!(world.take(0), RELEASING);
    assert!(world.events.is_empty());
    // The key belongs to another client by now.
    say_token(&mut world, WATCHED, b"another", "");
    assert_eq!(world.take(0), NOTHING);
    assert!(world.unlocked().is_err());
    world.is_clean();
}

#[test]
fn a_key_that_is_missing_is_written_to_before_its_release_is_settled() {
    let (mut world, token) = releasing();
    world.say(0, &format!("{WATCHED}$-1|"));
    assert_eq!(world.take(0)[4..], DELETING);
    assert_eq!(world.claims(), 1);
    // A postponed `SET` has run.
    world.say(0, "+OK|+QUEUED|$-1|");
    assert_eq!(world.take(0), RELEASING);
    say_token(&mut world, WATCHED, &token, "");
    world.say(0, "+OK|+QUEUED|*1|:1|");
    assert_eq!(world.unlocked().expect("released").deleted, 1);
    world.is_clean();
}

#[test]
fn a_lost_set_outlives_the_reading_of_anothers_token() {
    let mut world = watching(1);
    let round = world.try_once();
    world.take(0);
    world.lose(0);
    world.cancel(round);
    assert_eq!((world.claims(), world.owed()), (1, 1));
    world.welcome_again(0);
    assert_eq!(world.take(0)[..4], RELEASING);
    // The `SET` may still be run, when the other lock is over.
    say_token(&mut world, WATCHED, b"another", "");
    finish(&mut world, 0);
    assert_eq!((world.claims(), world.owed()), (1, 1));
    world.pass(250 * MS);
    world.exchange(0, RELEASING, &format!("{WATCHED}$-1|"));
    world.exchange(0, DELETING, "+OK|+QUEUED|*1|:0|");
    world.is_clean();
}

#[test]
fn where_multi_is_not_accepted_nothing_is_sent_behind_it() {
    let (mut world, token) = releasing();
    say_token(
        &mut world,
        &format!("{NO_COMMAND}-ERR EXEC without MULTI|+OK|"),
        &token,
        "",
    );
    world.exchange(0, [&RELEASING[..], &["DELIFEQ k"]].concat(), ":1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
    // `MULTI` was forbidden in between, so it is not known whether a command after it was run.
    let (mut world, token) = releasing();
    say_token(&mut world, WATCHED, &token, "");
    world.say(0, NO_COMMAND);
    assert_eq!((world.links[0], world.owed()), ("reset", 1));
}

#[test]
fn a_command_that_is_refused_in_a_transaction_refuses_its_own_work_alone() {
    let (mut world, tokens) = two_released_behind_one();
    say_token(&mut world, WATCHED, &tokens[1], "");
    say_token(&mut world, "", &tokens[2], "");
    world.say(
        0,
        "+OK|-NOPERM No permissions to access a key|+QUEUED|-EXECABORT Transaction discarded|",
    );
    assert_eq!(world.owed(), 1);
    let again = ["MULTI", "EXEC", "WATCH c", "GET c"];
    assert_eq!(world.take(0)[4..], again);
    say_token(&mut world, WATCHED, &tokens[2], "");
    world.say(0, "+OK|+QUEUED|*1|:1|");
    assert_eq!((world.claims(), world.owed()), (1, 1));
}

/// The first refusal ends the connection. The second lock still has to be released.
#[test]
fn what_was_refused_with_another_whose_refusal_ends_the_connection_is_owed_too() {
    let (mut world, tokens) = two_released_behind_one();
    say_token(&mut world, WATCHED, &tokens[1], "");
    say_token(&mut world, "", &tokens[2], "");
    let read_only = "-READONLY You can't write against a read only replica.|";
    world.say(
        0,
        &format!("+OK|{read_only}{read_only}-EXECABORT Transaction discarded|"),
    );
    assert_eq!(
        (world.links[0], world.claims(), world.owed()),
        ("reset", 2, 2)
    );
}

#[test]
fn a_watch_that_is_refused_is_asked_for_each_key_alone() {
    let (mut world, tokens) = two_released_behind_one();
    world.say(0, &format!("+OK|*0|{NO_KEY}{NO_KEY}"));
    say_token(&mut world, "", &tokens[2], "");
    assert_eq!(world.take(0), ["MULTI", "EXEC", "WATCH b", "GET b"]);
    world.say(0, &format!("+OK|*0|{NO_KEY}{NO_KEY}"));
    assert_eq!(world.take(0), ["MULTI", "EXEC", "WATCH c", "GET c"]);
    say_token(&mut world, WATCHED, &tokens[2], "");
    world.say(0, "+OK|+QUEUED|*1|:1|");
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
    world.take(0);
    say_token(&mut world, WATCHED, b"another", "");
    finish(&mut world, 0);
    world.events.clear();
    only_watches_from_now_on(&mut world, 0);
    for releasing in [false, true] {
        if releasing {
            world.pass(250 * MS);
            assert_eq!(world.take(0), RELEASING);
        }
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
        match releasing {
            true => say_token(&mut world, WATCHED, b"another", "$-1|"),
            false => world.say(0, "$-1|"),
        }
        world.next_is_held();
        assert_eq!((world.claims(), world.owed()), (1, 1));
    }
}

/// A release waits for the release of another lock. A `SET` that has met the key is sent again when the first release
/// is written.
#[test]
fn a_lock_that_is_wanted_behind_a_release_that_waits_is_taken_behind_its_transaction() {
    let (mut world, tokens) = released([b"a", b"k"]);
    world.try_once();
    assert_eq!(world.take(0)[3..], ["GET a", "SET k 10000"]);
    say_token(&mut world, WATCHED, &tokens[0], "$-1|");
    world.exchange(0, ["MULTI", "PEXPIRE a -1", "EXEC"], "+OK|+QUEUED|*1|:1|");
    assert_eq!(world.take(0), RELEASING);
    say_token(&mut world, WATCHED, &tokens[1], "");
    world.exchange(
        0,
        [&DELETING[..], &["SET k 10000"]].concat(),
        "+OK|+QUEUED|*1|:1|+OK|",
    );
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
    let token = token_of(&world);
    // This is the same server, under the name that votes from now on.
    world.welcome(0);
    world.take(0);
    world.say(0, "$11|run_id:run1|$-1|$-1|");
    assert_eq!(world.state(0), NodeState::Ready);
    world.welcome_again(1);
    assert_eq!(world.take(1)[..4], RELEASING);
    say_token_of(&mut world, 1, WATCHED, &token, "$11|run_id:run1|$-1|$-1|");
    world.exchange(1, DELETING, "+OK|+QUEUED|*1|:1|");
    assert_eq!((world.claims(), world.owed()), (0, 0));
    let twin = NodeState::Unusable(Unusable::SameServer(0));
    assert_eq!(world.state(1), twin);
}

/// If other clients write all the time, fewer releases are tried at once.
#[test]
fn releases_that_were_aborted_together_are_done_again_by_fewer() {
    let (mut world, tokens) = two_released_behind_one();
    say_token(&mut world, WATCHED, &tokens[1], "");
    say_token(&mut world, "", &tokens[2], "");
    world.say(0, "+OK|+QUEUED|+QUEUED|$-1|");
    let again = ["MULTI", "EXEC", "WATCH b", "GET b"];
    assert_eq!(world.take(0)[4..], again);
}
