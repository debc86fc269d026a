//! One node: its connection, what it was asked, and what it is owed.
//!
//! A node knows bytes and the order of commands. It does not know what a round is: an
//! [`Errand`] names the claim or round that a command serves, and is handed back with the reply.
//!
//! # Guarantees
//!
//! * **Order.** All that concerns one key goes over one connection, in the order in which it was
//!   asked for. Replies are matched by count; a push takes no place; an answer to nothing ends the
//!   connection.
//! * **Greeting first.** No lock command is queued before the greeting is done, and what is owed
//!   from an earlier connection goes before any `SET`.
//! * **Room for the release.** A `SET` is accepted only while there is room for its release too.
//!
//! # Not here
//!
//! Time-outs of rounds, the choice of what to send, and sockets.

mod backoff;
mod clock;
mod command;
mod debt;
mod fence;
mod guard;
mod handshake;
mod in_flight;
mod marker;
mod membership;
mod outbox;
mod permission;
mod phase;
mod pulse;
mod reply;
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use rand::rngs::StdRng;

use crate::config::{Config, NodeConfig, RestartGuard};
use crate::error::{LinkError, NodeOutcome, TrustError, Unusable};
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::{
    PUSHES_MAX, REPLY_BYTES_MAX, REPLY_DEPTH_MAX, REPLY_ELEMENTS_MAX, in_flight_max, out_bytes_max,
};
use crate::resp::{Inbox, Limits, Value};
use crate::time::Instant;
use crate::timer::TimerKey;

use backoff::Backoff;
use clock::{Clock, TIME};
use debt::Debts;
use handshake::{Credentials, Durable, Greeting, Next};
use in_flight::{InFlight, Sent};
use marker::Cluster;
use membership::Membership;
use outbox::Outbox;
use permission::Permissions;
use phase::{Phase, Ready};
use pulse::Pulse;

pub(crate) use command::Dialect;
#[cfg(feature = "embedded")]
pub(crate) use command::Script;
#[cfg(any(test, feature = "embedded"))]
pub(crate) use command::{CONFIRM, EXTEND, RELEASE, SET_IF_PERMITTED};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use fence::JOIN;
#[cfg(feature = "embedded")]
pub(crate) use fence::{FENCED_ACQUIRE, FENCED_CONFIRM, FENCED_EXTEND};
pub(crate) use guard::{Guard, Terms};
pub(crate) use handshake::{HELLO, Identity, Step};
pub(crate) use in_flight::Errand;
pub(crate) use marker::whole_millis;
pub(crate) use membership::Mode;
pub(crate) use permission::{forbidden_to_extend, forbidden_to_lock};
pub use phase::NodeState;
pub(crate) use phase::{Access, Trouble};
pub(crate) use reply::{
    Forbidden, Reply, Said, may_forget, refuses_for_certain, refuses_the_verb, wants_the_text,
};
pub(crate) use write::Command;

/// The shortest silence after which a node is suspect. A busy machine takes as long now and then.
const SUSPECT_MIN: Duration = Duration::from_millis(100);

/// A connection that was of use for this long is tried again at once when it ends: it was closed
/// for idleness, or its server was restarted.
const LASTED: Duration = Duration::from_secs(1);

/// The scripts that a server is taught, of which each guard has its own.
const SCRIPTS: [Step; 4] = [
    Step::LoadRelease,
    Step::LoadExtend,
    Step::LoadFencedAcquire,
    Step::LoadFencedExtend,
];

/// One node of the quorum.
#[derive(Debug)]
pub(crate) struct Node {
    credentials: Credentials,
    phase: Phase,
    /// Why it is not ready, as long as it is not.
    trouble: Trouble,
    inbox: Inbox,
    outbox: Outbox,
    in_flight: InFlight,
    /// Pushes since the last answer.
    pushes: u32,
    /// It has refused its native way to release, and no script since.
    native_refused: bool,
    pub(crate) debts: Debts,
    pub(crate) guard: Guard,
    clock: Clock,
    permissions: Permissions,
    /// How it stands towards the cluster: only with a strict guard.
    membership: Option<Membership>,
    /// Operations whose question waits for the greeting to be done.
    pub(crate) waiting: VecDeque<OperationKey>,
    backoff: Backoff,
    tried_at: Instant,
    pulse: Pulse,
    /// How often a probe has ended its connection since a lock command was answered, and until when it
    /// is left alone then.
    probed: u32,
    probed_until: Instant,
    /// How many locks it has granted.
    pub(crate) grants: u64,
    /// The node timeout of the latest question.
    pub(crate) timeout: Duration,
    /// The timer of the connection: a back-off, or the deadline of connecting and greeting.
    pub(crate) connection_timer: Option<TimerKey>,
    /// With the time at which it fires.
    pub(crate) silence_timer: Option<(TimerKey, Instant)>,
    pub(crate) debt_timer: Option<TimerKey>,
}

/// What a node has said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// An answer to a lock command, and how long it took.
    Answer(Errand, Reply),
    /// The server lets us in: what is owed goes first, then [`Node::survey`].
    Greeted,
    /// An answer to a lock command that does not count.
    Uncounted {
        errand: Errand,
        /// What the plain command would have answered.
        reply: Reply,
        /// What a report says of it.
        outcome: NodeOutcome,
        /// It voted until now.
        first: bool,
    },
    /// It has said who it is: it is to be asked to join.
    Introduced,
    /// It has joined again.
    Joined,
    /// The greeting is done.
    Ready,
    /// Its clock was stepped.
    Stepped,
}

impl Node {
    pub(crate) fn new(config: &Config, node: &NodeConfig) -> Self {
        Self {
            credentials: Credentials::new(config, node),
            phase: Phase::Down,
            trouble: Trouble::Link(LinkError::NotYet),
            inbox: Inbox::new(Limits {
                line_bytes: REPLY_BYTES_MAX,
                bulk_bytes: REPLY_BYTES_MAX,
                reply_bytes: REPLY_BYTES_MAX,
                elements: REPLY_ELEMENTS_MAX,
                depth: REPLY_DEPTH_MAX,
            }),
            outbox: Outbox::default(),
            in_flight: InFlight::default(),
            pushes: 0,
            native_refused: false,
            debts: Debts::default(),
            guard: Guard::default(),
            clock: Clock::new(config.watch_clocks()),
            permissions: Permissions::default(),
            membership: (config.restart_guard() == RestartGuard::Strict)
                .then(|| Membership::new(Cluster::of(config))),
            waiting: VecDeque::new(),
            backoff: Backoff::default(),
            tried_at: Instant::ZERO,
            pulse: Pulse::default(),
            probed: 0,
            probed_until: Instant::ZERO,
            grants: 0,
            timeout: Duration::ZERO,
            connection_timer: None,
            silence_timer: None,
            debt_timer: None,
        }
    }

    // ----- the connection -------------------------------------------------------------------

    /// A connection is being opened.
    pub(crate) fn connecting(&mut self, now: Instant) {
        self.tried_at = now;
        self.phase = Phase::Connecting;
    }

    /// The connection is up: the first question goes out. `false` if none was being opened.
    pub(crate) fn connected(&mut self, now: Instant) -> bool {
        if !matches!(self.phase, Phase::Connecting) {
            return false;
        }
        self.phase = Phase::Greeting(Greeting::default());
        self.pulse.connected(now);
        self.ask(now, Step::Hello);
        true
    }

    /// The connection is gone, or could not be opened: forgets what belongs to it, and gives back
    /// every errand that was not answered, with whether its command may have left.
    pub(crate) fn disconnected(&mut self, trouble: Trouble) -> Vec<(Errand, bool)> {
        let Self {
            in_flight, outbox, ..
        } = self;
        let lost: Vec<_> = in_flight.drain(|start| outbox.is_unsent(start)).collect();
        mutant!(FifoKept => for lost in &lost { in_flight.push(lost.0, Instant::ZERO, 0, 0) });
        self.outbox.clear();
        mutant!(InboxKept => (), else self.inbox.clear());
        self.phase = Phase::Down;
        self.trouble = trouble;
        self.pulse.heard();
        self.pushes = 0;
        self.clock.disconnected();
        self.permissions.disconnected();
        if let Some(membership) = &mut self.membership {
            membership.disconnected();
        }
        lost
    }

    /// How long to wait before the next connection, judged by how the last one did. To be asked
    /// before [`Node::disconnected`].
    pub(crate) fn delay(&mut self, now: Instant, random: &mut StdRng) -> Duration {
        let lasted = matches!(&self.phase, Phase::Ready(ready)
            if ready.since.saturating_add(LASTED) <= now);
        if lasted && !mutant!(NeverReconnectsAtOnce) {
            self.backoff.reset();
            return Duration::ZERO;
        }
        self.backoff.failed(random)
    }

    /// Whether it is down and was not tried since `before`.
    pub(crate) fn is_down_since(&self, before: Instant) -> bool {
        matches!(self.phase, Phase::Down) && self.tried_at <= before
    }

    /// Whether a connection is open or being opened.
    pub(crate) fn has_link(&self) -> bool {
        self.phase.has_link()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase.is_ready()
    }

    /// Whether bytes of it mean anything: its connection is up.
    pub(crate) fn hears(&self) -> bool {
        matches!(self.phase, Phase::Greeting(_) | Phase::Ready(_))
    }

    /// How it stands, for whoever looks at it from outside.
    pub(crate) fn state(&self, now: Instant) -> NodeState {
        if let (Phase::Ready(_), Some(missing)) = (&self.phase, self.permissions.missing()) {
            return NodeState::Unusable(missing);
        }
        match (&self.phase, self.trouble) {
            (Phase::Ready(_), _) if self.is_suspect() => NodeState::Suspect,
            (Phase::Ready(_), _) => {
                let until = self.kept_until(now);
                until.map_or(NodeState::Ready, |until| NodeState::Quarantined {
                    left: until.saturating_since(now),
                })
            }
            (_, Trouble::Unusable(reason)) => NodeState::Unusable(reason),
            (Phase::Down, Trouble::Link(reason)) => NodeState::Down(reason),
            (_, Trouble::Link(LinkError::NotYet)) => NodeState::New,
            (_, Trouble::Link(_)) => NodeState::Connecting,
        }
    }

    /// Its greeting is done: whether and until when its answers do not count.
    pub(crate) fn guard_greeted(&mut self, now: Instant, terms: Terms) {
        if let Phase::Ready(ready) = &self.phase {
            match self.membership {
                None => self.guard.greeted(now, &ready.identity, terms),
                Some(_) => self.guard.joined(now, &ready.identity, terms),
            }
        }
    }

    /// Until when its answers do not count, if they do not at `now`: for what this handle has seen, or
    /// for what stands on the node.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        let guard = self.guard.until(now);
        match &self.membership {
            None => guard,
            Some(membership) => guard.max(membership.until(now, self.is_ready())),
        }
    }

    /// How often its clock was seen to have been stepped.
    pub(crate) fn clock_steps(&self) -> u32 {
        self.clock.steps()
    }

    pub(crate) fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// What it said of itself, while it is ready.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.phase {
            Phase::Ready(ready) => Some(&ready.identity),
            Phase::Greeting(greeting) => Some(&greeting.identity),
            Phase::Down | Phase::Connecting => None,
        }
    }

    /// Which server answers over the present connection, once it has told.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.phase.run_id()
    }

    // ----- asking ---------------------------------------------------------------------------

    /// Whether a question of `len` bytes can be asked now, and its release later.
    pub(crate) fn access(&self, len: usize) -> Access {
        match (&self.phase, self.trouble) {
            (Phase::Ready(_), _) if self.is_suspect() || !self.has_room_for_set(len) => {
                Access::Shut(NodeOutcome::TimedOut)
            }
            (Phase::Ready(_), _) => Access::Open,
            // What was wrong with it may have been mended: the connection that is being opened tells.
            (Phase::Connecting | Phase::Greeting(_), trouble) => Access::Greeting {
                first: trouble == Trouble::Link(LinkError::NotYet),
            },
            (Phase::Down, trouble) => Access::Shut(trouble.outcome()),
        }
    }

    /// It has been silent for too long, or half of its room is taken by what it has not answered:
    /// it is not asked, so that the other half is there for the releases of what it may hold.
    pub(crate) fn is_suspect(&self) -> bool {
        mutant!(BoundIgnored => return self.pulse.is_suspect() || self.debts.is_due());
        mutant!(SuspectAsked => false, else self.pulse.is_suspect())
            || mutant!(DebtsAfterSets => false, else self.debts.is_due())
            || self.in_flight.len() >= in_flight_max() / 2
            || self.outbox.len() >= out_bytes_max() / 2
    }

    fn has_room_for_set(&self, len: usize) -> bool {
        mutant!(BoundIgnored => return true);
        self.in_flight.reserved() + 2 <= in_flight_max() / 2
            && self.outbox.len() + len <= out_bytes_max() / 2
    }

    /// Whether a release of `len` bytes can be sent: the scripts' state is known, and there is
    /// room.
    pub(crate) fn has_room_for_release(&self, len: usize) -> bool {
        mutant!(BoundIgnored => return true);
        self.in_flight.len() < in_flight_max() && self.outbox.len() + len <= out_bytes_max()
    }

    /// Puts `command` into the out buffer; in front of a question about a lock, if it is time for it,
    /// that for the time.
    pub(crate) fn send(&mut self, now: Instant, errand: Errand, command: &[u8]) {
        if self.clock.is_due(now) && errand.is_question() {
            self.clock.asked();
            self.put(now, Errand::Time, TIME);
        }
        self.put(now, errand, command);
    }

    fn put(&mut self, now: Instant, errand: Errand, command: &[u8]) {
        let start = self.outbox.push(command);
        self.in_flight.push(errand, now, start, command.len());
    }

    /// Takes the command for `errand` out of the out buffer if none of its bytes has left.
    pub(crate) fn withdraw(&mut self, errand: Errand) -> bool {
        let Self {
            in_flight, outbox, ..
        } = self;
        if outbox.is_empty() {
            return false;
        }
        let place = in_flight.withdraw(errand, |start| outbox.is_unsent(start));
        if let Some((start, len)) = place {
            outbox.withdraw(start, len);
        }
        place.is_some()
    }

    /// Takes the `SET` of `claim` out of the out buffer if none of its bytes has left.
    pub(crate) fn withdraw_set(&mut self, claim: ClaimKey) -> bool {
        self.withdraw(Errand::Set { claim }) || self.withdraw(Errand::FirstSet { claim })
    }

    /// How a release is written for this node; never by digest if it is to `repair`.
    pub(crate) fn release_dialect(&self, repair: bool) -> Dialect {
        self.phase.release_dialect(repair, self.native_refused)
    }

    /// How a fenced `SET` is written for this node.
    pub(crate) fn acquire_dialect(&self) -> Dialect {
        self.phase.acquire_dialect()
    }

    /// How an extension is written for this node.
    pub(crate) fn extend_dialect(&self) -> Dialect {
        self.phase.extend_dialect()
    }

    /// The node does not have its native way to release, or does not allow it.
    pub(crate) fn refused_native_release(&mut self) {
        self.native_refused = true;
        self.phase.refused_native_release();
    }

    /// The node does not allow a release by script: on the next connection the native way comes first
    /// again.
    pub(crate) fn refused_scripted_release(&mut self) {
        self.native_refused = false;
    }

    /// The node has forgotten the scripts: it is taught them again, and until it has confirmed
    /// them it gets their text.
    pub(crate) fn forgot_scripts(&mut self, now: Instant) {
        let Phase::Ready(ready) = &mut self.phase else {
            return;
        };
        if ready.scripts.forget() {
            self.teach_scripts(now);
        }
    }

    /// Whether a nil to a `SET` may be due to a key of our own that is about to go: a repeated
    /// release of the same key is on its way, or waits for another try. `same` tells by the claim.
    pub(crate) fn is_repairing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        self.in_flight.is_repairing(&same) || self.debts.is_deferred(&same)
    }

    fn teach_scripts(&mut self, now: Instant) {
        for step in SCRIPTS {
            self.ask(now, step);
        }
    }

    /// Asks one question of the greeting.
    fn ask(&mut self, now: Instant, step: Step) {
        let mut command = Vec::new();
        if self.credentials.ask(&mut command, step) {
            self.send(now, Errand::Greet(step), &command);
            if let Phase::Greeting(greeting) = &mut self.phase {
                greeting.asked();
            }
        }
    }

    /// Asks the last questions of the greeting, behind what is owed.
    pub(crate) fn survey(&mut self, now: Instant) {
        const LAST: [Step; 4] = [
            Step::Server,
            Step::Replication,
            Step::Memory,
            Step::Durability,
        ];
        for step in LAST.into_iter().chain(SCRIPTS) {
            self.ask(now, step);
        }
        if let Phase::Greeting(greeting) = &mut self.phase {
            greeting.surveyed();
        }
    }

    // ----- the cluster ----------------------------------------------------------------------

    /// Asks it to join a cluster with this longest ttl.
    ///
    /// # Errors
    ///
    /// It does not say which incarnation it is.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // What this very greeting has read is a proof; what an earlier one has may not hold any more.
        let durable = match &self.phase {
            Phase::Greeting(greeting) => greeting.identity.durable(),
            Phase::Down | Phase::Connecting | Phase::Ready(_) => Durable::Unknown,
        };
        let Some(membership) = &mut self.membership else {
            return Ok(());
        };
        let run_id = self.phase.run_id();
        let run_id = run_id.ok_or(Trouble::Unusable(Unusable::NoRunId))?;
        let mut command = Vec::new();
        membership.ask(&mut command, run_id, durable, longest);
        self.send(now, Errand::Greet(Step::Join), &command);
        if let Phase::Greeting(greeting) = &mut self.phase {
            greeting.asked();
        }
        Ok(())
    }

    /// An operator vouches that no lock lives that the server with this `run_id` may have forgotten.
    /// Returns `true` if it did not vote until now.
    pub(crate) fn trust(
        &mut self,
        now: Instant,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustError> {
        if self.other_cluster().is_some() {
            return Err(TrustError::OtherCluster);
        }
        let marked = self.membership.is_some();
        if !(self.is_ready() || marked && self.run_id().is_some()) {
            return Err(TrustError::NotConnected);
        }
        let present = self.run_id().ok_or(TrustError::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustError::Changed { run_id });
        }
        let mut kept = self.kept_until(now).is_some();
        self.guard.trust();
        if marked {
            kept |= !self.is_ready();
            kept &= self.vouch(now, longest);
        }
        Ok(kept)
    }

    /// An operator vouches for it: it is asked to join without a barrier, now or as part of the
    /// greeting that is under way. Whether that will be done.
    fn vouch(&mut self, now: Instant, longest: Duration) -> bool {
        let Some(membership) = &mut self.membership else {
            return false;
        };
        if !self.phase.has_link() || membership.other().is_some() {
            return false;
        }
        membership.vouch(longest);
        match &self.phase {
            Phase::Ready(_) => self.join(now, longest).is_ok(),
            // Its greeting has got beyond that question.
            Phase::Greeting(_) if membership.is_asked() => self.join(now, longest).is_ok(),
            Phase::Greeting(_) | Phase::Connecting | Phase::Down => true,
        }
    }

    /// It is to be of this cluster, whatever it was: it is asked now, or when it has greeted.
    pub(crate) fn claim(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = &mut self.membership {
            membership.set_mode(Mode::Anew);
            if self.phase.is_ready() {
                let _ = self.join(now, longest); // It is ready, so it has said who it is.
            }
        }
    }

    /// What was to be asked of it for an operator, and was not yet, is not asked any more.
    pub(crate) fn call_off(&mut self, mode: Mode) {
        if let Some(membership) = &mut self.membership {
            membership.call_off(mode);
        }
    }

    /// Its marker has to tell of this longest ttl: whether it voted until now, and does not.
    pub(crate) fn demand(&mut self, longest: Duration) -> bool {
        let membership = self.membership.as_mut();
        membership.is_some_and(|membership| membership.demand(longest))
    }

    /// Whether it is connected and has to join again, and was not asked to.
    pub(crate) fn is_to_join(&self) -> bool {
        let membership = self.membership.as_ref();
        self.is_ready() && membership.is_some_and(Membership::is_to_join)
    }

    /// Whether it has joined, and has nothing open about it.
    pub(crate) fn is_settled(&self) -> bool {
        let membership = self.membership.as_ref();
        self.is_ready() && membership.is_some_and(Membership::is_settled)
    }

    /// The longest ttl that its marker tells of.
    pub(crate) fn longest(&self) -> Duration {
        let membership = self.membership.as_ref();
        membership.map_or(Duration::ZERO, Membership::longest)
    }

    /// The marker that questions to it are fenced by, with a strict guard.
    pub(crate) fn marker(&self) -> Option<&[u8]> {
        self.membership.as_ref().map(Membership::marker)
    }

    /// What it last said that makes it another cluster's.
    pub(crate) fn other_cluster(&self) -> Option<Unusable> {
        self.membership.as_ref().and_then(Membership::other)
    }

    // ----- listening ------------------------------------------------------------------------

    /// The next thing that the node has said, out of `piece` and what was left over before.
    /// `None` when all of `piece` was taken.
    ///
    /// # Errors
    ///
    /// Why the connection has to be given up.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        piece: &mut &[u8],
    ) -> Result<Option<Heard>, Trouble> {
        self.pulse.heard();
        loop {
            let greeting = matches!(self.phase, Phase::Greeting(_));
            let value = match self.inbox.next(piece) {
                Ok(Some(frame)) => frame.value,
                Ok(None) => return Ok(None),
                Err(_) if greeting => return Err(Trouble::Unusable(Unusable::NotRedis)),
                Err(_) => return Err(Trouble::Link(LinkError::Protocol)),
            };
            if matches!(value, Value::Push(_)) {
                // Nothing that we ask for is pushed yet, and a push takes no place.
                self.pushes += 1;
                if PUSHES_MAX < self.pushes {
                    return Err(Trouble::Link(LinkError::Protocol));
                }
                continue;
            }
            self.pushes = 0;
            let Some(sent) = self.in_flight.pop() else {
                return Err(Trouble::of_unasked(value));
            };
            self.pulse.answered(now, sent.at);
            let next = match (sent.errand, &mut self.phase) {
                (Errand::Greet(Step::Join), phase) => {
                    if let Some(membership) = &mut self.membership {
                        membership.answered(now, phase.run_id(), value)?;
                        self.in_flight.begin_era();
                    }
                    let Phase::Greeting(greeting) = phase else {
                        return Ok(Some(Heard::Joined));
                    };
                    greeting.joined();
                    Next::Wait
                }
                (Errand::Greet(step), Phase::Greeting(greeting)) => {
                    greeting.answer(step, value).map_err(Trouble::Unusable)?
                }
                (Errand::Greet(step), Phase::Ready(ready)) => {
                    ready.scripts.loaded(step, value);
                    Next::Wait
                }
                (Errand::Time, _) => match self.clock.told(sent.at, now, value) {
                    true => return Ok(Some(Heard::Stepped)),
                    false => continue,
                },
                (errand, _) => {
                    let reply = Reply::of(value);
                    self.probed = 0;
                    self.learn(now, reply);
                    return Ok(Some(match self.membership {
                        Some(_) if errand.is_question() => self.fenced(now, &sent, reply),
                        _ => Heard::Answer(errand, reply),
                    }));
                }
            };
            if let Some(heard) = self.greeted(now, next) {
                return Ok(Some(heard));
            }
        }
    }

    /// What an answer means that tells whether it counts.
    fn fenced(&mut self, now: Instant, sent: &Sent, reply: Reply) -> Heard {
        let voted = self.kept_until(now).is_none();
        let stale = !self.in_flight.is_of_this_era(sent);
        let Some(membership) = &mut self.membership else {
            return Heard::Answer(sent.errand, reply);
        };
        match membership.judge(now, sent.errand, reply, stale) {
            (reply, None) => Heard::Answer(sent.errand, reply),
            (reply, Some(outcome)) => Heard::Uncounted {
                errand: sent.errand,
                reply,
                outcome,
                first: voted && self.kept_until(now).is_some(),
            },
        }
    }

    /// A server that answers a script and could not load ours before is asked again.
    fn learn(&mut self, now: Instant, reply: Reply) {
        if let (Reply::Integer(_) | Reply::Pair(..), Phase::Ready(ready)) = (reply, &mut self.phase)
            && ready.scripts.take_postponed()
        {
            self.teach_scripts(now);
        }
    }

    /// Goes on with the greeting after one of its answers.
    fn greeted(&mut self, now: Instant, next: Next) -> Option<Heard> {
        match next {
            Next::Wait => self.finish_greeting(now),
            Next::Fallback => {
                self.ask(now, Step::Auth);
                self.ask(now, Step::SetName);
                self.ask(now, Step::Select);
                Some(Heard::Greeted)
            }
            Next::Survey => {
                self.ask(now, Step::Select);
                Some(Heard::Greeted)
            }
        }
    }

    fn finish_greeting(&mut self, now: Instant) -> Option<Heard> {
        let Phase::Greeting(greeting) = &mut self.phase else {
            return None;
        };
        if !greeting.is_done() {
            return None;
        }
        if self.membership.is_some() && !greeting.joined {
            return Some(Heard::Introduced);
        }
        let identity = core::mem::take(&mut greeting.identity);
        self.phase = Phase::Ready(Ready {
            scripts: greeting.scripts,
            native_release: identity.native_release(),
            identity,
            since: now,
        });
        Some(Heard::Ready)
    }

    // ----- how it is heard ------------------------------------------------------------------

    /// One turn has read all that there was: the instant since which it is silent, if it is.
    pub(crate) fn listen(&mut self, now: Instant) -> Option<Instant> {
        self.pulse.listen(now, !self.in_flight.is_empty())
    }

    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.pulse.silent_since()
    }

    /// How long a node may be silent before it is suspect.
    pub(crate) fn patience(&self) -> Duration {
        let timeouts = self.timeout.saturating_mul(4);
        mutant!(SuspectWithoutFloor => timeouts, else timeouts.max(SUSPECT_MIN))
    }

    pub(crate) fn suspect(&mut self) {
        self.pulse.suspect();
    }

    /// Whether it is suspect for its silence.
    pub(crate) fn is_silent(&self) -> bool {
        self.pulse.is_suspect()
    }

    /// Its shortest round trip of late, if it has ever answered.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.pulse.round_trip()
    }

    /// Returns `true` if it is to be connected to again, because its path may have become longer than
    /// this connection allows for.
    pub(crate) fn has_moved_away(&self) -> bool {
        self.is_ready() && self.pulse.has_moved_away()
    }

    /// The round trip that the node timeout allows for.
    pub(crate) fn distance(&self) -> Duration {
        self.pulse.distance()
    }

    /// Nobody has read what it sent for a while until `now`.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        self.pulse.was_away(now);
    }

    /// Whether it has a connection that brings nothing, if it is suspect or for as long as `least`.
    pub(crate) fn is_to_be_probed(&self, now: Instant, least: Duration) -> bool {
        let least = least.max(self.distance() * 4);
        let due = |since: Instant| since.saturating_add(least) <= now;
        let silent = match &self.phase {
            Phase::Down => false,
            Phase::Connecting => due(self.tried_at),
            Phase::Greeting(_) => self.silent_since().is_some_and(due),
            Phase::Ready(_) => self.is_silent(),
        };
        silent && (self.probed == 0 || self.probed_until <= now)
    }

    /// A probe was answered and its connection was silent. One that is silent again is left alone for
    /// twice as long as this one.
    pub(crate) fn probed(&mut self, now: Instant, least: Duration) {
        self.probed_until = now.saturating_add(least * (1 << self.probed.min(5)));
        self.probed = self.probed.saturating_add(1);
    }

    // ----- writing --------------------------------------------------------------------------

    pub(crate) fn offer(&self) -> Option<&[u8]> {
        match self.phase {
            Phase::Greeting(_) | Phase::Ready(_) => self.outbox.offer(),
            Phase::Down | Phase::Connecting => None,
        }
    }

    pub(crate) fn transmitted(&mut self, len: usize) {
        if self.hears() {
            self.outbox.transmitted(len);
        }
    }

    pub(crate) fn unblock(&mut self) {
        self.outbox.unblock();
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len()
    }
}
