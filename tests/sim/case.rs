//! One history that can be replayed: a kind of world, and the source of its choices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::assumptions::ASSUMPTIONS;
use crate::entropy::{Entropy, Recorded, Tape};
use crate::faults::NAMES;
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

impl Kind {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let assumed = ASSUMPTIONS.map(|(kind, _)| kind);
        let mut all = [ANY].into_iter().chain(KINDS).chain(assumed).chain(DRIVERS);
        all.find(|kind| kind.name == name)
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
        let entropy = match keep.tape {
            true => entropy.recording(),
            false => entropy,
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

/// The events that happen in every sweep of ordinary worlds.
const USUAL: &str = "
    Extended Released HandedOver ToldOfLoss Killed Strange
    Held NoQuorum TooSlow OtherGroup Lost Expired Unconfirmed NotHeld Unreleased Cancelled Unattempted
    Confirmed Shortened Revived Doubled DelEx DelIfEq NativeRefused TurnedDown GarbageRead LoggedIn
    TwinAlarmed Stepped RestartTrusted Claimed Unclaimed Pushed
";

/// The events of one history or of many.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) worlds: u64,
    /// Worlds in which exclusion had to hold throughout.
    pub(crate) covered: u64,
    /// Worlds in which no client got a lock.
    pub(crate) dead: u64,
    pub(crate) inputs: u64,
    pub(crate) nanos: u128,
    pub(crate) counts: Counts,
    /// A number that is equal for equal histories, in any order of runs.
    pub(crate) fingerprint: u64,
}

impl Tally {
    fn of(world: &World) -> Self {
        let counts = world.oracle.counts.clone();
        Self {
            worlds: 1,
            covered: u64::from(world.plan.covered),
            dead: u64::from(counts.locks == 0),
            inputs: world.inputs,
            nanos: u128::from(world.now),
            counts,
            fingerprint: world.fingerprint,
        }
    }

    /// Checks that everything that can happen has happened many times, and most of it in worlds
    /// where exclusion had to hold.
    pub(crate) fn assert_alive(&self) {
        let (worlds, covered, counts) = (self.worlds, self.covered, &self.counts);
        assert!(counts.locks >= MANY, "only {} locks", counts.locks);
        for name in USUAL.split_whitespace().chain(NAMES) {
            let times = counts.sights.of(name);
            assert!(times >= MANY, "{name} only {times} times");
        }
        assert!(worlds / 2 <= covered, "{covered} of {worlds} are covered");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.covered += other.covered;
        self.dead += other.dead;
        self.inputs += other.inputs;
        self.nanos += other.nanos;
        self.counts.add(&other.counts);
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}
