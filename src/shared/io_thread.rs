//! The I/O thread: serves while several callers wait, wakes tasks, and keeps the connections up while
//! there are no calls.
//!
//! ```text
//!           operations wait                     callers were active
//!   serving <---------------- Roles::orders ---------------------> napping (1 ms)
//!                                |      |
//!             no operation waits |      | a caller has the poll
//!   watching the descriptor <----'      '----> parked until it gives it back
//! ```
//!
//! A caller that takes and releases locks in a tight loop finds it napping, and never has to wake it. A
//! millisecond after the last caller it reads late answers, sends releases that are owed and fires
//! timers. Then it waits for the descriptor *without* the poll, so that the next caller finds that free.

use alloc::sync::Arc;
#[cfg(target_os = "linux")]
use core::num::NonZeroU64;
use core::time::Duration;
use std::io;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Shared;
use super::ending::EndStage;
use super::roles::{MANY, Orders};
use super::serve::Section;
use crate::driver::{Refusal, clock};
use crate::time::Instant;

/// The name of the I/O thread.
const THREAD_NAME: &str = "shearline";

/// How long after the last caller the I/O thread looks for work.
const NAP: Duration = Duration::from_millis(1);

/// By how much the sleeps of the I/O thread may be late. The usual 50 us are as long as a round.
#[cfg(target_os = "linux")]
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// See the [module](self).
#[derive(Debug)]
pub(super) struct IoThread {
    shared: Arc<Shared>,
    /// Which thread this is, for the standby thread.
    number: u64,
    /// No other thread has taken over from it.
    in_charge: bool,
}

/// Starts a thread of a handle.
pub(super) fn spawn(life: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(THREAD_NAME.into()).spawn(life)
}

impl IoThread {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            number: 0,
            in_charge: true,
        }
    }

    /// The life of the I/O thread. It ends with the last handle, with a panic of the engine, or if
    /// another thread has taken over.
    pub(super) fn run(mut self) {
        self.shared.set_io_thread();
        sleep_exactly();
        // If the engine has panicked, the callers know.
        let _ = self.follow_orders();
    }

    fn follow_orders(&mut self) -> Result<(), Refusal> {
        let shared = Arc::clone(&self.shared);
        let mut has_woken = false;
        while self.in_charge {
            let may_wake = shared.wakers.may_wake();
            let mut section = shared.enter()?;
            let waiting = section.waiting();
            // Between two batches of wakers it serves the nodes.
            let later = core::mem::take(&mut has_woken) && section.roles.take_tasks();
            let orders = section.roles.orders(waiting, may_wake);
            section.roles.tasks |= later;
            if orders == Orders::Serve {
                self.serve(&shared, section)?;
                continue;
            }
            drop(section);
            match orders {
                Orders::Nap => thread::park_timeout(NAP),
                Orders::Park => thread::park(),
                Orders::WakeTasks => {
                    self.wake_tasks();
                    has_woken = true;
                }
                Orders::Close => return shared.shut_down(),
                Orders::Serve => unreachable!("it has served"),
            }
        }
        Ok(())
    }

    /// Moves bytes and sleeps in the poll for as long as operations are waited for. After the last task it
    /// goes on for a millisecond: tasks that were woken are likely to begin another operation.
    fn serve<'a>(&mut self, shared: &'a Shared, mut section: Section<'a>) -> Result<(), Refusal> {
        let mut served = section.waiting() != 0;
        let mut lingers_until = Instant::ZERO;
        // The thread has looked into the poll since it last served callers again.
        let mut has_looked = true;
        if !served {
            section = shared.sleep_in_poll(section, Some(Instant::ZERO))?;
        }
        loop {
            section = shared.serve_bytes(section)?;
            let now = clock::now();
            let (waiting, tasks) = (section.waiting(), section.tasks());
            served |= waiting != 0;
            let is_needed = MANY <= waiting || tasks != 0;
            if is_needed || section.callers.delivers_to_task() {
                lingers_until = now.saturating_add(NAP);
            }
            if section.roles.closing || (!is_needed && lingers_until <= now) {
                break;
            }
            if section.callers.has_deliveries() {
                drop(section); // That delivers it.
                section = shared.enter()?;
            }
            if section.roles.take_tasks() && shared.wakers.may_wake() {
                // A waker that blocks must not hold up threads that wait.
                section.roles.give_back_poll();
                section.offer_poll();
                drop(section);
                self.wake_tasks();
                if !self.in_charge {
                    return Ok(());
                }
                section = shared.enter()?;
                if !section.roles.take_poll_again() {
                    return Ok(());
                }
                if !core::mem::take(&mut has_looked) {
                    section = shared.sleep_in_poll(section, Some(Instant::ZERO))?;
                }
                continue;
            }
            let lingers = (!is_needed).then_some(lingers_until);
            section = shared.sleep_in_poll(section, lingers)?;
            has_looked = true;
        }
        let only_rests = section.waiting() == 0 && section.resting_tasks() != 0;
        if served && !only_rests {
            section.roles.has_served();
            section.offer_poll();
        } else {
            watch(shared, section);
        }
        Ok(())
    }

    /// Wakes the tasks that are to be woken. Another thread may be in charge afterwards.
    fn wake_tasks(&mut self) {
        let (shared, wakers) = (
            Arc::downgrade(&self.shared),
            Arc::clone(&self.shared.wakers),
        );
        let start = || {
            let stand_by = move || {
                if let Some(number) = wakers.stand_by()
                    && let Some(shared) = shared.upgrade()
                {
                    Self::in_place_of_another(shared, number).run();
                }
            };
            spawn(stand_by).map(drop)
        };
        self.in_charge = self.shared.wakers.call_all(self.number, start);
        if self.shared.wakers.len() != 0 {
            // The time was over, or the thread in charge waits until fewer threads are held up.
            if let Ok(mut section) = self.shared.enter() {
                section.roles.tasks = true;
            }
        }
    }

    /// The I/O thread that takes over from one that a waker holds up.
    fn in_place_of_another(shared: Arc<Shared>, number: u64) -> Self {
        if let Ok(mut section) = shared.enter() {
            section.roles.replace_io_thread();
        }
        let mut io_thread = Self::new(shared);
        io_thread.number = number;
        io_thread
    }
}

/// Waits until a socket is ready, a timer is due, or this thread is called.
fn watch(shared: &Shared, mut section: Section<'_>) {
    let now = clock::now();
    shared.learn_distance(section.engine.distant_timeout());
    let (waiting, until) = (section.waiting(), section.sleeps_until(now, false));
    let watches = section.roles.watch(waiting, until);
    drop(section);
    if !watches {
        return;
    }
    let limit = (until != Instant::MAX).then(|| until.saturating_since(now));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut descriptors = [
        PollFd::new(&shared.registry, PollFlags::IN),
        PollFd::new(&shared.call, PollFlags::IN),
    ];
    // After a signal, or without memory, this thread looks for work and waits again.
    let _ = poll(&mut descriptors, limit.as_ref());
    if !descriptors[1].revents().is_empty() {
        shared.call.take();
    }
}

/// Makes timers of this thread exact. If the system refuses that, they are a little late.
fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
}

/// Runs after a panic of the engine too. The last thread wakes the tasks that are left.
impl Drop for IoThread {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.break_down(self.shared.core.lock());
        }
        if self.in_charge {
            self.shared.ending.reach(EndStage::Ended);
            self.shared.wakers.close();
        }
        self.shared.wakers.run(Duration::MAX);
    }
}
