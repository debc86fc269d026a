//! Stories of kept locks: the engine extends them until something ends the keeping.

use super::*;
use crate::engine::claims::claim::Claim;
use crate::limits::{BATCH_MAX, EXTENSIONS_AT_ONCE, RENEWALS_WAIT};

mod adopted;
mod at_risk;
mod ends;
mod others;

pub(super) const EXTEND: &str = "EVALSHA extend";

impl World {
    /// Makes `nodes` nodes that have granted a lock with `options`.
    fn keeping(nodes: usize, options: LockOptions) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        let lock = world.kept_lock(b"k", options);
        (world, lock)
    }

    /// Returns whether the end of `lock` was reported.
    fn is_told_of_the_end_of(&self, lock: &Lock) -> bool {
        let mut events = self.events.iter();
        events.any(|event| matches!(event, Event::Expired { lock: lost } if *lost == lock.id()))
    }

    pub(super) fn kept_lock(&mut self, resource: &[u8], options: LockOptions) -> Lock {
        self.acquire_of(resource, &options.tries(1));
        self.all_say(0..self.sent.len(), "+OK|");
        self.take_all();
        self.lock()
    }

    /// Takes this number of kept locks: k0, k1 and so on.
    pub(super) fn kept_locks(&mut self, count: usize) -> Vec<Lock> {
        (0..count)
            .map(|index| self.kept_lock(format!("k{index}").as_bytes(), kept()))
            .collect()
    }

    /// Returns how many locks the engine has reported as extended.
    pub(super) fn extended_by_engine(&self) -> usize {
        let kept = |event: &&Event| matches!(event, Event::Kept { result: Ok(_), .. });
        self.events.iter().filter(kept).count()
    }

    /// Sleeps until something is sent to `node`. Returns how long that took, and the commands.
    pub(super) fn sleep_until_sent(&mut self, node: usize) -> (Duration, Vec<String>) {
        let start = self.now;
        while self.sent[node].is_empty() && self.events.is_empty() {
            self.sleep_until_timer();
        }
        (self.now.saturating_since(start), self.take(node))
    }

    /// Like [`sleep_until_sent`](Self::sleep_until_sent), whatever was reported before. Returns the commands.
    pub(super) fn next_sent(&mut self, node: usize) -> Vec<String> {
        self.events.clear();
        self.sleep_until_sent(node).1
    }

    /// From now on, as many extensions are open as there may be.
    pub(super) fn no_extension_may_begin(&mut self) {
        let parts = &mut self.engine.work.parts;
        (0..EXTENSIONS_AT_ONCE).for_each(|_| parts.keeper.begun());
    }

    /// One of these extensions ends.
    pub(super) fn one_extension_may_begin(&mut self) {
        let parts = &mut self.engine.work.parts;
        parts.keeper.ended(&mut parts.news);
        self.drain();
    }

    /// Keeps `lock`, which is valid, from now on.
    #[track_caller]
    pub(super) fn keep_from_now_on(&mut self, lock: &mut Lock) {
        let kept = self.engine.keep(self.now, lock, Duration::MAX);
        kept.expect("valid");
        self.drain();
    }

    /// Asserts that the first node is asked to extend the lock when half of its validity is left.
    #[track_caller]
    fn is_extended_at_half(&mut self) {
        self.is_extended_after(VALIDITY / 2);
    }

    /// Asserts that the first node is asked to extend a lock in a tick after `span`.
    #[track_caller]
    fn is_extended_after(&mut self, span: Duration) {
        let (after, sent) = self.sleep_until_sent(0);
        assert_eq!(sent, [EXTEND]);
        assert!((span..=span + MS).contains(&after), "{after:?} of {span:?}");
    }

    /// Asserts that the only event is an extension that the engine has made. Returns the end of `lock`.
    #[track_caller]
    pub(super) fn was_kept(&mut self, lock: &Lock) -> Instant {
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

    /// Takes the first event, which is an extension that failed.
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
            assert_eq!(self.extended_by_engine(), self.events.len());
            self.events.clear();
        }
        self.now = end;
        extensions
    }
}

/// Returns how many renewals are in `sent`.
pub(super) fn renewals(sent: &[String]) -> usize {
    let each = sent.iter().map(|command| in_batch(command).unwrap_or(1));
    each.sum()
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
    for _ in 0..4 {
        world.is_extended_at_half();
        assert_eq!(world.take_all()[1..], [[EXTEND], [EXTEND]]);
        world.all_say(0..2, ":1|");
        assert_eq!(world.was_kept(&lock), world.now.saturating_add(VALIDITY));
        world.say(2, ":1|");
    }
    world.release_on(0..3, lock);
    assert_eq!(world.engine.poll_timeout(), None, "no timer is left");
    world.is_clean();
}

/// No node answers for a while. The tries fail and become more frequent, and the lock is valid until its end. A node
/// that is silent is not asked again.
#[test]
fn a_failed_extension_is_tried_again_and_ends_nothing() {
    let (mut world, lock) = World::keeping(3, kept());
    let end = lock.valid_until();
    world.is_extended_at_half();
    while !world.is_told_of_the_end_of(&lock) {
        world.sleep_until_timer();
    }
    assert_eq!(world.take(0), NOTHING);
    let tries = world.events.len() - 1;
    assert!((9..=16).contains(&tries), "{tries}");
    for _ in 0..tries {
        assert_matches!(world.was_not_kept(), ExtendError::Unconfirmed(_));
    }
    world.expired(&lock);
    assert!(lock.is_valid_at(world.now) && end.saturating_since(world.now) <= 2 * MS);
    assert_eq!(lock.valid_until(), end);
}

/// Callers who want a lock fill their places, but not the places of holders.
#[test]
fn no_number_of_waiters_keeps_a_lock_from_being_extended() {
    let (mut world, lock) = World::keeping(3, kept());
    world.crowd();
    world.drain();
    assert_eq!(world.sleep_until_sent(0).1, [EXTEND]);
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
}

/// A thousand locks that fall due in one turn are extended by one write to each node, one node after the other.
#[test]
fn extensions_that_are_due_together_go_out_in_one_write() {
    const LOCKS: usize = 1_000;
    let mut world = World::ready(3);
    let _locks = world.kept_locks(LOCKS);
    while world.engine.load().unsent == 0 {
        let (at, wake) = world.engine.poll_timeout().expect("a timer");
        assert_eq!(wake.0, Cause::Extension);
        world.now = at;
        world.engine.handle(at, Input::Tick);
    }
    let (mut at, mut writes) = (world.now, 0);
    while writes != 3 {
        let Some(output) = world.engine.poll(at) else {
            assert_eq!(writes, 1, "the others wait for their turn");
            at = at.saturating_add(RENEWALS_WAIT);
            continue;
        };
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
    assert!(world.engine.poll(at).is_none());
}

// ----- health -----------------------------------------------------------------------------------

/// Returns the nodes that have last confirmed `lock`, as its holder sees them.
#[cfg(feature = "std")]
fn confirmed(world: &World, lock: &Lock) -> Vec<String> {
    let labels = world.engine.confirmed_by(world.now, lock);
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
    // Too few nodes answer this time, but all have confirmed the present validity of the lock.
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
    // A node that denies it is removed.
    world.sleep_until_sent(0);
    world.say(0, ":1|");
    world.say(1, ":0|");
    assert_eq!(confirmed(&world, &lock), all[..1]);
}

/// The answers of this node do not count, whether they come before or after those of a majority.
#[cfg(feature = "std")]
#[test]
fn a_node_in_quarantine_confirms_nothing() {
    let (mut world, lock) = World::keeping(3, kept());
    world.comes_back_as(2, "another", 0);
    let until = world.quarantined_until(2).expect("it has restarted");
    let others = ["node0:6379", "node1:6379"];
    for order in [[2, 0, 1], [0, 1, 2]] {
        assert_eq!(confirmed(&world, &lock), others);
        world.sleep_until_sent(0);
        world.take_all();
        order.iter().for_each(|node| world.say(*node, ":1|"));
        world.was_kept(&lock);
    }
    assert_eq!(confirmed(&world, &lock), others);
    let labels = world.engine.confirmed_by(until, &lock);
    assert_eq!(labels.len(), 3, "it counts again");
}

#[test]
fn a_kept_lock_costs_little_memory() {
    assert!(size_of::<crate::slab::Place<Claim>>() <= 72);
    assert!(size_of::<crate::quorum::Kept>() <= 16);
    assert!(size_of::<Lock>() <= 40);
}

/// Returns how many claims do not rest.
fn busy(world: &World) -> usize {
    let claims = world.engine.work.parts.claims.iter();
    claims.filter(|(_, claim)| claim.busy.is_some()).count()
}

#[test]
fn a_claim_rests_when_its_lock_is_kept_and_every_node_has_answered() {
    let mut world = World::ready(3);
    world.acquire(&kept());
    world.all_say(0..2, "+OK|");
    let lock = world.lock();
    assert_eq!(busy(&world), 1, "the third node has not answered");
    world.say(2, "+OK|");
    assert_eq!(busy(&world), 0);
    world.take_all();
    world.sleep_until_sent(0);
    assert_eq!(busy(&world), 1, "it is extended");
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
    assert_eq!(busy(&world), 1);
    world.say(2, ":1|");
    assert_eq!(busy(&world), 0);
    world.take_all();
    // A node that has not confirmed the lock again may not have it.
    world.sleep_until_sent(0);
    world.all_say(0..2, ":1|");
    world.was_kept(&lock);
    world.say(2, "-ERR x|");
    assert_eq!(busy(&world), 1);
    world.take_all();
    world.release_on(0..3, lock);
    world.is_clean();
}

/// A lock is due while no other extension may begin, and its caller extends it.
#[test]
fn a_claim_rests_again_when_its_lock_was_extended_while_that_waited() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.no_extension_may_begin();
    world.pass(VALIDITY / 2 + MS);
    assert_eq!(world.take(0), NOTHING);
    world.extend_on(0..1, &mut lock);
    world.one_extension_may_begin();
    assert_eq!((world.take(0).len(), busy(&world)), (0, 0));
    world.release(lock);
}

fn places(world: &World) -> usize {
    world.engine.work.parts.queues.used_places()
}

#[test]
fn a_lock_that_nobody_else_wants_is_kept_without_a_place() {
    let mut world = World::ready(3);
    let locks = world.kept_locks(40);
    assert_eq!(places(&world), 0);
    world.sleep_keeping(2 * VALIDITY, 0..3);
    for lock in locks {
        world.acquire_of(lock.resource(), &once());
        assert_eq!(outcomes(&world.held_by_another()), [NodeOutcome::Held; 3]);
        assert_eq!(world.take_all().concat(), NOTHING, "it is held here");
        world.release_on(0..3, lock);
        world.take_all();
    }
    world.is_clean();
}

#[test]
fn a_lock_that_is_kept_from_now_on_gives_up_its_place() {
    let (mut world, mut lock) = World::held(3);
    assert_eq!(places(&world), 1);
    for _ in 0..2 {
        world.keep_from_now_on(&mut lock);
        assert_eq!((places(&world), busy(&world)), (0, 0));
    }
    world.take_all();
    world.release_on(0..3, lock);
    world.is_clean();
}

/// The places of the lock stay, and its claim rests like that of any other kept lock. The lock is in no batch, because
/// a batch has one key of each lock.
#[test]
fn a_kept_lock_on_several_resources_rests_and_leaves_its_places_with_its_release() {
    let mut world = World::ready(3);
    world.acquire_all(&[b"a", b"b"], &kept().tries(1));
    world.all_say(0..3, ":1|");
    let lock = world.lock();
    world.take_all();
    assert_eq!((places(&world), busy(&world)), (2, 0));
    assert_eq!(world.next_sent(0), ["EXTEND a b 10000"]);
    world.all_say(0..3, ":1|");
    world.was_kept(&lock);
    let waiter = world.acquire_of(b"b", &patient());
    world.take_all();
    world.give_back(lock);
    assert_eq!(places(&world), 1);
    world.all_say(0..3, ":1|+OK|");
    let (round, result) = world.next_acquired();
    assert_eq!(round, waiter);
    world.take_all();
    world.release_on(0..3, result.expect("it was its turn"));
    world.is_clean();
}

#[test]
fn a_lock_that_is_kept_without_a_place_and_lost_leaves_no_name_behind() {
    for is_silent in [false, true] {
        let (mut world, lock) = World::keeping(3, kept());
        world.sleep_until_sent(0);
        match is_silent {
            true => world.pass(TTL),
            false => world.all_say(0..3, ":0|"),
        }
        assert!(world.is_told_of_the_end_of(&lock));
        world.events.clear();
        assert!(world.engine.work.parts.queues.is_empty());
        world.take_all();
        world.acquire_of(b"k", &once());
        assert!(world.take(0).contains(&"SET k 10000".into()));
    }
}

/// Locks that were taken one after another, two ticks apart. From their second extension on, those that are due at
/// about the same time are extended together, each at most a 64th of the time early.
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
    for lock in locks {
        world.release_on(0..1, lock);
    }
}

/// Makes a node, and more locks than may be extended at once: `beyond` more, all taken at the same time.
fn too_many(beyond: usize) -> (World, Vec<Lock>) {
    let mut world = World::ready(1);
    let locks = world.kept_locks(EXTENSIONS_AT_ONCE + beyond);
    (world, locks)
}

/// Each answer makes room for another extension, also one that says that an extension has failed. A read that brings
/// several answers makes room for as many.
#[test]
fn extensions_beyond_the_bound_wait_for_others_and_go_out_together() {
    const ALL: usize = EXTENSIONS_AT_ONCE + 52;
    for reply in [":1|", "-ERR x|"] {
        let (mut world, locks) = too_many(52);
        let (_, sent) = world.sleep_until_sent(0);
        assert_eq!(renewals(&sent), EXTENSIONS_AT_ONCE);
        let writes = world.writes[0];
        world.say(0, &answers(&sent[..1], reply));
        let more = world.take(0);
        let written = world.writes[0] - writes;
        assert_eq!(
            (written, renewals(&more), more.len()),
            (1, 52, 1),
            "{reply}"
        );
        world.say(0, &answers(&[&sent[1..], &more].concat(), ":1|"));
        assert_eq!(world.take(0), NOTHING);
        let failed = if reply == ":1|" {
            0
        } else {
            renewals(&sent[..1])
        };
        assert_eq!(world.extended_by_engine(), ALL - failed, "{reply}");
        assert_eq!(world.events.len(), ALL);
        let end = world.now.saturating_add(VALIDITY);
        let extended = locks.iter().filter(|lock| lock.valid_until() == end);
        assert_eq!(extended.count(), ALL - failed);
    }
}

#[test]
fn a_lock_that_is_released_while_its_extension_waits_is_not_extended() {
    let (mut world, mut locks) = too_many(3);
    let (_, sent) = world.sleep_until_sent(0);
    // The last three wait; one of them is released, and the name is taken again.
    world.release(locks.remove(EXTENSIONS_AT_ONCE + 1));
    world.exchange(0, ["EVALSHA release"], &answers(&sent, ":1|"));
    let sent = world.take(0);
    let [first, last] = [EXTENSIONS_AT_ONCE, EXTENSIONS_AT_ONCE + 2];
    assert_eq!(sent, [format!("{EXTEND} k{first} 10000, k{last} 10000")]);
    world.say(0, &(":1|".to_string() + &answers(&sent, ":1|")));
    world.events.clear();
    let count = world.sleep_keeping(VALIDITY / 2 + MS, 0..1);
    assert_eq!(count + renewals(&world.take(0)), EXTENSIONS_AT_ONCE + 2);
}
