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

use crate::error::{NodeOutcome, ServerError};

use super::Node;
use super::refusal::{Forbidden, Refusal};
use super::request::{Dialect, Request};

/// How scripts were refused: the error, and its text for reports.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
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
    pub(super) fn scripts_tried(&mut self, refusal: Option<Refusal>) -> Option<NodeOutcome> {
        match refusal {
            None => {
                self.trust_scripts(); // The answer to the `SET` will name a missing permission again.
                if let Some(server) = self.handshake.phase.server_mut() {
                    server.scripts.run_without_loading();
                }
                return None;
            }
            Some(refusal) if refusal.is_in_own_words() => self.keep_refusal(refusal.error()),
            Some(Refusal::Forbidden(Forbidden::Command)) => self.ways.refusal = None,
            Some(refusal) => return Some(refusal.outcome(Dialect::Text.verb())),
        }
        self.set_tried(true);
        // No guard needs scripts on a node in doubt.
        let _ = self.scripts_refused(Dialect::Text.verb());
        None
    }

    /// The node has run a script.
    pub(super) fn trust_scripts(&mut self) {
        if self.ways.refusal.take().is_some() {
            self.use_scripts();
        }
    }

    fn keep_refusal(&mut self, error: ServerError) {
        let words = self.handshake.words.clone();
        self.ways.refusal = Some(Doubt { error, words });
    }

    /// The node has refused the same request without scripts too. Scripts are tried again, and the refusal of the
    /// script is reported.
    #[cold]
    pub(super) fn doubt_again(&mut self) -> Option<ServerError> {
        let refusal = self.ways.refusal.clone()?;
        self.use_scripts();
        self.handshake.words = refusal.words;
        Some(refusal.error)
    }

    /// Returns the meaning of the `refusal` of `request` on a node in doubt. `transacted` says that a transaction was
    /// used.
    #[cold]
    pub(super) fn reworded(
        &mut self,
        request: Request,
        refusal: Refusal,
        transacted: bool,
    ) -> Refusal {
        if !self.is_doubted() {
            return refusal;
        }
        let refuses = refusal.is_in_own_words();
        let forbids = matches!(
            refusal,
            Refusal::Forbidden(Forbidden::Command | Forbidden::Part)
        );
        let asks = matches!(request, Request::Question { .. });
        // A transaction that is forbidden has taken nothing, which is all that its reply has to say.
        if transacted && (asks && (refuses || forbids) || request.takes() && refuses) {
            return self.doubt_again().map_or(refusal, Refusal::Error);
        }
        let releases = matches!(request, Request::Release { .. });
        if !(refuses && (asks || releases)) {
            return refusal;
        }
        let is_native =
            self.ways.on || matches!(request, Request::Release { by, .. } if !by.is_script());
        if !transacted && !is_native {
            self.keep_refusal(refusal.error());
            self.set_tried(false); // The cause may have passed by the next `SET`.
        }
        Refusal::Forbidden(Forbidden::Command)
    }
}
