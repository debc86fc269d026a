//! The turns of an acquisition of several resources: it waits until it is the contender of all of them.
//!
//! Between two attempts it waits at one of its places: the resource that most nodes have named as held. There it does
//! everything that a contender of one resource does: it looks, learns of changes, and decides when to ask again
//! ([`waiting`](super::waiting)). Meanwhile it stays the contender of its other resources.
//!
//! # Guarantees
//!
//! * It asks no node while this engine holds one of its resources, or another operation of this engine contends for
//!   one. An acquisition that makes only one attempt asks beside those operations.

use super::Acquire;
use crate::engine::operation::Context;
use crate::engine::parts::Parts;
use crate::engine::queues::Refusal;
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};
use crate::time::Instant;

impl Acquire {
    /// Returns `true` if it wants a lock on several resources.
    pub(in crate::engine) const fn wants_several(&self) -> bool {
        self.several.is_some()
    }

    /// [`begin`](crate::engine::operation::Operate::begin) for several resources.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_several(&mut self, cx: &mut Context<'_>) {
        let once = self.tries_allowed == Some(1);
        let (queues, set) = (&mut cx.parts.queues, cx.round.key);
        if let Some(several) = &mut self.several {
            let queue = |place: &PlaceKey| match queues.contend(*place, set) || once {
                true => None,
                false => queues.queue_set(*place, set),
            };
            several.waiters = several.places.iter().map(queue).collect();
        }
        let turn = self.leads(cx);
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
            // It is refused, and asks no node.
        } else if once {
            self.give_up_waiting(cx);
        } else {
            self.wait_for_turn(cx);
        }
    }

    /// Returns `true` if it is the contender of all its places.
    pub(super) fn leads(&self, cx: &Context<'_>) -> bool {
        let leads = |place: &PlaceKey| cx.parts.queues.contender(*place) == Some(cx.round.key);
        self.places().iter().all(leads)
    }

    /// Returns `true` if it should leave one of the resources to others first, and makes it wait there.
    fn leaves_any(&mut self, cx: &mut Context<'_>) -> bool {
        let mut places = self.places().iter();
        let place = places.find(|place| cx.parts.queues.leaves_first(cx.now, **place));
        let place = place.copied();
        self.wait_at(place.unwrap_or(self.place), cx);
        place.is_some()
    }

    /// Makes it wait at `place` only. What it has learnt at another one is out of date from now on.
    fn wait_at(&mut self, place: PlaceKey, cx: &mut Context<'_>) {
        self.place = place;
        let others = self.places().iter().filter(|other| **other != place);
        others.for_each(|other| cx.parts.queues.stop_waiting(*other));
    }

    /// Returns the first resource, counted from 0, on which a lock of this engine is valid.
    pub(super) fn held_here(&self, cx: &Context<'_>) -> Option<usize> {
        let is_held = |place: &PlaceKey| {
            let claim = cx.parts.queues.holder(*place);
            let claim = claim.and_then(|claim| cx.parts.claims.get(claim));
            claim.is_some_and(|claim| cx.now < claim.entry.end())
        };
        self.places().iter().position(is_held)
    }

    /// Called before it gives up. Makes it wait at a resource that this engine holds, or at one where an earlier
    /// contender waits, if there is one. The answers to its own latest attempt are then out of date.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_where_it_is_held(&mut self, cx: &mut Context<'_>) {
        let queues = &mut cx.parts.queues;
        let mut waits_behind = |place: &PlaceKey| {
            queues.contender(*place) != Some(cx.round.key) && queues.waiting(*place).is_some()
        };
        let known = self.places().iter().position(&mut waits_behind);
        let number = self.held_here(cx).or(known);
        if let (Some(number), Some(several)) = (number, &mut self.several) {
            self.place = several.places[number];
            several.all_name(number);
        }
    }

    /// Waits after a refused attempt, at the resource that is taken. The random delay ends at `delay`.
    #[cold]
    #[inline(never)]
    pub(super) fn rest_several(&mut self, delay: Instant, after: Refusal, cx: &mut Context<'_>) {
        let several = self.several.as_ref().must();
        let most = several.and_then(|several| Some((several, several.most_named()?)));
        let others = most.map(|(several, number)| several.named_others(number));
        let place = most.map_or(self.place, |(several, number)| several.places[number]);
        self.wait_at(place, cx);
        self.rest_until(delay, after, others.unwrap_or_default(), cx);
    }

    /// It is its turn at all places. It waits where it did before, or where an earlier contender has waited.
    #[cold]
    #[inline(never)]
    pub(super) fn lead_several(&mut self, cx: &mut Context<'_>) {
        let mut places = core::iter::once(&self.place).chain(self.places());
        let known = places.find(|place| cx.parts.queues.waiting(**place).is_some());
        self.wait_at(*known.unwrap_or(&self.place), cx);
    }

    /// Ends this acquisition, which is `operation`.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_several(&self, operation: OperationKey, parts: &mut Parts) {
        let (queues, buffers) = (&mut parts.queues, &mut parts.claims.buffers);
        if let Some(several) = &self.several {
            for (place, waiter) in several.places.iter().zip(&several.waiters) {
                queues.leave(*place, operation, *waiter, buffers);
            }
        }
    }

    /// The lock of `claim` is held from now on, at all places.
    #[cold]
    #[inline(never)]
    pub(super) fn hold_several(&mut self, claim: ClaimKey, cx: &mut Context<'_>) {
        let Some(several) = self.several.take() else {
            return;
        };
        let places = several.places.iter();
        places.for_each(|place| cx.parts.queues.hold(*place, cx.round.key, claim));
        if cx.parts.queues.is_anyone_waiting() {
            let others = several.places.iter().filter(|place| **place != self.place);
            others.for_each(|place| cx.parts.tell_watches_at(*place));
        }
        cx.parts.places_of_several.insert(claim, several.places);
    }
}
