//! The dimensions: nodes, locks held, callers, bytes of a name. And what is done at each size.

use std::time::Duration;

use shearline_instructions::callgrind::{counted, end_of_sum};
use shearline_instructions::nodes::Nodes;
use shearline_peers::allocations::kept;
use shearline_peers::measure::Contestant;

/// A dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Its name on the command line and of the picture's file.
    pub(crate) name: &'static str,
    /// The noun.
    pub(crate) of: &'static str,
    /// The operation.
    pub(crate) work: &'static str,
    /// The sizes, from the least to the most.
    pub(crate) sizes: &'static [usize],
    pub(crate) prepare: fn(usize) -> Work,
    /// The bounds on growth.
    pub(crate) claims: &'static [Claim],
}

/// Does so many of the measured operations.
pub(crate) struct Work {
    /// How many operations one call does.
    units: u64,
    run: Box<dyn FnMut()>,
}

/// How the instructions of one operation may grow, from one size to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// In words.
    pub(crate) growth: &'static str,
    /// The cost at this size is at most
    pub(crate) large: usize,
    /// so many times
    pub(crate) times: f64,
    /// that at this one.
    pub(crate) small: usize,
}

pub(crate) const DIMENSIONS: [Dimension; 4] = [
    Dimension {
        name: "nodes",
        of: "nodes",
        work: "acquire and release",
        sizes: &[1, 2, 3, 5, 7, 9, 13, 17, 21, 25, 31],
        prepare: nodes,
        claims: &[
            Claim {
                growth: "linear: 31 nodes cost at most 6.2 times what 5 do, and 5 % more",
                large: 31,
                times: 6.2 * 1.05,
                small: 5,
            },
            Claim {
                growth: "no worse below: 5 nodes cost at most 5 times what one does",
                large: 5,
                times: 5.0,
                small: 1,
            },
        ],
    },
    Dimension {
        name: "held",
        of: "locks held",
        work: "extend one of them",
        sizes: &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
        prepare: held,
        claims: &[Claim {
            growth: "none: with a million held at most 5 % more than with one",
            large: 1_000_000,
            times: 1.05,
            small: 1,
        }],
    },
    Dimension {
        name: "callers",
        of: "rounds in flight",
        work: "acquire and release, each caller one lock",
        sizes: &[1, 3, 10, 30, 100, 300, 1_000],
        prepare: callers,
        claims: &[Claim {
            growth: "none: of 1,000 callers each costs at most what one alone does",
            large: 1_000,
            times: 1.0,
            small: 1,
        }],
    },
    Dimension {
        name: "names",
        of: "bytes of the name",
        work: "acquire and release",
        sizes: &[8, 16, 32, 64, 128, 256, 512, 1_024],
        prepare: names,
        claims: &[Claim {
            growth: "no more than copying: 128 times as long a name costs at most twice as much",
            large: 1_024,
            times: 2.0,
            small: 8,
        }],
    },
];

/// Usual, where something else is looked at.
const NODES: usize = 5;
const NAME: &[u8] = b"invoice:42";

/// Long enough that no lock expires while a million are taken.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// How many locks are taken in one exchange: well below what one node may leave unanswered.
const AT_ONCE: usize = 1_000;

fn nodes(count: usize) -> Work {
    let mut nodes = Nodes::new(count);
    Work::new(50, move || {
        for _ in 0..50 {
            let lock = nodes.acquire(NAME);
            nodes.release(lock);
        }
    })
}

fn held(count: usize) -> Work {
    let mut nodes = Nodes::new(NODES);
    let mut locks = hold(&mut nodes, count);
    let mut next = 0;
    Work::new(50, move || {
        for _ in 0..50 {
            nodes.extend(&mut locks[next], LONG);
            // Far from the last one, and every one in turn.
            next = (next + 7_919) % locks.len();
        }
    })
}

fn hold(nodes: &mut Nodes, count: usize) -> Vec<shearline::Lock> {
    let mut locks = Vec::with_capacity(count);
    while locks.len() < count {
        let end = count.min(locks.len() + AT_ONCE);
        let names: Vec<String> = (locks.len()..end)
            .map(|index| format!("invoice:{index}"))
            .collect();
        locks.append(&mut nodes.acquire_all(&names, LONG));
    }
    locks
}

/// Returns how many bytes a held lock takes, in the engine and in its holder's hands.
pub(crate) fn bytes_held(count: usize) -> f64 {
    let mut nodes = Nodes::new(NODES);
    let (locks, bytes) = kept(|| hold(&mut nodes, count));
    drop(locks);
    bytes as f64 / count as f64
}

fn callers(count: usize) -> Work {
    let mut nodes = Nodes::new(NODES);
    let names: Vec<String> = (0..count).map(|index| format!("invoice:{index}")).collect();
    let repetitions = AT_ONCE / count;
    Work::new((repetitions * count) as u64, move || {
        for _ in 0..repetitions {
            let locks = nodes.acquire_all(&names, LONG);
            nodes.release_all(locks);
        }
    })
}

fn names(bytes: usize) -> Work {
    let mut nodes = Nodes::new(NODES);
    let name = vec![b'n'; bytes];
    Work::new(50, move || {
        for _ in 0..50 {
            let lock = nodes.acquire(&name);
            nodes.release(lock);
        }
    })
}

impl Work {
    fn new(units: u64, run: impl FnMut() + 'static) -> Self {
        let run = Box::new(run);
        Self { units, run }
    }

    /// Under the counter: once to warm up, once for a sum.
    pub(crate) fn play(mut self) -> u64 {
        (self.run)();
        end_of_sum();
        counted(|| (self.run)());
        end_of_sum();
        self.units
    }

    /// By time.
    pub(crate) fn contestant(mut self) -> Contestant<'static> {
        let units = self.units;
        Contestant::new(units, move || {
            (self.run)();
            Ok(units)
        })
    }
}
