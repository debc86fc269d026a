//! The world of a story: an engine, its nodes as a test writes them, and the time.
//!
//! A story connects nodes, gives their answers, takes the commands to them, and moves the time. The calls and outcomes
//! of a story are in `calls`.

use core::fmt::Debug;

use super::stats::Told;
use super::*;
use crate::config::Builder;
use crate::node::Node;

/// The answer of a server to `HELLO`.
pub(super) const HELLO: &str = "%2|+role|+master|+mode|+standalone|";
pub(super) const VALKEY: &str =
    "%4|+server|+valkey|+version|+9.1.2|+role|+master|+mode|+standalone|";

/// The questions and scripts that follow `HELLO`.
pub(super) const QUESTIONS: [&str; 7] = [
    "INFO server",
    "INFO replication",
    "INFO memory",
    "SCRIPT LOAD",
    "SCRIPT LOAD",
    "SCRIPT LOAD",
    "SCRIPT LOAD",
];

/// An engine, its N nodes, and the time.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    /// The commands to each node that were not looked at yet, each as one line.
    pub(super) sent: Vec<Vec<String>>,
    /// The number of writes to each node.
    pub(super) writes: Vec<usize>,
    /// How many milliseconds each node was last asked to keep a key.
    pub(super) lives: Vec<u64>,
    /// The bytes that each node would read, including torn commands.
    wires: Vec<Inbox>,
    /// The number of bytes that each node's socket still takes.
    pub(super) window: Vec<usize>,
    pub(super) links: Vec<&'static str>,
    /// The number of probes that were opened to each node, and whether the last one is open.
    pub(super) probes: Vec<u32>,
    pub(super) probing: Vec<bool>,
    /// No connection is known to permit releases, so the first `SET` on each asks for that.
    pub(super) unpermitted: bool,
    pub(super) events: Vec<Event>,
    pub(super) told: Told,
}

/// Returns a configuration of `nodes` nodes.
pub(super) fn named(nodes: usize) -> Builder {
    let names = (0..nodes).map(|node| format!("node{node}:6379"));
    Config::builder().nodes(names)
}

impl World {
    /// Asserts that all nodes were sent these commands.
    #[track_caller]
    pub(super) fn all_were_sent(&mut self, sent: &[&str]) {
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), sent, "node {node}");
        }
    }

    /// Asserts that all nodes were sent these commands, and lets each say `reply`.
    #[track_caller]
    pub(super) fn all_exchange(&mut self, sent: &[&str], reply: &str) {
        self.all_were_sent(sent);
        self.all_say(0..self.sent.len(), reply);
    }

    /// Returns the rounds that were granted, in order, and their locks.
    #[track_caller]
    pub(super) fn all_granted(&mut self) -> (Vec<RoundId>, Vec<Lock>) {
        let events = core::mem::take(&mut self.events).into_iter();
        let granted = events.map(|event| match event {
            Event::Acquired { round, result } => (round, result.expect("granted")),
            other => panic!("{other:?}"),
        });
        granted.unzip()
    }

    /// Makes `nodes` nodes that are not connected.
    pub(super) fn new(nodes: usize) -> Self {
        Self::with(named(nodes))
    }

    /// Makes the nodes of `builder`, which are not connected. No node is asked for the time.
    pub(super) fn with(builder: Builder) -> Self {
        Self::watching(builder.watch_clocks(false))
    }

    pub(super) fn watching(builder: Builder) -> Self {
        let config = builder.config().expect("valid");
        let nodes = config.nodes().len();
        let now = Instant::from_millis(1_000);
        let mut world = Self {
            engine: Engine::new(&config, [42; 32], now),
            now,
            sent: vec![Vec::new(); nodes],
            writes: vec![0; nodes],
            lives: vec![0; nodes],
            wires: (0..nodes).map(|_| Inbox::default()).collect(),
            window: vec![usize::MAX; nodes],
            links: vec![""; nodes],
            probes: vec![0; nodes],
            probing: vec![false; nodes],
            unpermitted: false,
            events: Vec::new(),
            told: Told::default(),
        };
        world.engine.work.parts.keeper.looks.most = 0; // Stories about changing keys turn this on.
        world.drain();
        world
    }

    /// Makes `nodes` nodes that have greeted and know the scripts.
    pub(super) fn ready(nodes: usize) -> Self {
        Self::new(nodes).greeted()
    }

    /// Like [`ready`](Self::ready), with watches on the keys of kept locks.
    pub(super) fn telling(nodes: usize) -> Self {
        let mut world = Self::ready(nodes);
        world.engine.work.parts.keeper.looks.most = 1000;
        world
    }

    /// Lets all nodes greet.
    pub(super) fn greeted(mut self) -> Self {
        (0..self.links.len()).for_each(|node| self.greet(node));
        self
    }

    /// Makes the nodes of `builder`, whose servers have long been running when they greet.
    pub(super) fn running(builder: Builder) -> Self {
        let mut world = Self::with(builder);
        for node in 0..world.links.len() {
            world.greet_as(node, &format!("run{node}"), 1_000);
        }
        world
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Carries out the outputs of the engine.
    pub(super) fn drain(&mut self) {
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
                Output::Event(event) => {
                    self.told.count(&event);
                    self.events.push(event);
                }
                Output::Transmit { node, bytes } => {
                    let index = node.index();
                    self.writes[index] += 1;
                    let len = bytes.len().min(self.window[index]);
                    self.window[index] -= len;
                    let mut piece = &bytes[..len];
                    while let Some(frame) = self.wires[index].next(&mut piece).expect("RESP") {
                        self.lives[index] = life_in(frame.value).unwrap_or(self.lives[index]);
                        self.sent[index].push(shown(frame.value));
                    }
                    let input = Input::Transmitted { node, len };
                    self.engine.handle(self.now, input);
                }
            }
        }
        self.counted_once();
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    /// `node` says `reply`, with `|` for each line end.
    pub(super) fn say(&mut self, node: usize, reply: &str) {
        self.say_undrained(node, reply);
        self.drain();
    }

    /// `node` says `reply`; the engine is not polled yet.
    pub(super) fn say_undrained(&mut self, node: usize, reply: &str) {
        let bytes = reply.replace('|', "\r\n").into_bytes();
        let (node, bytes) = (id(node), &bytes[..]);
        let input = Input::Received { node, bytes };
        self.engine.handle(self.now, input);
    }

    /// Asserts that `node` was sent these commands since the last look, and lets it say `reply`.
    #[track_caller]
    pub(super) fn exchange<Sent: Debug>(&mut self, node: usize, sent: Sent, reply: &str)
    where
        Vec<String>: PartialEq<Sent>,
    {
        assert_eq!(self.take(node), sent, "node {node}");
        self.say(node, reply);
    }

    /// Each of `nodes` says `reply`.
    pub(super) fn all_say(&mut self, nodes: Range<usize>, reply: &str) {
        nodes.for_each(|node| self.say(node, reply));
    }

    /// Each node answers each of its commands as `answer` says.
    pub(super) fn all_answer<Said: AsRef<str>>(
        &mut self,
        mut answer: impl FnMut(usize, &str) -> Said,
    ) {
        for node in 0..self.sent.len() {
            for sent in self.take(node) {
                self.say(node, answer(node, &sent).as_ref());
            }
        }
    }

    /// Returns the commands to `node` since the last look.
    pub(super) fn take(&mut self, node: usize) -> Vec<String> {
        core::mem::take(&mut self.sent[node])
    }

    pub(super) fn take_all(&mut self) -> Vec<Vec<String>> {
        (0..self.sent.len()).map(|node| self.take(node)).collect()
    }

    /// Makes the socket of `node` take everything again.
    pub(super) fn make_room(&mut self, node: usize) {
        self.window[node] = usize::MAX;
        self.input(Input::Writable { node: id(node) });
    }

    // ----- connections ----------------------------------------------------------------------

    pub(super) fn connect(&mut self, node: usize) {
        self.links[node] = "up";
        self.wires[node].clear();
        self.window[node] = usize::MAX;
        self.input(Input::Connected { node: id(node) });
    }

    pub(super) fn lose(&mut self, node: usize) {
        self.lose_for(node, LinkFault::Reset);
    }

    pub(super) fn lose_for(&mut self, node: usize, reason: LinkFault) {
        self.links[node] = "";
        let (node, reason) = (id(node), reason.into());
        self.input(Input::Disconnected { node, reason });
    }

    /// Waits until the engine connects to `node` again.
    pub(super) fn reconnect(&mut self, node: usize) {
        let end = self.now.saturating_add(Duration::from_secs(60));
        while self.links[node] != "connecting" {
            assert!(self.now < end, "node {node} is {:?}", self.links[node]);
            self.pass(10 * MS);
        }
    }

    /// Connects `node`, whose server greets as `run{node}`.
    pub(super) fn greet(&mut self, node: usize) {
        self.welcome(node);
        assert_eq!(self.take(node), QUESTIONS);
        self.finish(node, &format!("run{node}"));
    }

    /// Connects `node`, whose server accepts `HELLO`.
    pub(super) fn welcome(&mut self, node: usize) {
        self.welcome_as(node, HELLO);
    }

    /// The engine connects to `node` again, and its server accepts `HELLO`.
    pub(super) fn welcome_again(&mut self, node: usize) {
        self.reconnect(node);
        self.welcome(node);
    }

    /// Like [`welcome`](Self::welcome), with this answer to `HELLO`.
    pub(super) fn welcome_as(&mut self, node: usize, hello: &str) {
        assert_eq!(self.links[node], "connecting", "node {node}");
        self.connect(node);
        assert_eq!(self.take(node), ["HELLO 3 SETNAME shearline"]);
        self.say_hello(node, hello);
    }

    fn say_hello(&mut self, node: usize, hello: &str) {
        self.say(node, hello);
        if !self.unpermitted {
            // Sets the state of a node that has shown that its user may release locks, so that the first `SET` does not
            // ask.
            self.node(node).abilities.scripts_permitted();
        }
    }

    /// Connects `node`, whose server answers two rounds of questions. Each time, `pass` moves the time by `round_trip`.
    pub(super) fn greet_late(
        &mut self,
        node: usize,
        round_trip: Duration,
        pass: fn(&mut Self, Duration),
    ) {
        self.connect(node);
        pass(self, round_trip);
        self.say_hello(node, HELLO);
        pass(self, round_trip);
        for sent in self.take(node) {
            if sent == "EVAL release" {
                self.say(node, ":1|");
            }
        }
        self.finish(node, &format!("run{node}"));
    }

    /// Connects `node` again. It greets as the server `run_id`, which has been running for `uptime` seconds.
    pub(super) fn greet_as(&mut self, node: usize, run_id: &str, uptime: u64) {
        self.welcome_again(node);
        self.take(node);
        self.finish_as(node, run_id, uptime);
    }

    /// The connection to `node` is lost. Behind the next one is the server `run_id`, which has been running for `uptime`
    /// seconds.
    pub(super) fn comes_back_as(&mut self, node: usize, run_id: &str, uptime: u64) {
        self.lose(node);
        self.greet_as(node, run_id, uptime);
    }

    /// The connection to `node` is lost, and the same server greets again, without another look at its uptime.
    pub(super) fn greet_again(&mut self, node: usize) {
        self.lose(node);
        self.reconnect(node);
        self.greet(node);
    }

    /// Ends a greeting.
    pub(super) fn finish(&mut self, node: usize, run_id: &str) {
        self.say(node, &greeting(run_id));
    }

    /// Ends the greeting of a server that has been running for `uptime` seconds.
    pub(super) fn finish_as(&mut self, node: usize, run_id: &str, uptime: u64) {
        let server = format!("{run_id}|uptime_in_seconds:{uptime}");
        self.say(node, &greeting(&server));
    }

    /// Returns what the engine knows of `node`.
    pub(super) fn node(&mut self, node: usize) -> &mut Node {
        &mut self.engine.work.parts.nodes[id(node)]
    }

    pub(super) fn state(&self, node: usize) -> NodeState {
        self.engine.nodes()[id(node)].state(self.now)
    }

    pub(super) fn quarantined_until(&self, node: usize) -> Option<Instant> {
        match self.state(node) {
            NodeState::Quarantined { left } => Some(self.now.saturating_add(left)),
            _ => None,
        }
    }

    // ----- time -----------------------------------------------------------------------------

    /// Moves the time, and lets timers fire.
    pub(super) fn pass(&mut self, span: Duration) {
        self.wait(span);
        self.input(Input::Tick);
    }

    /// Moves the time; the engine does not see it before its next input.
    pub(super) fn wait(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
    }

    /// Sleeps as a driver does until there is an event. Returns how long that took.
    pub(super) fn sleep_until_event(&mut self) -> Duration {
        let start = self.now;
        while self.events.is_empty() {
            self.sleep_until_timer();
        }
        self.now.saturating_since(start)
    }

    /// Sleeps as a driver does until `node` is sent a command.
    pub(super) fn sleep_until_asked(&mut self, node: usize) {
        while self.sent[node].is_empty() {
            self.sleep_until_timer();
        }
    }

    pub(super) fn sleep_until_timer(&mut self) {
        let (at, _) = self.engine.poll_timeout().expect("a timer is armed");
        self.now = self.now.max(at);
        self.input(Input::Tick);
    }

    /// Sleeps as a driver does for `span`, whatever happens.
    pub(super) fn sleep(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        while self.engine.poll_timeout().is_some_and(|(at, _)| at < end) {
            self.sleep_until_timer();
        }
        self.now = end;
    }

    #[track_caller]
    pub(super) fn is_clean(&self) {
        let load = self.engine.load();
        assert_eq!(
            (load.rounds, load.claims, load.debts),
            (0, 0, 0),
            "{load:?}"
        );
        assert_eq!((load.in_flight, load.unsent), (0, 0), "{load:?}");
    }
}

pub(super) fn id(node: usize) -> NodeId {
    NodeId::new(node)
}

/// Returns the answers of a server with this `INFO` to the questions of a greeting.
pub(super) fn greeting(server: &str) -> String {
    let server = format!("run_id:{server}");
    let len = server.replace('|', "\r\n").len();
    format!("${len}|{server}|$-1|$-1|{}", digests())
}

/// Returns the answers to the `SCRIPT LOAD` commands of a handshake.
pub(super) fn digests() -> String {
    let scripts = [
        &crate::node::RELEASE,
        &crate::node::EXTEND,
        &crate::node::EXTEND_EACH,
        &crate::node::RELEASE_EACH,
    ];
    let digest = |script: &crate::node::Script| format!("$40|{}|", script.sha1);
    scripts.map(digest).concat()
}

/// Returns how many locks this command releases.
pub(super) fn released_by(command: &str) -> usize {
    command.split(", ").count()
}

/// Returns the answer to a command that has released `count` locks.
pub(super) fn released_each(count: usize) -> String {
    match count {
        1 => ":1|".to_string(),
        _ => format!("*{count}|{}", ":1|".repeat(count)),
    }
}

/// Returns the milliseconds in a plain `SET` or an extension.
fn life_in(value: Value<'_>) -> Option<u64> {
    let words = value.as_items().expect("a command").iter();
    let mut last = words.skip(5);
    let life = last.next().filter(|_| last.next().is_none())?;
    let digits = core::str::from_utf8(life.as_bytes().expect("a bulk"));
    digits.ok()?.parse().ok()
}

/// A command that runs a script, and the words to describe it.
struct Scripted<'a> {
    verb: &'a str,
    keys: &'a [&'a str],
    /// The arguments.
    of: &'a [&'a str],
}

impl Scripted<'_> {
    /// Describes the command by the digest or text of its script, without tokens, digests and script texts.
    fn shown(&self, script: &str) -> String {
        use crate::node::*;
        type Described<'a> = (&'static Script, fn(&Scripted<'a>) -> String);
        let scripts: [Described<'_>; 30] = [
            (&CHECKED_EXTEND, |it| format!("{} extend", it.verb)),
            (&CONFIRM, |it| format!("{} confirm", it.verb)),
            (&CONFIRM_MEMBER, |it| it.of_member("CONFIRM")),
            (&CONFIRM_SEVERAL, |it| it.of_several("CONFIRM")),
            (&COUNT_COUNTERS, |it| it.with_all("COUNT")),
            (&EXTEND, |it| format!("{} extend", it.verb)),
            (&EXTEND_EACH, Self::of_extensions),
            (&EXTEND_MEMBER, |it| it.of_member("EXTEND")),
            (&EXTEND_SEVERAL, |it| it.of_several("EXTEND")),
            (&INSPECT, |it| format!("{} inspect", it.verb)),
            (&JOIN, |it| it.of.join(" ")),
            (&LEAVE_INTENT, Self::of_intent),
            (&LIST_NAMES, |it| it.with_all("LIST")),
            (&LOOK_AT_FLOOR, |it| format!("LOOK {}", it.of[0])), // The nonce is random.
            (&MOVE_SLOT, |it| it.of_member("MOVE")),
            (&OVERWRITE, |it| format!("{} overwrite", it.verb)),
            (&RAISE_FENCED, |it| it.of_number("RAISE")),
            (&RAISE_MEMBER, |it| {
                format!("RAISE {} {} to {}", it.keys[0], it.of[6], it.of[3])
            }),
            (&RELEASE, |it| format!("{} release", it.verb)),
            (&RELEASE_EACH, Self::of_releases),
            (&RELEASE_MEMBER, |it| it.of_member("RELEASE")),
            (&RELEASE_SEVERAL, |it| it.of_several("RELEASE")),
            (&REPAIR_FLOOR, |it| it.with_all("REPAIR")),
            (&SET_FLOOR, |it| it.with_all("FLOOR")),
            (&SET_IF_PERMITTED, Self::of_trial),
            (&TAKE_FENCED, |it| it.of_number("TAKE")),
            (&TAKE_SEVERAL, |it| it.of_several("TAKE")),
            (&TAKE_SHARED, |it| it.of_reader("READ")),
            (&TAKE_SLOT, |it| it.of_slot(&it.of[3..6])),
            (&TAKE_SLOT_FENCED, Self::of_numbered_slot),
        ];
        let is = |named: &Script| [named.text, named.sha1].contains(&script);
        let found = scripts.iter().find(|(named, _)| is(named));
        let another = format!("{} another script", self.verb);
        found.map_or(another, |(_, shown)| shown(self))
    }

    fn with_all(&self, what: &str) -> String {
        format!("{what} {}", self.of.join(" "))
    }

    /// Describes what is done to a fencing token, and how the script is named.
    fn of_number(&self, what: &str) -> String {
        let how = ["by digest ", ""][usize::from(self.verb == "EVAL")];
        format!("{how}{what} {} {}", self.keys[0], self.of[3])
    }

    /// Describes the slot where the search for a permit begins, or `alone` the only one, and the number of permits.
    fn of_slot(&self, slots: &[&str]) -> String {
        let (k, slot, tried) = (slots[0], slots[1], slots[2]);
        assert!(tried == "1" || tried == k);
        let alone = if tried == k { "" } else { "alone " };
        format!("SLOT {} {} {alone}{slot} of {k}", self.keys[0], self.of[1])
    }

    fn of_numbered_slot(&self) -> String {
        let slot = self.of_slot(&self.of[6..9]);
        format!("NUMBERED {slot} from {}", self.of[3])
    }

    /// Describes what is done to the member of a set. The member is a permit or a reader, which its prefix shows.
    fn of_member(&self, what: &str) -> String {
        let key = self.keys[0];
        match (what, self.of) {
            (_, [.., "r/"]) => self.of_reader(&format!("{what} READER")),
            ("EXTEND", [_, ttl, _, prefix]) => format!("EXTEND {key} {ttl} {prefix}"),
            ("RELEASE", [_, prefix, _]) => format!("TAKE OUT {key} but {prefix}"),
            (_, of) => format!("{what} {key} {}", of[of.len() - 1]),
        }
    }

    fn of_reader(&self, what: &str) -> String {
        match self.of {
            [_] | [_, "" | "r/", ..] => format!("{what} {}", self.keys[0]),
            of => format!("{what} {} {}", self.keys[0], of[1]),
        }
    }

    fn of_several(&self, what: &str) -> String {
        let ttl = self.of.get(1).filter(|ttl| !ttl.is_empty());
        let ttl = ttl.map(core::slice::from_ref).unwrap_or_default();
        [&[what], self.keys, ttl].concat().join(" ")
    }

    fn of_extensions(&self) -> String {
        let each = self.keys.iter().zip(self.of.chunks(2));
        let each: Vec<_> = each.map(|(key, of)| format!("{key} {}", of[1])).collect();
        format!("{} extend {}", self.verb, each.join(", "))
    }

    fn of_releases(&self) -> String {
        assert_eq!(self.keys.len(), self.of.len(), "as many tokens");
        format!("{} release {}", self.verb, self.keys.join(", "))
    }

    fn of_intent(&self) -> String {
        let key = self.keys[0].strip_prefix("shearline:intent:");
        let key = key.expect("the key of an intent");
        format!("INTENT {key} {} for {}", self.of[0], self.of[1])
    }

    /// Describes a `SET`, or nothing, and the commands that the user needs for it.
    fn of_trial(&self) -> String {
        let what = match self.of[1] {
            "" => "permits".to_string(),
            ttl => format!("SET {} {ttl} if", self.keys[0]),
        };
        [&[self.verb, &what], &self.of[2..]].concat().join(" ")
    }
}

/// Describes a command in few words, without tokens, digests and script texts.
fn shown(value: Value<'_>) -> String {
    let words = value.as_items().expect("a command").iter();
    let words: Vec<_> = words
        .map(|word| String::from_utf8_lossy(word.as_bytes().expect("a bulk")))
        .collect();
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    match words[..] {
        ["SET", key, _, "IFEQ", ..] => format!("SET {key} IFEQ"),
        ["SET", _, _, "XX", ..] => words.join(" "),
        ["SET", key, _, _, _, ttl, ..] => format!("SET {key} {ttl}"),
        [verb @ ("EVAL" | "EVALSHA"), script, keys, ref rest @ ..] => {
            let (keys, of) = rest.split_at(keys.parse().expect("a number"));
            Scripted { verb, keys, of }.shown(script)
        }
        ["SCRIPT", ..] => "SCRIPT LOAD".to_string(),
        ["MSETEX", _, ref pairs @ .., nx, px, ttl] => {
            assert_eq!([nx, px], ["NX", "PX"]);
            let keys: Vec<_> = pairs.iter().step_by(2).copied().collect();
            format!("MSETEX {} {ttl}", keys.join(" "))
        }
        [verb @ ("DELIFEQ" | "DELEX"), key, ..] => format!("{verb} {key}"),
        _ => words.join(" "),
    }
}
