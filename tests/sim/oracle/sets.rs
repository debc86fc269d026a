//! Set: a node keeps all names of a lock on several resources, or none of them.
//!
//! After a command for such a lock, on its node:
//!
//! * all names hold its token if the node has said that they do, or that they live longer;
//! * none does after a release;
//! * as many as before in every other case, and if another client holds one.
//!
//! # What it does not see
//!
//! Names that are lost by time, operators and restarts: a node that has lost some of the names keeps the others until
//! the next command.

use shearline::Instant;

use super::ledger::{Command, Said, Token, TokenId, Verb};
use super::{Deed, name_of};
use crate::world::World;

/// The values of the names of a lock on several resources on a node. Empty for another lock.
#[derive(Debug, Default)]
pub(crate) struct SetBefore {
    names: Vec<usize>,
    held: Vec<Option<Token>>,
}

impl SetBefore {
    pub(crate) fn of(all: impl Iterator<Item = (usize, Option<Token>)>) -> Self {
        let (names, held) = all.unzip();
        Self { names, held }
    }

    pub(crate) fn is_any_there(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }

    /// Returns the value of the name with this number, counted from 2.
    pub(crate) fn in_the_way(&self, number: Option<i64>) -> Option<Token> {
        let number = usize::try_from(number?).ok()?.checked_sub(2)?;
        *self.held.get(number)?
    }

    /// Returns the first token that is another one.
    pub(crate) fn first_other(&self, token: &Token) -> Option<Token> {
        let mut held = self.held.iter().flatten();
        held.find(|held| *held != token).copied()
    }

    fn count(&self, token: Option<Token>) -> usize {
        self.held.iter().filter(|held| **held == token).count()
    }
}

impl World {
    /// Returns the values of the names before a server executes a command.
    pub(crate) fn set_before(&self, server: usize, shown: Instant, of: &Command<'_>) -> SetBefore {
        if self.plan.sets == 0 {
            return SetBefore::default();
        }
        let known = self.oracle.ledger.find_any(of.token);
        let known = known.map(|id| &self.oracle.ledger.record(id).names);
        let names = match of.keys {
            [] => known.cloned().unwrap_or_default(),
            keys => keys.iter().map(|key| name_of(key)).collect(),
        };
        self.set_now(server, shown, names)
    }

    fn set_now(&self, server: usize, shown: Instant, names: Vec<usize>) -> SetBefore {
        let server = &self.servers[server];
        let held = names.iter();
        let held = held.map(|name| server.token_at(shown, &self.names[*name]));
        SetBefore {
            held: held.collect(),
            names,
        }
    }

    /// Checks a command that a server has executed. `after` are the values of the names after it, if other commands
    /// have followed.
    pub(crate) fn set_executed(
        &mut self,
        deed: &Deed<'_>,
        before: &SetBefore,
        after: Option<&SetBefore>,
    ) {
        if before.names.is_empty() {
            return;
        }
        let token = deed.command.token;
        if let Some(id) = self.oracle.ledger.find_any(token) {
            let record = self.oracle.ledger.record_mut(id);
            if record.names.is_empty() {
                record.names.clone_from(&before.names);
            }
        }
        let now = || self.set_now(deed.server, deed.shown, before.names.clone());
        let now = after.is_none().then(now);
        let Some(after) = after.or(now.as_ref()) else {
            unreachable!("there is one of both");
        };
        if !deed.command.keys.is_empty() {
            for (before, after) in before.held.iter().zip(&after.held) {
                self.foreign_key(&Deed {
                    before: *before,
                    after: *after,
                    ..*deed
                });
            }
        }
        let (all, had, has) = (before.names.len(), before.count(token), after.count(token));
        let kept = match (deed.command.verb, deed.done) {
            (Verb::Set, Said::Ok) => has == all,
            (Verb::Extend | Verb::Beside | Verb::Keep | Verb::Confirm, Said::One) => {
                had == all && has == all
            }
            (Verb::Release, Said::One | Said::Zero | Said::Foreign) => has == 0,
            _ => has == had,
        };
        if !kept {
            let text = format!(
                "server {} has {has} of {all} names after {:?} by client {}, and had {had}",
                deed.server, deed.command.verb, deed.peer
            );
            self.object("set", text);
        }
    }

    /// Returns `true` if a server has the token under all its names.
    pub(super) fn has_all(&self, server: usize, id: TokenId) -> bool {
        let mut names = self.oracle.ledger.record(id).each_name().iter();
        names.all(|name| self.token_on(server, &self.names[*name]) == Some(id))
    }
}
