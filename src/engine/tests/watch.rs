//! Stories of watches: their outcomes and their questions. No trace of a watch is left.

use super::inspect::{ONE, OTHER};
use super::inspection::{Found, Inspection};
use super::*;
use crate::engine::operators::OperatorError;
use crate::limits::WATCHES_MAX;

const FIRST: [&str; 3] = [FIRST_LOOK[0], FIRST_LOOK[1], "EVAL inspect"];
const AGAIN: [&str; 2] = [LOOK[0], "EVAL inspect"];

/// The answer that a key is free, to a look that is not the first.
const FREE: &str = "+OK|*3|:0|:0|$0||";

/// A watch looks this long after a change.
const SETTLE: Duration = Duration::from_millis(10);

impl World {
    fn watch(&mut self, known: Option<&Inspection>) -> RoundId {
        let round = self.engine.watch(self.now, b"k", known).expect("asked");
        self.drain();
        round
    }

    /// Asserts that every node was asked for its state, and to report the next change.
    #[track_caller]
    fn looks(&mut self) {
        for node in 0..self.sent.len() {
            let sent = self.take(node);
            assert!(sent == FIRST || sent == AGAIN, "node {node}: {sent:?}");
        }
    }

    /// `node` answers `before`, and then that it has `token` for this many more milliseconds.
    fn shows(&mut self, node: usize, before: &str, token: &str, millis: u64) {
        let len = token.len();
        let left = millis + 1;
        self.say(node, &format!("{before}*3|:{left}|:0|${len}|{token}|"));
    }

    fn all_show(&mut self, before: &str, token: &str, millis: u64) {
        (0..self.sent.len()).for_each(|node| self.shows(node, before, token, millis));
    }

    fn all_free(&mut self, before: &str) {
        let nodes = 0..self.sent.len();
        self.all_say(nodes, &format!("{before}*3|:0|:0|$0||"));
    }

    #[track_caller]
    fn state_told(&mut self) -> Inspection {
        self.told().expect("a watch is told what there is")
    }

    /// Asserts that every node is asked again after a change.
    #[track_caller]
    fn settles(&mut self) {
        self.sleep(SETTLE + MS);
        self.looks();
    }

    /// Continues a watch that has reported a state. The nodes say the same again.
    #[track_caller]
    fn watch_on(&mut self, say: impl FnOnce(&mut Self)) -> Inspection {
        let told = self.state_told();
        self.watch(Some(&told));
        self.looks();
        say(self);
        told
    }

    /// Makes three nodes that say this about `k`, and a watch that has reported it.
    fn watched(say: impl Fn(&mut Self, &str)) -> (Self, Inspection) {
        let mut world = Self::ready(3);
        world.watch(None);
        world.looks();
        say(&mut world, "+OK|+OK|");
        let told = world.watch_on(|world| say(world, "+OK|"));
        (world, told)
    }

    fn watched_free() -> Self {
        Self::watched(Self::all_free).0
    }

    /// Makes such a watch, which looks again because a node has reported a change five seconds later.
    fn changed_free() -> Self {
        let mut world = Self::watched_free();
        world.wait(5 * SECOND);
        world.say(0, PUSH);
        world.settles();
        world
    }

    /// The first two nodes say that the key is free. The last node does not answer in time. The watch goes on.
    fn free_but_for_2(&mut self) {
        self.all_say(0..2, FREE);
        self.sleep(60 * MS); // This is longer than node 2 may take.
        let told = self.state_told();
        assert_matches!(told.nodes()[2].found, Found::Unknown(_), "{told}");
        self.watch(Some(&told));
    }

    /// Makes such a watch while one client holds `k` for `millis` more.
    fn watched_held(millis: u64) -> (Self, Inspection) {
        Self::watched(|world, before| world.all_show(before, ONE, millis))
    }

    #[track_caller]
    fn nothing_left(&self) {
        self.is_clean();
        let parts = &self.engine.work.parts;
        assert_eq!((parts.resting, parts.queues.watches()), (0, 0));
        assert!(parts.queues.is_empty());
    }
}

#[test]
fn nothing_comes_between_the_registration_and_its_question() {
    let mut world = World::watching(named(3)).greeted();
    world.watch(None);
    for sent in world.take_all() {
        assert!(sent.contains(&"TIME".into()), "{sent:?}");
        assert!(sent.ends_with(&AGAIN.map(String::from)), "{sent:?}");
    }
}

#[test]
fn every_change_of_what_a_user_sees_is_told_and_nothing_else() {
    for (before, token, millis, is_news) in [
        ("the same", ONE, 10_000, false),
        ("an extension", ONE, 20_000, true),
        ("another holder", OTHER, 10_000, true),
        ("answers that took their time", ONE, 9_950, false),
    ] {
        let (mut world, _) = World::watched_held(10_000);
        world.say(0, PUSH_ALL);
        world.settles();
        world.all_show("+OK|", token, millis);
        assert_eq!(!world.events.is_empty(), is_news, "{before}");
    }
    let mut world = World::changed_free();
    world.all_free("+OK|");
    assert!(world.events.is_empty(), "it is free as before");
    // One node that disagrees is a change too.
    let (mut world, _) = World::watched_held(10_000);
    world.say(2, PUSH);
    world.settles();
    (0..2).for_each(|node| world.shows(node, "+OK|", ONE, 10_000));
    world.say(2, FREE);
    let told = world.state_told();
    assert_eq!(told.holder().expect("held").nodes, 2);
    assert_eq!(told.nodes()[2].found, Found::Free);
}

#[test]
fn the_end_of_a_key_is_found_without_a_push() {
    let (mut world, _) = World::watched_held(500);
    world.sleep(Duration::from_millis(500));
    assert_eq!(world.take_all().concat(), NOTHING);
    world.settles();
    world.all_free("+OK|");
    assert!(world.state_told().is_free());
    world.nothing_left();
}

#[test]
fn too_few_nodes_are_a_state_and_no_error() {
    let mut world = World::watched_free();
    (0..2).for_each(|node| world.lose(node));
    world.sleep(SETTLE + MS);
    world.exchange(2, AGAIN, FREE);
    world.sleep(50 * MS);
    let told = world.state_told();
    assert!(!told.is_free() && told.holder().is_none(), "{told}");
    let text = told.to_string();
    let why = "not known, because too few nodes gave an answer that counts (node0:6379 ";
    assert!(text.starts_with(why), "{text}");
    world.nothing_left();
}

/// Neither holder has an owner text.
#[test]
fn a_new_holder_is_told_from_an_extension_by_its_token() {
    let (mut world, held) = World::watched_held(5_000);
    assert!(held.same_holder(&held));
    let mut told = |token: &str, millis| {
        world.all_say(0..3, PUSH);
        world.settles();
        let say = |world: &mut World| match token {
            "" => world.all_free("+OK|"),
            token => world.all_show("+OK|", token, millis),
        };
        say(&mut world);
        world.watch_on(say)
    };
    let extended = told(ONE, 9_000);
    assert!(extended.same_holder(&held) && held.same_holder(&extended));
    let free = told("", 0);
    assert!(!free.same_holder(&extended) && !extended.same_holder(&free));
    assert!(!free.same_holder(&free), "there is none");
    let other = told(OTHER, 9_000);
    assert!(other.holder().is_some() && !other.same_holder(&extended));
}

#[test]
fn an_answer_to_an_earlier_look_is_none_to_the_present_one() {
    let mut world = World::ready(3);
    world.watch(None);
    world.looks();
    world.all_say(0..2, "+OK|");
    world.free_but_for_2();
    assert_eq!(world.take(2), AGAIN);
    world.all_say(0..2, FREE);
    world.sleep(60 * MS);
    assert!(world.events.is_empty());
    world.say(0, PUSH);
    world.sleep(SETTLE + MS);
    assert_eq!(world.take(2), AGAIN, "the third question");
    // Its answers come now: to the question of the first watch, and to the first question of this watch.
    world.say(2, "+OK|+OK|*3|:0|:0|$0||");
    world.shows(2, "+OK|", ONE, 5_000);
    world.all_say(0..2, FREE);
    assert!(world.events.is_empty(), "the present question is open");
    world.shows(2, "+OK|", OTHER, 5_000);
    let told = world.state_told();
    let Found::Copy { left, .. } = told.nodes()[2].found else {
        panic!("{told}");
    };
    assert_eq!(left, 5_000 * MS);
    assert_eq!(told.nodes()[2].seen.token(), Some(OTHER.as_bytes()));
    world.nothing_left();
}

#[test]
fn nodes_that_do_not_tell_are_looked_at_from_time_to_time() {
    for refusal in [
        "-NOPERM x|-NOPERM x|",
        "-ERR unknown subcommand 'TRACKING'|-ERR x|",
    ] {
        let mut world = World::ready(3);
        world.watch(None);
        world.looks();
        world.all_free(refusal);
        let told = world.state_told();
        world.watch(Some(&told));
        for look in 0..20 {
            for node in 0..3 {
                assert_eq!(world.take(node), ["EVAL inspect"], "look {look}: {told}");
            }
            world.all_free("");
            assert!(world.events.is_empty());
            let since = world.now;
            world.sleep_until_asked(0);
            let rested = world.now.saturating_since(since);
            assert!(50 * MS <= rested && rested <= 252 * MS, "{rested:?}");
        }
    }
}

#[test]
fn what_can_never_succeed_and_what_is_too_much_is_refused_before_anything_is_sent() {
    let mut world = World::ready(3);
    let refused = world.engine.watch(world.now, b"", None);
    let empty = InvalidRequest(RequestFault::EmptyResource { index: None });
    assert_matches!(refused, Err(OperatorError::Invalid(why)) if why == empty);
    let mut rounds: Vec<_> = (0..WATCHES_MAX).map(|_| world.watch(None)).collect();
    let refused = world.engine.watch(world.now, b"k", None);
    assert_matches!(refused, Err(OperatorError::Saturated));
    // Watches take no room from operations that want a lock.
    world.engine.cancel(world.now, rounds.remove(0));
    world.watch(None);
}

/// A node that forbids to look is not asked from time to time, because the prohibition is permanent.
#[test]
fn a_node_that_did_not_say_what_it_has_is_asked_again() {
    for (refusal, passes) in [("-BUSY x|", true), ("-ERR no|", true), (NO_KEY, false)] {
        let mut world = World::changed_free();
        let says = |world: &mut World| {
            world.all_say(0..2, FREE);
            world.say(2, &format!("+OK|{refusal}"));
        };
        says(&mut world);
        let told = world.watch_on(says);
        assert_matches!(told.nodes()[2].found, Found::Unknown(_), "{told}");
        assert!(world.events.is_empty());
        world.sleep(255 * MS);
        if !passes {
            assert_eq!(world.take_all().concat(), NOTHING, "{refusal}");
            continue;
        }
        world.looks();
        world.all_free("+OK|");
        assert_eq!(world.state_told().nodes()[2].found, Found::Free);
        world.nothing_left();
    }
}

#[test]
fn watches_take_no_room_from_those_who_want_a_lock() {
    let mut world = World::ready(3);
    for watch in 0..WATCHES_MAX {
        let name = format!("{watch:01024}");
        let asked = world.engine.watch(world.now, name.as_bytes(), None);
        asked.expect("there is room");
    }
    world.acquire(&LockOptions::new(TTL));
    for node in 0..3 {
        let sent = world.take(node);
        assert!(sent.len() < 520, "{}", sent.len());
        assert_eq!(sent.last().map(String::as_str), Some("SET k 10000"));
        // These are the two answers to each look, and one to the first of them.
        let looks = (sent.len() - 2) / 2;
        world.say(node, &format!("+OK|{}+OK|", FREE.repeat(looks)));
    }
    // Each gets its turn, and reports the present state.
    for _ in 0..100 {
        world.sleep(SETTLE);
        for node in 0..3 {
            let looks = world.take(node).len() / 2;
            world.say(node, &FREE.repeat(looks));
        }
    }
    let told = world.events.iter().filter(|event| match event {
        Event::Inspected { result, .. } => result.as_ref().is_ok_and(Inspection::is_free),
        _ => false,
    });
    assert_eq!(told.count(), WATCHES_MAX);
}

/// The node answers slowly, and locks come first, but not for ever.
#[test]
fn a_watch_looks_though_a_node_has_much_to_answer_all_the_time() {
    let mut world = World::ready(3);
    for number in 0..600 {
        let name = format!("k{number}");
        world.acquire_of(name.as_bytes(), &once());
        world.all_say(1..3, "+OK|");
    }
    world.events.clear();
    world.take_all();
    world.watch(None);
    assert_eq!(world.take_all().concat(), NOTHING);
    world.sleep(10 * 5 * SETTLE + 20 * MS);
    (1..3).for_each(|node| assert_eq!(world.take(node), FIRST));
}

/// A lost connection answers none of its questions, so the next one begins with the answer to the latest look.
#[test]
fn what_a_lost_connection_did_not_answer_is_not_expected_of_the_next() {
    let mut world = World::changed_free();
    world.free_but_for_2();
    world.looks();
    world.all_say(0..2, FREE);
    world.sleep(60 * MS);
    assert!(world.events.is_empty(), "it is as before");
    world.say(0, PUSH);
    world.settles(); // Node 2 has answered neither question of this watch.
    world.all_say(0..2, FREE);
    world.comes_back_as(2, "run2", 100);
    world.sleep(SETTLE + MS);
    world.exchange(2, FIRST, "+OK|+OK|*3|:0|:0|$0||");
    world.all_say(0..2, FREE);
    assert_eq!(world.state_told().nodes()[2].found, Found::Free);
    world.nothing_left();
}

/// Nodes do not report that their answers count again.
#[test]
fn a_watch_looks_when_a_quarantine_ends() {
    let mut world = World::watched_free();
    world.comes_back_as(2, "another", 1);
    let until = world.quarantined_until(2).expect("its server has changed");
    world.take_all();
    world.all_say(0..2, FREE);
    world.watch_on(|world| {
        world.all_say(0..2, FREE);
        world.say(2, "+OK|+OK|*3|:0|:0|$0||");
    });
    let told = world.watch_on(|world| world.all_free("+OK|"));
    assert!(!told.nodes()[2].counts, "{told}");
    world.sleep(until.saturating_since(world.now).saturating_sub(MS));
    assert_eq!(world.take_all().concat(), NOTHING);
    world.sleep(2 * MS);
    world.looks();
    world.all_free("+OK|");
    assert!(world.state_told().nodes()[2].counts);
    world.nothing_left();
}
