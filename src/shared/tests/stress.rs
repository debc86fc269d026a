//! Many threads, few keys, every way to take a lock and every way to release it, at random.
//!
//! `SHEARLINE_STRESS=2000 cargo test --release --features embedded stress` runs it for a long time.

use core::sync::atomic::{AtomicBool, Ordering};
use std::env;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::LockOptions;
use crate::effort::effort;

struct Keys {
    inside: Vec<AtomicBool>,
}

impl Keys {
    /// Checks that no other thread is inside while the lock is held.
    fn visit(&self, key: usize) {
        let inside = &self.inside[key];
        assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
        thread::yield_now();
        inside.store(false, Ordering::SeqCst);
    }
}

fn take(redlock: &Redlock, random: &mut StdRng, key: usize) -> Option<LockGuard> {
    let name = format!("key:{key}");
    match random.random_range(0..6) {
        0 | 1 => Some(redlock.lock(name, LONG).unwrap()),
        2 => Some(block_on(redlock.lock_async(name, LONG)).unwrap()),
        3 => redlock.try_lock(name, LONG).ok(),
        4 => {
            let wait = Duration::from_micros(random.random_range(0..3000));
            redlock
                .lock_with(name, &LockOptions::new(LONG).wait(wait))
                .ok()
        }
        _ => {
            let mut future = Box::pin(redlock.lock_async(name, LONG));
            for _ in 0..random.random_range(0..20) {
                if let Poll::Ready(guard) = poll_once(&mut future) {
                    return Some(guard.unwrap());
                }
                thread::yield_now();
            }
            None
        }
    }
}

fn let_go(redlock: &Redlock, random: &mut StdRng, mut guard: LockGuard) {
    match random.random_range(0..9) {
        0 | 1 => drop(guard.unlock().unwrap()),
        2 => drop(block_on(guard.unlock_async()).unwrap()),
        3 => drop(redlock.adopt(guard.into_lock())),
        4 => guard.extend(2 * LONG).unwrap(),
        5 => block_on(guard.extend_async(2 * LONG)).unwrap(),
        6 => block_on(guard.confirm_async()).unwrap(),
        7 => {
            let mut lock = guard.into_lock();
            lock.forget_end(); // This is the state of a lock that was read after a boot.
            let mut guard = redlock.adopt(lock);
            assert!(!guard.is_valid() && !guard.lost().is_lost());
            guard.confirm().unwrap();
            assert!(guard.is_valid());
        }
        _ => drop(guard),
    }
}

/// With two threads the I/O thread comes and goes.
#[test]
fn threads_at_random() {
    for (threads, keys) in [(16, 16), (2, 8), (1, 8)] {
        run(threads, keys);
    }
}

fn cycles() -> u32 {
    let cycles = || effort(15, 60);
    env::var("SHEARLINE_STRESS").map_or_else(|_| cycles(), |text| text.parse().unwrap())
}

fn run(threads: u64, keys: usize) {
    let cycles = cycles();
    let (world, redlock) = World::start();
    let keys = Keys {
        inside: (0..keys).map(|_| AtomicBool::new(false)).collect(),
    };
    let shared = shared_of(&redlock);
    thread::scope(|scope| {
        for seed in 0..threads {
            let (redlock, keys) = (redlock.clone(), &keys);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..cycles {
                    let key = random.random_range(0..keys.inside.len());
                    if let Some(guard) = take(&redlock, &mut random, key) {
                        keys.visit(key);
                        let_go(&redlock, &mut random, guard);
                    }
                    if random.random_bool(0.05) {
                        thread::sleep(Duration::from_micros(random.random_range(0..3000)));
                    }
                }
            });
        }
        drop(redlock);
    });
    // It pays its debts first, which takes longer than the last drop waits on a busy machine.
    eventually("the I/O thread has ended", || shared.upgrade().is_none());
    world.assert_empty();
}
