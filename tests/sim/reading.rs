//! Worlds with shared locks and permits, and with exclusive locks of the same names and locks of strangers.
//!
//! For each call, a user draws the kind of lock that it wants. Some holders downgrade an exclusive lock to a shared
//! lock. `oracle::holders` judges what nodes keep. The other oracles judge a shared lock like any other: that it has
//! its votes, that no other user holds the exclusive lock meanwhile, and that nothing is left of it.

use crate::case::Kind;
use crate::clock::{MICRO, MILLI, SECOND};
use crate::delaying::DELAY;
use crate::entropy::Entropy;
use crate::faults::Fault::*;
use crate::kinds::{contended, kind};
use crate::plan::{Kinds, Plan};

/// Readers and writers of few names. In some worlds several users of one client want the same name; these extend
/// nothing, because it is not known then which command is for which of them.
pub(crate) const SHARED: Kind = kind("shared", |entropy| {
    let nodes = entropy.pick(&[3, 3, 5, 4, 1]);
    let clients = 1 + entropy.below(5) as usize;
    let users = entropy.pick(&[1, 1, 2, 4]);
    let shortest_ttl = entropy.pick(&[100, 300, 1_000]);
    Plan {
        nodes,
        servers: nodes,
        hosts: 1 + entropy.below(clients as u32) as usize,
        strangers: entropy.pick(&[0, 0, 1]),
        resources: 1 + entropy.below(2) as usize,
        users,
        shared: entropy.pick(&[500_000, 800_000, 200_000]),
        downgrades: entropy.pick(&[0, 300_000]),
        ..busy(entropy, clients, users, shortest_ttl, true)
    }
});

/// Makes users take, extend, keep and hand over locks for three seconds, while much happens. The rest of the world was
/// drawn before.
pub(crate) fn busy(
    entropy: &mut Entropy,
    clients: usize,
    users: usize,
    shortest_ttl: u64,
    clocks_step: bool,
) -> Plan {
    let alone = users == 1;
    let mut plan = Plan {
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Newest, Kinds::Mixed]),
        length: 3 * SECOND,
        server_drift: entropy.pick(&[0, 4_000_000]),
        client_drift: entropy.pick(&[0, 4_000_000]),
        delay: entropy.pick(&[50, 20, 500]) * MICRO,
        delay_tail: entropy.pick(&[0, 0, 1, 10]) * MILLI,
        node_timeout: entropy.pick(&[None, None, Some(50)]),
        shortest_ttl,
        longest_ttl: shortest_ttl * entropy.pick(&[1, 3]),
        work: entropy.pick(&[5, 50]) * MILLI,
        rest: entropy.pick(&[5, 50]) * MILLI,
        wait: entropy.pick(&[300, 20, 1_000]) * MILLI,
        habits: match alone {
            true => [4, 1, 2, 1, 1, 1],
            false => [8, 2, 0, 1, 1, 0],
        },
        keeps: match alone {
            true => entropy.pick(&[0, 0, 500_000]),
            false => 0,
        },
        cancels: entropy.pick(&[0, 50_000, 300_000]),
        second_thoughts: entropy.pick(&[0, 0, 100_000]),
        pause: entropy.pick(&[0, 0, 1_000]),
        longest_pause: 100 * MILLI,
        gap: entropy.pick(&[1_000, 100, 300]) * MILLI,
        longest_fault: entropy.pick(&[100, 10, 500]) * MILLI,
        faults: Plan::only(&[
            Reset, Dark, Partition, Stall, Slow, Pause, Restart, Unload, Mood, Kill, Suspend,
            Drift, Jump, Delete, Expire,
        ])
        .map(|weight| weight * entropy.pick(&[0, 0, 1, 2])),
        ..Plan::tame(clients)
    };
    if !clocks_step {
        plan.faults[Drift as usize] = 0;
        plan.faults[Jump as usize] = 0;
    }
    plan
}

/// Gives some worlds a lock delay, and lets engines keep locks, also such that are held already or were handed over.
pub(crate) fn guarded(entropy: &mut Entropy, plan: Plan) -> Plan {
    let alone = u32::from(plan.users == 1);
    Plan {
        lock_delay: entropy.pick(&[0, DELAY]),
        keeps: alone * entropy.pick(&[0, 500_000]),
        keeps_held: alone * entropy.pick(&[0, 500_000]),
        alerts: 300_000,
        ..plan
    }
}

/// Worlds like [`SHARED`] in which locks have a delay, or servers forget and clients know that, or the servers say so;
/// in every fourth world none of these. Engines keep locks, also such that are held already or were handed over.
pub(crate) const GUARDED_SHARED: Kind = kind("guarded-shared", |entropy| {
    let plan = (SHARED.draw)(entropy);
    let plan = guarded(entropy, plan);
    // Clocks that drift apart look stepped.
    let still = plan.server_drift == 0 && plan.client_drift == 0;
    Plan {
        watch: still && entropy.pick(&[false, true]),
        ..plan
    }
    .forgetting(entropy)
});

/// Many readers and writers want one resource all the time, and nothing else disturbs them.
pub(crate) const READERS: Kind = kind("readers", |entropy| {
    let clients = 1 + entropy.below(6) as usize;
    Plan {
        hosts: 1 + entropy.below(clients as u32) as usize,
        nodes: entropy.pick(&[3, 5, 1]),
        shared: entropy.pick(&[500_000, 900_000, 100_000]),
        // Longer than any user may wait.
        length: 7 * SECOND,
        patient: true,
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Mixed]),
        delay: entropy.pick(&[25, 50, 200, 800]) * MICRO,
        shortest_work: entropy.pick(&[1, 10, 50]) * MILLI,
        habits: [8, 2, 0, 0, 0, 0],
        shortest_ttl: entropy.pick(&[300, 1_000]),
        ..contended(clients, 1 + entropy.below(6) as usize)
    }
    .alike()
});

/// Readers come all the time, and hold the lock for almost two seconds, or for longer than the history lasts. One user
/// is a writer.
pub(crate) const SLOW_READERS: Kind = kind("slow-readers", |entropy| {
    let plan = (READERS.draw)(entropy);
    let clients = plan.clients.max(2);
    Plan {
        clients,
        hosts: 1 + entropy.below(clients as u32) as usize,
        reads_for: entropy.pick(&[1_950, 30_000]) * MILLI,
        rest: 600 * MILLI,
        shortest_ttl: 40_000,
        longest_ttl: 40_000,
        ..plan
    }
});

/// Permits of few names, one to four of each.
pub(crate) const PERMITS: Kind = kind("permits", |entropy| {
    let plan = (SHARED.draw)(entropy);
    let plan = of_permits(entropy, plan);
    Plan {
        other_permits: entropy.pick(&[false, false, true]),
        ..plan
    }
});

fn of_permits(entropy: &mut Entropy, plan: Plan) -> Plan {
    Plan {
        shared: 0,
        downgrades: 0,
        permits: (
            entropy.pick(&[1_000_000, 700_000]),
            entropy.pick(&[2, 1, 3, 4]),
        ),
        ..plan
    }
}

/// Worlds like [`PERMITS`] in which locks have a delay, or servers forget, as in [`GUARDED_SHARED`].
pub(crate) const GUARDED_PERMITS: Kind = kind("guarded-permits", |entropy| {
    let plan = (GUARDED_SHARED.draw)(entropy);
    of_permits(entropy, plan)
});

/// Many users want permits of one resource all the time, and nothing else disturbs them.
pub(crate) const CLAIMANTS: Kind = kind("claimants", |entropy| Plan {
    length: 4 * SECOND,
    shared: 0,
    permits: (1_000_000, entropy.pick(&[2, 3, 1, 4])),
    ..(READERS.draw)(entropy)
});

/// Locks on one resource and on several, shared ones and permits, of the same names.
pub(crate) const MIXED: Kind = kind("mixed", |entropy| {
    let plan = (SHARED.draw)(entropy);
    Plan {
        resources: 2 + entropy.below(3) as usize + 1,
        sets: 1,
        shared: 300_000,
        permits: (300_000, entropy.pick(&[2, 1, 3])),
        ..plan
    }
});
