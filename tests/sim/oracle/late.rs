//! Late: nothing is sent after its time.
//!
//! * No `SET` begins to leave outside of the call that asked for it, after one of a later attempt, or when its node has
//!   had all the time that a vote may take. So no `SET` leaves that was cancelled or decided while it waited for room,
//!   for a handshake or for another try.
//! * No extension begins to leave outside of its call, which ends with its verdict, its
//!   cancellation, the release of the lock or its hand-over; nor, unless its engine keeps the lock, after a majority
//!   of yes was read.
//! * No confirmation begins to leave outside of its call.
//! * No extension by an engine that keeps a lock begins to leave after its holder (the first, or one that
//!   it was handed to) has released it, dropped it or handed it over, or was told of its end.
//!
//! # What it does not see
//!
//! Commands that never arrived. Copies of held locks, which [`copy`](super::copy) checks. With a guard, extensions that
//! are decided by the yes of a server that was restarted or had a mood. If a call is decided and reported in one turn,
//! the oracle knows only the decision of an extension before the report: a yes counts here if it was read so early that
//! no node timeout can have ended the vote. The oracle also misses a `SET` that waits too long for a node in its first
//! handshake.

use std::time::Duration;

use shearline::{Instant, Lock};

use super::report::TOO_SOON;
use super::{Deed, Fence, Said, TICK, TokenId, Verb};
use crate::clock::{MILLI, NEVER, Time};
use crate::plan::Guard;
use crate::user::{Call, Hold};
use crate::world::World;
use crate::written::{Place, Writing};

/// How much room is enough to write a `SET` at once.
const WHOLE: usize = 256;

/// How much room is enough for a `SET` that is the text of a script.
const WHOLE_SCRIPT: usize = 1024;

/// The newest calls of one user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    acquire: Spell,
    pub(super) extend: Extending,
    /// The second extension of the same lock.
    pub(super) beside: Extending,
    /// The newest extension by the engine that keeps the lock, from its first byte until it is reported.
    pub(super) keep: Extending,
    /// The newest confirmation.
    confirm: Spell,
}

/// The newest extension.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extending {
    pub(super) spell: Spell,
    /// When the call was made, also by the client's clock; until when the lock was valid.
    pub(super) since: Time,
    pub(super) begun: Instant,
    /// The extension was not begun before this: a client that is stopped between an event and its write begins it
    /// with the event.
    pub(super) ticked: Instant,
    pub(super) within: Instant,
    pub(super) ttl: u64,
    /// For an extension by an engine that keeps the lock: no byte of it was requested before.
    pub(super) asked: Place,
    /// For such an extension: the command that may be the first of the next round, in a turn in which this round was
    /// not reported yet. How it left, when it was sent, and when by the client's clock.
    pub(super) next: Option<(Writing, Time, Instant)>,
}

impl Calls {
    pub(super) fn of(&self, verb: Verb) -> &Extending {
        if verb == Verb::Beside {
            &self.beside
        } else if verb == Verb::Keep {
            &self.keep
        } else {
            &self.extend
        }
    }

    /// Returns when the newest request of this kind about a lock was made.
    pub(super) fn asked_at(&self, verb: Verb) -> Place {
        if verb == Verb::Confirm {
            self.confirm.from
        } else if verb == Verb::Keep {
            self.keep.spell.before + 1
        } else {
            self.of(verb).spell.from
        }
    }

    fn of_mut(&mut self, verb: Verb) -> &mut Extending {
        if verb == Verb::Beside {
            &mut self.beside
        } else if verb == Verb::Keep {
            &mut self.keep
        } else {
            &mut self.extend
        }
    }
}

impl Extending {
    /// Returns when the lock ends at the latest if the extension is confirmed.
    pub(super) fn end(&self) -> Instant {
        let validity = super::votes::longest_validity(self.ttl);
        self.within.max(self.begun.saturating_add(validity))
    }
}

/// When the newest call was open, and when the one before it ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spell {
    pub(super) before: Place,
    pub(super) from: Place,
    pub(super) to: Place,
}

impl Spell {
    fn begin(&mut self, place: Place) {
        *self = Self {
            before: self.to,
            from: place,
            to: Place::MAX,
        };
    }

    /// Returns `true` if a command is outside of both calls.
    fn is_left_by(&self, deed: &Deed<'_>) -> bool {
        match deed.transacted {
            true => self.to < first_place(deed),
            false => self.misses(deed.begun.place),
        }
    }

    /// Returns `true` if everything from one place to another is outside of both calls.
    fn misses_all(&self, from: Place, to: Place) -> bool {
        self.to < from || self.before < from && to < self.from
    }

    /// Returns `true` if `place` is outside of both calls.
    fn misses(&self, place: Place) -> bool {
        self.to < place || self.before < place && place < self.from
    }
}

/// Returns the earliest place at which a command can have been requested. A transaction may come before others of the
/// same turn, whatever happens after it in that turn. A command that was written together with others stays in their
/// command, however long that waits for room.
fn first_place(deed: &Deed<'_>) -> Place {
    match deed.transacted || deed.batched {
        true => deed.begun.asked,
        false => deed.begun.place,
    }
}

impl World {
    fn calls_of(&mut self, client: usize, user: usize) -> &mut Calls {
        &mut self.oracle.calls[client][self.plan.resource_of(user)]
    }

    pub(crate) fn acquire_begun(&mut self, client: usize, user: usize) {
        let place = self.inputs;
        self.calls_of(client, user).acquire.begin(place);
    }

    /// Returns `true` if the current call of a user for a lock, and not an earlier one, has asked for a token.
    pub(super) fn has_asked(&self, client: usize, user: usize, token: TokenId) -> bool {
        let calls = &self.oracle.calls[client][self.plan.resource_of(user)];
        calls.acquire.from <= self.oracle.ledger.record(token).first
    }

    /// Notes that a call for a lock is over, and so are its failed attempts.
    pub(crate) fn acquire_ended(&mut self, client: usize, user: usize, got: Option<&Lock>) {
        if self.plan.is_crowded() {
            return; // Its attempts cannot be distinguished from those of others.
        }
        let (place, user) = (self.inputs, self.plan.resource_of(user));
        let oracle = &mut self.oracle;
        oracle.calls[client][user].acquire.to = place;
        let got = got.and_then(|lock| oracle.id_of(lock));
        for id in &oracle.asked[client][user] {
            if got != Some(*id) {
                let record = oracle.ledger.record_mut(*id);
                record.ended = record.ended.min(place);
            }
        }
    }

    pub(crate) fn extend_begun(
        &mut self,
        client: usize,
        user: usize,
        verb: Verb,
        call: &Call,
        hold: &Hold,
    ) {
        let place = self.inputs;
        let calls = self.calls_of(client, user).of_mut(verb);
        calls.spell.begin(place);
        (calls.since, calls.begun, calls.ticked) = (call.since, call.begun, call.begun);
        calls.within = hold.lock.valid_until();
        calls.ttl = call.ttl;
        self.oracle
            .note_of(&hold.lock, |record| record.ttl = record.ttl.max(call.ttl));
    }

    pub(crate) fn extend_ended(&mut self, client: usize, user: usize, verb: Verb) {
        self.calls_of(client, user).of_mut(verb).spell.to = self.inputs;
    }

    pub(crate) fn confirm_begun(&mut self, client: usize, user: usize) {
        let place = self.inputs;
        self.calls_of(client, user).confirm.begin(place);
    }

    pub(crate) fn confirm_ended(&mut self, client: usize, user: usize) {
        self.calls_of(client, user).confirm.to = self.inputs;
    }

    /// Checks whether a command has left too late.
    pub(super) fn late(&mut self, deed: &Deed<'_>, id: TokenId, copy: bool) {
        let current = self.clients.get(deed.peer).map(|client| client.process);
        if current != Some(deed.process) {
            return; // A stranger, or a process that was killed.
        }
        let what = match deed.command.verb {
            Verb::Set if copy || self.plan.is_crowded() => None,
            Verb::Set => self.late_set(deed, id),
            Verb::Extend | Verb::Beside | Verb::Keep => self.late_extension(deed, id),
            Verb::Confirm if self.plan.is_crowded() => None,
            Verb::Confirm => self.late_question(deed, id),
            Verb::Release | Verb::Load | Verb::Join | Verb::Time | Verb::Other => None,
        };
        if let Some(what) = what {
            self.object_at(deed, "late", what);
        }
    }

    fn late_set(&mut self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        // After a refused `MULTI`, the server runs each command of the transaction alone.
        let multi = &self.conns[deed.conn].transaction;
        if multi.trial.is_some() && matches!(deed.said, Said::Refused(_)) {
            return None;
        }
        // In a transaction it was requested between the two.
        let (place, written) = (first_place(deed), deed.begun.place);
        let record = self.oracle.ledger.record_mut(id);
        record.first = record.first.min(place);
        record.begun = record.begun.min(written);
        let (resource, begun) = (record.resource, record.begun);
        // The node gets as much time again.
        let cell = self.oracle.ledger.cell_mut(id, deed.node);
        let is_moved = cell.set_over.0 == super::order::MOVED;
        let newest = self.oracle.newest[deed.peer][resource].filter(|newest| *newest != id);
        let newest = newest.map(|newest| self.oracle.ledger.record(newest));
        let call = self.oracle.calls[deed.peer][resource].acquire;
        let is_behind = newest.is_some_and(|newest| begun < newest.first && newest.begun < place);
        if call.misses_all(place, written) || begun < call.from && call.from <= place {
            Some("a SET outside of its call")
        } else if is_behind {
            Some("a SET behind that of a later attempt")
        } else if !is_moved && self.is_beyond_vote(deed, id) {
            Some("a SET whose vote is over")
        } else {
            None
        }
    }

    /// Returns `true` if a `SET` left after its attempt had waited for its node as long as it may.
    fn is_beyond_vote(&self, deed: &Deed<'_>, id: TokenId) -> bool {
        let client = &self.clients[deed.peer];
        let path = &client.paths[deed.node];
        let since = self.oracle.ledger.record(id).sent;
        // The call may wait longer for a node that was never reached before.
        let resource = self.oracle.ledger.record(id).resource;
        let call = client.users[resource].task.call();
        let Some(call) = call.filter(|call| call.since <= since) else {
            return false; // It is from an earlier call.
        };
        let called = call.since;
        let lost = 0 < path.lost_at && path.lost_at < called;
        let ready = path.ready_at < called;
        let clock = self.clock_of(deed.peer);
        // If bytes follow each other, it is not known when the first was asked for.
        let whole = match self.plan.guard == Guard::Strict {
            true => WHOLE_SCRIPT,
            false => WHOLE,
        };
        let torn = self.plan.window < whole;
        if !lost && !ready || torn || since < clock.since() {
            return false;
        }
        let ttl = deed.command.ttl.and_then(super::ledger::millis);
        let ttl = ttl.unwrap_or(NEVER / MILLI);
        // A copy may follow as soon as a majority has granted, before the user knows. Its ttl is the remaining time.
        if self.plan.is_bare() && ttl < call.ttl {
            return false;
        }
        let opening = Duration::from_nanos(self.longest_opening(deed.peer, called, ttl));
        let longest = Duration::from_millis(self.plan.node_timeout.unwrap_or(ttl / 2)).max(opening);
        let end = clock.show(since).saturating_add(longest);
        // A transaction begins as soon as a reply ends the one before it. A client that was stopped reads that
        // reply before it looks at its timers; they withdraw the work, and then its keys were only read.
        let ticked = match deed.transacted {
            true => deed.begun.ticked_before,
            false => deed.begun.ticked,
        };
        end.saturating_add(TICK) <= ticked
    }

    fn late_extension(&self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        let calls = self.oracle.calls[deed.peer][record.resource].of(deed.command.verb);
        let place = deed.begun.place;
        if deed.command.verb == Verb::Keep {
            let first = first_place(deed);
            let mut keepers = record.keepers_in(deed.process);
            let newest = keepers.find(|keeper| keeper.since <= first);
            if newest.is_some_and(|keeper| keeper.over < first) {
                return Some("an extension of a kept lock that is over");
            }
        } else if calls.spell.is_left_by(deed) {
            return Some("an extension outside of its call");
        }
        // After a hand-over, the yes of some nodes does not count.
        let own = record.owner == deed.process && record.heirs.is_empty();
        // An engine that keeps a lock may begin another in the turn in which the first is decided.
        let own = own && deed.command.verb != Verb::Keep;
        let certain = own && calls.spell.from <= place && self.is_extended(deed, id, calls);
        certain.then_some("an extension that is decided")
    }

    fn late_question(&self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let resource = self.oracle.ledger.record(id).resource;
        let call = self.oracle.calls[deed.peer][resource].confirm;
        // Work in a transaction waits until no other is open.
        let misses = !deed.transacted && call.is_left_by(deed);
        misses.then_some("a question for how long outside of its call")
    }

    /// Returns `true` if a majority had said yes when the command left.
    fn is_extended(&self, deed: &Deed<'_>, id: TokenId, calls: &Extending) -> bool {
        let within = calls.within.min(calls.begun.saturating_add(TOO_SOON));
        self.has_quorum(id, deed.command.verb, |node, entry| {
            let lost = self.clients[deed.peer].paths[node].lost_at;
            entry.answers(deed.process, calls.since)
                && entry.said == Said::One
                && entry.read_place <= first_place(deed)
                && entry.read_shown < within
                && !entry.is_over
                && lost < entry.read
                && !matches!(entry.fence, Fence::Shut)
                && !self.may_not_count(node)
        })
    }
}
