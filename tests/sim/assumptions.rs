//! What the algorithm assumes of the world, in pairs: where an assumption just holds nothing may be
//! found, and where it just does not, two holders must be.
//!
//! Only exclusion is listened to here, and nothing excuses it. So each pair shows that the promise
//! rests on this assumption, and that the oracle would see it fall.

use crate::case::Kind;
use crate::clock::{MILLI, SECOND};
use crate::entropy::Entropy;
use crate::faults::Fault;
use crate::plan::{Guard, Members, Plan, Switches};

/// A world in which one assumption is put to the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumption {
    pub(crate) kind: Kind,
    pub(crate) holds: bool,
}

/// Histories in which nothing is found where an assumption holds.
const HOLDS_SEEDS: u64 = 40;

/// Histories within which two holders are found where it does not.
const FALLS_SEEDS: u64 = 20;

/// Servers that forget, and from some time on do not say who they are: to clients that have met all
/// of them before.
pub(crate) const UNREADABLE: Kind = Kind {
    name: "restart-unreadable",
    draw: |entropy| {
        let mut plan = guarded(entropy, Guard::Observed, &[Fault::Amnesia]);
        plan.switches.secretive_from = 500 * MILLI;
        plan
    },
};

const fn holds(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> Assumption {
    Assumption {
        kind: Kind { name, draw },
        holds: true,
    }
}

const fn falls(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> Assumption {
    Assumption {
        kind: Kind { name, draw },
        holds: false,
    }
}

pub(crate) const ASSUMPTIONS: [Assumption; 28] = [
    // Servers fast and clients slow, by as much as the drift takes off a validity.
    holds("drift-just-inside", |entropy| drift(entropy, 5_025_000)),
    // By 0.1 % more.
    falls("drift-just-outside", |entropy| drift(entropy, 5_530_000)),
    // A server that starts again has all its keys: every write was on disk.
    holds("restart-with-memory", |entropy| {
        faulty(entropy, Fault::Restart, 50)
    }),
    // Or has not, and votes at once. This is the known hole of the algorithm.
    falls("restart-without-memory", |entropy| {
        faulty(entropy, Fault::Amnesia, 50)
    }),
    // Or stays away until every lock that it may have forgotten is over.
    holds("restart-after-ttl", |entropy| restart(entropy, 1_012)),
    falls("restart-before-ttl", |entropy| restart(entropy, 850)),
    // Or its clients keep it from voting until then: they see that it is another.
    holds("restart-guarded", |entropy| {
        guarded(entropy, Guard::Observed, &[Fault::Amnesia])
    }),
    // Who comes anew has not seen who it was before, and has to know the longest ttl of all.
    falls("restart-newcomers-untold", |entropy| {
        guarded(entropy, Guard::Untold, &[Fault::Amnesia, Fault::Kill])
    }),
    holds("restart-guarded-newcomers", |entropy| {
        guarded(entropy, Guard::Observed, &[Fault::Amnesia, Fault::Kill])
    }),
    // Who does not say any more who it is may be another.
    holds(UNREADABLE.name, UNREADABLE.draw),
    // A server is flushed, and no connection breaks: only the server itself can tell.
    falls("flushed-observed", |entropy| {
        guarded(entropy, Guard::Observed, &[Fault::Flush])
    }),
    holds("flushed-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Fault::Flush])
    }),
    // A replica that is behind takes the place of its master, and has been up for long.
    falls("promoted-observed", |entropy| {
        guarded(entropy, Guard::Observed, &[Fault::Promote, Fault::Kill])
    }),
    holds("promoted-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Fault::Promote, Fault::Kill])
    }),
    // A master follows another, and is master again before anybody asks it.
    falls("followed-observed", |entropy| {
        follow(entropy, Guard::Observed)
    }),
    holds("followed-strict", |entropy| follow(entropy, Guard::Strict)),
    holds("restart-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Fault::Amnesia, Fault::Kill])
    }),
    // Somebody deletes what keeps a server from voting that was flushed.
    falls("barrier-deleted", unbarred),
    // Some have longer locks than others know of: the others have to know before they begin.
    holds("shorter-ttl-later", |entropy| {
        with(entropy, Members::ShortLater)
    }),
    // Some name other nodes, and the nodes that both name forget whose they are.
    holds("other-nodes", |entropy| {
        let plan = with(entropy, Members::OtherNodes);
        Plan {
            faults: Plan::only(&[Fault::Flush]),
            ..plan
        }
    }),
    // The machine of a holder sleeps, and its clock does not.
    holds("suspended-boottime", |entropy| {
        faulty(entropy, Fault::Suspend, 3_000)
    }),
    // Or does: `CLOCK_MONOTONIC`, and so `std::time::Instant`.
    falls("suspended-monotonic", monotonic),
    // A virtual machine stands still with all its clocks: no clock helps.
    falls("frozen-with-its-clock", |entropy| {
        faulty(entropy, Fault::Freeze, 3_000)
    }),
    // A server stands still and its clock does not.
    holds("server-stopped", |entropy| {
        faulty(entropy, Fault::Stall, 3_000)
    }),
    // The clock of a server is set forward: keys are gone early.
    falls("server-clock-jumps", |entropy| {
        faulty(entropy, Fault::Jump, 3_000)
    }),
    // Somebody deletes a key that is held, or lets it expire.
    falls("key-deleted", |entropy| operated(entropy, Fault::Delete)),
    falls("key-expired", |entropy| operated(entropy, Fault::Expire)),
    // Whatever a network does.
    holds("network-faulty", network),
];

/// Two to four clients, each on its machine, who hold their lock as long as it lasts, more often
/// than not.
fn contended(entropy: &mut Entropy) -> Plan {
    let clients = 2 + entropy.below(3) as usize;
    Plan {
        habits: [1, 0, 1, 0, 3, 1],
        rest: 300 * MILLI,
        switches: Switches {
            no_excuses: true,
            only: Some("exclusion"),
            ..Switches::default()
        },
        ..Plan::tame(clients)
    }
}

/// Long locks: there a small error of the clocks is longer than the fixed part of the drift.
fn drift(entropy: &mut Entropy, fast: u32) -> Plan {
    let mut plan = Plan {
        server_drift: fast,
        client_drift: fast,
        shortest_ttl: 30_000,
        longest_ttl: 30_000,
        work: SECOND,
        length: 300 * SECOND,
        habits: [0, 1, 0, 0, 9, 1],
        ..contended(entropy)
    };
    plan.switches.worst_clocks = true;
    plan
}

/// One kind of fault, often, for at most so many milliseconds.
fn faulty(entropy: &mut Entropy, fault: Fault, longest: u64) -> Plan {
    Plan {
        faults: Plan::only(&[fault]),
        longest_fault: longest * MILLI,
        ..contended(entropy)
    }
}

/// Servers that forget everything and stay away for so many milliseconds, where locks last for a
/// thousand.
fn restart(entropy: &mut Entropy, delay: u64) -> Plan {
    let mut plan = faulty(entropy, Fault::Amnesia, 50);
    plan.switches.restart_delay = delay * MILLI;
    plan.gap = SECOND;
    plan
}

/// Servers that forget everything and are back at once, where clients keep them from voting. The
/// faults are rare enough that a majority votes now and then.
fn guarded(entropy: &mut Entropy, guard: Guard, faults: &[Fault]) -> Plan {
    Plan {
        guard,
        faults: Plan::only(faults),
        gap: SECOND,
        ..contended(entropy)
    }
}

/// The longest faults of these are so short that hardly anybody asks in between.
fn follow(entropy: &mut Entropy, guard: Guard) -> Plan {
    Plan {
        longest_fault: MILLI,
        ..guarded(entropy, guard, &[Fault::Follow])
    }
}

/// Servers that are flushed where not all clients say the same.
fn with(entropy: &mut Entropy, members: Members) -> Plan {
    let faults = [Fault::Flush, Fault::Partition, Fault::Kill];
    Plan {
        members,
        shortest_ttl: 300,
        longest_fault: SECOND,
        ..guarded(entropy, Guard::Strict, &faults)
    }
    .with_members()
}

/// Barriers are deleted far more often than servers are flushed.
fn unbarred(entropy: &mut Entropy) -> Plan {
    let mut plan = guarded(entropy, Guard::Strict, &[Fault::Flush, Fault::Unbar]);
    plan.faults[Fault::Unbar as usize] = 20;
    Plan {
        gap: 100 * MILLI,
        ..plan
    }
}

fn monotonic(entropy: &mut Entropy) -> Plan {
    let mut plan = faulty(entropy, Fault::Suspend, 3_000);
    plan.switches.monotonic = true;
    plan
}

/// One hand on one key is not enough against a majority: the gap is short.
fn operated(entropy: &mut Entropy, fault: Fault) -> Plan {
    Plan {
        gap: 50 * MILLI,
        ..faulty(entropy, fault, 50)
    }
}

fn network(entropy: &mut Entropy) -> Plan {
    Plan {
        faults: Plan::only(&[Fault::Reset, Fault::Dark, Fault::Partition]),
        longest_fault: 3 * SECOND,
        delay_tail: 200 * MILLI,
        tear: 50_000,
        ..contended(entropy)
    }
}

#[test]
fn exclusion_rests_on_its_assumptions() {
    let _none = crate::mutations::Chosen::new(None);
    use crate::sweep::{Until, say, sweep};
    let mut wrong = Vec::new();
    for Assumption { kind, holds } in ASSUMPTIONS {
        let seeds = if holds { HOLDS_SEEDS } else { FALLS_SEEDS };
        let sweep = sweep(kind, 0..seeds, Until::Objection);
        let found = match sweep.first() {
            Some((seed, violation)) => format!("seed {seed}: {}", violation.text),
            None => format!("nothing in {seeds} histories"),
        };
        let name = kind.name;
        say(&format!(
            "{name:<24} {:>6} ms  {found}",
            sweep.spent.as_millis()
        ));
        if holds != sweep.failures.is_empty() {
            wrong.push(format!("{name}: {found}"));
        }
        assert!(sweep.tally.counts.locks > 0, "{name}: nobody got a lock");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
