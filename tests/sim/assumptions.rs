//! Tests the assumptions of the algorithm in pairs. If an assumption just holds, no oracle may object. If it just
//! fails, two holders must be found.
//!
//! Only the oracle of exclusion is enabled, and no fault excuses a violation. So each pair shows that exclusion depends
//! on the assumption, and that the oracle notices a failure.

use crate::case::Kind;
use crate::clock::{MILLI, SECOND};
use crate::entropy::Entropy;
use crate::faults::Fault::{self, *};
use crate::kinds::kind;
use crate::plan::{Guard, Members, Plan, Switches};

/// The number of histories that are run for an assumption that holds.
const HOLDS_SEEDS: u64 = 40;

/// The number of histories in which two holders must be found if an assumption fails.
const FALLS_SEEDS: u64 = 20;

/// Servers that forget, and from some time on do not tell their identity to clients that have been
/// connected to all of them before.
pub(crate) const UNREADABLE: Kind = kind("restart-unreadable", |entropy| {
    let mut plan = guarded(entropy, Guard::Observed, &[Amnesia]);
    plan.switches.secretive_from = Some(500 * MILLI);
    plan
});

const fn holds(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> (Kind, bool) {
    (kind(name, draw), true)
}

const fn falls(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> (Kind, bool) {
    (kind(name, draw), false)
}

/// The worlds that each test one assumption, and whether it holds there.
pub(crate) const ASSUMPTIONS: [(Kind, bool); 30] = [
    // Fast servers and slow clients, by exactly as much as the drift takes off a validity.
    holds("drift-just-inside", |entropy| drift(entropy, 5_025_000)),
    // The servers are faster than the drift allows, by 0.1 %.
    falls("drift-just-outside", |entropy| drift(entropy, 5_530_000)),
    // The clock of the server is set three times during a lock, in all by nearly as much as the drift allows.
    holds("steps-just-inside", |entropy| steps(entropy, 26)),
    // The clock is set by a fifth more than the drift allows.
    falls("steps-just-outside", |entropy| steps(entropy, 40)),
    // A restarted server has all its keys: every write was on disk.
    holds("restart-with-memory", |entropy| {
        faulty(entropy, Restart, 50)
    }),
    // A restarted server has lost its keys and votes at once. This is the known hole of the algorithm.
    falls("restart-without-memory", |entropy| {
        faulty(entropy, Amnesia, 50)
    }),
    // A restarted server stays away until every lock that it may have forgotten has expired.
    holds("restart-after-ttl", |entropy| restart(entropy, 1_012)),
    falls("restart-before-ttl", |entropy| restart(entropy, 850)),
    // Clients quarantine a restarted server until its locks have expired, because its identity has changed.
    holds("restart-guarded", |entropy| {
        guarded(entropy, Guard::Observed, &[Amnesia])
    }),
    // A new client has not seen the earlier identity, and has to know the longest ttl of all.
    falls("restart-newcomers-untold", |entropy| {
        guarded(entropy, Guard::Untold, &[Amnesia, Kill])
    }),
    holds("restart-guarded-newcomers", |entropy| {
        guarded(entropy, Guard::Observed, &[Amnesia, Kill])
    }),
    // A server that no longer tells its identity may be another server.
    (UNREADABLE, true),
    // A server is flushed, and no connection breaks: only the server itself can report it.
    falls("flushed-observed", |entropy| {
        guarded(entropy, Guard::Observed, &[Flush])
    }),
    holds("flushed-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Flush])
    }),
    // A replica that lags behind its master replaces it, and has a long uptime.
    falls("promoted-observed", |entropy| {
        guarded(entropy, Guard::Observed, &[Promote, Kill])
    }),
    holds("promoted-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Promote, Kill])
    }),
    // A master becomes a replica of another, and is a master again before any client asks it.
    falls("followed-observed", |entropy| {
        follow(entropy, Guard::Observed)
    }),
    holds("followed-strict", |entropy| follow(entropy, Guard::Strict)),
    holds("restart-strict", |entropy| {
        guarded(entropy, Guard::Strict, &[Amnesia, Kill])
    }),
    // The barrier of a flushed server is deleted.
    falls("barrier-deleted", unbarred),
    // Some clients use longer locks than others know of. The others have to learn of them before the longer locks
    // begin.
    holds("shorter-ttl-later", |entropy| {
        with(entropy, Members::ShortLater)
    }),
    // Some clients name other nodes, and the nodes that both groups name forget their marker.
    holds("other-nodes", |entropy| {
        let plan = with(entropy, Members::OtherNodes);
        Plan {
            faults: Plan::only(&[Flush]),
            ..plan
        }
    }),
    // The machine of a holder is suspended, and its clock goes on.
    holds("suspended-boottime", |entropy| {
        faulty(entropy, Suspend, 3_000)
    }),
    // The clock of a suspended machine stops: `CLOCK_MONOTONIC`, and so `std::time::Instant`.
    falls("suspended-monotonic", monotonic),
    // A virtual machine stands still with all its clocks, so no clock helps.
    falls("frozen-with-its-clock", |entropy| {
        faulty(entropy, Freeze, 3_000)
    }),
    // A server stands still, but its clock goes on.
    holds("server-stopped", |entropy| faulty(entropy, Stall, 3_000)),
    // The clock of a server is set forward: keys expire early.
    falls("server-clock-jumps", |entropy| faulty(entropy, Jump, 3_000)),
    // An operator deletes a key that is held, or lets it expire.
    falls("key-deleted", |entropy| operated(entropy, Delete)),
    falls("key-expired", |entropy| operated(entropy, Expire)),
    // Every fault that a network may have.
    holds("network-faulty", network),
];

/// Two to four clients, each on its own machine. Most of them hold their lock to its end.
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

/// Long locks: with them a small error of the clocks is longer than the fixed part of the drift.
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

/// Sets the clock of the only server forward by this many milliseconds, again and again.
fn steps(entropy: &mut Entropy, by: u64) -> Plan {
    Plan {
        nodes: 1,
        servers: 1,
        faults: Plan::only(&[Jump]),
        shortest_fault: (by - 1) * MILLI,
        longest_fault: 0,
        shortest_gap: 3_334 * MILLI,
        gap: MILLI,
        shortest_ttl: 10_000,
        longest_ttl: 10_000,
        ..drift(entropy, 900_000)
    }
}

/// Plays one kind of fault often, each time for at most this many milliseconds.
fn faulty(entropy: &mut Entropy, fault: Fault, longest: u64) -> Plan {
    Plan {
        faults: Plan::only(&[fault]),
        longest_fault: longest * MILLI,
        ..contended(entropy)
    }
}

/// Servers that forget everything and stay away for this many milliseconds. Locks last for a thousand.
fn restart(entropy: &mut Entropy, delay: u64) -> Plan {
    let mut plan = faulty(entropy, Amnesia, 50);
    plan.switches.restart_delay = delay * MILLI;
    plan.gap = SECOND;
    plan
}

/// Servers that forget everything and are back at once. Clients quarantine them. The faults are
/// rare enough that a majority votes from time to time.
fn guarded(entropy: &mut Entropy, guard: Guard, faults: &[Fault]) -> Plan {
    Plan {
        guard,
        faults: Plan::only(faults),
        gap: SECOND,
        ..contended(entropy)
    }
}

/// Even the longest of these faults is so short that hardly any client asks meanwhile.
fn follow(entropy: &mut Entropy, guard: Guard) -> Plan {
    Plan {
        longest_fault: MILLI,
        ..guarded(entropy, guard, &[Follow])
    }
}

/// Servers that are flushed, with clients that are configured differently.
fn with(entropy: &mut Entropy, members: Members) -> Plan {
    let faults = [Flush, Partition, Kill];
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
    let mut plan = guarded(entropy, Guard::Strict, &[Flush, Unbar]);
    plan.faults[Unbar as usize] = 20;
    Plan {
        gap: 100 * MILLI,
        ..plan
    }
}

fn monotonic(entropy: &mut Entropy) -> Plan {
    let mut plan = faulty(entropy, Suspend, 3_000);
    plan.switches.monotonic = true;
    plan
}

/// One deleted key is not enough to lose a majority: the gap is short.
fn operated(entropy: &mut Entropy, fault: Fault) -> Plan {
    Plan {
        gap: 50 * MILLI,
        ..faulty(entropy, fault, 50)
    }
}

fn network(entropy: &mut Entropy) -> Plan {
    Plan {
        faults: Plan::only(&[Reset, Dark, Partition]),
        longest_fault: 3 * SECOND,
        delay_tail: 200 * MILLI,
        tear: 50_000,
        ..contended(entropy)
    }
}

#[test]
fn exclusion_rests_on_its_assumptions() {
    let _none = crate::mutations::Chosen::new(None);
    use crate::replay::effort;
    use crate::sweep::{Until, say, sweep};
    let mut wrong = Vec::new();
    for (kind, holds) in ASSUMPTIONS {
        let seeds = match holds {
            true => effort(4, HOLDS_SEEDS),
            false => FALLS_SEEDS,
        };
        let sweep = sweep(kind, 0..seeds, Until::Objection);
        let found = match sweep.first() {
            Some((seed, violation)) => format!("seed {seed}: {}", violation.text),
            None => format!("nothing in {seeds} histories"),
        };
        let name = kind.name;
        let spent = sweep.spent.as_millis();
        say(&format!("{name:<24} {spent:>6} ms  {found}"));
        if holds != sweep.failures.is_empty() {
            wrong.push(format!("{name}: {found}"));
        }
        assert!(sweep.tally.counts.locks > 0, "{name}: no client got a lock");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
