//! Stories: the whole engine against nodes whose every byte the test writes.
//!
//! Time is a number that the test moves, a node says what the test has it say, and what the engine
//! sends is read back as commands. No socket, no clock, no sleep.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a story does not expect, it fails on, whatever it is"
)]

mod claims;
mod clocks;
mod confirm;
mod extensions;
mod operators;
mod patience;
mod probes;
mod restarts;
#[cfg(feature = "embedded")]
mod strict;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use super::*;
use crate::config::LockOptions;
use crate::error::{
    ExtendError, InvalidRequest, LinkError, LockError, NodeOutcome, UnlockError, Unusable,
};
use crate::resp::{Inbox, Limits, Value};

const TTL: Duration = Duration::from_secs(10);

/// An engine, its N nodes, and the time.
struct World {
    engine: Engine,
    now: Instant,
    /// What was sent to each node and not yet looked at, one command a line.
    sent: Vec<Vec<String>>,
    /// What each node would read, torn commands included.
    wires: Vec<Inbox>,
    /// How many bytes each node's socket still takes.
    window: Vec<usize>,
    links: Vec<&'static str>,
    /// How many probes were opened to each node, and whether the last is open.
    probes: Vec<u32>,
    probing: Vec<bool>,
    /// Nobody has shown yet that locks may be released: the first `SET` waits for that.
    unpermitted: bool,
    events: Vec<Event>,
}

impl World {
    /// `nodes` nodes, none connected.
    fn new(nodes: usize) -> Self {
        let names = (0..nodes).map(|node| format!("node{node}:6379"));
        Self::with(Config::builder().nodes(names))
    }

    /// Nobody is asked for the time.
    fn with(builder: crate::config::Builder) -> Self {
        Self::watching(builder.watch_clocks(false))
    }

    fn watching(builder: crate::config::Builder) -> Self {
        let config = builder.config().expect("valid");
        let nodes = config.nodes().len();
        let now = Instant::from_millis(1_000);
        let mut world = Self {
            engine: Engine::new(&config, [42; 32], now),
            now,
            sent: vec![Vec::new(); nodes],
            wires: (0..nodes).map(|_| Inbox::new(Limits::default())).collect(),
            window: vec![usize::MAX; nodes],
            links: vec![""; nodes],
            probes: vec![0; nodes],
            probing: vec![false; nodes],
            unpermitted: false,
            events: Vec::new(),
        };
        world.drain();
        world
    }

    /// `nodes` nodes that have greeted and know the scripts.
    fn ready(nodes: usize) -> Self {
        let mut world = Self::new(nodes);
        (0..nodes).for_each(|node| world.greet(node));
        world
    }

    /// Does what the engine wants done.
    fn drain(&mut self) {
        while let Some(output) = self.engine.poll(self.now) {
            match output {
                Output::Connect { node } => self.links[node.index()] = "connecting",
                Output::Disconnect { node } => self.links[node.index()] = "reset",
                Output::Probe { node, bytes } => {
                    assert_eq!(bytes, b"*1\r\n$5\r\nHELLO\r\n");
                    self.probes[node.index()] += 1;
                    self.probing[node.index()] = true;
                }
                Output::CloseProbe { node } => self.probing[node.index()] = false,
                Output::Event(event) => self.events.push(event),
                Output::Transmit { node, bytes } => {
                    let index = node.index();
                    let len = bytes.len().min(self.window[index]);
                    self.window[index] -= len;
                    let mut piece = &bytes[..len];
                    while let Some(frame) = self.wires[index].next(&mut piece).expect("RESP") {
                        self.sent[index].push(shown(frame.value));
                    }
                    self.engine
                        .handle(self.now, Input::Transmitted { node, len });
                }
            }
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    /// `node` says `reply`, with `|` for each line end.
    fn say(&mut self, node: usize, reply: &str) {
        let bytes = reply.replace('|', "\r\n").into_bytes();
        let node = id(node);
        self.input(Input::Received {
            node,
            bytes: &bytes,
        });
    }

    /// The connection to `node` comes up and the server lets us in.
    fn greet(&mut self, node: usize) {
        self.welcome(node);
        assert_eq!(
            self.take(node),
            [
                "INFO server",
                "INFO replication",
                "INFO memory",
                "SCRIPT LOAD",
                "SCRIPT LOAD"
            ]
        );
        self.finish(node, &format!("run{node}"));
    }

    /// Up to what is owed.
    fn welcome(&mut self, node: usize) {
        self.welcome_as(node, "%2|+role|+master|+mode|+standalone|");
    }

    /// The same, with what the server says to `HELLO`.
    fn welcome_as(&mut self, node: usize, hello: &str) {
        assert_eq!(self.links[node], "connecting", "node {node}");
        self.links[node] = "up";
        self.wires[node].clear();
        self.window[node] = usize::MAX;
        self.input(Input::Connected { node: id(node) });
        assert_eq!(self.take(node), ["HELLO 3 SETNAME shearline"]);
        self.say(node, hello);
        if !self.unpermitted {
            self.permit(node);
        }
    }

    /// `node` has shown that its user may release locks, so that nobody asks before the first `SET`.
    fn permit(&mut self, node: usize) {
        self.engine.parts.nodes[node].scripts_permitted();
    }

    fn finish(&mut self, node: usize, run_id: &str) {
        let server = format!("run_id:{run_id}");
        self.say(node, &format!("${}|{server}|$-1|$-1|", server.len()));
        let [release, extend] = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
        self.say(node, &format!("$40|{release}|$40|{extend}|"));
    }

    fn lose(&mut self, node: usize) {
        self.links[node] = "";
        self.input(Input::Disconnected {
            node: id(node),
            reason: LinkError::Reset,
        });
    }

    /// Moves the time, and lets timers fire.
    fn pass(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        self.input(Input::Tick);
    }

    /// What `node` was sent since the last look.
    fn take(&mut self, node: usize) -> Vec<String> {
        core::mem::take(&mut self.sent[node])
    }

    fn take_all(&mut self) -> Vec<Vec<String>> {
        (0..self.sent.len()).map(|node| self.take(node)).collect()
    }

    fn acquire(&mut self, options: &LockOptions) -> RoundId {
        let round = self
            .engine
            .acquire(self.now, &Request::new(b"k", options))
            .expect("valid");
        self.drain();
        round
    }

    fn try_once(&mut self) -> RoundId {
        self.acquire(&LockOptions::new(TTL).tries(1))
    }

    fn release(&mut self, lock: Lock) {
        self.engine.release(self.now, lock);
        self.drain();
    }

    /// The one event that happened.
    fn event(&mut self) -> Event {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.events.remove(0)
    }

    fn lock(&mut self) -> Lock {
        match self.event() {
            Event::Acquired {
                result: Ok(lock), ..
            } => lock,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&mut self) -> LockError {
        match self.event() {
            Event::Acquired {
                result: Err(error), ..
            } => error,
            other => panic!("{other:?}"),
        }
    }

    fn unlocked(&mut self) -> Result<crate::error::Released, UnlockError> {
        match self.event() {
            Event::Released { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// A lock that all nodes granted.
    fn held(nodes: usize) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        world.try_once();
        (0..nodes).for_each(|node| world.say(node, "+OK|"));
        let lock = world.lock();
        world.take_all();
        (world, lock)
    }

    #[track_caller]
    fn is_clean(&self) {
        let load = self.engine.load();
        assert_eq!((load.rounds, load.claims, load.owed), (0, 0, 0), "{load:?}");
        assert_eq!((load.in_flight, load.unsent), (0, 0), "{load:?}");
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u8)
}

/// A command in few words: tokens, digests and script texts are left out.
fn shown(value: Value<'_>) -> String {
    let words: Vec<String> = value
        .as_items()
        .expect("a command")
        .iter()
        .map(|word| String::from_utf8_lossy(word.as_bytes().expect("a bulk")).into_owned())
        .collect();
    match words[0].as_str() {
        "SET" => format!("SET {} {}", words[1], words[6 - 1]),
        "EVAL" if words[1] == crate::node::JOIN.text => words[5..].join(" "),
        verb @ "EVAL" if words[1] == crate::node::SET_IF_PERMITTED.text => {
            let what = match words[5].as_str() {
                "" => "permits".to_string(),
                ttl => format!("SET {} {ttl} if", words[3]),
            };
            [&[format!("{verb} {what}")], &words[6..]]
                .concat()
                .join(" ")
        }
        verb @ ("EVAL" | "EVALSHA") => {
            let script = match words.len() {
                6 => "extend",
                _ if words[1] == crate::node::CONFIRM.text => "confirm",
                _ => "release",
            };
            format!("{verb} {script}")
        }
        "SCRIPT" => "SCRIPT LOAD".to_string(),
        "DELIFEQ" => format!("DELIFEQ {}", words[1]),
        _ => words.join(" "),
    }
}

fn outcomes(report: &crate::error::Report) -> Vec<NodeOutcome> {
    report.nodes().iter().map(|node| node.outcome).collect()
}

#[test]
fn the_third_vote_of_five_decides_and_stragglers_still_count() {
    let mut world = World::ready(5);
    world.try_once();
    assert_eq!(world.take_all(), vec![vec!["SET k 10000"]; 5]);
    world.now = world.now.saturating_add(Duration::from_millis(1));
    world.say(4, "+OK|");
    world.say(2, "+OK|");
    assert!(world.events.is_empty());
    world.say(0, "+OK|");
    let lock = world.lock();
    let until = Instant::from_millis(1_000).saturating_add(TTL - Duration::from_millis(102));
    assert_eq!(lock.valid_until(), until, "counted from before the send");
    world.say(1, "+OK|");
    world.say(3, "_|");
    world.release(lock);
    let release = vec!["EVALSHA release"];
    let nobody: Vec<&str> = Vec::new();
    assert_eq!(
        world.take_all(),
        [
            release.clone(),
            release.clone(),
            release.clone(),
            nobody,
            release
        ],
        "the node that denied it is not asked"
    );
    (0..3).for_each(|node| world.say(node, ":1|"));
    assert_eq!(world.unlocked().expect("released").deleted, 3);
    world.say(4, ":1|");
    world.is_clean();
}

#[test]
fn half_against_half_settles_at_once_and_gives_back() {
    let mut world = World::ready(2);
    world.try_once();
    world.take_all();
    world.say(0, "+OK|");
    world.say(1, "$-1|");
    let LockError::Held(report) = world.refusal() else {
        panic!("held")
    };
    assert_eq!(outcomes(&report), [NodeOutcome::Granted, NodeOutcome::Held]);
    assert_eq!(world.take_all(), [vec!["EVALSHA release"], vec![]]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn a_refused_attempt_is_released_behind_its_set_and_tried_again_with_a_fresh_token() {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).tries(2));
    world.take_all();
    let first = world
        .engine
        .parts
        .claims
        .iter()
        .next()
        .map(|claim| claim.entry.clone());
    world.say(0, "$-1|");
    world.say(1, "$-1|");
    assert!(world.events.is_empty(), "there is another try");
    assert_eq!(
        world.take(2),
        ["EVALSHA release"],
        "behind the SET that is unanswered"
    );
    world.pass(Duration::from_millis(49));
    assert!(
        world.take_all().iter().all(Vec::is_empty),
        "not before 50 ms"
    );
    world.say(2, "+OK|:1|");
    world.pass(Duration::from_millis(202));
    assert_eq!(world.take_all(), vec![vec!["SET k 10000"]; 3]);
    let second = world
        .engine
        .parts
        .claims
        .iter()
        .next()
        .map(|claim| claim.entry.clone());
    assert!(first != second, "a fresh token");
    (0..3).for_each(|node| world.say(node, "+OK|"));
    let lock = world.lock();
    world.release(lock);
    (0..3).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn a_silent_node_costs_nothing_and_keeps_no_key() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.release(lock);
    world.say(0, ":1|");
    world.say(1, ":1|");
    assert!(world.unlocked().is_ok());
    assert_eq!(world.take(2), ["SET k 10000", "EVALSHA release"]);
    assert_eq!(world.engine.load().claims, 1, "it is not forgotten");
    world.say(2, "+OK|:1|");
    world.is_clean();
}

#[test]
fn too_few_answers_end_with_the_node_timeout_and_a_late_grant_is_released() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.pass(Duration::from_millis(50));
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("no quorum")
    };
    let [granted, late] = [NodeOutcome::Granted, NodeOutcome::TimedOut];
    assert_eq!(outcomes(&report), [granted, late, late]);
    assert_eq!(
        world.take_all(),
        vec![vec!["SET k 10000", "EVALSHA release"]; 3]
    );
    (0..3).for_each(|node| world.say(node, if node == 0 { ":1|" } else { "+OK|:1|" }));
    world.is_clean();
}

#[test]
fn errors_are_no_votes_and_only_uncertain_ones_are_released() {
    let mut world = World::ready(3);
    world.try_once();
    world.take_all();
    world.say(0, "-LOADING Redis is loading the dataset in memory|");
    world.say(1, "-ERR what is this|");
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("no quorum")
    };
    assert_eq!(
        format!("{}", report.nodes()[0].outcome),
        "refused: LOADING (it loads its data, and serves when it has)"
    );
    let release = vec!["EVALSHA release"];
    assert_eq!(world.take_all(), [vec![], release.clone(), release]);
    world.say(1, ":0|");
    world.say(2, "+OK|:1|");
    world.is_clean();
}

#[test]
fn a_grant_without_validity_left_is_too_slow_and_given_back() {
    let mut world = World::with(
        Config::builder()
            .nodes(["a", "b", "c"])
            .node_timeout(Duration::from_secs(1)),
    );
    (0..3).for_each(|node| world.greet(node));
    world.acquire(&LockOptions::new(Duration::from_millis(200)).tries(1));
    world.take_all();
    world.say(0, "+OK|");
    // The verdict is in time, but whoever is to be told comes late.
    let node = id(1);
    world.engine.handle(
        world.now,
        Input::Received {
            node,
            bytes: b"+OK\r\n",
        },
    );
    world.now = world.now.saturating_add(Duration::from_millis(196));
    world.drain();
    assert!(matches!(world.refusal(), LockError::TooSlow(_)));
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
    world.say(0, ":1|");
    world.say(1, ":1|");
    world.say(2, "+OK|:1|");
    world.is_clean();
}

/// A node timeout of the user's is not cut to what the ttl leaves: the answers are waited for, and
/// the outcome says what was wrong with them.
#[test]
fn answers_after_the_ttl_are_too_slow_if_the_node_timeout_is_longer() {
    let mut world = World::with(
        Config::builder()
            .nodes(["a", "b", "c"])
            .node_timeout(Duration::from_secs(1)),
    );
    (0..3).for_each(|node| world.greet(node));
    world.acquire(&LockOptions::new(Duration::from_millis(200)).tries(1));
    world.take_all();
    world.pass(Duration::from_millis(300));
    assert!(world.events.is_empty());
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    assert!(matches!(world.refusal(), LockError::TooSlow(_)));
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
    (0..2).for_each(|node| world.say(node, ":0|"));
    world.say(2, "+OK|:1|");
    world.is_clean();
}

/// With a node timeout that is derived: it is half of what so short a ttl leaves, which none of
/// these nodes has ever kept.
#[test]
fn nodes_too_far_away_for_the_ttl_are_too_slow_and_not_missing() {
    let mut world = World::new(3);
    for node in 0..3 {
        world.links[node] = "up";
        world.input(Input::Connected { node: id(node) });
        world.now = world.now.saturating_add(Duration::from_millis(300));
        world.say(node, "%2|+role|+master|+mode|+standalone|");
        world.now = world.now.saturating_add(Duration::from_millis(300));
        world.finish(node, &format!("run{node}"));
    }
    world.take_all();
    world.acquire(&LockOptions::new(Duration::from_millis(200)).tries(1));
    world.pass(Duration::from_millis(98));
    assert!(matches!(world.refusal(), LockError::TooSlow(_)));
    (0..3).for_each(|node| world.say(node, "+OK|:1|"));
    world.is_clean();
}

#[test]
fn a_forgotten_script_is_repaired_by_its_text_also_when_nobody_waits() {
    let (mut world, lock) = World::held(3);
    world.release(lock);
    world.take_all();
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    world.say(2, "-NOSCRIPT No matching script. Please use EVAL.|");
    assert_eq!(
        world.take(2),
        ["SCRIPT LOAD", "SCRIPT LOAD", "EVAL release"]
    );
    // Until the scripts are confirmed, the text is used.
    world.try_once();
    (0..3).for_each(|node| world.say(node, if node == 2 { "" } else { "+OK|" }));
    let lock = world.lock();
    world.release(lock);
    assert_eq!(world.take(2), ["SET k 10000", "EVAL release"]);
    let digests = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
    world.say(
        2,
        &format!("$40|{}|$40|{}|:1|+OK|:1|", digests[0], digests[1]),
    );
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn scripts_that_a_server_could_not_load_while_it_was_busy_are_taught_later() {
    let mut world = World::new(1);
    world.welcome(0);
    world.say(0, "$-1|$-1|$-1|-LOADING x|-LOADING x|");
    world.try_once();
    world.say(0, "+OK|");
    let lock = world.lock();
    world.take(0);
    world.release(lock);
    assert_eq!(world.take(0), ["EVAL release"]);
    world.say(0, ":1|");
    assert!(world.unlocked().is_ok());
    assert_eq!(world.take(0), ["SCRIPT LOAD", "SCRIPT LOAD"]);
    let digests = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
    world.say(0, &format!("$40|{}|$40|{}|", digests[0], digests[1]));
    world.try_once();
    world.say(0, "+OK|");
    let lock = world.lock();
    world.release(lock);
    assert_eq!(world.take(0), ["SET k 10000", "EVALSHA release"]);
}

/// A debt of a lock from elsewhere is bounded by its own ttl, not by the longest there may be.
#[test]
fn a_lock_from_elsewhere_is_not_owed_for_longer_than_its_own_ttl() {
    let (mut world, lock) = World::held(1);
    let lock = world.engine.detach(world.now, lock);
    world.lose(0);
    let lock = world.engine.adopt(world.now, lock);
    world.release(lock);
    assert!(matches!(world.unlocked(), Err(UnlockError::Unconfirmed(_))));
    assert_eq!(world.engine.load().owed, 1);
    world.pass(TTL + Duration::from_secs(61));
    let load = world.engine.load();
    assert_eq!((load.claims, load.owed), (0, 0));
}

#[test]
fn a_node_that_was_not_asked_to_release_took_no_time_to_answer() {
    let (mut world, lock) = World::held(3);
    world.lose(1);
    world.lose(2);
    world.release(lock);
    world.say(0, ":1|");
    let Err(UnlockError::Unconfirmed(report)) = world.unlocked() else {
        panic!("one answer is no majority");
    };
    let reset = NodeOutcome::Unreachable(LinkError::Reset);
    assert_eq!(outcomes(&report)[1..], [reset; 2]);
    assert!(
        report.nodes()[1..]
            .iter()
            .all(|node| node.latency.is_none())
    );
}

#[test]
fn what_is_owed_goes_first_on_the_next_connection() {
    let mut world = World::ready(3);
    world.pass(Duration::from_secs(2));
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.lose(2);
    world.release(lock);
    world.say(0, ":1|");
    world.say(1, ":1|");
    assert!(world.unlocked().is_ok());
    assert_eq!(world.engine.load().owed, 1);
    world.take_all();
    // A connection that has lasted is opened again at once.
    world.welcome(2);
    assert_eq!(
        world.take(2),
        [
            "EVAL release",
            "INFO server",
            "INFO replication",
            "INFO memory",
            "SCRIPT LOAD",
            "SCRIPT LOAD"
        ]
    );
    world.say(2, ":1|");
    world.finish(2, "other");
    world.is_clean();
}

#[test]
fn a_grant_whose_connection_is_lost_before_the_verdict_is_withdrawn() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.lose(0);
    world.say(1, "+OK|");
    assert!(world.events.is_empty());
    world.say(2, "_|");
    let LockError::Held(report) = world.refusal() else {
        panic!("held")
    };
    assert_eq!(
        outcomes(&report)[0],
        NodeOutcome::Unreachable(LinkError::Reset)
    );
    assert_eq!(
        world.engine.load().owed,
        1,
        "the lost grant is owed a release"
    );
}

#[test]
fn a_debt_of_known_expiry_ends_with_it() {
    let (mut world, lock) = World::held(3);
    world.lose(2);
    world.release(lock);
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    assert_eq!(world.engine.load().claims, 1);
    world.pass(TTL + Duration::from_millis(101));
    assert_eq!(
        world.engine.load().claims,
        1,
        "its clock may be slower than ours"
    );
    world.pass(Duration::from_millis(2));
    assert_eq!(world.engine.load().claims, 0);
}

#[test]
fn a_debt_of_unknown_expiry_outlives_any_time() {
    let mut world = World::ready(1);
    world.try_once();
    world.lose(0);
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
    world.take(0);
    world.pass(Duration::from_secs(3600));
    assert_eq!(
        world.engine.load().claims,
        1,
        "the SET may run whenever the node wakes up"
    );
    world.welcome(0);
    assert_eq!(world.take(0)[0], "EVAL release");
}

/// A server that postpones writes still greets, and runs them later: also those of a connection of
/// whose end it has not heard.
#[test]
fn a_greeting_alone_is_no_end_of_a_debt() {
    let mut world = World::ready(1);
    world.pass(Duration::from_secs(2));
    world.try_once();
    world.lose(0);
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
    world.take(0);
    world.welcome(0);
    assert_eq!(world.take(0)[0], "EVAL release");
    world.lose(0);
    world.pass(Duration::from_secs(3600));
    assert_eq!(world.engine.load().claims, 1);
    world.welcome(0);
    assert_eq!(world.take(0)[0], "EVAL release");
    world.say(0, ":0|");
    assert_eq!(world.engine.load().claims, 0);
}

#[test]
fn a_set_of_which_nothing_has_left_is_withdrawn() {
    let mut world = World::ready(3);
    world.window = vec![usize::MAX, 0, 0];
    world.try_once();
    world.say(0, "$-1|");
    world.pass(Duration::from_millis(50));
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
    world.window = vec![usize::MAX; 3];
    world.input(Input::Writable { node: id(1) });
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take_all()[1..], [Vec::<String>::new(), Vec::new()]);
    world.is_clean();
}

#[test]
fn a_set_that_has_begun_to_leave_is_released_behind_itself() {
    let mut world = World::ready(1);
    world.window = vec![7];
    let round = world.try_once();
    world.engine.cancel(world.now, round);
    world.drain();
    world.window = vec![usize::MAX];
    world.input(Input::Writable { node: id(0) });
    assert_eq!(world.take(0), ["SET k 10000", "EVALSHA release"]);
    world.say(0, "+OK|:1|");
    world.is_clean();
    assert!(world.events.is_empty(), "a cancelled round tells nothing");
}

#[test]
fn a_set_that_waits_for_room_is_not_sent_behind_the_verdict() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.window[2] = usize::MAX;
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take(2), Vec::<String>::new());
    world.take_all();
    world.release(lock);
    assert_eq!(world.take(2), Vec::<String>::new(), "it has no key");
}

#[test]
fn an_extension_that_waits_for_room_is_not_sent_behind_its_end() {
    let ends: [fn(&mut World, RoundId); 3] = [
        |world, _| (0..2).for_each(|node| world.say(node, ":1|")), // Its verdict.
        |world, round| world.engine.cancel(world.now, round),
        |world, _| world.pass(Duration::from_millis(60)), // The node timeout.
    ];
    for end in ends {
        let (mut world, lock) = World::held(3);
        world.window[2] = 0;
        let round = world.engine.extend(world.now, &lock, TTL).expect("asked");
        world.drain();
        end(&mut world, round);
        world.window[2] = usize::MAX;
        world.input(Input::Writable { node: id(2) });
        assert_eq!(world.take(2), Vec::<String>::new());
    }
}

#[test]
fn an_extension_is_not_sent_behind_the_release_that_ends_it() {
    let (mut world, lock) = World::held(3);
    world.window[2] = 0;
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    world.release(lock);
    world.window[2] = usize::MAX;
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take(2), ["EVALSHA release"]);
}

#[test]
fn cancelling_a_lock_that_was_won_and_not_told_gives_it_back() {
    let mut world = World::ready(1);
    let round = world.try_once();
    world.take_all();
    let node = id(0);
    world.engine.handle(
        world.now,
        Input::Received {
            node,
            bytes: b"+OK\r\n",
        },
    );
    world.engine.cancel(world.now, round);
    world.drain();
    assert!(world.events.is_empty());
    assert_eq!(world.take(0), ["EVALSHA release"]);
}

#[test]
fn a_nil_behind_an_unrepaired_release_of_our_own_is_no_answer() {
    let mut world = World::ready(1);
    world.acquire(&LockOptions::new(TTL).tries(1));
    world.say(0, "+OK|");
    let lock = world.lock();
    world.engine.give_back(world.now, lock);
    world.drain();
    world.try_once();
    assert_eq!(
        world.take(0),
        ["SET k 10000", "EVALSHA release", "SET k 10000"]
    );
    world.say(0, "-NOSCRIPT x|");
    assert_eq!(
        world.take(0),
        ["SCRIPT LOAD", "SCRIPT LOAD", "EVAL release"]
    );
    world.say(0, "$-1|");
    assert_eq!(
        world.take(0),
        ["SET k 10000"],
        "once more, behind the repair"
    );
    assert!(world.events.is_empty());
    let digests = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
    world.say(0, &format!("$40|{}|$40|{}|:1|+OK|", digests[0], digests[1]));
    let lock = world.lock();
    world.release(lock);
    world.say(0, ":1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn a_nil_is_a_vote_when_time_has_ended_what_was_owed_there() {
    let mut world = World::ready(3);
    let second = Duration::from_secs(1);
    let locks = [(b"k", second), (b"j", TTL), (b"i", TTL)].map(|(resource, ttl)| {
        let options = LockOptions::new(ttl).tries(1);
        let request = Request::new(resource, &options);
        world.engine.acquire(world.now, &request).expect("valid");
        world.drain();
        (0..2).for_each(|node| world.say(node, "+OK|"));
        world.lock()
    });
    world.lose(2); // So that their claims stay.
    for lock in locks {
        world.engine.give_back(world.now, lock);
    }
    world.drain();
    world.say(1, ":1|:1|:1|");
    world.say(0, "-MISCONF x|-MISCONF x|-MISCONF x|");
    world.pass(second + Duration::from_millis(100));
    world.say(0, "-MISCONF x|-MISCONF x|-MISCONF x|");
    world.pass(Duration::from_millis(1));
    world.take_all();
    world.try_once();
    world.say(0, "$-1|");
    assert_eq!(world.take(0), ["SET k 10000"], "it has expired there");
    world.say(1, "$-1|");
    assert!(matches!(world.refusal(), LockError::Held(_)));
}

#[test]
fn a_suspect_gets_no_set_and_is_a_node_again_when_it_answers() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.release(lock);
    world.say(0, ":1|");
    world.say(1, ":1|");
    assert!(world.unlocked().is_ok());
    world.pass(Duration::ZERO);
    world.pass(Duration::from_millis(201));
    assert_eq!(
        world.engine.node_state(world.now, id(2)),
        NodeState::Suspect
    );
    world.take_all();
    world.try_once();
    assert_eq!(
        world.take_all(),
        [vec!["SET k 10000"], vec!["SET k 10000"], vec![]]
    );
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.release(lock);
    assert_eq!(world.take(2), Vec::<String>::new(), "it never got this one");
    world.say(0, ":1|");
    world.say(1, ":1|");
    assert!(world.unlocked().is_ok());
    world.say(2, "+OK|:1|");
    assert_eq!(world.engine.node_state(world.now, id(2)), NodeState::Ready);
    world.is_clean();
}

#[test]
fn only_a_long_silence_ends_a_connection() {
    let mut world = World::ready(1);
    world.try_once();
    world.pass(Duration::ZERO);
    world.pass(Duration::from_millis(29_900));
    assert_eq!(world.links[0], "up");
    world.pass(Duration::from_millis(200));
    // Given up by a reset, and opened again at once.
    assert_eq!(world.links[0], "connecting");
    world.take(0);
    world.welcome(0);
    assert_eq!(world.take(0)[0], "EVAL release");
}

#[test]
fn an_extension_needs_a_majority_and_counts_from_before_the_send() {
    let (mut world, mut lock) = World::held(3);
    world.pass(Duration::from_secs(5));
    let sent = world.now;
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    assert_eq!(world.take_all(), vec![vec!["EVALSHA extend"]; 3]);
    world.now = world.now.saturating_add(Duration::from_millis(20));
    world.say(0, ":1|");
    world.say(1, ":1|");
    let Event::Extended {
        result: Ok(extension),
        ..
    } = world.event()
    else {
        panic!("extended")
    };
    assert!(extension.apply(&mut lock));
    let until = sent.saturating_add(TTL - Duration::from_millis(102));
    assert_eq!(lock.valid_until(), until);
    world.say(2, ":0|");
    assert!(world.events.is_empty(), "a straggler changes nothing");
    world.release(lock);
}

#[test]
fn an_extension_never_shortens() {
    let (mut world, mut lock) = World::held(1);
    let before = lock.valid_until();
    world
        .engine
        .extend(world.now, &lock, Duration::from_secs(1))
        .expect("asked");
    world.drain();
    world.say(0, ":1|");
    let Event::Extended {
        result: Ok(extension),
        ..
    } = world.event()
    else {
        panic!("extended")
    };
    assert!(extension.apply(&mut lock));
    assert_eq!(lock.valid_until(), before);
}

#[test]
fn an_unconfirmed_extension_leaves_the_lock_as_it_was() {
    let (mut world, lock) = World::held(3);
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    world.take_all();
    world.say(0, ":1|");
    world.pass(Duration::from_millis(51));
    let Event::Extended {
        result: Err(ExtendError::Unconfirmed(_)),
        ..
    } = world.event()
    else {
        panic!("unconfirmed")
    };
    assert!(
        world.take_all().iter().all(Vec::is_empty),
        "nothing is deleted"
    );
    world.say(1, ":1|");
    world.say(2, ":1|");
    assert!(world.events.is_empty(), "later confirmations are ignored");
    assert!(lock.is_valid_at(world.now));
}

#[test]
fn a_majority_that_misses_the_key_loses_the_lock_and_tells_so() {
    let (mut world, lock) = World::held(3);
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    world.take_all();
    world.say(0, ":0|");
    world.say(1, ":-1|");
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Expired { lock: lost },
                Event::Extended { result: Err(ExtendError::Lost(_)), .. }
            ] if lost == lock.id()
        ),
        "{events:?}"
    );
    assert_eq!(
        world.take(2),
        ["EVALSHA release"],
        "remaining copies are released"
    );
}

#[test]
fn nothing_is_revived() {
    let (mut world, lock) = World::held(3);
    world.now = lock.valid_until();
    let refused = world.engine.extend(world.now, &lock, TTL);
    assert!(matches!(refused, Err(ExtendError::Expired)));
    world.drain();
    assert!(
        world.take_all().iter().all(Vec::is_empty),
        "before any byte is sent"
    );
}

#[test]
fn an_extension_counts_only_within_the_old_validity() {
    let (mut world, lock) = World::held(1);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(5));
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    world.now = lock.valid_until();
    world.say(0, ":1|");
    let Event::Extended {
        result: Err(ExtendError::Unconfirmed(report)),
        ..
    } = world.event()
    else {
        panic!("unconfirmed")
    };
    assert_eq!(outcomes(&report), [NodeOutcome::TimedOut]);
}

#[test]
fn the_number_of_extensions_can_be_limited() {
    let mut world = World::ready(1);
    world.acquire(&LockOptions::new(TTL).extensions(1));
    world.say(0, "+OK|");
    let mut lock = world.lock();
    world
        .engine
        .extend(world.now, &lock, TTL)
        .expect("the first");
    world.drain();
    world.say(0, ":1|");
    let Event::Extended {
        result: Ok(extension),
        ..
    } = world.event()
    else {
        panic!("extended")
    };
    assert!(extension.apply(&mut lock));
    let refused = world.engine.extend(world.now, &lock, TTL);
    assert!(matches!(refused, Err(ExtendError::Limit)));
}

#[test]
fn a_release_ends_an_extension_that_is_open() {
    let (mut world, lock) = World::held(1);
    world.engine.extend(world.now, &lock, TTL).expect("asked");
    world.drain();
    world.release(lock);
    let Event::Extended {
        result: Err(ExtendError::Closed),
        ..
    } = world.event()
    else {
        panic!("closed")
    };
    world.say(0, ":1|:1|");
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn the_loss_is_told_by_a_timer_a_tick_before_the_end() {
    let (mut world, lock) = World::held(3);
    let (at, wake) = world.engine.poll_timeout().expect("a timer");
    assert!(at <= lock.valid_until() && wake != Wake::Output);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(3));
    world.pass(Duration::ZERO);
    assert!(world.events.is_empty());
    world.pass(Duration::from_millis(2));
    let Event::Expired { lock: lost } = world.event() else {
        panic!("expired")
    };
    assert_eq!(lost, lock.id());
    world.pass(TTL);
    assert!(world.events.is_empty(), "told once");
    world.release(lock);
    assert_eq!(
        world.take_all(),
        vec![vec!["EVALSHA release"]; 3],
        "sent also when it expired"
    );
    (0..2).for_each(|node| world.say(node, ":0|"));
    assert!(matches!(world.unlocked(), Err(UnlockError::NotHeld(_))));
}

/// The timer is of whole ticks, the end of a validity is not: between the two the timer fires
/// and must not be armed again for the same tick.
#[test]
fn the_loss_is_told_once_wherever_in_a_tick_the_validity_ends() {
    for nanos in [1, 300_000, 999_999] {
        let mut world = World::ready(1);
        world.now = world.now.saturating_add(Duration::from_nanos(nanos));
        world.try_once();
        world.say(0, "+OK|");
        let lock = world.lock();
        world.now = lock.valid_until().saturating_sub(Duration::from_millis(3));
        for _ in 0..30 {
            world.pass(Duration::from_micros(100));
        }
        assert_eq!(world.now, lock.valid_until());
        let told = core::mem::take(&mut world.events);
        assert!(
            matches!(told[..], [Event::Expired { lock: lost }] if lost == lock.id()),
            "{told:?}"
        );
    }
}

#[test]
fn a_lock_handed_over_stands_on_the_nodes_that_answered() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.take_all();
    let lock = world.engine.detach(world.now, lock);
    world.drain();
    assert_eq!(world.take_all(), [vec![], vec![], vec!["EVALSHA release"]]);
    world.say(2, "+OK|:1|");
    world.is_clean();
    // Another engine takes it over: it may be anywhere.
    let mut other = World::ready(3);
    other.now = world.now;
    let lock = other.engine.adopt(other.now, lock);
    other.release(lock);
    assert_eq!(other.take_all(), vec![vec!["EVALSHA release"]; 3]);
    (0..2).for_each(|node| other.say(node, ":1|"));
    assert!(other.unlocked().is_ok());
}

#[test]
fn an_extension_of_a_lock_that_was_handed_over_counts_those_alone_that_it_stands_on() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    // The third has granted it too, and that was not heard: a release is under way to it, and will
    // delete what the other engine has extended there.
    let lock = world.engine.detach(world.now, lock);
    let mut other = World::ready(3);
    other.now = world.now;
    let mut lock = other.engine.adopt(other.now, lock);
    let before = lock.valid_until();
    other.pass(Duration::from_secs(1));
    other.engine.extend(other.now, &lock, TTL).expect("valid");
    other.drain();
    other.say(1, ":1|");
    other.say(2, ":1|");
    other.lose(0);
    let Event::Extended {
        result: Err(ExtendError::Unconfirmed(report)),
        ..
    } = other.event()
    else {
        panic!("one node is no majority");
    };
    let reset = NodeOutcome::Unreachable(LinkError::Reset);
    let said = [reset, NodeOutcome::Granted, NodeOutcome::Missing];
    assert_eq!(outcomes(&report), said);
    // With those that had answered it is one.
    other.take(0);
    other.greet(0);
    other.pass(Duration::from_secs(1));
    other.engine.extend(other.now, &lock, TTL).expect("valid");
    other.drain();
    other.say(2, ":1|");
    other.say(1, ":1|");
    assert_eq!(other.events.len(), 0);
    other.say(0, ":1|");
    let Event::Extended {
        result: Ok(extension),
        ..
    } = other.event()
    else {
        panic!("both have confirmed it");
    };
    assert!(extension.apply(&mut lock) && before < lock.valid_until());
}

#[test]
fn a_lock_that_was_taken_over_and_told_to_be_over_is_not_extended() {
    let (mut world, lock) = World::held(3);
    let lock = world.engine.detach(world.now, lock);
    let lock = world.engine.adopt(world.now, lock);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(1));
    world.pass(Duration::ZERO);
    assert!(matches!(world.event(), Event::Expired { .. }));
    assert!(lock.is_valid_at(world.now));
    let refused = world.engine.extend(world.now, &lock, TTL);
    assert!(matches!(refused, Err(ExtendError::Expired)));
}

#[test]
fn a_round_waits_for_a_first_greeting_and_no_set_goes_before_it() {
    let mut world = World::new(3);
    world.try_once();
    world.welcome(0);
    assert!(
        !world
            .take(0)
            .iter()
            .any(|command| command.starts_with("SET"))
    );
    world.finish(0, "run0");
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.welcome(1);
    world.finish(1, "run1");
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.welcome(2);
    world.finish(2, "run2");
    assert!(
        !world.take(2).contains(&"SET k 10000".to_string()),
        "decided: never sent late"
    );
    world.release(lock);
    (0..2).for_each(|node| world.say(node, ":1|"));
    assert!(world.unlocked().is_ok());
    world.is_clean();
}

#[test]
fn a_call_ends_by_its_deadline_with_every_node_stalled() {
    let mut world = World::ready(3);
    let wait = Duration::from_millis(400);
    world.acquire(&LockOptions::new(TTL).wait(wait));
    let end = world.now.saturating_add(wait);
    while world.events.is_empty() {
        let (at, _) = world.engine.poll_timeout().expect("it always wakes up");
        world.now = world.now.max(at);
        world.pass(Duration::ZERO);
    }
    assert!(
        world.now <= end.saturating_add(Duration::from_millis(1)),
        "{:?}",
        world.now
    );
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
}

#[test]
fn without_reachable_nodes_nobody_is_asked_in_vain() {
    let mut world = World::ready(3);
    world.lose(1);
    world.lose(2);
    world.try_once();
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("no quorum")
    };
    assert_eq!(outcomes(&report)[0], NodeOutcome::Pending);
    assert_eq!(world.take(0), Vec::<String>::new());
    world.is_clean();
}

#[test]
fn one_server_under_two_names_has_one_vote() {
    let mut world = World::new(3);
    world.greet(0);
    world.welcome(1);
    world.take(1);
    world.finish(1, "run0");
    assert_eq!(world.links[1], "reset");
    assert_eq!(
        world.engine.node_state(world.now, id(1)),
        NodeState::Unusable(Unusable::SameServer(0))
    );
}

#[test]
fn garbage_costs_the_node_its_connection_and_nothing_else() {
    for (reply, reason) in [
        ("HTTP/1.1 400 Bad Request|", Unusable::NotRedis),
        ("-DENIED protected mode|", Unusable::Protected),
        (
            "-ERR max number of clients reached|",
            Unusable::TooManyClients,
        ),
    ] {
        let mut world = World::new(1);
        world.input(Input::Connected { node: id(0) });
        world.say(0, reply);
        assert_eq!(
            world.engine.node_state(world.now, id(0)),
            NodeState::Unusable(reason)
        );
        assert_eq!(world.links[0], "reset");
    }
    let mut world = World::ready(1);
    world.say(0, "+OK|");
    assert_eq!(
        world.engine.node_state(world.now, id(0)),
        NodeState::Down(LinkError::Protocol),
        "an answer to nothing"
    );
}

#[test]
fn pushes_take_no_place_and_a_flood_of_them_costs_the_connection() {
    let mut world = World::ready(1);
    let push = ">2|+invalidate|*1|+k|";
    world.try_once();
    world.say(0, &format!("{push}+OK|{push}"));
    let _held = world.lock();
    world.say(0, &push.repeat(1_000));
    assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
    world.say(0, &push.repeat(1_000));
    assert_eq!(
        world.engine.node_state(world.now, id(0)),
        NodeState::Down(LinkError::Protocol)
    );
}

#[test]
fn a_server_without_hello_is_greeted_in_resp2() {
    let mut world = World::with(Config::builder().node("redis://user:secret@a/3"));
    world.input(Input::Connected { node: id(0) });
    assert_eq!(
        world.take(0),
        ["HELLO 3 AUTH user secret SETNAME shearline"]
    );
    world.say(0, "-ERR unknown command `HELLO`|");
    assert_eq!(
        world.take(0)[..4],
        [
            "AUTH user secret",
            "CLIENT SETNAME shearline",
            "SELECT 3",
            "INFO server"
        ]
    );
    world.say(0, "+OK|+OK|+OK|");
    world.finish(0, "run0");
    assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
}

#[test]
fn a_refused_release_is_tried_again_until_the_key_is_gone() {
    let (mut world, lock) = World::held(1);
    world.release(lock);
    world.take(0);
    world.say(0, "-MISCONF Redis is configured to save RDB snapshots|");
    assert!(matches!(world.unlocked(), Err(UnlockError::Unconfirmed(_))));
    assert_eq!(world.take(0), Vec::<String>::new(), "not hot");
    world.pass(Duration::from_millis(250));
    assert_eq!(world.take(0), ["EVAL release"]);
    world.say(0, ":1|");
    world.is_clean();
}

#[test]
fn bad_requests_are_refused_before_anything_is_sent() {
    let mut world = World::ready(1);
    let mut ask = |resource: &[u8], ttl| {
        let options = LockOptions::new(ttl);
        let asked = world
            .engine
            .acquire(world.now, &Request::new(resource, &options));
        world.drain();
        assert!(world.take(0).is_empty());
        match asked {
            Err(LockError::Invalid(invalid)) => invalid,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(b"", TTL), InvalidRequest::EmptyResource);
    assert!(matches!(
        ask(&[b'k'; 1025], TTL),
        InvalidRequest::ResourceTooLong { bytes: 1025 }
    ));
    for short in [
        Duration::ZERO,
        Duration::from_micros(999),
        Duration::from_millis(2),
    ] {
        assert!(
            matches!(ask(b"k", short), InvalidRequest::TtlTooShort { .. }),
            "{short:?}"
        );
    }
    for long in [Duration::from_secs(31 * 24 * 3600), Duration::MAX] {
        assert!(
            matches!(ask(b"k", long), InvalidRequest::TtlTooLong { .. }),
            "{long:?}"
        );
    }
}

#[test]
fn the_same_seed_and_inputs_give_the_same_bytes() {
    let run = || {
        let mut world = World::ready(3);
        world.acquire(&LockOptions::new(TTL).tries(3));
        world.say(0, "$-1|");
        world.say(1, "$-1|");
        world.pass(Duration::from_millis(300));
        let claims: Vec<_> = world
            .engine
            .parts
            .claims
            .iter()
            .map(|claim| claim.entry.clone())
            .collect();
        (claims, world.take_all())
    };
    assert_eq!(run(), run());
}

#[test]
fn steady_locking_uses_its_memory_again() {
    let mut world = World::ready(5);
    let mut capacity = None;
    for cycle in 0..50 {
        world.try_once();
        (0..5).for_each(|node| world.say(node, "+OK|"));
        let lock = world.lock();
        world.release(lock);
        (0..5).for_each(|node| world.say(node, ":1|"));
        assert!(world.unlocked().is_ok());
        let engine = &world.engine;
        let now = (engine.parts.claims.capacity(), engine.operations.capacity());
        assert!(cycle < 2 || capacity == Some(now));
        capacity = Some(now);
    }
    world.is_clean();
}

#[test]
fn a_delay_of_nothing_does_not_try_for_ever_within_one_turn() {
    let mut world = World::with(Config::builder().nodes(["a", "b", "c"]).retry(
        crate::config::Retry::new(5, Duration::ZERO..=Duration::ZERO),
    ));
    (0..3).for_each(|node| world.lose(node));
    let wait = Duration::from_millis(100);
    world.acquire(&LockOptions::new(TTL).wait(wait));
    while world.events.is_empty() {
        let (at, _) = world.engine.poll_timeout().expect("it always wakes up");
        world.now = world.now.max(at);
        world.pass(Duration::ZERO);
    }
    let LockError::NoQuorum(report) = world.refusal() else {
        panic!("no quorum")
    };
    assert!(report.elapsed() <= wait + Duration::from_millis(1));
    assert!(report.tries() <= 101, "{}", report.tries());
}

#[test]
fn a_seed_that_is_added_changes_every_token_to_come_and_nothing_else_does() {
    let token = |seeds: &[u8]| {
        let mut world = World::ready(1);
        for seed in seeds {
            world.engine.reseed([*seed; 32]);
        }
        world.try_once();
        world.say(0, "+OK|");
        world.lock().token().as_bytes().to_vec()
    };
    let tokens = [&[][..], &[1], &[2], &[1, 2], &[2, 1], &[1, 1]].map(token);
    for (index, one) in tokens.iter().enumerate() {
        assert!(!tokens[..index].contains(one), "{index}");
    }
    assert_eq!(token(&[1, 2]), tokens[3]);
}

#[test]
fn a_clock_that_steps_back_stops_nothing() {
    let mut world = World::ready(3);
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.pass(Duration::from_secs(5));
    world.now = Instant::from_millis(1_000);
    world.try_once(); // Times out before the wheel's time, and is silent since before it.
    world.pass(Duration::from_millis(60));
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
    world.pass(Duration::from_secs(10));
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
}

impl World {
    fn extend(&mut self, lock: &Lock) -> RoundId {
        let round = self.engine.extend(self.now, lock, TTL).expect("asked");
        self.drain();
        round
    }

    /// Lets the engine sleep and wake as it wants until something happens.
    fn sleep_until_event(&mut self) {
        while self.events.is_empty() {
            let (at, _) = self.engine.poll_timeout().expect("a timer");
            self.now = self.now.max(at);
            self.pass(Duration::ZERO);
        }
    }
}

#[test]
fn of_two_extensions_none_takes_the_outcome_of_a_release_away() {
    let (mut world, lock) = World::held(3);
    let (first, second) = (world.extend(&lock), world.extend(&lock));
    world.engine.release(world.now, lock);
    world.drain();
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Extended { round: one, result: Err(ExtendError::Closed) },
                Event::Extended { round: other, result: Err(ExtendError::Closed) },
            ] if [one, other] == [first, second]
        ),
        "{events:?}"
    );
    (0..2).for_each(|node| world.say(node, ":0|:0|:0|"));
    let told = world.event();
    let Event::Released { result, .. } = told else {
        panic!("{told:?}")
    };
    assert!(matches!(result, Err(UnlockError::NotHeld(_))), "{result:?}");
    world.say(2, ":1|:1|:1|");
    world.is_clean();
}

#[test]
fn an_extension_of_a_released_lock_is_not_repaired() {
    let (mut world, lock) = World::held(1);
    let (_, _) = (world.extend(&lock), world.extend(&lock));
    world.release(lock);
    world.take(0);
    world.events.clear();
    world.say(0, "-NOSCRIPT x|-NOSCRIPT x|-NOSCRIPT x|");
    assert_eq!(
        world.take(0),
        ["SCRIPT LOAD", "SCRIPT LOAD", "EVAL release"]
    );
}

#[test]
fn a_loss_ends_every_extension_that_is_open() {
    let (mut world, lock) = World::held(3);
    let (_, _) = (world.extend(&lock), world.extend(&lock));
    (0..2).for_each(|node| world.say(node, ":0|"));
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Expired { .. },
                Event::Extended {
                    result: Err(ExtendError::Lost(_)),
                    ..
                },
                Event::Extended {
                    result: Err(ExtendError::Lost(_)),
                    ..
                },
            ]
        ),
        "{events:?}"
    );
}

#[test]
fn what_was_told_to_be_over_is_not_extended_any_more() {
    let (mut world, lock) = World::held(1);
    world.now = lock.valid_until().saturating_sub(Duration::from_millis(5));
    world.extend(&lock);
    world.pass(Duration::from_millis(4));
    assert!(lock.is_valid_at(world.now), "told early");
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Expired { .. },
                Event::Extended {
                    result: Err(ExtendError::Unconfirmed(_)),
                    ..
                }
            ]
        ),
        "{events:?}"
    );
    world.say(0, ":1|");
    assert!(world.events.is_empty(), "too late");
    world.take(0);
    let refused = world.engine.extend(world.now, &lock, TTL);
    assert!(matches!(refused, Err(ExtendError::Expired)));
    world.drain();
    assert!(world.take(0).is_empty());
}

#[test]
fn an_extension_that_was_cancelled_when_confirmed_does_not_delay_the_loss() {
    let (mut world, lock) = World::held(1);
    world.now = world.now.saturating_add(Duration::from_secs(5));
    let round = world.extend(&lock);
    let node = id(0);
    let bytes = b":1\r\n";
    world
        .engine
        .handle(world.now, Input::Received { node, bytes });
    world.engine.cancel(world.now, round);
    world.drain();
    world.sleep_until_event();
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
    assert!(lock.is_valid_at(world.now));
}

#[test]
fn the_loss_of_a_lock_in_nobodys_care_is_told_to_who_asked_alone() {
    let (mut world, lock) = World::held(3);
    let lock = world.engine.detach(world.now, lock);
    world.extend(&lock);
    (0..2).for_each(|node| world.say(node, ":0|"));
    assert!(matches!(
        world.event(),
        Event::Extended {
            result: Err(ExtendError::Lost(_)),
            ..
        }
    ));
}

#[test]
fn a_second_silence_is_noticed_as_soon_as_the_first() {
    let mut world = World::ready(1);
    for _ in 0..3 {
        world.try_once();
        world.pass(Duration::ZERO);
        world.pass(Duration::from_millis(50)); // Refused, and released behind the SET.
        world.events.clear();
        world.pass(Duration::from_millis(451));
        assert_eq!(
            world.engine.node_state(world.now, id(0)),
            NodeState::Suspect
        );
        world.pass(Duration::from_secs(10));
        assert_eq!(world.links[0], "up");
        world.say(0, "+OK|:1|");
        assert_eq!(world.engine.node_state(world.now, id(0)), NodeState::Ready);
    }
    world.is_clean();
}

#[test]
fn a_node_that_was_stopped_is_not_taken_for_a_distant_one() {
    let (mut world, lock) = World::held(1);
    for _ in 0..100 {
        world.engine.extend(world.now, &lock, TTL).expect("asked");
    }
    world.drain();
    world.pass(Duration::from_secs(3));
    world.say(0, &":1|".repeat(100));
    world.events.clear();
    world.try_once();
    world.pass(Duration::from_millis(60));
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
}

const VALKEY: &str = "%4|+server|+valkey|+version|+9.1.2|+role|+master|+mode|+standalone|";

/// A Valkey that has greeted, and two locks on it.
fn valkey_with_two_locks() -> (World, [Lock; 2]) {
    let mut world = World::new(1);
    world.welcome_as(0, VALKEY);
    world.take(0);
    world.finish(0, "run0");
    let locks = [(); 2].map(|()| {
        world.try_once();
        world.say(0, "+OK|");
        world.lock()
    });
    world.take(0);
    (world, locks)
}

#[test]
fn every_release_that_was_sent_natively_is_repaired_when_the_server_refuses_the_verb() {
    let (mut world, [one, two]) = valkey_with_two_locks();
    world.release(one);
    world.release(two);
    assert_eq!(world.take(0), ["DELIFEQ k", "DELIFEQ k"]);
    world.say(0, "-ERR unknown command|-ERR unknown command|");
    assert_eq!(world.take(0), ["EVAL release", "EVAL release"]);
    world.say(0, ":1|:0|");
    assert_eq!(world.events.len(), 2);
    world.is_clean();
}

#[test]
fn a_debt_on_a_second_name_is_paid_by_script_where_the_native_release_is_refused() {
    let mut world = World::new(3);
    world.welcome_as(1, VALKEY);
    world.take(1);
    world.finish(1, "run0");
    world.greet(2);
    world.try_once();
    world.say(2, "+OK|");
    world.say(1, "+OK|");
    let lock = world.lock();
    world.take(1);
    world.lose(1);
    // The same server answers by its other name first: from now on node 1 is turned away.
    world.welcome_as(0, VALKEY);
    world.take(0);
    world.finish(0, "run0");
    world.release(lock);
    for (release, answer) in [("DELIFEQ k", "-NOPERM x|"), ("EVAL release", ":1|")] {
        world.pass(Duration::from_secs(2));
        world.welcome_as(1, VALKEY);
        assert_eq!(world.take(1)[0], release);
        // All in one read: there is no time for a second try over this connection.
        let [one, two] = [crate::node::RELEASE.sha1, crate::node::EXTEND.sha1];
        let rest = format!("$11|run_id:run0|$-1|$-1|$40|{one}|$40|{two}|");
        world.say(1, &format!("{answer}{rest}"));
        assert_eq!(world.links[1], "reset");
    }
    assert_eq!(world.engine.load().owed, 0);
}

#[test]
fn a_native_release_that_is_refused_for_a_while_stays_native() {
    let (mut world, [one, two]) = valkey_with_two_locks();
    world.release(one);
    world.take(0);
    world.say(0, "-BUSY Redis is busy running a script|");
    assert!(matches!(world.unlocked(), Err(UnlockError::Unconfirmed(_))));
    world.pass(Duration::from_millis(250));
    assert_eq!(world.take(0), ["DELIFEQ k"], "scripts may be forbidden");
    world.lose(0);
    world.pass(Duration::from_millis(50));
    world.welcome_as(0, VALKEY);
    assert_eq!(world.take(0)[0], "DELIFEQ k", "also what is owed");
    world.say(0, ":1|");
    world.finish(0, "run0");
    world.release(two);
    world.say(0, ":0|");
    world.is_clean();
}

#[test]
fn a_release_waits_for_no_node_whose_set_was_taken_back() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    world.try_once();
    (0..2).for_each(|node| world.say(node, "+OK|"));
    let lock = world.lock();
    world.release(lock);
    world.say(0, ":1|");
    world.say(1, ":0|");
    assert!(world.unlocked().is_ok(), "nothing is open any more");
    world.is_clean();
}

#[test]
fn a_set_is_not_sent_behind_its_node_timeout() {
    let mut world = World::new(5);
    for node in [0, 1, 3, 4] {
        world.greet(node);
    }
    world.links[2] = "up";
    world.input(Input::Connected { node: id(2) });
    world.take(2);
    world.pass(Duration::from_millis(90)); // As long as each part of its handshake takes.
    world.say(2, "%2|+role|+master|+mode|+standalone|");
    world.permit(2);
    world.pass(Duration::from_millis(90));
    world.finish(2, "run2");
    world.window[4] = 0;
    world.try_once();
    world.say(0, "+OK|");
    world.say(1, "+OK|");
    world.pass(Duration::from_millis(60));
    assert!(world.events.is_empty(), "the third is far away");
    world.say(2, "+OK|");
    drop(world.lock());
    world.window[4] = usize::MAX;
    world.input(Input::Writable { node: id(4) });
    assert_eq!(world.take(4), Vec::<String>::new());
}

#[test]
fn a_set_that_was_not_sent_while_its_lock_was_valid_is_not_sent_at_all() {
    let mut world = World::ready(3);
    world.window[2] = 0;
    world.try_once();
    (0..2).for_each(|node| world.say(node, "+OK|"));
    drop(world.lock());
    world.pass(TTL);
    assert!(matches!(world.event(), Event::Expired { .. }));
    world.window[2] = usize::MAX;
    world.input(Input::Writable { node: id(2) });
    assert_eq!(world.take(2), Vec::<String>::new());
}

#[test]
fn an_extension_fits_its_own_lock_alone_also_where_locks_have_no_name() {
    let (mut world, one) = World::held(1);
    let mut one = world.engine.detach(world.now, one);
    world.say(0, "");
    world.try_once();
    world.say(0, "+OK|");
    let two = world.lock();
    let mut two = world.engine.detach(world.now, two);
    world.now = world.now.saturating_add(Duration::from_secs(5));
    world.extend(&one);
    world.say(0, ":1|");
    let Event::Extended {
        result: Ok(extension),
        ..
    } = world.event()
    else {
        panic!("extended")
    };
    assert!(!extension.apply(&mut two) && extension.apply(&mut one));
}

#[test]
fn a_lock_that_was_taken_over_and_has_ended_is_not_remembered() {
    let (mut world, lock) = World::held(3);
    let lock = world.engine.detach(world.now, lock);
    let lock = world.engine.adopt(world.now, lock);
    assert_eq!(world.engine.load().claims, 1);
    world.now = lock.valid_until();
    world.pass(Duration::ZERO);
    assert!(matches!(world.event(), Event::Expired { lock: lost } if lost == lock.id()));
    world.is_clean();
    world.release(lock);
    assert_eq!(world.take_all(), vec![vec!["EVALSHA release"]; 3]);
}

#[test]
fn reports_that_fit_nothing_do_nothing() {
    let mut world = World::ready(1);
    for node in [id(0), id(1), id(31), id(255)] {
        let (bytes, len, reason) = (&b""[..], usize::MAX, LinkError::Reset);
        world.input(Input::Transmitted { node, len });
        world.input(Input::Connected { node });
        world.input(Input::Writable { node });
        world.input(Input::Received { node, bytes });
        if node != id(0) {
            world.input(Input::Disconnected { node, reason });
        }
    }
    world.try_once();
    assert_eq!(world.take(0), ["SET k 10000"]);
    world.lose(0);
    let late = Input::Transmitted {
        node: id(0),
        len: 99,
    };
    world.input(late);
    assert!(matches!(world.refusal(), LockError::NoQuorum(_)));
}

#[test]
fn an_attempt_short_of_ready_nodes_tries_those_in_back_off() {
    let mut world = World::ready(3);
    for _ in 0..9 {
        world.lose(2); // Until the back-off is long.
        world.pass(Duration::from_secs(2));
    }
    world.lose(2);
    world.lose(1);
    world.pass(Duration::from_millis(300));
    assert_eq!(world.links, ["up", "connecting", ""]);
    world.try_once();
    assert_eq!(world.links[2], "connecting", "node 1 may never come");
}

/// Nodes 20 ms away, a lock that another holds, and a wait that ends whenever.
#[test]
fn the_last_attempt_is_not_begun_too_late_to_tell_who_holds_it() {
    for wait in 100..200 {
        let mut world = World::with(Config::builder().nodes(["a", "b", "c"]).retry(
            crate::config::Retry::new(5, Duration::from_millis(5)..=Duration::from_millis(60)),
        ));
        for node in 0..3 {
            world.links[node] = "up";
            world.input(Input::Connected { node: id(node) });
        }
        world.pass(Duration::from_millis(20));
        (0..3).for_each(|node| world.say(node, "%2|+role|+master|+mode|+standalone|"));
        world.pass(Duration::from_millis(20));
        (0..3).for_each(|node| world.finish(node, &format!("run{node}")));
        world.take_all();
        world.acquire(&LockOptions::new(TTL).wait(Duration::from_millis(wait)));
        while world.events.is_empty() {
            let asked = world.take_all();
            if asked.concat().is_empty() {
                let (at, _) = world.engine.poll_timeout().expect("a timer");
                world.now = world.now.max(at);
                world.pass(Duration::ZERO);
                continue;
            }
            world.pass(Duration::from_millis(20));
            for (node, commands) in asked.iter().enumerate() {
                let held = |command: &String| command.starts_with("SET");
                let said = commands.iter().map(|c| if held(c) { "_|" } else { ":0|" });
                world.say(node, &said.collect::<String>());
            }
        }
        assert!(matches!(world.refusal(), LockError::Held(_)), "{wait} ms");
    }
}
