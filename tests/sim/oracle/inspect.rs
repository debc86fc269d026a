//! Inspections: who holds a resource, according to the client.
//!
//! * *outcome*: its report of a node is what the node had when it read the question, between the call and its return.
//!   It names a holder if a majority of the nodes had its token, and says that the resource is free if a majority had
//!   none.
//! * *validity*: the holder is reported to keep the resource no longer than the q-th largest of the remaining times
//!   allows, counted from before the question, less the drift.
//!
//! Only worlds of the kind `inspecting` have inspections: choices are not drawn for them elsewhere.
//!
//! # What it does not see
//!
//! Nodes that answer and are left out, and errors: nothing is promised for too few answers. It does not check which
//! answers count.

use shearline::engine::RoundId;
use shearline::{Found, Inspection, Instant, OperatorError};

use super::ledger::{Token, token_of};
use super::number_in;
use super::votes::longest_validity;
use crate::world::World;

/// The outcome of an inspection.
pub(crate) type Inspected = Result<Inspection, OperatorError>;

/// An inspection that is open.
#[derive(Debug)]
pub(crate) struct Inspecting {
    pub(crate) round: RoundId,
    pub(crate) resource: usize,
    /// When it was begun, by the client's clock.
    pub(crate) begun: Instant,
    /// When its outcome came out of the engine, by that clock.
    pub(crate) polled: Instant,
    /// What nodes had since then, whenever they read a question of this client about this resource.
    readings: Vec<Reading>,
}

/// What a node had.
#[derive(Clone, Copy, Debug)]
struct Reading {
    node: usize,
    token: Option<Token>,
    /// For how many milliseconds the node kept the token.
    left: u64,
}

impl Inspecting {
    pub(crate) const fn new(round: RoundId, resource: usize, begun: Instant) -> Self {
        Self {
            round,
            resource,
            begun,
            polled: begun,
            readings: Vec::new(),
        }
    }

    /// Returns what `node` had at each reading. It has answered with one of these.
    fn of(&self, node: usize) -> impl Iterator<Item = &Reading> {
        self.readings.iter().filter(move |read| read.node == node)
    }
}

/// Returns `true` if with this command a client asks what a node has.
pub(crate) fn is_inspection(words: &[&[u8]]) -> bool {
    matches!(words, [b"EVAL", script, _, _, ..] if script.ends_with(b",85)}"))
}

impl World {
    /// Notes that a server has executed a question of a client about what it has, and its answer.
    pub(crate) fn inspected(&mut self, conn: usize, words: &[&[u8]], reply: &[u8]) {
        let (client, node) = (self.conns[conn].peer, self.conns[conn].node);
        let [_, _, _, key, ..] = *words else {
            return;
        };
        if !is_inspection(words) || !reply.starts_with(b"*") || self.plan.clients <= client {
            return;
        }
        let server = &self.servers[self.plan.server_of(node)];
        let shown = server.clock.show(self.now);
        let token = server.store.get(shown, key).map(token_of);
        let left = number_in(reply).map_or(0, |above| above.max(1) as u64 - 1);
        if let Some(open) = &mut self.clients[client].inspecting
            && key == self.names[open.resource]
        {
            open.readings.push(Reading { node, token, left });
        }
    }

    /// Checks an inspection that a client gets.
    pub(crate) fn check_inspection(&mut self, client: usize, round: RoundId, result: &Inspected) {
        let open = self.clients[client].inspecting.take();
        let Some(open) = open.filter(|open| open.round == round) else {
            return self.told_of_another(client);
        };
        match result {
            Ok(told) => {
                self.oracle.counts.sights.note("Inspected");
                if let Err(what) = self.inspection_fault(&open, told) {
                    let text = format!("client {client} inspects, and is told {told}: {what}");
                    self.object("outcome", text);
                }
                self.check_inspected_end(client, &open, told);
                if let Some(holder) = told.holder() {
                    self.check_leader(open.resource, holder);
                }
            }
            Err(OperatorError::NoQuorum(_)) => {}
            Err(error) => self.object("outcome", format!("client {client} got {error:?}")),
        }
    }

    fn inspection_fault(&self, open: &Inspecting, told: &Inspection) -> Result<(), String> {
        let quorum = self.plan.quorum();
        let mut free = 0;
        for (node, there) in told.nodes().iter().enumerate() {
            let fine = match &there.found {
                Found::Free => open.of(node).any(|read| read.token.is_none()),
                Found::Holder { .. } | Found::Copy { .. } => {
                    open.of(node).any(|read| read.token.is_some())
                }
                Found::Unknown(_) => true,
                other @ (Found::OtherType | _) => return Err(format!("no node has {other}")),
            };
            if !fine {
                return Err(format!(
                    "node {node} had {:?}",
                    open.of(node).collect::<Vec<_>>()
                ));
            }
            free += usize::from(there.counts && there.found == Found::Free);
        }
        if told.is_free() != (quorum <= free) {
            return Err(format!("{free} have nothing, of {quorum} that are needed"));
        }
        match told.holder() {
            Some(holder) if self.most_with_one_token(open, told) < quorum.max(holder.nodes) => {
                Err("fewer nodes had the same token".into())
            }
            _ => Ok(()),
        }
    }

    /// Returns how many of the nodes that are reported to have the holder's token had the same token.
    fn most_with_one_token(&self, open: &Inspecting, told: &Inspection) -> usize {
        let tokens = open.readings.iter().filter_map(|read| read.token);
        let nodes_with = |token| self.holders(open, told, token).count();
        tokens.map(nodes_with).max().unwrap_or(0)
    }

    /// Returns for how long each of these nodes keeps the token.
    fn holders<'a>(
        &self,
        open: &'a Inspecting,
        told: &'a Inspection,
        token: Token,
    ) -> impl Iterator<Item = u64> + 'a {
        let nodes = told.nodes().iter().enumerate();
        let nodes =
            nodes.filter(|(_, there)| there.counts && matches!(there.found, Found::Holder { .. }));
        nodes.filter_map(move |(node, _)| {
            let same = open.of(node).filter(|read| read.token == Some(token));
            same.map(|read| read.left).max()
        })
    }

    fn check_inspected_end(&mut self, client: usize, open: &Inspecting, told: &Inspection) {
        let Some(holder) = told.holder() else {
            return;
        };
        let tokens = open.readings.iter().filter_map(|read| read.token);
        let longest = tokens.filter_map(|token| {
            let mut kept: Vec<u64> = self.holders(open, told, token).collect();
            kept.sort_unstable_by(|one, other| other.cmp(one));
            kept.get(self.plan.quorum() - 1).copied()
        });
        let kept = longest.max().unwrap_or(0);
        let end = open.polled.saturating_add(holder.valid_for);
        let most = open.begun.saturating_add(longest_validity(kept));
        if most < end && !holder.valid_for.is_zero() {
            let text = format!("client {client} inspects, and is told {told}: that is too long");
            self.object("validity", text);
        }
    }
}
