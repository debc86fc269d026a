//! Themes: worlds in which one kind of trouble is pointed out.
//!
//! Half of all worlds are what [`Plan::draw`] makes of them. The others have a theme: of a few
//! numbers that only together lead somewhere, and hardly ever meet by chance, all are chosen. What
//! a theme does not name stays as it was drawn, and every theme is covered.
//!
//! # Not here
//!
//! How often the themes are found in the worlds of assumptions and of the standard: never.

use crate::clock::{MICRO, MILLI, SECOND};
use crate::entropy::Entropy;
use crate::faults::Fault;
use crate::plan::Plan;

/// What a world is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Theme {
    /// Nothing in particular.
    None,
    /// Locks go from hand to hand while one way of a connection is cut: a `SET` that is on its way
    /// arrives when its lock is over, perhaps after its connection.
    Severed,
    /// Servers are away for longer than a lock lives, unless it was extended.
    Away,
    /// Servers stand still for longer than a lock lives, and execute what they had received.
    Asleep,
    /// Servers do what they deny, and for less time than a lock lives.
    Doubted,
    /// Who extends its lock thinks better of it, and holds it to its end all the same.
    Fickle,
    /// One client has many users with long names, and a node does not read.
    Crowded,
}

const THEMES: [Theme; 24] = {
    let mut themes = [Theme::None; 24];
    themes[12] = Theme::Severed;
    themes[13] = Theme::Severed;
    themes[14] = Theme::Severed;
    themes[15] = Theme::Away;
    themes[16] = Theme::Away;
    themes[17] = Theme::Away;
    themes[18] = Theme::Asleep;
    themes[19] = Theme::Asleep;
    themes[20] = Theme::Doubted;
    themes[21] = Theme::Fickle;
    themes[22] = Theme::Fickle;
    themes[23] = Theme::Crowded;
    themes
};

/// The numbers of a plan as a theme has them, if one is drawn.
pub(crate) fn bend(plan: Plan, entropy: &mut Entropy) -> Plan {
    match entropy.pick(&THEMES) {
        Theme::None => plan,
        Theme::Severed => severed(plan, entropy),
        Theme::Away => away(plan, entropy),
        Theme::Asleep => asleep(plan),
        Theme::Doubted => doubted(plan),
        Theme::Fickle => fickle(plan),
        Theme::Crowded => crowded(plan),
    }
}

/// Locks of which whatever is left behind is there for long enough to be seen.
fn visible(plan: Plan) -> Plan {
    Plan {
        nodes: plan.nodes.min(5),
        servers: plan.servers.min(5),
        losses: 0,
        clients: plan.clients.min(3),
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

fn severed(plan: Plan, entropy: &mut Entropy) -> Plan {
    Plan {
        hosts: 1,
        habits: [2, 1, 1, 4, 0],
        dead_after: entropy.pick(&[2_000, 200]),
        faults: Plan::only(&[Fault::Partition]),
        shortest_fault: 300 * MILLI,
        longest_fault: 300 * MILLI,
        gap: 100 * MILLI,
        ..visible(plan)
    }
}

fn away(plan: Plan, entropy: &mut Entropy) -> Plan {
    let longest = entropy.pick(&[100, 1_000]);
    Plan {
        shortest_ttl: 200,
        extremes: true,
        habits: [2, 1, 4, 0, 0],
        extensions: None,
        dead_after: 200,
        faults: Plan::only(&[Fault::Restart, Fault::Partition]),
        shortest_fault: 300 * MILLI,
        longest_fault: longest * MILLI,
        gap: 300 * MILLI,
        ..visible(plan)
    }
}

fn asleep(plan: Plan) -> Plan {
    Plan {
        shortest_ttl: 1_500,
        longest_ttl: 1_500,
        dead_after: 200,
        faults: Plan::only(&[Fault::Stall, Fault::Stall, Fault::Reset]),
        shortest_fault: 1_600 * MILLI,
        longest_fault: 400 * MILLI,
        gap: SECOND,
        ..visible(plan)
    }
}

fn doubted(plan: Plan) -> Plan {
    Plan {
        faults: Plan::only(&[Fault::Mood]),
        longest_fault: SECOND,
        gap: 100 * MILLI,
        ..visible(plan)
    }
}

fn fickle(plan: Plan) -> Plan {
    Plan {
        shortest_ttl: 200,
        longest_ttl: 1_000,
        habits: [1, 0, 4, 0, 2],
        extensions: None,
        second_thoughts: 300_000,
        length: 3 * SECOND,
        ..visible(plan)
    }
}

fn crowded(plan: Plan) -> Plan {
    Plan {
        nodes: 3,
        servers: 3,
        losses: 0,
        hosts: 1,
        clients: 1,
        strangers: 0,
        resources: 9,
        name_len: 1_024,
        length: 3 * SECOND,
        delay: 200 * MICRO,
        delay_tail: 0,
        window: 1 << 16,
        habits: [1, 1, 0, 0, 0],
        cancels: 0,
        shortest_ttl: 1_000,
        longest_ttl: 1_000,
        work: MILLI,
        rest: 16 * MILLI,
        dead_after: 30_000,
        node_timeout: Some(20_000),
        faults: Plan::only(&[Fault::Stall]),
        shortest_fault: 2_400 * MILLI,
        longest_fault: 100 * MILLI,
        gap: 500 * MILLI,
        ..visible(plan)
    }
}
