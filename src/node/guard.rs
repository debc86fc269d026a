//! The restart guard of one node: whether its answers count, and how commands to it are written.
//!
//! | guard | an answer counts | commands |
//! | --- | --- | --- |
//! | off | always | are plain |
//! | observed | unless the node is in quarantine | are plain |
//! | strict | unless it is, or its answer says that the marker or a barrier forbids it | check the marker |
//!
//! A node that restarts without its memory has forgotten which locks it stands for, and would vote
//! a second time. So it is *quarantined* until every lock that it may have forgotten is over: it is
//! asked as before, because its key keeps others out, but its answers are not counted.
//!
//! A server is known by what it says at each handshake: its `run_id`, which is new at each start,
//! and its `master_replid`, which is new at each promotion. If one of them differs, or cannot be
//! read any more, it is another server, even if it remembers its keys. When a node is connected for
//! the first time, its uptime tells whether it restarted a short while ago.
//!
//! # Guarantees
//!
//! * A quarantine counts from the *end* of the handshake in which the change was seen, never from
//!   when the connection broke: the restart was before that end, and may have been long after the
//!   connection broke.
//! * It is never shortened but by [`Guard::trust`].
//!
//! # Not here
//!
//! What no client can see from outside: a restart before the first handshake of a client that does
//! not know the longest ttl, keys that were deleted, and a server that became a replica and a
//! master again between two questions. Markers on the nodes show these (`membership`), unless what
//! it followed was a copy of its own. Where there are markers, no more is read from identities than
//! that.

use alloc::string::String;
use core::time::Duration;

use crate::config::{Config, RestartGuard};
use crate::error::Unusable;
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::handshake::Identity;
use super::in_flight::Heard;
use super::marker::Cluster;
use super::membership::Membership;
use super::phase::Trouble;
use super::reply::{Reply, may_forget};
use super::request::{Request, Step, Taught};

/// How much an uptime may be overstated: it is the difference of two times in whole seconds, and
/// seen to tick some milliseconds early.
pub(super) const UPTIME_GRAIN: Duration = Duration::from_secs(2);

/// How long a quarantine is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long it takes until every lock is over, by this clock.
    pub(crate) span: Duration,
    /// Whether the longest ttl of all clients is known, so that the uptime of a node that is met
    /// for the first time says something.
    pub(crate) known: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Guard {
    kind: Kind,
    /// The newest that was read.
    run_id: Option<String>,
    replid: Option<String>,
    /// It said over a connection that it serves no writes: it may be another when it does again.
    alarmed: bool,
    until: Option<Instant>,
    /// The same because its clock was stepped.
    stepped_until: Option<Instant>,
    /// The nodes of the configuration that were seen to be one server with this one, and this one.
    /// Kept for good: a server that restarts is another by its `run_id`, and has the same names.
    pub(crate) names: NodeSet,
}

#[derive(Debug, Default)]
enum Kind {
    Off,
    #[default]
    Observed,
    Strict(Membership),
}

impl Guard {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            kind: match config.restart_guard() {
                RestartGuard::Off => Kind::Off,
                RestartGuard::Observed => Kind::Observed,
                RestartGuard::Strict => Kind::Strict(Membership::new(Cluster::of(config))),
            },
            ..Self::default()
        }
    }

    // ----- how commands are written ---------------------------------------------------------

    /// Returns the marker that commands have to check, as an argument in wire form. `None`: they are
    /// plain.
    pub(super) fn marker(&self) -> Option<&[u8]> {
        Some(&self.membership()?.marker)
    }

    /// Returns the last questions of a handshake, and behind them the scripts that the server is taught.
    pub(super) fn questions(&self) -> &'static [Step] {
        use Step::{Durability, Load, Memory, Replication, Server};
        use Taught::{CheckedAcquire, CheckedExtend, Extend, ExtendEach, Release};
        match self.kind {
            Kind::Off | Kind::Observed => &[
                Server,
                Replication,
                Memory,
                Load(Release),
                Load(Extend),
                Load(ExtendEach),
            ],
            Kind::Strict(_) => &[
                Server,
                Replication,
                Memory,
                Durability,
                Load(Release),
                Load(CheckedAcquire),
                Load(CheckedExtend),
            ],
        }
    }

    /// Its connection is gone.
    pub(super) fn disconnected(&mut self) {
        if let Some(membership) = self.membership_mut() {
            membership.disconnected();
        }
    }

    /// Returns its membership of the cluster, where there are markers.
    pub(super) fn membership(&self) -> Option<&Membership> {
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

    // ----- whether answers count ------------------------------------------------------------

    /// Returns until when its answers do not count, if they do not at `now`: because of what this
    /// handle has seen, or because of a barrier on the node. `ready`: its handshake is done.
    pub(super) fn kept_until(&self, now: Instant, ready: bool) -> Option<Instant> {
        let barrier = self.membership().and_then(|there| there.until(now, ready));
        self.until(now).max(barrier)
    }

    /// Returns until when it is not asked what checks the marker, because the answer would not count, if it is
    /// not at `now`.
    pub(super) fn unasked_until(&self, now: Instant, ready: bool) -> Option<Instant> {
        let membership = self.membership();
        let barrier = membership.and_then(|there| there.unasked_until(now, ready));
        self.until(now).max(barrier)
    }

    /// Returns whether the answer of a server whose handshake is done counts. `stale`: it was asked
    /// under an older marker.
    // Inlined: see the caller for single answers.
    #[inline(always)]
    pub(super) fn judge(
        &mut self,
        now: Instant,
        request: Request,
        reply: Reply,
        stale: bool,
    ) -> Heard {
        if self.membership().is_none() || !request.is_question() {
            return Heard::Answer(request, reply);
        }
        let voted = self.kept_until(now, true).is_none();
        let Some(membership) = self.membership_mut() else {
            return Heard::Answer(request, reply);
        };
        match membership.judge(now, request, reply, stale) {
            (reply, None) => Heard::Answer(request, reply),
            (reply, Some(outcome)) => Heard::Uncounted {
                request,
                reply,
                outcome,
                first: voted && self.kept_until(now, true).is_some(),
            },
        }
    }

    /// Returns until when its answers do not count because of what this handle has seen, if they do
    /// not at `now`.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.until
            .max(self.stepped_until)
            .filter(|until| guard!(QuarantineIgnored, now < *until))
    }

    /// Returns `true` if its answers count at `now` for all that was there before its clock was stepped:
    /// it has forgotten nothing.
    pub(super) fn counts_but_for_steps(&self, now: Instant, ready: bool) -> bool {
        let barrier = self.membership().and_then(|there| there.until(now, ready));
        self.until.max(barrier).is_none_or(|until| until <= now)
    }

    /// Returns why the connection is of no use any more if `reply` says that the server may come back
    /// as one that has forgotten locks.
    #[inline]
    pub(crate) fn heard(&mut self, reply: Reply) -> Option<Trouble> {
        match (reply, &self.kind) {
            (Reply::Error(error), Kind::Observed | Kind::Strict(_))
                if guard!(AlarmIgnored, may_forget(error)) =>
            {
                self.alarm();
                Some(Trouble::Unusable(Unusable::Refused(error)))
            }
            _ => None,
        }
    }

    /// Returns `true` if `other` is about the same server, as far as both know.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.run_id.is_some() && self.run_id == other.run_id
    }

    /// It refused a command as a server that is loading or follows another: its keys may be
    /// replaced. An unchanged identity in the next handshake proves nothing.
    pub(crate) fn alarm(&mut self) {
        self.alarmed = true;
    }

    /// Its handshake has ended at `now`. Returns `true` if the other names of its server have to know
    /// of its quarantine: no change of identity shows them why.
    pub(super) fn handshake_done(
        &mut self,
        now: Instant,
        identity: &Identity,
        terms: Terms,
    ) -> bool {
        let told = self.alarmed;
        match self.kind {
            Kind::Off => false,
            Kind::Observed => {
                self.identified(now, identity, terms);
                told
            }
            Kind::Strict(_) => {
                self.joined(now, identity, terms);
                true
            }
        }
    }

    /// Looks for a change of identity.
    fn identified(&mut self, now: Instant, identity: &Identity, terms: Terms) {
        let met = self.run_id.is_some();
        let alarmed = core::mem::take(&mut self.alarmed);
        let changed = alarmed
            || differs(&self.run_id, &identity.run_id)
            || differs(&self.replid, &identity.replid);
        remember(&mut self.run_id, &identity.run_id);
        remember(&mut self.replid, &identity.replid);
        let span = match identity.uptime {
            _ if changed => terms.span,
            Some(uptime) if guard!(YoungTrusted, !met && terms.known) => terms
                .span
                .saturating_add(UPTIME_GRAIN)
                .saturating_sub(uptime),
            Some(_) | None => Duration::ZERO,
        };
        self.until = self.until.max(Some(now.saturating_add(span)));
    }

    /// Its handshake has ended at `now`, and its marker says whether it forgot anything. Left are
    /// alarms, and the same process with another history: what it holds may have been another's in
    /// between, and if that was a copy of its own, the marker came back with it.
    fn joined(&mut self, now: Instant, identity: &Identity, terms: Terms) {
        let returned = self.run_id.is_some()
            && self.run_id == identity.run_id
            && differs(&self.replid, &identity.replid);
        remember(&mut self.run_id, &identity.run_id);
        remember(&mut self.replid, &identity.replid);
        if core::mem::take(&mut self.alarmed) || returned {
            self.keep_until(Some(now.saturating_add(terms.span)));
        }
    }

    /// Its clock was seen at `now` to have been stepped: every key on it may have ended early. Returns
    /// until when its answers do not count for that.
    pub(crate) fn stepped(&mut self, now: Instant, terms: Terms) -> Option<Instant> {
        let on = !matches!(self.kind, Kind::Off); // Otherwise it is reported, and that is all.
        if guard!(StepIgnored, on) {
            self.stepped_until = Some(now.saturating_add(terms.span)).max(self.stepped_until);
            return self.until(now);
        }
        None
    }

    /// Returns until when another name of the same server that finished its handshake is kept from
    /// voting for what is known by this one. An alarm is over with that handshake if it was that
    /// process's; otherwise it stays, because this name may stand for another server by now.
    pub(crate) fn hand_on(&mut self, now: Instant, terms: Terms, same: bool) -> Option<Instant> {
        let alarm = self.alarmed.then(|| now.saturating_add(terms.span));
        if same {
            self.alarmed = false;
            self.keep_until(alarm);
        }
        self.until.max(self.stepped_until).max(alarm)
    }

    /// It is kept from voting until then at least.
    pub(crate) fn keep_until(&mut self, until: Option<Instant>) {
        self.until = self.until.max(until);
    }

    /// Counts its answers from now on: an operator states that every lock that it has forgotten is
    /// over.
    pub(crate) fn trust(&mut self) {
        self.until = None;
        self.stepped_until = None;
        self.alarmed = false;
    }
}

/// Returns `true` if what was known is not what is said now. Nothing known is nothing to differ
/// from.
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

    /// Does these handshakes, each at its second. Returns until when the last of them keeps the
    /// node from voting, if it does at that second.
    fn after(terms: Terms, handshakes: &[(u64, Identity)]) -> Option<u64> {
        let mut guard = Guard::default();
        let mut last = 0;
        for (second, identity) in handshakes {
            last = *second;
            guard.identified(Instant::from_millis(last * 1000), identity, terms);
        }
        let until = guard.until(Instant::from_millis(last * 1000));
        until.map(|until| until.as_nanos() / 1_000_000_000)
    }

    #[test]
    fn who_was_seen_to_restart_does_not_vote() {
        let old = || identity("a", "r", 100);
        for (said, until) in [
            (old(), None),
            (identity("b", "r", 0), Some(30)),   // Another process,
            (identity("a", "s", 100), Some(30)), // another history,
            (identity("?", "?", 0), Some(30)),   // and who knows.
            (identity("b", "r", 5000), Some(30)), // One that was there before: promoted.
        ] {
            assert_eq!(after(ASSUMED, &[(1, old()), (20, said)]), until);
        }
    }

    #[test]
    fn what_could_never_be_read_is_no_change() {
        let blind = || identity("?", "?", 0);
        assert_eq!(after(KNOWN, &[(1, blind()), (2, blind())]), None);
        // What cannot be read for a while is remembered.
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
        // Without a longest ttl that holds for all clients, no client is kept waiting for a guess.
        assert_eq!(met(ASSUMED, 0), None);
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
        let mut guard = Guard::default();
        let same = identity("a", "r", 100);
        guard.identified(Instant::ZERO, &same, KNOWN);
        guard.alarm();
        assert_eq!(guard.until(Instant::ZERO), None);
        guard.identified(Instant::from_millis(500), &same, KNOWN);
        let until = Instant::from_millis(10_500);
        assert_eq!(guard.until(Instant::from_millis(10_499)), Some(until));
        assert_eq!(guard.until(until), None);
        guard.identified(until, &same, KNOWN);
        assert_eq!(guard.until(until), None, "an alarm counts once");
    }

    #[test]
    fn an_alarm_of_one_that_restarted_counts_once_too() {
        let mut guard = Guard::default();
        guard.identified(Instant::ZERO, &identity("a", "r", 100), KNOWN);
        guard.alarm();
        let other = identity("b", "r", 0);
        guard.identified(Instant::ZERO, &other, KNOWN);
        let until = Instant::from_millis(10_000);
        guard.identified(until, &other, KNOWN);
        assert_eq!(guard.until(until), None);
    }

    #[test]
    fn where_there_are_markers_only_the_same_process_with_another_history_is_kept_out() {
        let met = || identity("a", "r", 100);
        for (said, until) in [
            (met(), None),
            (identity("b", "s", 0), None), // Its marker tells.
            (identity("a", "s", 100), Some(Instant::from_millis(30_000))),
        ] {
            let mut guard = Guard::default();
            guard.joined(Instant::ZERO, &met(), KNOWN);
            let now = Instant::from_millis(20_000);
            guard.joined(now, &said, KNOWN);
            assert_eq!(guard.until(now), until);
        }
    }

    /// What a guard of this kind says of a node that loads, comes back as another, and steps its clock.
    fn asked(kind: RestartGuard) -> (bool, Option<Instant>, Option<Instant>) {
        let config = Config::builder().node("a").restart_guard(kind).config();
        let mut guard = Guard::new(&config.expect("valid"));
        let loading = Reply::Error(ServerError::from_line(b"LOADING x"));
        let alarm = guard.heard(loading).is_some();
        guard.handshake_done(Instant::ZERO, &identity("a", "r", 0), ASSUMED);
        let quarantine = guard.until(Instant::ZERO);
        (
            alarm,
            quarantine,
            guard.stepped(Instant::from_millis(1_000), KNOWN),
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
