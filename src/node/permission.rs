//! What the user of a connection may do: asked before the first `SET` on it.
//!
//! A user who may take a lock and not release it would leave a key that stands until its ttl has
//! passed. Servers tell permissions by the name of the key, so the question is asked with the name
//! of the first lock that is wanted, and answered before its `SET` is written.
//!
//! # Guarantees
//!
//! * No `SET` of an attempt goes over a connection on which the way to release it was not shown to
//!   be permitted.
//! * Once it was, nothing more is asked on that connection while that way is used.
//!
//! # Not here
//!
//! Permissions that are taken away later, and names that are treated otherwise than the first: there
//! the refusal of the command itself tells.

use alloc::vec::Vec;

use crate::entry::Entry;
use crate::error::Unusable;
use crate::slab::Key;
use crate::time::Instant;

use super::{Dialect, Errand, Node, command};

/// What a lock needs besides the script commands themselves, in the order in which it is asked for.
const TO_LOCK: [&str; 3] = ["get", "del", "set"];

/// What an extension or a confirmation needs.
const TO_EXTEND: [&str; 3] = ["get", "pttl", "pexpire"];

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Permissions {
    /// The way of releasing that is permitted on this connection.
    shown: Option<Dialect>,
    /// What was missing when it was asked for last, on this connection or an earlier one.
    missing: Option<Unusable>,
}

impl Permissions {
    pub(super) fn disconnected(&mut self) {
        self.shown = None;
    }

    /// What was missing when it was asked for last.
    pub(super) fn missing(&self) -> Option<Unusable> {
        self.missing
    }
}

impl Node {
    /// Returns `true` if the way in which a lock would be released now was shown to be permitted.
    /// Who may send the digest of a script was asked for its text too.
    pub(crate) fn may_release(&self) -> bool {
        let way = self.release_dialect(false);
        let shown = self.permissions.shown;
        shown == Some(way) || shown == Some(Dialect::Sha1) && way == Dialect::Text
    }

    /// Asks whether the lock that `claim` wants, of `entry`, could be released.
    pub(crate) fn ask_permission(&mut self, now: Instant, claim: Key, entry: &Entry) {
        let mut command = Vec::new();
        let way = self.release_dialect(false);
        match way {
            // The claim's own token, which no key has yet: it finds nothing to delete.
            Dialect::DelIfEq | Dialect::DelEx => command::release(&mut command, entry, way),
            Dialect::Text => command::probe(&mut command, entry, way, &TO_LOCK),
            Dialect::Sha1 => {
                command::probe(&mut command, entry, Dialect::Text, &TO_LOCK);
                let (way, last) = (Dialect::Text, false);
                self.send(now, Errand::Probe { claim, way, last }, &command);
                command.clear();
                command::probe(&mut command, entry, Dialect::Sha1, &[]);
            }
        }
        let last = true;
        self.send(now, Errand::Probe { claim, way, last }, &command);
    }

    /// Asks what was missing when an extension of `entry` was refused.
    pub(crate) fn ask_why(&mut self, now: Instant, round: Key, entry: &Entry, verb: bool) {
        let mut command = Vec::new();
        command::probe(&mut command, entry, Dialect::Text, &TO_EXTEND);
        self.send(now, Errand::Why { round, verb }, &command);
    }

    /// Returns `true` if a permission was missing when it was asked for last.
    pub(crate) fn lacks_permission(&self) -> bool {
        self.permissions.missing.is_some()
    }

    /// It was shown that locks can be released this `way`.
    pub(crate) fn permitted(&mut self, way: Dialect) {
        self.permissions.shown = Some(way);
        self.permissions.missing = None;
    }

    /// The user lacks a permission. One for a key says nothing of other names.
    pub(crate) fn forbidden(&mut self, missing: Unusable) {
        if missing != Unusable::KeyPermission {
            self.permissions.shown = None;
            self.permissions.missing = Some(missing);
        }
    }
}

/// The command that a probe has found to be forbidden, by what it has answered.
pub(crate) fn forbidden_to_lock(answer: i64) -> Option<Unusable> {
    named(&TO_LOCK, answer)
}

/// The same of an extension.
pub(crate) fn forbidden_to_extend(answer: i64) -> Option<Unusable> {
    named(&TO_EXTEND, answer)
}

fn named(commands: &[&'static str], answer: i64) -> Option<Unusable> {
    let index = usize::try_from(answer).ok()?.checked_sub(1)?;
    let command = commands.get(index)?;
    Some(Unusable::Permission { command })
}
