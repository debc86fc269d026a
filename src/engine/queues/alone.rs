//! Handles locks that are kept alone: no other operation wants their names, so the table of names leads directly to
//! their claims.
//!
//! A lock that is kept alone has no place, which saves memory. When another operation wants the name, the queues open a
//! place. The new place has the same state as if it had always existed.
//!
//! # Not here
//!
//! A lock that is not kept always has a place. A lock that is not kept is held for only a short time, and keeping its
//! place costs less than closing and reopening it.

use alloc::vec::Vec;

use crate::engine::claims::Claims;
use crate::invariant::Must;
use crate::keys::{ClaimKey, PlaceKey};
use crate::time::Instant;

use super::Queues;
use super::names::Where;

/// In the table of names, this bit is set in the number of a claim, and clear in the number of a place.
const CLAIM: u32 = 1 << 31;

impl Where {
    pub(super) fn of(claim: ClaimKey) -> Self {
        Self(claim.0.index() | CLAIM)
    }

    /// Returns the index of the place, or `None` for a claim.
    pub(super) const fn place(self) -> Option<u32> {
        match self.0 & CLAIM {
            0 => Some(self.0),
            _ => None,
        }
    }

    /// Returns the index of the claim. The number must belong to a claim.
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
    /// Closes the `place` of the lock of `claim`, which is kept from now on, if nothing else uses the place. If the
    /// place was closed, returns the buffer of its name. The table of names then refers to the claim, which also stores
    /// the name.
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

    /// Opens the place of `name`, whose lock is kept alone. `found` is the entry of the lock's claim in the table of
    /// names. The place has two users: the claim, and the operation that wants the name.
    #[cold]
    pub(super) fn join(
        &mut self,
        hash: u64,
        name: &[u8],
        found: Where,
        claims: &mut Claims,
    ) -> PlaceKey {
        let (claim, _) = claims.at(found.claim());
        let place = self.open_place(hash, name, &mut claims.buffers);
        self.names.replace(hash, found, place.into());
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.holder = Some(claim);
            at.users = 2;
        }
        if let Some(claim) = claims.get_mut(claim).must() {
            claim.busy_mut().place = Some(place);
        }
        place
    }

    /// Records that no caller holds the lock of `claim` on `name` any longer. The lock was kept alone.
    pub(in crate::engine) fn vacate_alone(&mut self, now: Instant, name: &[u8], claim: ClaimKey) {
        let hash = self.names.hash(name);
        self.rows.of(now, hash).released(now);
        self.names.remove(hash, Where::of(claim));
    }
}
