//! Stories of kept locks whose keys change on the nodes. The nodes report it, and the engine looks at the lock.

use super::keep::{EXTEND, kept};
use super::*;
use crate::limits::WATCHED_MAX;

const PUSH: &str = ">2|$10|invalidate|*1|$2|k0|";

/// An extension that also asks for a report of the next change.
const LOOKED: [&str; 2] = ["CLIENT CACHING YES", EXTEND];

const LONG: Duration = Duration::from_secs(60);

/// Three nodes that report changes to the keys of locks with these `options`.
fn watching(options: &[LockOptions]) -> (World, Vec<Lock>) {
    let mut world = World::telling(3);
    let name = |index: usize| format!("k{index}").into_bytes();
    let locks = options.iter().enumerate();
    let locks: Vec<_> = locks
        .map(|(index, options)| world.kept_lock(&name(index), *options))
        .collect();
    world.pass(50 * MS);
    for sent in world.take_all() {
        assert_eq!(sent[0], "CLIENT TRACKING ON OPTIN NOLOOP");
        assert_eq!(sent[1], "CLIENT CACHING YES");
        assert_eq!(sent.len(), 3, "{sent:?}");
    }
    let answer = match locks.len() {
        1 => ":1|".to_string(),
        more => format!("*{more}|{}", ":1|".repeat(more)),
    };
    world.all_say(0..3, &format!("+OK|+OK|{answer}"));
    assert_eq!(world.extended_by_engine(), locks.len());
    world.events.clear();
    assert_eq!(world.take_all().concat(), NOTHING);
    (world, locks)
}

fn keeping() -> LockOptions {
    LockOptions::new(LONG).keep()
}

/// Asserts that each node was asked to extend the lock, and to report the next change.
#[track_caller]
fn is_looked_at(world: &mut World) {
    for sent in world.take_all() {
        assert_eq!(sent, LOOKED);
    }
}

#[test]
fn a_lock_whose_keys_are_deleted_is_over_two_round_trips_later() {
    for answer in [":0|", ":-1|"] {
        let (mut world, locks) = watching(&[keeping()]);
        let deleted = world.now;
        world.say(1, PUSH);
        is_looked_at(&mut world);
        (0..2).for_each(|node| world.say(node, &format!("+OK|{answer}")));
        world.expired_first(&locks[0]);
        assert_eq!(world.now, deleted, "at once");
    }
}

/// Each lock has its own time.
#[test]
fn the_first_look_at_a_lock_is_no_later_for_others() {
    let mut world = World::telling(3);
    let (mut granted, mut looked) = (vec![], vec![]);
    let mut locks = vec![];
    for moment in 0..400 {
        // These steps meet every phase of the timer.
        if moment % 37 == 0 && moment < 300 {
            granted.push(world.now);
            locks.push(world.kept_lock(format!("k{}", locks.len()).as_bytes(), keeping()));
        }
        world.pass(MS);
        world.events.clear();
        for (node, sent) in world.take_all().into_iter().enumerate() {
            let mut answers = String::new();
            for command in &sent {
                let names = match command == EXTEND {
                    true => 1,
                    false => command.matches("60000").count(),
                };
                if node == 0 {
                    looked.extend(vec![world.now; names]);
                }
                answers += &match names {
                    0 => "+OK|".to_string(),
                    1 => ":1|".to_string(),
                    _ => format!("*{names}|{}", ":1|".repeat(names)),
                };
            }
            world.say(node, &answers);
        }
    }
    assert_eq!(looked.len(), granted.len());
    for (since, looked) in granted.iter().zip(looked) {
        let waited = looked.saturating_since(*since);
        assert!(waited <= 51 * MS, "{waited:?}");
    }
}

#[test]
fn a_lock_is_not_looked_at_in_its_first_moments() {
    let mut world = World::telling(1);
    let _lock = world.kept_lock(b"k0", keeping());
    world.pass(49 * MS);
    assert_eq!(world.take(0), NOTHING);
}

#[test]
fn a_change_of_one_key_has_no_other_lock_looked_at() {
    let (mut world, _locks) = watching(&[keeping(), keeping()]);
    for name in ["k0", "k1"] {
        world.say(1, &PUSH.replace("k0", name));
        is_looked_at(&mut world);
        world.all_say(0..3, "+OK|:1|");
    }
}

/// A flush deletes all keys of a node, including those of all locks.
#[test]
fn a_flush_has_every_lock_looked_at() {
    let (mut world, locks) = watching(&[keeping(), keeping()]);
    world.say(1, PUSH_ALL);
    for sent in world.take_all() {
        assert_eq!(sent[0], "CLIENT CACHING YES");
        let of_both = [
            "EVALSHA extend k0 60000, k1 60000",
            "EVALSHA extend k1 60000, k0 60000",
        ];
        assert!(of_both.contains(&&*sent[1]), "{sent:?}");
    }
    world.all_say(0..2, "+OK|*2|:0|:0|");
    let is_over = |event: &&Event| matches!(event, Event::Expired { .. });
    assert_eq!(world.events.iter().filter(is_over).count(), locks.len());
}

#[test]
fn every_key_that_one_push_names_counts() {
    let (mut world, _locks) = watching(&[keeping()]);
    world.say(1, ">2|$10|invalidate|*2|$5|other|$2|k0|");
    is_looked_at(&mut world);

    let (mut world, locks) = watching(&[keeping(), keeping()]);
    world.say(1, ">2|$10|invalidate|*2|$2|k0|$2|k1|");
    world.all_say(0..2, "+OK|*2|:0|:0|");
    let is_over = |event: &&Event| matches!(event, Event::Expired { .. });
    assert_eq!(world.events.iter().filter(is_over).count(), locks.len());
}

/// The missing key is reported again after each extension.
#[test]
fn a_key_that_is_missing_on_a_minority_is_copied_and_every_extension_registers() {
    let (mut world, locks) = watching(&[keeping()]);
    world.say(1, PUSH);
    for _ in 0..2 {
        is_looked_at(&mut world);
        for (node, answer) in [(1, ":0|"), (0, ":1|"), (2, ":1|")] {
            world.say(node, &format!("+OK|{answer}"));
        }
        world.was_kept(&locks[0]);
        world.drain();
    }
    assert_eq!(
        world.take_all(),
        [vec![], vec!["SET k0 60000".to_string()], vec![]]
    );
    world.say(1, "+OK|");
    world.pass(SECOND);
    assert_eq!(world.take_all().concat(), NOTHING);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, LOOKED);
}

/// The node had already answered the extension when its key was changed.
#[test]
fn a_change_while_an_extension_is_open_has_another_follow() {
    let (mut world, locks) = watching(&[keeping()]);
    world.say(0, PUSH);
    is_looked_at(&mut world);
    world.say(0, "+OK|:1|");
    world.say(0, PUSH);
    assert_eq!(world.take_all().concat(), NOTHING);
    let wakes = world.engine.poll_timeout().map(|(at, _)| at);
    assert!(
        wakes.is_some_and(|at| world.now < at),
        "not again and again"
    );
    world.say(1, "+OK|:1|");
    world.was_kept(&locks[0]);
    is_looked_at(&mut world);
}

/// Every node reports a change as often as it can, for ten seconds; node 1 `says` what its key is. Returns how often
/// the engine looked at the lock.
fn looks_in_ten_seconds(world: &mut World, says: &str) -> usize {
    let answers = |sent: Vec<String>| -> String {
        let answer = |sent: &String| match &**sent {
            "CLIENT CACHING YES" => "+OK|".to_string(),
            EXTEND => format!("{says}|"),
            _copy if says == ":-1" => "_|".to_string(),
            _copy => "+OK|".to_string(),
        };
        sent.iter().map(answer).collect()
    };
    let mut looks = 0;
    for _ in 0..10_000 {
        world.all_say(0..3, PUSH);
        while world.sent[0].len() == 2 {
            looks += 1;
            assert_eq!(world.take(0), LOOKED);
            let sent = world.take(1);
            world.say(1, &answers(sent));
            world.take(2);
            world.say(0, "+OK|:1|");
            world.say(2, "+OK|:1|");
        }
        let sent = world.take(1);
        world.say(1, &answers(sent));
        world.pass(MS);
    }
    world.events.clear();
    looks
}

/// Another program deletes the key on one node as often as it can.
#[test]
fn a_key_that_is_missing_all_the_time_is_looked_at_four_times_a_second() {
    let (mut world, locks) = watching(&[keeping()]);
    let looks = looks_in_ten_seconds(&mut world, ":0");
    assert!((40..=50).contains(&looks), "{looks}");
    assert!(locks[0].is_valid_at(world.now));
}

/// Other clients take the key and release it on a node that has no copy. A loss on another node is not found later
/// because of that.
#[test]
fn a_key_that_others_have_on_one_node_is_looked_at_four_times_a_second() {
    let (mut world, locks) = watching(&[keeping()]);
    let looks = looks_in_ten_seconds(&mut world, ":-1");
    assert!((40..=50).contains(&looks), "{looks}");
    assert!(locks[0].is_valid_at(world.now));
    let (slept, _) = world.sleep_until_sent(0);
    assert!(slept <= 250 * MS, "{slept:?}");
    world.say(0, "+OK|:0|");
    world.say(2, "+OK|:0|");
    world.expired_first(&locks[0]);
}

/// The servers report the writes of the looks themselves.
#[test]
fn looks_that_find_every_copy_become_rare_until_one_is_missing() {
    let (mut world, locks) = watching(&[keeping()]);
    let looks = looks_in_ten_seconds(&mut world, ":1");
    assert!((8..=15).contains(&looks), "{looks}");
    let (slept, _) = world.sleep_until_sent(0);
    assert!(slept < 8 * SECOND, "{slept:?}");
    for (node, answer) in [(1, ":0|"), (0, ":1|"), (2, ":1|")] {
        world.say(node, &format!("+OK|{answer}"));
    }
    world.all_say(0..3, "+OK|:1|");
    world.take_all();
    for _ in 0..3 {
        world.pass(250 * MS);
        world.say(1, PUSH);
        is_looked_at(&mut world);
        world.all_say(0..3, "+OK|:1|");
    }
    drop(locks);
}

/// A server reports a change twice a second.
#[test]
fn looks_become_rare_where_changes_come_slowly_too() {
    let (mut world, locks) = watching(&[keeping()]);
    let mut looks = 0;
    for quarter in 0..40 {
        if quarter % 2 == 0 {
            world.say(1, PUSH);
        }
        if !world.take_all().concat().is_empty() {
            looks += 1;
            world.all_say(0..3, "+OK|:1|");
            world.was_kept(&locks[0]);
        }
        world.pass(250 * MS);
    }
    assert!((8..=13).contains(&looks), "{looks}");
}

/// After a short pause without changes, looks are as rare as before. After a long one, they begin at the usual pace
/// again.
#[test]
fn looks_that_have_found_every_copy_stay_rare_until_nothing_has_changed_for_long() {
    for is_long in [false, true] {
        let (mut world, locks) = watching(&[keeping()]);
        looks_in_ten_seconds(&mut world, ":1");
        world.sleep_until_sent(0);
        world.all_say(0..3, "+OK|:1|");
        world.was_kept(&locks[0]);
        world.take_all();
        if is_long {
            world.pass(25 * SECOND);
            let looks = looks_in_ten_seconds(&mut world, ":1");
            assert!((8..=15).contains(&looks), "{looks}");
        } else {
            world.pass(4 * SECOND);
            world.say(1, PUSH);
            assert_eq!(world.take_all().concat(), NOTHING);
        }
    }
}

/// When no extension is due any more, only looks can find a loss.
#[test]
fn looks_become_no_rarer_than_half_of_what_is_left() {
    let (mut world, locks) = watching(&[LockOptions::new(LONG).keep_for(LONG)]);
    let looks: Vec<usize> = (0..5)
        .map(|_| looks_in_ten_seconds(&mut world, ":1"))
        .collect();
    assert!(looks[3] != 0 && looks[4] != 0, "{looks:?}");
    assert!(locks[0].is_valid_at(world.now));
}

/// The new connection reports nothing yet.
#[test]
fn a_connection_that_was_lost_has_locks_registered_again() {
    let (mut world, locks) = watching(&[keeping()]);
    world.comes_back_as(2, "run2", 3600);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.pass(50 * MS);
    let sent = world.take_all();
    assert_eq!(sent[..2], [LOOKED, LOOKED]);
    assert_eq!(sent[2][0], "CLIENT TRACKING ON OPTIN NOLOOP");
    assert_eq!(sent[2][1..], LOOKED);
    drop(locks);
}

/// A look because of a new connection can wait for a moment. A look because of a change cannot, whichever was wanted
/// first.
#[test]
fn a_change_is_looked_at_at_once_though_a_connection_was_lost() {
    let (mut world, _locks) = watching(&[keeping()]);
    world.comes_back_as(2, "run2", 3600);
    assert_eq!(world.take(0), NOTHING);
    world.say(1, PUSH);
    assert_eq!(world.take(0), LOOKED);
}

/// While no other extension may begin, a look at one lock waits, and then another lock is due.
#[test]
fn of_the_locks_that_wait_the_one_that_is_due_first_is_next() {
    let (mut world, locks) = watching(&[keeping(), kept()]);
    world.no_extension_may_begin();
    world.say(1, PUSH);
    world.pass(6 * SECOND);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.one_extension_may_begin();
    for lock in locks.iter().rev() {
        is_looked_at(&mut world);
        world.all_say(0..2, "+OK|:1|");
        world.was_kept(lock);
        world.say(2, "+OK|:1|");
    }
}

/// The limit allows no longer extension.
#[test]
fn a_lock_that_has_reached_its_limit_is_looked_at_too() {
    let (mut world, locks) = watching(&[LockOptions::new(LONG).keep_for(LONG)]);
    world.pass(SECOND);
    world.say(1, PUSH);
    is_looked_at(&mut world);
    (0..2).for_each(|node| world.say(node, "+OK|:0|"));
    world.expired_first(&locks[0]);
}

#[test]
fn a_lock_that_is_released_soon_costs_nothing_and_one_that_is_over_is_not_looked_at() {
    let mut world = World::telling(3);
    let lock = world.kept_lock(b"k0", kept());
    world.release(lock);
    world.take_all();
    world.pass(SECOND);
    world.all_say(0..3, ":1|");
    world.pass(SECOND);
    assert_eq!(world.take_all().concat(), NOTHING);

    let (mut world, mut locks) = watching(&[keeping()]);
    world.release(locks.remove(0));
    world.take_all();
    world.all_say(0..3, ":1|");
    world.all_say(0..3, PUSH);
    world.all_say(0..3, PUSH_ALL);
    world.pass(SECOND);
    assert_eq!(world.take_all().concat(), NOTHING);
}

#[test]
fn any_number_of_locks_that_are_over_leave_room_for_looks() {
    let mut world = World::telling(1);
    for _ in 0..2 * WATCHED_MAX {
        let lock = world.kept_lock(b"k0", keeping());
        world.release_on(0..1, lock);
    }
    world.take(0);
    let _lock = world.kept_lock(b"k0", keeping());
    world.pass(50 * MS);
    assert_eq!(world.take(0)[1..], LOOKED);
}

#[test]
fn only_so_many_keys_are_watched() {
    let mut world = World::telling(3);
    world.engine.work.parts.keeper.looks.most = 2;
    let mut locks = world.kept_locks(3);
    world.pass(50 * MS);
    for sent in world.take_all() {
        assert_eq!(
            sent[1..],
            ["CLIENT CACHING YES", "EVALSHA extend k0 10000, k1 10000"]
        );
    }
    world.all_say(0..3, "+OK|+OK|*2|:1|:1|");
    world.release(locks.remove(0));
    world.all_say(0..3, ":1|");
    world.take_all();
    world.events.clear();
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, LOOKED, "there is room for the third");
}

/// There is room for one key.
#[test]
fn a_lock_on_two_resources_is_not_watched_by_one_of_them() {
    let mut world = World::telling(1);
    world.engine.work.parts.keeper.looks.most = 1;
    world.acquire_all(&[b"a", b"b"], &keeping().tries(1));
    world.say(0, ":1|");
    let _lock = world.lock();
    world.take_all();
    world.pass(SECOND);
    assert_eq!(world.take_all().concat(), NOTHING);
}

/// There is room for one key.
#[test]
fn a_lock_that_is_kept_once_more_is_still_watched() {
    let mut world = World::telling(1);
    world.engine.work.parts.keeper.looks.most = 1;
    let mut lock = world.kept_lock(b"k0", keeping());
    world.pass(50 * MS);
    assert_eq!(world.take(0)[1..], LOOKED);
    world.say(0, "+OK|+OK|:1|");
    world.was_kept(&lock);
    world.keep_from_now_on(&mut lock);
    world.pass(MS);
    assert_eq!(world.take(0), LOOKED);
}

/// The node sends no notifications, and is not asked to.
#[test]
fn a_node_that_refuses_to_tell_is_asked_for_extensions_alone() {
    let (mut world, _locks) = {
        let mut world = World::telling(3);
        let locks = world.kept_locks(1);
        world.pass(50 * MS);
        world.take_all();
        world.all_say(0..3, "-NOPERM no tracking|-ERR not tracking|:1|");
        (world, locks)
    };
    world.events.clear();
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, [EXTEND], "{:?}", world.events);
}

/// A server that is busy with a long script has not refused to send notifications.
#[test]
fn a_node_that_was_busy_is_asked_again_to_tell() {
    for said in ["-BUSY a script|-ERR not tracking", "+OK|-LOADING the data"] {
        let mut world = World::telling(3);
        let _locks = world.kept_locks(1);
        world.pass(50 * MS);
        world.take_all();
        world.all_say(0..3, &format!("{said}|:1|"));
        world.events.clear();
        let (_, sent) = world.sleep_until_sent(0);
        assert_eq!(sent[0], "CLIENT TRACKING ON OPTIN NOLOOP", "{said}");
        assert_eq!(sent[1..], LOOKED, "{said}");
    }
}

/// A push shows only the beginning of a long name.
#[test]
fn a_long_name_has_the_locks_looked_at_whose_names_begin_so() {
    let mut world = World::telling(3);
    let long = "x".repeat(300);
    let names = [format!("{long}1"), format!("{long}2"), "k0".into()];
    let locks = names
        .each_ref()
        .map(|name| world.kept_lock(name.as_bytes(), keeping()));
    world.pass(50 * MS);
    world.all_say(0..3, "+OK|+OK|*3|:1|:1|:1|");
    assert_eq!(world.extended_by_engine(), 3);
    world.events.clear();
    world.take_all();
    for name in &names[..2] {
        world.say(1, &format!(">2|$10|invalidate|*1|$301|{name}|"));
        for sent in world.take_all() {
            assert_eq!(sent[0], LOOKED[0]);
            assert_eq!(sent.len(), 2);
            assert!(
                sent[1].contains("xxx1") && sent[1].contains("xxx2"),
                "{sent:?}"
            );
            assert!(!sent[1].contains("k0"), "{sent:?}");
        }
        world.all_say(0..3, "+OK|*2|:1|:1|");
    }
    assert_eq!(world.extended_by_engine(), 4);
    drop(locks);
}

/// The order of watched and unwatched keys is arbitrary.
#[test]
fn watched_and_unwatched_renewals_that_alternate_go_in_two_batches() {
    let mut world = World::telling(3);
    let mut locks = vec![];
    for (index, (most, answers)) in [(1, "+OK|+OK|:1|"), (2, "+OK|:1|")].into_iter().enumerate() {
        world.engine.work.parts.keeper.looks.most = most;
        for name in [2 * index, 2 * index + 1] {
            locks.push(world.kept_lock(format!("k{name}").as_bytes(), kept()));
        }
        world.pass(50 * MS);
        world.all_say(0..3, answers);
        world.take_all();
        assert_eq!(world.extended_by_engine(), 1);
        world.events.clear();
    }
    world.pass(5 * SECOND);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(
        sent,
        [
            "CLIENT CACHING YES",
            "EVALSHA extend k0 10000, k2 10000",
            "EVALSHA extend k1 10000, k3 10000"
        ]
    );
    drop(locks);
}
