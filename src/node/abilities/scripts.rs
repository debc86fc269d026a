//! The scripts that a server has loaded on this connection.

use crate::error::ServerError;
use crate::node::refusal::is_known;
use crate::node::request::Taught;
use crate::node::script::{self, Script};
use crate::resp::Value;

impl Taught {
    pub(in crate::node) const fn script(self) -> &'static Script {
        match self {
            Self::Release => &script::RELEASE,
            Self::Extend => &script::EXTEND,
            Self::ExtendEach => &script::EXTEND_EACH,
            Self::ReleaseEach => &script::RELEASE_EACH,
            Self::CheckedAcquire => &script::CHECKED_ACQUIRE,
            Self::CheckedExtend => &script::CHECKED_EXTEND,
        }
    }

    /// Returns the index of the script in [`Scripts`]. A server loads only one of the two scripts for extensions.
    const fn place(self) -> usize {
        match self {
            Self::Release => 0,
            Self::Extend | Self::CheckedExtend => 1,
            Self::CheckedAcquire => 2,
            Self::ExtendEach => 3,
            Self::ReleaseEach => 4,
        }
    }
}

/// Whether a script that adds a member is sent by its digest. The handshake never loads the scripts that add a member.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Digests {
    /// It is unknown whether the server knows the script.
    #[default]
    Unknown,
    /// The server has run one of the two scripts that add a member, but perhaps does not know the other one.
    Known,
    /// The user may not run scripts by their digests.
    Forbidden,
}

impl Digests {
    pub(super) fn run(&mut self) {
        if *self == Self::Unknown {
            *self = Self::Known;
        }
    }
}

/// The scripts that the server has loaded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Scripts {
    known: [bool; 5],
    /// Whether the server was temporarily unable to load the scripts.
    postponed: bool,
    /// Whether the server has refused to load or run the scripts, with an unknown error text.
    pub(super) refused: bool,
    /// Whether a script that does nothing was tried after the server had refused scripts. The flag is also set if the
    /// server has refused this script.
    pub(super) tried: bool,
    /// Whether the script that takes a fenced lock has run, and has not been refused since. If the flag is set, the
    /// next command sends this script by digest.
    pub(in crate::node) has_run_fenced: bool,
    pub(super) members: Digests,
}

impl Scripts {
    #[inline]
    pub(crate) fn knows(&self, taught: Taught) -> bool {
        self.known[taught.place()]
    }

    /// Handles the answer to a `SCRIPT LOAD`. If the server has loaded the script, the answer is the script's digest.
    pub(in crate::node) fn loaded(&mut self, taught: Taught, value: Value<'_>) {
        if let Some(error) = value.as_error().map(ServerError::from_line) {
            self.postponed |= is_known(error) && error.code() != "NOPERM";
            self.refused |= !is_known(error);
        }
        let digest = taught.script().sha1.as_bytes();
        self.known[taught.place()] = value.as_bytes() == Some(digest);
        self.refused &= !self.known[taught.place()];
    }

    /// Records that the server has run the script that does nothing. If the server has refused to load the other
    /// scripts, they are sent again after the server's next answer.
    pub(super) fn ran(&mut self) {
        let is_loaded = self.knows(Taught::Release);
        self.postponed |= self.refused && !self.tried && !is_loaded;
        self.tried = true;
        self.refused &= !is_loaded;
    }

    /// Records that the server has lost the scripts. Returns `true` if the server had loaded any scripts.
    pub(crate) fn forget(&mut self) -> bool {
        core::mem::take(self).known.contains(&true)
    }

    /// Records that the server runs scripts again. Returns `true` if the scripts must be loaded again.
    pub(crate) fn take_postponed(&mut self) -> bool {
        core::mem::take(&mut self.postponed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_scripts_are_loaded_once_more_however_many_trials_run() {
        let mut scripts = Scripts {
            refused: true,
            ..Scripts::default()
        };
        for is_loaded_now in [true, false] {
            scripts.ran();
            assert_eq!(scripts.take_postponed(), is_loaded_now);
        }
        // After `NOSCRIPT`, the scripts are loaded immediately.
        scripts.forget();
        scripts.ran();
        assert!(!scripts.take_postponed());
    }
}
