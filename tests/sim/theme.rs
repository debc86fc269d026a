//! Themes: worlds that concentrate on one kind of trouble.
//!
//! One world in four is as [`Plan::draw`] draws it, and one in ten is so except that its servers carry markers. The
//! others have a theme, which chooses some numbers that have an effect only together and hardly ever occur together by
//! chance. Other numbers stay as they were drawn. The calmest choice is no theme, and in every theme exclusion has to
//! hold throughout.
//!
//! # What they do not show
//!
//! Combinations of themes: a world has one. Themes have no strangers and no faults that exclusion
//! does not survive; the other worlds have both.

use crate::clock::{MICRO, MILLI, SECOND};
use crate::entropy::Entropy;
use crate::faults::Fault::*;
use crate::plan::{Guard, Members, Plan};

/// Sets the numbers of a plan for a theme.
type Theme = fn(Plan, &mut Entropy) -> Plan;

/// How many of [`WORLDS`] have each theme. The costly ones are rare.
const THEMES: [(Theme, u32); 10] = [
    (severed, 9),
    (away, 5),
    (asleep, 8),
    (doubted, 2),
    (fickle, 6),
    (crowded, 1),
    (forgetful, 4),
    (twins, 2),
    // The plan as it was drawn, with servers that carry markers.
    (Plan::marked, 6),
    (flushed, 4),
];
const WORLDS: u32 = 64;

/// Sets the numbers of a plan for a theme, if one is drawn.
pub(crate) fn bend(plan: Plan, entropy: &mut Entropy) -> Plan {
    let mut drawn = WORLDS - 1 - entropy.below(WORLDS);
    let theme = THEMES.iter().find(|(_, worlds)| {
        let here = drawn < *worlds;
        drawn = drawn.wrapping_sub(*worlds);
        here
    });
    match theme {
        None => plan.guarded(entropy),
        Some((theme, _)) => theme(plan, entropy),
    }
}

/// Returns the plan with locks that are long enough for leftover keys to be noticed.
fn visible(plan: Plan) -> Plan {
    let nodes = plan.nodes.clamp(3, 5);
    Plan {
        nodes,
        servers: nodes,
        losses: 0,
        clients: plan.clients.clamp(2, 3),
        hosts: 1,
        strangers: 0,
        covered: true,
        length: 5 * SECOND,
        shortest_ttl: 5_000,
        longest_ttl: 5_000,
        work: 20 * MILLI,
        rest: 60 * MILLI,
        ..plan
    }
}

/// Locks are handed over often while one direction of a connection is cut: a `SET` on its way
/// arrives when its lock is over, perhaps after its connection.
pub(crate) fn severed(plan: Plan, entropy: &mut Entropy) -> Plan {
    Plan {
        hosts: 1,
        habits: [1, 0, 0, 4, 0, 1],
        dead_after: entropy.pick(&[2_000, 200]),
        faults: Plan::only(&[Partition]),
        shortest_fault: 300 * MILLI,
        longest_fault: 300 * MILLI,
        shortest_gap: 150 * MILLI,
        gap: 50 * MILLI,
        ..visible(plan)
    }
}

/// Servers are away for longer than the life of a lock that was not extended.
pub(crate) fn away(plan: Plan, entropy: &mut Entropy) -> Plan {
    let longest = entropy.pick(&[100, 1_000]);
    Plan {
        shortest_ttl: 200,
        extremes: true,
        habits: [2, 1, 4, 0, 0, 1],
        extensions: None,
        dead_after: 200,
        faults: Plan::only(&[Restart, Partition]),
        shortest_fault: 300 * MILLI,
        longest_fault: longest * MILLI,
        shortest_gap: 200 * MILLI,
        gap: 300 * MILLI,
        ..visible(plan)
    }
}

/// Servers stand still for longer than a lock lives, and then execute what they had received.
fn asleep(plan: Plan, _: &mut Entropy) -> Plan {
    Plan {
        shortest_ttl: 1_500,
        longest_ttl: 1_500,
        dead_after: 200,
        faults: Plan::only(&[Stall, Reset]),
        shortest_fault: 1_600 * MILLI,
        longest_fault: 400 * MILLI,
        shortest_gap: 500 * MILLI,
        gap: SECOND,
        ..visible(plan)
    }
}

/// Servers execute commands that they refuse, for less time than a lock lives.
fn doubted(plan: Plan, _: &mut Entropy) -> Plan {
    Plan {
        faults: Plan::only(&[Mood]),
        longest_fault: SECOND,
        gap: 100 * MILLI,
        ..visible(plan)
    }
}

/// Users cancel extensions, and still hold the lock to its end.
fn fickle(plan: Plan, _: &mut Entropy) -> Plan {
    Plan {
        shortest_ttl: 100,
        longest_ttl: 200,
        work: 200 * MILLI,
        habits: [1, 0, 2, 0, 2, 1],
        extensions: None,
        second_thoughts: 300_000,
        length: 3 * SECOND,
        ..visible(plan)
    }
}

/// Servers forget their votes while clients cannot reach them, and locks last longer than that.
fn forgetful(plan: Plan, _: &mut Entropy) -> Plan {
    Plan {
        guard: Guard::Observed,
        shortest_ttl: 300,
        longest_ttl: 1_000,
        habits: [1, 0, 6, 1, 1, 1],
        extensions: None,
        work: 100 * MILLI,
        dead_after: 200,
        faults: Plan::only(&[Amnesia, Partition, Kill, Reset, Mood]),
        longest_fault: 2 * SECOND,
        shortest_gap: 100 * MILLI,
        gap: 700 * MILLI,
        ..visible(plan)
    }
}

/// A server is configured twice, says that it may forget, and does.
fn twins(plan: Plan, entropy: &mut Entropy) -> Plan {
    let plan = forgetful(plan, entropy);
    Plan {
        servers: plan.nodes - 1,
        faults: Plan::only(&[Amnesia, Reset, Mood, Partition]).map(|weight| 2 * weight),
        longest_fault: SECOND,
        gap: 300 * MILLI,
        ..plan
    }
}

/// Servers that carry markers forget and keep their connections, while locks are held to their end.
fn flushed(plan: Plan, entropy: &mut Entropy) -> Plan {
    let plan = visible(plan).marked(entropy);
    // If a client belongs to another group, no server forgets.
    let members = match plan.members {
        Members::OtherName | Members::OtherNodes => Members::ShortLater,
        Members::Alike | Members::ShortLater | Members::LongLater => plan.members,
    };
    let forgets = Plan::only(&[Amnesia, Flush, Promote, Follow, Unmark, Trust]);
    let others = Plan::only(&[Partition, Kill, Unload]);
    let plan = Plan {
        shortest_ttl: 300,
        longest_ttl: 1_000,
        habits: [1, 0, 4, 1, 2, 1],
        extensions: None,
        work: 100 * MILLI,
        dead_after: 200,
        faults: std::array::from_fn(|fault| 2 * forgets[fault] + others[fault]),
        members,
        longest_fault: 200 * MILLI,
        shortest_gap: 100 * MILLI,
        gap: 700 * MILLI,
        ..plan
    };
    match members == Members::Alike {
        true => plan,
        false => apart(plan),
    }
    .with_members()
}

/// Returns the plan with some clients that know of longer locks than others, and are often away for longer than those
/// last.
fn apart(plan: Plan) -> Plan {
    let mut faults = plan.faults;
    faults[Kill as usize] = 12;
    Plan {
        faults,
        shortest_fault: 500 * MILLI,
        longest_fault: 2 * SECOND,
        gap: 200 * MILLI,
        clients: 2,
        length: 10 * SECOND,
        ..plan
    }
}

/// One client has many users, all of whose commands to one node are lost on their way.
fn crowded(plan: Plan, _: &mut Entropy) -> Plan {
    Plan {
        nodes: 3,
        servers: 3,
        losses: 0,
        hosts: 1,
        clients: 1,
        strangers: 0,
        resources: 9,
        length: 3_500 * MILLI,
        pause: 0,
        lag: 5 * MICRO,
        delay: 50 * MICRO,
        delay_tail: 0,
        tear: 0,
        window: 16 << 20,
        habits: [1, 1, 0, 0, 0, 1],
        cancels: 0,
        shortest_ttl: 1_000,
        longest_ttl: 1_000,
        work: MILLI,
        rest: 12 * MILLI,
        dead_after: 30_000,
        node_timeout: Some(20_000),
        faults: Plan::only(&[Dark]).map(|weight| 20 * weight),
        shortest_gap: 5 * SECOND,
        gap: 20 * MILLI,
        ..visible(plan)
    }
}
