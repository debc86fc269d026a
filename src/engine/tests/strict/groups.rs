//! Stories of markers of another group, and of a change of members.

use super::*;

/// A handle that waits for its next try fails at once, like a handle that is asking the nodes.
#[test]
fn a_call_that_waits_is_refused_when_a_node_is_of_another_group() {
    let mut net = trusted(2);
    let lock = net.try_lock(1, TTL).expect("three vote");
    let patient = LockOptions::new(TTL).wait(Duration::from_secs(60));
    net.asks(0, b"k", &patient);
    assert!(net.event(0).is_none(), "it is held");
    net.mark_as_anothers(2);
    net.reconnect(2);
    net.pass(60 * MS);
    other(net.acquired(0).1);
    net.release(1, lock);
}

/// Returns what the nodes have said to a call that is refused because of another group.
#[track_caller]
fn other(result: Result<Lock, LockError>) -> Vec<NodeOutcome> {
    match result {
        Err(LockError::OtherGroup(report)) => {
            assert!(report.tries() <= 1, "it is not tried again");
            outcomes(&report)
        }
        other => panic!("{other:?}"),
    }
}

/// Asserts that the second node alone is named as one of another group.
#[track_caller]
fn names_another_group(result: Result<Lock, LockError>) {
    use Unusable::OtherGroup;
    let is_other = |it: &_| matches!(it, NodeOutcome::Unusable(OtherGroup { .. }));
    assert_eq!(other(result).iter().position(is_other), Some(1));
}

/// Makes one client of two nodes for which an operator has vouched. It has been connected to them for a while.
fn trusted_pair() -> Net {
    let mut net = Net::new(2);
    net.client(builder(2).max_ttl(LONGEST));
    net.trust_all(0);
    net.pump();
    net.pass(Duration::from_secs(2));
    net
}

/// The reason is not that too few nodes answered: no later try would succeed.
#[test]
fn a_call_with_one_try_is_refused_for_what_its_last_node_says() {
    let mut net = trusted_pair();
    net.mark_as_anothers(1);
    net.hold(0, 1);
    net.reconnect(1);
    net.asks(0, b"k", &once());
    assert!(net.event(0).is_none(), "its greeting is waited for");
    net.let_through(0, 1);
    names_another_group(net.acquired(0).1);
    net.is_clean();
}

#[test]
fn a_call_between_two_tries_is_told_which_node_is_of_another_group() {
    let mut net = trusted_pair();
    net.unreachable(1, true);
    let patient = LockOptions::new(TTL).wait(Duration::from_secs(60));
    net.asks(0, b"k", &patient);
    assert!(net.event(0).is_none(), "it rests");
    net.mark_as_anothers(1);
    net.unreachable(1, false);
    net.pass(Duration::from_secs(3));
    names_another_group(net.acquired(0).1);
}

#[test]
fn another_membership_or_name_gets_no_lock_and_changes_nothing() {
    let mut net = Net::new(4);
    net.client(builder(3).max_ttl(LONGEST));
    net.trust_all(0);
    net.pump();
    let lock = net.try_lock(0, TTL).expect("three vote");
    let before = net.value(0, MARKER_KEY);
    let (nodes, quorum) = (3, 2);
    let differs = |name| Unusable::OtherGroup {
        nodes,
        quorum,
        name,
    };
    let four = net.client(builder(4).max_ttl(LONGEST));
    let said = other(net.lock(four, TTL))[0];
    assert_eq!(said, NodeOutcome::Unusable(differs(false)));
    let named = net.client(builder(3).max_ttl(LONGEST).group("till"));
    let refused = net.lock(named, TTL);
    let said = format!("{:#}", refused.as_ref().expect_err("it has another name"));
    assert_eq!(other(refused)[0], NodeOutcome::Unusable(differs(true)));
    let both = " (its group is `default`; this client has 3 nodes in the group `till`)";
    assert!(said.contains(both), "{said}");
    assert_eq!(net.value(0, MARKER_KEY), before);
    let refused = Err(TrustFault::OtherGroup);
    assert_eq!(net.trust(named, 0), refused, "nor for an operator");
    net.pass(Duration::from_secs(3));
    assert_eq!(net.value(0, MARKER_KEY), before);
    net.release(0, lock);
    let lock = net.try_lock(0, TTL).expect("who was first goes on");
    net.release(0, lock);
}

/// Two majorities without a node in common would be possible.
#[test]
fn one_node_of_another_group_is_enough_and_held_locks_are_extended() {
    let mut net = trusted(1);
    let mut lock = net.try_lock(0, TTL).expect("three vote");
    net.mark_as_anothers(2);
    // The handle that asks first learns of it, and so does one that waits.
    net.acquire(0, b"other", TTL);
    drop(net.acquired(0).1.expect("the first two had decided"));
    let said = other(net.lock(0, TTL));
    assert_ne!(said[0], NodeOutcome::Granted, "nobody was asked");
    net.extend(0, &mut lock, TTL).expect("the first two");
    // The refusal still holds when the node cannot be reached.
    net.unreachable(2, true);
    net.pass(SECOND);
    other(net.lock(0, TTL));
}

#[test]
fn a_change_of_members_is_a_barrier_on_every_node() {
    let mut net = Net::new(5);
    let old = net.client(builder(3).max_ttl(2 * LONGEST));
    net.clients[old].engine.trust_all(net.now);
    net.pump();
    net.acquire(old, b"other", 2 * LONGEST);
    let held = net.acquired(old).1.expect("three vote");
    let new = net.client(builder(5).max_ttl(LONGEST));
    other(net.lock(new, TTL));

    net.unreachable(4, true);
    net.pass(Duration::from_secs(1));
    let Err(OperatorError::NoQuorum(report)) = net.reinit(new) else {
        panic!("one cannot be reached")
    };
    assert_matches!(outcomes(&report)[4], NodeOutcome::Unreachable(_));
    assert!(net.marker(0).contains(" 3 2 "));

    net.unreachable(4, false);
    net.pass(Duration::from_secs(3));
    net.reinit(new).expect("all are there");
    let begin = net.now;
    for node in 0..5 {
        let marker = net.marker(node);
        assert!(marker.ends_with(" 20000 5 3 0 default"), "{marker}");
    }
    // Clients of the old group had locks of twice the ttl.
    let barred = begin.saturating_add(40_402 * MS);
    let told = net.kept_until(new, 0).expect("behind its barrier");
    assert!(barred <= told && told <= barred.saturating_add(2 * GRAIN));
    let refused = net.lock(old, TTL).expect_err("they have joined the others");
    assert_matches!(refused, LockError::NoQuorum(_) | LockError::OtherGroup(_));
    net.pass(Duration::from_secs(1));
    other(net.lock(old, TTL));
    net.pass(40_403 * MS);
    assert!(!held.is_valid_at(net.now));
    let lock = net.try_lock(new, TTL).expect("the barrier is over");
    net.release(new, lock);
}

#[test]
fn a_change_of_members_that_not_all_have_heard_is_told_and_can_be_repeated() {
    let mut net = trusted(1);
    net.hold(0, 1);
    let engine = &mut net.clients[0].engine;
    engine.reinit(net.now).expect("all are ready");
    net.pump();
    net.pass(Duration::from_secs(1));
    let Some(Event::Reinitialised {
        result: Err(OperatorError::Unconfirmed(report)),
        ..
    }) = net.event(0)
    else {
        panic!("one has not answered")
    };
    let [granted, late] = [NodeOutcome::Granted, NodeOutcome::TimedOut];
    assert_eq!(outcomes(&report), [granted, late, granted]);
    assert_eq!(
        format!("{:#}", OperatorError::Unconfirmed(report)),
        "not every node has answered: node0:6379 and node2:6379 each answered; node1:6379 timed out; check them, then \
         call `reinit` again; see the manual (`shearline::manual::troubles`)"
    );
    net.let_through(0, 1);
    net.reinit(0).expect("again");
    net.is_clean();
}

#[test]
fn without_markers_there_is_nothing_to_reinitialise() {
    let mut world = World::ready(1);
    let result = world.engine.reinit(world.now);
    let why = InvalidRequest(RequestFault::NotStrict);
    assert_matches!(result, Err(OperatorError::Invalid(found)) if found == why);
    world.is_clean();
}

#[test]
fn a_reinitialisation_that_is_refused_does_not_end_the_one_that_is_open() {
    let mut net = trusted(1);
    let other = net.client(builder(3).max_ttl(LONGEST).group("other"));
    net.pass(Duration::from_secs(3));
    net.unreachable(0, true);
    let now = net.now;
    let engine = &mut net.clients[other].engine;
    engine.reinit(now).expect("all may be asked");
    while !net.serve(other) {}
    let again = net.clients[other].engine.reinit(now);
    assert_matches!(again, Err(OperatorError::NoQuorum(_)));
    net.pass(Duration::from_secs(3));
    let marker = net.value(1, MARKER_KEY).expect("it has one");
    assert!(marker.ends_with("other"), "the open one goes on: {marker}");
}
