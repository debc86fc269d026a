//! Deleted: another client deletes or replaces the keys of a kept lock on a majority. Its holder is told soon.
//!
//! That takes no longer than [`MARGIN`] and a few round trips, however long the lock is valid: the nodes notify its
//! client of the change, and an extension follows at once.
//!
//! The oracle judges only if nothing else goes wrong: for [`CALM`] all nodes had been connected, no other fault had
//! begun or lasted, the client had run, and the lock had been kept. No other client had changed its keys before.
//!
//! # What it does not see
//!
//! Servers that report no changes. A second loss of keys of one lock: servers report nothing of a copy sent since the
//! first loss before the next extension. Locks whose extensions are counted, and several resources at once. Worlds in
//! which a round trip may take as long as a node timeout.

use shearline::LockId;

use super::TokenId;
use super::kept::LEAST_DRIFT;
use super::ledger::Process;
use crate::clock::{MILLI, NEVER, Time};
use crate::faults::Fault;
use crate::mutations::is_narrow;
use crate::plan::{Kinds, Plan};
use crate::user::Hold;
use crate::world::World;

/// How long after a fault, and after the lock was kept, all nodes have been asked to report changes.
const CALM: Time = 1_000 * MILLI;

/// The time allowed in addition to [`TRIPS`] round trips: for a lock that has been looked at too often, and for a look
/// that has to wait and is tried again.
const MARGIN: Time = 350 * MILLI;

/// The number of round trips: the push, an open extension, another one; and as many turns in which other things are
/// done.
const TRIPS: Time = 8;

/// The keys that were deleted, and the holders that have to be told.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// By resource: when others last changed its keys.
    struck: Vec<Time>,
    /// Until when another fault lasts, or when the last one ended.
    disturbed: Time,
    owed: Vec<Owed>,
}

/// A holder that has to be told of its loss.
#[derive(Clone, Copy, Debug)]
struct Owed {
    client: usize,
    process: Process,
    user: usize,
    lock: LockId,
    id: TokenId,
    resource: usize,
    by: Time,
}

impl Deleted {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            struck: vec![0; plan.resources],
            disturbed: 0,
            owed: Vec::new(),
        }
    }

    /// Notes a fault.
    pub(crate) fn disturb(&mut self, fault: Fault, until: Time) {
        if matches!(fault, Fault::Delete | Fault::Expire) {
            return;
        }
        let ends = matches!(
            fault,
            Fault::Reset | Fault::Unload | Fault::Slow | Fault::Stall | Fault::Restart
        );
        let until = if ends { until } else { NEVER };
        self.disturbed = self.disturbed.max(until);
        self.owed.clear();
    }
}

impl World {
    /// Returns the holders that have to be told if a change of the keys of `resource` by others ends their locks.
    pub(crate) fn watched_keepers(&self, resource: usize) -> Vec<usize> {
        if !self.plan.has_kept_locks() || !self.tell_of_changes() || is_narrow() {
            return Vec::new();
        }
        let users = |client: &usize| self.clients[*client].users.len();
        let all = (0..self.plan.clients).filter(|client| self.is_well_connected(*client));
        all.filter(|client| {
            (0..users(client)).any(|user| self.owed_of(*client, user, resource).is_some())
        })
        .collect()
    }

    /// Notes that others have changed keys of `resource`. These clients have to be told if that has ended their locks.
    pub(crate) fn changed_by_others(&mut self, resource: usize, keepers: &[usize]) {
        for client in keepers {
            for user in 0..self.clients[*client].users.len() {
                let owed = self.owed_of(*client, user, resource);
                let owed = owed.filter(|owed| self.is_lost(owed));
                self.oracle.counts.sights.note_if(owed.is_some(), "Deleted");
                self.oracle.deleted.owed.extend(owed);
            }
        }
        self.oracle.deleted.struck[resource] = self.now;
    }

    /// Checks the holders that should have been told by now.
    pub(super) fn deletions_told(&mut self) {
        if self.calm {
            self.oracle.deleted.owed.clear();
        }
        for owed in std::mem::take(&mut self.oracle.deleted.owed) {
            let there = &self.clients[owed.client];
            let hold = there.users.get(owed.user).and_then(|user| user.task.hold());
            let hold = hold.filter(|hold| hold.lock.id() == owed.lock);
            let Some(hold) = hold.filter(|_| there.alive && there.process == owed.process) else {
                continue; // The holder was told, or the lock has ended or was released before.
            };
            if hold.told || !is_extended(hold) {
                continue;
            }
            if self.now < owed.by {
                self.oracle.deleted.owed.push(owed);
            } else if self.is_lost(&owed) {
                let Owed {
                    client, resource, ..
                } = owed;
                let text = format!("client {client} was not told that resource {resource} is lost");
                self.object("deleted", text);
            }
        }
    }

    /// Returns `true` if a majority no longer has a key of the lock.
    fn is_lost(&self, owed: &Owed) -> bool {
        let lacks = |node: &usize| !self.has_all(self.plan.server_of(*node), owed.id);
        self.plan.quorum() <= (0..self.plan.nodes).filter(lacks).count()
    }

    /// Returns what a user has to be told if its lock of `resource` is lost now.
    fn owed_of(&self, client: usize, user: usize, resource: usize) -> Option<Owed> {
        let there = &self.clients[client];
        let hold = there.users[user].task.hold()?;
        let keep = hold.keep.filter(|_| !hold.told)?;
        let id = self.oracle.id_of(&hold.lock)?;
        let is_calm = is_extended(hold)
            && keep.since + CALM <= self.now
            && self.oracle.deleted.struck[resource] < keep.since
            && hold.extensions.is_none()
            && self.plan.resource_of(user) == resource;
        is_calm.then_some(Owed {
            client,
            process: there.process,
            user,
            lock: hold.lock.id(),
            id,
            resource,
            by: self.now + MARGIN + TRIPS * self.round_trip(),
        })
    }

    fn round_trip(&self) -> Time {
        2 * (self.plan.delay + self.plan.delay_tail) + 4 * self.plan.lag + MILLI
    }

    /// Returns `true` if the servers of this world report changes, and report them soon.
    fn tell_of_changes(&self) -> bool {
        let timeout = self.plan.node_timeout.unwrap_or(5) * MILLI;
        !matches!(self.plan.kinds, Kinds::Old | Kinds::Mixed)
            && self.round_trip() < timeout
            && self.plan.pause == 0
            && self.oracle.deleted.disturbed.saturating_add(CALM) <= self.now
    }

    fn is_well_connected(&self, client: usize) -> bool {
        let there = &self.clients[client];
        let has_run = there.alive
            && there.stopped_until + CALM <= self.now
            && self.hosts[there.host].asleep_until + CALM <= self.now;
        let mut paths = there.links.iter().zip(&there.paths);
        has_run
            && paths.all(|(link, path)| {
                link.is_some() && path.ready_at.saturating_add(CALM) <= self.now && !path.was_full()
            })
    }
}

/// Returns `true` if a lock is kept for longer than it is valid: any other is not extended, and so not looked at.
fn is_extended(hold: &Hold) -> bool {
    let end = hold.lock.valid_until().saturating_add(LEAST_DRIFT);
    hold.keep.is_some_and(|keep| end <= keep.limit)
}
