//! The algorithm as a state machine: N nodes, many rounds, one wheel.
//!
//! No socket, no clock, no thread; randomness from a seed it was given. What happens outside comes
//! in as an [`Input`] or a call, with the time; what is to be done comes out of [`Engine::poll`].
//!
//! ```text
//!   acquire extend release cancel        a call opens a round, a round asks the nodes
//!        |                               what a token leaves on nodes is a claim
//!   rounds --- claims                    a node is one connection, its order, its debts
//!        \     /                         the wheel holds every timer there is
//!         nodes --- wheel
//! ```
//!
//! | file | subject |
//! | --- | --- |
//! | `contract` | what goes in and comes out |
//! | `acquire` | attempts, verdicts, retries |
//! | `extend` | extensions |
//! | `confirm` | for how long a majority keeps a lock |
//! | `top_up` | copies for nodes that lost theirs |
//! | `release` | releases, debts, and the repair of forgotten scripts |
//! | `links` | connections, greetings, answers |
//! | `probe` | whether the server behind a silent connection is there |
//! | `strict` | nodes that carry a marker: who counts, and whose they are |
//! | `check` | whether a majority would vote, and what an operator has to mend |
//! | `permission` | whether the user may do what a lock needs |
//! | `timers` | what is due when |
//! | `outputs` | what is to be done next |
//! | `claim`, `round` | the two records, without behaviour of their own towards nodes |
//!
//! # Guarantees
//!
//! * Handing in any bytes, in any order, at any time neither panics nor grows memory without
//!   bound.
//! * No lock without a majority of the configured nodes, and none without validity left.
//! * Whatever an ended attempt may have left is released, behind its `SET` on the same connection
//!   or on a later one, and tried until it is confirmed or has expired.
//! * The same seed and inputs give the same outputs.
//!
//! # Not here
//!
//! The wake-up of waiters by pushes.

mod acquire;
mod check;
mod claim;
mod confirm;
mod contract;
mod count;
mod extend;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod links;
mod outputs;
mod patience;
mod permission;
mod pool;
mod probe;
mod release;
mod round;
mod strict;
#[cfg(test)]
mod tests;
mod timers;
mod top_up;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::{Config, NodeConfig, RestartGuard};
use crate::error::InvalidRequest;
use crate::limits::{TTL_ASSUMED_MAX, claims_max, rounds_max};
use crate::node::{Dialect, Node, Terms};
use crate::quorum::{Drift, Lock, LockId, NodeSet, quorum_of};
use crate::slab::{Key, Slab};
use crate::time::Instant;
use crate::timer::Wheel;

use claim::Claim;
use pool::Pool;
use probe::Probes;
use round::{Ballot, Round};
use timers::Alarm;

pub use crate::node::NodeState;
#[cfg(feature = "std")]
pub(crate) use check::check;
pub use contract::{
    Event, Extension, Input, Load, NodeId, NodeStatus, Output, Request, RoundId, Wake,
};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use fuzz::fuzz_engine;
#[cfg(feature = "std")]
pub(crate) use patience::usual_timeout;

/// The lock algorithm over N nodes. See the [module](self) and [`Input`], [`Output`].
///
/// ```
/// use std::time::Duration;
/// use shearline::engine::{Engine, Input, Output, Request};
/// use shearline::{Config, Instant, LockOptions};
///
/// let config = Config::builder().node("127.0.0.1:6379").config()?;
/// let now = Instant::from_millis(5);
/// let mut engine = Engine::new(&config, [7; 32], now);
/// let options = LockOptions::new(Duration::from_secs(10));
/// let round = engine.acquire(now, &Request::new(b"invoice:42", &options))?;
/// // The engine asks for a connection first; the lock follows when the node has greeted.
/// assert!(matches!(engine.poll(now), Some(Output::Connect { .. })));
/// assert!(engine.poll(now).is_none());
/// engine.cancel(now, round);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    id: u64,
    settings: Settings,
    random: StdRng,
    nodes: Vec<Node>,
    wheel: Wheel<Alarm>,
    claims: Slab<Claim>,
    rounds: Slab<Round>,
    /// What is to be told, in the order in which it became certain.
    due: VecDeque<Due>,
    /// Nodes for which a connection is to be opened, closed, or written to.
    to_connect: NodeSet,
    to_disconnect: NodeSet,
    to_write: NodeSet,
    probes: Probes,
    buffers: Pool<u8>,
    ballots: Pool<Ballot>,
    encoded: Encoded,
}

/// Something to be told at the next poll.
#[derive(Clone, Copy, Debug)]
enum Due {
    Round(Key),
    Expired(LockId),
}

/// What the engine needs of the configuration.
#[derive(Debug)]
struct Settings {
    labels: Box<[Arc<str>]>,
    owner: Box<[u8]>,
    drift: Drift,
    node_timeout: Option<Duration>,
    connect_timeout: Duration,
    dead_after: Duration,
    ttl_limit: Duration,
    retry: crate::config::Retry,
    /// Whether nodes that restarted are kept from voting, and whether the longest ttl of all
    /// clients is known.
    guarded: bool,
    /// Whether they carry markers.
    strict: bool,
    longest_known: bool,
    /// The longest ttl that any lock may have: as configured, or asked for if that is longer.
    longest_ttl: Duration,
}

/// The command that is being sent to several nodes: written once for each dialect.
#[derive(Debug, Default)]
struct Encoded {
    bytes: Vec<u8>,
    dialect: Option<Dialect>,
}

impl Encoded {
    /// Forgets the command: the next one is another.
    fn clear(&mut self) {
        self.bytes.clear();
        self.dialect = None;
    }

    /// The command in `dialect`, written by `write` unless it is there already.
    fn get(&mut self, dialect: Dialect, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        if self.dialect != Some(dialect) {
            self.bytes.clear();
            write(&mut self.bytes);
            self.dialect = Some(dialect);
        }
        &self.bytes
    }
}

impl Engine {
    /// An engine over the nodes of `config`, which wants to connect to all of them.
    ///
    /// Every random choice, the tokens among them, comes from `seed`: it has to be secret and
    /// unique outside of tests. `start` is the present time.
    #[must_use]
    pub fn new(config: &Config, seed: [u8; 32], start: Instant) -> Self {
        let mut random = StdRng::from_seed(seed);
        let mut engine = Self {
            id: random.next_u64(),
            settings: Settings::of(config),
            random,
            nodes: config
                .nodes()
                .iter()
                .map(|node| Node::new(config, node))
                .collect(),
            wheel: Wheel::new(start),
            claims: Slab::new(),
            rounds: Slab::new(),
            due: VecDeque::new(),
            to_connect: NodeSet::EMPTY,
            to_disconnect: NodeSet::EMPTY,
            to_write: NodeSet::EMPTY,
            probes: Probes::default(),
            buffers: Pool::new(),
            ballots: Pool::new(),
            encoded: Encoded::default(),
        };
        for node in 0..engine.nodes.len() {
            engine.connect(start, node);
        }
        engine
    }

    /// Adds `seed` to the source of every random choice to come, which otherwise follows from the
    /// seed of [`new`](Self::new) alone.
    ///
    /// Two copies of a process that were given different seeds draw different tokens from then on: a
    /// virtual machine that was cloned, or restored from a snapshot. The driver of this crate gives
    /// random bytes of the operating system before it opens a connection: connections do not outlive
    /// a restoration, and no lock is taken without one.
    pub fn reseed(&mut self, seed: [u8; 32]) {
        let mut mixed = seed;
        for byte in &mut mixed {
            *byte ^= self.random.next_u32() as u8;
        }
        self.random = StdRng::from_seed(mixed);
    }

    // ----- what it is -----------------------------------------------------------------------

    /// How many nodes are configured.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many of them are a majority.
    #[must_use]
    pub fn quorum(&self) -> usize {
        quorum_of(self.nodes.len())
    }

    /// How `node` stands at `now`.
    #[must_use]
    pub fn node_state(&self, now: Instant, node: NodeId) -> NodeState {
        let Some(node) = self.nodes.get(node.index()) else {
            return NodeState::Down(crate::error::LinkError::NotYet);
        };
        node.state(now)
    }

    /// How every node stands at `now`, in the order of the configuration.
    pub fn node_statuses(&self, now: Instant) -> impl Iterator<Item = NodeStatus> {
        let nodes = self.settings.labels.iter().zip(&self.nodes);
        nodes.map(move |(label, node)| NodeStatus {
            address: Arc::clone(label),
            state: node.state(now),
            run_id: node.run_id().map(Into::into),
            round_trip: node.round_trip(),
            grants: node.grants,
            in_flight: node.in_flight(),
            owed: node.debts.len(),
            clock_steps: node.clock_steps(),
            evicts_locks: node
                .identity()
                .is_some_and(|identity| identity.evicts_locks),
        })
    }

    /// The node that was configured as `address`, with or without credentials.
    #[must_use]
    pub fn node_at(&self, address: &str) -> Option<NodeId> {
        let parsed = address.parse::<NodeConfig>().ok();
        let is = |label: &Arc<str>| {
            **label == *address || parsed.as_ref().is_some_and(|node| node.label() == label)
        };
        let node = self.settings.labels.iter().position(is)?;
        Some(NodeId(node as u8))
    }

    /// What is open.
    #[must_use]
    pub fn load(&self) -> Load {
        let mut load = Load {
            rounds: self.rounds.len(),
            claims: self.claims.len(),
            ..Load::default()
        };
        for node in &self.nodes {
            load.in_flight += node.in_flight();
            load.unsent += node.unsent();
            load.owed += node.debts.len();
        }
        load
    }

    /// Returns when the last key of the present claims is over: by its known expiry, or where a `SET`
    /// or an extension is unanswered a whole ttl from now.
    #[cfg(feature = "std")]
    pub(crate) fn keys_end_by(&self, now: Instant) -> Instant {
        let end = |claim: &Claim| match claim.may_be_written_yet() {
            true => claim
                .gone_by
                .max(self.settings.drift.gone_by(now, claim.ttl)),
            false => claim.gone_by,
        };
        let ends = self.claims.iter().map(|(_, claim)| end(claim));
        ends.max().unwrap_or(now)
    }

    /// Returns the largest number of commands that one node has not answered.
    #[cfg(feature = "std")]
    pub(crate) fn most_in_flight(&self) -> usize {
        self.nodes.iter().map(Node::in_flight).max().unwrap_or(0)
    }

    /// The nodes that have said that they hold the token of `lock`, while it is held here.
    #[cfg(feature = "std")]
    pub(crate) fn granted(&self, lock: &Lock) -> NodeSet {
        let claim = self.claim_of(lock).and_then(|key| self.claims.get(key));
        claim.map_or(NodeSet::EMPTY, |claim| claim.granted)
    }

    // ----- shared by the operations ---------------------------------------------------------

    /// Takes note that a lock of `ttl` may come to be. Where the nodes carry markers, these tell.
    fn may_last(&mut self, ttl: Duration) {
        if self.settings.strict {
            return;
        }
        let longest = &mut self.settings.longest_ttl;
        *longest = ttl.max(*longest);
    }

    /// How long a node that may have forgotten locks is kept from voting.
    fn quarantine_terms(&self) -> Terms {
        let longest = self.settings.longest_ttl;
        Terms {
            span: longest.saturating_add(self.settings.drift.of(longest)),
            known: self.settings.longest_known,
        }
    }

    /// Why `ttl` cannot be asked for, or what the servers make of it: whole milliseconds.
    fn check_ttl(&self, ttl: Duration) -> Result<Duration, InvalidRequest> {
        let maximum = self.settings.ttl_limit;
        if ttl > maximum {
            return Err(InvalidRequest::TtlTooLong { ttl, maximum });
        }
        let whole = Duration::from_millis(ttl.as_millis() as u64);
        let drift = self.settings.drift.of(whole);
        if whole <= drift {
            return Err(InvalidRequest::TtlTooShort { ttl, drift });
        }
        Ok(whole)
    }

    /// Half of the validity that a lock of `ttl` can have at most.
    fn half_of(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.settings.drift.of(ttl)) / 2
    }

    /// A round for `kind`, with nobody asked yet.
    fn open_round(&mut self, now: Instant, kind: round::Kind) -> Key {
        let ballots = self.ballots.take();
        self.rounds
            .insert(Round::new(kind, self.nodes.len(), ballots, now))
    }

    /// Ends a round without telling its outcome, and gives back what it may have won.
    pub fn cancel(&mut self, now: Instant, round: RoundId) {
        let RoundId(key) = round;
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        let (claim, extension) = match &mut round.kind {
            round::Kind::Acquire { claim, .. } => (claim.take(), None),
            round::Kind::Extend { claim, .. } => (None, *claim),
            round::Kind::Release { .. } | round::Kind::Reinit => (None, None),
        };
        self.forget_extension(extension, key);
        mutant!(CancelledExtensionStands => (), else self.take_extension_back(key));
        self.take_questions_back(key, self.all_nodes());
        self.close_round(key);
        if let Some(claim) = claim {
            mutant!(CancelNotReleased => return drop(self.claims.remove(claim)));
            self.let_go(now, claim, None);
        }
    }

    /// Ends a round that was told or cancelled, and takes its memory back.
    fn close_round(&mut self, key: Key) {
        let Some(round) = self.rounds.remove(key) else {
            return;
        };
        if let Some(timer) = round.timer {
            self.wheel.cancel(timer);
        }
        self.ballots.give(round.ballots);
        match round.kind {
            round::Kind::Acquire { resource, .. } => self.buffers.give(resource),
            round::Kind::Extend { entry, .. } => self.buffers.give(entry.into_buffer()),
            round::Kind::Reinit => self.end_reinit(),
            round::Kind::Release { .. } => {}
        }
    }

    /// The outcome of a round is certain: what it has not begun to ask is not asked any more.
    fn decide(&mut self, key: Key, decision: round::Decision) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        round.state = round::State::Decided(decision);
        if let Some(timer) = round.timer.take().filter(|_| !mutant!(RoundTimerKept)) {
            self.wheel.cancel(timer);
        }
        self.take_questions_back(key, self.all_nodes());
        self.due.push_back(Due::Round(key));
    }

    /// Whether another operation would be one too many.
    fn is_saturated(&self) -> bool {
        self.rounds.len() >= rounds_max() || !self.has_room_for_claim()
    }

    /// Whether another token may leave copies on nodes.
    fn has_room_for_claim(&self) -> bool {
        self.claims.len() < claims_max() || mutant!(ClaimsUnbounded)
    }

    /// The claim that `lock` names, if it is one of this engine and still held.
    fn claim_of(&self, lock: &Lock) -> Option<Key> {
        let id = lock.id();
        let key = Key::from_bits(id.claim).filter(|_| id.engine == self.id)?;
        let held = matches!(self.claims.get(key)?.stage, claim::Stage::Held { .. });
        held.then_some(key)
    }

    fn lock_id(&self, claim: Key) -> LockId {
        LockId {
            engine: self.id,
            claim: claim.to_bits(),
        }
    }

    /// The nodes whose answers do not count.
    fn quarantined(&self, now: Instant) -> NodeSet {
        let mut quarantined = NodeSet::EMPTY;
        for (node, there) in self.nodes.iter().enumerate() {
            if there.kept_until(now).is_some() {
                quarantined.insert(node);
            }
        }
        quarantined
    }

    /// All configured nodes.
    fn all_nodes(&self) -> NodeSet {
        NodeSet::first(self.nodes.len())
    }
}

impl Settings {
    fn of(config: &Config) -> Self {
        Self {
            labels: config
                .nodes()
                .iter()
                .map(|node| Arc::clone(node.label()))
                .collect(),
            owner: config.owner().into(),
            drift: config.drift(),
            node_timeout: config.node_timeout(),
            connect_timeout: config.connect_timeout(),
            dead_after: config.dead_after(),
            ttl_limit: config.ttl_limit(),
            retry: *config.retry(),
            guarded: config.restart_guard() != RestartGuard::Off,
            strict: config.restart_guard() == RestartGuard::Strict,
            longest_known: config.max_ttl().is_some(),
            longest_ttl: match config.restart_guard() {
                RestartGuard::Strict => strict::whole(config.ttl_limit()),
                RestartGuard::Off | RestartGuard::Observed => {
                    config.max_ttl().unwrap_or(TTL_ASSUMED_MAX)
                }
            },
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("nodes", &self.settings.labels)
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
