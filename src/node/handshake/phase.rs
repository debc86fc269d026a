//! The phases of a connection, and whether the engine can ask the node questions in each phase.

use core::fmt;
use core::time::Duration;

use crate::error::{LinkError, LinkFault, NodeOutcome, ServerError, Unusable};
use crate::resp::Value;
use crate::time::Instant;

use super::server::Server;

/// The state of one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node has never been reached, and its first connection is being opened.
    New,
    /// The connection is being opened again, or the handshake is in progress.
    Connecting,
    /// The node votes.
    Ready,
    /// The node answers questions, but its votes do not count yet. The node may have forgotten locks in a restart or a
    /// replacement, its clock was stepped, or it has a barrier. See [`RestartGuard`](crate::RestartGuard)
    /// and [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    Quarantined {
        /// The time until the node may vote. This time is zero while the engine waits for an answer from the node.
        left: Duration,
    },
    /// The node is connected, but gets no questions because it has been silent for too long.
    Suspect,
    /// The node is not connected. The next connection attempt follows after a delay.
    Down(LinkError),
    /// The node can be reached but cannot be used. The next connection attempt follows after a delay.
    Unusable(Unusable),
}

/// Writes the state as a text for operators. If the node does not vote, the text includes the reason.
impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("not reached yet"),
            Self::Connecting => f.write_str("connecting"),
            Self::Ready => f.write_str("ready"),
            Self::Quarantined { left } if left.is_zero() => {
                f.write_str("in quarantine until it has answered")
            }
            Self::Quarantined { left } => write!(f, "in quarantine for another {left:.0?}"),
            Self::Suspect => f.write_str("silent"),
            Self::Down(reason) => write!(f, "down: {reason}"),
            Self::Unusable(reason) => write!(f, "unusable: {reason}"),
        }
    }
}

/// The phase of the connection. Each variant contains the data that exists only in its phase.
// With `repr(u8)`, the tag is a separate byte instead of a niche of `Server`. Every command reads the tag, and a
// separate byte is faster to read.
#[derive(Debug)]
#[repr(u8)]
pub(in crate::node) enum Phase {
    /// The node is not connected. The next connection attempt begins when the timer fires.
    Down,
    /// A connection is being opened.
    Connecting,
    /// The connection is up, and the server has not identified itself yet.
    Handshake(Server),
    /// The handshake is done, so the engine can ask the node questions.
    Ready { server: Server, since: Instant },
}

/// The reason why the engine cannot ask a node questions.
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

    /// Returns the [`Trouble`] for a reply that no command has asked for. Some servers refuse a connection with an
    /// error before they have received a command.
    pub(in crate::node) fn of_unasked(value: Value<'_>) -> Self {
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

/// Whether the engine can ask a node questions now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// The engine can ask the node questions now.
    Open,
    /// The handshake must end before the engine can ask the node questions.
    Handshake {
        /// Whether the node has never been reached before.
        first: bool,
    },
    /// The engine cannot ask the node questions. The value is the outcome that a question would have now.
    Shut(NodeOutcome),
}

impl Phase {
    /// Returns the server's answers, if the connection is up.
    #[inline]
    pub(in crate::node) fn server(&self) -> Option<&Server> {
        match self {
            Self::Handshake(server) | Self::Ready { server, .. } => Some(server),
            Self::Down | Self::Connecting => None,
        }
    }

    #[inline]
    pub(in crate::node) fn server_mut(&mut self) -> Option<&mut Server> {
        match self {
            Self::Handshake(server) | Self::Ready { server, .. } => Some(server),
            Self::Down | Self::Connecting => None,
        }
    }
}
