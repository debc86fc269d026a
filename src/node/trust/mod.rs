//! Decides whether the answers of one node count, and if not, why and until when.
//!
//! Three parts decide whether an answer counts: the restart guard in this file, the [membership] in the group with its
//! marker, and the [clock] watch. The guard also decides whether commands to the node check a marker.
//!
//! | guard | an answer counts | commands |
//! | --- | --- | --- |
//! | off | always | are plain |
//! | observed | unless the node is in quarantine | are plain |
//! | strict | unless the node is in quarantine, or its answer reports a wrong marker or a barrier | check the marker |
//!
//! A node that restarts without its data has forgotten its granted locks, and could vote for a second holder. Therefore
//! the node is *quarantined* until every lock that it may have forgotten has expired. The engine still sends lock
//! commands to a node in quarantine, because a key there blocks other clients. However, the node's answers do not
//! count.
//!
//! Each handshake identifies the server by its `run_id`, which changes at each start, and its `master_replid`, which
//! changes at each promotion. If the `run_id` or the `master_replid` changes or becomes unreadable, the server counts
//! as another server, even if it still has its keys. At the first connection to a node, the uptime shows whether the
//! server restarted recently.
//!
//! # Guarantees
//!
//! * A quarantine starts at the *end* of the handshake that showed the change. It does not start when the connection is
//!   lost, because the server may restart much later.
//! * Only [`Trust::lift`] shortens a quarantine.
//!
//! # Not here
//!
//! The [`Node`](super::Node) sends the requests to join, and asks the server for its time.
//!
//! Without markers, a client cannot detect that keys were deleted, or that a server became a replica and then a master
//! again between two questions. If the client does not know the longest ttl, it also misses a restart before its first
//! handshake. Markers ([`membership`]) reveal all of this, unless the server was meanwhile a replica of a server that
//! had copied its keys. With markers, the guard needs identities only to detect a server that was a replica.

mod clock;
pub(super) mod marker;
mod membership;

use alloc::string::String;
use core::time::Duration;

use crate::config::{Config, RestartGuard};
use crate::error::{ServerError, Unusable};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

use super::connection::Heard;
use super::handshake::{Identity, Trouble, UPTIME_GRAIN};
use super::refusal::may_forget;
use super::reply::{Answer, Read, Reply};
use super::request::{Request, Step, Taught};
use clock::Clock;
use marker::Group;
use membership::Membership;

pub(super) use clock::TIME;
pub(crate) use marker::whole_millis;
pub(crate) use membership::Mode;

/// The length of a quarantine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The time until every lock has expired, by the clock of this process.
    pub(crate) span: Duration,
    /// Whether the longest ttl of all clients is known, so that the guard can use the uptime of a node at its first
    /// handshake.
    pub(crate) known: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Trust {
    kind: Kind,
    /// The latest `run_id` of the server.
    run_id: Option<String>,
    replid: Option<String>,
    /// Whether the server has refused a command because it was loading its data or was a replica. When the server
    /// accepts writes again, its keys may have been replaced, even if its identity is the same.
    alarmed: bool,
    /// How long the server had been up at the first handshake, if this was shorter than the assumed longest ttl. The
    /// server's answers count immediately, although it may have forgotten locks when it started.
    pub(crate) met_young: Option<Duration>,
    /// When the quarantine for forgotten locks ends, or [`Instant::ZERO`] if there was no quarantine.
    until: Instant,
    /// When the quarantine for a clock step ends.
    stepped_until: Instant,
    /// This node, and the other configured nodes that turned out to be the same server. Nodes are never removed from
    /// this set, because a server that restarts gets another `run_id` but keeps its addresses.
    pub(crate) names: NodeSet,
    pub(crate) clock: Clock,
}

#[derive(Debug)]
enum Kind {
    Off,
    Observed,
    Strict(Membership),
}

impl Trust {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            kind: match config.restart_guard() {
                RestartGuard::Off => Kind::Off,
                RestartGuard::Observed => Kind::Observed,
                RestartGuard::Strict => Kind::Strict(Membership::new(Group::of(config))),
            },
            run_id: None,
            replid: None,
            alarmed: false,
            met_young: None,
            until: Instant::ZERO,
            stepped_until: Instant::ZERO,
            names: NodeSet::EMPTY,
            clock: Clock::new(config),
        }
    }

    // ----- commands -------------------------------------------------------------------------

    /// Returns the marker that commands must check, as an argument in wire form. Returns `None` if commands check no
    /// marker.
    pub(super) fn marker(&self) -> Option<&[u8]> {
        Some(&self.membership()?.marker)
    }

    /// Returns the last questions of a handshake, followed by the scripts to load.
    pub(super) fn questions(&self) -> &'static [Step] {
        use Step::{Durability, Load, Memory, Replication, Server};
        use Taught::{CheckedAcquire, CheckedExtend, Extend, ExtendEach, Release, ReleaseEach};
        match self.kind {
            Kind::Off | Kind::Observed => &[
                Server,
                Replication,
                Memory,
                Load(Release),
                Load(Extend),
                Load(ExtendEach),
                Load(ReleaseEach),
            ],
            Kind::Strict(_) => &[
                Server,
                Replication,
                Memory,
                Durability,
                Load(Release),
                Load(CheckedAcquire),
                Load(CheckedExtend),
                Load(ReleaseEach),
            ],
        }
    }

    /// Records that the node's connection is lost.
    pub(super) fn disconnected(&mut self) {
        self.clock.disconnected();
        if let Some(membership) = self.membership_mut() {
            membership.disconnected();
        }
    }

    /// Returns the node's membership in the group, if the guard uses markers.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        match &self.kind {
            Kind::Off | Kind::Observed => None,
            Kind::Strict(membership) => Some(membership),
        }
    }

    pub(super) fn membership_mut(&mut self) -> Option<&mut Membership> {
        match &mut self.kind {
            Kind::Off | Kind::Observed => None,
            Kind::Strict(membership) => Some(membership),
        }
    }

    // ----- answers that count ---------------------------------------------------------------

    /// Returns when the node's answers count again, or `None` if they count at `now`. The result combines what this
    /// handle has seen with the node's answers about its marker and its barrier.
    pub(crate) fn kept_until(&self, now: Instant) -> Option<Instant> {
        self.kept_until_about(now, false)
    }

    /// Like [`kept_until`](Self::kept_until), but for an answer about one lock. If `is_old` is set, the node has had
    /// the lock's keys since before any step of its clock. In that case, a quarantine for a step does not matter,
    /// because a step does not make the node forget keys.
    #[inline]
    pub(crate) fn kept_until_about(&self, now: Instant, is_old: bool) -> Option<Instant> {
        let there = match self.membership() {
            None => None,
            Some(there) => there.until(now),
        };
        let until = self.until(now).max(there)?;
        let counts_if_old = self.until <= now && there.is_none_or(|until| until <= now);
        (!is_old || !counts_if_old).then_some(until)
    }

    /// Returns `true` if the node's answers do not count at `now` because its clock was stepped.
    pub(crate) fn is_kept_by_steps(&self, now: Instant) -> bool {
        self.clock.steps() != 0 && self.kept_until(now).is_some()
    }

    /// Returns when the engine may next send questions that check the marker, or `None` if it may do so at `now`.
    /// Before that time, the answers would not count.
    pub(crate) fn unasked_until(&self, now: Instant) -> Option<Instant> {
        match self.membership() {
            None => self.until(now),
            Some(there) => self.until(now).max(there.unasked_until(now)),
        }
    }

    /// Decides whether an answer counts, if the server has finished its handshake. `stale` is `true` if the question
    /// was sent with an older marker. Returns `None` if the answer omits the required report about the marker.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        request: Request,
        read: Read,
        stale: bool,
    ) -> Option<Heard> {
        let reply = read.reply;
        let answer = Answer { request, reply };
        if self.membership().is_none() || !request.is_question() {
            return Some(Heard::Answer(answer));
        }
        let voted = self.kept_until(now).is_none();
        let Some(membership) = self.membership_mut() else {
            return Some(Heard::Answer(answer));
        };
        Some(match membership.judge(now, read, stale)? {
            None => Heard::Answer(answer),
            Some(outcome) => Heard::Uncounted {
                answer,
                outcome,
                first: voted && self.kept_until(now).is_some(),
            },
        })
    }

    /// Like [`judge`](Self::judge), but for a refusal, which contains no report about the marker. If the guard uses a
    /// marker, a refusal because of the key's type therefore does not count.
    #[cold]
    pub(super) fn judge_refusal(&self, request: Request, reply: Reply) -> Heard {
        let answer = Answer { request, reply };
        let is_checked = self.membership().is_some() && request.is_question();
        match reply.vote() {
            (Vote::No, outcome) if is_checked => Heard::Uncounted {
                answer,
                outcome,
                first: false,
            },
            (Vote::Yes | Vote::No | Vote::Abstain, _) => Heard::Answer(answer),
        }
    }

    /// Returns when the node's answers count again, or `None` if they count at `now`. Ignores the node's marker and
    /// barrier.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        let until = self.until.max(self.stepped_until);
        guard!(QuarantineIgnored, now < until).then_some(until)
    }

    /// Returns why the connection must be closed, if `error` shows that the server may come back without its locks.
    #[cold]
    pub(crate) fn heard(&mut self, error: ServerError) -> Option<Trouble> {
        match self.kind {
            Kind::Observed | Kind::Strict(_) if guard!(AlarmIgnored, may_forget(error)) => {
                self.alarm();
                Some(Trouble::Unusable(Unusable::Refused(error)))
            }
            Kind::Off | Kind::Observed | Kind::Strict(_) => None,
        }
    }

    /// Returns `true` if `other` belongs to the same server, as far as the handle knows.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.run_id.is_some() && self.run_id == other.run_id
    }

    /// Records that the server refused a command because it is loading its data or is a replica. The server's keys may
    /// then be replaced. After this refusal, an unchanged identity in the next handshake does not prove that the server
    /// still has its keys.
    pub(crate) fn alarm(&mut self) {
        self.alarmed = true;
    }

    /// Handles the end of the handshake at `now`. Returns `true` if the quarantine must also apply to other configured
    /// nodes that lead to the same server, because they see no change of identity.
    pub(crate) fn handshake_done(
        &mut self,
        now: Instant,
        identity: &Identity,
        terms: Terms,
    ) -> bool {
        let told = self.alarmed;
        match &mut self.kind {
            Kind::Off => false,
            Kind::Observed => {
                self.identified(now, identity, terms);
                told
            }
            Kind::Strict(membership) => {
                membership.is_ready = true;
                self.joined(now, identity, terms);
                true
            }
        }
    }

    /// Checks for a change of identity.
    fn identified(&mut self, now: Instant, identity: &Identity, terms: Terms) {
        let met = self.run_id.is_some();
        let alarmed = core::mem::take(&mut self.alarmed);
        let changed = alarmed
            || differs(&self.run_id, &identity.run_id)
            || differs(&self.replid, &identity.replid);
        remember(&mut self.run_id, &identity.run_id);
        remember(&mut self.replid, &identity.replid);
        if !met || changed {
            let young = |uptime: &Duration| !met && !terms.known && *uptime < terms.span;
            self.met_young = identity.uptime.filter(young);
        }
        let span = match identity.uptime {
            _ if changed => terms.span,
            Some(uptime) if guard!(YoungTrusted, !met && terms.known) => terms
                .span
                .saturating_add(UPTIME_GRAIN)
                .saturating_sub(uptime),
            Some(_) | None => Duration::ZERO,
        };
        self.keep_until(now.saturating_add(span));
    }

    /// Handles the end of the handshake at `now` if the guard uses a marker. The marker shows whether the server has
    /// forgotten anything. The identity matters in only two cases: after an [`alarm`](Self::alarm), and if the same
    /// process has another replication history. A new replication history means that the server may have replaced its
    /// keys with the keys of another server. Those keys may include the marker of this server, if the other server had
    /// been its replica.
    fn joined(&mut self, now: Instant, identity: &Identity, terms: Terms) {
        let returned = self.run_id.is_some()
            && self.run_id == identity.run_id
            && differs(&self.replid, &identity.replid);
        remember(&mut self.run_id, &identity.run_id);
        remember(&mut self.replid, &identity.replid);
        if core::mem::take(&mut self.alarmed) || returned {
            self.keep_until(now.saturating_add(terms.span));
        }
    }

    /// Records that a step of the clock was detected at `now`, so every key on the node may have expired early. Returns
    /// when the answers of the node count again.
    pub(crate) fn stepped(&mut self, now: Instant, terms: Terms) -> Option<Instant> {
        let on = !matches!(self.kind, Kind::Off); // With the kind `Off`, the step is only reported.
        if guard!(StepIgnored, on) {
            self.stepped_until = now.saturating_add(terms.span).max(self.stepped_until);
            return self.until(now);
        }
        None
    }

    /// Passes the quarantine of this node to another configured node that leads to the same server and has finished its
    /// handshake. Returns the time before which the other node must not vote. If both nodes are the `same` process, the
    /// other handshake also ends the [`alarm`](Self::alarm) of this node. Otherwise this node keeps its alarm, because
    /// its address may now lead to another server.
    pub(crate) fn hand_on(&mut self, now: Instant, terms: Terms, same: bool) -> Instant {
        let alarm = match self.alarmed {
            true => now.saturating_add(terms.span),
            false => Instant::ZERO,
        };
        if same {
            self.alarmed = false;
            self.keep_until(alarm);
        }
        self.until.max(self.stepped_until).max(alarm)
    }

    /// Extends the node's quarantine to at least `until`.
    pub(crate) fn keep_until(&mut self, until: Instant) {
        self.until = self.until.max(until);
    }

    /// Makes the node's answers count from now on. An operator has vouched that all locks that the node has forgotten
    /// have expired.
    pub(crate) fn lift(&mut self) {
        self.until = Instant::ZERO;
        self.stepped_until = Instant::ZERO;
        self.alarmed = false;
        self.met_young = None;
    }

    // ----- the group -------------------------------------------------------------------------

    /// Returns whether the node has joined, or `None` if it is not connected or has not answered every request to join.
    pub(crate) fn has_joined(&self) -> Option<bool> {
        let there = self.membership()?;
        (there.is_ready && there.open == 0).then_some(there.joined)
    }

    /// Requires a marker whose longest ttl is at least `longest`. Returns `true` if the node voted until now and no
    /// longer does.
    pub(crate) fn demand(&mut self, longest: Duration) -> bool {
        let membership = self.membership_mut();
        membership.is_some_and(|membership| membership.demand(longest))
    }

    /// Cancels an operator's request to join that was not sent yet.
    pub(crate) fn cancel_join(&mut self, mode: Mode) {
        if let Some(membership) = self.membership_mut()
            && membership.mode == mode
        {
            membership.mode = Mode::Join;
        }
    }
}

/// Returns `true` if `said` differs from the known value. If there is no known value, the result is `false`.
fn differs(known: &Option<String>, said: &Option<String>) -> bool {
    known.is_some() && known != said
}

fn remember(known: &mut Option<String>, said: &Option<String>) {
    if said.is_some() {
        known.clone_from(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServerError;

    const KNOWN: Terms = Terms {
        span: Duration::from_secs(10),
        known: true,
    };
    const ASSUMED: Terms = Terms {
        known: false,
        ..KNOWN
    };

    fn identity(run_id: &str, replid: &str, uptime: u64) -> Identity {
        let word = |word: &str| (word != "?").then(|| String::from(word));
        let mut identity = Identity::default();
        identity.run_id = word(run_id);
        identity.replid = word(replid);
        identity.uptime = (run_id != "?").then(|| Duration::from_secs(uptime));
        identity
    }

    fn observed() -> Trust {
        Trust::new(&Config::builder().node("a").config().expect("valid"))
    }

    /// Runs these handshakes, each at the given second. Returns when the node may vote after the last handshake, or
    /// `None` if it may vote immediately.
    fn after(terms: Terms, handshakes: &[(u64, Identity)]) -> Option<u64> {
        let mut trust = observed();
        let mut last = 0;
        for (second, identity) in handshakes {
            last = *second;
            trust.identified(Instant::from_millis(last * 1000), identity, terms);
        }
        let until = trust.until(Instant::from_millis(last * 1000));
        until.map(|until| until.as_nanos() / 1_000_000_000)
    }

    #[test]
    fn who_was_seen_to_restart_does_not_vote() {
        let old = || identity("a", "r", 100);
        for (said, until) in [
            (old(), None),
            (identity("b", "r", 0), Some(30)),   // Another process,
            (identity("a", "s", 100), Some(30)), // another history,
            (identity("?", "?", 0), Some(30)),   // and an unknown one.
            (identity("b", "r", 5000), Some(30)), // A process that was there before: promoted.
        ] {
            assert_eq!(after(ASSUMED, &[(1, old()), (20, said)]), until);
        }
    }

    #[test]
    fn what_could_never_be_read_is_no_change() {
        let blind = || identity("?", "?", 0);
        assert_eq!(after(KNOWN, &[(1, blind()), (2, blind())]), None);
        // While the identity of a server cannot be read, the guard keeps the known identity.
        let seen = || identity("a", "r", 100);
        let back = [(1, seen()), (2, blind()), (30, seen())];
        assert_eq!(after(KNOWN, &back), None);
        let other = [(1, seen()), (2, blind()), (30, identity("b", "r", 100))];
        assert_eq!(after(KNOWN, &other), Some(40));
    }

    #[test]
    fn who_is_met_soon_after_its_start_waits_for_the_rest() {
        let met = |terms, uptime| after(terms, &[(100, identity("a", "r", uptime))]);
        assert_eq!(met(KNOWN, 0), Some(112));
        assert_eq!(met(KNOWN, 5), Some(107));
        assert_eq!(met(KNOWN, 11), Some(101));
        assert_eq!(met(KNOWN, 12), None);
        // If `max_ttl` was not set, a node that has just started may vote, but reports show its short uptime.
        assert_eq!(met(ASSUMED, 0), None);
        let met_young = |terms, handshakes: &[Identity]| {
            let mut trust = observed();
            for identity in handshakes {
                trust.identified(Instant::ZERO, identity, terms);
            }
            trust.met_young.map(|uptime| uptime.as_secs())
        };
        let young = || identity("a", "r", 9);
        assert_eq!(met_young(ASSUMED, &[young(), young()]), Some(9));
        assert_eq!(met_young(ASSUMED, &[identity("a", "r", 10)]), None);
        assert_eq!(met_young(KNOWN, &[young()]), None);
        assert_eq!(met_young(ASSUMED, &[young(), identity("b", "r", 0)]), None);
    }

    #[test]
    fn a_quarantine_outlives_a_reconnection_and_is_never_shortened() {
        let restarted = [
            (1, identity("a", "r", 100)),
            (20, identity("b", "r", 0)),
            (25, identity("b", "r", 5)),
        ];
        assert_eq!(after(KNOWN, &restarted), Some(30));
    }

    #[test]
    fn an_alarm_counts_for_any_server_that_answers_next() {
        let mut trust = observed();
        let same = identity("a", "r", 100);
        trust.identified(Instant::ZERO, &same, KNOWN);
        trust.alarm();
        assert_eq!(trust.until(Instant::ZERO), None);
        trust.identified(Instant::from_millis(500), &same, KNOWN);
        let until = Instant::from_millis(10_500);
        assert_eq!(trust.until(Instant::from_millis(10_499)), Some(until));
        assert_eq!(trust.until(until), None);
        trust.identified(until, &same, KNOWN);
        assert_eq!(trust.until(until), None, "an alarm counts once");
    }

    #[test]
    fn an_alarm_of_one_that_restarted_counts_once_too() {
        let mut trust = observed();
        trust.identified(Instant::ZERO, &identity("a", "r", 100), KNOWN);
        trust.alarm();
        let other = identity("b", "r", 0);
        trust.identified(Instant::ZERO, &other, KNOWN);
        let until = Instant::from_millis(10_000);
        trust.identified(until, &other, KNOWN);
        assert_eq!(trust.until(until), None);
    }

    #[test]
    fn where_there_are_markers_only_the_same_process_with_another_history_is_kept_out() {
        let met = || identity("a", "r", 100);
        for (said, until) in [
            (met(), None),
            (identity("b", "s", 0), None), // The marker decides.
            (identity("a", "s", 100), Some(Instant::from_millis(30_000))),
        ] {
            let mut trust = observed();
            trust.joined(Instant::ZERO, &met(), KNOWN);
            let now = Instant::from_millis(20_000);
            trust.joined(now, &said, KNOWN);
            assert_eq!(trust.until(now), until);
        }
    }

    #[test]
    fn an_old_copy_counts_after_a_step_but_not_behind_a_barrier() {
        let config = Config::builder()
            .node("a")
            .restart_guard(RestartGuard::Strict);
        let mut trust = Trust::new(&config.config().expect("valid"));
        let now = Instant::from_millis(1_000);
        let stepped = trust.stepped(now, KNOWN);
        assert!(stepped.is_some());
        assert_eq!(trust.kept_until(now), stepped);
        assert_eq!(trust.kept_until_about(now, true), None);
        let barrier = Some(Instant::from_millis(20_000));
        trust.membership_mut().expect("it is strict").barrier = barrier;
        assert_eq!(trust.kept_until_about(now, true), barrier);
    }

    /// Returns how a guard of this kind reacts when a node loads its data, then comes back as another server, and then
    /// has its clock stepped.
    fn asked(kind: RestartGuard) -> (bool, Option<Instant>, Option<Instant>) {
        let config = Config::builder().node("a").restart_guard(kind).config();
        let mut trust = Trust::new(&config.expect("valid"));
        let loading = ServerError::from_line(b"LOADING x");
        let alarm = trust.heard(loading).is_some();
        trust.handshake_done(Instant::ZERO, &identity("a", "r", 0), ASSUMED);
        let quarantine = trust.until(Instant::ZERO);
        (
            alarm,
            quarantine,
            trust.stepped(Instant::from_millis(1_000), KNOWN),
        )
    }

    #[test]
    fn only_a_guard_that_is_on_keeps_a_node_from_voting() {
        let at = |millis| Some(Instant::from_millis(millis));
        assert_eq!(asked(RestartGuard::Off), (false, None, None));
        for kind in [RestartGuard::Observed, RestartGuard::Strict] {
            assert_eq!(asked(kind), (true, at(10_000), at(11_000)), "{kind:?}");
        }
    }
}
