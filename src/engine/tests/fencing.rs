//! Stories of fencing tokens: the commands to nodes and the meaning of their answers, byte by byte. With the feature
//! `embedded`, also several clients over nodes that run the scripts.

mod floors;
#[cfg(feature = "embedded")]
mod losses;
#[cfg(feature = "embedded")]
mod repairs;
mod reports;
#[cfg(feature = "embedded")]
pub(super) mod stores;

use super::*;

/// By how much the wall clock is ahead of the clock of the stories.
const SINCE_1970: Duration = Duration::from_secs(1_790_000_000);

/// The number that the engine proposes at the beginning of a story.
pub(super) const PROPOSED: u64 = 1_790_000_001_000_000;

fn fenced() -> LockOptions {
    once().fenced()
}

/// Makes three nodes that have greeted, and sets the wall clock.
pub(super) fn timed() -> World {
    timed_of(3)
}

fn timed_of(nodes: usize) -> World {
    let mut world = World::ready(nodes);
    let since = SINCE_1970 + Duration::from_nanos(world.now.as_nanos());
    world.engine.set_wall_clock(world.now, since);
    world
}

/// `node` grants the lock and returns `number`.
fn grants(world: &mut World, node: usize, number: u64) {
    world.say(node, &format!("${}|{number}|", number.to_string().len()));
}

pub(super) fn asked() -> World {
    asked_of(3)
}

fn asked_of(nodes: usize) -> World {
    let mut world = timed_of(nodes);
    world.acquire(&fenced());
    for sent in world.take_all() {
        assert_eq!(sent, [format!("TAKE k {PROPOSED}")]);
    }
    world
}

/// Makes three nodes, of which two have granted the lock with different numbers.
fn asked_by_two() -> World {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    world
}

/// Makes three nodes that have granted a lock with the token 7. It was given back.
fn used() -> World {
    let mut world = asked();
    (0..3).for_each(|node| grants(&mut world, node, 7));
    assert_eq!(token(&mut world), Some(7));
    world.all_say(0..3, ":1|");
    world.is_clean();
    world.take_all();
    world
}

/// Makes an engine that was asked for a token, which no node has given because none has a floor.
fn without_floors() -> World {
    let mut world = timed();
    let round = world.acquire(&fenced());
    world.cancel(round);
    world.take_all();
    world.all_say(0..3, "*3|:-1|:0|:0|");
    world.all_say(0..3, ":0|");
    world.all_say(0..3, "*2|:0|:5|");
    world.take_all();
    world.is_clean();
    world
}

fn token(world: &mut World) -> Option<u64> {
    let lock = world.lock();
    let token = lock.fencing_token();
    world.give_back(lock);
    token
}

#[test]
fn one_round_trip_is_enough_where_a_majority_returns_the_same_number() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    assert!(world.events.is_empty());
    grants(&mut world, 2, 7);
    assert_eq!(token(&mut world), Some(7));
    assert_eq!(world.take(0), ["EVALSHA release"]);
    // The next script is sent by its digest to nodes that have run it, and its number is larger than all that were
    // seen.
    world.all_say(0..1, ":1|");
    world.say(2, ":1|");
    grants(&mut world, 1, PROPOSED + 9);
    world.say(1, ":1|");
    world.is_clean();
    world.take_all();
    world.acquire(&fenced());
    for sent in world.take_all() {
        assert_eq!(sent, [format!("by digest TAKE k {}", PROPOSED + 10)]);
    }
}

/// What a node may say besides a number with which it grants the lock: it has raised its counter to 9, or has lost the
/// lock meanwhile. Or its connection is lost.
const RAISED: u64 = 0;
const MISSED: u64 = 1;
const LOST: u64 = 2;

/// Each line: the number of nodes, their answers in order, the token, and the number of second round trips.
#[test]
fn the_token_is_the_largest_number_that_a_majority_has_counted_to() {
    for (nodes, said, number, second) in [
        (3, &[(0, 7), (1, 9), (2, 9)][..], 9, 0),
        // A grant alone is no vote.
        (3, &[(0, 7), (1, 9), (0, RAISED)], 9, 1),
        (3, &[(1, 9), (0, 7), (2, 8), (0, MISSED), (2, RAISED)], 9, 1),
        (
            3,
            &[(0, 7), (1, 9), (1, LOST), (0, RAISED), (2, 3), (2, RAISED)],
            9,
            1,
        ),
        // The token is seven, although another node has counted further, or has raised its counter.
        (5, &[(0, 7), (1, 9), (2, 7), (3, 7)], 7, 0),
        (5, &[(0, 7), (1, 9), (2, 7), (0, RAISED), (3, 7)], 7, 0),
        (
            5,
            &[(0, 6), (1, 9), (2, 7), (0, RAISED), (3, 7), (3, RAISED)],
            9,
            1,
        ),
        // Two nodes have counted to seven and two to nine, so neither number has a majority.
        (5, &[(0, 7), (1, 9), (2, 7), (0, RAISED), (3, 9)], 9, 1),
    ] {
        let mut world = asked_of(nodes);
        for &(node, number) in said {
            assert!(world.events.is_empty(), "{said:?}");
            match number {
                RAISED => world.exchange(node, ["RAISE k 9"], ":1|"),
                MISSED => world.exchange(node, ["RAISE k 9"], ":-1|"),
                LOST => world.lose(node),
                number => grants(&mut world, node, number),
            }
        }
        assert_eq!(token(&mut world), Some(number), "{said:?}");
        assert_eq!(world.engine.stats().second_round_trips, second, "{said:?}");
    }
}

/// The other nodes answer the second question too late.
#[test]
fn a_lock_stands_on_those_that_have_returned_its_token() {
    let mut world = asked_of(5);
    for (node, number) in [(0, 7), (1, 9), (2, 7)] {
        grants(&mut world, node, number);
    }
    let raise = &["RAISE k 9"][..];
    assert_eq!(world.take_all(), [raise, &[], raise, &[], &[]]);
    grants(&mut world, 3, 7);
    let lock = world.lock();
    let voters = lock.voters().iter().map(|node| node.index());
    assert_eq!(voters.collect::<Vec<_>>(), [0, 2, 3]);
    world.say(0, ":1|");
    world.say(2, ":1|");
    assert_eq!(world.engine.stats().second_round_trips, 0);
    world.give_back(lock);
}

#[test]
fn a_token_that_comes_too_late_is_not_counted() {
    let mut world = timed();
    let ttl = Duration::from_millis(10);
    world.acquire(&LockOptions::new(ttl).tries(1).fenced());
    grants(&mut world, 0, 7);
    world.wait(7 * MS);
    grants(&mut world, 1, 9);
    world.wait(MS);
    world.say(0, ":1|");
    assert_matches!(world.refusal(), LockError::TooSlow(_));
    assert_eq!(world.engine.stats().second_round_trips, 0);
}

/// The node may have given another lock a larger token than this one.
#[test]
fn a_node_that_grants_late_and_more_does_not_count() {
    let mut world = asked_by_two();
    grants(&mut world, 2, 11);
    assert!(world.events.is_empty());
    world.say(0, ":0|");
    let report = world.no_quorum();
    let granted = NodeOutcome::Granted;
    assert_eq!(outcomes(&report), [NodeOutcome::Missing, granted, granted]);
}

/// All nodes are asked for their floors at once: a node without one marks itself in that look.
#[test]
fn a_node_without_a_floor_does_not_count_and_says_so() {
    let mut world = asked();
    let missing = NodeOutcome::Unusable(Unusable::NoFloor);
    world.say(0, "*3|:-1|:0|:0|");
    assert_eq!(world.take(0), ["LOOK run0"]);
    grants(&mut world, 1, 7);
    world.say(2, "*3|:-1|:0|:0|");
    let report = world.no_quorum();
    assert_eq!(outcomes(&report), [missing, NodeOutcome::Granted, missing]);
    assert!(report.needs_operator());
    assert_eq!(world.take(1), ["LOOK run1", "EVALSHA release"]);
    assert_eq!(world.take(2), ["LOOK run2"]);
    world.say(0, "*2|:0|:5|");
    world.say(1, "*2|:1|:7|:1|");
    world.say(2, "*2|:0|:6|");
    world.is_clean();
    assert_eq!(world.state(0), NodeState::Ready);
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
}

#[test]
fn what_a_user_may_not_do_is_named_and_nothing_is_owed() {
    let permission = |command| NodeOutcome::Unusable(Unusable::Permission { command });
    for (said, missing) in [
        ("*3|:-2|:0|:0|", permission("time")),
        ("*3|:-3|:0|:0|", permission("get")),
        ("*3|:-6|:0|:0|", permission("evalsha")),
        (NO_EVAL, permission("eval")),
        (NO_KEY, NodeOutcome::Unusable(Unusable::KeyPermission)),
    ] {
        let mut world = asked();
        world.say(0, said);
        world.say(1, said);
        let report = world.no_quorum();
        assert_eq!(outcomes(&report)[0], missing, "{said}");
        world.say(2, "*3|:2|:0|:0|");
        world.all_say(2..3, ":0|");
        world.is_clean();
        assert_eq!(world.state(0), NodeState::Ready);
        // The next script also checks whether the user may do all of it.
        world.take_all();
        world.acquire(&fenced());
        assert_eq!(world.take(0), [format!("TAKE k {PROPOSED}")]);
    }
}

/// Both nodes have refused the lock for lack of a floor.
#[test]
fn the_floors_are_looked_at_once_for_nodes_that_are_found_without_one_together() {
    let mut world = asked();
    world.say_undrained(0, "*3|:-1|:0|:0|");
    world.say_undrained(1, "*3|:-1|:0|:0|");
    world.drain();
    let sent = world.take(0);
    assert_eq!(sent.len(), 1, "{sent:?}");
}

/// Both scripts were sent by their digest before the first of them was answered.
#[test]
fn two_locks_that_are_asked_for_at_once_both_get_the_text() {
    let mut world = used();
    world.acquire(&fenced());
    world.acquire_of(b"other", &fenced());
    let texts = ["k", "other"].map(|name| format!("TAKE {name} {PROPOSED}"));
    let digests = texts.each_ref().map(|text| format!("by digest {text}"));
    let forgotten = "-NOSCRIPT No matching script.|".repeat(2);
    world.all_exchange(&digests.each_ref().map(|it| &**it), &forgotten);
    world.all_were_sent(&texts.each_ref().map(|it| &**it));
    (0..2).for_each(|node| grants(&mut world, node, 8));
    assert_eq!(token(&mut world), Some(8));
}

/// Takes the lock with a token from the only node, and gives it back. Returns the command that took it.
fn taken_once(world: &mut World) -> String {
    world.acquire(&fenced());
    let sent = world.take(0).pop().expect("it was asked for");
    grants(world, 0, 7);
    assert_eq!(token(world), Some(7));
    world.say(0, ":1|");
    world.take(0);
    sent
}

/// The text is sent together with the check whether the user may release the lock.
#[test]
fn the_first_lock_of_each_connection_gets_the_text() {
    let mut world = timed_of(1);
    for _ in 0..2 {
        let sent = [(); 2].map(|()| taken_once(&mut world));
        assert!(sent[0].starts_with("TAKE k"), "{sent:?}");
        assert!(sent[1].starts_with("by digest TAKE k"), "{sent:?}");
        world.greet_again(0);
        world.say(0, "*2|:1|:7|"); // The node is asked for its floor.
        world.take(0);
    }
}

/// The user of the node may not run scripts by their digests.
#[test]
fn a_node_that_was_taught_no_scripts_gets_the_text_each_time() {
    let mut world = World::new(1);
    world.engine.set_wall_clock(world.now, SINCE_1970);
    world.welcome(0);
    let refused = "-NOPERM this user has no permissions to run the 'script' command|".repeat(4);
    let info = "redis_mode:standalone|run_id:run0|";
    world.say(0, &format!("${}|{info}|$-1|$-1|{refused}", info.len() + 2));
    world.take(0);
    for _ in 0..2 {
        let sent = taken_once(&mut world);
        assert!(sent.starts_with("TAKE k"), "{sent}");
    }
}

/// The server has forgotten its scripts, as the refusal of another script shows.
#[test]
fn a_server_that_has_forgotten_its_scripts_gets_the_text_again() {
    let mut world = timed_of(1);
    taken_once(&mut world);
    world.acquire(&fenced());
    assert_eq!(world.take(0), [format!("by digest TAKE k {PROPOSED}")]);
    grants(&mut world, 0, 8);
    assert_eq!(token(&mut world), Some(8));
    world.exchange(0, ["EVALSHA release"], "-NOSCRIPT No matching script.|");
    let again = [&["SCRIPT LOAD"; 4][..], &["EVAL release"]].concat();
    world.exchange(0, again, &(digests() + ":1|"));
    let sent = taken_once(&mut world);
    assert!(sent.starts_with("TAKE k"), "{sent}");
}

const IN_REPAIR: NodeOutcome = NodeOutcome::Unusable(Unusable::InRepair);

/// The length of a quarantine. The longest ttl is a minute if none is known; a hundredth and 2 ms are added for the
/// clocks.
const QUARANTINE: Duration = Duration::from_millis(60_602);

/// Makes a node 1 that has refused a lock with a token, and other nodes that have floors.
fn in_repair() -> World {
    let mut world = asked();
    grants(&mut world, 0, 7);
    world.say(1, "*3|:-1|:0|:0|");
    grants(&mut world, 2, 7);
    assert_eq!(token(&mut world), Some(7));
    for sent in world.take_all() {
        let look = sent.iter().filter(|sent| sent.starts_with("LOOK"));
        assert_eq!(look.count(), 1, "{sent:?}");
    }
    // The answers to the releases and to the looks, in the order in which they were sent.
    world.say(0, "*2|:1|:7|:1|");
    world.say(1, "*2|:0|:5|");
    world.say(2, "*2|:1|:7|:1|");
    world.is_clean();
    world
}

/// The nodes say which floors they have. Node 1 still has its mark.
fn floors_are_told(world: &mut World) {
    world.say(0, "*2|:1|:8|");
    world.say(2, "*2|:1|:9|");
    world.say(1, "*2|:0|:5|");
}

/// Like [`in_repair`], when the repair is due. All nodes were asked for their floors.
fn repair_due() -> World {
    let mut world = in_repair();
    world.sleep(QUARANTINE + 10 * MS);
    for (node, sent) in world.take_all().iter().enumerate() {
        assert_eq!(*sent, [format!("LOOK run{node}")]);
    }
    world
}

/// Each line: the answers of the three nodes when the repair is due, and the repair that follows.
#[test]
fn what_is_repaired_by_what_the_nodes_say() {
    let marked = "*2|:0|:5|";
    for (said, repaired) in [
        (["*2|:1|:8|", marked, "*2|:1|:9|"], &["REPAIR run1 5 9"][..]),
        // The node was marked again, because it has lost its data meanwhile.
        (["*2|:1|:8|", "*2|:0|:6|", "*2|:1|:9|"], &[]),
        // Another handle has repaired the node.
        (["*2|:1|:8|", "*2|:1|:9|", "*2|:1|:9|"], &[]),
        // Too few of the other nodes have a floor, or say that they have one.
        (["*2|:1|:8|", marked, "*2|:0|:4|"], &[]),
        (["*2|:1|:8|", marked, "-ERR whatever|"], &[]),
        (["*2|:1|:8|", marked, ""], &[]),
        (["*2|:1|:8|", marked, "*2|:1|:9000000000000001|"], &[]),
        (["*2|:1|:8|", marked, "+OK|"], &[]),
    ] {
        let mut world = repair_due();
        for (node, said) in said.iter().enumerate() {
            world.say(node, said);
        }
        world.sleep(60 * MS); // The engine does not wait for a node that says nothing.
        let mut sent = world.take_all().concat();
        sent.retain(|sent| sent.starts_with("REPAIR"));
        assert_eq!(sent, repaired, "{said:?}");
    }
}

/// The floor may have been read before another loss, so answers of a lost connection do not count.
#[test]
fn a_floor_that_was_read_over_a_lost_connection_does_not_count() {
    let mut world = repair_due();
    world.say(0, "*2|:1|:8|");
    world.lose(0);
    world.say(2, "*2|:1|:9|");
    world.say(1, "*2|:0|:5|");
    assert_eq!(world.take(1), NOTHING);
}

/// The node may have other data, although it is the same server.
#[test]
fn a_floor_of_a_node_in_quarantine_does_not_count() {
    let mut world = in_repair();
    world.sleep(QUARANTINE / 2);
    world.acquire(&fenced());
    world.say(2, "-LOADING it loads|");
    world.say(1, "*3|:-1|:0|:0|");
    world.say(0, "*3|:2|:0|:0|");
    world.say(0, ":0|");
    world.take_all();
    world.greet_as(2, "run2", 1_000);
    let begin = world.now;
    let answered = |world: &mut World| {
        let sent = world.take(0);
        if sent.iter().any(|sent| sent.starts_with("LOOK")) {
            world.take(1);
            floors_are_told(world);
        }
        world.take(1) == ["REPAIR run1 5 9"]
    };
    while !answered(&mut world) {
        world.sleep(10 * MS);
        assert!(world.now.saturating_since(begin) < 2 * QUARANTINE);
    }
    let took = world.now.saturating_since(begin);
    assert!(QUARANTINE <= took + 10 * MS, "{took:?}");
    assert!(took < QUARANTINE + Duration::from_secs(6), "{took:?}");
}

/// The engine remembers the repair, so the wait does not begin again.
#[test]
fn a_repair_that_is_owed_survives_reconnections() {
    let mut world = in_repair();
    world.sleep(QUARANTINE / 2);
    world.comes_back_as(1, "run1", 1_000);
    floors_are_told(&mut world);
    world.take_all();
    world.sleep(QUARANTINE / 2 + 10 * MS);
    world.take_all();
    floors_are_told(&mut world);
    assert_eq!(world.take(1), ["REPAIR run1 5 9"]);
}

/// The call waits for the other nodes. It does not report a lasting failure.
#[test]
fn who_is_refused_by_a_node_in_repair_waits_for_the_others() {
    let mut world = in_repair();
    world.lose(2);
    world.acquire(&fenced());
    world.take_all();
    grants(&mut world, 0, 8);
    world.say(1, "*3|:-1|:0|:0|");
    world.sleep_until_event();
    let report = world.no_quorum();
    assert_eq!(outcomes(&report)[1], IN_REPAIR);
    assert!(!report.needs_operator());
    assert!(report.to_string().contains("in repair"), "{report}");
}
