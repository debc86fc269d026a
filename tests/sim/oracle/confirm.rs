//! Confirmations: how long a majority keeps a lock, according to the client.
//!
//! * *votes*: a majority of nodes that may vote has said that it keeps the lock, and according to their answers enough
//!   of them keep it until the reported end.
//! * *validity*: that end is no later than the q-th largest of the answers allows, counted from before the first byte,
//!   less the drift. If an extension was requested later, the end that was known before may be reported too, and so may
//!   the end of the extension: by its own votes if it was cancelled before it was reported.
//! * *told*: nothing is asked about a lock whose end was reported to its holder.
//! * *outcome*: a lock is reported lost exactly if a majority misses it; *unconfirmed* means that there is no majority
//!   either way. A lock that a majority keeps for no longer than its validity has expired. If a lock is over, released
//!   or lost meanwhile, the request ends.
//! * *settling*: the request ends by the old end, and in the turn in which its outcome is certain; if the end is not
//!   known, it ends by its node timeouts.
//! * *storm*: each call asks a node once. [`late`](super::late) checks that it asks none
//!   afterwards.
//!
//! # What it does not see
//!
//! An end that is earlier than necessary: it does no harm, and the oracle of liveness notices useless locks. Which
//! answers count for a lock that was handed over.

use shearline::{ExtendError, Instant};

use super::ledger::Entry;
use super::report::{Checked, Question};
use super::votes::{Servers, drift, longest_validity};
use super::wake::after;
use super::{Deed, Said, TokenId, Verb};
use crate::clock::{MILLI, Time};
use crate::user::{Call, Cancelled, Confirming, Hold};
use crate::world::World;

impl World {
    /// Checks that a client may ask how long its lock is kept.
    pub(crate) fn check_confirmation_begun(&mut self, client: usize, hold: &Hold) {
        let known = hold.lock.valid_until() != Instant::ZERO;
        let over = known && !hold.lock.is_valid_at(self.clients[client].shown);
        let over = over || hold.told;
        self.object_of(client, over, "told", "asks about a lock that is over");
    }

    /// Checks a request that is refused.
    pub(crate) fn check_unconfirming(&mut self, client: usize, hold: &Hold, error: &ExtendError) {
        let known = hold.lock.valid_until() != Instant::ZERO;
        let over = known && !hold.lock.is_valid_at(self.clients[client].shown);
        // The engine knows the result of a cancelled request, and its user does not.
        let over = over || hold.told || hold.unasked.is_some();
        if !(over && matches!(error, ExtendError::Expired)) {
            let text = format!("client {client} got {error:?} for a lock that it holds");
            self.object("outcome", text);
        }
    }

    /// Checks a confirmation: a majority keeps the lock until the reported end. `ends` are the end that was known, and
    /// that one.
    pub(crate) fn check_confirmation(
        &mut self,
        client: usize,
        hold: &Hold,
        asked: &Confirming,
        ends: (Instant, Instant),
    ) {
        let Some(id) = self.seen(&hold.lock) else {
            return;
        };
        self.check_confirmed(client, id, asked, ends, hold.cancelled_calls());
    }

    /// Checks a confirmed end. `before` is the end that was known, `until` the reported one, and `cancelled` the newest
    /// cancelled extensions.
    pub(super) fn check_confirmed(
        &mut self,
        client: usize,
        id: TokenId,
        asked: &Confirming,
        (before, until): (Instant, Instant),
        cancelled: Cancelled,
    ) {
        let quorum = self.plan.quorum();
        let (yes, keep) = self.keepers(client, id, asked.call.since, until);
        // These answers do not decide the outcome of an extension.
        let kept_before = asked.overtaken && until <= before.max(asked.within);
        let longest = self.longest_confirmed(client, id, &asked.call);
        let confirmed = quorum <= keep && until <= longest;
        let meanwhile = || extended_meanwhile(cancelled, asked.call.since, until);
        if quorum <= yes
            && !kept_before
            && !confirmed
            && let Some((verb, call)) = meanwhile()
        {
            self.check_votes(client, id, verb, call.since, until, true, before);
            self.check_validity(client, id, verb, (&call).into(), until);
            return;
        }
        if yes < quorum || keep < quorum && !kept_before {
            let text = format!(
                "client {client} told of {until:?}: {yes} servers keep the key, {keep} of them for so \
                 long, {quorum} are needed"
            );
            self.object("votes", text);
        }
        self.object_if(!kept_before && longest < until, "validity", || {
            format!("client {client}: valid until {until:?} by the answers of a majority")
        });
    }

    /// Returns how many servers have said that they keep a lock, and how many of them until then.
    pub(super) fn keepers(
        &self,
        client: usize,
        id: TokenId,
        since: Time,
        until: Instant,
    ) -> (usize, usize) {
        let end = self.clock_of(client).when(until);
        let resource = self.oracle.ledger.record(id).resource;
        let excused = self.oracle.is_excused(self.now, resource) || end <= self.now;
        let quarantine = &self.oracle.quarantine;
        let (mut yes, mut keep) = (Servers::default(), Servers::default());
        for (node, cell) in self.oracle.ledger.cells(id).iter().enumerate() {
            let entry = &cell.confirm;
            let server = self.plan.server_of(node);
            let counts = self.is_vote(client, node, entry, since)
                && (excused || !quarantine.silences(client, node, entry, Some(&cell.set)));
            if !counts {
                continue;
            }
            yes.insert((server, entry.life));
            let shown = self.servers[server].clock.show(end);
            let lasts = shown.as_nanos() / MILLI <= entry.kept_at.as_nanos() / MILLI + entry.kept;
            if lasts || excused {
                keep.insert((server, entry.life));
            }
        }
        (yes.len(), keep.len())
    }

    /// Returns `true` if the answers to a confirmation give a lock this end, whether its user waits for it or has
    /// cancelled it. An extension that is answered in the same turn has not given it.
    pub(super) fn explains(&self, client: usize, id: TokenId, call: &Call, until: Instant) -> bool {
        self.plan.quorum() <= self.keepers(client, id, call.since, until).1
            && until <= self.longest_confirmed(client, id, call)
    }

    /// Returns the answers to questions of `since` or later for how long a token is kept.
    fn confirmations(
        &self,
        client: usize,
        id: TokenId,
        since: Time,
    ) -> impl Iterator<Item = &Entry> + Clone {
        let process = self.clients[client].process;
        let cells = self.oracle.ledger.cells(id).iter();
        let entries = cells.map(|cell| &cell.confirm);
        entries.filter(move |entry| entry.answers(process, since))
    }

    /// Returns the latest end that the answers allow.
    pub(super) fn longest_confirmed(&self, client: usize, id: TokenId, call: &Call) -> Instant {
        let entries = self.confirmations(client, id, call.since);
        let sent: Option<Time> = entries.clone().map(|entry| entry.sent).min();
        let yes = entries.filter(|entry| entry.is_read() && entry.said == Said::One);
        let mut kept: Vec<u64> = yes.map(|entry| entry.kept).collect();
        kept.sort_unstable_by(|one, other| other.cmp(one));
        let kept = kept.get(self.plan.quorum() - 1).copied().unwrap_or(0);
        let kept = kept.saturating_sub(self.plan.added());
        let clock = self.clock_of(client);
        let sent = sent.map_or(call.begun, |sent| clock.show(sent));
        // In the rest of the ttl, a clock may be set by as much as the whole ttl allows for.
        let drift = drift(kept.max(call.ttl));
        let valid = std::time::Duration::from_millis(kept).saturating_sub(drift);
        sent.max(call.begun).saturating_add(valid)
    }

    /// Returns the latest end that all nodes which said yes allow.
    fn shortest_confirmed(&self, client: usize, id: TokenId, asked: &Confirming) -> Instant {
        let entries = self.confirmations(client, id, asked.call.since);
        let yes = entries.filter(|entry| entry.is_read() && entry.said == Said::One);
        let least = yes.map(|entry| entry.kept).min().unwrap_or(0);
        let least = least.saturating_sub(self.plan.added());
        let least = least.saturating_sub(least.max(asked.call.ttl) / 50 + 3);
        let begun = asked.call.begun;
        begun.saturating_add(std::time::Duration::from_millis(least))
    }

    /// Checks a confirmation that has failed.
    pub(crate) fn unconfirmed(
        &self,
        client: usize,
        hold: &Hold,
        asked: &Confirming,
        error: &ExtendError,
    ) -> Checked {
        let known = asked.within != Instant::ZERO;
        let over = hold.told || known && asked.within <= self.clients[client].shown;
        if over && matches!(error, ExtendError::Closed) {
            return Ok(());
        }
        if matches!(error, ExtendError::Expired) {
            return self.has_run_out(client, hold, asked);
        }
        let (ExtendError::Lost(report) | ExtendError::Unconfirmed(report)) = error else {
            return Err("nothing here leads to it".into());
        };
        let token = self.oracle.id_of(&hold.lock);
        let question = Question::about(client, &asked.call, Verb::Confirm, token);
        let votes = self.check_report(&question, report)?;
        let quorum = self.plan.quorum();
        let certain = if matches!(error, ExtendError::Lost(_)) {
            quorum <= votes.no
                || token.is_some_and(|id| self.other_misses_it(client, id, Verb::Confirm))
        } else if over {
            votes.no < quorum
        } else {
            votes.yes.max(votes.no) + votes.pending < quorum
        };
        votes.make(certain)
    }

    /// Checks the report that a lock is over, although a majority keeps it.
    fn has_run_out(&self, client: usize, hold: &Hold, asked: &Confirming) -> Checked {
        let token = self.oracle.id_of(&hold.lock);
        let id = token.ok_or("no node has seen its token")?;
        let (quorum, shown) = (self.plan.quorum(), self.clients[client].shown);
        let (yes, _) = self.keepers(client, id, asked.call.since, shown);
        if yes < quorum {
            return Err(format!("{yes} servers keep the key, {quorum} are needed"));
        }
        // Not all of the answers need to have arrived.
        match shown < self.shortest_confirmed(client, id, asked) {
            true => Err("a majority keeps it for longer".into()),
            false => Ok(()),
        }
    }

    /// Returns `true` if a majority has answered a request of this kind by saying that it lacks the token.
    pub(super) fn misses_it(&self, client: usize, id: TokenId, verb: Verb) -> bool {
        self.missed_since(client, id, verb, 0)
    }

    /// Returns `true` if a majority has answered so to a request of `since` or later.
    pub(super) fn missed_since(&self, client: usize, id: TokenId, verb: Verb, since: Time) -> bool {
        let process = self.clients[client].process;
        let cells = self.oracle.ledger.cells(id).iter();
        let entries = cells.map(|cell| cell.asked(verb));
        let missing = entries.filter(|entry| {
            let no = matches!(entry.said, Said::Zero | Said::Foreign);
            no && entry.is_read() && entry.answers(process, since)
        });
        self.plan.quorum() <= missing.count()
    }

    /// Returns `true` if a majority has answered so to any request about a lock other than `verb`.
    pub(super) fn other_misses_it(&self, client: usize, id: TokenId, verb: Verb) -> bool {
        let mut others = [Verb::Extend, Verb::Beside, Verb::Keep, Verb::Confirm].into_iter();
        others.any(|other| other != verb && self.misses_it(client, id, other))
    }

    // ----- when ---------------------------------------------------------------------------------

    /// Returns what should have ended an open request by now.
    pub(super) fn unended(
        &self,
        client: usize,
        hold: &Hold,
        late: impl Fn(Instant) -> bool,
    ) -> Option<&'static str> {
        let asked = hold.confirming.as_ref()?;
        let end = if asked.within == Instant::ZERO {
            let ttl = hold.lock.ttl().as_millis() as u64;
            let longest = self.plan.longest_vote(ttl.max(asked.call.ttl));
            after(asked.call.begun, longest + 2 * MILLI)
        } else {
            asked.within
        };
        let open = self.plan.quorum() <= self.plan.nodes_of(client);
        (open && late(end)).then_some("a confirmation is open after its end")
    }

    /// Checks a question to a node, how long it keeps a token.
    pub(super) fn asked_for_how_long(&mut self, deed: &Deed<'_>, id: TokenId) {
        if deed.command.verb != Verb::Confirm || self.plan.clients <= deed.peer {
            return;
        }
        if self.plan.own_words.is_some() && deed.said.is_error() {
            return; // The client may ask without scripts then.
        }
        let ledger = &mut self.oracle.ledger;
        let calls = ledger.record(id).confirms;
        let cell = ledger.cell_mut(id, deed.node);
        cell.confirms += 1;
        if calls < cell.confirms {
            self.object_at(deed, "storm", "asks for how long too often");
        }
    }
}

/// Returns the extension that was requested after `since`, allows the end `until`, and was cancelled before its caller
/// knew of it. If a majority had confirmed it by then, a confirmation reports its end.
fn extended_meanwhile(cancelled: Cancelled, since: Time, until: Instant) -> Option<(Verb, Call)> {
    let calls = cancelled.into_iter();
    let calls = calls.filter_map(|(verb, call)| Some((verb, call?)));
    calls
        .filter(|(_, call)| since <= call.since)
        .find(|(_, call)| call.begun.saturating_add(longest_validity(call.ttl)) <= until)
}
