//! Small worlds with one purpose each, in which a rare coincidence is frequent.
//!
//! An ordinary world ([`ANY`](crate::case::ANY)) has a little of everything. Some breakages of the library show only if
//! several rare things coincide, and it takes hundreds of such worlds until an oracle notices them. This module has a
//! world for each such coincidence. `mutations` says which breakage each world is for; without a breakage, no oracle
//! objects to these worlds.

use crate::bare::{BARE, BARE_KEEPING, BARE_SETS, DOUBTED, DOUBTED_KEEPING};
use crate::case::Kind;
use crate::clock::{MICRO, MILLI, SECOND};
use crate::delaying::DELAYING;
use crate::entropy::Entropy;
use crate::faults::FAULTS;
use crate::faults::Fault::*;
use crate::fencing::{FENCED, FENCED_PERMITS, LEADERS};
use crate::plan::{Guard, Kinds, Members, Plan};
use crate::reading::{
    CLAIMANTS, GUARDED_PERMITS, GUARDED_SHARED, MIXED, PERMITS, READERS, SHARED, SLOW_READERS,
};
use crate::sets::{GUARDED_SETS, SETS};
use crate::theme;
use crate::watching::WATCHING;

/// How often the clients of most of these worlds inspect a resource: once in a hundred turns.
const FEW: u32 = 10_000;

/// All kinds that can be chosen by name; those that have tests elsewhere are the last.
pub(crate) const KINDS: [Kind; 40] = [
    ALONE,
    KEEPING,
    KEPT_LATER,
    STEPPED,
    CREPT,
    RAISED,
    CRAMPED,
    EXTENDED,
    INHERITED,
    FORGOTTEN,
    FLUSHED,
    STOPPED,
    ASLEEP,
    GIVEN_UP,
    CROWDED,
    RIVALS,
    DELAYING,
    SETS,
    GUARDED_SETS,
    SHARED,
    GUARDED_SHARED,
    READERS,
    SLOW_READERS,
    PERMITS,
    GUARDED_PERMITS,
    CLAIMANTS,
    MIXED,
    NARROW,
    INSPECTING,
    OUTAGES,
    DELETED,
    WATCHING,
    FENCED,
    LEADERS,
    FENCED_PERMITS,
    BARE,
    BARE_KEEPING,
    BARE_SETS,
    DOUBTED,
    DOUBTED_KEEPING,
];

pub(crate) const fn kind(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> Kind {
    Kind { name, draw }
}

/// Many users of few clients, in a build whose engines have hardly any room.
pub(crate) const NARROW: Kind = kind("narrow-bounds", |entropy| Plan {
    resources: 9,
    clients: 2,
    hosts: 1,
    rest: 50 * MILLI,
    ..Plan::draw(entropy)
});

/// One node, and silences that are longer than a lock that was not extended. All knowledge of a key's end comes from
/// this node.
pub(crate) const ALONE: Kind = kind("alone", |entropy| Plan {
    nodes: 1,
    servers: 1,
    guard: Guard::Off,
    members: Members::Alike,
    node_timeout: None,
    ..theme::away(Plan::draw(entropy), entropy)
});

/// Clients often ask who holds a resource.
pub(crate) const INSPECTING: Kind = kind("inspecting", |entropy| Plan {
    inspects: 100_000,
    ..Plan::draw(entropy)
});

/// Engines keep locks, which are held for longer than a ttl.
pub(crate) const KEEPING: Kind = kind("keeping", |entropy| {
    let plan = Plan::draw(entropy);
    let ttls = entropy.pick(&[2, 5, 1]);
    Plan {
        keeps: 700_000,
        alerts: 500_000,
        shortest_work: entropy.pick(&[0, 1]) * plan.longest_ttl * MILLI / 2,
        work: ttls * plan.longest_ttl * MILLI,
        rest: plan.rest.min(50 * MILLI),
        ..plan
    }
});

/// Engines keep locks that are held already, or were handed over. Users extend these locks too, before and meanwhile,
/// and hand them over again.
pub(crate) const KEPT_LATER: Kind = kind("kept-later", |entropy| {
    let plan = (KEEPING.draw)(entropy);
    Plan {
        keeps: entropy.pick(&[0, 300_000]),
        keeps_held: entropy.pick(&[300_000, 700_000]),
        hosts: entropy.pick(&[1, plan.hosts]),
        habits: [2, 1, 2, 3, 3, 1],
        ..plan
    }
});

/// Engines keep locks while single servers fail for about as long as a lock lives.
pub(crate) const OUTAGES: Kind = kind("outages", |entropy| {
    let ttl = entropy.pick(&[500, 200, 1_000]);
    Plan {
        nodes: entropy.pick(&[3, 5]),
        length: 5 * SECOND,
        delay: entropy.pick(&[50, 200]) * MICRO,
        keeps: 900_000,
        alerts: 500_000,
        shortest_ttl: ttl,
        shortest_work: ttl * MILLI,
        work: 8 * ttl * MILLI,
        rest: 5 * MILLI,
        habits: [2, 1, 1, 1, 3, 1],
        cancels: entropy.pick(&[0, 100_000]),
        faults: Plan::only(&[
            Reset, Dark, Partition, Stall, Restart, Unload, Mood, Pause, Slow, Drift,
        ])
        .map(|weight| weight * entropy.below(4)),
        server_drift: 2_000_000,
        client_drift: 2_000_000,
        shortest_fault: ttl / 4 * MILLI,
        longest_fault: ttl * MILLI,
        shortest_gap: entropy.pick(&[1, 4, 16]) * ttl * MILLI / 8,
        gap: entropy.pick(&[100, 300]) * MILLI,
        ..Plan::tame(1 + entropy.below(3) as usize)
    }
    .alike()
});

/// Other clients delete or replace the keys of kept locks on most nodes. These locks are valid for long.
pub(crate) const DELETED: Kind = kind("deleted", |entropy| {
    let nodes = entropy.pick(&[3, 5, 1]);
    Plan {
        nodes,
        servers: nodes,
        resources: 1 + entropy.below(3) as usize,
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Newest]),
        delay: entropy.pick(&[50, 200, 800]) * MICRO,
        keeps: 900_000,
        keeps_held: entropy.pick(&[0, 300_000]),
        alerts: 300_000,
        shortest_ttl: 3_000,
        longest_ttl: entropy.pick(&[10_000, 30_000]),
        shortest_work: 2 * SECOND,
        work: 6 * SECOND,
        wait: 5 * SECOND,
        habits: [4, 0, 1, 1, 0, 1],
        raids: true,
        faults: FAULTS.map(|fault| {
            let others = [Reset, Stall, Unload];
            match fault == Delete {
                true => 4,
                false if others.contains(&fault) => entropy.below(2),
                false => 0,
            }
        }),
        shortest_gap: SECOND,
        gap: 2 * SECOND,
        ..Plan::tame(1 + entropy.below(3) as usize)
    }
});

/// The clock of the only server is set forward, and its client looks at it.
pub(crate) const STEPPED: Kind = kind("stepped", |_| Plan {
    nodes: 1,
    servers: 1,
    guard: Guard::Observed,
    watch: true,
    covered: false,
    length: 4 * SECOND,
    shortest_ttl: 50,
    longest_ttl: 50,
    work: 5 * MILLI,
    rest: 5 * MILLI,
    inspects: FEW,
    habits: [1, 0, 0, 0, 0, 0],
    faults: Plan::only(&[Jump]),
    shortest_fault: 200 * MILLI,
    shortest_gap: 700 * MILLI,
    gap: 300 * MILLI,
    ..Plan::tame(1)
});

/// The clock of the only server is set forward again and again, each time by less than a client would notice.
pub(crate) const CREPT: Kind = kind("crept", |entropy| Plan {
    shortest_fault: 3 * MILLI,
    longest_fault: 4 * MILLI,
    shortest_gap: 250 * MILLI,
    gap: 100 * MILLI,
    ..(STEPPED.draw)(entropy)
});

/// A new client comes that knows of longer locks, and may not reach one of the two nodes.
pub(crate) const RAISED: Kind = kind("raised", |_| {
    let plan = Plan {
        nodes: 2,
        servers: 2,
        guard: Guard::Strict,
        members: Members::LongLater,
        trusted: true,
        length: 3 * SECOND,
        rest: 100 * MILLI,
        inspects: FEW,
        wait: 100 * MILLI,
        faults: Plan::only(&[Partition]).map(|weight| 9 * weight),
        // The first fault comes before that client.
        gap: 50 * MILLI,
        shortest_gap: 3 * SECOND,
        shortest_fault: 3 * SECOND,
        ..Plan::tame(2)
    };
    plan.with_members()
});

/// Connections take few bytes at a time, and calls are cancelled.
pub(crate) const CRAMPED: Kind = kind("cramped", |entropy| Plan {
    resources: 4,
    window: 40 + entropy.below(100) as usize,
    length: SECOND / 2,
    shortest_ttl: 50,
    longest_ttl: 200,
    work: 5 * MILLI,
    rest: 5 * MILLI,
    inspects: FEW,
    cancels: 200_000,
    second_thoughts: 100_000,
    faults: Plan::only(&[Stall, Slow]),
    gap: 100 * MILLI,
    ..Plan::tame(1)
});

/// Locks are extended, twice at once, and these calls are cancelled. Servers forget their scripts, and
/// connections do not take everything at once.
pub(crate) const EXTENDED: Kind = kind("extended", |entropy| Plan {
    resources: 4,
    hosts: 1,
    length: SECOND,
    delay_tail: entropy.pick(&[0, 10]) * MILLI,
    window: entropy.pick(&[1 << 20, 300]),
    shortest_ttl: 100,
    longest_ttl: 300,
    work: 10 * MILLI,
    rest: 5 * MILLI,
    habits: [1, 0, 6, 1, 2, 0],
    cancels: 500_000,
    second_thoughts: 100_000,
    faults: Plan::only(&[Unload]),
    gap: 10 * MILLI,
    ..Plan::tame(2)
});

/// Locks are handed over before all nodes have answered, and extended at once.
pub(crate) const INHERITED: Kind = kind("inherited", |_| Plan {
    hosts: 1,
    resources: 3,
    length: SECOND / 2,
    delay_tail: MILLI,
    work: 20 * MICRO,
    rest: 300 * MILLI,
    habits: [1, 0, 4, 4, 0, 0],
    ..Plan::tame(2)
});

/// Locks are handed over and extended, and servers forget theirs.
pub(crate) const FORGOTTEN: Kind = kind("forgotten", |_| Plan {
    guard: Guard::Observed,
    hosts: 1,
    length: 5 * SECOND,
    shortest_ttl: 400,
    longest_ttl: 500,
    resources: 4,
    work: 40 * MILLI,
    rest: 300 * MILLI,
    inspects: FEW,
    habits: [1, 0, 6, 2, 0, 0],
    faults: Plan::only(&[Amnesia]),
    longest_fault: 10 * MILLI,
    shortest_gap: 200 * MILLI,
    gap: SECOND,
    ..Plan::tame(2)
});

/// The only server loses its keys and its marker, and no connection ends.
pub(crate) const FLUSHED: Kind = kind("flushed", |_| Plan {
    nodes: 1,
    servers: 1,
    guard: Guard::Strict,
    length: 3 * SECOND,
    shortest_ttl: 100,
    longest_ttl: 200,
    work: 5 * MILLI,
    rest: 5 * MILLI,
    inspects: FEW,
    faults: Plan::only(&[Flush]),
    gap: SECOND,
    ..Plan::tame(2)
});

/// Clients are stopped at any point, for about as long as a lock lives.
pub(crate) const STOPPED: Kind = kind("stopped", |_| Plan {
    length: SECOND,
    shortest_ttl: 20,
    longest_ttl: 50,
    work: 5 * MILLI,
    rest: 5 * MILLI,
    inspects: FEW,
    pause: 50_000,
    longest_pause: 40 * MILLI,
    ..Plan::tame(2)
});

/// Machines are suspended for about as long as a lock lives.
pub(crate) const ASLEEP: Kind = kind("asleep", |_| Plan {
    length: 3 * SECOND,
    shortest_ttl: 100,
    longest_ttl: 300,
    rest: 5 * MILLI,
    habits: [1, 0, 1, 0, 2, 0],
    faults: Plan::only(&[Suspend]),
    shortest_fault: 100 * MILLI,
    longest_fault: 300 * MILLI,
    ..Plan::tame(2)
});

/// Connections are cut in one direction and given up, while short calls end.
pub(crate) const GIVEN_UP: Kind = kind("given-up", |entropy| Plan {
    delay_tail: MILLI,
    cancels: 300_000,
    node_timeout: Some(50),
    ..theme::severed(Plan::tame(3), entropy)
});

/// Many users of many clients want one resource, and foreign clients, operators and lost connections get
/// in their way.
pub(crate) const CROWDED: Kind = kind("crowded", |entropy| {
    let clients = 2 + entropy.below(31) as usize;
    Plan {
        clients,
        hosts: 1 + entropy.below(clients as u32) as usize,
        nodes: entropy.pick(&[3, 5, 1]),
        strangers: entropy.pick(&[0, 0, 1, 2]),
        users: 2 + entropy.below(7) as usize,
        faults: Plan::only(&[Reset, Unload, Delete, Expire, Flush, Push])
            .map(|weight| weight * entropy.below(3)),
        gap: entropy.pick(&[20, 100, 1_000]) * MILLI,
        length: SECOND,
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Mixed]),
        delay: entropy.pick(&[25, 50, 200, 800]) * MICRO,
        shortest_ttl: entropy.pick(&[1_000, 100, 20]),
        wait: entropy.pick(&[5_000, 300, 20]) * MILLI,
        cancels: entropy.pick(&[0, 0, 50_000]),
        ..contended(clients, 1)
    }
    .alike()
});

/// Many clients want one resource, and nothing else disturbs them.
pub(crate) const RIVALS: Kind = kind("rivals", |entropy| {
    let clients = 2 + entropy.below(15) as usize;
    Plan {
        hosts: 1 + entropy.below(clients as u32) as usize,
        nodes: entropy.pick(&[3, 5, 1]),
        length: 3 * SECOND,
        patient: true,
        kinds: entropy.pick(&[Kinds::Redis, Kinds::Valkey, Kinds::Mixed]),
        delay: entropy.pick(&[25, 50, 200, 800]) * MICRO,
        // A client that lets its lock expire, or hands it over, leaves it to others.
        habits: [8, 2, 0, 0, 0, 0],
        shortest_ttl: entropy.pick(&[300, 100]),
        ..contended(clients, 1 + entropy.below(8) as usize)
    }
    .alike()
});

/// This many users of this many clients want one resource all the time, and each holds it for a millisecond.
pub(crate) fn contended(clients: usize, users: usize) -> Plan {
    Plan {
        users,
        patient: false,
        shortest_work: 900 * MICRO,
        work: 200 * MICRO,
        rest: MICRO,
        wait: 20 * SECOND,
        habits: [8, 2, 0, 1, 1, 0],
        length: SECOND,
        ..Plan::tame(clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::effort;
    use crate::sweep::keep_their_promises;

    /// How many kinds have tests elsewhere: in `oracle`, `bare` and `fencing`. `NARROW` has one in `mutations`, because
    /// only a build with mutations has narrow bounds.
    const ELSEWHERE: usize = 13;

    #[test]
    fn kinds_for_one_purpose_keep_their_promises() {
        for kind in &KINDS[..KINDS.len() - ELSEWHERE] {
            keep_their_promises(*kind, effort(4, 40));
        }
    }
}
