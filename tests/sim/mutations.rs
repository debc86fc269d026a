//! Mutations: with one guard taken out, an oracle has to object.
//!
//! The guards of the library are taken out in a build with `--cfg shearline_mutants`, one after the
//! other, for the whole process; what a driver could do wrong are switches of the world. For each
//! the table says how many histories it took until an oracle objected, and which one that was.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::case::Kind;
use crate::entropy::Entropy;
use crate::plan::{Plan, Switches};

/// What a driver could do wrong.
pub(crate) const DRIVERS: [Kind; 3] = [
    driver("monotonic-clock", |entropy| {
        wrong(entropy, |switches| switches.monotonic = true)
    }),
    driver("stale-clock", |entropy| {
        wrong(entropy, |switches| switches.stale_clock = true)
    }),
    driver("polite-close", |entropy| {
        wrong(entropy, |switches| switches.polite = true)
    }),
];

const fn driver(name: &'static str, draw: fn(&mut Entropy) -> Plan) -> Kind {
    Kind { name, draw }
}

fn wrong(entropy: &mut Entropy, switch: impl FnOnce(&mut Switches)) -> Plan {
    let mut plan = Plan::draw(entropy);
    switch(&mut plan.switches);
    plan
}

/// One choice at a time, whatever tests run beside each other.
static TURN: Mutex<()> = Mutex::new(());

/// A guard of the library is taken out while this lives, or none is.
#[derive(Debug)]
pub(crate) struct Chosen {
    _turn: MutexGuard<'static, ()>,
}

impl Chosen {
    /// Waits until nothing else is chosen, and takes out the guard of this name.
    pub(crate) fn new(name: Option<&str>) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        library::choose(name);
        Self { _turn: turn }
    }

    /// What the variable `MUTANT` says.
    pub(crate) fn by_environment() -> Self {
        Self::new(std::env::var("MUTANT").ok().as_deref())
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        library::choose(None);
    }
}

pub(crate) use library::chosen;

#[cfg(not(shearline_mutants))]
mod library {
    pub(super) fn choose(name: Option<&str>) {
        assert!(name.is_none(), "only a build with mutants has {name:?}");
    }

    /// The guard that is taken out.
    pub(crate) fn chosen() -> Option<&'static str> {
        None
    }
}

#[cfg(shearline_mutants)]
mod library {
    use std::sync::{Mutex, PoisonError};

    use shearline::mutant::{self, Mutant};

    static NAME: Mutex<Option<&'static str>> = Mutex::new(None);

    pub(super) fn choose(name: Option<&str>) {
        let mutant = name.map(|name| {
            Mutant::from_name(name).unwrap_or_else(|| panic!("no mutant of the name {name}"))
        });
        mutant::choose(mutant);
        *NAME.lock().unwrap_or_else(PoisonError::into_inner) = mutant.map(Mutant::name);
    }

    /// The guard that is taken out.
    pub(crate) fn chosen() -> Option<&'static str> {
        *NAME.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(shearline_mutants)]
mod tests {
    use shearline::mutant::Mutant;

    use super::{Chosen, DRIVERS};
    use crate::SEEDS;
    use crate::case::{ANY, Kind};
    use crate::history::History;
    use crate::replay::number;
    use crate::sweep::{Until, say, sweep};

    /// What these worlds never ask for: nobody confirms a lock here. The stories of
    /// `engine::tests::confirm` notice each of these.
    const CONFIRMATIONS: [Mutant; 3] = [
        Mutant::ConfirmationFromAnswer,
        Mutant::ConfirmationByLongest,
        Mutant::ConfirmationRevives,
    ];

    /// One row of the table. Whether an oracle objected.
    fn row(mutant: Option<&str>, kind: Kind) -> bool {
        let _chosen = Chosen::new(mutant);
        let most = number("SEEDS").unwrap_or(SEEDS);
        let sweep = sweep(kind, 0..most, Until::Objection);
        let name = mutant.unwrap_or(kind.name);
        let spent = sweep.spent.as_secs_f64();
        let found = match sweep.first() {
            Some((seed, violation)) => format!("{:>5}  {}", seed + 1, violation.oracle),
            None => format!("    -  NOBODY in {most} histories"),
        };
        say(&format!("{name:<28} {spent:>6.1} s {found}"));
        sweep.first().is_some()
    }

    #[test]
    fn mutants_are_noticed() {
        say("guard taken out               spent  histories, oracle");
        let asked = Mutant::ALL
            .iter()
            .filter(|mutant| !CONFIRMATIONS.contains(mutant));
        let library = asked.map(|mutant| (Some(mutant.name()), ANY));
        let drivers = DRIVERS.iter().map(|kind| (None, *kind));
        let unnoticed: Vec<_> = library
            .chain(drivers)
            .filter(|(mutant, kind)| !row(*mutant, *kind))
            .map(|(mutant, kind)| mutant.unwrap_or(kind.name))
            .collect();
        assert!(unnoticed.is_empty(), "nobody notices {unnoticed:?}");
    }

    #[test]
    fn mutants_of_histories_are_noticed() {
        for (name, history) in History::kept() {
            if let Some(mutant) = &history.mutant {
                let _chosen = Chosen::new(Some(mutant));
                let story = &history.story;
                assert_eq!(history.objection(), history.oracle, "{name}: {story:?}");
            }
        }
    }
}
