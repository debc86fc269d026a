//! Stories of floors: when the engine looks at them, what an answer about a floor means, and which floor an operator
//! gives.

use super::*;
use crate::config::RestartGuard;
use crate::error::{ServerError, TrustFault};

/// The handshake of this node was not done when the others were asked.
#[test]
fn a_node_that_comes_while_the_floors_are_looked_at_is_looked_at_too() {
    let mut world = used();
    world.comes_back_as(0, "run0", 1_000);
    for (node, sent) in world.take_all().iter().enumerate() {
        assert_eq!(*sent, [format!("LOOK run{node}")]);
    }
    world.comes_back_as(2, "run9", 1_000);
    assert_eq!(world.take(2), NOTHING);
    world.all_say(0..2, "*2|:1|:7|");
    for (node, run_id) in [(0, "run0"), (1, "run1"), (2, "run9")] {
        assert_eq!(world.take(node), [format!("LOOK {run_id}")]);
    }
}

/// The second repair finds no mark any more, because the first one has repaired the floor.
#[test]
fn a_repair_that_was_sent_twice_is_over() {
    let mut world = repair_due();
    let repair = ["REPAIR run1 5 9"];
    floors_are_told(&mut world);
    assert_eq!(world.take(1), repair);
    world.comes_back_as(0, "run0", 1_000);
    world.say(0, "*2|:1|:8|");
    world.say(2, "*2|:1|:9|");
    world.take_all();
    world.sleep(60 * MS); // The engine does not wait for this node.
    world.exchange(1, repair, ":1|*2|:1|:9|:0|");
    world.is_clean();
    world.acquire(&fenced());
    world.say(0, "*3|:-1|:0|:0|");
    world.sleep_until_event();
    assert_eq!(outcomes(&world.no_quorum())[0], IN_REPAIR);
}

/// Clocks were ahead when these floors were written, and are right now. So the present time is lower than the floors.
#[test]
fn a_floor_that_is_given_is_as_high_as_those_of_the_others() {
    const HIGH: u64 = PROPOSED + 3_600_000_000;
    let mut world = in_repair();
    world.comes_back_as(0, "run0", 1_000);
    world.say(0, &format!("*2|:1|:{HIGH}|"));
    world.say(1, "*2|:0|:5|");
    world.say(2, "*2|:1|:9|");
    world.take_all();
    trusts(&mut world);
    let time = SINCE_1970.as_micros() as u64 + world.now.as_nanos() / 1_000;
    let proposed = time + 1_000_000;
    assert_eq!(world.take(1), [format!("FLOOR run1 {HIGH} {proposed}")]);
    // The floor is not used as a proposal, because the counters are lower.
    world.say(1, ":1|");
    world.acquire(&fenced());
    assert_eq!(world.take(2), [format!("by digest TAKE k {time}")]);
}

/// An operator vouches for node 1.
#[track_caller]
fn trusts(world: &mut World) {
    assert_eq!(world.trust(1, "run1"), Ok(false));
    world.drain();
}

// ----- floors that an operator gives --------------------------------------------------------

/// Returns which nodes did not get a floor, and why, if that was reported.
fn told(world: &mut World) -> Option<Vec<(NodeId, NodeOutcome)>> {
    match world.events.pop() {
        Some(Event::FloorsGiven { without, .. }) => Some(without),
        None => None,
        Some(other) => panic!("{other:?}"),
    }
}

/// Returns which nodes lack a floor, as their statuses say.
fn lacking(world: &World) -> Vec<bool> {
    let statuses = world.engine.node_statuses(world.now);
    statuses.map(|status| status.lacks_floor).collect()
}

/// The operator vouches for the numbers that the engine has seen, and for the time. Each line: the answer of the node,
/// and the reason why it did not get a floor.
#[test]
fn who_trusts_a_node_is_told_whether_it_has_got_a_floor() {
    let floor = format!("FLOOR run1 0 {}", PROPOSED + 1_000_000);
    let refused = |code| NodeOutcome::Refused(ServerError::from_line(code));
    let no_eval = Unusable::Permission { command: "eval" };
    for (said, why) in [
        (":1|", None),
        ("-OOM command not allowed.|", Some(refused(b"OOM"))),
        // Another program has written to the key of the floor.
        ("-WRONGTYPE Operation|", Some(refused(b"WRONGTYPE"))),
        (NO_KEY, Some(NodeOutcome::Unusable(Unusable::KeyPermission))),
        (NO_EVAL, Some(NodeOutcome::Unusable(no_eval))),
    ] {
        let mut world = without_floors();
        assert_eq!(lacking(&world), [true; 3]);
        trusts(&mut world);
        assert_eq!(world.take(1), [&*floor]);
        assert_eq!(told(&mut world), None, "it has not answered");
        world.say(1, said);
        assert_eq!(lacking(&world), [true, why.is_some(), true]);
        let why = why.map(|why| (id(1), why));
        assert_eq!(told(&mut world), Some(Vec::from_iter(why)), "{said}");
        assert_eq!(world.state(1), NodeState::Ready);
        world.is_clean();
    }
}

#[test]
fn a_floor_is_not_given_where_the_connection_is_lost_before_the_answer() {
    let mut world = without_floors();
    trusts(&mut world);
    world.lose_for(1, LinkFault::Reset);
    let lost = NodeOutcome::Unreachable(LinkFault::Reset.into());
    assert_eq!(told(&mut world), Some(vec![(id(1), lost)]));
}

#[test]
fn a_floor_is_waited_for_as_long_as_for_a_connection() {
    let mut world = without_floors();
    let begun = world.now;
    trusts(&mut world);
    world.sleep_until_event();
    let without = told(&mut world).expect("its time is up");
    assert_matches!(without[..], [(node, _)] if node == id(1));
    assert!(world.now.saturating_since(begun) <= Duration::from_millis(1_002));
    // The answer may come late.
    world.say(1, ":1|");
    assert_eq!(told(&mut world), None);
}

/// The node is not trusted either.
#[test]
fn a_node_that_is_not_connected_is_given_no_floor() {
    let mut world = without_floors();
    world.lose(1);
    let away = Err(TrustFault::NotConnected);
    assert_eq!(world.trust(1, "run1"), away);
    world.drain();
    assert_eq!(told(&mut world), None);
    // All connected servers are named at once; those without a floor are listed.
    let (trusted, _) = world.engine.trust_all(world.now);
    assert_eq!(trusted, [(id(0), "run0".into()), (id(2), "run2".into())]);
    world.drain();
    world.say(2, ":1|");
    assert_eq!(told(&mut world), None);
    world.say(0, "-ERR whatever|");
    let refused = NodeOutcome::Refused(ServerError::from_line(b"ERR"));
    assert_eq!(told(&mut world), Some(vec![(id(0), refused)]));
    world.is_clean();
}

/// Other handles get tokens then. For plain locks the user of the nodes needs no permission to store a floor.
#[test]
fn an_engine_that_uses_no_tokens_gives_floors_and_needs_none() {
    for said in [":1|", NO_KEY] {
        let mut world = timed();
        assert_eq!(world.engine.trust_all(world.now).0.len(), 3);
        world.drain();
        for (node, sent) in world.take_all().concat().iter().enumerate() {
            assert!(sent.starts_with(&format!("FLOOR run{node}")), "{sent}");
        }
        assert_eq!(told(&mut world), None, "they have not answered");
        world.all_say(0..3, said);
        assert_eq!(told(&mut world), Some(Vec::new()));
        let result = world.lock_on(0..3);
        assert!(result.is_valid_at(world.now));
    }
}

/// With markers, an operator may trust the node before its handshake is done.
#[test]
fn a_node_that_is_trusted_in_its_handshake_gets_its_floor_behind_it() {
    let strict = named(3).max_ttl(Duration::from_secs(20));
    let mut world = World::with(strict.restart_guard(RestartGuard::Strict));
    let round = world.acquire(&fenced());
    world.cancel(round);
    world.welcome(0);
    world.take(0);
    let told_in_part = "$10|run_id:abc|$-1|$-1|-NOPERM no CONFIG|$-1|$-1|$-1|$-1|";
    world.say(0, told_in_part);
    world.take(0); // The node is asked to join.
    assert_eq!(world.trust(0, "abc"), Ok(true));
    world.drain();
    let sent = world.take(0);
    assert_eq!(sent.len(), 1, "it is asked to join once more: {sent:?}");
    assert_eq!(told(&mut world), None);
    let joined = "*3|:1|:0|$25|1 abc 20000 3 2 1 default|";
    world.say(0, &[joined, joined].concat());
    assert_eq!(world.state(0), NodeState::Ready);
    let sent = world.take(0);
    let gives = |sent: &String| sent.starts_with("FLOOR abc");
    assert!(sent.iter().any(gives), "{sent:?}");
    assert_eq!(told(&mut world), None, "it has not answered");
    for sent in sent {
        let is_floor = sent.starts_with("FLOOR");
        world.say(0, if is_floor { ":1|" } else { "*2|:1|:7|" });
    }
    assert_eq!(told(&mut world), Some(vec![]));
}
