//! The commands on keys.

use crate::resp::OwnedValue;

use super::call::{Call, count, integer, ok};
use super::keyspace::{Database, Entry, Millis, Value};
use super::refusal::{Answer, Refusal};
use super::state::State;

/// `GET key`.
pub(super) fn get(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let answer = read(&mut database, call.words[1], call.now);
    database.register(call.words[1]);
    answer
}

/// `DEL key ...`.
pub(super) fn del(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let keys = call.words_from(1).iter();
    Ok(count(
        keys.filter(|key| database.remove(key, call.now)).count(),
    ))
}

/// `DELIFEQ key value`: deletes the key if it holds the value.
pub(super) fn delifeq(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let mut database = call.database(state);
    let same = database.text(key, call.now)? == Some(value);
    Ok(OwnedValue::Integer(i64::from(
        same && database.remove(key, call.now),
    )))
}

/// `EXISTS key ...`: a key that is named twice counts twice.
pub(super) fn exists(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let keys = call.words_from(1).iter();
    let found = keys.filter(|key| {
        let found = database.entry(key, call.now).is_some();
        database.register(key);
        found
    });
    Ok(count(found.count()))
}

/// `PTTL key`: -2 if there is none, -1 if it never ends.
pub(super) fn pttl(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let entry = database.entry(call.words[1], call.now);
    let left = entry.map_or(-2, |entry| entry.pttl(call.now));
    database.register(call.words[1]);
    Ok(OwnedValue::Integer(left))
}

/// `LPUSH key element ...`: only the number of elements is kept.
pub(super) fn lpush(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, now) = (call.words[1], call.now);
    let added = u64::try_from(call.words.len() - 2).unwrap_or(u64::MAX);
    let mut database = call.database(state);
    let old = database.entry(key, now);
    let (length, end) = match old.map(|entry| (&entry.value, entry.end)) {
        Some((Value::Text(_), _)) => return Err(Refusal::WRONG_TYPE),
        Some((Value::List(length), end)) => (length.saturating_add(added), end),
        None => (added, None),
    };
    let value = Value::List(length);
    database.insert(key, Entry { value, end });
    Ok(OwnedValue::Integer(
        i64::try_from(length).unwrap_or(i64::MAX),
    ))
}

/// `SET key value [NX|XX] [GET] [PX ms|EX s|KEEPTTL]`.
pub(super) fn set(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let now = call.now;
    let options = call.words_from(3);
    set_in(&mut call.database(state), now, key, value, options)
}

/// Does what [`set`] does, for a script too.
pub(super) fn set_in(
    database: &mut Database<'_>,
    now: Millis,
    key: &[u8],
    value: &[u8],
    options: &[&[u8]],
) -> Answer {
    let options = SetOptions::parse(options)?;
    let end = options.end(now)?;
    let before = match options.get {
        true => Some(read(database, key, now)?),
        false => None,
    };
    let old = database.entry(key, now);
    let refused = options
        .condition
        .is_some_and(|wants| wants.key != old.is_some());
    if refused {
        return Ok(before.unwrap_or(OwnedValue::Null));
    }
    let end = match old {
        Some(old) if options.lifetime == Lifetime::Keep => old.end,
        Some(_) | None => end,
    };
    let value = Value::Text(value.to_vec());
    database.insert(key, Entry { value, end });
    Ok(before.unwrap_or_else(ok))
}

/// `SETNX key value`: used by locks of before 2012 and by the example `setnx_getset`.
pub(super) fn setnx(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let mut database = call.database(state);
    let is_free = database.entry(key, call.now).is_none();
    if is_free {
        let value = Value::Text(value.to_vec());
        database.insert(key, Entry { value, end: None });
    }
    Ok(OwnedValue::Integer(i64::from(is_free)))
}

/// `GETSET key value`: the old value, and the new one never ends.
pub(super) fn getset(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let mut database = call.database(state);
    let before = read(&mut database, key, call.now)?;
    let value = Value::Text(value.to_vec());
    database.insert(key, Entry { value, end: None });
    Ok(before)
}

#[derive(Clone, Copy, Default)]
struct SetOptions<'a> {
    condition: Option<Condition>,
    get: bool,
    lifetime: Lifetime<'a>,
}

/// `XX` requires a key, `NX` requires that there is none.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Condition {
    key: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Lifetime<'a> {
    #[default]
    Endless,
    Keep,
    Millis(&'a [u8]),
    Seconds(&'a [u8]),
}

impl<'a> SetOptions<'a> {
    /// The same option twice is allowed, and the last counts; two that exclude each other are
    /// refused.
    fn parse(mut words: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        while let Some((option, mut rest)) = words.split_first() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            match options.lifetime {
                _ if is("nx") => options.condition(false)?,
                _ if is("xx") => options.condition(true)?,
                _ if is("get") => options.get = true,
                Lifetime::Endless | Lifetime::Keep if is("keepttl") => {
                    options.lifetime = Lifetime::Keep;
                }
                Lifetime::Endless | Lifetime::Millis(_) if is("px") => {
                    options.lifetime = Lifetime::Millis(take(&mut rest)?);
                }
                Lifetime::Endless | Lifetime::Seconds(_) if is("ex") => {
                    options.lifetime = Lifetime::Seconds(take(&mut rest)?);
                }
                Lifetime::Endless | Lifetime::Keep | Lifetime::Millis(_) | Lifetime::Seconds(_) => {
                    return Err(Refusal::SYNTAX);
                }
            }
            words = rest;
        }
        Ok(options)
    }

    fn condition(&mut self, key: bool) -> Result<(), Refusal> {
        let condition = Condition { key };
        if self.condition.is_some_and(|other| other != condition) {
            return Err(Refusal::SYNTAX);
        }
        self.condition = Some(condition);
        Ok(())
    }

    /// Returns when a key that is set now ends.
    fn end(&self, now: Millis) -> Result<Option<Millis>, Refusal> {
        let (text, unit) = match self.lifetime {
            Lifetime::Endless | Lifetime::Keep => return Ok(None),
            Lifetime::Millis(text) => (text, 1),
            Lifetime::Seconds(text) => (text, 1000),
        };
        let span = Some(integer(text)?).filter(|span| *span > 0);
        let span = span.and_then(|span| span.checked_mul(unit));
        let end = span.and_then(|span| now.checked_add(span));
        end.map(Some).ok_or_else(|| Refusal::expire_time("set"))
    }
}

fn take<'a>(words: &mut &[&'a [u8]]) -> Result<&'a [u8], Refusal> {
    let (first, rest) = words.split_first().ok_or(Refusal::SYNTAX)?;
    *words = rest;
    Ok(first)
}

/// `PEXPIRE key ms [NX|XX|GT|LT]`. An end that is not in the future deletes the key.
pub(super) fn pexpire(state: &mut State, call: &mut Call<'_>) -> Answer {
    let condition = ExpireCondition::parse(call.words_from(3))?;
    let end = expiry(call.words[2], call.now)?;
    let (key, now) = (call.words[1], call.now);
    let mut database = call.database(state);
    let old = database.entry(key, now);
    let allowed = old.is_some_and(|old| condition.allows(old.end, end));
    if allowed {
        database.set_end(key, now, end);
    }
    Ok(OwnedValue::Integer(i64::from(allowed)))
}

/// Returns the time `text` milliseconds from now.
pub(super) fn expiry(text: &[u8], now: Millis) -> Result<Millis, Refusal> {
    let end = now.checked_add(integer(text)?);
    end.ok_or_else(|| Refusal::expire_time("pexpire"))
}

/// When an expiry may be changed, by what it was.
#[derive(Default)]
struct ExpireCondition {
    /// There is none yet.
    nx: bool,
    /// There is one already.
    xx: bool,
    /// The new one is later; none is the latest.
    gt: bool,
    /// The new one is earlier.
    lt: bool,
}

impl ExpireCondition {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        const NX_EXCLUDES: Refusal =
            Refusal::fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
        const GT_EXCLUDES: Refusal =
            Refusal::fixed("ERR GT and LT options at the same time are not compatible");
        let mut condition = Self::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => condition.nx = true,
                b"xx" => condition.xx = true,
                b"gt" => condition.gt = true,
                b"lt" => condition.lt = true,
                _ => return Err(Refusal::quoting("ERR Unsupported option ", word, "")),
            }
        }
        match condition {
            Self {
                nx: true,
                xx,
                gt,
                lt,
            } if xx || gt || lt => Err(NX_EXCLUDES),
            Self {
                gt: true, lt: true, ..
            } => Err(GT_EXCLUDES),
            allowed => Ok(allowed),
        }
    }

    fn allows(&self, old: Option<Millis>, new: Millis) -> bool {
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| old <= new))
    }
}

/// Returns the reply to `GET key`.
fn read(database: &mut Database<'_>, key: &[u8], now: Millis) -> Answer {
    let text = database.text(key, now)?;
    Ok(text.map_or(OwnedValue::Null, OwnedValue::bulk))
}
