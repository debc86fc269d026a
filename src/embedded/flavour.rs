//! Which server a store behaves as.

/// Which server a store behaves as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Flavour {
    /// `redis-server` 7.0.15.
    #[default]
    Redis,
    /// A Valkey 9.0: it has `SET .. IFEQ` and `DELIFEQ`, and a script after `CLIENT CACHING YES` registers the keys that
    /// it reads, where Redis registers all that were named. Its error texts are those of Redis here.
    Valkey,
    /// A Valkey 8.1: it has `SET .. IFEQ`, and no `DELIFEQ`. Else as [`Valkey`](Self::Valkey).
    Valkey81,
    /// A Valkey 9.1: it has `MSETEX` too. Else as [`Valkey`](Self::Valkey).
    Valkey91,
    /// A Redis 8.4, **from its documentation**, not compared with one: it has `DELEX`, `SET .. IFEQ` and
    /// `MSETEX`. Else as [`Redis`](Self::Redis).
    Redis84,
    /// A Redis of a service, or behind a proxy, that knows neither `CLIENT` nor `INFO`: both are
    /// unknown commands. All else is as with [`Redis`](Self::Redis).
    Proxied,
}

impl Flavour {
    pub(super) const fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey | Self::Valkey81 | Self::Valkey91)
    }

    /// Returns `true` if it knows `SET .. IFEQ`.
    pub(super) const fn compares_in_set(self) -> bool {
        self.is_valkey() || matches!(self, Self::Redis84)
    }

    /// Returns `true` if it knows a command that the table has for some.
    pub(super) fn knows(self, command: &str) -> bool {
        match command {
            "client" | "info" => self != Self::Proxied,
            "delex" => self == Self::Redis84,
            "delifeq" => matches!(self, Self::Valkey | Self::Valkey91),
            "msetex" => matches!(self, Self::Valkey91 | Self::Redis84),
            _ => true,
        }
    }
}

/// How a command is refused that a server knows by its [`Flavour`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refused {
    /// The user may not run it: `NOPERM`.
    Forbidden,
    /// The server does not know it, as one behind a proxy, or one that was built without it.
    Unknown,
}
