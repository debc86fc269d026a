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

/// A counter ends too.
const ENDED: Bounds = Bounds { ends: 1, ..TWO };

/// A node loses its data, and is repaired.
const LOSS: Bounds = Bounds {
    losses: 1,
    deaf: 1,
    ..TWO
};

/// A loss and everything else, on nodes with different counters at the beginning.
const PAIR: Bounds = Bounds {
    counters: [0, 0, 3, 0, 0],
    breaks: 1,
    ends: 1,
    ..LOSS
};

/// A node loses its data twice, or two do.
const LOSSES: Bounds = Bounds { losses: 2, ..TWO };

const THREE: Bounds = Bounds {
    attempts: [2, 1],
    ..TWO
};

const THREE_APART: Bounds = Bounds {
    counters: [0, 0, 3, 0, 0],
    ..THREE
};

const THREE_WITH_LOSS: Bounds = Bounds {
    losses: 1,
    ..THREE_APART
};

const THREE_WITH_BREAK: Bounds = Bounds {
    breaks: 1,
    ..THREE_APART
};

/// Keys end, a message is lost with its connection, and a node loses its data, at any time.
const THREE_WITH_BOTH: Bounds = Bounds {
    losses: 1,
    breaks: 1,
    ..THREE
};

const APART_WITH_BOTH: Bounds = Bounds {
    counters: THREE_APART.counters,
    ..THREE_WITH_BOTH
};

const THREE_WITH_ALL: Bounds = Bounds {
    attempts: [2, 1],
    ..PAIR
};

const FIVE: Bounds = Bounds {
    nodes: 5,
    counters: [0, 4, 0, 2, 0],
    ..TWO
};

const FIVE_WITH_LOSS: Bounds = Bounds {
    counters: [0; 5],
    losses: 1,
    ..FIVE
};

/// The worlds, and whether the long run looks at all their states.
const ALL: [(&str, Bounds, bool); 14] = [
    ("two attempts", TWO, true),
    ("two attempts and an end", ENDED, true),
    ("two attempts and a loss", LOSS, true),
    ("two attempts and two losses", LOSSES, false),
    ("two attempts and all else", PAIR, false),
    ("three attempts", THREE, true),
    ("three attempts, nodes apart", THREE_APART, true),
    ("three attempts and a loss", THREE_WITH_LOSS, false),
    ("three attempts and a break", THREE_WITH_BREAK, false),
    ("three attempts, a loss and a break", THREE_WITH_BOTH, false),
    (
        "three attempts, a loss and a break, nodes apart",
        APART_WITH_BOTH,
        false,
    ),
    ("three attempts and all else", THREE_WITH_ALL, false),
    ("five nodes", FIVE, false),
    ("five nodes and a loss", FIVE_WITH_LOSS, false),
];

/// How many states the long run looks at: of a world that it searches completely, and of any other.
const STATES: [u64; 2] = [100_000, 25_000];

#[test]
fn no_order_of_events_gives_a_wrong_token() {
    let _none = Chosen::new(None);
    for (name, bounds, to_the_end) in ALL {
        let long = STATES[usize::from(!to_the_end)];
        nothing_is_wrong(name, World::new(bounds), long, to_the_end);
    }
}

/// The mutants that make tokens wrong, and the world that shows each soonest.
#[cfg(shearline_mutants)]
const FOUND: [(&str, &str, Bounds); 13] = [
    ("TokenIsNotWrittenBack", "two attempts", TWO),
    ("RaisedUnconditionally", "two attempts", TWO),
    ("RaisedWithoutLock", "two attempts", TWO),
    ("TokenSeenOnce", "two attempts", TWO),
    ("LaterTokenCounts", "two attempts", TWO),
    ("LargestCountsForLess", "five nodes", FIVE),
    ("FloorNotLifted", "two attempts and an end", ENDED),
    ("FloorOfAnyRun", "two attempts and a loss", LOSS),
    ("LostFloorIsZero", "two attempts and a loss", LOSS),
    ("LostFloorIsZero", "five nodes and a loss", FIVE_WITH_LOSS),
    ("RepairedFloorLow", "two attempts and a loss", LOSS),
    ("RepairedWithoutQuarantine", "two attempts and a loss", LOSS),
    ("RepairedWithoutMajority", "two attempts and a loss", LOSS),
];

#[cfg(shearline_mutants)]
#[test]
fn mutants_of_tokens_are_found_by_the_search() {
    all_are_found(&FOUND, World::new);
}
