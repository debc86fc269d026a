//! Stories of locks that are broken by a client that does not hold them.

use super::breaking::{Breaking, Broken};
use super::inspect::{ONE, OTHER};
use super::inspection::Inspection;
use super::*;
use crate::engine::operators::OperatorError;

impl World {
    /// Returns the inspection when all nodes have `token` for 9 s.
    fn seen(&mut self, token: &str) -> Inspection {
        self.inspect();
        (0..self.sent.len()).for_each(|node| self.has(node, token, 9_000));
        self.inspected()
    }

    fn break_as(&mut self, seen: &Inspection, how: Breaking) -> Result<RoundId, OperatorError> {
        let round = self.engine.break_lock(self.now, b"k", seen, how);
        self.drain();
        round
    }

    /// Breaks the lock that was `seen`. All nodes are asked.
    fn break_lock(&mut self, seen: &Inspection) {
        self.break_as(seen, Breaking::KeepOut).expect("asked");
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), ["EVAL overwrite"], "node {node}");
        }
    }

    #[track_caller]
    fn broken(&mut self) -> Result<Broken, OperatorError> {
        match self.event() {
            Event::Broken { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a word for the result of a break.
fn word(result: &Result<Broken, OperatorError>) -> &'static str {
    match result {
        Ok(_) => "broken",
        Err(OperatorError::Changed(_)) => "changed",
        Err(OperatorError::Unconfirmed(_)) => "unconfirmed",
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_is_broken_if_a_majority_has_replaced_its_token() {
    const WRONG: &str = "-WRONGTYPE Operation against a key|";
    const FULL: &str = "-OOM command not allowed|";
    for (answers, outcome) in [
        ([":9001|", ":5001|", ":7001|"], "broken"),
        ([":9001|", ":0|", ":7001|"], "broken"),
        ([":9001|", FULL, ":7001|"], "broken"),
        ([":9001|", "", ":7001|"], "broken"),
        ([":0|", ":0|", ":7001|"], "changed"),
        ([":-1|", ":0|", ":7001|"], "changed"),
        ([":-1|", WRONG, ""], "changed"),
        ([":9001|", FULL, FULL], "unconfirmed"),
        ([":9001|", ":0|", FULL], "unconfirmed"),
        ([":9001|", "", ""], "unconfirmed"),
        (["", "", ""], "unconfirmed"),
    ] {
        let mut world = World::ready(3);
        let seen = world.seen(ONE);
        world.break_lock(&seen);
        for (node, answer) in answers.iter().enumerate() {
            world.say(node, answer);
        }
        assert_eq!(
            world.events.is_empty(),
            answers.contains(&""),
            "all are heard"
        );
        world.pass(Duration::from_secs(1));
        let result = world.broken();
        assert_eq!(word(&result), outcome, "{answers:?}");
        if let Ok(broken) = result {
            let nodes = answers.iter().filter(|answer| answer.ends_with("001|"));
            assert_eq!(broken.nodes, nodes.count());
            assert_eq!(broken.free_in, Duration::from_millis(9_000));
            assert_eq!(&*broken.holder.owner, &ONE.as_bytes()[20..]);
        }
    }
}

#[test]
fn what_nobody_holds_and_what_would_never_be_free_is_not_broken() {
    let mut world = World::ready(3);
    world.inspect();
    (0..3).for_each(|node| world.has_none(node));
    let free = world.inspected();
    world.inspect();
    world.has(0, ONE, 9_000);
    world.has(1, OTHER, 9_000);
    world.has_none(2);
    let split = world.inspected();
    for seen in [&free, &split] {
        for how in [Breaking::KeepOut, Breaking::AtOnce] {
            assert_matches!(world.break_as(seen, how), Err(OperatorError::NotHeld(_)));
        }
    }
    world.inspect();
    (0..3).for_each(|node| world.has(node, ONE, 9_000_000_000_000_000));
    let endless = world.inspected();
    let refused = world.break_as(&endless, Breaking::KeepOut);
    assert_matches!(refused, Err(OperatorError::NotOurs(_)));
    assert_eq!(world.take_all(), vec![Vec::<String>::new(); 3]);

    world.break_as(&endless, Breaking::AtOnce).expect("asked");
    assert_eq!(world.take(0), ["EVALSHA release"]);
    world.all_say(0..3, ":1|");
    assert!(world.unlocked().is_ok());
}

/// The answer of a node shows only that the value is longer than a token.
#[test]
fn what_is_longer_than_a_token_is_not_broken() {
    for (len, is_token) in [(84, true), (85, false), (90, false)] {
        for how in [Breaking::KeepOut, Breaking::AtOnce] {
            let mut world = World::ready(3);
            let seen = world.seen(&"x".repeat(len));
            match world.break_as(&seen, how) {
                Ok(_) => assert!(is_token, "{len}"),
                Err(error) => {
                    assert_matches!(error, OperatorError::NotOurs(_));
                    assert!(!is_token, "{len}");
                }
            }
            assert_eq!(world.take_all() != vec![Vec::<String>::new(); 3], is_token);
        }
    }
}

/// The deletion stays a debt to a node that is away for as long as the node may have the key, and for at most a minute
/// more.
#[test]
fn a_deletion_is_owed_for_as_long_as_the_keys_live() {
    let mut world = World::ready(3);
    world.inspect();
    (0..3).for_each(|node| world.has(node, ONE, 3_600_000));
    let seen = world.inspected();
    let gone = world.now.saturating_add(3_600 * SECOND);
    world.break_as(&seen, Breaking::AtOnce).expect("asked");
    world.lose(2);
    world.all_say(0..2, ":1|");
    assert!(world.unlocked().is_ok());
    while world.engine.load().owed != 0 {
        assert!(world.now < gone.saturating_add(61 * SECOND));
        if world.links[2] == "connecting" {
            world.lose(2);
        }
        world.sleep_until_timer();
    }
    assert!(gone <= world.now, "{:?} < {gone:?}", world.now);
}

#[test]
fn a_node_that_has_done_it_counts_also_if_its_connection_is_lost_then() {
    let mut world = World::ready(3);
    let seen = world.seen(ONE);
    world.break_lock(&seen);
    world.say(0, ":9001|");
    world.lose(0);
    world.say(1, ":9001|");
    world.lose(2);
    assert_eq!(world.broken().expect("a majority has done it").nodes, 2);
}

/// The node was away when the lock was broken, and may have forgotten other locks since.
#[test]
fn a_node_that_comes_back_in_quarantine_does_it_and_does_not_count() {
    let mut world = World::ready(3);
    let seen = world.seen(ONE);
    world.lose(2);
    world.welcome_again(2);
    world.take_all();
    world.break_as(&seen, Breaking::KeepOut).expect("asked");
    world.say(0, ":9001|");
    world.finish_as(2, "another", 1);
    assert!(world.take(2).contains(&"EVAL overwrite".into()));
    world.say(2, ":9001|");
    world.say(1, "-ERR x|");
    assert_eq!(word(&world.broken()), "unconfirmed");
}

#[test]
fn a_node_that_runs_no_scripts_does_it_by_a_transaction() {
    const READING: [&str; 5] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k"];
    let watched = |token: &str| format!("+OK|*0|+OK|${}|{token}|:7000|", token.len());
    let other = crate::resource::broken(crate::Token::new(&ONE.as_bytes()[..20]));
    let other = core::str::from_utf8(&other).expect("text stays text");
    let writing = ["MULTI", &format!("SET k {other} XX KEEPTTL"), "EXEC"];
    for (executed, outcome) in [
        ("*1|+OK|", "broken"),
        ("*1|$-1|", "changed"), // The lock has ended meanwhile.
        ("*1|-OOM command not allowed|", "unconfirmed"),
    ] {
        let mut world = World::ready(1);
        let seen = world.seen(&ONE[..20]);
        world.break_lock(&seen);
        world.say(0, NO_EVAL);
        assert_eq!(world.take(0), READING);
        world.say(0, &watched(&ONE[..20]));
        assert_eq!(world.take(0), writing);
        // Another client has changed the key meanwhile, maybe by extending the lock, so the key is read again.
        world.say(0, "+OK|+QUEUED|_|");
        assert_eq!(world.take(0), READING);
        world.say(0, &watched(&ONE[..20]));
        assert_eq!(world.take(0), writing);
        world.say(0, &format!("+OK|+QUEUED|{executed}"));
        assert_eq!(word(&world.broken()), outcome, "{executed}");
    }
    // A lock that was broken before is broken again. The key of another client and a key without an expiry are left
    // alone.
    let endless = watched(&ONE[..20]).replace(":7000|", ":-1|");
    for (read, outcome) in [
        (watched(other), "broken"),
        (watched(OTHER), "changed"),
        (endless, "changed"),
    ] {
        let mut world = World::ready(1);
        let seen = world.seen(&ONE[..20]);
        world.break_lock(&seen);
        world.say(0, NO_EVAL);
        world.say(0, &read);
        world.say(0, "+OK|+QUEUED|*1|+OK|");
        assert_eq!(word(&world.broken()), outcome, "{read}");
        world.take_all();
    }
}

/// The holder keeps its lock, and other clients want it.
#[cfg(feature = "embedded")]
#[test]
fn others_are_kept_out_until_the_holder_must_have_stopped() {
    use super::net::{Net, builder};
    use crate::RestartGuard;
    const TTL: Duration = Duration::from_secs(10);
    let guards = [RestartGuard::Observed, RestartGuard::Strict];
    let ways = [(Breaking::KeepOut, false), (Breaking::AtOnce, true)];
    let ways = guards
        .iter()
        .flat_map(|guard| ways.map(|way| (*guard, way)));
    for (guard, (how, is_free)) in ways {
        let mut net = Net::new(3);
        let client = || builder(3).restart_guard(guard);
        let (holder, other) = (net.client(client()), net.client(client()));
        net.pass(Duration::from_secs(62)); // The barriers end.
        let mut lock = net.try_lock(holder, TTL).expect("free");
        net.pass(Duration::from_secs(3));
        let seen = net.inspect(other).expect("all answer");
        // The holder has extended the lock since then, and believes that it is valid.
        net.extend(holder, &mut lock, TTL).expect("held");
        let believed = lock.valid_until();
        let now = net.now;
        let asked = net.clients[other].engine.break_lock(now, b"k", &seen, how);
        asked.expect("asked");
        net.pump();
        let told = net.event(other).expect("all nodes have answered");
        let broken = breaking::finish(told, &seen).expect("all have done it");
        assert!(2 <= broken.nodes, "{broken:?}");
        assert_eq!(net.try_lock(other, TTL).is_ok(), is_free);
        let free_at = now.saturating_add(broken.free_in);
        assert_eq!(believed <= free_at, !is_free, "{how:?}");

        let lost = net.extend(holder, &mut lock, TTL);
        assert_matches!(lost, Err(ExtendError::Lost(_)));
        if !is_free {
            net.pass(broken.free_in - Duration::from_millis(1));
            assert!(net.try_lock(other, TTL).is_err(), "not yet");
            net.pass(Duration::from_millis(100));
            let _lock = net.try_lock(other, TTL).expect("free");
        }
    }
}

/// A token on such a key would keep other clients out for ever. When the other keys expire, the lock becomes free.
#[cfg(feature = "embedded")]
#[test]
fn a_key_that_never_ends_is_left_alone() {
    use super::net::{Net, builder};
    use crate::RestartGuard;
    const TTL: Duration = Duration::from_secs(10);
    for is_without_scripts in [false, true] {
        let mut net = Net::new(3);
        let client = net.client(
            builder(3)
                .restart_guard(RestartGuard::Observed)
                .without_scripts(is_without_scripts),
        );
        net.pass(Duration::from_secs(62));
        let lock = net.try_lock(client, TTL).expect("free");
        net.set(0, b"k", lock.token().as_bytes());
        let before: Vec<_> = (0..3).map(|node| net.value(node, b"k")).collect();
        let seen = net.inspect(client).expect("all answer");
        let now = net.now;
        let asked = net.clients[client]
            .engine
            .break_lock(now, b"k", &seen, Breaking::KeepOut);
        asked.expect("asked");
        net.pump();
        let told = net.event(client).expect("all nodes have answered");
        let broken = breaking::finish(told, &seen).expect("two have done it");
        assert!(
            broken.nodes == 2 && broken.free_in <= TTL,
            "{is_without_scripts}: {broken:?}"
        );
        assert_eq!(net.value(0, b"k"), before[0]);
        assert_ne!(net.value(1, b"k"), before[1]);
    }
}
