//! The scripts of a lock on several resources: what they do, without Lua.

use super::{Arguments, NO_KEY, NO_NUMBER, above_left, barrier_left, lua_number};
use crate::embedded::keyspace::{Database, Millis};
use crate::embedded::refusal::{Answer, Refusal};
use crate::embedded::strings::{expiry, set_in};
use crate::resp::OwnedValue;

/// The keys of the lock, without those of a marker check; the token, the ttl and the marker.
struct Several<'a> {
    names: &'a [&'a [u8]],
    token: &'a [u8],
    ttl: &'a [u8],
    marker: &'a [u8],
}

impl<'a> Several<'a> {
    fn of(arguments: &Arguments<'a>) -> Result<Self, Refusal> {
        let &[token, ttl, marker, ..] = arguments.rest else {
            return Err(NO_KEY);
        };
        let guard = if marker.is_empty() { 0 } else { 2 };
        let names = arguments.keys.len().checked_sub(guard).ok_or(NO_KEY)?;
        Ok(Self {
            names: &arguments.keys[..names],
            token,
            ttl,
            marker,
        })
    }

    /// Returns `said`, and whether it counts if there is a marker check.
    fn answer(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        said: i64,
    ) -> Answer {
        if self.marker.is_empty() {
            return Ok(OwnedValue::Integer(said));
        }
        let guard = &arguments.keys[self.names.len()..];
        let marker = arguments.read(database, now, guard[0]);
        let same = matches!(marker, Ok(Some(text)) if text == self.marker);
        let barrier = arguments.left(database, now, guard[1]);
        let counts = match same {
            true => barrier_left(barrier),
            false => -1,
        };
        Ok(OwnedValue::array([said, counts].map(OwnedValue::Integer)))
    }

    /// Lets `key`, which is there, live for the ttl at least.
    fn raise(&self, database: &mut Database<'_>, now: Millis, key: &[u8]) -> Result<(), Refusal> {
        let left = database.entry(key, now).map_or(-1, |entry| entry.pttl(now));
        // Lua counts in doubles.
        if left >= 0 && (left as f64) < lua_number(self.ttl).ok_or(NO_NUMBER)? {
            database.set_end(key, now, expiry(self.ttl, now)?);
        }
        Ok(())
    }

    /// Returns 1 if all keys hold the token, -1 if one is another's, 0 if one is not there.
    fn all_hold(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
    ) -> Result<i64, Refusal> {
        let mut said = 1;
        for key in self.names {
            match arguments.read(database, now, key)? {
                None if said == 1 => said = 0,
                Some(value) if value != self.token => said = -1,
                None | Some(_) => {}
            }
        }
        Ok(said)
    }
}

/// Does what [`TAKE_SEVERAL`](crate::node::TAKE_SEVERAL) does for a user who may do everything.
pub(super) fn take(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let several = Several::of(arguments)?;
    if several.ttl.is_empty() {
        return Ok(OwnedValue::Integer(0));
    }
    let mut said = 1;
    for (number, key) in (2..).zip(several.names) {
        let value = arguments.read(database, now, key)?;
        if value.is_some_and(|value| value != several.token) {
            said = number;
            break;
        }
    }
    if said == 1 {
        for key in several.names {
            let words: [&[u8]; 3] = [b"nx", b"px", several.ttl];
            if set_in(database, now, key, several.token, &words)? == OwnedValue::Null {
                several.raise(database, now, key)?;
            }
        }
    }
    several.answer(database, now, arguments, said)
}

/// Does what [`EXTEND_SEVERAL`](crate::node::EXTEND_SEVERAL) does.
pub(super) fn extend(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let several = Several::of(arguments)?;
    let said = several.all_hold(database, now, arguments)?;
    if said == 1 {
        for key in several.names {
            several.raise(database, now, key)?;
        }
    }
    several.answer(database, now, arguments, said)
}

/// Does what [`CONFIRM_SEVERAL`](crate::node::CONFIRM_SEVERAL) does.
pub(super) fn confirm(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let several = Several::of(arguments)?;
    let mut said = several.all_hold(database, now, arguments)?;
    if said == 1 {
        let keys = several.names.iter();
        let left = keys.map(|key| above_left(database, now, key));
        said = left.min().unwrap_or_default();
    }
    several.answer(database, now, arguments, said)
}

/// Does what [`RELEASE_SEVERAL`](crate::node::RELEASE_SEVERAL) does.
pub(super) fn release(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (mut deleted, mut foreign) = (0, false);
    for key in arguments.keys {
        match arguments.read(database, now, key) {
            Ok(None) => {}
            Ok(value) if value == arguments.token => {
                deleted += usize::from(database.remove(key, now));
            }
            Ok(Some(_)) | Err(_) => foreign = true, // No other error is possible here.
        }
    }
    let said = match foreign {
        _ if deleted == arguments.keys.len() => 1,
        true => -1,
        false => 0,
    };
    Ok(OwnedValue::Integer(said))
}
