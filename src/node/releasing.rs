//! How a node releases locks: by a command of its own, by script, or by a transaction.
//!
//! # Not here
//!
//! The other permissions of the user: see `permission.rs`. The bytes of the commands: see `write.rs`.

use crate::time::Instant;

use super::permission::Shown;
use super::request::Dialect;
use super::{Node, Phase, Taught};

impl Node {
    /// Returns how the node releases locks, as far as this connection has shown it. For operators.
    pub(crate) fn releasing(&self) -> Option<&'static str> {
        let native = match self.permissions.shown {
            Shown::Nothing => return None,
            Shown::Native | Shown::Scripts => self.native_release(),
        };
        Some(match native {
            Some(Dialect::DelIfEq) => "DELIFEQ",
            Some(Dialect::DelEx) => "DELEX",
            Some(Dialect::SetIfEq) => "SET IFEQ",
            Some(Dialect::Watch) => "a transaction",
            Some(Dialect::Sha1 | Dialect::Text) | None => "a script",
        })
    }

    /// Returns the dialect of a release for this node; never a digest if it has to `repair`.
    ///
    /// The native way comes first for debts too, because the user may not be allowed to run scripts. It does not if it
    /// was refused on the connection before: a connection that is given up at the end of its handshake, such as one to
    /// a second name of the same server, leaves no time for another way.
    pub(super) fn release_dialect(&self, repair: bool) -> Dialect {
        match self.native_release() {
            Some(native) => native,
            None if repair => Dialect::Text,
            None => self.handshake.phase.dialect(Taught::Release),
        }
    }

    /// Returns the native way to release, if the node has one and has not refused it.
    pub(super) fn native_release(&self) -> Option<Dialect> {
        let native = self.handshake.identity()?.native_release;
        native.filter(|_| !self.native_refused)
    }

    /// The node does not have its native way to release, or does not allow it. The script is used from now on.
    pub(super) fn refused_native_release(&mut self) {
        self.native_refused = true;
        if let Some(server) = self.handshake.phase.server_mut() {
            server.identity.native_release = None;
        }
    }

    /// The node does not allow a release by script. On the next connection the native way comes first again.
    pub(super) fn refused_scripted_release(&mut self) {
        self.native_refused = false;
    }

    /// The node has forgotten the scripts. They are loaded again, and the node gets their text until it has confirmed
    /// them.
    pub(super) fn forgot_scripts(&mut self, now: Instant) {
        if let Phase::Ready { server, .. } = &mut self.handshake.phase
            && server.scripts.forget()
        {
            self.teach_scripts(now);
        }
    }
}
