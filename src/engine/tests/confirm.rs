//! Stories of confirmations: for how long a majority keeps a lock.

use super::*;
use crate::limits::TTL_ASSUMED_MAX;
use crate::quorum::{Drift, NodeSet};

impl World {
    fn confirm(&mut self, lock: &Lock) -> RoundId {
        let round = self.engine.confirm(self.now, lock).expect("asked");
        self.drain();
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), ["EVAL confirm"], "node {node}");
        }
        round
    }

    /// `node` has the token, for so many more milliseconds.
    fn keeps(&mut self, node: usize, millis: u64) {
        self.say(node, &format!(":{}|", millis + 1));
    }

    fn confirmed(&mut self, lock: &mut Lock) {
        match self.event() {
            Event::Extended {
                result: Ok(extension),
                ..
            } => assert!(extension.apply(lock)),
            other => panic!("{other:?}"),
        }
    }

    fn unconfirmed(&mut self) -> crate::error::Report {
        match self.event() {
            Event::Extended {
                result: Err(ExtendError::Unconfirmed(report)),
                ..
            } => report,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn is_expired(&mut self, lock: &Lock) {
        let refused = self.engine.confirm(self.now, lock);
        assert!(matches!(refused, Err(ExtendError::Expired)), "{refused:?}");
        self.drain();
        assert!(
            self.take_all().iter().all(Vec::is_empty),
            "before any byte is sent"
        );
    }

    /// A lock that all nodes granted, and that is read again by a process after the next boot.
    fn from_another_boot(nodes: usize) -> (Self, Lock) {
        let (mut world, lock) = Self::held(nodes);
        let mut lock = world.engine.detach(world.now, lock);
        lock.forget_end();
        (world, lock)
    }
}

/// The end of a lock that is kept for so many milliseconds from `sent` on.
fn end(sent: Instant, millis: u64) -> Instant {
    Drift::default().valid_until(sent, Duration::from_millis(millis))
}

#[test]
fn what_a_majority_keeps_counts_from_before_the_send() {
    let (mut world, mut lock) = World::held(5);
    world.pass(Duration::from_secs(4));
    let (sent, known) = (world.now, lock.valid_until());
    world.confirm(&lock);
    world.now = world.now.saturating_add(Duration::from_millis(20));
    world.keeps(3, 6_500);
    world.keeps(0, 9_000);
    assert!(world.events.is_empty());
    world.keeps(1, 6_000);
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 6_000));
    assert!(known < lock.valid_until(), "the drift is of what is left");
    world.keeps(2, 9_000);
    world.say(4, ":0|");
    assert!(world.events.is_empty(), "a straggler changes nothing");
    // And it is told at the new end.
    world.now = known;
    world.pass(Duration::ZERO);
    assert!(world.events.is_empty());
    world.now = lock.valid_until();
    world.pass(Duration::ZERO);
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
}

#[test]
fn keys_that_were_shortened_end_the_lock_earlier_and_the_loss_is_told_then() {
    let (mut world, mut lock) = World::held(3);
    let sent = world.now;
    world.confirm(&lock);
    (0..3).for_each(|node| world.keeps(node, 1_000));
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 1_000));
    world.sleep_until_event();
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
    assert!(world.now < lock.valid_until(), "a tick early");
}

#[test]
fn who_keeps_it_for_less_long_than_the_others_shortens_nothing() {
    let (mut world, mut lock) = World::held(5);
    let sent = world.now;
    world.confirm(&lock);
    world.keeps(0, 1_000);
    world.keeps(1, 9_998);
    world.keeps(2, 9_999);
    assert!(world.events.is_empty(), "others may know better");
    world.keeps(3, 9_997);
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 9_997));
    // Where the others are silent it ends earlier, in case they do not.
    let sent = world.now;
    world.keeps(4, 9_999);
    world.confirm(&lock);
    world.keeps(0, 1_000);
    world.keeps(1, 9_998);
    world.keeps(2, 9_999);
    world.pass(Duration::from_millis(51));
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 1_000));
}

#[test]
fn a_key_that_ends_at_once_leaves_no_validity() {
    let (mut world, mut lock) = World::held(1);
    world.confirm(&lock);
    world.keeps(0, 0);
    world.confirmed(&mut lock);
    assert!(!lock.is_valid_at(world.now));
    world.sleep_until_event();
    assert!(matches!(world.event(), Event::Expired { .. }));
}

#[test]
fn a_key_that_never_ends_is_trusted_for_the_longest_ttl_that_is_known() {
    let (mut world, mut lock) = World::held(1);
    let sent = world.now;
    world.confirm(&lock);
    world.keeps(0, 9_000_000_000_000_000);
    world.confirmed(&mut lock);
    let millis = TTL_ASSUMED_MAX.as_millis() as u64;
    assert_eq!(lock.valid_until(), end(sent, millis));
    assert_eq!(lock.ttl(), TTL_ASSUMED_MAX);
}

#[test]
fn a_lock_from_another_clock_comes_to_life() {
    let (mut world, lock) = World::from_another_boot(3);
    world.pass(Duration::from_secs(4));
    let mut lock = world.engine.adopt(world.now, lock);
    world.pass(Duration::from_secs(1));
    assert!(world.events.is_empty(), "nobody knows that it is over");
    assert!(!lock.is_valid_at(world.now), "nor that it is not");
    let extended = world.engine.extend(world.now, &lock, TTL);
    assert!(matches!(extended, Err(ExtendError::Expired)));
    let sent = world.now;
    world.confirm(&lock);
    world.keeps(0, 5_000);
    world.keeps(1, 5_001);
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 5_000));
    world.keeps(2, 5_000);
    world.sleep_until_event();
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
    assert!(world.now <= lock.valid_until());
    world.is_expired(&lock);
    world.is_clean();
}

#[test]
fn a_lock_in_nobodys_care_is_confirmed_too() {
    let (mut world, mut lock) = World::from_another_boot(3);
    let sent = world.now;
    world.confirm(&lock);
    (0..2).for_each(|node| world.keeps(node, 9_000));
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 9_000));
    world.now = lock.valid_until();
    world.is_expired(&lock);
}

#[test]
fn a_lock_from_another_clock_that_nobody_confirms_is_over_with_its_keys() {
    let (mut world, lock) = World::from_another_boot(3);
    let lock = world.engine.adopt(world.now, lock);
    let keys_gone = Drift::default().gone_by(world.now, TTL_ASSUMED_MAX);
    world.sleep_until_event();
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
    let tick = Duration::from_millis(2);
    assert!(world.now <= keys_gone && keys_gone < world.now.saturating_add(tick));
    world.is_expired(&lock);
    world.is_clean();
}

#[test]
fn what_was_told_to_be_over_is_not_revived_by_a_confirmation() {
    let (mut world, lock) = World::held(3);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(1));
    world.pass(Duration::ZERO);
    assert!(matches!(world.event(), Event::Expired { .. }));
    assert!(lock.is_valid_at(world.now), "told early");
    world.is_expired(&lock);
    // And what has run out by the clock of its holder is over for whoever it was handed to.
    let (mut world, lock) = World::held(3);
    let lock = world.engine.detach(world.now, lock);
    world.now = lock.valid_until();
    world.is_expired(&lock);
}

#[test]
fn a_confirmation_that_comes_when_the_end_was_told_is_ignored() {
    let (mut world, lock) = World::held(3);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(5));
    world.confirm(&lock);
    world.keeps(0, 9_000);
    world.pass(Duration::from_millis(4));
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Expired { .. },
                Event::Extended {
                    result: Err(ExtendError::Unconfirmed(_)),
                    ..
                }
            ]
        ),
        "{events:?}"
    );
    (1..3).for_each(|node| world.keeps(node, 9_000));
    world.pass(Duration::from_millis(10));
    assert!(world.events.is_empty());
    world.is_expired(&lock);
}

#[test]
fn a_majority_that_misses_it_loses_it_also_if_its_end_was_not_known() {
    let (mut world, lock) = World::from_another_boot(3);
    let mut lock = world.engine.adopt(world.now, lock);
    world.confirm(&lock);
    world.say(0, ":0|");
    world.say(
        1,
        "-WRONGTYPE Operation against a key holding the wrong kind of value|",
    );
    let events = core::mem::take(&mut world.events);
    let [
        Event::Expired { lock: lost },
        Event::Extended {
            result: Err(ExtendError::Lost(report)),
            ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*lost, lock.id());
    assert_eq!(
        outcomes(report)[..2],
        [NodeOutcome::Missing, NodeOutcome::Held]
    );
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
    world.is_expired(&lock);
    lock.lost(world.now);
    assert!(lock.has_known_end(), "whoever has it knows that it is over");
}

#[test]
fn too_few_answers_leave_it_as_it_was() {
    let (mut world, lock) = World::from_another_boot(3);
    let mut lock = world.engine.adopt(world.now, lock);
    world.confirm(&lock);
    world.keeps(0, 5_000);
    world.say(
        1,
        "-NOPERM this user has no permissions to run the 'eval' command|",
    );
    world.pass(Duration::from_millis(51));
    let report = world.unconfirmed();
    let eval = NodeOutcome::Unusable(Unusable::Permission { command: "eval" });
    assert_eq!(outcomes(&report)[1], eval);
    assert_eq!(outcomes(&report)[2], NodeOutcome::TimedOut);
    world.keeps(2, 5_000);
    assert!(world.events.is_empty(), "a later answer is ignored");
    // It can be asked again.
    world.confirm(&lock);
    world.keeps(0, 5_000);
    world.keeps(2, 5_000);
    world.confirmed(&mut lock);
    assert!(lock.is_valid_at(world.now));
}

#[test]
fn an_answer_that_no_such_question_has_costs_the_connection() {
    for answer in [":-2|", "+OK|", "_|", "*0|"] {
        let (mut world, lock) = World::held(3);
        world.confirm(&lock);
        world.say(1, answer);
        assert_eq!(world.links[1], "reset", "{answer}");
        world.keeps(0, 9_999);
        world.keeps(2, 9_999);
        assert!(matches!(
            world.event(),
            Event::Extended { result: Ok(_), .. }
        ));
    }
}

#[test]
fn of_a_lock_that_was_handed_over_those_alone_count_that_it_stands_on() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    let mut lock = world.engine.detach(world.now, lock);
    lock.forget_end();
    assert_eq!(lock.voters(), NodeSet::first(2));
    let mut other = World::ready(3);
    other.now = world.now;
    let lock = other.engine.adopt(other.now, lock);
    other.confirm(&lock);
    other.keeps(1, 9_000);
    other.keeps(2, 9_000);
    assert!(
        other.events.is_empty(),
        "a release is under way to the third"
    );
    other.keeps(0, 9_000);
    assert!(matches!(
        other.event(),
        Event::Extended { result: Ok(_), .. }
    ));
}

#[test]
fn an_extension_that_is_asked_for_later_is_not_shortened() {
    let (mut world, mut lock) = World::held(3);
    world.confirm(&lock);
    world.extend(&lock);
    let sent = world.now;
    (0..2).for_each(|node| world.say(node, ":1001|:1|"));
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 10_000));
    world.say(2, ":1001|:1|");
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 10_000));
}

/// The other way round: what was asked later is known better.
#[test]
fn an_earlier_end_stands_when_an_earlier_extension_is_told_after_it() {
    let (mut world, mut lock) = World::held(3);
    let second = Duration::from_secs(1);
    world
        .engine
        .extend(world.now, &lock, second)
        .expect("asked");
    world.drain();
    world.take_all();
    world.confirm(&lock);
    let sent = world.now;
    // None of them had the extension's answer counted: two refused it.
    (0..2).for_each(|node| world.say(node, "-ERR x|:501|"));
    assert!(matches!(
        world.events.remove(0),
        Event::Extended {
            result: Err(ExtendError::Unconfirmed(_)),
            ..
        }
    ));
    world.say(2, ":1|:501|");
    world.confirmed(&mut lock);
    assert_eq!(lock.valid_until(), end(sent, 500));
}

#[test]
fn a_confirmation_that_is_cancelled_lengthens_nothing() {
    for (kept, told_at_known) in [(20_000, true), (1_000, false)] {
        let (mut world, lock) = World::held(1);
        let round = world.confirm(&lock);
        let bytes = format!(":{}\r\n", kept + 1).into_bytes();
        let input = Input::Received {
            node: id(0),
            bytes: &bytes,
        };
        world.engine.handle(world.now, input);
        world.engine.cancel(world.now, round);
        world.drain();
        assert!(world.events.is_empty());
        world.sleep_until_event();
        assert!(matches!(world.event(), Event::Expired { .. }));
        let tick = Duration::from_millis(2);
        let at_known = lock.valid_until() < world.now.saturating_add(tick);
        assert_eq!(at_known, told_at_known);
    }
}

#[test]
fn a_confirmation_is_no_extension() {
    let mut world = World::ready(1);
    world.acquire(&LockOptions::new(TTL).extensions(1));
    world.say(0, "+OK|");
    let mut lock = world.lock();
    world.take(0);
    world.confirm(&lock);
    world.keeps(0, 9_999);
    world.confirmed(&mut lock);
    assert_eq!(lock.extensions_left(), 1);
}

#[test]
fn who_is_found_without_it_gets_a_copy_with_the_next_extension() {
    let (mut world, mut lock) = World::held(3);
    world.confirm(&lock);
    world.say(2, ":0|");
    (0..2).for_each(|node| world.keeps(node, 9_999));
    world.confirmed(&mut lock);
    assert!(
        world.take_all().iter().all(Vec::is_empty),
        "a question only"
    );
    world.extend(&lock);
    world.take_all();
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.confirmed(&mut lock);
    assert_eq!(world.take(2), ["SET k 10000"]);
}

#[test]
fn a_release_ends_a_confirmation_that_is_open() {
    let (mut world, lock) = World::held(1);
    world.confirm(&lock);
    world.release(lock);
    let Event::Extended {
        result: Err(ExtendError::Closed),
        ..
    } = world.event()
    else {
        panic!("it was given away")
    };
    world.keeps(0, 9_999);
    world.say(0, ":1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

/// How a question ends that waits for room on node 2 of three.
fn ends_while_it_waits(end: impl FnOnce(&mut World, &mut Lock, RoundId)) {
    let (mut world, mut lock) = World::held(3);
    world.window[2] = 0;
    let round = world.engine.confirm(world.now, &lock).expect("asked");
    world.drain();
    assert_eq!(world.take_all()[..2], [["EVAL confirm"], ["EVAL confirm"]]);
    end(&mut world, &mut lock, round);
    world.window[2] = usize::MAX;
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take(2), Vec::<String>::new());
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_when_it_was_cancelled() {
    ends_while_it_waits(|world, _, round| {
        world.engine.cancel(world.now, round);
        world.drain();
    });
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_behind_its_verdict() {
    ends_while_it_waits(|world, lock, _| {
        (0..2).for_each(|node| world.keeps(node, 9_999));
        world.confirmed(lock);
    });
}

#[test]
fn a_confirmation_that_waits_for_room_is_not_sent_behind_its_node_timeout() {
    ends_while_it_waits(|world, _, _| {
        world.pass(Duration::from_millis(50));
        world.unconfirmed();
    });
}
