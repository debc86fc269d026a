//! Counts how often each kind of refusal was reported, and how often events happened that neither a fault nor a report
//! to a user shows. The counts show that the worlds are not idle.

use std::fmt;

use shearline::engine::Event as Told;
use shearline::{ExtendError, LockError, UnlockError};

/// The counts, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sights([u64; NAMES.len()]);

const NAMES: [&str; 47] = [
    // Reports to a user: about a lock, an extension, a release; and cancelled calls.
    "Held",
    "NoQuorum",
    "TooSlow",
    "OtherCluster",
    "Lost",
    "Expired",
    "Unconfirmed",
    "NotHeld",
    "Unreleased",
    "Cancelled",
    // A confirmation succeeded; with an earlier end; for an unknown end.
    "Confirmed",
    "Shortened",
    "Revived",
    // A second extension was reported while the first was open, or the other way round.
    "Doubled",
    // A release by `DELEX`, by `DELIFEQ`, and one that was refused as such.
    "DelEx",
    "DelIfEq",
    "NativeRefused",
    // A handshake told a client that the server is a replica, or one of a cluster.
    "TurnedDown",
    // A client has read an invalid reply.
    "GarbageRead",
    // A client was asked for its password, and has one.
    "LoggedIn",
    // A server refused like one that forgets, and is configured twice.
    "TwinAlarmed",
    // A client has read that a clock was set.
    "Stepped",
    // A server that loses nothing was restarted, and no barrier was set.
    "RestartTrusted",
    // A `reinit` succeeded, or a node could not be asked.
    "Claimed",
    "Unclaimed",
    // A server has pushed that a key has changed.
    "Pushed",
    // A call for a lock was refused, and had asked no node.
    "Unattempted",
    // Without scripts: a release by `SET .. IFEQ`, a piece of a transaction that was answered, a lock that was
    // sent to a node when it was held already, and transactions that were run, aborted by a change, and refused.
    "SetIfEq",
    "Transacted",
    "CopiedLate",
    "ExecDone",
    "ExecAborted",
    "ExecRefused",
    // A server has refused a script in words of its own.
    "OwnWords",
    // Without scripts: several resources were taken by one command, were not taken because another client held one, and
    // were taken by commands that each take one.
    "TakenAtOnce",
    "RefusedAtOnce",
    "TakenByReading",
    // With narrow bounds: a call was refused for lack of room, and a node was not asked.
    "Saturated",
    "Full",
    // Several extensions came in one command: only where engines keep locks.
    "ExtendedTogether",
    // Several releases came in one command: only where engines have several users.
    "ReleasedTogether",
    // A holder has asked for its lock to be kept from then on.
    "KeptFromNowOn",
    // In worlds with shared locks: one was got, or an exclusive one became a shared one; a caller of the exclusive lock
    // has left an intent on a node, and a reader has found one.
    "Shared",
    "Downgraded",
    "IntentLeft",
    "IntentMet",
    // A permit was got.
    "Permitted",
];

/// How many of the last ones happen only in worlds of one kind or in one build.
const UNUSUAL: usize = 20;

impl Default for Sights {
    fn default() -> Self {
        Self([0; NAMES.len()])
    }
}

impl Sights {
    pub(crate) fn note(&mut self, name: &str) {
        let place = NAMES.iter().position(|other| *other == name);
        self.0[place.expect("one of the names")] += 1;
    }

    /// Counts the report of the end of a call to its user.
    pub(crate) fn told(&mut self, told: &Told) {
        let name = match told {
            Told::Acquired { result, .. } => match result {
                Err(LockError::Held(_)) => "Held",
                Err(LockError::NoQuorum(_)) => "NoQuorum",
                Err(LockError::TooSlow(_)) => "TooSlow",
                Err(LockError::OtherCluster(_)) => "OtherCluster",
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
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Returns the counts of events that happen in every sweep, with their names.
    pub(crate) fn usual(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.all().take(NAMES.len() - UNUSUAL)
    }

    /// Returns the count of this name.
    pub(crate) fn of(&self, name: &str) -> u64 {
        let mut all = self.all();
        all.find(|(known, _)| *known == name)
            .expect("one of the names")
            .1
    }

    /// Returns each count with its name.
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
