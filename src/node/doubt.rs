//! Nodes that refuse scripts in unknown words: proxies, and servers that resemble Redis.
//!
//! Such a refusal may be about scripts, or may pass. So it is acted on only if nothing can be left behind, and the node
//! is asked again:
//!
//! | what the node does | what follows |
//! | --- | --- |
//! | it loads the scripts in its handshake | no doubt; a refusal in unknown words is shown, and tried again |
//! | it refuses to load them, and the error neither passes nor names a permission | doubt: a script that does nothing |
//! | it answers that script | no doubt: the `SET` is sent as usual, and the scripts are loaded once more |
//! | it refuses that script in unknown words | it is asked without scripts over this connection: see `ways` |
//! | it refuses everything else too | doubt again; its refusal of the script is reported |
//!
//! If the scripts were not loaded and an extension, another question or a release is refused in unknown words, it too
//! is asked again without scripts: it does no harm if it is done twice. The next `SET` then waits for the answer to a
//! script again.
//!
//! # Guarantees
//!
//! * If a `SET` by a script is refused in unknown words, it counts as one that may have run.
//! * On every connection with doubt, a script is tried before the first `SET`.
//!
//! # Not here
//!
//! Nodes with a marker, which have already run a script. The script that takes a fenced lock: it is sent to nodes in
//! doubt, and shows whether they run it.

use alloc::sync::Arc;

use crate::error::{LinkFault, NodeOutcome, ServerError};

use super::reply::{Forbidden, Reply, refuses_in_own_words};
use super::request::{Dialect, Request};
use super::{Node, Trouble};

/// How scripts were refused: the error, and its text for reports.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    error: ServerError,
    words: Option<(Option<ServerError>, Arc<str>)>,
}

impl Node {
    /// Returns `true` if the node may run no scripts, but has not said so in known words.
    fn is_doubted(&self) -> bool {
        let is_known = self.ways.on && self.ways.refusal.is_none();
        let server = self.handshake.phase.server();
        let has_refused = server.is_some_and(|server| server.scripts.refused);
        (has_refused || self.ways.refusal.is_some())
            && !is_known
            && self.trust.membership().is_none()
    }

    /// Returns `true` if a script has to be tried before the node's first `SET`.
    pub(super) fn is_to_try_scripts(&self) -> bool {
        let server = self.handshake.phase.server();
        server.is_some_and(|server| server.scripts.refused && !server.scripts.tried)
            && self.is_doubted()
    }

    pub(super) fn set_tried(&mut self, tried: bool) {
        if let Some(server) = self.handshake.phase.server_mut() {
            server.scripts.tried = tried;
        }
    }

    /// Takes the answer to a script that does nothing. Returns the reason why the first `SET` is not sent; `None` if it
    /// can be sent, with or without scripts.
    pub(crate) fn scripts_tried(&mut self, reply: Reply) -> Result<Option<NodeOutcome>, Trouble> {
        match reply.error() {
            None if matches!(reply, Reply::Integer(_)) => {
                self.trust_scripts(); // The answer to the `SET` will name a missing permission again.
                if let Some(server) = self.handshake.phase.server_mut() {
                    server.scripts.run_without_loading();
                }
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
        // No guard needs scripts on a node in doubt.
        let _ = self.scripts_refused(Dialect::Text.verb());
        Ok(None)
    }

    /// The node has run a script.
    pub(super) fn trust_scripts(&mut self) {
        if self.ways.refusal.take().is_some() {
            self.use_scripts();
        }
    }

    fn keep_refusal(&mut self, error: ServerError) {
        let words = self.handshake.words.clone();
        self.ways.refusal = Some(Refusal { error, words });
    }

    /// The node has refused the same request without scripts too. Scripts are tried again, and the refusal of the
    /// script is reported.
    #[cold]
    pub(crate) fn doubt_again(&mut self) -> Option<ServerError> {
        let refusal = self.ways.refusal.clone()?;
        self.use_scripts();
        self.handshake.words = refusal.words;
        Some(refusal.error)
    }

    /// Returns the meaning of the error `reply` to `request` on a node in doubt. `transacted` says that a transaction
    /// was used.
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
        // A transaction that is forbidden has taken nothing, which is all that its reply has to say.
        if transacted && (asks && (refuses || forbids) || takes && refuses) {
            return self.doubt_again().map_or(reply, Reply::Error);
        }
        let releases = matches!(request, Request::Release { .. });
        if !(refuses && (asks || releases)) {
            return reply;
        }
        let is_native = self.ways.on
            || matches!(request, Request::Release { dialect, .. } if !matches!(dialect, Dialect::Sha1 | Dialect::Text));
        if let (false, false, Some(error)) = (transacted, is_native, reply.error()) {
            self.keep_refusal(error);
            self.set_tried(false); // The cause may have passed by the next `SET`.
        }
        Reply::Forbidden(Forbidden::Command)
    }
}
