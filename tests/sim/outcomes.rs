//! How often each kind of refusal was reported, to know that the worlds are not idle.

use std::fmt;

use shearline::engine::Event as Told;
use shearline::{ExtendError, LockError, UnlockError};

/// By their order in [`NAMES`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcomes([u64; NAMES.len()]);

const NAMES: [&str; 10] = [
    "Held",
    "NoQuorum",
    "TooSlow",
    "Lost",
    "Expired",
    "Unconfirmed",
    "NotHeld",
    "Unreleased",
    "Cancelled",
    "OtherCluster",
];

impl Outcomes {
    fn count(&mut self, name: &str) {
        let names = NAMES.iter().position(|other| *other == name);
        self.0[names.expect("one of the names")] += 1;
    }

    /// The end of its call is reported to a user.
    pub(crate) fn told(&mut self, told: &Told) {
        match told {
            Told::Acquired { result, .. } => self.unlocked(result.as_ref().err()),
            Told::Extended { result, .. } => {
                if let Err(error) = result {
                    self.unextended(error);
                }
            }
            Told::Released { result, .. } => {
                if matches!(result, Err(UnlockError::NotHeld(_))) {
                    self.count("NotHeld");
                } else if matches!(result, Err(UnlockError::Unconfirmed(_))) {
                    self.count("Unreleased");
                }
            }
            Told::Expired { .. } | _ => {}
        }
    }

    fn unlocked(&mut self, error: Option<&LockError>) {
        if matches!(error, Some(LockError::Held(_))) {
            self.count("Held");
        } else if matches!(error, Some(LockError::NoQuorum(_))) {
            self.count("NoQuorum");
        } else if matches!(error, Some(LockError::TooSlow(_))) {
            self.count("TooSlow");
        } else if matches!(error, Some(LockError::OtherCluster(_))) {
            self.count("OtherCluster");
        }
    }

    /// An extension was refused, at the call or at its end.
    pub(crate) fn unextended(&mut self, error: &ExtendError) {
        if matches!(error, ExtendError::Lost(_)) {
            self.count("Lost");
        } else if matches!(error, ExtendError::Expired) {
            self.count("Expired");
        } else if matches!(error, ExtendError::Unconfirmed(_)) {
            self.count("Unconfirmed");
        }
    }

    /// A user has cancelled.
    pub(crate) fn cancelled(&mut self) {
        self.count("Cancelled");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Each with its name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self
            .all()
            .map(|(name, times)| format!("{name} {times}"))
            .collect();
        f.write_str(&all.join(", "))
    }
}
