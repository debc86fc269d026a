//! The permissions of the user of a connection, asked with the first `SET` on it.
//!
//! A user who may take a lock but not release it would leave a key that stands until its ttl has passed. Permissions
//! can depend on the name of the key, so the question uses the name of the first lock: the first `SET` on a connection
//! is a script that checks whether the lock could be released, and takes it only then.
//!
//! | the user may not | what follows |
//! | --- | --- |
//! | run scripts | the node is asked without them: see `ways` |
//! | delete by scripts, but the node has a native release | the native release is tried on a token that no key has,
//! then the `SET` is sent |
//! | do something else that a release needs | no `SET`; the node is unusable, and its report names the permission |
//! | use a key of this name | no `SET`; other names are not affected |
//!
//! # Guarantees
//!
//! * No plain `SET`, of an attempt or as a copy, goes over a connection until some way to release it was shown to be
//!   permitted on that connection.
//! * After that, nothing more is asked on that connection.
//!
//! # Not here
//!
//! Permissions that are taken away later, and names with other permissions than the first: the refusal of the command
//! itself shows these.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::Unusable;
use crate::keys::{ClaimKey, OperationKey};
use crate::resp::Decimal;
use crate::time::Instant;

use super::Node;
use super::command::{set_if_permitted, trial};
use super::reply::Reply;
use super::request::{Dialect, Request, Taking, Taught};

/// The commands that a lock needs if it is released by a script, in the order in which they are checked. The last one
/// is checked only if scripts are sent by their digests.
const TO_LOCK: [&str; 4] = ["get", "del", "set", "evalsha"];

/// The commands that an extension or a confirmation needs.
const TO_EXTEND: [&str; 3] = ["get", "pttl", "pexpire"];

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Permissions {
    /// How locks may be released on this connection.
    pub(super) shown: Shown,
    /// The permission that the latest check found missing, on this connection or an earlier one.
    missing: Option<Unusable>,
    /// The locks whose `SET`s by script are not answered, in order. The entries of locks that are held are elsewhere.
    asked_with: VecDeque<(ClaimKey, Entry)>,
}

impl Permissions {
    /// The connection is gone: no more answers come, and nothing is proved for the next one.
    pub(super) fn disconnected(&mut self) {
        self.shown = Shown::Nothing;
        self.asked_with.clear();
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Shown {
    #[default]
    Nothing,
    /// By the native command.
    Native,
    /// By scripts. Every other way falls back to them.
    Scripts,
}

impl Node {
    /// Returns `true` if this connection has shown that a lock may be released.
    pub(super) fn may_release(&self) -> bool {
        match self.permissions.shown {
            Shown::Scripts => true,
            Shown::Native => self.native_release().is_some(),
            Shown::Nothing => false,
        }
    }

    /// Returns `true` if this connection has shown that scripts may be run.
    pub(super) const fn may_run_scripts(&self) -> bool {
        matches!(self.permissions.shown, Shown::Scripts)
    }

    /// Returns the permission that the latest check found missing.
    pub(crate) fn missing_permission(&self) -> Option<Unusable> {
        self.permissions.missing
    }

    /// Takes the key by the script that also asks whether the user may release it.
    pub(super) fn take_first(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        ttl: Duration,
    ) {
        let asked_with = &mut self.permissions.asked_with;
        asked_with.push_back((claim, entry.clone()));
        let mut command = Vec::new();
        let marker = self.trust.marker();
        let (token, ttl) = (entry.token(), Decimal::millis(ttl));
        let set = [token.as_bytes(), ttl.as_bytes()];
        set_if_permitted(&mut command, entry, set, marker, self.to_lock());
        let by = Taking::First;
        self.send(now, Request::Take { claim, by }, &command);
    }

    /// A script has taken the keys of `claim`, or says why not. Returns what that means.
    #[cold]
    #[inline(never)]
    pub(super) fn taken(
        &mut self,
        now: Instant,
        (claim, by): (ClaimKey, Taking),
        reply: Reply,
    ) -> Reply {
        match (by, reply.missing()) {
            (Taking::First, None) => {
                self.take_asked(claim);
                self.scripts_permitted();
            }
            (Taking::First, Some(missing)) => {
                let entry = self.take_asked(claim);
                return self.first_withheld(now, claim, entry, missing);
            }
            (Taking::Several, None) => self.permitted_for_several(),
            (Taking::Several, Some(missing)) if self.native_release().is_none() => {
                self.forbidden(missing);
            }
            (Taking::Fenced { .. }, _) => {
                self.knows_fenced_set();
                if let Some(Unusable::Permission { .. }) = reply.missing() {
                    self.forgot_fenced_set(); // The next script has to check the permissions too.
                }
            }
            (Taking::Several | Taking::Set | Taking::Checked { .. } | Taking::Watch, _) => {}
        }
        reply
    }

    /// Returns name and token of the lock of `claim`, whose first `SET` was answered or withdrawn.
    #[cold]
    pub(crate) fn take_asked(&mut self, claim: ClaimKey) -> Option<Entry> {
        let asked = &mut self.permissions.asked_with;
        let place = asked.iter().position(|(other, _)| *other == claim)?;
        Some(asked.remove(place)?.1)
    }

    /// Asks whether the lock could be released by the native command. The question uses a longer token, which no key
    /// has, so there is nothing to delete.
    pub(super) fn ask_native(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        way: Dialect,
    ) {
        let mut command = Vec::new();
        trial(&mut command, entry, way);
        let with_others = false;
        let request = Request::Probe {
            claim,
            way,
            with_others,
        };
        self.send(now, request, &command);
    }

    /// Sends a script that does nothing, to see whether scripts are run.
    #[cold]
    pub(super) fn try_script(&mut self, now: Instant, claim: ClaimKey, entry: &Entry) {
        let asked_with = &mut self.permissions.asked_with;
        asked_with.push_back((claim, entry.clone()));
        let mut command = Vec::new();
        set_if_permitted(&mut command, entry, [b"", b""], None, self.to_lock());
        let request = Request::Probe {
            claim,
            way: Dialect::Text,
            with_others: false,
        };
        self.send(now, request, &command);
    }

    /// Asks which permission was missing when an extension of `entry` was refused.
    pub(crate) fn ask_why(&mut self, now: Instant, operation: OperationKey, entry: &Entry) {
        let mut command = Vec::new();
        set_if_permitted(&mut command, entry, [b"", b""], None, &TO_EXTEND);
        self.send(now, Request::Why { operation }, &command);
    }

    /// Returns the commands that a user needs for a lock on this node; `evalsha` only if it gets digests.
    pub(super) fn to_lock(&self) -> &'static [&'static str] {
        &TO_LOCK[..TO_LOCK.len() - usize::from(!self.takes_digests())]
    }

    /// Returns `true` if the node gets scripts by their digests.
    pub(super) fn takes_digests(&self) -> bool {
        self.handshake.phase.dialect(Taught::Release) == Dialect::Sha1
    }

    /// Records that locks may be released by scripts.
    pub(crate) fn scripts_permitted(&mut self) {
        self.permissions.missing = None;
        self.permissions.shown = Shown::Scripts;
    }

    /// Records that a lock on several resources may be taken and released, so no permission is missing any more. A lock
    /// on one resource may be released in another way, which was not tried.
    pub(super) fn permitted_for_several(&mut self) {
        self.permissions.missing = None;
    }

    /// Records that locks may be released by the native command.
    pub(crate) fn native_permitted(&mut self) {
        self.permissions.missing = None;
        self.permissions.shown = Shown::Native;
    }

    /// Records that the user lacks a permission. A missing permission for one key says nothing of other names.
    pub(crate) fn forbidden(&mut self, missing: Unusable) {
        if missing != Unusable::KeyPermission {
            self.permissions.shown = Shown::Nothing;
            self.permissions.missing = Some(missing);
        }
    }
}

/// Returns the command that the user may not run to take a lock, by this answer.
pub(super) fn forbidden_to_lock(answer: i64) -> Option<Unusable> {
    named(&TO_LOCK, answer)
}

/// Returns the command that the user may not run to extend a lock, by this answer.
pub(super) fn forbidden_to_extend(answer: i64) -> Option<Unusable> {
    named(&TO_EXTEND, answer)
}

fn named(commands: &[&'static str], answer: i64) -> Option<Unusable> {
    let index = usize::try_from(answer.checked_neg()?)
        .ok()?
        .checked_sub(1)?;
    let command = commands.get(index)?;
    Some(Unusable::Permission { command })
}
