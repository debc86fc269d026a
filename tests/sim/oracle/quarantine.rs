//! Quarantine: when the answers of a server that has forgotten, or may have, count again.
//!
//! With a guard, no vote counts that was requested
//!
//! * of a server in a life that began without its memory, before the longest ttl of all has passed
//!   since it was *killed*;
//! * by a client that has read from the server that it loads or follows another, before the longest
//!   ttl of all has passed since that; the same if it has read that the clock of the server was set
//!   forward, if it watches clocks: but for questions about a copy that was there before.
//!
//! Nor does the yes to an extension count if its node did not vote, at the time of the hand-over, for the client that
//! handed the lock over.
//!
//! Both are a little less strict than the clients are, which learn of it later and do not know true
//! time.
//!
//! Where servers carry markers, no vote counts that was *executed*
//!
//! * while the server had a barrier, no marker, or another marker than the request names; and no server says that such
//!   a vote counts;
//! * before the longest ttl that the marker named then has passed since the server lost anything, whether it lost its
//!   connections or not.
//!
//! And a majority of the votes for one lock was executed under markers that named the longest ttl that any of them
//! named: a yes under a shorter one is taken back when its client learns of that. The yes still counts if the server
//! has told the client later that its marker names the longer ttl and that there is no barrier: an operator has vouched
//! for the server since.
//!
//! # What it does not see
//!
//! The votes of a server between two losses of its memory. Nothing is required if no client knows the longest ttl; nor
//! of a client that connects for the first time to a server that has forgotten and whose clock has jumped forward
//! since, because by that clock its uptime is long. Where servers carry markers, the oracle ignores what a client has
//! read under another name of a server, if the client has never been connected to one process under both names: it
//! cannot know that the two are one.

use shearline::Lock;

use super::ledger::{Entry, Fence};
use super::{Deed, Reading, Said};
use crate::clock::{MILLI, NEVER, Time};
use crate::plan::{Guard, Plan};
use crate::world::World;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Quarantine {
    /// For each client, the least length of its quarantines, if it has any.
    spans: Vec<Option<Time>>,
    longest: Time,
    strict: bool,
    /// For each server, when it was last killed and forgot, or forgot while it ran, and which life came after that.
    forgot: Vec<Option<(Time, u32)>>,
    /// For each server, when its clock jumped for the first time since the server forgot, or the time of an older jump.
    jumped: Vec<Time>,
    servers: usize,
    /// What each client knows of each node.
    known: Vec<Vec<Known>>,
    /// For each client and server, when the client was first connected to the server.
    met: Vec<Vec<Time>>,
}

/// What a client knows of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// When the client last read that the server may forget.
    alarm: Option<Time>,
    /// When it last read that the clock of the server was set.
    step: Option<Time>,
    /// The life of the server to which it was last connected, and the nodes that were one process with this one.
    life: Option<u32>,
    names: u32,
    /// The last answer to a request to join that reported no barrier, and the longest ttl that the marker named then.
    open: Option<(u64, u64)>,
}

impl Quarantine {
    pub(super) fn new(plan: &Plan) -> Self {
        let told = matches!(plan.guard, Guard::Observed | Guard::Strict);
        let span = |client| told.then(|| plan.max_life_of(client) * MILLI);
        Self {
            spans: (0..plan.peers()).map(span).collect(),
            longest: plan.max_life() * MILLI,
            strict: plan.guard == Guard::Strict,
            forgot: vec![None; plan.servers],
            jumped: vec![0; plan.servers],
            servers: plan.servers,
            known: vec![vec![Known::default(); plan.nodes]; plan.peers()],
            met: vec![vec![NEVER; plan.servers]; plan.peers()],
        }
    }

    /// Notes that a client has read that the clock of a server was set.
    pub(super) fn stepped(&mut self, client: usize, node: usize, now: Time) {
        self.known[client][node].step = Some(now);
    }

    /// Notes that another process begins, which knows nothing.
    pub(super) fn born(&mut self, peer: usize) {
        self.known[peer].fill(Known::default());
        self.met[peer].fill(NEVER);
    }

    /// Notes that a client has read the identity of a server.
    pub(super) fn meets(&mut self, client: usize, server: usize, now: Time) {
        let met = &mut self.met[client][server];
        *met = now.min(*met);
    }

    /// Notes that a client has finished the handshake with a node that carries a marker, in this life of its server.
    pub(super) fn connected(&mut self, client: usize, node: usize, life: u32) {
        self.known[client][node].life = Some(life);
        let mut names = self.known[client][node].names | 1 << node;
        for other in self.names_of(node) {
            if self.known[client][other].life == Some(life) {
                names |= self.known[client][other].names | 1 << other;
            }
        }
        for other in self.names_of(node) {
            if names & 1 << other != 0 {
                self.known[client][other].names = names;
            }
        }
    }

    /// Notes that a client has read the answer `number` to its request that a node joins: there is no barrier, and the
    /// marker names this longest ttl.
    pub(super) fn opened(&mut self, client: usize, node: usize, number: u64, longest: u64) {
        self.known[client][node].open = Some((number, longest));
    }

    /// Returns the longest ttl under which the yes of `node` counts for `client`: the marker named it when the yes was
    /// executed, or the node has reported it later, with no barrier.
    pub(super) fn named(&self, client: usize, node: usize, entry: &Entry) -> Option<u64> {
        let Fence::Open(longest) = entry.fence else {
            return None;
        };
        let later = self.known[client][node]
            .open
            .filter(|(number, _)| entry.number < *number);
        Some(later.map_or(longest, |(_, named)| longest.max(named)))
    }

    /// Returns the nodes with the same server as this one.
    fn names_of(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (node % self.servers..self.known[0].len()).step_by(self.servers)
    }

    /// Returns when a client has last read that the server of a node may forget, as far as it can
    /// know that it was this server. Steps of its clock are older than what was `copied` to it then.
    fn alarm(&self, client: usize, node: usize, copied: Time) -> Option<Time> {
        let known =
            |other: &usize| !self.strict || self.known[client][node].names & 1 << other != 0;
        let others = self.names_of(node).filter(known);
        let of = |other: usize| {
            let steps = self.known[client][other]
                .step
                .filter(|since| *since <= copied);
            self.known[client][other].alarm.max(steps)
        };
        others.map(of).max().flatten().max(of(node))
    }

    /// Notes that a client has read the answer to a command about a lock.
    pub(super) fn answered(&mut self, client: usize, node: usize, answer: &Reading) {
        if matches!(answer.said, Said::Refused(code) if code.may_forget()) {
            self.known[client][node].alarm = Some(answer.at);
        }
    }

    /// Returns `true` if the answer of `node` to `client` does not count. `set` is the last `SET` of the token, if the
    /// answer is to another command.
    pub(super) fn silences(
        &self,
        client: usize,
        node: usize,
        entry: &Entry,
        set: Option<&Entry>,
    ) -> bool {
        let server = node % self.servers;
        let Some(span) = self.spans[client] else {
            return false;
        };
        let alarm = self.alarm(client, node, set.map_or(NEVER, Entry::copied));
        let alarm = alarm.filter(|alarm| *alarm < entry.sent);
        let alarmed = alarm.is_some_and(|since| entry.sent < since + span);
        alarmed
            || if self.strict {
                self.is_fenced(server, entry)
            } else {
                let forgot = self.forgot[server].filter(|(_, life)| *life <= entry.life);
                forgot.is_some_and(|(since, _)| {
                    entry.sent < since + span && self.can_know(client, server, since)
                })
            }
    }

    /// Returns `true` if no request of `client` to `node` at `now` counts, by what it had learned before its handshake
    /// at `ready`; except for steps of the clock that are newer than what was `copied` to it.
    fn doubts(&self, client: usize, node: usize, (ready, copied): (Time, Time), now: Time) -> bool {
        let server = node % self.servers;
        let forgot = self.forgot[server].filter(|_| !self.strict);
        let forgot = forgot.filter(|(since, _)| self.can_know(client, server, *since));
        let forgot = forgot.map(|(since, _)| since);
        let doubts = forgot.max(self.alarm(client, node, copied));
        let span = self.spans[client].unwrap_or(0);
        doubts.is_some_and(|since| since < ready && now < since + span)
    }

    /// Returns `true` if a client can know that a server has forgotten at `since`: a clock that has
    /// jumped meanwhile shows a longer uptime.
    fn can_know(&self, client: usize, server: usize, since: Time) -> bool {
        self.jumped[server] < since || self.met[client][server] < self.jumped[server]
    }

    fn is_fenced(&self, server: usize, entry: &Entry) -> bool {
        let Fence::Open(longest) = entry.fence else {
            return true;
        };
        let forgot = self.forgot[server].filter(|(since, _)| *since <= entry.executed);
        forgot.is_some_and(|(since, _)| entry.executed < since + longest * MILLI)
    }
}

impl super::Oracle {
    /// Notes that a server has begun a life without its memory, or without the newest of it, or has lost it while it
    /// ran.
    pub(crate) fn forgot(&mut self, server: usize, since: Time, life: u32) {
        self.quarantine.forgot[server] = Some((since, life));
    }

    /// Notes that the clock of a server has jumped forward: its uptime seems longer.
    pub(crate) fn jumped(&mut self, server: usize, now: Time) {
        let since = self.quarantine.forgot[server].map_or(0, |(since, _)| since);
        let first = &mut self.quarantine.jumped[server];
        if *first <= since {
            *first = now;
        }
    }

    /// Notes that a client is told to trust a server, whatever the server said.
    pub(crate) fn trusts(&mut self, client: usize, server: usize) {
        for node in self.quarantine.names_of(server) {
            let known = &mut self.quarantine.known[client][node];
            (known.alarm, known.step) = (None, None);
        }
    }

    /// Returns `true` if no lock that a server has forgotten is still alive.
    pub(crate) fn knows_all(&self, server: usize, now: Time) -> bool {
        let Quarantine { longest, .. } = self.quarantine;
        let forgot = self.quarantine.forgot[server];
        forgot.is_none_or(|(since, _)| since + longest + longest / 50 < now)
    }
}

impl World {
    /// Notes that a lock is handed over. Votes that its first holder did not count do not count for later holders
    /// either: they do not know what that holder has learned.
    pub(crate) fn hands_over(&mut self, client: usize, lock: &Lock) {
        let found = self.oracle.id_of(lock);
        let Some(id) = found.filter(|id| self.oracle.ledger.record(*id).heirs.is_empty()) else {
            return;
        };
        let mut doubted = 0;
        for node in 0..self.plan.nodes {
            let ready = self.clients[client].paths[node].ready_at;
            let quarantine = &self.oracle.quarantine;
            let copied = self.oracle.ledger.cell(id, node).set.copied();
            if ready < NEVER && quarantine.doubts(client, node, (ready, copied), self.now) {
                doubted |= 1 << node;
            }
        }
        self.oracle.ledger.record_mut(id).doubted = doubted;
    }

    /// Checks that no server says that an answer counts if its state forbids it, and that none belongs to another
    /// group.
    pub(super) fn fence(&mut self, deed: &Deed<'_>) {
        let text = match deed.fence {
            Fence::Broken => "counts without a marker or behind a barrier",
            Fence::Open(_) if self.plan.is_outsider(deed.peer) => "counts for another group",
            Fence::Open(_) | Fence::Shut | Fence::None => return,
        };
        self.object("votes", format!("server {} {text}", deed.server));
    }
}
