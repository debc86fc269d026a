//! Takes a shared lock: the differences from an exclusive lock.
//!
//! A reader asks the nodes at the same time as other readers: see [`queues`](crate::engine::queues). A reader waits
//! only after a refusal. The intent of a caller that waits for the exclusive lock blocks new readers, so that a series
//! of readers cannot delay the caller for ever. From time to time, the nodes admit readers for a moment despite the
//! intent. Without this exception, a reader might wait for as long as earlier readers hold their locks. A node that
//! refuses a reader reports when it will admit readers again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use rand::rngs::StdRng;

use super::permit::Slots;
use super::{Acquire, Special, Verdict};
use crate::engine::operation::Context;
use crate::engine::operation::round::Ballot;
use crate::engine::queues::{Queues, Refusal, Wants};
use crate::engine::settings::SHORTEST_REST;
use crate::entry::{Entry, Spare};
use crate::error::NodeOutcome;
use crate::keys::{NodeId, PlaceKey, WaiterKey};
use crate::quorum::NodeSet;
use crate::time::Instant;

/// The additional state of an acquisition of a shared lock.
#[derive(Debug)]
pub(super) struct Reading {
    /// The nodes that have refused this attempt because of an intent, each with the time until which the intent blocks
    /// readers.
    intents: Vec<(NodeId, Instant)>,
    /// The time from which this reader may ask the nodes even if a contender waits for readers.
    asks_at: Instant,
    /// The record of this reader in the queue, if it was refused while a contender waited.
    again: Option<WaiterKey>,
    /// The slots of a permit, or `None` for a shared lock. Like a reader, an operation that wants a permit asks the
    /// nodes at the same time as others.
    pub(super) slots: Option<Slots>,
}

impl Reading {
    const fn new(asks_at: Instant, slots: Option<Slots>) -> Self {
        Self {
            intents: Vec::new(),
            asks_at,
            again: None,
            slots,
        }
    }

    /// Returns an entry for a new attempt, with this name and token.
    #[cold]
    pub(super) fn entry(
        &mut self,
        (spare, name, token): (Spare, &[u8], &[u8]),
        (waited, is_fenced): ((bool, u32), bool),
        random: &mut StdRng,
    ) -> Entry {
        if let Some(slots) = &mut self.slots {
            return slots.entry((spare, name, token), (waited, is_fenced), random);
        }
        self.intents.clear();
        Entry::shared(spare, name, token, is_fenced)
    }

    /// Leaves the queue at `place`, because the acquisition has ended.
    pub(super) fn step_out(&self, place: PlaceKey, queues: &mut Queues) {
        if let Some(again) = self.again {
            queues.step_out(place, again);
        }
    }
}

impl Acquire {
    /// Makes this operation an acquisition of a shared lock.
    #[cold]
    #[inline(never)]
    pub(super) fn share(&mut self) {
        let reading = Reading::new(Instant::ZERO, None);
        self.special = Some(Box::new(Special::Reading(reading)));
    }

    /// Makes this operation an acquisition of one of the `permits`.
    #[cold]
    #[inline(never)]
    pub(super) fn permit(&mut self, permits: u16, nodes: usize) {
        let reading = Reading::new(Instant::MAX, Some(Slots::new(permits, nodes)));
        self.special = Some(Box::new(Special::Reading(reading)));
    }

    /// Makes the operation the contender at its place, if it may ask the nodes now. Other operations may do so at the
    /// same time.
    #[cold]
    pub(super) fn contends_beside(&mut self, cx: &mut Context<'_>) -> bool {
        let (queues, key, place) = (&mut cx.parts.queues, cx.round.key, self.place);
        match self.slots() {
            None => queues.contend(place, key),
            Some(slots) => queues.contend_for_slot(place, key, slots.permits),
        }
    }

    /// Returns the kind of lock that the operation wants, for the belief of a contender.
    pub(super) fn wants(&self) -> Wants {
        match self.reading() {
            None => Wants::Lock,
            Some(reading) if reading.slots.is_none() => Wants::Reader,
            Some(_) => Wants::Slot,
        }
    }

    /// Lets other operations ask the nodes, because this operation has done so. If a contender still waits, makes it
    /// ask again, because the write has ended its registrations on the nodes.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_beside(&mut self, cx: &mut Context<'_>) {
        if !cx.round.is_voting() {
            return; // The operation was refused at once, and waits.
        }
        let wants = self.wants();
        let (parts, key) = (&mut *cx.parts, cx.round.key);
        parts.queues.give_on(self.place, key, wants);
        if parts.queues.is_anyone_waiting() {
            let name = parts.queues.name(self.place).to_vec();
            parts.wrote_to(cx.now, &name);
        }
    }

    /// Records that an intent on `node` blocks readers for the duration `lasts`.
    #[cold]
    pub(super) fn met_intent(&mut self, node: NodeId, lasts: Duration, now: Instant) {
        if let Some(Special::Reading(reading)) = self.special.as_deref_mut() {
            reading.intents.push((node, now.saturating_add(lasts)));
        }
    }

    /// Returns the time of the reader's next attempt: when a majority of the nodes may admit readers again, or, if no
    /// majority has reported an intent, at the end of the random `delay`.
    pub(super) fn kept_out_until(&self, delay: Instant, cx: &Context<'_>) -> Instant {
        let granted = |ballot: &&Ballot| ballot.outcome == NodeOutcome::Granted;
        let granted = cx.round.ballots.iter().filter(granted).count();
        let missing = cx.round.tally.quorum().saturating_sub(granted + 1);
        let intents = self.reading().map_or(&[][..], |reading| &reading.intents);
        let mut times: Vec<_> = intents.iter().map(|(_, at)| *at).collect();
        times.sort_unstable();
        let soonest = cx.now.saturating_add(SHORTEST_REST);
        times.get(missing).map_or(delay, |at| soonest.max(*at))
    }

    /// Returns why the attempt was refused. Either the lock is held, or too many nodes have a different number of
    /// permits.
    pub(super) fn refusal(&self, cx: &Context<'_>) -> Refusal {
        let all = cx.round.ballots.iter();
        let others = all.filter(|ballot| matches!(ballot.outcome, NodeOutcome::OtherPermits(_)));
        match cx.round.ballots.len() - others.count() < cx.round.tally.quorum() {
            true => Refusal::OtherPermits,
            false => Refusal::Held,
        }
    }

    /// Returns the nodes that have refused this attempt because of an intent.
    pub(super) fn intents(&self) -> NodeSet {
        let all = self.reading().map_or(&[][..], |reading| &reading.intents);
        let mut intents = NodeSet::EMPTY;
        for (node, _) in all {
            intents.insert(*node);
        }
        intents
    }

    /// Puts the refused operation at the front of the queue, if another operation waits at the same place or this
    /// engine holds the lock. Returns `true` if the operation was put into the queue. From `at` on, a reader may ask
    /// the nodes again at the same time as other operations.
    #[cold]
    #[inline(never)]
    pub(super) fn steps_back(&mut self, at: Instant, after: Refusal, cx: &mut Context<'_>) -> bool {
        let (queues, key) = (&mut cx.parts.queues, cx.round.key);
        let Some(Special::Reading(reading)) = self.special.as_deref_mut() else {
            return false;
        };
        if queues.contend_first(self.place, key) {
            return false;
        }
        reading.again = queues.queue_first(self.place, key);
        if reading.slots.is_none() {
            reading.asks_at = at;
        }
        self.verdict = Verdict::Refused(after);
        self.wait_for_turn(cx);
        true
    }

    /// Returns the time from which the operation may ask the nodes even if a contender waits for readers.
    pub(super) fn may_pass_at(&self, cx: &Context<'_>) -> Instant {
        match self.reading() {
            None => Instant::MAX,
            Some(reading) if cx.now < reading.asks_at => reading.asks_at,
            Some(_) => cx.parts.queues.passes_at(cx.now, self.place),
        }
    }

    /// If the nodes admit readers now despite the contender's intent, asks the nodes at the same time as the contender,
    /// and returns `true`.
    #[cold]
    pub(super) fn passes_by(&mut self, cx: &mut Context<'_>) -> bool {
        let queues = &mut cx.parts.queues;
        let Some(Special::Reading(reading)) = self.special.as_deref_mut() else {
            return false;
        };
        let is_held = queues.contender(self.place).is_none();
        if cx.now < reading.asks_at || is_held || !queues.is_behind_readers(cx.now, self.place) {
            return false;
        }
        reading.step_out(self.place, queues);
        self.try_again(cx);
        self.ask_beside(cx);
        true
    }

    /// Begins the operation's turn. Drops what an operation for another kind of lock has learned, because this
    /// knowledge is useless for a reader or for a permit.
    pub(super) fn begins_to_lead(&mut self, cx: &mut Context<'_>) {
        let wants = self.wants();
        if let Some((waiting, _)) = cx.parts.queues.waiting(self.place) {
            let is_other = waiting.has_asked() && waiting.belief.wants() != wants;
            if wants != Wants::Lock && is_other {
                cx.parts.queues.stop_waiting(self.place);
            } else {
                waiting.set_wants(wants);
            }
        }
    }
}
