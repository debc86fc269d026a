//! Stories of attempts: which votes decide, when the outcome is reported, and which locks are released.

use super::*;
use crate::config::Retry;

#[test]
fn the_third_vote_of_five_decides_and_stragglers_still_count() {
    let mut world = World::ready(5);
    world.try_once();
    assert_eq!(world.take_all(), vec![vec!["SET k 10000"]; 5]);
    world.wait(MS);
    world.say(4, "+OK|");
    world.say(2, "+OK|");
    assert!(world.events.is_empty());
    world.say(0, "+OK|");
    let lock = world.lock();
    let until = Instant::from_millis(1_000).saturating_add(TTL - 102 * MS);
    assert_eq!(lock.valid_until(), until, "counted from before the send");
    world.say(1, "+OK|");
    world.say(3, "_|");
    world.release(lock);
    let release = ["EVALSHA release"];
    let but_for_who_denied_it = [&release[..], &release, &release, &NOTHING, &release];
    assert_eq!(world.take_all(), but_for_who_denied_it);
    world.all_say(0..3, ":1|");
    assert_eq!(world.unlocked().expect("released").deleted, 3);
    world.say(4, ":1|");
    world.is_clean();
}

#[test]
fn a_refused_attempt_is_released_behind_its_set_and_tried_again_with_a_fresh_token() {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.take_all();
    let first = world.tokens().remove(0);
    world.all_say(0..2, "$-1|");
    assert!(world.events.is_empty(), "there is another try");
    let released = world.take(2);
    assert_eq!(released[0], "EVALSHA release", "behind the SET");
    assert_eq!(released[1..], FIRST_LOOK);
    (0..2).for_each(|node| assert_eq!(world.take(node), FIRST_LOOK));
    world.all_say(0..2, "+OK|+OK|:40|");
    world.say(2, "+OK|:1|+OK|+OK|:-2|");
    world.pass(40 * MS);
    assert_eq!(world.take_all().concat(), NOTHING, "others hold a majority");
    world.pass(3 * MS);
    assert_eq!(world.take_all(), vec![vec!["SET k 10000"]; 3]);
    let second = world.tokens().remove(0);
    assert!(first != second, "a fresh token");
    world.all_say(0..3, "+OK|");
    let lock = world.lock();
    world.release_on(0..3, lock);
    world.is_clean();
}

#[test]
fn errors_are_no_votes_and_only_uncertain_ones_are_released() {
    let mut world = World::ready(3);
    world.try_once();
    world.take_all();
    world.say(0, "-LOADING Redis is loading the dataset in memory|");
    world.say(1, "-ERR what is this|");
    let loading = "refused: LOADING (it is still loading its data: wait until it has finished)";
    assert_eq!(world.no_quorum().nodes()[0].outcome.to_string(), loading);
    let release = vec!["EVALSHA release"];
    assert_eq!(world.take_all(), [vec![], release.clone(), release]);
    world.say(1, ":0|");
    world.say(2, "+OK|:1|");
    world.is_clean();
}

/// A node timeout that the user has set is not shortened to the time that the ttl leaves. So the attempt waits for the
/// answers, and the outcome says what was wrong with them. The second time, the verdict is in time, but the engine
/// reports it late.
#[test]
fn a_grant_without_validity_left_is_too_slow_and_given_back() {
    for (answered, told) in [(300, 0), (0, 196)] {
        let mut world = World::with(named(3).node_timeout(SECOND)).greeted();
        world.acquire(&LockOptions::new(200 * MS).tries(1));
        world.take_all();
        world.pass(answered * MS);
        assert!(world.events.is_empty());
        (0..2).for_each(|node| world.say_undrained(node, "+OK|"));
        world.wait(told * MS);
        world.drain();
        assert_matches!(world.refusal(), LockError::TooSlow(_), "{answered} {told}");
        world.all_were_sent(&["EVALSHA release"]);
        world.all_say(0..2, ":1|");
        world.say(2, "+OK|:1|");
        world.is_clean();
    }
}

#[test]
fn a_round_waits_for_a_first_greeting_and_no_set_goes_before_it() {
    let mut world = World::new(3);
    world.try_once();
    world.welcome(0);
    let sent = world.take(0);
    assert!(!sent.iter().any(|command| command.starts_with("SET")));
    world.finish(0, "run0");
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.greet(1);
    world.all_say(0..2, "+OK|");
    let lock = world.lock();
    world.greet(2);
    assert_eq!(world.take(2), NOTHING, "decided: never sent late");
    world.release_on(0..2, lock);
    world.is_clean();
}

#[test]
fn without_a_majority_that_is_reachable_no_set_is_sent() {
    let mut world = World::ready(3);
    (1..3).for_each(|node| world.lose(node));
    world.try_once();
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[0], NodeOutcome::Pending);
    assert_eq!(world.take(0), NOTHING);
    world.is_clean();
}

/// The nodes are 20 ms away, another client holds the lock, and the caller's wait may end at any time.
#[test]
fn the_last_attempt_is_not_begun_too_late_to_tell_who_holds_it() {
    for wait in 100..200 {
        let mut world = World::with(named(3).retry(Retry::new(5, 5 * MS..=60 * MS)));
        (0..3).for_each(|node| world.greet_late(node, 20 * MS, World::pass));
        world.acquire(&LockOptions::new(TTL).wait(Duration::from_millis(wait)));
        while world.events.is_empty() {
            let asked = world.take_all();
            if asked.concat().is_empty() {
                world.sleep_until_timer();
                continue;
            }
            world.pass(20 * MS);
            for (node, commands) in asked.iter().enumerate() {
                let said = commands.iter().map(|command| match &command[..3] {
                    "SET" => "_|",
                    "CLI" => "-ERR unknown command|",
                    "PTT" => ":70000|",
                    _ => ":0|",
                });
                world.say(node, &said.collect::<String>());
            }
        }
        assert_matches!(world.refusal(), LockError::Held(_), "{wait} ms");
    }
}
