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
#[cfg(target_os = "linux")]
use core::num::NonZeroU64;
use core::time::Duration;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::hub::{Engaged, Hub, Reach};
use super::mailbox::{Orders, Whereabouts};
use crate::driver::clock;
use crate::time::Instant;

/// How long after the last caller the I/O thread looks at what is open.
const NAP: Duration = Duration::from_millis(1);

/// From how many tasks on that are woken together what they ask for is waited for.
const MANY: usize = 8;

/// How long at most, for each of them: about as long as it takes to serve one.
const LETTER_TIME: Duration = Duration::from_micros(2);

/// By how much the sleeps of the I/O thread may be late. The usual 50 us are as long as a round.
#[cfg(target_os = "linux")]
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// The I/O thread's own things.
#[derive(Debug)]
pub(super) struct Keeper {
    hub: Arc<Hub>,
    /// What it knows of the departures of callers.
    seen: u64,
    hope: Hope,
    /// Which thread this is, for the standby thread.
    number: u64,
    /// No other thread has taken over.
    in_charge: bool,
}

impl Keeper {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            seen: 0,
            hope: Hope::default(),
            number: 0,
            in_charge: true,
        }
    }

    /// The same, for a thread that has taken over from one that a waker holds up.
    pub(super) fn in_place_of_another(hub: Arc<Hub>, number: u64) -> Self {
        hub.mailbox.taken_over();
        let mut keeper = Self::new(hub);
        keeper.number = number;
        keeper
    }

    /// The life of the I/O thread. It ends with the last handle, with a panic of the engine, or if
    /// another thread has taken over.
    pub(super) fn run(mut self) {
        let hub = Arc::clone(&self.hub);
        hub.set_thread();
        sleep_exactly();
        while self.in_charge {
            match hub.mailbox.orders(&mut self.seen) {
                Orders::Nap => thread::park_timeout(NAP),
                Orders::Close | Orders::Look if self.has_to_wake() => self.wake_tasks(),
                Orders::Close if hub.shut_down() => return,
                Orders::Close => thread::sleep(NAP),
                Orders::Look => match hub.engage_as_keeper() {
                    Reach::Broken => return,
                    Reach::Taken => self.park(),
                    Reach::Free(engaged) => self.look(engaged),
                },
            }
        }
    }

    /// Returns `true` if there are tasks to be woken, and this thread may do it.
    fn has_to_wake(&self) -> bool {
        self.hub.relay.is_laden() && self.hub.standby.may_wake()
    }

    /// Wakes the tasks that are to be woken. Another thread may be in charge afterwards.
    fn wake_tasks(&mut self) {
        self.call_wakers(|hub| hub.relay.run_surely(|| hub.standby.progress()));
    }

    fn call_wakers(&mut self, wake: impl FnOnce(&Hub)) {
        let hub = Arc::clone(&self.hub);
        if !hub.standby.begin_waking(&hub) {
            return;
        }
        wake(&hub);
        self.in_charge = hub.standby.end_waking(self.number);
        if !self.in_charge && hub.relay.is_laden() {
            hub.call_io_thread(); // It may have waited until fewer threads are held up.
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
            if !self.in_charge {
                return;
            }
            self.hub.mailbox.serves_no_more();
            // Whoever was served is likely to come again.
            self.seen = self.seen.wrapping_sub(1);
            return;
        }
        let limit = engaged.driver().until_deadline();
        self.hub
            .learn_distance(engaged.driver().engine().distant_timeout());
        self.let_go(engaged);
        if self.in_charge {
            self.watch(limit);
        }
    }

    /// Drives for as long as somebody waits, and a little longer where tasks do: those that were
    /// woken are likely to want something next.
    fn serve(&mut self, mut engaged: Engaged<'_>) {
        let hub = engaged.hub();
        let (mut lingers_until, mut woke) = (Instant::ZERO, false);
        loop {
            if !engaged.wakers.is_empty() || self.has_to_wake() {
                // Tasks that are refused at once may come again at once, for ever. Sockets and timers
                // get their turn all the same.
                if core::mem::replace(&mut woke, true) {
                    engaged.turn(Some(Duration::ZERO));
                }
                self.let_go(engaged);
                if !self.in_charge {
                    return;
                }
                lingers_until = clock::now().saturating_add(NAP);
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
            match engaged.waiting() {
                _ if hub.mailbox.is_closing() => return,
                0 if lingers.is_zero() => return,
                0 => engaged.turn(Some(lingers)),
                _ => engaged.turn(None),
            }
        }
    }

    /// Lets go of the engine, and wakes the tasks that are to be woken. If they are many, what they
    /// ask for then is waited for, to go out in one write.
    fn let_go(&mut self, mut engaged: Engaged<'_>) {
        self.hub.relay.load(&mut engaged.wakers);
        drop(engaged);
        let tasks = self.hub.relay.len();
        if tasks == 0 {
            return;
        }
        if tasks < MANY || !self.hope.is_left() {
            return self.wake_tasks();
        }
        self.hub.mailbox.expect(tasks);
        self.call_wakers(|hub| hub.relay.run_one(|| hub.standby.progress()));
        if self.in_charge {
            let came = self.await_letters(tasks);
            self.hope.learn(came);
            self.wake_tasks();
        }
    }

    /// Sleeps until as many letters have come as tasks were woken, or could have; whether they have.
    fn await_letters(&self, tasks: usize) -> bool {
        let patience = LETTER_TIME.saturating_mul(u32::try_from(tasks).unwrap_or(u32::MAX));
        let until = clock::now().saturating_add(patience.min(NAP));
        while self.hub.mailbox.is_expecting() {
            let left = until.saturating_since(clock::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
        true
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

/// Whether tasks that are woken together are likely to come back together. Those that wait for a loss
/// do not, nor those that have work to do: after each wait in vain twice as many batches go by without
/// one, up to sixty-four.
#[derive(Debug, Default)]
struct Hope {
    vain: u32,
    skips: u32,
}

impl Hope {
    const VAIN_MAX: u32 = 6;

    fn is_left(&mut self) -> bool {
        let left = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        left
    }

    fn learn(&mut self, came: bool) {
        if came {
            self.vain = 0;
        } else {
            self.vain = Self::VAIN_MAX.min(self.vain + 1);
            self.skips = 1 << self.vain;
        }
    }
}

/// Timers of this thread are exact from here on. Where that is refused they are a little late.
fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
}

/// In a panic of the engine too. Tasks that are left are woken by the last thread that can.
impl Drop for Keeper {
    fn drop(&mut self) {
        if self.in_charge {
            self.hub.thread_ends();
            self.hub.standby.close();
        }
        self.hub.relay.run_surely(|| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_waits_in_vain_more_and_more_batches_go_by_without_one() {
        let mut hope = Hope::default();
        for skips in [2, 4, 8, 16, 32, 64, 64] {
            assert!(hope.is_left());
            hope.learn(false);
            assert_eq!((0..skips).filter(|_| hope.is_left()).count(), 0);
        }
        assert!(hope.is_left());
        hope.learn(true);
        assert!(hope.is_left());
        hope.learn(false);
        assert_eq!((0..3).filter(|_| hope.is_left()).count(), 1, "forgotten");
    }
}
