//! The debts of one node: releases that could not be sent yet, or that the node has refused.
//!
//! A node has two queues of debts. One queue holds the releases that are sent as soon as the node is connected and its
//! out buffer has space. The other queue holds the releases that the node has refused. The engine retries refused
//! releases later. A debt is stored as the key of its claim, which says what to release. Each claim is queued at most
//! once, so there are never more debts than claims. When a release is no longer needed, its entry is marked as
//! forgotten. A forgotten entry may stay in its queue for a while, but [`Debts::len`] does not count it. At most half
//! of the entries in the queues are forgotten ones.

use alloc::collections::VecDeque;

use crate::keys::ClaimKey;

#[derive(Debug, Default)]
pub(crate) struct Debts {
    due: VecDeque<ClaimKey>,
    deferred: VecDeque<ClaimKey>,
    /// The number of forgotten entries in both queues.
    forgotten: usize,
}

impl Debts {
    /// Adds the release of `claim`, which is sent as soon as possible.
    pub(crate) fn owe(&mut self, claim: ClaimKey) {
        self.due.push_back(claim);
    }

    /// Adds the release of `claim`, which the node has refused. The release waits until [`Debts::try_again`] is called.
    pub(crate) fn defer(&mut self, claim: ClaimKey) {
        self.deferred.push_back(claim);
    }

    /// Moves all refused releases to the front of the queue of due releases. Returns `true` if it has moved any.
    pub(crate) fn try_again(&mut self) -> bool {
        let any = !self.deferred.is_empty();
        while let Some(claim) = self.deferred.pop_back() {
            self.due.push_front(claim);
        }
        any
    }

    /// Records that the release of one entry is no longer needed. When half of all entries are forgotten, removes every
    /// entry for which `is_owed` returns `false`, so the average cost of a call is constant.
    pub(crate) fn forget(&mut self, is_owed: impl Fn(ClaimKey) -> bool) {
        self.forgotten += 1;
        if self.due.len() + self.deferred.len() <= 2 * self.forgotten {
            self.due.retain(|claim| is_owed(*claim));
            self.deferred.retain(|claim| is_owed(*claim));
            self.forgotten = 0;
        }
    }

    /// Decrements the number of forgotten entries, because [`Debts::pop`] has returned one.
    pub(crate) fn popped_forgotten(&mut self) {
        self.forgotten -= 1;
    }

    /// Returns the next release to send. The returned entry may be a forgotten one.
    pub(crate) fn pop(&mut self) -> Option<ClaimKey> {
        self.due.pop_front()
    }

    /// Puts back the release that [`Debts::pop`] returned, because it could not be sent.
    pub(crate) fn put_back(&mut self, claim: ClaimKey) {
        self.due.push_front(claim);
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns `true` if `same` returns `true` for the claim of a refused release.
    pub(crate) fn is_deferred(&self, mut same: impl FnMut(ClaimKey) -> bool) -> bool {
        self.deferred.iter().any(|claim| same(*claim))
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len() + self.deferred.len() - self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn what_was_refused_goes_first_when_it_is_tried_again() {
        let mut slab = Slab::new();
        let [a, b, c] = [0, 1, 2].map(|value| ClaimKey(slab.insert(value)));
        let mut debts = Debts::default();
        debts.defer(a);
        debts.defer(b);
        debts.owe(c);
        assert!(debts.is_deferred(|claim| claim == b) && debts.is_due());
        assert!(debts.try_again() && !debts.try_again());
        assert_eq!(
            [debts.pop(), debts.pop(), debts.pop()],
            [Some(a), Some(b), Some(c)]
        );
        assert_eq!(debts.len(), 0);
    }

    #[test]
    fn what_is_forgotten_neither_counts_nor_stays() {
        let mut slab = Slab::new();
        let mut debts = Debts::default();
        let live = ClaimKey(slab.insert(0));
        debts.owe(live);
        for number in 1..=1_000 {
            let claim = ClaimKey(slab.insert(number));
            debts.owe(claim);
            slab.remove(claim.0);
            debts.forget(|claim| slab.get(claim.0).is_some());
            assert_eq!(debts.len(), 1);
            assert!(debts.due.len() <= 2);
        }
        assert_eq!(debts.pop(), Some(live));
    }
}
