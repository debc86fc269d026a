//! Looks at a key: they ask what is left of it, and for a notification of its next change.
//!
//! Redis and Valkey call this client-side caching. `CLIENT TRACKING ON OPTIN NOLOOP` is sent once on a connection, when
//! the first look needs it. `CLIENT CACHING YES` makes the next command register its key. It goes in one piece with the
//! `PTTL` behind it, because a command between the two would take the registration. The next change of the key is then
//! pushed, once, to this connection.
//!
//! # Guarantees
//!
//! * Nothing stands between `CACHING` and its `PTTL`.
//! * A look says whether it has registered. If the user may not track, or the connection speaks RESP2, which has no
//!   pushes, only the `PTTL` is sent.
//!
//! # Not here
//!
//! The consequences of a look. The loss of a registration by our own later write to the key.

use core::time::Duration;

use crate::error::ServerError;
use crate::keys::PlaceKey;
use crate::resource::OwnedToken;
use crate::resp::{Value, command};
use crate::time::Instant;

use super::in_flight::{Heard, InFlight};
use super::outbox::Outbox;
use crate::node::handshake::{Access, Phase, Server};
use crate::node::request::{Dialect, Question, Remaining, Request, Waking};
use crate::node::script::INSPECT;
use crate::node::{Command, Node};

const TRACK: &[u8] =
    b"*5\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nOPTIN\r\n$6\r\nNOLOOP\r\n";
const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// A node with this many unanswered commands gets no looks that can wait.
const BUSY: usize = 512;

impl Waking {
    /// Takes an answer to a tracking command. If `value` is an error, the node sends no notifications; if the error
    /// passes, the next look asks again.
    fn refused(&mut self, value: Value<'_>) {
        if let (Self::Push, Some(line)) = (*self, value.as_error()) {
            let error = ServerError::from_line(line);
            *self = match error.code() {
                "BUSY" | "LOADING" => Self::Unasked,
                _ => Self::Refused(error),
            };
        }
    }
}

impl Node {
    /// Asks what is left of the key `resource`, and for a notification of its next change if the node can send one.
    /// Returns `false` if the node cannot be asked now.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        place: PlaceKey,
        resource: &[u8],
        buffer: &mut Command,
    ) -> bool {
        let bytes = buffer.written(Dialect::Text, None, |out| {
            command(out, &[b"PTTL", resource]);
        });
        if self.access() != Access::Open {
            return false;
        }
        self.register(now);
        let holder = false;
        self.put(now, Request::Look { place, holder }, bytes);
        true
    }

    /// Makes the next command register the keys that it reads, if the node can do that. `MULTI` registers all keys that
    /// are read until `EXEC`.
    pub(in crate::node) fn register(&mut self, now: Instant) {
        if !self.batch.is_empty() {
            self.write_batch(now);
        }
        let Self {
            handshake,
            outbox,
            in_flight,
            ..
        } = self;
        register_next(now, &mut handshake.phase, outbox, in_flight);
    }

    /// Sends `question`, and asks for a notification of the next change of the keys that it reads. Nothing comes
    /// between the two.
    pub(crate) fn send_watched(&mut self, now: Instant, request: Request, question: &[u8]) {
        self.send_time(now, request);
        self.register(now);
        self.put(now, request, question);
    }

    /// Returns `true` if the node has many commands to answer, so that looks which can wait are postponed.
    pub(crate) fn is_busy(&self) -> bool {
        self.handshake.is_ready() && BUSY <= self.in_flight.len()
    }

    /// Returns `true` if the node is known to send no notifications.
    pub(crate) fn tells_nothing(&self) -> bool {
        matches!(self.waking(), Waking::Resp2 | Waking::Refused(_))
    }

    /// Asks for the holder of the key `resource`, if the user may run scripts. The script cuts off a value that is
    /// longer than any token, and registers nothing. It goes behind a look, so a later change of the key is notified.
    pub(crate) fn ask_holder(
        &mut self,
        now: Instant,
        place: PlaceKey,
        resource: &[u8],
        buffer: &mut Command,
    ) {
        let bytes = buffer.written(Dialect::Text, None, |out| {
            command(out, &[b"EVAL", INSPECT.text.as_bytes(), b"1", resource]);
        });
        if self.may_run_scripts() {
            let holder = true;
            self.put(now, Request::Look { place, holder }, bytes);
        }
    }

    /// Returns the token in the latest answer to the question for the holder, and forgets it.
    pub(crate) fn take_token(&mut self) -> Option<OwnedToken> {
        self.token.take()
    }

    /// Returns how the node wakes a waiter when a lock may be free.
    pub(crate) fn waking(&self) -> Waking {
        let server = self.handshake.phase.server();
        server.map_or(Waking::Unasked, |server| server.waking)
    }
}

/// Makes the next command register the keys that it reads, if the node can do that.
pub(in crate::node) fn register_next(
    now: Instant,
    phase: &mut Phase,
    outbox: &mut Outbox,
    in_flight: &mut InFlight,
) {
    let Phase::Ready { server, .. } = phase else {
        return;
    };
    let mut put = |command: &[u8]| {
        let start = outbox.push(command);
        in_flight.push(Request::Track, now, start, command.len());
    };
    if server.waking == Waking::Unasked {
        server.waking = Waking::Push; // Unless it refuses.
        put(TRACK);
    }
    if server.waking == Waking::Push {
        put(CACHING);
    }
}

/// Takes the answer of `server` to `CLIENT TRACKING` or `CLIENT CACHING`.
#[inline]
pub(in crate::node) fn answered(server: Option<&mut Server>, value: Value<'_>) {
    if let Some(server) = server {
        server.waking.refused(value);
    }
}

/// Takes the answer of `server` to a look at the key of `place`. A look that is forbidden registers nothing.
// Inlined: out of line, the result of every answer would pass through memory.
#[inline(always)]
pub(in crate::node) fn looked(
    server: Option<&mut Server>,
    place: PlaceKey,
    value: Value<'_>,
) -> Heard {
    let forbidden = |line: &[u8]| line.starts_with(b"NOPERM");
    let waking = server.map(|server| {
        if value.as_error().is_some_and(forbidden) {
            server.waking.refused(value);
        }
        server.waking
    });
    Heard::Looked {
        place,
        left: left(value),
        pushes: waking == Some(Waking::Push),
    }
}

/// Returns what an answer to a look says is left of the key, if it says so.
fn left(value: Value<'_>) -> Option<Remaining> {
    match value.as_integer()? {
        -2 => Some(Remaining::Missing),
        -1 => Some(Remaining::Permanent),
        left => {
            let left = u64::try_from(left).ok()?;
            Some(Remaining::For(Duration::from_millis(left)))
        }
    }
}

/// Keeps the token in an answer to the question for the holder, if there is one.
#[cold]
#[inline(never)]
pub(in crate::node) fn keep_token(kept: &mut Option<OwnedToken>, value: Value<'_>) {
    *kept = Question::token_in(value).map(|(token, _)| OwnedToken::new(token));
}

/// Passes the keys that a push reports as changed to `changed`; `None` stands for all keys. A key of
/// [`STRING_BYTES_MAX`](crate::limits::STRING_BYTES_MAX) bytes stands for every key that begins so. Other pushes are
/// ignored. Returns `true` if `changed` returns `true` for any key.
#[cold]
#[inline(never)]
pub(in crate::node) fn changes(
    push: Value<'_>,
    mut changed: impl FnMut(Option<&[u8]>) -> bool,
) -> bool {
    let Value::Push(items) = push else {
        return false;
    };
    let mut items = items.iter();
    if items.next().and_then(|kind| kind.as_bytes()) != Some(b"invalidate") {
        return false;
    }
    match items.next() {
        Some(Value::Null) => changed(None),
        Some(keys) => {
            let keys = keys.as_items();
            let keys = keys.iter().flat_map(|keys| keys.iter());
            let keys = keys.filter_map(|key| key.as_bytes());
            keys.filter(|key| changed(Some(key))).count() != 0
        }
        None => false,
    }
}
