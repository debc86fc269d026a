//! Whole operations of the engine over five nodes in memory.

use super::{Path, Play};
use crate::callgrind::counted;
use crate::nodes::{Nodes, TTL};

pub(super) const PATHS: [Path; 2] = [
    Path {
        name: "engine acquire + release, N = 5",
        repetitions: 50,
        prepare: acquire_release,
    },
    Path {
        name: "engine extend, N = 5",
        repetitions: 50,
        prepare: extend,
    },
];

const RESOURCE: &[u8] = b"invoice:42";

fn acquire_release() -> Play {
    let mut nodes = Nodes::new(5);
    Box::new(move |repetitions| {
        counted(|| {
            for _ in 0..repetitions {
                let lock = nodes.acquire(RESOURCE);
                nodes.release(lock);
            }
        });
        repetitions
    })
}

fn extend() -> Play {
    let mut nodes = Nodes::new(5);
    let mut lock = nodes.acquire(RESOURCE);
    Box::new(move |repetitions| {
        counted(|| {
            for _ in 0..repetitions {
                nodes.extend(&mut lock, TTL);
            }
        });
        repetitions
    })
}
