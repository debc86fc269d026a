//! One call to [`LocalRedlock`](super::LocalRedlock), which runs turns of the driver until the outcome is certain.

use core::time::Duration;
use std::io;

use crate::calls::Awaited;
use crate::clock;
use crate::driver::{Reporter, Working};
use crate::engine::{Engine, Event, RoundId};
use crate::error::Report;
use crate::time::Instant;

/// A call first reads the sockets if the last read was at least this long ago. Unread answers make a node suspect
/// after 100 ms at the earliest, so more frequent reading gains nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// The largest number of reports that are kept for [`LocalRedlock::poll`](super::LocalRedlock::poll), because a caller
/// might never poll.
pub(super) const REPORTS_MAX: usize = 1024;

/// The state of one call to a handle.
pub(super) struct Call<'a> {
    pub(super) driver: Working<'a>,
    pub(super) reporter: &'a Reporter,
    pub(super) read_at: &'a mut Instant,
}

/// A turn of the call has failed, so the call has no outcome.
#[derive(Debug)]
pub(super) struct Stopped {
    error: io::Error,
    report: Report,
}

impl Call<'_> {
    /// Reads the sockets and fires timers, unless the sockets were read a short time ago. Returns the current time.
    /// Without this function, a program whose calls all fail immediately would never notice that nodes are back.
    pub(super) fn catch_up(&mut self) -> Instant {
        let now = clock::now();
        if PAUSE <= now.saturating_since(*self.read_at) {
            // Ignores an error of the poll, because the next turn reports it.
            let _ = self.driver.catch_up();
            *self.read_at = now;
        }
        now
    }

    /// Begins an operation, and waits for its outcome. The call began at `since`.
    pub(super) fn ask<E>(
        &mut self,
        since: Instant,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Awaited, E> {
        let round = self.driver.ask(ask)?;
        Ok(self.outcome(round, since))
    }

    /// Runs turns of the driver until the open operation `round` has its outcome. If the wait for the sockets fails,
    /// cancels the operation, so that no later call receives its outcome. The releases of the operation are still sent.
    pub(super) fn outcome(&mut self, round: RoundId, since: Instant) -> Awaited {
        let outcome = self.outcome_by(round, since, |call| call.turn(None));
        outcome.map_err(|stopped| stopped.report)
    }

    /// Like [`outcome`](Self::outcome), but cancels the operation at `end` and returns `None`.
    pub(super) fn outcome_until(
        &mut self,
        end: Instant,
        round: RoundId,
        since: Instant,
    ) -> Option<Awaited> {
        let outcome = self.outcome_by(round, since, |call| {
            call.turn(Some(end.saturating_since(clock::now())))?;
            match clock::now() < end {
                true => Ok(()),
                false => Err(io::ErrorKind::TimedOut.into()),
            }
        });
        match outcome {
            Err(stopped) if stopped.error.kind() == io::ErrorKind::TimedOut => None,
            outcome => Some(outcome.map_err(|stopped| stopped.report)),
        }
    }

    /// Calls `turn` until the outcome is certain. A turn that fails may still have read the outcome.
    pub(super) fn outcome_by(
        &mut self,
        round: RoundId,
        since: Instant,
        turn: impl Fn(&mut Self) -> io::Result<()>,
    ) -> Result<Event, Stopped> {
        let mut turned = Ok(());
        // Looks at each event only once, because there may be many unread events.
        let mut seen = self.driver.events.len();
        self.driver.flush();
        loop {
            let events = &mut self.driver.events;
            let mut new = events.range(seen..);
            let found = new.position(|event| event.round() == Some(round));
            if let Some(event) = found.and_then(|at| events.remove(seen + at)) {
                return Ok(event);
            }
            self.keep_reports(); // A call may wait for a long time, so the queue is trimmed.
            seen = self.driver.events.len();
            if let Err(error) = turned {
                let report = self.reporter.wait_failed(&error, since);
                let report = self.driver.engine.about(round, report);
                self.driver.ask(|engine, now| engine.cancel(now, round));
                return Err(Stopped { error, report });
            }
            turned = turn(self);
        }
    }

    pub(super) fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.driver.turn(limit)?;
        *self.read_at = clock::now();
        Ok(())
    }

    /// If there are too many events, keeps only the latest lost locks and locks at risk,
    /// for [`LocalRedlock::poll`](super::LocalRedlock::poll). Other events are not needed, because no call waits for
    /// their outcomes, and a kept lock itself contains its expiry.
    pub(super) fn keep_reports(&mut self) {
        let events = &mut self.driver.events;
        if REPORTS_MAX < events.len() {
            events.retain(is_report);
            events.drain(..events.len().saturating_sub(REPORTS_MAX));
        }
    }

    /// Returns the oldest report that still applies. A lock that was released or lost is no longer at risk.
    pub(super) fn next_report(&mut self) -> Option<Event> {
        while let Some(event) = self.driver.events.pop_front() {
            let is_over =
                matches!(event, Event::AtRisk { lock } if !self.driver.engine.holds(lock));
            if is_report(&event) && !is_over {
                return Some(event);
            }
        }
        None
    }
}

fn is_report(event: &Event) -> bool {
    matches!(event, Event::Expired { .. } | Event::AtRisk { .. })
}
