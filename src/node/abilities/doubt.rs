//! Handles nodes that refuse scripts with unknown error texts. Some proxies, and some servers that imitate Redis, use
//! error texts that Redis and Valkey do not use.
//!
//! A refusal with an unknown text may mean that the node never runs scripts, or only that it has a temporary problem.
//! The refused command may even have run, so the engine tries another form only if the command cannot have left a key.
//! The engine tries scripts again later:
//!
//! | what the node does | what follows |
//! | --- | --- |
//! | it loads the scripts in its handshake | no doubt |
//! | it refuses to load them, and the error is permanent and names no permission | doubt |
//! | it has loaded the scripts, and refuses one of them in words that name scripts | doubt |
//! | it has loaded them, and refused one in such words on an earlier connection | doubt |
//!
//! If a node in doubt refuses a question or a release, the engine sends the command again without scripts. If the node
//! refuses a `SET`, the engine reports the refusal. Before the next `SET`, the engine sends a script that does nothing:
//!
//! | what the node does | what follows |
//! | --- | --- |
//! | it answers that script | no doubt: the `SET` is sent as usual, and the scripts are loaded if they were not |
//! | it refuses that script in unknown words | it is asked without scripts over this connection: see `ways` |
//! | it refuses everything else too | doubt again; its refusal of the script is reported |
//!
//! # Guarantees
//!
//! * If a node refuses a script that takes a lock, and the error text is unknown, the engine assumes that the script
//!   may have run. A question or a release does no harm if it runs twice.
//! * On every connection to a node in doubt, the engine tries a script before it sends the first `SET`.
//!
//! # Not here
//!
//! A node with a marker is never in doubt, because it has already run a script. No other commands can replace the
//! scripts of fenced locks, shared locks and permits. So the engine sends these scripts to nodes in doubt too, and the
//! answer shows whether the node runs scripts.

use crate::error::{NodeOutcome, ServerError, names_scripts};
use crate::node::handshake::Words;
use crate::node::refusal::{Forbidden, Refusal};
use crate::node::request::{Dialect, Request, Taking};

use super::Abilities;

/// How the node refused scripts: the error, and its text for reports.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    error: ServerError,
    words: Words,
}

impl Doubt {
    /// Returns `true` if the server's error text mentions scripts.
    pub(super) fn is_about_scripts(&self) -> bool {
        are_about_scripts(&self.words)
    }
}

impl Abilities {
    /// Returns `true` if the node seems to run no scripts, but has not said so in a known error text.
    fn is_doubted(&self) -> bool {
        (self.scripts.refused || self.doubt.is_some()) && self.may_be_doubted()
    }

    /// Returns `true` if this handle can work without scripts, and the node has not refused scripts in a known error
    /// text.
    fn may_be_doubted(&self) -> bool {
        !self.needs_scripts && !self.runs_no_scripts()
    }

    /// Returns `true` if a script must be tried before the first `SET` is sent to the node.
    pub(in crate::node) fn is_to_try_scripts(&self) -> bool {
        self.scripts.refused && !self.scripts.tried && self.is_doubted()
    }

    /// Handles the answer to a script that does nothing. Returns the reason if the first `SET` must not be sent.
    /// Returns `None` if the `SET` can be sent, with or without scripts.
    pub(super) fn scripts_tried(
        &mut self,
        refusal: Option<Refusal>,
        words: &Words,
    ) -> Option<NodeOutcome> {
        match refusal {
            None => {
                self.trust_scripts(); // The answer to the `SET` will name the missing permission again.
                self.scripts.ran();
                return None;
            }
            Some(refusal) if refusal.is_in_own_words() => self.doubt(refusal.error(), words),
            Some(Refusal::Forbidden(Forbidden::Command)) => self.doubt = None,
            Some(refusal) => return Some(refusal.outcome(Dialect::Text.verb())),
        }
        self.scripts.tried = true;
        // The call cannot fail, because a node whose restart guard needs scripts is never in doubt.
        let _ = self.scripts_refused(Dialect::Text.verb());
        None
    }

    /// Records that the node has run a script.
    pub(super) fn trust_scripts(&mut self) {
        if self.doubt.take().is_some() {
            self.use_scripts();
        }
    }

    fn doubt(&mut self, error: ServerError, words: &Words) {
        let words = words.clone();
        self.doubt = Some(Doubt { error, words });
    }

    /// Handles a request that the node has refused both with and without scripts. The engine will try scripts again
    /// later, and reports the error with which the node refused the script.
    #[cold]
    pub(super) fn doubt_again(&mut self, words: &mut Words) -> Option<ServerError> {
        let doubt = self.doubt.clone()?;
        self.use_scripts();
        *words = doubt.words;
        Some(doubt.error)
    }

    /// Starts to doubt that the node runs scripts if the text of this `refusal` mentions scripts.
    pub(in crate::node) fn suspect(&mut self, request: Request, refusal: Refusal, words: &Words) {
        if refusal.is_in_own_words()
            && are_about_scripts(words)
            && asks_a_script(request)
            && self.may_be_doubted()
        {
            (self.scripts.refused, self.scripts.tried) = (true, false);
        }
    }

    /// Returns what the `refusal` of `request` means if the node is in doubt. `transacted` says whether a transaction
    /// was used.
    #[cold]
    pub(super) fn reworded(
        &mut self,
        request: Request,
        refusal: Refusal,
        transacted: bool,
        words: &mut Words,
    ) -> Refusal {
        let refuses = refusal.is_in_own_words();
        if !self.is_doubted() {
            return refusal;
        }
        let forbids = matches!(
            refusal,
            Refusal::Forbidden(Forbidden::Command | Forbidden::Part)
        );
        let asks = matches!(request, Request::Question { by, .. } if by != Dialect::TextOnly);
        // If the ACL forbids a transaction that takes a lock, no key was set. The refusal stays unchanged, because it
        // already names the reason.
        if transacted && (asks && (refuses || forbids) || request.takes() && refuses) {
            return self.doubt_again(words).map_or(refusal, Refusal::Error);
        }
        let releases = matches!(request, Request::Release { by, .. } if by != Dialect::TextOnly);
        if !(refuses && (asks || releases)) {
            return refusal;
        }
        let is_native = self.is_without_scripts()
            || matches!(request, Request::Release { by, .. } if !by.is_script());
        if !transacted && !is_native {
            self.doubt(refusal.error(), words);
            self.scripts.tried = false; // The cause may be gone before the next `SET`.
        }
        Refusal::Forbidden(Forbidden::Command)
    }
}

fn are_about_scripts(words: &Words) -> bool {
    matches!(words, Some((_, words)) if names_scripts(words))
}

/// Returns `true` if `request` was sent as a script that other commands can replace.
fn asks_a_script(request: Request) -> bool {
    if let Request::Question { by, .. } | Request::Release { by, .. } = request {
        return by.is_script();
    }
    matches!(
        request,
        Request::Take {
            by: Taking::First | Taking::Untaught,
            ..
        }
    )
}
