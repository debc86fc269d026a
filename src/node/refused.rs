//! What follows when a node refuses a command about a lock: the command is sent in another form, or the reason is
//! reported.
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
//! * A refusal counts as "nothing was done" only if that is certain.
//!
//! # Not here
//!
//! Refusals in unknown words that may be about scripts: see `doubt`. Trials of a way to release: see `ways`.

use crate::entry::Entry;
use crate::error::{NodeOutcome, ServerError, Unusable};
use crate::keys::ClaimKey;
use crate::time::Instant;

use super::Node;
use super::refusal::{Forbidden, Refusal, refuses_for_certain, refuses_the_verb, wants_the_text};
use super::reply::Reply;
use super::request::{Dialect, Question, Request, Taking};
use super::ways::Refused;

impl Node {
    /// Returns what the `refusal` of `request` means, and prepares what follows from it.
    #[cold]
    #[inline(never)]
    pub(super) fn refused(&mut self, now: Instant, request: Request, refusal: Refusal) -> Reply {
        let has_other_type =
            matches!(refusal, Refusal::Error(error) if error.code() == "WRONGTYPE");
        match request {
            Request::Take {
                claim,
                by: Taking::First,
            } => self.first_refused(now, claim, refusal),
            Request::Take {
                by: Taking::Fenced { by },
                ..
            } => self.fenced_refused(by, refusal),
            Request::Take { by, .. } => self.take_refused(now, by, refusal),
            _ if has_other_type => Reply::Foreign(0),
            Request::Release { by, several, .. } => self.release_refused(now, by, several, refusal),
            Request::Question { question, by, .. } => {
                self.question_refused(now, question, by, refusal)
            }
            Request::Count { .. } => match refusal {
                Refusal::Forbidden(Forbidden::Command) => Reply::lacks(Unusable::NeedsScripts),
                Refusal::Forbidden(Forbidden::Within) => {
                    Reply::lacks(Unusable::Permission { command: "scan" })
                }
                Refusal::Error(_) | Refusal::Forbidden(Forbidden::Key | Forbidden::Part) => {
                    reported(refusal, Dialect::Text.verb())
                }
            },
            Request::Raise { .. }
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Why { .. }
            | Request::Look { .. }
            | Request::Probe { .. }
            | Request::Handshake(_)
            | Request::Transaction
            | Request::Batch { .. }
            | Request::Withdrawn
            | Request::Time
            | Request::Track => reported(refusal, Dialect::Text.verb()),
        }
    }

    // ----- taking a lock ----------------------------------------------------------------------

    fn first_refused(&mut self, now: Instant, claim: ClaimKey, refusal: Refusal) -> Reply {
        let (entry, verb) = (self.take_asked(claim), Dialect::Text.verb());
        if refusal != Refusal::Forbidden(Forbidden::Command) {
            return reported(refusal, verb);
        }
        if let Err(missing) = self.scripts_refused(verb) {
            return self.withheld(missing);
        }
        if let Some(entry) = entry {
            self.try_ways(now, claim, &entry);
        }
        Reply::Later
    }

    /// The script that takes a lock has found that the user may not release it by a script. Tries the native command of
    /// the node, if it has one.
    #[cold]
    pub(super) fn first_withheld(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: Option<Entry>,
        missing: Unusable,
    ) -> Reply {
        let withheld = self.withheld(missing);
        match (self.native_release(), entry) {
            (Some(way), Some(entry)) => {
                self.ask_native(now, claim, &entry, way);
                Reply::Later
            }
            _ => withheld,
        }
    }

    /// Records that the user lacks a permission without which no lock is taken.
    fn withheld(&mut self, missing: Unusable) -> Reply {
        self.forbidden(missing);
        Reply::lacks(missing)
    }

    fn fenced_refused(&mut self, by: Dialect, refusal: Refusal) -> Reply {
        match refusal {
            Refusal::Error(error) if wants_the_text(error) => {
                self.forgot_fenced_set();
                Reply::Again(NodeOutcome::Refused(error))
            }
            Refusal::Forbidden(Forbidden::Command | Forbidden::Key | Forbidden::Part) => {
                self.forgot_fenced_set();
                reported(refusal, by.verb())
            }
            Refusal::Error(_) | Refusal::Forbidden(Forbidden::Within) => {
                reported(refusal, by.verb())
            }
        }
    }

    fn take_refused(&mut self, now: Instant, by: Taking, refusal: Refusal) -> Reply {
        let (verb, is_script) = match by {
            Taking::Set => ("set", false),
            Taking::Watch => (self.verb_of_transaction(), false),
            Taking::Checked { by } | Taking::Fenced { by } => (by.verb(), true),
            Taking::First | Taking::Several => (Dialect::Text.verb(), true),
        };
        match refusal {
            Refusal::Error(error) if is_script && wants_the_text(error) => {
                self.forgot_scripts(now);
                Reply::Again(NodeOutcome::Refused(error))
            }
            Refusal::Forbidden(Forbidden::Command) if is_script => {
                match self.scripts_refused(verb) {
                    Ok(()) => again_for(verb),
                    Err(missing) => self.withheld(missing),
                }
            }
            Refusal::Forbidden(Forbidden::Command | Forbidden::Key | Forbidden::Part) => {
                if let Some(error) = self.doubt_again() {
                    return Reply::NotDone(NodeOutcome::Refused(error));
                }
                let missing = refusal.missing(verb).unwrap_or(Unusable::NoPermission);
                // A lock on one name may be released in another way.
                if by != Taking::Watch || self.native_release().is_none() {
                    self.forbidden(missing);
                }
                Reply::lacks(missing)
            }
            Refusal::Error(_) | Refusal::Forbidden(Forbidden::Within) => reported(refusal, verb),
        }
    }

    // ----- asking about a lock ------------------------------------------------------------------

    fn question_refused(
        &mut self,
        now: Instant,
        question: Question,
        by: Dialect,
        refusal: Refusal,
    ) -> Reply {
        match refusal {
            Refusal::Error(error)
                if question == Question::Extend
                    && guard!(NoscriptExtensionDropped, wants_the_text(error)) =>
            {
                self.forgot_scripts(now);
                Reply::Again(NodeOutcome::Refused(error))
            }
            Refusal::Forbidden(Forbidden::Command) => match self.scripts_refused(by.verb()) {
                Ok(()) => again_for(by.verb()),
                Err(missing) => Reply::lacks(missing),
            },
            Refusal::Forbidden(Forbidden::Within) => Reply::Stopped,
            Refusal::Error(_) | Refusal::Forbidden(Forbidden::Key | Forbidden::Part) => {
                reported(refusal, self.verb_of_release(by))
            }
        }
    }

    // ----- releasing a lock -----------------------------------------------------------------------

    /// A release is sent in another form, or is owed: [`Reply::Unsure`].
    fn release_refused(
        &mut self,
        now: Instant,
        by: Dialect,
        several: bool,
        refusal: Refusal,
    ) -> Reply {
        let error = refusal.error();
        if by.is_script()
            && refusal == Refusal::Forbidden(Forbidden::Command)
            && self.scripts_refused(by.verb()).is_ok()
        {
            return again_for(by.verb());
        }
        let has_another = match (self.is_without_scripts(), several) {
            (true, true) => {
                self.several_refused(refusal);
                false
            }
            (true, false) => self.way_refused(by, refusal) == Refused::UseAnother,
            (false, _) => self.find_another_way(now, by, error),
        };
        if has_another {
            return Reply::Again(NodeOutcome::Refused(error));
        }
        let missing = refusal.missing(self.verb_of_release(by));
        let is_of_command = matches!(missing, Some(Unusable::Permission { .. }));
        let doubted = is_of_command.then(|| self.doubt_again()).flatten();
        Reply::Unsure(match (doubted, missing) {
            (None, Some(missing)) => NodeOutcome::Unusable(missing),
            (doubted, _) => NodeOutcome::Refused(doubted.unwrap_or(error)),
        })
    }

    /// A node that runs scripts has refused a release. Returns `true` if the release can be written in another way.
    fn find_another_way(&mut self, now: Instant, by: Dialect, error: ServerError) -> bool {
        let forgotten = wants_the_text(error);
        if forgotten {
            self.forgot_scripts(now);
        }
        match by {
            Dialect::Sha1 => forgotten,
            Dialect::Text => {
                if refuses_the_verb(error) {
                    self.refused_scripted_release();
                }
                false
            }
            Dialect::DelIfEq | Dialect::DelEx | Dialect::SetIfEq | Dialect::Watch => {
                let has_another = refuses_the_verb(error);
                if has_another {
                    self.refused_native_release();
                }
                has_another
            }
        }
    }
}

/// The script was not run, because the user may not run `verb`. The node is asked without scripts from now on.
const fn again_for(verb: &'static str) -> Reply {
    Reply::Again(NodeOutcome::Unusable(Unusable::Permission {
        command: verb,
    }))
}

/// Nothing follows from the `refusal` of `command` but a report.
pub(super) fn reported(refusal: Refusal, command: &'static str) -> Reply {
    if refusal == Refusal::Forbidden(Forbidden::Within) {
        // The calls that the script has made before stay done.
        return Reply::Unsure(NodeOutcome::Unusable(Unusable::NoPermission));
    }
    let outcome = refusal.outcome(command);
    match refuses_for_certain(refusal.error()) {
        true => Reply::NotDone(outcome),
        false => Reply::Unsure(outcome),
    }
}
