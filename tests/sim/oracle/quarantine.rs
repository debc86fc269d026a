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
    /// By client and server: when a client has read last that it may forget.
    alarms: Vec<Vec<Option<Time>>>,
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
            alarms: vec![vec![None; plan.servers]; plan.peers()],
            met: vec![vec![NEVER; plan.servers]; plan.peers()],
        }
    }

    /// A client has read that the clock of a server was set.
    pub(super) fn stepped(&mut self, client: usize, server: usize, now: Time) {
        self.alarms[client][server] = Some(now);
    }

    /// Another process begins, which has heard of nothing.
    pub(super) fn born(&mut self, peer: usize) {
        self.alarms[peer].fill(None);
        self.met[peer].fill(NEVER);
    }

    /// A client has read who a server is.
    pub(super) fn meets(&mut self, client: usize, server: usize, now: Time) {
        let met = &mut self.met[client][server];
        *met = now.min(*met);
    }

    /// A client has read the answer to a command that is about a lock.
    pub(super) fn heard(&mut self, client: usize, server: usize, answer: &Reading) {
        if matches!(answer.said, Said::Refused(code) if code.may_forget()) {
            self.alarms[client][server] = Some(answer.at);
        }
    }

    /// Whether the answer of `server` to what `client` has asked counts for nothing.
    pub(super) fn silences(&self, client: usize, server: usize, entry: &Entry) -> bool {
        let Some(span) = self.spans[client] else {
            return false;
        };
        let alarm = self.alarms[client][server].filter(|alarm| *alarm < entry.sent);
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

    /// Whether nothing counts that `client` asks of `server` at `now`, as it has learned before it
    /// greeted it at `greeted`.
    fn doubts(&self, client: usize, server: usize, greeted: Time, now: Time) -> bool {
        let forgot = self.forgot[server].filter(|_| !self.strict);
        let forgot = forgot.filter(|(since, _)| self.is_told_of(client, server, *since));
        let doubts = forgot
            .map(|(since, _)| since)
            .max(self.alarms[client][server]);
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
        self.quarantine.alarms[client][server] = None;
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
            let server = self.plan.server_of(node);
            let ready = self.clients[client].paths[node].ready_at;
            let quarantine = &self.oracle.quarantine;
            if ready < NEVER && quarantine.doubts(client, server, ready, self.now) {
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
