//! Counts, by name, how often each kind of refusal was reported, and how often events happened that neither a fault nor
//! a report to a user shows. The counts show that the worlds are not idle.

use std::collections::BTreeMap;

use shearline::engine::Event as Told;
use shearline::{ExtendError, LockError, UnlockError};

/// The counts of what has happened at all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Sights(BTreeMap<&'static str, u64>);

impl Sights {
    pub(crate) fn note(&mut self, name: &'static str) {
        self.note_all(name, 1);
    }

    /// Counts what has happened so many times.
    pub(crate) fn note_all(&mut self, name: &'static str, times: u64) {
        *self.0.entry(name).or_default() += times;
    }

    pub(crate) fn note_if(&mut self, happens: bool, name: &'static str) {
        self.note_all(name, u64::from(happens));
    }

    /// Counts the report of the end of a call to its user.
    pub(crate) fn told(&mut self, told: &Told) {
        let name = match told {
            Told::Acquired { result, .. } => match result {
                Err(LockError::Held(_)) => "Held",
                Err(LockError::NoQuorum(_)) => "NoQuorum",
                Err(LockError::TooSlow(_)) => "TooSlow",
                Err(LockError::OtherGroup(_)) => "OtherGroup",
                _ => return,
            },
            Told::Extended {
                result: Err(error), ..
            } => return self.unextended(error),
            Told::Released { result, .. } => match result {
                Err(UnlockError::NotHeld(_)) => "NotHeld",
                Err(UnlockError::Unconfirmed(_)) => "Unreleased",
                _ => return,
            },
            Told::Expired { .. } | _ => return,
        };
        self.note(name);
    }

    /// Counts an extension that was refused, at the call or at its end.
    pub(crate) fn unextended(&mut self, error: &ExtendError) {
        match error {
            ExtendError::Lost(_) => self.note("Lost"),
            ExtendError::Expired => self.note("Expired"),
            ExtendError::Unconfirmed(_) => self.note("Unconfirmed"),
            ExtendError::Closed | _ => {}
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, times) in &other.0 {
            self.note_all(name, *times);
        }
    }

    /// Returns the count of this name.
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}
