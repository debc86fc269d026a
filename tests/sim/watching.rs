//! Worlds in which clients watch resources while others take, extend and release locks.
//!
//! A client with a watch asks for the next change as soon as it was told of one, and sometimes ends its
//! watch and begins another. `oracle::watching` judges what it is told, and what it asks the nodes.

use shearline::Inspection;
use shearline::engine::RoundId;
use shearline::internals::limits::WATCHES_MAX;

use crate::case::Kind;
use crate::clock::{MICRO, MILLI, SECOND, Time};
use crate::faults::Fault::*;
use crate::kinds::kind;
use crate::oracle::Inspected;
use crate::plan::{Kinds, Plan};
use crate::world::World;

/// How often a watch is ended when its client has a turn.
const ENDS: u32 = 2_000;

/// Locks are taken from time to time, and clients watch.
pub(crate) const WATCHING: Kind = kind("watching", |entropy| {
    let nodes = entropy.pick(&[3, 3, 5, 1]);
    let clients = 1 + entropy.below(3) as usize;
    Plan {
        nodes,
        servers: nodes,
        strangers: entropy.pick(&[0, 1]),
        resources: 1 + entropy.below(2) as usize,
        watches: 300_000,
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Newest, Kinds::Mixed]),
        delay: entropy.pick(&[50, 20, 500]) * MICRO,
        delay_tail: entropy.pick(&[0, 0, 30]) * MILLI,
        node_timeout: entropy.pick(&[None, None, Some(5)]),
        shortest_ttl: 300,
        longest_ttl: entropy.pick(&[5_000, 1_000]),
        work: entropy.pick(&[4, 1]) * SECOND,
        rest: 4 * SECOND,
        wait: SECOND,
        habits: [4, 1, 2, 1, 1, 1],
        cancels: entropy.pick(&[0, 50_000]),
        gap: entropy.pick(&[3_000, 500]) * MILLI,
        longest_fault: 300 * MILLI,
        faults: Plan::only(&[
            Reset, Stall, Slow, Pause, Partition, Restart, Unload, Delete, Expire, Push, Kill,
        ])
        .map(|weight| weight * entropy.pick(&[0, 0, 1, 2])),
        ..Plan::tame(clients)
    }
});

/// A client's watch.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) resource: usize,
    /// The round that waits for the next change; `None` until the client asks for it.
    pub(crate) round: Option<RoundId>,
    /// Since when the client has watched.
    pub(crate) since: Time,
    /// The last report.
    pub(crate) known: Option<Inspection>,
}

impl World {
    /// Lets a client begin to watch, ask for the next change, or end its watch. Returns whether it does.
    pub(crate) fn watches(&mut self, client: usize) -> bool {
        if self.plan.watches == 0 {
            return false;
        }
        let there = &self.clients[client];
        let finishing = there.finishing || self.entropy.is_spent();
        let (known, resource) = match &there.watching {
            Some(Watching { round: Some(_), .. }) => {
                let ends = !finishing && self.entropy.chance(ENDS);
                if ends {
                    self.end_watch(client);
                }
                return ends;
            }
            Some(watching) => (watching.known.clone(), watching.resource),
            None if finishing || !self.entropy.chance(self.plan.watches) => return false,
            None => {
                let resources = self.plan.resources as u32;
                (None, self.entropy.below(resources) as usize)
            }
        };
        self.watch(client, resource, known);
        true
    }

    fn watch(&mut self, client: usize, resource: usize, known: Option<Inspection>) {
        let shown = self.shown(client);
        self.client_says(client, || format!("watches resource {resource}"));
        let name = self.names[resource];
        let engine = &mut self.clients[client].engine;
        match engine.watch(shown, &name, known.as_ref()) {
            Ok(round) => {
                self.clients[client].watching = Some(Watching {
                    resource,
                    round: Some(round),
                    since: self.now,
                    known,
                });
            }
            Err(error) => self.object("watch", format!("client {client} got {error:?}")),
        }
    }

    fn end_watch(&mut self, client: usize) {
        let shown = self.shown(client);
        self.client_says(client, || "ends its watch".into());
        let there = &mut self.clients[client];
        if let Some(round) = there.watching.take().and_then(|watching| watching.round) {
            there.engine.cancel(shown, round);
        }
    }

    /// Returns `true` if `round` is that of a client's watch, to which a change is then reported.
    pub(crate) fn changed(&mut self, client: usize, round: RoundId, result: &Inspected) -> bool {
        let watching = self.clients[client].watching.as_mut();
        let Some(watching) = watching.filter(|watching| watching.round == Some(round)) else {
            return false;
        };
        watching.round = None;
        match result {
            Ok(told) => {
                watching.known = Some(told.clone());
                let resource = watching.resource;
                self.oracle.counts.sights.note("ChangeTold");
                self.check_change(client, resource, told);
            }
            Err(error) => self.object("watch", format!("a watch of client {client} got {error:?}")),
        }
        true
    }

    /// Ends all watches when everything is over. They must leave room for as many as there may be.
    pub(crate) fn end_watches(&mut self) {
        if self.plan.watches == 0 {
            return;
        }
        for client in 0..self.plan.clients {
            self.end_watch(client);
        }
        let shown = self.shown(0);
        let engine = &mut self.clients[0].engine;
        let refused = (0..WATCHES_MAX).find_map(|_| {
            let round = engine.watch(shown, b"another", None);
            round.map(|round| engine.cancel(shown, round)).err()
        });
        if let Some(error) = refused {
            let text = format!("watches that were ended leave no room for others: {error:?}");
            self.object("watch", text);
        }
    }
}
