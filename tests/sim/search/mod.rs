//! Search, breadth first, through every order of events of a small world: this module has fencing tokens, [`holders`]
//! has several holders of one name.
//!
//! There are two engines, and three or five nodes, each of which is a store that runs the scripts. Every possible next
//! event is tried: a client begins an attempt and gives up the one before; a node runs the next command of a connection
//! when its key is still there or has ended, and its counter too, and its answer arrives or is lost with the
//! connection; a connection breaks with all that is on its way; a node loses its data, in a restart or by a `FLUSHALL`;
//! and a handle repairs what was lost, after every attempt from before the loss is over.
//!
//! * [`histories`]: what engines do after each input; [`wired`] connects one with its nodes.
//! * [`engine`]: what a client does, and what it has heard.
//! * [`node`]: what a node does.
//! * [`repair`]: what the repairing handle does.
//! * [`state`]: a state, what may happen in it, and what follows.
//!
//! No clock runs, except for that of the repairing handle: a key ends when the search says so. A state that was seen
//! before is not looked at again.
//!
//! # Guarantees
//!
//! * Two states with the same fingerprint continue alike: [`histories`] and [`state`] say why. The clients are
//!   interchangeable if they make the same number of attempts, and so are nodes that began with the same counter.
//! * No token is reported twice, and every token is above all that were reported when its attempt began.
//!
//! # Not here
//!
//! Everything that does not affect tokens is done at once: handshakes, releases that nothing precedes, and reading a
//! node's answers. If the exact time of an event makes no difference, only one is tried: a key or a counter ends just
//! before the next command runs on its node, an attempt is given up when its client begins another, and a node is
//! marked when it has lost its data. Clocks, late answers, extensions, sets and quarantines are for the worlds of
//! [`fencing`](crate::fencing).

mod engine;
mod histories;
mod holders;
mod node;
mod repair;
mod state;
#[cfg(test)]
mod tests;
mod wired;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use shearline::{Builder, Config, RestartGuard};

#[cfg(shearline_mutants)]
use crate::mutations;
use crate::replay::{effort, number};
use crate::sweep::{real_time, say};

/// The most nodes.
const NODES: usize = 5;

const CLIENTS: usize = 2;

const RESOURCE: &[u8] = b"r";
const COUNTER: &[u8] = b"shearline:fence:r";

/// Longer than any history.
const TTL: Duration = Duration::from_secs(3_600);

fn builder(nodes: usize) -> Builder {
    Config::builder()
        .nodes((0..nodes).map(|node| format!("node{node}")))
        .watch_clocks(false)
        .node_timeout(Duration::from_secs(600))
        .dead_after(Duration::from_secs(600))
}

fn config(nodes: usize) -> Config {
    let builder = builder(nodes).restart_guard(RestartGuard::Off);
    builder.config().expect("a valid configuration")
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The events that may happen in a search, and how often.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Bounds {
    pub(crate) nodes: usize,
    /// The number of attempts of each client.
    pub(crate) attempts: [u8; CLIENTS],
    /// The counters of the nodes at the beginning.
    pub(crate) counters: [u8; NODES],
    /// How many connections break.
    pub(crate) breaks: u8,
    /// How many nodes lose their data, and are repaired.
    pub(crate) losses: u8,
    /// How many counters end.
    pub(crate) ends: u8,
    /// How many looks at floors one node leaves unanswered.
    pub(crate) deaf: u8,
}

/// A world to search: its states, and the moves in each.
pub(crate) trait Searched {
    type State: Copy;
    type Move: Copy + Debug;

    fn first(&mut self) -> Self::State;

    /// Writes the possible moves to `moves`.
    fn moves(&self, state: &Self::State, moves: &mut Vec<Self::Move>);

    /// Makes a move. Returns what is wrong afterwards, if anything is.
    fn go(&mut self, state: &mut Self::State, step: Self::Move) -> Option<String>;

    /// Returns the same number for states that continue alike.
    fn fingerprint(&self, state: &Self::State) -> u64;

    /// Returns how many histories of an engine were played, of how many kinds they are, and two of one kind that do not
    /// continue alike.
    fn played(&self) -> (usize, usize, Option<String>);
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found<M> {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// The number of moves of the longest path.
    pub(crate) depth: usize,
    pub(crate) played: (usize, usize, Option<String>),
    /// Whether there are no other states.
    pub(crate) all: bool,
    pub(crate) violation: Option<(Vec<M>, String)>,
}

/// Looks at all states until something is wrong, or until there are `most`.
pub(crate) fn search<W: Searched>(mut world: W, most: usize) -> Found<W::Move> {
    let first = world.first();
    let mut seen = HashSet::from([world.fingerprint(&first)]);
    // For each state, the one before it, and the move.
    let mut ways: Vec<(u32, Option<W::Move>)> = vec![(0, None)];
    let mut row = vec![first];
    let (mut steps, mut depth, mut violation, mut all) = (0, 0, None, true);
    let mut moves = Vec::new();
    while !row.is_empty() && all {
        let mut next = Vec::new();
        let begin = ways.len() - row.len();
        'row: for (at, state) in (begin..).zip(&row) {
            world.moves(state, &mut moves);
            for step in &moves {
                steps += 1;
                let mut after = *state;
                if let Some(wrong) = world.go(&mut after, *step) {
                    let way = way_to(&ways, at).into_iter().chain([*step]);
                    violation = Some((way.collect(), wrong));
                    all = false;
                    break 'row;
                }
                if !seen.insert(world.fingerprint(&after)) {
                    continue;
                }
                if ways.len() == most {
                    all = false;
                    break 'row;
                }
                ways.push((at as u32, Some(*step)));
                next.push(after);
            }
        }
        row = next;
        depth += usize::from(!row.is_empty());
    }
    Found {
        states: ways.len(),
        steps,
        depth,
        played: world.played(),
        all,
        violation,
    }
}

fn way_to<M: Copy>(ways: &[(u32, Option<M>)], mut at: usize) -> Vec<M> {
    let mut way = Vec::new();
    while let (before, Some(step)) = ways[at] {
        way.push(step);
        at = before as usize;
    }
    way.reverse();
    way
}

/// Searches a world, and prints the result.
fn look<W: Searched>(name: impl Debug, world: W, most: u64) -> Found<W::Move> {
    let begun = real_time();
    let found = search(world, most as usize);
    let seconds = begun.elapsed().as_secs_f64();
    let sizes = [found.states, found.steps, found.depth];
    let (played, all, violation) = (&found.played, found.all, &found.violation);
    say(&format!(
        "{name:?}: states, steps and depth {sizes:?}, {played:?}, all: {all}, {violation:?}, {seconds:.1} s"
    ));
    found
}

/// How many states of each world the ordinary run looks at.
const STATES_OF_ORDINARY_RUN: u64 = 3_000;

/// Asserts that nothing is wrong in worlds with these bounds. The long run looks at so many states of each: the first
/// number if it looks to the end, where there must be no others, and else the second. The variable `STATES` (more
/// states) serves runs by hand.
fn nothing_is_wrong<B: Copy + Debug, W: Searched>(
    all: impl IntoIterator<Item = (B, bool)>,
    world: impl Fn(B) -> W,
    states: [u64; 2],
) {
    for (bounds, to_the_end) in all {
        let long = states[usize::from(!to_the_end)];
        let most = number("STATES").unwrap_or(effort(STATES_OF_ORDINARY_RUN, long));
        let found = look(bounds, world(bounds), most);
        assert!(found.violation.is_none());
        assert_eq!(found.played.2, None, "histories of one kind");
        assert!(found.all || !to_the_end || most < long, "there are others");
    }
}

/// Asserts that each of these mutants makes something wrong in its world.
#[cfg(shearline_mutants)]
fn all_are_found<B: Copy + Debug, W: Searched>(mutants: &[(&str, B)], world: impl Fn(B) -> W) {
    let most = number("STATES").unwrap_or(1_000_000);
    let asked = mutants
        .iter()
        .filter(|(mutant, _)| mutations::tests::is_asked_for(mutant));
    let missed: Vec<_> = asked
        .filter(|(mutant, bounds)| {
            let _chosen = mutations::Chosen::new(Some(mutant));
            look((mutant, bounds), world(*bounds), most)
                .violation
                .is_none()
        })
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
