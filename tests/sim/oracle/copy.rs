//! Copies: a held lock is sent to a node again only where that helps.
//!
//! * A `SET` of a token whose lock was returned already is sent only within an extension that its
//!   owner asked for, to a node that has said before the extension began that it lacks the key, and
//!   after a majority without that node, whose answers count, has said yes.
//! * It is not sent after its owner has released the lock, dropped it or handed it over.
//! * The copy expires when the others do, or at most a drift and a millisecond later, counted from the newest answer of
//!   the majority.
//! * A node gets no more copies than there were extensions.
//! * Without scripts a node may get its first `SET` of a token while the lock is held, and without an extension: the
//!   client did not know before how the node releases, or the `SET` had not left. The same goes for a `SET` that is
//!   sent again. Such a copy ends when the others do, by the time of the turn in which it was requested.
//!
//! # What it does not see
//!
//! Copies that were asked for while the connection was waiting for room, or in the turn in which the next extension
//! began, or copies of a lock that became a shared one while its engine extended it: it is not known to which extension
//! they belong. Copies that arrive after the lock was handed over.

use super::{Deed, TokenId, Verb};
use crate::clock::MILLI;
use crate::world::World;

use super::late::Extending;
use super::votes::{Servers, drift};

impl World {
    /// Checks a `SET` of a lock that is held. Returns whether it is one.
    pub(super) fn copy(&mut self, deed: &Deed<'_>, id: TokenId) -> bool {
        let copy = self.oracle.ledger.record(id).is_copy(deed.begun.place);
        if deed.command.verb != Verb::Set || self.plan.clients <= deed.peer || !copy {
            return false;
        }
        let cell = self.oracle.ledger.cell(id, deed.node);
        // A `SET` that found a key of its own client, or was refused, is sent again.
        let is_again =
            cell.sets == 1 && (cell.met_own || matches!(cell.set.said, super::Said::Refused(_)));
        let is_first = self.plan.is_bare() && !cell.copied && (cell.sets == 0 || is_again);
        self.oracle.ledger.record_mut(id).copies += u32::from(!is_first);
        self.oracle.ledger.cell_mut(id, deed.node).copied = true;
        if is_first {
            self.oracle.counts.sights.note("CopiedLate");
        }
        let fault = match is_first {
            true => self.first_fault(deed, id),
            false => self.copy_fault(deed, id),
        };
        // A node may have given another slot of a permit than the others: it is asked for the right one.
        let is_permit = self.oracle.ledger.record(id).permits != 0;
        if let Some(what) = fault.filter(|_| !is_permit) {
            self.object_at(deed, "copy", what);
        }
        true
    }

    /// Returns what is wrong with the first `SET` that a node gets, while the lock is held.
    fn first_fault(&self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        if record.owner != deed.process || record.ended <= deed.begun.asked {
            return Some("a copy of a lock that was let go");
        }
        let ttl = deed.command.ttl.and_then(super::ledger::millis)?;
        let clock = self.clock_of(deed.peer);
        let is_extended = record.extends + record.keeps + record.confirms != 0;
        // The ttl was fixed when the copy was requested, before it waited for a transaction.
        if is_extended || deed.transacted || record.sent < clock.since() {
            return None; // Its end is not known here.
        }
        // The time of the turn in which it was requested counts: its client may be stopped before it writes.
        let wanted = clock.show(deed.wanted.since);
        let passed = wanted.saturating_since(clock.show(record.sent));
        let longest = record.ttl * MILLI + self.plan.added_time() + MILLI;
        (longest < ttl * MILLI + passed.as_nanos() as u64).then_some("a copy that lasts too long")
    }

    fn copy_fault(&self, deed: &Deed<'_>, id: TokenId) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        if (record.extends + record.keeps) * (self.plan.nodes as u32) < record.copies {
            return Some("more copies than extensions were asked for");
        }
        if record.owner != deed.process || record.ended <= deed.begun.asked {
            return Some("a copy of a lock that was let go");
        }
        // The copy follows from one of the possible extensions.
        let one = self.copy_of(deed, id, Verb::Extend)?;
        self.copy_of(deed, id, Verb::Beside)?;
        if record.keeps != 0 {
            return self.copy_of(deed, id, Verb::Keep);
        }
        Some(one)
    }

    /// Returns what is wrong with a copy, if it follows from this extension.
    fn copy_of(&self, deed: &Deed<'_>, id: TokenId, verb: Verb) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        let alive = self.clients[deed.peer].process == deed.process;
        let calls = self.oracle.calls[deed.peer][record.resource].of(verb);
        if !alive || !record.heirs.is_empty() || deed.wanted.asked < calls.spell.from {
            return None; // It follows from an extension before the newest, or before the new holder's.
        }
        if calls.spell.to < deed.wanted.asked {
            return Some("a copy outside of any extension");
        }
        let cell = self.oracle.ledger.cell(id, deed.node);
        let lacking = cell.lacking_at(deed.wanted.place);
        let is_unknown = record.downgraded;
        if lacking.is_none_or(|since| calls.spell.from < since && !is_unknown) {
            return Some("a copy that was not known to be lacking");
        }
        self.copy_alone(deed, id, verb)
    }

    /// Returns what is wrong: no majority without the node had confirmed the lock, or it ends before the
    /// copy.
    fn copy_alone(&self, deed: &Deed<'_>, id: TokenId, verb: Verb) -> Option<&'static str> {
        let record = self.oracle.ledger.record(id);
        let calls = self.oracle.calls[deed.peer][record.resource].of(verb);
        let excused = self.oracle.is_excused(self.now, record.resource);
        let quarantine = &self.oracle.quarantine;
        let mut yes = Vec::new();
        for (node, cell) in self.oracle.ledger.cells(id).iter().enumerate() {
            let mut entry = cell.asked(verb);
            // The next extension by its engine may be executed before the copy that follows from this one.
            if verb == Verb::Keep && deed.wanted.place < entry.read_place {
                entry = &cell.keep_before;
            }
            let counts = node != deed.node
                && entry.answers(deed.process, calls.since)
                && entry.said == super::Said::One
                && entry.read_place <= deed.wanted.place
                && (excused || !quarantine.silences(deed.peer, node, entry, Some(&cell.set)));
            if counts {
                yes.push((entry.read_shown, self.plan.server_of(node), entry.life));
            }
        }
        yes.sort();
        let mut servers = Servers::default();
        let certain = yes.iter().find(|(_, server, life)| {
            servers.insert((*server, *life));
            self.plan.quorum() <= servers.len()
        });
        let Some((certain, ..)) = certain else {
            return Some("a copy before a majority without it has confirmed the lock");
        };
        let ttl = deed.command.ttl.and_then(super::ledger::millis)?;
        let all = &self.oracle.calls[deed.peer][record.resource];
        // A longer extension may be confirmed at the same time, and not be reported yet.
        let (asked, open) = (deed.wanted.asked, [&all.extend, &all.beside]);
        let is_open = |calls: &&Extending| (calls.spell.from..=calls.spell.to).contains(&asked);
        let open = open.into_iter().filter(is_open);
        // An extension by the holder may have been reported since this one began.
        let ends = open.map(|calls| calls.end());
        let ends = ends.chain([calls.end(), record.believed]);
        let end = ends.max().expect("there are two");
        let left = end.saturating_since(*certain);
        let asked = [record.ttl, calls.ttl, all.extend.ttl, all.beside.ttl];
        let asked = asked.into_iter().max().unwrap_or_default();
        let longest = left.saturating_add(drift(asked));
        let longest = longest.as_nanos() as u64 + self.plan.added_time();
        let clock = self.clock_of(deed.peer);
        let sent = clock.show(deed.sent);
        let least = self.least_validity(id, verb, calls.ttl);
        let ends = calls.ticked.saturating_add(least);
        let shortest = ends.saturating_since(sent).as_nanos() as u64 + self.plan.added_time();
        if clock.since() <= deed.sent && ttl * MILLI < shortest {
            return Some("a copy that ends before the lock and its delay");
        }
        // A confirmation whose outcome is not reported yet may have found a later end.
        let is_known = !deed.transacted && record.confirms == 0;
        let is_long = is_known && longest + MILLI < ttl * MILLI;
        is_long.then_some("a copy that lasts too long")
    }
}
