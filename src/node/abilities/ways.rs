//! The ways to release a lock on one node without a script. The node's answers show which of these ways it permits.
//!
//! A node may refuse to run a script, because the user may not run it or the server does not know the command. From
//! then on, the engine sends no scripts to this node. If the node loads the scripts in a later handshake, the engine
//! sends scripts again.
//!
//! Before the first `SET` of a connection, the engine tries all ways together, with a token that no key contains.
//! Afterwards, the engine uses the first way that the node knows and permits. The engine remembers this way for the
//! next connection, on which it first sends the unconfirmed releases. The engine ignores the version of the server,
//! because a proxy in front of the server may know fewer commands.
//!
//! | answer to a way | means |
//! | --- | --- |
//! | the answer of the command | the way may be used |
//! | the command is unknown, or forbidden to the user | the way may not be used |
//! | any other refusal | it may be temporary: the way is tried again with the next `SET` |
//!
//! # Guarantees
//!
//! * The engine sends no `SET` over a connection until one way to release has worked there.
//! * For an unconfirmed release, the engine tries all ways, one after another, even if the node has refused each of
//!   them. After the last way, the engine tries a script again, unless the configuration forbids scripts.
//! * If a node runs scripts, the engine tries no other ways to release a lock.
//!
//! # Not here
//!
//! For nodes that run scripts, see the [module above](super).

use crate::error::{NodeOutcome, Unusable};
use crate::keys::ClaimKey;
use crate::node::connection::Heard;
use crate::node::refusal::{Forbidden, Refusal, refuses_the_verb};
use crate::node::reply::{Answer, Reply};
use crate::node::request::{Dialect, Request};

use super::{Abilities, Hints, Shown};

/// All ways to release a lock without a script, in the order of preference.
pub(in crate::node) const ORDER: [Dialect; 4] = [
    Dialect::DelIfEq,
    Dialect::DelEx,
    Dialect::SetIfEq,
    Dialect::Watch,
];

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ways {
    /// Whether the engine currently avoids scripts on this node.
    on: bool,
    /// Whether the configuration forbids scripts.
    never: bool,
    /// The script command that the node has refused.
    script_verb: &'static str,
    /// The index in [`ORDER`] of the way that the engine uses now or tries next.
    place: usize,
    /// The ways that the node does not know or does not permit.
    refused: [bool; ORDER.len()],
    /// Whether the node has refused the only way to release a lock on several resources.
    several_refused: bool,
}

/// What to do after a node has refused a way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refused {
    /// Try the way again later, because the node may permit it then.
    ForNow,
    /// Use another way to release locks.
    UseAnother,
    /// The node has refused all ways to release a lock. The value is the missing command or permission.
    NoneLeft(Unusable),
}

impl Ways {
    pub(super) const fn new(never: bool) -> Self {
        Self {
            on: never,
            never,
            script_verb: Dialect::Text.verb(),
            place: 0,
            refused: [false; ORDER.len()],
            several_refused: false,
        }
    }

    fn way(&self) -> Dialect {
        ORDER[self.place]
    }

    fn is_none_left(&self) -> bool {
        !self.refused.contains(&false)
    }

    /// Records that the node refuses `way`. From now on, the engine uses the next way that the node has not refused. If
    /// the node has refused all ways, the engine cycles through them.
    fn refuse(&mut self, way: Dialect) {
        let Some(place) = ORDER.iter().position(|other| *other == way) else {
            return;
        };
        self.refused[place] = true;
        if self.place == place || self.refused[self.place] {
            let behind = (1..=ORDER.len()).map(|step| (place + step) % ORDER.len());
            let next = behind.clone().find(|place| !self.refused[*place]);
            self.place = next.unwrap_or((place + 1) % ORDER.len());
        }
    }

    /// Records that the node permits `way`. If `used` is set, the engine uses this way from now on. Otherwise, the
    /// engine uses this way only if it precedes the current way in [`ORDER`].
    fn permit(&mut self, way: Dialect, used: bool) {
        if let Some(place) = ORDER.iter().position(|other| *other == way) {
            self.refused[place] = false;
            if used || place < self.place {
                self.place = place;
            }
        }
    }
}

impl Abilities {
    /// Returns `true` if the engine sends no scripts to the node.
    #[inline]
    pub(crate) fn is_without_scripts(&self) -> bool {
        self.ways.on
    }

    /// Returns the way to release a lock on one name without a script, if there is one.
    pub(super) fn native_release(&self) -> Option<Dialect> {
        match self.ways.on {
            true => Some(self.ways.way()),
            false => self.native,
        }
    }

    /// Returns `true` if the node is known to run no scripts.
    pub(crate) fn runs_no_scripts(&self) -> bool {
        self.ways.on && self.doubt.is_none()
    }

    /// Returns `true` if the configuration permits our scripts on the node.
    pub(in crate::node) fn gets_scripts(&self) -> bool {
        !self.ways.never
    }

    /// Records that the node has refused `verb`, which runs scripts. From now on, the engine sends no scripts to the
    /// node.
    ///
    /// # Errors
    ///
    /// Fails if the restart guard needs scripts.
    #[cold]
    pub(super) fn scripts_refused(&mut self, verb: &'static str) -> Result<(), Unusable> {
        if self.needs_scripts {
            return Err(Unusable::NeedsScripts);
        }
        if !self.ways.on {
            self.ways = Ways {
                on: true,
                script_verb: verb,
                ..Ways::new(false)
            };
            self.shown = Shown::Nothing;
        }
        Ok(())
    }

    /// Uses scripts again, because the node runs them or because a new try is due.
    #[cold]
    pub(super) fn use_scripts(&mut self) {
        if self.ways.never || !self.ways.on {
            return;
        }
        self.ways.on = false;
        self.shown = Shown::Nothing;
        self.doubt = None;
        self.scripts.tried = false;
    }

    /// Uses scripts again if the node has refused all other ways to release one resource, or the transaction that
    /// releases several resources.
    #[cold]
    pub(crate) fn reconsider_scripts(&mut self) {
        if self.ways.is_none_left() || self.ways.several_refused {
            self.use_scripts();
        }
    }

    /// Records that the node has refused the transaction that releases a lock on several resources.
    #[cold]
    pub(super) fn several_refused(&mut self, refusal: Refusal) {
        self.ways.several_refused |= is_final(Dialect::Watch, refusal);
    }

    /// Returns the command that the user must be permitted to run, after a transaction failed because of `forbidden`.
    /// If `watch`, `multi` or `exec` is forbidden, returns the script command instead, unless the configuration forbids
    /// scripts.
    pub(super) fn verb_of_transaction(&self, forbidden: &'static str) -> &'static str {
        match forbidden {
            "watch" | "multi" | "exec" if !self.ways.never => self.ways.script_verb,
            verb => verb,
        }
    }

    /// Returns the name of the command that the dialect `by` uses to release a lock, for an error about permissions.
    #[cold]
    pub(super) fn verb_of_release(&self, by: Dialect, hints: &Hints<'_>) -> &'static str {
        match by == Dialect::Watch {
            true => self.verb_of_transaction(hints.forbidden),
            false => by.verb(),
        }
    }

    /// Records that the node permits `way`.
    pub(crate) fn way_permitted(&mut self, way: Dialect) {
        let is_news = !self.may_release();
        self.ways.permit(way, is_news);
        self.native_permitted();
    }

    // ----- trials ---------------------------------------------------------------------------

    /// Handles the answer to a trial release. The trial names a token that no key contains, so any answer about the key
    /// shows that the user may use the way.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn tried(
        &mut self,
        request: Request,
        said: Result<Reply, Refusal>,
        hints: &mut Hints<'_>,
    ) -> Heard {
        let Request::Probe {
            claim,
            way,
            with_others,
        } = request
        else {
            unreachable!("{request:?} is no trial");
        };
        let (was_usable, might_release) = (self.missing.is_none(), self.may_release());
        let refusal = match said {
            Err(Refusal::Error(error)) if error.code() == "WRONGTYPE" => None,
            said => said.err(),
        };
        let reply = if way == Dialect::Text {
            self.end_trial(claim);
            let why = self.scripts_tried(refusal, hints.words);
            Some(why.map_or(Reply::Done, Reply::NotDone))
        } else if with_others || self.ways.on {
            self.way_tried(claim, way, refusal, hints)
        } else {
            Some(self.native_tried(refusal))
        };
        Heard::Tried {
            answer: reply.map(|reply| Answer { request, reply }),
            error: refusal.map(Refusal::error),
            is_usable_again: !was_usable && self.missing.is_none(),
            is_news: !might_release && self.may_release(),
        }
    }

    /// Handles the answer to a trial of the native release command. The engine tries this command if the user's scripts
    /// are not permitted to delete the key.
    fn native_tried(&mut self, refusal: Option<Refusal>) -> Reply {
        match refusal.map(Refusal::error) {
            None => {
                self.native_permitted();
                Reply::Done
            }
            Some(error) if refuses_the_verb(error) => {
                self.native = None;
                self.native_refused = true;
                Reply::lacks(self.missing.unwrap_or(Unusable::NoPermission))
            }
            Some(error) => Reply::NotDone(NodeOutcome::Refused(error)),
        }
    }

    /// Handles the answer about one `way` while the engine tries all ways to release a lock. Chooses the first
    /// permitted way. If the node refuses all ways, the reply follows from the last refusal.
    fn way_tried(
        &mut self,
        claim: ClaimKey,
        way: Dialect,
        refusal: Option<Refusal>,
        hints: &mut Hints<'_>,
    ) -> Option<Reply> {
        let is_last = way == Dialect::Watch;
        let is_waited_for = match refusal.is_none() || is_last {
            true => self.end_trial(claim).is_some(),
            false => false,
        };
        if !self.is_without_scripts() {
            return is_last.then_some(Reply::Done); // Meanwhile, scripts are tried again.
        }
        let Some(refusal) = refusal else {
            self.way_permitted(way);
            return is_waited_for.then_some(Reply::Done);
        };
        // Reports the last refusal even if another lock has found a permitted way, because the user may lack the
        // permission for this lock's key.
        let is_told = is_last && (is_waited_for || !self.may_release());
        if !is_told {
            self.way_refused(way, refusal, hints);
            return None;
        }
        if refusal == Refusal::Forbidden(Forbidden::Key) {
            return Some(Reply::lacks(Unusable::KeyPermission));
        }
        let refused = self.way_refused(way, refusal, hints);
        Some(Reply::NotDone(
            match (refused, self.doubt_again(hints.words)) {
                (_, Some(error)) => NodeOutcome::Refused(error),
                (Refused::NoneLeft(missing), None) => {
                    self.forbidden(missing);
                    NodeOutcome::Unusable(missing)
                }
                // The node has refused a way to release, but may permit it later.
                (Refused::ForNow | Refused::UseAnother, None) => {
                    NodeOutcome::Refused(refusal.error())
                }
            },
        ))
    }

    /// Records that the node has refused `way`. If `way` was the current way, the engine must find another one.
    pub(super) fn way_refused(
        &mut self,
        way: Dialect,
        refusal: Refusal,
        hints: &Hints<'_>,
    ) -> Refused {
        if !is_final(way, refusal) {
            return Refused::ForNow;
        }
        let command = match self.ways.never {
            true => self.verb_of_release(way, hints),
            false => self.ways.script_verb,
        };
        if self.ways.way() == way {
            self.shown = Shown::Nothing;
        }
        self.ways.refuse(way);
        match self.ways.is_none_left() {
            true => Refused::NoneLeft(Unusable::Permission { command }),
            false => Refused::UseAnother,
        }
    }
}

/// Returns `true` if `refusal` means that the node does not know `way`, or does not permit it to the user.
fn is_final(way: Dialect, refusal: Refusal) -> bool {
    match refusal {
        Refusal::Forbidden(Forbidden::Command | Forbidden::Part) => true,
        // A server answers an unknown option with a syntax error, which has only the general code `ERR`.
        Refusal::Error(error) => way == Dialect::SetIfEq && error.code() == "ERR",
        Refusal::Forbidden(Forbidden::Key | Forbidden::Within) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_after_the_other_is_used() {
        let mut ways = Ways::new(true);
        for (place, way) in ORDER.into_iter().enumerate() {
            assert_eq!(ways.way(), way);
            assert!(!ways.is_none_left());
            ways.refuse(way);
            // If two commands were sent together and both are refused, only the first refusal changes the way.
            ways.refuse(way);
            let next = ORDER[(place + 1) % ORDER.len()];
            if place + 1 < ORDER.len() {
                assert_eq!(ways.way(), next);
            }
        }
        assert!(ways.is_none_left());
        // When the node has refused all ways, the engine still tries them one after another to release the remaining
        // tokens.
        let first = ways.way();
        ways.refuse(first);
        assert_ne!(ways.way(), first);
    }

    #[test]
    fn a_way_that_is_permitted_is_used() {
        let mut ways = Ways::new(true);
        ways.refuse(Dialect::DelIfEq);
        ways.permit(Dialect::Watch, true);
        assert_eq!(ways.way(), Dialect::Watch);
        ways.refuse(Dialect::DelEx);
        assert_eq!(ways.way(), Dialect::Watch);
        // A better way replaces the current one, and a worse one does not.
        ways.permit(Dialect::SetIfEq, false);
        assert_eq!(ways.way(), Dialect::SetIfEq);
        ways.permit(Dialect::Watch, false);
        assert_eq!(ways.way(), Dialect::SetIfEq);
    }

    #[test]
    fn what_is_unknown_or_forbidden_is_refused_for_good_and_all_else_for_now() {
        let of = |line: &str| Refusal::of(crate::resp::Value::Error(line.as_bytes()));
        for way in ORDER {
            for (line, refused) in [
                ("ERR unknown command 'DELIFEQ', with args beginning", true),
                ("NOPERM no permissions to run the 'x' command", true),
                ("NOPERM No permissions to access a key", false),
                ("ERR syntax error", way == Dialect::SetIfEq),
                ("BUSY Redis is busy running a script", false),
                ("LOADING Redis is loading the dataset in memory", false),
                ("EXECABORT Transaction discarded", false),
            ] {
                assert_eq!(is_final(way, of(line)), refused, "{way:?} {line}");
            }
        }
    }
}
