//! Breaking another client's lock: its keys get another token and keep their expiry.
//!
//! Every node that has the token of the holder replaces it and keeps the expiry, in one step. So each node refuses
//! other clients until the moment at which it would have been free anyway, even if the holder has extended its lock
//! since it was seen. No majority has the token of the holder any more, so the holder cannot extend the lock again.
//!
//! The replacing token is the same in each try, so that the progress of one try counts for the next: see
//! [`broken`](crate::resource::broken).
//!
//! # Guarantees
//!
//! * The lock counts as broken only if a majority has replaced the token.
//! * The token of another holder is left alone, and no key is made.
//!
//! # Not here
//!
//! Finding the holder: that is an [inspection](super::inspect). Breaking a lock at once: that is the
//! [release](super::release) of its token.

use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{NodeId, OperationKey};
use crate::node::{Access, Command, Question, Reply, Request, Said, Whose};
use crate::quorum::{Extending, NodeSet, Vote};

use super::patience::Patience;
use super::permission::{AskWithoutScripts, ask_why, missing_for};
use super::{Context, Lost, Operate, ask_all, ask_one, judge_if_voting};
use crate::engine::answer::{Answer, unusable};
use crate::engine::breaking::{BreakError, Broken};
use crate::engine::contract::{Event, RoundId};
use crate::engine::inspection::Holder;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Overwrite {
    /// The name and the token of the holder.
    entry: Entry,
    holder: Option<Holder>,
    /// The longest time that a node keeps its key.
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

fn request(operation: OperationKey) -> Request {
    Request::Question {
        question: Question::Overwrite,
        operation,
        claim: None,
    }
}

impl Operate for Overwrite {
    fn begin(&mut self, cx: &mut Context<'_>) {
        // Any node may hang for a moment, and each further node that replaces the token helps.
        let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
        for node in cx.parts.nodes.ids() {
            cx.round[node].deadline = patience.until(cx.now, &mut cx.parts.nodes[node]);
            cx.round.leave_out(cx.now, node, &cx.parts.nodes);
        }
        ask_all(self, cx);
        cx.round.arm(&mut cx.parts.timers);
    }

    fn ask(&mut self, node: NodeId, command: &mut Command, cx: &mut Context<'_>) -> bool {
        match cx.access(node) {
            Access::Open => {
                // The write ends the registrations of this handle's waiters, so they look again.
                if cx.parts.queues.is_anyone_waiting() {
                    cx.parts.wrote_to(cx.now, self.entry.resource());
                }
                let there = cx.parts.nodes.writing_to(node);
                let (request, question) = (request(cx.round.key), Question::Overwrite);
                let (entry, life) = (&self.entry, Duration::ZERO);
                if there.is_without_scripts() {
                    there.ask_without_scripts(cx.now, request, question, entry, life, false);
                } else {
                    let bytes = there.question(question, command, entry, life, true);
                    there.send(cx.now, request, bytes);
                }
                cx.round[node].asked = true;
                true
            }
            Access::Handshake { .. } => cx.round.wait_for(node, Whose::Other, &mut cx.parts.nodes),
            Access::Shut(outcome) => !cx.round.count(cx.now, node, Vote::Abstain, outcome),
        }
    }

    /// Waits for every node.
    fn judge(&mut self, cx: &mut Context<'_>) {
        if cx.round.tally.open().is_empty() {
            cx.round.decide(cx.parts);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let holder = self.holder.take()?;
        let result = match cx.round.tally.extension() {
            Some(Extending::Extended(majority)) => Ok(Broken {
                holder,
                nodes: majority.nodes().len(),
                free_in: self.longest,
            }),
            Some(Extending::Lost) => Err(BreakError::Changed(cx.report())),
            Some(Extending::Unconfirmed) | None => Err(BreakError::Unconfirmed(cx.report())),
        };
        let round = RoundId(cx.round.key);
        Some(Event::Broken { round, result })
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let said = match *answer {
            Answer::Question(Reply::Forbidden(forbidden), said) => {
                let about = (Question::Overwrite, &self.entry);
                match missing_for(node, about, forbidden, cx.parts) {
                    Err(AskWithoutScripts) if cx.round.asks(node) => {
                        return ask_one(self, node, cx);
                    }
                    Ok(Some(missing)) => unusable(missing),
                    _ if ask_why(node, &self.entry, Reply::Forbidden(forbidden), cx) => return,
                    _ => said.vote(),
                }
            }
            Answer::Question(reply, said) => {
                let kept = Said::of_confirmation(reply).map_or(Duration::ZERO, |(_, kept)| kept);
                self.longest = self.longest.max(kept);
                said.vote()
            }
            Answer::Vote(said) => said,
            Answer::Nil
            | Answer::Named(_)
            | Answer::Counted(_)
            | Answer::Raised
            | Answer::Forgotten(_)
            | Answer::Permitted
            | Answer::Withheld(_) => return,
        };
        self.vote(node, said, cx);
    }

    fn lose(&mut self, node: NodeId, lost: Lost, cx: &mut Context<'_>) {
        // Its answer stays true: the node has changed the key.
        if let Lost::Connection(outcome) = lost
            && cx.round.awaits(node)
            && cx.round.record(node, Vote::Abstain, outcome)
        {
            judge_if_voting(self, cx);
        }
    }

    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        for node in nodes.iter() {
            let connection = &mut cx.parts.nodes[node].connection;
            connection.withdraw(request(cx.round.key));
        }
    }
}
