//! Stories of locks that are kept: extended by the engine, until something ends that.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::limits::{BATCH_MAX, EXTENSIONS_AT_ONCE};

const SECOND: Duration = Duration::from_secs(1);

/// What a lock of [`TTL`] has at most.
const VALIDITY: Duration = Duration::from_millis(9_898);

pub(super) const EXTEND: &str = "EVALSHA extend";

impl World {
    /// `nodes` nodes that have granted a lock with `options`.
    fn keeping(nodes: usize, options: LockOptions) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        let lock = world.kept_lock(b"k", options);
        (world, lock)
    }

    pub(super) fn kept_lock(&mut self, resource: &[u8], options: LockOptions) -> Lock {
        self.acquire_of(resource, &options.tries(1));
        self.all_say(0..self.sent.len(), "+OK|");
        self.take_all();
        self.lock()
    }

    /// Sleeps until `node` is sent something. Returns for how long, and what.
    pub(super) fn sleep_until_sent(&mut self, node: usize) -> (Duration, Vec<String>) {
        let start = self.now;
        while self.sent[node].is_empty() && self.events.is_empty() {
            self.sleep_until_timer();
        }
        (self.now.saturating_since(start), self.take(node))
    }

    /// Does what the engine wants done. Returns how often `node` was written to, and how many commands.
    fn drain_counting(&mut self, node: usize) -> (usize, Vec<String>) {
        let before = self.writes[node];
        self.drain();
        (self.writes[node] - before, self.take(node))
    }

    /// The one event is an extension that the engine has made. Returns the end of `lock`.
    #[track_caller]
    fn was_kept(&mut self, lock: &Lock) -> Instant {
        match self.event() {
            Event::Kept {
                lock: kept,
                result: Ok(until),
            } if kept == lock.id() => {
                assert_eq!(lock.valid_until(), until);
                until
            }
            other => panic!("{other:?}"),
        }
    }

    /// The first event is an extension that failed.
    #[track_caller]
    pub(super) fn was_not_kept(&mut self) -> ExtendError {
        match self.events.remove(0) {
            Event::Kept {
                result: Err(error), ..
            } => error,
            other => panic!("{other:?}"),
        }
    }

    /// Sleeps for `span`; each extension is confirmed by `nodes`. Returns how many there were.
    fn sleep_keeping(&mut self, span: Duration, nodes: Range<usize>) -> usize {
        let (end, mut extensions) = (self.now.saturating_add(span), 0);
        while self.engine.poll_timeout().is_some_and(|(at, _)| at < end) {
            self.sleep_until_timer();
            for node in nodes.clone() {
                let sent = self.take(node);
                self.say(node, &answers(&sent, ":1|"));
                extensions += renewals(&sent) * usize::from(node == nodes.start);
            }
            assert!(
                self.events
                    .drain(..)
                    .all(|event| matches!(event, Event::Kept { result: Ok(_), .. }))
            );
        }
        self.now = end;
        extensions
    }
}

/// Returns how many renewals are in `sent`.
pub(super) fn renewals(sent: &[String]) -> usize {
    sent.iter()
        .map(|command| in_batch(command).unwrap_or(1))
        .sum()
}

/// Returns the answer to the extensions in `sent`, where each is answered by `reply`.
pub(super) fn answers(sent: &[String], reply: &str) -> String {
    let answer = |command: &String| {
        assert!(command.starts_with(EXTEND), "{command}");
        match in_batch(command) {
            Some(count) => format!("*{count}|{}", reply.repeat(count)),
            None => reply.to_string(),
        }
    };
    sent.iter().map(answer).collect()
}

/// Returns how many renewals are in `command`, if it is a batch.
fn in_batch(command: &str) -> Option<usize> {
    command
        .strip_prefix(EXTEND)?
        .strip_prefix(' ')
        .map(|each| each.split(", ").count())
}

pub(super) fn kept() -> LockOptions {
    LockOptions::new(TTL).keep()
}

#[test]
fn a_kept_lock_is_extended_at_half_of_its_validity_and_again() {
    let (mut world, lock) = World::keeping(3, kept());
    let mut begun = world.now;
    for _ in 0..4 {
        let (after, sent) = world.sleep_until_sent(0);
        let late = after.checked_sub(VALIDITY / 2).expect("not before half");
        assert!(late <= MS, "{after:?}");
        assert_eq!(sent, [EXTEND]);
        begun = begun.saturating_add(after);
        assert_eq!(world.take(1), [EXTEND]);
        assert_eq!(world.take(2), [EXTEND]);
        world.all_say(0..2, ":1|");
        assert_eq!(world.was_kept(&lock), begun.saturating_add(VALIDITY));
        world.say(2, ":1|");
    }
    world.release_on(0..3, lock);
    assert_eq!(world.engine.poll_timeout(), None, "no timer is left");
    world.is_clean();
}

#[test]
fn a_lock_that_is_not_kept_is_not_extended() {
    let (mut world, lock) = World::held(3);
    world.sleep(VALIDITY - 2 * MS);
    assert_eq!(world.take_all().concat(), NOTHING);
    drop(lock);
}

#[test]
fn a_kept_lock_stands_while_a_minority_is_gone() {
    let (mut world, lock) = World::keeping(5, kept());
    world.lose(3);
    world.window[4] = 0;
    assert_eq!(world.sleep_keeping(60 * SECOND, 0..3), 12);
    assert!(lock.is_valid_at(world.now));
    world.release(lock);
}

/// Nothing is said for a while: tries fail, more and more often, and the lock is valid to its end.
#[test]
fn a_failed_extension_is_tried_again_and_ends_nothing() {
    let (mut world, lock) = World::keeping(3, kept());
    let end = lock.valid_until();
    let (mut tries, mut last) = (Vec::new(), world.now);
    while world
        .events
        .iter()
        .all(|event| matches!(event, Event::Kept { .. }))
    {
        let before = world.sent[0].len();
        world.sleep_until_timer();
        if world.sent[0].len() != before {
            tries.push(world.now.saturating_since(last));
            last = world.now;
        }
    }
    let first = tries.remove(0);
    assert!(VALIDITY / 2 <= first && first <= VALIDITY / 2 + MS);
    assert_eq!(tries.len(), 0, "a node that is silent is not asked again");
    assert!(matches!(world.was_not_kept(), ExtendError::Unconfirmed(_)));
    while world.events.len() > 1 {
        assert!(matches!(world.was_not_kept(), ExtendError::Unconfirmed(_)));
        tries.push(MS);
    }
    assert!((8..=15).contains(&tries.len()), "{}", tries.len());
    world.expired(&lock);
    assert!(lock.is_valid_at(world.now) && end.saturating_since(world.now) <= 2 * MS);
    assert_eq!(lock.valid_until(), end);
}

#[test]
fn a_later_try_saves_the_lock() {
    let (mut world, lock) = World::keeping(3, kept());
    for tries in 1..=9 {
        let (_, sent) = world.sleep_until_sent(0);
        assert_eq!(sent, [EXTEND], "{tries}");
        assert!(lock.is_valid_at(world.now));
        let said = if tries == 9 { ":1|" } else { "-ERR x|" };
        world.all_say(0..3, said);
        match tries {
            9 => assert_eq!(
                world.was_kept(&lock),
                world.now.saturating_add(VALIDITY),
                "from the send of this try"
            ),
            _ => drop(world.was_not_kept()),
        }
        assert!(world.events.is_empty());
    }
    world.take_all();
    let (after, _) = world.sleep_until_sent(0);
    assert!(VALIDITY / 2 <= after && after <= VALIDITY / 2 + MS);
    world.release(lock);
}

/// One node has it, one says nothing, one refuses.
#[test]
fn an_extension_that_half_succeeds_is_tried_again() {
    let (mut world, lock) = World::keeping(3, kept());
    let end = lock.valid_until();
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.say(2, "-ERR x|");
    world.sleep_until_event();
    assert!(matches!(world.was_not_kept(), ExtendError::Unconfirmed(_)));
    assert_eq!(lock.valid_until(), end);
    world.say(1, ":1|");
    world.take_all();
    world.sleep_until_sent(0);
    world.all_say(0..2, ":1|");
    assert!(end < world.was_kept(&lock));
}

#[test]
fn a_majority_that_misses_the_key_ends_a_kept_lock_at_once() {
    let (mut world, lock) = World::keeping(3, kept());
    world.sleep_until_sent(0);
    world.all_say(0..2, ":0|");
    world.expired_first(&lock);
    assert!(matches!(world.was_not_kept(), ExtendError::Lost(_)));
    assert!(!lock.is_valid_at(world.now));
    world.take_all();
    world.say(2, ":0|:0|");
    world.sleep(3 * TTL);
    assert_eq!(world.take_all().concat(), NOTHING);
    assert!(world.events.is_empty());
}

#[test]
fn no_extension_lasts_longer_than_asked_for() {
    let most = 25 * SECOND;
    let (mut world, lock) = World::keeping(3, LockOptions::new(TTL).keep_for(most));
    let limit = world.now.saturating_add(most);
    let mut extensions = 0;
    loop {
        let (_, sent) = world.sleep_until_sent(0);
        if sent.is_empty() {
            break;
        }
        extensions += 1;
        world.all_say(0..3, ":1|");
        assert!(world.was_kept(&lock) < limit);
    }
    world.expired(&lock);
    assert!((4..=5).contains(&extensions), "{extensions}");
    let left = limit.saturating_since(world.now);
    assert!(left < TTL / 50, "{left:?}");
    let short = LockOptions::new(TTL).keep_for(TTL / 2);
    let lock = world.kept_lock(b"other", short);
    world.sleep_until_event();
    assert_eq!(world.take_all().concat(), NOTHING, "not extended at all");
    world.expired(&lock);
}

#[test]
fn the_number_of_extensions_limits_keeping() {
    let (mut world, mut lock) = World::keeping(1, kept().extensions(3));
    for left in [2, 1] {
        world.sleep_until_sent(0);
        world.say(0, ":1|");
        world.was_kept(&lock);
        assert_eq!(lock.extensions_left(), left);
    }
    world.extend(&lock);
    world.take(0);
    world.say(0, ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.extensions_left(), 0);
    assert!(matches!(world.extension_refused(&lock), ExtendError::Limit));
    world.sleep_until_event();
    assert_eq!(world.take(0), NOTHING);
    world.expired(&lock);
}

/// A caller's own extension puts the next one off.
#[test]
fn a_callers_extension_counts() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.sleep(4 * SECOND);
    world.extend(&lock);
    world.take(0);
    world.say(0, ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), world.now.saturating_add(VALIDITY));
    let (after, _) = world.sleep_until_sent(0);
    assert!(VALIDITY / 2 <= after && after <= VALIDITY / 2 + MS);
}

#[test]
fn a_release_ends_an_extension_that_the_engine_has_begun() {
    for released in [true, false] {
        let (mut world, lock) = World::keeping(1, kept());
        world.sleep_until_sent(0);
        match released {
            true => world.release(lock),
            false => world.give_back(lock),
        }
        assert!(matches!(world.was_not_kept(), ExtendError::Closed));
        assert_eq!(world.take(0), ["EVALSHA release"]);
        world.say(0, ":1|:1|");
        world.events.clear();
        world.is_clean();
        world.sleep(3 * TTL);
        assert_eq!(world.take(0), NOTHING);
    }
}

/// An extension that waits for room is not sent after the release.
#[test]
fn nothing_is_extended_after_a_release() {
    let (mut world, lock) = World::keeping(1, kept());
    world.window[0] = 0;
    world.sleep(VALIDITY / 2 + 2 * MS);
    world.give_back(lock);
    world.make_room(0);
    assert_eq!(world.take(0), ["EVALSHA release"]);
}

#[test]
fn what_is_handed_over_is_not_kept() {
    let (mut world, lock) = World::keeping(3, kept());
    world.sleep_until_sent(0);
    world.all_say(0..3, ":1|");
    let end = world.was_kept(&lock);
    let lock = world.detach(lock);
    assert_eq!(lock.valid_until(), end);
    let lock = world.adopt(lock);
    world.take_all();
    world.sleep_until_event();
    assert_eq!(world.take_all().concat(), NOTHING);
    world.expired(&lock);
}

#[test]
fn a_lock_in_the_care_of_another_engine_is_not_kept() {
    let (mut world, lock) = World::keeping(3, kept());
    let (_, lock) = World::taken_over(world.now, lock);
    world.sleep_until_event();
    assert_eq!(world.take_all().concat(), NOTHING);
    assert!(matches!(world.event(), Event::Expired { .. }));
    drop(lock);
}

#[cfg(feature = "std")]
#[test]
fn a_lock_that_was_written_down_is_not_kept() {
    let (mut world, lock) = World::keeping(3, kept());
    let _bytes = lock.to_bytes();
    world.sleep_until_event();
    assert_eq!(world.take_all().concat(), NOTHING);
    world.expired(&lock);
}

/// An extension was under way when it was written down. Whoever reads the bytes may release the lock before a
/// copy that is sent now arrives.
#[cfg(feature = "std")]
#[test]
fn a_lock_that_was_written_down_gets_no_copy() {
    for written_down in [false, true] {
        let (mut world, lock) = World::keeping(3, kept());
        world.sleep_until_sent(0);
        world.say(2, ":0|");
        world.all_say(0..2, ":1|");
        world.was_kept(&lock);
        world.take_all();
        world.sleep_until_sent(0);
        assert_eq!(world.take(2), [EXTEND]);
        if written_down {
            let _bytes = lock.to_bytes();
        }
        world.all_say(0..2, ":1|");
        world.was_kept(&lock);
        let copies = usize::from(!written_down);
        assert_eq!(world.take(2), vec!["SET k 10000"; copies]);
    }
}

/// A plain lock that is dropped is not released, and ends with its ttl as any other.
#[test]
fn a_lock_that_nobody_has_is_not_kept() {
    let (mut world, lock) = World::keeping(3, kept());
    drop(lock);
    world.sleep_until_event();
    assert_eq!(world.take_all().concat(), NOTHING);
    assert!(matches!(world.event(), Event::Expired { .. }));
}

/// It ends earlier than was known, so it is extended earlier.
#[test]
fn a_kept_lock_that_is_found_to_end_earlier_is_extended_in_time() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.confirm(&lock);
    world.take(0);
    world.say(0, ":2001|");
    world.extended(&mut lock);
    assert!(lock.valid_until() < world.now.saturating_add(2 * SECOND));
    let (after, sent) = world.sleep_until_sent(0);
    assert!(after <= 2 * MS, "{after:?}");
    assert_eq!(sent, [EXTEND]);
    world.say(0, ":1|");
    world.was_kept(&lock);
    world.release(lock);
}

/// A caller who asks for a confirmation again and again does not keep it from being extended.
#[test]
fn a_kept_lock_is_extended_beside_a_confirmation() {
    let (mut world, lock) = World::keeping(1, kept());
    world.sleep(VALIDITY / 2 - 2 * MS);
    world.ask_confirm(&lock);
    world.take(0);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, [EXTEND]);
    world.release(lock);
}

/// A node that has restarted does not count, and the others are a majority.
#[test]
fn a_kept_lock_outlives_the_restart_of_a_node() {
    let (mut world, lock) = World::keeping(3, kept());
    world.lose(2);
    world.greet_as(2, "another", 0);
    world.take_all();
    assert!(world.quarantined_until(2).is_some());
    world.sleep_until_sent(0);
    assert_eq!(world.take(2), [EXTEND], "asked, and not counted");
    world.say(0, ":1|");
    world.say(2, ":1|");
    assert!(world.events.is_empty());
    world.say(1, ":1|");
    world.was_kept(&lock);
    world.release(lock);
}

/// What a caller asked for is known when its turn comes.
#[test]
fn a_lock_that_was_waited_for_is_kept_too() {
    let (mut world, first) = World::keeping(1, LockOptions::new(TTL));
    let waits = LockOptions::new(TTL).keep_for(3 * TTL).wait(TTL);
    world.acquire_of(b"k", &waits);
    world.release(first);
    while !world.sent[0].is_empty() {
        for sent in world.take(0) {
            let said = if sent.starts_with("SET") {
                "+OK|"
            } else {
                ":1|"
            };
            world.say(0, said);
        }
    }
    world
        .events
        .retain(|event| matches!(event, Event::Acquired { .. }));
    let lock = world.lock();
    world.take(0);
    let (after, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, [EXTEND]);
    assert!(VALIDITY / 2 <= after && after <= VALIDITY / 2 + MS);
    world.release(lock);
}

/// Those who want a lock fill their places, and not those of who holds one.
#[test]
fn no_number_of_waiters_keeps_a_lock_from_being_extended() {
    let (mut world, lock) = World::keeping(3, kept());
    let patient = LockOptions::new(TTL).wait(60 * TTL);
    let request = Request::new(b"k", &patient);
    while world.engine.load().rounds < crate::limits::ROUNDS_MAX {
        world.engine.acquire(world.now, &request).expect("room");
    }
    let refused = world.engine.acquire(world.now, &request);
    assert!(matches!(refused, Err(LockError::Saturated)));
    world.drain();
    while world.sent[0].is_empty() {
        world.sleep_until_timer();
    }
    assert_eq!(world.take(0), [EXTEND]);
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
}

/// The next try waits until this one is over.
#[test]
fn one_extension_of_a_lock_is_under_way_at_a_time() {
    let builder = named(3).node_timeout(4 * SECOND);
    let mut world = World::with(builder).greeted();
    let lock = world.kept_lock(b"k", kept());
    world.sleep_until_sent(0);
    world.sleep(3 * SECOND);
    assert_eq!(world.take(0), NOTHING);
    assert!(world.events.is_empty());
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
    world.release(lock);
}

/// The same, if a later question about the lock is over before it.
#[test]
fn a_question_that_ends_lets_no_second_extension_begin() {
    let builder = named(3).node_timeout(4 * SECOND);
    let mut world = World::with(builder).greeted();
    let lock = world.kept_lock(b"k", kept());
    world.sleep_until_sent(0);
    let round = world.ask_confirm(&lock);
    world.cancel(round);
    world.sleep(3 * SECOND);
    assert_eq!(world.engine.load().rounds, 1);
    assert!(world.events.is_empty());
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
}

/// A caller has one under way, and has asked something else since: the only extension that is left is its own.
#[test]
fn an_extension_of_a_caller_lets_no_second_one_begin() {
    let builder = named(1).node_timeout(4 * SECOND);
    let mut world = World::with(builder).greeted();
    let mut lock = world.kept_lock(b"k", kept().extensions(1));
    world.sleep(VALIDITY / 2 - 2 * MS);
    world.extend_for(&lock, 3 * TTL);
    world.ask_confirm(&lock);
    world.sleep(3 * SECOND);
    assert_eq!(world.take(0), [EXTEND, "EVAL confirm"]);
    assert!(world.events.is_empty(), "{:?}", world.events);
    world.say(0, ":1|");
    world.extended(&mut lock);
    assert!(world.now.saturating_add(2 * TTL) < lock.valid_until());
    assert_eq!(lock.extensions_left(), 0);
}

/// Nor does one that was not confirmed, or was cancelled, keep the next from beginning.
#[test]
fn an_extension_of_a_caller_that_is_over_does_not_keep_the_next_from_beginning() {
    for cancelled in [false, true] {
        let (mut world, lock) = World::keeping(1, kept());
        world.sleep(VALIDITY / 2 - SECOND);
        let round = world.extend(&lock);
        let asked = world.ask_confirm(&lock);
        world.take(0);
        match cancelled {
            true => world.cancel(round),
            false => {
                world.say(0, "-ERR x|");
                world.unconfirmed();
            }
        }
        world.cancel(asked);
        world.say(0, if cancelled { ":1|:5001|" } else { ":5001|" });
        let (after, sent) = world.sleep_until_sent(0);
        assert!(after <= SECOND + 2 * MS, "{after:?}");
        assert_eq!(sent, [EXTEND]);
    }
}

/// A caller applies an outcome when it likes. What the engine has found since stands.
#[test]
fn a_confirmation_that_is_applied_late_does_not_shorten_a_kept_lock() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.sleep(VALIDITY / 2 - 2 * MS);
    world.confirm(&lock);
    world.sleep_until_sent(0);
    world.say(0, ":5001|:1|");
    let confirmed = world.events.remove(0);
    let until = world.was_kept(&lock);
    world.events.push(confirmed);
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), until);
}

/// A confirmation finds that a kept lock is about to end, and the engine reports that it has ended before the
/// outcome is polled: the lock shows the end that was found.
#[test]
fn a_kept_lock_that_is_found_to_end_now_shows_that() {
    let (mut world, lock) = World::keeping(1, kept());
    world.confirm(&lock);
    world.say_undrained(0, ":4|");
    world.engine.handle(world.now, Input::Tick);
    world.drain();
    let Event::Confirmed { result, .. } = world.events.remove(0) else {
        panic!("{:?}", world.events);
    };
    let found = result.expect("the node has it").valid_until();
    assert!(found <= world.now.saturating_add(2 * MS));
    world.expired(&lock);
    assert_eq!(lock.valid_until(), found);
}

/// Nodes fail and come back by chance: a kept lock ends only if no majority could confirm a try.
#[test]
fn a_kept_lock_ends_only_where_no_majority_could_extend_it() {
    let (mut lost, mut extended) = (0, 0);
    for seed in 0..200_u64 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut world, lock) = World::keeping(5, kept());
        let worst = random.random_range(20..80);
        let end = world.now.saturating_add(120 * SECOND);
        let (mut until, mut answering) = (lock.valid_until(), [true; 5]);
        while world.now < end && lost_by(&world, &lock).is_none() {
            assert_eq!(lock.valid_until(), until, "seed {seed}");
            world.sleep_until_timer();
            if world.sent.iter().all(Vec::is_empty) {
                continue;
            }
            answering = answering.map(|_| worst < random.random_range(0..100));
            let asked = world.now;
            for (node, answers) in answering.into_iter().enumerate() {
                for sent in world.take(node) {
                    assert_eq!(sent, EXTEND);
                    let said = if answers { ":1|" } else { "-ERR x|" };
                    world.say(node, said);
                }
            }
            if 3 <= answering.iter().filter(|answers| **answers).count() {
                until = asked.saturating_add(VALIDITY);
                extended += 1;
                assert_eq!(world.was_kept(&lock), until, "seed {seed}");
            }
            world
                .events
                .retain(|event| !matches!(event, Event::Kept { result: Err(_), .. }));
        }
        if lost_by(&world, &lock).is_some() {
            assert!(until.saturating_since(world.now) <= 2 * MS, "seed {seed}");
            lost += 1;
        }
    }
    assert!(
        lost != 0 && 1_000 < extended,
        "{lost} lost, {extended} extended"
    );
}

/// Returns the event that says that `lock` is over.
fn lost_by<'a>(world: &'a World, lock: &Lock) -> Option<&'a Event> {
    let mut events = world.events.iter();
    events.find(|event| matches!(event, Event::Expired { lock: lost } if *lost == lock.id()))
}

/// A thousand locks that fall due in one turn are extended by one write to each node.
#[test]
fn extensions_that_are_due_together_go_out_in_one_write() {
    const LOCKS: usize = 1_000;
    let mut world = World::ready(3);
    let mut locks = Vec::new();
    for number in 0..LOCKS {
        let name = format!("lock{number}");
        locks.push(world.kept_lock(name.as_bytes(), kept()));
    }
    while world.engine.load().unsent == 0 {
        let (at, wake) = world.engine.poll_timeout().expect("a timer");
        assert_eq!(wake, Wake::Extension);
        world.now = at;
        world.engine.handle(at, Input::Tick);
    }
    let at = world.now;
    let mut writes = 0;
    while let Some(output) = world.engine.poll(at) {
        let Output::Transmit { node, bytes } = output else {
            panic!("{output:?}")
        };
        let count = |word: &[u8]| bytes.windows(word.len()).filter(|at| *at == word).count();
        assert_eq!(count(b"EVALSHA"), LOCKS.div_ceil(BATCH_MAX));
        assert_eq!(count(b"$5\r\n10000\r\n"), LOCKS);
        let len = bytes.len();
        assert_eq!(node, id(writes), "one to each");
        writes += 1;
        world.engine.handle(at, Input::Transmitted { node, len });
    }
    assert_eq!(writes, 3);
}

/// A lock that has left its engine is extended and confirmed as any other: its end is its own.
#[test]
fn a_lock_that_was_kept_and_has_left_its_engine_shows_what_others_find() {
    let (mut world, lock) = World::keeping(1, kept().extensions(2));
    let mut lock = world.detach(lock);
    world.take(0);
    world.pass(SECOND);
    world.extend(&lock);
    world.take(0);
    world.say(0, ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), world.now.saturating_add(VALIDITY));
    assert_eq!(lock.extensions_left(), 1);
    world.confirm(&lock);
    world.take(0);
    world.say(0, ":2001|");
    world.extended(&mut lock);
    assert!(lock.valid_until() < world.now.saturating_add(2 * SECOND));
}

/// What another engine finds counts too, which has not adopted it.
#[test]
fn a_kept_lock_shows_what_an_engine_finds_that_does_not_keep_it() {
    let (world, mut lock) = World::keeping(1, kept().extensions(2));
    let mut other = World::ready(1);
    other.now = other.now.max(world.now);
    lock.set_id(LockId {
        engine: 616,
        claim: 0,
    }); // The worlds have the same number.
    other.pass(SECOND);
    other.extend(&lock);
    other.take(0);
    other.say(0, ":1|");
    other.extended(&mut lock);
    assert_eq!(lock.valid_until(), other.now.saturating_add(VALIDITY));
    assert_eq!(lock.extensions_left(), 1);
    other.confirm(&lock);
    other.take(0);
    other.say(0, ":2001|");
    other.extended(&mut lock);
    assert!(lock.valid_until() < other.now.saturating_add(2 * SECOND));
}

/// A caller extends it while an extension of its engine is under way: one of the two was allowed.
#[test]
fn two_extensions_at_once_are_not_more_than_were_allowed() {
    let (mut world, lock) = World::keeping(1, kept().extensions(1));
    world.sleep_until_sent(0);
    world.extend(&lock);
    world.say(0, ":1|");
    let until = match world.events.remove(0) {
        Event::Kept {
            result: Ok(until), ..
        } => until,
        other => panic!("{other:?}"),
    };
    world.pass(MS);
    world.say(0, ":1|");
    let refused = world.not_extended();
    assert!(matches!(refused, ExtendError::Limit), "{refused:?}");
    assert_eq!((lock.valid_until(), lock.extensions_left()), (until, 0));
    world.sleep_until_event();
    world.expired(&lock);
}

/// A caller does not hear of a confirmation, and the lock ends earlier all the same.
#[test]
fn a_confirmation_that_is_cancelled_leaves_no_kept_lock_valid_for_longer_than_it_is() {
    let (mut world, lock) = World::keeping(1, kept());
    let round = world.ask_confirm(&lock);
    world.take(0);
    world.say_undrained(0, ":2001|");
    world.cancel(round);
    assert!(lock.valid_until() < world.now.saturating_add(2 * SECOND));
    let (after, sent) = world.sleep_until_sent(0);
    assert_eq!((after <= 2 * MS, sent), (true, vec![EXTEND.into()]));
    world.say(0, ":1|");
    world.was_kept(&lock);
    world.release(lock);
}

/// A caller has extended the lock for longer while its engine did: what the engine reports is its end.
#[test]
fn an_extension_that_gains_nothing_reports_the_end_that_stands() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.sleep_until_sent(0);
    world.extend_for(&lock, 3 * TTL);
    world.take(0);
    let end = lock.valid_until();
    world.say(0, "-NOSCRIPT x|:1|"); // The engine's own one is sent again.
    world.extended(&mut lock);
    assert!(end.saturating_add(TTL) < lock.valid_until());
    let end = lock.valid_until();
    world.say(0, ":1|:1|:1|:1|");
    assert_eq!(world.was_kept(&lock), end);
    world.release(lock);
}

/// An extension that was confirmed and cancelled is none.
#[test]
fn an_extension_that_is_cancelled_does_not_count() {
    let (mut world, lock) = World::keeping(1, kept().extensions(1));
    let round = world.extend_for(&lock, TTL);
    world.take(0);
    world.say_undrained(0, ":1|");
    world.cancel(round);
    assert_eq!(lock.extensions_left(), 1);
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.was_kept(&lock);
    assert_eq!(lock.extensions_left(), 0);
    world.release(lock);
}

/// A try has failed, and then a confirmation finds a later end: the next try is at half of that.
#[test]
fn a_later_end_is_extended_at_half_whatever_was_tried_before() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.sleep_until_sent(0);
    world.say(0, "-ERR x|");
    drop(world.was_not_kept());
    world.confirm(&lock);
    world.take(0);
    world.say(0, ":5600|");
    world.extended(&mut lock);
    let half = lock.validity_at(world.now) - VALIDITY / 2;
    assert!(half < SECOND, "before the next try would be");
    let (after, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, [EXTEND]);
    assert!(half <= after && after <= half + MS, "{after:?}");
    world.release(lock);
}

// ----- at risk ----------------------------------------------------------------------------------

/// Sleeps until something is reported that is no failed extension. Returns it.
fn sleep_until_told(world: &mut World) -> Event {
    loop {
        let is_told = |event: &Event| !matches!(event, Event::Kept { result: Err(_), .. });
        if let Some(place) = world.events.iter().position(is_told) {
            return world.events.remove(place);
        }
        world.sleep_until_timer();
    }
}

/// No node answers: that takes nothing from the signal, which comes before the end, once.
#[test]
fn a_holder_is_told_by_a_timer_that_its_lock_is_at_risk() {
    let plain = LockOptions::new(TTL);
    for (options, left) in [
        (kept(), TTL / 4),
        (plain, TTL / 4),
        (plain, 1_500 * MS / 1_000),
    ] {
        let (mut world, lock) = World::keeping(3, options);
        world.engine.alert_below(&lock, left);
        let told = sleep_until_told(&mut world);
        assert!(matches!(told, Event::AtRisk { lock: told } if told == lock.id()));
        let now = lock.valid_until().saturating_since(world.now);
        assert!(left <= now && now <= left + 2 * MS, "{now:?} of {left:?}");
        let told = sleep_until_told(&mut world);
        assert!(matches!(told, Event::Expired { lock: told } if told == lock.id()));
    }
}

#[test]
fn of_several_alerts_the_earliest_is_given_and_at_once_if_it_is_due() {
    for left in [VALIDITY, TTL, 5 * TTL, Duration::MAX] {
        let (mut world, lock) = World::keeping(1, kept());
        world.engine.alert_below(&lock, left);
        world.engine.alert_below(&lock, TTL / 4);
        world.sleep_until_event();
        assert_eq!(lock.validity_at(world.now), VALIDITY, "at once");
        assert!(matches!(world.event(), Event::AtRisk { lock: told } if told == lock.id()));
        world.sleep_until_sent(0);
        assert_eq!(world.events.len(), 0, "once");
    }
}

/// A quarter of a ttl may be months: the alert comes then, and not at once again and again.
#[test]
fn an_alert_may_be_months_before_the_end() {
    let day = 24 * 3_600 * SECOND;
    let builder = named(1).max_ttl(400 * day);
    let mut world = World::with(builder).greeted();
    let lock = world.kept_lock(b"k", LockOptions::new(400 * day));
    world.engine.alert_below(&lock, 100 * day);
    let told = sleep_until_told(&mut world);
    assert!(matches!(told, Event::AtRisk { lock: told } if told == lock.id()));
    let left = lock.validity_at(world.now);
    assert!(100 * day <= left && left <= 100 * day + 2 * MS, "{left:?}");
}

/// Nothing is told while extensions succeed, and nothing after the lock was given up.
#[test]
fn extensions_put_an_alert_off_and_a_release_ends_it() {
    for given_up in 0..3 {
        let (mut world, lock) = World::keeping(1, kept());
        world.engine.alert_below(&lock, TTL / 4);
        assert_eq!(world.sleep_keeping(60 * SECOND, 0..1), 12);
        match given_up {
            0 => world.release(lock),
            1 => world.give_back(lock),
            _ => drop(world.detach(lock)),
        }
        world.take(0);
        world.say(0, ":1|");
        world.sleep(3 * TTL);
        let is_at_risk = |event: &Event| matches!(event, Event::AtRisk { .. });
        assert!(!world.events.iter().any(is_at_risk), "{given_up}");
    }
}

/// The tries of a kept lock keep their pauses, however often an alert is asked for.
#[test]
fn alerts_make_no_tries() {
    let (mut world, lock) = World::keeping(1, kept());
    let (after, _) = world.sleep_until_sent(0);
    world.say(0, "-ERR x|");
    let left = VALIDITY - after;
    for _ in 0..20 {
        world.engine.alert_below(&lock, TTL);
        world.sleep(MS);
    }
    assert_eq!(world.take(0), NOTHING);
    let (paused, sent) = {
        world.events.clear();
        world.sleep_until_sent(0)
    };
    assert_eq!(sent, [EXTEND]);
    let paused = paused + 20 * MS;
    assert!(
        left / 4 <= paused && paused <= left / 4 + 2 * MS,
        "{paused:?}"
    );
}

// ----- health -----------------------------------------------------------------------------------

/// Returns the nodes that have confirmed `lock` last, as its holder is told.
#[cfg(feature = "std")]
fn confirmed(world: &World, lock: &Lock) -> Vec<String> {
    let labels = world.engine.confirmed_by(lock);
    labels.iter().map(ToString::to_string).collect()
}

#[cfg(feature = "std")]
#[test]
fn the_nodes_that_confirmed_last_are_named() {
    let (mut world, mut lock) = World::keeping(3, kept());
    let all = ["node0:6379", "node1:6379", "node2:6379"];
    assert_eq!(confirmed(&world, &lock), all);
    world.sleep_until_sent(0);
    assert_eq!(confirmed(&world, &lock), all, "nothing was said yet");
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
    assert_eq!(confirmed(&world, &lock), all[..2], "the third is silent");
    world.say(2, ":1|");
    assert_eq!(confirmed(&world, &lock), all, "it was late");
    world.take_all();
    // Too few: what is left of the lock was confirmed by all.
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.say(1, "-ERR x|");
    world.say(2, "-ERR x|");
    drop(world.was_not_kept());
    assert_eq!(confirmed(&world, &lock), all);
    world.take_all();
    // A confirmation counts too.
    world.confirm(&lock);
    world.say(1, ":5000|");
    world.say(0, ":5000|");
    world.all_say(2..3, "-ERR x|");
    world.apply_next(&mut lock);
    assert_eq!(confirmed(&world, &lock), all[..2]);
    // And who says that it has nothing.
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.say(1, ":0|");
    assert_eq!(confirmed(&world, &lock), all[..1]);
}

#[test]
fn a_kept_lock_costs_little_memory() {
    assert!(size_of::<crate::engine::claims::claim::Claim>() <= 184);
    assert!(size_of::<crate::quorum::Kept>() <= 64);
}

/// Locks that were taken one after another, two ticks apart: from their second extension on those that
/// are due at about the same time are extended together, each a 64th of the time early at most.
#[test]
fn the_extensions_of_many_locks_go_out_together() {
    const LOCKS: usize = 200;
    let mut world = World::ready(1);
    let locks: Vec<Lock> = (0..LOCKS)
        .map(|index| {
            world.pass(2 * MS);
            world.kept_lock(format!("k{index}").as_bytes(), kept())
        })
        .collect();
    assert_eq!(world.sleep_keeping(VALIDITY / 2 + MS, 0..1), LOCKS);
    let (begun, mut turns, mut extensions) = (world.now, 0, 0);
    while world.now.saturating_since(begun) < VALIDITY / 2 {
        world.sleep_until_timer();
        let sent = world.take(0);
        turns += usize::from(!sent.is_empty());
        extensions += renewals(&sent);
        world.say(0, &answers(&sent, ":1|"));
        world.events.clear();
    }
    assert!((LOCKS..=LOCKS + 32).contains(&extensions), "{extensions}");
    assert!(turns <= 8, "{turns} turns");
    locks
        .into_iter()
        .for_each(|lock| world.release_on(0..1, lock));
}

/// A node, and more locks than may be extended at once: `beyond` more, all taken at the same time.
fn too_many(beyond: usize) -> (World, Vec<Lock>) {
    let mut world = World::ready(1);
    let locks = (0..EXTENSIONS_AT_ONCE + beyond)
        .map(|index| world.kept_lock(format!("k{index}").as_bytes(), kept()))
        .collect();
    (world, locks)
}

#[test]
fn extensions_beyond_the_bound_wait_for_others_and_go_out_together() {
    let (mut world, locks) = too_many(52);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(renewals(&sent), EXTENSIONS_AT_ONCE);
    // Each that is answered makes room for another, and what one read brings for as many at once.
    world.say_undrained(0, &answers(&sent[..1], ":1|"));
    let (writes, more) = world.drain_counting(0);
    assert_eq!((writes, renewals(&more), more.len()), (1, 52, 1));
    world.say(0, &answers(&[&sent[1..], &more].concat(), ":1|"));
    assert_eq!(world.take(0), NOTHING);
    let is_kept = |event: &Event| matches!(event, Event::Kept { result: Ok(_), .. });
    assert!(world.events.iter().all(is_kept));
    assert_eq!(world.events.len(), EXTENSIONS_AT_ONCE + 52);
    let begun = world.now;
    let ends = locks.iter().map(Lock::valid_until);
    assert!(
        ends.clone()
            .all(|end| end == begun.saturating_add(VALIDITY))
    );
    for lock in locks {
        world.release(lock);
    }
}

#[test]
fn extensions_that_wait_are_sent_when_others_have_failed() {
    let (mut world, locks) = too_many(7);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(renewals(&sent), EXTENSIONS_AT_ONCE);
    world.all_say(0..1, &answers(&sent, "-ERR x|"));
    let sent = world.take(0);
    assert_eq!(renewals(&sent), 7);
    world.say(0, &answers(&sent, ":1|"));
    let kept = |event: &&Event| matches!(event, Event::Kept { result: Ok(_), .. });
    assert_eq!(world.events.iter().filter(kept).count(), 7);
    drop(locks);
}

#[test]
fn a_lock_that_is_released_while_its_extension_waits_is_not_extended() {
    let (mut world, mut locks) = too_many(3);
    let (_, sent) = world.sleep_until_sent(0);
    // The last three wait; one of them is released, and the name is taken again.
    world.release(locks.remove(EXTENSIONS_AT_ONCE + 1));
    assert_eq!(world.take(0), ["EVALSHA release"]);
    world.say(0, &answers(&sent, ":1|"));
    let sent = world.take(0);
    let [first, last] = [EXTENSIONS_AT_ONCE, EXTENSIONS_AT_ONCE + 2];
    assert_eq!(sent, [format!("{EXTEND} k{first} 10000, k{last} 10000")]);
    world.say(0, &(":1|".to_string() + &answers(&sent, ":1|")));
    world.events.clear();
    let count = world.sleep_keeping(VALIDITY / 2 + MS, 0..1);
    assert_eq!(count + renewals(&world.take(0)), EXTENSIONS_AT_ONCE + 2);
}
