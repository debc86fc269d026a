//! Takes a lock: makes attempts, counts the votes, and tries again.
//!
//! This module implements steps 1 to 5 of "The Redlock Algorithm". The engine reads the time before it sends the first
//! byte. The engine sends the same `SET` with `NX` and `PX` to all nodes without waiting for answers. A majority of the
//! nodes decides. After a failed attempt, the engine releases what the attempt has locked, waits for a random time, and
//! begins again with a fresh token.

mod answers;
pub(in crate::engine) mod fencing;
mod nodes;
mod outcome;
pub(in crate::engine) mod permit;
mod several;
mod shared;
mod turns;
mod waiting;

use alloc::boxed::Box;

use rand::Rng;

use crate::config::Owner;
use crate::entry::Entry;
use crate::error::{LockError, NodeOutcome, Report};
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey, WaiterKey};
use crate::limits::{TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES};
use crate::node::{Access, Answer, Command, Whose};
use crate::quorum::{Acquisition, Majority, NodeSet, Vote};
use crate::time::Instant;

use super::ballot::Bounds;
use super::round::{Round, State};
use super::{Change, Context, Operate, ask_all, ask_one};
use crate::engine::check::is_out_of_reach;
use crate::engine::contract::{Event, Request, RoundId};
use crate::engine::parts::Parts;
use crate::engine::queues::{Extra, Refusal, Waiter, Wants};
pub(in crate::engine) use answers::take_answered;
use fencing::Fencing;
use nodes::{name_other_groups, prepare_ballots, why_no_quorum};
use several::Several;
use shared::Reading;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Acquire {
    /// The claim of the current attempt.
    claim: Option<ClaimKey>,
    /// The place of the resource in the queues. For several resources, this is the place where the acquisition waits.
    place: PlaceKey,
    /// The acquisition's record in the queue of `place`, if it waits or has waited for its turn. The caller identifies
    /// the acquisition by this record. An acquisition of several resources has a record in each queue, and no record
    /// here.
    waiter: Option<WaiterKey>,
    /// The number of attempts that the caller allows. `None` if only time limits the number of attempts.
    tries_allowed: Option<u32>,
    extensions: u32,
    /// The number of nanoseconds for which the engine keeps the lock. Zero means that the engine does not keep the
    /// lock.
    keep: u64,
    verdict: Verdict,
    /// The additional state, or `None` if the caller wants an exclusive lock on one resource.
    special: Option<Box<Special>>,
    /// The state for fencing tokens, or `None` if the caller wants no fencing token and uses the handle's owner.
    fencing: Option<Box<Fencing>>,
}

/// The additional state of an acquisition of several resources, of a shared lock or of a permit.
#[derive(Debug)]
enum Special {
    Several(Several),
    Reading(Reading),
}

/// The state of an attempt.
#[derive(Debug)]
enum Verdict {
    /// The votes of the attempt are not decided yet.
    Open,
    Granted(Majority, Instant),
    Refused(Refusal),
    /// The lock was handed out. The claim of the lock now owns the place.
    HandedOut,
}

impl Acquire {
    /// Creates the acquisition for `request`, and enters the places of its resources.
    #[inline]
    pub(in crate::engine) fn of(
        request: &Request<'_>,
        tries_allowed: Option<u32>,
        parts: &mut Parts,
    ) -> Self {
        let (options, nodes) = (request.options, parts.nodes.len());
        let mut enter = |name: &&[u8]| parts.queues.enter(name, &mut parts.claims);
        let (places, place) = match request.resources() {
            [name] => (None, enter(name)),
            names => {
                let places: Box<[_]> = names.iter().map(enter).collect();
                let first = places[0];
                (Some(places), first)
            }
        };
        let terms = (tries_allowed, options.extensions_left());
        let mut acquire = Self::new(place, terms, options.kept_nanos());
        if options.is_rare() {
            acquire.want(options.is_fenced(), options.own_owner(), parts);
        }
        if let Some(places) = places {
            acquire.special = Some(Box::new(Special::Several(Several::new(places, nodes))));
        } else if request.shared {
            acquire.share();
        } else if let Some(permits) = request.permits {
            acquire.permit(permits, nodes);
        }
        acquire
    }

    fn new(place: PlaceKey, (tries_allowed, extensions): (Option<u32>, u32), keep: u64) -> Self {
        Self {
            claim: None,
            place,
            waiter: None,
            tries_allowed,
            extensions,
            keep,
            verdict: Verdict::Open,
            special: None,
            fencing: None,
        }
    }

    /// Applies options that few requests have: a fencing token, or an owner for this lock alone.
    #[cold]
    #[inline(never)]
    fn want(&mut self, fenced: bool, owner: Option<&Owner>, parts: &mut Parts) {
        if fenced {
            parts.fencing.set_used();
        }
        let spare = parts.spares.take();
        let mut fencing = spare.unwrap_or_else(|| Box::new(Fencing::new(parts.nodes.len())));
        fencing.set_wishes(fenced, owner.copied());
        self.fencing = Some(fencing);
    }

    /// Returns the additional state of an acquisition that wants a fencing token.
    fn fenced(&self) -> Option<&Fencing> {
        self.fencing.as_deref().filter(|it| it.is_wanted)
    }

    /// Restores an acquisition that has waited as `waiter`, from the `kept` record and the additional options.
    pub(in crate::engine) fn opened(
        waiter: WaiterKey,
        kept: &Waiter,
        extra: &Extra,
        parts: &mut Parts,
    ) -> Self {
        let terms = (kept.tries_allowed(), kept.extensions);
        let mut acquire = Self::new(kept.place, terms, extra.keep);
        acquire.waiter = Some(waiter);
        if extra.fenced || extra.owner.is_some() {
            acquire.want(extra.fenced, extra.owner.as_deref(), parts);
        }
        if extra.shared {
            acquire.share();
        } else if extra.permits != 0 {
            acquire.permit(extra.permits, parts.nodes.len());
        }
        acquire
    }

    /// Returns the id by which the caller identifies this acquisition. `key` is the key of the acquisition while it is
    /// open.
    pub(in crate::engine) fn name(&self, key: OperationKey) -> RoundId {
        RoundId(self.waiter.map_or(key, OperationKey::of_waiter))
    }

    /// Returns the additional state of an acquisition of several resources.
    #[inline]
    fn several(&self) -> Option<&Several> {
        match self.special.as_deref()? {
            Special::Several(several) => Some(several),
            Special::Reading(_) => None,
        }
    }

    /// Returns the additional state of an acquisition of a shared lock or a permit.
    #[inline]
    fn reading(&self) -> Option<&Reading> {
        match self.special.as_deref()? {
            Special::Several(_) => None,
            Special::Reading(reading) => Some(reading),
        }
    }

    /// Returns the places of the resources.
    #[inline]
    pub(in crate::engine) fn places(&self) -> &[PlaceKey] {
        match self.several() {
            None => core::slice::from_ref(&self.place),
            Some(several) => &several.places,
        }
    }

    /// Calls `act` with each place of the acquisition.
    #[inline(always)]
    fn each_place(&self, mut act: impl FnMut(PlaceKey)) {
        match self.several() {
            None => act(self.place), // Not a loop, because nearly all locks are on one resource.
            Some(several) => several.places.iter().for_each(|place| act(*place)),
        }
    }

    // ----- attempts ---------------------------------------------------------------------------

    /// Makes one attempt in a new round. The engine sends the same bytes to every node before it reads any answer.
    fn ask_nodes(&mut self, cx: &mut Context<'_>) {
        let parts = &mut *cx.parts;
        let entry = self.fresh_entry(cx.now, parts);
        let delay = parts.settings.delay;
        let life = delay.life(cx.round.ttl);
        let entry = entry.delayed(delay);
        self.claim = Some(cx.parts.claims.attempt(cx.round.key, entry, life));
        cx.parts.nodes.reconnect_early(cx.now, &mut cx.parts.timers);
        prepare_ballots(cx);
        if !self.refuse_for_other_group(cx) {
            self.judge(cx); // If no majority can be reached, no node is asked.
            ask_all(self, cx);
            if cx.round.is_voting() {
                cx.round.arm(&mut cx.parts.timers);
            }
        }
    }

    /// Returns an entry for the resources with a fresh token. If the caller wants a fencing token, the token has space
    /// for it.
    #[inline]
    fn fresh_entry(&mut self, now: Instant, parts: &mut Parts) -> Entry {
        let spare = parts.claims.spares.take().unwrap_or_default();
        let owner = &parts.settings.owner;
        let mut token = [0; TOKEN_BYTES_MAX];
        parts.random.fill_bytes(&mut token[..TOKEN_RANDOM_BYTES]);
        let mut len = TOKEN_RANDOM_BYTES + owner.len();
        token[TOKEN_RANDOM_BYTES..len].copy_from_slice(owner);
        let name = parts.queues.name(self.place);
        if self.special.is_none() && self.fencing.is_none() {
            return Entry::new(spare, name, &token[..len]);
        }
        let shared = self.reading().is_some();
        if let Some(fencing) = &mut self.fencing {
            fencing.begin(parts.fencing.propose(now));
            len = fencing.name_in(&mut token, len, shared);
        }
        let token = &token[..len];
        let is_fenced = self.fenced().is_some();
        match self.special.as_deref_mut() {
            None => {}
            Some(Special::Several(several)) => several.forget_named(),
            Some(Special::Reading(reading)) => {
                let waited = (self.waiter.is_some(), parts.queues.given_back(self.place));
                let random = &mut parts.random;
                return reading.entry((spare, name, token), (waited, is_fenced), random);
            }
        }
        let names = self.places().iter().map(|place| parts.queues.name(*place));
        match self.fenced() {
            None => Entry::of_several(spare, names, token),
            Some(_) => Entry::to_be_fenced(spare, names, token),
        }
    }

    /// Asks `node`, which could not be asked together with the other nodes. Meanwhile, `node` has finished its
    /// handshake, or has shown that it can release locks.
    fn ask_now(&mut self, node: NodeId, cx: &mut Context<'_>) {
        match cx.parts.nodes[node].access() {
            _ if self.claim.is_none() => {} // The acquisition waits between attempts.
            Access::Open => {
                Bounds::NONE.leave_out(node, cx);
                ask_one(self, node, cx);
            }
            Access::Handshake { .. } => {}
            Access::Shut(outcome) => self.vote(node, (Vote::Abstain, outcome), cx),
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// Returns `true` if `node` refused the `SET` because of a key of this engine that is being released.
    fn meets_own_key(&self, node: NodeId, cx: &Context<'_>) -> bool {
        let claims = &cx.parts.claims;
        let claim = self.claim.and_then(|key| claims.get(key)).must();
        let ours = claim.is_some_and(|claim| {
            cx.parts.nodes[node].is_repairing(claims.meets_own(node, &claim.entry))
        });
        guard!(NilIsHeld, ours)
    }

    /// Sends the `SET` to `node` again, because `node` did not run it. `release` is `true` if a key of this engine
    /// blocked the `SET`. In that case, the engine releases that key first. If the release is not written yet, the
    /// `SET` waits for the release. An attempt repeats the `SET` once per node, and only while it still waits for the
    /// node's answer. Returns `true` if the `SET` was sent or waits.
    fn ask_again(&mut self, node: NodeId, release: bool, cx: &mut Context<'_>) -> bool {
        let claim = self.claim.and_then(|key| cx.parts.claims.get(key));
        let Some(claim) = claim.must() else {
            return false;
        };
        if cx.round[node].asked_again || !cx.round.awaits(node) {
            return false;
        }
        let transactions = &cx.parts.nodes[node].connection.transactions;
        // Waits if the release is not written yet, because a `SET` that is sent now would overtake it.
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

    /// Sends the `SET` to `node` after the commands that must precede it.
    fn ask_behind(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let claim = self.claim.and_then(|key| cx.parts.claims.get(key));
        if claim.is_some_and(|claim| !claim.copy_on(node).is_open()) {
            let _ = self.ask_again(node, true, cx);
        }
    }

    // ----- verdicts -------------------------------------------------------------------------

    /// Handles the grant of the lock by `majority`. The attempt fails if no validity is left.
    fn win(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let drift = cx.parts.settings.drift;
        let valid_until = drift.valid_until(cx.round.sent, cx.round.ttl);
        if has_run_out(cx.now, valid_until) {
            self.fail(Refusal::TooSlow, cx);
        } else {
            self.decide(Verdict::Granted(majority, valid_until), cx);
        }
    }

    /// Ends a failed attempt. Releases everything that the attempt has locked, and plans another attempt if the caller
    /// has tries and time left.
    fn fail(&mut self, refusal: Refusal, cx: &mut Context<'_>) {
        let Some(claim) = self.claim.take().must() else {
            return;
        };
        if let Some(fencing) = &mut self.fencing {
            fencing.stop_renumbering();
        }
        // Plans no other attempt if only an operator can restore a majority.
        let outcomes = cx.round.ballots.iter().map(|ballot| ballot.outcome);
        let is_final = matches!(refusal, Refusal::OtherGroup | Refusal::OtherPermits);
        let rest = match is_final || is_out_of_reach(outcomes) {
            true => None,
            false => self.rest(cx),
        };
        cx.parts.give_back(cx.now, claim);
        match rest {
            Some(until) => self.rest_until(until, refusal, cx),
            None => self.decide(Verdict::Refused(refusal), cx),
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

    /// Withdraws the `SET`s to `nodes` if none of their bytes has been sent. Returns the nodes whose `SET` was
    /// withdrawn.
    fn take_back(&mut self, nodes: NodeSet, cx: &mut Context<'_>) -> NodeSet {
        let claim = self.claim;
        claim.map_or(NodeSet::EMPTY, |key| {
            cx.parts.claims(cx.now).take_back(key, nodes)
        })
    }

    /// Ends this acquisition, whose key is `operation`.
    pub(in crate::engine) fn leave(&mut self, operation: OperationKey, parts: &mut Parts) {
        if let Some(fencing) = self.fencing.take() {
            parts.spares.give(fencing);
        }
        let (queues, buffers) = (&mut parts.queues, &mut parts.claims.buffers);
        if !matches!(self.verdict, Verdict::HandedOut) {
            if let Some(reading) = self.reading() {
                reading.step_out(self.place, queues);
            }
            let several = self.several().map(|several| &several.waiters[..]);
            let waiters = several.unwrap_or(core::slice::from_ref(&self.waiter));
            for (place, waiter) in self.places().iter().zip(waiters) {
                queues.leave(*place, operation, *waiter, buffers);
            }
        } else if let Some(waiter) = self.waiter {
            queues.waiters.forget(waiter);
        }
    }

    // ----- other groups -----------------------------------------------------------------------

    /// Refuses the attempt if any node belongs to another group. Returns `true` if the attempt was refused.
    fn refuse_for_other_group(&mut self, cx: &mut Context<'_>) -> bool {
        let any = guard!(OtherGroupIgnored, name_other_groups(cx));
        if any && self.claim.is_some() {
            self.fail(Refusal::OtherGroup, cx);
        } else if any {
            self.decide(Verdict::Refused(Refusal::OtherGroup), cx);
        }
        any
    }
}

impl Operate for Acquire {
    /// Begins the first attempt immediately if it is the operation's turn. An operation that makes only one attempt
    /// does not wait for its turn, and may ask the nodes at the same time as other operations. If this engine holds a
    /// lock on one of the resources, an operation with one attempt is refused immediately.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let once = self.tries_allowed == Some(1);
        let (mut turn, mut leaves) = (true, None);
        let wants = self.wants();
        if wants != Wants::Lock {
            turn = self.contends_beside(cx);
        } else {
            let (key, queues) = (cx.round.key, &mut cx.parts.queues);
            self.each_place(|place| turn &= queues.contend(place, key));
        }
        if turn && !once && wants != Wants::Reader {
            let (now, queues) = (cx.now, &mut cx.parts.queues);
            self.each_place(|place| {
                if leaves.is_none() && queues.leaves_first(now, place) {
                    leaves = Some(place);
                }
            });
            leaves = leaves.filter(|_| self.has_time(cx));
        }
        if leaves.is_none() && (turn || once && self.held_here(cx).is_none()) {
            self.ask_nodes(cx);
            if self.reading().is_some() {
                self.ask_beside(cx);
            }
            return;
        }
        cx.round.tries = 0;
        if let Some(place) = leaves {
            self.wait_at(place, cx);
            cx.parts.leave_to_others(cx.now, place);
            self.begins_to_lead(cx);
            self.go_on(cx);
        } else if self.refuse_for_other_group(cx) {
            // The attempt was refused before any request was sent.
        } else if once {
            self.give_up_waiting(cx);
        } else {
            self.queue(cx);
        }
    }

    /// Also asks nodes that do not vote, because the keys on these nodes block other clients.
    // Inlined into the loop over the nodes.
    #[inline(always)]
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
        let proposal = self.fenced().map(Fencing::proposal);
        match there.take(cx.now, key, command, &claim.entry, (claim.life(), proposal)) {
            Ok(true) => claim.set_sent(node),
            Ok(false) => {} // The node first has to show how it releases locks.
            Err(missing) => {
                let outcome = NodeOutcome::Unusable(missing);
                return !cx.round.count(cx.now, node, Vote::Abstain, outcome);
            }
        }
        true
    }

    fn judge(&mut self, cx: &mut Context<'_>) {
        match cx.round.tally.acquisition() {
            None if self.special.is_none() => {}
            None => self.weigh(cx),
            Some(Acquisition::Granted(majority)) => self.win(majority, cx),
            Some(_) if self.is_to_renumber(cx) => self.renumber(cx),
            Some(Acquisition::Held) => {
                let refusal = self.refusal(cx);
                self.fail(refusal, cx);
            }
            Some(Acquisition::NoQuorum) => {
                let refusal = why_no_quorum(cx);
                self.fail(refusal, cx);
            }
        }
    }

    /// If the validity has ended since the grant, this method releases the lock instead of handing it out.
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
                // If there is no lock to hand out, an invariant is broken, and the caller gets an error.
                lock.ok_or_else(|| LockError::TooSlow(cx.report(self)))
            }
            Verdict::Refused(refusal) => {
                let why = match refusal {
                    Refusal::Held | Refusal::OtherPermits => LockError::Held(self.report_held(cx)),
                    // The report also contains the answers to earlier attempts, if they give more information.
                    Refusal::NoQuorum => {
                        cx.round.explain(&cx.parts.nodes);
                        let nodes = &cx.parts.nodes;
                        let report = cx.round.report_by(cx.now, nodes, Round::cause);
                        LockError::NoQuorum(self.about(report, cx.parts))
                    }
                    Refusal::TooSlow => LockError::TooSlow(cx.report(self)),
                    Refusal::Saturated => LockError::Saturated,
                    Refusal::OtherGroup => LockError::OtherGroup(cx.report(self)),
                };
                cx.parts.stats.refused(cx.now, cx.round.started, &why);
                Err(why)
            }
        };
        let round = self.name(cx.round.key);
        Some(Event::Acquired { round, result })
    }

    fn about(&mut self, report: Report, parts: &Parts) -> Report {
        let places = self.places().iter();
        report.about(places.map(|place| parts.queues.name(*place)))
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        self.hear(node, answer, cx);
    }

    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        match change {
            Change::Ready(node) => self.ask_now(node, cx),
            Change::Behind(node) => self.ask_behind(node, cx),
            Change::OtherGroup if cx.round.state != State::Decided => {
                self.refuse_for_other_group(cx);
            }
            Change::MajorityBack => self.regained(cx),
            Change::Stirred if matches!(cx.round.state, State::Resting { .. }) => self.go_on(cx),
            Change::Turn => self.lead(cx),
            Change::OutOfTime => self.tries_allowed = Some(cx.round.tries),
            Change::OtherGroup | Change::Stirred | Change::Joined(_) => {}
        }
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

/// Returns `true` if a lock that was valid until `valid_until` has ended at `now`.
fn has_run_out(now: Instant, valid_until: Instant) -> bool {
    guard!(ValidityUnchecked, valid_until <= now)
}
