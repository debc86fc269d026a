//! Stories without scripts: how each node is found to release locks, and the work of transactions.

mod detected;
mod doubt;
mod held;
mod late;
mod releases;
mod several;

use super::*;
use crate::resp::write;

const UNKNOWN: &str = "-ERR unknown command 'X', with args beginning with: |";
const SYNTAX: &str = "-ERR syntax error|";
const NO_COMMAND: &str = "-NOPERM User u has no permissions to run the 'x' command|";
/// The answers to an empty transaction and to `WATCH`.
const WATCHED: &str = "+OK|*0|+OK|";
/// The answer to a write with a bad ttl, which shows that the user may write at all.
const NO_NUMBER: &str = "-ERR value is not an integer or out of range|";
const RELEASING: [&str; 4] = ["MULTI", "EXEC", "WATCH k", "GET k"];
const EXTENDING: [&str; 5] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k"];
const TRYING: [&str; 6] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k", "PEXPIRE k ?"];
const DELETING: [&str; 3] = ["MULTI", "PEXPIRE k -1", "EXEC"];
const RAISING: [&str; 3] = ["MULTI", "PEXPIRE k 10000", "EXEC"];

/// Makes `nodes` nodes that have greeted, and that get no scripts.
fn bare(nodes: usize) -> World {
    let mut world = World::with(named(nodes).without_scripts(true));
    world.unpermitted = true;
    (0..nodes).for_each(|node| greet(&mut world, node));
    world
}

fn greet(world: &mut World, node: usize) {
    world.welcome(node);
    let asked = world.take(node);
    let asked = &asked[asked.len() - 3..];
    assert_eq!(asked, ["INFO server", "INFO replication", "INFO memory"]);
    finish(world, node);
}

fn finish(world: &mut World, node: usize) {
    world.say(node, &format!("$11|run_id:run{node}|$-1|$-1|"));
}

/// Like `bare`, with nodes that are known to release only by transactions.
fn watching(nodes: usize) -> World {
    let mut world = bare(nodes);
    for node in 0..nodes {
        only_watches_from_now_on(&mut world, node);
    }
    world
}

/// `node` has shown that it releases only by transactions.
fn only_watches_from_now_on(world: &mut World, node: usize) {
    let way = crate::node::Dialect::Watch;
    world.node(node).abilities.way_permitted(way);
}

/// Makes a lock on one such node.
fn held() -> (World, Lock) {
    let mut world = watching(1);
    let lock = world.lock_on(0..1);
    world.take_all();
    (world, lock)
}

/// Like [`held`], but the lock is being released. Returns its token.
fn releasing() -> (World, Vec<u8>) {
    let (mut world, lock) = held();
    let token = lock.token().as_bytes().to_vec();
    world.release(lock);
    (world, token)
}

/// Returns the token of the only claim.
fn token_of(world: &World) -> Vec<u8> {
    let entry = world.tokens().remove(0);
    entry.token().as_bytes().to_vec()
}

/// Returns the token of a lock in the form of a node's answer.
fn bulk(token: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::bulk(&mut bytes, token);
    bytes
}

/// Lets a node answer `before`, then that the key holds the token, and then `after`.
fn say_token(world: &mut World, before: &str, token: &[u8], after: &str) {
    say_token_of(world, 0, before, token, after);
}

fn say_token_of(world: &mut World, node: usize, before: &str, token: &[u8], after: &str) {
    let line = |text: &str| text.replace('|', "\r\n").into_bytes();
    let bytes = [line(before), bulk(token), line(after)].concat();
    let (node, bytes) = (id(node), &bytes[..]);
    world.input(Input::Received { node, bytes });
}

// ----- which way ------------------------------------------------------------------------------

/// Returns the questions to a node before its first `SET`.
fn asked() -> Vec<&'static str> {
    [&["DELIFEQ k", "DELEX k", "SET k IFEQ"], &TRYING[..]].concat()
}

/// Returns the answers of a node that knows only transactions.
fn only_watches(may_write: &str) -> String {
    format!("{UNKNOWN}{NO_COMMAND}{SYNTAX}{WATCHED}$-1|:-2|{may_write}")
}

#[test]
fn the_first_way_that_a_node_knows_and_permits_is_used() {
    let ways = [
        (UNKNOWN, ":0|", ":1|", "DELIFEQ k"),
        (NO_COMMAND, ":0|", ":1|", "DELEX k"),
        (SYNTAX, "$-1|", "+OK|", "SET k IFEQ"),
        (NO_COMMAND, "", "", "MULTI"),
    ];
    for (known, (_, permitted, deleted, command)) in ways.into_iter().enumerate() {
        let mut world = bare(1);
        world.try_once();
        assert_eq!(world.take(0), asked());
        for (refusal, ..) in &ways[..known] {
            world.say(0, refusal);
        }
        world.say(0, permitted);
        if known == 3 {
            world.say(0, &format!("{WATCHED}$-1|:-2|{NO_NUMBER}"));
        }
        assert_eq!(
            world.take(0),
            ["SET k 10000"],
            "at the first that is permitted"
        );
        // The answers to the other ways change nothing.
        for (_, permitted, ..) in &ways[(known + 1).min(3)..3] {
            world.say(0, permitted);
        }
        if known != 3 {
            world.say(0, &format!("{WATCHED}$-1|:-2|{NO_NUMBER}"));
        }
        assert_eq!(world.take(0), NOTHING);
        world.say(0, "+OK|");
        let lock = world.lock();
        let token = lock.token().as_bytes().to_vec();
        world.release(lock);
        if known == 3 {
            assert_eq!(world.take(0), RELEASING);
            say_token(&mut world, WATCHED, &token, "");
            world.exchange(0, DELETING, "+OK|+QUEUED|*1|:1|");
        } else {
            world.exchange(0, [command], deleted);
        }
        assert_eq!(world.unlocked().expect("released").deleted, 1);
        world.is_clean();
        // No other permission is asked for over this connection.
        world.take(0);
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
        // A debt is sent in the same way over the next connection. Before a `SET`, all ways are tried again.
        world.lose(0);
        world.no_quorum();
        world.welcome_again(0);
        assert_eq!(world.take(0)[0], command);
        match known {
            3 => world.say(0, &format!("{WATCHED}$-1|")),
            2 => world.say(0, "$-1|"),
            _ => world.say(0, ":0|"),
        }
        finish(&mut world, 0);
        if known == 3 {
            world.say(0, "+OK|+QUEUED|*1|:0|");
        }
        world.take(0);
        world.is_clean();
        world.try_once();
        assert_eq!(world.take(0), asked());
    }
}

#[test]
fn a_node_without_any_way_is_unusable_and_asked_again() {
    let mut world = bare(1);
    world.try_once();
    world.take(0);
    world.say(0, &only_watches(NO_COMMAND));
    let missing = Unusable::Permission { command: "pexpire" };
    assert_eq!(
        outcomes(&world.no_quorum()),
        [NodeOutcome::Unusable(missing)]
    );
    assert_eq!(world.state(0), NodeState::Unusable(missing));
    assert_eq!(world.take(0), NOTHING);
    world.is_clean();
    world.try_once();
    world.exchange(0, asked(), ":0|");
    assert_eq!(world.state(0), NodeState::Ready);
    assert_eq!(world.take(0), ["SET k 10000"]);
}

#[test]
fn a_node_that_is_lost_while_it_is_tried_keeps_nothing_of_the_lock() {
    let mut world = bare(1);
    world.try_once();
    let claim = world.only_claim();
    world.lose(0);
    assert!(world.node(0).abilities.end_trial(claim).is_none());
}

/// The answer of a server that is busy or loading does not show which ways it has.
#[test]
fn a_passing_refusal_refuses_no_way() {
    for busy in [
        "-BUSY Redis is busy running a script|",
        "-OOM command not allowed|",
    ] {
        let mut world = bare(1);
        world.try_once();
        world.take(0);
        let aborted = "-EXECABORT Transaction discarded because of: busy|";
        world.say(
            0,
            &format!("{busy}{busy}{busy}+OK|{aborted}+OK|{busy}{busy}{busy}"),
        );
        world.no_quorum();
        assert_eq!(world.state(0), NodeState::Ready);
        world.is_clean();
        world.try_once();
        assert_eq!(world.take(0), asked(), "{busy}");
    }
}

#[test]
fn a_way_that_is_refused_later_is_replaced_by_the_next() {
    let mut world = bare(1);
    world.try_once();
    world.say(
        0,
        &format!(":0|{UNKNOWN}$-1|{WATCHED}$-1|:-2|{NO_NUMBER}+OK|"),
    );
    let lock = world.lock();
    world.take(0);
    world.release(lock);
    world.exchange(0, ["DELIFEQ k"], NO_COMMAND);
    world.exchange(0, ["SET k IFEQ"], "+OK|");
    assert_eq!(world.unlocked().expect("released").deleted, 1);
    world.is_clean();
    // No `SET` goes to this node before it has shown that.
    world.try_once();
    assert_eq!(world.take(0), asked());
}

/// The answer comes after the attempt that asked is over. Waiters still learn of it.
#[test]
fn a_node_that_is_permitted_again_wakes_those_who_wait() {
    for (permitted, rest) in [
        (":0|", 0),
        ("$-1|", 2), // A text.
        ("", 3),
    ] {
        let mut world = bare(1);
        world.try_once();
        world.say(0, &only_watches(NO_COMMAND));
        world.no_quorum();
        let asking = world.try_once();
        world.cancel(asking);
        world.take(0);
        world.say(0, &[UNKNOWN, UNKNOWN, SYNTAX][..rest].concat());
        assert_ne!(world.state(0), NodeState::Ready);
        match rest {
            3 => world.say(0, &format!("{WATCHED}$-1|:-2|{NO_NUMBER}")),
            _ => world.say(0, permitted),
        }
        assert_eq!(world.state(0), NodeState::Ready);
        assert_eq!(world.take(0), NOTHING, "nobody wants the lock");
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
    }
}

/// Two names are asked for at once, and the user may use only the first one.
#[test]
fn who_asks_beside_another_for_a_name_that_is_not_permitted_is_told_so() {
    let mut world = bare(1);
    for name in [b"k", b"l"] {
        world.acquire_of(name, &once());
    }
    let others = ["DELIFEQ l", "DELEX l", "SET l IFEQ"];
    assert_eq!(world.take(0), [asked(), others.to_vec()].concat());
    world.say(
        0,
        &format!(":0|{UNKNOWN}{SYNTAX}{WATCHED}$-1|:-2|{NO_NUMBER}"),
    );
    world.say(0, &format!("{NO_KEY}{UNKNOWN}{NO_KEY}+OK|"));
    drop(world.lock());
    world.say(0, &format!("+OK|*0|{}", NO_KEY.repeat(4)));
    let reason = NodeOutcome::Unusable(Unusable::KeyPermission);
    assert_eq!(outcomes(&world.no_quorum()), [reason]);
}
