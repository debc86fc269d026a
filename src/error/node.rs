//! Why a node did not do what was asked: its error, its connection, its configuration.

use core::fmt;

#[cfg(feature = "tls")]
use super::tls::TlsFault;

/// The first word of a server's error reply, such as `READONLY`.
///
/// The rest of the text is not kept, because servers echo arguments in it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct ServerError {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl ServerError {
    const BYTES_MAX: usize = 15;

    /// Returns the error of a reply `line` (without its `-` and line end): its first word, cut to
    /// fifteen bytes of letters, digits and `_`.
    pub(crate) fn from_line(line: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let mut len = 0_u8;
        let word = line
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
        for (place, byte) in bytes.iter_mut().zip(word) {
            *place = *byte;
            len += 1;
        }
        Self { bytes, len }
    }

    /// Returns the word, such as `"LOADING"`; empty if the error does not begin with one.
    #[must_use]
    pub fn code(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Returns `true` if the word names no kind of error: it is `ERR`, or begins a sentence.
    pub(crate) fn is_plain(self) -> bool {
        let code = self.code();
        code == "ERR" || !code.bytes().any(|byte| byte.is_ascii_uppercase())
    }

    /// Returns the meaning of the error and what to do, if they are known.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self.code() {
            "OOM" => {
                "its memory is full: raise its `maxmemory`, or remove other keys; counters of fencing tokens \
                 (`shearline:fence:*`) may be what fills it"
            }
            "MISCONF" => "it cannot save to disk: check its log and the free space",
            "READONLY" => "it is a replica: name its master",
            "MASTERDOWN" => "it is a replica without its master: name a master",
            "NOREPLICAS" => {
                "it refuses writes because it has too few replicas: set `min-replicas-to-write 0` there, a lock \
                 node needs none"
            }
            "LOADING" => "it is loading its data, and serves afterwards",
            "BUSY" => "a script blocks it: `SCRIPT KILL` ends it",
            "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "TRYAGAIN" => {
                "it is part of a cluster: name independent masters"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.len == 0 {
            "an error without a code"
        } else {
            self.code()
        })
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerError({self})")
    }
}

/// Why there is no connection to a node. Its text names the reason, and what to do if that is known.
///
/// The driver of an `Engine` makes it from the `io::Error` of a connection. The default value says that the node closed
/// the connection.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct LinkError(#[from] pub(crate) LinkFault);

/// See [`LinkError`].
#[allow(
    private_interfaces,
    reason = "only `internals` shows it, and tests do not look into a fault of TLS"
)]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, thiserror::Error)]
pub enum LinkFault {
    /// No connection was tried yet, or the node has not answered on the first one.
    #[error("no answer yet")]
    NotYet,
    /// The host name could not be resolved to an address.
    #[error("its host name does not resolve")]
    Unresolved,
    /// `Builder::credentials` has failed, or did not answer in time.
    #[error("there are no credentials for it")]
    Credentials,
    /// There is no socket at the path.
    #[error("no socket at its path")]
    NotFound,
    /// No process listens at the address.
    #[error("connection refused")]
    Refused,
    /// The connection, or the handshake on it, was not finished in time.
    #[error("no answer within the connect timeout")]
    ConnectTimeout,
    /// The other side closed the connection.
    #[default]
    #[error("connection closed by the node")]
    Closed,
    /// The connection was reset.
    #[error("connection reset")]
    Reset,
    /// The connection was reset before the handshake was done. A port that expects TLS does this, and so does a proxy
    /// without a server behind it.
    #[error("connection reset in the handshake; the port may want TLS, check what listens there")]
    HandshakeReset,
    /// The connection was closed after a long silence of the node.
    #[error("connection closed after too long a silence")]
    Silent,
    /// The node sent bytes that are not RESP, or a reply without a request.
    #[error("it broke the protocol")]
    Protocol,
    /// There is no route, no permission, or no file descriptor left. Holds the operating system's error number.
    #[error("operating system error {0}")]
    Os(i32),
    /// The TLS handshake failed. The node is then [`Unusable::Tls`].
    // Without the feature `tls`, a reason fits into two registers.
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Tls(TlsFault),
}

/// Why a node that can be reached cannot serve.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The program at the address does not speak the protocol.
    #[error("no Redis or Valkey server answers there")]
    NotRedis,
    /// It is a replica: a lock on it could vanish in a failover.
    #[error("it is a replica; name its master, or another independent master")]
    Replica,
    /// It runs in cluster or sentinel mode.
    #[error("it does not run in standalone mode; Redlock needs independent masters")]
    Mode,
    /// It requires credentials, and the URL has none.
    #[error("it wants a password; put credentials into the URL")]
    NoCredentials,
    /// It refuses the credentials.
    #[error(
        "it refuses the credentials; correct the user or password in the URL, or where they come from"
    )]
    WrongCredentials,
    /// The user lacks a permission that the handshake needs, and the server does not name it.
    #[error(
        "the user lacks a permission; the manual (`shearline::manual::permissions`) has an ACL line \
         that suffices"
    )]
    NoPermission,
    /// The user may not run `command`, without which a lock cannot be taken, released or extended.
    /// A user who may take a lock but not release it gets none.
    #[error(
        "its user may not run `{command}`; permit it (`ACL SETUSER .. +{command}`){}",
        suffices(command)
    )]
    Permission {
        /// The command, in lower case and as ACL rules name it, such as `"evalsha"`.
        command: &'static str,
    },
    /// The user may not use the key with the name of the lock. Other names may be permitted.
    #[error(
        "its user may not use a key of this name, or one of `shearline:*` for a fenced or shared lock; permit \
         both (`ACL SETUSER .. ~lock:* ~shearline:*` for names that begin with `lock:`)"
    )]
    KeyPermission,
    /// It has no database with the number in the URL.
    #[error("it has no database of this number; correct the number in the URL")]
    NoDatabase,
    /// Protected mode refuses clients from other hosts.
    #[error("its protected mode refuses us; set a password, or `protected-mode no`")]
    Protected,
    /// It has no client slot left.
    #[error("it has reached its `maxclients`; raise it, or close other clients")]
    TooManyClients,
    /// It is the same server as another configured node, which votes for both.
    #[error("it is the same server as node {0} of the configuration; name each server once")]
    SameServer(u8),
    /// It carries the marker of another cluster ([`RestartGuard::Strict`](crate::RestartGuard)): some client uses it
    /// together with other nodes, or under another name. While any node reports this, no lock is taken.
    #[error(
        "its marker is that of a cluster of {nodes} nodes with a quorum of {quorum}{}; give all \
         clients the same nodes and cluster name, or see `Redlock::reinit`", if *name { " under another name" } else { "" }
    )]
    OtherCluster {
        /// The number of nodes in the marker; 0 if it cannot be read.
        nodes: u16,
        /// The number of nodes that are a majority; 0 if it cannot be read.
        quorum: u16,
        /// The cluster has another name, or the marker cannot be read. The name itself is in the key
        /// `shearline:marker`.
        name: bool,
    },
    /// It does not report its `run_id`: the user may not run `INFO server`. Without the `run_id`,
    /// [`RestartGuard::Strict`](crate::RestartGuard) cannot detect a restart, and the node gives no [fencing
    /// token](crate::LockOptions::fenced).
    #[error(
        "it does not tell its `run_id`, which a strict restart guard and fencing tokens need; permit `INFO`"
    )]
    NoRunId,
    /// It may have lost the counters of its [fencing tokens](crate::LockOptions::fenced): its `shearline:floor` is
    /// missing, or another server has written it. It refuses locks with a token, and takes plain locks as before. When
    /// every lock from before the loss is over, it gets a floor without an operator. This needs the floors of N - q + 1
    /// of the other nodes, where q of N nodes are a majority: two other nodes of three, or three of five.
    #[error(
        "its fencing tokens are in repair: it may have lost its data, and gives none before the longest lock from \
         then is over and enough of the other nodes have said how high theirs are; that needs no operator, but a program \
         that goes on for so long"
    )]
    InRepair,
    /// It may have lost its counters, and so may a majority of the nodes: they were never used for tokens, or they
    /// restarted at the same time. So the earlier tokens are unknown. An operator has to create the floors again; until
    /// then no node is repaired.
    #[error(
        "its fencing tokens have no floor, and neither have those of too many other nodes: they were never used for \
         tokens, or have lost their data together; `Redlock::trust_nodes` gives them one, if no token can be larger \
         than the time"
    )]
    NoFloor,
    /// It has given the largest possible [fencing token](crate::LockOptions::fenced). Another program has written to
    /// its keys, or two clocks were wrong by centuries. To begin again, stop every program that uses tokens, delete
    /// `shearline:floor` and the keys that begin with `shearline:fence:` on every node, make the store forget the
    /// tokens that it has seen, and create the floors (`Redlock::trust_nodes`).
    #[error(
        "it has given the largest fencing token that there is: a clock was wrong, or its keys were written to; \
         delete `shearline:floor` and `shearline:fence:*` on all nodes, have the store begin again with smaller tokens, \
         and give floors (`Redlock::trust_nodes`)"
    )]
    NoMoreTokens,
    /// It runs no scripts, because its user may not or its server cannot, but the request needs them: it uses
    /// [`RestartGuard::Strict`](crate::RestartGuard) or a [fencing token](crate::LockOptions::fenced), or is for a
    /// shared lock or a permit. This node grants other locks without scripts.
    #[error(
        "it runs no scripts, and fencing tokens, shared locks, permits and a strict restart guard need scripts; \
         permit `EVAL` and `EVALSHA` (`ACL SETUSER .. +eval +evalsha`), or do without them"
    )]
    NeedsScripts,
    /// The TLS handshake fails. The certificate of the node, or ours, has to be corrected; the text of the error says
    /// which. The node is tried again with the usual back-off. A node whose port does not speak TLS often gives no
    /// answer at all, and is then unreachable.
    #[error("{0}")]
    Tls(LinkError),
    /// It refused the handshake with another error.
    #[error("it refused the handshake with {0}")]
    Refused(ServerError),
}

/// Returns the text that says where to find a line that permits `command`. Locks do not need `scan`, which counts
/// counters.
fn suffices(command: &str) -> &'static str {
    match command {
        "scan" => "",
        _ => ", the manual (`shearline::manual::permissions`) has an ACL line that suffices",
    }
}

impl Unusable {
    /// Returns why a node that could not be connected for this reason cannot serve; `None` if the reason passes by
    /// itself.
    pub(crate) const fn of(reason: LinkFault) -> Option<Self> {
        match reason {
            #[cfg(feature = "tls")]
            LinkFault::Tls(_) => Some(Self::Tls(LinkError(reason))),
            LinkFault::NotYet
            | LinkFault::Unresolved
            | LinkFault::Credentials
            | LinkFault::NotFound
            | LinkFault::Refused
            | LinkFault::ConnectTimeout
            | LinkFault::Closed
            | LinkFault::Reset
            | LinkFault::HandshakeReset
            | LinkFault::Silent
            | LinkFault::Protocol
            | LinkFault::Os(_) => None,
        }
    }

    /// Returns `true` if the fault is a missing permission of the node's user.
    pub(crate) const fn is_of_user(self) -> bool {
        matches!(
            self,
            Self::NoPermission
                | Self::Permission { .. }
                | Self::KeyPermission
                | Self::NoRunId
                | Self::NeedsScripts
        )
    }

    /// Returns `true` if the fault is that the node gives no fencing tokens.
    pub(crate) const fn is_of_tokens(self) -> bool {
        matches!(self, Self::InRepair | Self::NoFloor | Self::NoMoreTokens)
    }

    /// Returns `true` if only an operator can repair the fault: no later attempt will succeed.
    pub(crate) const fn is_lasting(self) -> bool {
        !matches!(
            self,
            Self::TooManyClients | Self::InRepair | Self::Refused(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_replicas_are_too_many_wanted() {
        assert_eq!(
            ServerError::from_line(b"NOREPLICAS Not enough good replicas to write.").advice(),
            Some(
                "it refuses writes because it has too few replicas: set `min-replicas-to-write 0` there, a lock node \
                 needs none"
            )
        );
    }

    #[test]
    fn only_the_first_word_of_a_server_error_is_kept() {
        for (line, code) in [
            (
                &b"READONLY You can't write against a read only replica."[..],
                "READONLY",
            ),
            (
                b"ERR unknown command 'AUTH', with args beginning with: 'secret'",
                "ERR",
            ),
            (b"WRONGPASS", "WRONGPASS"),
            (b"", ""),
            (b" x", ""),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNO"),
        ] {
            assert_eq!(ServerError::from_line(line).code(), code);
        }
    }
}
