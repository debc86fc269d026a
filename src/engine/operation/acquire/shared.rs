//! Taking a shared lock: the differences from taking an exclusive one.
//!
//! A reader asks beside other readers: see [`queues`](crate::engine::queues). It waits only if it is refused. A caller of
//! the exclusive lock who waits keeps new readers out by its intent, so that readers who follow one another do not keep
//! it waiting for ever. A reader that has waited for long passes over the intent, so that it does not wait for as long as
//! the readers before it hold their locks.

use alloc::boxed::Box;
use core::time::Duration;

use super::{Acquire, Verdict};
use crate::engine::operation::Context;
use crate::engine::queues::{Queues, Refusal};
use crate::engine::settings::Settings;
use crate::entry::{Entry, Spare};
use crate::keys::{NodeId, PlaceKey, WaiterKey};
use crate::quorum::NodeSet;
use crate::time::Instant;

/// A reader passes over an intent once in the time of this number of random delays. By default that is 1.2 s: twice as
/// long as an intent lasts that is not renewed, and a quarter of the time that a call waits. By then the caller of the
/// exclusive lock has been let in, unless a reader holds its lock for longer than that; then one more makes no
/// difference to it.
const PASSES_AFTER: u32 = 8;

/// A node that refuses a reader because of an intent names this key, counted from 0. The name of the lock is the first.
const INTENT: u8 = 1;

/// The additional state of an acquisition of a shared lock.
#[derive(Debug)]
pub(super) struct Reading {
    /// The nodes that have refused this attempt because of an intent.
    intents: NodeSet,
    /// From this time on, the next attempt passes over an intent.
    passes_at: Instant,
    /// Its record in the queue, if it was refused beside the contender.
    again: Option<WaiterKey>,
}

/// Returns how long a reader waits before it passes over an intent.
fn patience(settings: &Settings) -> Duration {
    let (shortest, longest) = settings.retry.delay().into_inner();
    (shortest + longest) / 2 * PASSES_AFTER
}

impl Reading {
    /// The acquisition has ended. Nothing is left of it in the queue at `place`.
    pub(super) fn step_out(&self, place: PlaceKey, queues: &mut Queues) {
        if let Some(again) = self.again {
            queues.step_out(place, again);
        }
    }
}

impl Acquire {
    /// Makes it an acquisition of a shared lock. Its call was made at `started`.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn share(&mut self, started: Instant, settings: &Settings) {
        self.reading = Some(Box::new(Reading {
            intents: NodeSet::EMPTY,
            passes_at: started.saturating_add(patience(settings)),
            again: None,
        }));
    }

    /// Returns an entry for `name` with this `token`, for a new attempt.
    #[cold]
    pub(super) fn shared_entry(
        reading: &mut Reading,
        now: Instant,
        (spare, name, token): (Spare, &[u8], &[u8]),
        settings: &Settings,
    ) -> Entry {
        reading.intents = NodeSet::EMPTY;
        let entry = Entry::shared(spare, name, token, false);
        if now < reading.passes_at {
            return entry;
        }
        reading.passes_at = now.saturating_add(patience(settings));
        entry.passing()
    }

    /// It has asked the nodes, so that others may ask beside it. If a contender waits nevertheless, this write ends the
    /// registrations of the contender on the nodes.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_beside(&mut self, cx: &mut Context<'_>) {
        if !cx.round.is_voting() {
            return; // It was refused at once, and waits.
        }
        let (parts, key) = (&mut *cx.parts, cx.round.key);
        parts.queues.give_on(self.place, key);
        if parts.queues.is_anyone_waiting() {
            let name = parts.queues.name(self.place).to_vec();
            parts.wrote_to(cx.now, &name);
        }
    }

    /// `node` says that this key is taken, counted from 0.
    pub(super) fn met_intent(&mut self, node: NodeId, which: u8) {
        if let Some(reading) = self.reading.as_mut().filter(|_| which == INTENT) {
            reading.intents.insert(node);
        }
    }

    /// Returns why its attempt was refused: because of an intent, if any node says so.
    pub(super) fn refusal(&self, refusal: Refusal) -> Refusal {
        let reading = self.reading.as_ref();
        let met = reading.is_some_and(|reading| !reading.intents.is_empty());
        match met && refusal == Refusal::Held {
            true => Refusal::Intent,
            false => refusal,
        }
    }

    /// The attempt was refused. If another operation waits at its place, or this engine holds the lock, it stands first
    /// in the queue. Returns `true` if it does.
    #[cold]
    #[inline(never)]
    pub(super) fn steps_back(&mut self, after: Refusal, cx: &mut Context<'_>) -> bool {
        let (queues, key) = (&mut cx.parts.queues, cx.round.key);
        let Some(reading) = self.reading.as_mut() else {
            return false;
        };
        if queues.contend(self.place, key) {
            return false;
        }
        reading.again = queues.queue_first(self.place, key);
        self.verdict = Verdict::Refused(after);
        self.wait_for_turn(cx);
        true
    }

    /// Its turn has come. What another operation has learnt, which wants the exclusive lock, says nothing to it.
    pub(super) fn begins_to_lead(&mut self, cx: &mut Context<'_>) {
        let is_reader = self.reading.is_some();
        if let Some((waiting, _)) = cx.parts.queues.waiting(self.place) {
            if is_reader && waiting.has_asked() && !waiting.belief.reads() {
                cx.parts.queues.stop_waiting(self.place);
            } else {
                waiting.set_reader(is_reader);
            }
        }
    }
}
