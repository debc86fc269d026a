//! Taking a lock: attempts, verdicts, retries.
//!
//! Redlock, section "The Redlock Algorithm", steps 1 to 5: the time is taken before the first
//! byte, the same `SET .. NX PX` goes to all nodes at once, a majority decides, and an attempt that
//! fails gives back what it won, waits a random time, and begins anew with a fresh token.

use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::entry::Entry;
use crate::error::{LockError, NodeOutcome, Unusable};
use crate::limits::{
    COMMAND_BYTES_MAX, NODES_MAX, TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES, rounds_max,
};
use crate::node::wants_the_text;
use crate::node::{self, Access, Dialect, Errand, Forbidden, Reply, Trouble, refuses_for_certain};
use crate::quorum::{Acquisition, Majority, Vote};
use crate::resource::{check_not_reserved, check_resource};
use crate::slab::Key;
use crate::time::{Instant, NANOS_PER_TICK};

use super::Engine;
use super::claim::{Claim, Stage};
use super::contract::{Request, RoundId};
use super::round::{Decision, Kind, Refusal, State};

/// How long a node in back-off is left alone also when a round is short of a quorum.
const KNOCK_AGAIN: Duration = Duration::from_millis(250);

/// The least delay between two attempts: a shorter one would end in the turn in which it began, and
/// attempts that fail at once would follow each other there for ever.
const SHORTEST_REST: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// Less than this and two round trips before the caller's deadline no other attempt is begun, and
/// none that has less than half of it: cut short, it would say less than the one before it.
const LAST_CHANCE: Duration = Duration::from_millis(2);

impl Engine {
    /// Begins to take a lock. The outcome comes as [`Event::Acquired`](super::Event::Acquired).
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] and [`LockError::Saturated`], before anything was sent. That a node is
    /// another cluster's ([`LockError::OtherCluster`]) is told as an outcome.
    pub fn acquire(&mut self, now: Instant, request: &Request<'_>) -> Result<RoundId, LockError> {
        check_resource(request.resource)?;
        if self.settings.strict {
            check_not_reserved(request.resource)?;
        }
        let options = request.options;
        let ttl = self.check_ttl(options.ttl())?;
        let tries_allowed = options.tries_allowed(&self.settings.retry);
        if tries_allowed == Some(0) {
            return Err(crate::error::InvalidRequest::NoTries.into());
        }
        if self.is_saturated() {
            return Err(LockError::Saturated);
        }
        self.may_last(ttl);
        let mut resource = self.buffers.take();
        resource.extend_from_slice(request.resource);
        let kind = Kind::Acquire {
            claim: None,
            resource,
            tries_allowed,
            extensions: options.extensions_allowed().unwrap_or(u32::MAX),
        };
        let key = self.open_round(now, kind);
        let round = &mut self.rounds.get_mut(key).expect("just opened");
        round.ttl = ttl;
        round.deadline = options
            .deadline()
            .filter(|wait| !wait.is_zero() && !mutant!(DeadlineIgnored))
            .map(|wait| now.saturating_add(wait));
        self.attempt(now, key);
        Ok(RoundId(key))
    }

    /// One attempt: the same bytes to every node, before any answer is read.
    pub(super) fn attempt(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        round.reset(now);
        let ttl = round.ttl;
        let Kind::Acquire { resource, .. } = &round.kind else {
            return;
        };
        mutant!(OneTokenPerRound => self.random = StdRng::seed_from_u64(self.id ^ key.to_bits()));
        let buffer = self.buffers.take();
        let entry = fresh_entry(buffer, resource, &mut self.random, &self.settings.owner);
        let claim = self.claims.insert(Claim::attempt(key, entry, ttl));
        self.encode_set(claim);
        self.set_claim(key, Some(claim));
        self.knock(now);
        self.look_around(now, key);
        if self.settings.strict && self.refuse_for_other_cluster(now, key) {
            return;
        }
        if self.judge_attempt(now, key) {
            return; // A majority is out of reach: nobody is asked in vain.
        }
        for node in 0..self.nodes.len() {
            self.ask_set(now, key, claim, node);
        }
        self.arm_round(key);
    }

    /// Takes note of the nodes that cannot be asked, and of how long the others may take.
    fn look_around(&mut self, now: Instant, key: Key) {
        let len = self.set_len();
        let ttl = self
            .rounds
            .get(key)
            .map_or(Duration::ZERO, |round| round.ttl);
        let patience = self.vote_patience(ttl);
        for node in 0..self.nodes.len() {
            let access = self.nodes[node].access(len);
            let timeout = patience.with(&mut self.nodes[node]);
            let Some(round) = self.rounds.get_mut(key) else {
                return;
            };
            let patience = match access {
                Access::Open | Access::Greeting { first: false } => timeout,
                Access::Greeting { first: true } => timeout.max(self.settings.connect_timeout),
                Access::Shut(outcome) => {
                    round.record(node, Vote::Mute, outcome);
                    continue;
                }
            };
            round.ballots[node].deadline = now.saturating_add(patience);
            self.leave_out(now, key, node);
        }
    }

    /// Puts the `SET` that stands in `encoded` into the connection to `node`, or into the queue
    /// for when it has greeted. A node that does not vote is asked too: its key keeps others out.
    fn ask_set(&mut self, now: Instant, key: Key, claim: Key, node: usize) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        if !round.asks(node) {
            return;
        }
        if !self.nodes[node].is_ready() {
            self.wait_for(now, key, node);
            return;
        }
        round.ballots[node].asked = true;
        if !self.nodes[node].may_release() {
            self.ask_permission(now, key, claim, node);
            return;
        }
        self.send_set(now, claim, node);
        if let Some(claim) = self.claims.get_mut(claim) {
            claim.set_sent(node);
            mutant!(DebtOnClientTime => {
                claim.gone_by = claim.gone_by.max(self.settings.drift.gone_by(now, claim.ttl));
            });
        }
    }

    /// The question of a round to `node` waits for its greeting.
    pub(super) fn wait_for(&mut self, now: Instant, key: Key, node: usize) {
        let queue = &mut self.nodes[node].waiting;
        if queue.len() < rounds_max() {
            queue.push_back(key);
        } else if let Some(round) = self.rounds.get_mut(key) {
            round.record(node, Vote::Mute, NodeOutcome::TimedOut);
            self.judge(now, key);
        }
    }

    /// `node` has greeted: an attempt that waited for it asks now.
    pub(super) fn ask_set_late(&mut self, now: Instant, key: Key, node: usize) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let Kind::Acquire {
            claim: Some(claim), ..
        } = round.kind
        else {
            return;
        };
        self.encode_set(claim);
        match self.nodes[node].access(self.set_len()) {
            Access::Open => {
                self.leave_out(now, key, node);
                self.ask_set(now, key, claim, node);
                self.judge(now, key);
            }
            Access::Greeting { .. } => {}
            Access::Shut(outcome) => self.vote(now, key, node, Vote::Mute, outcome),
        }
    }

    /// An attempt short of a quorum also tries nodes in back-off.
    fn knock(&mut self, now: Instant) {
        self.watch_lines(now);
        // A connection that is being opened is no vote yet, and may never be.
        let ready = self.nodes.iter().filter(|node| node.is_ready()).count();
        if self.quorum() <= ready || mutant!(NeverReconnects | NeverKnocks) {
            return;
        }
        let before = now.saturating_sub(KNOCK_AGAIN);
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_down_since(before) {
                self.connect(now, node);
            }
        }
    }

    /// `node` has answered the `SET` of a claim.
    pub(super) fn set_answered(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let Some(claim) = self.claims.get_mut(key) else {
            return Ok(());
        };
        claim.unanswered.remove(node);
        let (vote, outcome) = match reply {
            Reply::Ok => {
                self.nodes[node].grants += 1;
                claim.is_on(node, self.settings.drift.gone_by(now, claim.ttl));
                (Vote::Yes, NodeOutcome::Granted)
            }
            Reply::Nil => {
                claim.denied(node);
                match self.own_key(now, node, key) {
                    OwnKey::No => (Vote::No, NodeOutcome::Held),
                    OwnKey::AskedAgain => return Ok(()),
                    OwnKey::Still => (Vote::Mute, NodeOutcome::Pending),
                }
            }
            Reply::Error(error) => {
                match refuses_for_certain(error) || mutant!(ErrorIsDenial) {
                    true => claim.denied(node),
                    false => claim.set_lost(node),
                }
                if wants_the_text(error) && self.ask_set_by_text(now, node, key) {
                    return Ok(());
                }
                (Vote::Mute, NodeOutcome::Refused(error))
            }
            Reply::Forbidden(Forbidden::Command | Forbidden::Key) => {
                claim.denied(node);
                let verb = self.verb_of_set(node);
                let missing = reply.missing(verb).unwrap_or(Unusable::NoPermission);
                self.nodes[node].forbidden(missing);
                (Vote::Mute, NodeOutcome::Unusable(missing))
            }
            // A fenced one. What it had called before stays done.
            Reply::Forbidden(Forbidden::Within) => {
                claim.set_lost(node);
                (Vote::Mute, NodeOutcome::Unusable(Unusable::NoPermission))
            }
            Reply::Integer(_) | Reply::Pair(..) | Reply::Other => {
                claim.set_lost(node);
                return Err(Trouble::Link(crate::error::LinkError::Protocol));
            }
        };
        self.count_set(now, node, key, vote, outcome);
        Ok(())
    }

    /// The command that takes a lock on `node`.
    fn verb_of_set(&self, node: usize) -> &'static str {
        match self.settings.strict {
            false => "set",
            true => self.nodes[node].acquire_dialect().verb(),
        }
    }

    fn count_set(&mut self, now: Instant, node: usize, key: Key, vote: Vote, said: NodeOutcome) {
        match self.claims.get(key).map(|claim| claim.stage) {
            Some(Stage::Attempt { round }) => self.vote(now, round, node, vote, said),
            Some(Stage::Releasing { .. }) => self.settle(key),
            Some(Stage::Held { .. }) | None => {}
        }
    }

    /// Whether a nil was due to a key of our own whose release is under repair on this node. Then
    /// it is no answer, and the `SET` goes out again behind that release, once.
    fn own_key(&mut self, now: Instant, node: usize, key: Key) -> OwnKey {
        mutant!(NilIsHeld => return OwnKey::No);
        mutant!(RetryAfterEnd => self.ask_set_again_after_end(now, node, key));
        let claims = &self.claims;
        let Some(Claim {
            stage: Stage::Attempt { round },
            entry: Some(entry),
            resent,
            ..
        }) = claims.get(key)
        else {
            return OwnKey::No;
        };
        if !self.is_letting_go(node, entry) {
            return OwnKey::No;
        }
        let (round, again) = (*round, !resent.contains(node));
        if !again
            || !self
                .rounds
                .get(round)
                .is_some_and(|round| round.awaits(node))
        {
            return OwnKey::Still;
        }
        mutant!(RetryBeforeRelease => (), else self.try_debts_again(now, node));
        self.encode_set(key);
        if self.nodes[node].access(self.set_len()) != Access::Open {
            return OwnKey::Still;
        }
        if let Some(claim) = self.claims.get_mut(key) {
            claim.resent.insert(node);
        }
        self.ask_set(now, round, key, node);
        OwnKey::AskedAgain
    }

    /// Whether a release for the resource of `entry` is under repair on `node`. A debt that time has
    /// ended may still stand in the node's list.
    fn is_letting_go(&self, node: usize, entry: &Entry) -> bool {
        self.nodes[node].is_repairing(|other| {
            self.claims.get(other).is_some_and(|other| {
                let open = other.releasing.contains(node) || other.owed.contains(node);
                let resource = other.entry.as_ref().map(Entry::resource);
                open && (resource == Some(entry.resource()) || mutant!(AnyKeyIsOurs))
            })
        })
    }

    /// What no round waits for is asked again all the same: only where that guard is taken out.
    fn ask_set_again_after_end(&mut self, now: Instant, node: usize, key: Key) {
        let over = self.claims.get(key).filter(|claim| {
            let entry = claim.entry.as_ref();
            matches!(claim.stage, Stage::Releasing { .. })
                && !claim.resent.contains(node)
                && entry.is_some_and(|entry| self.is_letting_go(node, entry))
        });
        if over.is_none() {
            return;
        }
        self.encode_set(key);
        self.send_set(now, key, node);
        if let Some(claim) = self.claims.get_mut(key) {
            claim.resent.insert(node);
            claim.set_sent(node);
        }
    }

    /// The node has forgotten the script of a fenced `SET`, which was not run: the same goes out by
    /// its text, once, if its round still waits for this node. Whether it did.
    fn ask_set_by_text(&mut self, now: Instant, node: usize, key: Key) -> bool {
        if !self.settings.strict {
            return false;
        }
        self.nodes[node].forgot_scripts(now);
        self.to_write.insert(node);
        let Some(claim) = self.claims.get_mut(key) else {
            return false;
        };
        let Stage::Attempt { round } = claim.stage else {
            return false;
        };
        let awaits = |round: &super::round::Round| round.awaits(node);
        if !self.rounds.get(round).is_some_and(awaits)
            || self.nodes[node].access(COMMAND_BYTES_MAX) != Access::Open
            || !claim.resent.insert(node)
        {
            return false;
        }
        self.ask_set(now, round, key, node);
        true
    }

    /// Puts the `SET` of a claim into the connection to `node`: what stands in `encoded`, or what is
    /// fenced by the marker of that very node.
    fn send_set(&mut self, now: Instant, key: Key, node: usize) {
        if self.settings.strict {
            self.encode_fenced_set(key, node);
        }
        self.nodes[node].send(now, Errand::Set { claim: key }, &self.encoded.bytes);
        self.to_write.insert(node);
    }

    fn encode_fenced_set(&mut self, key: Key, node: usize) {
        self.encoded.clear();
        let there = &self.nodes[node];
        if let Some(claim) = self.claims.get(key)
            && let Some(entry) = &claim.entry
            && let Some(marker) = there.marker()
        {
            let (ttl, dialect) = (claim.ttl, there.acquire_dialect());
            self.encoded.get(dialect, |out| {
                node::fenced_set(out, entry, ttl, marker, dialect);
            });
        }
    }

    /// How long the `SET` that is about to be sent is, or may be.
    fn set_len(&self) -> usize {
        match self.settings.strict {
            false => self.encoded.bytes.len(),
            true => COMMAND_BYTES_MAX,
        }
    }

    /// Writes the `SET` of a claim into `encoded`, unless it is another for each node.
    fn encode_set(&mut self, key: Key) {
        self.encoded.clear();
        if self.settings.strict {
            return;
        }
        let claim = self.claims.get(key);
        if let Some((entry, ttl)) = claim.and_then(|claim| Some((claim.entry.as_ref()?, claim.ttl)))
        {
            self.encoded
                .get(Dialect::Text, |out| node::set(out, entry, ttl));
        }
    }

    /// Looks whether the outcome of the attempt is certain; whether it was.
    pub(super) fn judge_attempt(&mut self, now: Instant, key: Key) -> bool {
        let verdict = self
            .rounds
            .get(key)
            .and_then(|round| round.tally.acquisition());
        match verdict {
            None => return false,
            Some(Acquisition::Granted(majority)) => self.win(now, key, majority),
            Some(Acquisition::Held) => self.fail(now, key, Refusal::Held),
            Some(Acquisition::NoQuorum) => {
                let refusal = self.why_no_quorum(key);
                self.fail(now, key, refusal);
            }
        }
        true
    }

    /// Whether too few nodes answered because too many are down, or because too many are so far
    /// away that no answer of theirs can be there within half of the ttl.
    fn why_no_quorum(&self, key: Key) -> Refusal {
        let Some(round) = self.rounds.get(key) else {
            return Refusal::NoQuorum;
        };
        let half = self.half_of(round.ttl);
        let too_far = |&node: &usize| {
            round.ballots[node].outcome == NodeOutcome::TimedOut
                && half < self.nodes[node].distance()
        };
        let far = (0..self.nodes.len()).filter(too_far).count();
        if round.tally.quorum() <= round.tally.can_vote() + far {
            Refusal::TooSlow
        } else {
            Refusal::NoQuorum
        }
    }

    /// A majority granted it. It is a lock if there is validity left.
    fn win(&mut self, now: Instant, key: Key, majority: Majority) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let sent = mutant!(ValidityFromAnswer => now, else round.sent);
        let valid_until = self.settings.drift.valid_until(sent, round.ttl);
        if valid_until <= now && !mutant!(ValidityUnchecked) {
            self.fail(now, key, Refusal::TooSlow);
        } else {
            self.decide(key, Decision::Granted(majority, valid_until));
        }
    }

    /// An attempt came to nothing: what it won is given back, and another follows if the caller
    /// has tries and time left.
    pub(super) fn fail(&mut self, now: Instant, key: Key, refusal: Refusal) {
        let Some(claim) = self.set_claim(key, None) else {
            return;
        };
        let rest = match refusal == Refusal::OtherCluster || self.is_for_an_operator(key) {
            true => None,
            false => self.rest(now, key),
        };
        self.let_go(now, claim, None);
        match rest {
            Some(until) => self.retry_at(key, until, refusal),
            None => self.decide(key, Decision::Refused(refusal)),
        }
    }

    /// Returns `true` if no majority is left without the nodes that only an operator can mend: no
    /// later try would do.
    fn is_for_an_operator(&self, key: Key) -> bool {
        self.rounds.get(key).is_some_and(|round| {
            let outcomes = round.ballots.iter().map(|ballot| ballot.outcome);
            super::check::is_out_of_reach(outcomes)
        })
    }

    pub(super) fn retry_at(&mut self, key: Key, until: Instant, after: Refusal) {
        if let Some(round) = self.rounds.get_mut(key) {
            round.state = State::Resting { until, after };
            self.arm_round(key);
        }
    }

    /// When the next attempt may begin: after a random delay, and while there are tries and time.
    ///
    /// A delay that would end too late for another attempt is drawn again from what is left, so that
    /// a waiter still looks shortly before it gives up.
    fn rest(&mut self, now: Instant, key: Key) -> Option<Instant> {
        let round = self.rounds.get(key)?;
        let Kind::Acquire { tries_allowed, .. } = round.kind else {
            return None;
        };
        if tries_allowed.is_some_and(|allowed| allowed <= round.tries) {
            return None;
        }
        let (shortest, longest) = self.settings.retry.delay().into_inner();
        let longest = mutant!(RetryInStep => shortest, else longest);
        let delay = between(&mut self.random, shortest, longest).max(SHORTEST_REST);
        let delay = mutant!(RetryAtOnce => SHORTEST_REST, else delay);
        let Some(deadline) = round.deadline else {
            return Some(now.saturating_add(delay));
        };
        let left = deadline.saturating_since(now);
        let least = LAST_CHANCE.saturating_add(self.round_trip().saturating_mul(2));
        if delay.saturating_add(least / 2) <= left {
            return Some(now.saturating_add(delay));
        }
        (least < left)
            .then(|| now.saturating_add(between(&mut self.random, left / 2, left - least / 2)))
    }

    /// How long a majority of the nodes usually takes to answer: the round trip of the slowest of
    /// the fastest that are one.
    fn round_trip(&self) -> Duration {
        let mut known = [Duration::MAX; NODES_MAX];
        let mut len = 0;
        for node in self.nodes.iter().filter(|node| node.round_trip().is_some()) {
            known[len] = node.distance();
            len += 1;
        }
        let known = &mut known[..len];
        known.sort_unstable();
        let slowest = known.get(self.quorum() - 1).or(known.last());
        slowest.copied().unwrap_or_default()
    }

    /// The delay before the next attempt is over, or the caller's time is.
    pub(super) fn rested(&mut self, now: Instant, key: Key) {
        let room = self.has_room_for_claim();
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        let State::Resting { until, after } = round.state else {
            return;
        };
        if round.deadline.is_some_and(|deadline| deadline <= now) {
            self.decide(key, Decision::Refused(after));
        } else if until <= now && !room {
            self.decide(key, Decision::Refused(Refusal::Saturated));
        } else if until <= now {
            round.tries = round.tries.saturating_add(1);
            self.attempt(now, key);
        } else {
            self.arm_round(key);
        }
    }

    /// Makes `claim` that of the present attempt; the one before.
    pub(super) fn set_claim(&mut self, key: Key, next: Option<Key>) -> Option<Key> {
        match &mut self.rounds.get_mut(key)?.kind {
            Kind::Acquire { claim, .. } => core::mem::replace(claim, next),
            Kind::Extend { .. } | Kind::Release { .. } | Kind::Reinit => None,
        }
    }
}

/// What a nil meant.
enum OwnKey {
    /// Another holds the lock.
    No,
    /// A key of ours was in the way, and the `SET` was sent again behind its release.
    AskedAgain,
    /// A key of ours is in the way and stays there.
    Still,
}

/// `resource` with a fresh token, written into `buffer`.
fn fresh_entry(
    buffer: alloc::vec::Vec<u8>,
    resource: &[u8],
    random: &mut StdRng,
    owner: &[u8],
) -> Entry {
    let mut token = [0; TOKEN_BYTES_MAX];
    random.fill_bytes(&mut token[..TOKEN_RANDOM_BYTES]);
    let len = TOKEN_RANDOM_BYTES + owner.len();
    token[TOKEN_RANDOM_BYTES..len].copy_from_slice(owner);
    Entry::new(buffer, resource, &token[..len])
}

fn between(random: &mut StdRng, from: Duration, to: Duration) -> Duration {
    let (from, to) = (crate::time::nanos(from), crate::time::nanos(to));
    Duration::from_nanos(random.random_range(from..=to.max(from)))
}
