//! How long an operation waits for nodes that do not answer, and how long a silence may last.

use alloc::collections::VecDeque;

use super::*;

/// The longest time that a silent majority of near nodes may cost with the default settings.
const BOUND: Duration = Duration::from_millis(300);

impl World {
    /// Makes nodes that answer the handshake after one `round_trip`.
    pub(super) fn at_distance(nodes: usize, round_trip: Duration) -> Self {
        let mut world = Self::new(nodes);
        (0..nodes).for_each(|node| world.greet_late(node, round_trip, Self::wait));
        world.take_all();
        world
    }

    /// Answers all open commands of `node` at once: it grants each `SET`, and finds the key of each release.
    fn wake(&mut self, node: usize) {
        for sent in self.take(node) {
            self.answer(node, &sent);
        }
        if self.links[node] == "connecting" {
            self.greet_late(node, Duration::ZERO, Self::sleep);
        }
    }

    /// Returns how far away the first node is, as the engine believes.
    fn round_trip(&mut self) -> Option<Duration> {
        self.node(0).connection.pulse.round_trip()
    }

    fn answer(&mut self, node: usize, sent: &str) {
        let is_set = sent.starts_with("SET k");
        self.say(node, if is_set { "+OK|" } else { ":1|" });
    }

    /// For `span`, `node` answers each question one `round_trip` later.
    fn answer_late(&mut self, node: usize, round_trip: Duration, span: Duration) {
        let end = self.now.saturating_add(span);
        let mut due = VecDeque::new();
        while self.now < end {
            if self.links[node] == "connecting" {
                due.clear();
                self.greet_late(node, round_trip, Self::sleep);
            }
            let answered = self.now.saturating_add(round_trip);
            due.extend(self.take(node).into_iter().map(|sent| (answered, sent)));
            while due.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, sent) = due.pop_front().expect("it is due");
                self.answer(node, &sent);
            }
            self.sleep(5 * MS);
        }
    }
}

/// Returns how many milliseconds an attempt, an extension and a release with this ttl wait for silent nodes at this
/// distance.
fn waits(round_trip: u64, ttl: u64) -> [u128; 3] {
    let ttl = Duration::from_millis(ttl);
    let far = Duration::from_millis(round_trip);
    let mut world = World::at_distance(1, far);
    world.acquire(&LockOptions::new(ttl).tries(1));
    world.wait(far);
    world.say(0, "+OK|");
    let lock = world.lock();
    world.engine.extend(world.now, &lock, ttl).expect("valid");
    let extension = world.sleep_until_event();
    world.events.clear();
    world.release(lock);
    let release = world.sleep_until_event();
    let mut world = World::at_distance(1, far);
    world.acquire(&LockOptions::new(ttl).tries(1));
    let attempt = world.sleep_until_event();
    [attempt, extension, release].map(|wait| wait.as_millis())
}

#[test]
fn the_node_timeout_by_distance_and_ttl() {
    for (round_trip, ttl, expected) in [
        // A two-hundredth of the ttl, between 5 and 50 ms.
        (0, 200, [5, 5, 5]),
        (0, 4_000, [20, 20, 20]),
        (0, 10_000, [50, 50, 50]),
        (0, 3_600_000, [50, 50, 50]),
        (12, 10_000, [50, 50, 50]),
        // Four round trips of a node that is farther away.
        (13, 10_000, [52, 52, 52]),
        (100, 10_000, [400, 400, 400]),
        // For a vote, half of what the ttl leaves; for an extension, the rest of the validity.
        (100, 500, [247, 247, 400]),
        // One second.
        (260, 10_000, [1_000, 1_000, 1_000]),
        (900, 10_000, [1_000, 1_000, 1_000]),
    ] {
        let found = waits(round_trip, ttl);
        assert_eq!(found, expected, "{round_trip} ms, ttl {ttl}");
    }
}

/// This holds however long each stall lasts, and even if no answer in between was in time. Each call is an attempt, or
/// an extension of the same lock.
#[test]
fn a_majority_that_stalls_again_and_again_costs_a_call_no_more() {
    let stalls = [60, 90, 290, 700, 5_000].map(Duration::from_millis);
    for (stall, extends) in stalls.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let mut world = World::at_distance(3, 9 * MS);
        let lock = extends.then(|| {
            world.acquire(&LockOptions::new(Duration::from_secs(3_000)).tries(1));
            (0..3).for_each(|node| world.wake(node));
            world.lock()
        });
        for turn in 0..100 {
            match &lock {
                Some(lock) => world.extend(lock),
                None => world.try_once(),
            };
            let took = world.sleep_until_event();
            assert!(took <= BOUND, "call {turn}, {stall:?}: {took:?}");
            match extends {
                true => world.events.clear(),
                false => drop(world.no_quorum()),
            }
            world.pass(stall.saturating_sub(took));
            (0..3).for_each(|node| world.wake(node));
        }
        let Some(lock) = lock else {
            world.is_clean();
            continue;
        };
        world.release(lock);
        let took = world.sleep_until_event();
        assert!(took <= BOUND, "a release after {stall:?}: {took:?}");
    }
}

/// Two answers to commands of different times are read together. The later one shows the distance.
#[test]
fn a_stall_with_answers_in_time_around_it_changes_nothing() {
    let mut world = World::at_distance(1, MS);
    for _ in 0..20 {
        world.try_once();
        world.wait(MS);
        world.wake(0);
        let lock = world.lock();
        world.pass(Duration::from_secs(1));
        world.give_back(lock);
        world.pass(5 * MS); // The node stalls, and continues.
        world.wake(0);
        assert_eq!(world.round_trip(), Some(MS));
    }
}

/// The engine adapts to a longer path, up to four times the longest wait for a nearby node.
#[test]
fn a_node_that_moves_away_votes_again_after_a_while() {
    let mut world = World::at_distance(1, MS);
    let mut granted = 0;
    for _ in 0..60 {
        world.try_once();
        world.sleep(200 * MS); // The answer to the `SET`, and to the release of a `SET` that was late.
        world.wake(0);
        if let Ok(lock) = world.acquired() {
            granted += 1;
            world.give_back(lock);
            world.sleep(200 * MS);
            world.wake(0);
        }
    }
    assert!(20 < granted, "{granted} of 60");
    assert_eq!(world.round_trip(), Some(200 * MS));
}

/// Beyond four times the longest wait for a nearby node, the handshake of another connection shows the distance.
#[test]
fn a_node_that_moves_far_away_votes_again_after_a_while() {
    let mut world = World::at_distance(1, 20 * MS);
    let mut granted = Vec::new();
    for attempt in 0..60 {
        world.try_once();
        world.answer_late(0, 400 * MS, Duration::from_secs(2));
        if let Ok(lock) = world.acquired() {
            granted.push(attempt);
            world.give_back(lock);
            world.answer_late(0, 400 * MS, Duration::from_secs(2));
        }
    }
    assert_eq!(granted, Vec::from_iter(16..60));
    world.is_clean();
}

/// Answers that were left unread show only how long they were unread.
#[test]
fn answers_that_were_left_unread_are_no_measure() {
    let mut world = World::at_distance(1, MS);
    for _ in 0..100 {
        world.try_once();
        world.wait(MS);
        world.say(0, "+OK|");
        let lock = world.lock();
        world.release(lock);
        world.wait(70 * MS);
        world.engine.was_away(world.now);
        world.say(0, ":1|");
        world.events.clear();
        world.take_all();
    }
    assert_eq!(world.round_trip(), Some(MS));
}

/// A near node with a short ttl has a node timeout of 5 ms, and four of these are soon over on a busy
/// machine.
#[test]
fn a_node_is_not_suspect_before_it_was_silent_for_100_ms() {
    for (ttl, suspect) in [(200, 100), (4_000, 100), (6_000, 120), (10_000, 200)] {
        let mut world = World::ready(3);
        world.acquire(&LockOptions::new(Duration::from_millis(ttl)).tries(1));
        world.pass(Duration::ZERO);
        world.sleep(suspect * MS - MS);
        world.input(Input::Tick);
        assert_eq!(world.state(0), NodeState::Ready, "ttl {ttl}");
        world.pass(MS);
        assert_eq!(world.state(0), NodeState::Suspect, "ttl {ttl}");
    }
}

/// When a server is back, its clients do not all reconnect at the same moment.
#[test]
fn clients_that_lost_a_node_together_come_back_apart() {
    let config = Config::builder().node("a").config().expect("valid");
    let mut delays = Vec::new();
    for client in 0..100 {
        let now = Instant::from_millis(1_000);
        let mut engine = Engine::new(&config, [client; 32], now);
        assert_matches!(engine.poll(now), Some(Output::Connect { .. }));
        let reason = LinkFault::Refused.into();
        let node = id(0);
        engine.handle(now, Input::Disconnected { node, reason });
        let (at, wake) = engine.poll_timeout().expect("it is tried again");
        assert_eq!(wake.0, Cause::Connection);
        delays.push(at.saturating_since(now));
    }
    delays.sort_unstable();
    assert!(25 * MS <= delays[0] && delays[99] <= 51 * MS, "{delays:?}");
    delays.dedup();
    assert!(15 < delays.len(), "{delays:?}");
}

/// The driver was stopped between the loss of a connection and the next connection.
#[test]
fn a_connection_that_the_driver_was_not_asked_for_has_all_its_time() {
    let mut world = World::ready(3);
    world.pass(Duration::from_secs(2)); // The connection has lasted, so the next one follows at once.
    world.links[0] = "";
    let (node, reason) = (id(0), LinkFault::Reset.into());
    let lost = Input::Disconnected { node, reason };
    world.engine.handle(world.now, lost);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.links[0], "connecting");
    assert_eq!(world.state(0), NodeState::Connecting);
    world.pass(999 * MS);
    assert_eq!(world.links[0], "connecting");
    world.pass(MS);
    let down = NodeState::Down(LinkFault::ConnectTimeout.into());
    assert_eq!(world.state(0), down);
}

/// The setting `timeout` of the servers, or a balancer, has closed all connections, and opening them takes longer than
/// an answer may. An attempt waits as the first one does, as long as a lock can be useful. It does not wait for a
/// server that refuses.
#[test]
fn an_attempt_waits_for_connections_that_were_all_closed() {
    const SECOND: Duration = Duration::from_secs(1);
    for (ttl, closed, after, is_had) in [
        (TTL, 3, 900, true),
        (TTL, 2, 900, true),
        (TTL, 1, 900, false),   // Two servers refuse.
        (TTL, 3, 1_100, false), // Opening one takes longer than `connect_timeout`.
        (SECOND, 3, 400, true),
        (SECOND, 3, 600, false), // More than half of the ttl.
    ] {
        let mut world = World::ready(3);
        world.pass(3 * SECOND);
        for node in 0..3 {
            world.lose_for(node, LinkFault::Closed);
            if closed <= node {
                world.lose_for(node, LinkFault::Refused);
                world.reconnect(node);
            }
        }
        world.acquire(&LockOptions::new(ttl).tries(1));
        world.pass(after * MS);
        if !is_had {
            drop(world.no_quorum());
            continue;
        }
        (0..3).for_each(|node| world.greet(node));
        world.all_reply("+OK|");
        assert!(world.lock().is_valid_at(world.now), "{ttl:?} {closed}");
    }
}

/// The connected node is asked, and the others get no more time than that node.
#[test]
fn an_attempt_does_not_wait_where_one_node_is_connected() {
    let mut world = World::ready(3);
    world.pass(Duration::from_secs(3));
    (1..3).for_each(|node| world.lose_for(node, LinkFault::Closed));
    world.try_once();
    world.say(0, "+OK|");
    world.pass(500 * MS);
    world.no_quorum();
}
