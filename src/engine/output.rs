//! The next outputs for the driver, and when the engine wants to be woken.

use crate::time::Instant;

use super::Engine;
use super::alarm::Alarm;
use super::claims::claim::Claim;
use super::contract::{Cause, Event, Output, Wake};
use super::news::News;

impl Engine {
    /// Returns when the engine wants to be woken next, and why; `None` if only new input can make progress. It is pure
    /// and can be called at any time. [`Instant::ZERO`] means at once.
    ///
    /// An [`Input::Tick`](super::Input::Tick) makes the engine notice a silence. A driver hands one in after it has
    /// sent something, and before it sleeps until this time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        self.next_wake().map(|(at, cause)| (at, Wake(cause)))
    }

    fn next_wake(&self) -> Option<(Instant, Cause)> {
        if !self.parts.news.is_empty() || self.parts.nodes.is_anything_due() {
            return Some((Instant::ZERO, Cause::Output));
        }
        let timer = self.parts.timers.next();
        let timer = timer.map(|(at, alarm)| (at, self.reason(*alarm)));
        let reminder = self.parts.queues.next_reminder();
        let reminder = reminder.map(|at| (at, Cause::Retry));
        let turn = self.parts.nodes.turn_at();
        let turn = turn.map(|at| (at, Cause::Extension));
        timer.into_iter().chain(reminder).chain(turn).min()
    }

    fn reason(&self, alarm: Alarm) -> Cause {
        match alarm {
            Alarm::Connection(_) | Alarm::Lines => Cause::Connection,
            Alarm::Silence(_) => Cause::Silence,
            Alarm::Debts(_) => Cause::Debt,
            Alarm::Floors => Cause::Repair,
            Alarm::Operation(key) => self.operations.wake(key),
            Alarm::Waiter(key) => self
                .parts
                .wait_ends(key)
                .map_or(Cause::Retry, |(_, why)| why),
            Alarm::Claim(key) => match self.parts.claims.get(key) {
                Some(claim)
                    if claim.is_held() && (claim.kept.is_some() || claim.busy().alert != 0) =>
                {
                    Cause::Extension
                }
                Some(claim) if claim.is_held() => Cause::Expiry,
                Some(_) | None => Cause::Debt,
            },
        }
    }

    /// Returns what the driver has to do next; call it until `None`. Pass a fresh `now`: if the validity of a lock has
    /// run out since the grant, it is released here and not handed out.
    #[must_use]
    pub fn poll(&mut self, now: Instant) -> Option<Output<'_>> {
        if let Some(change) = self.parts.nodes.next_change() {
            return Some(change);
        }
        loop {
            if let Some(node) = self.parts.nodes.next_to_write(now) {
                return self.parts.nodes.write(now, node);
            }
            if self.parts.news.is_empty() {
                return None;
            }
            if let Some(event) = self.next_event(now) {
                return Some(Output::Event(event));
            }
            // Looking for an event may have queued bytes to write: a lock whose validity has run out is released.
        }
    }

    /// Returns the next event. Passes over operations that were cancelled or that try again after all.
    // Out of line, because most polls have no news.
    #[inline(never)]
    fn next_event(&mut self, now: Instant) -> Option<Event> {
        while let Some(news) = self.parts.news.pop_front() {
            let event = match news {
                News::Expired(lock) => Some(Event::Expired { lock }),
                News::AtRisk(lock) => {
                    let holds = self.parts.claims.by_id(lock).is_some_and(Claim::is_held);
                    holds.then_some(Event::AtRisk { lock })
                }
                News::Operation(key) => self.operations.tell(now, key, &mut self.parts),
                News::Stirred(key) => {
                    self.stir(now, Some(key));
                    None
                }
                News::Room => {
                    self.parts.keeper.told();
                    self.operations.extend_kept(now, &mut self.parts);
                    None
                }
                News::Floors => {
                    self.look_at_floors(now);
                    None
                }
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }
}
