//! Taking a lock: attempts, verdicts, retries.
//!
//! Redlock, section "The Redlock Algorithm", steps 1 to 5. The time is taken before the first byte, and the same
//! `SET .. NX PX` goes to all nodes at once. A majority decides. An attempt that fails releases what it locked, waits a
//! random time, and begins again with a fresh token.

mod answers;
mod changes;
pub(in crate::engine) mod fencing;
mod nodes;
mod outcome;
mod several;
mod turns;
mod waiting;

use alloc::boxed::Box;

use rand::Rng;
use rand::rngs::StdRng;

use crate::entry::Entry;
use crate::error::{LockError, NodeOutcome};
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey, WaiterKey};
use crate::limits::{TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES};
use crate::node::{Access, Answer, Command, Whose};
use crate::quorum::{Acquisition, Majority, NodeSet, Vote};
use crate::time::Instant;

use super::ballot::Bounds;
use super::round::{Ballot, State};
use super::top_up::copy_late;
use super::{Change, Context, Operate, ask_all, ask_one};
use crate::engine::check::is_out_of_reach;
use crate::engine::contract::{Event, Request, RoundId};
use crate::engine::parts::Parts;
use crate::engine::queues::{Refusal, Waiter};
pub(in crate::engine) use answers::take_answered;
use fencing::Fencing;
use nodes::{name_other_clusters, prepare_ballots, why_no_quorum};
use several::Several;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Acquire {
    /// The claim of the present attempt.
    claim: Option<ClaimKey>,
    /// The place of the resource. If there are several, the place at which it waits.
    place: PlaceKey,
    /// Set if it waits or has waited for its turn. Its caller then knows it by this key.
    waiter: Option<WaiterKey>,
    /// `None`: as many as the time allows.
    tries_allowed: Option<u32>,
    extensions: u32,
    /// How many nanoseconds the engine keeps the lock. Zero: it does not.
    keep: u64,
    verdict: Verdict,
    /// `None`: it wants one resource.
    several: Option<Box<Several>>,
    /// `None`: it wants no fencing token.
    fencing: Option<Box<Fencing>>,
}

/// The state of an attempt.
#[derive(Debug)]
enum Verdict {
    /// No verdict yet.
    Open,
    Granted(Majority, Instant),
    Refused(Refusal),
    /// The lock was handed out. Its claim has the place now.
    HandedOut,
}

impl Acquire {
    /// Makes the acquisition for `request` at the `place` of its resource.
    pub(in crate::engine) fn new(
        request: &Request<'_>,
        tries_allowed: Option<u32>,
        place: PlaceKey,
    ) -> Self {
        Self {
            claim: None,
            place,
            waiter: None,
            tries_allowed,
            extensions: request.options.extensions_left(),
            keep: request.options.kept_nanos(),
            verdict: Verdict::Open,
            several: None,
            fencing: None,
        }
    }

    /// Asks for a fencing token.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn fence(&mut self, parts: &mut Parts) {
        parts.fencing.set_used();
        let spare = parts.fencing.take_spare();
        self.fencing = Some(spare.unwrap_or_else(|| Box::new(Fencing::new(parts.nodes.len()))));
    }

    /// Makes it an acquisition of several resources, which have these `places`.
    pub(in crate::engine) fn of_several(mut self, places: Box<[PlaceKey]>, nodes: usize) -> Self {
        self.several = Some(Box::new(Several::new(places, nodes)));
        self
    }

    /// Makes the operation of `waiter` again from its `kept` record. Its lock is kept for `keep` nanoseconds.
    pub(in crate::engine) fn opened(waiter: WaiterKey, kept: &Waiter, keep: u64) -> Self {
        Self {
            claim: None,
            place: kept.place,
            waiter: Some(waiter),
            tries_allowed: kept.tries_allowed(),
            extensions: kept.extensions,
            keep,
            verdict: Verdict::Open,
            several: None,
            fencing: None,
        }
    }

    /// Returns the id under which its caller knows it. `key` is its key while it is open.
    pub(in crate::engine) fn name(&self, key: OperationKey) -> RoundId {
        RoundId(self.waiter.map_or(key, OperationKey::of_waiter))
    }

    // ----- an attempt -------------------------------------------------------------------------

    /// Begins another attempt.
    fn attempt(&mut self, cx: &mut Context<'_>) {
        cx.round.reset(cx.now, cx.parts);
        self.ask_nodes(cx);
    }

    /// Makes one attempt, whose round must be new: the same bytes go to every node before any answer is read.
    fn ask_nodes(&mut self, cx: &mut Context<'_>) {
        let parts = &mut *cx.parts;
        let entry = match (&self.several, &self.fencing) {
            (None, None) => self.fresh_entry(parts),
            (Some(_), _) | (None, Some(_)) => self.fresh_entry_of_several(cx.now, parts),
        };
        let delay = parts.settings.delay;
        let life = delay.life(cx.round.ttl);
        let entry = entry.delayed(delay);
        self.claim = Some(cx.parts.claims.attempt(cx.round.key, entry, life));
        cx.parts.nodes.reconnect_early(cx.now, &mut cx.parts.timers);
        prepare_ballots(cx);
        if !self.refuse_for_other_cluster(cx) {
            self.judge(cx); // If no majority can be reached, no node is asked.
            ask_all(self, cx);
            if cx.round.is_voting() {
                cx.round.arm(&mut cx.parts.timers);
            }
        }
    }

    /// Returns an entry for the resource with a fresh token.
    #[inline]
    fn fresh_entry(&self, parts: &mut Parts) -> Entry {
        let (spare, owner) = (
            parts.claims.spares.take().unwrap_or_default(),
            &parts.settings.owner,
        );
        let resource = parts.queues.name(self.place);
        with_fresh_token(&mut parts.random, owner, |token| {
            Entry::new(spare, resource, token)
        })
    }

    /// Asks `node` late: its handshake is done, or it has shown that it can release locks.
    fn ask_now(&mut self, node: NodeId, cx: &mut Context<'_>) {
        match cx.parts.nodes[node].access() {
            _ if self.claim.is_none() => {} // It waits between attempts.
            Access::Open => {
                Bounds::NONE.leave_out(node, cx);
                ask_one(self, node, cx);
            }
            Access::Handshake { .. } => {}
            Access::Shut(outcome) => self.vote(node, (Vote::Abstain, outcome), cx),
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// Returns `true` if a nil came from a key of our own, whose release is under repair on `node`.
    fn meets_own_key(&self, node: NodeId, cx: &Context<'_>) -> bool {
        let claims = &cx.parts.claims;
        let claim = self.claim.and_then(|key| claims.get(key)).must();
        let ours = claim.is_some_and(|claim| {
            cx.parts.nodes[node].is_repairing(claims.meets_own(node, &claim.entry))
        });
        guard!(NilIsHeld, ours)
    }

    /// Sends the `SET` to `node` once more. Either it was not run, or it met a key of our own, whose `release` goes
    /// before it. This happens once, and only while the attempt awaits `node`. If the release is not written yet, the
    /// `SET` waits for it. Returns `true` if the `SET` was sent or waits.
    fn ask_again(&mut self, node: NodeId, release: bool, cx: &mut Context<'_>) -> bool {
        let claim = self
            .claim
            .and_then(|key| Some((key, cx.parts.claims.get(key)?)));
        let Some((_, claim)) = claim.must() else {
            return false;
        };
        if cx.round[node].asked_again || !cx.round.awaits(node) {
            return false;
        }
        let transactions = &cx.parts.nodes[node].connection.transactions;
        // A `SET` that is sent now would precede a release that is not written yet.
        if release && transactions.is_to_release(cx.parts.claims.meets_own(node, &claim.entry)) {
            return cx.round.wait_for(node, Whose::Other, &mut cx.parts.nodes);
        }
        if release {
            cx.parts.claims(cx.now).try_debts_again(node);
        }
        let open = cx.parts.nodes[node].access() == Access::Open;
        if open {
            cx.round[node].asked_again = true;
            ask_one(self, node, cx);
        }
        open
    }

    // ----- verdicts -------------------------------------------------------------------------

    /// A majority granted the lock. It is a lock only if validity is left.
    fn win(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let drift = cx.parts.settings.drift;
        let valid_until = drift.valid_until(cx.round.sent, cx.round.ttl);
        if has_run_out(cx.now, valid_until) {
            self.fail(Refusal::TooSlow, cx);
        } else {
            self.decide(Verdict::Granted(majority, valid_until), cx);
        }
    }

    /// The attempt failed. Releases what it locked, and begins another if the caller has tries and time left.
    fn fail(&mut self, refusal: Refusal, cx: &mut Context<'_>) {
        let Some(claim) = self.claim.take().must() else {
            return;
        };
        // If only an operator can make a majority possible again, no later attempt would succeed.
        let outcomes = cx.round.ballots.iter().map(|ballot| ballot.outcome);
        let rest = match refusal == Refusal::OtherCluster || is_out_of_reach(outcomes) {
            true => None,
            false => self.rest(cx),
        };
        cx.parts.give_back(cx.now, claim);
        match rest {
            Some(until) => self.rest_after(refusal, until, cx),
            None => self.decide(Verdict::Refused(refusal), cx),
        }
    }

    /// Waits after a refused attempt. The random delay ends at `until`.
    fn rest_after(&mut self, refusal: Refusal, until: Instant, cx: &mut Context<'_>) {
        match self.several {
            None => self.rest_until(until, refusal, NodeSet::EMPTY, cx),
            Some(_) => self.rest_several(until, refusal, cx),
        }
    }

    /// A majority has granted the lock before `node` got its `SET`, so `node` gets a copy.
    #[cold]
    fn granted_without(&self, node: NodeId, end: Instant, cx: &mut Context<'_>) {
        let claim = cx.parts.claims.keyed(self.claim);
        let tried = claim.map(|(key, claim)| (key, claim.entry.clone()));
        if let Some((key, entry)) = tried {
            copy_late(cx.now, node, (key, &entry), end, cx.parts);
        }
    }

    fn decide(&mut self, verdict: Verdict, cx: &mut Context<'_>) {
        self.verdict = verdict;
        cx.round.stop_resting(cx.parts);
        cx.round.decide(cx.parts);
        let all = cx.parts.nodes.set();
        let withdrawn = self.take_back(all, cx);
        if let (false, &Verdict::Granted(_, end)) = (withdrawn.is_empty(), &self.verdict) {
            self.copy_withdrawn(withdrawn, end, cx);
        }
    }

    /// Withdraws its `SET`s to `nodes` if no byte of them has left. Returns the nodes of these `SET`s.
    fn take_back(&mut self, nodes: NodeSet, cx: &mut Context<'_>) -> NodeSet {
        let claim = self.claim;
        claim.map_or(NodeSet::EMPTY, |key| {
            cx.parts.claims(cx.now).take_back(key, nodes)
        })
    }

    /// A majority has granted the lock before a `SET` could leave for `nodes`. Nodes that first had to show how they
    /// release locks get a copy.
    #[cold]
    fn copy_withdrawn(&self, nodes: NodeSet, end: Instant, cx: &mut Context<'_>) {
        for node in nodes.iter() {
            if cx.parts.nodes[node].abilities.is_without_scripts() {
                self.granted_without(node, end, cx);
            }
        }
    }

    /// Ends this acquisition, which is `operation`.
    pub(in crate::engine) fn leave(&mut self, operation: OperationKey, parts: &mut Parts) {
        if let Some(fencing) = self.fencing.take() {
            parts.fencing.give_spare(fencing);
        }
        let (queues, buffers) = (&mut parts.queues, &mut parts.claims.buffers);
        match (&self.verdict, self.waiter) {
            (Verdict::HandedOut, None) => {}
            (Verdict::HandedOut, Some(waiter)) => queues.waiters.forget(waiter),
            _ if self.several.is_some() => self.leave_several(operation, parts),
            (_, waiter) => queues.leave(self.place, operation, waiter, buffers),
        }
    }

    // ----- other groups -----------------------------------------------------------------------

    /// Refuses the attempt if any node belongs to another group. Returns `true` if it did.
    fn refuse_for_other_cluster(&mut self, cx: &mut Context<'_>) -> bool {
        let any = guard!(OtherClusterIgnored, name_other_clusters(cx));
        if any && self.claim.is_some() {
            self.fail(Refusal::OtherCluster, cx);
        } else if any {
            self.decide(Verdict::Refused(Refusal::OtherCluster), cx);
        }
        any
    }
}

impl Operate for Acquire {
    /// Asks at once if it is its turn. An operation that makes one attempt never waits for its turn. It asks beside the
    /// others, or is refused at once if this engine holds the lock.
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.several.is_some() {
            return self.begin_several(cx);
        }
        let turn = cx.parts.queues.contend(self.place, cx.round.key);
        let once = self.tries_allowed == Some(1);
        let leaves =
            turn && !once && cx.parts.queues.leaves_first(cx.now, self.place) && self.has_time(cx);
        if !leaves && (turn || once && !self.is_held_here(cx)) {
            self.ask_nodes(cx);
            return;
        }
        cx.round.tries = 0;
        if leaves {
            cx.parts.leave_to_others(cx.now, self.place);
            self.go_on(cx);
        } else if self.refuse_for_other_cluster(cx) {
            // It is refused, and asks no node.
        } else if once {
            self.give_up_waiting(cx);
        } else {
            self.queue(cx);
        }
    }

    /// Asks also nodes that do not vote: their keys keep others out.
    fn ask(&mut self, node: NodeId, command: &mut Command, cx: &mut Context<'_>) -> bool {
        if !cx.round.asks(node) {
            return true;
        }
        if !cx.parts.nodes[node].handshake.is_ready() {
            return cx.round.wait_for(node, Whose::Other, &mut cx.parts.nodes);
        }
        cx.round[node].asked = true;
        let Some((key, claim)) = cx.parts.claims.keyed(self.claim).must() else {
            return true;
        };
        let there = cx.parts.nodes.writing_to(node);
        let proposal = self.fencing.as_ref().map(|fencing| fencing.proposal());
        match there.take(cx.now, key, command, &claim.entry, (claim.life(), proposal)) {
            Ok(true) => claim.set_sent(node),
            Ok(false) => {} // The node shows first how it releases locks.
            Err(missing) => {
                let outcome = NodeOutcome::Unusable(missing);
                return !cx.round.count(cx.now, node, Vote::Abstain, outcome);
            }
        }
        true
    }

    fn judge(&mut self, cx: &mut Context<'_>) {
        match cx.round.tally.acquisition() {
            None => {}
            Some(Acquisition::Granted(majority)) => self.win(majority, cx),
            Some(Acquisition::Held) => self.fail(Refusal::Held, cx),
            Some(Acquisition::NoQuorum) => {
                let refusal = why_no_quorum(cx);
                self.fail(refusal, cx);
            }
        }
    }

    /// If the validity has run out since the grant, the lock is released here and not handed out.
    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        if let Verdict::Granted(_, valid_until) = self.verdict
            && guard!(StaleNow, has_run_out(cx.now, valid_until))
        {
            self.fail(Refusal::TooSlow, cx);
            return None;
        }
        let result = match core::mem::replace(&mut self.verdict, Verdict::Open) {
            Verdict::Open | Verdict::HandedOut => return None,
            Verdict::Granted(majority, until) => {
                let mut lock = self.hand_out(&majority, until, cx);
                if self.keep != 0 {
                    self.keep(lock.as_mut(), cx);
                }
                // An invariant is broken: a lock that cannot be handed out is none.
                lock.ok_or_else(|| LockError::TooSlow(cx.report()))
            }
            Verdict::Refused(refusal) => {
                let why = match refusal {
                    Refusal::Held => LockError::Held(self.report_held(cx)),
                    // Adds what the nodes said in earlier attempts, if that says more.
                    Refusal::NoQuorum => {
                        cx.round.explain(&cx.parts.nodes);
                        let nodes = &cx.parts.nodes;
                        LockError::NoQuorum(cx.round.report_by(cx.now, nodes, Ballot::cause))
                    }
                    Refusal::TooSlow => LockError::TooSlow(cx.report()),
                    Refusal::Saturated => LockError::Saturated,
                    Refusal::OtherCluster => LockError::OtherCluster(cx.report()),
                };
                cx.parts.stats.refused(cx.now, cx.round.started, &why);
                Err(why)
            }
        };
        let round = self.name(cx.round.key);
        Some(Event::Acquired { round, result })
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        self.hear(node, answer, cx);
    }

    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        self.changed(change, cx);
    }

    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        self.take_back(nodes, cx);
    }

    fn rests_on_answers(&self) -> bool {
        true
    }

    fn woke(&mut self, until: Instant, cx: &mut Context<'_>) {
        match cx.round.state {
            State::Queued { .. } => self.waited(until, cx),
            State::Resting { .. } => self.rested(until, cx),
            State::Voting | State::Decided => {}
        }
    }

    fn cancel(&mut self, cx: &mut Context<'_>) {
        if let Some(claim) = self.claim.take() {
            cx.parts.give_back(cx.now, claim);
        }
    }
}

/// Returns `true` if a lock that was valid until `valid_until` is over at `now`.
fn has_run_out(now: Instant, valid_until: Instant) -> bool {
    guard!(ValidityUnchecked, valid_until <= now)
}

/// Passes a fresh token to `make` and returns the result.
#[inline(always)]
fn with_fresh_token(random: &mut StdRng, owner: &[u8], make: impl FnOnce(&[u8]) -> Entry) -> Entry {
    let mut token = [0; TOKEN_BYTES_MAX];
    random.fill_bytes(&mut token[..TOKEN_RANDOM_BYTES]);
    let len = TOKEN_RANDOM_BYTES + owner.len();
    token[TOKEN_RANDOM_BYTES..len].copy_from_slice(owner);
    make(&token[..len])
}
