//! Watches: what a client is told about a resource, and what that costs the nodes.
//!
//! * A while after the last change of a resource, and of the client's path to the nodes, the last report of its watch
//!   is what the nodes have.
//! * From then on the watch asks no node until something changes, according to the true state of the nodes and to what
//!   the client itself has sent about the resource.
//! * Its report of each node is what the node had when it read the latest question, and not an earlier one.
//! * A watch that was ended leaves its room to others.
//!
//! Only worlds of the kind `watching` have watches: choices are not drawn for them elsewhere.
//!
//! # What it does not see
//!
//! How soon a change is reported. The ends of keys, and which of several changes are reported. If answers are often
//! late, or a node reports no changes, whether the watch asks nothing.

use shearline::{Found, Inspection};

use super::{Deed, Said, Token, Verb, is_inspection};
use crate::clock::{NEVER, SECOND, Time};
use crate::plan::{Kinds, Plan};
use crate::user::Task;
use crate::watching::Watching;
use crate::world::World;

/// The tokens of each node.
type Tokens = Vec<Option<Token>>;

/// This long after the last change, everything has been reported, and nothing more is asked: a look is put off at most
/// ten times by 50 ms, and takes a node timeout. A node that does not say what it has is asked again after a delay.
const CALM: Time = 2 * SECOND;

/// The state of the nodes.
#[derive(Debug)]
pub(crate) struct Watched {
    /// For each resource, what each server has, and since when.
    states: Vec<(Tokens, Time)>,
    /// For each client and resource, when a server last executed one of the client's commands about the lock.
    own: Vec<Vec<Time>>,
    /// When the client was last seen to wait for the lock: it then asks who holds it.
    waited: Vec<Vec<Option<Time>>>,
    /// The questions on the latest connection, by client, node and resource.
    asked: Vec<Vec<Vec<Asked>>>,
}

/// The questions for what a node has, of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    conn: usize,
    written: u32,
    executed: u32,
    /// The answer to the latest of these questions, and the byte of the stream with which it ends.
    token: Option<Token>,
    end: u64,
}

/// The end of the script that says what a node has.
const SCRIPT_END: &[u8] = b",85)}";

impl Watched {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            states: vec![(Vec::new(), 0); plan.resources],
            own: vec![vec![0; plan.resources]; plan.clients],
            waited: vec![vec![None; plan.resources]; plan.clients],
            asked: vec![vec![vec![Asked::default(); plan.resources]; plan.nodes]; plan.clients],
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

    /// Notes that the end of a key of `resource` may have changed.
    pub(crate) fn note_change(&mut self, resource: usize) {
        let now = self.now;
        self.oracle.watched.states[resource].1 = now;
    }

    /// Notes that a server has executed a command about a lock.
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

    /// Checks the last report of every watch. Is called ten times a second.
    pub(super) fn watched(&mut self) {
        if self.plan.watches == 0 {
            return;
        }
        for resource in 0..self.plan.resources {
            self.note_state(resource);
        }
        for client in 0..self.plan.clients {
            for resource in 0..self.plan.resources {
                self.may_wait(client, resource);
            }
            let watching = self.clients[client].watching.as_ref();
            let Some(watching) = watching.filter(|watching| self.is_calm(client, watching)) else {
                continue;
            };
            self.oracle.counts.sights.note("Compared");
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
                Found::OtherType | _ => false,
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

    /// Returns `true` if a user of `client` waits for the lock, or may have asked who holds it.
    fn may_wait(&mut self, client: usize, resource: usize) -> bool {
        let waits = self.clients[client]
            .users
            .iter()
            .enumerate()
            .any(|(user, there)| {
                let wants = matches!(there.task, Task::Acquiring { .. });
                wants && self.plan.resource_of(user) == resource
            });
        let waited = &mut self.oracle.watched.waited[client][resource];
        if waits {
            *waited = Some(self.now);
        }
        waited.is_some_and(|waited| self.now <= waited + SECOND)
    }

    /// Returns the questions of a client to a node on this connection, if there is no later connection.
    fn asked_over(&mut self, conn: usize, resource: usize) -> Option<&mut Asked> {
        let link = &self.conns[conn];
        let asked = &mut self.oracle.watched.asked[link.peer][link.node][resource];
        if asked.conn < conn {
            *asked = Asked {
                conn,
                ..Asked::default()
            };
        }
        (asked.conn == conn).then_some(asked)
    }

    /// Notes that a client has written these bytes.
    pub(crate) fn watch_writes(&mut self, conn: usize, bytes: &[u8]) {
        if self.plan.watches == 0 {
            return;
        }
        let places = bytes.windows(SCRIPT_END.len()).enumerate();
        for (place, _) in places.filter(|(_, word)| *word == SCRIPT_END) {
            let behind = &bytes[place..bytes.len().min(place + 40)];
            let is_in = |name: &[u8]| behind.windows(name.len()).any(|word| word == name);
            let resource = self.names.iter().position(|name| is_in(name));
            if let Some(asked) = resource.and_then(|resource| self.asked_over(conn, resource)) {
                asked.written += 1;
            }
        }
    }

    /// Notes that a server has executed a question about what it has, and its answer.
    pub(crate) fn watch_asks(&mut self, conn: usize, words: &[&[u8]], reply: &[u8]) {
        let client = self.conns[conn].peer;
        let [_, _, _, key, ..] = *words else {
            return;
        };
        if self.plan.watches == 0 || !is_inspection(words) || self.plan.clients <= client {
            return;
        }
        let Some(resource) = self.names.iter().position(|name| key == name) else {
            return;
        };
        self.note_state(resource);
        self.is_needed(client, resource);
        let (tokens, _) = &self.oracle.watched.states[resource];
        let token = tokens[self.conns[conn].server];
        let end = self.conns[conn].far.replied + reply.len() as u64;
        if let Some(asked) = self.asked_over(conn, resource) {
            asked.executed += 1;
            (asked.token, asked.end) = (token, end);
        }
    }

    /// Checks whether a client has a reason to ask what a node has.
    fn is_needed(&mut self, client: usize, resource: usize) {
        let of_waiter = self.may_wait(client, resource);
        let watching = self.clients[client].watching.as_ref();
        let watching = watching.filter(|watching| watching.resource == resource);
        // A node that reports no changes is asked again and again: there may be one if kinds are mixed.
        let often = self.plan.delay_tail != 0
            || self.plan.node_timeout.is_some()
            || self.plan.kinds == Kinds::Mixed;
        let calm = watching.is_some_and(|watching| self.is_calm(client, watching));
        let needless = !often && !of_waiter && calm;
        self.object_of(
            client,
            needless,
            "watch",
            "asks, though nothing has changed",
        );
    }

    /// Checks the report of a change to a watch of `client`.
    pub(crate) fn check_change(&mut self, client: usize, resource: usize, told: &Inspection) {
        if self.may_wait(client, resource) {
            return;
        }
        for (node, there) in told.nodes().iter().enumerate() {
            let has = match &there.found {
                Found::Free => false,
                Found::Holder { .. } | Found::Copy { .. } => true,
                Found::Unknown(_) | Found::OtherType | _ => continue,
            };
            let asked = self.oracle.watched.asked[client][node][resource];
            let is_read = asked.end <= self.conns[asked.conn].near.read;
            if asked.written != asked.executed || !is_read || asked.token.is_some() != has {
                let text = format!(
                    "client {client} was told {told}, before node {node} had answered the latest question: \
                     {asked:?}"
                );
                return self.object("watch", text);
            }
        }
    }
}
