//! The commands for locks that one node can run, because its server knows them and permits them to our user.
//!
//! If a user could take a lock but not release it, the key would stay until its ttl has passed. So the first lock on a
//! connection is taken by a script that first checks whether the user could release it. Permissions can depend on the
//! name of the key, so the script checks the permissions for the name of this lock.
//!
//! | the user may not | what follows |
//! | --- | --- |
//! | run scripts | the node is asked without them: see `ways` |
//! | delete by scripts, but the node has a native release | a trial of that release, then the `SET` |
//! | do something else that a release needs | no `SET`; the node is unusable, and its report names the permission |
//! | use a key of this name | no `SET`; other names are not affected |
//!
//! # Guarantees
//!
//! * No plain `SET` goes over a connection until the connection has shown that the user may release locks in some way.
//! * Afterwards no more checks are needed on this connection.
//!
//! # Not here
//!
//! This file does not send commands, but returns the commands to send as [`Then`]. The node itself refuses a command
//! when a permission is taken away later, or when a name needs other permissions than the first name (see `refused`).

mod doubt;
mod refused;
mod scripts;
mod ways;

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::config::{Config, RestartGuard};
use crate::entry::Entry;
use crate::error::Unusable;
use crate::keys::ClaimKey;

use super::handshake::Words;
use super::recipes::fenced::TO_NUMBER;
use super::recipes::shared::TO_JOIN;
use super::reply::Reply;
use super::request::{Dialect, Taking, Taught};
use doubt::Doubt;
use scripts::{Digests, Scripts};
use ways::Ways;

pub(super) use ways::ORDER;

/// The commands that a lock needs if a script releases it, in the order in which they are checked. `EVALSHA` is checked
/// only if scripts are sent by their digests.
const TO_LOCK: [&str; 4] = ["get", "del", "set", "evalsha"];

/// The commands that an extension or a confirmation needs.
pub(super) const TO_EXTEND: [&str; 3] = ["get", "pttl", "pexpire"];

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Abilities {
    /// Whether the restart guard reads a marker and therefore needs scripts.
    needs_scripts: bool,
    pub(super) scripts: Scripts,
    /// How the node refused scripts, if it refused them in unknown words.
    doubt: Option<Doubt>,
    ways: Ways,
    /// The server's native command for a release. `None` if the server's version has none, or if the node has refused
    /// it.
    native: Option<Dialect>,
    /// Whether the node has refused its native command for a release, and has not refused a script since then.
    native_refused: bool,
    /// The ways to release locks that this connection has shown.
    shown: Shown,
    /// The permission that the latest check found missing, on this or an earlier connection.
    pub(crate) missing: Option<Unusable>,
    /// How long a counter of fencing tokens lives after it was last used for a token.
    pub(super) counter_ttl: Duration,
    /// The locks that wait for a trial on this connection, or that the first script of the connection is taking, in
    /// order.
    trials: VecDeque<(ClaimKey, Entry)>,
}

/// The ways to release locks that a connection has shown.
#[derive(Clone, Copy, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// The native command works.
    Native,
    /// Scripts work. Every other way falls back to scripts.
    Scripts,
}

/// The commands to send next.
#[derive(Debug)]
pub(super) enum Then {
    Nothing,
    /// Load the scripts.
    LoadScripts,
    /// Try this way of releasing the lock.
    Try(Entry, Dialect),
    /// Try all ways without scripts.
    TryAll(Entry),
}

/// The facts about a refusal that the connection knows, in addition to the refusal itself.
#[derive(Debug)]
pub(super) struct Hints<'a> {
    /// The text of the error, for reports.
    pub(super) words: &'a mut Words,
    /// The latest command that was forbidden in a transaction.
    pub(super) forbidden: &'static str,
}

impl Abilities {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            needs_scripts: config.restart_guard() == RestartGuard::Strict,
            scripts: Scripts::default(),
            doubt: None,
            ways: Ways::new(config.without_scripts()),
            native: None,
            native_refused: false,
            shown: Shown::Nothing,
            missing: None,
            counter_ttl: config.counter_ttl(),
            trials: VecDeque::new(),
        }
    }

    /// Records the `native` command for a release that the server has, according to the version in its greeting.
    pub(super) fn greeted(&mut self, native: Option<Dialect>) {
        self.native = native.filter(|_| !self.native_refused);
    }

    /// Handles the end of the handshake. If the server has loaded the scripts, commands use them. If the server has
    /// refused a script on an earlier connection, in words that name scripts, the server first has to show that it runs
    /// them.
    pub(super) fn ready(&mut self) {
        if self.scripts.knows(Taught::Release) {
            let doubt = self.doubt.take();
            self.scripts.refused = doubt.is_some_and(|doubt| doubt.is_about_scripts());
            self.use_scripts();
        }
    }

    /// Handles the end of the connection. The next connection has to show its abilities again.
    pub(super) fn disconnected(&mut self) {
        self.scripts = Scripts::default();
        self.shown = Shown::Nothing;
        self.trials.clear();
    }

    // ----- abilities ------------------------------------------------------------------------

    /// Returns `true` if this connection has shown that a lock may be released.
    pub(super) fn may_release(&self) -> bool {
        match self.shown {
            Shown::Scripts => true,
            Shown::Native => self.native_release().is_some(),
            Shown::Nothing => false,
        }
    }

    /// Returns `true` if this connection has shown that scripts may be run.
    pub(super) const fn may_run_scripts(&self) -> bool {
        matches!(self.shown, Shown::Scripts)
    }

    /// Returns `true` if the connection may run a script that only reads. A node that has only ever given shared locks
    /// and permits has not shown how it releases other locks.
    pub(super) const fn may_read_by_scripts(&self) -> bool {
        self.may_run_scripts() || !matches!(self.scripts.members, Digests::Unknown)
    }

    /// Returns the form in which the node gets this script.
    #[inline]
    pub(super) fn dialect(&self, taught: Taught) -> Dialect {
        match self.scripts.knows(taught) {
            true => Dialect::Sha1,
            false => Dialect::Text,
        }
    }

    /// Returns the commands that a user needs for a lock on this node. The commands include `evalsha` only if the node
    /// gets digests.
    pub(super) fn to_lock(&self) -> &'static [&'static str] {
        &TO_LOCK[..TO_LOCK.len() - usize::from(!self.takes_digests())]
    }

    /// Returns `true` if the node gets scripts by their digests.
    pub(super) fn takes_digests(&self) -> bool {
        self.dialect(Taught::Release) == Dialect::Sha1
    }

    /// Returns the form in which the node gets a script that adds a member.
    pub(super) fn dialect_of_members(&self) -> Dialect {
        match self.scripts.members == Digests::Known && self.takes_digests() {
            true => Dialect::Sha1,
            false => Dialect::TextOnly,
        }
    }

    /// Returns how the node releases locks, as far as this connection has shown the way. This text is for operators.
    pub(crate) fn releasing(&self) -> Option<&'static str> {
        let native = match self.shown {
            Shown::Nothing => return None,
            Shown::Native | Shown::Scripts => self.native_release(),
        };
        Some(match native {
            Some(Dialect::DelIfEq) => "DELIFEQ",
            Some(Dialect::DelEx) => "DELEX",
            Some(Dialect::SetIfEq) => "SET IFEQ",
            Some(Dialect::Watch) => "a transaction",
            Some(Dialect::Sha1 | Dialect::Text | Dialect::TextOnly) | None => "a script",
        })
    }

    /// Returns the form of a release for this node. The form is never a digest if the release has to `repair`.
    ///
    /// Debts are also released natively first, because the user may not be permitted to run scripts. If the previous
    /// connection has refused the native command, the script comes first. A connection that is closed after its
    /// handshake, because the same server is connected under another name, has time for one way only.
    pub(super) fn release_dialect(&self, repair: bool) -> Dialect {
        match self.native_release() {
            Some(native) => native,
            None if repair => Dialect::Text,
            None => self.dialect(Taught::Release),
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// Keeps `entry` until the node has answered the commands for `claim`.
    pub(super) fn begin_trial(&mut self, claim: ClaimKey, entry: &Entry) {
        self.trials.push_back((claim, entry.clone()));
    }

    /// Returns the entry of `claim`, whose trial was answered or withdrawn.
    #[cold]
    pub(crate) fn end_trial(&mut self, claim: ClaimKey) -> Option<Entry> {
        let place = self.trials.iter().position(|(other, _)| *other == claim)?;
        Some(self.trials.remove(place)?.1)
    }

    /// Handles the answer of a script that has taken the keys of `claim`, or has said why it did not. Returns the
    /// meaning of the answer, and the next commands.
    #[cold]
    #[inline(never)]
    pub(super) fn taken(&mut self, claim: ClaimKey, by: Taking, reply: Reply) -> (Reply, Then) {
        match (by, reply.missing()) {
            (Taking::First, None) => {
                self.end_trial(claim);
                self.scripts_permitted();
            }
            (Taking::First, Some(missing)) => return self.first_withheld(claim, missing),
            // The answer shows nothing about locks on one name, which may be released in another way.
            (Taking::Untaught, None) => self.missing = None,
            (Taking::Untaught, Some(missing)) if self.native_release().is_none() => {
                self.forbidden(missing);
            }
            (Taking::Fenced { by }, missing) if by != Dialect::TextOnly => {
                // If a permission is missing, the next script also has to check the permissions.
                self.scripts.has_run_fenced = !matches!(missing, Some(Unusable::Permission { .. }));
                self.trust_scripts();
            }
            // A lock of another kind needs other permissions, so the answer says nothing about such permissions.
            (Taking::Member { .. }, None) => {
                self.scripts.members.run();
                self.trust_scripts();
            }
            (Taking::Fenced { .. }, None) => self.trust_scripts(),
            (Taking::Member { .. } | Taking::Fenced { .. }, Some(_)) => {}
            (Taking::Untaught | Taking::Set | Taking::Checked { .. } | Taking::Watch, _) => {}
        }
        (reply, Then::Nothing)
    }

    /// Records that scripts may release locks.
    pub(crate) fn scripts_permitted(&mut self) {
        self.missing = None;
        self.shown = Shown::Scripts;
    }

    /// Records that the native command may release locks.
    pub(crate) fn native_permitted(&mut self) {
        self.missing = None;
        self.shown = Shown::Native;
    }

    /// Records that the user lacks a permission. A permission that is missing for one key says nothing about other
    /// names.
    pub(crate) fn forbidden(&mut self, missing: Unusable) {
        if missing != Unusable::KeyPermission {
            self.shown = Shown::Nothing;
            self.missing = Some(missing);
        }
    }
}

/// Returns the command that the user may not run, from the answer of a script that takes a lock.
pub(super) fn forbidden_to_lock(answer: i64) -> Option<Unusable> {
    named(&TO_LOCK, answer)
}

/// Returns the command that the user may not run, from the answer of the script that takes a fenced lock.
pub(super) fn forbidden_to_fence(answer: i64) -> Option<Unusable> {
    match answer {
        -2 => Some(Unusable::Permission { command: "time" }),
        _ => forbidden_to_lock(answer.checked_add(2)?),
    }
}

/// Returns the command that the user may not run, from the answer of the script that takes a shared lock or a permit.
pub(super) fn forbidden_to_join(answer: i64) -> Option<Unusable> {
    let answer = answer.checked_add(4)?;
    named(&TO_JOIN, answer).or_else(|| named(&TO_NUMBER, answer.checked_add(TO_JOIN.len() as i64)?))
}

/// Returns the command that the user may not run, from the answer to the question why an extension was refused.
pub(super) fn forbidden_to_extend(answer: i64) -> Option<Unusable> {
    named(&TO_EXTEND, answer).or_else(|| forbidden_to_join(answer))
}

fn named(commands: &[&'static str], answer: i64) -> Option<Unusable> {
    let index = usize::try_from(answer.checked_neg()?)
        .ok()?
        .checked_sub(1)?;
    let command = commands.get(index)?;
    Some(Unusable::Permission { command })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_named() {
        let commands = ["time", "get", "del", "set", "evalsha"];
        for (said, command) in (2..).map(|said: i64| -said).zip(commands) {
            let missing = Unusable::Permission { command };
            assert_eq!(forbidden_to_fence(said), Some(missing));
        }
        for said in [1, 2, -1, 0, -7, i64::MAX, i64::MIN] {
            assert_eq!(forbidden_to_fence(said), None, "{said}");
        }
        let all = TO_JOIN.iter().chain(&TO_NUMBER).copied();
        for (said, command) in (5..).map(|said: i64| -said).zip(all) {
            let missing = Some(Unusable::Permission { command });
            assert_eq!(forbidden_to_join(said), missing);
            assert_eq!(forbidden_to_extend(said), missing);
        }
        for said in [1, 2, 0, -4, -13, i64::MAX, i64::MIN] {
            assert_eq!(forbidden_to_join(said), None, "{said}");
        }
        let missing = Unusable::Permission { command: "pexpire" };
        assert_eq!(forbidden_to_extend(-3), Some(missing));
    }
}
