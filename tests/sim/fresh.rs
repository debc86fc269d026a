//! Histories that no run has played before.
//!
//! The seeds begin at `FRESH_SEED`, which `tests/run.sh` derives from the tree of the commit. So each commit is tried
//! with different histories, and a second run of the same commit repeats them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use crate::case::{ANY, Kind};
use crate::kinds::{KINDS, NARROW};
use crate::mutations::Chosen;
use crate::replay::number;
use crate::sweep::{Until, say, sweep};

/// How many histories of each kind of world one round plays.
const EACH: u64 = 2;

/// How many ordinary worlds one round plays.
const ORDINARY: u64 = 50;

/// How much processor time is spent, in seconds, unless `FRESH_SECONDS` says otherwise.
const SECONDS: u64 = 30;

#[test]
fn fresh_histories_keep_their_promises() {
    let budget = Duration::from_secs(number("FRESH_SECONDS").unwrap_or(SECONDS));
    let first = number("FRESH_SEED").unwrap_or_else(any_number);
    let (mut seed, mut spent, mut worlds) = (first << 20, Duration::ZERO, 0);
    'rounds: loop {
        for (kind, histories) in round() {
            let _chosen = Chosen::in_world(None, kind);
            let sweep = sweep(kind, seed..seed + histories, Until::Last);
            sweep.assert_no_objection(kind);
            spent += sweep.cpu;
            worlds += histories;
            if budget <= spent {
                break 'rounds;
            }
        }
        seed += ORDINARY;
    }
    let spent = spent.as_secs();
    say(&format!(
        "{worlds} fresh histories from FRESH_SEED={first} on, {spent} s of a core"
    ));
}

/// Returns a number that differs from process to process.
fn any_number() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

/// Returns the kinds of worlds, and how many of each are played in turn.
fn round() -> impl Iterator<Item = (Kind, u64)> {
    let kinds = KINDS.into_iter().filter(|kind| kind.name != NARROW.name);
    [(ANY, ORDINARY)]
        .into_iter()
        .chain(kinds.map(|kind| (kind, EACH)))
}
