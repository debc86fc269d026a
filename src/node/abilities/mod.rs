//! The lock commands that a node's server knows and lets our user run.
//!
//! If a user could take a lock but not release it, the key would stay until its ttl has passed. So the engine takes the
//! first lock on a connection with a script, which first checks that the user can release this lock. Permissions can
//! depend on the key's name, so the script checks them for the name of this lock.
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
//! * The engine sends no plain `SET` over a connection until an answer on this connection has shown that the user may
//!   release locks.
//! * After the first lock on a connection, the engine checks no more permissions on this connection.
//!
//! # Not here
//!
//! This file sends no commands, but returns the commands to send as [`Then`]. If a permission is revoked later, or
//! another name needs other permissions, the node itself refuses the command (see `refused`).

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

/// The commands that the user must be permitted to run for a lock that a script releases, in the order in which a
/// script checks them. `EVALSHA` is checked only if scripts are sent by digest.
const TO_LOCK: [&str; 4] = ["get", "del", "set", "evalsha"];

/// The commands that an extension or a confirmation uses.
pub(super) const TO_EXTEND: [&str; 3] = ["get", "pttl", "pexpire"];

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Abilities {
    /// Whether the restart guard uses a marker, which only scripts can check.
    needs_scripts: bool,
    pub(super) scripts: Scripts,
    /// How the node refused scripts, if the error text was unknown.
    doubt: Option<Doubt>,
    ways: Ways,
    /// The server's native command for a release. `None` if this version of the server has no native release, or if the
    /// node has refused it.
    native: Option<Dialect>,
    /// Whether the node has refused its native release command, and has refused no script since then.
    native_refused: bool,
    /// The ways to release locks that have worked on this connection.
    shown: Shown,
    /// The permission that was missing in the latest check, on this or an earlier connection.
    pub(crate) missing: Option<Unusable>,
    /// How long a fencing-token counter lives after its last use.
    pub(super) counter_ttl: Duration,
    /// The locks whose trial release or first script is unanswered, oldest first.
    trials: VecDeque<(ClaimKey, Entry)>,
}

/// The way to release locks that has worked on a connection.
#[derive(Clone, Copy, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// The native command works.
    Native,
    /// Scripts work, so the engine can fall back to scripts if another way fails.
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
    /// Try all ways to release a lock without scripts.
    TryAll(Entry),
}

/// Details of a refusal that `Refusal` does not contain.
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

    /// Records the server's `native` release command, which follows from the version in its greeting.
    pub(super) fn greeted(&mut self, native: Option<Dialect>) {
        self.native = native.filter(|_| !self.native_refused);
    }

    /// Handles the end of the handshake. If the server has loaded the scripts, commands use these scripts. If the
    /// server sent an error about scripts on an earlier connection, the engine uses the scripts only after the server
    /// has run one.
    pub(super) fn ready(&mut self) {
        if self.scripts.knows(Taught::Release) {
            let doubt = self.doubt.take();
            self.scripts.refused = doubt.is_some_and(|doubt| doubt.is_about_scripts());
            self.use_scripts();
        }
    }

    /// Handles the end of the connection. On the next connection, the engine finds out again what the user may do.
    pub(super) fn disconnected(&mut self) {
        self.scripts = Scripts::default();
        self.shown = Shown::Nothing;
        self.trials.clear();
    }

    // ----- abilities ------------------------------------------------------------------------

    /// Returns `true` if an answer on this connection has shown that the user may release locks.
    pub(super) fn may_release(&self) -> bool {
        match self.shown {
            Shown::Scripts => true,
            Shown::Native => self.native_release().is_some(),
            Shown::Nothing => false,
        }
    }

    /// Returns `true` if a script has run on this connection.
    pub(super) const fn may_run_scripts(&self) -> bool {
        matches!(self.shown, Shown::Scripts)
    }

    /// Returns `true` if the connection may run a script that only reads. A script may run as soon as the node has
    /// granted a shared lock or a permit on this connection.
    pub(super) const fn may_read_by_scripts(&self) -> bool {
        self.may_run_scripts() || !matches!(self.scripts.members, Digests::Unknown)
    }

    /// Returns the form in which this script is sent to the node.
    #[inline]
    pub(super) fn dialect(&self, taught: Taught) -> Dialect {
        match self.scripts.knows(taught) {
            true => Dialect::Sha1,
            false => Dialect::Text,
        }
    }

    /// Returns the commands that the user must be permitted to run for a lock on this node. The commands include
    /// `evalsha` only if scripts are sent to the node by digest.
    pub(super) fn to_lock(&self) -> &'static [&'static str] {
        &TO_LOCK[..TO_LOCK.len() - usize::from(!self.takes_digests())]
    }

    /// Returns `true` if the node receives scripts by digest.
    pub(super) fn takes_digests(&self) -> bool {
        self.dialect(Taught::Release) == Dialect::Sha1
    }

    /// Returns the form in which a script that adds a member is sent to the node.
    pub(super) fn dialect_of_members(&self) -> Dialect {
        match self.scripts.members == Digests::Known && self.takes_digests() {
            true => Dialect::Sha1,
            false => Dialect::TextOnly,
        }
    }

    /// Describes for operators how the node releases locks. Returns `None` until an answer on this connection has shown
    /// how the node releases locks.
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

    /// Returns the form in which a release is sent to this node. If `repair` is set, the release is never sent by
    /// digest.
    ///
    /// Unconfirmed releases are also sent in the native form first, because the user may lack the permission to run
    /// scripts. If the node refused the native command on the previous connection, the engine tries scripts first. On a
    /// second connection to the same server, the engine tries only one way, because it closes this connection after the
    /// handshake.
    pub(super) fn release_dialect(&self, repair: bool) -> Dialect {
        match self.native_release() {
            Some(native) => native,
            None if repair => Dialect::Text,
            None => self.dialect(Taught::Release),
        }
    }

    // ----- answers --------------------------------------------------------------------------

    /// Keeps `entry` until the node has answered the trial for `claim`.
    pub(super) fn begin_trial(&mut self, claim: ClaimKey, entry: &Entry) {
        self.trials.push_back((claim, entry.clone()));
    }

    /// Removes and returns the entry of `claim`, after the trial for it was answered or withdrawn.
    #[cold]
    pub(crate) fn end_trial(&mut self, claim: ClaimKey) -> Option<Entry> {
        let place = self.trials.iter().position(|(other, _)| *other == claim)?;
        Some(self.trials.remove(place)?.1)
    }

    /// Handles the answer of a script that tried to take the keys of `claim`. Returns what the answer means, and the
    /// next commands.
    #[cold]
    #[inline(never)]
    pub(super) fn taken(&mut self, claim: ClaimKey, by: Taking, reply: Reply) -> (Reply, Then) {
        match (by, reply.missing()) {
            (Taking::First, None) => {
                self.end_trial(claim);
                self.scripts_permitted();
            }
            (Taking::First, Some(missing)) => return self.first_withheld(claim, missing),
            // Does not change `shown`, because locks on one name may be released in another way.
            (Taking::Untaught, None) => self.missing = None,
            (Taking::Untaught, Some(missing)) if self.native_release().is_none() => {
                self.forbidden(missing);
            }
            (Taking::Fenced { by }, missing) if by != Dialect::TextOnly => {
                // If a permission is missing, the next script also has to check the permissions.
                self.scripts.has_run_fenced = !matches!(missing, Some(Unusable::Permission { .. }));
                self.trust_scripts();
            }
            // Does not change `missing`, because other kinds of lock need other permissions.
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

    /// Records that the user may release locks with scripts.
    pub(crate) fn scripts_permitted(&mut self) {
        self.missing = None;
        self.shown = Shown::Scripts;
    }

    /// Records that the user may release locks with the native command.
    pub(crate) fn native_permitted(&mut self) {
        self.missing = None;
        self.shown = Shown::Native;
    }

    /// Records that the user lacks a permission, unless the permission concerns only one key.
    pub(crate) fn forbidden(&mut self, missing: Unusable) {
        if missing != Unusable::KeyPermission {
            self.shown = Shown::Nothing;
            self.missing = Some(missing);
        }
    }
}

/// Returns the command that the user may not run, according to the answer of a script that takes a lock.
pub(super) fn forbidden_to_lock(answer: i64) -> Option<Unusable> {
    named(&TO_LOCK, answer)
}

/// Returns the command that the user may not run, according to the answer of the script that takes a fenced lock.
pub(super) fn forbidden_to_fence(answer: i64) -> Option<Unusable> {
    match answer {
        -2 => Some(Unusable::Permission { command: "time" }),
        _ => forbidden_to_lock(answer.checked_add(2)?),
    }
}

/// Returns the command that the user may not run, according to the answer of a script that takes a shared lock or a
/// permit.
pub(super) fn forbidden_to_join(answer: i64) -> Option<Unusable> {
    let answer = answer.checked_add(4)?;
    named(&TO_JOIN, answer).or_else(|| named(&TO_NUMBER, answer.checked_add(TO_JOIN.len() as i64)?))
}

/// Reads from the node's answer which command of an extension the user may not run.
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
