//! Why a node did not carry out a request: an error reply, a failed connection, or a wrong configuration.

use alloc::format;
use alloc::string::String;
use core::fmt;

#[cfg(feature = "tls")]
use super::tls::TlsFault;

/// The first word of a server's error reply, such as `READONLY`.
///
/// This type does not store the rest of the text, because servers echo arguments in it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct ServerError {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl ServerError {
    const BYTES_MAX: usize = 15;

    /// Returns the error that an error reply contains. `line` is the reply without its `-` and its line end. The error
    /// has at most the first fifteen bytes of `line`, and ends before the first byte that is not a letter, a digit or
    /// `_`.
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

    /// Returns `true` if the word does not name a kind of error, because it is `ERR` or the beginning of a sentence.
    pub(crate) fn is_plain(self) -> bool {
        let code = self.code();
        code == "ERR" || !code.bytes().any(|byte| byte.is_ascii_uppercase())
    }

    /// Returns the meaning of the error and what to do, if they are known.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        Some(match self.code() {
            "OOM" => {
                "its memory is full: raise its `maxmemory`, or remove other keys; counters of fencing tokens \
                 (`shearline:fence:*`) may be the cause"
            }
            "MISCONF" => "it cannot save to disk: check its log and its free disk space",
            "READONLY" => "it is a replica: use its master instead",
            "MASTERDOWN" => "it is a replica that has lost its master: use a master instead",
            "NOREPLICAS" => {
                "it refuses writes because it has too few replicas: set `min-replicas-to-write 0` there, because a \
                 lock node needs no replicas"
            }
            "LOADING" => "it is still loading its data: wait until it has finished",
            "BUSY" => "a script is blocking it: end the script with `SCRIPT KILL`",
            "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "TRYAGAIN" => {
                "it is part of a cluster: use independent masters instead"
            }
            _ => return None,
        })
    }

    /// Returns the code, followed by advice if there is any.
    pub(crate) fn advised(&self) -> String {
        let advice = self.advice().map(|advice| format!(" ({advice})"));
        format!("{self}{}", advice.unwrap_or_default())
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

/// Why there is no connection to a node. The text names the reason, and says what to do if that is known.
///
/// The driver of an `Engine` makes this value from the `io::Error` of a connection. The default value means that the
/// node closed the connection.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct LinkError(#[from] pub(crate) LinkFault);

/// See [`LinkError`].
#[allow(
    private_interfaces,
    reason = "the type is public only with the feature `internals`, and no test reads a TLS fault"
)]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, thiserror::Error)]
pub enum LinkFault {
    /// The handle has not tried to connect yet, or the node has not answered on the first connection.
    #[error("no answer yet")]
    NotYet,
    /// The host name could not be resolved to an address.
    #[error("its host name cannot be resolved")]
    Unresolved,
    /// The provider of `Builder::credentials` failed, or did not answer in time.
    #[error("its credentials could not be obtained")]
    Credentials,
    /// No socket exists at the path.
    #[error("no socket at its path")]
    NotFound,
    /// No process listens at the address.
    #[error("connection refused")]
    Refused,
    /// Connecting or the handshake took too long.
    #[error("no answer within the connect timeout")]
    ConnectTimeout,
    /// The other side closed the connection.
    #[default]
    #[error("connection closed by the node")]
    Closed,
    /// The connection was reset.
    #[error("connection reset")]
    Reset,
    /// The connection was reset before the handshake was finished. Possible causes are a port that expects TLS, and a
    /// proxy without a server behind it.
    #[error(
        "connection reset during the handshake; the port may need TLS, so check which server listens there"
    )]
    HandshakeReset,
    /// The handle closed the connection because the node was silent for too long.
    #[error("connection closed because the node was silent for too long")]
    Silent,
    /// The node sent bytes that are not RESP, or a reply without a request.
    #[error("it broke the protocol")]
    Protocol,
    /// Any other error of the operating system, such as a missing route or permission. The value is the system's error
    /// number.
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
    #[error("it is a replica; use its master, or another independent master")]
    Replica,
    /// The node runs in cluster or sentinel mode.
    #[error("it does not run in standalone mode; Redlock needs independent masters")]
    Mode,
    /// The node requires credentials, and the URL has none.
    #[error("it requires a password; put credentials into the URL")]
    NoCredentials,
    /// The node refuses the credentials.
    #[error(
        "it refuses the credentials; correct the user or the password in the URL, or in the source that supplies them"
    )]
    WrongCredentials,
    /// The user lacks a permission that the handshake needs, and the server does not name the permission.
    #[error(
        "the user lacks a permission; use the ACL line in the manual (`shearline::manual::permissions`)"
    )]
    NoPermission,
    /// The user may not run `command`, which is necessary to take, release or extend a lock. If the user may take a
    /// lock, but not release it, the handle takes no lock on this node.
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
        "its user may not use this key, or the keys `shearline:*` that fenced and shared locks need; permit both (`ACL \
         SETUSER .. ~lock:* ~shearline:*` for names that begin with `lock:`)"
    )]
    KeyPermission,
    /// The node has no database with the number in the URL.
    #[error("it has no database with this number; correct the number in the URL")]
    NoDatabase,
    /// Protected mode refuses clients from other hosts.
    #[error("its protected mode refuses this client; set a password, or `protected-mode no`")]
    Protected,
    /// The node has as many clients as its `maxclients` allows.
    #[error("it has reached its `maxclients`; raise this limit, or close other clients")]
    TooManyClients,
    /// The node is the same server as another configured node. A server has only one vote.
    #[error(
        "it is the same server as node {0} of the configuration (counted from 0); give each server only once"
    )]
    SameServer(u8),
    /// The node has the marker of another group ([`RestartGuard::Strict`](crate::RestartGuard)): some client uses this
    /// node together with other nodes, or with another group name. While any node has this fault, the handle takes no
    /// lock.
    #[error(
        "its marker is for a group of {nodes} nodes with a quorum of {quorum}{}; give all \
         clients the same nodes and group name, or see `Redlock::reinit`", if *name { " under another name" } else { "" }
    )]
    OtherGroup {
        /// The number of nodes in the marker; 0 if the marker cannot be read.
        nodes: u16,
        /// The number of nodes that form a majority of the marker's group; 0 if the marker cannot be read.
        quorum: u16,
        /// `true` if the group has another name, or the marker cannot be read. The name itself is in the key
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
    /// is missing, or another server has written it. The node refuses locks with a fencing token, and grants plain
    /// locks as before. When all locks that were taken before the loss have expired, the node gets a floor without the
    /// help of an operator. If q of N nodes are a majority, the repair needs the floors of N - q + 1 other nodes: two
    /// of three, or three of five.
    #[error(
        "its fencing tokens are in repair: it may have lost its data, and gives no token until all earlier locks have \
         expired and enough other nodes have reported their tokens; no operator is needed, but a program must run \
         until then"
    )]
    InRepair,
    /// This node and a majority of all nodes may have lost their counters: the nodes were never used for fencing
    /// tokens, or they restarted at the same time. So no node knows the earlier fencing tokens. An operator must create
    /// the floors again; until then, the handle repairs no node.
    #[error(
        "it has no counter floor for fencing tokens, and too many other nodes have none either: these nodes were never \
         used for tokens, or lost their data together; when no client can still hold an earlier lock, use \
         `Redlock::trust_nodes` once; if a clock was set back, first make the store accept smaller tokens"
    )]
    NoFloor,
    /// The node has given the largest possible [fencing token](crate::LockOptions::fenced). Another program has written
    /// to the keys for fencing tokens, or two clocks were wrong by centuries. To begin again, stop every program that
    /// uses tokens, delete `shearline:floor` and the keys that begin with `shearline:fence:` on every node, make the
    /// store forget the tokens that it has seen, and create the floors (`Redlock::trust_nodes`).
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
        "it runs no scripts, but fencing tokens, shared locks, permits and a strict restart guard need scripts; \
         permit `EVAL` and `EVALSHA` (`ACL SETUSER .. +eval +evalsha`), or do without these features"
    )]
    NeedsScripts,
    /// The TLS handshake fails. An operator must correct the certificate of the node or of this client; the error text
    /// says which one. The client tries the node again with the usual back-off. A node whose port does not speak TLS
    /// often gives no answer at all, and is then unreachable.
    #[error("{0}")]
    Tls(LinkError),
    /// The node refused the handshake with another error.
    #[error("it refused the handshake with {}", .0.advised())]
    Refused(ServerError),
}

/// Returns the text that says where to find an ACL line with `command`. No ACL line in the manual contains `scan`,
/// `strlen` and `type`, because locks do not need them.
fn suffices(command: &str) -> &'static str {
    match command {
        "scan" | "strlen" | "type" => "",
        _ => ", or use the ACL line in the manual (`shearline::manual::permissions`)",
    }
}

impl Unusable {
    /// Returns the lasting fault behind this reason. Returns `None` if the problem may pass by itself.
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

    /// Returns `true` if the user of the node lacks a permission.
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

    /// Returns `true` if the node gives no fencing tokens because of this fault.
    pub(crate) const fn is_of_tokens(self) -> bool {
        matches!(self, Self::InRepair | Self::NoFloor | Self::NoMoreTokens)
    }

    /// Returns `true` if only an operator can repair the fault. Every attempt before the repair fails.
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
                "it refuses writes because it has too few replicas: set `min-replicas-to-write 0` there, because a \
                 lock node needs no replicas"
            )
        );
    }

    #[test]
    fn a_node_that_refuses_the_handshake_says_what_to_do_where_that_is_known() {
        for (line, said) in [
            (
                &b"BUSY Redis is busy"[..],
                "BUSY (a script is blocking it: end the script with `SCRIPT KILL`)",
            ),
            (b"ODD one", "ODD"),
        ] {
            let text = format!("{}", Unusable::Refused(ServerError::from_line(line)));
            assert_eq!(text, format!("it refused the handshake with {said}"));
        }
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
