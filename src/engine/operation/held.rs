//! A question about a held lock: the common part of extensions and confirmations.
//!
//! Extensions and confirmations count the same nodes, end the lock when a majority does not have it, and fail for the
//! same reasons. Each operation has its own file, which contains its question and the meaning of a majority of answers.

mod answers;

use alloc::boxed::Box;
use core::time::Duration;

use crate::delay::Delay;
use crate::entry::Entry;
use crate::error::{Asked, ExtendError, NodeOutcome, Report};
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Answer, Asking, Command, Question, Reply, Whose};
use crate::quorum::{Extending, Lock, LockId, Majority, NodeSet};
use crate::time::Instant;

pub(in crate::engine) use self::answers::learn;
use super::ballot::Bounds;
use super::patience::Patience;
use super::round::Round;
use super::{Context, LostLock, Operate, ask_all, ask_why, withdraw};
use crate::engine::claims::Claims;
use crate::engine::claims::busy::Questions;
use crate::engine::claims::claim::Claim;
use crate::engine::contract::{Event, Extension, RoundId};
use crate::engine::parts::{EXPIRED, Parts};

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct LockQuestion {
    pub(super) lock: LockId,
    /// Whether the engine itself has begun the extension to keep the lock, so that no caller waits for the outcome.
    pub(super) own: bool,
    /// The claim of the lock, if this engine has one.
    pub(super) claim: Option<ClaimKey>,
    pub(super) entry: Entry,
    pub(super) asks: Asks,
    /// The nodes whose yes votes count.
    voters: NodeSet,
    /// The nodes that certainly did not have the key before the first node was asked.
    pub(super) lacking: NodeSet,
    /// The value of `Copies::regained` before the first node was asked.
    pub(super) regained: u16,
    verdict: Verdict,
}

/// The kind of question.
#[derive(Debug)]
pub(super) enum Asks {
    /// Asks the nodes to keep the lock for longer.
    Extend {
        /// Whether a majority has extended the lock, but other extensions have meanwhile reached the limit.
        is_beyond: bool,
    },
    /// Asks how much longer the nodes keep the lock. The value contains the answer of each node.
    Confirm(Box<[Duration]>),
}

/// The result of the question.
#[derive(Debug)]
pub(in crate::engine) enum Verdict {
    /// The question has no result yet.
    Open,
    /// This majority keeps the lock, at least until this instant.
    Kept(Majority, Instant),
    Lost,
    /// A majority keeps the lock, but its validity has ended.
    RunOut,
    Unconfirmed,
    /// The lock was released or handed over while the question was open.
    Closed,
}

impl LockQuestion {
    /// Creates a question about `lock`.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] if the lock had a claim in this engine and no longer has one, because its end
    /// was reported.
    pub(super) fn new(lock: &Lock, asks: Asks, parts: &mut Parts) -> Result<Self, ExtendError> {
        let is_ours = lock.id().engine == parts.claims.engine;
        let (key, claim) = parts.claims.of(lock.id()).unzip();
        let claim = claim.as_deref();
        let forgotten = claim.is_none() && is_ours;
        if forgotten || !claim.is_none_or(Claim::is_held) {
            return Err(ExtendError::Expired);
        }
        // If this engine took the lock, all nodes may vote. For locks of other engines, see `Keeper::voters`.
        let own = claim.filter(|claim| !guard!(EveryVoterCounts, claim.busy().is_adopted));
        let voters = own.map_or(lock.voters(), |_| parts.nodes.set());
        let (lacking, regained) = claim.map_or((NodeSet::EMPTY, 0), |claim| {
            let copies = &claim.busy().copies;
            (copies.lacking, copies.regained)
        });
        Ok(Self {
            lock: lock.id(),
            own: false,
            claim: key,
            entry: lock.entry().clone(),
            asks,
            voters,
            lacking,
            regained,
            verdict: Verdict::Open,
        })
    }

    /// Creates the extension of the lock of `claim`, which must be held and kept by this engine.
    pub(in crate::engine) fn of_kept(claim: ClaimKey, parts: &mut Parts) -> Option<Self> {
        let lock = parts.claims.lock_id(claim);
        let voters = parts.keeper.voters(claim, parts.nodes.set());
        let there = parts.claims.woken(claim);
        let there = there.filter(|claim| claim.is_held()).must()?;
        parts.keeper.looks.watch(claim, there, &parts.queues);
        Some(Self {
            lock,
            own: true,
            claim: Some(claim),
            entry: there.entry.clone(),
            asks: Asks::Extend { is_beyond: false },
            voters,
            lacking: there.busy().copies.lacking,
            regained: there.busy().copies.regained,
            verdict: Verdict::Open,
        })
    }

    pub(super) fn claim_in<'c>(&self, claims: &'c mut Claims) -> Option<(ClaimKey, &'c mut Claim)> {
        claims.keyed(self.claim)
    }

    // ----- asking -----------------------------------------------------------------------------

    /// Sets how long the nodes may take to answer, and excludes nodes whose answers do not count. Makes this question
    /// the newest question about its claim.
    fn prepare(&mut self, cx: &mut Context<'_>) {
        let end = self.entry.end();
        let ends = self.is_extension() || end != Instant::ZERO;
        cx.round.deadline = ends.then_some(end);
        if let Some((_, claim)) = self.claim_in(&mut cx.parts.claims) {
            claim.lives(self.entry.delay().life(cx.round.ttl));
            let busy = claim.busy_mut();
            busy.questions.begin(cx.round.key);
            busy.extending = busy.extending.saturating_add(self.is_extension().into());
        }
        self.tell_of_write(cx);
        let bounds = self.bounds(cx);
        let patience = Patience::for_vote(cx.round.ttl, &cx.parts.settings);
        for node in cx.parts.nodes.ids() {
            cx.round[node].deadline = patience.until(cx.now, &mut cx.parts.nodes[node]);
            bounds.leave_out(node, cx);
        }
    }

    /// Sends the question to `node`. `again` is `true` if the node has already refused the question in another form.
    /// Sends nothing if the outcome is already certain, or if the lock was released or handed over.
    pub(super) fn send(
        &self,
        node: NodeId,
        command: &mut Command,
        again: bool,
        cx: &mut Context<'_>,
    ) {
        let over = !cx.round.asks(node) || !self.is_open(&cx.parts.claims);
        if guard!(ExtensionRepairedAfterEnd, over) {
            return;
        }
        let mut watched = false;
        if self.is_extension()
            && let Some((_, claim)) = self.claim_in(&mut cx.parts.claims)
        {
            claim.busy_mut().copies.extending.insert(node);
            watched = claim.kept.as_ref().is_some_and(|kept| kept.is_watched());
        }
        if again {
            self.tell_of_write(cx);
        }
        let asking = Asking {
            question: match self.asks {
                Asks::Extend { .. } => Question::Extend,
                Asks::Confirm(_) => Question::Confirm,
            },
            operation: cx.round.key,
            claim: self.claim,
            entry: &self.entry,
            life: self.entry.delay().life(cx.round.ttl),
            watched,
            again,
            is_renewal: self.own,
        };
        let there = cx.parts.nodes.writing_to(node);
        there.ask_about(cx.now, command, &asking);
    }

    /// Makes waiters for the same resources ask the nodes again, because the write of an extension ends their
    /// registrations. A lock that was handed over or adopted may have waiters.
    fn tell_of_write(&self, cx: &mut Context<'_>) {
        if self.is_extension() && cx.parts.queues.is_anyone_waiting() {
            for name in self.entry.names() {
                cx.parts.wrote_to(cx.now, name);
            }
        }
    }

    // ----- answers ----------------------------------------------------------------------------

    /// Ends the question if its outcome is certain. If a majority keeps the lock, returns this majority instead of
    /// ending the question.
    fn kept_by(&mut self, cx: &mut Context<'_>) -> Option<Majority> {
        let verdict = cx.round.tally.extension()?;
        if !self.is_open(&cx.parts.claims) {
            self.decide(Verdict::Closed, cx);
            return None;
        }
        match verdict {
            Extending::Extended(majority) => return Some(majority),
            Extending::Lost => self.lose(cx),
            Extending::Unconfirmed => self.decide(Verdict::Unconfirmed, cx),
        }
        None
    }

    pub(in crate::engine) fn decide(&mut self, verdict: Verdict, cx: &mut Context<'_>) {
        self.forget(cx);
        self.verdict = verdict;
        cx.round.decide(cx.parts);
        // Does not withdraw waiting extensions of a kept lock, so that the remaining nodes extend the lock too.
        let nodes = match self.own && matches!(self.verdict, Verdict::Kept(..)) {
            true => cx.parts.nodes.without_waiting(),
            false => cx.parts.nodes.set(),
        };
        withdraw(nodes, cx);
    }

    /// Reports to the holder that a majority has lost the lock, and releases the remaining copies. A lock without a
    /// claim has no holder who needs the report. The copies of this lock are released only if the number of claims is
    /// below its limit. If the lock has a lock delay, its copies stay, because the holder may not stop immediately.
    fn lose(&mut self, cx: &mut Context<'_>) {
        let stays = self.entry.delay() != Delay::default();
        let told = match self.claim {
            Some(claim) => {
                let reason = loss(&cx.round.report(cx.now, &cx.parts.nodes));
                Some((claim, cx.parts.tell_lost(cx.now, claim, reason)))
            }
            None if !cx.parts.claims.has_room() => None,
            None => {
                let terms = (cx.round.ttl, self.entry.delay());
                let claim = cx.parts.adopt(cx.now, self.entry.clone(), terms);
                Some((claim, Questions::default()))
            }
        };
        self.entry.end_now(cx.now); // The holder sees the end of the lock before the report.
        self.decide(Verdict::Lost, cx);
        cx.lost = told.map(|(claim, open)| LostLock {
            claim,
            open,
            verdict: || Verdict::Lost,
            stays,
        });
    }

    /// Reports to the holder that the lock has ended, because a majority will keep it for no longer than the lock delay
    /// plus the drift.
    #[cold]
    pub(super) fn run_out(&mut self, cx: &mut Context<'_>) {
        cx.lost = self.claim.map(|claim| LostLock {
            claim,
            open: cx.parts.tell_lost(cx.now, claim, EXPIRED),
            verdict: || Verdict::Unconfirmed,
            stays: true,
        });
        self.decide(Verdict::RunOut, cx);
    }

    /// Removes the question from its claim, because it needs no more votes. A second call has no effect.
    fn forget(&self, cx: &mut Context<'_>) {
        if matches!(self.verdict, Verdict::Open)
            && let Some((_, claim)) = self.claim_in(&mut cx.parts.claims)
        {
            let busy = claim.busy_mut();
            busy.questions.end(cx.round.key);
            busy.extending = busy.extending.saturating_sub(self.is_extension().into());
        }
    }

    /// Returns `true` if this question is an extension. The other kind of question, a confirmation, does not change the
    /// keys.
    pub(in crate::engine) fn is_extension(&self) -> bool {
        matches!(self.asks, Asks::Extend { .. })
    }

    /// Returns `true` if an answer can still have an effect: the lock is held, and its end was not reported. For a lock
    /// without a claim, always returns `true`.
    fn is_open(&self, claims: &Claims) -> bool {
        self.claim
            .is_none_or(|key| claims.get(key).is_some_and(Claim::is_held))
    }

    /// Returns `true` if the question is open and concerns `claim`.
    pub(in crate::engine) fn is_about(&self, claim: ClaimKey, round: &Round) -> bool {
        round.is_voting() && self.claim == Some(claim)
    }

    // ----- outcomes ---------------------------------------------------------------------------

    #[inline]
    fn outcome(&mut self, cx: &mut Context<'_>) -> Option<Result<Extension, ExtendError>> {
        Some(match core::mem::replace(&mut self.verdict, Verdict::Open) {
            Verdict::Open => return None,
            Verdict::Lost => Err(ExtendError::Lost(cx.report(self))),
            Verdict::RunOut => Err(ExtendError::Expired),
            Verdict::Unconfirmed => Err(ExtendError::Unconfirmed(cx.report(self))),
            Verdict::Closed => Err(ExtendError::Closed),
            Verdict::Kept(majority, end) => Ok(self.kept(majority, end, &mut cx.parts.claims)),
        })
    }

    fn kept(&self, majority: Majority, end: Instant, claims: &mut Claims) -> Extension {
        let claim = self.claim_in(claims);
        let is_kept = claim.is_some_and(|(_, claim)| claim.kept.is_some());
        Extension {
            counts: self.is_extension() && !is_kept, // The engine has already counted an extension of a kept lock.
            lock: self.lock,
            entry: self.entry.clone(),
            majority,
            confirmed_until: end,
        }
    }
}

impl Operate for LockQuestion {
    fn begin(&mut self, cx: &mut Context<'_>) {
        self.prepare(cx);
        self.judge(cx);
        ask_all(self, cx);
        cx.round.arm(&mut cx.parts.timers);
    }

    fn about(&mut self, report: Report, _: &Parts) -> Report {
        report.of(Asked::Token).about(self.entry.names())
    }

    fn ask(&mut self, node: NodeId, command: &mut Command, cx: &mut Context<'_>) -> bool {
        cx.reach(node, Whose::Holder, |cx| {
            self.send(node, command, false, cx);
            Ok(())
        })
    }

    fn judge(&mut self, cx: &mut Context<'_>) {
        if let Some(majority) = self.kept_by(cx) {
            match self.asks {
                Asks::Extend { .. } => self.extended_by(majority, cx),
                Asks::Confirm(_) => self.confirmed_by(majority, cx),
            }
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let result = self.outcome(cx)?;
        let round = RoundId(cx.round.key);
        Some(match self.asks {
            Asks::Extend { .. } => self.extended(result, cx),
            Asks::Confirm(_) => Event::Confirmed { round, result },
        })
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        if let Reply::Again(_) = answer.reply {
            let mut command = cx.parts.claims.command();
            self.send(node, &mut command, true, cx);
            return cx.parts.claims.sent(command);
        }
        if ask_why(node, &self.entry, answer, cx) {
            return;
        }
        if let (Asks::Confirm(answers), Reply::Kept(kept)) = (&mut self.asks, answer.reply) {
            answers[node.index()] = kept;
        }
        self.vote(node, answer.reply.vote(), cx);
    }

    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        withdraw(nodes, cx);
    }

    fn rests_on_answers(&self) -> bool {
        true
    }

    /// A yes vote counts only within the old validity, and only from a node in `voters`.
    #[inline(always)]
    fn bounds(&mut self, cx: &Context<'_>) -> Bounds {
        // Reads the end of the validity again, because another operation may have set it since this operation began.
        let known = Some(self.entry.end()).filter(|end| *end != Instant::ZERO);
        Bounds {
            end: cx.round.deadline.into_iter().chain(known).min(),
            voters: Some(self.voters),
            claim: self.claim,
        }
    }

    fn cancel(&mut self, cx: &mut Context<'_>) {
        self.forget(cx);
    }

    /// Lets waiting extensions begin. If a node was found to have lost a kept lock, sends the node a copy immediately.
    fn end(&mut self, parts: &mut Parts) {
        let keeper = &mut parts.keeper;
        if let Some((key, claim)) = parts.claims.keyed(self.claim)
            && claim.kept.is_some()
            && (!claim.busy().is_adopted
                && !claim.busy().copies.lacking.without(self.lacking).is_empty()
                || keeper.looks.is_due(key))
        {
            keeper.ask(key, claim, &mut parts.news);
        }
        if self.own {
            if let Some(claim) = self.claim {
                parts.claims.rest(claim);
            }
            parts.keeper.ended(&mut parts.news);
        }
    }
}

/// Returns a word that tells operators what happened to the key of a lost lock.
#[cold]
fn loss(report: &Report) -> &'static str {
    let enough = report.nodes().len().saturating_sub(report.quorum()) + 1;
    let count = |said| {
        let nodes = report.nodes().iter();
        nodes.filter(|node| node.outcome == said).count()
    };
    if enough <= count(NodeOutcome::Missing) {
        "gone"
    } else if enough <= count(NodeOutcome::Held) {
        "taken"
    } else {
        "split"
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::error::NodeReport;
    use NodeOutcome::{Granted, Held, Missing};

    #[test]
    fn a_loss_has_the_reason_that_a_majority_gives() {
        for (said, reason) in [
            ([Missing, Missing, Granted], "gone"),
            ([Held, Granted, Held], "taken"),
            ([Missing, Held, Held], "taken"),
            ([Granted, Missing, Held], "split"),
        ] {
            let nodes = said.map(|said| NodeReport::new("a:1".into(), said, None));
            let report = Report::new(Instant::ZERO, nodes.into(), 2, 1, Duration::ZERO);
            assert_eq!(loss(&report), reason);
        }
    }
}
