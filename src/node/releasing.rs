//! In which way a node releases locks: by a command of its own, by script, or by a transaction.
//!
//! # Not here
//!
//! What the user of a connection may do besides: `permission.rs`. How the commands are written: `write.rs`.

use crate::time::Instant;

use super::permission::Shown;
use super::request::Dialect;
use super::{Node, Phase, Taught};

impl Node {
    /// Returns in which way it releases locks, as far as that was shown on this connection: what operators read.
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

    /// Returns how a release is written for this node; never by digest if it is to `repair`.
    ///
    /// The native way comes first also for what is owed: the user may not be allowed any script. Not
    /// when it was refused over the connection before: one that is given up at the end of its
    /// handshake, as that of a second name of one server is, leaves no time for another way.
    pub(crate) fn release_dialect(&self, repair: bool) -> Dialect {
        match self.native_release() {
            Some(native) => native,
            None if repair => Dialect::Text,
            None => self.phase.dialect(Taught::Release),
        }
    }

    /// Returns the native way to release, if the node has one and has not refused it.
    pub(crate) fn native_release(&self) -> Option<Dialect> {
        let native = self.identity()?.native_release;
        native.filter(|_| !self.native_refused)
    }

    /// The node does not have its native way to release, or does not allow it: the script is used
    /// from now on.
    pub(crate) fn refused_native_release(&mut self) {
        self.native_refused = true;
        if let Some(server) = self.phase.server_mut() {
            server.identity.native_release = None;
        }
    }

    /// The node does not allow a release by script: on the next connection the native way comes first
    /// again.
    pub(crate) fn refused_scripted_release(&mut self) {
        self.native_refused = false;
    }

    /// The node has forgotten the scripts: it is taught them again, and until it has confirmed
    /// them it gets their text.
    pub(crate) fn forgot_scripts(&mut self, now: Instant) {
        if let Phase::Ready { server, .. } = &mut self.phase
            && server.scripts.forget()
        {
            self.teach_scripts(now);
        }
    }
}
