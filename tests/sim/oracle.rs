//! What must never be seen, whatever goes wrong. One function for each promise.
//!
//! The oracles know true time and every node's memory, which no client does. They look at what
//! clients believe, what nodes execute and what calls return, and never into an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shearline::Instant;
use shearline::embedded::Store;
use shearline::engine::Wake;

use crate::client::{Client, Task, User};
use crate::clock::{Clock, MILLI, NEVER, SECOND, Time};
use crate::plan::Plan;
use crate::world::{World, resource_name};

/// Whoever objects to a history that does not end. It is always heard.
pub(crate) const ENDLESS: &str = "endless";

/// The random part of a token.
pub(crate) type Token = [u8; 20];

/// An oracle objects.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Which one.
    pub(crate) oracle: &'static str,
    pub(crate) text: String,
    pub(crate) at: Time,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) violation: Option<Violation>,
    /// The only one that is listened to.
    only: Option<&'static str>,
    no_excuses: bool,
    quorum: usize,
    covered: bool,
    longest_ttl: Time,
    /// By resource and client: strangers come behind the clients.
    pub(crate) beliefs: Vec<Vec<Option<Belief>>>,
    /// By resource: until when several may believe.
    excused: Vec<Time>,
    tokens: BTreeMap<Token, Record>,
    /// By client and node: when the newest command that was answered had been sent.
    answered: Vec<Vec<Time>>,
    /// Tokens that should not be where they are, and since when.
    suspects: BTreeMap<(usize, Token), Time>,
    /// Tokens that a node brought back from its disk after they had been deleted.
    revenants: BTreeSet<(usize, Token)>,
    pub(crate) counts: Counts,
}

/// What happened, to know that worlds are not dead.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) locks: u64,
    pub(crate) extensions: u64,
    pub(crate) hand_overs: u64,
    pub(crate) losses: u64,
    pub(crate) commands: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            locks,
            extensions,
            hand_overs,
            losses,
            commands,
        } = other;
        self.locks += locks;
        self.extensions += extensions;
        self.hand_overs += hand_overs;
        self.losses += losses;
        self.commands += commands;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} locks, {} extensions, {} hand-overs, {} losses, {} commands",
            self.locks, self.extensions, self.hand_overs, self.losses, self.commands
        )
    }
}

/// A client takes itself for the holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    pub(crate) token: Token,
    /// By its clock.
    pub(crate) until: Instant,
}

/// What is known of a token.
#[derive(Debug)]
struct Record {
    owner: usize,
    resource: usize,
    /// When the first command that set it was sent.
    sent: Time,
    /// By node: when it was granted there, and until when it lasts by that node's clock.
    grants: Vec<Option<Grant>>,
    /// Those it was handed to.
    heirs: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    /// When the command was sent.
    sent: Time,
    /// What the node's clock shows when the key expires.
    until: Instant,
}

/// What a command is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Set,
    Release,
    Extend,
    Other,
}

impl Verb {
    /// The verb and the key of a command.
    pub(crate) fn of<'a>(words: &[&'a [u8]]) -> (Self, Option<&'a [u8]>) {
        match *words {
            [b"SET", key, ..] => (Self::Set, Some(key)),
            [b"EVAL" | b"EVALSHA", _, _, key, _] => (Self::Release, Some(key)),
            [b"EVAL" | b"EVALSHA", _, _, key, _, _] => (Self::Extend, Some(key)),
            [b"DELIFEQ" | b"DELEX" | b"DEL", key, ..] => (Self::Release, Some(key)),
            [b"PEXPIRE", key, ..] => (Self::Extend, Some(key)),
            _ => (Self::Other, None),
        }
    }
}

/// A command that a node executed, or refused.
#[derive(Debug)]
pub(crate) struct Deed<'a> {
    pub(crate) node: usize,
    pub(crate) client: usize,
    pub(crate) at: Time,
    pub(crate) sent: Time,
    /// By the node's clock.
    pub(crate) shown: Instant,
    pub(crate) verb: Verb,
    pub(crate) words: &'a [&'a [u8]],
    pub(crate) reply: &'a [u8],
    pub(crate) before: Option<Token>,
    pub(crate) after: Option<Token>,
    /// The node was in its right mind.
    pub(crate) calm: bool,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let believers = plan.clients + plan.strangers;
        Self {
            violation: None,
            only: plan.switches.only,
            no_excuses: plan.switches.no_excuses,
            quorum: plan.nodes / 2 + 1,
            covered: plan.covered,
            longest_ttl: plan.longest_ttl * MILLI,
            beliefs: vec![vec![None; believers]; plan.resources],
            excused: vec![0; plan.resources],
            tokens: BTreeMap::new(),
            answered: vec![vec![0; plan.nodes]; plan.clients],
            suspects: BTreeMap::new(),
            revenants: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn object(&mut self, oracle: &'static str, at: Time, text: String) {
        let heard = self
            .only
            .is_none_or(|only| only == oracle || oracle == ENDLESS);
        if heard && self.violation.is_none() {
            self.violation = Some(Violation { oracle, text, at });
        }
    }

    pub(crate) fn token_at(&self, store: &Store, shown: Instant, key: &[u8]) -> Option<Token> {
        store.get(shown, key).map(token_of)
    }

    /// Several may believe that they hold `resource`, or any, for as long as a lock can live.
    pub(crate) fn excuse(&mut self, now: Time, resource: Option<usize>) {
        if self.no_excuses {
            return;
        }
        let until = now + self.longest_ttl + self.longest_ttl / 100 + 2 * MILLI;
        for (number, excused) in self.excused.iter_mut().enumerate() {
            if resource.is_none_or(|resource| resource == number) {
                *excused = until.max(*excused);
            }
        }
    }

    // ----- what nodes execute ---------------------------------------------------------------

    /// Notes what a node did, and looks whether it should have been told to.
    pub(crate) fn executed(&mut self, deed: &Deed<'_>, clock: &Clock) {
        self.counts.commands += 1;
        self.no_foreign_key(deed);
        let _ = clock;
        let ttl = |word: Option<&&[u8]>| {
            let text = std::str::from_utf8(word?).ok()?;
            Some(std::time::Duration::from_millis(text.parse().ok()?))
        };
        match deed.verb {
            Verb::Set if deed.reply == b"+OK\r\n" => {
                let until = ttl(deed.words.last()).map(|ttl| whole(deed.shown).saturating_add(ttl));
                self.note(deed, until);
            }
            Verb::Extend if deed.reply == b":1\r\n" => {
                let until = ttl(deed.words.get(5)).map(|ttl| whole(deed.shown).saturating_add(ttl));
                self.note(deed, until);
            }
            Verb::Set => self.note(deed, None),
            Verb::Extend | Verb::Release | Verb::Other => {}
        }
    }

    fn note(&mut self, deed: &Deed<'_>, until: Option<Instant>) {
        let word = if deed.verb == Verb::Set { 2 } else { 4 };
        let Some(token) = deed.words.get(word).map(|word| token_of(word)) else {
            return;
        };
        let nodes = self.answered.first().map_or(0, Vec::len);
        let resource = deed.words[if deed.verb == Verb::Set { 1 } else { 3 }];
        let resource = resource.last().map_or(0, |digit| usize::from(digit - b'0'));
        let record = self.tokens.entry(token).or_insert_with(|| Record {
            owner: deed.client,
            resource,
            sent: deed.sent,
            grants: vec![None; nodes],
            heirs: Vec::new(),
        });
        record.sent = record.sent.min(deed.sent);
        let Some(until) = until else { return };
        let grant = &mut record.grants[deed.node];
        let before = grant.unwrap_or(Grant {
            sent: 0,
            until: Instant::ZERO,
        });
        *grant = Some(Grant {
            sent: before.sent.max(deed.sent),
            until: before.until.max(until),
        });
    }

    /// Nobody's key is deleted or replaced but by its owner.
    fn no_foreign_key(&mut self, deed: &Deed<'_>) {
        let Some(before) = deed.before.filter(|_| deed.after != deed.before) else {
            return;
        };
        let owned = self.tokens.get(&before).is_none_or(|record| {
            record.owner == deed.client || record.heirs.contains(&deed.client)
        });
        if !owned {
            let text = format!(
                "client {} took a key away at node {} that is not its own",
                deed.client, deed.node
            );
            self.object("foreign key", deed.at, text);
        }
    }

    pub(crate) fn inherited(&mut self, token: Token, heir: usize) {
        if let Some(record) = self.tokens.get_mut(&token) {
            record.heirs.push(heir);
        }
    }

    pub(crate) fn answer_read(&mut self, client: usize, node: usize, sent: Time) {
        let newest = &mut self.answered[client][node];
        *newest = sent.max(*newest);
    }

    /// A node lost its newest past: what was deleted then may be there again.
    pub(crate) fn brought_back(&mut self, node: usize, store: &Store, shown: Instant) {
        for resource in 0..self.excused.len() {
            if let Some(token) = self.token_at(store, shown, &resource_name(resource)) {
                self.revenants.insert((node, token));
            }
        }
    }

    // ----- what clients believe ---------------------------------------------------------------

    /// A grant or an extension stands on nodes that were asked after the call began, and lasts
    /// there at least as long as it was promised.
    pub(crate) fn votes(
        &mut self,
        now: Time,
        token: Token,
        since: Time,
        until: Time,
        clocks: &[&Clock],
    ) {
        let Some(record) = self.tokens.get(&token) else {
            self.object("votes", now, "a lock whose token no node has seen".into());
            return;
        };
        let lasting = |(grant, clock): (&Option<Grant>, &&Clock)| {
            grant.is_some_and(|grant| {
                since <= grant.sent && (!self.covered || clock.show(until) <= grant.until)
            })
        };
        let votes = record
            .grants
            .iter()
            .zip(clocks)
            .filter(|pair| lasting((pair.0, pair.1)));
        let votes = votes.count();
        if votes < self.quorum {
            let text = format!("{votes} nodes stand behind it, {} are needed", self.quorum);
            self.object("votes", now, text);
        }
    }
}

impl World {
    /// Something happens that exclusion does not outlive, for `span`.
    pub(crate) fn suspend_exclusion(&mut self, resource: Option<usize>, span: Time) {
        self.oracle.excuse(self.now + span, resource);
    }

    /// No two believe that they hold one resource at the same true time.
    pub(crate) fn exclusion(&mut self, resource: usize) {
        if self.now < self.oracle.excused[resource] {
            return;
        }
        let now = self.now;
        let holders: Vec<usize> = self.oracle.beliefs[resource]
            .iter()
            .enumerate()
            .filter(|(client, belief)| {
                belief.is_some_and(|belief| self.clock_of(*client).show(now) < belief.until)
            })
            .map(|(client, _)| client)
            .collect();
        if holders.len() > 1 {
            let text = format!("clients {holders:?} hold resource {resource}");
            self.oracle.object("exclusion", now, text);
        }
    }

    pub(crate) fn clock_of(&self, client: usize) -> &Clock {
        let host = self.clients.get(client).map_or(0, |client| client.host);
        &self.hosts[host].clock
    }

    /// A client has done all that its turn brought: whoever waits has been told by its deadline,
    /// whoever holds was told of the end, and the engine does not want to be woken in the past.
    pub(crate) fn settling(&mut self, client: usize, ticked: Instant) {
        const TICK: std::time::Duration = std::time::Duration::from_millis(1);
        let mut objections = Vec::new();
        let begun_before = |user: &&User| user.begun < ticked;
        for user in self.clients[client].users.iter().filter(begun_before) {
            match &user.task {
                Task::Acquiring { deadline, .. } => {
                    if deadline.is_some_and(|deadline| deadline.saturating_add(TICK) <= ticked) {
                        objections.push(("settling", "an acquire is open after its deadline"));
                    }
                }
                Task::Holding { lock } | Task::Extending { lock, .. } => {
                    let told = self.clients[client].expired.contains(&lock.id());
                    if lock.valid_until().saturating_sub(TICK) <= ticked && !told {
                        objections.push(("told", "a holder was not told of the end"));
                    }
                }
                Task::Idle | Task::Releasing { .. } => {}
            }
        }
        let Client {
            engine, hot, acted, ..
        } = &mut self.clients[client];
        let wake = engine.poll_timeout();
        let late = wake.is_some_and(|(at, wake)| at <= ticked && wake != Wake::Output);
        let acted = std::mem::take(acted);
        *hot = if late && !acted { *hot + 1 } else { 0 };
        if *hot > 3 {
            objections.push(("settling", "an engine wants to be woken in the past"));
        }
        if wake.is_none() && engine.load().rounds > 0 {
            objections.push(("settling", "an engine sleeps for ever with a round open"));
        }
        for (oracle, text) in objections {
            self.oracle
                .object(oracle, self.now, format!("client {client}: {text}"));
        }
    }

    // ----- now and then ---------------------------------------------------------------------

    /// No key of an ended lock or attempt stays on a node that has since answered its owner.
    pub(crate) fn look(&mut self) {
        let mut found = Vec::new();
        for (node, server) in self.servers.iter().enumerate() {
            if !server.up || server.stalled || server.mood != crate::server::Mood::Fine {
                continue;
            }
            for resource in 0..self.plan.resources {
                let shown = server.clock.show(self.now);
                let key = resource_name(resource);
                if let Some(token) = self.oracle.token_at(&server.store, shown, &key)
                    && !self.oracle.revenants.contains(&(node, token))
                    && self.is_orphan(node, token)
                {
                    found.push((node, token));
                }
            }
        }
        let now = self.now;
        self.oracle
            .suspects
            .retain(|suspect, _| found.contains(suspect));
        for suspect in found {
            let since = *self.oracle.suspects.entry(suspect).or_insert(now);
            if now >= since + SECOND {
                let text = format!("node {} keeps a key of an ended lock", suspect.0);
                self.oracle.object("orphans", now, text);
            }
        }
        self.limits();
    }

    fn is_orphan(&self, node: usize, token: Token) -> bool {
        let Some(record) = self.oracle.tokens.get(&token) else {
            return false;
        };
        let holders = std::iter::once(&record.owner).chain(&record.heirs);
        holders.into_iter().all(|client| {
            let user = &self.clients[*client].users[record.resource];
            let over = match &user.task {
                Task::Idle => true,
                Task::Acquiring { since, .. } => record.sent < *since,
                Task::Holding { lock } | Task::Extending { lock, .. } => {
                    token_of(&lock.token()) != token
                }
                Task::Releasing { .. } => false,
            };
            let runs = self.clients[*client].stopped_until <= self.now;
            over && runs && user.ended < self.oracle.answered[*client][node]
        }) && !self.is_handed_over(token)
    }

    /// Memory, debts and what is in flight stay within their limits.
    fn limits(&mut self) {
        for client in 0..self.clients.len() {
            let load = self.clients[client].engine.load();
            let nodes = self.plan.nodes;
            let most = shearline::limits::IN_FLIGHT_MAX * nodes;
            if load.in_flight > most || load.unsent > shearline::limits::OUT_BYTES_MAX * nodes {
                let text = format!("client {client} has {load:?} open");
                self.oracle.object("limits", self.now, text);
            }
        }
    }

    // ----- at the end -----------------------------------------------------------------------

    pub(crate) fn is_settled(&self) -> bool {
        self.clients.iter().all(|client| {
            let load = client.engine.load();
            let idle = |user: &User| matches!(user.task, Task::Idle);
            client.users.iter().all(idle) && load.rounds == 0 && load.claims == 0 && load.owed == 0
        })
    }

    /// When nothing goes wrong any more, everything that was begun ends.
    pub(crate) fn check_settled(&mut self) {
        if !self.is_settled() {
            let loads: Vec<_> = self
                .clients
                .iter()
                .map(|client| client.engine.load())
                .collect();
            let text = format!("not settled: {loads:?}");
            self.oracle.object("liveness", self.now, text);
        }
    }

    /// And nothing is left behind.
    pub(crate) fn check_clean(&mut self) {
        for node in 0..self.plan.nodes {
            let shown = self.servers[node].clock.show(self.now);
            for resource in 0..self.plan.resources {
                let store = &self.servers[node].store;
                if let Some(token) = self.oracle.token_at(store, shown, &resource_name(resource))
                    && self.oracle.tokens.contains_key(&token)
                    && !self.oracle.revenants.contains(&(node, token))
                {
                    let text = format!("node {node} keeps a key when all is over");
                    self.oracle.object("orphans", self.now, text);
                }
            }
        }
    }
}

pub(crate) fn token_of(bytes: &[u8]) -> Token {
    let mut token = [0; 20];
    let len = bytes.len().min(20);
    token[..len].copy_from_slice(&bytes[..len]);
    token
}

/// A node's clock counts milliseconds.
fn whole(shown: Instant) -> Instant {
    Instant::from_millis(shown.as_nanos() / MILLI)
}

const _: () = assert!(NEVER > 0);
