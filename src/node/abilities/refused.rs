//! Decides what to do when a node refuses a lock command: send the command in another form, or report the reason.
//!
//! | refused | what follows |
//! | --- | --- |
//! | the digest of a script is unknown | the scripts are loaded again, and the command is sent by its text |
//! | the user may not run scripts, or the server has none | the node is asked without scripts from now on: see `ways` |
//! | a way of releasing is unknown or forbidden | the next way |
//! | a command is forbidden to the user, or the key is | the report names the permission |
//! | anything else | the report names the error |
//!
//! # Guarantees
//!
//! * If a refused command may have run, the reply never says that nothing was done.
//!
//! # Not here
//!
//! The module `doubt` handles refusals with unknown texts that may concern scripts. The module `ways` finds out which
//! commands can release a lock on the node.

use crate::error::{NodeOutcome, ServerError, Unusable};
use crate::keys::ClaimKey;
use crate::node::refusal::{
    Forbidden, Refusal, refuses_for_certain, refuses_the_verb, wants_the_text,
};
use crate::node::reply::Reply;
use crate::node::request::{Dialect, Question, Request, Taking};

use super::scripts::Digests;
use super::ways::Refused;
use super::{Abilities, Hints, Then};

impl Abilities {
    /// Returns what the `refusal` of `request` means, and the next commands. `transacted` says whether a transaction
    /// was used.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn refused(
        &mut self,
        request: Request,
        refusal: Refusal,
        transacted: bool,
        hints: &mut Hints<'_>,
    ) -> (Reply, Then) {
        let refusal = self.reworded(request, refusal, transacted, hints.words);
        let reply = match request {
            Request::Take {
                claim,
                by: Taking::First,
            } => return self.first_refused(claim, refusal),
            Request::Take { by, .. } => self.take_refused(by, refusal, hints),
            Request::Release { .. }
            | Request::Question { .. }
            | Request::Raise { .. }
            | Request::Name { .. }
                if has_other_type(refusal) =>
            {
                Reply::Foreign(0)
            }
            Request::Release { by, is_taught, .. } => {
                self.release_refused(by, is_taught, refusal, hints)
            }
            Request::Question { question, by, .. } => {
                self.question_refused(question, by, refusal, hints)
            }
            Request::Scan { .. } => scan_refused(refusal),
            Request::Raise { .. }
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Why { .. }
            | Request::Name { .. }
            | Request::Probe { .. } => reported(refusal, Dialect::Text.verb()),
        };
        // The handshake never loads the scripts that take a fenced lock, a shared lock or a permit. If the server does
        // not know one of these scripts, it may still know the scripts that the handshake loaded, so they are not
        // loaded again.
        let is_never_loaded = matches!(
            request,
            Request::Take {
                by: Taking::Fenced { .. } | Taking::Member { .. },
                ..
            }
        );
        let is_unknown = wants_the_text(refusal.error()) && !is_never_loaded;
        match is_unknown && self.scripts.forget() {
            true => (reply, Then::LoadScripts),
            false => (reply, Then::Nothing),
        }
    }

    // ----- taking a lock ----------------------------------------------------------------------

    fn first_refused(&mut self, claim: ClaimKey, refusal: Refusal) -> (Reply, Then) {
        let (entry, verb) = (self.end_trial(claim), Dialect::Text.verb());
        if refusal != Refusal::Forbidden(Forbidden::Command) {
            return (reported(refusal, verb), Then::Nothing);
        }
        if let Err(missing) = self.scripts_refused(verb) {
            return (self.withheld(missing), Then::Nothing);
        }
        (Reply::Later, entry.map_or(Then::Nothing, Then::TryAll))
    }

    /// Tries the native release command of the node, if it has one. The script that takes a lock has found that this
    /// user may not release the lock with a script.
    #[cold]
    pub(super) fn first_withheld(&mut self, claim: ClaimKey, missing: Unusable) -> (Reply, Then) {
        let withheld = self.withheld(missing);
        match (self.native_release(), self.end_trial(claim)) {
            (Some(way), Some(entry)) => (Reply::Later, Then::Try(entry, way)),
            _ => (withheld, Then::Nothing),
        }
    }

    /// Records that the user lacks a permission that is needed for every lock.
    fn withheld(&mut self, missing: Unusable) -> Reply {
        self.forbidden(missing);
        Reply::lacks(missing)
    }

    fn take_refused(&mut self, by: Taking, refusal: Refusal, hints: &mut Hints<'_>) -> Reply {
        let is_fenced = matches!(by, Taking::Fenced { .. });
        let by_text = Taking::Fenced {
            by: Dialect::TextOnly,
        };
        self.scripts.has_run_fenced &= !is_fenced || by == by_text;
        let is_member = matches!(by, Taking::Member { .. });
        let (verb, is_script) = match by {
            Taking::Set => ("set", false),
            Taking::Watch => (self.verb_of_transaction(hints.forbidden), false),
            Taking::Checked { by } | Taking::Fenced { by } | Taking::Member { by } => {
                (by.verb(), true)
            }
            Taking::First | Taking::Untaught => (Dialect::Text.verb(), true),
        };
        match refusal {
            Refusal::Error(error) if is_script && wants_the_text(error) => {
                if is_member {
                    self.scripts.members = Digests::Unknown;
                }
                Reply::Again(NodeOutcome::Refused(error))
            }
            Refusal::Forbidden(Forbidden::Command)
                if by == (Taking::Member { by: Dialect::Sha1 }) =>
            {
                self.scripts.members = Digests::Forbidden;
                again_for(verb)
            }
            // Other kinds of lock need fewer permissions, so this refusal says nothing about them.
            Refusal::Forbidden(_) if is_fenced || is_member => reported(refusal, verb),
            Refusal::Forbidden(Forbidden::Command) if is_script => {
                match self.scripts_refused(verb) {
                    Ok(()) => again_for(verb),
                    Err(missing) => self.withheld(missing),
                }
            }
            Refusal::Forbidden(Forbidden::Command | Forbidden::Key | Forbidden::Part) => {
                if let Some(error) = self.doubt_again(hints.words) {
                    return Reply::NotDone(NodeOutcome::Refused(error));
                }
                let missing = refusal.missing(verb).unwrap_or(Unusable::NoPermission);
                // A refused transaction does not make the node unusable, because a lock on one name may be released in
                // another way.
                if by != Taking::Watch {
                    self.forbidden(missing);
                }
                Reply::lacks(missing)
            }
            Refusal::Error(_) | Refusal::Forbidden(Forbidden::Within) => reported(refusal, verb),
        }
    }

    // ----- questions about a lock ---------------------------------------------------------------

    fn question_refused(
        &mut self,
        question: Question,
        by: Dialect,
        refusal: Refusal,
        hints: &Hints<'_>,
    ) -> Reply {
        match refusal {
            Refusal::Error(error)
                if question == Question::Extend
                    && guard!(NoscriptExtensionDropped, wants_the_text(error)) =>
            {
                Reply::Again(NodeOutcome::Refused(error))
            }
            Refusal::Forbidden(Forbidden::Command) if by == Dialect::TextOnly => {
                reported(refusal, by.verb())
            }
            Refusal::Forbidden(Forbidden::Command) => match self.scripts_refused(by.verb()) {
                Ok(()) => again_for(by.verb()),
                Err(missing) => Reply::lacks(missing),
            },
            Refusal::Forbidden(Forbidden::Within) => Reply::Stopped,
            Refusal::Error(_) | Refusal::Forbidden(Forbidden::Key | Forbidden::Part) => {
                reported(refusal, self.verb_of_release(by, hints))
            }
        }
    }

    // ----- releasing a lock -----------------------------------------------------------------------

    /// Sends the release again in another form. If no form is left, the engine retries the release later
    /// ([`Reply::Unsure`]).
    fn release_refused(
        &mut self,
        by: Dialect,
        is_taught: bool,
        refusal: Refusal,
        hints: &mut Hints<'_>,
    ) -> Reply {
        let error = refusal.error();
        if by == Dialect::TextOnly {
            return Reply::Unsure(refusal.outcome(by.verb()));
        }
        if by.is_script()
            && refusal == Refusal::Forbidden(Forbidden::Command)
            && self.scripts_refused(by.verb()).is_ok()
        {
            return again_for(by.verb());
        }
        let has_another = match (self.is_without_scripts(), is_taught) {
            (true, false) => {
                self.several_refused(refusal);
                false
            }
            (true, true) => self.way_refused(by, refusal, hints) == Refused::UseAnother,
            (false, _) => self.find_another_way(by, error),
        };
        if has_another {
            return Reply::Again(NodeOutcome::Refused(error));
        }
        let missing = refusal.missing(self.verb_of_release(by, hints));
        let is_of_command = matches!(missing, Some(Unusable::Permission { .. }));
        let doubted = is_of_command
            .then(|| self.doubt_again(hints.words))
            .flatten();
        Reply::Unsure(match (doubted, missing) {
            (None, Some(missing)) => NodeOutcome::Unusable(missing),
            (doubted, _) => NodeOutcome::Refused(doubted.unwrap_or(error)),
        })
    }

    /// Looks for another form of a release that a node with scripts has refused. Returns `true` if another form exists.
    fn find_another_way(&mut self, by: Dialect, error: ServerError) -> bool {
        let refused = refuses_the_verb(error);
        match by {
            Dialect::Sha1 => wants_the_text(error),
            Dialect::Text | Dialect::TextOnly => {
                self.native_refused &= !refused; // On the next connection the native way comes first again.
                false
            }
            Dialect::DelIfEq | Dialect::DelEx | Dialect::SetIfEq | Dialect::Watch => {
                if refused && self.native == Some(by) {
                    self.native = None;
                    self.native_refused = true;
                }
                refused
            }
        }
    }
}

/// Returns `true` if `refusal` means that the key has a type that no lock uses.
fn has_other_type(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Error(error) if error.code() == "WRONGTYPE")
}

fn scan_refused(refusal: Refusal) -> Reply {
    match refusal {
        Refusal::Forbidden(Forbidden::Command) => Reply::lacks(Unusable::NeedsScripts),
        Refusal::Forbidden(Forbidden::Within) => {
            Reply::lacks(Unusable::Permission { command: "scan" })
        }
        Refusal::Error(_) | Refusal::Forbidden(Forbidden::Key | Forbidden::Part) => {
            reported(refusal, Dialect::Text.verb())
        }
    }
}

/// Returns the reply for a script that did not run because the user may not run `verb`. From now on, the engine sends
/// no scripts to the node.
const fn again_for(verb: &'static str) -> Reply {
    Reply::Again(NodeOutcome::Unusable(Unusable::Permission {
        command: verb,
    }))
}

/// Reports the `refusal` of `command`, without further action.
fn reported(refusal: Refusal, command: &'static str) -> Reply {
    if refusal == Refusal::Forbidden(Forbidden::Within) {
        // The earlier commands of the script have already run, so the outcome is unknown.
        return Reply::Unsure(NodeOutcome::Unusable(Unusable::NoPermission));
    }
    let outcome = refusal.outcome(command);
    match refuses_for_certain(refusal.error()) {
        true => Reply::NotDone(outcome),
        false => Reply::Unsure(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keys::OperationKey;
    use crate::node::handshake::Words;
    use crate::node::request::Taught;
    use crate::resp::Value;
    use crate::slab::Slab;

    /// If a node refuses a script that no other command can replace, the engine sends the same script again. The
    /// refusal does not affect other locks.
    #[test]
    fn a_refused_script_of_a_shared_lock_says_nothing_about_other_locks() {
        let claim = ClaimKey(Slab::new().insert(()));
        let operation = OperationKey(Slab::new().insert(()));
        let (by, is_taught, repair) = (Dialect::TextOnly, false, false);
        let requests = [
            Request::Take {
                claim,
                by: Taking::Member { by },
            },
            Request::Take {
                claim,
                by: Taking::Fenced { by },
            },
            Request::Question {
                question: Question::Extend,
                operation,
                claim: Some(claim),
                by,
            },
            Request::Release {
                claim,
                by,
                is_taught,
                repair,
            },
        ];
        let missing = NodeOutcome::Unusable(Unusable::Permission { command: "eval" });
        for line in [
            "NOPERM this user has no permissions to run the 'eval' command",
            "ERR unknown command 'EVAL', with args beginning with:",
        ] {
            for request in requests {
                let config = Config::builder().node("a").config().expect("valid");
                let mut abilities = Abilities::new(&config);
                let mut hints = Hints {
                    words: &mut Words::default(),
                    forbidden: "",
                };
                let refusal = Refusal::of(Value::Error(line.as_bytes()));
                let (reply, then) = abilities.refused(request, refusal, false, &mut hints);
                let expected = match matches!(request, Request::Release { .. }) {
                    true => Reply::Unsure(missing),
                    false => Reply::NotDone(missing),
                };
                assert_eq!(reply, expected, "{request:?} {line}");
                assert!(matches!(then, Then::Nothing), "{then:?}");
                assert!(!abilities.is_without_scripts() && abilities.missing.is_none());
            }
        }
    }

    /// Once the server has run a script that adds a member, the script is sent by its digest until the server refuses
    /// the digest.
    #[test]
    fn a_script_that_was_run_goes_by_its_digest() {
        let claim = ClaimKey(Slab::new().insert(()));
        let config = Config::builder().node("a").config().expect("valid");
        let mut abilities = Abilities::new(&config);
        let digest = Taught::Release.script().sha1.as_bytes();
        abilities
            .scripts
            .loaded(Taught::Release, Value::Bulk(digest));
        let refuse = |abilities: &mut Abilities, line: &str| {
            let (by, words) = (abilities.dialect_of_members(), &mut Words::default());
            let mut hints = Hints {
                words,
                forbidden: "",
            };
            let by = Taking::Member { by };
            let refusal = Refusal::of(Value::Error(line.as_bytes()));
            let request = Request::Take { claim, by };
            let (reply, then) = abilities.refused(request, refusal, false, &mut hints);
            assert!(matches!(reply, Reply::Again(_)) && matches!(then, Then::Nothing));
            assert_eq!(abilities.dialect_of_members(), Dialect::TextOnly, "{line}");
        };
        let run = |abilities: &mut Abilities| {
            let by = abilities.dialect_of_members();
            abilities.taken(claim, Taking::Member { by }, Reply::Done);
            abilities.dialect_of_members()
        };
        assert_eq!(abilities.dialect_of_members(), Dialect::TextOnly);
        assert_eq!(run(&mut abilities), Dialect::Sha1);
        refuse(
            &mut abilities,
            "NOSCRIPT No matching script. Please use EVAL.",
        );
        assert_eq!(run(&mut abilities), Dialect::Sha1);
        let forbidden = "NOPERM this user has no permissions to run the 'evalsha' command";
        refuse(&mut abilities, forbidden);
        assert_eq!(run(&mut abilities), Dialect::TextOnly);
        abilities.disconnected();
        assert_eq!(run(&mut abilities), Dialect::TextOnly, "no digest is known");
    }
}
