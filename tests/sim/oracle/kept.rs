//! Kept: locks that their engine extends by itself.
//!
//! * *kept*: such a lock does not end if a majority could have extended it in time: a majority of the
//!   servers was well for the last quarter of the validity, its client ran, and neither the limit nor the
//!   number of extensions was reached.
//! * *votes*, *validity*: each extension has a majority that had the token and was asked since the last extension was
//!   reported. Its end is no later than the rule says, counted from before the first byte, no later than the limit, and
//!   never earlier than the end before.
//! * *outcome*: the lock shows the end that is reported. An extension fails only if no majority has said yes
//!   in time, and the lock is lost exactly if a majority misses it.
//!
//! * *told-early*: a user that wants to know when a certain time is left of a lock is told by then, once, and at most a
//!   tick and a turn earlier. It is not told after the end was reported, nor of a lock that it does not have.
//!
//! [`late`](super::late) checks that nothing is extended after the end, [`storm`](super::storm) that an
//! engine tries fifteen times at most, [`wake`](super::wake) that it asks to be woken at half of the
//! validity.
//!
//! *A node is *well* if its server runs and answers, has had no fault for that time, may vote, and has the token since;
//! over a connection that was ready then, takes every write at once, and is open.
//!
//! # How extensions are told apart
//!
//! In worlds where engines keep locks, the last two bits of the ttl distinguish extensions: 2 means one by the engine,
//! 0 one by a user, and 3 the second one by a user. But if an engine begins to keep a lock that is held already, or was
//! handed over, it asks for the longest ttl that the lock has had: from then on its user asks for any other. Near the
//! limit of a lock its engine asks for any ttl: its user neither extends such a lock nor hands it over.
//!
//! Without scripts an extension may wait for a transaction, and run after its round was decided without it, or
//! reported. It does not belong to a later round.
//!
//! # What it does not see
//!
//! Ends of locks that were confirmed: a confirmation may find an earlier end, when it is too late for an extension.
//! Ends of locks that are kept for less than a quarter of their validity. For a lock that was handed over, nodes whose
//! answer its first holder had not read. Worlds in which a round trip may take longer than a 32nd of the validity.

use std::time::Duration;

use shearline::{ExtendError, Instant, Lock, LockId};

use super::ledger::{Keeper, Process};
use super::report::TOO_SOON;
use super::votes::{Asked, Servers, drift, longest_validity};
use super::wake::Due;
use super::{Command, Deed, Said, TICK, TokenId, Verb, millis, token_of};
use crate::clock::{MILLI, NEVER, Time};
use crate::faults::Fault;
use crate::mutations::is_narrow;
use crate::plan::Guard;
use crate::server::Mood;
use crate::user::{Hold, Keep};
use crate::world::World;
use crate::written::{Place, Writing};

/// The report of an engine on an extension of a lock that it keeps: until when the lock is valid.
type Kept = Result<Instant, ExtendError>;

/// The smallest drift.
pub(super) const LEAST_DRIFT: Duration = Duration::from_millis(2);

impl World {
    /// Notes that a client has got a lock that its engine keeps for as long as `most`.
    pub(crate) fn begins_keeping(&mut self, client: usize, lock: &Lock, most: Duration) -> Keep {
        let ttl = lock.ttl().as_millis() as u64;
        let sent = lock.valid_until().saturating_sub(longest_validity(ttl));
        let limit = sent.saturating_add(most);
        self.is_kept_since(client, lock, 0, limit);
        Keep {
            ttl,
            limit,
            since: self.now,
            begun: self.clients[client].ticked,
        }
    }

    /// Notes that the engine of a client keeps `lock`, which the client already holds, from now on for as long as
    /// `most`.
    pub(crate) fn keeps_from_now_on(&mut self, client: usize, hold: &mut Hold, most: Duration) {
        let (place, shown) = (self.inputs, self.clients[client].shown);
        let limit = shown.saturating_add(most);
        let before = hold.keep;
        if before.is_none() {
            self.is_kept_since(client, &hold.lock, place, limit);
        } else {
            self.note_keeper(client, &hold.lock, place, limit);
        }
        let begun = before.map_or(self.clients[client].ticked, |keep| keep.begun);
        hold.keep = Some(Keep {
            ttl: hold.lock.ttl().as_millis() as u64,
            limit,
            since: self.now,
            begun,
        });
        if let Some(asked) = &mut hold.confirming {
            asked.overtaken = true;
        }
    }

    /// Checks the answer of an engine that was asked to keep a held lock.
    pub(crate) fn check_keeping_begun(
        &mut self,
        client: usize,
        hold: &Hold,
        begun: &Result<(), ExtendError>,
    ) {
        let valid = hold.lock.is_valid_at(self.clients[client].shown) && !hold.told;
        let ttl = hold.lock.ttl().as_millis() as u64;
        let is_guarded = matches!(self.plan.guard, Guard::Observed | Guard::Strict);
        let too_long = is_guarded && self.plan.max_ttl_of(client) < ttl;
        let fits = match begun {
            Ok(()) => valid && !too_long && hold.extensions != Some(0),
            Err(ExtendError::Expired) => !valid,
            Err(ExtendError::Limit) => hold.extensions == Some(0),
            Err(ExtendError::Invalid(_)) => too_long,
            Err(_) => false,
        };
        self.oracle.counts.sights.note("KeptFromNowOn");
        self.object_if(!fits, "outcome", || {
            format!("client {client} was told {begun:?} of {hold:?}, which is to be kept")
        });
    }

    /// Notes that the extensions of `lock` which leave from `since` on are by the engine of this client.
    fn is_kept_since(&mut self, client: usize, lock: &Lock, since: Place, limit: Instant) {
        self.note_keeper(client, lock, since, limit);
        if let Some(id) = self.oracle.id_of(lock) {
            let place = self.clients[client].turn_place;
            let resource = self.oracle.ledger.record(id).resource;
            let spell = &mut self.oracle.calls[client][resource].keep.spell;
            (spell.to, spell.before) = (spell.to.min(self.inputs), place);
        }
    }

    fn note_keeper(&mut self, client: usize, lock: &Lock, since: Place, limit: Instant) {
        let keeper = Keeper {
            by: self.clients[client].process,
            since,
            life: lock.ttl().as_millis() as u64 + self.plan.added(),
            limit,
            over: Place::MAX,
        };
        self.oracle
            .note_of(lock, |record| record.keepers.push(keeper));
    }

    /// Notes that an engine no longer keeps a lock: its holder lets it go, or was told of its end.
    pub(crate) fn keeps_no_more(&mut self, client: usize, hold: &Hold) {
        if let Some(id) = self.oracle.id_of(&hold.lock) {
            self.keeper_is_over(client, id);
        }
    }

    fn keeper_is_over(&mut self, client: usize, id: TokenId) {
        let (process, place) = (self.clients[client].process, self.inputs);
        let keepers = &mut self.oracle.ledger.record_mut(id).keepers;
        for keeper in keepers.iter_mut().filter(|keeper| keeper.by == process) {
            keeper.over = keeper.over.min(place);
        }
    }

    /// Returns the latest of the limits since `asked`: an extension that is under way when a new limit is set has the
    /// one before.
    fn limit_since(&self, client: usize, id: TokenId, asked: Place) -> Instant {
        let mut latest = Instant::ZERO;
        let process = self.clients[client].process;
        for keeper in self.oracle.ledger.record(id).keepers_in(process) {
            latest = latest.max(keeper.limit);
            if keeper.since < asked {
                break; // All others were replaced before.
            }
        }
        latest
    }

    /// Returns `true` if a lock is or was kept up to a limit.
    pub(crate) fn is_limited(&self, client: usize, hold: &Hold) -> bool {
        self.kept_lives(client, hold).any(|(_, limited)| limited)
    }

    /// Returns `true` if an extension of `ttl` would look like one by the engine that keeps the lock.
    pub(crate) fn looks_kept(&self, client: usize, hold: &Hold, ttl: u64) -> bool {
        let life = ttl + self.plan.added();
        self.kept_lives(client, hold)
            .any(|(other, _)| other == life)
    }

    /// Returns the ttls for which the engine of a client asks, and has asked, when it extends a lock, and whether there
    /// is a limit.
    fn kept_lives(&self, client: usize, hold: &Hold) -> impl Iterator<Item = (u64, bool)> {
        let id = self.oracle.id_of(&hold.lock);
        let record = id.map(|id| self.oracle.ledger.record(id));
        let process = self.clients[client].process;
        let keepers = record
            .into_iter()
            .flat_map(move |record| record.keepers_in(process));
        keepers.map(|keeper| (keeper.life, keeper.limit < Instant::MAX))
    }

    /// Returns `true` if a command that left a process is an extension by its engine, which keeps the lock.
    pub(crate) fn is_by_keeper(&self, by: Process, begun: &Writing, command: &Command<'_>) -> bool {
        if !self.plan.has_kept_locks() || !matches!(command.verb, Verb::Extend | Verb::Beside) {
            return false;
        }
        let id = self.oracle.ledger.find_any(command.token);
        let ttl = command.ttl.and_then(millis).unwrap_or(0);
        let keeps = |keeper: &Keeper| {
            keeper.since <= begun.place && (keeper.limit < Instant::MAX || keeper.life == ttl)
        };
        let known = id.is_some_and(|id| {
            let mut keepers = self.oracle.ledger.record(id).keepers_in(by);
            keepers.any(keeps)
        });
        known || ttl % 4 == 2
    }

    /// Notes that a server has executed an extension by an engine that keeps the lock: perhaps the first of a new
    /// round.
    pub(super) fn keep_executed(&mut self, deed: &Deed<'_>, id: TokenId) {
        let there = self.clients.get(deed.peer);
        let Some(there) = there.filter(|there| there.process == deed.process) else {
            return;
        };
        let resource = self.oracle.ledger.record(id).resource;
        let hold = there.users[resource].task.hold();
        let own = |hold: &&Hold| Some(token_of(hold.lock.token().as_bytes())) == deed.command.token;
        let keep = hold.filter(own).filter(|hold| hold.keep.is_some());
        if deed.command.verb != Verb::Keep {
            return;
        }
        let Some(known) = keep.map(|hold| hold.known) else {
            // The holder let the lock go in the turn of this extension, whose answers replace the earlier ones.
            let spell = &mut self.oracle.calls[deed.peer][resource].keep.spell;
            spell.from = spell.from.max(deed.begun.place);
            return;
        };
        let (in_turn, turn) = (there.in_turn, there.turn_place);
        // Work that waits for a transaction begins when other nodes have answered, or the round was reported.
        let (begun, since) = deed.asked();
        let shown = self.clock_of(deed.peer).show(since);
        let calls = &mut self.oracle.calls[deed.peer][resource].keep;
        if deed.is_over || begun.place <= calls.spell.before {
            return; // It belongs to a round that was decided, or reported.
        }
        let is_new = calls.spell.to < Place::MAX;
        if !is_new && in_turn && calls.spell.from <= turn && turn < begun.place {
            // Another server may have executed a later part of it first.
            let next = calls.next.filter(|(_, first, _)| *first <= since);
            calls.next = next.or(Some((begun, since, shown)));
        }
        if is_new {
            calls.spell.from = begun.place;
            calls.spell.to = Place::MAX;
            calls.asked = begun.asked;
            (calls.since, calls.begun, calls.ticked) = (since, shown, begun.ticked_before);
            calls.within = known;
            let life = deed.command.ttl.and_then(millis).unwrap_or(0);
            calls.ttl = life.saturating_sub(self.plan.added());
        }
        calls.spell.from = calls.spell.from.min(begun.place);
        calls.asked = calls.asked.min(begun.asked);
        calls.since = calls.since.min(since);
        calls.begun = calls.begun.min(shown);
        calls.ticked = calls.ticked.min(begun.ticked_before);
        self.oracle.ledger.record_mut(id).keeps += u32::from(is_new);
    }

    // ----- what engines report --------------------------------------------------------------

    /// Checks the report of an engine on an extension of a lock that it keeps.
    pub(crate) fn kept(&mut self, client: usize, lock: LockId, result: &Kept) {
        let users = self.clients[client].users.iter();
        let mut held = users.map(|user| user.task.hold());
        let user = held.position(|hold| hold.is_some_and(|hold| hold.lock.id() == lock));
        let Some(user) = user else {
            if !matches!(result, Err(ExtendError::Closed)) {
                let text = format!("client {client} is told {result:?} of a lock that it has not");
                self.object("outcome", text);
            }
            return;
        };
        self.with_hold(client, user, |world, hold| {
            world.kept_by_engine(client, user, hold, result);
        });
    }

    fn kept_by_engine(&mut self, client: usize, user: usize, hold: &mut Hold, result: &Kept) {
        let id = self.oracle.id_of(&hold.lock);
        let (Some(keep), Some(id)) = (hold.keep, id) else {
            self.object("outcome", format!("client {client}: {hold:?} is not kept"));
            return;
        };
        match result {
            Ok(until) => self.check_kept(client, hold, (keep, id), *until),
            Err(error) => self.check_not_kept(client, hold, id, error),
        }
        let (place, turn) = (self.inputs, self.clients[client].turn_place);
        let resource = self.plan.resource_of(user);
        let calls = &mut self.oracle.calls[client][resource].keep;
        (calls.spell.to, calls.spell.before) = (calls.spell.to.min(place), turn);
        let next = calls.next.take().filter(|(begun, ..)| turn < begun.place);
        if let Some((writing, since, begun)) = next {
            (calls.spell.from, calls.spell.to) = (writing.place, Place::MAX);
            calls.asked = writing.asked;
            (calls.since, calls.begun, calls.ticked) = (since, begun, writing.ticked_before);
        }
        // The next extension may begin in the same turn, when the engine reads an answer.
        let begun = self.clients[client].ticked_before;
        match result {
            Ok(until) => {
                hold.is_told(*until);
                hold.keep = Some(Keep { begun, ..keep });
                if hold.lock.is_valid_at(self.shown(client)) && !hold.told {
                    self.hold_belief(client, user, hold);
                }
            }
            Err(_) => hold.keep = Some(Keep { begun, ..keep }),
        }
        if matches!(result, Err(ExtendError::Lost(_))) {
            self.told_of_loss(client, hold);
            self.oracle.misses(&hold.lock);
            self.end_beliefs(client, user);
        }
    }

    fn check_kept(
        &mut self,
        client: usize,
        hold: &mut Hold,
        (keep, id): (Keep, TokenId),
        until: Instant,
    ) {
        self.oracle.counts.sights.note("Kept");
        self.oracle.ledger.record_mut(id).kept += 1;
        hold.extensions = hold.extensions.map(|left| left.saturating_sub(1));
        let resource = self.oracle.ledger.record(id).resource;
        let calls = self.oracle.calls[client][resource].keep;
        let alone = calls.spell.to < Place::MAX;
        self.object_of(client, alone, "votes", "keeps what no server has extended");
        let longer = hold.known < until;
        let (since, before) = (calls.since, hold.known);
        self.check_votes(client, id, Verb::Keep, since, until, longer, before);
        let limit = self.limit_since(client, id, calls.asked);
        let what = if limit < until.saturating_add(LEAST_DRIFT) {
            Some("an extension lasts longer than the limit")
        } else if until < hold.known
            && hold.lock.valid_until() < hold.known // Else another has extended it since.
            && !hold.asked
            && !self.ends_now(client, id, until)
        {
            Some("an extension by its engine has shortened a lock")
        } else if hold.lock.valid_until() < until && !hold.asked && self.shown(client) < until {
            Some("a kept lock does not show its end")
        } else {
            None
        };
        if let Some(what) = what {
            self.object("validity", format!("client {client}: {what}, {until:?}"));
        }
        // A confirmation whose outcome is not reported yet may have found an earlier end.
        let asks = hold.confirming.is_some() || hold.unasked.is_some();
        if longer && !asks {
            let asked = Asked {
                since: calls.since,
                begun: keep.begun,
                ttl: calls.ttl,
            };
            self.check_validity(client, id, Verb::Keep, asked, until);
        }
    }

    /// Returns `true` if a majority has lost a lock in the turn in which an earlier extension is reported: the lock ends
    /// now.
    pub(super) fn ends_now(&mut self, client: usize, id: TokenId, until: Instant) -> bool {
        let misses_it =
            self.misses_it(client, id, Verb::Keep) || self.other_misses_it(client, id, Verb::Keep);
        until <= self.shown(client) && misses_it
    }

    fn check_not_kept(&mut self, client: usize, hold: &Hold, id: TokenId, error: &ExtendError) {
        self.oracle.counts.sights.note("NotKept");
        let fits = if matches!(error, ExtendError::Lost(_)) {
            self.misses_it(client, id, Verb::Keep) || self.other_misses_it(client, id, Verb::Keep)
        } else if matches!(error, ExtendError::Unconfirmed(_)) {
            hold.told || !self.is_surely_kept(client, id)
        } else {
            (hold.told || hold.downgraded) && matches!(error, ExtendError::Closed)
        };
        self.object_if(!fits, "outcome", || {
            format!("client {client} keeps no lock: {error:?}")
        });
    }

    /// Returns `true` if a majority has said yes to the current extension so early that it surely counts.
    fn is_surely_kept(&self, client: usize, id: TokenId) -> bool {
        let resource = self.oracle.ledger.record(id).resource;
        let calls = self.oracle.calls[client][resource].keep;
        if calls.spell.to < Place::MAX {
            return false; // No server has executed it.
        }
        let within = calls.within.min(calls.begun.saturating_add(TOO_SOON));
        self.has_quorum(id, Verb::Keep, |node, entry| {
            self.is_vote(client, node, entry, calls.since)
                && self.stands_on(id, node)
                && self.clients[client].paths[node].lost_at < calls.since
                // A command that waited for room, until the turn in which this extension began, belongs to the one before.
                && !self.was_cut_short(client, node, calls.since.saturating_sub(MILLI))
                && entry.read_shown < within
                && !entry.is_over
                && !self.may_not_count(node)
        })
    }

    // ----- the end --------------------------------------------------------------------------

    /// Returns when the next extension of a kept lock is due, if nothing prevents it.
    pub(super) fn extension_due(&self, shown: Instant, hold: &Hold) -> Option<Due> {
        let keep = hold.keep.filter(|_| !hold.told)?;
        let until = hold.lock.valid_until();
        let half = until.saturating_sub(longest_validity(keep.ttl) / 2);
        // Extensions that are due together begin a little earlier. Such an extension may have been tried since the
        // first poll at such a time; the client may have been stopped between its tick and that poll. It may also have
        // been tried earlier, if a request has found an earlier end that was not reported yet, or never will be.
        let unknown = hold.unasked.is_some() || hold.confirming.is_some();
        let early = longest_validity(keep.ttl) / 128;
        let due = shown < half.saturating_sub(early)
            && !unknown
            && self.may_be_extended(hold, keep, until);
        due.then_some(("an extension of a kept lock", half))
    }

    /// Returns when the user of a lock is to be told that it is at risk.
    pub(super) fn alert_due(ticked: Instant, hold: &Hold) -> Option<Due> {
        let alert = hold.alert.filter(|_| !hold.told)?;
        let until = hold.lock.valid_until();
        let due = until.saturating_sub(alert.left);
        let known = until != Instant::ZERO && hold.unasked.is_none() && hold.confirming.is_none();
        (known && ticked < due).then_some(("the risk of a lock", due))
    }

    /// Checks the report to a user that its lock is at risk.
    pub(crate) fn at_risk(&mut self, client: usize, lock: LockId) {
        self.oracle.counts.sights.note("AtRisk");
        let shown = self.clients[client].shown;
        let users = self.clients[client].users.iter_mut();
        let mut held = users.filter_map(|user| user.task.hold_mut());
        let what = match held.find(|hold| hold.lock.id() == lock) {
            None => Some("of a lock that it has not"),
            Some(hold) if hold.told => Some("after the end"),
            Some(hold) => match hold.alert.take() {
                None => Some("and has not asked"),
                Some(alert) => {
                    let until = hold.lock.valid_until();
                    let earliest = until.saturating_sub(alert.left + 2 * TICK);
                    let known = hold.unasked.is_none() && hold.confirming.is_none();
                    (shown < earliest && known).then_some("too early")
                }
            },
        };
        if let Some(what) = what {
            let text = format!("client {client} is told that its lock is at risk {what}");
            self.object("told-early", text);
        }
    }

    /// Returns `true` if neither the limit of the lock nor its number of extensions is reached.
    fn may_be_extended(&self, hold: &Hold, keep: Keep, until: Instant) -> bool {
        let gain = until.saturating_add(drift(keep.ttl) + 2 * LEAST_DRIFT);
        hold.extensions != Some(0) && gain < keep.limit
    }

    /// Checks the report of a kept lock's end.
    pub(crate) fn ended_though_kept(&mut self, client: usize, user: usize) {
        let Some(hold) = self.clients[client].users[user].task.hold() else {
            return;
        };
        let Some(id) = self.oracle.id_of(&hold.lock) else {
            return;
        };
        let Some(keep) = hold.keep else {
            return;
        };
        let ended = self.could_extend(client, hold, keep, id);
        self.keeper_is_over(client, id);
        let Some(well) = ended else {
            return;
        };
        self.oracle.counts.sights.note("KeptEnded");
        self.object_if(self.plan.quorum() <= well, "kept", || {
            format!("the lock of client {client} ends, and {well} servers are well")
        });
    }

    /// Returns how many servers were well for the last quarter of the validity, if only servers can be the reason why
    /// the lock ends.
    fn could_extend(&self, client: usize, hold: &Hold, keep: Keep, id: TokenId) -> Option<usize> {
        let there = &self.clients[client];
        let (clock, end) = (self.clock_of(client), hold.lock.valid_until());
        let quarter = longest_validity(keep.ttl) / 4;
        let from = clock.when(end.saturating_sub(quarter));
        let quarter = quarter.as_nanos() as Time;
        let trip = 2 * (self.plan.delay + self.plan.delay_tail) + 4 * self.plan.lag + MILLI;
        let timeout = self.plan.node_timeout.unwrap_or(5) * MILLI;
        let is_near = 8 * trip <= quarter && trip < timeout;
        let is_quick = 2 * self.longest_vote_of(client, keep.ttl) <= quarter;
        let host = &self.hosts[there.host];
        let has_run = there.stopped_until < from
            && host.asleep_until < from
            && clock.since() < from
            && there.turn_began <= self.now
            && keep.since < from;
        let misses =
            self.misses_it(client, id, Verb::Keep) || self.other_misses_it(client, id, Verb::Keep);
        let judged = is_near && is_quick && has_run && !misses && !is_narrow();
        let asked = hold.asked || hold.unasked.is_some();
        if !judged || asked || !self.may_be_extended(hold, keep, end) {
            return None;
        }
        let mut well = Servers::default();
        for node in 0..self.plan.nodes {
            if self.is_well(client, node, id, from) {
                let server = self.plan.server_of(node);
                well.insert((server, self.servers[server].starts));
            }
        }
        Some(well.len())
    }

    fn is_well(&self, client: usize, node: usize, id: TokenId, from: Time) -> bool {
        let there = &self.clients[client];
        let (path, server) = (&there.paths[node], &self.servers[self.plan.server_of(node)]);
        let runs = server.up
            && !server.stalled
            && !server.paused
            && !server.crowded
            && server.slow == 0
            && server.mood == Mood::Fine
            && self.oracle.troubled[client][node] < from;
        let is_connected = there.links[node].is_some_and(|conn| {
            let link = &self.conns[conn];
            !link.dark && !link.cut && link.near.end.is_none()
        });
        let is_open =
            self.partitions[client][node] == [false; 2] && path.ready_at < from && !path.was_full();
        let cell = self.oracle.ledger.cell(id, node);
        let has_it = self.has_all(self.plan.server_of(node), id)
            && cell.set.said == Said::Ok
            && cell.set.executed < from
            && self.stands_on(id, node)
            && cell.lacking.is_none();
        runs && is_connected && is_open && has_it && !self.may_not_count(node)
    }

    /// Returns `true` if the yes of a node counts. For a lock that was handed over, it counts only if the node was
    /// known to have it.
    fn stands_on(&self, id: TokenId, node: usize) -> bool {
        let record = self.oracle.ledger.record(id);
        let cell = self.oracle.ledger.cell(id, node);
        let known = cell.set.said == Said::Ok && cell.set.read_place <= record.ended;
        record.heirs.is_empty() || known && record.doubted & 1 << node == 0
    }

    // ----- faults ---------------------------------------------------------------------------

    /// Notes a fault: the nodes that it concerns are not well meanwhile.
    pub(crate) fn trouble(&mut self, fault: Fault, peer: usize, node: usize, span: Time) {
        use Fault::*;
        let until = self.now + span;
        let server = self.plan.server_of(node);
        for client in 0..self.plan.clients {
            for other in 0..self.plan.nodes {
                let until = match fault {
                    Reset | Dark | Partition | Garbage | Push => {
                        (client == peer && other == node).then_some(until)
                    }
                    Stall | Restart | Unload | Mood | Pause | Crowd | Slow => {
                        (self.plan.server_of(other) == server).then_some(until)
                    }
                    Kill | Suspend | Drift | Trust => None,
                    Freeze | Delete | Expire => Some(until + self.plan.longest_ttl * MILLI),
                    Amnesia | Jump | Flush | Promote | Follow | Unmark | Unbar | Reinit => {
                        Some(NEVER)
                    }
                };
                let troubled = &mut self.oracle.troubled[client][other];
                *troubled = until.unwrap_or(0).max(*troubled);
            }
        }
    }
}
