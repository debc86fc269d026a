//! The scripts of a lock on several resources: what they do, without Lua.

use super::{Arguments, NO_KEY, NO_NUMBER, above_left, barrier_left, lua_number};
use crate::embedded::keyspace::{Database, Millis};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::embedded::strings::{expiry, set_in};

/// The keys of the lock, without those of a marker check; the token and the ttl, of which each may be missing.
struct Several<'a> {
    names: &'a [&'a [u8]],
    token: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
}

impl<'a> Several<'a> {
    fn of(arguments: &Arguments<'a>) -> Self {
        let all = arguments.keys.len();
        let names = guard(arguments).map_or(all, |guard| usize::try_from(guard).unwrap_or(0));
        Self {
            names: &arguments.keys[..names],
            token: arguments.token,
            ttl: arguments.ttl,
        }
    }

    /// Lets `key`, which is there, live for the ttl at least.
    fn raise(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        key: &[u8],
    ) -> Result<(), Refusal> {
        let left = arguments.left(database, now, key).unwrap_or(-1);
        // Lua counts in doubles.
        let ttl = self.ttl.unwrap_or_default();
        if left >= 0 && (left as f64) < lua_number(ttl).ok_or(NO_NUMBER)? {
            database.set_end(key, now, expiry(ttl, now)?);
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
                Some(value) if Some(value) != self.token => said = -1,
                None | Some(_) => {}
            }
        }
        Ok(said)
    }
}

/// Returns the place of the first key of the marker check, if it is one. The third argument is the marker.
fn guard(arguments: &Arguments<'_>) -> Option<i64> {
    let is_checked = arguments.rest.get(2) != Some(&&b""[..]);
    is_checked.then_some(arguments.keys.len() as i64 - 2)
}

/// Returns `said`, and whether it counts if there is a marker check.
pub(super) fn answer(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    said: i64,
) -> Answer {
    Ok(match counts_if_checked(database, now, arguments)? {
        None => Reply::Integer(said),
        Some(counts) => Reply::array([said, counts].map(Reply::Integer)),
    })
}

/// Returns whether the answer counts, if there is a marker check.
pub(super) fn counts_if_checked(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Result<Option<i64>, Refusal> {
    let Some(guard) = guard(arguments) else {
        return Ok(None);
    };
    let at = |place: i64| {
        usize::try_from(place)
            .ok()
            .and_then(|at| arguments.keys.get(at))
    };
    let wanted = arguments.rest.get(2).copied();
    let same = at(guard).is_some_and(|key| {
        let marker = arguments.read(database, now, key);
        matches!(marker, Ok(Some(text)) if Some(text) == wanted)
    });
    let barrier = arguments.left(database, now, at(guard + 1).ok_or(NO_KEY)?);
    Ok(Some(match same {
        true => barrier_left(barrier),
        false => -1,
    }))
}

/// Does what [`TAKE_SEVERAL`](crate::node::TAKE_SEVERAL) does for a user who may do everything.
pub(super) fn take(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let several = Several::of(arguments);
    if several.ttl == Some(b"") {
        return Ok(Reply::Integer(0));
    }
    let mut said = 1;
    for (number, key) in (2..).zip(several.names) {
        // One of another type is another's.
        let value = arguments.read(database, now, key);
        if !matches!(value, Ok(value) if value.is_none() || value == several.token) {
            said = number;
            break;
        }
    }
    if said == 1 {
        for key in several.names {
            let (Some(token), Some(ttl)) = (several.token, several.ttl) else {
                return Err(NO_KEY);
            };
            let words: [&[u8]; 3] = [b"nx", b"px", ttl];
            if set_in(database, now, key, token, &words)? == Reply::Null {
                several.raise(database, now, arguments, key)?;
            }
        }
    }
    answer(database, now, arguments, said)
}

/// Does what [`EXTEND_SEVERAL`](crate::node::EXTEND_SEVERAL) does.
pub(super) fn extend(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let several = Several::of(arguments);
    let said = several.all_hold(database, now, arguments)?;
    if said == 1 {
        for key in several.names {
            several.raise(database, now, arguments, key)?;
            database.register(key);
        }
    }
    answer(database, now, arguments, said)
}

/// Does what [`CONFIRM_SEVERAL`](crate::node::CONFIRM_SEVERAL) does.
pub(super) fn confirm(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let several = Several::of(arguments);
    let mut said = several.all_hold(database, now, arguments)?;
    if said == 1 {
        let keys = several.names.iter();
        let left = keys.map(|key| above_left(database, now, key));
        said = left.min().unwrap_or(9_000_000_000_000_001);
    }
    answer(database, now, arguments, said)
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
    Ok(Reply::Integer(said))
}
