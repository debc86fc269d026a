//! How often each kind of refusal was reported, and how often events were seen that no fault counts and no
//! user gets reported: to know that the worlds are not idle.

use std::fmt;

use shearline::engine::Event as Told;
use shearline::{ExtendError, LockError, UnlockError};

/// By their order in [`NAMES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sights([u64; NAMES.len()]);

const NAMES: [&str; 47] = [
    // What a user was told: of a lock, an extension, a release; and that it has cancelled.
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
    // Without scripts, several resources were taken by one command, were not because one was another's, and were
    // taken by commands that each take one.
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
    // A holder has asked to have its lock kept from then on.
    "KeptFromNowOn",
    // Where there are shared locks: one was got, or made of an exclusive one; a caller of the exclusive lock has left an
    // intent on a node, and a reader has met one.
    "Shared",
    "Downgraded",
    "IntentLeft",
    "IntentMet",
    // A permit was got.
    "Permitted",
];

/// The last ones, which are seen only in worlds of one kind or in one build.
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

    /// The end of its call is reported to a user.
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

    /// An extension was refused, at the call or at its end.
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

    /// Those that are seen in every sweep.
    pub(crate) fn usual(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.all().take(NAMES.len() - UNUSUAL)
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
