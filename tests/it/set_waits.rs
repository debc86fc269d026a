//! Waiting for several resources at once, over real servers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shearline::{LockOptions, Redlock};

use crate::effort::times;
use crate::face::over;
use crate::servers::{self, LONG};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What the lock on a name protects: no two threads are inside together, and no count is lost.
#[derive(Default)]
struct Protected {
    inside: AtomicBool,
    counter: AtomicU64,
    done: AtomicU64,
}

impl Protected {
    fn enter(&self) {
        assert!(
            !self.inside.swap(true, Ordering::SeqCst),
            "two holders at once"
        );
        let counted = self.counter.load(Ordering::SeqCst);
        thread::yield_now();
        self.counter.store(counted + 1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        self.inside.store(false, Ordering::SeqCst);
    }
}

/// Numbers that differ from thread to thread.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    /// Returns some of the names, in any order.
    fn some(&mut self, most: usize) -> Vec<usize> {
        let mut names: Vec<usize> = (0..NAMES.len()).collect();
        for at in (1..names.len()).rev() {
            names.swap(at, self.below(at + 1));
        }
        names.truncate(1 + self.below(most));
        names
    }
}

/// Takes locks on some of the names, again and again.
fn take_turns(redlock: &Redlock, seed: u64, most: usize, names: &[Protected]) {
    let options = LockOptions::new(LONG).wait(Duration::from_secs(60));
    let mut numbers = Numbers(seed);
    for _ in 0..times(20, 200) {
        let some = numbers.some(most);
        let wanted = some.iter().map(|name| NAMES[*name]);
        let guard = redlock
            .lock_all_with(wanted, &options)
            .expect("in its turn");
        some.iter().for_each(|name| names[*name].enter());
        guard.unlock().expect("held");
    }
}

/// There are two programs, each with threads that want several names and threads that want one.
#[test]
fn threads_that_name_the_same_in_any_order_are_all_served_and_exclude_each_other() {
    let cluster = servers::three();
    let handles = [0, 1].map(|_| over(&cluster).build().expect("valid"));
    let names: [Protected; NAMES.len()] = Default::default();
    thread::scope(|scope| {
        for thread in 0..8 {
            let (redlock, names) = (handles[thread % 2].clone(), &names);
            let most = if thread < 6 { NAMES.len() } else { 1 };
            scope.spawn(move || take_turns(&redlock, thread as u64 + 1, most, names));
        }
    });
    for name in &names {
        assert_eq!(
            name.counter.load(Ordering::SeqCst),
            name.done.load(Ordering::SeqCst)
        );
    }
    cluster.assert_empty();
}

#[test]
fn a_set_that_another_program_keeps_out_is_told_of_the_end_of_its_lock() {
    let cluster = servers::three();
    let [other, redlock] = [0, 1].map(|_| over(&cluster).build().expect("valid"));
    let held = other.lock("b", LONG).expect("free");
    let options = LockOptions::new(LONG).wait(Duration::from_secs(60));
    thread::scope(|scope| {
        let set = scope.spawn(|| {
            redlock
                .lock_all_with(["a", "b"], &options)
                .expect("in its turn")
        });
        servers::eventually("it waits", || {
            redlock
                .try_lock("a", LONG)
                .ok()
                .map(|guard| guard.unlock().expect("held"))
        });
        held.unlock().expect("held");
        set.join().expect("it is told").unlock().expect("held");
    });
    cluster.assert_empty();
}
