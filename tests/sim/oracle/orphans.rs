//! Orphans: the keys of an ended attempt or lock are gone on every node that answers.
//!
//! No key whose token belongs to no held lock and no open attempt stays on a server for 400 ms, once the server has
//! answered a command that the owner sent to it after the end: a request about a lock, or the end of a handshake, in
//! which late releases go before the last requests. A refused release counts as another end, 250 ms after its owner has
//! read the refusal: then it is repeated. If the server has forgotten the script, it is repeated at once. When the
//! history ends there is no such key at all.
//!
//! # What it does not see
//!
//! Keys of dead clients, which only time can remove (see [`keys`](super::keys)); those of strangers; keys that a server
//! brought back from its disk; and for 250 ms more a key whose native release was refused, although that is tried
//! another way at once. Without scripts a key may stay for longer, until the transactions before its release and the
//! end of a dead connection are over.

use super::ledger::Entry;
use super::{Said, TokenId};
use crate::clock::{MILLI, Time};
use crate::plan::{CONNECT_TIMEOUT, LONGEST_BACKOFF};
use crate::trace;
use crate::user::{Task, User};
use crate::world::World;

/// How long a key may stay.
const LONGEST: Time = 400 * MILLI;

/// After this time a refused release is repeated.
const TRY_AGAIN: Time = 250 * MILLI;

impl World {
    /// Notes that a server lost its newest past: keys that were deleted then may be back.
    pub(crate) fn brought_back(&mut self, server: usize) {
        for resource in 0..self.plan.resources {
            for id in self.tokens_on(server, &self.names[resource]) {
                self.oracle.revenants.insert((server, id));
            }
        }
    }

    /// Checks every key.
    pub(super) fn orphans(&mut self) {
        let mut found = self.kept_tokens();
        found.retain(|(server, id)| {
            let there = &self.servers[*server];
            let answers = there.up && !there.stalled && !there.paused && there.mood.executes();
            answers && self.is_orphan(*server, *id)
        });
        let (now, longest) = (self.now, self.longest_orphan());
        let suspects = &mut self.oracle.suspects;
        suspects.retain(|suspect, _| found.contains(suspect));
        for suspect in found {
            let since = *suspects.entry(suspect).or_insert(now);
            if since + longest <= now {
                let (server, id) = suspect;
                let record = self.oracle.ledger.record(id);
                let owner = self.oracle.lives[record.owner as usize].peer;
                let token = trace::token(&record.token);
                let text =
                    format!("server {server} keeps {token} of an ended lock of client {owner}");
                self.oracle.object("orphans", now, text);
                return;
            }
        }
    }

    /// Returns how long a key may stay. Without scripts a release may wait for earlier transactions, whose connection
    /// may be dead.
    fn longest_orphan(&self) -> Time {
        let plan = &self.plan;
        match self.plan.is_bare() {
            true => {
                let round_trips = 20 * (2 * (plan.delay + plan.delay_tail) + plan.lag);
                let dead = plan.dead_after * MILLI;
                LONGEST + round_trips + dead + LONGEST_BACKOFF + CONNECT_TIMEOUT
            }
            false => LONGEST,
        }
    }

    /// Returns `true` if all possible holders have released the token, and the server has answered them since. While
    /// its clock is set back, a server also keeps keys whose release is no longer sent to it, because their ttl is
    /// over.
    fn is_orphan(&self, server: usize, id: TokenId) -> bool {
        if self.oracle.revenants.contains(&(server, id)) || self.servers[server].behind != 0 {
            return false;
        }
        let record = self.oracle.ledger.record(id);
        let mut holders = std::iter::once(&record.owner).chain(&record.heirs);
        holders.all(|process| {
            let life = self.oracle.lives[*process as usize];
            let client = self.clients.get(life.peer).filter(|_| life.alive);
            client.is_some_and(|client| {
                let runs = client.stopped_until <= self.now;
                let ended = self.ended(life.peer, id).filter(|_| runs);
                ended.is_some_and(|ended| self.has_answered(life.peer, server, id, ended))
            })
        }) && !self.is_handed_over(id)
    }

    /// Returns when `client` released a token: no user of the resource has it any more.
    fn ended(&self, client: usize, id: TokenId) -> Option<Time> {
        let resource = self.oracle.ledger.record(id).resource;
        let users = self.clients[client].users.iter().enumerate();
        let mut users = users.filter(|(user, _)| self.plan.resource_of(*user) == resource);
        users.try_fold(0, |latest, (_, user)| {
            Some(latest.max(self.ended_by(client, user, id)?))
        })
    }

    /// Returns when a user of the resource released a token, or had not had it.
    fn ended_by(&self, client: usize, user: &User, id: TokenId) -> Option<Time> {
        let record = self.oracle.ledger.record(id);
        match &user.task {
            Task::Idle => Some(user.ended),
            Task::Acquiring { call, .. } if record.sent < call.since => Some(user.ended),
            // The token may belong to an attempt that waits for a node while other users have theirs.
            Task::Acquiring { .. } if self.plan.is_crowded() && self.plan.asks_beside() => None,
            Task::Acquiring { .. } => {
                let newest = self.oracle.newest[client][record.resource]?;
                // If the lock was handed to it meanwhile, it has released it later.
                (newest != id).then(|| self.oracle.ledger.record(newest).sent.max(user.ended))
            }
            Task::Holding(hold) | Task::Extending { hold, .. } => {
                let held = self.oracle.id_of(&hold.lock);
                // An earlier attempt of the call that brought it had ended when this one began.
                let begun = held.map_or(0, |held| self.oracle.ledger.record(held).sent);
                (held != Some(id)).then(|| user.ended.max(begun))
            }
            Task::Releasing { .. } => None,
        }
    }

    /// Returns `true` if the server has answered something that `client` sent after `ended`, over the same path as the
    /// token.
    fn has_answered(&self, client: usize, server: usize, id: TokenId, ended: Time) -> bool {
        let mut nodes = (0..self.plan.nodes).filter(|node| self.plan.server_of(*node) == server);
        nodes.all(|node| {
            let cell = self.oracle.ledger.cell(id, node);
            let never = cell.sets == 0 && !cell.copied;
            let unknown = never && self.plan.servers < self.plan.nodes;
            let due = ended.max(tried_again(&cell.release));
            unknown || due < self.oracle.answered[client][node]
        })
    }

    /// Checks that no key is left at the end.
    pub(crate) fn check_clean(&mut self) {
        for (server, id) in self.kept_tokens() {
            let revives = self.oracle.revenants.contains(&(server, id));
            if !self.servers[server].lost && !revives && self.is_ours(id) {
                let token = trace::token(&self.oracle.ledger.record(id).token);
                let text = format!("server {server} keeps {token} when all is over");
                self.object("orphans", text);
            }
        }
    }

    /// Returns `true` if all holders of the token are live clients.
    fn is_ours(&self, id: TokenId) -> bool {
        let record = self.oracle.ledger.record(id);
        let mut holders = std::iter::once(&record.owner).chain(&record.heirs);
        holders.all(|process| {
            let life = self.oracle.lives[*process as usize];
            life.alive && life.peer < self.plan.clients
        })
    }

    /// Returns `true` if a token is on its way from one client to another.
    fn is_handed_over(&self, id: TokenId) -> bool {
        let mut handed = self.clients.iter().flat_map(|client| &client.handed);
        handed.any(|(_, lock)| self.oracle.id_of(lock) == Some(id))
    }
}

/// Returns when a refused release is repeated; the beginning of time if it was not refused.
fn tried_again(release: &Entry) -> Time {
    let Said::Refused(code) = release.said else {
        return 0;
    };
    if !release.is_read() {
        release.executed // If its owner never reads that, it releases over its next connection.
    } else if code.is_no_script() {
        release.read
    } else {
        release.read + TRY_AGAIN
    }
}
