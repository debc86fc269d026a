//! The operations that are open: their callers, their rounds, and what the answers of nodes mean to
//! them.
//!
//! # Guarantees
//!
//! * Every answer that counts passes here, and a verdict follows in the call that made it certain.
//! * What one operation decides for others (a lock that is lost, a cluster that is another's) reaches
//!   them in the same call.

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{LinkError, NodeOutcome};
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::ROUNDS_MAX;
use crate::node::{Reply, Request, Said, Trouble, wants_the_text};
use crate::quorum::Vote;
use crate::slab::Slab;
use crate::time::Instant;

use super::claims::Answer;
use super::claims::claim::Stage;
use super::contract::{Event, RoundId, Wake};
use super::operation::acquire::{self, Acquire};
use super::operation::held::Verdict;
use super::operation::round::{Ballot, Round};
use super::operation::{After, Context, Kind, Operation, confirm, extend};
use super::parts::Parts;
use super::pool::Pool;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Operations {
    slab: Slab<Operation>,
    ballots: Pool<Ballot>,
}

impl Operations {
    pub(super) const fn new() -> Self {
        Self {
            slab: Slab::new(),
            ballots: Pool::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns `true` if another operation would be one too many.
    pub(super) fn is_full(&self) -> bool {
        ROUNDS_MAX <= self.slab.len()
    }

    pub(super) fn get_mut(&mut self, operation: OperationKey) -> Option<&mut Operation> {
        self.slab.get_mut(operation.0)
    }

    /// Returns `operation` with what it works with, if it is an acquire.
    pub(super) fn acquire<'a>(
        &'a mut self,
        now: Instant,
        operation: OperationKey,
        parts: &'a mut Parts,
    ) -> Option<(&'a mut Acquire, Context<'a>)> {
        let (kind, cx) = self.get_mut(operation)?.at(now, parts);
        match kind {
            Kind::Acquire(acquire) => Some((acquire, cx)),
            Kind::Extend(_) | Kind::Confirm(_) | Kind::Release(_) | Kind::Reinit(_) => None,
        }
    }

    /// Returns the keys of all that are open, by age of their places.
    pub(super) fn keys(&self) -> Vec<OperationKey> {
        let keys = self.slab.iter().map(|(key, _)| OperationKey(key));
        keys.collect()
    }

    /// Returns why the timer of `operation` is armed.
    pub(super) fn wake(&self, operation: OperationKey) -> Wake {
        let operation = self.slab.get(operation.0);
        operation.map_or(Wake::Retry, |operation| operation.round.wake)
    }

    // ----- begin and end --------------------------------------------------------------------

    /// Opens an operation and asks the nodes. A lock is to have `ttl`; the caller waits until `deadline`.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        ttl: Duration,
        deadline: Option<Instant>,
        kind: Kind,
        parts: &mut Parts,
    ) -> RoundId {
        let operation = self.open(now, parts.nodes.len(), kind);
        operation.round.ttl = ttl;
        operation.round.deadline = deadline;
        let key = operation.round.key;
        let after = operation.begin(now, parts);
        self.follow(now, after, parts);
        RoundId(key)
    }

    /// Opens an operation over so many `nodes`, with none of them asked yet.
    pub(super) fn open(&mut self, now: Instant, nodes: usize, kind: Kind) -> &mut Operation {
        let round = Round::new(now, nodes, self.ballots.take());
        let key = self.slab.insert(Operation { round, kind });
        let operation = self.slab.get_mut(key).expect("it was just inserted");
        operation.round.key = OperationKey(key);
        operation
    }

    /// Returns the next event of `operation`, which ends with it. One that was cancelled, or tries
    /// again after all, has none.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        operation: OperationKey,
        parts: &mut Parts,
    ) -> Option<Event> {
        let event = self.get_mut(operation)?.tell(now, parts)?;
        self.end(operation, parts);
        Some(event)
    }

    /// Ends `operation` and frees its memory.
    pub(super) fn end(&mut self, key: OperationKey, parts: &mut Parts) {
        if let Some(operation) = self.slab.get_mut(key.0) {
            operation.end(parts);
            let ballots = core::mem::take(&mut operation.round.ballots);
            self.ballots.give(ballots);
            self.slab.discard(key.0);
        }
    }

    /// Ends `operation` without reporting its outcome, and releases what it may have locked.
    pub(super) fn cancel(&mut self, now: Instant, key: OperationKey, parts: &mut Parts) {
        self.take_extension_back(key, parts);
        if let Some(operation) = self.get_mut(key) {
            operation.cancel(now, parts);
            self.end(key, parts);
        }
    }

    /// The caller cancelled an extension that a majority had confirmed: the lock ends at the time
    /// that its holder knows, or is about to learn from another extension.
    fn take_extension_back(&self, cancelled: OperationKey, parts: &mut Parts) {
        let told = |operation: &Operation| operation.kind.held()?.about_to_be_told();
        let Some((claim, _)) = self.slab.get(cancelled.0).and_then(told) else {
            return;
        };
        let others = self.slab.iter().filter(|(key, _)| *key != cancelled.0);
        let ends = others.filter_map(|(_, other)| told(other));
        let ends = ends.filter(|(other, _)| *other == claim);
        let latest = ends.map(|(_, end)| end).max().unwrap_or(Instant::ZERO);
        if let Some(claim) = parts.claims.get_mut(claim)
            && guard!(CancelledExtensionStands, claim.is_held())
        {
            claim.valid_until = claim.valid_until.min(claim.told_until.max(latest));
            claim.watch(&mut parts.timers);
        }
    }

    // ----- verdicts that concern others -----------------------------------------------------

    /// Hands the operation of `key` to `act`, if it is still open, and does what follows for others.
    #[inline]
    fn with(
        &mut self,
        now: Instant,
        key: OperationKey,
        parts: &mut Parts,
        act: impl FnOnce(&mut Operation, &mut Parts) -> After,
    ) {
        if let Some(operation) = self.get_mut(key) {
            let after = act(operation, parts);
            self.follow(now, after, parts);
        }
    }

    /// Does what the verdict of one operation means for others.
    fn follow(&mut self, now: Instant, after: After, parts: &mut Parts) {
        match after {
            After::Nothing => {}
            After::Lost(claim) => {
                self.end_questions(now, claim, || Verdict::Lost, parts);
                parts.give_back(now, claim);
            }
        }
    }

    /// The lock of `claim` is over or given away: the questions about it that are open end without
    /// a result, and their callers get this verdict.
    pub(super) fn end_questions(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        verdict: impl Fn() -> Verdict,
        parts: &mut Parts,
    ) {
        while let Some(open) = self.question_about(claim, parts) {
            if let Some(operation) = self.get_mut(open) {
                operation.end_question(now, verdict(), parts);
            }
        }
        if let Some(claim) = parts.claims.get_mut(claim) {
            claim.extension = None;
        }
    }

    /// Returns a question about the lock of `claim` that is open, if there is one.
    fn question_about(&self, key: ClaimKey, parts: &Parts) -> Option<OperationKey> {
        let claim = parts.claims.get(key)?;
        if guard!(OlderExtensionGoesOn, claim.extended_beside) {
            let about = |operation: &Operation| {
                let held = operation.kind.held();
                held.is_some_and(|held| held.is_about(key, &operation.round))
            };
            let mut all = self.slab.iter();
            let open = all.find(|(_, operation)| about(operation));
            return open.map(|(open, _)| OperationKey(open));
        }
        let voting = |open: &OperationKey| {
            let operation = self.slab.get(open.0);
            operation.is_some_and(|operation| operation.round.is_voting())
        };
        claim.extension.filter(voting)
    }

    /// A node has said that it is another cluster's: every acquire is refused.
    pub(super) fn refuse_all(&mut self, now: Instant, parts: &mut Parts) {
        for key in self.keys() {
            if let Some((acquire, mut cx)) = self.acquire(now, key, parts) {
                acquire.refuse(&mut cx);
            }
        }
    }

    /// A majority answers again, which did not before.
    pub(super) fn regained(&mut self, now: Instant, parts: &mut Parts) {
        for key in self.keys() {
            if let Some((acquire, mut cx)) = self.acquire(now, key, parts) {
                acquire.regained(&mut cx);
            }
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// `node` has answered `request`.
    // In line: every answer passes here, and only those that do not count come from elsewhere.
    #[inline]
    pub(super) fn answered(
        &mut self,
        now: Instant,
        node: usize,
        request: Request,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        match request {
            Request::Set { claim } => self.set_answered(now, node, claim, reply, parts),
            Request::Release { claim, dialect, .. } => {
                let (claims, mut below) = parts.claims(now);
                let answer = claims.release_answered(node, claim, dialect, reply, &mut below)?;
                if let Some(answer) = answer {
                    self.release_counts(now, node, answer, parts);
                }
                Ok(())
            }
            Request::Extend { operation, claim } => {
                self.extend_answered(now, node, operation, claim, reply, parts)
            }
            Request::Confirm { operation, claim } => {
                self.confirm_answered(now, node, operation, claim, reply, parts)
            }
            Request::FirstSet { claim } => self.first_set_answered(now, node, claim, reply, parts),
            Request::Probe { claim } => self.native_answered(now, node, claim, reply, parts),
            Request::Why { operation } => {
                self.with(now, operation, parts, |operation, parts| {
                    operation.why_answered(now, node, reply, parts)
                });
                Ok(())
            }
            Request::Handshake(_) | Request::Time => Ok(()),
        }
    }

    fn release_counts(&mut self, now: Instant, node: usize, answer: Answer, parts: &mut Parts) {
        let Answer { operation, said } = answer;
        self.with(now, operation, parts, |operation, parts| {
            operation.vote(now, node, said, parts)
        });
    }

    /// `node` has answered the `SET` of `claim`.
    pub(super) fn set_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: ClaimKey,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let Some((said, stage)) = acquire::set_answered(now, node, claim, reply, parts)? else {
            return Ok(());
        };
        match stage {
            Stage::Attempt { operation } => {
                if let Some((acquire, mut cx)) = self.acquire(now, operation, parts) {
                    acquire.answered(node, said, &mut cx);
                }
            }
            Stage::Releasing { .. } => {
                parts.claims.settle(claim, &mut parts.timers);
            }
            Stage::Held { .. } => {}
        }
        Ok(())
    }

    fn extend_answered(
        &mut self,
        now: Instant,
        node: usize,
        operation: OperationKey,
        claim: Option<ClaimKey>,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let said = Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        if let Said::Refused(error) = said
            && guard!(NoscriptExtensionDropped, wants_the_text(error))
        {
            parts.nodes.forgot_scripts(now, node);
            if let Some(operation) = self.get_mut(operation) {
                operation.ask_by_text(now, node, parts);
            }
            return Ok(());
        }
        let verb = parts.nodes[node].extend_dialect().verb();
        let said = extend::learn(now, node, claim, said, parts);
        self.held_answered(now, node, operation, (verb, reply), said, parts);
        Ok(())
    }

    fn confirm_answered(
        &mut self,
        now: Instant,
        node: usize,
        operation: OperationKey,
        claim: Option<ClaimKey>,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let said = Said::of_confirmation(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        let (said, kept) = said;
        let said = confirm::learn(now, node, claim, said, parts);
        if let Some(Operation {
            kind: Kind::Confirm(confirm),
            ..
        }) = self.get_mut(operation)
        {
            confirm.is_kept(node, kept);
        }
        let verb = crate::node::Dialect::Text.verb();
        self.held_answered(now, node, operation, (verb, reply), said, parts);
        Ok(())
    }

    /// `node` has answered a question about a lock that is held. It was asked by the command `verb`.
    fn held_answered(
        &mut self,
        now: Instant,
        node: usize,
        operation: OperationKey,
        (verb, reply): (&'static str, Reply),
        said: (Vote, NodeOutcome),
        parts: &mut Parts,
    ) {
        let Some(operation) = self.get_mut(operation) else {
            return;
        };
        let after = match reply.missing(verb) {
            Some(missing) => {
                let outcome = NodeOutcome::Unusable(missing);
                operation.vote_held(now, node, (Vote::Abstain, outcome), parts)
            }
            None if operation.ask_why(now, node, reply, parts) => After::Nothing,
            None => operation.vote_held(now, node, said, parts),
        };
        self.follow(now, after, parts);
    }

    // ----- answers that do not count --------------------------------------------------------

    /// `node` has answered `request`, and the answer does not count. `first`: its answers counted
    /// until now.
    pub(super) fn answered_uncounted(
        &mut self,
        now: Instant,
        node: usize,
        request: Request,
        reply: Reply,
        (outcome, first): (NodeOutcome, bool),
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let operation = asked_by(request, parts);
        if let Some(operation) = operation.and_then(|key| self.get_mut(key)) {
            operation.round.lose(node, outcome);
        }
        self.answered(now, node, request, reply, parts)?;
        if first {
            self.lose_answers(now, node, outcome, parts);
        }
        if let Some(operation) = operation {
            self.with(now, operation, parts, |operation, parts| {
                operation.judge(now, parts)
            });
        }
        Ok(())
    }

    /// No operation counts `node` any more: neither an answer to come, nor a yes that it gave over the
    /// connection that is lost.
    pub(super) fn lose_votes(
        &mut self,
        now: Instant,
        node: usize,
        outcome: NodeOutcome,
        parts: &mut Parts,
    ) {
        for key in self.keys() {
            self.with(now, key, parts, |operation, parts| {
                operation.lose(now, node, outcome, parts)
            });
        }
    }

    /// No operation that may give a lock, or have it last, counts `node` any more.
    pub(super) fn lose_answers(
        &mut self,
        now: Instant,
        node: usize,
        outcome: NodeOutcome,
        parts: &mut Parts,
    ) {
        for key in self.keys() {
            self.with(now, key, parts, |operation, parts| {
                match operation.rests_on_answers() && operation.round.lose(node, outcome) {
                    true => operation.judge(now, parts),
                    false => After::Nothing,
                }
            });
        }
    }

    /// `node` has joined: passes that to the operation that asked for it.
    pub(super) fn joined(&mut self, now: Instant, node: usize, parts: &mut Parts) {
        let joined = (Vote::Yes, NodeOutcome::Granted);
        for key in self.keys() {
            self.with(now, key, parts, |operation, parts| match operation.kind {
                Kind::Reinit(_) => operation.vote(now, node, joined, parts),
                Kind::Acquire(_) | Kind::Extend(_) | Kind::Confirm(_) | Kind::Release(_) => {
                    After::Nothing
                }
            });
        }
    }

    // ----- what is due ----------------------------------------------------------------------

    /// The timer of `operation` has fired.
    pub(super) fn due(&mut self, now: Instant, operation: OperationKey, parts: &mut Parts) {
        self.with(now, operation, parts, |operation, parts| {
            operation.due(now, parts)
        });
    }

    /// The handshake of `node` is done: sends it the questions that waited for that.
    pub(super) fn ask_late(&mut self, now: Instant, node: usize, parts: &mut Parts) {
        for _ in 0..parts.nodes[node].waiting.len() {
            let Some(key) = parts.nodes[node].waiting.pop_front() else {
                break;
            };
            self.with(now, key, parts, |operation, parts| {
                operation.ask_late(now, node, parts)
            });
        }
    }
}

/// Returns the operation that sent `request`, if it is still about that.
fn asked_by(request: Request, parts: &Parts) -> Option<OperationKey> {
    match request {
        Request::Set { claim } | Request::FirstSet { claim } => {
            parts.claims.get(claim)?.attempted_by()
        }
        Request::Extend { operation, .. } | Request::Confirm { operation, .. } => Some(operation),
        Request::Handshake(_)
        | Request::Release { .. }
        | Request::Probe { .. }
        | Request::Why { .. }
        | Request::Time => None,
    }
}
