//! Keeping a lock: when its engine extends it by itself, by how much, and until when.
//!
//! [`Keeping`] is the policy: half of the validity before the end an extension is due, and if it fails
//! it is tried again within what is left. [`Kept`] is what the lock and its engine share, so that the
//! lock shows its present end wherever it is.
//!
//! # Guarantees
//!
//! * No extension asks for more than the limit allows, or is asked for where it would gain nothing.
//! * A try that fails changes nothing here but when the next one is due. There are 15 tries at most before
//!   the end.
//!
//! # Not here
//!
//! The timer, which is that of the claim. The extension is the engine's operation `extend`.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use super::Drift;
use super::lock::one_less;
use crate::time::{Instant, NANOS_PER_TICK, nanos};

const TICK: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// How many locks are extended together at most, if what is due is spread evenly: few enough that a node
/// works for them for less than a tenth of a millisecond, in which others wait. Where fewer locks are kept
/// each is extended when it is due.
const TOGETHER: u64 = 48;

/// When a lock is extended by its engine, and by how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// What each extension asks for, in nanoseconds.
    ttl: u64,
    /// Half of the validity that this gives.
    half: u64,
    /// No extension asks for more than this.
    limit: Instant,
}

/// Its extension is due, and waits until others have their outcome.
const WAITS: u8 = 1;

/// Its end was reported to its holder.
const OVER: u8 = 2;

/// What a lock that is kept and the engine that keeps it share.
#[derive(Debug)]
pub(crate) struct Kept {
    keeping: Keeping,
    /// In nanoseconds.
    valid_until: AtomicU64,
    /// The longest that its keys were given, in nanoseconds.
    ttl: AtomicU64,
    /// It is not tried before. Only its engine reads and writes it.
    again: AtomicU64,
    extensions_left: AtomicU32,
    /// Its extensions begin at multiples of so many ticks. Zero: when they are due. Only its engine reads
    /// and writes it.
    step: AtomicU16,
    /// [`WAITS`] and [`OVER`]. Only its engine writes it.
    state: AtomicU8,
    /// It is not to be extended any more.
    has_ended: AtomicBool,
}

impl Keeping {
    /// Extensions by `ttl`, which end at `limit` at the latest.
    pub(crate) fn new(ttl: Duration, limit: Instant, drift: Drift) -> Self {
        Self {
            ttl: nanos(ttl),
            half: nanos(ttl.saturating_sub(drift.of(ttl)) / 2),
            limit,
        }
    }

    const fn ttl(self) -> Duration {
        Duration::from_nanos(self.ttl)
    }

    const fn half(self) -> Duration {
        Duration::from_nanos(self.half)
    }

    /// Returns when a lock that is valid until `end` is to be extended. [`Instant::MAX`] if what it was
    /// given already lasts to the limit.
    fn due_at(self, end: Instant) -> Instant {
        let drift = self.ttl().saturating_sub(self.half().saturating_mul(2));
        let asked_for = end.saturating_add(drift).saturating_add(TICK); // A ttl has whole ticks.
        match asked_for < self.limit {
            true => end.saturating_sub(self.half()),
            false => Instant::MAX,
        }
    }

    /// Returns at multiples of how many ticks extensions are to begin where so many locks are kept. It is a
    /// power of two: what begins together at one number of locks does so at another. No more than a 64th of
    /// the time between two extensions.
    fn step(self, locks: usize) -> u16 {
        let locks = locks as u64;
        if locks <= TOGETHER {
            return 0;
        }
        let ticks = self.half / NANOS_PER_TICK;
        let even = ticks.saturating_mul(TOGETHER) / locks;
        let most = even.min(ticks / 64).min(1 << 15) as u16;
        most.checked_ilog2().map_or(0, |power| 1 << power)
    }

    /// Returns what is asked for at `now`.
    fn asked_for(self, now: Instant) -> Duration {
        self.ttl().min(self.limit.saturating_since(now))
    }

    /// Returns when a lock that is valid until `end`, and is tried at `now`, is tried again if that fails.
    fn again(self, now: Instant, end: Instant) -> Instant {
        let pause = (end.saturating_since(now) / 4).max(self.ttl() / 64);
        now.saturating_add(pause.max(TICK))
    }
}

impl Kept {
    /// A lock that is valid until `end` and may be extended so often.
    pub(super) fn new(keeping: Keeping, end: Instant, ttl: Duration, extensions: u32) -> Self {
        Self {
            keeping,
            valid_until: AtomicU64::new(end.as_nanos()),
            ttl: AtomicU64::new(nanos(ttl)),
            again: AtomicU64::new(0),
            extensions_left: AtomicU32::new(extensions),
            step: AtomicU16::new(0),
            state: AtomicU8::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    // ----- the engine -----------------------------------------------------------------------

    /// Returns when a lock that is valid until `end` is to be extended; [`Instant::MAX`] if it is not to
    /// be.
    pub(crate) fn due_at(self: &Arc<Self>, end: Instant) -> Instant {
        let again = Instant::from_nanos(self.again.load(Ordering::Relaxed));
        match self.is_kept() {
            true => self.in_step(self.keeping.due_at(end)).max(again),
            false => Instant::MAX,
        }
    }

    /// Returns the last time at or before `due` at which others are due too.
    fn in_step(&self, due: Instant) -> Instant {
        match u64::from(self.step.load(Ordering::Relaxed)) {
            0 => due,
            _ if due == Instant::MAX => due,
            ticks => Instant::from_tick(due.tick_floor() / ticks * ticks),
        }
    }

    /// Returns by how much a lock that is valid until `end` is to be extended at `now`, if it is due. From
    /// then on it is due when it is to be tried again. So many `locks` are kept with it, or fewer.
    pub(crate) fn due(
        self: &Arc<Self>,
        now: Instant,
        end: Instant,
        locks: usize,
    ) -> Option<Duration> {
        let is_due = self.due_at(end) <= now && now < end;
        is_due.then(|| {
            let again = self.keeping.again(now, end);
            self.again.store(again.as_nanos(), Ordering::Relaxed);
            let step = self.keeping.step(locks);
            self.step.store(step, Ordering::Relaxed);
            self.keeping.asked_for(now)
        })
    }

    /// Its end is another one: it is due as if it had not been tried.
    pub(crate) fn begin_again(&self) {
        self.again.store(0, Ordering::Relaxed);
    }

    /// Its extension is due, and waits. Returns `false` if it waits already.
    pub(crate) fn waits_from_now_on(&self) -> bool {
        self.state.fetch_or(WAITS, Ordering::AcqRel) & WAITS == 0
    }

    /// Its extension does not wait any more.
    pub(crate) fn waits_no_more(&self) {
        self.state.fetch_and(!WAITS, Ordering::AcqRel);
    }

    /// Its end is reported to its holder.
    pub(crate) fn tell_over(&self) {
        self.state.fetch_or(OVER, Ordering::AcqRel);
    }

    /// Returns `false` if nobody has the lock any more, or it was handed over, or it may not be extended
    /// once more.
    fn is_kept(self: &Arc<Self>) -> bool {
        self.is_had() && !self.has_ended() && self.extensions_left() != 0
    }

    /// Returns `true` if somebody has the lock, also if it was detached.
    pub(crate) fn is_had(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Returns `true` if it was written down for another process.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// A majority has it until `end`: exactly, or at least, because it was extended by `ttl`. The engine says so
    /// in the order of the outcomes, whenever their callers apply them.
    pub(crate) fn tell(&self, exact: bool, end: Instant, ttl: Duration) {
        match exact {
            true => self.ends(end, ttl),
            false => self.extended(end, ttl),
        }
    }

    /// It ends then at the latest.
    pub(crate) fn ends_by(&self, end: Instant) {
        self.valid_until.fetch_min(end.as_nanos(), Ordering::AcqRel);
    }

    fn extended(&self, end: Instant, ttl: Duration) {
        self.ttl.fetch_max(nanos(ttl), Ordering::AcqRel);
        self.valid_until.fetch_max(end.as_nanos(), Ordering::AcqRel);
    }

    /// Counts an extension that a majority has confirmed. Returns `false` if none was left.
    pub(crate) fn count(&self) -> bool {
        let fewer = |left| (left != 0).then(|| one_less(left));
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        self.extensions_left.fetch_update(set, get, fewer).is_ok()
    }

    /// The caller of an extension that was counted does not want to know of it.
    pub(crate) fn uncount(&self) {
        let more = |left: u32| Some(left.saturating_add(1));
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.extensions_left.fetch_update(set, get, more);
    }

    // ----- both -----------------------------------------------------------------------------

    /// Returns `true` if its end was reported to its holder.
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) & OVER != 0
    }

    pub(crate) fn valid_until(&self) -> Instant {
        Instant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    pub(super) fn extensions_left(&self) -> u32 {
        self.extensions_left.load(Ordering::Acquire)
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    /// Returns what each extension asks for.
    #[cfg(feature = "std")]
    pub(super) fn step(&self) -> Duration {
        self.keeping.ttl()
    }

    /// It ends then, later or earlier than before. The longest ttl that its keys were given is `ttl`.
    pub(super) fn ends(&self, end: Instant, ttl: Duration) {
        self.ttl.fetch_max(nanos(ttl), Ordering::AcqRel);
        self.valid_until.store(end.as_nanos(), Ordering::Release);
    }

    /// Its engine does not extend it any more.
    #[cfg(any(feature = "std", test))]
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TTL: Duration = Duration::from_secs(10);

    const fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// At which time, in milliseconds, a lock that ends at `end` is extended by how much, and when it is
    /// tried again.
    #[test]
    fn an_extension_is_due_at_half_of_the_validity() {
        let unlimited = u64::MAX / 1_000_000;
        for (limit, end, now, expected) in [
            (unlimited, 9_898, 0, None),
            (unlimited, 9_898, 4_948, None),
            (unlimited, 9_898, 4_949, Some((10_000, 4_949 + 1_237))),
            (unlimited, 9_898, 7_898, Some((10_000, 7_898 + 500))),
            // The last pauses have a 64th of the ttl.
            (unlimited, 9_898, 9_798, Some((10_000, 9_798 + 156))),
            (unlimited, 9_898, 9_897, Some((10_000, 9_897 + 156))),
            (unlimited, 9_898, 9_898, None),
            (unlimited, 9_898, 20_000, None),
            // What the limit allows.
            (15_000, 9_898, 4_949, Some((10_000, 4_949 + 1_237))),
            (14_000, 9_898, 4_949, Some((9_051, 4_949 + 1_237))),
            (10_002, 9_898, 4_949, Some((5_053, 4_949 + 1_237))),
            (10_001, 9_898, 4_949, None),
            (9_000, 9_898, 4_949, None),
            (0, 9_898, 9_000, None),
        ] {
            let keeping = Keeping::new(TTL, at(limit), Drift::default());
            let kept = Arc::new(Kept::new(keeping, at(end), TTL, u32::MAX));
            let _held = Arc::clone(&kept);
            let due = kept.due(at(now), at(end), 1).map(|ttl| {
                let again = kept.due_at(at(end)).as_nanos() / 1_000_000;
                (ttl.as_millis() as u64, again)
            });
            assert_eq!(due, expected, "limit {limit}, end {end}, now {now}");
        }
    }

    /// At which multiples, in ticks, the extensions of so many locks begin.
    #[test]
    fn extensions_of_many_locks_begin_together() {
        for (millis, locks, expected) in [
            (10_000, 0, 0),
            (10_000, 48, 0),
            (10_000, 49, 64),
            (10_000, 3_000, 64),
            (10_000, 4_000, 32),
            (10_000, 10_000, 16),
            (10_000, 100_000, 2),
            (10_000, 237_552, 1),
            (10_000, 237_553, 0),
            (60_000, 1_000_000, 1),
            (100, 49, 0),
            (u64::MAX, 49, 1 << 15),
            (u64::MAX, usize::MAX, 0),
        ] {
            let ttl = Duration::from_millis(millis);
            let keeping = Keeping::new(ttl, Instant::MAX, Drift::default());
            assert_eq!(keeping.step(locks), expected, "{millis} ms, {locks}");
        }
    }

    #[test]
    fn what_begins_together_is_due_a_little_early_and_never_late() {
        let keeping = Keeping::new(TTL, Instant::MAX, Drift::default());
        let kept = Arc::new(Kept::new(keeping, at(9_898), TTL, u32::MAX));
        let _held = Arc::clone(&kept);
        assert!(kept.due(at(4_949), at(9_898), 10_000).is_some());
        kept.begin_again();
        for (end, due) in [
            (14_884, 9_920),
            (14_885, 9_936),
            (14_900, 9_936),
            (14_901, 9_952),
        ] {
            assert_eq!(kept.due_at(at(end)), at(due), "{end}");
        }
        assert_eq!(kept.due_at(Instant::MAX), Instant::MAX);
    }

    #[test]
    fn it_is_tried_fifteen_times_at_most() {
        for ttl in [4 * MS, 50 * MS, TTL, 3_600 * TTL] {
            let drift = Drift::default();
            let keeping = Keeping::new(ttl, Instant::MAX, drift);
            let end = drift.valid_until(at(7), ttl);
            let kept = Arc::new(Kept::new(keeping, end, ttl, u32::MAX));
            let _held = Arc::clone(&kept);
            let (mut tries, mut now) = (0, kept.due_at(end));
            while let Some(asked_for) = kept.due(now, end, 1) {
                assert!(now < kept.due_at(end) && asked_for == ttl);
                (tries, now) = (tries + 1, kept.due_at(end));
            }
            assert!((1..=15).contains(&tries), "{tries} with {ttl:?}");
            assert!(end <= now);
        }
    }

    #[test]
    fn what_was_given_up_is_not_extended() {
        let keeping = Keeping::new(TTL, Instant::MAX, Drift::default());
        let kept = Arc::new(Kept::new(keeping, at(9_898), TTL, 1));
        assert_eq!(kept.due_at(at(9_898)), Instant::MAX, "nobody has it");
        let held = Arc::clone(&kept);
        assert_eq!(kept.due_at(at(9_898)), at(4_949));
        assert!(kept.due(at(5_000), at(9_898), 1).is_some());
        assert!(
            kept.due(at(5_001), at(9_898), 1).is_none(),
            "not at once again"
        );
        held.extended(at(12_000), TTL);
        assert!(held.count() && !held.count());
        assert_eq!(
            (kept.valid_until(), kept.extensions_left()),
            (at(12_000), 0)
        );
        assert_eq!(kept.due_at(at(9_898)), Instant::MAX, "no more extensions");
        let kept = Arc::new(Kept::new(keeping, at(9_898), TTL, u32::MAX));
        let held = Arc::clone(&kept);
        held.extended(at(9_000), TTL);
        assert!(held.count());
        assert_eq!(kept.valid_until(), at(9_898), "never shortened");
        assert_eq!(kept.extensions_left(), u32::MAX);
        held.end();
        assert!(kept.due(at(5_000), at(9_898), 1).is_none());
    }
}
