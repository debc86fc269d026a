//! A *look* asks how much longer a key lives, and requests a notification of its next change.
//!
//! In Redis and Valkey, these notifications belong to client-side caching. On each connection, the engine sends `CLIENT
//! TRACKING ON OPTIN NOLOOP` before the first look that needs notifications. `CLIENT CACHING YES` makes the server
//! register the keys of the next command. The engine writes `CLIENT CACHING YES` together with the `PTTL` of the look,
//! because a command between the two would use up the registration. The server then sends one notification on this
//! connection when the key next changes.
//!
//! # Guarantees
//!
//! * No command comes between `CLIENT CACHING YES` and its `PTTL`.
//! * The answer to a look says whether the server has registered the key. If the user may not use tracking, or the
//!   connection speaks RESP2, the engine sends only the `PTTL`.
//!
//! # Not here
//!
//! Other modules handle the result of a look, and this engine's later writes to the key, which use up the registration.

use core::time::Duration;

use crate::error::ServerError;
use crate::keys::PlaceKey;
use crate::resp::Value;
use crate::time::Instant;

use super::in_flight::{Heard, InFlight};
use super::outbox::Outbox;
use crate::node::request::{Purpose, Remaining, Waking};

const TRACK: &[u8] =
    b"*5\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nOPTIN\r\n$6\r\nNOLOOP\r\n";
const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

impl Waking {
    /// Handles an answer to a tracking command. If `value` is an error, the node sends no notifications. If the error
    /// is temporary, the next look asks for notifications again.
    pub(in crate::node) fn refused(&mut self, value: Value<'_>) {
        if let (Self::Push, Some(line)) = (*self, value.as_error()) {
            let error = ServerError::from_line(line);
            *self = match error.code() {
                "BUSY" | "LOADING" => Self::Unasked,
                _ => Self::Refused(error),
            };
        }
    }

    /// Returns `true` if the node sends notifications.
    pub(crate) fn pushes(self) -> bool {
        self == Self::Push
    }

    /// Returns `true` if the node is known to send no notifications.
    pub(crate) fn tells_nothing(self) -> bool {
        matches!(self, Self::Resp2 | Self::Refused(_))
    }
}

/// Makes the server register the keys that the next command reads, if the node supports notifications.
pub(in crate::node) fn register_next(
    now: Instant,
    waking: &mut Waking,
    outbox: &mut Outbox,
    in_flight: &mut InFlight,
) {
    let mut put = |command: &[u8]| {
        let start = outbox.push(command);
        in_flight.push(Purpose::Track, now, start, command.len());
    };
    if *waking == Waking::Unasked {
        *waking = Waking::Push; // Unless the server refuses.
        put(TRACK);
    }
    if *waking == Waking::Push {
        put(CACHING);
    }
}

/// Handles the answer to a [`Look`](Purpose::Look) at the key of `place`. If the answer reports a missing permission,
/// the server has not registered the key.
pub(in crate::node) fn looked(waking: &mut Waking, place: PlaceKey, value: Value<'_>) -> Heard {
    let forbidden = |line: &[u8]| line.starts_with(b"NOPERM");
    if value.as_error().is_some_and(forbidden) {
        waking.refused(value);
    }
    Heard::Looked {
        place,
        left: left(value),
        pushes: *waking == Waking::Push,
    }
}

/// Returns how much longer the key lives, according to this answer to a look. Returns `None` if the answer does not
/// contain this time.
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

/// Calls `changed` for each key that a push reports as changed. `None` stands for all keys. A key
/// of [`STRING_BYTES_MAX`](crate::limits::STRING_BYTES_MAX) bytes stands for every key that begins with these bytes.
/// Other pushes are ignored. Returns `true` if `changed` returns `true` for any key.
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
