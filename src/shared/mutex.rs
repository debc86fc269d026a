//! A mutex for which a thread waits until a time, and not longer.
//!
//! The mutex of the standard library has no such wait, and a thread that holds it may be stopped there
//! for as long as the scheduler likes. A call with a deadline keeps it all the same.
//!
//! # No wake-up is lost
//!
//! A thread that waits counts itself, and then tries the mutex; a thread that unlocks it looks at the
//! count afterwards. Between the two steps of each stands a fence, so that one of them sees the other:
//! either the try succeeds, or the count is seen. The try is made under the gate, and the gate is
//! passed before the wake-up is sent, so that it finds the waiting thread asleep. Each unlocking wakes
//! one thread while any are counted; one that gives up has tried the mutex last and met a holder, who
//! wakes another.

use core::hint;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::driver::clock;
use crate::time::Instant;

/// How often the mutex is tried before the thread sleeps. It is held for microseconds.
const SPINS: usize = 100;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct TimedMutex<T> {
    value: Mutex<T>,
    /// How many threads wait.
    waiting: AtomicUsize,
    gate: Mutex<()>,
    unlocked: Condvar,
}

/// The value, while this thread has the mutex.
#[derive(Debug)]
pub(super) struct Locked<'a, T> {
    mutex: &'a TimedMutex<T>,
    /// `None` only while it is dropped.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> TimedMutex<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            unlocked: Condvar::new(),
        }
    }

    /// Locks it. That a thread has panicked with it is of no account here.
    pub(super) fn lock(&self) -> Locked<'_, T> {
        loop {
            if let Some(locked) = self.lock_until(None) {
                return locked;
            }
        }
    }

    /// Locks it if that is possible by `until`.
    pub(super) fn lock_until(&self, until: Option<Instant>) -> Option<Locked<'_, T>> {
        for _ in 0..SPINS {
            if let Some(locked) = self.try_lock() {
                return Some(locked);
            }
            hint::spin_loop();
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let locked = self.wait(until);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        locked
    }

    /// Locks it if it is free.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Locked {
            mutex: self,
            value: Some(value),
        })
    }

    fn wait(&self, until: Option<Instant>) -> Option<Locked<'_, T>> {
        let mut gate = self.pass_gate();
        loop {
            if let Some(locked) = self.try_lock() {
                return Some(locked);
            }
            gate = match until.map(|until| until.saturating_since(clock::now())) {
                None => self
                    .unlocked
                    .wait(gate)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return None,
                Some(left) => match self.unlocked.wait_timeout(gate, left) {
                    Ok((gate, _)) => gate,
                    Err(poisoned) => poisoned.into_inner().0,
                },
            };
        }
    }

    fn pass_gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("held until it is dropped")
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held until it is dropped")
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        fence(Ordering::SeqCst);
        if self.mutex.waiting.load(Ordering::Relaxed) != 0 {
            drop(self.mutex.pass_gate());
            self.mutex.unlocked.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::thread;

    #[test]
    fn a_wait_ends_at_its_time_and_with_the_holder() {
        let mutex = TimedMutex::new(0);
        let mut held = mutex.lock();
        thread::scope(|scope| {
            let until = clock::now().saturating_add(Duration::from_millis(10));
            let in_vain = scope.spawn({
                let mutex = &mutex;
                move || mutex.lock_until(Some(until)).is_none()
            });
            assert!(in_vain.join().unwrap());
            assert!(until <= clock::now());
            let waiting = scope.spawn(|| *mutex.lock());
            while mutex.waiting.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            *held = 7;
            drop(held);
            assert_eq!(waiting.join().unwrap(), 7);
        });
        assert_eq!(mutex.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn of_many_that_wait_each_comes_in() {
        const TURNS: usize = 2_000;
        let mutex = TimedMutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..TURNS {
                        let mut value = mutex.lock();
                        *value += 1;
                        if turn % 16 == 0 {
                            thread::yield_now(); // The others find it held.
                        }
                    }
                });
            }
        });
        assert_eq!(*mutex.lock(), 4 * TURNS);
    }
}
