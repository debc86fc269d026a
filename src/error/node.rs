//! Why a node did not carry out a request: its error reply, its connection, its configuration.

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

    /// Returns the word, such as `"LOADING"`. The result is empty if the error does not begin with a word.
    #[must_use]
    pub fn code(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Returns `true` if the word names no kind of error, because it is `ERR` or begins a sentence.
    pub(crate) fn is_plain(self) -> bool {
        let code = self.code();
        code == "ERR" || !code.bytes().any(|byte| byte.is_ascii_uppercase())
    }

    /// Returns the meaning of the error and what to do, if they are known.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self.code() {
            "OOM" => {
                "its memory is full: raise its `maxmemory`, or remove other keys; counters of fencing tokens \
                 (`shearline:fence:*`) may fill it"
            }
            "MISCONF" => "it cannot save to disk: check its log and the free space",
            "READONLY" => "it is a replica: name its master",
            "MASTERDOWN" => "it is a replica without its master: name a master",
            "NOREPLICAS" => {
                "it refuses writes because it has too few replicas: set `min-replicas-to-write 0` there, a lock \
                 node needs none"
            }
            "LOADING" => "it is loading its data, and serves requests afterwards",
            "BUSY" => "a script blocks it: end the script with `SCRIPT KILL`",
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
/// The driver of an `Engine` makes this value from the `io::Error` of a connection. The default value means that the
/// node closed the connection.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct LinkError(#[from] pub(crate) LinkFault);

/// See [`LinkError`].
#[allow(
    private_interfaces,
    reason = "only `internals` exposes this type, and tests do not inspect a TLS fault"
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
    #[error(
        "connection reset in the handshake; the port may need TLS, so check which server listens there"
    )]
    HandshakeReset,
    /// The connection was closed after a long silence of the node.
    #[error("connection closed because the node was silent for too long")]
    Silent,
    /// The node sent bytes that are not RESP, or a reply without a request.
    #[error("it broke the protocol")]
    Protocol,
    /// Any other error of the operating system, such as a missing route or permission. Holds the system's error number.
    #[error("operating system error {0}")]
    Os(i32),
    /// The TLS handshake failed. The node is then [`Unusable::Tls`].
    // Without the feature `tls`, a reason fits into two registers.
    #[cfg(feature = "tls")]
    #[error("{0}")]
    Tls(TlsFault),
}

/// Why a reachable node cannot serve.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The program at the address does not speak the protocol.
    #[error("no Redis or Valkey server answers there")]
    NotRedis,
    /// The node is a replica. A lock on a replica could vanish in a failover.
    #[error("it is a replica; name its master, or another independent master")]
    Replica,
    /// The node runs in cluster or sentinel mode.
    #[error("it does not run in standalone mode; Redlock needs independent masters")]
    Mode,
    /// The node requires credentials, and the URL has none.
    #[error("it wants a password; put credentials into the URL")]
    NoCredentials,
    /// The node refuses the credentials.
    #[error(
        "it refuses the credentials; correct the user or password in the URL, or where they come from"
    )]
    WrongCredentials,
    /// The user lacks a permission that the handshake needs, and the server does not name the permission.
    #[error(
        "the user lacks a permission; the manual (`shearline::manual::permissions`) has an ACL line \
         that suffices"
    )]
    NoPermission,
    /// The user may not run `command`, without which a lock cannot be taken, released or extended. A user who may take
    /// a lock but not release it gets no lock.
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
    /// The node has no database with the number in the URL.
    #[error("it has no database with this number; correct the number in the URL")]
    NoDatabase,
    /// Protected mode refuses clients from other hosts.
    #[error("its protected mode refuses this client; set a password, or `protected-mode no`")]
    Protected,
    /// The node has no client slot left.
    #[error("it has reached its `maxclients`; raise it, or close other clients")]
    TooManyClients,
    /// The node is the same server as another configured node. A server has only one vote.
    #[error("it is the same server as node {0} of the configuration; name each server once")]
    SameServer(u8),
    /// The node carries the marker of another cluster ([`RestartGuard::Strict`](crate::RestartGuard)): some client uses
    /// this node together with other nodes, or with another cluster name. While any node reports this, no lock is
    /// taken.
    #[error(
        "its marker is for a cluster of {nodes} nodes with a quorum of {quorum}{}; give all \
         clients the same nodes and cluster name, or see `Redlock::reinit`", if *name { " under another name" } else { "" }
    )]
    OtherCluster {
        /// The number of nodes in the marker; 0 if the marker cannot be read.
        nodes: u16,
        /// The number of nodes that are a majority; 0 if the marker cannot be read.
        quorum: u16,
        /// The cluster has another name, or the marker cannot be read. The name itself is in the key
        /// `shearline:marker`.
        name: bool,
    },
    /// The node does not report its `run_id`: the user may not run `INFO server`. Without the
    /// `run_id`, [`RestartGuard::Strict`](crate::RestartGuard) cannot detect a restart, and the node gives no [fencing
    /// token](crate::LockOptions::fenced).
    #[error(
        "it does not report its `run_id`, which a strict restart guard and fencing tokens need; permit `INFO`"
    )]
    NoRunId,
    /// The node may have lost the counters of its [fencing tokens](crate::LockOptions::fenced): its `shearline:floor`
    /// is missing, or another server has written it. The node refuses locks with a token, and grants plain locks as
    /// before. When every lock from before the loss has expired, the node gets a floor without an operator. The repair
    /// needs the floors of N - q + 1 of the other nodes, where q of N nodes are a majority: two other nodes of three,
    /// or three of five.
    #[error(
        "its fencing tokens are in repair: it may have lost its data, and gives no token before the longest lock from \
         before that is over and enough other nodes have reported their tokens; this needs no operator, but a program \
         that runs for that long"
    )]
    InRepair,
    /// The node may have lost its counters, and so may a majority of the nodes: these nodes were never used for tokens,
    /// or they restarted at the same time. So the earlier tokens are unknown. An operator has to create the floors
    /// again; until then no node is repaired.
    #[error(
        "its fencing tokens have no floor, and too many other nodes have no floor either: they were never used for \
         tokens, or have lost their data together; `Redlock::trust_nodes` gives them one, if no token can be larger \
         than the time"
    )]
    NoFloor,
    /// The node has given the largest possible [fencing token](crate::LockOptions::fenced). Another program has written
    /// to its keys, or two clocks were wrong by centuries. To begin again, stop every program that uses tokens, delete
    /// `shearline:floor` and the keys that begin with `shearline:fence:` on every node, make the store forget the
    /// tokens that it has seen, and create the floors (`Redlock::trust_nodes`).
    #[error(
        "it has given the largest possible fencing token: a clock was wrong, or another program wrote to its keys; \
         delete `shearline:floor` and `shearline:fence:*` on all nodes, make the store accept smaller tokens again, \
         and create the floors (`Redlock::trust_nodes`)"
    )]
    NoMoreTokens,
    /// The node runs no scripts, because its user may not run them or its server cannot. The request needs scripts: it
    /// uses [`RestartGuard::Strict`](crate::RestartGuard) or a [fencing token](crate::LockOptions::fenced), or is for a
    /// shared lock or a permit. The node grants other locks without scripts.
    #[error(
        "it runs no scripts, and fencing tokens, shared locks, permits and a strict restart guard need scripts; \
         permit `EVAL` and `EVALSHA` (`ACL SETUSER .. +eval +evalsha`), or do without them"
    )]
    NeedsScripts,
    /// The TLS handshake fails. The certificate of the node, or of this client, has to be corrected; the text of the
    /// error says which. The client tries the node again with the usual back-off. A node whose port does not speak TLS
    /// often gives no answer at all, and is then unreachable.
    #[error("{0}")]
    Tls(LinkError),
    /// The node refused the handshake with another error.
    #[error("it refused the handshake with {0}")]
    Refused(ServerError),
}

/// Returns the text that says where to find an ACL line with `command`. No ACL line has `scan`, which only counts
/// counters: locks do not need it.
fn suffices(command: &str) -> &'static str {
    match command {
        "scan" => "",
        _ => ", the manual (`shearline::manual::permissions`) has an ACL line that suffices",
    }
}

impl Unusable {
    /// Returns the lasting fault that made a connection fail for this reason; `None` if the reason passes by itself.
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

    /// Returns `true` if only an operator can repair the fault: no attempt before the repair will succeed.
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
                &b"READONLY You can't write against a replica."[..],
                "READONLY",
            ),
            (b"ERR unknown command 'AUTH', with args: 'secret'", "ERR"),
            (b"WRONGPASS", "WRONGPASS"),
            (b"", ""),
            (b" x", ""),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNO"),
        ] {
            assert_eq!(ServerError::from_line(line).code(), code);
        }
    }
}
