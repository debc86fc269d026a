//! Stories of kept locks whose keys change on the nodes. The nodes report it, and the engine looks at the lock.

use super::keep::{EXTEND, kept};
use super::*;
use crate::limits::WATCHED_MAX;

const PUSH: &str = ">2|$10|invalidate|*1|$2|k0|";

/// An extension that also asks for a report of the next change.
const LOOKED: [&str; 2] = ["CLIENT CACHING YES", EXTEND];

const LONG: Duration = Duration::from_secs(60);

/// Nodes that report changes to `most` keys.
fn telling_of(nodes: usize, most: usize) -> World {
    let mut world = World::telling(nodes);
    world.engine.work.parts.keeper.looks.most = most;
    world
}

/// Three nodes that report changes to the keys of locks with these `options`.
fn watching(options: &[LockOptions]) -> (World, Vec<Lock>) {
    let mut world = World::telling(3);
    let locks = options.iter().enumerate();
    let locks: Vec<_> = locks
        .map(|(index, options)| world.kept_lock(format!("k{index}").as_bytes(), *options))
        .collect();
    world.pass(50 * MS);
    for sent in world.take_all() {
        assert_eq!(sent[..2], FIRST_LOOK[..2]);
        assert_eq!(sent.len(), 3, "{sent:?}");
    }
    world.all_say(0..3, &format!("+OK|+OK|{}", released_each(locks.len())));
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

/// The same holds if the limit of the lock allows no longer extension.
#[test]
fn a_lock_whose_keys_are_deleted_is_over_two_round_trips_later() {
    for options in [keeping(), LockOptions::new(LONG).keep_for(LONG)] {
        for answer in [":0|", ":-1|"] {
            let (mut world, locks) = watching(&[options]);
            world.pass(SECOND);
            let deleted = world.now;
            world.say(1, PUSH);
            is_looked_at(&mut world);
            world.all_say(0..2, &format!("+OK|{answer}"));
            world.expired_first(&locks[0]);
            assert_eq!(world.now, deleted, "at once");
        }
    }
}

/// Each lock has its own time.
#[test]
fn the_first_look_at_a_lock_is_no_sooner_and_no_later_for_others() {
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
            let mut said = String::new();
            for command in &sent {
                let names = if command.starts_with(EXTEND) {
                    released_by(command)
                } else {
                    0
                };
                looked.extend(vec![world.now; names * usize::from(node == 0)]);
                said += &if names == 0 {
                    "+OK|".into()
                } else {
                    released_each(names)
                };
            }
            world.say(node, &said);
        }
    }
    assert_eq!(looked.len(), granted.len());
    for (since, looked) in granted.iter().zip(looked) {
        let waited = looked.saturating_since(*since);
        assert!((50 * MS..=51 * MS).contains(&waited), "{waited:?}");
    }
}

/// Node 1 answers a look that its key is missing. Then the others answer that they have it.
fn one_is_missing(world: &mut World) {
    for (node, answer) in [(1, ":0|"), (0, ":1|"), (2, ":1|")] {
        world.say(node, &format!("+OK|{answer}"));
    }
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
fn a_flush_and_a_push_of_several_keys_have_every_lock_looked_at() {
    let two = ">2|$10|invalidate|*2|$2|k0|$2|k1|";
    let behind_another = ">2|$10|invalidate|*3|$5|other|$2|k1|$2|k0|";
    for push in [PUSH_ALL, two, behind_another] {
        let (mut world, locks) = watching(&[keeping(), keeping()]);
        world.say(1, push);
        for sent in world.take_all() {
            assert_eq!(sent[0], "CLIENT CACHING YES", "{push}");
            let of_both = [
                "EVALSHA extend k0 60000, k1 60000",
                "EVALSHA extend k1 60000, k0 60000",
            ];
            assert!(of_both.contains(&&*sent[1]), "{push}: {sent:?}");
        }
        world.all_say(0..2, "+OK|*2|:0|:0|");
        let is_over = |event: &&Event| matches!(event, Event::Expired { .. });
        let over = world.events.iter().filter(is_over).count();
        assert_eq!(over, locks.len(), "{push}");
    }
}

/// The missing key is reported again after each extension.
#[test]
fn a_key_that_is_missing_on_a_minority_is_copied_and_every_extension_registers() {
    let (mut world, locks) = watching(&[keeping()]);
    world.say(1, PUSH);
    for _ in 0..2 {
        is_looked_at(&mut world);
        one_is_missing(&mut world);
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
    assert_eq!(world.next_sent(0), LOOKED);
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
    let (wakes, _) = world.engine.poll_timeout().expect("a timer");
    assert!(world.now < wakes, "not again and again");
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

/// Other programs delete the key on one node as often as they can; or clients take it and release it on a node that has
/// no copy. A loss on another node is not found later because of that.
#[test]
fn a_key_that_others_have_on_one_node_is_looked_at_four_times_a_second() {
    for says in [":0", ":-1"] {
        let (mut world, locks) = watching(&[keeping()]);
        let looks = looks_in_ten_seconds(&mut world, says);
        assert!((40..=50).contains(&looks), "{says}: {looks}");
        assert!(locks[0].is_valid_at(world.now));
        let (slept, _) = world.sleep_until_sent(0);
        assert!(slept <= 250 * MS, "{says}: {slept:?}");
        world.say(0, "+OK|:0|");
        world.say(2, "+OK|:0|");
        world.expired_first(&locks[0]);
    }
}

/// The servers report the writes of the looks themselves.
#[test]
fn looks_that_find_every_copy_become_rare_until_one_is_missing() {
    let (mut world, locks) = watching(&[keeping()]);
    let looks = looks_in_ten_seconds(&mut world, ":1");
    assert!((8..=15).contains(&looks), "{looks}");
    let (slept, _) = world.sleep_until_sent(0);
    assert!(slept < 8 * SECOND, "{slept:?}");
    one_is_missing(&mut world);
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
    let looks = [(); 5].map(|()| looks_in_ten_seconds(&mut world, ":1"));
    assert!(looks[3] != 0 && looks[4] != 0, "{looks:?}");
    assert!(locks[0].is_valid_at(world.now));
}

/// The new connection reports nothing yet. A look because of it can wait for a moment. A look because of a change
/// cannot, whichever was wanted first.
#[test]
fn a_connection_that_was_lost_has_locks_registered_again() {
    for is_changed in [false, true] {
        let (mut world, _locks) = watching(&[keeping()]);
        world.comes_back_as(2, "run2", 3600);
        assert_eq!(world.take_all().concat(), NOTHING);
        match is_changed {
            true => world.say(1, PUSH),
            false => world.pass(50 * MS),
        }
        let sent = world.take_all();
        assert_eq!(sent[..2], [LOOKED, LOOKED]);
        assert_eq!(sent[2], [&FIRST_LOOK[..1], &LOOKED].concat());
    }
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

#[test]
fn a_lock_that_is_released_soon_costs_nothing_and_one_that_is_over_is_not_looked_at() {
    for is_soon in [true, false] {
        let (mut world, lock) = match is_soon {
            true => {
                let mut world = World::telling(3);
                let lock = world.kept_lock(b"k0", kept());
                (world, lock)
            }
            false => {
                let (world, mut locks) = watching(&[keeping()]);
                (world, locks.remove(0))
            }
        };
        world.release_on(0..3, lock);
        world.take_all();
        if !is_soon {
            world.all_say(0..3, PUSH);
            world.all_say(0..3, PUSH_ALL);
        }
        world.pass(SECOND);
        assert_eq!(world.take_all().concat(), NOTHING);
    }
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
    let mut world = telling_of(3, 2);
    let mut locks = world.kept_locks(3);
    world.pass(50 * MS);
    for sent in world.take_all() {
        let both = "EVALSHA extend k0 10000, k1 10000";
        assert_eq!(sent[1..], [LOOKED[0], both]);
    }
    world.all_say(0..3, "+OK|+OK|*2|:1|:1|");
    world.release(locks.remove(0));
    world.all_say(0..3, ":1|");
    world.take_all();
    assert_eq!(world.next_sent(0), LOOKED, "there is room for the third");
}

/// There is room for one key.
#[test]
fn a_lock_on_two_resources_is_not_watched_by_one_of_them() {
    let mut world = telling_of(1, 1);
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
    let mut world = telling_of(1, 1);
    let mut lock = world.kept_lock(b"k0", keeping());
    world.pass(50 * MS);
    assert_eq!(world.take(0)[1..], LOOKED);
    world.say(0, "+OK|+OK|:1|");
    world.was_kept(&lock);
    world.keep_from_now_on(&mut lock);
    world.pass(MS);
    assert_eq!(world.take(0), LOOKED);
}

/// A node that refuses to send notifications is not asked again. A server that is busy with a long script has not
/// refused.
#[test]
fn a_node_that_refuses_to_tell_is_asked_for_extensions_alone() {
    let again = [FIRST_LOOK[0], LOOKED[0], EXTEND];
    for (said, asked) in [
        ("-NOPERM no tracking|-ERR not tracking", &again[2..]),
        ("-BUSY a script|-ERR not tracking", &again),
        ("+OK|-LOADING the data", &again),
    ] {
        let mut world = World::telling(3);
        let _locks = world.kept_locks(1);
        world.pass(50 * MS);
        world.take_all();
        world.all_say(0..3, &format!("{said}|:1|"));
        assert_eq!(world.next_sent(0), asked, "{said}");
    }
}

/// A push shows only the beginning of a long name.
#[test]
fn a_long_name_has_the_locks_looked_at_whose_names_begin_so() {
    let mut world = World::telling(3);
    let long = "x".repeat(300);
    let names = [format!("{long}1"), format!("{long}2"), "k0".into()];
    let _locks = names
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
            let asked = ["xxx1", "xxx2", "k0"].map(|name| sent[1].contains(name));
            assert_eq!(asked, [true, true, false], "{sent:?}");
        }
        world.all_say(0..3, "+OK|*2|:1|:1|");
    }
    assert_eq!(world.extended_by_engine(), 4);
}
