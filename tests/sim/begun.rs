//! Records when a piece of work that waits for a transaction was requested, and when it began.
//!
//! Only one transaction is open over a connection at a time, and requests that are made meanwhile wait. So a server
//! executes a request long after it was made, perhaps after later requests of the same client, and after an outcome
//! that was reported without it. The oracles judge it by when it was requested:
//!
//! * A take or a release was begun when it was first begun, even if that transaction was aborted.
//! * An extension belongs to the call that requested it, or to the round of the engine that keeps the lock.
//! * A release answers the caller that requested it, and no later caller that wants the same.
//!
//! # What it does not see
//!
//! For a request that is made and begun in one write, only the time of that write is known: it is the same turn.

use std::collections::BTreeSet;

use crate::bare::{Sent, Work};
use crate::clock::Time;
use crate::oracle::{Token, Verb, token_of};
use crate::written::Writing;

/// The requests over a connection that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct AskedFor(Vec<Asked>);

/// A request to take, release or extend a lock.
#[derive(Clone, Copy, Debug)]
struct Asked {
    what: Verb,
    token: Token,
    /// A number for the caller that has asked for it, or 0 if that is not known.
    asker: u64,
    /// When it was requested, or begun if that was at once.
    wanted: Writing,
    /// When it was begun first.
    sent: Option<Sent>,
}

impl AskedFor {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that all of `work` is begun, or begun again.
    pub(crate) fn begins(&mut self, work: &[Work], sent: Sent) {
        for (place, one) in work.iter().enumerate() {
            let Some(what) = Asked::of(one, sent) else {
                continue;
            };
            let same = |other: &&Work| Asked::of(other, sent).is_some_and(|it| it.is(&what));
            let here = work[..=place].iter().filter(same).count();
            let mut known = self.0.iter_mut().filter(|it| it.is(&what));
            match known.nth(here - 1) {
                Some(it) => it.sent = it.sent.or(what.sent),
                None => self.0.push(what),
            }
        }
    }

    /// Notes the work that waits, while `open` is being done. Work that is missing was given up, or is answered. New
    /// work was `wanted` in this turn, and not later than `now`.
    pub(crate) fn waits(
        &mut self,
        waiting: &[(&'static str, Token, u64)],
        open: &[Work],
        (wanted, now): (Writing, Time),
    ) {
        let waiting = waiting.iter().filter_map(|&(what, token, asker)| {
            let (what, since) = match what {
                "take" => (Verb::Set, wanted.since),
                // Much may have happened earlier in this turn: the client may have been stopped, and have asked for
                // another release of the same token.
                "extend" => (Verb::Extend, now),
                "release" => (Verb::Release, now),
                _ => return None,
            };
            let wanted = Writing { since, ..wanted };
            let sent = None;
            Some(Asked {
                what,
                token,
                asker,
                wanted,
                sent,
            })
        });
        let waiting: Vec<Asked> = waiting.collect();
        let never = (0, Writing::default());
        let begun = open.iter().filter_map(|work| Asked::of(work, never));
        let all = waiting.iter().copied().chain(begun);
        let all: BTreeSet<_> = all.map(Asked::key).collect();
        self.0.retain(|it| all.contains(&it.key()));
        let known: BTreeSet<_> = self.0.iter().map(|it| it.key()).collect();
        let new = waiting.into_iter().filter(|it| !known.contains(&it.key()));
        self.0.extend(new);
    }

    /// Notes the answer to work that was `sent` then. Returns when it was first begun, and when it was requested.
    pub(crate) fn ends(&mut self, work: &Work, sent: Sent) -> (Sent, Writing) {
        let what = Asked::of(work, sent);
        let place = what.and_then(|what| self.0.iter().position(|it| it.is(&what)));
        let known = place.map(|place| self.0.remove(place));
        known.map_or((sent, sent.1), |it| {
            // Each try of an extension requests the ttl again.
            let first = it.sent.filter(|_| it.what != Verb::Extend);
            (first.unwrap_or(sent), it.wanted)
        })
    }
}

impl Asked {
    fn of(work: &Work, sent: Sent) -> Option<Self> {
        let what = work.verb()?;
        [Verb::Set, Verb::Release, Verb::Extend]
            .contains(&what)
            .then(|| Self {
                what,
                token: token_of(&work.token),
                asker: work.asker,
                wanted: sent.1,
                sent: Some(sent),
            })
    }

    fn key(self) -> (u8, Token, u64) {
        (self.what as u8, self.token, self.asker)
    }

    fn is(&self, other: &Self) -> bool {
        let same = (self.what, self.token) == (other.what, other.token);
        same && (self.asker == other.asker || self.asker == 0 || other.asker == 0)
    }
}
