//! Quarantine: from when on the word of a server counts again that has forgotten, or may have.
//!
//! Under a guard no vote counts that was asked for
//!
//! * of a server in a life that began without its memory, before the longest ttl of all has passed
//!   since it was *killed*;
//! * by a client that has read from the server that it loads or follows another, before the longest
//!   ttl of all has passed since that; the same where it has read that the clock of the server
//!   was set forward, if it watches clocks.
//!
//! Nor does the yes to an extension of a lock count at a node that did not vote for who has handed the
//! lock over, when that was done.
//!
//! Both are a little less than what clients keep to, who learn of it later and do not know true time.
//!
//! Where servers carry markers, none counts that was *executed*
//!
//! * behind a barrier, or without a marker or under another than it was asked under, by the state of
//!   the server then; and no server says of one that it does;
//! * before the longest ttl that the marker told then has passed since the server has lost anything,
//!   with its connections or without.
//!
//! And a majority of the votes for one lock was executed under markers that told the longest ttl of
//! all that any of them told: a yes under a shorter one is taken back when its client learns of that.
//!
//! # What it does not see
//!
//! Of a server that has forgotten twice, what it did in the life between. Nothing is asked for where
//! nobody was told the longest ttl, nor of a client that meets a server for the first time when it has
//! forgotten and its clock has jumped forward since: it has been up for as long as that clock says.
//! Where servers carry markers, of what a client has read under one name of a server, if it has never
//! greeted one process under that name and this: nobody can know that the two are one.

use super::ledger::{Entry, Fence};
use super::{Deed, Reading, Said};
use crate::clock::{MILLI, NEVER, Time};
use crate::plan::{Guard, Plan};
use crate::world::World;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Quarantine {
    /// By client: how long it is at least, if there is any.
    spans: Vec<Option<Time>>,
    longest: Time,
    strict: bool,
    /// By server: when it was killed last that forgot then, or forgot as it ran, and which life came
    /// after that.
    forgot: Vec<Option<(Time, u32)>>,
    /// By server: when its clock has jumped last.
    jumped: Vec<Time>,
    servers: usize,
    /// By client and node: when a client has read last that the server may forget.
    alarms: Vec<Vec<Option<Time>>>,
    /// By client and node: which life of the server it has greeted last, and the nodes that have been
    /// greeted as one process with this one.
    greeted: Vec<Vec<Option<u32>>>,
    names: Vec<Vec<u32>>,
    /// By client and server: when it has met the server first.
    met: Vec<Vec<Time>>,
}

impl Quarantine {
    pub(super) fn new(plan: &Plan) -> Self {
        let told = matches!(plan.guard, Guard::Observed | Guard::Strict);
        let span = |client| told.then(|| plan.max_ttl_of(client) * MILLI);
        Self {
            spans: (0..plan.peers()).map(span).collect(),
            longest: plan.max_ttl() * MILLI,
            strict: plan.guard == Guard::Strict,
            forgot: vec![None; plan.servers],
            jumped: vec![0; plan.servers],
            servers: plan.servers,
            alarms: vec![vec![None; plan.nodes]; plan.peers()],
            greeted: vec![vec![None; plan.nodes]; plan.peers()],
            names: vec![vec![0; plan.nodes]; plan.peers()],
            met: vec![vec![NEVER; plan.servers]; plan.peers()],
        }
    }

    /// A client has read that the clock of a server was set.
    pub(super) fn stepped(&mut self, client: usize, node: usize, now: Time) {
        self.alarms[client][node] = Some(now);
    }

    /// Another process begins, which has heard of nothing.
    pub(super) fn born(&mut self, peer: usize) {
        self.alarms[peer].fill(None);
        self.greeted[peer].fill(None);
        self.names[peer].fill(0);
        self.met[peer].fill(NEVER);
    }

    /// A client has read who a server is.
    pub(super) fn meets(&mut self, client: usize, server: usize, now: Time) {
        let met = &mut self.met[client][server];
        *met = now.min(*met);
    }

    /// A client has greeted a node that carries a marker, in this life of its server.
    pub(super) fn greets(&mut self, client: usize, node: usize, life: u32) {
        self.greeted[client][node] = Some(life);
        let mut names = self.names[client][node] | 1 << node;
        for other in self.names_of(node) {
            if self.greeted[client][other] == Some(life) {
                names |= self.names[client][other] | 1 << other;
            }
        }
        for other in self.names_of(node) {
            if names & 1 << other != 0 {
                self.names[client][other] = names;
            }
        }
    }

    /// The nodes that are the server behind this one.
    fn names_of(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (node % self.servers..self.alarms[0].len()).step_by(self.servers)
    }

    /// When a client has read last that the server behind a node may forget, as far as it can know
    /// that it was this one.
    fn alarm(&self, client: usize, node: usize) -> Option<Time> {
        let known = |other: &usize| !self.strict || self.names[client][node] & 1 << other != 0;
        let others = self.names_of(node).filter(known);
        let alarms = others.map(|other| self.alarms[client][other]);
        alarms.max().flatten().max(self.alarms[client][node])
    }

    /// A client has read the answer to a command that is about a lock.
    pub(super) fn heard(&mut self, client: usize, node: usize, answer: &Reading) {
        if matches!(answer.said, Said::Refused(code) if code.may_forget()) {
            self.alarms[client][node] = Some(answer.at);
        }
    }

    /// Whether the answer of `node` to what `client` has asked counts for nothing.
    pub(super) fn silences(&self, client: usize, node: usize, entry: &Entry) -> bool {
        let server = node % self.servers;
        let Some(span) = self.spans[client] else {
            return false;
        };
        let alarm = self.alarm(client, node).filter(|alarm| *alarm < entry.sent);
        let alarmed = alarm.is_some_and(|since| entry.sent < since + span);
        alarmed
            || if self.strict {
                self.is_fenced(server, entry)
            } else {
                let forgot = self.forgot[server].filter(|(_, life)| *life <= entry.life);
                forgot.is_some_and(|(since, _)| {
                    entry.sent < since + span && self.is_told_of(client, server, since)
                })
            }
    }

    /// Whether nothing counts that `client` asks of `node` at `now`, as it has learned before it
    /// greeted it at `greeted`.
    fn doubts(&self, client: usize, node: usize, greeted: Time, now: Time) -> bool {
        let server = node % self.servers;
        let forgot = self.forgot[server].filter(|_| !self.strict);
        let forgot = forgot.filter(|(since, _)| self.is_told_of(client, server, *since));
        let doubts = forgot.map(|(since, _)| since).max(self.alarm(client, node));
        let span = self.spans[client].unwrap_or(0);
        doubts.is_some_and(|since| since < greeted && now < since + span)
    }

    /// Whether a client can know that a server has forgotten at `since`: a clock that has jumped
    /// meanwhile says that it has been up for longer.
    fn is_told_of(&self, client: usize, server: usize, since: Time) -> bool {
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
    /// A server has begun a life without its memory, or without the newest of it, or has lost it as it
    /// ran.
    pub(crate) fn forgot(&mut self, server: usize, since: Time, life: u32) {
        self.quarantine.forgot[server] = Some((since, life));
    }

    /// The clock of a server has jumped forward: it seems to have been up for longer.
    pub(crate) fn jumped(&mut self, server: usize, now: Time) {
        self.quarantine.jumped[server] = now;
    }

    /// A client is told that a server has forgotten nothing, whatever it was heard to say.
    pub(crate) fn trusts(&mut self, client: usize, server: usize) {
        for node in self.quarantine.names_of(server) {
            self.quarantine.alarms[client][node] = None;
        }
    }

    /// Whether no lock lives that a server has forgotten.
    pub(crate) fn knows_all(&self, server: usize, now: Time) -> bool {
        let Quarantine { longest, .. } = self.quarantine;
        let forgot = self.quarantine.forgot[server];
        forgot.is_none_or(|(since, _)| since + longest + longest / 50 < now)
    }
}

impl World {
    /// A lock is handed over. What its first holder did not count does not count for its heirs either:
    /// they do not know what that holder has heard.
    pub(crate) fn hands_over(&mut self, client: usize, token: &[u8]) {
        let found = self.oracle.ledger.find(&super::token_of(token));
        let Some(id) = found.filter(|id| self.oracle.ledger.record(*id).heirs.is_empty()) else {
            return;
        };
        let mut doubted = 0;
        for node in 0..self.plan.nodes {
            let ready = self.clients[client].paths[node].ready_at;
            let quarantine = &self.oracle.quarantine;
            if ready < NEVER && quarantine.doubts(client, node, ready, self.now) {
                doubted |= 1 << node;
            }
        }
        self.oracle.ledger.record_mut(id).doubted = doubted;
    }

    /// No server counts what its own state says not to count, and none is another cluster's as well.
    pub(super) fn fence(&mut self, deed: &Deed<'_>) {
        let text = match deed.fence {
            Fence::Broken => "counts without a marker or behind a barrier",
            Fence::Open(_) if self.plan.is_outsider(deed.peer) => "counts for another cluster",
            Fence::Open(_) | Fence::Shut | Fence::None => return,
        };
        self.object("votes", format!("server {} {text}", deed.server));
    }
}
