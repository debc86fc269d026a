//! Stories of locks that are broken by a client that does not hold them.

use super::breaking::{Breaking, Broken};
use super::inspect::{NONE, ONE, OTHER, having};
use super::inspection::Inspection;
use super::*;
use crate::engine::operators::OperatorError;

impl World {
    /// Returns the inspection when all nodes have `token` for 9 s.
    fn seen(&mut self, token: &str) -> Inspection {
        self.seen_for(token, 9_000)
    }

    /// Returns the inspection when all nodes have `token` for this many milliseconds.
    fn seen_for(&mut self, token: &str, millis: u64) -> Inspection {
        let answer = having(token, millis);
        self.answered(&vec![&*answer; self.sent.len()])
    }

    fn break_as(&mut self, seen: &Inspection, how: Breaking) -> Result<RoundId, OperatorError> {
        let round = self.engine.break_lock(self.now, b"k", seen, how);
        self.drain();
        round
    }

    /// Breaks the lock that was `seen`. All nodes are asked.
    fn break_lock(&mut self, seen: &Inspection) {
        self.break_as(seen, Breaking::KeepOut).expect("asked");
        self.all_were_sent(&["EVAL overwrite"]);
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
        let waits = answers.contains(&"");
        assert_eq!(world.events.is_empty(), waits, "all are heard");
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
    let free = world.answered(&[NONE; 3]);
    let [one, other] = [ONE, OTHER].map(|token| having(token, 9_000));
    let split = world.answered(&[&one, &other, NONE]);
    for seen in [&free, &split] {
        for how in [Breaking::KeepOut, Breaking::AtOnce] {
            assert_matches!(world.break_as(seen, how), Err(OperatorError::NotHeld(_)));
        }
    }
    let endless = world.seen_for(ONE, 9_000_000_000_000_000);
    let refused = world.break_as(&endless, Breaking::KeepOut);
    assert_matches!(refused, Err(OperatorError::NotOurs(_)));
    // `PERSIST` may have removed the expiry of a lock of this library.
    let said = format!("{:#}", refused.expect_err("refused"));
    let why = "have no expiry, because another program wrote them or removed their expiry, so";
    assert!(said.contains(why), "{said}");
    assert_eq!(world.take_all().concat(), NOTHING);
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
            let asked = world.break_as(&seen, how);
            assert_eq!(asked.is_ok(), is_token, "{len}");
            assert!(is_token || matches!(asked, Err(OperatorError::NotOurs(_))));
            assert_eq!(world.take_all().concat().is_empty(), !is_token);
        }
    }
}

/// The deletion stays a debt to a node that is away for as long as the node may have the key, and for at most a minute
/// more.
#[test]
fn a_deletion_is_owed_for_as_long_as_the_keys_live() {
    let mut world = World::ready(3);
    let seen = world.seen_for(ONE, 3_600_000);
    let gone = world.now.saturating_add(3_600 * SECOND);
    world.break_as(&seen, Breaking::AtOnce).expect("asked");
    world.lose(2);
    world.all_say(0..2, ":1|");
    assert!(world.unlocked().is_ok());
    world.owes_until(gone, 61 * SECOND);
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

/// A lock that was broken before is broken again. The key of another client and a key without an expiry are left alone.
#[test]
fn a_node_that_runs_no_scripts_does_it_by_a_transaction() {
    const READING: [&str; 5] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k"];
    let watched = |token: &str| format!("+OK|*0|+OK|${}|{token}|:7000|", token.len());
    let other = crate::resource::broken(crate::Token::new(&ONE.as_bytes()[..20]));
    let other = core::str::from_utf8(&other).expect("text stays text");
    let writing = ["MULTI", &format!("SET k {other} XX KEEPTTL"), "EXEC"];
    let seen_before = watched(&ONE[..20]);
    let endless = seen_before.replace(":7000|", ":-1|");
    for (read, executed, outcome) in [
        (&seen_before, "*1|+OK|", "broken"),
        (&seen_before, "*1|$-1|", "changed"), // The lock has ended meanwhile.
        (&seen_before, "*1|-OOM command not allowed|", "unconfirmed"),
        (&watched(other), "*1|+OK|", "broken"),
        (&watched(OTHER), "", "changed"),
        (&endless, "", "changed"),
    ] {
        let mut world = World::ready(1);
        let seen = world.seen(&ONE[..20]);
        world.break_lock(&seen);
        world.say(0, NO_EVAL);
        world.exchange(0, READING, read);
        if !executed.is_empty() {
            // Another client has changed the key meanwhile, maybe by extending the lock, so the key is read again.
            world.exchange(0, writing, "+OK|+QUEUED|_|");
            world.exchange(0, READING, read);
            world.exchange(0, writing, &format!("+OK|+QUEUED|{executed}"));
        }
        assert_eq!(word(&world.broken()), outcome, "{read} {executed}");
        assert_eq!(world.take(0), NOTHING);
    }
}

#[cfg(feature = "embedded")]
mod of_servers {
    use super::super::net::{Net, builder};
    use super::*;
    use crate::RestartGuard;

    /// Makes three nodes and `clients` clients, after the barriers.
    fn net(clients: usize, guard: RestartGuard, is_without_scripts: bool) -> Net {
        let mut net = Net::new(3);
        let builder = builder(3).restart_guard(guard);
        let builder = builder.without_scripts(is_without_scripts);
        for _ in 0..clients {
            net.client(builder.clone());
        }
        net.pass(62 * SECOND);
        net
    }

    /// `client` breaks the lock that was `seen`.
    fn break_lock(net: &mut Net, client: usize, seen: &Inspection, how: Breaking) -> Broken {
        let engine = &mut net.clients[client].engine;
        engine.break_lock(net.now, b"k", seen, how).expect("asked");
        net.pump();
        let told = net.event(client).expect("all nodes have answered");
        breaking::finish(told, seen).expect("a majority has done it")
    }

    /// The holder keeps its lock, and other clients want it.
    #[test]
    fn others_are_kept_out_until_the_holder_must_have_stopped() {
        let (observed, strict) = (RestartGuard::Observed, RestartGuard::Strict);
        for (guard, how, is_free) in [
            (observed, Breaking::KeepOut, false),
            (observed, Breaking::AtOnce, true),
            (strict, Breaking::KeepOut, false),
            (strict, Breaking::AtOnce, true),
        ] {
            let mut net = net(2, guard, false);
            let mut lock = net.try_lock(0, TTL).expect("free");
            net.pass(3 * SECOND);
            let seen = net.inspect(1).expect("all answer");
            // The holder has extended the lock since then, and believes that it is valid.
            net.extend(0, &mut lock, TTL).expect("held");
            let (believed, now) = (lock.valid_until(), net.now);
            let broken = break_lock(&mut net, 1, &seen, how);
            assert!(2 <= broken.nodes, "{broken:?}");
            assert_eq!(net.try_lock(1, TTL).is_ok(), is_free);
            let free_at = now.saturating_add(broken.free_in);
            assert_eq!(believed <= free_at, !is_free, "{how:?}");
            let lost = net.extend(0, &mut lock, TTL);
            assert_matches!(lost, Err(ExtendError::Lost(_)));
            if !is_free {
                net.pass(broken.free_in - MS);
                assert!(net.try_lock(1, TTL).is_err(), "not yet");
                net.pass(100 * MS);
                let _lock = net.try_lock(1, TTL).expect("free");
            }
        }
    }

    /// A token on such a key would keep other clients out for ever. When the other keys expire, the lock becomes free.
    #[test]
    fn a_key_that_never_ends_is_left_alone() {
        for is_without_scripts in [false, true] {
            let mut net = net(1, RestartGuard::Observed, is_without_scripts);
            let lock = net.try_lock(0, TTL).expect("free");
            net.set(0, b"k", lock.token().as_bytes());
            let before = [0, 1].map(|node| net.value(node, b"k"));
            let seen = net.inspect(0).expect("all answer");
            let broken = break_lock(&mut net, 0, &seen, Breaking::KeepOut);
            assert_eq!(broken.nodes, 2, "{is_without_scripts}");
            assert!(broken.free_in <= TTL, "{broken:?}");
            assert_eq!(net.value(0, b"k"), before[0]);
            assert_ne!(net.value(1, b"k"), before[1]);
        }
    }
}
