//! Storm: the nodes are not asked more often than the work needs.
//!
//! * A `SET` is sent to a node once, and once more after a release of the client's own, or as text to a server that has
//!   forgotten the script; [`copy`](super::copy) counts copies of held locks.
//! * A release is sent once for every call that asks for it, as often over every later connection, and once more for
//!   every refusal; repeats after refusals are no faster than four a second, but for one for each `SET` of the same
//!   client that a key was in the way of. The key is the client's own, or any client's while a release of one of these
//!   names is refused: a nil does not say whose key it is.
//! * No release is sent over a connection on which the server has denied the `SET`, once that is read; unless the lock
//!   was copied there, because an earlier copy also makes the server deny a later one.
//! * An extension is sent once for every call, and once more to a server that has forgotten the
//!   script. An engine that keeps a lock tries fifteen times at most within one validity.
//! * A call makes no more attempts than it has tries, and with a deadline no more than its shortest
//!   delays leave time for, and one for each key of others that may have ended meanwhile.
//! * An attempt after one that too few nodes could answer follows after the shortest delay at least.
//! * A node is asked what is left of a key once for each command about a lock, each push of any node and
//!   each connection, and as often as the shortest delay leaves time for.
//! * A connection has one handshake, plus a join for every answer that did not count, every longer ttl and every
//!   request of an operator. It is opened again no faster than the back-off allows.
//! * Failed connections are not all opened again after the longest possible delay, because many clients would then come
//!   back in step.
//!
//! # What it does not see
//!
//! Commands of strangers. Commands are counted where they are executed, not where they are written;
//! if attempts had to wait for room in a connection, it is not known to which call they belong.

use std::time::Duration;

use super::{Deed, Said, TokenId, Verb, name_of};
use crate::client::{Path, SCRIPTS};
use crate::clock::{MILLI, NEVER, SECOND, Time};
use crate::plan::{Guard, LONGEST_REST, SHORTEST_REST};
use crate::user::{Call, Task};
use crate::world::World;

/// The number of commands of a handshake: `HELLO`, `AUTH`, `CLIENT SETNAME`, `SELECT`, three `INFO`, and the scripts.
/// For every error the scripts are sent once more.
const GREETING: u32 = 7 + SCRIPTS;

/// The number of commands of a handshake where servers carry markers: with the first join, and one join for each longer
/// ttl. There is one more join for every answer that does not count.
const GREETING_AND_RAISE: u32 = GREETING + 1;

/// The shortest time after which a refused release is repeated, a little less by true time.
const TRY_AGAIN: Time = 240 * MILLI;

/// A delay that the deadline cuts short is drawn from the remaining time, at least half of it: this is how many such
/// delays there are until less than a millisecond is left.
const LAST_RESTS: u64 = 7;

/// A delay that would end closer to the deadline than this may be shorter.
const LATE: Duration = Duration::from_millis(2 * LONGEST_REST);

/// This many attempts in a row whose votes are split, or that others win, follow each other after short windows, and
/// the next one after a delay.
const SPLITS: u64 = 32;

/// How often a connection may be opened at once, and how often in a second from then on: a round
/// that is short of a quorum tries four times a second, the back-off ends at once a second, and a
/// connection that has lasted a second is opened again at once.
const OPENED_AT_ONCE: u64 = 8;
const OPENED_A_SECOND: u64 = 6;

/// This many delays in a row that are longer than 19/20 of the maximum are not chance: one in ten is that long, or one
/// in five with the tick of the timers and a late turn.
const IN_STEP: u32 = 16;

/// How often an engine tries to extend a lock that it keeps, within one validity.
const TRIES_MAX: u32 = 15;

/// How often an engine extends such a lock at once because its keys may have changed, and how often from then on.
const LOOKS_AT_ONCE: u32 = 8;
const LOOK_EVERY: Time = 250 * MILLI;

/// How often each peer has set a key of a resource, on any node.
#[derive(Debug)]
pub(super) struct Sets(Vec<Vec<u64>>);

impl Sets {
    pub(super) fn new(peers: usize, resources: usize) -> Self {
        Self(vec![vec![0; peers]; resources])
    }

    /// Returns how often others have set keys of a resource. If there are locks on several resources, any of those may
    /// be affected.
    pub(super) fn of_others(&self, peer: usize, resource: usize, several: usize) -> u64 {
        if several != 0 {
            return self.0.iter().flatten().sum();
        }
        let sets = &self.0[resource];
        sets.iter().sum::<u64>() - sets[peer]
    }
}

/// How often a client has asked a node for the remaining time of a key, and has been told that a key has changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    count: u64,
    pub(crate) pushes: u64,
}

/// Events that may make a client send its refused releases to a node at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Met {
    /// How often a key that may be its own was in the way of its `SET`.
    own: u64,
    /// The locks whose release was refused last.
    refused: Vec<TokenId>,
}

impl Met {
    /// Notes that a process begins: it knows of no release.
    pub(super) fn born(&mut self) {
        self.refused.clear();
    }
}

impl World {
    /// Checks whether a command of a client is one too many.
    pub(super) fn storm(&mut self, deed: &Deed<'_>, id: TokenId, copy: bool) {
        if deed.command.verb == Verb::Set && deed.done == Said::Ok {
            let resource = self.oracle.ledger.record(id).resource;
            self.oracle.sets.0[resource][deed.peer] += 1;
        }
        if deed.peer >= self.plan.clients {
            return;
        }
        let met = deed.command.verb == Verb::Set && deed.said == Said::Nil;
        // A key whose release was refused may be there still, as far as its client knows.
        let has_debt = !self.oracle.met[deed.peer][deed.node].refused.is_empty();
        if met && (has_debt || self.is_own_key(deed) || !deed.command.keys.is_empty()) {
            self.oracle.ledger.cell_mut(id, deed.node).met_own = true;
        }
        if met && (self.is_own_key(deed) || self.may_be_refused_one(deed)) {
            self.oracle.met[deed.peer][deed.node].own += 1;
        }
        self.oracle.lock_commands[deed.peer] += 1;
        self.oracle.counts.asked += 1;
        let what = match deed.command.verb {
            Verb::Set if copy => None,
            Verb::Set => self.sets(deed, id),
            Verb::Extend | Verb::Beside => self.extends(deed, id),
            Verb::Keep => self.keeps(deed, id),
            Verb::Release => self.releases(deed, id),
            Verb::Confirm | Verb::Load | Verb::Join | Verb::Time | Verb::Other => None,
        };
        if let Some(what) = what {
            self.object_at(deed, "storm", what);
        }
    }

    /// Returns `true` if the key that prevented a `SET` belongs to the same client, or was handed over to it.
    fn is_own_key(&self, deed: &Deed<'_>) -> bool {
        deed.before
            .is_some_and(|token| self.is_of_process(deed.process, &token))
    }

    /// Returns `true` if the key that prevented a `SET` may be one whose release the node has refused to the same
    /// client.
    fn may_be_refused_one(&self, deed: &Deed<'_>) -> bool {
        let wanted = deed.command.keys.iter().chain(&deed.command.key);
        let mut refused = self.oracle.met[deed.peer][deed.node].refused.iter();
        refused.any(|id| {
            let names = self.oracle.ledger.record(*id).each_name();
            wanted.clone().any(|key| names.contains(&name_of(key)))
        })
    }

    fn sets(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        // After a refused `MULTI` each key of a set is requested alone.
        if self.plan.is_bare() && self.conns[deed.conn].garbage.is_some() {
            return None;
        }
        let ledger = &mut self.oracle.ledger;
        let first = ledger.cells(id).iter().all(|cell| cell.sets == 0);
        let permits = ledger.record(id).permits;
        let cell = ledger.cell_mut(id, deed.node);
        cell.sets += 1;
        // A permit may be asked for again in another slot.
        if cell.sets > 2 && permits == 0 {
            return Some("a third SET for one token");
        }
        let call = self.call_of(deed, id).filter(|_| first);
        // A call whose token names a number is repeated at once, at most twice, if nodes want another.
        if !self.plan.leads && call.is_some_and(|call| self.is_too_soon(deed, id, call)) {
            return Some("an attempt at once after one that too few nodes could answer");
        }
        let more = call.is_some_and(|call| self.is_one_too_many(deed, id, call));
        more.then_some("more attempts than there was time for")
    }

    /// Returns the call to whose attempt a `SET` belongs, if that is certain.
    fn call_of(&self, deed: &Deed<'_>, id: TokenId) -> Option<Call> {
        let resource = self.oracle.ledger.record(id).resource;
        let client = &self.clients[deed.peer];
        let mixed = self.plan.permits.0 != 0;
        // An attempt whose slots differ is sometimes followed by another at once.
        if self.plan.is_crowded() || mixed {
            return None;
        }
        let Task::Acquiring { call, .. } = client.users[resource].task else {
            return None;
        };
        // A command that waited for room may belong to an earlier call, whenever it was sent.
        let waited = call.since <= self.conns[deed.conn].near.unblocked_at;
        // The same holds for the rest of a write that was cut short.
        let earlier = deed.sent < call.since || !self.has_asked(deed.peer, resource, id);
        let known = client.process == deed.process && !earlier && !waited;
        known.then_some(call)
    }

    /// Returns `true` if an attempt follows one that too few nodes could answer, and follows it sooner than after the
    /// shortest delay. Close to the deadline delays may be shorter.
    fn is_too_soon(&self, deed: &Deed<'_>, id: TokenId, call: Call) -> bool {
        let (ledger, client) = (&self.oracle.ledger, &self.clients[deed.peer]);
        if (0..client.links.len()).any(|node| self.was_cut_short(deed.peer, node, call.since)) {
            return false; // An attempt whose writes were cut short counts as sent at their end.
        }
        let sent = |id: TokenId| ledger.record(id).sent;
        let resource = ledger.record(id).resource;
        let asked = self.oracle.asked[deed.peer][resource].iter();
        // Earlier calls and later attempts may have been executed before too.
        let own = asked.filter(|other| self.has_asked(deed.peer, resource, **other));
        let earlier = own.filter(|other| **other != id && sent(**other) <= sent(id));
        let Some(before) = earlier.map(|other| sent(*other)).max() else {
            return false;
        };
        let down = |path: &&Path| path.ready_at == NEVER && path.lost_at < before;
        let paths = &client.paths[..self.plan.nodes_of(deed.peer)];
        let could = paths.len() - paths.iter().filter(down).count();
        let cut = client.shown.saturating_add(LATE);
        sent(id) < before + SHORTEST_REST * MILLI * 49 / 50
            && could < self.plan.quorum()
            && call.limits.deadline.is_none_or(|deadline| cut < deadline)
    }

    /// Returns `true` if a write to a node was cut short and its rest has waited until `since`, or longer.
    pub(super) fn was_cut_short(&self, client: usize, node: usize, since: Time) -> bool {
        let conn = self.clients[client].links[node];
        conn.is_some_and(|conn| since <= self.conns[conn].near.unblocked_at)
    }

    /// Returns `true` if an attempt is the first that the tries or the time of its call do not allow.
    fn is_one_too_many(&mut self, deed: &Deed<'_>, id: TokenId, call: Call) -> bool {
        let resource = self.oracle.ledger.record(id).resource;
        let client = &self.clients[deed.peer];
        let attempts = &mut self.oracle.attempts[deed.peer][resource];
        // A command that was sent at the time of the call may be the last of the call before; if
        // that was cancelled only then, there may be more of both.
        *attempts = match deed.sent == call.since {
            true => u32::from(client.users[resource].ended < call.since),
            false => *attempts + 1,
        };
        // A delayed command may come after later ones. The delays are by a client's clock that is
        // as fast as it may be.
        let newest = self.oracle.newest[deed.peer][resource];
        let newest = newest.map_or(0, |newest| self.oracle.ledger.record(newest).sent);
        let rests = (deed.sent.max(newest) - call.since) / (SHORTEST_REST * MILLI * 49 / 50);
        // Keys of others of whose end a waiter has been told: it may ask then.
        let sets = &self.oracle.sets;
        let told = sets.of_others(deed.peer, resource, self.plan.sets);
        let told = told - self.oracle.sets_before[deed.peer][resource] + self.plan.nodes as u64;
        let most = match (call.limits.tries, call.limits.deadline) {
            // Each try may be repeated twice, because nodes want another number.
            (Some(tries), _) if self.plan.leads => 3 * u64::from(tries),
            (None, Some(_)) if self.plan.leads => u64::MAX,
            (Some(tries), _) => u64::from(tries),
            (None, Some(_)) => 1 + LAST_RESTS + SPLITS + rests + told,
            (None, None) => u64::MAX,
        };
        most < u64::from(*attempts)
    }

    fn extends(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let ledger = &mut self.oracle.ledger;
        let calls = ledger.record(id).extends;
        let cell = ledger.cell_mut(id, deed.node);
        cell.extends += 1;
        (2 * calls < cell.extends).then_some("more extensions than were asked for")
    }

    fn keeps(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        // A client that is stopped in the middle of its turn may report a success next.
        let stopped = u32::from(self.clients[deed.peer].in_turn);
        let ledger = &mut self.oracle.ledger;
        let record = ledger.record(id);
        let begun = record.keepers.len() as u32;
        let ends = begun.max(1) + stopped + record.kept + record.extends + record.confirms;
        let held = deed.sent.saturating_sub(record.sent);
        let looks = LOOKS_AT_ONCE + u32::try_from(held / LOOK_EVERY).unwrap_or(u32::MAX);
        let cell = ledger.cell_mut(id, deed.node);
        cell.keeps += 1;
        (2 * (TRIES_MAX * ends + looks) < cell.keeps)
            .then_some("more tries to keep a lock than there may be")
    }

    fn releases(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        self.loss_ends_no_delay(deed, id);
        // A transaction that was requested earlier may be written after that.
        if !deed.transacted && self.is_denied(deed, id) {
            return Some("a release of what was denied");
        }
        let ledger = &mut self.oracle.ledger;
        // A failed attempt is released without a call; and a client that is stopped in the middle of its turn may learn
        // of a loss next, which causes another release.
        let stopped = u32::from(self.clients[deed.peer].in_turn);
        // A slot that differs is given back, and the right one is requested.
        let again = if ledger.record(id).permits != 0 { 8 } else { 0 };
        let calls = ledger.record(id).releases.max(1) + stopped + again;
        let met = &mut self.oracle.met[deed.peer][deed.node];
        met.refused.retain(|other| *other != id);
        if matches!(deed.said, Said::Refused(_)) && deed.process == self.clients[deed.peer].process
        {
            met.refused.push(id);
        }
        let met_own = met.own;
        let releases = &mut ledger.cell_mut(id, deed.node).releases;
        if releases.count == 0 {
            releases.first = self.now;
            releases.met_own = met_own;
        }
        if releases.conns == 0 || releases.conn != deed.conn {
            releases.conns += 1;
            releases.conn = deed.conn;
        }
        let again = met_own.saturating_sub(releases.met_own); // A release by another holder after a hand-over.
        let before = *releases;
        let (refused, conns) = (before.refused, before.conns);
        releases.count += 1;
        releases.deleted |= deed.said == Said::One;
        if deed.transacted && deed.said == Said::Foreign {
            // The answer may be older than a `SET` that this node postpones, so the key is released again.
            releases.repairs += 1;
        }
        if let Said::Refused(code) = deed.said {
            if code.is_no_script() {
                releases.repairs += 1;
            } else {
                releases.refused += 1;
                releases.refusals.add(code);
            }
        }
        // It may be sent over each connection natively and by script, and before each `SET` that is sent again.
        let tries = 2 + 2 * u64::from(conns) + (self.now - before.first) / TRY_AGAIN + again;
        let tries = u64::from(calls) * tries;
        if calls * conns + refused + before.repairs < before.count + 1 {
            Some("a release that was under way already")
        } else if self.plan.own_words.is_none() && tries < u64::from(refused) {
            Some("a release that is refused again and again")
        } else {
            None
        }
    }

    /// Returns `true` if the client had read that the server lacks the token.
    fn is_denied(&self, deed: &Deed<'_>, id: TokenId) -> bool {
        let (record, cell) = (
            self.oracle.ledger.record(id),
            self.oracle.ledger.cell(id, deed.node),
        );
        // Clients do not remember where an old lock could be.
        let young = deed.sent < record.sent + self.plan.shortest_ttl * (MILLI * 49 / 50);
        // A lost lock is forgotten, and released once more on all nodes.
        let own = record.owner == deed.process && record.heirs.is_empty() && !record.lost;
        // A copy may have found an earlier one whose answer was not read. A permit with a number is taken twice on a
        // node that has moved it, and the node may have refused the second take alone.
        let only = !cell.copied && (record.permits == 0 || cell.sets < 2);
        let denied = match cell.set.said {
            Said::Nil => true,
            Said::Refused(code) => code.is_certain(),
            Said::Nothing | Said::Ok | Said::One | Said::Zero | Said::Foreign | Said::Else => false,
        };
        let known = cell.set.read_place <= deed.begun.asked && cell.set_over.0 == deed.conn;
        let first = cell.releases.count == 0;
        young && own && only && denied && known && first
    }

    /// Checks a client's question to a node for the remaining time of a key.
    pub(crate) fn looked(&mut self, conn: usize) {
        let link = &self.conns[conn];
        let (peer, node, process) = (link.peer, link.node, link.process);
        let there = &self.clients[peer];
        if process != there.process {
            return; // It was killed since.
        }
        self.oracle.counts.asked += 1;
        let looks = &mut self.oracle.looks[peer][node];
        looks.count += 1;
        let rests = (self.now - there.born) / (SHORTEST_REST * MILLI * 49 / 50);
        let resources = self.plan.resources as u64;
        let count = looks.count;
        // A notification by one node may lead to a look at those that do not notify.
        let pushes: u64 = self.oracle.looks[peer].iter().map(|of| of.pushes).sum();
        let reasons = pushes + there.paths[node].opened + resources * (1 + rests);
        // A command to one node may lead to a look at all, and so does the lack of one.
        let sum = reasons + self.oracle.lock_commands[peer];
        self.object_if(sum < count, "storm", || {
            format!("client {peer} looks at node {node} again and again")
        });
    }

    /// Checks that a connection is not opened too often.
    pub(crate) fn opened(&mut self, client: usize, node: usize) {
        let there = &mut self.clients[client];
        let path = &mut there.paths[node];
        path.opened += 1;
        let seconds = (self.now - there.born) / SECOND;
        if path.opened > OPENED_AT_ONCE + OPENED_A_SECOND * (seconds + 1) {
            let opened = path.opened;
            let text = format!("client {client} opened {opened} connections to {node}");
            self.object("storm", text);
        }
    }

    /// Checks the delay before a connection that is opened after a failed one. The delay is random, and a late turn
    /// matters little.
    pub(crate) fn in_step(&mut self, client: usize, node: usize) {
        let there = &self.clients[client];
        let backoff = there.paths[node].backoff;
        let since = there.shown.saturating_since(backoff.lost_shown);
        // A client that was stopped meanwhile is late for another reason.
        let stopped = there.stopped_until + 2 * backoff.longest().as_nanos() as Time;
        if !backoff.is_exact() || self.now <= stopped {
            return;
        }
        let late = since.saturating_mul(20) >= backoff.longest().saturating_mul(19);
        let row = &mut self.oracle.in_step;
        *row = if late { *row + 1 } else { 0 };
        if *row == IN_STEP {
            let text = format!("{IN_STEP} connections in a row are opened as late as they may be");
            self.object("storm", text);
        }
    }

    /// Counts a command that is not about a lock, or an answer that is an error, on a connection.
    pub(crate) fn talk(&mut self, conn: usize, lock: bool, said: Said, shut: bool) {
        let link = &mut self.conns[conn];
        link.talk += u32::from(!lock);
        link.asked_to_join += u32::from(shut);
        let most = match self.plan.guard == Guard::Strict {
            true => GREETING_AND_RAISE + SCRIPTS * link.errors + link.asked_to_join,
            false => GREETING + SCRIPTS * link.errors,
        };
        link.errors += u32::from(said.is_error());
        if link.talk > most {
            let (peer, node) = (link.peer, link.node);
            let text = format!("client {peer} connects to node {node} for ever");
            self.object("storm", text);
        }
    }
}
