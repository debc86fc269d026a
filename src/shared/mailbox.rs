//! The mailbox: what callers leave for whoever drives, and who has to be woken for it.
//!
//! One short mutex guards the letters *and* every fact on which a wake-up depends: whether the
//! driving thread sleeps, where the I/O thread is, whether it was called. So each decision "sleep
//! or not" and each decision "wake or not" are ordered, and one of the two sees the other.
//!
//! # No wake-up is lost
//!
//! *A letter that finds the engine taken is taken out by whoever has it.* The sender puts the
//! letter in (a section under the mailbox's mutex) and then tries the engine, which fails: a holder
//! H has it. H comes to the mailbox again, before it sleeps ([`Mailbox::doze`]) or after it has let
//! go of the engine ([`Mailbox::left`], [`Mailbox::orders`]). Suppose the last such section of H
//! comes before the sender's in the order of the mutex. If it was the one after letting go, then
//! letting go happened before the sender's attempt, which would not have met H. If it was `doze`,
//! the sender saw that H sleeps, and wakes it. Otherwise H's section comes after the sender's, and
//! sees the letter.
//!
//! *The I/O thread does not rest while something is left to it.* It rests only by
//! [`Mailbox::rest`], which refuses if it was called, if a letter lies there, or if a caller has
//! left since it last looked. Whoever lets go of the engine later finds it resting in `left`, and
//! wakes it. While it watches the descriptor that takes care: the wake-up is an event of that
//! descriptor, and a caller whose turn begins before the thread is scheduled takes the event away.
//! The thread, woken, finds nothing there and sleeps on. So it counts as watching until it comes to
//! `orders` itself, and everyone who leaves wakes it: whoever took an event away leaves later, and
//! behind the last to leave there is nobody to take it.
//!
//! *A letter that the I/O thread is sure to read needs nobody else.* While it serves it comes to
//! [`Mailbox::take`] before each sleep, and after [`Mailbox::serves_no_more`] to `orders`, which sees
//! the letter. If the engine panics nobody serves any more before the letters are closed.
//!
//! *Nobody depends on letters that are expected.* Of many tasks that it wakes together the I/O thread may
//! expect a letter each. It sleeps until they are there without having the engine, and for a bounded
//! time. Whoever takes letters out ends the expectation.
//!
//! *Who has to see a letter written does not sleep through it.* It counts itself
//! ([`Mailbox::await_written`]), tries the engine once more, and sleeps until what its letter asks
//! for was written or the engine was let go of. Both are told in sections of their own that come
//! after the deed ([`Mailbox::written`], [`Mailbox::left`], [`Mailbox::freed`]), and it sleeps only
//! if none has come since it counted itself.
//!
//! `tests/interleavings` walks through every order of these steps for up to three callers.
//!
//! Nothing that can panic or block, and no code of a user, runs under the mutex.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::slot::Slot;
use crate::config::LockOptions;
use crate::driver::clock;
use crate::limits::MAILBOX_MAX;
use crate::quorum::Lock;
use crate::time::Instant;

/// Most naps in a row, of a millisecond each, in which nobody takes a turn.
const NAPS_MAX: u32 = 10;

/// What a caller that does not drive wants done.
#[derive(Debug)]
pub(super) enum Letter {
    /// A lock is wanted, by `until` if that is given.
    Acquire {
        slot: Arc<Slot>,
        resource: Vec<u8>,
        options: LockOptions,
        until: Option<Instant>,
    },
    /// The lock that `of` belongs to is to last longer, or without a `ttl` is to be confirmed.
    /// `lock` is a copy of it.
    Extend {
        slot: Arc<Slot>,
        of: Arc<Slot>,
        lock: Lock,
        ttl: Option<Duration>,
    },
    /// The lock that `slot` belongs to is to be released, and somebody waits for it.
    Release { slot: Arc<Slot>, lock: Lock },
    /// The same, and nobody waits.
    GiveBack { slot: Arc<Slot>, lock: Lock },
    /// The lock goes elsewhere. `lock` is a copy of it.
    Detach { slot: Arc<Slot>, lock: Lock },
    /// The lock came from elsewhere. `lock` is a copy of it.
    Adopt { slot: Arc<Slot>, lock: Lock },
    /// Nobody waits for the call of `slot` any more.
    Cancel { slot: Arc<Slot> },
    /// Somebody wants to know how the nodes stand.
    Look { slot: Arc<Slot> },
    /// Somebody vouches for this server, which is the node of this address.
    Trust {
        slot: Arc<Slot>,
        address: String,
        run_id: String,
    },
    /// The same of all servers that are connected.
    TrustAll { slot: Arc<Slot> },
    /// The nodes are to be a new cluster.
    Reinit { slot: Arc<Slot> },
    /// Makes the engine panic.
    #[cfg(all(test, feature = "embedded"))]
    Break { slot: Arc<Slot> },
}

impl Letter {
    /// The slot of the call, or of the lock.
    pub(super) fn slot(&self) -> &Arc<Slot> {
        match self {
            Self::Acquire { slot, .. }
            | Self::Extend { slot, .. }
            | Self::Release { slot, .. }
            | Self::GiveBack { slot, .. }
            | Self::Detach { slot, .. }
            | Self::Adopt { slot, .. }
            | Self::Cancel { slot }
            | Self::Look { slot }
            | Self::Reinit { slot }
            | Self::TrustAll { slot }
            | Self::Trust { slot, .. } => slot,
            #[cfg(all(test, feature = "embedded"))]
            Self::Break { slot } => slot,
        }
    }

    /// Whether it can be refused. What gives something back has its place for certain: there are
    /// no more of these than there are locks and calls.
    fn is_refusable(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Extend { .. })
    }
}

/// Where the I/O thread is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Whereabouts {
    /// Awake: it comes to [`Mailbox::orders`] before it rests.
    Busy,
    /// Parked for a millisecond at most. Callers are active and need nothing of it.
    Napping,
    /// It waits for the descriptor of the driver, and for the next deadline.
    Watching,
    /// Parked until a caller leaves, because a caller drives.
    Parked,
}

/// Whom to wake, once the mailbox is let go of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(super) enum Wake {
    Nobody,
    /// Whoever waits for the driver's descriptor.
    Driver,
    /// The parked I/O thread.
    Thread,
    /// Either, whichever it is.
    Both,
}

/// What is to be done about a letter that lies in the mailbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(super) struct Posted {
    pub(super) wake: Wake,
    /// The I/O thread is sure to read it.
    pub(super) served: bool,
    /// How many letters have been put in, with this one.
    pub(super) number: u64,
}

/// What the I/O thread does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Orders {
    /// Callers were active a moment ago: nothing, for a millisecond.
    Nap,
    /// See what there is to do.
    Look,
    /// The last handle is gone.
    Close,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    /// Letters were written, or the engine was let go of.
    progress: Condvar,
}

#[derive(Debug)]
struct Inner {
    letters: VecDeque<Letter>,
    /// The I/O thread sleeps until there are so many. Zero if it does not.
    expected: usize,
    /// Whoever has the engine sleeps in a turn, and nobody has woken it yet.
    asleep: bool,
    whereabouts: Whereabouts,
    /// The I/O thread was called: somebody waits whom nobody else serves.
    called: bool,
    /// The I/O thread serves calls, and comes here again and again.
    serving: bool,
    closing: bool,
    /// How often a caller has let go of the engine.
    departures: u64,
    /// How often in a row the I/O thread has napped without anyone taking a turn.
    naps: u32,
    /// How many letters have been put in.
    posted: u64,
    /// What so many of them ask for has been written to the nodes.
    written: u64,
    /// How often the engine has been let go of.
    freed: u64,
    /// How many threads wait until a letter of theirs was written.
    awaiting: usize,
    /// One of them has waited in vain, and the engine has not been let go of since.
    stuck: bool,
}

impl Inner {
    /// No more is expected if the letter that was just put in is the last; whether it is.
    fn complete(&mut self) -> bool {
        let complete = self.expected != 0 && self.expected <= self.letters.len();
        if complete {
            self.expected = 0;
        }
        complete
    }
}

impl Mailbox {
    pub(super) fn new() -> Self {
        let inner = Mutex::new(Inner {
            letters: VecDeque::new(),
            expected: 0,
            asleep: false,
            whereabouts: Whereabouts::Busy,
            called: false,
            serving: false,
            closing: false,
            departures: 0,
            naps: 0,
            posted: 0,
            written: 0,
            freed: 0,
            awaiting: 0,
            stuck: false,
        });
        Self {
            inner,
            progress: Condvar::new(),
        }
    }

    // ----- callers --------------------------------------------------------------------------

    /// Puts `letter` in; gives it back if the mailbox is full and it can be refused.
    ///
    /// The sender wakes whom it is told to, and then tries the engine once more; that it spares
    /// where the I/O thread serves, which comes here before it rests.
    pub(super) fn put(&self, letter: Letter) -> Result<Posted, Letter> {
        let mut inner = self.lock();
        if MAILBOX_MAX <= inner.letters.len() && letter.is_refusable() {
            return Err(letter);
        }
        inner.letters.push_back(letter);
        inner.posted += 1;
        let asleep = core::mem::take(&mut inner.asleep);
        Ok(Posted {
            wake: match (asleep, inner.complete()) {
                (true, true) => Wake::Both,
                (true, false) => Wake::Driver,
                (false, true) => Wake::Thread,
                (false, false) => Wake::Nobody,
            },
            served: inner.serving,
            number: inner.posted,
        })
    }

    /// Whether the I/O thread serves: it is sure to read a letter, and writes at once what many ask
    /// for.
    pub(super) fn is_served(&self) -> bool {
        self.lock().serving
    }

    /// A caller has let go of the engine. `waiting`: there are calls that somebody waits for;
    /// `turned`: it has taken a turn, so that answers were read and timers fired.
    pub(super) fn left(&self, waiting: bool, turned: bool) -> Wake {
        let mut inner = self.lock();
        self.tell_freed(&mut inner);
        inner.departures = inner.departures.wrapping_add(1);
        if turned {
            inner.naps = 0;
        }
        let needed = waiting || !inner.letters.is_empty();
        inner.called |= needed;
        match inner.whereabouts {
            // It stays so until the thread itself comes to `orders`: the event of this wake-up may
            // be taken away by the turn of a caller that comes first, and then the thread sleeps
            // on. That caller leaves too, and wakes it again.
            Whereabouts::Watching => Wake::Driver,
            // A token that nobody else can take. Once is enough.
            Whereabouts::Parked => {
                inner.whereabouts = Whereabouts::Busy;
                Wake::Thread
            }
            Whereabouts::Napping if needed => {
                inner.whereabouts = Whereabouts::Busy;
                Wake::Thread
            }
            Whereabouts::Napping | Whereabouts::Busy => Wake::Nobody,
        }
    }

    /// The last handle is gone.
    pub(super) fn close(&self) -> Wake {
        let mut inner = self.lock();
        inner.closing = true;
        inner.asleep = false;
        Wake::Both
    }

    // ----- whoever has the engine -----------------------------------------------------------

    /// Whether a turn may sleep. From here on a letter wakes it.
    pub(super) fn doze(&self) -> bool {
        let mut inner = self.lock();
        inner.asleep = inner.letters.is_empty() && !inner.closing;
        inner.asleep
    }

    /// The turn is over, or the engine was just taken: the letters, for `empty`. Returns how many
    /// have been taken out so far.
    pub(super) fn take(&self, empty: &mut VecDeque<Letter>) -> u64 {
        let mut inner = self.lock();
        inner.asleep = false;
        inner.expected = 0;
        core::mem::swap(&mut inner.letters, empty);
        inner.posted
    }

    /// What the first `letters` of all letters ask for has been written to the nodes.
    pub(super) fn written(&self, letters: u64) {
        let mut inner = self.lock();
        inner.written = inner.written.max(letters);
        if inner.awaiting != 0 {
            self.progress.notify_all();
        }
    }

    /// The I/O thread has let go of the engine, or it is broken. Callers that let go of it come to
    /// [`Mailbox::left`].
    pub(super) fn freed(&self) {
        self.tell_freed(&mut self.lock());
    }

    fn tell_freed(&self, inner: &mut MutexGuard<'_, Inner>) {
        inner.freed = inner.freed.wrapping_add(1);
        inner.stuck = false;
        if inner.awaiting != 0 {
            self.progress.notify_all();
        }
    }

    // ----- who has to see a letter written --------------------------------------------------

    /// Counts this thread among those that wait until the first `letters` are written. Returns
    /// `None` if they are, and if nobody should wait because somebody has done so in vain;
    /// otherwise what [`Mailbox::await_written`] has to know.
    pub(super) fn begin_to_await(&self, letters: u64) -> Option<u64> {
        let mut inner = self.lock();
        let waits = inner.written < letters && !inner.stuck;
        inner.awaiting += usize::from(waits);
        waits.then_some(inner.freed)
    }

    /// Waits until the first `letters` are written, the engine was let go of more often than
    /// `freed` says, or `until` has come.
    pub(super) fn await_written(&self, letters: u64, freed: u64, until: Instant) {
        let mut inner = self.lock();
        while inner.written < letters && inner.freed == freed {
            let left = until.saturating_since(clock::now());
            if left.is_zero() {
                inner.stuck = true;
                break;
            }
            inner = match self.progress.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        inner.awaiting -= 1;
    }

    /// Returns `true` if somebody waits until a letter is written.
    pub(super) fn is_awaited(&self) -> bool {
        self.lock().awaiting != 0
    }

    /// This thread does not wait after all.
    pub(super) fn await_no_more(&self) {
        self.lock().awaiting -= 1;
    }

    // ----- the I/O thread -------------------------------------------------------------------

    /// Tasks are about to be woken that are likely to leave so many letters. The last of these wakes it.
    pub(super) fn expect(&self, letters: usize) {
        self.lock().expected = letters;
    }

    /// Whether letters are still to come.
    pub(super) fn is_expecting(&self) -> bool {
        self.lock().expected != 0
    }

    /// From here on it serves: it comes to [`Mailbox::take`] again and again, and to
    /// [`Mailbox::orders`] after [`Mailbox::serves_no_more`].
    pub(super) fn serves(&self) {
        self.lock().serving = true;
    }

    /// It does not any more; or nobody does, because the engine has panicked.
    pub(super) fn serves_no_more(&self) {
        self.lock().serving = false;
    }

    /// Another thread is the I/O thread from here on, and looks at everything at once.
    pub(super) fn taken_over(&self) {
        let mut inner = self.lock();
        inner.whereabouts = Whereabouts::Busy;
        inner.serving = false;
        inner.expected = 0;
        inner.called = true;
    }

    /// What to do next. `seen` is what it knows of the departures.
    pub(super) fn orders(&self, seen: &mut u64) -> Orders {
        let mut inner = self.lock();
        inner.whereabouts = Whereabouts::Busy;
        let called = core::mem::take(&mut inner.called);
        if inner.closing {
            return Orders::Close;
        }
        // Callers that come and go without a turn (what they ask for is refused, say) must not keep
        // it from looking at the timers of others.
        let overdue = NAPS_MAX <= inner.naps;
        if called || !inner.letters.is_empty() || inner.departures == *seen || overdue {
            inner.naps = 0;
            return Orders::Look;
        }
        inner.naps += 1;
        *seen = inner.departures;
        inner.whereabouts = Whereabouts::Napping;
        Orders::Nap
    }

    /// Whether the I/O thread may rest `there`: nothing has happened since it looked.
    pub(super) fn rest(&self, there: Whereabouts, seen: u64) -> bool {
        let mut inner = self.lock();
        let quiet =
            !inner.called && !inner.closing && inner.letters.is_empty() && inner.departures == seen;
        if quiet {
            inner.whereabouts = there;
        }
        quiet
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn is_watching(&self) -> bool {
        self.lock().whereabouts == Whereabouts::Watching
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// All that later decisions depend on, for a thread that has `seen` so many departures.
    #[cfg(test)]
    #[cfg(feature = "embedded")]
    pub(super) fn facts(&self, seen: u64) -> ([usize; 2], bool, Whereabouts, [bool; 2], u64) {
        let inner = self.lock();
        (
            [inner.letters.len(), inner.expected],
            inner.asleep,
            inner.whereabouts,
            [inner.called, inner.serving],
            inner.departures.wrapping_sub(seen),
        )
    }

    /// Nothing panics under this mutex but the allocator.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Letter {
        Letter::Cancel {
            slot: Arc::new(Slot::new()),
        }
    }

    fn put(mailbox: &Mailbox) -> Wake {
        mailbox.put(letter()).unwrap().wake
    }

    fn take(mailbox: &Mailbox) -> usize {
        let mut letters = VecDeque::new();
        mailbox.take(&mut letters);
        letters.len()
    }

    /// The first letter wakes a turn that sleeps; a turn that has a letter does not sleep.
    #[test]
    fn a_letter_wakes_whoever_sleeps_once() {
        let mailbox = Mailbox::new();
        assert_eq!(put(&mailbox), Wake::Nobody, "nobody sleeps");
        assert!(!mailbox.doze(), "a letter lies there");
        assert_eq!(put(&mailbox), Wake::Nobody);
        assert_eq!(take(&mailbox), 2);
        assert!(mailbox.doze());
        assert_eq!(put(&mailbox), Wake::Driver);
        assert_eq!(put(&mailbox), Wake::Nobody, "it was woken");
        assert_eq!(take(&mailbox), 2);
        assert!(mailbox.doze());
        assert_eq!(take(&mailbox), 0);
        assert_eq!(put(&mailbox), Wake::Nobody, "it has woken by itself");
    }

    #[test]
    fn the_last_letter_that_is_expected_wakes_the_io_thread_once() {
        let mailbox = Mailbox::new();
        mailbox.expect(2);
        assert_eq!(put(&mailbox), Wake::Nobody);
        assert!(mailbox.is_expecting());
        assert_eq!(put(&mailbox), Wake::Thread);
        assert!(!mailbox.is_expecting());
        assert_eq!(put(&mailbox), Wake::Nobody);
        assert_eq!(take(&mailbox), 3);
        mailbox.expect(1);
        assert!(mailbox.doze());
        assert_eq!(put(&mailbox), Wake::Both, "and who drives meanwhile");
        assert_eq!(take(&mailbox), 1);
        mailbox.expect(2);
        assert_eq!(put(&mailbox), Wake::Nobody);
        assert_eq!(take(&mailbox), 1);
        assert!(!mailbox.is_expecting(), "they were taken");
    }

    /// Where the I/O thread is, whether somebody waits, and whom the caller who leaves wakes.
    #[test]
    fn who_leaves_wakes_the_thread_that_rests() {
        use Whereabouts::{Busy, Napping, Parked, Watching};
        for (there, waiting, wake) in [
            (Busy, false, Wake::Nobody),
            (Busy, true, Wake::Nobody),
            (Napping, false, Wake::Nobody),
            (Napping, true, Wake::Thread),
            (Watching, false, Wake::Driver),
            (Watching, true, Wake::Driver),
            (Parked, false, Wake::Thread),
            (Parked, true, Wake::Thread),
        ] {
            let mailbox = Mailbox::new();
            mailbox.lock().whereabouts = there;
            assert_eq!(mailbox.left(waiting, true), wake, "{there:?} {waiting}");
            let again = match (there, wake) {
                (Napping, Wake::Nobody) => Napping,
                (Watching, _) => Watching, // Until it has come: see the module.
                _ => Busy,
            };
            assert_eq!(
                mailbox.lock().whereabouts,
                again,
                "otherwise it is woken once"
            );
            // A letter counts as somebody who waits.
            let mailbox = Mailbox::new();
            mailbox.lock().whereabouts = there;
            assert_eq!(put(&mailbox), Wake::Nobody);
            let with_letter = mailbox.left(waiting, true);
            assert_eq!(with_letter == Wake::Nobody, there == Busy, "{there:?}");
        }
    }

    #[test]
    fn the_thread_naps_after_a_caller_and_looks_when_it_is_called() {
        let mailbox = Mailbox::new();
        let mut seen = 0;
        assert_eq!(mailbox.orders(&mut seen), Orders::Look, "nobody was there");
        assert_eq!(mailbox.left(false, true), Wake::Nobody);
        assert_eq!(mailbox.orders(&mut seen), Orders::Nap);
        assert_eq!(mailbox.left(false, true), Wake::Nobody);
        assert_eq!(mailbox.orders(&mut seen), Orders::Nap, "another one was");
        assert_eq!(mailbox.orders(&mut seen), Orders::Look, "nobody since");
        assert_eq!(mailbox.left(true, true), Wake::Nobody);
        assert_eq!(mailbox.orders(&mut seen), Orders::Look, "it was called");
        assert_eq!(mailbox.orders(&mut seen), Orders::Nap, "which is done");
        assert_eq!(put(&mailbox), Wake::Nobody);
        assert_eq!(mailbox.orders(&mut seen), Orders::Look, "a letter");
        assert_eq!(mailbox.close(), Wake::Both);
        assert_eq!(mailbox.orders(&mut seen), Orders::Close);
    }

    /// It does not rest when something has happened since it looked.
    #[test]
    fn the_thread_rests_when_nothing_has_happened() {
        let rests = |happens: &dyn Fn(&Mailbox)| {
            let mailbox = Mailbox::new();
            let mut seen = 0;
            assert_eq!(mailbox.orders(&mut seen), Orders::Look);
            happens(&mailbox);
            mailbox.rest(Whereabouts::Watching, seen)
        };
        assert!(rests(&|_| {}));
        assert!(!rests(&|mailbox| assert_eq!(put(mailbox), Wake::Nobody)));
        assert!(!rests(&|mailbox| assert_eq!(
            mailbox.left(false, true),
            Wake::Nobody
        )));
        assert!(!rests(&|mailbox| assert_eq!(
            mailbox.left(true, true),
            Wake::Nobody
        )));
        assert!(!rests(&|mailbox| assert_eq!(mailbox.close(), Wake::Both)));
    }

    #[test]
    fn the_last_handle_wakes_a_turn_and_no_turn_sleeps_after_it() {
        let mailbox = Mailbox::new();
        assert!(mailbox.doze());
        assert_eq!(mailbox.close(), Wake::Both);
        assert!(!mailbox.doze() && mailbox.is_closing());
    }

    /// The event of the first may have been taken away by the turn of the second.
    #[test]
    fn everyone_who_leaves_wakes_a_thread_that_watches() {
        let mailbox = Mailbox::new();
        let mut seen = 0;
        assert_eq!(mailbox.orders(&mut seen), Orders::Look);
        assert!(mailbox.rest(Whereabouts::Watching, seen));
        assert_eq!(mailbox.left(false, true), Wake::Driver);
        assert_eq!(mailbox.left(true, true), Wake::Driver);
        assert_eq!(mailbox.left(false, true), Wake::Driver);
        assert_eq!(mailbox.orders(&mut seen), Orders::Look, "it was called");
        assert_eq!(mailbox.left(true, true), Wake::Nobody, "it comes by itself");
        assert!(!mailbox.rest(Whereabouts::Watching, seen));
    }

    /// Its token waits for it, whatever others do.
    #[test]
    fn a_parked_thread_is_woken_once() {
        let mailbox = Mailbox::new();
        let mut seen = 0;
        assert_eq!(mailbox.orders(&mut seen), Orders::Look);
        assert!(mailbox.rest(Whereabouts::Parked, seen));
        assert_eq!(mailbox.left(false, true), Wake::Thread);
        assert_eq!(mailbox.left(true, true), Wake::Nobody);
        assert_eq!(mailbox.orders(&mut seen), Orders::Look);
    }

    #[test]
    fn a_wait_for_a_letter_ends_when_it_is_written_or_the_engine_is_free_or_in_vain() {
        let never = Instant::from_nanos(u64::MAX);
        let mailbox = Mailbox::new();
        let number = mailbox.put(letter()).unwrap().number;
        for progress in [
            &|mailbox: &Mailbox| mailbox.freed(),
            &|mailbox: &Mailbox| assert_eq!(mailbox.left(false, false), Wake::Nobody),
            &|mailbox: &Mailbox| mailbox.written(number),
        ] as [&dyn Fn(&Mailbox); 3]
        {
            let freed = mailbox.begin_to_await(number).unwrap();
            assert!(mailbox.is_awaited());
            progress(&mailbox);
            mailbox.await_written(number, freed, never);
            assert!(!mailbox.is_awaited());
        }
        assert_eq!(mailbox.begin_to_await(number), None, "it is written");
        // Whoever has the engine does not go on: one waits in vain, and not everybody after it.
        let freed = mailbox.begin_to_await(number + 1).unwrap();
        mailbox.await_written(number + 1, freed, Instant::ZERO);
        assert_eq!(mailbox.begin_to_await(number + 1), None);
        mailbox.freed();
        assert!(mailbox.begin_to_await(number + 1).is_some());
        mailbox.await_no_more();
        assert!(!mailbox.is_awaited());
    }

    /// Those who take turns spare it the work; others do not.
    #[test]
    fn callers_that_take_no_turns_do_not_keep_it_napping_for_ever() {
        for (turned, looks) in [(true, 0), (false, 100 / (NAPS_MAX + 1))] {
            let mailbox = Mailbox::new();
            let mut seen = 0;
            let mut looked = 0;
            for _ in 0..100 {
                assert_eq!(mailbox.left(false, turned), Wake::Nobody);
                looked += u32::from(mailbox.orders(&mut seen) == Orders::Look);
            }
            assert_eq!(looked, looks, "{turned}");
        }
    }
}
