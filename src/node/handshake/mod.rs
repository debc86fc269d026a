//! The handshake of one connection: which server it is, and whether it can serve.
//!
//! `HELLO 3` with credentials and client name comes first and alone, because its answer shows whether anything else
//! makes sense. The rest goes in one write: the database, the debts from the connection before, the questions that
//! identify the server, and the scripts. A server that does not know `HELLO` gets the same questions in RESP2.

mod backoff;
mod credentials;
mod phase;
mod server;

pub(super) use backoff::Backoff;
pub(super) use credentials::Credentials;
pub use phase::NodeState;
pub(super) use phase::Phase;
pub(crate) use phase::{Access, Trouble};
pub(crate) use server::Identity;
pub(super) use server::{Next, Server, refused};

/// The command of a probe. Every server answers it in some way, even one that refuses us.
pub(crate) const HELLO: &[u8] = b"*1\r\n$5\r\nHELLO\r\n";
