//! Locks that are kept alone: nobody else wants their names, and the table of names leads to their claims.
//!
//! A place takes more memory than all that has to be known of such a lock. It is made when somebody else wants
//! the name, and then tells what it would have told if it had been there all the time.
//!
//! # Not here
//!
//! Locks that are not kept. They are not held for long, and a place that stays costs less than one that
//! comes and goes.

use alloc::vec::Vec;

use crate::engine::claims::Claims;
use crate::invariant::Must;
use crate::keys::{ClaimKey, PlaceKey};
use crate::time::Instant;

use super::Queues;
use super::names::Where;

/// The number of a claim in the table of names has this bit, and that of a place has not.
const CLAIM: u32 = 1 << 31;

impl Where {
    pub(super) fn of(claim: ClaimKey) -> Self {
        Self(claim.0.index() | CLAIM)
    }

    /// Returns the index of the place, unless it is a claim.
    pub(super) const fn place(self) -> Option<u32> {
        match self.0 & CLAIM {
            0 => Some(self.0),
            _ => None,
        }
    }

    /// Returns the index of the claim, which it is.
    pub(super) const fn claim(self) -> u32 {
        self.0 & !CLAIM
    }
}

impl From<PlaceKey> for Where {
    fn from(place: PlaceKey) -> Self {
        Self(place.0.index())
    }
}

impl Queues {
    /// The lock of `claim`, which is held at `place`, is kept from now on. If nobody else uses the place, closes
    /// it, and returns the buffer of its name: the table of names leads to the claim, which has the name.
    #[cold]
    pub(in crate::engine) fn leave_alone(
        &mut self,
        place: PlaceKey,
        claim: ClaimKey,
    ) -> Option<Vec<u8>> {
        let at = self.places.get_mut(place.0).must()?;
        if at.holder != Some(claim) || at.users != 1 || self.waits.contains_key(&place) {
            return None;
        }
        let name = core::mem::take(&mut at.name);
        self.names.replace(at.hash, place.into(), Where::of(claim));
        self.places.discard(place.0);
        Some(name)
    }

    /// Opens the place of `name`. The lock on it is kept alone: the table of names has `found` that. The claim uses
    /// the place, and one who wants it.
    #[cold]
    pub(super) fn join(
        &mut self,
        hash: u64,
        name: &[u8],
        found: Where,
        claims: &mut Claims,
    ) -> PlaceKey {
        let claim = claims.key_at(found.claim());
        let place = self.open_place(hash, name, &mut claims.buffers);
        self.names.replace(hash, found, place.into());
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.holder = Some(claim);
            at.users = 2;
        }
        if let Some(claim) = claims.wake(claim).must() {
            claim.busy_mut().place = Some(place);
        }
        place
    }

    /// The lock on `name` of `claim`, which was kept alone, is not held any more.
    pub(in crate::engine) fn vacate_alone(&mut self, now: Instant, name: &[u8], claim: ClaimKey) {
        let hash = self.names.hash(name);
        self.rows.of(now, hash).released(now);
        self.names.remove(hash, Where::of(claim));
    }
}
