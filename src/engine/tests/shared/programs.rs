//! Stories of programs on the same three nodes, which run the scripts as a server does: readers, callers that want the
//! exclusive lock, and foreign clients.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::Builder;
use crate::effort::effort;
use crate::embedded::Memory;
use crate::engine::tests::fencing::stores::trust;
use crate::engine::tests::net::{Net, builder};
use crate::entry::Kind;

pub(in crate::engine::tests) const NODES: usize = 3;

/// Programs, and the result of each of their calls.
pub(in crate::engine::tests) struct Programs {
    pub(in crate::engine::tests) net: Net,
    pub(in crate::engine::tests) locks: BTreeMap<(usize, RoundId), Lock>,
    pub(in crate::engine::tests) refused: BTreeMap<(usize, RoundId), LockError>,
    /// When each lock was granted.
    granted: BTreeMap<(usize, RoundId), Instant>,
    pub(in crate::engine::tests) lost: usize,
    /// The last number of each slot.
    numbers: BTreeMap<u16, u64>,
}

impl Programs {
    pub(in crate::engine::tests) fn new(programs: usize) -> Self {
        Self::with(programs, || named(NODES).watch_clocks(false))
    }

    pub(in crate::engine::tests) fn with(programs: usize, builder: impl Fn() -> Builder) -> Self {
        let mut net = Net::new(NODES as u64);
        for _ in 0..programs {
            net.client(builder());
        }
        Self {
            net,
            locks: BTreeMap::new(),
            refused: BTreeMap::new(),
            granted: BTreeMap::new(),
            lost: 0,
            numbers: BTreeMap::new(),
        }
    }

    pub(in crate::engine::tests) fn pump(&mut self) {
        self.net.pump();
        self.tell();
    }

    fn tell(&mut self) {
        for (program, client) in self.net.clients.iter_mut().enumerate() {
            for event in client.events.drain(..) {
                match event {
                    Event::Acquired { round, result } => match result {
                        Ok(lock) => {
                            if let Some((slot, number)) = lock.slot().zip(lock.fencing_token()) {
                                let before = self.numbers.insert(slot, number);
                                assert!(before < Some(number), "{before:?} before {lock:?}");
                            }
                            self.locks.insert((program, round), lock);
                            self.granted.insert((program, round), self.net.now);
                        }
                        Err(error) => drop(self.refused.insert((program, round), error)),
                    },
                    Event::Expired { .. } => self.lost += 1,
                    Event::Kept { .. } | Event::Confirmed { .. } | Event::Extended { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    pub(in crate::engine::tests) fn pass(&mut self, span: Duration) {
        self.net.pass(span);
        self.tell();
    }

    pub(in crate::engine::tests) fn calls(
        &mut self,
        program: usize,
        shared: bool,
        options: &LockOptions,
    ) -> (usize, RoundId) {
        let request = match shared {
            true => Request::shared(b"k", options),
            false => Request::new(b"k", options),
        };
        self.asks(program, &request)
    }

    pub(in crate::engine::tests) fn asks(
        &mut self,
        program: usize,
        request: &Request<'_>,
    ) -> (usize, RoundId) {
        let engine = &mut self.net.clients[program].engine;
        let round = engine.acquire(self.net.now, request).expect("valid");
        self.pump();
        (program, round)
    }

    fn reads(&mut self, program: usize) -> (usize, RoundId) {
        self.calls(program, true, &patient())
    }

    fn writes(&mut self, program: usize) -> (usize, RoundId) {
        self.calls(program, false, &patient())
    }

    pub(in crate::engine::tests) fn has(&self, call: (usize, RoundId)) -> bool {
        self.locks.contains_key(&call)
    }

    #[track_caller]
    pub(in crate::engine::tests) fn gives_back(&mut self, call: (usize, RoundId)) {
        let lock = self.locks.remove(&call).expect("it is held");
        let now = self.net.now;
        self.net.clients[call.0].engine.give_back(now, lock);
        self.pump();
    }

    pub(in crate::engine::tests) fn cancel(&mut self, (program, round): (usize, RoundId)) {
        let now = self.net.now;
        self.net.clients[program].engine.cancel(now, round);
        self.pump();
    }

    #[track_caller]
    fn downgrades(&mut self, call: (usize, RoundId)) {
        let lock = self.locks.get_mut(&call).expect("it is held");
        let now = self.net.now;
        let engine = &mut self.net.clients[call.0].engine;
        let begun = engine.downgrade(now, lock);
        assert_matches!(begun, Ok(_) | Err(ExtendError::Expired));
        self.pump();
    }

    /// Lets a foreign client ask for the lock for a second. Returns whether a majority has granted it.
    pub(in crate::engine::tests) fn foreign_takes(&mut self, token: &str) -> bool {
        let line = format!("SET k {token} NX PX 1000");
        (0..NODES).for_each(|node| self.net.admin(node, &line));
        let own = |node: &usize| self.net.value(*node, b"k").as_deref() == Some(token);
        NODES / 2 < (0..NODES).filter(own).count()
    }

    /// Asserts for each name that no exclusive lock is believed valid together with another lock, that readers and
    /// permits are not held together, and that no two permits have the same slot.
    pub(in crate::engine::tests) fn exclude_each_other(&self) {
        let mut by_name: BTreeMap<&[u8], Vec<&Lock>> = BTreeMap::new();
        for lock in self.locks.values() {
            for name in lock.resources().filter(|_| lock.is_valid_at(self.net.now)) {
                by_name.entry(name).or_default().push(lock);
            }
        }
        for valid in by_name.values() {
            let exclusive = |lock: &&&Lock| lock.entry().kind() == Kind::Plain;
            let writers = valid.iter().filter(exclusive).count();
            assert!(writers == 0 || valid.len() == 1, "{valid:?}");
            let slots: Vec<_> = valid.iter().filter_map(|lock| lock.slot()).collect();
            assert!(slots.is_empty() || slots.len() == valid.len(), "{valid:?}");
            let different: BTreeSet<_> = slots.iter().collect();
            assert_eq!(different.len(), slots.len(), "{slots:?}");
        }
    }

    /// Releases the held locks until no caller waits and there is no debt.
    pub(in crate::engine::tests) fn serve_all(&mut self) {
        self.serve_within(8_000);
        self.is_clean();
    }

    /// Like [`serve_all`](Self::serve_all), within this number of milliseconds, and without looking whether anything is
    /// left.
    pub(in crate::engine::tests) fn serve_within(&mut self, millis: u32) {
        for _ in 0..millis {
            while let Some(call) = self.locks.keys().next().copied() {
                self.gives_back(call);
                self.exclude_each_other();
            }
            let mut loads = self.net.clients.iter().map(|client| client.engine.load());
            if loads.all(|load| load.rounds + load.claims == 0) {
                return;
            }
            self.pass(MS);
        }
        panic!("somebody waits for ever");
    }

    /// Makes random calls, releases, downgrades and cancels, cuts connections and makes nodes unreachable, until all
    /// callers are served. `call` draws the kind of call.
    pub(in crate::engine::tests) fn at_random(
        mut self,
        seed: u64,
        call: impl Fn(
            &mut Self,
            usize,
            &LockOptions,
            &mut dyn FnMut(usize) -> usize,
        ) -> (usize, RoundId),
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut below = |bound: usize| random.random_range(0..bound);
        let (mut calls, mut away) = (Vec::new(), None);
        for _ in 0..200 {
            let program = below(self.net.clients.len());
            match below(11) {
                0..4 => {
                    let options = LockOptions::new([TTL, 300 * MS][below(2)]);
                    let options = match below(6) {
                        0 => options.tries(1),
                        1 => options.wait(30 * MS),
                        2 => options.keep(),
                        _ => options.wait(3600 * SECOND),
                    };
                    calls.push(call(&mut self, program, &options, &mut below));
                }
                4..7 => {
                    let count = self.locks.len().max(1);
                    if let Some(&call) = self.locks.keys().nth(below(count)) {
                        self.gives_back(call);
                    }
                }
                7 if !calls.is_empty() => {
                    let call = calls.swap_remove(below(calls.len()));
                    if !self.has(call) {
                        self.cancel(call);
                    }
                }
                8 if below(2) == 0 => {
                    let first = self.locks.iter().next();
                    let is_one = |lock: &Lock| lock.slot().is_none() && lock.resources().len() == 1;
                    if let Some((&call, _)) = first.filter(|(_, lock)| is_one(lock)) {
                        self.downgrades(call);
                    }
                }
                9 if below(4) == 0 => {
                    let node = below(NODES);
                    self.net.cut_link(program, node);
                    self.pump();
                }
                10 if below(4) == 0 => {
                    match away.take() {
                        Some(node) => self.net.unreachable(node, false),
                        None => self.net.unreachable(*away.insert(below(NODES)), true),
                    }
                    self.pump();
                }
                _ => self.pass([MS / 10, 2 * MS, 60 * MS, 400 * MS][below(4)]),
            }
            self.exclude_each_other();
        }
        if let Some(node) = away {
            self.net.unreachable(node, false);
        }
        self.serve_all();
    }

    /// Asserts that nothing is open, and that no node has a key other than counters and an intent, which ends.
    fn is_clean(&mut self) {
        self.pass(SECOND);
        (0..NODES).for_each(|node| {
            self.net
                .admin(node, "DEL shearline:fence:k shearline:floor")
        });
        self.nothing_is_left();
    }

    /// Asserts that nothing is open, and that no node has a key.
    pub(in crate::engine::tests) fn nothing_is_left(&self) {
        self.net.is_clean();
        for client in &self.net.clients {
            assert!(client.engine.work.parts.queues.is_empty());
            assert_eq!(client.engine.resting(), 0);
        }
        for node in &self.net.nodes {
            assert_eq!(node.store.keys(self.net.now), 0);
        }
        assert_eq!(crate::invariant::count(), 0);
    }
}

// ----- who keeps whom out ---------------------------------------------------------------------

#[test]
fn readers_of_any_programs_hold_at_once_and_each_release_leaves_the_others() {
    let mut world = Programs::new(3);
    let readers = [0, 0, 1].map(|program| world.reads(program));
    assert!(readers.iter().all(|reader| world.has(*reader)));
    let writer = world.writes(2);
    for reader in readers {
        assert!(!world.has(writer));
        world.gives_back(reader);
        world.exclude_each_other();
    }
    world.pass(MS);
    assert!(world.has(writer), "it was told");
    let reader = world.reads(0);
    world.pass(SECOND);
    assert!(!world.has(reader));
    world.gives_back(writer);
    world.pass(MS);
    assert!(world.has(reader), "it was told, too");
    world.serve_all();
}

#[test]
fn foreign_clients_keep_readers_out_and_are_kept_out() {
    let mut world = Programs::new(2);
    let readers = [world.reads(0), world.reads(1)];
    assert!(!world.foreign_takes("f"));
    world.gives_back(readers[0]);
    assert!(!world.foreign_takes("f"));
    world.gives_back(readers[1]);
    assert!(world.foreign_takes("f"));
    let once = world.calls(0, true, &once());
    assert_matches!(world.refused.remove(&once), Some(LockError::Held(_)));
    let reader = world.reads(0);
    world.pass(999 * MS);
    assert!(!world.has(reader));
    world.pass(4 * MS);
    assert!(world.has(reader), "the foreign key has ended");
    world.serve_all();
}

#[test]
fn a_lock_that_becomes_shared_keeps_others_out_all_the_time_and_lets_readers_in() {
    let mut world = Programs::new(3);
    let first = world.writes(0);
    let reader = world.reads(1);
    let writer = world.writes(2);
    world.pass(MS);
    world.downgrades(first);
    assert!(!world.foreign_takes("f"));
    world.pass(2 * MS);
    assert!(world.has(reader) && !world.has(writer));
    world.exclude_each_other();
    world.gives_back(first);
    world.gives_back(reader);
    world.pass(2 * MS);
    assert!(world.has(writer));
    world.serve_all();
}

/// One node is away while the lock becomes a shared one, so it keeps the exclusive key. It is asked later.
#[test]
fn a_node_that_missed_the_downgrade_is_turned_by_the_next_question_or_by_the_release() {
    for extends in [false, true] {
        let mut world = Programs::new(2);
        let first = world.writes(0);
        world.net.unreachable(2, true);
        world.downgrades(first);
        world.net.unreachable(2, false);
        world.pass(SECOND);
        assert!(world.net.value(0, b"k").is_none(), "a set");
        assert!(world.net.value(2, b"k").is_some(), "the token alone");
        if extends {
            let (now, lock) = (world.net.now, &world.locks[&first]);
            let engine = &mut world.net.clients[0].engine;
            let begun = engine.extend(now, lock, TTL);
            assert!(begun.is_ok());
            world.pump();
            assert!(world.net.value(2, b"k").is_none());
        }
        world.gives_back(first);
        let writer = world.writes(1);
        world.pump();
        assert!(world.has(writer), "nothing is left on any node");
        world.serve_all();
    }
}

// ----- neither side starves -------------------------------------------------------------------

/// At each moment some reader still has the lock for 300 ms.
#[test]
fn readers_that_follow_each_other_let_a_caller_of_the_exclusive_lock_in_within_its_bound() {
    let mut world = Programs::new(4);
    let mut readers: Vec<_> = (0..3).map(|program| world.reads(program)).collect();
    let (writer, began) = (world.writes(3), world.net.now);
    let mut turn = 0;
    while !world.has(writer) {
        world.pass(100 * MS);
        world.exclude_each_other();
        if !world.has(writer) && world.has(readers[turn]) {
            world.gives_back(readers[turn]);
            readers[turn] = world.reads(turn);
        }
        turn = (turn + 1) % 3;
        assert!(world.net.now.saturating_since(began) < 20 * SECOND);
    }
    let waited = world.granted[&writer].saturating_since(began);
    // The caller asks who holds the lock after 250 or 300 ms. Then the readers of that moment end.
    assert!(waited <= 800 * MS, "{waited:?}");
    world.gives_back(writer);
    world.pass(MS * 1_500);
    assert!(readers.iter().all(|reader| world.has(*reader)));
    world.serve_all();
}

/// One reader holds for 30 s, and a caller of the exclusive lock waits for it. Other readers come all the time.
#[test]
fn readers_pass_together_by_a_caller_that_waits_for_a_lock_that_is_held_for_long() {
    let mut world = Programs::new(3);
    let long = world.calls(0, true, &LockOptions::new(TTL).keep());
    let (writer, began) = (world.writes(1), world.net.now);
    world.pass(400 * MS);
    let age = |world: &Programs| world.net.now.saturating_since(began);
    let (mut waits, mut passed) = (Vec::new(), Vec::new());
    while age(&world) < 30 * SECOND {
        waits.push(world.reads(2));
        world.pass(100 * MS);
        let (granted, others) = waits.into_iter().partition(|call| world.has(*call));
        waits = others;
        for call in Vec::into_iter(granted) {
            passed.push(world.granted[&call].saturating_since(began));
            world.gives_back(call);
        }
    }
    assert!(!world.has(writer));
    // The intent began between 250 and 300 ms, and asking takes two milliseconds.
    let windows = [2_200, 4_400, 8_800, 17_600].map(|at| (at + 250) * MS..=(at + 552) * MS);
    for window in &windows {
        assert!(passed.iter().any(|at| window.contains(at)), "{passed:?}");
    }
    let is_within = |at: &Duration| windows.iter().any(|window| window.contains(at));
    assert!(passed.iter().all(is_within), "{passed:?}");
    world.gives_back(long);
    world.pass(MS);
    assert!(world.has(writer));
    world.serve_all();
}

/// Each reader holds for two seconds, and others come all the time. Some of them belong to the program of the caller
/// that wants the exclusive lock.
#[test]
fn readers_who_hold_for_two_seconds_let_a_caller_of_the_exclusive_lock_in_and_wait_no_longer() {
    let mut world = Programs::new(4);
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    let mut longest = [Duration::ZERO; 2];
    for turn in 0..300 {
        readers.push((world.reads(turn % 4), world.net.now));
        if turn % 40 == 10 {
            writers.push((world.writes(3), world.net.now));
        }
        for _ in 0..3 {
            world.pass(100 * MS);
            world.exclude_each_other();
            let now = world.net.now;
            for (kind, hold, calls) in [(0, 2 * SECOND, &mut readers), (1, MS, &mut writers)] {
                for (call, since) in core::mem::take(calls) {
                    let granted = world.granted.get(&call).copied();
                    let wait = granted.unwrap_or(now).saturating_since(since);
                    longest[kind] = longest[kind].max(wait);
                    match granted {
                        Some(at) if hold <= now.saturating_since(at) => world.gives_back(call),
                        _ => calls.push((call, since)),
                    }
                }
            }
        }
    }
    assert!(
        longest.iter().all(|wait| *wait <= 2_500 * MS),
        "{longest:?}"
    );
    world.serve_all();
}

/// The caller that wants the exclusive lock belongs to the same program, and is before the reader in the queue.
#[test]
fn readers_pass_by_a_caller_of_their_own_program_that_waits_for_others() {
    let mut world = Programs::new(2);
    let long = world.reads(0);
    let (writer, began) = (world.writes(1), world.net.now);
    world.pass(2 * SECOND);
    let readers = [(); 2].map(|()| world.reads(1));
    let short = LockOptions::new(TTL).wait(400 * MS);
    let short = world.calls(1, true, &short);
    world.pass(449 * MS);
    assert!(!readers.iter().any(|reader| world.has(*reader)));
    let error = world.refused.remove(&short);
    assert_matches!(error, Some(LockError::Held(_)));
    world.pass(51 * MS);
    let late = world.reads(1);
    world.pass(2 * MS);
    for reader in [readers[0], readers[1], late] {
        let at = world.granted[&reader].saturating_since(began);
        assert!((2_450 * MS..=2_502 * MS).contains(&at), "{at:?}");
        assert!(!world.has(writer));
        world.gives_back(reader);
    }
    // Readers do not pass a lock that is exclusive.
    world.gives_back(long);
    world.pass(MS);
    assert!(world.has(writer));
    let reader = world.reads(1);
    world.pass(5 * SECOND);
    assert!(!world.has(reader));
    world.serve_all();
}

#[test]
fn the_intent_of_a_caller_that_has_gone_ends_by_itself() {
    let mut world = Programs::new(3);
    let long = world.reads(0);
    let writer = world.writes(1);
    world.pass(2 * SECOND);
    world.cancel(writer);
    let reader = world.reads(2);
    assert!(!world.has(reader));
    world.pass(850 * MS); // This is 600 ms and a random delay.
    assert!(world.has(reader));
    world.gives_back(long);
    world.serve_all();
}

// ----- holding --------------------------------------------------------------------------------

/// The locks that several callers may hold at once: the shared lock, or one of two permits.
const SEVERAL: [fn(&LockOptions) -> Request<'_>; 2] = [
    |options| Request::shared(b"k", options),
    |options| Request::permit(b"k", 2, options),
];

impl Programs {
    /// Makes two programs, each of which has one of `SEVERAL`.
    fn both_hold(
        &mut self,
        one: fn(&LockOptions) -> Request<'_>,
        options: &LockOptions,
    ) -> Vec<(usize, RoundId)> {
        let calls = [0, 1].map(|program| self.asks(program, &one(options)));
        assert!(calls.iter().all(|call| self.has(*call)));
        calls.to_vec()
    }

    fn are_valid(&self, calls: &[(usize, RoundId)]) -> bool {
        let mut locks = calls.iter().map(|call| &self.locks[call]);
        locks.all(|lock| lock.is_valid_at(self.net.now))
    }

    /// Returns on how many nodes each lock is known to be.
    fn copies(&self, calls: &[(usize, RoundId)]) -> Vec<usize> {
        let count = |call: &(usize, RoundId)| {
            let engine = &self.net.clients[call.0].engine;
            engine.confirmed_by(self.net.now, &self.locks[call]).len()
        };
        calls.iter().map(count).collect()
    }

    /// Asserts that one try finds too few nodes that may vote.
    fn has_no_quorum(&mut self, request: &Request<'_>) {
        let call = self.asks(1, request);
        let refused = self.refused.remove(&call);
        assert_matches!(
            refused,
            Some(LockError::NoQuorum(_) | LockError::OtherCluster(_))
        );
    }
}

#[test]
fn kept_holders_last_and_are_lost_when_their_keys_are_deleted() {
    for one in SEVERAL {
        let mut world = Programs::new(2);
        let calls = world.both_hold(one, &LockOptions::new(TTL).keep());
        world.pass(60 * SECOND);
        assert!(world.are_valid(&calls));
        assert_eq!(world.lost, 0);
        (0..2).for_each(|node| world.net.admin(node, "DEL k"));
        world.pass(SECOND);
        assert_eq!(world.lost, 2, "both were told");
        assert!(!calls.iter().any(|call| world.are_valid(&[*call])));
        world.serve_all();
    }
}

/// The first extension finds that the node lacks the member, and the second sends a copy.
#[test]
fn a_node_that_has_lost_its_data_or_was_away_gets_the_members_of_kept_holders() {
    for (one, is_away) in SEVERAL
        .into_iter()
        .flat_map(|one| [(one, false), (one, true)])
    {
        let mut world = Programs::new(2);
        world.net.unreachable(2, is_away);
        let calls = world.both_hold(one, &LockOptions::new(TTL).keep());
        if is_away {
            world.net.unreachable(2, false);
        } else {
            world.net.restart(2, Memory::Lost);
            world.pass(SECOND);
            assert_eq!(
                world.copies(&calls),
                [2, 2],
                "in quarantine it does not count"
            );
            world.pass(42 * SECOND);
        }
        world.pass(20 * SECOND);
        assert_eq!(world.copies(&calls), [3, 3], "it has them");
        world.net.unreachable(0, true);
        world.pass(20 * SECOND);
        assert!(world.are_valid(&calls));
        assert_eq!(world.lost, 0);
        world.net.unreachable(0, false);
        world.serve_all();
    }
}

#[test]
fn nodes_that_may_have_forgotten_holders_do_not_vote() {
    for one in SEVERAL {
        let mut world = Programs::new(2);
        let first = world.asks(0, &one(&patient()));
        (0..2).for_each(|node| world.net.restart(node, Memory::Lost));
        world.has_no_quorum(&Request::new(b"k", &once()));
        world.has_no_quorum(&one(&once()));
        world.exclude_each_other();
        world.gives_back(first);
    }
}

#[test]
fn a_strict_guard_checks_the_marker_for_holders_too() {
    for one in SEVERAL {
        let mut world = Programs::with(2, || builder(NODES));
        world.pass(62 * SECOND); // The barriers of new nodes end.
        world.both_hold(one, &patient());
        (0..2).for_each(|node| world.net.mark_as_anothers(node));
        world.has_no_quorum(&one(&once()));
    }
}

#[test]
fn a_shared_lock_is_confirmed_handed_over_and_released_elsewhere() {
    let mut world = Programs::new(2);
    let reader = world.reads(0);
    let lock = world.locks.remove(&reader).expect("held");
    let now = world.net.now;
    let lock = world.net.clients[0].engine.detach(now, lock);
    let mut lock = world.net.clients[1].engine.adopt(now, lock);
    world.pump();
    let begun = world.net.clients[1].engine.confirm(now, &lock);
    assert!(begun.is_ok());
    world.net.pump();
    match world.net.event(1) {
        Some(Event::Confirmed {
            result: Ok(found), ..
        }) => assert!(found.apply(&mut lock)),
        other => panic!("{other:?}"),
    }
    assert!(!world.foreign_takes("f"));
    world.net.clients[1].engine.give_back(now, lock);
    world.pump();
    assert!(world.foreign_takes("f"));
    world.pass(2 * SECOND);
    world.is_clean();
}

// ----- fencing tokens -------------------------------------------------------------------------

/// The number of a reader is larger than the number of each earlier exclusive lock.
#[test]
fn readers_get_numbers_as_exclusive_locks_do_and_a_downgrade_keeps_the_number() {
    let mut world = Programs::new(2);
    trust(&mut world.net, 0);
    let fenced = patient().fenced();
    let number = |world: &Programs, call| world.locks[&call].fencing_token().expect("a number");
    let first = world.calls(0, false, &fenced);
    let before = number(&world, first);
    world.downgrades(first);
    assert_eq!(number(&world, first), before);
    let readers = [0, 1].map(|program| world.calls(program, true, &fenced));
    let numbers = readers.map(|reader| number(&world, reader));
    assert!(numbers.iter().all(|number| before < *number), "{numbers:?}");
    assert_ne!(numbers[0], numbers[1]);
    world.gives_back(first);
    readers
        .into_iter()
        .for_each(|reader| world.gives_back(reader));
    let last = world.calls(1, false, &fenced);
    assert!(numbers.iter().all(|it| *it < number(&world, last)));
    world.gives_back(last);
}

/// Each node that votes has a counter of its own, so the nodes are asked to raise their counters.
#[test]
fn readers_whose_numbers_differ_are_raised_to_the_largest() {
    let mut world = Programs::new(2);
    trust(&mut world.net, 0);
    let fenced = patient().fenced();
    world.net.unreachable(0, true);
    for _ in 0..5 {
        let lock = world.calls(0, false, &fenced);
        world.gives_back(lock);
    }
    world.net.unreachable(0, false);
    world.pass(SECOND);
    world.net.unreachable(2, true);
    // This program has seen none of the numbers.
    let before = world.calls(1, true, &fenced);
    let number = world.locks[&before].fencing_token().expect("a number");
    let stats = world.net.clients[1].engine.stats();
    let after = world.calls(0, true, &fenced);
    assert!(number < world.locks[&after].fencing_token().expect("a number"));
    assert_eq!(stats.second_round_trips, 1);
    [before, after]
        .into_iter()
        .for_each(|reader| world.gives_back(reader));
}

// ----- at random ------------------------------------------------------------------------------

#[test]
fn whatever_happens_no_reader_stands_beside_an_exclusive_lock_and_all_have_their_turn() {
    for seed in 0..effort(30, 300) {
        Programs::new(3).at_random(seed, |world, program, options, below| {
            world.calls(program, below(3) != 0, options)
        });
    }
}

// ----- many callers ---------------------------------------------------------------------------

/// Lets this number of callers of each program take locks in turn, and hold each for some milliseconds. Returns the
/// longest waits of readers and of callers of the exclusive lock, and how many locks each side had.
fn crowd(programs: usize, callers: usize, writes: usize, hold: usize) -> [(Duration, usize); 2] {
    let mut random = StdRng::seed_from_u64(7);
    let mut below = |bound: usize| random.random_range(0..bound);
    let mut world = Programs::new(programs);
    let mut found = [(Duration::ZERO, 0); 2];
    // Each caller: its call, whether it writes, when it began, and when it acts next.
    let mut all: Vec<_> = (0..programs * callers)
        .map(|_| (None, false, world.net.now, world.net.now))
        .collect();
    for _ in 0..effort(3_000, 20_000) {
        world.pass(MS);
        world.exclude_each_other();
        let now = world.net.now;
        for (number, caller) in all.iter_mut().enumerate() {
            match caller {
                (None, is_writer, since, at) if *at <= now => {
                    *is_writer = below(100) < writes;
                    *since = now;
                    let program = number % programs;
                    caller.0 = Some(world.calls(program, !*is_writer, &patient()));
                    caller.3 = Instant::MAX;
                }
                (Some(call), is_writer, since, at) if *at == Instant::MAX => {
                    if let Some(granted) = world.granted.remove(call) {
                        let (longest, count) = &mut found[usize::from(*is_writer)];
                        *longest = (*longest).max(granted.saturating_since(*since));
                        *count += 1;
                        *at = now.saturating_add(MS * (1 + below(hold)) as u32);
                    }
                }
                (Some(call), .., at) if *at <= now => {
                    world.gives_back(*call);
                    *at = now.saturating_add(MS * (1 + below(hold)) as u32);
                    caller.0 = None;
                }
                _ => {}
            }
        }
    }
    found
}

/// Each caller gets its turn within the bound for its side.
#[test]
fn many_readers_and_some_callers_of_the_exclusive_lock_let_each_other_in() {
    for (programs, callers) in [(1, 24), (4, 6)] {
        let found = crowd(programs, callers, 10, 20);
        for (longest, count) in found {
            assert!(longest <= 2_500 * MS && 25 < count, "{found:?}");
        }
        let [(_, readers), _] = found;
        assert!(400 < readers, "{found:?}");
    }
}

// ----- a name that has permits too ------------------------------------------------------------

/// The number of permits that an earlier call, or one behind it, has named does not apply to readers and callers of the
/// exclusive lock.
#[test]
fn readers_of_a_name_that_had_permits_hold_at_once_and_let_others_in() {
    for permit_waits in [false, true] {
        let mut world = Programs::new(1);
        let permit = world.asks(0, &Request::permit(b"k", 1, &patient()));
        world.gives_back(permit);
        let first = world.writes(0);
        let readers = [(); 3].map(|()| world.reads(0));
        let writer = world.writes(0);
        if permit_waits {
            let permit = world.asks(0, &Request::permit(b"k", 1, &patient()));
            assert!(!world.has(permit));
        }
        world.gives_back(first);
        world.pass(MS);
        assert!(readers.iter().all(|reader| world.has(*reader)));
        let late = world.reads(0);
        world.pass(MS);
        assert!(!world.has(late), "the writer stands before it");
        for reader in readers {
            world.gives_back(reader);
        }
        world.pass(MS);
        assert!(world.has(writer));
        world.serve_all();
    }
}
