//! Stories of wall clocks that are stepped: who is asked for the time, and who votes.

use super::*;
use crate::config::RestartGuard;

/// How long a quarantine is where the longest ttl is not known.
const QUARANTINE: Duration = Duration::from_millis(60_602);

/// What the servers' clocks show at zero by ours, in microseconds.
const EPOCH: u64 = 1_790_000_000_000_000;

fn watching(nodes: usize, guard: RestartGuard) -> World {
    World::watching(named(nodes).restart_guard(guard)).greeted()
}

impl World {
    /// `node` tells its time, which is so far ahead of what it should be.
    fn tells(&mut self, node: usize, ahead: Duration) {
        let micros = EPOCH + self.now.as_nanos() / 1_000 + ahead.as_micros() as u64;
        let (seconds, micros) = (micros / 1_000_000, (micros % 1_000_000).to_string());
        let len = micros.len();
        self.say(node, &format!("*2|$10|{seconds}|${len}|{micros}|"));
    }

    /// Takes a lock and gives it back, with nodes whose clocks are so far ahead.
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
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.say(0, "+OK|");
    let lock = world.lock();
    world.wait(MS);
    world.ask_confirm(&lock);
    assert_eq!(world.take(0), ["TIME", "EVAL confirm"]);
    // While it is not answered it is not asked again, and a release never waits for it.
    world.wait(Duration::from_secs(2));
    world.extend(&lock);
    world.release(lock);
    assert_eq!(world.take(0), ["EVALSHA extend", "EVALSHA release"]);
    assert_eq!(world.steps(), [0]);
}

#[test]
fn a_node_whose_clock_was_stepped_is_not_counted_in_that_very_round() {
    let mut world = watching(3, RestartGuard::Observed);
    let hour = Duration::from_secs(3_600);
    world.cycle(&[hour, Duration::ZERO, Duration::ZERO]);
    world.pass(Duration::from_secs(1));
    world.try_once();
    let until = world.now.saturating_add(QUARANTINE);
    world.take_all();
    world.tells(0, hour);
    world.say(0, "+OK|");
    world.tells(2, 11 * MS);
    world.say(2, "+OK|");
    assert!(
        world.events.is_empty(),
        "two said yes, and one of them counts"
    );
    assert_eq!(world.steps(), [0, 0, 1]);
    world.tells(1, Duration::ZERO);
    world.say(1, "-ERR x|");
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[2], NodeOutcome::Quarantined { until });
    assert_eq!(world.take(2), ["EVALSHA release"], "it may hold it");
    // It votes again when all that it may have let end is over.
    world.now = until.saturating_sub(Duration::from_nanos(1));
    assert!(world.quarantined_until(2).is_some());
    world.now = until;
    assert!(world.quarantined_until(2).is_none());
}

#[test]
fn a_yes_from_before_the_step_was_seen_is_taken_back() {
    let mut world = watching(3, RestartGuard::Observed);
    world.cycle(&[Duration::ZERO; 3]);
    world.try_once();
    world.take_all();
    world.say(2, "+OK|");
    // Another question to the same node finds that it was stepped.
    world.wait(Duration::from_secs(1));
    let options = LockOptions::new(TTL).tries(1);
    world
        .engine
        .acquire(world.now, &Request::new(b"other", &options))
        .expect("valid");
    world.drain();
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
    assert_eq!(world.take(0), ["TIME", "SET k 10000"]);
    world.say(
        0,
        "-NOPERM this user has no permissions to run the 'time' command|+OK|",
    );
    let lock = world.lock();
    world.release_on(0..1, lock);
    world.pass(Duration::from_secs(2));
    world.take(0);
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.say(0, "_|");
    world.events.clear();
    world.lose(0);
    world.greet(0);
    world.try_once();
    assert_eq!(world.take(0), ["TIME", "SET k 10000"]);
    world.tells(0, Duration::from_secs(3));
    assert_eq!(world.steps(), [1]);
    world.no_quorum();
}
