//! Stories of nodes that restarted: who votes, and who gets a copy again.

use super::*;
use crate::config::RestartGuard;
use crate::error::TrustError;
use crate::quorum::Drift;

/// The longest ttl of all clients in these stories, and how long a quarantine is then.
const LONGEST: Duration = Duration::from_secs(20);
const QUARANTINE: Duration = Duration::from_millis(20_202);

/// `nodes` nodes that have long been running when they are met.
pub(super) fn guarded(nodes: usize) -> World {
    let names = (0..nodes).map(|node| format!("node{node}:6379"));
    let mut world = World::with(Config::builder().nodes(names).max_ttl(LONGEST));
    for node in 0..nodes {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, &format!("run{node}"), 1_000);
    }
    world
}

impl World {
    /// The rest of a greeting, by a server that runs for so many seconds.
    pub(super) fn finish_as(&mut self, node: usize, run_id: &str, uptime: u64) {
        let server = format!("run_id:{run_id}\r\nuptime_in_seconds:{uptime}");
        let len = server.len();
        self.say(node, &format!("${len}|{server}|$-1|$-1|"));
        let [release, extend] = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
        self.say(node, &format!("$40|{release}|$40|{extend}|"));
    }

    /// The server behind `node` restarts, and another process greets.
    pub(super) fn restart(&mut self, node: usize) {
        self.lose(node);
        self.reconnect(node);
        self.welcome(node);
        self.finish_as(node, &format!("again{node}"), 0);
        self.take(node);
    }

    /// Waits for its turn to be connected to again.
    pub(super) fn reconnect(&mut self, node: usize) {
        while self.links[node] != "connecting" {
            self.pass(Duration::from_millis(10));
        }
    }

    /// All who were asked to lock say yes.
    pub(super) fn grant(&mut self, nodes: &[usize]) {
        for node in nodes {
            assert_eq!(self.take(*node), ["SET k 10000"], "node {node}");
            self.say(*node, "+OK|");
        }
    }

    pub(super) fn ask_extension(&mut self, lock: &Lock) {
        self.engine.extend(self.now, lock, TTL).expect("valid");
        self.drain();
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), ["EVALSHA extend"], "node {node}");
        }
    }

    pub(super) fn extended(&mut self, lock: &mut Lock) {
        match self.event() {
            Event::Extended {
                result: Ok(extension),
                ..
            } => assert!(extension.apply(lock)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn quarantined_until(&self, node: usize) -> Option<Instant> {
        match self.engine.node_state(self.now, id(node)) {
            NodeState::Quarantined { left } => Some(self.now.saturating_add(left)),
            _ => None,
        }
    }
}

#[test]
fn a_node_that_restarted_is_asked_and_not_counted() {
    let mut world = guarded(3);
    world.restart(2);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(2), Some(until));
    world.try_once();
    world.grant(&[2, 0]);
    assert!(
        world.events.is_empty(),
        "two said yes, and one of them counts"
    );
    world.grant(&[1]);
    let lock = world.lock();
    world.release(lock);
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
}

#[test]
fn without_a_majority_that_votes_nobody_is_asked() {
    let mut world = guarded(3);
    world.restart(0);
    world.restart(2);
    let until = world.quarantined_until(2).expect("it restarted");
    world.try_once();
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("one vote is no majority")
    };
    assert_eq!(outcomes(&report)[2], NodeOutcome::Quarantined { until });
    assert!(world.take_all().iter().all(Vec::is_empty));
    world.is_clean();
    world.now = until;
    world.try_once();
    world.grant(&[0, 2]);
    let _lock = world.lock();
}

/// Between the greeting and the last answer of a round it may end: that round goes on without.
#[test]
fn a_quarantine_that_ends_in_a_round_ends_for_the_next() {
    let mut world = guarded(3);
    world.restart(2);
    let until = world.quarantined_until(2).expect("it restarted");
    world.now = until.saturating_sub(Duration::from_nanos(1));
    world.try_once();
    world.now = until;
    world.grant(&[2, 0]);
    assert!(world.events.is_empty());
}

#[test]
fn who_restarts_in_a_round_is_asked_late_and_not_counted() {
    let mut world = guarded(3);
    world.pass(Duration::from_secs(2)); // One that lasted is connected to again at once.
    world.lose(2);
    world.try_once();
    world.take_all();
    world.say(0, "+OK|");
    world.reconnect(2);
    world.welcome(2);
    world.take(2);
    world.finish_as(2, "again2", 0);
    assert_eq!(world.take(2), ["SET k 10000"]);
    world.say(2, "+OK|");
    assert!(world.events.is_empty());
    world.say(1, "+OK|");
    let _lock = world.lock();
}

/// A round may go on for longer, because of a node that greets for the first time.
#[test]
fn who_does_not_vote_is_not_asked_when_its_time_is_over() {
    let names = (0..3).map(|node| format!("node{node}:6379"));
    let builder = Config::builder().nodes(names).max_ttl(LONGEST);
    let mut world = World::with(builder.connect_timeout(Duration::from_secs(60)));
    for node in [0, 2] {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, &format!("run{node}"), 1_000);
    }
    world.restart(2);
    world.pass(Duration::from_secs(2));
    world.lose(2);
    world.try_once();
    world.grant(&[0]);
    world.pass(Duration::from_millis(60));
    world.welcome(2);
    world.take(2);
    world.finish_as(2, "again2", 2);
    assert_eq!(world.take(2), Vec::<String>::new());
    assert!(
        world.events.is_empty(),
        "it waits for the first greeting of another"
    );
}

/// A round may go on for longer, because of nodes that greet for the first time.
#[test]
fn what_does_not_count_and_waits_for_room_is_not_sent_when_its_time_is_over() {
    let names = (0..3).map(|node| format!("node{node}:6379"));
    let builder = Config::builder().nodes(names).max_ttl(LONGEST);
    let mut world = World::with(builder.connect_timeout(Duration::from_secs(60)));
    world.welcome(2);
    world.take(2);
    world.finish_as(2, "run2", 1_000);
    world.restart(2);
    world.window[2] = 0;
    world.try_once();
    // It is woken for that, and once only.
    let timeout = Duration::from_millis(50);
    let (at, wake) = world.engine.poll_timeout().expect("a timer");
    assert!(at <= world.now.saturating_add(timeout + Duration::from_millis(1)));
    assert_eq!(wake, Wake::NodeTimeout);
    world.pass(timeout);
    let (at, _) = world.engine.poll_timeout().expect("a timer");
    assert!(world.now.saturating_add(timeout) < at, "not at once again");
    world.window[2] = usize::MAX;
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take(2), Vec::<String>::new());
    assert!(world.events.is_empty(), "it waits for the others");
}

#[test]
fn an_extension_does_not_count_who_may_have_forgotten() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let lock = world.lock();
    world.restart(2);
    world.ask_extension(&lock);
    world.say(0, ":1|");
    world.say(2, ":0|");
    world.lose(1);
    let Event::Extended {
        result: Err(ExtendError::Unconfirmed(report)),
        ..
    } = world.event()
    else {
        panic!("nobody said that it is gone who could know")
    };
    assert_eq!(outcomes(&report)[0], NodeOutcome::Granted);
    assert!(matches!(
        outcomes(&report)[2],
        NodeOutcome::Quarantined { .. }
    ));
}

#[test]
fn a_confirmation_does_not_count_who_may_have_forgotten() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let lock = world.lock();
    world.restart(2);
    world.engine.confirm(world.now, &lock).expect("valid");
    world.drain();
    world.say(0, ":9000|");
    world.say(2, ":9000|");
    assert!(
        world.events.is_empty(),
        "two have it, and one of them counts"
    );
    world.lose(1);
    let Event::Extended {
        result: Err(ExtendError::Unconfirmed(report)),
        ..
    } = world.event()
    else {
        panic!("one vote is no majority")
    };
    assert!(matches!(
        outcomes(&report)[2],
        NodeOutcome::Quarantined { .. }
    ));
}

/// DESIGN 3.4: two holders were measured where a topped-up node was counted in its quarantine.
#[test]
fn a_copy_is_sent_again_after_two_rounds_and_counts_after_the_quarantine() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let mut lock = world.lock();
    world.restart(2);
    world.ask_extension(&lock);
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    world.say(2, ":0|");
    assert_eq!(
        world.take_all(),
        vec![Vec::<String>::new(); 3],
        "it was not known before"
    );
    world.pass(Duration::from_secs(1));
    world.ask_extension(&lock);
    world.say(0, ":1|");
    assert_eq!(world.take(2), Vec::<String>::new(), "one is no majority");
    world.say(1, ":1|");
    world.extended(&mut lock);
    let left = lock.valid_until().saturating_since(world.now);
    let ttl = left + Drift::default().of(TTL);
    assert_eq!(world.take(2), [format!("SET k {}", ttl.as_millis())]);
    world.say(2, ":0|+OK|");
    // It has the key now, and its answer counts for nothing yet.
    world.ask_extension(&lock);
    world.say(0, ":1|");
    world.say(2, ":1|");
    assert!(world.events.is_empty());
    world.say(1, ":1|");
    world.extended(&mut lock);
    let until = world.quarantined_until(2).expect("still");
    while world.now < until {
        world.pass(Duration::from_secs(5));
        world.ask_extension(&lock);
        (0..3).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
    }
    // And now it does.
    world.ask_extension(&lock);
    world.say(2, ":1|");
    world.say(0, ":1|");
    world.extended(&mut lock);
    world.say(1, ":1|");
    world.release(lock);
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
}

/// The first `SET` on the connection to a node that came back may be a copy.
#[test]
fn a_copy_is_left_only_where_it_may_be_released() {
    for (answer, missing) in [(":1|", None), (":-2|", Some("del"))] {
        let mut world = guarded(3);
        world.try_once();
        world.grant(&[0, 1, 2]);
        let mut lock = world.lock();
        world.unpermitted = true;
        world.restart(2);
        let mut copies = Vec::new();
        for _ in 0..4 {
            world.ask_extension(&lock);
            (0..2).for_each(|node| world.say(node, ":1|"));
            world.extended(&mut lock);
            world.say(2, ":0|");
            for copy in world.take(2) {
                copies.push(copy);
                world.say(2, answer);
            }
        }
        // A copy is lost again and sent again; where it may not be released it is not.
        let first = "EVAL SET k 10000 if get del set evalsha";
        let lacks = |command| NodeState::Unusable(Unusable::Permission { command });
        match missing {
            None => assert_eq!(copies, [first, "SET k 10000"]),
            Some(command) => {
                assert_eq!(copies, [first]);
                assert_eq!(world.engine.node_state(world.now, id(2)), lacks(command));
            }
        }
    }
}

#[test]
fn no_copy_is_sent_of_what_is_given_back_or_over() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let mut lock = world.lock();
    world.ask_extension(&lock);
    world.say(2, ":0|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    world.ask_extension(&lock);
    world.release(lock);
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert_eq!(world.take(2), ["EVALSHA release"]);
}

/// A lock on three nodes, of which the last has lost its copy and was sent another.
pub(super) fn copy_sent() -> (World, Lock) {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1, 2]);
    let mut lock = world.lock();
    for _ in 0..2 {
        world.ask_extension(&lock);
        world.say(2, ":0|");
        (0..2).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
    }
    assert_eq!(world.take(2), ["SET k 10000"]);
    (world, lock)
}

/// It was not known to have its copy when the extension was begun, and is when that is confirmed.
#[test]
fn who_has_got_its_copy_meanwhile_gets_no_other() {
    let (mut world, mut lock) = copy_sent();
    world.ask_extension(&lock);
    world.say(2, "+OK|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    assert_eq!(world.take(2), Vec::<String>::new());
}

/// The release of whoever it is handed to may be there before the copy.
#[test]
fn a_copy_that_is_unanswered_is_given_back_when_its_lock_is_handed_over() {
    let (mut world, lock) = copy_sent();
    let _handed_over = world.engine.detach(world.now, lock);
    world.drain();
    assert_eq!(world.take(2), ["EVALSHA release"]);
    assert!(world.take(0).is_empty() && world.take(1).is_empty());
}

/// What a node denied when the lock was taken it may be given later.
#[test]
fn who_held_anothers_gets_a_copy_too() {
    let mut world = guarded(3);
    world.try_once();
    world.grant(&[0, 1]);
    let mut lock = world.lock();
    world.take(2);
    world.say(2, "_|");
    for _ in 0..2 {
        world.ask_extension(&lock);
        world.say(2, ":-1|");
        (0..2).for_each(|node| world.say(node, ":1|"));
        world.extended(&mut lock);
    }
    assert_eq!(world.take(2), ["SET k 10000"]);
    world.say(2, "_|");
    world.ask_extension(&lock);
    world.say(2, ":0|");
    (0..2).for_each(|node| world.say(node, ":1|"));
    world.extended(&mut lock);
    assert_eq!(
        world.take(2),
        ["SET k 10000"],
        "a nil is no vote, and no end"
    );
}

#[test]
fn who_refuses_as_a_replica_greets_anew_and_is_kept_from_voting() {
    let mut world = guarded(3);
    world.try_once();
    world.take(2);
    world.say(2, "-READONLY You can't write against a read only replica.|");
    assert_eq!(world.links[2], "reset");
    world.grant(&[0, 1]);
    let lock = world.lock();
    world.release(lock);
    world.reconnect(2);
    world.welcome(2);
    // By all that it says it is the one that it was.
    world.finish_as(2, "run2", 1_100);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(2), Some(until));
}

/// Redis 6.2 quotes what a command within a script was answered, and the first `SET` is one.
#[test]
fn who_refuses_as_a_replica_within_a_script_greets_anew_and_is_kept_from_voting() {
    let mut world = World::with(Config::builder().nodes(["node0"]).max_ttl(LONGEST));
    world.unpermitted = true;
    world.welcome(0);
    world.finish_as(0, "run0", 1_000);
    world.take(0);
    world.try_once();
    world.take(0);
    world.say(
        0,
        "-ERR Error running script (call to f_9b47c68a): @user_script:1: @user_script: 1: \
         -READONLY You can't write against a read only replica. |",
    );
    assert_eq!(world.links[0], "reset");
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
    world.is_clean();
    world.reconnect(0);
    world.welcome(0);
    world.finish_as(0, "run0", 1_100);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(0), Some(until));
}

#[test]
fn who_is_met_soon_after_its_start_waits_and_who_is_trusted_does_not() {
    let mut world = World::with(Config::builder().node("node0:6379").max_ttl(LONGEST));
    world.welcome(0);
    world.take(0);
    world.finish_as(0, "run0", 3);
    let rest = QUARANTINE + Duration::from_secs(2) - Duration::from_secs(3);
    assert_eq!(
        world.quarantined_until(0),
        Some(world.now.saturating_add(rest))
    );
    assert_eq!(world.engine.trust(world.now, id(0), "run0"), Ok(true));
    assert_eq!(world.quarantined_until(0), None);
    assert_eq!(world.engine.trust(world.now, id(0), "run0"), Ok(false));
    let nobody = Err(TrustError::UnknownNode);
    assert_eq!(world.engine.trust(world.now, id(7), "run0"), nobody);
    world.try_once();
    world.grant(&[0]);
    let _lock = world.lock();
}

/// Between the look of an operator and his word another server came.
#[test]
fn a_word_for_a_server_that_was_replaced_is_not_one_for_the_next() {
    let mut world = guarded(3);
    let status = world.engine.node_statuses(world.now).nth(2);
    let seen = status.expect("three").run_id.expect("it has told");
    assert_eq!(seen, "run2");
    world.restart(2);
    let until = world.now.saturating_add(QUARANTINE);
    let changed = TrustError::Changed {
        run_id: "again2".into(),
    };
    assert_eq!(world.engine.trust(world.now, id(2), &seen), Err(changed));
    assert_eq!(world.quarantined_until(2), Some(until), "it still is");
    assert_eq!(world.engine.trust(world.now, id(2), "again2"), Ok(true));
    assert_eq!(world.quarantined_until(2), None);
    // Of one that is not connected nobody knows which it will be.
    world.restart(2);
    world.lose(1);
    let away = Err(TrustError::NotConnected);
    assert_eq!(world.engine.trust(world.now, id(1), "run1"), away);
    assert_eq!(world.engine.trust_all(world.now), ["run0", "again2"]);
    assert_eq!(world.quarantined_until(2), None);
}

/// Who does not tell which it is cannot be named, and is not trusted with the others either.
#[test]
fn a_server_that_does_not_tell_its_run_id_is_not_trusted() {
    let mut world = guarded(1);
    world.lose(0);
    world.reconnect(0);
    world.welcome(0);
    world.say(0, "$-1|$-1|$-1|$-1|$-1|");
    assert!(world.quarantined_until(0).is_some());
    let untold = Err(TrustError::NoRunId);
    assert_eq!(world.engine.trust(world.now, id(0), "run0"), untold);
    assert!(world.engine.trust_all(world.now).is_empty());
    assert!(world.quarantined_until(0).is_some());
}

#[test]
fn a_guard_that_is_off_counts_everybody() {
    let names = (0..3).map(|node| format!("node{node}:6379"));
    let off = Config::builder().restart_guard(RestartGuard::Off);
    let mut world = World::with(off.nodes(names).max_ttl(LONGEST));
    (0..3).for_each(|node| world.greet(node));
    world.restart(2);
    assert_eq!(world.quarantined_until(2), None);
    world.try_once();
    world.grant(&[2, 0]);
    let _lock = world.lock();
    world.take(1);
    world.say(1, "-LOADING Redis is loading the dataset in memory|");
    assert_eq!(world.links[1], "up");
}

/// A longer ttl that this handle has asked for is longer for the quarantine too.
#[test]
fn the_longest_ttl_that_was_asked_for_counts() {
    let mut world = World::ready(1);
    let options = LockOptions::new(Duration::from_secs(100)).tries(1);
    world.acquire(&options);
    world.take(0);
    world.say(0, "+OK|");
    let _held = world.lock();
    world.restart(0);
    let quarantine = Duration::from_millis(101_002);
    let until = world.now.saturating_add(quarantine);
    assert_eq!(world.quarantined_until(0), Some(until));
}

/// It may greet next under its other name, by which it has refused nothing.
#[test]
fn an_alarm_is_for_all_names_of_a_server() {
    let names = (0..4).map(|node| format!("node{node}:6379"));
    let mut world = World::with(Config::builder().nodes(names).max_ttl(LONGEST));
    for (node, run_id) in [(0, "run0"), (1, "run1"), (2, "run2"), (3, "run2")] {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, run_id, 1_000);
    }
    let twin = NodeState::Unusable(Unusable::SameServer(2));
    assert_eq!(world.engine.node_state(world.now, id(3)), twin);
    world.try_once();
    world.take(2);
    world.say(2, "-READONLY You can't write against a read only replica.|");
    world.reconnect(3);
    world.welcome(3);
    world.take(3);
    world.finish_as(3, "run2", 1_100);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(3), Some(until));
}

/// It refuses under the name under which it has no vote, and votes under the other.
#[test]
fn an_alarm_that_a_twin_hears_is_for_the_name_that_votes() {
    let names = (0..4).map(|node| format!("node{node}:6379"));
    let mut world = World::with(Config::builder().nodes(names).max_ttl(LONGEST));
    for (node, run_id) in [(0, "run0"), (1, "run1"), (2, "run2"), (3, "run2")] {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, run_id, 1_000);
    }
    // What is owed to it goes out in its greeting, and is refused there.
    world.try_once();
    world.grant(&[0, 1, 2]);
    let lock = world.lock();
    let lock = world.engine.detach(world.now, lock);
    let lock = world.engine.adopt(world.now, lock);
    world.release(lock);
    world.reconnect(3);
    world.welcome(3);
    world.take(3);
    world.say(3, "-READONLY You can't write against a read only replica.|");
    assert_eq!(world.links[2], "reset", "it has to greet anew");
    world.take(2);
    world.reconnect(2);
    world.welcome(2);
    assert_eq!(world.take(2)[0], "EVAL release", "it is owed");
    world.say(2, ":1|");
    world.finish_as(2, "run2", 1_100);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(2), Some(until));
}

/// What a server said that was refused as another's twin is what it is compared with later, also
/// where nobody was told the longest ttl.
#[test]
fn a_twin_is_known_when_it_comes_back_as_another() {
    let mut world = World::new(3);
    for (node, run_id) in [(0, "run0"), (1, "run0"), (2, "run2")] {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, run_id, 1_000);
    }
    let twin = NodeState::Unusable(Unusable::SameServer(0));
    assert_eq!(world.engine.node_state(world.now, id(1)), twin);
    world.lose(0);
    world.reconnect(1);
    world.welcome(1);
    world.finish_as(1, "again", 0);
    assert!(world.quarantined_until(1).is_some());
}

/// By the name by which it was never met before.
#[test]
fn an_alarm_is_for_a_name_that_is_new() {
    let names = (0..4).map(|node| format!("node{node}:6379"));
    let mut world = World::with(Config::builder().nodes(names).max_ttl(LONGEST));
    for node in 0..3 {
        world.welcome(node);
        world.take(node);
        world.finish_as(node, &format!("run{node}"), 1_000);
    }
    world.try_once();
    world.take(2);
    world.say(2, "-READONLY You can't write against a read only replica.|");
    world.welcome(3);
    world.take(3);
    world.finish_as(3, "run2", 1_100);
    let until = world.now.saturating_add(QUARANTINE);
    assert_eq!(world.quarantined_until(3), Some(until));
}
