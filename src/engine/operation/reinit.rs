//! Reinitialisation: every node joins this group, regardless of its marker.
//!
//! An operator requests the reinitialisation, which needs all nodes.

use alloc::vec::Vec;

use crate::engine::operators::OperatorError;
use crate::error::{Asked, NodeOutcome, Report, Unusable};
use crate::node::{Access, Mode, Trouble};
use crate::quorum::Vote;
use crate::time::Instant;

use super::round::Round;
use super::{Change, Context, Operate};
use crate::engine::contract::{Event, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Reinit {
    /// Whether every node has joined.
    done: Option<bool>,
}

/// If any nodes cannot be asked now, returns a report that names them.
pub(in crate::engine) fn why_unready(now: Instant, parts: &Parts) -> Option<Report> {
    let mut round = Round::new(now, parts.nodes.len(), Vec::new());
    let mut all = true;
    for node in parts.nodes.ids() {
        let there = &parts.nodes[node];
        let other = matches!(
            there.handshake.trouble,
            Trouble::Unusable(Unusable::OtherGroup { .. })
        );
        round[node].outcome = match there.access() {
            Access::Open => continue,
            _ if other && !there.handshake.is_ready() => continue,
            Access::Shut(outcome) => outcome,
            Access::Handshake { .. } => there.handshake.trouble.outcome(),
        };
        all = false;
    }
    (!all).then(|| round.report(now, &parts.nodes).of(Asked::All))
}

impl Operate for Reinit {
    /// Asks every node to join this group. Each node gets a barrier that lasts as long as the longest lock of either
    /// group.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let deadline = cx.now.saturating_add(cx.parts.settings.connect_timeout);
        for ballot in &mut cx.round.ballots {
            ballot.deadline = deadline;
            ballot.asked = true;
        }
        cx.parts.restarts.reset();
        for node in cx.parts.nodes.ids() {
            let longest = cx.parts.restarts.longest();
            cx.parts.nodes.writing_to(node).reinit(cx.now, longest);
            if !cx.parts.nodes[node].handshake.has_link() {
                cx.parts.nodes.connect(cx.now, node, &mut cx.parts.timers);
            }
        }
        cx.round.arm(&mut cx.parts.timers);
    }

    fn judge(&mut self, cx: &mut Context<'_>) {
        let (yes, open) = (cx.round.tally.yes(), cx.round.tally.open());
        if yes == cx.parts.nodes.set() {
            self.done = Some(true);
        } else if open.is_empty() {
            self.done = Some(false);
        }
        if self.done.is_some() {
            cx.round.decide(cx.parts);
        }
    }

    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        if let Change::Joined(node) = change {
            self.vote(node, (Vote::Yes, NodeOutcome::Granted), cx);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let result = match self.done.take()? {
            true => Ok(()),
            false => Err(OperatorError::Unconfirmed(cx.report(self))),
        };
        let round = RoundId(cx.round.key);
        Some(Event::Reinitialised { round, result })
    }

    fn about(&mut self, report: Report, _: &Parts) -> Report {
        report.of(Asked::All)
    }

    /// Withdraws requests that were not sent yet.
    fn end(&mut self, parts: &mut Parts) {
        for node in parts.nodes.iter_mut() {
            node.trust.cancel_join(Mode::Reinit);
        }
    }
}
