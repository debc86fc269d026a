//! One history that can be replayed: a kind of world, and the source of its choices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::assumptions::ASSUMPTIONS;
use crate::entropy::{Entropy, Recorded, Tape};
use crate::faults::FAULTS;
use crate::kinds::KINDS;
use crate::mutations::DRIVERS;
use crate::oracle::{Counts, Violation};
use crate::plan::Plan;
use crate::watchdog::Watched;
use crate::world::World;

/// A kind of world. The report of a failure names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) draw: fn(&mut Entropy) -> Plan,
}

/// Ordinary worlds, which differ for every seed.
pub(crate) const ANY: Kind = Kind {
    name: "any",
    draw: Plan::draw,
};

/// Worlds of one size, to compare speeds.
pub(crate) const STANDARD: Kind = Kind {
    name: "standard",
    draw: Plan::standard,
};

impl Kind {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let assumed = ASSUMPTIONS.iter().map(|assumption| assumption.kind);
        [ANY, STANDARD]
            .into_iter()
            .chain(KINDS)
            .chain(assumed)
            .chain(DRIVERS)
            .find(|kind| kind.name == name)
    }
}

/// The source of the choices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Choices {
    Seed(u64),
    /// A tape, and a seed for after its end.
    Tape(Tape, Option<u64>),
    /// The bytes of a fuzzer.
    Bytes(Vec<u8>),
}

/// A history to be run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) choices: Choices,
}

/// The outcome of a history.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) tally: Tally,
    /// The lines of its trace, if it was recorded.
    pub(crate) lines: Vec<String>,
    /// All choices, if they were recorded.
    pub(crate) recorded: Recorded,
}

/// What is recorded of a history besides its outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    pub(crate) trace: bool,
    pub(crate) tape: bool,
    /// After how many inputs the history stops.
    pub(crate) inputs_max: Option<u64>,
}

impl Case {
    pub(crate) fn of_seed(kind: Kind, seed: u64) -> Self {
        Self {
            kind,
            choices: Choices::Seed(seed),
        }
    }

    /// Returns text that identifies the history.
    fn name(&self) -> String {
        let mutant = crate::mutations::chosen();
        let without = mutant.map_or_else(String::new, |name| format!(" without {name}"));
        let kind = self.kind.name;
        match &self.choices {
            Choices::Seed(seed) => format!("seed {seed} of {kind}{without}"),
            Choices::Tape(..) => format!("a tape of {kind}{without}"),
            Choices::Bytes(_) => format!("a fuzzer's bytes of {kind}{without}"),
        }
    }

    pub(crate) fn run(&self, keep: Keep) -> Outcome {
        let _watched = Watched::new(self.name());
        let entropy = match &self.choices {
            Choices::Seed(seed) => Entropy::of_seed(*seed),
            Choices::Tape(tape, then) => Entropy::of_tape(tape.clone(), *then),
            Choices::Bytes(bytes) => Entropy::of_bytes(bytes),
        };
        let entropy = if keep.tape {
            entropy.recording()
        } else {
            entropy
        };
        let mut world = World::new(self.kind.draw, entropy, keep.trace);
        if let Some(most) = keep.inputs_max {
            world.inputs_max = most;
        }
        // A panic of the engine is an objection too, and ends the history.
        let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
        let violation = match ended {
            Ok(verdict) => verdict.err(),
            Err(panic) => Some(Violation {
                oracle: "panic",
                text: text_of(panic.as_ref()),
                at: world.now,
            }),
        };
        let tally = Tally::of(&world);
        let (lines, recorded) = world.into_story();
        Outcome {
            violation,
            tally,
            lines,
            recorded,
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no text").to_owned()
}

/// How often each event has to happen in a sweep.
const MANY: u64 = 10;

/// The events of one history or of many.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) worlds: u64,
    /// Worlds in which exclusion had to hold throughout.
    pub(crate) covered: u64,
    /// Worlds in which no client got a lock.
    pub(crate) dead: u64,
    pub(crate) inputs: u64,
    pub(crate) nanos: u128,
    pub(crate) counts: Counts,
    pub(crate) struck: [u64; FAULTS.len()],
    /// A number that is equal for equal histories, in any order of runs.
    pub(crate) fingerprint: u64,
}

impl Tally {
    fn of(world: &World) -> Self {
        let counts = world.oracle.counts;
        Self {
            worlds: 1,
            covered: u64::from(world.plan.covered),
            dead: u64::from(counts.locks == 0),
            inputs: world.inputs,
            nanos: u128::from(world.now),
            counts,
            struck: world.struck,
            fingerprint: world.fingerprint,
        }
    }

    /// Checks that everything that can happen has happened many times, and most of it in worlds
    /// where exclusion had to hold.
    pub(crate) fn assert_alive(&self) {
        let Self {
            worlds,
            covered,
            counts,
            struck,
            ..
        } = self;
        let done = [
            ("Acquired", counts.locks),
            ("Extended", counts.extensions),
            ("Released", counts.releases),
            ("HandedOver", counts.hand_overs),
            ("ToldOfLoss", counts.losses),
            ("Killed", counts.kills),
            ("Strange", counts.strange),
        ];
        for (what, times) in done.into_iter().chain(counts.sights.usual()) {
            assert!(times >= MANY, "{what} only {times} times");
        }
        for (fault, times) in FAULTS.iter().zip(struck) {
            assert!(*times >= MANY, "{fault:?} only {times} times");
        }
        assert!(worlds / 2 <= *covered, "{covered} of {worlds} are covered");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.covered += other.covered;
        self.dead += other.dead;
        self.inputs += other.inputs;
        self.nanos += other.nanos;
        self.counts.add(&other.counts);
        for (sum, more) in self.struck.iter_mut().zip(other.struck) {
            *sum += more;
        }
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}
