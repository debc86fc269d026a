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
/// The answers about a key that is free, to a user who may write it. Before them, those to an empty transaction.
const FREE_KEY: &str = "$-1|:-2|-ERR value is not an integer or out of range|";
const FREE: &str = "+OK|*0|+OK|$-1|:-2|-ERR value is not an integer or out of range|";
/// The answers to a transaction that has written to one key.
const WRITTEN: &str = "+OK|+QUEUED|*1|:1|";
const RELEASING: [&str; 4] = ["MULTI", "EXEC", "WATCH k", "GET k"];
const EXTENDING: [&str; 5] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k"];
const TRYING: [&str; 6] = ["MULTI", "EXEC", "WATCH k", "GET k", "PTTL k", "PEXPIRE k ?"];
const INSPECTING: [&str; 4] = ["MULTI", "GET k", "PTTL k", "EXEC"];
const DELETING: [&str; 3] = ["MULTI", "PEXPIRE k -1", "EXEC"];
const RAISING: [&str; 3] = ["MULTI", "PEXPIRE k 10000", "EXEC"];

/// Makes `nodes` nodes that have greeted, and that get no scripts.
pub(super) fn bare(nodes: usize) -> World {
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

/// The connection to `node` is lost, and the same server greets again.
fn greet_again(world: &mut World, node: usize) {
    world.lose(node);
    world.reconnect(node);
    greet(world, node);
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

/// Like [`held`], but the lock is being released.
fn releasing() -> World {
    let (mut world, lock) = held();
    world.release(lock);
    world
}

impl World {
    /// `node` says `reply`. In it, `@k` stands for the token of the lock on the key `k`.
    fn tell(&mut self, node: usize, reply: &str) {
        let reply = reply.replace('|', "\r\n");
        let mut parts = reply.split('@');
        let mut bytes = Vec::from(parts.next().expect("a first part"));
        for part in parts {
            let (name, rest) = part.as_bytes().split_at(1);
            let tokens = self.tokens();
            let mut of_name = tokens.iter().filter(|it| it.names().any(|one| one == name));
            let entry = of_name.next().expect("a lock on the key");
            write::bulk(&mut bytes, entry.token().as_bytes());
            bytes.extend(rest);
        }
        let (node, bytes) = (id(node), &bytes[..]);
        self.input(Input::Received { node, bytes });
    }

    /// Asserts that `node` was sent these commands, and lets it [`tell`](Self::tell) `reply`.
    #[track_caller]
    fn told_of(&mut self, node: usize, sent: &[&str], reply: &str) {
        assert_eq!(self.take(node), sent, "node {node}");
        self.tell(node, reply);
    }

    /// Asserts that the only node has deleted the lock whose release was asked for.
    #[track_caller]
    fn is_released(&mut self) {
        assert_eq!(self.unlocked().expect("released").deleted, 1);
        self.is_clean();
    }

    /// Asserts that the only node is released by a transaction.
    #[track_caller]
    fn released_by_a_transaction(&mut self) {
        self.told_of(0, &RELEASING, "+OK|*0|+OK|@k");
        self.exchange(0, DELETING, WRITTEN);
        self.is_released();
    }

    /// Asserts that the only node extends `lock` by a transaction.
    #[track_caller]
    fn extended_by_a_transaction(&mut self, lock: &mut Lock) {
        self.told_of(0, &EXTENDING, "+OK|*0|+OK|@k:3000|");
        self.exchange(0, RAISING, WRITTEN);
        self.extended(lock);
    }
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
        (NO_COMMAND, FREE, "", "MULTI"),
    ];
    for (known, (_, permitted, deleted, command)) in ways.into_iter().enumerate() {
        let mut world = bare(1);
        world.try_once();
        assert_eq!(world.take(0), asked());
        ways[..known].iter().for_each(|way| world.say(0, way.0));
        world.say(0, permitted);
        assert_eq!(world.take(0), ["SET k 10000"], "{command}");
        // The answers to the other ways change nothing.
        ways[known + 1..].iter().for_each(|way| world.say(0, way.1));
        world.exchange(0, NOTHING, "+OK|");
        let lock = world.lock();
        world.release(lock);
        if known == 3 {
            world.released_by_a_transaction();
        } else {
            world.exchange(0, [command], deleted);
            world.is_released();
        }
        // No other permission is asked for over this connection.
        world.take(0);
        world.try_once();
        assert_eq!(world.take(0), ["SET k 10000"]);
        // A debt is sent in the same way over the next connection. Before a `SET`, all ways are tried again.
        world.lose(0);
        world.no_quorum();
        world.welcome_again(0);
        assert_eq!(world.take(0)[0], command);
        world.say(0, [":0|", ":0|", "$-1|", "+OK|*0|+OK|$-1|"][known]);
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
    world.reply(0, &only_watches(NO_COMMAND));
    let missing = Unusable::Permission { command: "pexpire" };
    let said = outcomes(&world.no_quorum());
    assert_eq!(said, [NodeOutcome::Unusable(missing)]);
    assert_eq!(world.state(0), NodeState::Unusable(missing));
    assert_eq!(world.take(0), NOTHING);
    world.is_clean();
    world.try_once();
    world.exchange(0, asked(), ":0|");
    assert_eq!(world.state(0), NodeState::Ready);
    assert_eq!(world.take(0), ["SET k 10000"]);
}

/// The answer of a server that is busy or loading does not show which ways it has.
#[test]
fn a_passing_refusal_refuses_no_way() {
    for busy in ["-BUSY x|", "-OOM command not allowed|"] {
        let mut world = bare(1);
        world.try_once();
        world.take(0);
        let thrice = busy.repeat(3);
        let aborted = "+OK|-EXECABORT Transaction discarded|+OK|";
        world.say(0, &format!("{thrice}{aborted}{thrice}"));
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
    world.say(0, &format!(":0|{UNKNOWN}$-1|{FREE}+OK|"));
    let lock = world.lock();
    world.take(0);
    world.release(lock);
    world.exchange(0, ["DELIFEQ k"], NO_COMMAND);
    world.exchange(0, ["SET k IFEQ"], "+OK|");
    world.is_released();
    // No `SET` goes to this node before it has shown that.
    world.try_once();
    assert_eq!(world.take(0), asked());
}

/// The answer comes after the attempt that asked is over. Waiters still learn of it.
#[test]
fn a_node_that_is_permitted_again_wakes_those_who_wait() {
    for (permitted, refused) in [(":0|", 0), ("$-1|", 2), (FREE, 3)] {
        let mut world = bare(1);
        world.try_once();
        world.say(0, &only_watches(NO_COMMAND));
        world.no_quorum();
        let asking = world.try_once();
        world.cancel(asking);
        world.reply(0, &[UNKNOWN, UNKNOWN, SYNTAX][..refused].concat());
        assert_ne!(world.state(0), NodeState::Ready);
        world.say(0, permitted);
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
    assert_eq!(world.take(0), [&asked()[..], &others].concat());
    world.say(0, &format!(":0|{UNKNOWN}{SYNTAX}{FREE}"));
    world.say(0, &format!("{NO_KEY}{UNKNOWN}{NO_KEY}+OK|"));
    drop(world.lock());
    world.say(0, &format!("+OK|*0|{}", NO_KEY.repeat(4)));
    let reason = NodeOutcome::Unusable(Unusable::KeyPermission);
    assert_eq!(outcomes(&world.no_quorum()), [reason]);
}
