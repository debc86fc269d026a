//! Wake: the engine asks to be woken in time for everything that is due.
//!
//! * Before the time that an engine has asked for nothing is due: a tick there does nothing and leaves nothing to do,
//!   and does not change that time. A tick at that time or later does what was due: the next time that the engine asks
//!   for is still to come. Every second client also wakes a tick before the time that its engine asked for, to find
//!   times that are too late.
//! * A client that goes to sleep has been asked to wake, a tick later at most, for all that is
//!   known from outside to be due: a caller's deadline; the end of a lock, a tick before it; the
//!   end of every vote, of every delay between two attempts and of every node timeout; the end of a
//!   handshake that does not finish; the next try of a lost connection, or of a refused release;
//!   and a node that is silent for too long.
//!
//! * No timer is left over: without a call, a lock or a release to send, an engine asks only for the times of its
//!   connections, and of the next try of a refused release.
//!
//! # What it does not see
//!
//! A timer that is left over and fires while others are due. The engine chooses delays, back-offs and node timeouts
//! that the user has not fixed: only the longest possible value of each is known, from the configuration, the number of
//! failures of a connection and the worst round trip. How long a node may be silent follows from the timeout of the
//! newest call. After a call with a shorter timeout, the next tick may find a node silent that had more time before, so
//! it is not known whether a silence that is over was due. The same holds if the engine has asked for the start of a
//! slot of its wheel for another reason while a node is silent.

use std::time::Duration;

use shearline::engine::Wake;
use shearline::internals::{Cause, all_open};
use shearline::{Instant, NodeState};

use super::Limits;
use crate::client::Path;
use crate::clock::{MILLI, NEVER, SECOND, Time};
use crate::plan::{CONNECT_TIMEOUT, LONGEST_REST};
use crate::user::{Call, Task};
use crate::world::World;

/// The tick of the engine's timers.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// The default node timeouts: for a short ttl, and for a long one.
const USUAL: (Time, Time) = (5 * MILLI, 50 * MILLI);

/// How long a node may be silent before it is suspect, at least.
const PATIENCE: Time = 100 * MILLI;

/// When a refused release is repeated.
const TRY_AGAIN: Time = 250 * MILLI;

/// After how long at the latest a waiter checks whether its lock is free, whatever it was told.
const LONGEST_LOOK: Time = 4 * SECOND;

/// For how long a waiter that has gone may have asked to be reminded of a window.
const REMINDED: Duration = Duration::from_millis(20);

/// Ticks of a slot above the lowest level of the engine's wheel.
const SLOT: Time = 64;

/// What is due, and when by the client's clock.
pub(super) type Due = (&'static str, Instant);

/// The time at which an engine asks to be woken.
pub(crate) type Asked = Option<(Instant, Wake)>;

impl World {
    /// Checks a client that has ticked, and had asked to be woken at `before` until then.
    pub(crate) fn ticked(&mut self, client: usize, before: Asked) {
        let there = &self.clients[client];
        let (now, after) = (there.shown, there.engine.poll_timeout());
        let Some((at, wake)) = before.filter(|(_, wake)| wake.cause() != Cause::Output) else {
            return;
        };
        let next = after.filter(|(_, wake)| wake.cause() != Cause::Output);
        let what = if at <= now {
            let again = next.is_some_and(|(next, _)| next <= now);
            again.then_some("is to be woken again for what is over")
        } else {
            let kept = next.is_some_and(|(next, _)| next <= at);
            let silence = wake.cause() == Cause::Silence || self.may_be_for_a_silence(client, at);
            (!kept && !silence).then_some("did what was not due")
        };
        if let Some(what) = what {
            let text =
                format!("client {client} {what}: it asked for {wake:?}, {before:?}, {after:?}");
            self.object("wake", text);
        }
    }

    /// Returns `true` if a time that an engine has asked for may be the start of a slot of its
    /// wheel in which the end of a silence waits with others, one of which it has named.
    fn may_be_for_a_silence(&self, client: usize, at: Instant) -> bool {
        let slot = (at.as_nanos() / MILLI).is_multiple_of(SLOT);
        let mut conns = self.clients[client].links.iter().flatten();
        slot && conns.any(|conn| self.conns[*conn].written.silent_since.is_some())
    }

    /// Checks a client that has finished its turn, in which it had the time `ticked`.
    pub(crate) fn wake(&mut self, client: usize, ticked: Instant) {
        let asked = self.clients[client].engine.poll_timeout();
        if let Some(at) = self.left_over(client, asked) {
            let text = format!("client {client} has a timer {at:?} that is for nothing: {asked:?}");
            self.object("wake", text);
        }
        // Things that are over are checked elsewhere.
        let due = self
            .due(client)
            .filter(|(_, due)| ticked < due.saturating_add(TICK));
        let Some((what, due)) = due.min_by_key(|(_, due)| *due) else {
            return;
        };
        if asked.is_none_or(|(at, _)| due.saturating_add(TICK) < at) {
            let text = format!("client {client} sleeps until {asked:?}, and {what} is due {due:?}");
            self.object("wake", text);
        }
    }

    /// Returns when an engine asks to be woken for a call, a lock or a release that it does not have.
    fn left_over(&self, client: usize, asked: Asked) -> Option<Instant> {
        let there = &self.clients[client];
        let load = all_open(&there.engine);
        let (at, wake) = asked?;
        let nothing = match wake.cause() {
            Cause::Retry if at <= there.shown.saturating_add(REMINDED) => false,
            Cause::Retry | Cause::NodeTimeout | Cause::Deadline => load.rounds == 0,
            Cause::Expiry | Cause::Extension => load.claims == 0,
            Cause::Debt => {
                let tried_again = after(there.shown, TRY_AGAIN).saturating_add(TICK);
                load.claims == 0 && load.debts == 0 && tried_again < at
            }
            Cause::Output | Cause::Connection | Cause::Silence | Cause::Repair => false,
        };
        nothing.then_some(at)
    }

    /// Returns what is known from outside to be due, and when by the client's clock.
    fn due(&self, client: usize) -> impl Iterator<Item = Due> {
        let there = &self.clients[client];
        let users = (0..there.users.len()).flat_map(move |user| self.due_for(client, user));
        let owed = 0 < all_open(&there.engine).debts;
        let statuses = owed.then(|| there.engine.node_statuses(there.shown));
        let refused = statuses.into_iter().flatten().enumerate();
        let refused = refused.filter(move |(node, status)| {
            there.paths[*node].ready_at < NEVER && status.in_flight == 0 && 0 < status.debts
        });
        let again = after(there.shown, TRY_AGAIN);
        let nodes = 0..self.plan.nodes_of(client);
        users
            .chain(refused.map(move |_| ("a refused release", again)))
            .chain(nodes.flat_map(move |node| self.due_at(client, node)))
    }

    /// Returns what is due for a user, with the longest time that anything may take.
    fn due_for(&self, client: usize, user: usize) -> impl Iterator<Item = Due> + use<> {
        let there = &self.clients[client];
        let mut due = [None; 6];
        match &there.users[user].task {
            Task::Idle => {}
            Task::Acquiring { call, .. } => {
                let Limits { tries, deadline } = call.limits;
                due[0] = deadline.map(|deadline| ("a caller's deadline", deadline));
                // A second round trip for a fencing token has the same time again, from the end of the first, which may
                // be late if the client was stopped.
                let fenced = there.users[user].asks_twice;
                let vote = (1 + u64::from(fenced)) * self.longest_wait(client, call);
                let look = after(there.shown, vote.max(LONGEST_LOOK));
                // Only the first of a queue looks.
                due[1] = (!self.plan.is_crowded()).then(|| match tries {
                    Some(1) if !fenced => ("the end of a vote", after(call.begun, vote)),
                    _ => ("the end of a vote or another look", look),
                });
                due[3] = tries.filter(|tries| 1 < *tries).map(|tries| {
                    let all = after(call.begun, u64::from(tries) * LONGEST_REST * MILLI);
                    // Each counts where too few nodes have answered.
                    let last = after(there.shown, vote.max(LONGEST_REST * MILLI));
                    ("the end of all tries", all.max(last))
                });
            }
            Task::Holding(hold) | Task::Extending { hold, .. } if hold.told => {}
            Task::Holding(hold) => due[0] = Some(("the end of a lock", end_of(hold))),
            Task::Extending { hold, call } => {
                due[0] = Some(("the end of a lock", end_of(hold)));
                due[1] = Some(self.vote_of(client, call));
            }
            Task::Releasing { call, .. } => {
                let longest = self.longest_release(client);
                due[0] = Some(("the end of a release", after(call.begun, longest)));
            }
        }
        let hold = there.users[user].task.hold();
        let asked = hold.and_then(|hold| hold.confirming);
        due[2] = asked.map(|asked| self.vote_of(client, &asked.call));
        due[5] = hold.and_then(|hold| Self::alert_due(there.ticked, hold));
        due[4] = hold.and_then(|hold| self.extension_due(there.shown, hold));
        let beside = hold.and_then(|hold| hold.beside);
        due[3] = due[3].or(beside.map(|call| self.vote_of(client, &call)));
        due.into_iter().flatten()
    }

    fn vote_of(&self, client: usize, call: &Call) -> Due {
        let longest = self.longest_vote_of(client, call.ttl);
        let end = after(call.begun, longest);
        ("the end of a vote about a lock that is held", end)
    }

    /// Returns how long a client waits at most for the answers to one request about a lock: longer
    /// for a node that it had never tried to reach before the call, and where no node has been ready since the call.
    fn longest_wait(&self, client: usize, call: &Call) -> Time {
        let paths = &self.clients[client].paths[..self.plan.nodes_of(client)];
        let lost = |path: &Path| 0 < path.lost_at && path.lost_at < call.since;
        let met = |path: &Path| path.ready_at < call.since || lost(path);
        let met = paths.iter().all(met);
        let vote = self.longest_vote_of(client, call.ttl);
        match met {
            false => vote.max(CONNECT_TIMEOUT),
            true => vote.max(self.longest_opening(client, call.since, call.ttl)),
        }
    }

    /// Returns how long an attempt of a call of `since` waits for new connections, while a lock is of use, if it may
    /// have found all of them closed: no node has been ready since before the call.
    pub(super) fn longest_opening(&self, client: usize, since: Time, ttl: u64) -> Time {
        let mut paths = self.clients[client].paths[..self.plan.nodes_of(client)].iter();
        match paths.any(|path| path.ready_at < since) {
            true => 0,
            false => CONNECT_TIMEOUT.min(ttl.saturating_mul(MILLI) / 2),
        }
    }

    /// Returns the longest wait for nodes that the client has reached before: a fixed time, a two hundredth of the ttl,
    /// or four of the worst round trips, but no more than half of the lock's life.
    pub(super) fn longest_vote_of(&self, client: usize, ttl: u64) -> Time {
        let usual = (ttl * MILLI / 200).clamp(USUAL.0, USUAL.1);
        let trips = 4 * self.clients[client].worst_trip();
        let most = (ttl * MILLI / 2).max(MILLI);
        let fixed = self.plan.node_timeout.map(|timeout| timeout * MILLI);
        fixed.unwrap_or(usual.max(trips).min(most))
    }

    /// Returns what is due for a node.
    fn due_at(&self, client: usize, node: usize) -> impl Iterator<Item = Due> + use<> {
        let there = &self.clients[client];
        let path = &there.paths[node];
        let mut due = [None; 2];
        let ready = path.ready_at < NEVER;
        match there.links[node] {
            None => due[0] = path.back_by.map(|by| ("another connection", by)),
            Some(conn) => {
                let handshake = after(path.opened_shown, CONNECT_TIMEOUT);
                due[0] = (!ready).then_some(("the end of a handshake", handshake));
                due[1] = self.silent(client, conn, ready);
            }
        }
        due.into_iter().flatten()
    }

    /// Returns until when a silent node may stay silent.
    fn silent(&self, client: usize, conn: usize, ready: bool) -> Option<Due> {
        let since = self.conns[conn].written.silent_since?;
        let dead = self.plan.dead_after * MILLI;
        let suspect = PATIENCE.max(4 * self.longest_release(client)).min(dead);
        let there = &self.clients[client];
        let id = self.conns[conn].id;
        let status = id.and_then(|id| there.engine.node_statuses(there.shown).nth(id.index()));
        let asked = ready && status.is_none_or(|status| status.state != NodeState::Suspect);
        Some(match asked {
            true => ("a node that is silent", after(since, suspect)),
            false => ("a node that is dead", after(since, dead)),
        })
    }
}

/// Returns when the end of a lock is reported: a tick early, and rounded down.
fn end_of(hold: &crate::user::Hold) -> Instant {
    hold.lock.valid_until().saturating_sub(2 * TICK)
}

pub(super) fn after(begun: Instant, span: Time) -> Instant {
    begun.saturating_add(Duration::from_nanos(span))
}
