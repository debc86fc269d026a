//! Stories of waiters that no event wakes, and of locks that are refused although they are free.

use super::*;
use crate::config::Retry;

impl World {
    /// Makes a world in which this engine has had the lock many times in a row, so that the next call leaves it to
    /// others first.
    fn after_a_long_row(mut self) -> Self {
        self.have_a_long_row(Duration::ZERO);
        self
    }

    /// Takes the lock many times in a row, with round trips of this length.
    fn have_a_long_row(&mut self, round_trip: Duration) {
        for _ in 0..2 {
            self.try_once();
            self.wait(round_trip);
            self.all_say(0..3, "+OK|");
            let lock = self.lock();
            self.release_on(0..3, lock);
            self.pass(Duration::from_millis(600));
            self.take_all();
        }
    }

    /// Returns how often nodes were asked for the lock since the last look.
    fn attempts(&mut self) -> usize {
        let sent = self.take_all().concat();
        sent.iter().filter(|sent| sent.starts_with("SET")).count()
    }
}

/// The process was not scheduled, so nothing was reported yet when the next call is made.
#[test]
fn a_lock_whose_end_was_not_told_yet_does_not_refuse_a_single_try() {
    let (mut world, held) = World::held(3);
    world.wait(TTL);
    world.try_once();
    assert_eq!(world.attempts(), 3);
    world.all_say(0..3, "+OK|");
    let lock = world.lock();
    world.pass(MS);
    world.expired(&held);
    // The new lock is the held one.
    world.try_once();
    assert_eq!(world.held_by_another().tries(), 0);
    world.release_on(0..3, lock);
}

/// It asks nodes that say nothing.
#[test]
fn a_call_that_leaves_the_lock_to_others_first_says_that_the_nodes_are_gone() {
    let mut world = World::ready(3).after_a_long_row();
    let call = world.acquire(&LockOptions::new(TTL).wait(SECOND));
    world.sleep(20 * MS);
    assert_eq!(world.attempts(), 3);
    world.cancel(call);
    let mut world = World::ready(3).after_a_long_row();
    (0..3).for_each(|node| world.lose(node));
    (0..3).for_each(|node| world.lose_for(node, LinkFault::Refused));
    world.acquire(&LockOptions::new(TTL).wait(SECOND));
    world.sleep_until_event();
    let report = world.no_quorum();
    assert!(1 < report.tries(), "{report}");
}

/// Another client has taken the lock that was left to it, and releases it some time after it was seen. If that is soon,
/// the handle waits a window. Otherwise it is alone, and asks at once.
#[test]
fn one_that_has_left_the_lock_to_others_who_took_it_is_one_of_several() {
    for (after, attempts) in [(2 * MS, 0), (20 * MS, 3)] {
        let mut world = World::ready(3).after_a_long_row();
        world.acquire(&patient());
        world.take_all();
        world.pass(MS / 2);
        world.all_say(0..3, "+OK|+OK|:10000|");
        world.sleep(after);
        world.all_say(0..3, PUSH);
        assert_eq!(world.attempts(), attempts, "{after:?}");
    }
}

#[test]
fn a_call_with_few_tries_does_not_use_them_up_by_leaving_the_lock_to_others() {
    let retry = Retry::new(2, Duration::ZERO..=MS);
    let mut world = World::with(named(3).retry(retry)).greeted();
    world.have_a_long_row(5 * MS);
    world.acquire(&LockOptions::new(TTL));
    for _ in 0..20 {
        world.pass(5 * MS);
        world.all_answer(|_, sent| if sent == "PTTL k" { ":-2|" } else { "+OK|" });
    }
    drop(world.lock());
}

/// The nodes have forgotten the scripts. A release that is sent again ends a registration without a notification.
#[test]
fn a_release_that_is_repaired_behind_a_look_wakes_the_waiter() {
    let (mut world, _) = World::one_waits();
    world.all_say(0..2, PUSH);
    world.take_all();
    // The waiter gets one vote. Another client got the others, and gives them back at once.
    world.say(0, "+OK|");
    world.all_say(1..3, "_|");
    for node in 0..3 {
        assert!(world.take(node).contains(&LOOK[1].into()));
    }
    world.each_says(&["-NOSCRIPT No matching script|+OK|:9999|", "+OK|:-2|"]);
    let again = world.take_all().remove(0);
    assert!(again.contains(&"EVAL release".into()), "{again:?}");
    world.say(0, &format!("{}:1|", digests()));
    world.sleep(5 * MS);
    let sent = world.take_all().concat();
    let is_asked = |sent: &String| sent == "PTTL k" || sent == "SET k 10000";
    assert!(sent.iter().any(is_asked), "{sent:?}");
}

/// An extension is also a write of our own.
#[test]
fn a_waiter_looks_again_behind_an_extension_of_a_lock_that_was_taken_over() {
    let (mut world, lock) = World::held(3);
    let lock = world.detach(lock);
    let lock = world.adopt(lock);
    world.acquire(&patient());
    world.all_reply("_|");
    world.take_all();
    world.all_say(0..2, "+OK|+OK|:10000|");
    world.say(2, ":0|+OK|+OK|:10000|"); // The answer was late.
    world.extend(&lock);
    world.all_were_sent(&["EVALSHA extend", LOOK[0], LOOK[1]]);
}

#[test]
fn a_single_try_beside_a_waiter_has_it_look_only_where_it_may_have_written() {
    let (mut world, _) = World::one_waits();
    world.try_once();
    world.all_were_sent(&["SET k 10000"]);
    world.say(1, "_|");
    world.say(2, "+OK|"); // Another client has the other nodes.
    world.say(0, "_|");
    assert_eq!(world.held_by_another().tries(), 1);
    assert_eq!(world.take(2), [&["EVALSHA release"][..], &LOOK].concat());
    assert_eq!(world.take_all().concat(), NOTHING);
}

#[test]
fn a_node_that_is_trusted_again_wakes() {
    let mut world = World::ready(3);
    // The node has restarted, so its votes do not count for a while.
    world.comes_back_as(2, "another", 0);
    assert!(world.quarantined_until(2).is_some());
    world.acquire(&patient());
    world.take_all();
    world.each_says(&["_|", "+OK|", "_|"]);
    world.take_all();
    world.each_says(&["+OK|+OK|:10000|", ":1|+OK|+OK|:-2|", ":0|+OK|+OK|:-2|"]);
    world.sleep(300 * MS);
    assert_eq!(world.attempts(), 0, "its votes do not count");
    assert_eq!(world.trust(2, "another"), Ok(true));
    world.drain();
    world.sleep(300 * MS);
    assert_ne!(world.attempts(), 0);
}

/// The handle has no retry delay.
#[test]
fn a_node_that_tells_of_nothing_is_not_looked_at_again_and_again_in_one_moment() {
    let retry = Retry::new(5, Duration::ZERO..=Duration::ZERO);
    let mut world = World::with(named(3).retry(retry)).greeted();
    world.acquire(&patient());
    world.all_reply("_|");
    world.all_reply("-NOPERM no|-NOPERM no|:10000|");
    let mut looks = 0;
    for _ in 0..100 {
        world.all_answer(|_, sent| {
            looks += usize::from(sent == "PTTL k");
            if sent == "PTTL k" { ":10000|" } else { "+OK|" }
        });
    }
    assert!(looks < 10, "{looks} looks in no time");
}
