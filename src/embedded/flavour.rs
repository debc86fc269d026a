//! The server that a store behaves as.

/// The server that a store behaves as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Flavour {
    /// `redis-server` 7.0.15.
    #[default]
    Redis,
    /// A Valkey 9.0: it has `SET .. IFEQ` and `DELIFEQ`. A script after `CLIENT CACHING YES` registers only the keys
    /// that it reads, while Redis registers all keys of the script. Its error texts are the same as Redis's here.
    Valkey,
    /// A Valkey 8.1: it has `SET .. IFEQ`, but no `DELIFEQ`. Otherwise like [`Valkey`](Self::Valkey).
    Valkey81,
    /// A Valkey 9.1: it also has `MSETEX`. Otherwise like [`Valkey`](Self::Valkey).
    Valkey91,
    /// A Redis 8.4, **from its documentation**, not compared with a server: it has `DELEX`, `SET .. IFEQ` and `MSETEX`.
    /// Otherwise like [`Redis`](Self::Redis).
    Redis84,
    /// A Redis that does not know the commands `CLIENT` and `INFO`, as in a hosted service or behind a proxy. Otherwise
    /// like [`Redis`](Self::Redis).
    Proxied,
}

impl Flavour {
    pub(super) const fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey | Self::Valkey81 | Self::Valkey91)
    }

    /// Returns `true` if it knows `command`, which only some flavours have. `ifeq` is the option of `SET`.
    pub(super) fn knows(self, command: &str) -> bool {
        match command {
            "client" | "info" => self != Self::Proxied,
            "delex" => self == Self::Redis84,
            "delifeq" => matches!(self, Self::Valkey | Self::Valkey91),
            "ifeq" => self.is_valkey() || self == Self::Redis84,
            "msetex" => matches!(self, Self::Valkey91 | Self::Redis84),
            _ => true,
        }
    }
}

/// How the store refuses a command that its [`Flavour`] has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refused {
    /// The user may not run it: `NOPERM`.
    Forbidden,
    /// The server does not know it, as behind a proxy or after a build without it.
    Unknown,
}
