//! What kind of world it is: how many of everything, and how often what goes wrong.
//!
//! Everything is drawn anew for every world, and many rates are zero in many of them: worlds in
//! which all faults happen a little look alike, worlds in which few happen a lot do not.

use crate::clock::{MICRO, MILLI, SECOND, Time};
use crate::entropy::Entropy;
use crate::faults::{FAULTS, Fault};

/// The numbers of one world.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) hosts: usize,
    pub(crate) clients: usize,
    pub(crate) resources: usize,
    /// How long faults go on.
    pub(crate) length: Time,
    /// Whether exclusion has to hold throughout.
    pub(crate) covered: bool,

    /// Fast or slow by so many parts in a thousand million, at most.
    pub(crate) server_drift: u32,
    pub(crate) client_drift: u32,

    // Of links.
    pub(crate) delay: Time,
    pub(crate) delay_tail: Time,
    pub(crate) tear: u32,
    /// Bytes that a connection takes before a write is cut short.
    pub(crate) window: usize,

    // Of users.
    pub(crate) shortest_ttl: u64,
    pub(crate) longest_ttl: u64,
    pub(crate) work: Time,
    pub(crate) rest: Time,
    pub(crate) wait: Time,
    /// Weights of what a holder does next: release, drop, extend, hand over, overstay.
    pub(crate) habits: [u32; 5],
    pub(crate) cancels: u32,

    // Of processes.
    pub(crate) lag: Time,
    pub(crate) pause: u32,
    pub(crate) longest_pause: Time,

    // Faults.
    pub(crate) gap: Time,
    pub(crate) longest_fault: Time,
    /// Weights, in the order of [`FAULTS`].
    pub(crate) faults: [u32; FAULTS.len()],
    pub(crate) dead_after: u64,
    pub(crate) node_timeout: Option<u64>,
    /// Contenders that use another library.
    pub(crate) strangers: usize,

    pub(crate) switches: Switches,
}

/// What is otherwise than it should be: an assumption that does not hold, or a driver that does
/// wrong. Every one off is the world as it is meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switches {
    /// Exclusion has to hold whatever happens.
    pub(crate) no_excuses: bool,
    /// Only this oracle is listened to.
    pub(crate) only: Option<&'static str>,
    /// Every server's clock is as fast as it can be and every client's as slow.
    pub(crate) worst_clocks: bool,
    /// Clients read a clock that stops while the machine sleeps.
    pub(crate) monotonic: bool,
    /// How long a server that lost its memory stays away at least.
    pub(crate) restart_delay: Time,
}

impl Plan {
    /// Three nodes, and nothing goes wrong: what plans for a purpose begin with.
    pub(crate) fn tame(clients: usize) -> Self {
        Self {
            nodes: 3,
            hosts: clients,
            clients,
            resources: 1,
            length: 20 * SECOND,
            covered: true,
            server_drift: 0,
            client_drift: 0,
            delay: 50 * MICRO,
            delay_tail: 0,
            tear: 0,
            window: 1 << 20,
            shortest_ttl: 1_000,
            longest_ttl: 1_000,
            work: 20 * MILLI,
            rest: 20 * MILLI,
            wait: SECOND,
            habits: [4, 1, 1, 1, 1],
            cancels: 0,
            lag: 20 * MICRO,
            pause: 0,
            longest_pause: 0,
            gap: 300 * MILLI,
            longest_fault: 100 * MILLI,
            faults: [0; FAULTS.len()],
            dead_after: 2_000,
            node_timeout: None,
            strangers: 0,
            switches: Switches::default(),
        }
    }

    /// Five nodes, eight clients, sixty seconds; a little of all that is covered goes wrong.
    pub(crate) fn standard(_: &mut Entropy) -> Self {
        let faults = FAULTS.map(|fault| u32::from(fault.is_covered()));
        Self {
            nodes: 5,
            length: 60 * SECOND,
            delay_tail: MILLI,
            cancels: 50_000,
            server_drift: 4_000_000,
            client_drift: 4_000_000,
            faults,
            ..Self::tame(8)
        }
    }

    /// Only these faults.
    pub(crate) fn only(faults: &[Fault]) -> [u32; FAULTS.len()] {
        FAULTS.map(|fault| u32::from(faults.contains(&fault)))
    }

    pub(crate) fn draw(entropy: &mut Entropy) -> Self {
        let covered = entropy.below(4) != 3;
        let nodes = entropy.pick(&[3, 1, 2, 3, 3, 4, 5, 5, 7]);
        let clients = 1 + entropy.below(8) as usize;
        let hosts = 1 + entropy.below(clients as u32) as usize;
        let shortest_ttl = entropy.pick(&[200, 20, 50, 1_000]);
        let mut faults = [0; FAULTS.len()];
        for (weight, fault) in faults.iter_mut().zip(FAULTS) {
            let drawn = entropy.pick(&[0, 0, 1, 4]);
            *weight = if fault.is_covered() || !covered {
                drawn
            } else {
                0
            };
        }
        let drift = entropy.below(4_950) * 1_000;
        Self {
            nodes,
            hosts,
            clients,
            resources: 1 + entropy.below(3) as usize,
            length: entropy.pick(&[5, 2, 10, 20]) * SECOND,
            covered,
            server_drift: drift,
            client_drift: drift,
            delay: entropy.pick(&[50, 20, 200, 2_000]) * MICRO,
            delay_tail: entropy.pick(&[0, 0, 1, 10, 200]) * MILLI,
            tear: entropy.pick(&[0, 0, 50_000, 500_000]),
            window: entropy.pick(&[1 << 20, 1 << 16, 4096, 700]),
            shortest_ttl,
            longest_ttl: shortest_ttl * u64::from(entropy.pick(&[1_u32, 3, 10])),
            work: entropy.pick(&[5, 1, 50, 1_000]) * MILLI,
            rest: entropy.pick(&[20, 1, 200, 1_000]) * MILLI,
            wait: entropy.pick(&[200, 20, 1_000, 3_000]) * MILLI,
            habits: [4, 2, 2, 1, 1].map(|most| entropy.below(most * 4)),
            cancels: entropy.pick(&[0, 0, 50_000, 300_000]),
            lag: entropy.pick(&[20, 5, 100, 1_000]) * MICRO,
            pause: entropy.pick(&[0, 0, 1_000, 20_000]),
            longest_pause: entropy.pick(&[1, 20, 300, 3_000]) * MILLI,
            gap: entropy.pick(&[1_000, 20, 100, 300]) * MILLI,
            longest_fault: entropy.pick(&[100, 10, 1_000, 8_000]) * MILLI,
            faults,
            dead_after: entropy.pick(&[2_000, 200, 30_000]),
            node_timeout: entropy.pick(&[None, None, Some(5), Some(50)]),
            strangers: entropy.pick(&[0, 0, 1, 2]),
            switches: Switches::default(),
        }
    }

    /// By when everything that was begun has to be over, once nothing goes wrong any more.
    pub(crate) fn patience(&self) -> Time {
        const BACKOFF: Time = 2 * SECOND;
        const USER_TIMEOUT: Time = 5 * SECOND;
        let ttl = self.longest_ttl * MILLI;
        let waits = self.wait + self.dead_after * MILLI + BACKOFF + USER_TIMEOUT;
        ttl + ttl / 50 + waits + 2 * SECOND + 20 * self.delay_tail
    }
}
