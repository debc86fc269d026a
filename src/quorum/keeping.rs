//! Keeping a lock: when the engine extends it, by how much, and until when.
//!
//! The policy is in [`Keeping`]. An extension is due when half of the validity is left, and a failed extension is tried
//! again while validity is left. The struct [`Kept`] contains the policy and the remaining extensions, for both the
//! lock and its engine. The lock and its engine also share the entry, which contains the end of the validity.
//!
//! # Guarantees
//!
//! * No extension makes a lock last beyond its limit. An extension is never due if it would gain nothing.
//! * A failed try changes only the time of the next try. The engine makes at most 15 tries before the lock expires.
//!
//! # Not here
//!
//! The timer for extensions is in the claim. The extension itself is the operation `extend` of the engine.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use core::time::Duration;

use super::Drift;
use super::lock::one_less;
use crate::time::{Instant, NANOS_PER_TICK, nanos};

const TICK: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// The largest number of locks that are extended together, if the extensions are spread evenly. A node works on this
/// number of locks for less than a tenth of a millisecond, and other commands wait during this time. If fewer locks
/// than this are kept, each lock is extended when it is due.
const TOGETHER: u64 = 48;

/// When and by how much an engine extends a lock. The policy takes only ten bytes, because there may be many kept
/// locks.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(2))]
pub(crate) struct Keeping {
    /// The ttl that each extension asks for, in milliseconds.
    ttl: u32,
    /// The lower 32 bits of the time, in ticks, that no extension may exceed.
    limit: u32,
    limit_high: u16,
}

// The number of the last tick fits into 48 bits.
const _: () = assert!(Instant::MAX.tick_floor() >> 48 == 0);

/// The extension is due, and waits for other extensions to end. Only the engine writes this bit.
const WAITS: u8 = 1;

/// The engine has reported to the holder that the lock has ended. Only the engine writes this bit.
const OVER: u8 = 2;

/// The lock will not be extended again.
const ENDED: u8 = 4;

/// The engine has asked the nodes to report changes to the keys. Only the engine reads and writes this bit.
const WATCHED: u8 = 8;

/// The state that a kept lock shares with the engine that keeps it.
#[derive(Debug)]
pub(crate) struct Kept {
    keeping: Keeping,
    extensions_left: AtomicU32,
    /// The exponent of a power of two. Extensions begin at ticks that are multiples of this power. With [`AT_ONCE`],
    /// extensions begin when they are due. Only the engine reads and writes this field.
    step: AtomicU8,
    /// The bits [`WAITS`], [`OVER`], [`ENDED`] and [`WATCHED`].
    state: AtomicU8,
}

// Together with the two counters of its `Arc`, a `Kept` takes half of a cache line.
const _: () = assert!(size_of::<Kept>() == 16);

/// The `step` of a lock whose extensions begin when they are due.
const AT_ONCE: u8 = u8::MAX;

impl Keeping {
    /// Returns the policy that keeps a lock with extensions of `ttl`, until `limit` at the latest. If the ttl is longer
    /// than 49 days, each extension asks for 49 days.
    pub(crate) fn new(ttl: Duration, limit: Instant) -> Self {
        let limit = limit.tick_floor();
        Self {
            ttl: u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX),
            limit: limit as u32,
            limit_high: (limit >> u32::BITS) as u16,
        }
    }

    fn ttl(self) -> Duration {
        Duration::from_millis(u64::from(self.ttl))
    }

    fn limit(self) -> Instant {
        Instant::from_tick(u64::from(self.limit_high) << u32::BITS | u64::from(self.limit))
    }

    /// Returns half of the validity that an extension gives.
    fn half(self, drift: Drift) -> Duration {
        self.ttl().saturating_sub(drift.of(self.ttl())) / 2
    }

    /// Returns when a lock that is valid until `end` should be extended. Returns [`Instant::MAX`] if the lock's current
    /// ttl already reaches the limit.
    fn due_at(self, end: Instant, drift: Drift) -> Instant {
        let half = self.half(drift);
        let drift = self.ttl().saturating_sub(half.saturating_mul(2));
        let asked_for = end.saturating_add(drift).saturating_add(TICK); // A ttl has whole ticks.
        match asked_for < self.limit() {
            true => end.saturating_sub(half),
            false => Instant::MAX,
        }
    }

    /// Returns the exponent of a power of two. If `locks` locks are kept, extensions begin at ticks that are multiples
    /// of this power. Of two powers of two, the larger is a multiple of the smaller, so locks that are extended
    /// together stay together when the number of locks changes. The power is at most a 64th of the number of ticks
    /// between two extensions.
    fn step(self, locks: usize, drift: Drift) -> u8 {
        let locks = locks as u64;
        if locks <= TOGETHER {
            return AT_ONCE;
        }
        let ticks = nanos(self.half(drift)) / NANOS_PER_TICK;
        let even = ticks.saturating_mul(TOGETHER) / locks;
        let most = even.min(ticks / 64).checked_ilog2();
        most.map_or(AT_ONCE, |power| power.min(15) as u8)
    }

    /// Returns the ttl to ask for at `now`.
    fn asked_for(self, now: Instant) -> Duration {
        self.ttl().min(self.limit().saturating_since(now))
    }

    /// Returns when to try again if an extension at `now` fails, and the lock is valid until `end`.
    fn again(self, now: Instant, end: Instant) -> Instant {
        let pause = (end.saturating_since(now) / 4).max(self.ttl() / 64);
        now.saturating_add(pause.max(TICK))
    }
}

impl Kept {
    /// Creates the state of a lock for which this number of extensions is allowed.
    pub(super) fn new(keeping: Keeping, extensions: u32) -> Self {
        Self {
            keeping,
            extensions_left: AtomicU32::new(extensions),
            step: AtomicU8::new(AT_ONCE),
            state: AtomicU8::new(0),
        }
    }

    // ----- calls by the engine ----------------------------------------------------------------

    /// Returns when to extend a lock that is valid until `end`. The result is never before `again`. [`Instant::MAX`]
    /// means never. `drift` is the engine's drift.
    pub(crate) fn due_at(self: &Arc<Self>, end: Instant, again: Instant, drift: Drift) -> Instant {
        match self.is_kept() {
            true => self.in_step(self.keeping.due_at(end, drift)).max(again),
            false => Instant::MAX,
        }
    }

    /// Rounds `due` down to a time at which the engine extends other locks too.
    fn in_step(&self, due: Instant) -> Instant {
        match self.step.load(Ordering::Relaxed) {
            AT_ONCE => due,
            _ if due == Instant::MAX => due,
            power => Instant::from_tick(due.tick_floor() >> power << power),
        }
    }

    /// If a lock that is valid until `end` must be extended at `now`, returns the ttl to ask for and when to try again.
    /// No try begins before `again`. At most `locks` locks are kept.
    pub(crate) fn due(
        self: &Arc<Self>,
        now: Instant,
        (end, again): (Instant, Instant),
        locks: usize,
        drift: Drift,
    ) -> Option<(Duration, Instant)> {
        let is_due = self.due_at(end, again, drift) <= now && now < end;
        is_due.then(|| {
            let step = self.keeping.step(locks, drift);
            self.step.store(step, Ordering::Relaxed);
            (self.keeping.asked_for(now), self.keeping.again(now, end))
        })
    }

    /// Returns the ttl for an extension at `now` of a lock that is valid until `end`, even if the extension is not due
    /// yet. If the number of extensions is limited, only a due extension is allowed.
    pub(crate) fn extension(
        self: &Arc<Self>,
        now: Instant,
        end: Instant,
        drift: Drift,
    ) -> Option<Duration> {
        let due = || self.keeping.due_at(end, drift);
        let gains = match self.extensions_left() {
            u32::MAX => end.saturating_add(drift.of(Duration::ZERO)) <= self.keeping.limit(),
            _ => due() <= now,
        };
        (self.is_kept() && now < end && gains).then(|| self.keeping.asked_for(now))
    }

    /// Marks the extension as waiting. Returns `false` if the extension was already waiting.
    pub(crate) fn waits_from_now_on(&self) -> bool {
        self.state.fetch_or(WAITS, Ordering::AcqRel) & WAITS == 0
    }

    /// Returns `true` if the due extension waits for others to end.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WAITS != 0
    }

    /// Records that the extension no longer waits.
    pub(crate) fn waits_no_more(&self) {
        self.state.fetch_and(!WAITS, Ordering::AcqRel);
    }

    /// Records that the engine has asked the nodes to report changes to the keys.
    pub(crate) fn watch(&self) {
        self.state.fetch_or(WATCHED, Ordering::AcqRel);
    }

    /// Returns `true` if the engine has asked the nodes to report changes to the keys.
    pub(crate) fn is_watched(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WATCHED != 0
    }

    /// Records that the engine has reported to the holder that the lock has ended.
    pub(crate) fn tell_over(&self) {
        self.state.fetch_or(OVER, Ordering::AcqRel);
    }

    /// Returns `false` if no caller still has the lock, if the lock was handed over, or if no extension is left.
    fn is_kept(self: &Arc<Self>) -> bool {
        self.is_had() && !self.has_ended() && self.extensions_left() != 0
    }

    /// Returns `true` if some caller still has the lock, even if it was detached.
    pub(crate) fn is_had(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Returns `true` if the lock was turned into bytes for another process.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) & ENDED != 0
    }

    /// Counts an extension that a majority has confirmed. Returns `false` if no extension was left.
    pub(crate) fn count(&self) -> bool {
        let fewer = |left| (left != 0).then(|| one_less(left));
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        self.extensions_left.fetch_update(set, get, fewer).is_ok()
    }

    // ----- calls by the engine and the lock ---------------------------------------------------

    /// Returns `true` if the engine has reported to the holder that the lock has ended.
    #[cfg(feature = "std")]
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) & OVER != 0
    }

    pub(super) fn extensions_left(&self) -> u32 {
        self.extensions_left.load(Ordering::Acquire)
    }

    /// Returns the ttl that each extension asks for.
    #[cfg(feature = "std")]
    pub(super) fn step(&self) -> Duration {
        self.keeping.ttl()
    }

    /// Makes the engine stop extending the lock.
    #[cfg(any(feature = "std", test))]
    pub(super) fn end(&self) {
        self.state.fetch_or(ENDED, Ordering::AcqRel);
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

    /// Like [`Kept::due`], for a single kept lock before its first extension.
    fn due(kept: &Arc<Kept>, now: Instant, end: Instant) -> Option<(Duration, Instant)> {
        kept.due(now, (end, Instant::ZERO), 1, Drift::default())
    }

    fn due_at(kept: &Arc<Kept>, end: Instant) -> Instant {
        kept.due_at(end, Instant::ZERO, Drift::default())
    }

    /// Each row has a limit, an end and the current time, and then the expected ttl and the time of the next try, all
    /// in milliseconds.
    #[test]
    fn an_extension_is_due_at_half_of_the_validity() {
        let unlimited = u64::MAX / 1_000_000;
        for (limit, end, now, expected) in [
            (unlimited, 9_898, 0, None),
            (unlimited, 9_898, 4_948, None),
            (unlimited, 9_898, 4_949, Some((10_000, 4_949 + 1_237))),
            (unlimited, 9_898, 7_898, Some((10_000, 7_898 + 500))),
            // Shortly before the lock expires, the time between two tries is a 64th of the ttl.
            (unlimited, 9_898, 9_798, Some((10_000, 9_798 + 156))),
            (unlimited, 9_898, 9_897, Some((10_000, 9_897 + 156))),
            (unlimited, 9_898, 9_898, None),
            (unlimited, 9_898, 20_000, None),
            // These locks are kept until a limit.
            (15_000, 9_898, 4_949, Some((10_000, 4_949 + 1_237))),
            (14_000, 9_898, 4_949, Some((9_051, 4_949 + 1_237))),
            (10_002, 9_898, 4_949, Some((5_053, 4_949 + 1_237))),
            (10_001, 9_898, 4_949, None),
            (9_000, 9_898, 4_949, None),
            (0, 9_898, 9_000, None),
        ] {
            let keeping = Keeping::new(TTL, at(limit));
            let kept = Arc::new(Kept::new(keeping, u32::MAX));
            let _held = Arc::clone(&kept);
            let due = due(&kept, at(now), at(end)).map(|(ttl, again)| {
                let again = kept.due_at(at(end), again, Drift::default());
                (ttl.as_millis() as u64, again.as_nanos() / 1_000_000)
            });
            assert_eq!(due, expected, "limit {limit}, end {end}, now {now}");
        }
    }

    /// Each row has a ttl, a number of locks, and the expected power of two in ticks.
    #[test]
    fn extensions_of_many_locks_begin_together() {
        for (millis, locks, expected) in [
            (10_000, 0, None),
            (10_000, 48, None),
            (10_000, 49, Some(64)),
            (10_000, 3_000, Some(64)),
            (10_000, 4_000, Some(32)),
            (10_000, 10_000, Some(16)),
            (10_000, 100_000, Some(2)),
            (10_000, 237_552, Some(1)),
            (10_000, 237_553, None),
            (60_000, 1_000_000, Some(1)),
            (100, 49, None),
            (u64::MAX, 49, Some(1 << 15)),
            (u64::MAX, usize::MAX, None),
        ] {
            let ttl = Duration::from_millis(millis);
            let step = Keeping::new(ttl, Instant::MAX).step(locks, Drift::default());
            let step = (step != AT_ONCE).then(|| 1 << step);
            assert_eq!(step, expected, "{millis} ms, {locks}");
        }
    }

    #[test]
    fn what_begins_together_is_due_a_little_early_and_never_late() {
        let keeping = Keeping::new(TTL, Instant::MAX);
        let kept = Arc::new(Kept::new(keeping, u32::MAX));
        let _held = Arc::clone(&kept);
        let first = (at(9_898), Instant::ZERO);
        let due = kept.due(at(4_949), first, 10_000, Drift::default());
        assert!(due.is_some());
        for (end, due) in [
            (14_884, 9_920),
            (14_885, 9_936),
            (14_900, 9_936),
            (14_901, 9_952),
        ] {
            assert_eq!(due_at(&kept, at(end)), at(due), "{end}");
        }
        assert_eq!(due_at(&kept, Instant::MAX), Instant::MAX);
    }

    #[test]
    fn it_is_tried_fifteen_times_at_most() {
        for ttl in [4 * MS, 50 * MS, TTL, 3_600 * TTL] {
            let drift = Drift::default();
            let keeping = Keeping::new(ttl, Instant::MAX);
            let end = drift.valid_until(at(7), ttl);
            let kept = Arc::new(Kept::new(keeping, u32::MAX));
            let _held = Arc::clone(&kept);
            let (mut tries, mut again) = (0, Instant::ZERO);
            let mut now = due_at(&kept, end);
            while let Some((asked_for, next)) = kept.due(now, (end, again), 1, drift) {
                (tries, again) = (tries + 1, next);
                let before = now;
                now = kept.due_at(end, again, drift);
                assert!(before < now && asked_for == ttl);
            }
            assert!((1..=15).contains(&tries), "{tries} with {ttl:?}");
            assert!(end <= now);
        }
    }

    /// The limit is rounded down to a tick, so that no extension exceeds it.
    #[test]
    fn a_long_ttl_is_asked_for_in_pieces_and_no_limit_is_passed() {
        let pieces = Duration::from_millis(u32::MAX.into());
        for (ttl, asked_for) in [(pieces, pieces), (pieces + MS, pieces), (TTL, TTL)] {
            for limit in [0, 1, 999_999, 1_000_000, u64::MAX - 1, u64::MAX] {
                let limit = Instant::from_nanos(limit);
                let keeping = Keeping::new(ttl, limit);
                assert_eq!(keeping.ttl(), asked_for);
                assert_eq!(keeping.limit(), Instant::from_tick(limit.tick_floor()));
            }
        }
    }

    #[test]
    fn what_was_given_up_is_not_extended() {
        let keeping = Keeping::new(TTL, Instant::MAX);
        let kept = Arc::new(Kept::new(keeping, 1));
        assert_eq!(due_at(&kept, at(9_898)), Instant::MAX, "nobody has it");
        let held = Arc::clone(&kept);
        assert_eq!(due_at(&kept, at(9_898)), at(4_949));
        let (_, again) = due(&kept, at(5_000), at(9_898)).expect("due");
        let at_once = kept.due(at(5_001), (at(9_898), again), 1, Drift::default());
        assert_eq!(at_once, None, "not at once again");
        assert!(held.count() && !held.count());
        assert_eq!(kept.extensions_left(), 0);
        assert_eq!(due_at(&kept, at(9_898)), Instant::MAX, "no more extensions");
        let kept = Arc::new(Kept::new(keeping, u32::MAX));
        let held = Arc::clone(&kept);
        assert!(held.count());
        assert_eq!(kept.extensions_left(), u32::MAX);
        held.end();
        assert_eq!(due(&kept, at(5_000), at(9_898)), None);
    }
}
