//! The commands on keys.

use alloc::vec::Vec;
use core::mem::discriminant;

use super::call::{Call, count, integer, ok};
use super::keyspace::{Database, Millis, Value};
use super::refusal::Refusal;
use super::reply::{Answer, Reply};
use super::state::State;

/// `GET key`.
pub(super) fn get(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let answer = read(&mut database, call.words[1]);
    database.register(call.words[1]);
    answer
}

/// `DEL key ...`.
pub(super) fn del(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let keys = call.words_from(1).iter();
    Ok(count(keys.filter(|key| database.remove(key)).count()))
}

/// `DELIFEQ key value`: deletes the key if it holds the value.
pub(super) fn delifeq(state: &mut State, call: &mut Call<'_>) -> Answer {
    del_equal(state, call, call.words[2])
}

/// `DELEX key IFEQ value`: does the same as `DELIFEQ`. From the documentation.
pub(super) fn delex(state: &mut State, call: &mut Call<'_>) -> Answer {
    match call.words[2].eq_ignore_ascii_case(b"ifeq") {
        true => del_equal(state, call, call.words[3]),
        false => Err(Refusal::SYNTAX),
    }
}

fn del_equal(state: &mut State, call: &Call<'_>, value: &[u8]) -> Answer {
    let mut database = call.database(state);
    let same = database.text(call.words[1])? == Some(value);
    let deleted = same && database.remove(call.words[1]);
    Ok(Reply::Integer(i64::from(deleted)))
}

/// `MSETEX numkeys key value .. [NX|XX] [PX ms|..]`: sets all keys, or none. A key that is named twice is set twice.
pub(super) fn msetex(state: &mut State, call: &mut Call<'_>) -> Answer {
    const NO_COUNT: Refusal = Refusal::fixed("ERR invalid numkeys value or out of range");
    let count = integer(call.words[1]).ok().filter(|count| *count > 0);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let words = count.ok_or(NO_COUNT)?.checked_mul(2);
    let (pairs, options) = words
        .and_then(|words| call.words_from(2).split_at_checked(words))
        .ok_or(Refusal::SYNTAX)?;
    let options = SetOptions::parse(options)?;
    let wants = match options.condition {
        Some(Condition::Key(wants)) => Some(wants),
        None => None,
        Some(Condition::Value(_)) => return Err(Refusal::SYNTAX),
    };
    let end = options.end(call.now, "msetex")?;
    let mut database = call.database(state);
    let refused = pairs.chunks_exact(2).any(|pair| {
        let there = database.entry(pair[0]).is_some();
        wants.is_some_and(|wants| wants != there)
    });
    for pair in pairs.chunks_exact(2).filter(|_| !refused) {
        options.insert(&mut database, pair[0], pair[1], end);
    }
    Ok(Reply::Integer(i64::from(!refused)))
}

/// `EXISTS key ...`: a key that is named twice counts twice.
pub(super) fn exists(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let keys = call.words_from(1).iter();
    let found = keys.filter(|key| {
        let found = database.entry(key).is_some();
        database.register(key);
        found
    });
    Ok(count(found.count()))
}

/// `PTTL key`: -2 if the key does not exist, -1 if it never ends.
pub(super) fn pttl(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let left = database.left(call.words[1]).unwrap_or(-2);
    database.register(call.words[1]);
    Ok(Reply::Integer(left))
}

/// `ZADD key score member ...`, without options.
pub(super) fn zadd(state: &mut State, call: &mut Call<'_>) -> Answer {
    const NO_FLOAT: Refusal = Refusal::fixed("ERR value is not a valid float");
    let (key, pairs) = (call.words[1], call.words_from(2));
    if pairs.len() % 2 != 0 {
        return Err(Refusal::SYNTAX);
    }
    let score = |text: &[u8]| {
        let text = core::str::from_utf8(text).ok()?;
        text.parse().ok().filter(|score: &f64| !score.is_nan())
    };
    let scores: Option<Vec<f64>> = pairs.iter().step_by(2).map(|pair| score(pair)).collect();
    let scores = scores.ok_or(NO_FLOAT)?;
    let mut database = call.database(state);
    let mut members = database.members(key)?;
    let (mut added, mut changed) = (0, false);
    for (score, pair) in scores.into_iter().zip(pairs.chunks_exact(2)) {
        let old = members.put(pair[1], score);
        added += usize::from(old.is_none());
        changed |= old != Some(score);
    }
    if changed {
        database.insert_members(key, members);
    }
    Ok(count(added))
}

/// `ZRANGE key start stop`, without options. Negative places count from the end.
pub(super) fn zrange(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let members = ordered(&mut database, call);
    database.register(call.words[1]); // Whatever the answer is, the key was read.
    members
}

fn ordered(database: &mut Database<'_>, call: &Call<'_>) -> Answer {
    if !call.words_from(4).is_empty() {
        return Err(Refusal::SYNTAX);
    }
    let [start, stop] = [integer(call.words[2])?, integer(call.words[3])?];
    let members = database.members(call.words[1])?.0;
    let len = members.len() as i64;
    let place = |place: i64| place.saturating_add(if place < 0 { len } else { 0 });
    let (start, stop) = (place(start).max(0), place(stop));
    let all = (0..).zip(members);
    let within = all.filter(|(at, _)| (start..=stop).contains(at));
    Ok(Reply::array(
        within.map(|(_, (member, _))| Reply::Bulk(member)),
    ))
}

/// `TYPE key`.
pub(super) fn type_of(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let name = match database.entry(call.words[1]).map(|entry| &entry.value) {
        None => "none",
        Some(Value::Text(_)) => "string",
        Some(Value::Members(_)) => "zset",
    };
    database.register(call.words[1]);
    Ok(Reply::Simple(name))
}

/// `SET key value [NX|XX|IFEQ value] [PX ms|EX s|PXAT ms|KEEPTTL]`.
pub(super) fn set(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    set_in(&mut call.database(state), key, value, call.words_from(3))
}

/// Does what [`set`] does, also for a script.
pub(super) fn set_in(
    database: &mut Database<'_>,
    key: &[u8],
    value: &[u8],
    options: &[&[u8]],
) -> Answer {
    let options = SetOptions::parse(options)?;
    let compares = matches!(options.condition, Some(Condition::Value(_)));
    if compares && !database.flavour.compares_in_set() {
        return Err(Refusal::SYNTAX);
    }
    let end = options.end(database.now, "set")?;
    let refused = match options.condition {
        None => false,
        Some(Condition::Key(wants)) => wants != database.entry(key).is_some(),
        Some(Condition::Value(wants)) => database.text(key)? != Some(wants),
    };
    if refused {
        return Ok(Reply::Null);
    }
    options.insert(database, key, value, end);
    Ok(ok())
}

/// `SETNX key value`. Locks before 2012 used it, and so does the example `setnx_getset`.
pub(super) fn setnx(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let set = set_in(&mut call.database(state), key, value, &[b"nx"])?;
    Ok(Reply::Integer(i64::from(set != Reply::Null)))
}

/// `GETSET key value`: returns the old value. The new one never ends.
pub(super) fn getset(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let mut database = call.database(state);
    let before = read(&mut database, key)?;
    database.insert(key, value, None);
    Ok(before)
}

#[derive(Clone, Copy, Default)]
struct SetOptions<'a> {
    condition: Option<Condition<'a>>,
    lifetime: Lifetime<'a>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Condition<'a> {
    /// `XX` requires that the key exists, `NX` that it does not.
    Key(bool),
    /// `IFEQ` requires that the key holds this value.
    Value(&'a [u8]),
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Lifetime<'a> {
    #[default]
    Endless,
    Keep,
    Millis(&'a [u8]),
    Seconds(&'a [u8]),
    /// Until a time of the clock.
    UntilMillis(&'a [u8]),
}

impl<'a> SetOptions<'a> {
    /// Parses the options. If an option is repeated, the last one counts. Two that exclude each other are refused.
    fn parse(mut words: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        while let Some((option, mut rest)) = words.split_first() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            match () {
                () if is("nx") => options.condition(Condition::Key(false))?,
                () if is("xx") => options.condition(Condition::Key(true))?,
                () if is("ifeq") && options.condition.is_none() => {
                    options.condition = Some(Condition::Value(take(&mut rest)?));
                }
                () if is("keepttl") => options.lives(Lifetime::Keep)?,
                () if is("px") => options.lives(Lifetime::Millis(take(&mut rest)?))?,
                () if is("ex") => options.lives(Lifetime::Seconds(take(&mut rest)?))?,
                () if is("pxat") => options.lives(Lifetime::UntilMillis(take(&mut rest)?))?,
                () => return Err(Refusal::SYNTAX),
            }
            words = rest;
        }
        Ok(options)
    }

    fn lives(&mut self, lifetime: Lifetime<'a>) -> Result<(), Refusal> {
        let known = self.lifetime;
        if known != Lifetime::Endless && discriminant(&known) != discriminant(&lifetime) {
            return Err(Refusal::SYNTAX);
        }
        self.lifetime = lifetime;
        Ok(())
    }

    fn condition(&mut self, condition: Condition<'a>) -> Result<(), Refusal> {
        if self.condition.is_some_and(|other| other != condition) {
            return Err(Refusal::SYNTAX);
        }
        self.condition = Some(condition);
        Ok(())
    }

    /// Returns the end of a key that `command` sets now.
    fn end(&self, now: Millis, command: &str) -> Result<Option<Millis>, Refusal> {
        let (text, unit, from) = match self.lifetime {
            Lifetime::Endless | Lifetime::Keep => return Ok(None),
            Lifetime::Millis(text) => (text, 1, now),
            Lifetime::Seconds(text) => (text, 1000, now),
            Lifetime::UntilMillis(text) => (text, 1, 0),
        };
        let span = Some(integer(text)?).filter(|span| *span > 0);
        let span = span.and_then(|span| span.checked_mul(unit));
        let end = span.and_then(|span| from.checked_add(span));
        end.map(Some).ok_or_else(|| Refusal::expire_time(command))
    }

    /// Sets the key until `end`, unless it keeps its old end.
    fn insert(&self, database: &mut Database<'_>, key: &[u8], text: &[u8], end: Option<Millis>) {
        let end = match self.lifetime == Lifetime::Keep {
            true => database.entry(key).and_then(|entry| entry.end),
            false => end,
        };
        database.insert(key, text, end);
    }
}

fn take<'a>(words: &mut &[&'a [u8]]) -> Result<&'a [u8], Refusal> {
    let (first, rest) = words.split_first().ok_or(Refusal::SYNTAX)?;
    *words = rest;
    Ok(first)
}

/// `PEXPIRE key ms [LT]`. An end that is not in the future deletes the key. With `LT`, the end changes only if it
/// becomes earlier.
pub(super) fn pexpire(state: &mut State, call: &mut Call<'_>) -> Answer {
    let options = call.words_from(3);
    let other = options
        .iter()
        .find(|word| !word.eq_ignore_ascii_case(b"lt"));
    if let Some(word) = other {
        return Err(Refusal::quoting("ERR Unsupported option ", word, ""));
    }
    let end = expiry(call.words[2], call.now)?;
    let key = call.words[1];
    let mut database = call.database(state);
    let is_earlier = |old: Option<Millis>| old.is_none_or(|old| end < old);
    let old = database.entry(key).map(|entry| entry.end);
    let allowed = old.is_some_and(|old| options.is_empty() || is_earlier(old));
    if allowed {
        database.set_end(key, end);
    }
    Ok(Reply::Integer(i64::from(allowed)))
}

/// Returns the time `text` milliseconds from now.
pub(super) fn expiry(text: &[u8], now: Millis) -> Result<Millis, Refusal> {
    let end = now.checked_add(integer(text)?);
    end.ok_or_else(|| Refusal::expire_time("pexpire"))
}

/// Returns the reply to `GET key`.
fn read(database: &mut Database<'_>, key: &[u8]) -> Answer {
    let text = database.text(key)?;
    Ok(text.map_or(Reply::Null, Reply::bulk))
}
