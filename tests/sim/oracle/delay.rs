//! Delay: a lock that was not released keeps others out until its validity and the lock delay are over.
//!
//! From the moment at which a client believes that it holds a lock, no client and no stranger gets the same resource
//! before the true time at which that client's clock shows the end of the validity, and the delay after that: whether
//! the holder keeps running, knows of the end or of the loss, is stopped, cut off, or dead. A release ends this at
//! once.
//!
//! If a majority of the nodes has lost a lock, its other copies are not released before its holder releases it.
//!
//! # What it does not see
//!
//! Whatever the oracle of exclusion does not see: for a while after a fault that no lock survives, several clients may
//! hold it. Nor does it see a lock that is handed over, until the new holder believes in it.

use shearline::Lock;

use super::{Deed, Kind, Oracle, Token, TokenId, token_of};
use crate::clock::{MILLI, NEVER, Time};
use crate::world::World;
use crate::written::Place;

/// A lock that keeps others out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delayed {
    token: Token,
    until: Time,
    kind: Kind,
}

impl Oracle {
    /// Notes that a holder has released a lock or handed it over.
    pub(super) fn end_delay(&mut self, token: &Token) {
        for delayed in &mut self.delayed {
            delayed.retain(|delayed| delayed.token != *token);
        }
    }
}

impl World {
    /// Notes that a client believes from now on that it holds `lock`, until its current end.
    pub(crate) fn delays(&mut self, client: usize, resources: &[usize], lock: &Lock) {
        let token = token_of(lock.token().as_bytes());
        let end = self.clock_of(client).when(lock.valid_until());
        let until = (end + self.plan.lock_delay * MILLI).min(NEVER);
        let kind = self.kind_of(lock);
        for resource in resources {
            self.begins(*resource, Some(token), kind);
            let now = self.now;
            let delayed = &mut self.oracle.delayed[*resource];
            delayed
                .retain(|other| kind != Kind::Alone && other.token != token && now < other.until);
            delayed.push(Delayed { token, until, kind });
        }
    }

    /// Checks that a release was not sent because the engine found that the lock is lost. A node may have given another
    /// slot of a permit than the others, and that slot is given back: the slot of the lock is checked when another
    /// client takes it.
    pub(super) fn loss_ends_no_delay(&mut self, deed: &Deed<'_>, id: TokenId) {
        let record = self.oracle.ledger.record(id);
        let is_permit = record.permits != 0;
        if self.plan.lock_delay != 0 && record.lost && record.ended == Place::MAX && !is_permit {
            let client = deed.peer;
            let text = format!("client {client} releases what is left of a lock that it has lost");
            self.object("delay", text);
        }
    }

    /// Checks whether a client with this token, or a stranger, may hold `resource` now.
    pub(crate) fn begins(&mut self, resource: usize, token: Option<Token>, kind: Kind) {
        let mut delayed = self.oracle.delayed[resource].iter();
        let early = |delayed: &Delayed| {
            let another = Some(delayed.token) != token && !kind.bears(delayed.kind);
            another && self.now < delayed.until
        };
        if self.plan.lock_delay != 0
            && delayed.any(early)
            && !self.oracle.is_excused(self.now, resource)
        {
            let text = format!("resource {resource} is held before the delay of the last is over");
            self.object("delay", text);
        }
    }
}
