//! Nodes that refuse scripts in words that are not known: proxies, and servers that are like Redis.
//!
//! Such a refusal may be one of scripts, or one that passes. So it is acted on only where nothing can be left behind,
//! and it is asked for again:
//!
//! | what the node does | what follows |
//! | --- | --- |
//! | it loads the scripts in its handshake | no doubt; a refusal in such words is shown, and tried again |
//! | it refuses to, by an error that neither passes nor is a missing permission | doubt: before its first `SET` it is asked by a script that does nothing |
//! | it answers that script | no doubt: the `SET` is sent as ever |
//! | it refuses that script in such words | it is asked without scripts over this connection: see `ways` |
//! | it refuses all else too | doubt again; what is told is how it has refused the script |
//!
//! An extension, another question or a release that is refused in such words is asked without scripts too, wherever the
//! scripts were not loaded: each of them may be done twice. The next `SET` waits for a script again then.
//!
//! # Guarantees
//!
//! * A `SET` by a script that was refused in such words is never taken for one that was not run.
//! * Every connection on which there is doubt is asked for a script before its first `SET`.
//!
//! # Not here
//!
//! Nodes with a marker, which have run a script before. The script that gives a fencing token: it is sent to nodes in
//! doubt, and shows whether it is run.

use alloc::sync::Arc;

use crate::error::{LinkFault, NodeOutcome, ServerError};

use super::reply::{Forbidden, Reply, refuses_in_own_words};
use super::request::{Dialect, Request};
use super::{Node, Trouble};

/// How scripts were refused: the error, and the words that are shown of it.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    error: ServerError,
    words: Option<(Option<ServerError>, Arc<str>)>,
}

impl Node {
    /// Returns `true` if it may run no scripts, and has not said so in known words.
    fn is_doubted(&self) -> bool {
        let is_known = self.ways.on && self.ways.refusal.is_none();
        let server = self.phase.server();
        let has_refused = server.is_some_and(|server| server.scripts.refused);
        (has_refused || self.ways.refusal.is_some())
            && !is_known
            && self.guard.membership().is_none()
    }

    /// Returns `true` if a script has to be tried before its first `SET`.
    pub(super) fn is_to_try_scripts(&self) -> bool {
        let server = self.phase.server();
        server.is_some_and(|server| server.scripts.refused && !server.scripts.tried)
            && self.is_doubted()
    }

    pub(super) fn set_tried(&mut self, tried: bool) {
        if let Some(server) = self.phase.server_mut() {
            server.scripts.tried = tried;
        }
    }

    /// It has answered a script that does nothing. Returns why its first `SET` is not sent; `None` if that can go on, by
    /// scripts or without.
    pub(crate) fn scripts_tried(&mut self, reply: Reply) -> Result<Option<NodeOutcome>, Trouble> {
        match reply.error() {
            None if matches!(reply, Reply::Integer(_)) => {
                self.trust_scripts(); // What is missing is said again to the `SET`.
                self.set_tried(true);
                return Ok(None);
            }
            None => return Err(Trouble::Link(LinkFault::Protocol)),
            Some(error) if refuses_in_own_words(reply) => self.keep_refusal(error),
            Some(_) if reply == Reply::Forbidden(Forbidden::Command) => self.ways.refusal = None,
            Some(error) => {
                let missing = reply.missing(Dialect::Text.verb());
                let outcome = missing.map_or(NodeOutcome::Refused(error), NodeOutcome::Unusable);
                return Ok(Some(outcome));
            }
        }
        self.set_tried(true);
        // No guard needs scripts where there is doubt.
        let _ = self.scripts_refused(Dialect::Text.verb());
        Ok(None)
    }

    /// It has run a script.
    pub(super) fn trust_scripts(&mut self) {
        if self.ways.refusal.take().is_some() {
            self.use_scripts();
        }
    }

    fn keep_refusal(&mut self, error: ServerError) {
        let words = self.words.clone();
        self.ways.refusal = Some(Refusal { error, words });
    }

    /// It has refused without scripts too what it had refused by one in words of its own. That is tried again, and how
    /// it was refused is what is told.
    #[cold]
    pub(crate) fn doubt_again(&mut self) -> Option<ServerError> {
        let refusal = self.ways.refusal.clone()?;
        self.use_scripts();
        self.words = refusal.words;
        Some(refusal.error)
    }

    /// Returns what an error that it has answered to `request` means, where there is doubt. `transacted`: it was asked
    /// by a transaction.
    #[cold]
    pub(super) fn reworded(&mut self, request: Request, reply: Reply, transacted: bool) -> Reply {
        if !self.is_doubted() {
            return reply;
        }
        let refuses = refuses_in_own_words(reply);
        let forbids = matches!(
            reply,
            Reply::Forbidden(Forbidden::Command | Forbidden::Part)
        );
        let asks = matches!(request, Request::Question { .. });
        let takes = matches!(request, Request::Set { .. });
        if transacted && (asks || takes) && (refuses || forbids) {
            return self.doubt_again().map_or(reply, Reply::Error);
        }
        let releases = matches!(request, Request::Release { .. });
        if !(refuses && (asks || releases)) {
            return reply;
        }
        if let (false, Some(error)) = (transacted, reply.error()) {
            self.keep_refusal(error);
            self.set_tried(false); // This may have passed by its next `SET`.
        }
        Reply::Forbidden(Forbidden::Command)
    }
}
