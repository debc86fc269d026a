//! Breaks another client's lock: its keys get another token and keep their expiry.
//!
//! Each node with the holder's token replaces the token in one step and keeps the expiry. Therefore the node refuses
//! other clients until the lock would have become free anyway, even if the holder has extended the lock since the
//! inspection. After the break, no majority has the holder's token, so the holder cannot extend the lock again.
//!
//! Every try uses the same new token, so that a later try can build on an earlier try:
//! see [`broken`](crate::resource::broken).
//!
//! # Guarantees
//!
//! * The lock counts as broken only if a majority has replaced the token.
//! * The operation never replaces the token of another holder, and never creates a key.
//!
//! # Not here
//!
//! The [inspection](super::inspect) finds the holder. To break a lock immediately, the
//! engine [releases](super::release) its token.

use core::time::Duration;

use crate::engine::operators::OperatorError;
use crate::entry::Entry;
use crate::error::{Asked, Report};
use crate::keys::NodeId;
use crate::node::{Answer, Asking, Command, Question, Reply, Whose};
use crate::quorum::{Extending, NodeSet, Vote};

use super::{Context, Lost, Operate, ask_one, ask_patiently, ask_why, judge_if_voting, withdraw};
use crate::engine::breaking::Broken;
use crate::engine::contract::{Event, RoundId};
use crate::engine::inspection::Holder;
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Overwrite {
    /// The name and the token of the holder.
    entry: Entry,
    holder: Option<Holder>,
    /// The longest remaining time of a key on any node.
    longest: Duration,
}

impl Overwrite {
    pub(in crate::engine) const fn new(entry: Entry, holder: Holder) -> Self {
        Self {
            entry,
            holder: Some(holder),
            longest: Duration::ZERO,
        }
    }
}

impl Operate for Overwrite {
    fn begin(&mut self, cx: &mut Context<'_>) {
        // Waits for slow nodes too, because it is better if every node replaces the token.
        ask_patiently(self, cx);
    }

    fn ask(&mut self, node: NodeId, command: &mut Command, cx: &mut Context<'_>) -> bool {
        cx.reach(node, Whose::Other, |cx| {
            // After this write, the nodes no longer report changes to the key, so this handle's waiters must ask them
            // again.
            if cx.parts.queues.is_anyone_waiting() {
                cx.parts.wrote_to(cx.now, self.entry.resource());
            }
            let asking = Asking::about(Question::Overwrite, cx.round.key, &self.entry);
            let there = cx.parts.nodes.writing_to(node);
            there.ask_about(cx.now, command, &asking);
            Ok(())
        })
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let holder = self.holder.take()?;
        let result = match cx.round.tally.extension() {
            Some(Extending::Extended(majority)) => Ok(Broken {
                holder: holder.into(),
                nodes: majority.nodes().len(),
                free_in: self.longest,
            }),
            Some(Extending::Lost) => Err(OperatorError::Changed(cx.report(self))),
            Some(Extending::Unconfirmed) | None => Err(OperatorError::Unconfirmed(cx.report(self))),
        };
        let round = RoundId(cx.round.key);
        Some(Event::Broken { round, result })
    }

    fn about(&mut self, report: Report, _: &Parts) -> Report {
        report.of(Asked::Token).about(self.entry.names())
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        if let Reply::Kept(kept) = answer.reply {
            self.longest = self.longest.max(kept);
        } else if ask_why(node, &self.entry, answer, cx) {
            return;
        } else if matches!(answer.reply, Reply::Again(_)) && cx.round.asks(node) {
            return ask_one(self, node, cx);
        }
        self.vote(node, answer.reply.vote(), cx);
    }

    fn rests_on_answers(&self) -> bool {
        true
    }

    fn lose(&mut self, node: NodeId, lost: Lost, cx: &mut Context<'_>) {
        // Keeps an earlier answer when the connection is lost, because the node has already changed the key.
        if let Lost::Connection(outcome) = lost
            && cx.round.awaits(node)
            && cx.round.record(node, Vote::Abstain, outcome)
        {
            judge_if_voting(self, cx);
        }
    }

    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        withdraw(nodes, cx);
    }
}
