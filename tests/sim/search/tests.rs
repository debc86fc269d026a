//! The searches of the ordinary run, and the search that finds each breakage of tokens.

#[cfg(shearline_mutants)]
use super::all_are_found;
use super::state::World;
use super::{Bounds, nothing_is_wrong};
use crate::mutations::Chosen;

/// One attempt of each client, whose keys may end at any time.
const TWO: Bounds = Bounds {
    nodes: 3,
    attempts: [1, 1],
    counters: [0; 5],
    breaks: 0,
    losses: 0,
    ends: 0,
    deaf: 0,
};

impl Bounds {
    const fn attempts(self, attempts: [u8; 2]) -> Self {
        Self { attempts, ..self }
    }

    const fn counters(self, counters: [u8; 5]) -> Self {
        Self { counters, ..self }
    }

    const fn breaks(self, breaks: u8) -> Self {
        Self { breaks, ..self }
    }

    const fn losses(self, losses: u8) -> Self {
        Self { losses, ..self }
    }

    const fn ends(self, ends: u8) -> Self {
        Self { ends, ..self }
    }

    const fn deaf(self, deaf: u8) -> Self {
        Self { deaf, ..self }
    }
}

/// A counter ends too.
const ENDED: Bounds = TWO.ends(1);

/// A node loses its data, and is repaired.
const LOSS: Bounds = TWO.losses(1).deaf(1);

/// A loss and everything else, on nodes with different counters at the beginning.
const PAIR: Bounds = LOSS.counters(APART).breaks(1).ends(1);

const APART: [u8; 5] = [0, 0, 3, 0, 0];

const THREE: Bounds = TWO.attempts([2, 1]);

/// Keys end, a message is lost with its connection, and a node loses its data, at any time.
const THREE_WITH_BOTH: Bounds = THREE.losses(1).breaks(1);

const FIVE: Bounds = Bounds {
    nodes: 5,
    counters: [0, 4, 0, 2, 0],
    ..TWO
};

const FIVE_WITH_LOSS: Bounds = FIVE.counters([0; 5]).losses(1);

/// The worlds, and whether the long run looks at all their states.
const ALL: [(Bounds, bool); 14] = [
    (TWO, true),
    (ENDED, true),
    (LOSS, true),
    // A node loses its data twice, or two do.
    (TWO.losses(2), false),
    (PAIR, false),
    (THREE, true),
    (THREE.counters(APART), true),
    (THREE.counters(APART).losses(1), false),
    (THREE.counters(APART).breaks(1), false),
    (THREE_WITH_BOTH, false),
    (THREE_WITH_BOTH.counters(APART), false),
    (PAIR.attempts([2, 1]), false),
    (FIVE, false),
    (FIVE_WITH_LOSS, false),
];

/// How many states the long run looks at: of a world that it searches completely, and of any other.
const STATES: [u64; 2] = [100_000, 25_000];

#[test]
fn no_order_of_events_gives_a_wrong_token() {
    let _none = Chosen::new(None);
    nothing_is_wrong(ALL, World::new, STATES);
}

/// The mutants that make tokens wrong, and the world that shows each soonest.
#[cfg(shearline_mutants)]
const FOUND: [(&str, Bounds); 13] = [
    ("TokenIsNotWrittenBack", TWO),
    ("RaisedUnconditionally", TWO),
    ("RaisedWithoutLock", TWO),
    ("TokenSeenOnce", TWO),
    ("LaterTokenCounts", TWO),
    ("LargestCountsForLess", FIVE),
    ("FloorNotLifted", ENDED),
    ("FloorOfAnyRun", LOSS),
    ("LostFloorIsZero", LOSS),
    ("LostFloorIsZero", FIVE_WITH_LOSS),
    ("RepairedFloorLow", LOSS),
    ("RepairedWithoutQuarantine", LOSS),
    ("RepairedWithoutMajority", LOSS),
];

#[cfg(shearline_mutants)]
#[test]
fn mutants_of_tokens_are_found_by_the_search() {
    all_are_found(&FOUND, World::new);
}
