//! The hot paths: what one of each costs.

mod codec;
mod engine;
mod wheel;

use crate::callgrind::end_of_sum;

/// One thing whose cost is counted.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// As in the baseline.
    pub name: &'static str,
    /// How often it is repeated for the smaller of the two sums.
    repetitions: u64,
    /// Makes ready, and gives what does so many repetitions and says how many they came to.
    prepare: fn() -> Play,
}

/// So many repetitions; how many things were done in them.
type Play = Box<dyn FnMut(u64) -> u64>;

/// What the program under the counter said of one path: how many things were done for either sum.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Played {
    /// In the repetitions.
    pub once: u64,
    /// In twice as many.
    pub twice: u64,
}

/// All paths, in the order in which they are counted.
#[must_use]
pub fn all() -> Vec<Path> {
    [&codec::PATHS[..], &engine::PATHS, &wheel::PATHS].concat()
}

impl Path {
    /// Plays both numbers of repetitions, each a sum of its own. The first time it is warmed up.
    #[must_use]
    pub fn play(&self) -> Played {
        let mut play = (self.prepare)();
        play(2 * self.repetitions);
        end_of_sum(); // What it took to become warm is nobody's.
        let once = play(self.repetitions);
        end_of_sum();
        let twice = play(2 * self.repetitions);
        end_of_sum();
        Played { once, twice }
    }
}

impl Played {
    /// How much of something came to one, by what was counted of it in both sums.
    #[must_use]
    pub fn each(self, once: u64, twice: u64) -> f64 {
        (twice as f64 - once as f64) / (self.twice as f64 - self.once as f64)
    }
}
