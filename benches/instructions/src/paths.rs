//! The hot paths, and the cost of one operation of each.

mod codec;
mod engine;
mod wheel;

use crate::callgrind::end_of_sum;

/// An operation whose cost is counted.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Its name in the baseline.
    pub name: &'static str,
    /// How often it is repeated for the smaller of the two sums.
    repetitions: u64,
    /// Prepares the path. Returns the function that plays it.
    prepare: fn() -> Play,
}

/// Runs this number of repetitions. Returns the number of operations.
type Play = Box<dyn FnMut(u64) -> u64>;

/// The output of the program under the counter about one path: the operations of either sum.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Played {
    /// The operations in the repetitions.
    pub once: u64,
    /// The operations in twice as many repetitions.
    pub twice: u64,
}

/// All paths, in the order in which they are counted.
#[must_use]
pub fn all() -> Vec<Path> {
    [&codec::PATHS[..], &engine::PATHS, &wheel::PATHS].concat()
}

impl Path {
    /// Plays both numbers of repetitions, each as a sum of its own. A first run is the warm-up.
    #[must_use]
    pub fn play(&self) -> Played {
        let mut play = (self.prepare)();
        play(2 * self.repetitions);
        end_of_sum(); // The warm-up counts for no path.
        let once = play(self.repetitions);
        end_of_sum();
        let twice = play(2 * self.repetitions);
        end_of_sum();
        Played { once, twice }
    }
}

impl Played {
    /// Returns the cost of one operation, from the counts of both sums.
    #[must_use]
    pub fn each(self, once: u64, twice: u64) -> f64 {
        (twice as f64 - once as f64) / (self.twice as f64 - self.once as f64)
    }
}
