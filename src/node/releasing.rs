//! In which way a node releases locks, for operators.

use super::Node;
use super::permission::Shown;
use super::request::Dialect;

impl Node {
    /// Returns in which way it releases locks, as far as that was shown on this connection.
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
}
