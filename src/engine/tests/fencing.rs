//! Stories of fencing tokens: what is asked of nodes and what their answers are worth, byte by byte; and with
//! the feature `embedded` several clients over nodes that run the scripts.

#[cfg(feature = "embedded")]
mod stores;

use super::*;

/// The clock of the world is this far ahead of that of the stories.
const SINCE_1970: Duration = Duration::from_secs(1_790_000_000);

/// What is proposed at the beginning of a story.
const PROPOSED: u64 = 1_790_000_001_000_000;

fn fenced() -> LockOptions {
    LockOptions::new(TTL).tries(1).fenced()
}

/// Three nodes that have greeted, and the time.
fn timed() -> World {
    let mut world = World::ready(3);
    let since = SINCE_1970 + Duration::from_nanos(world.now.as_nanos());
    world.engine.set_wall_clock(world.now, since);
    world
}

/// `node` takes the lock, and returns this number.
fn grants(world: &mut World, node: usize, number: u64) {
    world.say(node, &format!("*3|:1|:0|:{number}|"));
}

fn asked() -> World {
    let mut world = timed();
    world.acquire(&fenced());
    for sent in world.take_all() {
        assert_eq!(sent, [format!("TAKE k {PROPOSED}")]);
    }
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
    // The next one is sent by its digest where the script was run, and its number is above all that were seen.
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

#[test]
fn a_grant_alone_is_no_vote() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    assert!(world.events.is_empty());
    assert_eq!(
        world.take_all(),
        [vec!["RAISE k 9".to_string()], vec![], vec![]]
    );
    world.say(0, ":1|");
    assert_eq!(token(&mut world), Some(9));
}

#[test]
fn a_third_node_that_returns_the_token_makes_the_second_round_trip_needless() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    grants(&mut world, 2, 9);
    assert_eq!(token(&mut world), Some(9));
}

/// It may have given that number's predecessor to another lock, with a token above this one.
#[test]
fn a_node_that_grants_late_and_more_does_not_count() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    grants(&mut world, 2, 11);
    assert!(world.events.is_empty());
    world.say(0, ":0|");
    let report = world.no_quorum();
    let granted = NodeOutcome::Granted;
    assert_eq!(outcomes(&report), [NodeOutcome::Missing, granted, granted]);
}

#[test]
fn a_node_that_grants_late_and_less_is_asked_to_raise_its_counter() {
    let mut world = asked();
    grants(&mut world, 1, 9);
    grants(&mut world, 0, 7);
    grants(&mut world, 2, 8);
    assert_eq!(world.take(0), ["RAISE k 9"]);
    assert_eq!(world.take(2), ["RAISE k 9"]);
    world.say(0, ":-1|");
    assert!(world.events.is_empty());
    world.say(2, ":1|");
    assert_eq!(token(&mut world), Some(9));
}

#[test]
fn a_node_that_is_lost_after_it_has_granted_does_not_count() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    world.lose(1);
    world.say(0, ":1|");
    assert!(world.events.is_empty());
    grants(&mut world, 2, 3);
    world.take(2);
    world.say(2, ":1|");
    assert_eq!(token(&mut world), Some(9));
}

#[test]
fn the_second_round_trip_counts_against_the_validity() {
    let mut world = asked();
    let begin = world.now;
    grants(&mut world, 0, 7);
    world.wait(2 * MS);
    grants(&mut world, 1, 9);
    world.wait(2 * MS);
    world.say(0, ":1|");
    let lock = world.lock();
    assert_eq!(
        lock.valid_until(),
        begin.saturating_add(Duration::from_millis(9_898))
    );
    world.give_back(lock);
}

/// The answers about the first attempt come in the second, which has a token of its own.
#[test]
fn an_answer_about_an_earlier_attempt_is_not_counted() {
    let mut world = timed();
    let first = world.acquire(&fenced());
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 9);
    world.cancel(first);
    world.acquire(&fenced());
    world.take_all();
    world.say(0, ":1|"); // It has raised its counter for the first,
    world.say(0, ":1|"); // and released it.
    grants(&mut world, 2, 9);
    world.say(2, ":1|");
    assert!(world.events.is_empty());
    grants(&mut world, 2, 20);
    grants(&mut world, 0, 19);
    assert!(world.events.is_empty());
    assert_eq!(world.take(0), ["RAISE k 20"]);
    world.say(0, ":1|");
    assert_eq!(token(&mut world), Some(20));
}

#[test]
fn a_node_without_a_floor_does_not_count_and_says_so() {
    let mut world = asked();
    let missing = NodeOutcome::Unusable(Unusable::NoFloor);
    world.say(0, "*3|:-1|:0|:0|");
    grants(&mut world, 1, 7);
    world.say(2, "*3|:-1|:0|:0|");
    let report = world.no_quorum();
    assert_eq!(outcomes(&report), [missing, NodeOutcome::Pending, missing]);
    assert!(report.needs_operator());
    assert_eq!(world.take(1), ["EVALSHA release"]);
    assert_eq!(world.take(0), NOTHING);
    world.say(1, ":1|");
    world.is_clean();
    assert_eq!(world.state(0), NodeState::Ready);
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
}

#[test]
fn what_a_user_may_not_do_is_named_and_nothing_is_owed() {
    for (said, missing) in [
        ("*3|:-2|:0|:0|", Unusable::Permission { command: "get" }),
        ("*3|:-5|:0|:0|", Unusable::Permission { command: "evalsha" }),
        (
            "-NOPERM this user has no permissions to run the 'eval' command|",
            Unusable::Permission { command: "eval" },
        ),
        (
            "-NOPERM No permissions to access a key|",
            Unusable::KeyPermission,
        ),
    ] {
        let mut world = asked();
        world.say(0, said);
        world.say(1, said);
        let report = world.no_quorum();
        assert_eq!(
            outcomes(&report)[0],
            NodeOutcome::Unusable(missing),
            "{said}"
        );
        world.say(2, "*3|:2|:0|:0|");
        world.all_say(2..3, ":0|");
        world.is_clean();
        assert_eq!(world.state(0), NodeState::Ready);
    }
}

#[test]
fn a_node_that_has_forgotten_the_script_gets_its_text() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 7);
    grants(&mut world, 2, 7);
    assert_eq!(token(&mut world), Some(7));
    world.all_say(0..3, ":1|");
    world.take_all();
    world.acquire(&fenced());
    assert_eq!(world.take(0), [format!("by digest TAKE k {PROPOSED}")]);
    world.say(0, "-NOSCRIPT No matching script.|");
    assert_eq!(world.take(0), [format!("TAKE k {PROPOSED}")]);
    grants(&mut world, 0, 8);
    grants(&mut world, 1, 8);
    assert_eq!(token(&mut world), Some(8));
}

#[test]
fn a_number_that_no_script_gives_ends_the_connection() {
    for answer in [
        "*3|:1|:0|:0|",
        "*3|:1|:0|:-1|",
        "*3|:1|:0|:9000000000000001|",
        "*3|:0|:0|:1|",
        ":1|",
        "+OK|",
    ] {
        let mut world = asked();
        world.say(0, answer);
        assert_ne!(world.links[0], "up", "{answer}");
    }
}

#[test]
fn who_waits_for_a_lock_of_this_engine_gets_a_token_too() {
    let mut world = asked();
    grants(&mut world, 0, 7);
    grants(&mut world, 1, 7);
    grants(&mut world, 2, 7);
    let held = world.lock();
    world.acquire(&LockOptions::new(TTL).wait(TTL).fenced());
    world.take_all();
    world.give_back(held);
    assert_eq!(
        world.take(0),
        ["EVALSHA release", &format!("by digest TAKE k {PROPOSED}")]
    );
    world.all_say(0..3, ":1|");
    grants(&mut world, 0, 8);
    grants(&mut world, 1, 8);
    assert_eq!(token(&mut world), Some(8));
}

#[test]
fn without_scripts_there_is_no_token() {
    let mut world = World::with(named(1).without_scripts(true));
    let (now, options) = (world.now, fenced());
    let refused = world.engine.acquire(now, &Request::new(b"k", &options));
    let refused = refused.expect_err("it is not begun");
    assert!(matches!(
        refused,
        LockError::Invalid(InvalidRequest::FencedWithoutScripts)
    ));
}

/// The operator vouches for what the engine has seen, and for the time.
#[test]
fn a_server_that_is_trusted_gets_a_floor() {
    let mut world = timed();
    // One who uses no tokens says nothing about them.
    assert_eq!(world.engine.trust(world.now, id(1), "run1"), Ok(false));
    world.drain();
    assert_eq!(world.take(1), NOTHING);
    let round = world.acquire(&fenced());
    world.cancel(round);
    world.take_all();
    world.all_say(0..3, "*3|:-1|:0|:0|");
    world.all_say(0..3, ":0|");
    world.take_all();
    assert_eq!(world.engine.trust(world.now, id(1), "run1"), Ok(false));
    world.drain();
    let proposed = PROPOSED + 1_000_000;
    assert_eq!(world.take(1), [format!("FLOOR run1 0 {proposed}")]);
    world.say(1, "-ERR whatever|");
    world.is_clean();
}
