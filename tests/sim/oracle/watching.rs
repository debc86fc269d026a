//! Watches: what a client is told of a resource, and what that costs the nodes.
//!
//! * A while after the last change of a resource, and of the client's way to the nodes, what its watch was
//!   told last is what the nodes have.
//! * From then on it asks no node, until something changes: by the true state of the nodes, and by what the
//!   client itself has sent about the resource.
//! * A watch that was ended leaves its room to others.
//!
//! Only worlds of the kind `watching` have watches: choices are not drawn for them elsewhere.
//!
//! # What it does not see
//!
//! How soon a change is told. The ends of keys, and which of several changes are told. Where answers are
//! often late, or a node tells of no change, whether nothing is asked.

use shearline::{Found, Inspection};

use super::{Deed, Said, Token, Verb, is_inspection};
use crate::clock::{NEVER, SECOND, Time};
use crate::plan::{Kinds, Plan};
use crate::user::Task;
use crate::watching::Watching;
use crate::world::World;

/// What a node has, when nothing else is said.
type Tokens = Vec<Option<Token>>;

/// So long after the last change all is told, and nothing is asked any more: a look is put off ten times by
/// 50 ms at most, and takes a node timeout. A node that does not say what it has is asked again after a
/// delay.
const CALM: Time = 2 * SECOND;

/// The state of the nodes.
#[derive(Debug)]
pub(crate) struct Watched {
    /// By resource: what each server has, and since when.
    states: Vec<(Tokens, Time)>,
    /// By client and resource: when a server last executed a command of its about the lock.
    own: Vec<Vec<Time>>,
}

impl Watched {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            states: vec![(Vec::new(), 0); plan.resources],
            own: vec![vec![0; plan.resources]; plan.clients],
        }
    }
}

impl World {
    /// Records what the nodes have, if it is something else than before.
    fn note_state(&mut self, resource: usize) {
        let (now, name) = (self.now, self.names[resource]);
        let tokens = self.servers.iter().map(|server| {
            let shown = server.clock.show(now);
            server.token_at(shown, &name)
        });
        let tokens: Tokens = tokens.collect();
        let state = &mut self.oracle.watched.states[resource];
        if state.0 != tokens {
            *state = (tokens, now);
        }
    }

    /// The end of a key of `resource` may be another one.
    pub(crate) fn note_change(&mut self, resource: usize) {
        let now = self.now;
        self.oracle.watched.states[resource].1 = now;
    }

    /// A server has executed a command about a lock.
    pub(super) fn note_deed(&mut self, deed: &Deed<'_>, resource: usize) {
        if self.plan.watches == 0 {
            return;
        }
        let now = self.now;
        if matches!(deed.done, Said::Ok | Said::One) && deed.command.verb != Verb::Confirm {
            self.note_change(resource);
        }
        if let Some(own) = self.oracle.watched.own.get_mut(deed.peer) {
            own[resource] = now;
        }
    }

    /// Returns `true` if `client` has had time to be told of everything, and nothing has changed since.
    fn is_calm(&self, client: usize, watching: &Watching) -> bool {
        let there = &self.clients[client];
        let (_, changed) = self.oracle.watched.states[watching.resource];
        let own = self.oracle.watched.own[client][watching.resource];
        let troubles = self.oracle.troubled[client].iter().copied();
        let ready = there.paths.iter().map(|path| path.ready_at);
        let linked = there.links.iter().all(Option::is_some);
        let latest = troubles.chain(ready).max().unwrap_or(NEVER);
        let latest = latest.max(changed).max(own).max(watching.since);
        let latest = latest.max(there.stopped_until).max(there.born);
        there.alive && linked && latest < NEVER && latest + CALM <= self.now
    }

    /// Looks at what all watches were told last, ten times a second.
    pub(super) fn watched(&mut self) {
        if self.plan.watches == 0 {
            return;
        }
        for resource in 0..self.plan.resources {
            self.note_state(resource);
        }
        for client in 0..self.plan.clients {
            let watching = self.clients[client].watching.as_ref();
            let Some(watching) = watching.filter(|watching| self.is_calm(client, watching)) else {
                continue;
            };
            self.oracle.counts.calm += 1;
            if let Err(what) = self.watch_fault(watching) {
                let text = format!("client {client} watches: {what}");
                self.object("watch", text);
            }
        }
    }

    fn watch_fault(&self, watching: &Watching) -> Result<(), String> {
        let told = watching.known.as_ref().ok_or("it was told nothing")?;
        let (tokens, _) = &self.oracle.watched.states[watching.resource];
        let had = |node: usize| tokens[self.plan.server_of(node)];
        for (node, there) in told.nodes().iter().enumerate() {
            let fine = match &there.found {
                Found::Free => had(node).is_none(),
                Found::Holder { .. } | Found::Copy { .. } => had(node).is_some(),
                Found::Unknown(_) => self.plan.delay_tail != 0,
                _ => false,
            };
            if !fine {
                return Err(format!(
                    "it was told {told}, node {node} has {:?}",
                    had(node)
                ));
            }
        }
        let is_whole = |told: &Inspection| {
            let nodes = told.nodes().iter();
            nodes
                .clone()
                .all(|node| !matches!(node.found, Found::Unknown(_)))
        };
        let all: Tokens = (0..self.plan.nodes).map(had).collect();
        let most = all
            .iter()
            .map(|token| all.iter().filter(|other| *other == token).count());
        let mut pairs = all.iter().zip(most);
        let majority = pairs.find(|(_, count)| self.plan.quorum() <= *count);
        let (free, held) = match majority {
            Some((token, _)) => (token.is_none(), token.is_some()),
            None => (false, false),
        };
        if is_whole(told) && (told.is_free(), told.holder().is_some()) != (free, held) {
            return Err(format!("it was told {told}, the nodes have {all:?}"));
        }
        Ok(())
    }

    /// A server has executed a question of `client` for what it has.
    pub(crate) fn watch_asks(&mut self, client: usize, words: &[&[u8]]) {
        let [_, _, _, key, ..] = *words else {
            return;
        };
        // A node that tells of no change is asked again and again: one of mixed kinds.
        let often = self.plan.delay_tail != 0
            || self.plan.node_timeout.is_some()
            || self.plan.kinds == Kinds::Mixed;
        if self.plan.watches == 0 || often || !is_inspection(words) || self.plan.clients <= client {
            return;
        }
        let Some(resource) = self.names.iter().position(|name| key == name) else {
            return;
        };
        self.note_state(resource);
        let watching = self.clients[client].watching.as_ref();
        let watching = watching.filter(|watching| watching.resource == resource);
        // Who waits for the lock asks who holds it.
        let waits = self.clients[client]
            .users
            .iter()
            .enumerate()
            .any(|(user, there)| {
                let wants = matches!(there.task, Task::Acquiring { .. });
                wants && self.plan.resource_of(user) == resource
            });
        if !waits && watching.is_some_and(|watching| self.is_calm(client, watching)) {
            let text = format!("client {client} asks what it was told, though nothing has changed");
            self.object("watch", text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::mutations::Chosen;
    use crate::replay;
    use crate::sweep::{Until, say, sweep};
    use crate::watching::WATCHING;

    #[test]
    fn watches_tell_what_the_nodes_have_and_ask_nothing_while_nothing_changes() {
        let _chosen = Chosen::in_world(None, WATCHING);
        let sweep = sweep(WATCHING, 0..200, Until::Last);
        say(&format!("watching: {}", sweep.summary()));
        for (seed, violation) in sweep.failures.iter().take(5) {
            println!("{}", replay::report(WATCHING, *seed, violation));
        }
        assert!(sweep.failures.is_empty(), "oracles object to watches");
        let counts = sweep.tally.counts;
        let (changes, calm) = (counts.changes, counts.calm);
        say(&format!(
            "{changes} changes told, {calm} looks at what was told last"
        ));
        assert!(1_000 < changes && 1_000 < calm, "{changes} and {calm}");
    }
}
