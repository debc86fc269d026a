//! Stories of nodes that carry markers: several clients over the stores of embedded nodes, which run
//! the scripts themselves.

mod chance;
mod names;
mod net;

use super::*;
use crate::config::RestartGuard;
use crate::embedded::Memory;
use crate::error::TrustError;
use crate::error::{InvalidRequest, ReinitError};
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use net::{Net, builder};

/// The longest ttl of all clients in these stories, and how long a barrier is then.
const LONGEST: Duration = Duration::from_secs(20);
const BARRIER: Duration = Duration::from_millis(20_202);

/// What a barrier is told to be longer than it is by whoever finds it there.
const GRAIN: Duration = Duration::from_millis(1);

impl Net {
    /// Somebody vouches for the servers that a client is connected to. Returns how many they are.
    fn trust_all(&mut self, client: usize) -> usize {
        self.clients[client].engine.trust_all(self.now).len()
    }

    /// The same of one, as which the node is known to the client.
    fn trust(&mut self, client: usize, node: usize) -> Result<bool, TrustError> {
        let engine = &mut self.clients[client].engine;
        let status = engine.node_statuses(self.now).nth(node);
        let run_id = status.and_then(|status| status.run_id).unwrap_or_default();
        engine.trust(self.now, id(node), &run_id)
    }
}

/// `clients` clients of three nodes that were vouched for.
fn trusted(clients: usize) -> Net {
    let mut net = Net::new(3);
    for _ in 0..clients {
        net.client(builder(3).max_ttl(LONGEST));
    }
    net.pump();
    assert_eq!(net.trust_all(0), 3);
    net.pump();
    for client in 1..clients {
        // The others were told of barriers that are gone. What they know runs out.
        assert_eq!(net.trust_all(client), 3);
    }
    net.pump();
    net
}

fn refusal(result: Result<Lock, LockError>) -> crate::error::Report {
    match result {
        Err(LockError::NoQuorum(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn until(outcome: NodeOutcome) -> Instant {
    match outcome {
        NodeOutcome::Quarantined { until } => until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_virgin_cluster_waits_for_as_long_as_a_lock_may_last() {
    let mut net = Net::new(3);
    net.client(builder(3).max_ttl(LONGEST));
    let begin = net.now;
    let report = refusal(net.try_lock(0, TTL));
    for outcome in outcomes(&report) {
        assert_eq!(until(outcome), begin.saturating_add(BARRIER));
    }
    assert_eq!(net.value(1, BARRIER_KEY), Some("1".into()));
    net.pass(BARRIER.saturating_sub(GRAIN));
    refusal(net.try_lock(0, TTL));
    net.pass(Duration::from_millis(2));
    let lock = net.try_lock(0, TTL).expect("the barrier is over");
    net.release(0, lock);
    net.is_clean();
}

#[test]
fn a_virgin_cluster_that_is_vouched_for_votes_at_once() {
    let mut net = Net::new(3);
    let client = net.client(builder(3).max_ttl(LONGEST));
    assert_eq!(net.trust_all(client), 3);
    let lock = net.try_lock(client, TTL).expect("behind the word");
    let marker = net.value(0, MARKER_KEY).expect("written");
    assert!(marker.ends_with(" 20000 3 2 0 default"), "{marker}");
    assert_eq!(net.value(0, BARRIER_KEY), None);
    assert_eq!(net.trust_all(client), 3);
    net.release(client, lock);
    net.is_clean();
}

/// Behind the question that it answers with a barrier goes the word that ends it.
#[test]
fn a_word_for_a_node_that_is_just_asked_to_join_again_is_the_last() {
    let mut net = trusted(1);
    net.unreachable(2, true);
    net.hold(0, 1);
    net.acquire(0, b"other", TTL);
    net.pump();
    net.let_through(0, 1);
    drop(net.acquired(0).1.expect("two vote"));
    net.admin(1, "FLUSHALL");
    refusal(net.try_lock(0, TTL));
    net.hold(0, 1);
    net.admin(1, "FLUSHALL");
    assert_eq!(net.trust(0, 1), Ok(true));
    net.acquire(0, b"k", TTL);
    net.pump();
    net.let_through(0, 1);
    let (_, result) = net.acquired(0);
    let lock = result.expect("the word was there before the question");
    assert_eq!(net.value(1, BARRIER_KEY), None);
    net.release(0, lock);
}

#[test]
fn a_node_that_was_flushed_votes_again_when_its_barrier_is_over() {
    let mut net = trusted(2);
    net.admin(1, "FLUSHALL");
    net.unreachable(2, true);
    for client in 0..2 {
        refusal(net.try_lock(client, TTL));
    }
    net.pass(BARRIER.saturating_add(2 * GRAIN));
    for client in 0..2 {
        let lock = net.try_lock(client, TTL).expect("two vote");
        net.release(client, lock);
    }
}

/// A handle that waits for its next try has as little to wait for as one that asks.
#[test]
fn who_waits_is_refused_when_a_node_is_found_to_be_another_clusters() {
    let mut net = trusted(2);
    let lock = net.try_lock(1, TTL).expect("three vote");
    let options = LockOptions::new(TTL).wait(Duration::from_secs(60));
    let request = Request::new(b"k", &options);
    let engine = &mut net.clients[0].engine;
    engine.acquire(net.now, &request).expect("valid");
    net.pump();
    assert!(net.event(0).is_none(), "it is held");
    let marker = net.value(2, MARKER_KEY).expect("joined");
    net.set(2, MARKER_KEY, marker.replace(" 3 2 ", " 5 3 ").as_bytes());
    net.reconnect(2);
    net.pass(Duration::from_millis(60));
    let (_, result) = net.acquired(0);
    assert!(
        matches!(result, Err(LockError::OtherCluster(_))),
        "{result:?}"
    );
    net.release(1, lock);
}

fn names_another_cluster(result: Result<Lock, LockError>) {
    let Err(LockError::OtherCluster(report)) = &result else {
        panic!("{result:?}")
    };
    let other = |outcome: &NodeOutcome| {
        matches!(
            outcome,
            NodeOutcome::Unusable(Unusable::OtherCluster { .. })
        )
    };
    assert_eq!(outcomes(report).iter().position(other), Some(1));
}

/// It is not that too few answered: no later try would do.
#[test]
fn who_has_one_try_is_refused_for_what_its_last_node_says() {
    let mut net = Net::new(2);
    net.client(builder(2).max_ttl(LONGEST));
    net.trust_all(0);
    net.pump();
    net.pass(Duration::from_secs(2));
    let marker = net.value(1, MARKER_KEY).expect("joined");
    net.set(1, MARKER_KEY, marker.replace(" 2 2 ", " 5 3 ").as_bytes());
    net.hold(0, 1);
    net.reconnect(1);
    let request = LockOptions::new(TTL).tries(1);
    let engine = &mut net.clients[0].engine;
    engine
        .acquire(net.now, &Request::new(b"k", &request))
        .expect("valid");
    net.pump();
    assert!(net.event(0).is_none(), "its greeting is waited for");
    net.let_through(0, 1);
    names_another_cluster(net.acquired(0).1);
    net.is_clean();
}

#[test]
fn who_rests_is_told_which_node_is_another_clusters() {
    let mut net = Net::new(2);
    net.client(builder(2).max_ttl(LONGEST));
    net.trust_all(0);
    net.pump();
    net.pass(Duration::from_secs(2));
    net.unreachable(1, true);
    let options = LockOptions::new(TTL).wait(Duration::from_secs(60));
    let request = Request::new(b"k", &options);
    let engine = &mut net.clients[0].engine;
    engine.acquire(net.now, &request).expect("valid");
    net.pump();
    assert!(net.event(0).is_none(), "it rests");
    let marker = net.value(1, MARKER_KEY).expect("joined");
    net.set(1, MARKER_KEY, marker.replace(" 2 2 ", " 5 3 ").as_bytes());
    net.unreachable(1, false);
    net.pass(Duration::from_secs(3));
    names_another_cluster(net.acquired(0).1);
}

/// It may come back with what another remembers, and say who it was before.
#[test]
fn who_refuses_to_join_again_as_one_that_loads_is_alarming() {
    let strict = Config::builder().node("node0:6379").max_ttl(LONGEST);
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    let greet = |world: &mut World| {
        world.take(0);
        world.welcome(0);
        world.take(0);
        world.say(0, "$10|run_id:abc|$-1|$-1|-NOPERM no CONFIG|$-1|$-1|$-1|");
        world.say(0, "*3|:1|:0|$25|1 abc 20000 1 1 0 default|");
    };
    greet(&mut world);
    assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
    world.try_once();
    world.say(0, "*2|:1|:-1|");
    let asked = world.take(0);
    assert!(asked.last().expect("two").ends_with(" join"), "{asked:?}");
    world.say(0, ":1|-LOADING x|"); // The release was done.
    world.pass(Duration::from_secs(3));
    greet(&mut world);
    let state = world.engine.node_state(world.now, id(0));
    assert!(matches!(state, NodeState::Quarantined { .. }), "{state:?}");
}

#[test]
fn a_word_for_a_node_that_is_not_there_is_not_kept() {
    let mut net = trusted(1);
    net.pass(Duration::from_secs(2));
    net.unreachable(2, true);
    assert_eq!(net.trust(0, 2), Err(TrustError::NotConnected));
    net.restart(2, Memory::Lost);
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    assert!(
        net.kept_until(0, 2).is_some(),
        "it restarted after the word"
    );
}

#[test]
fn who_restarted_is_asked_and_not_counted_by_anybody() {
    for memory in [Memory::Lost, Memory::Kept] {
        let mut net = trusted(2);
        net.pass(Duration::from_secs(2));
        net.restart(1, memory);
        let barred = net.now.saturating_add(BARRIER);
        net.unreachable(2, true);
        for client in 0..2 {
            let report = refusal(net.try_lock(client, TTL));
            let told = until(outcomes(&report)[1]);
            assert!(
                barred <= told && told <= barred.saturating_add(GRAIN),
                "{memory:?}"
            );
        }
        net.unreachable(2, false);
        net.pass(Duration::from_secs(3));
        let lock = net.try_lock(0, TTL).expect("two vote");
        assert!(net.value(1, b"k").is_some(), "its key keeps others out");
        net.release(0, lock);
        net.is_clean();
    }
}

/// It is not known to be behind a barrier, and may join in time.
#[test]
fn who_is_being_greeted_again_is_waited_for() {
    let mut net = trusted(1);
    net.pass(Duration::from_secs(2));
    net.unreachable(2, true);
    net.hold(0, 1);
    net.reconnect(1);
    net.acquire(0, b"k", TTL);
    net.pump();
    assert!(net.event(0).is_none(), "two of three may say yes");
    net.let_through(0, 1);
    let (_, result) = net.acquired(0);
    let lock = result.expect("it has greeted in time");
    net.release(0, lock);
}

/// Nobody's connection breaks, and no identity changes.
#[test]
fn data_that_is_flushed_is_noticed_by_all_clients() {
    let mut net = trusted(3);
    let lock = net.try_lock(0, TTL).expect("three vote");
    net.admin(1, "FLUSHALL");
    net.unreachable(2, true);
    for client in 1..3 {
        // Another has the first; the second and third have room. The second does not count.
        assert!(net.try_lock(client, TTL).is_err());
        assert!(net.kept_until(client, 1).is_some(), "client {client}");
    }
    net.release(0, lock);
}

/// A yes that was given before the data was flushed does not count either, if that is known.
#[test]
fn a_yes_is_taken_back_when_its_node_is_found_to_have_forgotten() {
    let mut net = trusted(1);
    net.hold(0, 0);
    net.hold(0, 2);
    let first = net.acquire(0, b"k", TTL);
    net.pump();
    net.admin(1, "FLUSHALL");
    net.acquire(0, b"other", TTL);
    net.pump();
    net.let_through(0, 0);
    assert!(net.event(0).is_none(), "the second has taken its yes back");
    net.let_through(0, 2);
    let (round, result) = net.acquired(0);
    assert_eq!(round, first);
    drop(result.expect("the first and the third"));
}

#[test]
fn a_marker_of_another_incarnation_is_noticed_as_a_promotion_is() {
    let mut net = trusted(2);
    let marker = net.value(1, MARKER_KEY).expect("joined");
    let run_id = marker.split(' ').nth(1).expect("a run id");
    let promoted = marker.replace(run_id, "0123456789abcdef");
    net.set(1, MARKER_KEY, promoted.as_bytes());
    net.unreachable(2, true);
    refusal(net.try_lock(1, TTL));
    assert_eq!(net.value(1, MARKER_KEY), Some(marker));
    let barred = net.now.saturating_add(BARRIER);
    assert_eq!(net.kept_until(1, 1), Some(barred));
    refusal(net.try_lock(0, TTL));
    assert!(net.kept_until(0, 1).is_some());
}

#[test]
fn a_shorter_longest_ttl_joins_and_waits_for_the_longer_one() {
    let mut net = trusted(1);
    let short = net.client(builder(3).max_ttl(Duration::from_secs(5)));
    assert!(
        net.value(0, MARKER_KEY)
            .expect("joined")
            .contains(" 20000 ")
    );
    let lock = net
        .try_lock(short, Duration::from_secs(5))
        .expect("it joined");
    net.release(short, lock);
    let too_long = net.try_lock(short, Duration::from_secs(6));
    assert!(matches!(
        too_long,
        Err(LockError::Invalid(InvalidRequest::TtlTooLong { .. }))
    ));
    net.pass(Duration::from_secs(2));
    net.admin(1, "FLUSHALL");
    net.unreachable(2, true);
    refusal(net.try_lock(short, Duration::from_secs(5)));
    let barred = net.now.saturating_add(BARRIER);
    assert_eq!(net.kept_until(short, 1), Some(barred), "for the longer one");
}

#[test]
fn a_longer_longest_ttl_raises_the_marker_behind_a_barrier() {
    let mut net = trusted(1);
    let long = net.client(builder(3).max_ttl(2 * LONGEST));
    let span = Duration::from_millis(40_402);
    let barred = net.now.saturating_add(span);
    assert_eq!(net.kept_until(long, 0), Some(barred));
    refusal(net.try_lock(0, TTL));
    assert_eq!(net.kept_until(0, 0), Some(barred.saturating_add(GRAIN)));
    assert!(
        net.value(0, MARKER_KEY)
            .expect("joined")
            .contains(" 40000 ")
    );
    net.pass(span.saturating_add(Duration::from_millis(1)));
    let lock = net.try_lock(0, TTL).expect("the barrier is over");
    net.release(0, lock);
}

/// It came first to a node that had been flushed, and wrote a marker that was too short. When it
/// learns of the longer ttl, that node does not count on.
#[test]
fn who_learns_of_a_longer_ttl_raises_the_nodes_that_it_joined_before() {
    let mut net = trusted(1);
    net.admin(1, "FLUSHALL");
    for node in [0, 2] {
        net.unreachable(node, true);
    }
    let short = net.client(builder(3).max_ttl(Duration::from_secs(5)));
    assert!(net.value(1, MARKER_KEY).expect("joined").contains(" 5000 "));
    net.pass(Duration::from_millis(5_053));
    assert_eq!(net.kept_until(short, 1), None);
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    assert!(
        net.value(1, MARKER_KEY)
            .expect("raised")
            .contains(" 20000 ")
    );
    refusal(net.try_lock(short, Duration::from_secs(5)));
}

/// What no guard sees, and its documentation says: the longer ttl was told to a majority, one of that
/// has forgotten it, and who knows only of a shorter one does not reach the others.
#[test]
fn a_longer_ttl_that_was_not_told_to_all_is_not_heard_of_by_all() {
    let mut net = Net::new(3);
    let five = Duration::from_secs(5);
    let short = net.client(builder(3).max_ttl(five));
    net.pump();
    assert_eq!(net.trust_all(short), 3);
    net.pump();
    net.hold(short, 0);
    net.unreachable(2, true);
    let long = net.client(builder(3).max_ttl(LONGEST));
    net.pass(BARRIER.saturating_add(GRAIN));
    let held = net.try_lock(long, LONGEST).expect("two vote");
    net.hold(long, 2);
    net.unreachable(2, false);
    net.admin(1, "FLUSHALL");
    net.pass(Duration::from_secs(3));
    refusal(net.try_lock(short, five));
    net.pass(Duration::from_millis(5_053));
    let lock = net.try_lock(short, five).expect("its own barrier is over");
    assert!(held.is_valid_at(net.now) && lock.is_valid_at(net.now));
}

fn other(result: Result<Lock, LockError>) -> NodeOutcome {
    match result {
        Err(LockError::OtherCluster(report)) => {
            assert_eq!(report.tries(), 1, "it is not tried again");
            outcomes(&report)[0]
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_membership_or_name_gets_no_lock_and_changes_nothing() {
    let mut net = Net::new(4);
    net.client(builder(3).max_ttl(LONGEST));
    net.trust_all(0);
    net.pump();
    let lock = net.try_lock(0, TTL).expect("three vote");
    let before = net.value(0, MARKER_KEY);
    let differs = |name| {
        NodeOutcome::Unusable(Unusable::OtherCluster {
            nodes: 3,
            quorum: 2,
            name,
        })
    };
    let four = net.client(builder(4).max_ttl(LONGEST));
    assert_eq!(other(net.lock(four, TTL)), differs(false));
    let named = net.client(builder(3).max_ttl(LONGEST).cluster("till"));
    assert_eq!(other(net.lock(named, TTL)), differs(true));
    assert_eq!(net.value(0, MARKER_KEY), before);
    let refused = Err(TrustError::OtherCluster);
    assert_eq!(net.trust(named, 0), refused, "nor for an operator");
    net.pass(Duration::from_secs(3));
    assert_eq!(net.value(0, MARKER_KEY), before);
    net.release(0, lock);
    let lock = net.try_lock(0, TTL).expect("who was first goes on");
    net.release(0, lock);
}

/// Two majorities without a node in common would be possible.
#[test]
fn one_node_of_another_cluster_is_enough_and_held_locks_are_extended() {
    let mut net = trusted(1);
    let mut lock = net.try_lock(0, TTL).expect("three vote");
    let marker = net.value(2, MARKER_KEY).expect("joined");
    net.set(2, MARKER_KEY, marker.replace(" 3 2 ", " 5 3 ").as_bytes());
    // Whoever asks first is told, and so is whoever waits.
    net.acquire(0, b"other", TTL);
    net.pump();
    let (_, result) = net.acquired(0);
    drop(result.expect("the first two had decided"));
    let NodeOutcome::Granted = outcomes(&match net.lock(0, TTL) {
        Err(LockError::OtherCluster(report)) => report,
        other => panic!("{other:?}"),
    })[0] else {
        net.extend(0, &mut lock, TTL).expect("the first two");
        // The word stands when the node cannot be reached.
        net.unreachable(2, true);
        net.pass(Duration::from_secs(1));
        assert!(matches!(net.lock(0, TTL), Err(LockError::OtherCluster(_))));
        return;
    };
    panic!("nobody was asked");
}

/// DESIGN 3.4: two holders were measured where a topped-up node was counted in its quarantine.
#[test]
fn an_extension_on_a_node_behind_its_barrier_is_not_counted() {
    let mut net = trusted(2);
    net.pass(Duration::from_secs(2));
    // The first has the lock on the first two nodes.
    net.unreachable(2, true);
    let mut lock = net.try_lock(0, LONGEST).expect("two vote");
    net.unreachable(2, false);
    net.pass(Duration::from_secs(3));
    // The second of them forgets it. It gets a copy again after two extensions.
    net.restart(1, Memory::Lost);
    for _ in 0..3 {
        drop(net.extend(0, &mut lock, LONGEST));
    }
    net.unreachable(0, true);
    // Now the first is away, and only nodes 1 and 2 could say yes. One does not count.
    let result = net.extend(0, &mut lock, LONGEST);
    assert!(
        matches!(result, Err(ExtendError::Unconfirmed(_))),
        "{result:?}"
    );
    assert!(net.try_lock(1, TTL).is_err());
}

#[test]
fn a_confirmation_on_a_node_behind_its_barrier_is_not_counted() {
    let mut net = trusted(1);
    let mut lock = net.try_lock(0, LONGEST).expect("three vote");
    assert!(net.confirm(0, &mut lock).is_ok());
    net.set_px(1, BARRIER_KEY, b"1", BARRIER);
    net.unreachable(2, true);
    let Err(ExtendError::Unconfirmed(report)) = net.confirm(0, &mut lock) else {
        panic!("one vote is no majority")
    };
    assert_eq!(
        until(outcomes(&report)[1]),
        net.now.saturating_add(BARRIER + GRAIN)
    );
}

#[test]
fn a_barrier_without_an_end_is_asked_about_every_second() {
    let mut net = trusted(1);
    net.set(1, BARRIER_KEY, b"1");
    net.unreachable(2, true);
    let second = Duration::from_secs(1);
    for _ in 0..3 {
        refusal(net.try_lock(0, TTL));
        assert_eq!(net.kept_until(0, 1), Some(net.now.saturating_add(second)));
        net.pass(second);
    }
    net.admin(1, "DEL shearline:barrier");
    let lock = net.try_lock(0, TTL).expect("it is gone");
    net.release(0, lock);
}

#[test]
fn a_server_that_forgot_the_script_is_asked_by_its_text_in_the_same_round() {
    let mut net = trusted(1);
    for node in 0..3 {
        net.admin(node, "SCRIPT FLUSH");
    }
    let mut lock = net.try_lock(0, TTL).expect("by the text");
    (0..3).for_each(|node| net.admin(node, "SCRIPT FLUSH"));
    net.extend(0, &mut lock, TTL).expect("by the text");
    net.confirm(0, &mut lock).expect("by the text");
    net.release(0, lock);
    net.is_clean();
}

/// It would come behind the release, and nobody would release it.
#[test]
fn a_set_that_met_no_script_is_not_sent_again_when_its_round_is_over() {
    let mut net = trusted(1);
    net.admin(2, "SCRIPT FLUSH");
    net.hold(0, 2);
    let lock = net.try_lock(0, TTL).expect("two of three");
    net.release(0, lock);
    net.let_through(0, 2);
    assert_eq!(net.value(2, b"k"), None);
    net.is_clean();
}

/// Commands that were written before it had joined again are answered as of the old marker; that
/// does not make it join once more.
#[test]
fn an_answer_under_an_old_marker_says_nothing_of_the_new_one() {
    let mut net = trusted(1);
    net.hold(0, 1);
    net.acquire(0, b"a", TTL);
    net.pump();
    net.admin(1, "FLUSHALL");
    net.acquire(0, b"b", TTL);
    net.acquire(0, b"c", TTL);
    net.pump();
    net.acquire(0, b"d", TTL);
    net.pump();
    let joins = net.joins(1);
    net.let_through(0, 1);
    assert_eq!(
        net.joins(1),
        joins + 1,
        "once, for all that were answered so"
    );
    assert!(net.kept_until(0, 1).is_some());
    // It was joined by a marker that is the same, word for word.
    net.hold(0, 1);
    net.acquire(0, b"e", TTL);
    net.pump();
    net.let_through(0, 1);
    assert_eq!(net.joins(1), joins + 1);
}

#[test]
fn two_clients_that_say_different_things_do_not_rewrite_the_marker_for_ever() {
    let mut net = trusted(1);
    let short = net.client(builder(3).max_ttl(Duration::from_secs(5)));
    let joins: Vec<usize> = (0..3).map(|node| net.joins(node)).collect();
    for client in [0, short, 0, short] {
        let lock = net.try_lock(client, Duration::from_secs(5)).expect("free");
        net.release(client, lock);
    }
    assert_eq!(
        (0..3).map(|node| net.joins(node)).collect::<Vec<_>>(),
        joins
    );
}

#[test]
fn names_of_the_guard_are_no_names_of_locks() {
    let mut net = trusted(1);
    for name in [MARKER_KEY, BARRIER_KEY] {
        let options = LockOptions::new(TTL);
        let request = Request::new(name, &options);
        let result = net.clients[0].engine.acquire(net.now, &request);
        let reserved = InvalidRequest::ReservedResource;
        assert!(matches!(result, Err(LockError::Invalid(error)) if error == reserved));
    }
}

#[test]
fn a_change_of_members_is_a_barrier_on_every_node() {
    let mut net = Net::new(5);
    let old = net.client(builder(3).max_ttl(2 * LONGEST));
    net.clients[old].engine.trust_all(net.now);
    net.pump();
    let held = net.try_lock(old, 2 * LONGEST).expect("three vote");
    let new = net.client(builder(5).max_ttl(LONGEST));
    assert!(matches!(
        net.lock(new, TTL),
        Err(LockError::OtherCluster(_))
    ));

    net.unreachable(4, true);
    net.pass(Duration::from_secs(1));
    let Err(ReinitError::Unready(report)) = net.reinit(new) else {
        panic!("one cannot be reached")
    };
    assert!(matches!(outcomes(&report)[4], NodeOutcome::Unreachable(_)));
    assert!(
        net.value(0, MARKER_KEY)
            .expect("unchanged")
            .contains(" 3 2 ")
    );

    net.unreachable(4, false);
    net.pass(Duration::from_secs(3));
    net.reinit(new).expect("all are there");
    let begin = net.now;
    for node in 0..5 {
        let marker = net.value(node, MARKER_KEY).expect("written");
        assert!(marker.ends_with(" 20000 5 3 0 default"), "{marker}");
    }
    // The old ones had locks of twice the ttl.
    let barred = begin.saturating_add(Duration::from_millis(40_402));
    let told = net.kept_until(new, 0).expect("behind its barrier");
    assert!(barred <= told && told <= barred.saturating_add(2 * GRAIN));
    assert!(matches!(
        net.lock(old, TTL),
        Err(LockError::NoQuorum(_) | LockError::OtherCluster(_))
    ));
    net.pass(Duration::from_secs(1));
    assert!(matches!(
        net.lock(old, TTL),
        Err(LockError::OtherCluster(_))
    ));
    net.pass(Duration::from_millis(40_403));
    assert!(!held.is_valid_at(net.now));
    let lock = net.try_lock(new, TTL).expect("the barrier is over");
    net.release(new, lock);
}

#[test]
fn a_change_of_members_that_not_all_have_heard_is_told_and_can_be_repeated() {
    let mut net = trusted(1);
    net.hold(0, 1);
    net.clients[0]
        .engine
        .reinit(net.now)
        .expect("all are ready");
    net.pump();
    net.pass(Duration::from_secs(1));
    let Some(Event::Reinitialised {
        result: Err(ReinitError::Incomplete(report)),
        ..
    }) = net.event(0)
    else {
        panic!("one has not answered")
    };
    let [granted, late] = [NodeOutcome::Granted, NodeOutcome::TimedOut];
    assert_eq!(outcomes(&report), [granted, late, granted]);
    net.let_through(0, 1);
    net.reinit(0).expect("again");
    net.is_clean();
}

#[test]
fn without_markers_there_is_nothing_to_reinitialise() {
    let mut world = World::ready(1);
    let result = world.engine.reinit(world.now);
    assert!(matches!(result, Err(ReinitError::NotStrict)));
    world.is_clean();
}

/// It is refused by no other name than that of what is missing.
#[test]
fn who_does_not_say_who_it_is_cannot_serve() {
    let names = (0..1).map(|node| format!("node{node}:6379"));
    let strict = Config::builder().nodes(names);
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    world.welcome(0);
    assert_eq!(world.take(0).len(), 7);
    world.say(
        0,
        "-NOPERM no INFO|-NOPERM no INFO|-NOPERM no INFO|-NOPERM no CONFIG|",
    );
    world.say(0, "-NOPERM no SCRIPT|-NOPERM no SCRIPT|-NOPERM no SCRIPT|");
    let state = world.engine.node_state(world.now, id(0));
    assert_eq!(state, NodeState::Unusable(Unusable::NoRunId));
}

/// One node that is asked by hand: its `CONFIG GET`, its `INFO replication`, and what of the two it
/// is asked to join with.
fn durable(config: &str, replication: &str) -> String {
    let strict = Config::builder().node("node0:6379");
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    world.welcome(0);
    world.take(0);
    let bulk = |text: &str| format!("${}|{text}|", text.replace('|', "\r\n").len());
    world.say(0, &bulk("run_id:abc"));
    world.say(0, &bulk(replication));
    world.say(0, &format!("$-1|{config}"));
    world.say(0, "$-1|$-1|$-1|");
    let join = world.take(0).pop().expect("it is asked to join");
    let mut words = join.split(' ').rev();
    words.nth(2).expect("a word").to_string()
}

#[test]
fn only_what_is_shown_to_be_on_disk_is_durable() {
    let map = |[aof, fsync, rewrite]: [&str; 3]| {
        format!(
            "%4|+appendonly|+{aof}|+appendfsync|+{fsync}|+no-appendfsync-on-rewrite|+{rewrite}\
             |+appendfilename|+x|"
        )
    };
    let none = "0".repeat(40);
    let alone = format!("role:master|connected_slaves:0|master_replid2:{none}");
    let always = map(["yes", "always", "no"]);
    assert_eq!(durable(&always, &alone), "1");
    let flat = "*6|+appendonly|+yes|+appendfsync|+always|+no-appendfsync-on-rewrite|+no|";
    assert_eq!(durable(flat, &alone), "1");
    for config in [
        map(["no", "always", "no"]),
        map(["yes", "everysec", "no"]),
        map(["yes", "always", "yes"]),
    ] {
        assert_eq!(durable(&config, &alone), "0", "{config}");
    }
    assert_eq!(durable("-NOPERM no CONFIG|", &alone), "-");
    for replication in [
        alone.replace("slaves:0", "slaves:1"),
        alone.replace("0000", "0001"),
        "role:master".into(),
    ] {
        assert_eq!(durable(&always, &replication), "0", "{replication}");
    }
}
