//! The commands on keys.

use super::call::{Call, integer, ok};
use super::keyspace::Millis;
use super::refusal::Refusal;
use super::reply::{Answer, Reply};

/// `GET key`.
pub(super) fn get(call: &mut Call<'_>) -> Answer {
    let text = call.get(call.words[1])?;
    Ok(text.map_or(Reply::Null, Reply::bulk))
}

/// `DEL key ...`.
pub(super) fn del(call: &mut Call<'_>) -> Answer {
    let keys = call.words_from(1).iter();
    let removed = keys.filter(|key| call.remove(key)).count();
    Ok(Reply::Integer(removed as i64))
}

/// `DELIFEQ key value`: deletes the key if it has this value.
pub(super) fn delifeq(call: &mut Call<'_>) -> Answer {
    del_equal(call, call.words[2])
}

/// `DELEX key IFEQ value`: does the same as `DELIFEQ`, according to the documentation.
pub(super) fn delex(call: &mut Call<'_>) -> Answer {
    match call.words[2].eq_ignore_ascii_case(b"ifeq") {
        true => del_equal(call, call.words[3]),
        false => Err(Refusal::SYNTAX),
    }
}

fn del_equal(call: &mut Call<'_>, value: &[u8]) -> Answer {
    let same = call.text(call.words[1])? == Some(value);
    let deleted = same && call.remove(call.words[1]);
    Ok(Reply::Integer(i64::from(deleted)))
}

/// `MSETEX numkeys key value .. [NX|XX] [PX ms|..]`: sets all keys, or no key. A key that is named twice is set twice.
pub(super) fn msetex(call: &mut Call<'_>) -> Answer {
    let keys = usize::try_from(integer(call.words[1])?).unwrap_or(0);
    let words = keys.checked_mul(2).filter(|words| *words != 0);
    let (pairs, options) = words
        .and_then(|words| call.words_from(2).split_at_checked(words))
        .ok_or(Refusal::SYNTAX)?;
    let options = SetOptions::parse(options, call)?;
    let mut allowed = true;
    for pair in pairs.chunks_exact(2) {
        allowed &= options.allow(call, pair[0])?;
    }
    for pair in pairs.chunks_exact(2).filter(|_| allowed) {
        options.insert(call, pair[0], pair[1]);
    }
    Ok(Reply::Integer(i64::from(allowed)))
}

/// `PTTL key`: returns -2 if the key does not exist, and -1 if the key never expires.
pub(super) fn pttl(call: &mut Call<'_>) -> Answer {
    let left = call.pttl(call.words[1]);
    Ok(Reply::Integer(left.unwrap_or(-2)))
}

/// `ZADD key score member ...`, without options.
pub(super) fn zadd(call: &mut Call<'_>) -> Answer {
    let (key, pairs) = (call.words[1], call.words_from(2));
    if pairs.len() % 2 != 0 {
        return Err(Refusal::SYNTAX);
    }
    let mut members = call.members(key)?;
    let (mut added, mut changed) = (0, false);
    for pair in pairs.chunks_exact(2) {
        let score = core::str::from_utf8(pair[0]).ok();
        let score = score.and_then(|score| score.parse().ok());
        let score = score
            .filter(|score: &f64| !score.is_nan())
            .ok_or(Refusal::SYNTAX)?;
        let old = members.put(pair[1], score);
        added += i64::from(old.is_none());
        changed |= old != Some(score);
    }
    if changed {
        call.insert_members(key, members);
    }
    Ok(Reply::Integer(added))
}

/// `ZRANGE key 0 -1`: returns all members.
pub(super) fn zrange(call: &mut Call<'_>) -> Answer {
    if call.words[2..] != [&b"0"[..], b"-1"] {
        return Err(Refusal::SYNTAX);
    }
    let members = call.read_members(call.words[1])?;
    let members = members.0.into_iter();
    Ok(Reply::array(members.map(|(member, _)| Reply::Bulk(member))))
}

/// `SET key value [NX|XX|IFEQ value] [PX ms|PXAT ms|KEEPTTL]`.
pub(super) fn set(call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let set = call.set(key, value, call.words_from(3))?;
    Ok(if set { ok() } else { Reply::Null })
}

impl Call<'_> {
    /// Sets a key like [`set`], for a command or a script. Returns `true` if the key was set.
    pub(super) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &[&[u8]],
    ) -> Result<bool, Refusal> {
        let options = SetOptions::parse(options, self)?;
        let allowed = options.allow(self, key)?;
        if allowed {
            options.insert(self, key, value);
        }
        Ok(allowed)
    }
}

/// `SETNX key value`. Locks before 2012 used this command, as the example `setnx_getset` shows.
pub(super) fn setnx(call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let set = call.set(key, value, &[b"nx"])?;
    Ok(Reply::Integer(i64::from(set)))
}

/// `GETSET key value`: returns the old value. The new value never expires.
pub(super) fn getset(call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.words[1], call.words[2]);
    let before = call.text(key)?.map_or(Reply::Null, Reply::bulk);
    call.insert(key, value, None);
    Ok(before)
}

#[derive(Default)]
struct SetOptions<'a> {
    condition: Option<Condition<'a>>,
    lifetime: Option<Lifetime>,
}

enum Condition<'a> {
    /// `XX` requires that the key exists, and `NX` requires that the key does not exist.
    Key(bool),
    /// `IFEQ` requires that the key has this value.
    Value(&'a [u8]),
}

enum Lifetime {
    /// The new value keeps the expiry of the old value.
    Keep,
    Until(Millis),
}

impl<'a> SetOptions<'a> {
    /// Parses the options. Two options of the same kind are refused.
    fn parse(mut words: &[&'a [u8]], call: &Call<'_>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let Self {
            condition,
            lifetime,
        } = &mut options;
        while let [option, rest @ ..] = words {
            let name = option.to_ascii_lowercase();
            words = match (name.as_slice(), rest) {
                (b"nx", _) => once(condition, Condition::Key(false), rest)?,
                (b"xx", _) => once(condition, Condition::Key(true), rest)?,
                (b"ifeq", [value, rest @ ..]) if call.store.flavour.knows("ifeq") => {
                    once(condition, Condition::Value(value), rest)?
                }
                (b"keepttl", _) => once(lifetime, Lifetime::Keep, rest)?,
                (b"px", [ms, rest @ ..]) => once(lifetime, until(ms, call.now)?, rest)?,
                (b"pxat", [ms, rest @ ..]) => once(lifetime, until(ms, 0)?, rest)?,
                _ => return Err(Refusal::SYNTAX),
            };
        }
        Ok(options)
    }

    fn allow(&self, call: &mut Call<'_>, key: &[u8]) -> Result<bool, Refusal> {
        Ok(match self.condition {
            None => true,
            Some(Condition::Key(wants)) => wants == call.entry(key).is_some(),
            Some(Condition::Value(wants)) => call.text(key)? == Some(wants),
        })
    }

    fn insert(&self, call: &mut Call<'_>, key: &[u8], text: &[u8]) {
        let end = match self.lifetime {
            None => None,
            Some(Lifetime::Keep) => call.entry(key).and_then(|entry| entry.end),
            Some(Lifetime::Until(end)) => Some(end),
        };
        call.insert(key, text, end);
    }
}

/// Puts `value` into the slot, which must be empty. Returns the remaining words.
fn once<T, W>(slot: &mut Option<T>, value: T, rest: W) -> Result<W, Refusal> {
    match slot.replace(value) {
        None => Ok(rest),
        Some(_) => Err(Refusal::SYNTAX),
    }
}

/// Returns the time `millis` after `from`. `millis` must be positive.
fn until(millis: &[u8], from: Millis) -> Result<Lifetime, Refusal> {
    let span = Some(integer(millis)?).filter(|span| *span > 0);
    let end = span.and_then(|span| from.checked_add(span));
    end.map(Lifetime::Until).ok_or(Refusal::EXPIRE_TIME)
}

/// `PEXPIRE key ms [LT]`. If the new expiry is not in the future, deletes the key. With `LT`, changes the expiry only
/// if it becomes earlier.
pub(super) fn pexpire(call: &mut Call<'_>) -> Answer {
    let only_earlier = match call.words.get(3) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"lt") => true,
        Some(_) => return Err(Refusal::SYNTAX),
    };
    let (key, end) = (call.words[1], expiry(call.words[2], call.now)?);
    let old = call.entry(key).map(|entry| entry.end);
    let is_earlier = |old: Option<Millis>| old.is_none_or(|old| end < old);
    let allowed = old.is_some_and(|old| !only_earlier || is_earlier(old));
    if allowed {
        call.set_end(key, end);
    }
    Ok(Reply::Integer(i64::from(allowed)))
}

/// Returns the time `text` milliseconds from now.
pub(super) fn expiry(text: &[u8], now: Millis) -> Result<Millis, Refusal> {
    let end = now.checked_add(integer(text)?);
    end.ok_or(Refusal::EXPIRE_TIME)
}
