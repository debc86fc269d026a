//! Those that keep timers: ours, what `std` has for the purpose, and the queue of `tokio-util`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::sync::LazyLock;
use std::time::Duration;

use shearline::Instant;
use shearline::timer::{TimerKey, Wheel};
use tokio::runtime::{Builder, Runtime};
use tokio_util::time::delay_queue::{DelayQueue, Key};

/// What all of them can do.
pub(crate) trait Timers {
    type Key: Copy;

    fn new() -> Self;
    fn arm(&mut self, at: Instant, value: u64) -> Self::Key;
    /// Returns whether it was armed.
    fn cancel(&mut self, key: Self::Key) -> bool;
    /// Sleeps until the next timer, a whole millisecond, fires what is due then, and goes on until
    /// nothing is armed. Returns how many have fired.
    fn fire_all(&mut self) -> u64;
}

/// Ours.
pub(crate) struct Ours {
    wheel: Wheel<u64>,
}

impl Timers for Ours {
    type Key = TimerKey;

    fn new() -> Self {
        Self {
            wheel: Wheel::new(Instant::ZERO),
        }
    }

    fn arm(&mut self, at: Instant, value: u64) -> TimerKey {
        self.wheel.insert(at, value)
    }

    fn cancel(&mut self, key: TimerKey) -> bool {
        self.wheel.cancel(key).is_some()
    }

    fn fire_all(&mut self) -> u64 {
        let mut fired = 0;
        while let Some((now, _)) = self.wheel.next() {
            while self.wheel.expire(now).is_some() {
                fired += 1;
            }
        }
        fired
    }
}

/// A `BTreeMap`, by time, then by order of arming.
pub(crate) struct Sorted {
    armed: BTreeMap<(Instant, u64), u64>,
    count: u64,
}

impl Timers for Sorted {
    type Key = (Instant, u64);

    fn new() -> Self {
        Self {
            armed: BTreeMap::new(),
            count: 0,
        }
    }

    fn arm(&mut self, at: Instant, value: u64) -> Self::Key {
        self.count += 1;
        let key = (at, self.count);
        self.armed.insert(key, value);
        key
    }

    fn cancel(&mut self, key: Self::Key) -> bool {
        self.armed.remove(&key).is_some()
    }

    fn fire_all(&mut self) -> u64 {
        let mut fired = 0;
        while let Some(((next, _), _)) = self.armed.first_key_value() {
            let now = millis_after(*next);
            while let Some(first) = self.armed.first_entry()
                && first.key().0 <= now
            {
                first.remove();
                fired += 1;
            }
        }
        fired
    }
}

/// The first whole millisecond that is not before `at`.
fn millis_after(at: Instant) -> Instant {
    Instant::from_millis(at.as_nanos().div_ceil(1_000_000))
}

/// A `BinaryHeap`, by time, then by order of arming. It cannot cancel: what was cancelled stays in
/// it as a dead entry until it comes up, or, with `CLEANS`, until more than half of the heap is dead.
pub(crate) struct Heap<const CLEANS: bool> {
    heap: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    /// The value of each live timer and which it is, by the slot that the heap names.
    values: Vec<Option<(u64, u64)>>,
    vacant: Vec<u32>,
    count: u64,
    dead: usize,
}

impl<const CLEANS: bool> Heap<CLEANS> {
    /// Ends the timer that was armed as the `count`th. Returns whether it lived.
    fn take(&mut self, count: u64, slot: u32) -> bool {
        let entry = self.values.get_mut(slot as usize);
        let taken = entry.and_then(|entry| entry.take_if(|(owner, _)| *owner == count));
        if taken.is_some() {
            self.vacant.push(slot);
        }
        taken.is_some()
    }

    fn clean(&mut self) {
        let values = &self.values;
        self.heap.retain(|Reverse((_, count, slot))| {
            values[*slot as usize].is_some_and(|(owner, _)| owner == *count)
        });
        self.dead = 0;
    }
}

impl<const CLEANS: bool> Timers for Heap<CLEANS> {
    type Key = (u64, u32);

    fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            values: Vec::new(),
            vacant: Vec::new(),
            count: 0,
            dead: 0,
        }
    }

    fn arm(&mut self, at: Instant, value: u64) -> Self::Key {
        self.count += 1;
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.values.push(None);
            self.values.len() as u32 - 1
        });
        self.values[slot as usize] = Some((self.count, value));
        self.heap.push(Reverse((at, self.count, slot)));
        (self.count, slot)
    }

    fn cancel(&mut self, (count, slot): Self::Key) -> bool {
        let lived = self.take(count, slot);
        self.dead += usize::from(lived);
        if CLEANS && self.heap.len() < 2 * self.dead {
            self.clean();
        }
        lived
    }

    fn fire_all(&mut self) -> u64 {
        let mut fired = 0;
        while let Some(Reverse((next, ..))) = self.heap.peek() {
            let now = millis_after(*next);
            while let Some(&Reverse((at, count, slot))) = self.heap.peek()
                && at <= now
            {
                self.heap.pop();
                if self.take(count, slot) {
                    fired += 1;
                } else {
                    self.dead -= 1;
                }
            }
        }
        fired
    }
}

/// The queue of `tokio-util`.
pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    start: tokio::time::Instant,
}

/// The clock of the queue: a runtime whose time stands still until a task sleeps. The code that
/// arms timers has to enter it.
pub(crate) static CLOCK: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    builder.build().expect("a runtime without I/O")
});

impl Timers for Queue {
    type Key = Key;

    fn new() -> Self {
        Self {
            queue: DelayQueue::new(),
            start: tokio::time::Instant::now(),
        }
    }

    fn arm(&mut self, at: Instant, value: u64) -> Key {
        let after = Duration::from_nanos(at.as_nanos());
        self.queue.insert_at(value, self.start + after)
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    /// The clock moves to the next timer by itself, as soon as no task can run before.
    fn fire_all(&mut self) -> u64 {
        CLOCK.block_on(async {
            let mut fired = 0;
            while poll_fn(|context| self.queue.poll_expired(context))
                .await
                .is_some()
            {
                fired += 1;
            }
            fired
        })
    }
}
