//! Search: every order of events of a small world with fencing tokens, breadth first.
//!
//! Two engines, and three nodes or five, of which each is a store that runs the scripts. What happens next is chosen
//! in every way: a client begins an attempt and gives up the one before; a node runs the next command of a connection
//! when its key is still there or has ended, and its counter too, and its answer arrives or is lost with the
//! connection; a connection breaks with all that is on its way; a node loses its data, in a restart or by a `FLUSHALL`; and what was lost is repaired
//! by a handle that waits until every attempt from before the loss is over.
//!
//! * [`engine`]: what an engine does, by what it has heard.
//! * [`node`]: what a node does.
//! * [`repair`]: what the handle does that repairs.
//! * [`state`]: a state, what may happen in it, and what follows.
//!
//! No clock goes on, but that of the handle that repairs: a key ends when the search says so. A state that was seen
//! before is not looked at again.
//!
//! # Guarantees
//!
//! * Two states with the same fingerprint go on alike: [`engine`] and [`state`] say why. The clients are
//!   interchangeable if they make as many attempts, and so are nodes that began with the same counter.
//! * No token is reported twice, and none that is not above all that were reported when its attempt began.
//!
//! # Not here
//!
//! What has no part in tokens is done at once: handshakes, releases that nothing precedes, and reading what a node
//! has answered. What nobody could tell from an earlier or later time is done at one time: a key or a counter ends
//! just before the next command runs on its node, an attempt is given up when its client begins another, and a node
//! is marked when it has lost its data. Clocks, late answers, extensions, sets and quarantines are for the worlds of
//! [`fencing`](crate::fencing).

mod engine;
mod holders;
mod node;
mod repair;
mod state;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use shearline::{Config, RestartGuard};

use state::{Move, State, World};

/// How many nodes there are at most.
const NODES: usize = 5;

const CLIENTS: usize = 2;

const RESOURCE: &[u8] = b"r";
const COUNTER: &[u8] = b"shearline:fence:r";

/// Longer than any history.
const TTL: Duration = Duration::from_secs(3_600);

fn config(nodes: usize) -> Config {
    Config::builder()
        .nodes(
            ["node0", "node1", "node2", "node3", "node4"]
                .into_iter()
                .take(nodes),
        )
        .restart_guard(RestartGuard::Off)
        .watch_clocks(false)
        .node_timeout(Duration::from_secs(600))
        .dead_after(Duration::from_secs(600))
        .config()
        .expect("a valid configuration")
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What may happen in a search, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) nodes: usize,
    /// By client.
    pub(crate) attempts: [u8; CLIENTS],
    /// What the nodes have counted before.
    pub(crate) counters: [u8; NODES],
    /// Connections that break.
    pub(crate) breaks: u8,
    /// Nodes that lose their data, and are repaired.
    pub(crate) losses: u8,
    /// Counters that end.
    pub(crate) ends: u8,
    /// Looks at floors that one node does not answer.
    pub(crate) deaf: u8,
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// How many moves the longest way has.
    pub(crate) depth: usize,
    /// How many histories of an engine were played, and of how many kinds they are.
    pub(crate) played: usize,
    pub(crate) classes: usize,
    /// Two of one kind that do not go on alike.
    pub(crate) unlike: Option<String>,
    /// There are no others.
    pub(crate) all: bool,
    pub(crate) violation: Option<(Vec<Move>, String)>,
}

/// Looks at all states within the bounds, until there is one in which a token is wrong, or there are `most`.
pub(crate) fn search(bounds: Bounds, most: usize) -> Found {
    let mut world = World::new(bounds);
    let first = world.first();
    let mut seen = HashSet::from([world.fingerprint(&first)]);
    // By state: the one before it, and the move.
    let mut ways: Vec<(u32, u8)> = vec![(0, 0)];
    let mut row: Vec<State> = vec![first];
    let mut found = Found {
        states: 1,
        steps: 0,
        depth: 0,
        played: 0,
        classes: 0,
        unlike: None,
        all: true,
        violation: None,
    };
    let mut moves = Vec::new();
    while !row.is_empty() && found.all {
        let mut next = Vec::new();
        let begin = ways.len() - row.len();
        'row: for (at, state) in (begin..).zip(&row) {
            world.moves(state, &mut moves);
            for step in &moves {
                found.steps += 1;
                let mut after = *state;
                if let Some(wrong) = world.go(&mut after, *step) {
                    let way = way_to(&ways, at).into_iter().chain([step.to_byte()]);
                    found.violation = Some((way.map(Move::of_byte).collect(), wrong));
                    found.all = false;
                    break 'row;
                }
                if !seen.insert(world.fingerprint(&after)) {
                    continue;
                }
                if ways.len() == most {
                    found.all = false;
                    break 'row;
                }
                ways.push((at as u32, step.to_byte()));
                next.push(after);
            }
        }
        row = next;
        found.depth += usize::from(!row.is_empty());
    }
    found.states = ways.len();
    (found.played, found.classes, found.unlike) = world.played();
    found
}

fn way_to(ways: &[(u32, u8)], mut at: usize) -> Vec<u8> {
    let mut way = Vec::new();
    while at != 0 {
        let (before, step) = ways[at];
        way.push(step);
        at = before as usize;
    }
    way.reverse();
    way
}
