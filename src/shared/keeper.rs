//! The I/O thread: drives while others wait, and keeps house when nobody is there.
//!
//! ```text
//!              somebody waits                  callers were active
//!   driving <------------------ looking ------------------------> napping (1 ms)
//!                                |   |
//!           nobody has anything  |   |  a caller drives
//!   watching the descriptor <----'   '----> parked until it leaves
//! ```
//!
//! A caller that takes and releases locks in a tight loop meets it napping and never has to wake
//! it. A millisecond after the last caller it looks at stragglers, debts and timers, and then waits
//! for the descriptor of the driver *without* having the engine, so that the next caller finds it
//! free.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::hub::{Engaged, Hub, Reach};
use super::mailbox::{Orders, Whereabouts};
use super::relay::wake_all;
use crate::driver::{clock, shorter};
use crate::time::Instant;

/// How long after the last caller the I/O thread looks at what is open.
const NAP: Duration = Duration::from_millis(1);

/// From how many tasks on that are woken at once what they ask for is collected.
const MANY: usize = 8;

/// How long it is collected at most, for each of them: about as long as it takes to serve one.
const PATIENCE: Duration = Duration::from_micros(1);

/// The I/O thread's own things.
#[derive(Debug)]
pub(super) struct Keeper {
    hub: Arc<Hub>,
    /// What it knows of the departures of callers.
    seen: u64,
    /// Tasks to be woken, outside of the engine.
    wakers: Vec<Waker>,
    /// Until when the letters of tasks that were woken are collected.
    patient_until: Option<Instant>,
}

impl Keeper {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            seen: 0,
            wakers: Vec::new(),
            patient_until: None,
        }
    }

    /// The life of the I/O thread. It ends with the last handle, or with a panic of the engine.
    pub(super) fn run(mut self) {
        let hub = Arc::clone(&self.hub);
        // Set by nobody else.
        let _ = hub.thread.set(thread::current());
        loop {
            match hub.mailbox.orders(&mut self.seen) {
                Orders::Nap => thread::park_timeout(NAP),
                Orders::Close => return hub.take_leave(),
                Orders::Look => match hub.engage_as_keeper() {
                    Reach::Broken => return,
                    Reach::Taken => self.park(),
                    Reach::Free(engaged) => self.look(engaged),
                },
            }
        }
    }

    fn look(&mut self, mut engaged: Engaged<'_>) {
        engaged.settle_all();
        if engaged.waiting() == 0 {
            engaged.turn(Some(Duration::ZERO));
        }
        // Also those whose letters came in that turn: nobody else sees to them.
        if engaged.waiting() != 0 {
            self.hub.mailbox.serves();
            self.serve(engaged);
            self.hub.mailbox.serves_no_more();
            self.collect_no_more();
            self.hub.relay.run_surely();
            // Whoever was served is likely to come again.
            self.seen = self.seen.wrapping_sub(1);
            return;
        }
        let limit = engaged.driver().until_deadline();
        self.let_go(engaged);
        self.watch(limit);
    }

    /// Drives for as long as somebody waits, and a little longer where tasks do: those that were
    /// woken are likely to want something next.
    fn serve(&mut self, mut engaged: Engaged<'_>) {
        let hub = engaged.hub();
        let (mut lingers_until, mut woke) = (Instant::ZERO, false);
        loop {
            let wakes = !engaged.wakers.is_empty();
            if wakes || self.patience_is_over() {
                // Tasks that are refused at once may come again at once, for ever. Sockets and timers
                // get their turn all the same.
                if core::mem::replace(&mut woke, true) {
                    engaged.turn(Some(Duration::ZERO));
                }
                self.relay(engaged);
                if wakes {
                    lingers_until = clock::now().saturating_add(NAP);
                }
                // In between a caller may have taken it, and calls when it leaves.
                let Reach::Free(again) = hub.engage_as_keeper() else {
                    return;
                };
                engaged = again;
                engaged.settle_all();
                continue;
            }
            woke = false;
            let lingers = lingers_until.saturating_since(clock::now());
            let limit = match engaged.waiting() {
                _ if hub.mailbox.is_closing() => return,
                0 if lingers.is_zero() => return,
                0 => Some(lingers),
                _ => None,
            };
            engaged.turn(shorter(limit, self.patience()));
        }
    }

    /// Lets go of the engine, and wakes the tasks that are to be woken. If they are many, what they
    /// will ask for is collected, to go out in one write.
    fn relay(&mut self, mut engaged: Engaged<'_>) {
        core::mem::swap(&mut engaged.wakers, &mut self.wakers);
        let over = self.patience_is_over();
        if over {
            self.collect_no_more();
        }
        let many = MANY <= self.wakers.len();
        if many {
            self.collect();
        }
        drop(engaged);
        if over {
            self.hub.relay.run_surely();
        }
        match many {
            true => self.hub.relay.start(&mut self.wakers),
            false => wake_all(&mut self.wakers),
        }
    }

    /// Leaves letters in the mailbox until the tasks that are to be woken have left theirs.
    fn collect(&mut self) {
        let tasks = self.wakers.len();
        let patience = PATIENCE.saturating_mul(u32::try_from(tasks).unwrap_or(u32::MAX));
        let until = clock::now().saturating_add(patience.min(NAP));
        self.patient_until.get_or_insert(until);
        self.hub.mailbox.expect(tasks);
    }

    fn collect_no_more(&mut self) {
        self.patient_until = None;
        self.hub.mailbox.expect_no_more();
    }

    /// How long letters are still collected.
    fn patience(&self) -> Option<Duration> {
        Some(self.patient_until?.saturating_since(clock::now()))
    }

    /// Whether all that were woken have asked for something, or have had the time to.
    fn patience_is_over(&self) -> bool {
        self.patience()
            .is_some_and(|left| left.is_zero() || !self.hub.mailbox.is_expecting())
    }

    /// Lets go of the engine, and wakes the tasks that are to be woken.
    fn let_go(&mut self, mut engaged: Engaged<'_>) {
        core::mem::swap(&mut engaged.wakers, &mut self.wakers);
        drop(engaged);
        wake_all(&mut self.wakers);
    }

    /// Waits until a node has something to say or `limit` has passed, or a caller leaves.
    fn watch(&self, limit: Option<Duration>) {
        if limit == Some(Duration::ZERO) || !self.hub.mailbox.rest(Whereabouts::Watching, self.seen)
        {
            return;
        }
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut descriptors = [PollFd::new(&self.hub.descriptor, PollFlags::IN)];
        // A signal, or no memory: it is looked at again, and waited again.
        let _ = poll(&mut descriptors, limit.as_ref());
    }

    /// A caller drives. It wakes this thread when it leaves.
    fn park(&self) {
        // If it has left already this thread does not rest, because of that departure.
        if self.hub.mailbox.rest(Whereabouts::Parked, self.seen) {
            thread::park();
        }
    }
}

/// In a panic of the engine too.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.hub.thread_ends();
    }
}
