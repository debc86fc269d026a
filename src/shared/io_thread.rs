//! The I/O thread moves bytes while several callers wait, wakes tasks, and keeps the connections open between calls.
//!
//! ```text
//!           operations wait                     callers were active
//!   serving <---------------- Roles::orders ---------------------> napping (1 ms)
//!                                |      |
//!             no operation waits |      | a caller has the poller
//!   watching the descriptor <----'      '----> parked until it gives it back
//! ```
//!
//! The I/O thread naps while a caller takes and releases locks in a tight loop, so the caller never has to wake it. A
//! millisecond after the last call, the I/O thread reads late answers, repeats unanswered releases and fires timers.
//! Then it waits until a socket is ready, *without* the poller, so that the poller is free for the next caller.

use alloc::vec::Vec;
#[cfg(target_os = "linux")]
use core::num::NonZeroU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ending::EndStage;
use super::gathering::Gathering;
use super::roles::{MANY, Orders, Poll};
use super::serve::{Holding, Moves, Section};
use super::tenure::wake;
use super::{OWN_GRACE, Shared};
use crate::clock;
use crate::driver::Refusal;
use crate::engine::distant_timeout;
use crate::time::{Instant, nanos};

/// The name of the I/O thread.
const THREAD_NAME: &str = "shearline";

/// The time from the last call until the I/O thread checks for work.
const NAP: Duration = Duration::from_millis(1);

/// How late Linux may end a sleep of the I/O thread. The default of Linux, 50 us, is as long as a whole attempt takes.
#[cfg(target_os = "linux")]
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// See the [module](self).
#[derive(Debug)]
struct IoThread<'a> {
    shared: &'a Shared,
    /// The tasks that the I/O thread is waking now.
    tasks: Vec<Waker>,
    gathering: Gathering,
}

/// Starts the I/O thread of a handle.
pub(super) fn spawn(life: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(THREAD_NAME.into()).spawn(life)
}

/// Runs the I/O thread until the last handle is dropped or the engine panics.
pub(super) fn run(shared: &Shared) {
    sleep_exactly();
    let tasks = Vec::new();
    let mut io_thread = IoThread {
        shared,
        tasks,
        gathering: Gathering::default(),
    };
    let holding = Holding::new(shared);
    // Ignores a panic of the engine, because the outcomes of the callers report the panic.
    let _ = io_thread.follow_orders();
    drop(holding);
}

impl<'a> IoThread<'a> {
    fn follow_orders(&mut self) -> Result<(), Refusal> {
        loop {
            let mut section = self.shared.enter()?;
            let waiting = section.waiting();
            let has_tasks = !section.callers.tasks.is_empty();
            match section.roles.orders(waiting, has_tasks) {
                Orders::Serve => self.serve(section)?,
                Orders::WakeTasks => drop(self.wake_callers(section)?),
                orders @ (Orders::Nap | Orders::Park) => {
                    drop(section);
                    self.rest((orders == Orders::Nap).then_some(NAP), false);
                }
                Orders::Close => {
                    drop(section);
                    return self.shared.shut_down();
                }
            }
        }
    }

    /// Moves bytes, wakes tasks and sleeps in the poller while callers wait for operations. Continues for a millisecond
    /// after the last task, because a woken task is likely to begin another operation.
    fn serve(&mut self, mut section: Section<'a>) -> Result<(), Refusal> {
        let shared = self.shared;
        let mut served = section.waiting() != 0;
        let (mut lingers_until, mut stuck) = (Instant::ZERO, None);
        if !served {
            section = shared.sleep_in_poll(section, Some(Instant::ZERO))?;
        }
        loop {
            section = shared.move_bytes(section, Moves::Once)?;
            served |= section.waiting() != 0;
            let wakes_tasks = !section.callers.tasks.is_empty();
            if section.callers.has_to_wake() {
                let has_gathered;
                (section, has_gathered) = self.wake_callers(section)?;
                if !section.roles.come_back() {
                    return Ok(());
                }
                if wakes_tasks || has_gathered {
                    section = shared.move_bytes(section, Moves::Once)?; // Writes the next requests.
                }
            }
            let now = clock::now();
            self.call_threads_if_stuck(&mut section, now, &mut stuck);
            let is_needed = MANY <= section.waiting() || section.tasks() != 0;
            if is_needed || wakes_tasks {
                lingers_until = now.saturating_add(NAP);
            }
            if section.roles.closing || (!is_needed && lingers_until <= now) {
                break;
            }
            let lingers = (!is_needed).then_some(lingers_until);
            let wakes_more = !section.callers.tasks.is_empty();
            let until = if wakes_more { Some(now) } else { lingers };
            section = shared.sleep_in_poll(section, until)?;
        }
        let only_rests = section.waiting() == 0 && section.resting_tasks() != 0;
        if served && !only_rests {
            section.roles.has_served();
            section.offer_poll();
        } else {
            self.watch(section);
        }
        Ok(())
    }

    /// Wakes the waiting threads if another thread keeps the wire for too long, because this thread cannot fire timers
    /// without the wire. From then on, each thread checks its own clock. `stuck` is the time when this thread first
    /// found the wire taken.
    fn call_threads_if_stuck(
        &self,
        section: &mut Section<'_>,
        now: Instant,
        stuck: &mut Option<Instant>,
    ) {
        if section.roles.wire.is_some() {
            *stuck = None;
        } else if OWN_GRACE < now.saturating_since(*stuck.get_or_insert(now)) {
            section.callers.call_threads();
        }
    }

    /// Ends `section`, and wakes the callers that `section` has collected. If there are many callers, gathers their
    /// next requests and returns `true`. A task that is in the list several times in succession is woken only once.
    fn wake_callers(&mut self, mut section: Section<'a>) -> Result<(Section<'a>, bool), Refusal> {
        let shared = self.shared;
        core::mem::swap(&mut self.tasks, &mut section.callers.tasks);
        let woken = self.tasks.len() + section.callers.woken.len();
        let (gathers, due) = (self.gathering.is_due(woken), section.due());
        if gathers {
            shared.notes.set_out(woken, !self.tasks.is_empty());
        }
        if self.tasks.is_empty() {
            section.leaves_to_relay(gathers);
        } else {
            section.roles.go_away();
            if section.roles.poll == Poll::Free {
                section.offer_poll();
            }
        }
        drop(section);
        self.tasks.dedup_by(|one, other| one.will_wake(other));
        if gathers {
            shared.relay.start(&mut self.tasks);
            let missing = shared.notes.gather(&shared.relay, due);
            self.gathering.learn(woken, missing);
        } else {
            self.tasks.drain(..).for_each(wake);
        }
        Ok((shared.enter()?, gathers))
    }

    /// Ends `section`, and waits until a socket is ready, a timer is due, or a thread calls this thread.
    fn watch(&self, mut section: Section<'a>) {
        let now = clock::now();
        let distant = nanos(distant_timeout(section.engine.nodes().iter()));
        self.shared.distant_timeout.store(distant, Relaxed);
        let until = section.sleeps_until(now, false);
        section.roles.watch(until);
        drop(section);
        let limit = (until != Instant::MAX).then(|| until.saturating_since(now));
        self.rest(limit, true);
    }

    /// Waits until a thread calls this thread, or `limit` has passed. If `watches` is `true`, a ready socket also ends
    /// the wait.
    fn rest(&self, limit: Option<Duration>, watches: bool) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut descriptors = [
            PollFd::new(&self.shared.call.receiver, PollFlags::IN),
            PollFd::new(&self.shared.registry, PollFlags::IN),
        ];
        let count = if watches { 2 } else { 1 };
        // Ignores an error of `poll` (a signal, or too little memory): the thread looks for work and waits again.
        let _ = poll(&mut descriptors[..count], limit.as_ref());
        if !descriptors[0].revents().is_empty() {
            self.shared.call.take();
        }
    }
}

/// Reduces the timer slack of this thread. If the system call fails, sleeps end slightly late.
fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
}

/// Wakes the remaining tasks, even after a panic of the engine.
impl Drop for IoThread<'_> {
    fn drop(&mut self) {
        self.shared.ending.reach(EndStage::Ended);
        self.shared.relay.run();
        let mut tasks = core::mem::take(&mut self.tasks);
        tasks.append(&mut self.shared.core.lock().callers.tasks);
        tasks.into_iter().for_each(wake);
    }
}
