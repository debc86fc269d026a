//! One node: its connection, what it was asked, and what it is owed.
//!
//! A node knows bytes and the order of commands. It does not know what a round is: an [`Request`]
//! names the claim or operation that a command serves, and is returned with the reply.
//!
//! # Guarantees
//!
//! * **Order.** All that concerns one key goes over one connection, in the order in which it was
//!   asked for. Replies are matched by count; a push takes no place; an answer to nothing ends the
//!   connection.
//! * **Handshake first.** No lock command is queued before the handshake is done, and what is owed
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
mod guard;
mod handshake;
mod in_flight;
mod marker;
mod marker_check;
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
    IN_FLIGHT_MAX, OUT_BYTES_MAX, PUSHES_MAX, REPLY_BYTES_MAX, REPLY_DEPTH_MAX, REPLY_ELEMENTS_MAX,
};
use crate::resp::{Inbox, Limits, Value};
use crate::time::Instant;
use crate::timer::TimerKey;

use backoff::Backoff;
use clock::{Clock, TIME};
use debt::Debts;
use handshake::{Credentials, Durable, Handshake, Next};
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
pub(crate) use guard::{Guard, Terms};
pub(crate) use handshake::{HELLO, Identity, Step};
pub(crate) use in_flight::Request;
pub(crate) use marker::whole_millis;
#[cfg(any(test, feature = "embedded"))]
pub(crate) use marker_check::JOIN;
#[cfg(feature = "embedded")]
pub(crate) use marker_check::{CHECKED_ACQUIRE, CHECKED_CONFIRM, CHECKED_EXTEND};
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

/// A connection that lasted this long is opened again at once when it ends: it was closed for
/// idleness, or its server was restarted.
const LASTED: Duration = Duration::from_secs(1);

/// The scripts that a server is taught, of which each guard has its own.
const SCRIPTS: [Step; 4] = [
    Step::LoadRelease,
    Step::LoadExtend,
    Step::LoadCheckedAcquire,
    Step::LoadCheckedExtend,
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
    /// Its membership of the cluster: only with a strict guard.
    membership: Option<Membership>,
    /// Operations whose question waits for the handshake to be done.
    pub(crate) waiting: VecDeque<OperationKey>,
    backoff: Backoff,
    tried_at: Instant,
    pulse: Pulse,
    /// How often a probe has ended its connection since a lock command was answered, and until when
    /// no probe is opened.
    probed: u32,
    probed_until: Instant,
    /// How many locks it has granted.
    pub(crate) grants: u64,
    /// The node timeout of the latest question.
    pub(crate) timeout: Duration,
    /// The timer of the connection: a back-off, or the deadline of connecting and handshake.
    pub(crate) connection_timer: Option<TimerKey>,
    /// With the time at which it fires.
    pub(crate) silence_timer: Option<(TimerKey, Instant)>,
    pub(crate) debt_timer: Option<TimerKey>,
}

/// What was received from a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// An answer to a lock command, and how long it took.
    Answer(Request, Reply),
    /// The server accepts us: debts are sent first, then [`Node::survey`].
    Admitted,
    /// An answer to a lock command that does not count.
    Uncounted {
        request: Request,
        /// What the plain command would have answered.
        reply: Reply,
        /// What a report says of it.
        outcome: NodeOutcome,
        /// Its answers counted until now.
        first: bool,
    },
    /// The server has identified itself: it has to be asked to join.
    Introduced,
    /// It has joined again.
    Joined,
    /// The handshake is done.
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

    /// The connection is up: the first question goes out. Returns `false` if none was being opened.
    pub(crate) fn connected(&mut self, now: Instant) -> bool {
        if !matches!(self.phase, Phase::Connecting) {
            return false;
        }
        self.phase = Phase::Handshake(Handshake::default());
        self.pulse.connected(now);
        self.ask(now, Step::Hello);
        true
    }

    /// The connection is gone, or could not be opened: forgets what belongs to it, and returns
    /// every request that was not answered, and whether its command may have left.
    pub(crate) fn disconnected(&mut self, trouble: Trouble) -> Vec<(Request, bool)> {
        let Self {
            in_flight, outbox, ..
        } = self;
        let lost: Vec<_> = in_flight.drain(|start| outbox.is_unsent(start)).collect();
        self.outbox.clear();
        self.inbox.clear();
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

    /// Returns how long to wait before the next connection, judged by how the last one did. To be
    /// asked before [`Node::disconnected`].
    pub(crate) fn delay(&mut self, now: Instant, random: &mut StdRng) -> Duration {
        let lasted = matches!(&self.phase, Phase::Ready(ready)
            if ready.since.saturating_add(LASTED) <= now);
        if guard!(NeverReconnectsAtOnce, lasted) {
            self.backoff.reset();
            return Duration::ZERO;
        }
        self.backoff.failed(random)
    }

    /// Returns `true` if it is down and was not tried since `before`.
    pub(crate) fn is_down_since(&self, before: Instant) -> bool {
        matches!(self.phase, Phase::Down) && self.tried_at <= before
    }

    /// Returns `true` if a connection is open or being opened.
    pub(crate) fn has_link(&self) -> bool {
        self.phase.has_link()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase.is_ready()
    }

    /// Returns `true` if bytes of it mean anything: its connection is up.
    pub(crate) fn hears(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_) | Phase::Ready(_))
    }

    /// Returns its state, for reports to operators.
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

    /// The handshake is done: decides whether and until when its answers do not count.
    pub(crate) fn guard_handshake(&mut self, now: Instant, terms: Terms) {
        if let Phase::Ready(ready) = &self.phase {
            match self.membership {
                None => self.guard.handshake_done(now, &ready.identity, terms),
                Some(_) => self.guard.joined(now, &ready.identity, terms),
            }
        }
    }

    /// Returns until when its answers do not count, if they do not at `now`: because of what this
    /// handle has seen, or because of a barrier on the node.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        let guard = self.guard.until(now);
        match &self.membership {
            None => guard,
            Some(membership) => guard.max(membership.until(now, self.is_ready())),
        }
    }

    /// Returns how often its clock was seen to have been stepped.
    pub(crate) fn clock_steps(&self) -> u32 {
        self.clock.steps()
    }

    pub(crate) fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// Returns the identity that the server gave, while the node is ready.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.phase {
            Phase::Ready(ready) => Some(&ready.identity),
            Phase::Handshake(handshake) => Some(&handshake.identity),
            Phase::Down | Phase::Connecting => None,
        }
    }

    /// Returns the `run_id` of the server on the present connection, once it is known.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.phase.run_id()
    }

    // ----- asking ---------------------------------------------------------------------------

    /// Returns whether a question of `len` bytes can be asked now, with room for its release later.
    pub(crate) fn access(&self, len: usize) -> Access {
        match (&self.phase, self.trouble) {
            (Phase::Ready(_), _) if self.is_suspect() || !self.has_room_for_set(len) => {
                Access::Shut(NodeOutcome::TimedOut)
            }
            (Phase::Ready(_), _) => Access::Open,
            // Its trouble may be over: the connection that is being opened will show that.
            (Phase::Connecting | Phase::Handshake(_), trouble) => Access::Handshake {
                first: trouble == Trouble::Link(LinkError::NotYet),
            },
            (Phase::Down, trouble) => Access::Shut(trouble.outcome()),
        }
    }

    /// Returns `true` if it has been silent for too long, or half of its room is taken by
    /// unanswered commands. It is not asked then, so that the other half remains for the releases
    /// of what it may hold.
    pub(crate) fn is_suspect(&self) -> bool {
        guard!(SuspectAsked, self.pulse.is_suspect())
            || self.debts.is_due()
            || self.in_flight.len() >= IN_FLIGHT_MAX / 2
            || self.outbox.len() >= OUT_BYTES_MAX / 2
    }

    fn has_room_for_set(&self, len: usize) -> bool {
        self.in_flight.reserved() + 2 <= IN_FLIGHT_MAX / 2
            && self.outbox.len() + len <= OUT_BYTES_MAX / 2
    }

    /// Returns `true` if a release of `len` bytes can be sent: the scripts' state is known, and
    /// there is room.
    pub(crate) fn has_room_for_release(&self, len: usize) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX && self.outbox.len() + len <= OUT_BYTES_MAX
    }

    /// Puts `command` into the out buffer, and `TIME` in front of a question about a lock if the
    /// clock watch is due.
    pub(crate) fn send(&mut self, now: Instant, request: Request, command: &[u8]) {
        if self.clock.is_due(now) && request.is_question() {
            self.clock.asked();
            self.put(now, Request::Time, TIME);
        }
        self.put(now, request, command);
    }

    fn put(&mut self, now: Instant, request: Request, command: &[u8]) {
        let start = self.outbox.push(command);
        self.in_flight.push(request, now, start, command.len());
    }

    /// Takes the command for `request` out of the out buffer if none of its bytes has left.
    pub(crate) fn withdraw(&mut self, request: Request) -> bool {
        let Self {
            in_flight, outbox, ..
        } = self;
        if outbox.is_empty() {
            return false;
        }
        let place = in_flight.withdraw(request, |start| outbox.is_unsent(start));
        if let Some((start, len)) = place {
            outbox.withdraw(start, len);
        }
        place.is_some()
    }

    /// Takes the `SET` of `claim` out of the out buffer if none of its bytes has left.
    pub(crate) fn withdraw_set(&mut self, claim: ClaimKey) -> bool {
        self.withdraw(Request::Set { claim }) || self.withdraw(Request::FirstSet { claim })
    }

    /// Returns how a release is written for this node; never by digest if it is to `repair`.
    pub(crate) fn release_dialect(&self, repair: bool) -> Dialect {
        self.phase.release_dialect(repair, self.native_refused)
    }

    /// Returns how a `SET` with a marker check is written for this node.
    pub(crate) fn acquire_dialect(&self) -> Dialect {
        self.phase.acquire_dialect()
    }

    /// Returns how an extension is written for this node.
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

    /// Returns `true` if a nil to a `SET` may be due to a key of our own that is being released: a
    /// repeated release of the same key is on its way, or waits for another try. `same` recognises
    /// its claim.
    pub(crate) fn is_repairing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        self.in_flight.is_repairing(&same) || self.debts.is_deferred(&same)
    }

    fn teach_scripts(&mut self, now: Instant) {
        for step in SCRIPTS {
            self.ask(now, step);
        }
    }

    /// Asks one question of the handshake.
    fn ask(&mut self, now: Instant, step: Step) {
        let mut command = Vec::new();
        if self.credentials.ask(&mut command, step) {
            self.send(now, Request::Handshake(step), &command);
            if let Phase::Handshake(handshake) = &mut self.phase {
                handshake.asked();
            }
        }
    }

    /// Asks the last questions of the handshake, behind the debts.
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
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.surveyed();
        }
    }

    // ----- the cluster ----------------------------------------------------------------------

    /// Asks it to join a cluster with this longest ttl.
    ///
    /// # Errors
    ///
    /// It does not say which incarnation it is.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // What this handshake has read is a proof; what an earlier one has read may no longer hold.
        let durable = match &self.phase {
            Phase::Handshake(handshake) => handshake.identity.durable(),
            Phase::Down | Phase::Connecting | Phase::Ready(_) => Durable::Unknown,
        };
        let Some(membership) = &mut self.membership else {
            return Ok(());
        };
        let run_id = self.phase.run_id();
        let run_id = run_id.ok_or(Trouble::Unusable(Unusable::NoRunId))?;
        let mut command = Vec::new();
        membership.ask(&mut command, run_id, durable, longest);
        self.send(now, Request::Handshake(Step::Join), &command);
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.asked();
        }
        Ok(())
    }

    /// Counts the answers of the server with this `run_id` from now on: an operator states that
    /// every lock that it may have forgotten is over. Returns `true` if they did not count before.
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

    /// Asks it to join without a barrier, now or as part of the handshake that is under way,
    /// because an operator trusts it. Returns `true` if that will be done.
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
            // Its handshake is past that question.
            Phase::Handshake(_) if membership.is_asked() => self.join(now, longest).is_ok(),
            Phase::Handshake(_) | Phase::Connecting | Phase::Down => true,
        }
    }

    /// Makes it a node of this cluster, regardless of its marker: now, or in the next handshake.
    pub(crate) fn claim(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = &mut self.membership {
            membership.set_mode(Mode::Reinit);
            if self.phase.is_ready() {
                let _ = self.join(now, longest); // It is ready, so its `run_id` is known.
            }
        }
    }

    /// Cancels a request of an operator to join that was not sent yet.
    pub(crate) fn cancel_join(&mut self, mode: Mode) {
        if let Some(membership) = &mut self.membership {
            membership.cancel_join(mode);
        }
    }

    /// Requires a marker with this longest ttl. Returns `true` if the node voted until now and does
    /// not any more.
    pub(crate) fn demand(&mut self, longest: Duration) -> bool {
        let membership = self.membership.as_mut();
        membership.is_some_and(|membership| membership.demand(longest))
    }

    /// Returns `true` if it is connected and has to join again, and was not asked to.
    pub(crate) fn is_to_join(&self) -> bool {
        let membership = self.membership.as_ref();
        self.is_ready() && membership.is_some_and(Membership::is_to_join)
    }

    /// Returns `true` if it has joined, and has nothing open about it.
    pub(crate) fn is_settled(&self) -> bool {
        let membership = self.membership.as_ref();
        self.is_ready() && membership.is_some_and(Membership::is_settled)
    }

    /// Returns the longest ttl that its marker tells of.
    pub(crate) fn longest(&self) -> Duration {
        let membership = self.membership.as_ref();
        membership.map_or(Duration::ZERO, Membership::longest)
    }

    /// Returns the marker that its scripts check, with a strict guard.
    pub(crate) fn marker(&self) -> Option<&[u8]> {
        self.membership.as_ref().map(Membership::marker)
    }

    /// Returns why it belongs to another cluster, if its last answer said so.
    pub(crate) fn other_cluster(&self) -> Option<Unusable> {
        self.membership.as_ref().and_then(Membership::other)
    }

    // ----- listening ------------------------------------------------------------------------

    /// Returns the next thing that the node has said, out of `piece` and what was left over before.
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
            let handshake = matches!(self.phase, Phase::Handshake(_));
            let value = match self.inbox.next(piece) {
                Ok(Some(frame)) => frame.value,
                Ok(None) => return Ok(None),
                Err(_) if handshake => return Err(Trouble::Unusable(Unusable::NotRedis)),
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
            let next = match (sent.request, &mut self.phase) {
                (Request::Handshake(Step::Join), phase) => {
                    if let Some(membership) = &mut self.membership {
                        membership.answered(now, phase.run_id(), value)?;
                        self.in_flight.begin_era();
                    }
                    let Phase::Handshake(handshake) = phase else {
                        return Ok(Some(Heard::Joined));
                    };
                    handshake.joined();
                    Next::Wait
                }
                (Request::Handshake(step), Phase::Handshake(handshake)) => {
                    handshake.answer(step, value).map_err(Trouble::Unusable)?
                }
                (Request::Handshake(step), Phase::Ready(ready)) => {
                    ready.scripts.loaded(step, value);
                    Next::Wait
                }
                (Request::Time, _) => match self.clock.told(sent.at, now, value) {
                    true => return Ok(Some(Heard::Stepped)),
                    false => continue,
                },
                (request, _) => {
                    let reply = Reply::of(value);
                    self.probed = 0;
                    self.learn(now, reply);
                    return Ok(Some(match self.membership {
                        Some(_) if request.is_question() => self.marker_checked(now, &sent, reply),
                        _ => Heard::Answer(request, reply),
                    }));
                }
            };
            if let Some(heard) = self.continue_handshake(now, next) {
                return Ok(Some(heard));
            }
        }
    }

    /// Returns what an answer with the result of a marker check means.
    fn marker_checked(&mut self, now: Instant, sent: &Sent, reply: Reply) -> Heard {
        let voted = self.kept_until(now).is_none();
        let stale = !self.in_flight.is_of_this_era(sent);
        let Some(membership) = &mut self.membership else {
            return Heard::Answer(sent.request, reply);
        };
        match membership.judge(now, sent.request, reply, stale) {
            (reply, None) => Heard::Answer(sent.request, reply),
            (reply, Some(outcome)) => Heard::Uncounted {
                request: sent.request,
                reply,
                outcome,
                first: voted && self.kept_until(now).is_some(),
            },
        }
    }

    /// Asks a server again to load our scripts if it could not before and now answers one.
    fn learn(&mut self, now: Instant, reply: Reply) {
        if let (Reply::Integer(_) | Reply::Pair(..), Phase::Ready(ready)) = (reply, &mut self.phase)
            && ready.scripts.take_postponed()
        {
            self.teach_scripts(now);
        }
    }

    /// Goes on with the handshake after one of its answers.
    fn continue_handshake(&mut self, now: Instant, next: Next) -> Option<Heard> {
        match next {
            Next::Wait => self.finish_handshake(now),
            Next::Fallback => {
                self.ask(now, Step::Auth);
                self.ask(now, Step::SetName);
                self.ask(now, Step::Select);
                Some(Heard::Admitted)
            }
            Next::Survey => {
                self.ask(now, Step::Select);
                Some(Heard::Admitted)
            }
        }
    }

    fn finish_handshake(&mut self, now: Instant) -> Option<Heard> {
        let Phase::Handshake(handshake) = &mut self.phase else {
            return None;
        };
        if !handshake.is_done() {
            return None;
        }
        if self.membership.is_some() && !handshake.joined {
            return Some(Heard::Introduced);
        }
        let identity = core::mem::take(&mut handshake.identity);
        self.phase = Phase::Ready(Ready {
            scripts: handshake.scripts,
            native_release: identity.native_release(),
            identity,
            since: now,
        });
        Some(Heard::Ready)
    }

    // ----- how it is heard ------------------------------------------------------------------

    /// One turn has read everything there was. Returns since when the node is silent, if it is.
    pub(crate) fn listen(&mut self, now: Instant) -> Option<Instant> {
        self.pulse.listen(now, !self.in_flight.is_empty())
    }

    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.pulse.silent_since()
    }

    /// Returns how long a node may be silent before it is suspect.
    pub(crate) fn patience(&self) -> Duration {
        let timeouts = self.timeout.saturating_mul(4);
        timeouts.max(SUSPECT_MIN)
    }

    pub(crate) fn suspect(&mut self) {
        self.pulse.suspect();
    }

    /// Returns `true` if it is suspect for its silence.
    pub(crate) fn is_silent(&self) -> bool {
        self.pulse.is_suspect()
    }

    /// Returns its shortest round trip of late, if it has ever answered.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.pulse.round_trip()
    }

    /// Returns `true` if it is to be connected to again, because its path may have become longer than
    /// this connection allows for.
    pub(crate) fn has_moved_away(&self) -> bool {
        self.is_ready() && self.pulse.has_moved_away()
    }

    /// Returns the round trip that the node timeout allows for.
    pub(crate) fn distance(&self) -> Duration {
        self.pulse.distance()
    }

    /// The driver did not read for a while until `now`.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        self.pulse.was_away(now);
    }

    /// Returns `true` if it has a connection that brings nothing while it is suspect, or for as
    /// long as `least`.
    pub(crate) fn is_to_be_probed(&self, now: Instant, least: Duration) -> bool {
        let least = least.max(self.distance() * 4);
        let due = |since: Instant| since.saturating_add(least) <= now;
        let silent = match &self.phase {
            Phase::Down => false,
            Phase::Connecting => due(self.tried_at),
            Phase::Handshake(_) => self.silent_since().is_some_and(due),
            Phase::Ready(_) => self.is_silent(),
        };
        silent && (self.probed == 0 || self.probed_until <= now)
    }

    /// A probe was answered while the connection was silent. If the next connection is silent too,
    /// it is left alone for twice as long.
    pub(crate) fn probed(&mut self, now: Instant, least: Duration) {
        self.probed_until = now.saturating_add(least * (1 << self.probed.min(5)));
        self.probed = self.probed.saturating_add(1);
    }

    // ----- writing --------------------------------------------------------------------------

    pub(crate) fn offer(&self) -> Option<&[u8]> {
        match self.phase {
            Phase::Handshake(_) | Phase::Ready(_) => self.outbox.offer(),
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
