//! The hub: the engine behind a mutex, the mailbox, and the ways in.
//!
//! # Who drives
//!
//! Nobody ever *waits* for the mutex of the engine: it is taken if it is free
//! ([`Hub::engage`]), and otherwise a letter is left. Two rules keep every call moving:
//!
//! 1. Who takes the engine reads the mail first.
//! 2. Who lets go of it ([`Engaged::drop`]) comes to the mailbox afterwards, and calls the I/O
//!    thread if a letter lies there or somebody waits for an outcome.
//!
//! `mailbox` has the argument that no letter and no call is forgotten between these.
//!
//! # Who may panic
//!
//! The engine, if it is broken. The thread that drives it then closes every call that is open and
//! lets the mutex be poisoned, which every later call finds. Wakers are code of a user: they run
//! with no mutex held, and their panics are caught.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle, Thread, ThreadId};

use rustix::process::{Pid, getpid};

use super::mailbox::{Letter, Mailbox, Wake};
use super::reactor::Reactor;
use super::relay::{Relay, wake_all};
use super::slot::{Outcome, Settled, Slot};
use super::standby::Standby;
use crate::config::{Config, LockOptions, Retry};
use crate::driver::face::Reporter;
use crate::driver::{Driver, DriverWaker, clock};
use crate::engine::usual_timeout;
use crate::quorum::Lock;
use crate::time::nanos;

/// Pause after the system refused to wait, which it does only for want of memory.
const RECOVERY: Duration = Duration::from_millis(1);

/// How much longer than its nodes may take a caller waits for the thread that drives.
const OWN_GRACE: Duration = Duration::from_millis(100);

/// How long at least the I/O thread pays in the background what is owed after the last handle. Nodes
/// that stand still for a moment are back by then.
const BACKGROUND_MIN: Duration = Duration::from_secs(5);

/// How much longer than the shutdown timeout the last handle waits for the end of the I/O thread.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a drop waits at most until the thread that has the engine has written its release. That
/// thread is woken if it sleeps, so that it takes longer only if it is not scheduled.
const WRITING_MAX: Duration = Duration::from_millis(200);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Hub {
    process: Pid,
    reactor: Mutex<Reactor>,
    pub(super) mailbox: Mailbox,
    pub(super) relay: Relay,
    pub(super) standby: Arc<Standby>,
    /// Wakes a turn that sleeps, and an I/O thread that watches.
    waker: DriverWaker,
    /// The I/O thread. Before it has said who it is, it is awake.
    thread: Mutex<Option<Thread>>,
    /// How far the I/O thread has come with its end.
    end_stage: Mutex<EndStage>,
    end: Condvar,
    pub(super) reporter: Reporter,
    /// The driver's descriptor, to be waited on without having the engine.
    pub(super) descriptor: OwnedFd,
    shutdown_timeout: Duration,
    /// The node timeout, if the user has fixed it.
    node_timeout: Option<Duration>,
    /// What it is for the farthest node otherwise, in nanoseconds, when the I/O thread last looked.
    distant_timeout: AtomicU64,
    retry: Retry,
}

/// How far the I/O thread has come with its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EndStage {
    /// It serves the handle, or waits for the answers to the last releases.
    Open,
    /// It pays in the background what silent nodes are owed.
    Background,
    /// It does nothing any more.
    Ended,
}

/// What came of reaching for the engine.
#[derive(Debug)]
pub(super) enum Reach<'a> {
    Free(Engaged<'a>),
    /// Another has it.
    Taken,
    /// A driving thread has panicked.
    Broken,
}

/// The engine, for as long as it is held. Dropping it lets go of it, and sees to it that others are
/// served; [`Engaged::leave`] delivers and writes what is due before.
#[derive(Debug)]
pub(super) struct Engaged<'a> {
    hub: &'a Hub,
    /// `None` only while it is dropped.
    reactor: Option<MutexGuard<'a, Reactor>>,
    /// Whether this thread was panicking already, on account of something else.
    panicking: bool,
    /// The I/O thread comes back by itself.
    is_keeper: bool,
    /// It has taken a turn.
    turned: bool,
}

impl Hub {
    pub(super) fn new(driver: Driver, config: &Config) -> io::Result<Self> {
        let distant = driver.engine().distant_timeout();
        let hub = Self {
            process: getpid(),
            waker: driver.waker(),
            descriptor: driver.as_fd().try_clone_to_owned()?,
            reactor: Mutex::new(Reactor::new(driver)),
            mailbox: Mailbox::new(),
            relay: Relay::new(),
            standby: Arc::new(Standby::new()),
            thread: Mutex::new(None),
            end_stage: Mutex::new(EndStage::Open),
            end: Condvar::new(),
            reporter: Reporter::new(config),
            shutdown_timeout: config.shutdown_timeout(),
            node_timeout: config.node_timeout(),
            distant_timeout: AtomicU64::new(0),
            retry: *config.retry(),
        };
        hub.learn_distance(distant);
        Ok(hub)
    }

    // ----- how long a caller waits ----------------------------------------------------------

    /// Remembers the node timeout that the farthest node has by its round trips.
    pub(super) fn learn_distance(&self, timeout: Duration) {
        self.distant_timeout
            .store(nanos(timeout), Ordering::Relaxed);
    }

    /// Returns for how long a caller waits, by its own clock, for an answer about a lock of `ttl`:
    /// twice the node timeout, and some time for the thread that drives. It is longer than any
    /// question takes while that thread is scheduled.
    pub(super) fn patience(&self, ttl: Duration) -> Duration {
        let distant = Duration::from_nanos(self.distant_timeout.load(Ordering::Relaxed));
        let timeout = self
            .node_timeout
            .unwrap_or_else(|| usual_timeout(ttl).max(distant));
        timeout.saturating_mul(2).saturating_add(OWN_GRACE)
    }

    /// Returns for how long a caller waits for a lock that it did not set a deadline for: all tries
    /// and the delays between them.
    pub(super) fn patience_for_lock(&self, options: &LockOptions) -> Option<Duration> {
        let tries = options.tries_allowed(&self.retry)?;
        let delays = self
            .retry
            .delay()
            .end()
            .saturating_mul(tries.saturating_sub(1));
        let rounds = self.patience(options.ttl()).saturating_mul(tries);
        Some(rounds.saturating_add(delays))
    }

    /// The process in which the handle was made.
    pub(super) fn process(&self) -> Pid {
        self.process
    }

    /// Whether this is a forked child. Everything here belongs to the parent then: its mutexes may
    /// be held for ever by threads that the child does not have.
    pub(super) fn is_foreign(&self) -> bool {
        getpid() != self.process
    }

    /// Takes the engine if it is free, and reads the mail.
    pub(super) fn engage(&self) -> Reach<'_> {
        self.reach(false)
    }

    /// The same to `drive` or not. Who does not leaves a letter to an I/O thread that serves: what
    /// many tasks ask for goes out in one write then.
    pub(super) fn engage_to(&self, drive: bool) -> Reach<'_> {
        match !drive && self.mailbox.is_served() {
            true => Reach::Taken,
            false => self.engage(),
        }
    }

    /// The same for the I/O thread.
    pub(super) fn engage_as_keeper(&self) -> Reach<'_> {
        self.reach(true)
    }

    fn reach(&self, is_keeper: bool) -> Reach<'_> {
        match self.reactor.try_lock() {
            Ok(reactor) => {
                let mut engaged = Engaged {
                    hub: self,
                    reactor: Some(reactor),
                    panicking: thread::panicking(),
                    is_keeper,
                    turned: false,
                };
                engaged.take_mail();
                Reach::Free(engaged)
            }
            Err(TryLockError::WouldBlock) => Reach::Taken,
            Err(TryLockError::Poisoned(_)) => Reach::Broken,
        }
    }

    /// Leaves `letter` for whoever has the engine; gives it back if it is refused.
    pub(super) fn send(&self, letter: Letter) -> Result<(), Letter> {
        let posted = self.mailbox.put(letter)?;
        self.wake(posted.wake);
        if posted.served {
            return Ok(());
        }
        // Whoever had the engine may have gone before the letter was there. If it is free, the
        // mail is read here; see the argument in `mailbox`.
        match self.engage() {
            Reach::Free(engaged) => engaged.leave(),
            Reach::Taken => {}
            Reach::Broken => self.close_mail(),
        }
        Ok(())
    }

    /// The same for letters that are never refused.
    pub(super) fn send_surely(&self, letter: Letter) {
        let refused = self.send(letter);
        debug_assert!(refused.is_ok(), "its place is certain");
    }

    /// Leaves `letter`, and waits the moment until what it asks for is written: the program may end
    /// next. If the thread that has the engine lets go of it first, this one writes it.
    pub(super) fn send_and_see_written(&self, letter: Letter) {
        let Ok(posted) = self.mailbox.put(letter) else {
            return debug_assert!(false, "its place is certain");
        };
        self.wake(posted.wake);
        let until = clock::now().saturating_add(WRITING_MAX);
        while let Some(freed) = self.mailbox.begin_to_await(posted.number) {
            match self.engage() {
                Reach::Taken => self.mailbox.await_written(posted.number, freed, until),
                Reach::Free(engaged) => {
                    self.mailbox.await_no_more();
                    return engaged.leave_written();
                }
                Reach::Broken => {
                    self.mailbox.await_no_more();
                    return self.close_mail();
                }
            }
        }
    }

    /// Releases `lock`, whose slot is `slot`. Its release is written then, but not answered.
    pub(super) fn give_back(&self, slot: Arc<Slot>, lock: Lock) {
        slot.watch.release();
        match self.engage() {
            Reach::Free(mut engaged) => {
                engaged.give_back(&slot, lock);
                engaged.leave_written();
            }
            Reach::Taken => self.send_and_see_written(Letter::GiveBack { slot, lock }),
            Reach::Broken => {}
        }
    }

    /// Nobody waits for the call of `slot` any more: what it may have won is given back.
    pub(super) fn abandon(&self, slot: &Arc<Slot>) {
        match slot.abandon() {
            Some(Outcome::Acquired(Ok(grant))) => self.give_back(Arc::clone(slot), grant.lock),
            Some(_) => {}
            None => self.cancel(slot),
        }
    }

    /// Calls off the call of `slot`, which was abandoned.
    pub(super) fn cancel(&self, slot: &Arc<Slot>) {
        match self.engage() {
            Reach::Free(mut engaged) => {
                engaged.cancel(slot);
                engaged.leave_written();
            }
            Reach::Taken => self.send_and_see_written(Letter::Cancel {
                slot: Arc::clone(slot),
            }),
            Reach::Broken => {}
        }
    }

    fn wake(&self, whom: Wake) {
        if matches!(whom, Wake::Driver | Wake::Both) {
            self.waker.rouse();
        }
        if matches!(whom, Wake::Thread | Wake::Both)
            && let Some(thread) = &*self.lock_thread()
        {
            thread.unpark();
        }
    }

    /// This thread is the I/O thread from here on.
    pub(super) fn set_thread(&self) {
        *self.lock_thread() = Some(thread::current());
    }

    /// Returns `true` if `id` is that of the I/O thread.
    fn is_io_thread(&self, id: ThreadId) -> bool {
        let thread = self.lock_thread();
        thread.as_ref().is_some_and(|thread| thread.id() == id)
    }

    fn lock_thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the I/O thread look at everything.
    pub(super) fn call_io_thread(&self) {
        self.wake(self.mailbox.left(true, false));
    }

    /// The engine is broken: whoever left a letter is told so.
    fn close_mail(&self) {
        let mut letters = alloc::collections::VecDeque::new();
        self.mailbox.take(&mut letters);
        let mut wakers = Vec::new();
        for letter in letters {
            if let Letter::Adopt { slot, .. } = &letter {
                slot.watch.lose(&mut wakers);
            }
            if let Settled::Told(waker) = letter.slot().settle(Outcome::Closed) {
                wakers.extend(waker);
            }
        }
        wake_all(&mut wakers);
    }

    /// Ends the I/O thread and waits for its end: what is owed was written then, and answered for
    /// as long as [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) allows. The last
    /// handle is gone. Not much longer than that is waited in any case: what is owed beyond it the
    /// thread pays in the background.
    pub(super) fn close(&self, keeper: JoinHandle<()>) {
        if self.is_foreign() {
            // The thread is not in this process: neither joined nor detached.
            core::mem::forget(keeper);
            self.close_descriptors();
            return;
        }
        self.dismiss();
        // A waker or the drop of a task may be what drops the last handle, on the I/O thread.
        if self.is_io_thread(thread::current().id()) {
            return;
        }
        match self.wait_for_end() {
            // What it panicked with, if it did, was told to those who waited.
            EndStage::Ended if self.is_io_thread(keeper.thread().id()) => drop(keeper.join()),
            // One that was replaced may be held up for ever, and has nothing of the handle any more.
            EndStage::Ended | EndStage::Background => {}
            EndStage::Open => {
                // It is held up in a waker, which may even wait for something that this thread has:
                // the queue of an executor that drops its tasks. It has not the engine there, so
                // the releases are seen to here; the thread does the rest when it goes on.
                if let Reach::Free(mut engaged) = self.engage_as_keeper() {
                    engaged.settle_debts();
                }
            }
        }
    }

    /// Waits until the I/O thread has ended or goes on in the background, or takes too long.
    fn wait_for_end(&self) -> EndStage {
        let limit = self.shutdown_timeout.saturating_add(PATIENCE);
        let stage = self.lock_end_stage();
        let is_open = |stage: &mut EndStage| *stage == EndStage::Open;
        let waited = self.end.wait_timeout_while(stage, limit, is_open);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The I/O thread does nothing any more.
    pub(super) fn thread_ends(&self) {
        self.reach_end_stage(EndStage::Ended);
    }

    fn reach_end_stage(&self, stage: EndStage) {
        *self.lock_end_stage() = stage;
        self.end.notify_all();
    }

    fn lock_end_stage(&self) -> MutexGuard<'_, EndStage> {
        let stage = self.end_stage.lock();
        stage.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the I/O thread, and does not wait for its end. Nobody else has a handle.
    pub(super) fn dismiss(&self) {
        self.wake(self.mailbox.close());
    }

    /// In a forked child. If the engine was held when the child was made, it stays so, and its
    /// descriptors stay open.
    fn close_descriptors(&self) {
        if let Ok(mut reactor) = self.reactor.try_lock() {
            drop(reactor.take_driver());
        }
    }

    /// Pays what the nodes are owed, and closes the connections. The I/O thread does so when nobody
    /// has a handle any more. Returns `false` if the engine is held all the same: by the thread that
    /// dropped the last handle and sees to the releases, for a bounded time.
    pub(super) fn shut_down(&self) -> bool {
        let mut engaged = match self.engage_as_keeper() {
            Reach::Free(engaged) => engaged,
            Reach::Taken => return false,
            Reach::Broken => return true,
        };
        if !engaged.settle_debts() {
            self.reach_end_stage(EndStage::Background);
            let least = clock::now().saturating_add(BACKGROUND_MIN);
            let until = engaged.driver().debts_end_by().max(least);
            engaged.driver().settle_debts(until);
        }
        engaged.driver().farewell(Duration::ZERO);
        true
    }
}

impl<'a> Engaged<'a> {
    pub(super) fn hub(&self) -> &'a Hub {
        self.hub
    }

    /// One turn: sleeps for as long as the engine and `limit` allow, then delivers what came of it.
    pub(super) fn turn(&mut self, limit: Option<Duration>) {
        let may_sleep = limit != Some(Duration::ZERO) && self.hub.mailbox.doze();
        let limit = if may_sleep {
            limit
        } else {
            Some(Duration::ZERO)
        };
        self.turned = true;
        let result = self.driver().step(limit);
        // Before the mail is read: a call in it may be given the place of a round that has ended,
        // and whose outcome has to be delivered first.
        self.settle_all();
        self.take_mail();
        self.settle_all();
        if result.is_err() {
            thread::sleep(RECOVERY);
        }
    }

    /// Drives until the call of `slot` is decided, if nobody else waits; otherwise, and when a task
    /// is to be woken, that is left to the I/O thread.
    pub(super) fn attend(mut self, slot: &Slot) {
        self.settle_all();
        if 1 < self.waiting() {
            return;
        }
        while slot.is_pending() && self.wakers.is_empty() {
            self.turn(None);
        }
    }

    /// Lets go of the engine behind a call of a task. If others wait too, what is due is delivered and
    /// written by the I/O thread, which is called for them, together with what they will have asked.
    pub(super) fn leave_to_keeper(mut self) {
        if self.waiting() <= 1 {
            self.settle_all();
        }
    }

    /// Delivers and writes what is due, and lets go of the engine.
    pub(super) fn leave(mut self) {
        self.settle_all();
    }

    fn take_mail(&mut self) {
        let hub = self.hub;
        self.taken = hub.mailbox.take(&mut self.letters);
        self.read_mail();
    }

    /// Delivers what is decided, and writes what is due. Those who wait for that are told.
    pub(super) fn settle_all(&mut self) {
        let hub = self.hub;
        let reactor: &mut Reactor = self;
        reactor.settle_all();
        if reactor.written != reactor.taken {
            if hub.mailbox.is_awaited() {
                reactor.catch_up();
            }
            reactor.written = reactor.taken;
            hub.mailbox.written(reactor.written);
        }
    }

    /// Waits for the answers to the last releases, as long as dropping the last handle may. Returns
    /// `true` if no node is owed anything then.
    fn settle_debts(&mut self) -> bool {
        self.settle_all();
        let until = clock::now().saturating_add(self.hub.shutdown_timeout);
        self.driver().settle_debts(until)
    }

    /// As [`Engaged::leave`], if the program may end next.
    fn leave_written(mut self) {
        self.settle_all();
        self.catch_up();
    }

    /// The engine has panicked on this thread.
    fn break_down(&mut self) {
        let mut wakers = match self.reactor.take() {
            Some(mut reactor) => {
                reactor.close();
                core::mem::take(&mut reactor.wakers)
                // Here the mutex is let go of, and poisoned.
            }
            None => Vec::new(),
        };
        // After it: whoever leaves a letter from now on finds the engine broken.
        self.hub.mailbox.serves_no_more();
        self.hub.mailbox.freed();
        self.hub.close_mail();
        wake_all(&mut wakers);
    }
}

impl Drop for Engaged<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.panicking {
            self.break_down();
            return;
        }
        let Some(mut reactor) = self.reactor.take() else {
            return;
        };
        if self.is_keeper {
            drop(reactor);
            self.hub.mailbox.freed();
            return; // It wakes tasks itself, and comes to the mailbox by itself.
        }
        let waiting = reactor.waiting() != 0 || !reactor.wakers.is_empty();
        // Tasks are left to the I/O thread: a waker that blocks must not hold up this call.
        self.hub.relay.load(&mut reactor.wakers);
        drop(reactor);
        self.hub.wake(self.hub.mailbox.left(waiting, self.turned));
    }
}

impl Deref for Engaged<'_> {
    type Target = Reactor;

    fn deref(&self) -> &Reactor {
        self.reactor.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Engaged<'_> {
    fn deref_mut(&mut self) -> &mut Reactor {
        self.reactor.as_mut().expect("held until it is dropped")
    }
}
