//! How often things were seen to happen that no fault counts and no user is told of, to know that
//! worlds are not dead.

use std::fmt;

/// By their order in [`NAMES`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Sights([u64; NAMES.len()]);

const NAMES: [&str; 17] = [
    // Somebody asked for how long it had a lock, and was told; of an earlier end; of an unknown one.
    "Confirmed",
    "Shortened",
    "Revived",
    // A second extension was told while the first was open, or the other way round.
    "Doubled",
    // A release by `DELEX`, by `DELIFEQ`, and one that was refused as such.
    "DelEx",
    "DelIfEq",
    "NativeRefused",
    // A greeting told a client that the server is a replica, or one of a cluster.
    "TurnedDown",
    // A client has read what is no answer.
    "GarbageRead",
    // A client was told of its password, and has one.
    "LoggedIn",
    // A server refused as one does that forgets, and stands in the configuration twice.
    "TwinAlarmed",
    // A client has read that a clock was set.
    "Stepped",
    // A server that loses nothing has started again, and no barrier was put up.
    "RestartTrusted",
    // All nodes were made those of a cluster, or could not all be asked for that.
    "Claimed",
    "Unclaimed",
    // Where bounds are narrow: a call was refused for want of room, and a node was not asked.
    "Saturated",
    "Full",
];

/// The last of them, which are seen nowhere else.
const NARROW: usize = 2;

impl Sights {
    pub(crate) fn note(&mut self, name: &str) {
        let place = NAMES.iter().position(|other| *other == name);
        self.0[place.expect("one of the names")] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Those that are seen in every sweep.
    pub(crate) fn usual(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.all().take(NAMES.len() - NARROW)
    }

    /// Each with its name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }
}

impl fmt::Display for Sights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self
            .all()
            .map(|(name, times)| format!("{name} {times}"))
            .collect();
        f.write_str(&all.join(", "))
    }
}
