//! Keys: who owns them, who may delete them, and when they end.
//!
//! * *foreign key*: a command changes or deletes a key only if it comes from the owner of its
//!   token, or from a client that the lock was handed to.
//! * *early release*: no release is executed for a token while the process that sent it holds the
//!   lock and does not know of its end. An extension that fails releases nothing.
//! * *expiry*: a key is gone at the latest when the ttl of its newest `SET` or extension has passed
//!   on its server's clock since that was *executed*. So a process that is killed leaves keys for
//!   one ttl and not longer. And a server that has said yes keeps each key for as long as it was asked to.
//!
//! # What it does not see
//!
//! Keys that an operator has made. The keys of a killed process need not be gone any sooner.

use shearline::Instant;

use super::{Deed, TokenId, Verb};
use crate::clock::MILLI;
use crate::user::{Hold, User};
use crate::world::World;

impl World {
    /// Checks that only its owner deletes or replaces a key.
    pub(super) fn foreign_key(&mut self, deed: &Deed<'_>) {
        let Some(before) = deed.before.filter(|_| deed.after != deed.before) else {
            return;
        };
        let Some(id) = self.oracle.ledger.find(&before) else {
            return;
        };
        if !self.is_of_process(deed.process, &before) {
            self.object_at(deed, "foreign key", "takes a key that is not its own");
        }
        self.is_gone(id, deed.server);
    }

    /// Checks that a held lock is not released.
    pub(super) fn early_release(&mut self, deed: &Deed<'_>, id: TokenId) {
        let Some(client) = self.clients.get(deed.peer) else {
            return; // A stranger.
        };
        // A client that is stopped in the middle of its turn may learn of the end next.
        let told = client.process != deed.process || client.in_turn;
        if deed.command.verb != Verb::Release || told {
            return;
        }
        let record = self.oracle.ledger.record(id);
        if record.permits != 0 {
            return; // A node that has given another slot than the others has to give that back.
        }
        if record.lost {
            return; // A holder that continues with it knows of the end.
        }
        if record.owner == deed.process && record.heirs.contains(&deed.process) {
            return; // It has handed the lock over to itself: an unanswered copy is released.
        }
        let users = client.users.iter().skip(record.resource);
        let mut users = users.step_by(self.plan.resources);
        let holds = |user: &User| user.task.hold().is_some_and(|hold| is_held(hold, deed));
        if users.any(holds) {
            self.object_at(deed, "early release", "releases what it holds");
        }
    }

    /// Checks that no key outlives the ttl that it was given.
    pub(super) fn expiry(&mut self) {
        for (server, id) in self.kept_tokens() {
            let nodes = 0..self.plan.nodes;
            let here = nodes.filter(|node| self.plan.server_of(*node) == server);
            let until = here.map(|node| self.oracle.ledger.cell(id, node).until);
            let until = until.max().map_or(u64::MAX, Instant::as_nanos);
            let shown = self.servers[server].clock.show(self.now);
            self.object_if(
                until.saturating_add(MILLI) < shown.as_nanos(),
                "expiry",
                || format!("server {server} keeps a key longer than its ttl"),
            );
        }
    }

    /// Checks that a server that has said yes keeps each key for as long as it was asked to. In a transaction this
    /// counts from when that was sent, unless a later command of the same transaction has deleted the key.
    pub(super) fn lasts(&mut self, deed: &Deed<'_>, id: TokenId) {
        // A transaction may find that a key already lives long enough: it read that after it was sent.
        let clock = &self.servers[deed.server].clock;
        let since = match deed.transacted {
            true if deed.sent < clock.since() => return,
            true => clock.show(deed.sent),
            false => deed.shown,
        };
        let Some(end) = deed.given().and_then(|ttl| super::end_of(since, ttl)) else {
            return;
        };
        let last = end.saturating_sub(std::time::Duration::from_nanos(1));
        let record = self.oracle.ledger.record(id);
        let (token, names) = (record.token, record.each_name());
        let server = &self.servers[deed.server];
        let ends = names.iter().any(|name| {
            let name = &self.names[*name];
            let at = |shown| server.holds(shown, name, &token);
            at(deed.shown) && !at(last)
        });
        if ends {
            let text = format!("server {} keeps a key for less than it said", deed.server);
            self.object("expiry", text);
        }
    }

    /// Returns all tokens that a key holds, if commands have set them.
    pub(super) fn tokens_on(&self, server: usize, key: &[u8]) -> Vec<TokenId> {
        let server = &self.servers[server];
        let held = server.members_at(server.clock.show(self.now), key);
        let held = held.iter();
        held.filter_map(|member| self.oracle.ledger.find(&member.token))
            .collect()
    }

    /// Returns the tokens that all keys of all servers hold, each with its server.
    pub(super) fn kept_tokens(&self) -> Vec<(usize, TokenId)> {
        let servers = 0..self.plan.servers;
        let keys = servers.flat_map(|server| self.names.iter().map(move |key| (server, key)));
        let tokens = keys.flat_map(|(server, key)| {
            let held = self.tokens_on(server, key).into_iter();
            held.map(move |id| (server, id))
        });
        tokens.collect()
    }

    /// Returns the token that a key holds, if a command has set it.
    pub(super) fn token_on(&self, server: usize, key: &[u8]) -> Option<TokenId> {
        let server = &self.servers[server];
        let token = server.token_at(server.clock.show(self.now), key)?;
        self.oracle.ledger.find(&token)
    }
}

fn is_held(hold: &Hold, deed: &Deed<'_>) -> bool {
    let token = deed.command.token;
    // A `SET` from before the hand-over followed one that was not answered.
    !hold.told
        && hold.since < deed.sent
        && token == Some(super::token_of(hold.lock.token().as_bytes()))
}
