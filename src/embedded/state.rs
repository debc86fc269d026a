//! What a node keeps between two commands.
//!
//! Not here: the clock, and the sessions of clients.

use alloc::string::String;
use alloc::vec::Vec;

use super::keyspace::Keyspace;
use super::known::Scripts;
use super::tracking::Tracking;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) keyspace: Keyspace,
    pub(super) tracking: Tracking,
    pub(super) scripts: Scripts,
    pub(super) flavour: Flavour,
    pub(super) password: Option<Vec<u8>>,
    pub(super) run_id: String,
    pub(super) replid: String,
}

/// Which server a store behaves as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Flavour {
    /// `redis-server` 7.0.15.
    #[default]
    Redis,
    /// A Valkey 9: it has `DELIFEQ`, and a script after `CLIENT CACHING YES` registers the keys that
    /// it reads, where Redis registers all that were named. Its error texts are those of Redis here.
    Valkey,
    /// A Redis of a service, or behind a proxy, that knows neither `CLIENT` nor `INFO`: both are
    /// unknown commands. All else is as with [`Redis`](Self::Redis).
    Proxied,
}
