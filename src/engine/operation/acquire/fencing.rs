//! Taking a lock with a fencing token: what is different from one without.
//!
//! Each node that grants the lock raises a counter and returns it. The token is the largest of the numbers of a
//! majority. A node counts when its counter is known to have been that high while it had the key:
//!
//! * it has returned the token itself: one round trip is enough where all of a majority did;
//! * or it was asked to raise its counter to the token, had the key still, and said so.
//!
//! A node that grants the lock later, with a larger number, does not count: the token of another lock that it gave
//! before may be larger than this one.
//!
//! # Guarantees
//!
//! * No lock without a majority of nodes that count so, within the time of the attempt: a grant alone is no vote.
//! * An answer about an earlier attempt is not counted.
//!
//! # Not here
//!
//! Why that is enough: [`manual::safety`](crate::manual::safety). What a node does: `node::fencing`.

use alloc::boxed::Box;
use alloc::vec;

use super::Acquire;
use super::several::several_answered;
use crate::engine::answer::{Answer, Answered};
use crate::engine::operation::patience::Patience;
use crate::engine::operation::{Context, Operate};
use crate::engine::parts::Parts;
use crate::error::{LinkError, NodeOutcome, Unusable};
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId};
use crate::limits::FENCING_TOKEN_MAX;
use crate::node::{
    Command, Dialect, Forbidden, Reply, Said, Trouble, forbidden_to_fence, wants_the_text,
};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

/// What is kept of an acquisition with a fencing token besides.
#[derive(Debug)]
pub(in crate::engine) struct Fencing {
    proposal: u64,
    /// The number that each node has returned in the present attempt. Zero: none.
    numbers: Box<[u64]>,
    /// The token of the present attempt. Zero: it is not known yet.
    token: u64,
}

impl Fencing {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            proposal: 0,
            numbers: vec![0; nodes].into(),
            token: 0,
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }
}

impl Acquire {
    /// Another attempt begins.
    #[cold]
    pub(super) fn begin_fencing(&mut self, cx: &Context<'_>) {
        if let Some(fencing) = &mut self.fencing {
            fencing.proposal = cx.parts.fencing.propose(cx.now);
            fencing.numbers.fill(0);
            fencing.token = 0;
        }
    }

    /// Sends `node` the script that takes the lock. Returns `false` if it cannot, and that counts.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_fenced(
        &self,
        node: NodeId,
        command: &mut Command,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(fencing) = &self.fencing else {
            return true;
        };
        let Some((key, claim)) = cx.parts.claims.keyed(self.claim).must() else {
            return true;
        };
        let Some(entry) = claim.entry.as_ref().must() else {
            return true;
        };
        let there = cx.parts.nodes.writing_to(node);
        let terms = (claim.life(), fencing.proposal);
        if let Err(missing) = there.send_fenced_set(cx.now, key, command, entry, terms) {
            let outcome = NodeOutcome::Unusable(missing);
            return !cx.round.count(cx.now, node, Vote::Abstain, outcome);
        }
        claim.set_sent(node);
        true
    }

    /// `node` has granted the lock, and returned this number.
    #[cold]
    #[inline(never)]
    pub(super) fn counted(&mut self, node: NodeId, number: u64, cx: &mut Context<'_>) {
        let Some(fencing) = self.fencing.as_mut().filter(|_| cx.round.awaits(node)) else {
            return;
        };
        fencing.numbers[node.index()] = number;
        cx.round.granted(cx.now, node);
        if fencing.token != 0 {
            self.settle(node, cx);
            return;
        }
        let round = &cx.round;
        let granted = |node: &NodeId| fencing.numbers[node.index()] != 0 && round.awaits(*node);
        let granted: NodeSet = round.tally.open().filter(|node| granted(&node));
        if granted.len() < round.tally.quorum() {
            return;
        }
        let numbers = granted.iter().map(|node| fencing.numbers[node.index()]);
        fencing.token = numbers.max().unwrap_or(0);
        for node in granted.iter() {
            self.settle(node, cx);
        }
    }

    /// A node was left out with this `outcome`. If that is for lack of a floor, and too few nodes have one, the others
    /// that have none are not going to be repaired either.
    #[cold]
    #[inline(never)]
    pub(super) fn left_out(outcome: NodeOutcome, cx: &mut Context<'_>) {
        const IN_REPAIR: NodeOutcome = NodeOutcome::Unusable(Unusable::InRepair);
        if outcome == NodeOutcome::Unusable(Unusable::NoFloor) {
            let ballots = cx.round.ballots.iter_mut();
            for ballot in ballots.filter(|ballot| ballot.outcome == IN_REPAIR) {
                ballot.outcome = outcome;
            }
        }
    }

    /// The token is known, and `node` has granted the lock: it counts, or is asked to raise its counter.
    fn settle(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let Some(fencing) = self.fencing.as_ref().filter(|_| cx.round.awaits(node)) else {
            return; // The outcome is certain.
        };
        let (number, token) = (fencing.numbers[node.index()], fencing.token);
        if number == token {
            return self.vote(node, (Vote::Yes, NodeOutcome::Granted), cx);
        }
        if token < number {
            return self.vote(node, (Vote::Abstain, NodeOutcome::Granted), cx);
        }
        let claim = self
            .claim
            .and_then(|key| Some((key, cx.parts.claims.get(key)?)));
        let entry = claim.and_then(|(key, claim)| Some((key, claim.entry.as_ref()?)));
        if let Some((claim, entry)) = entry {
            // It has the time of another answer for it.
            let patience = Patience::for_vote(cx.round.ttl, &cx.parts.settings);
            let there = cx.parts.nodes.writing_to(node);
            cx.round[node].deadline = cx.now.saturating_add(patience.with(there));
            cx.round[node].outcome = NodeOutcome::Pending;
            there.send_raise(cx.now, claim, entry, token);
            cx.round.arm(&mut cx.parts.timers);
        }
    }
}

// ----- what is made of answers --------------------------------------------------------------

/// `node` has answered the script that takes the lock of the claim of `key`.
#[cold]
#[inline(never)]
pub(in crate::engine) fn set_answered(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    match reply {
        Reply::Fenced { said, number, .. } => {
            parts.nodes[node].knows_fenced_set();
            if 0 < said {
                parts.fencing.has_floor(node);
            }
            match (i64::from(said), u64::try_from(number)) {
                (1, Ok(number @ 1..=FENCING_TOKEN_MAX)) => {
                    parts.fencing.saw(number);
                    let answered = super::set_answered(now, node, key, Reply::Ok, parts)?;
                    Ok(answered.map(|(operation, answer)| {
                        let granted = matches!(answer, Answer::Vote((Vote::Yes, _)));
                        (operation, either(granted, Answer::Counted(number), answer))
                    }))
                }
                (-1, Ok(1..)) => withheld(now, node, key, Unusable::NoMoreTokens, parts),
                (-1, _) => {
                    let why = parts.has_no_floor(node);
                    withheld(now, node, key, why, parts)
                }
                (said @ ..=-2, _) => match forbidden_to_fence(said) {
                    Some(missing) => {
                        parts.nodes[node].forgot_fenced_set(); // It asks the next time too.
                        withheld(now, node, key, missing, parts)
                    }
                    None => super::set_answered(now, node, key, Reply::Other, parts),
                },
                (2, _) if !is_for_several(key, parts) => {
                    super::set_answered(now, node, key, Reply::Nil, parts)
                }
                (said @ 2.., _) => several_answered(now, node, key, said, parts),
                (0 | 1, _) => super::set_answered(now, node, key, Reply::Other, parts),
            }
        }
        Reply::Forbidden(Forbidden::Command | Forbidden::Key | Forbidden::Part) => {
            let by_digest = parts.nodes[node].forgot_fenced_set();
            let dialect = match by_digest {
                true => Dialect::Sha1,
                false => Dialect::Text,
            };
            let missing = reply.missing(dialect.verb());
            let missing = missing.unwrap_or(Unusable::NoPermission);
            withheld(now, node, key, missing, parts)
        }
        Reply::Error(error) if wants_the_text(error) => {
            parts.nodes[node].forgot_fenced_set(); // Others may have been told so before.
            let said = Answer::Forgotten(NodeOutcome::Refused(error));
            not_taken(now, node, key, said, parts)
        }
        Reply::Error(_) | Reply::Forbidden(Forbidden::Within) => {
            super::set_answered(now, node, key, reply, parts)
        }
        Reply::Ok | Reply::Nil | Reply::Integer(_) | Reply::Pair(..) | Reply::Other => {
            super::set_answered(now, node, key, Reply::Other, parts)
        }
    }
}

/// The lock was not taken on `node`, for this reason.
fn withheld(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    why: Unusable,
    parts: &mut Parts,
) -> Answered {
    let said = Answer::Withheld(NodeOutcome::Unusable(why));
    not_taken(now, node, key, said, parts)
}

/// The lock was not taken on `node`, and nobody else has it: the operation is told this.
fn not_taken(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    said: Answer,
    parts: &mut Parts,
) -> Answered {
    let answered = super::set_answered(now, node, key, Reply::Nil, parts)?;
    Ok(answered.map(|(operation, answer)| {
        let is_nil = matches!(answer, Answer::Nil);
        (operation, either(is_nil, said, answer))
    }))
}

fn either(first: bool, one: Answer, other: Answer) -> Answer {
    match first {
        true => one,
        false => other,
    }
}

fn is_for_several(key: ClaimKey, parts: &Parts) -> bool {
    parts
        .claims
        .get(key)
        .is_some_and(|claim| claim.is_for_several())
}

/// A node has answered whether it has raised the counters of the claim of `key` to its token.
#[cold]
#[inline(never)]
pub(in crate::engine) fn raise_answered(key: ClaimKey, reply: Reply, parts: &Parts) -> Answered {
    let said = Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
    let vote = match said {
        Said::Missing => (Vote::Abstain, NodeOutcome::Missing), // Nobody has it there.
        Said::Done | Said::Foreign | Said::Refused(_) => said.vote(),
    };
    let claim = parts.claims.get(key);
    // It is about its present attempt alone.
    let operation = claim.and_then(|claim| claim.attempted_by());
    Ok(operation.map(|operation| (operation, Answer::Vote(vote))))
}
