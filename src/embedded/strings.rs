//! The commands on keys.

use alloc::vec::Vec;
use core::mem::discriminant;

use super::call::{Call, count, integer, ok};
use super::keyspace::{Database, Entry, Millis, Value};
use super::refusal::Refusal;
use super::reply::{Answer, Reply};
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
    Ok(Reply::Integer(i64::from(
        same && database.remove(key, call.now),
    )))
}

/// `DELEX key [IFEQ value]`: deletes the key, or only if it holds the value. From the documentation.
pub(super) fn delex(state: &mut State, call: &mut Call<'_>) -> Answer {
    match *call.words_from(2) {
        [] => del(state, call),
        [condition, value] if condition.eq_ignore_ascii_case(b"ifeq") => {
            let words = [b"DELIFEQ", call.words[1], value];
            let mut call = Call {
                session: &mut *call.session,
                words: &words,
                ..*call
            };
            delifeq(state, &mut call)
        }
        _ => Err(Refusal::SYNTAX),
    }
}

/// `MSETEX numkeys key value .. [NX|XX] [PX ms|..]`: all keys, or none. A key that is named twice is set
/// twice.
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
    if options.get {
        return Err(Refusal::SYNTAX);
    }
    let now = call.now;
    let new = options.end(now, "msetex")?;
    let mut database = call.database(state);
    let refused = pairs.chunks_exact(2).any(|pair| {
        let there = database.entry(pair[0], now).is_some();
        wants.is_some_and(|wants| wants != there)
    });
    for pair in pairs.chunks_exact(2).filter(|_| !refused) {
        let (key, value) = (pair[0], Value::Text(pair[1].to_vec()));
        let end = options.end_after(database.entry(key, now), new);
        database.insert(key, Entry { value, end });
    }
    Ok(Reply::Integer(i64::from(!refused)))
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
    Ok(Reply::Integer(left))
}

/// `LPUSH key element ...`: only the number of elements is kept.
pub(super) fn lpush(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, now) = (call.words[1], call.now);
    let added = u64::try_from(call.words.len() - 2).unwrap_or(u64::MAX);
    let mut database = call.database(state);
    let old = database.entry(key, now);
    let (length, end) = match old.map(|entry| (&entry.value, entry.end)) {
        Some((Value::Text(_) | Value::Members(_), _)) => return Err(Refusal::WRONG_TYPE),
        Some((Value::List(length), end)) => (length.saturating_add(added), end),
        None => (added, None),
    };
    let value = Value::List(length);
    database.insert(key, Entry { value, end });
    Ok(Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX)))
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
    let (scores, now) = (scores.ok_or(NO_FLOAT)?, call.now);
    let mut database = call.database(state);
    let mut members = database.members(key, now)?;
    let (mut added, mut changed) = (0, false);
    for (score, pair) in scores.into_iter().zip(pairs.chunks_exact(2)) {
        let old = members.put(pair[1], score);
        added += usize::from(old.is_none());
        changed |= old != Some(score);
    }
    if changed {
        let end = database.entry(key, now).and_then(|entry| entry.end);
        let value = Value::Members(members);
        database.insert(key, Entry { value, end });
    }
    Ok(count(added))
}

/// `ZRANGE key start stop`, without options: places, from the end where they are negative.
pub(super) fn zrange(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let members = ordered(&mut database, call);
    database.register(call.words[1]); // Whatever the answer is.
    members
}

fn ordered(database: &mut Database<'_>, call: &Call<'_>) -> Answer {
    if !call.words_from(4).is_empty() {
        return Err(Refusal::SYNTAX);
    }
    let [start, stop] = [integer(call.words[2])?, integer(call.words[3])?];
    let members = database.members(call.words[1], call.now)?;
    let ordered = members.ordered();
    let len = ordered.len() as i64;
    let place = |place: i64| place.saturating_add(if place < 0 { len } else { 0 });
    let (start, stop) = (place(start).max(0), place(stop));
    let all = (0..).zip(ordered);
    let within = all.filter(|(at, _)| (start..=stop).contains(at));
    Ok(Reply::array(
        within.map(|(_, (member, _))| Reply::bulk(member)),
    ))
}

/// `TYPE key`.
pub(super) fn type_of(state: &mut State, call: &mut Call<'_>) -> Answer {
    let mut database = call.database(state);
    let value = database.entry(call.words[1], call.now).map(|it| &it.value);
    let name = match value {
        None => "none",
        Some(Value::Text(_)) => "string",
        Some(Value::List(_)) => "list",
        Some(Value::Members(_)) => "zset",
    };
    database.register(call.words[1]);
    Ok(Reply::Simple(name))
}

/// `SET key value [NX|XX|IFEQ value] [GET] [PX ms|EX s|PXAT ms|EXAT s|KEEPTTL]`.
pub(super) fn set(state: &mut State, call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let now = call.now;
    let options = SetOptions::parse(call.words_from(3))?;
    let compares = matches!(options.condition, Some(Condition::Value(_)));
    if compares && !state.flavour.compares_in_set() {
        return Err(Refusal::SYNTAX);
    }
    let at_once = state.flavour.ends_at_once();
    set_with(
        &mut call.database(state),
        now,
        key,
        value,
        &options,
        at_once,
    )
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
    set_with(database, now, key, value, &options, false)
}

fn set_with(
    database: &mut Database<'_>,
    now: Millis,
    key: &[u8],
    value: &[u8],
    options: &SetOptions<'_>,
    at_once: bool,
) -> Answer {
    let end = options.end(now, "set")?;
    let before = match options.get {
        true => Some(read(database, key, now)?),
        false => None,
    };
    let refused = match options.condition {
        None => false,
        Some(Condition::Key(wants)) => wants != database.entry(key, now).is_some(),
        Some(Condition::Value(wants)) => database.text(key, now)? != Some(wants),
    };
    if refused {
        return Ok(before.unwrap_or(Reply::Null));
    }
    let end = options.end_after(database.entry(key, now), end);
    let value = Value::Text(value.to_vec());
    database.insert_until(key, now, Entry { value, end }, at_once);
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
    Ok(Reply::Integer(i64::from(is_free)))
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
    condition: Option<Condition<'a>>,
    get: bool,
    lifetime: Lifetime<'a>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Condition<'a> {
    /// `XX` requires a key, `NX` requires that there is none.
    Key(bool),
    /// `IFEQ` requires that it holds this.
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
    UntilSeconds(&'a [u8]),
}

impl<'a> SetOptions<'a> {
    /// The same option twice is allowed, and the last counts; two that exclude each other are
    /// refused.
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
                () if is("get") => options.get = true,
                () if is("keepttl") => options.lives(Lifetime::Keep)?,
                () if is("px") => options.lives(Lifetime::Millis(take(&mut rest)?))?,
                () if is("ex") => options.lives(Lifetime::Seconds(take(&mut rest)?))?,
                () if is("pxat") => options.lives(Lifetime::UntilMillis(take(&mut rest)?))?,
                () if is("exat") => options.lives(Lifetime::UntilSeconds(take(&mut rest)?))?,
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

    /// Returns when a key that `command` sets now ends.
    fn end(&self, now: Millis, command: &str) -> Result<Option<Millis>, Refusal> {
        let (text, unit, from) = match self.lifetime {
            Lifetime::Endless | Lifetime::Keep => return Ok(None),
            Lifetime::Millis(text) => (text, 1, now),
            Lifetime::Seconds(text) => (text, 1000, now),
            Lifetime::UntilMillis(text) => (text, 1, 0),
            Lifetime::UntilSeconds(text) => (text, 1000, 0),
        };
        let span = Some(integer(text)?).filter(|span| *span > 0);
        let span = span.and_then(|span| span.checked_mul(unit));
        let end = span.and_then(|span| from.checked_add(span));
        end.map(Some).ok_or_else(|| Refusal::expire_time(command))
    }

    /// Returns when the key ends then, that is `new` unless the `old` one stays.
    fn end_after(&self, old: Option<&Entry>, new: Option<Millis>) -> Option<Millis> {
        match old {
            Some(old) if self.lifetime == Lifetime::Keep => old.end,
            Some(_) | None => new,
        }
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
    Ok(Reply::Integer(i64::from(allowed)))
}

/// Returns the time `text` milliseconds from now.
pub(super) fn expiry(text: &[u8], now: Millis) -> Result<Millis, Refusal> {
    let end = now.checked_add(integer(text)?);
    end.ok_or_else(|| Refusal::expire_time("pexpire"))
}

/// The condition on the old expiry under which it may be changed.
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
    Ok(text.map_or(Reply::Null, Reply::bulk))
}
