//! The kinds of servers that a store can imitate.

/// The kind of server that a store imitates.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Flavour {
    /// `redis-server` 7.0.15.
    #[default]
    Redis,
    /// Valkey 9.0, which has `DELIFEQ` and the option `IFEQ` of `SET`. After `CLIENT CACHING YES`, a script registers
    /// only the keys that it reads, while Redis registers all keys of the script. This flavour has the same error texts
    /// as Redis.
    Valkey,
    /// Valkey 8.1, which has the option `IFEQ` of `SET`, but no `DELIFEQ`. Otherwise like [`Valkey`](Self::Valkey).
    Valkey81,
    /// Valkey 9.1, which also has `MSETEX`. Otherwise like [`Valkey`](Self::Valkey).
    Valkey91,
    /// Redis 8.4 **according to its documentation**: the flavour was never compared with a server. It has `DELEX`,
    /// `MSETEX` and the option `IFEQ` of `SET`. Otherwise like [`Redis`](Self::Redis).
    Redis84,
    /// A Redis without the commands `CLIENT` and `INFO`, as in a hosted service or behind a proxy. Otherwise
    /// like [`Redis`](Self::Redis).
    Proxied,
}

impl Flavour {
    pub(super) const fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey | Self::Valkey81 | Self::Valkey91)
    }

    /// Returns `true` if this flavour has `command`. Also returns `true` for every command that all flavours have.
    /// `ifeq` stands for the option of `SET`.
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

/// Why the store refuses a command, even if its [`Flavour`] has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refused {
    /// The user may not run the command: `NOPERM`.
    Forbidden,
    /// The server does not know the command, as behind a proxy or in a build without the command.
    Unknown,
}
