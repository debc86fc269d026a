//! Worlds in which locks have a delay: holders die, are cut off, hang, and hand locks over.

use crate::case::Kind;
use crate::clock::{MILLI, SECOND, Time};
use crate::entropy::Entropy;
use crate::faults::Fault::*;
use crate::kinds::kind;
use crate::plan::{Guard, Plan};

/// The delay, in milliseconds. It adds 200 to each ttl: oracles distinguish extensions by their ttl modulo four.
pub(crate) const DELAY: u64 = 198;

/// Keys live for longer than locks are valid.
pub(crate) const DELAYING: Kind = kind("delaying", |entropy| {
    let nodes = entropy.pick(&[3, 3, 5, 1]);
    let clients = 2 + entropy.below(5) as usize;
    Plan {
        nodes,
        servers: nodes,
        hosts: 1 + entropy.below(clients as u32) as usize,
        strangers: entropy.pick(&[0, 0, 1]),
        resources: 1 + entropy.below(2) as usize,
        lock_delay: DELAY,
        length: 5 * SECOND,
        server_drift: 4_900_000,
        client_drift: 4_900_000,
        delay_tail: entropy.pick(&[0, 0, 1]) * MILLI,
        shortest_ttl: 100,
        longest_ttl: entropy.pick(&[100, 300]),
        work: entropy.pick(&[5, 50, 200]) * MILLI,
        rest: entropy.pick(&[5, 50]) * MILLI,
        habits: [3, 1, 4, 1, 3, 1],
        keeps: entropy.pick(&[0, 500_000]),
        cancels: entropy.pick(&[0, 0, 50_000]),
        pause: entropy.pick(&[0, 0, 1_000]),
        longest_pause: 300 * MILLI,
        gap: entropy.pick(&[50, 200]) * MILLI,
        longest_fault: entropy.pick(&[50, 500]) * MILLI,
        faults: Plan::only(&[
            Kill, Partition, Stall, Reset, Suspend, Drift, Unload, Delete,
        ])
        .map(|weight| weight * entropy.below(4)),
        ..Plan::tame(clients)
    }
    .forgetting(entropy)
});

impl Plan {
    /// Lets servers forget their locks in two worlds of three. The clients know this, or the servers report it.
    pub(crate) fn forgetting(mut self, entropy: &mut Entropy) -> Self {
        match entropy.below(3) {
            1 => {
                self.guard = Guard::Observed;
                self.strangers = 0;
                self.faults[Amnesia as usize] = 2;
                self
            }
            2 => self.marked(entropy),
            _ => self,
        }
    }

    /// What the lock delay adds to each ttl on the nodes, in milliseconds.
    pub(crate) fn added(&self) -> u64 {
        (self.lock_delay * 100).div_ceil(99)
    }

    /// Returns the longest life of any key.
    pub(crate) fn max_life(&self) -> u64 {
        self.max_ttl() + self.added()
    }

    pub(crate) fn max_life_of(&self, client: usize) -> u64 {
        self.max_ttl_of(client) + self.added()
    }

    /// Returns what the lock delay adds, in true time.
    pub(crate) fn added_time(&self) -> Time {
        self.added() * MILLI
    }
}
