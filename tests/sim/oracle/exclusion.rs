//! Exclusion: no two users believe that they hold one resource at the same true time, unless both have a shared lock,
//! or permits in different slots.
//!
//! A belief begins when the call returns the lock. It ends with the release, the drop, the hand-over, the report of the
//! loss, the death of the process, or the first true time at which the believer's clock shows the end of the validity.
//! A process that is stopped still believes. Strangers believe too.
//!
//! # What it does not see
//!
//! Some faults no lock with an expiry survives: a node forgets, a clock jumps, an operator deletes. After such a fault
//! several users may believe, until all locks that were alive then are over.

use shearline::Instant;

use super::{Kind, Oracle, Token, pairs};
use crate::clock::{MILLI, Time};
use crate::world::World;

/// A client believes that it holds the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    /// Its user.
    pub(crate) user: usize,
    pub(crate) token: Token,
    /// Until when it believes, by its own clock.
    pub(crate) until: Instant,
    pub(crate) kind: Kind,
}

impl Oracle {
    /// Allows several users to believe that they hold `resource`, or any resource, for as long as a lock can live.
    fn excuse(&mut self, now: Time, resource: Option<usize>) {
        if self.no_excuses {
            return;
        }
        let until = now + self.longest_ttl + self.longest_ttl / 100 + 2 * MILLI;
        for (number, excused) in self.excused.iter_mut().enumerate() {
            if resource.is_none_or(|resource| resource == number) {
                *excused = until.max(*excused);
            }
        }
    }

    /// Returns `true` if several users may believe that they hold it.
    pub(crate) fn is_excused(&self, now: Time, resource: usize) -> bool {
        now < self.excused[resource]
    }
}

impl World {
    /// Notes a fault, of length `span`, that exclusion does not survive.
    pub(crate) fn suspend_exclusion(&mut self, resource: Option<usize>, span: Time) {
        self.oracle.excuse(self.now + span, resource);
        for set in self.plan.names()..self.plan.resources {
            self.oracle.excuse(self.now + span, Some(set)); // One of the names may be affected.
        }
    }

    /// Notes that `peer` believes from now on that it holds `resource`.
    pub(crate) fn believe(&mut self, peer: usize, resource: usize, belief: Belief) {
        let beliefs = &mut self.oracle.beliefs[resource][peer];
        // A holder that has extended its lock has a new belief.
        beliefs.retain(|before| before.user != belief.user);
        beliefs.push(belief);
        if !self.oracle.is_excused(self.now, resource) {
            self.exclusion(resource);
        }
    }

    /// Notes that the lock of a holder shows the end `until`. The holder may rely on that even if it was not told.
    pub(crate) fn believe_shown(&mut self, peer: usize, name: usize, user: usize, until: Instant) {
        let mut beliefs = self.oracle.beliefs[name][peer].iter_mut();
        if let Some(belief) = beliefs.find(|belief| belief.user == user && belief.until < until) {
            belief.until = until;
            if !self.oracle.is_excused(self.now, name) {
                self.exclusion(name);
            }
        }
    }

    pub(crate) fn end_belief(&mut self, peer: usize, resource: usize, user: usize) {
        self.oracle.beliefs[resource][peer].retain(|belief| belief.user != user);
    }

    /// Returns all users that believe now that they hold it.
    pub(super) fn believers(&self, resource: usize) -> impl Iterator<Item = (usize, &Belief)> {
        let peers = self.oracle.beliefs[resource].iter().enumerate();
        let all = peers.flat_map(|(peer, beliefs)| beliefs.iter().map(move |held| (peer, held)));
        all.filter(|(peer, belief)| self.clock_of(*peer).show(self.now) < belief.until)
    }

    fn exclusion(&mut self, resource: usize) {
        let holders: Vec<_> = self.believers(resource).collect();
        let wrong = pairs(&holders).find(|((_, one), (_, other))| !one.kind.bears(other.kind));
        if let Some(((one, _), (other, _))) = wrong {
            let text = format!("{one} and {other} hold resource {resource}");
            self.object("exclusion", text);
        }
    }
}
