//! Whose turn it is where sets wait: the first in the line of a place, or one behind it that may pass.
//!
//! One that wants a single name may have it if only sets that may be passed stand before it. A set may have
//! its names if that holds for all of them, and all of them are free.

use crate::invariant::Must;
use crate::keys::{OperationKey, PlaceKey, WaiterKey};

use super::{LOOKED_AT_MAX, Member, PASSED_AT_ONCE_MAX, Stage};
use crate::engine::queues::{Front, Queues};

impl Queues {
    /// Makes the next at `place`, which has no contender, the contender, and returns it. That may be a
    /// set.
    #[cold]
    pub(in crate::engine::queues) fn promote_among_sets(
        &mut self,
        place: PlaceKey,
    ) -> Option<OperationKey> {
        let at = self.places.get_mut(place.0).must()?;
        at.front = Front::Set;
        let overtaken = at.overtaken.take();
        let overtaken = overtaken.filter(|other| self.was_contender(place, *other));
        let next = overtaken.or_else(|| self.first_that_may(place));
        let at = self.places.get_mut(place.0).must()?;
        match next {
            Some(next) => at.front = Front::Contender(next),
            None => {
                at.forget_wait(&mut self.waiting);
                if !at.is_wanted() {
                    at.front = Front::Nobody;
                }
            }
        }
        next
    }

    fn first_that_may(&mut self, place: PlaceKey) -> Option<OperationKey> {
        let mut next = self.first_at(place);
        for looked in 0..=PASSED_AT_ONCE_MAX {
            let record = next?;
            let (set, behind) = self.waiters.set_of(record);
            let Some(set) = set else {
                self.pass_all_before(place, Some(record));
                return Some(OperationKey::of_waiter(record));
            };
            let leads =
                self.was_contender(place, set) || looked < LOOKED_AT_MAX && self.leads_now(set);
            if leads {
                return Some(set);
            }
            // Behind so many only singles are looked for.
            let is_last = looked + 1 == LOOKED_AT_MAX && self.waiters.waiting() == 0;
            if is_last || !self.sets.may_be_passed(set, place) {
                return None;
            }
            next = behind;
        }
        None
    }

    /// Returns `true` if `overtaken`, which was the contender of `place`, would be so still: a single is, and
    /// a set that has not left it since.
    fn was_contender(&self, place: PlaceKey, overtaken: OperationKey) -> bool {
        let set = self.sets.open.get(&overtaken);
        set.is_none_or(|set| match set.stage {
            Stage::Wants => false,
            Stage::Leads => true,
            Stage::Rests(at) => at == place,
        })
    }

    /// Makes `set` the contender of all its names, if it wants them and it is its turn.
    pub(super) fn leads_now(&mut self, set: OperationKey) -> bool {
        let leads = self.sets.stage(set) == Stage::Wants && self.may_have_all(set);
        if leads {
            for index in 0..self.sets.members(set).len() {
                let Member { place, record, .. } = self.sets.members(set)[index];
                if self.contender(place) != Some(set)
                    && let Some(at) = self.places.get_mut(place.0).must()
                {
                    at.front = Front::Contender(set);
                    self.pass_all_before(place, Some(record));
                }
            }
            self.sets.set_stage(set, Stage::Leads);
        }
        leads
    }

    /// Returns `true` if `set` may be the contender of all its names. Looks first at the one that kept it out
    /// the last time: mostly it still does.
    fn may_have_all(&mut self, key: OperationKey) -> bool {
        let Some(set) = self.sets.open.get(&key).must() else {
            return false;
        };
        let (before, from) = set.members.split_at(set.kept_out_by);
        let mut members = from.iter().chain(before);
        let kept_out = members.position(|member| !self.may_have(member, key));
        let (count, first) = (set.members.len(), set.kept_out_by);
        if let (Some(steps), Some(set)) = (kept_out, self.sets.open.get_mut(&key)) {
            set.kept_out_by = (first + steps) % count;
        }
        kept_out.is_none()
    }

    /// Returns `true` if `set` may be the contender of this one of its names.
    pub(super) fn may_have(&self, member: &Member, set: OperationKey) -> bool {
        let Some(at) = self.places.get(member.place.0).must() else {
            return false;
        };
        let other = at
            .overtaken
            .filter(|other| !self.sets.open.contains_key(other));
        match at.front {
            Front::Contender(contender) => contender == set,
            Front::Set => other.is_none() && self.may_pass_to(member),
            Front::Nobody | Front::Holder(_) => false,
        }
    }

    /// Returns `true` if only sets that may be passed stand before `member`.
    fn may_pass_to(&self, member: &Member) -> bool {
        let mut next = self.first_at(member.place);
        for _ in 0..LOOKED_AT_MAX {
            match next {
                Some(record) if record == member.record => return true,
                Some(record) => {
                    let (set, behind) = self.waiters.set_of(record);
                    if !set.is_some_and(|set| self.sets.may_be_passed(set, member.place)) {
                        return false;
                    }
                    next = behind;
                }
                None => return false,
            }
        }
        false
    }

    /// Makes `operation`, which has just come, the contender of `place` if it may pass all that wait
    /// there. Returns `true` if it did.
    #[cold]
    #[inline(never)]
    pub(in crate::engine::queues) fn pass(
        &mut self,
        place: PlaceKey,
        operation: OperationKey,
    ) -> bool {
        let mut next = self.first_at(place);
        for _ in 0..PASSED_AT_ONCE_MAX {
            let Some(record) = next else { break };
            let (set, behind) = self.waiters.set_of(record);
            if !set.is_some_and(|set| self.sets.may_be_passed(set, place)) {
                return false;
            }
            next = behind;
        }
        let may = next.is_none();
        if may && let Some(at) = self.places.get_mut(place.0).must() {
            at.front = Front::Contender(operation);
            self.pass_all_before(place, None);
        }
        may
    }

    /// All sets that stand before `record` at `place` are passed there; all of them, if there is none.
    fn pass_all_before(&mut self, place: PlaceKey, record: Option<WaiterKey>) {
        let mut next = self.first_at(place);
        while next != record
            && let Some(before) = next
        {
            let (set, behind) = self.waiters.set_of(before);
            if let Some(set) = set {
                self.sets.was_passed(set, place);
            }
            next = behind;
        }
    }

    fn first_at(&self, place: PlaceKey) -> Option<WaiterKey> {
        let at = self.places.get(place.0).must()?;
        self.waiters.first(&at.line)
    }
}
