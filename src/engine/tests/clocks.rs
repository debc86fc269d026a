//! Stories of wall clocks that are stepped: which nodes are asked for the time, and which vote.

use super::*;
use crate::config::RestartGuard;
use crate::quorum::Drift;

/// The length of a quarantine if the longest ttl is not known.
const QUARANTINE: Duration = Duration::from_millis(60_602);

/// The time of the servers' clocks when our clock is at zero, in microseconds.
const EPOCH: u64 = 1_790_000_000_000_000;

fn watching(nodes: usize, guard: RestartGuard) -> World {
    World::watching(named(nodes).restart_guard(guard)).greeted()
}

/// Makes three nodes that were asked for the time for the first time.
fn watched() -> World {
    let mut world = watching(3, RestartGuard::Observed);
    world.cycle(&[Duration::ZERO; 3]);
    world
}

/// The clock of one of three nodes is stepped by an hour.
fn an_hour_at(stepped: usize) -> [Duration; 3] {
    let mut ahead = [Duration::ZERO; 3];
    ahead[stepped] = Duration::from_secs(3_600);
    ahead
}

impl World {
    /// `node` names its time, which is `ahead` of what it should be.
    fn tells(&mut self, node: usize, ahead: Duration) {
        let micros = EPOCH + self.now.as_nanos() / 1_000 + ahead.as_micros() as u64;
        let (seconds, micros) = (micros / 1_000_000, (micros % 1_000_000).to_string());
        let len = micros.len();
        self.say(node, &format!("*2|$10|{seconds}|${len}|{micros}|"));
    }

    /// Takes a lock and releases it, on nodes whose clocks are this far `ahead`.
    fn cycle(&mut self, ahead: &[Duration]) {
        self.try_once();
        for (node, ahead) in ahead.iter().enumerate() {
            assert_eq!(self.take(node), ["TIME", "SET k 10000"]);
            self.tells(node, *ahead);
            self.say(node, "+OK|");
        }
        let lock = self.lock();
        self.release_on(0..ahead.len(), lock);
        self.take_all();
        self.is_clean();
    }

    fn steps(&self) -> Vec<u32> {
        let statuses = self.engine.node_statuses(self.now);
        statuses.map(|status| status.clock_steps).collect()
    }
}

#[test]
fn the_time_is_asked_in_front_of_a_question_and_at_most_once_a_second() {
    let mut world = watching(1, RestartGuard::Observed);
    world.cycle(&[Duration::ZERO]);
    world.wait(999 * MS);
    world.try_once();
    world.exchange(0, ["SET k 10000"], "+OK|");
    let lock = world.lock();
    world.wait(MS);
    world.ask_confirm(&lock);
    assert_eq!(world.take(0), ["TIME", "EVAL confirm"]);
    // While this question is open, the node is not asked again, and a release never waits for the answer.
    world.wait(Duration::from_secs(2));
    world.extend(&lock);
    world.release(lock);
    assert_eq!(world.take(0), ["EVALSHA extend", "EVALSHA release"]);
    assert_eq!(world.steps(), [0]);
}

#[test]
fn a_node_whose_clock_was_stepped_is_not_counted_in_that_very_round() {
    let mut world = watching(3, RestartGuard::Observed);
    let ahead = an_hour_at(0);
    world.cycle(&ahead);
    world.pass(Duration::from_secs(1));
    world.try_once();
    let until = world.now.saturating_add(QUARANTINE);
    world.take_all();
    world.tells(0, ahead[0]);
    world.say(0, "+OK|");
    world.tells(2, 83 * MS); // A lock of 10 s allows for a step of 80 ms, and for 2 ms in each second.
    world.say(2, "+OK|");
    assert!(world.events.is_empty(), "one of the two counts");
    assert_eq!(world.steps(), [0, 0, 1]);
    world.tells(1, Duration::ZERO);
    world.say(1, "-ERR x|");
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[2], NodeOutcome::Quarantined { until });
    assert_eq!(world.take(2), ["EVALSHA release"], "it may hold it");
    // The node votes again when every lock is over that it may have ended early.
    world.now = until.saturating_sub(Duration::from_nanos(1));
    assert!(world.quarantined_until(2).is_some());
    world.now = until;
    assert!(world.quarantined_until(2).is_none());
}

#[test]
fn a_yes_from_before_the_step_was_seen_is_taken_back() {
    let mut world = watched();
    world.try_once();
    world.take_all();
    world.say(2, "+OK|");
    // Another question to the same node finds that its clock was stepped.
    world.wait(Duration::from_secs(1));
    world.acquire_of(b"other", &once());
    world.tells(2, Duration::from_secs(30));
    world.say(0, "+OK|");
    assert!(world.events.is_empty(), "the first round has one vote left");
    world.say(1, "+OK|");
    let _lock = world.lock();
}

#[test]
fn without_the_guard_a_step_is_reported_alone() {
    let mut world = watching(3, RestartGuard::Off);
    world.cycle(&[Duration::ZERO; 3]);
    world.pass(Duration::from_secs(1));
    world.cycle(&[Duration::ZERO, Duration::from_secs(9), Duration::ZERO]);
    assert_eq!(world.steps(), [0, 1, 0]);
    assert!(world.quarantined_until(1).is_none());
}

#[test]
fn what_a_clock_showed_outlives_a_connection_and_a_node_without_time_votes() {
    let mut world = watching(1, RestartGuard::Observed);
    world.cycle(&[Duration::ZERO]);
    world.pass(Duration::from_secs(2));
    world.lose(0);
    world.greet(0);
    world.try_once();
    let no_time = "-NOPERM this user has no permissions to run the 'time' command|";
    world.exchange(0, ["TIME", "SET k 10000"], &format!("{no_time}+OK|"));
    let lock = world.lock();
    world.release_on(0..1, lock);
    world.pass(Duration::from_secs(2));
    world.take(0);
    world.lose(0);
    world.greet(0);
    world.try_once();
    assert_eq!(world.take(0), ["TIME", "SET k 10000"]);
    world.tells(0, Duration::from_secs(3));
    assert_eq!(world.steps(), [1]);
    world.no_quorum();
}

impl World {
    /// Makes three nodes with a kept lock of `ttl`. The nodes were asked for the time when it was taken.
    fn keeping_watched(ttl: Duration) -> (Self, Lock) {
        let mut world = watching(3, RestartGuard::Observed);
        world.acquire_of(b"k", &LockOptions::new(ttl).keep().tries(1));
        world.all_tell([Duration::ZERO; 3], "+OK|");
        let lock = world.lock();
        (world, lock)
    }

    /// Answers for all nodes: if they are asked for their time, it is `ahead` of the right one; then they say `reply`.
    fn all_tell(&mut self, ahead: [Duration; 3], reply: &'static str) {
        (0..3).for_each(|node| self.responds(node, ahead, |_| reply));
    }

    /// Answers for `node`: its time is `ahead` of the right one, and `said` says what it answers to anything else.
    fn responds(&mut self, node: usize, ahead: [Duration; 3], said: impl Fn(&str) -> &'static str) {
        for asked in self.take(node) {
            match &*asked {
                "TIME" => self.tells(node, ahead[node]),
                asked => self.say(node, said(asked)),
            }
        }
    }

    /// Extends `lock`. Node 0 is lost, and the others confirm it; node 2 has a clock that was stepped.
    fn extend_behind_a_step(&mut self, lock: &Lock) {
        self.extend(lock);
        self.lose(0);
        self.take(0);
        self.all_tell(an_hour_at(2), ":1|");
    }

    /// Returns which of three nodes vote.
    fn voting(&self) -> [bool; 3] {
        [0, 1, 2].map(|node| self.quarantined_until(node).is_none())
    }
}

/// Each row: a ttl, a step of the clocks of two of three nodes, and how often it is repeated. A step that the drift
/// allows for costs no vote. After a larger step, these nodes grant no new lock, but the kept lock stays valid.
#[test]
fn steps_of_two_clocks_end_no_kept_lock() {
    for (ttl, by, every, votes) in [
        (2_000, 15, 0, true),
        (10_000, 50, 0, true),
        (30_000, 200, 0, true),
        (30_000, 10, 750, true),  // Twenty in 15 s.
        (2_000, 6, 500, false),   // A slew of 1.2 %.
        (10_000, 41, 500, false), // Of 8.2 %, as fast as time daemons slew.
        (2_000, 20, 0, false),
        (10_000, 95, 0, false),
        (30_000, 275, 0, false),
    ] {
        let (mut world, lock) = World::keeping_watched(Duration::from_millis(ttl));
        let start = world.now;
        let ahead = |now: Instant| {
            let passed = now.saturating_since(start).as_millis() as u64;
            let times = passed.checked_div(every).unwrap_or(1);
            let ahead = Duration::from_millis(by) * times.min(20) as u32;
            [ahead, ahead, Duration::ZERO]
        };
        let mut before = lock.valid_until();
        for _ in 0..4 {
            world.sleep_until_asked(2);
            let ahead = ahead(world.now);
            world.all_tell(ahead, ":1|");
            let until = world.was_kept(&lock);
            assert!(before < until, "{ttl} {by} {every}");
            before = until;
        }
        assert_eq!(world.voting(), [votes, votes, true], "{ttl} {by} {every}");
        // If a clock was seen to be set, the keys may expire earlier by a twelfth.
        let slewed = if votes { 0 } else { 1 };
        let asked = lock.ttl().saturating_sub(lock.ttl() * slewed / 12);
        let end = asked.saturating_sub(Drift::default().of(lock.ttl()));
        assert_eq!(before, world.now.saturating_add(end), "{ttl} {by} {every}");
        world.events.clear();
        world.acquire_of(b"other", &LockOptions::new(lock.ttl()).tries(1));
        let ahead = ahead(world.now);
        world.all_tell(ahead, "+OK|");
        match votes {
            true => drop(world.lock()),
            false => drop(world.no_quorum()),
        }
    }
}

/// A node may have got a copy after its clock was stepped, in place of another client's key that has ended early. The
/// copy does not count before the quarantine is over.
#[test]
fn a_copy_from_after_a_step_does_not_keep_a_lock() {
    let (mut world, lock) = World::keeping_watched(TTL);
    let ahead = an_hour_at(0);
    let mut is_copied = false;
    while !is_copied {
        world.sleep_until_timer();
        is_copied = world.sent[0].iter().any(|sent| sent.starts_with("SET"));
        world.responds(0, ahead, |asked| match asked {
            "EVALSHA extend" => ":0|",
            _ => "+OK|",
        });
        (1..3).for_each(|node| world.responds(node, ahead, |_| ":1|"));
        assert!(lock.is_valid_at(world.now));
    }
    assert_eq!(world.voting(), [false, true, true]);
    world.events.clear();
    world.sleep_until_asked(0);
    world.all_tell(ahead, ":1|");
    world.was_kept(&lock);
    // One of the other copies is lost, and does not come back.
    world.lose(1);
    let until = lock.valid_until();
    while world.events.is_empty() {
        world.sleep_until_timer();
        for node in [0, 2] {
            world.responds(node, ahead, |_| ":1|");
        }
    }
    world.was_not_kept();
    assert_eq!(lock.valid_until(), until);
}

/// All nodes have granted the lock in one turn, so one of them does not belong to the majority that decided. Its copy
/// is as old as the others.
#[test]
fn a_copy_from_behind_the_majority_is_older_than_a_step_as_well() {
    let mut world = watched();
    world.try_once();
    world.take_all();
    (0..3).for_each(|node| world.say_undrained(node, "+OK|"));
    world.drain();
    let mut lock = world.lock();
    world.wait(Duration::from_secs(1));
    world.extend_behind_a_step(&lock);
    world.extended(&mut lock);
}

/// A node that has restarted grants a lock in its quarantine. When the quarantine is over, its copy is older than any
/// step.
#[test]
fn a_copy_from_before_a_step_counts_after_the_quarantine_of_a_restart() {
    let mut world = watched();
    world.comes_back_as(2, "another", 1);
    let until = world.quarantined_until(2).expect("it has restarted");
    world.now = until.saturating_sub(Duration::from_secs(5));
    world.drain();
    world.take_all();
    world.try_once();
    world.all_tell([Duration::ZERO; 3], "+OK|");
    let mut lock = world.lock();
    world.now = until;
    world.extend_behind_a_step(&lock);
    world.extended(&mut lock);
}
