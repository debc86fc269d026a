//! The users of a client: there is one for each resource, which locks, works, extends, hands over and releases.

use std::time::Duration;

use shearline::engine::{Event as Told, Extension, Request, RoundId};
use shearline::internals::{Load, all_open, waiting_work};
use shearline::{ExtendError, Instant, Lock, LockError, LockOptions, OperatorError};

use crate::clock::{MILLI, NEVER, SECOND, Time};
use crate::oracle::{Belief, Inspecting, Limits, Release, Verb, token_of};
use crate::plan::TRIES;
use crate::trace;
use crate::world::World;

/// The place of the confirmation among the weights of a plan.
const CONFIRM: usize = 5;

/// How long a user works at most when all faults have ended.
const LONGEST_LAST_WORK: Time = SECOND;

/// How many pieces of work may wait for transactions at one node before users rest.
const WAITING_MAX: usize = 1_000;

/// A user that wants one resource from time to time.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) task: Task,
    /// When the user does something next.
    pub(crate) at: Time,
    /// When the user's last task ended.
    pub(crate) ended: Time,
    /// Since when the user has its task, by its clock.
    pub(crate) begun: Instant,
    /// The user has to get its lock once more after the faults.
    pub(crate) takes: bool,
    /// Confirmations of locks that the user has released meanwhile.
    pub(crate) let_go: Vec<RoundId>,
    /// The newest call has asked for a fencing token.
    pub(crate) fenced: bool,
    /// The newest call has asked for a shared lock, or for one of this many permits.
    pub(crate) shared: bool,
    pub(crate) permits: Option<u16>,
    /// An attempt may ask a second question.
    pub(crate) asks_twice: bool,
    /// If it wants several resources: those of its newest call, in its order.
    pub(crate) set: Vec<usize>,
}

#[derive(Default)]
pub(crate) enum Task {
    #[default]
    Idle,
    Acquiring {
        call: Call,
        /// For how long the lock is kept, if it is.
        keep: Option<Duration>,
        /// How often others got the lock meanwhile.
        passed_over: u32,
        /// For how long the process had been stopped before.
        stopped: Time,
    },
    Holding(Hold),
    Extending {
        hold: Hold,
        call: Call,
    },
    Releasing {
        call: Call,
        release: Release,
    },
}

/// The outcome of an extension, or of a confirmation.
pub(crate) type Extended = Result<Extension, ExtendError>;

/// A call that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) round: RoundId,
    /// When it was made, by true time and by the client's clock.
    pub(crate) since: Time,
    pub(crate) begun: Instant,
    pub(crate) ttl: u64,
    /// The end of the lock that the call is about, as the user knew it then. Later answers do not count.
    pub(crate) ends: Instant,
    /// How many calls there were before it.
    pub(crate) number: u64,
    /// How it may end, if it is a call for a lock.
    pub(crate) limits: Limits,
}

/// The newest cancelled extensions of a lock.
pub(crate) type Cancelled = [(Verb, Option<Call>); 2];

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) lock: Lock,
    /// Until when the lock is valid by the last outcome that its user was told. The lock itself also shows what its
    /// engine has learnt since.
    pub(crate) known: Instant,
    /// The end was reported to the user, perhaps too early.
    pub(crate) told: bool,
    pub(crate) early: bool,
    /// The newest extension that was cancelled.
    pub(crate) cancelled: Option<Call>,
    /// A second extension while the first is open, or left after it; the newest cancelled second extension; and whether
    /// there was any.
    pub(crate) beside: Option<Call>,
    pub(crate) cancelled_beside: Option<Call>,
    pub(crate) doubled: bool,
    /// A cancelled extension that was confirmed, if the end of the lock may also be that of the open confirmation.
    pub(crate) either: Option<(Verb, Call)>,
    /// A confirmation, the newest cancelled one, and whether there was any.
    pub(crate) confirming: Option<Confirming>,
    pub(crate) unasked: Option<Call>,
    pub(crate) asked: bool,
    /// Since when the lock is held, by true time.
    pub(crate) since: Time,
    /// How many more extensions the lock may have, if there is a limit.
    pub(crate) extensions: Option<u32>,
    /// Set if the engine keeps the lock.
    pub(crate) keep: Option<Keep>,
    /// Set if the user wants to be told when the lock is at risk.
    pub(crate) alert: Option<Alert>,
    /// The lock was exclusive before.
    pub(crate) downgraded: bool,
}

/// The wish of a user to be told when a certain time is left of its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alert {
    pub(crate) left: Duration,
    /// Since when the user wants this, by the client's clock.
    pub(crate) since: Instant,
}

/// What is known of a lock that its engine keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) ttl: u64,
    /// No extension lasts longer than this.
    pub(crate) limit: Instant,
    /// Since when the engine keeps the lock, by true time.
    pub(crate) since: Time,
    /// When the client had last looked at its timers before an extension, or the grant, was reported to it.
    pub(crate) begun: Instant,
}

/// A confirmation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirming {
    pub(crate) call: Call,
    /// Until when the lock was valid, as far as its holder knew.
    pub(crate) within: Instant,
    /// An extension was open, or has been requested since.
    pub(crate) overtaken: bool,
}

impl Hold {
    fn new(lock: Lock, since: Time, extensions: Option<u32>) -> Self {
        Self {
            known: lock.valid_until(),
            lock,
            told: false,
            early: false,
            cancelled: None,
            beside: None,
            cancelled_beside: None,
            either: None,
            doubled: false,
            confirming: None,
            unasked: None,
            asked: false,
            since,
            extensions,
            keep: None,
            alert: None,
            downgraded: false,
        }
    }

    /// Returns the newest cancelled extensions.
    pub(crate) fn cancelled_calls(&self) -> Cancelled {
        [
            (Verb::Extend, self.cancelled),
            (Verb::Beside, self.cancelled_beside),
        ]
    }

    /// Notes that the user is told this end. A cancelled call may have been confirmed since: the end that it has found
    /// still counts.
    pub(crate) fn is_told(&mut self, until: Instant) {
        if self.known != self.lock.valid_until() {
            self.known = until;
        }
    }
}

impl Task {
    /// Returns the lock that is held.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Holding(hold) | Self::Extending { hold, .. } => Some(hold),
            Self::Idle | Self::Acquiring { .. } | Self::Releasing { .. } => None,
        }
    }

    pub(crate) fn hold_mut(&mut self) -> Option<&mut Hold> {
        match self {
            Self::Holding(hold) | Self::Extending { hold, .. } => Some(hold),
            Self::Idle | Self::Acquiring { .. } | Self::Releasing { .. } => None,
        }
    }

    /// Returns all calls that are open.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let calls = [self.call(), self.asked(), self.beside()];
        calls.into_iter().flatten()
    }

    /// Returns the open confirmation.
    fn asked(&self) -> Option<&Call> {
        Some(&self.hold()?.confirming.as_ref()?.call)
    }

    /// Returns the open second extension.
    fn beside(&self) -> Option<&Call> {
        self.hold()?.beside.as_ref()
    }

    /// Returns the open call that is neither a confirmation nor a second extension.
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Self::Acquiring { call, .. }
            | Self::Extending { call, .. }
            | Self::Releasing { call, .. } => Some(call),
            Self::Idle | Self::Holding(_) => None,
        }
    }
}

impl User {
    /// Returns `true` if the user asks at the same time as others that want the same.
    pub(crate) fn asks_beside(&self) -> bool {
        self.shared || self.permits.is_some()
    }

    /// Makes it end its task as soon as it can.
    pub(crate) fn finish(&mut self, now: Time) {
        if matches!(self.task, Task::Holding(_)) || self.takes {
            self.at = self.at.min(now);
        }
    }
}

impl World {
    /// Returns the user whose task has a call of this round, of the kind that `of` returns.
    fn user_of(&self, client: usize, id: RoundId, of: fn(&Task) -> Option<&Call>) -> Option<usize> {
        let mut users = self.clients[client].users.iter();
        users.position(|user| of(&user.task).is_some_and(|call| call.round == id))
    }

    /// Takes the task of a user, which is idle from now on.
    pub(crate) fn take_task(&mut self, client: usize, user: usize) -> Task {
        std::mem::take(&mut self.clients[client].users[user].task)
    }

    /// Does something with the lock that a user has, if it has one.
    pub(crate) fn with_hold(
        &mut self,
        client: usize,
        user: usize,
        act: impl FnOnce(&mut Self, &mut Hold),
    ) {
        let mut task = self.take_task(client, user);
        if let Some(hold) = task.hold_mut() {
            act(self, hold);
        }
        self.clients[client].users[user].task = task;
    }

    fn set_task(&mut self, client: usize, user: usize, task: Task, next: Time) {
        let begun = self.shown(client);
        let user = &mut self.clients[client].users[user];
        user.task = task;
        user.at = next;
        user.begun = begun;
    }

    /// Lets a user pause, because its task is over.
    fn rest(&mut self, client: usize, user: usize) {
        let rest = self.entropy.rest(self.plan.rest);
        // A user of another group gets the error at once, and would otherwise do nothing but ask.
        let least = if self.plan.is_outsider(client) {
            50 * MILLI
        } else if self.clients[client].users[user].fenced {
            5 * MILLI // So is one that wants a fencing token where nodes have no floor.
        } else if self.is_overloaded(client) {
            50 * MILLI
        } else {
            0
        };
        let rest = rest.max(least);
        let now = self.now;
        let user = &mut self.clients[client].users[user];
        user.task = Task::Idle;
        user.ended = now;
        // The user does not begin at once: with too little time left, a call is over when it begins.
        user.at = now + if user.takes { MILLI } else { rest };
    }

    /// Returns `true` if so much work waits for transactions that the oracles, which look at all of it in each turn,
    /// would take hours.
    fn is_overloaded(&self, client: usize) -> bool {
        let there = &self.clients[client];
        let conns = there.links.iter().flatten();
        let mut nodes = conns.filter_map(|conn| self.conns[*conn].id);
        let waits = |node| waiting_work(&there.engine, node).nth(WAITING_MAX).is_some();
        self.plan.is_bare() && nodes.any(waits)
    }

    /// Returns how long a user works before it does anything with its lock. It never does so at once: the time
    /// separates earlier from later commands. When all faults have ended, it does not keep others out for longer than
    /// they have time, because its engine may keep its lock.
    fn work(&mut self) -> Time {
        let work = self.plan.shortest_work + self.entropy.span(self.plan.work);
        let most = if self.calm { LONGEST_LAST_WORK } else { NEVER };
        self.now + 1 + work.min(most)
    }

    /// Lets a user work with the lock that it has.
    fn goes_on(&mut self, client: usize, user: usize, hold: Hold) {
        let next = self.work();
        self.set_task(client, user, Task::Holding(hold), next);
    }

    fn call(&mut self, client: usize, round: RoundId, ttl: Duration) -> Call {
        self.calls += 1;
        Call {
            number: self.calls,
            round,
            since: self.now,
            begun: self.shown(client),
            ttl: ttl.as_millis() as u64,
            ends: Instant::MAX,
            limits: Limits::default(),
        }
    }

    pub(crate) fn hold_belief(&mut self, client: usize, user: usize, hold: &Hold) {
        let belief = Belief {
            user,
            token: token_of(hold.lock.token().as_bytes()),
            until: hold.lock.valid_until(),
            kind: self.kind_of(&hold.lock),
        };
        self.oracle.note_of(&hold.lock, |record| {
            record.believed = record.believed.max(belief.until);
        });
        self.apart(client, user, hold);
        for resource in self.names_of(client, user) {
            self.believe(client, resource, belief);
        }
        self.delays(client, &self.names_of(client, user), &hold.lock);
    }

    // ----- what users are told ------------------------------------------------------------------

    pub(crate) fn tell(&mut self, client: usize, told: Told) {
        self.client_says(client, || trace::outcome(&told));
        self.oracle.counts.sights.told(&told);
        match told {
            Told::Acquired { round, result } => {
                let Some(user) = self.user_of(client, round, Task::call) else {
                    return self.told_of_another(client);
                };
                self.acquired(client, user, result);
            }
            Told::Extended { round, result } => match self.user_of(client, round, Task::call) {
                Some(user) => self.extended(client, user, result),
                None => self.extended_besides(client, round, result),
            },
            Told::Released { round, result } => {
                let Some(user) = self.user_of(client, round, Task::call) else {
                    return self.told_of_another(client);
                };
                if let Task::Releasing { call, release } = self.take_task(client, user) {
                    self.check_release(client, &call, release, &result);
                }
                self.rest(client, user);
            }
            Told::Expired { lock } => {
                self.oracle.counts.sights.note("ToldOfLoss");
                if let Some(user) = self.told_of(client, lock) {
                    self.end_beliefs(client, user);
                    self.ended_though_kept(client, user);
                    self.lost_unasked(client, user);
                    let soon = self.now + MILLI;
                    let user = &mut self.clients[client].users[user];
                    user.at = user.at.min(soon);
                }
            }
            Told::Kept { lock, result } => self.kept(client, lock, &result),
            Told::AtRisk { lock } => self.at_risk(client, lock),
            Told::Inspected { round, result } => {
                if !self.changed(client, round, &result) {
                    self.check_inspection(client, round, &result);
                }
            }
            Told::Reinitialised { round, result } => self.reinitialised(client, round, &result),
            Told::FloorsGiven { .. } => match self.clients[client].floors.checked_sub(1) {
                Some(floors) => self.clients[client].floors = floors,
                None => self.object("outcome", format!("client {client} has given no floor")),
            },
            Told::Confirmed { .. } | _ => {
                self.object("outcome", format!("client {client} was told something new"));
            }
        }
    }

    /// Objects to a report about a call that the client has not made.
    pub(crate) fn told_of_another(&mut self, client: usize) {
        let text = format!("client {client} was told of no call of its own");
        self.object("outcome", text);
    }

    fn acquired(&mut self, client: usize, user: usize, result: Result<Lock, LockError>) {
        let Task::Acquiring { call, keep, .. } = self.take_task(client, user) else {
            return;
        };
        self.acquire_ended(client, user, result.as_ref().ok());
        match result {
            Ok(lock) => {
                self.in_turn(client, user, &call);
                self.got(client, user, lock, (&call, keep));
            }
            Err(error) => {
                self.check_refusal(client, user, &call, &error);
                self.rest(client, user);
            }
        }
    }

    /// Handles a lock that was granted. Like the faces, it reads the clock once more before the lock is returned.
    fn got(
        &mut self,
        client: usize,
        user: usize,
        lock: Lock,
        (call, keep): (&Call, Option<Duration>),
    ) {
        self.oracle.counts.locks += 1;
        if lock.is_shared() {
            self.oracle.counts.sights.note("Shared");
        }
        if lock.slot().is_some() {
            self.oracle.counts.sights.note("Permitted");
        }
        let there = &self.clients[client].users[user];
        let permits = there.permits;
        if lock.is_shared() != there.shared || lock.slot().is_some() != permits.is_some() {
            self.object("votes", format!("client {client} got {lock:?} for another"));
        }
        self.check_token(client, user, &lock);
        self.check_grant(client, user, &lock, call);
        let shown = self.shown(client);
        if !lock.is_valid_at(shown) {
            self.clients[client].engine.give_back(shown, lock);
            self.rest(client, user);
            return;
        }
        self.alive_when_handed_out(client, &lock);
        self.took(client, user);
        self.starvation(client, self.plan.resource_of(user));
        self.overtakes(client, self.plan.resource_of(user));
        let mut hold = Hold::new(lock, self.now, self.plan.extensions);
        hold.keep = keep.map(|most| self.begins_keeping(client, &hold.lock, most));
        self.ask_for_alert(client, &mut hold);
        self.hold_belief(client, user, &hold);
        let next = match hold.lock.is_shared() && self.plan.reads_for != 0 {
            true => self.now + self.plan.reads_for,
            false => self.work(),
        };
        self.set_task(client, user, Task::Holding(hold), next);
    }

    fn extended(&mut self, client: usize, user: usize, result: Extended) {
        let Task::Extending { mut hold, call } = self.take_task(client, user) else {
            return;
        };
        self.apply_extension(client, user, &mut hold, Verb::Extend, &call, result);
        self.goes_on(client, user, hold);
    }

    /// Handles the end of a user's second call.
    fn extended_besides(&mut self, client: usize, round: RoundId, result: Extended) {
        if let Some(user) = self.user_of(client, round, Task::asked) {
            self.confirmed(client, user, result);
        } else if let Some(user) = self.user_of(client, round, Task::beside) {
            self.clients[client].users[user].begun = self.shown(client);
            self.with_hold(client, user, |world, hold| {
                if let Some(call) = hold.beside.take() {
                    world.apply_extension(client, user, hold, Verb::Beside, &call, result);
                }
            });
        } else {
            self.closed(client, round, &result);
        }
    }

    fn apply_extension(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        verb: Verb,
        call: &Call,
        result: Extended,
    ) {
        self.extend_ended(client, user, verb);
        let shown = self.shown(client);
        let before = (hold.known, hold.lock.ttl());
        match result {
            Ok(extension) if extension.apply(&mut hold.lock) => {
                self.oracle.counts.sights.note("Extended");
                if verb == Verb::Beside {
                    self.oracle.counts.sights.note("Doubled");
                }
                hold.extensions = hold.extensions.map(|left| left.saturating_sub(1));
                // Another extension may have been longer.
                let until = extension.valid_until().max(before.0);
                self.check_extension(client, (hold, until), verb, call, before);
                hold.known = until;
                if hold.lock.is_valid_at(shown) && !hold.told {
                    self.hold_belief(client, user, hold);
                }
            }
            Ok(_) => self.object(
                "outcome",
                format!("client {client} got another's extension"),
            ),
            Err(error) => {
                let wrong = self.unextended(client, hold, verb, call, &error);
                self.object_to(client, &error, wrong);
                if matches!(error, ExtendError::Lost(_)) {
                    self.told_of_loss(client, hold);
                    // Remaining copies are released now, and all others when the user releases it.
                    self.oracle.misses(&hold.lock);
                    self.end_beliefs(client, user);
                }
            }
        }
    }

    /// Handles the end of a confirmation.
    fn confirmed(&mut self, client: usize, user: usize, result: Extended) {
        // An earlier end cannot have been reported until now.
        self.clients[client].users[user].begun = self.shown(client);
        self.confirm_ended(client, user);
        self.with_hold(client, user, |world, hold| {
            let Some(asked) = hold.confirming.take() else {
                return;
            };
            match result {
                Ok(extension) => world.apply_confirmation(client, user, hold, &asked, &extension),
                Err(error) => {
                    let wrong = world.unconfirmed(client, hold, &asked, &error);
                    world.object_to(client, &error, wrong);
                    if matches!(error, ExtendError::Lost(_)) {
                        world.oracle.misses(&hold.lock);
                    }
                    if matches!(error, ExtendError::Lost(_) | ExtendError::Expired) {
                        world.told_of_loss(client, hold);
                        world.end_beliefs(client, user);
                    }
                }
            }
            world.confirmed_beside(client, user, hold);
        });
    }

    fn apply_confirmation(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        asked: &Confirming,
        extension: &Extension,
    ) {
        let before = hold.known;
        if !extension.apply(&mut hold.lock) {
            let text = format!("client {client} got another's confirmation");
            self.object("outcome", text);
            return;
        }
        self.check_confirmation(client, hold, asked, (before, extension.valid_until()));
        hold.is_told(extension.valid_until());
        let sights = &mut self.oracle.counts.sights;
        sights.note("Confirmed");
        if before == Instant::ZERO {
            sights.note("Revived");
        } else if hold.lock.valid_until() < before {
            sights.note("Shortened");
        }
        if hold.lock.is_valid_at(self.shown(client)) && !hold.told {
            self.hold_belief(client, user, hold);
        }
    }

    /// Handles the end of a confirmation whose lock was released meanwhile.
    fn closed(&mut self, client: usize, round: RoundId, result: &Extended) {
        let users = &mut self.clients[client].users;
        let mut known = false;
        for user in users {
            known |= user.let_go.contains(&round);
            user.let_go.retain(|other| *other != round);
        }
        if !known || !matches!(result, Err(ExtendError::Closed)) {
            self.told_of_another(client);
        }
    }

    // ----- what users do ------------------------------------------------------------------------

    /// Lets one user whose time has come do something. Returns whether one did.
    pub(crate) fn act(&mut self, client: usize) -> bool {
        if let Some((resource, lock)) = self.clients[client].handed.pop() {
            self.adopt(client, resource, lock);
            return true;
        }
        if let Some(node) = self.clients[client].trusted.pop() {
            self.trust(client, node);
            return true;
        }
        if let Some(node) = self.clients[client].next_to_trust()
            && self.oracle.knows_all(self.plan.server_of(node), self.now)
        {
            self.trust(client, node);
            return true;
        }
        if std::mem::take(&mut self.clients[client].to_reinit) {
            self.reinit(client);
            return true;
        }
        if self.inspects(client) || self.watches(client) {
            return true;
        }
        let now = self.now;
        let there = &mut self.clients[client];
        let finishing = there.finishing || self.entropy.is_spent();
        let mut users = there.users.iter_mut();
        let due = users.position(|user| {
            let over = finishing && matches!(user.task, Task::Idle) && !user.takes;
            if over {
                user.at = NEVER;
            }
            user.at <= now
        });
        let Some(user) = due else {
            return false;
        };
        self.clients[client].users[user].at = NEVER;
        match self.take_task(client, user) {
            Task::Idle => self.acquire(client, user),
            Task::Acquiring { call, .. } => self.cancel_wait(client, user, &call),
            Task::Holding(hold) => self.use_lock(client, user, hold),
            Task::Extending { hold, call } => self.interrupt(client, user, hold, &call),
            task @ Task::Releasing { .. } => self.set_task(client, user, task, NEVER),
        }
        true
    }

    /// Lets a client ask who holds a resource. Returns whether it does.
    fn inspects(&mut self, client: usize) -> bool {
        let there = &self.clients[client];
        let busy = there.finishing || there.inspecting.is_some();
        if busy || !self.entropy.chance(self.plan.inspects) {
            return false;
        }
        let resource = self.entropy.below(self.plan.names() as u32) as usize;
        let shown = self.shown(client);
        self.client_says(client, || format!("inspects resource {resource}"));
        let before = all_open(&self.clients[client].engine);
        let name = self.names[resource];
        match self.clients[client].engine.inspect(shown, &name) {
            Ok(round) => {
                let open = Inspecting::new(round, resource, shown);
                self.clients[client].inspecting = Some(open);
            }
            Err(OperatorError::Saturated) => self.check_saturated(client, before),
            Err(error) => self.object("outcome", format!("client {client} got {error:?}")),
        }
        true
    }

    /// Lets an operator call `reinit`.
    fn reinit(&mut self, client: usize) {
        let shown = self.shown(client);
        self.client_says(client, || "claims all nodes".into());
        match self.clients[client].engine.reinit(shown) {
            Ok(round) => {
                let call = self.call(client, round, Duration::ZERO);
                self.clients[client].reinit = Some(call);
                for node in 0..self.plan.nodes {
                    if let Some(conn) = self.clients[client].links[node] {
                        self.conns[conn].asked_to_join += 2;
                    }
                }
            }
            Err(error) => self.check_unclaimed(client, &error),
        }
    }

    fn reinitialised(&mut self, client: usize, round: RoundId, result: &Result<(), OperatorError>) {
        let call = self.clients[client].reinit.take();
        match call.filter(|call| call.round == round) {
            Some(call) => self.check_claimed(client, &call, result),
            None => self.told_of_another(client),
        }
    }

    /// Lets an operator trust a node.
    fn trust(&mut self, client: usize, node: usize) {
        let shown = self.shown(client);
        let link = self.clients[client].links[node];
        let Some(id) = link.and_then(|conn| self.conns[conn].id) else {
            return; // The node is disconnected again.
        };
        let server = self.plan.server_of(node);
        if !self.oracle.knows_all(server, self.now) {
            return; // The node has forgotten since: no operator would trust it.
        }
        let engine = &mut self.clients[client].engine;
        let status = engine.node_statuses(shown).nth(node);
        let Some(run_id) = status.and_then(|status| status.run_id) else {
            return; // The node has not told its identity yet.
        };
        if self.plan.fenced != 0 && !self.would_lift(client, server, &run_id) {
            return; // The node gives tokens, or the operator does not know those that it has given.
        }
        let engine = &mut self.clients[client].engine;
        let rounds = all_open(engine).rounds;
        if engine.trust(shown, id, &run_id).is_err() {
            return; // The handshake is not done yet.
        }
        let begun = all_open(engine).rounds - rounds;
        self.clients[client].floors += begun;
        self.client_says(client, || format!("trusts node {node}"));
        self.oracle.trusts(client, server);
        if let Some(conn) = link {
            self.conns[conn].asked_to_join += 1;
            self.conns[conn].trusted = true;
        }
    }

    /// Lets a waiting user cancel after an answer has been read: before the outcome is reported, and perhaps when it is
    /// already certain.
    pub(crate) fn rethink(&mut self, client: usize) {
        if self.plan.second_thoughts == 0 || self.calm {
            return;
        }
        for user in 0..self.clients[client].users.len() {
            let asks = self.clients[client].users[user].task.asked().is_some();
            if asks && self.entropy.chance(self.plan.second_thoughts) {
                self.cancel_confirmation(client, user);
            }
            let doubles = self.clients[client].users[user].task.beside().is_some();
            if doubles && self.entropy.chance(self.plan.second_thoughts) {
                self.cancel_beside(client, user);
            }
            let task = &self.clients[client].users[user].task;
            let waits = matches!(task, Task::Acquiring { .. } | Task::Extending { .. });
            if !waits || !self.entropy.chance(self.plan.second_thoughts) {
                continue;
            }
            match self.take_task(client, user) {
                Task::Extending { hold, call } => self.cancel_extension(client, user, hold, &call),
                Task::Acquiring { call, .. } => self.cancel_wait(client, user, &call),
                task @ (Task::Idle | Task::Holding(_) | Task::Releasing { .. }) => {
                    self.set_task(client, user, task, NEVER);
                }
            }
        }
    }

    fn cancel_wait(&mut self, client: usize, user: usize, call: &Call) {
        let shown = self.shown(client);
        self.client_says(client, || format!("cancels its wait for resource {user}"));
        self.oracle.counts.sights.note("Cancelled");
        self.acquire_ended(client, user, None);
        self.clients[client].engine.cancel(shown, call.round);
        self.rest(client, user);
    }

    /// Returns the options of a call, and how many tries it has.
    fn options(&mut self, client: usize, user: usize, ttl: Duration) -> LockOptions {
        let wait = MILLI + self.entropy.span(self.plan.wait);
        let kind = self.entropy.below(3);
        let mut options = LockOptions::new(ttl);
        if let Some(most) = self.plan.extensions {
            options = options.extensions(most);
        }
        if self.clients[client].users[user].takes {
            let left = self.taken_by.saturating_sub(self.now);
            return options.wait(Duration::from_nanos(left.max(MILLI)));
        }
        if self.plan.patient {
            return options.wait(Duration::from_nanos(self.plan.wait));
        }
        let options = match kind {
            0 => options.tries(1),
            1 => options.wait(Duration::from_nanos(wait)),
            _ => options,
        };
        let options = self.keeping(options);
        self.fencing(client, options)
    }

    /// Returns the options of a call, whose lock the engine may have to keep.
    fn keeping(&mut self, options: LockOptions) -> LockOptions {
        if !self.entropy.chance(self.plan.keeps) {
            return options;
        }
        if self.entropy.below(3) != 2 {
            return options.keep();
        }
        let most = self.entropy.span(20 * self.plan.longest_ttl * MILLI);
        options.keep_for(Duration::from_nanos(most.max(1)))
    }

    fn acquire(&mut self, client: usize, user: usize) {
        let ttl = self.ttl(client, user);
        let options = self.options(client, user, ttl);
        self.draw_set(client, user);
        let shown = self.shown(client);
        let alone = !self.plan.wants_sets(user);
        let permits = match alone && self.entropy.chance(self.plan.permits.0) {
            true => Some(self.permits_of(client)),
            false => None,
        };
        let mut shared = alone
            && permits.is_none()
            && !options.is_fenced()
            && self.entropy.chance(self.plan.shared);
        if self.plan.reads_for != 0 {
            shared = (client, user) != (0, 0);
        }
        let there = &mut self.clients[client].users[user];
        there.fenced = options.is_fenced();
        there.asks_twice = options.is_fenced() || permits.is_some();
        (there.shared, there.permits) = (shared, permits);
        self.tell_wall(client, shown);
        self.client_says(client, || {
            let how = match permits {
                Some(permits) => format!("wants one of {permits} of"),
                None if shared => "wants to read".into(),
                None => "wants".into(),
            };
            let limits = trace::limits(&options);
            format!("{how} resource {user} for {ttl:?}, {limits}")
        });
        let set = self.clients[client].users[user].set.iter();
        let all: Vec<&[u8]> = set.map(|name| &self.names[*name][..]).collect();
        let name = &self.names[self.plan.resource_of(user)];
        let request = match (all.is_empty(), shared) {
            _ if permits.is_some() => Request::permit(name, permits.unwrap_or(1), &options),
            (true, false) => Request::new(name, &options),
            (true, true) => Request::shared(name, &options),
            (false, _) => Request::all(&all, &options),
        };
        let before = all_open(&self.clients[client].engine);
        match self.clients[client].engine.acquire(shown, &request) {
            Ok(round) => {
                self.check_room(client, before);
                let next = match self.entropy.chance(self.plan.cancels) && !self.calm {
                    true => self.work(),
                    false => NEVER,
                };
                let retry = shearline::Retry::new(TRIES, Duration::ZERO..=Duration::ZERO);
                let limits = Limits {
                    tries: options.limit(&retry),
                    deadline: options.deadline().map(|wait| shown.saturating_add(wait)),
                };
                let task = Task::Acquiring {
                    call: Call {
                        limits,
                        ..self.call(client, round, ttl)
                    },
                    keep: options.kept_for(),
                    passed_over: 0,
                    stopped: self.clients[client].stopped,
                };
                self.oracle.asks(client, self.plan.resource_of(user));
                self.acquire_begun(client, user);
                // Users with more tries may leave the lock to other clients first, or wait.
                let once = limits.tries == Some(1);
                self.clients[client].called = once.then_some(shown);
                self.set_task(client, user, task, next);
            }
            Err(error) if Self::is_saturated(&error) => {
                self.check_saturated(client, before);
                // The releases for lost servers may take all the room for ever.
                self.took(client, user);
                self.rest(client, user);
            }
            Err(error) => {
                self.object("outcome", format!("client {client} got {error:?} at once"));
                self.rest(client, user);
            }
        }
    }

    /// Draws a ttl. While all is well, it is long enough for every node.
    fn ttl(&mut self, client: usize, user: usize) -> Duration {
        let ttl = self.plan.draw_ttl(client, &mut self.entropy);
        // The last bits distinguish extensions by an engine from those by its users.
        let ttl = match self.plan.has_kept_locks() {
            true => (ttl & !3) - 2,
            false => ttl,
        };
        let takes = self.clients[client].users[user].takes;
        Duration::from_millis(match takes {
            true => self.plan.max_ttl_of(client),
            false => ttl,
        })
    }

    fn use_lock(&mut self, client: usize, user: usize, hold: Hold) {
        self.keeps_its_token(client, &hold.lock);
        let leaves = self.clients[client].finishing || self.entropy.is_spent();
        // A lock that is kept already is rarely kept once more.
        let rate = match hold.keep {
            Some(_) => self.plan.keeps_held / 8,
            None => self.plan.keeps_held,
        };
        if !leaves && self.entropy.chance(rate) {
            self.keep_from_now_on(client, user, hold);
            return;
        }
        if !leaves && self.entropy.chance(self.plan.downgrades) && self.may_downgrade(client, &hold)
        {
            self.downgrade(client, user, hold);
            return;
        }
        let mut habit = self.habit(client, &hold);
        if self.is_limited(client, &hold) && (habit == 2 || habit == 3) {
            habit = 4; // All extensions are by the engine.
        }
        match habit {
            0 => self.release(client, user, hold),
            1 => {
                self.end_beliefs(client, user);
                let shown = self.shown(client);
                self.client_says(client, || format!("drops resource {user}"));
                self.oracle.asks_release(&hold.lock, self.inputs);
                self.let_go(client, user, &hold);
                self.clients[client].engine.give_back(shown, hold.lock);
                self.rest(client, user);
            }
            2 => self.extend(client, user, hold),
            3 => self.hand_over(client, user, hold),
            CONFIRM => self.confirm(client, user, hold),
            _ => {
                let mut hold = hold;
                self.ask_for_alert(client, &mut hold);
                let next = self.now + MILLI + self.entropy.span(2 * self.plan.longest_ttl * MILLI);
                self.set_task(client, user, Task::Holding(hold), next);
            }
        }
    }

    /// Lets the engine keep a held lock, perhaps up to a limit, even one that it keeps already. A second extension by
    /// the user may be open.
    fn keep_from_now_on(&mut self, client: usize, user: usize, mut hold: Hold) {
        let most = self.entropy.span(20 * self.plan.longest_ttl * MILLI);
        let ttl = hold.lock.ttl().as_millis() as u64;
        let most = match (self.entropy.below(3), hold.beside) {
            // All extensions are by the engine then.
            (2, None) => Duration::from_nanos(most),
            _ => Duration::MAX,
        };
        if hold.beside.is_none_or(|beside| beside.ttl != ttl) {
            let shown = self.shown(client);
            self.client_says(client, || {
                format!("keeps resource {user} from now on, for {most:?}")
            });
            let engine = &mut self.clients[client].engine;
            let begun = engine.keep(shown, &mut hold.lock, most);
            self.check_keeping_begun(client, &hold, &begun);
            if begun.is_ok() {
                self.keeps_from_now_on(client, &mut hold, most);
            }
        }
        self.goes_on(client, user, hold);
    }

    /// Lets some users ask to be told when their locks are at risk, mostly when a quarter of the ttl is left.
    fn ask_for_alert(&mut self, client: usize, hold: &mut Hold) {
        if !self.entropy.chance(self.plan.alerts) || hold.told {
            return;
        }
        let ttl = hold.lock.ttl();
        let left = match self.entropy.below(3) {
            2 => Duration::from_nanos(1 + self.entropy.span(2 * self.plan.longest_ttl * MILLI)),
            _ => ttl / 4,
        };
        let since = self.shown(client);
        self.client_says(client, || format!("wants to be told when {left:?} is left"));
        self.clients[client].engine.alert_below(&hold.lock, left);
        let before = hold.alert.map_or(Duration::ZERO, |alert| alert.left);
        let left = left.max(before);
        hold.alert = Some(Alert { left, since });
    }

    /// Returns what a holder does next, by its place in the plan.
    fn habit(&mut self, client: usize, hold: &Hold) -> usize {
        let habits = self.plan.habits;
        let total: u32 = habits.iter().sum();
        if self.clients[client].finishing || self.entropy.is_spent() || total == 0 {
            return 0;
        }
        let unknown = hold.lock.valid_until() == Instant::ZERO && hold.confirming.is_none();
        if unknown && self.entropy.below(4) > 0 {
            return CONFIRM;
        }
        let mut drawn = self.entropy.below(total);
        habits
            .iter()
            .position(|weight| {
                let here = drawn < *weight;
                drawn = drawn.wrapping_sub(*weight);
                here
            })
            .unwrap_or(0)
    }

    /// Confirms the lock, or cancels a confirmation. Both may happen while other calls about the lock are open.
    fn confirm(&mut self, client: usize, user: usize, mut hold: Hold) {
        let shown = self.shown(client);
        let next = self.work();
        if hold.confirming.is_some() {
            self.set_task(client, user, Task::Holding(hold), next);
            self.cancel_confirmation(client, user);
            return;
        }
        self.client_says(client, || {
            format!("asks for how long it has resource {user}")
        });
        let before = all_open(&self.clients[client].engine);
        let begun = self.clients[client].engine.confirm(shown, &hold.lock);
        match begun {
            Ok(round) => {
                self.check_confirmation_begun(client, &hold);
                self.oracle
                    .note_of(&hold.lock, |record| record.confirms += 1);
                self.confirming(client, user, &mut hold, round);
            }
            Err(error) => self.not_confirming(client, &hold, &error, before),
        }
        self.set_task(client, user, Task::Holding(hold), next);
    }

    /// Notes that the nodes are asked for how long they keep a lock.
    fn confirming(&mut self, client: usize, user: usize, hold: &mut Hold, round: RoundId) {
        self.confirm_begun(client, user);
        hold.asked = true;
        hold.confirming = Some(Confirming {
            call: self.call(client, round, hold.lock.ttl()),
            within: hold.lock.valid_until(),
            // An engine that keeps the lock extends it at any time.
            overtaken: hold.cancelled.is_some() || hold.doubled || hold.keep.is_some(),
        });
    }

    /// Checks that the engine had a reason not to ask the nodes. Its load was `before`.
    fn not_confirming(&mut self, client: usize, hold: &Hold, error: &ExtendError, before: Load) {
        if Self::is_unasked(error) {
            return self.check_saturated(client, before);
        }
        self.oracle.counts.sights.unextended(error);
        self.check_unconfirming(client, hold, error);
    }

    /// Returns how many permits a client thinks there are.
    fn permits_of(&self, client: usize) -> u16 {
        let (_, permits) = self.plan.permits;
        let last = client + 1 == self.plan.clients && 1 < client;
        permits + u16::from(self.plan.other_permits && last)
    }

    fn may_downgrade(&self, client: usize, hold: &Hold) -> bool {
        let valid = hold.lock.is_valid_at(self.clients[client].shown) && !hold.told;
        let alone = !hold.lock.is_shared() && hold.lock.slot().is_none();
        valid && alone && hold.lock.resources().len() == 1
    }

    /// Makes an exclusive lock a shared one. Other questions about it are over; the outcome is that of a confirmation.
    fn downgrade(&mut self, client: usize, user: usize, mut hold: Hold) {
        let shown = self.shown(client);
        self.client_says(client, || format!("goes on with reading resource {user}"));
        let before = all_open(&self.clients[client].engine);
        let begun = self.clients[client].engine.downgrade(shown, &mut hold.lock);
        match begun {
            Ok(round) => {
                self.ends_others(client, user, &hold);
                hold.beside = None;
                self.oracle.counts.sights.note("Downgraded");
                // The nodes are asked as for a confirmation.
                self.oracle.note_of(&hold.lock, |record| {
                    record.confirms += 1;
                    record.downgraded = true;
                });
                hold.downgraded = true;
                self.confirming(client, user, &mut hold, round);
                self.hold_belief(client, user, &hold);
            }
            Err(error) => self.not_confirming(client, &hold, &error, before),
        }
        self.goes_on(client, user, hold);
    }

    fn cancel_confirmation(&mut self, client: usize, user: usize) {
        let shown = self.shown(client);
        self.with_hold(client, user, |world, hold| {
            let Some(asked) = hold.confirming.take() else {
                return;
            };
            hold.unasked = Some(asked.call);
            world.confirm_ended(client, user);
            world.oracle.counts.sights.note("Cancelled");
            world.clients[client].engine.cancel(shown, asked.call.round);
            world.client_says(client, || "does not want to know for how long".into());
            world.confirmed_untold(client, user, hold, &asked);
        });
    }

    /// Forgets the confirmations and extensions of a lock that is released: the engine ends such calls.
    fn let_go(&mut self, client: usize, user: usize, hold: &Hold) {
        self.keeps_no_more(client, hold);
        self.ends_others(client, user, hold);
    }

    /// Forgets the confirmation and the second extension of a lock, whose calls the engine ends.
    fn ends_others(&mut self, client: usize, user: usize, hold: &Hold) {
        if let Some(call) = hold.beside {
            self.extend_ended(client, user, Verb::Beside);
            self.clients[client].users[user].let_go.push(call.round);
        }
        if let Some(asked) = hold.confirming {
            self.confirm_ended(client, user);
            let rounds = &mut self.clients[client].users[user].let_go;
            rounds.push(asked.call.round);
        }
    }

    fn extend(&mut self, client: usize, user: usize, mut hold: Hold) {
        let Some(call) = self.begin_extension(client, user, &mut hold, Verb::Extend) else {
            self.goes_on(client, user, hold);
            return;
        };
        let next = self.thinks_better_at();
        self.set_task(client, user, Task::Extending { hold, call }, next);
    }

    /// Returns when a user does something though its extension is open, if ever: after some time,
    /// or before any answer can be read.
    fn thinks_better_at(&mut self) -> Time {
        if !self.entropy.chance(self.plan.cancels) {
            NEVER
        } else if self.entropy.below(2) == 0 {
            self.work()
        } else {
            self.now + 1 + self.entropy.span(2 * self.plan.delay)
        }
    }

    /// Extends a lock again while an extension is open.
    fn extend_again(&mut self, client: usize, user: usize, mut hold: Hold, call: Call) {
        hold.beside = self.begin_extension(client, user, &mut hold, Verb::Beside);
        hold.doubled |= hold.beside.is_some();
        let next = self.thinks_better_at();
        self.set_task(client, user, Task::Extending { hold, call }, next);
    }

    /// Extends a lock. The ttl distinguishes the two kinds of extensions.
    fn begin_extension(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        verb: Verb,
    ) -> Option<Call> {
        let even = self.ttl(client, user).as_millis() as u64 & !1;
        // In worlds in which engines keep locks, it is a multiple of four.
        let mut even = match self.plan.has_kept_locks() {
            true => even & !3,
            false => even,
        };
        let odd = u64::from(verb == Verb::Beside);
        while self.looks_kept(client, hold, even - odd) {
            even += 4;
        }
        let ttl = Duration::from_millis(even - odd);
        let shown = self.shown(client);
        self.client_says(client, || format!("extends resource {user} by {ttl:?}"));
        let before = all_open(&self.clients[client].engine);
        match self.clients[client].engine.extend(shown, &hold.lock, ttl) {
            Ok(round) => {
                self.check_begun(client, hold);
                self.told_and_extended(client, hold);
                self.oracle
                    .note_of(&hold.lock, |record| record.extends += 1);
                if let Some(asked) = &mut hold.confirming {
                    asked.overtaken = true;
                }
                let call = Call {
                    ends: hold.lock.valid_until(),
                    ..self.call(client, round, ttl)
                };
                self.extend_begun(client, user, verb, &call, hold);
                Some(call)
            }
            Err(error) => {
                self.oracle.counts.sights.unextended(&error);
                if Self::is_unasked(&error) {
                    self.check_saturated(client, before);
                } else {
                    self.check_unbegun(client, hold, &error);
                }
                None
            }
        }
    }

    /// A user changes its mind during an extension: it releases the lock, leaves it, hands it over,
    /// or extends it once more; of two extensions it cancels the second.
    fn interrupt(&mut self, client: usize, user: usize, hold: Hold, call: &Call) {
        let next = self.entropy.below(6);
        if 3 <= next && hold.beside.is_none() {
            self.extend_again(client, user, hold, *call);
            return;
        }
        if 3 <= next {
            let next = self.thinks_better_at();
            self.set_task(client, user, Task::Extending { hold, call: *call }, next);
            self.cancel_beside(client, user);
            return;
        }
        self.extend_ended(client, user, Verb::Extend);
        if next == 1 {
            self.cancel_extension(client, user, hold, call);
            return;
        }
        self.clients[client].users[user].let_go.push(call.round);
        if next == 0 {
            self.release(client, user, hold);
        } else {
            self.hand_over(client, user, hold);
        }
    }

    fn cancel_extension(&mut self, client: usize, user: usize, mut hold: Hold, call: &Call) {
        let shown = self.shown(client);
        self.client_says(client, || {
            format!("cancels the extension of resource {user}")
        });
        self.oracle.counts.sights.note("Cancelled");
        self.clients[client].engine.cancel(shown, call.round);
        hold.cancelled = Some(*call);
        self.extended_untold(client, user, &mut hold, Verb::Extend, call);
        self.goes_on(client, user, hold);
    }

    fn cancel_beside(&mut self, client: usize, user: usize) {
        let shown = self.shown(client);
        self.with_hold(client, user, |world, hold| {
            let Some(call) = hold.beside.take() else {
                return;
            };
            hold.cancelled_beside = Some(call);
            world.client_says(client, || {
                format!("cancels the second extension of resource {user}")
            });
            world.extend_ended(client, user, Verb::Beside);
            world.oracle.counts.sights.note("Cancelled");
            world.clients[client].engine.cancel(shown, call.round);
            world.extended_untold(client, user, hold, Verb::Beside, &call);
        });
    }

    fn release(&mut self, client: usize, user: usize, hold: Hold) {
        self.end_beliefs(client, user);
        let shown = self.shown(client);
        self.client_says(client, || format!("releases resource {user}"));
        self.oracle.asks_release(&hold.lock, self.inputs);
        self.let_go(client, user, &hold);
        let token = self.oracle.id_of(&hold.lock);
        let process = self.clients[client].process;
        let record = token.map(|id| self.oracle.ledger.record(id));
        let release = Release {
            token,
            valid: hold.lock.is_valid_at(shown),
            twice: record.is_some_and(|record| {
                record.permits != 0 || record.owner == process && record.heirs.contains(&process)
            }),
        };
        let round = self.clients[client].engine.release(shown, hold.lock);
        let call = self.call(client, round, Duration::ZERO);
        self.set_task(client, user, Task::Releasing { call, release }, NEVER);
    }

    /// Hands the lock to another client. A client on another machine does not know when it ends.
    fn hand_over(&mut self, client: usize, user: usize, hold: Hold) {
        let drawn = self.entropy.below(self.plan.clients as u32) as usize;
        let other = &self.clients[drawn];
        let can = other.alive && !self.plan.is_outsider(drawn);
        let to = if can { drawn } else { client };
        let near = self.clients[to].host == self.clients[client].host;
        self.end_beliefs(client, user);
        self.let_go(client, user, &hold);
        let shown = self.shown(client);
        self.hands_over(client, &hold.lock);
        let lock = self.clients[client].engine.detach(shown, hold.lock);
        let lock = match near {
            true => lock,
            false => from_another_clock(&lock),
        };
        self.oracle.counts.sights.note("HandedOver");
        self.oracle
            .inherited(&lock, self.clients[to].process, self.inputs);
        self.client_says(client, || {
            format!("hands resource {user} over to client {to}")
        });
        self.rest(client, user);
        self.clients[to].handed.push((user, lock));
        self.wake_client(to, self.plan.lag);
    }

    fn adopt(&mut self, client: usize, user: usize, lock: Lock) {
        let shown = self.shown(client);
        let lock = self.clients[client].engine.adopt(shown, lock);
        if !matches!(self.clients[client].users[user].task, Task::Idle) {
            let now = self.now;
            self.oracle.asks_release(&lock, self.inputs);
            self.clients[client].engine.give_back(shown, lock);
            self.clients[client].users[user].ended = now;
            return;
        }
        self.keeps_its_token(client, &lock);
        self.inherits_set(client, user, &lock);
        let left = lock.extensions_left();
        let hold = Hold::new(lock, self.now, (left != u32::MAX).then_some(left));
        if hold.lock.is_valid_at(shown) {
            self.hold_belief(client, user, &hold);
        }
        self.goes_on(client, user, hold);
    }
}

/// Returns the lock as a process with another clock reads it: its end is unknown.
fn from_another_clock(lock: &Lock) -> Lock {
    const CLOCK_KNOWN: usize = 5;
    let mut bytes = lock.to_bytes();
    bytes.truncate(bytes.len() - 8);
    bytes[CLOCK_KNOWN] = 0;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    bytes.extend_from_slice(&sum.to_be_bytes());
    Lock::from_bytes(&bytes).expect("it was written so")
}
