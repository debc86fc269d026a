//! The turns of an acquisition of several resources: it waits until it is the contender of all of them.
//!
//! Between two attempts it waits at one of its places: where the resource is that keeps the lock from being
//! taken, as most nodes say. All that a contender of one resource does there it does too: it looks, is told
//! of changes, and decides when to ask again ([`waiting`](super::waiting)). Others may take the other
//! resources meanwhile. When it is time to ask, it wants all of them again.
//!
//! # Guarantees
//!
//! * It asks no node while this engine holds one of its resources, or another of this engine asks for one;
//!   but if it makes one attempt only, it asks beside those.
//!
//! # Not here
//!
//! Who may pass whom: the [queues](crate::engine::queues) say so.

use super::Acquire;
use crate::engine::operation::Context;
use crate::engine::parts::{News, Parts};
use crate::engine::queues::{LEFT_FREE, Refusal};
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};
use crate::time::Instant;

impl Acquire {
    /// Returns `true` if it is to take a lock on several resources.
    pub(in crate::engine) const fn wants_several(&self) -> bool {
        self.several.is_some()
    }

    /// The same as [`begin`](crate::engine::operation::Operate::begin) for one resource.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_several(&mut self, cx: &mut Context<'_>) {
        let turn = cx.parts.queues.queue_set(self.places(), cx.round.key);
        let once = self.tries_allowed == Some(1);
        let leaves = turn && !once && self.leaves_any(cx) && self.has_time(cx);
        let here = self.held_here(cx);
        if !leaves && (turn || once && here.is_none()) {
            self.ask_nodes(cx);
            return;
        }
        cx.round.tries = 0;
        if leaves {
            cx.parts.leave_to_others(cx.now, self.place);
            self.go_on(cx);
        } else if self.refuse_for_other_cluster(cx) {
            // It would have been asked for in vain.
        } else if once {
            self.give_up_waiting(cx);
        } else {
            self.wait_for_turn(cx);
        }
    }

    /// Returns `true` if it is to leave one of the resources to others first, and waits at that.
    fn leaves_any(&mut self, cx: &mut Context<'_>) -> bool {
        let mut places = self.places().iter();
        let place = places.find(|place| cx.parts.queues.leaves_first(cx.now, **place));
        let place = place.copied();
        self.place = place.unwrap_or(self.place);
        place.is_some()
    }

    /// Returns the first of the resources on which a lock of this engine is valid, counted from 0.
    pub(super) fn held_here(&self, cx: &Context<'_>) -> Option<usize> {
        let is_held = |place: &PlaceKey| {
            let claim = cx.parts.queues.holder(*place);
            let claim = claim.and_then(|claim| cx.parts.claims.get(claim));
            claim.is_some_and(|claim| cx.now < claim.valid_until())
        };
        self.places().iter().position(is_held)
    }

    /// Before it gives up: it waits at the resource that is held here, or is known to be held, if any is. What
    /// nodes have said to its latest attempt is over then.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_where_it_is_held(&mut self, cx: &Context<'_>) {
        let known = || {
            let known = cx.parts.queues.known_place(cx.round.key)?;
            self.places().iter().position(|place| *place == known)
        };
        let number = self.held_here(cx).or_else(known);
        if let (Some(number), Some(several)) = (number, &mut self.several) {
            self.place = several.places[number];
            several.all_name(number);
        }
    }

    /// Waits after an attempt that was refused, whose random delay ends at `delay`: at the resource that
    /// is another's.
    #[cold]
    #[inline(never)]
    pub(super) fn rest_several(&mut self, delay: Instant, after: Refusal, cx: &mut Context<'_>) {
        let several = self.several.as_ref().must();
        let most = several.and_then(|several| Some((several, several.most_named()?)));
        let others = most.map(|(several, number)| several.named_others(number));
        self.place = most.map_or(self.place, |(several, number)| several.places[number]);
        self.rest_until(delay, after, cx);
        if let Some((waiting, _)) = cx.parts.queues.waiting(self.place) {
            waiting.refused_elsewhere(others.unwrap_or_default());
        }
    }

    /// It waits, perhaps for long: others may pass it again where that was in vain.
    #[cold]
    #[inline(never)]
    pub(super) fn let_others_pass(&self, cx: &mut Context<'_>) {
        cx.parts.queues.renew(cx.now, cx.round.key);
        tell_freed(cx.parts);
    }

    /// Returns when it looks whether others may pass it again, or `until` if that is earlier.
    pub(super) fn sooner(&self, until: Instant, cx: &Context<'_>) -> Instant {
        match self.wants_several() {
            true => until.min(cx.now.saturating_add(LEFT_FREE)),
            false => until,
        }
    }

    /// It rests at its place, and leaves the other resources to those who want them.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_others(&self, cx: &mut Context<'_>) {
        cx.parts.queues.rest_at(self.place, cx.round.key);
        tell_freed(cx.parts);
    }

    /// Wants all resources again. Returns `true` if it may ask for them now.
    #[cold]
    #[inline(never)]
    pub(super) fn gather(&self, cx: &mut Context<'_>) -> bool {
        let leads = cx.parts.queues.gather(cx.round.key);
        tell_freed(cx.parts);
        leads
    }

    /// Waits for its turn, and leaves all resources to those who want them.
    #[cold]
    #[inline(never)]
    pub(super) fn stand_back(&self, cx: &mut Context<'_>) {
        cx.parts.queues.stand_back(cx.round.key);
        tell_freed(cx.parts);
    }

    /// It is its turn at all places: it waits at one of which something is known.
    #[cold]
    #[inline(never)]
    pub(super) fn lead_several(&mut self, cx: &Context<'_>) {
        let known = cx.parts.queues.known_place(cx.round.key);
        self.place = known.unwrap_or(self.place);
    }

    /// Ends `operation`, which it is.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_several(operation: OperationKey, parts: &mut Parts) {
        let buffers = &mut parts.claims.buffers;
        parts.queues.leave_set(operation, buffers);
        tell_freed(parts);
    }

    /// The lock of `claim` is held from now on, at all places.
    #[cold]
    #[inline(never)]
    pub(super) fn hold_several(&mut self, claim: ClaimKey, cx: &mut Context<'_>) {
        cx.parts.queues.hold_set(cx.round.key, claim);
        let Some(several) = self.several.take() else {
            return;
        };
        if cx.parts.queues.is_anyone_waiting() {
            let others = several.places.iter().filter(|place| **place != self.place);
            others.for_each(|place| cx.parts.tell_watches_at(*place));
        }
        cx.parts.places_of_several.insert(claim, several.places);
    }
}

/// Others are to have their turn at what was left.
fn tell_freed(parts: &mut Parts) {
    if parts.queues.has_freed() {
        parts.news.push_back(News::Freed);
    }
}
