//! Measures contention: the cost and the fairness of a rule for waiting callers.
//!
//! ```text
//! SEEDS=10 cargo test --profile sim --features embedded --test sim contention -- --ignored --nocapture
//! ```
//!
//! prints a line for each number of clients and of users in each: hand-overs in a second, the longest wait as a
//! multiple of the fair share (as many holds as there are users), and commands per node and hand-over, where `CACHING`
//! and the `PTTL` after it count as one. There are three nodes, each lock is held for one millisecond, and there is no
//! pause between two locks; the first column is the round trip. `CLIENTS=8 USERS=2` prints other sizes. The same seeds
//! give the same numbers.
//!
//! The rules that were tried, with round trips of 200 us. Each cell: the longest wait in fair shares, commands per
//! node and hand-over, hand-overs in a second. Each rule adds to the one above it.
//!
//! | rule | 2 handles x 8 callers | 16 handles | 32 handles |
//! | --- | --- | --- | --- |
//! | all ask at once; no handle leaves the lock to others | 123, 4.3, 980 | 7.1, 61, 779 | stands still |
//! | a handle leaves it after 16 hand-overs or 10 ms | 6.6, 4.4, 970 | 7.6, 60, 779 | stands still |
//! | each asks within 4 round trips at random | 6.5, 4.4, 951 | 7.7, 37, 863 | 7.1, 75, 878 |
//! | within 16, shrinking to 1 in 100 ms of waiting | 6.4, 3.8, 938 | 5.9, 28, 884 | 7.8, 61, 909 |
//! | within 1, up to 16 later before 100 ms of waiting | 6.3, 3.5, 922 | 4.6, 22, 761 | 3.1, 42, 846 |
//! | looks again in between, whether another was earlier | 6.3, 3.2, 920 | 4.0, 38, 538 | 2.5, 75, 565 |
//! | both only where votes were split recently | 6.7, 4.4, 970 | 6.7, 25, 877 | 3.7, 51, 870 |
//! | and where a handle left the lock less than a hold ago | 6.7, 3.3, 973 | 4.5, 31, 810 | 2.5, 62, 830 |
//! | up to 10 later after a split since the last holder (A) | 6.4, 3.7, 937 | 2.0, 29, 773 | 1.5, 53, 800 |
//! | up to 3 later for each recent split, counted twice (B) | 6.7, 3.3, 975 | 4.5, 30, 820 | 2.6, 64, 827 |
//!
//! B is the rule. With A two handles get a fifth fewer locks where nodes are far away. On real machines with more
//! processes than cores, looking in between halves the attempts that come too late. So does A: sixteen processes on two
//! cores, which the servers share, wait for 4 fair shares at most, and for 30 without it.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Keep, Tally};
use crate::clock::{MICRO, SECOND, Time};
use crate::entropy::Entropy;
use crate::kinds::{contended, kind};
use crate::plan::Plan;
use crate::replay::number;

/// The numbers of clients, and of users of each.
const SIZES: [(usize, usize); 3] = [(2, 8), (16, 1), (32, 1)];

/// About how long one way takes on average.
const DELAYS: [Time; 3] = [25 * MICRO, 100 * MICRO, 500 * MICRO];

/// How many histories of each size are played.
const SEEDS: u64 = 2;

const LENGTH: Time = 2 * SECOND;

/// The size of the worlds that are drawn.
static SIZE: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn draw(_: &mut Entropy) -> Plan {
    let [clients, users, delay] = SIZE.each_ref().map(|size| size.load(Ordering::Relaxed));
    Plan {
        patient: true,
        length: LENGTH,
        delay: delay as Time,
        habits: [1, 0, 0, 0, 0, 0],
        ..contended(clients, users)
    }
}

/// Runs the histories of one size. Returns what happened in them, and the longest wait of each.
fn histories(clients: usize, users: usize, delay: Time) -> (Tally, f64) {
    for (place, size) in SIZE.iter().zip([clients, users, delay as usize]) {
        place.store(size, Ordering::Relaxed);
    }
    let mut sum = Tally::default();
    let mut longest: f64 = 0.0;
    for seed in 0..number("SEEDS").unwrap_or(SEEDS) {
        let outcome = Case::of_seed(kind("contended", draw), seed).run(Keep::default());
        if let Some(found) = outcome.violation {
            panic!("{clients} x {users}, seed {seed}: {found:?}");
        }
        let counts = &outcome.tally.counts;
        let fair = LENGTH as f64 * (clients * users) as f64 / counts.locks as f64;
        longest = longest.max(counts.longest_wait as f64 / fair);
        sum.add(&outcome.tally);
    }
    (sum, longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::Chosen;
    use crate::sweep::say;

    #[test]
    #[ignore = "prints figures and asserts nothing"]
    fn contention_in_numbers() {
        let _none = Chosen::new(None);
        let chosen = number("CLIENTS").map(|clients| {
            let users = number("USERS").unwrap_or(1);
            vec![(clients as usize, users as usize)]
        });
        say(
            "one way   clients x users   hand-overs/s   longest wait   commands per node and hand-over",
        );
        for delay in DELAYS {
            for (clients, users) in chosen.clone().unwrap_or(SIZES.to_vec()) {
                let (tally, longest) = histories(clients, users, delay);
                let locks = tally.counts.locks as f64;
                let seconds = (tally.worlds * LENGTH) as f64 / SECOND as f64;
                say(&format!(
                    "{:>4} us   {clients:>7} x {users:<5}   {:>12.0}   {longest:>10.1} x   {:>10.1}",
                    delay / MICRO,
                    locks / seconds,
                    tally.counts.asked as f64 / locks / 3.0,
                ));
            }
        }
    }
}
