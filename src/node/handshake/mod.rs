//! The start of a connection to one node: when it is opened, which server answers, and whether this server is usable.
//!
//! The engine first sends only `HELLO 3`, with credentials and client name, because the answer shows whether the server
//! accepts us. The engine then sends everything else in one write: the database, the unconfirmed releases of the
//! previous connection, the questions that identify the server, and the scripts. A server that does not know `HELLO`
//! gets the same questions in RESP2.
//!
//! # Not here
//!
//! The [`Node`](super::Node) sends the questions, and passes the answers to the handshake. The module `trust` decides
//! whether the node's votes count.

mod backoff;
mod credentials;
mod phase;
mod server;

pub use phase::NodeState;
pub(super) use phase::Phase;
pub(crate) use phase::{Access, Trouble};
pub(crate) use server::Identity;
pub(super) use server::{Next, Server, refused};

use alloc::sync::Arc;
use core::time::Duration;

use rand::rngs::StdRng;

#[cfg(feature = "std")]
use crate::config;
use crate::config::{Config, NodeConfig};
use crate::error::{LinkFault, NodeOutcome, ServerError, Unusable, words};
use crate::time::Instant;
use crate::timer::TimerKey;

use super::request::Purpose;
use backoff::Backoff;
use credentials::Credentials;

/// The command that a probe sends. Every server answers it in some way, even one that refuses our connection.
pub(crate) const HELLO: &[u8] = b"*1\r\n$5\r\nHELLO\r\n";

/// If a connection ends after at least this time, the next one is opened immediately, because the connection was
/// probably idle or the server restarted.
const LASTED: Duration = Duration::from_secs(1);

/// The maximum amount by which a server may overstate its uptime. The server computes its uptime from two times in
/// whole seconds, and its clock may tick some milliseconds early.
pub(super) const UPTIME_GRAIN: Duration = Duration::from_secs(2);

/// A text that explains the node's state, with the server's error if the text comes from the server.
pub(super) type Words = Option<(Option<ServerError>, Arc<str>)>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(super) phase: Phase,
    /// Why the node is not ready. This field has no meaning while the node is ready.
    pub(crate) trouble: Trouble,
    /// The latest text about the node: an error that the server sent, or the reason why the provider of the credentials
    /// failed.
    pub(super) words: Words,
    /// The latest error on this connection that an operator can fix, and the number of locks that the node had granted
    /// before.
    refused: Option<(ServerError, u64)>,
    pub(super) credentials: Credentials,
    backoff: Backoff,
    /// When the engine last tried to connect.
    pub(crate) tried_at: Instant,
    /// The timer of the connection, and the time when it fires. The timer marks the end of a back-off, or the deadline
    /// for the connection and its handshake.
    pub(crate) timer: Option<(TimerKey, Instant)>,
}

impl Handshake {
    pub(super) fn new(config: &Config, node: &NodeConfig) -> Self {
        Self {
            phase: Phase::Down,
            trouble: Trouble::Link(LinkFault::NotYet),
            words: None,
            refused: None,
            credentials: Credentials::new(config, node),
            backoff: Backoff::default(),
            tried_at: Instant::ZERO,
            timer: None,
        }
    }

    /// Records that a connection is being opened.
    pub(crate) fn connecting(&mut self, now: Instant) {
        self.tried_at = now;
        self.phase = Phase::Connecting;
        if self.credentials.ask_again() {
            self.words = Some((None, words("the provider has not answered in time")));
        }
    }

    /// Receives the credentials for the connection that is being opened, or the reason why the provider has none.
    #[cfg(feature = "std")]
    pub(crate) fn log_in(&mut self, given: Result<config::Credentials, Arc<str>>) {
        match given {
            Ok(given) => {
                self.credentials.give(given);
                self.words = None;
            }
            Err(words) => self.words = Some((None, words)),
        }
    }

    /// Records that the connection is up. Returns `false` if no connection was being opened.
    pub(super) fn connected(&mut self) -> bool {
        let is_new = matches!(self.phase, Phase::Connecting);
        if is_new {
            self.phase = Phase::Handshake(Server::default());
        }
        is_new
    }

    /// Records that the connection was lost or could not be opened.
    pub(super) fn disconnected(&mut self, trouble: Trouble) {
        self.phase = Phase::Down;
        self.trouble = trouble;
        self.refused = None;
    }

    /// Returns the [`Trouble`] of a connection after it has received bytes that are not RESP.
    #[cold]
    pub(super) fn not_resp(&self) -> Trouble {
        match self.phase {
            Phase::Handshake(_) => Trouble::Unusable(Unusable::NotRedis),
            Phase::Down | Phase::Connecting | Phase::Ready { .. } => {
                Trouble::Link(LinkFault::Protocol)
            }
        }
    }

    /// Keeps the text of the error that the server returned for a command with this `purpose`. `grants` is the number
    /// of locks that the node has granted so far.
    #[cold]
    pub(super) fn keep_words(&mut self, purpose: Purpose, line: &[u8], grants: u64) {
        self.words = self.credentials.words_of(purpose, line);
        let error = ServerError::from_line(line);
        if error.advice().is_some() {
            self.refused = Some((error, grants));
        }
    }

    /// Returns the error that an operator can fix, if the node has sent one and has granted no lock since. `grants` is
    /// the number of locks that the node has granted so far.
    pub(crate) fn refused(&self, grants: u64) -> Option<ServerError> {
        let (error, before) = self.refused?;
        (before == grants).then_some(error)
    }

    /// Returns how long to wait before the next connection. The delay depends on how long the last connection lasted,
    /// so call this method before [`Self::disconnected`].
    pub(crate) fn delay(&mut self, now: Instant, random: &mut StdRng) -> Duration {
        let lasted = matches!(&self.phase, Phase::Ready { since, .. }
            if since.saturating_add(LASTED) <= now);
        if guard!(NeverReconnectsAtOnce, lasted) {
            self.backoff.reset();
            return Duration::ZERO;
        }
        self.backoff.failed(random)
    }

    /// Returns `true` if the node is down and no connection attempt began after `before`.
    pub(crate) fn is_down_since(&self, before: Instant) -> bool {
        matches!(self.phase, Phase::Down) && self.tried_at <= before
    }

    /// Returns `true` if a connection is open or being opened.
    pub(crate) fn has_link(&self) -> bool {
        !matches!(self.phase, Phase::Down)
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    /// Returns `true` if the node's connection is up, so that it can receive bytes.
    pub(crate) fn hears(&self) -> bool {
        self.phase.server().is_some()
    }

    /// Returns `true` if a provider still has to supply the credentials for the connection.
    pub(crate) fn lacks_credentials(&self) -> bool {
        self.credentials.are_missing()
    }

    /// Returns the latest text about the node if it explains this outcome.
    pub(crate) fn words_of(&self, outcome: NodeOutcome) -> Option<&Arc<str>> {
        let (error, words) = self.words.as_ref()?;
        outcome.is_due_to(*error).then_some(words)
    }

    /// Returns the identity that the server has reported on this connection.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.phase.server().map(|server| &server.identity)
    }

    /// Returns the `run_id` of the server on the current connection, once it is known.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.identity()?.run_id.as_deref()
    }

    /// Returns a lower bound for the server's uptime. A server reports whole seconds, and may overstate its uptime
    /// by [`UPTIME_GRAIN`].
    pub(crate) fn uptime(&self, now: Instant) -> Option<Duration> {
        let Phase::Ready { server, since } = &self.phase else {
            return None;
        };
        let said = server.identity.uptime?;
        let then = said.saturating_sub(UPTIME_GRAIN);
        Some(then.saturating_add(now.saturating_since(*since)))
    }
}
