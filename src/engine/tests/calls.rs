//! The calls and outcomes of a story, and the locks that stories begin with.

use super::*;
use crate::entry::Entry;
use crate::error::{Released, Report};
use crate::keys::ClaimKey;

impl World {
    // ----- locks ----------------------------------------------------------------------------

    /// Makes `nodes` nodes, and a lock that the first `granted` of them have granted. The others have not answered.
    pub(super) fn won(nodes: usize, granted: usize) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        let lock = world.lock_on(0..granted);
        (world, lock)
    }

    /// Makes a lock that all nodes granted.
    pub(super) fn held(nodes: usize) -> (Self, Lock) {
        let (mut world, lock) = Self::won(nodes, nodes);
        world.take_all();
        (world, lock)
    }

    /// A lock that `nodes` grant at the first try.
    #[track_caller]
    pub(super) fn lock_on(&mut self, nodes: Range<usize>) -> Lock {
        self.try_once();
        self.all_say(nodes, "+OK|");
        self.lock()
    }

    /// A lock of `resource` that the first node grants.
    #[track_caller]
    pub(super) fn lock_of(&mut self, resource: &[u8]) -> Lock {
        self.acquire_of(resource, &once());
        self.say(0, "+OK|");
        self.lock()
    }

    /// Extends `lock`, which `nodes` confirm. The commands for that are taken.
    #[track_caller]
    pub(super) fn extend_on(&mut self, nodes: Range<usize>, lock: &mut Lock) {
        self.extend(lock);
        self.take_all();
        self.all_say(nodes, ":1|");
        self.extended(lock);
    }

    /// Releases `lock`, which `nodes` have deleted.
    #[track_caller]
    pub(super) fn release_on(&mut self, nodes: Range<usize>, lock: Lock) {
        self.release(lock);
        self.all_say(nodes, ":1|");
        assert!(self.unlocked().is_ok());
    }

    /// Node 2 is away and stays away. What it is owed stays a debt until `gone`, and for no more than `late` longer.
    #[track_caller]
    pub(super) fn owes_until(&mut self, gone: Instant, late: Duration) {
        while self.owed() != 0 {
            assert!(self.now < gone.saturating_add(late), "{:?}", self.now);
            if self.links[2] == "connecting" {
                self.lose(2);
            }
            self.sleep_until_timer();
        }
        assert!(gone <= self.now, "{:?} < {gone:?}", self.now);
    }

    // ----- calls ----------------------------------------------------------------------------

    pub(super) fn acquire(&mut self, options: &LockOptions) -> RoundId {
        self.acquire_of(b"k", options)
    }

    pub(super) fn acquire_of(&mut self, resource: &[u8], options: &LockOptions) -> RoundId {
        let request = Request::new(resource, options);
        let round = self.engine.acquire(self.now, &request).expect("valid");
        self.drain();
        round
    }

    /// Returns why a request is refused at once. Nothing is sent.
    #[track_caller]
    pub(super) fn invalid(&mut self, request: &Request<'_>) -> InvalidRequest {
        let sent = self.sent.clone();
        let refused = self.engine.acquire(self.now, request);
        self.drain();
        assert_eq!(self.sent, sent);
        match refused {
            Err(LockError::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn try_once(&mut self) -> RoundId {
        self.acquire(&once())
    }

    pub(super) fn extend(&mut self, lock: &Lock) -> RoundId {
        self.extend_for(lock, TTL)
    }

    pub(super) fn extend_for(&mut self, lock: &Lock, ttl: Duration) -> RoundId {
        let round = self.engine.extend(self.now, lock, ttl).expect("asked");
        self.drain();
        round
    }

    /// Returns the error of an extension that is refused at once. Nothing is sent.
    #[track_caller]
    pub(super) fn extension_refused(&mut self, lock: &Lock) -> ExtendError {
        let sent = self.sent.clone();
        let refused = self.engine.extend(self.now, lock, TTL);
        self.drain();
        assert_eq!(self.sent, sent);
        refused.expect_err("refused")
    }

    #[track_caller]
    pub(super) fn cannot_be_extended(&mut self, lock: &Lock) {
        let refused = self.extension_refused(lock);
        assert_matches!(refused, ExtendError::Expired);
    }

    pub(super) fn ask_confirm(&mut self, lock: &Lock) -> RoundId {
        let round = self.engine.confirm(self.now, lock).expect("asked");
        self.drain();
        round
    }

    pub(super) fn release(&mut self, lock: Lock) {
        self.engine.release(self.now, lock);
        self.drain();
    }

    pub(super) fn give_back(&mut self, lock: Lock) {
        self.engine.give_back(self.now, lock);
        self.drain();
    }

    pub(super) fn cancel(&mut self, round: RoundId) {
        self.engine.cancel(self.now, round);
        self.drain();
    }

    pub(super) fn detach(&mut self, lock: Lock) -> Lock {
        let lock = self.engine.detach(self.now, lock);
        self.drain();
        lock
    }

    pub(super) fn adopt(&mut self, lock: Lock) -> Lock {
        self.engine.adopt(self.now, lock)
    }

    /// Makes another engine with three nodes, which has adopted `lock`.
    pub(super) fn taken_over(now: Instant, lock: Lock) -> (Self, Lock) {
        let mut other = Self::ready(3);
        other.now = now;
        let lock = other.adopt(lock);
        (other, lock)
    }

    /// Returns the tokens of all claims, with their names.
    pub(super) fn tokens(&self) -> Vec<Entry> {
        let claims = self.engine.work.parts.claims.iter();
        claims.map(|(_, claim)| claim.entry.clone()).collect()
    }

    #[track_caller]
    pub(super) fn only_claim(&self) -> ClaimKey {
        let mut claims = self.engine.work.parts.claims.iter();
        claims.next().expect("there is one").0
    }

    pub(super) fn claims(&self) -> usize {
        self.engine.load().claims
    }

    pub(super) fn owed(&self) -> usize {
        self.engine.load().debts
    }

    // ----- outcomes -------------------------------------------------------------------------

    /// Returns the only event that happened.
    #[track_caller]
    pub(super) fn event(&mut self) -> Event {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.events.remove(0)
    }

    /// Takes the first event, which is the end of an attempt. Returns its operation and outcome.
    #[track_caller]
    pub(super) fn next_acquired(&mut self) -> (RoundId, Result<Lock, LockError>) {
        match self.events.remove(0) {
            Event::Acquired { round, result } => (round, result),
            other => panic!("{other:?}"),
        }
    }

    /// Like [`next_acquired`](Self::next_acquired), for the only event.
    #[track_caller]
    pub(super) fn acquired(&mut self) -> Result<Lock, LockError> {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.next_acquired().1
    }

    #[track_caller]
    pub(super) fn lock(&mut self) -> Lock {
        self.acquired().expect("granted")
    }

    #[track_caller]
    pub(super) fn refusal(&mut self) -> LockError {
        self.acquired().expect_err("refused")
    }

    #[track_caller]
    pub(super) fn no_quorum(&mut self) -> Report {
        match self.refusal() {
            LockError::NoQuorum(report) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the first of several events, which is the refusal of a lock that is held.
    #[track_caller]
    pub(super) fn next_is_held(&mut self) {
        assert_matches!(self.next_acquired().1, Err(LockError::Held(_)));
    }

    #[track_caller]
    pub(super) fn held_by_another(&mut self) -> Report {
        match self.refusal() {
            LockError::Held(report) => report,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn unlocked(&mut self) -> Result<Released, UnlockError> {
        match self.event() {
            Event::Released { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// Applies the extension or confirmation that was reported.
    #[track_caller]
    pub(super) fn extended(&mut self, lock: &mut Lock) {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.apply_next(lock);
    }

    /// Like [`extended`](Self::extended); `lock` ends at `end` then.
    #[track_caller]
    pub(super) fn extended_until(&mut self, lock: &mut Lock, end: Instant) {
        self.extended(lock);
        assert_eq!(lock.valid_until(), end);
    }

    /// Takes the first event, which is the end of an extension or confirmation. Returns its outcome.
    #[track_caller]
    fn next_outcome(&mut self) -> Result<Extension, ExtendError> {
        match self.events.remove(0) {
            Event::Extended { result, .. } | Event::Confirmed { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// Like [`extended`](Self::extended), for the first of several events.
    #[track_caller]
    pub(super) fn apply_next(&mut self, lock: &mut Lock) {
        assert!(self.next_outcome().expect("confirmed").apply(lock));
    }

    #[track_caller]
    pub(super) fn not_extended(&mut self) -> ExtendError {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.next_not_extended()
    }

    /// Like `not_extended`, for the first of several events.
    #[track_caller]
    pub(super) fn next_not_extended(&mut self) -> ExtendError {
        self.next_outcome().expect_err("not confirmed")
    }

    /// Returns what the nodes said to an extension that no majority confirmed.
    #[track_caller]
    pub(super) fn unconfirmed(&mut self) -> Vec<NodeOutcome> {
        match self.not_extended() {
            ExtendError::Unconfirmed(report) => outcomes(&report),
            other => panic!("{other:?}"),
        }
    }

    /// Asserts that the only event is the end of `lock`.
    #[track_caller]
    pub(super) fn expired(&mut self, lock: &Lock) {
        self.expired_first(lock);
        assert!(self.events.is_empty(), "{:?}", self.events);
    }

    /// Asserts that the first event is the end of `lock`.
    #[track_caller]
    pub(super) fn expired_first(&mut self, lock: &Lock) {
        let event = self.events.remove(0);
        assert_matches!(event, Event::Expired { lock: lost } if lost == lock.id());
    }
}

pub(super) fn outcomes(report: &Report) -> Vec<NodeOutcome> {
    report.nodes().iter().map(|node| node.outcome).collect()
}
