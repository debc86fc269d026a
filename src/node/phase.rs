//! The phases of a connection, and what can be asked in each.

use core::fmt;
use core::time::Duration;

use crate::error::{LinkError, LinkFault, NodeOutcome, ServerError, Unusable};
use crate::resp::Value;
use crate::time::Instant;

use super::handshake::Server;
use super::request::{Dialect, Taught};

/// The state of one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeState {
    /// It has never been reached; the first connection is under way.
    New,
    /// The connection is being opened again, or the handshake is under way.
    Connecting,
    /// It votes.
    Ready,
    /// It is asked and answers, but does not vote yet: it restarted, or was replaced, and may have
    /// forgotten locks, or its clock was stepped, or a barrier stands on it. See [`RestartGuard`](crate::RestartGuard) and
    /// [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    Quarantined {
        /// For how much longer. Zero while it is being asked.
        left: Duration,
    },
    /// It has a connection, and has been silent for so long that it is not asked.
    Suspect,
    /// There is no connection; it is tried again after a while.
    Down(LinkError),
    /// It can be reached and cannot serve; it is tried again after a while.
    Unusable(Unusable),
}

/// What an operator reads: the state, and for one that does not vote why.
impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("not reached yet"),
            Self::Connecting => f.write_str("connecting"),
            Self::Ready => f.write_str("ready"),
            Self::Quarantined { left } if left.is_zero() => {
                f.write_str("in quarantine until it has answered")
            }
            Self::Quarantined { left } => write!(f, "in quarantine for {left:.0?} more"),
            Self::Suspect => f.write_str("silent"),
            Self::Down(reason) => write!(f, "down: {reason}"),
            Self::Unusable(reason) => write!(f, "unusable: {reason}"),
        }
    }
}

/// The phase of the connection. Each phase owns the data that exists in it.
// With a tag of its own, because every command asks for the phase.
#[derive(Debug)]
#[repr(u8)]
pub(super) enum Phase {
    /// No connection; one is tried when the timer fires.
    Down,
    /// One was asked for.
    Connecting,
    /// It is up, and the server has not identified itself yet.
    Handshake(Server),
    /// Questions can be asked.
    Ready { server: Server, since: Instant },
}

/// Why a node cannot be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    Link(LinkFault),
    Unusable(Unusable),
}

impl Trouble {
    pub(crate) fn outcome(self) -> NodeOutcome {
        match self {
            Self::Link(fault) => NodeOutcome::Unreachable(fault.into()),
            Self::Unusable(reason) => NodeOutcome::Unusable(reason),
        }
    }

    /// Returns the trouble that an unasked reply means. Some servers say why they close a
    /// connection before they were asked anything.
    pub(super) fn of_unasked(value: Value<'_>) -> Self {
        let Some(line) = value.as_error() else {
            return Self::Link(LinkFault::Protocol);
        };
        match ServerError::from_line(line).code() {
            "DENIED" => Self::Unusable(Unusable::Protected),
            "ERR" if line.starts_with(b"ERR max number of clients") => {
                Self::Unusable(Unusable::TooManyClients)
            }
            _ => Self::Link(LinkFault::Protocol),
        }
    }
}

/// Whether a node can be asked now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Yes.
    Open,
    /// Not before its handshake is done.
    Handshake {
        /// It has never been reached before.
        first: bool,
    },
    /// No, and this is the outcome of the question.
    Shut(NodeOutcome),
}

impl Phase {
    /// Returns what the server has said, if the connection is up.
    #[inline]
    pub(super) fn server(&self) -> Option<&Server> {
        match self {
            Self::Handshake(server) | Self::Ready { server, .. } => Some(server),
            Self::Down | Self::Connecting => None,
        }
    }

    #[inline]
    pub(super) fn server_mut(&mut self) -> Option<&mut Server> {
        match self {
            Self::Handshake(server) | Self::Ready { server, .. } => Some(server),
            Self::Down | Self::Connecting => None,
        }
    }

    /// Returns how a command that runs this script is written for this node.
    #[inline]
    pub(super) fn dialect(&self, taught: Taught) -> Dialect {
        match self {
            Self::Ready { server, .. } if server.scripts.knows(taught) => Dialect::Sha1,
            Self::Down | Self::Connecting | Self::Handshake(_) | Self::Ready { .. } => {
                Dialect::Text
            }
        }
    }
}
