//! The scripts of fencing tokens: what they do, without Lua.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Arguments, NO_KEY, NO_NUMBER, barrier_left, insert, lua_number};
use crate::embedded::keyspace::{Database, Millis};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::embedded::strings::set_in;
use crate::resource::{COUNTER_PREFIX, NUMBER_MARK, WANTED_MARK};

/// Scripts use no larger number.
const MOST: f64 = 9e15;

/// The keys and arguments of the scripts. None is missing.
pub(super) struct Fenced<'a> {
    names: &'a [&'a [u8]],
    counters: &'a [&'a [u8]],
    floor: &'a [u8],
    /// The keys of the marker and the barrier, if that is checked.
    guard: Option<[&'a [u8]; 2]>,
    token: &'a [u8],
    ttl: &'a [u8],
    marker: &'a [u8],
    number: f64,
    number_text: &'a [u8],
    kept: &'a [u8],
    run_id: &'a [u8],
}

/// The floor of the node, if it is of this `run_id`.
struct Floor {
    base: f64,
    /// The same as it stands there.
    base_text: Vec<u8>,
    number: f64,
}

impl<'a> Fenced<'a> {
    fn of(arguments: &Arguments<'a>) -> Result<Self, Refusal> {
        let &[token, ttl, marker, number_text, kept, run_id, ..] = arguments.rest else {
            return Err(NO_KEY);
        };
        let (keys, guard) = match (marker, arguments.keys) {
            (b"", keys) => (keys, None),
            (_, [keys @ .., marker, barrier]) => (keys, Some([*marker, *barrier])),
            _ => return Err(NO_KEY),
        };
        let (floor, keys) = keys.split_last().ok_or(NO_KEY)?;
        let (names, counters) = keys.split_at(keys.len() / 2);
        Ok(Self {
            names,
            counters,
            floor,
            guard,
            token,
            ttl,
            marker,
            number: lua_number(number_text).ok_or(NO_NUMBER)?,
            number_text,
            kept,
            run_id,
        })
    }

    /// The same of a script that adds a member to a sorted set, or asks about one.
    pub(super) fn of_member(arguments: &Arguments<'a>) -> Result<Self, Refusal> {
        let (&[token, ttl, marker, number_text, kept, run_id, ..], &[_, _, floor, ..]) =
            (arguments.rest, arguments.keys)
        else {
            return Err(NO_KEY);
        };
        Ok(Self {
            names: &[],
            counters: &arguments.keys[1..2],
            floor,
            guard: None,
            token,
            ttl,
            marker,
            number: lua_number(number_text).ok_or(NO_NUMBER)?,
            number_text,
            kept,
            run_id,
        })
    }

    /// Raises the counter and the floor to the number of the arguments. Returns `false` if the floor cannot be used.
    pub(super) fn raise_member(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
    ) -> Result<bool, Refusal> {
        let floor = self.floor(database, now, arguments)?;
        if let Some(floor) = &floor {
            self.raise(floor, database, now, arguments, self.number)?;
        }
        Ok(floor.is_some())
    }

    fn floor(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
    ) -> Result<Option<Floor>, Refusal> {
        let text = arguments
            .read(database, now, self.floor)?
            .unwrap_or_default();
        let mut words = text.rsplitn(3, |byte| *byte == b':');
        let mut digits = || words.next().filter(|word| is_digits(word));
        let (last, base_text) = (digits(), digits());
        let is_own = words.next() == Some(self.run_id);
        let floor = last.zip(base_text).and_then(|(number, base)| {
            Some(Floor {
                base: lua_number(base)?,
                base_text: base.to_vec(),
                number: lua_number(number)?,
            })
        });
        Ok(floor.filter(|floor| is_own && floor.number.max(floor.base) <= MOST))
    }

    /// Returns the number of a counter. One that is no number, or too large, reads as the floor.
    fn counter(
        floor: &Floor,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        key: &[u8],
    ) -> Result<f64, Refusal> {
        let text = arguments.read(database, now, key)?;
        let number = text.and_then(lua_number);
        let number = number.filter(|number| (0.0..=MOST).contains(number));
        Ok(number.unwrap_or(floor.number).max(floor.base))
    }

    /// Raises all counters, and the floor, to `number` at least. Returns its text.
    fn raise(
        &self,
        floor: &Floor,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        number: f64,
    ) -> Result<Vec<u8>, Refusal> {
        let text = match number == self.number {
            true => self.number_text.to_vec(),
            false => format!("{number:.0}").into_bytes(),
        };
        if floor.number < number {
            let words = [self.run_id, &floor.base_text, &text];
            insert(database, self.floor, &words.join(&b':'), None);
        }
        for key in self.counters {
            if Self::counter(floor, database, now, arguments, key)? < number {
                set_in(database, now, key, &text, &[b"px", self.kept])?;
            }
        }
        Ok(text)
    }

    fn counts(
        &self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
    ) -> Option<i64> {
        let [marker, barrier] = self.guard?;
        let marker = arguments.read(database, now, marker);
        let same = matches!(marker, Ok(Some(text)) if text == self.marker);
        let barrier = arguments.left(database, now, barrier);
        Some(match same {
            true => barrier_left(barrier),
            false => -1,
        })
    }
}

/// The number that a member gets.
pub(super) struct Number<'a> {
    fenced: Fenced<'a>,
    /// The floor, if it has to be raised.
    floor: Option<Vec<u8>>,
    text: Vec<u8>,
    pub(super) number: i64,
}

impl<'a> Number<'a> {
    /// Returns the number to give, or the answer of a script that gives none.
    pub(super) fn choose(
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'a>,
    ) -> Result<Result<Self, Reply>, Refusal> {
        let fenced = Fenced::of_member(arguments)?;
        let Some(floor) = fenced.floor(database, now, arguments)? else {
            return Ok(Err(said([-1, 0, 0])));
        };
        let counter = Fenced::counter(&floor, database, now, arguments, fenced.counters[0])?;
        let number = fenced.number.min(latest(now)).max(counter + 1.0);
        if MOST < number {
            return Ok(Err(said([-1, 0, 1])));
        }
        let text = match number == fenced.number {
            true => fenced.number_text.to_vec(),
            false => format!("{number:.0}").into_bytes(),
        };
        let words = [fenced.run_id, &floor.base_text, &text];
        let floor = (floor.number < number).then(|| words.join(&b':'));
        let number = number as i64;
        Ok(Ok(Self {
            fenced,
            floor,
            text,
            number,
        }))
    }

    /// Writes the counter, and the floor.
    pub(super) fn write(&self, database: &mut Database<'_>, now: Millis) -> Result<(), Refusal> {
        if let Some(floor) = &self.floor {
            insert(database, self.fenced.floor, floor, None);
        }
        let (key, options) = (self.fenced.counters[0], [&b"px"[..], self.fenced.kept]);
        set_in(database, now, key, &self.text, &options).map(drop)
    }
}

/// The floor of this `run_id` begins with `number`.
fn set_floor(database: &mut Database<'_>, key: &[u8], run_id: &[u8], number: f64) {
    let run_id = String::from_utf8_lossy(run_id);
    let text = format!("{run_id}:{number:.0}:{number:.0}");
    insert(database, key, text.as_bytes(), None);
}

fn is_digits(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Returns the time in microseconds, and a second: what a proposal may be at most.
fn latest(now: Millis) -> f64 {
    (now as f64) * 1e3 + 1e6
}

fn said(integers: [i64; 3]) -> Reply {
    Reply::array(integers.map(Reply::Integer))
}

/// Does what [`TAKE_FENCED`](crate::node::TAKE_FENCED) does for a user who may do everything.
pub(super) fn take(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let fenced = Fenced::of(arguments)?;
    let Some(floor) = fenced.floor(database, now, arguments)? else {
        return Ok(said([-1, 0, 0]));
    };
    let counts = fenced.counts(database, now, arguments);
    for (number, key) in (2..).zip(fenced.names) {
        // One of another type is another's.
        if !matches!(arguments.read(database, now, key), Ok(None)) {
            return Ok(said([number, counts.unwrap_or(0), 0]));
        }
    }
    let mark = fenced.token.get(8..13);
    let is_wanted = mark == Some(&WANTED_MARK);
    let mut number = match is_wanted {
        true => fenced.number,
        false => fenced.number.min(latest(now)),
    };
    for key in fenced.counters {
        let counter = Fenced::counter(&floor, database, now, arguments, key)?;
        number = number.max(counter + 1.0);
    }
    if MOST < number {
        return Ok(said([-1, 0, 1]));
    }
    if number != fenced.number && (is_wanted || mark == Some(&NUMBER_MARK)) {
        return Ok(said([0, counts.unwrap_or(0), number as i64]));
    }
    let text = fenced.raise(&floor, database, now, arguments, number)?;
    for key in fenced.names {
        set_in(database, now, key, fenced.token, &[b"px", fenced.ttl])?;
    }
    Ok(match counts {
        None => Reply::bulk(&text),
        Some(counts) => said([1, counts, number as i64]),
    })
}

/// Does what [`RAISE_FENCED`](crate::node::RAISE_FENCED) does.
pub(super) fn raise(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let fenced = Fenced::of(arguments)?;
    let mut held = 1;
    for key in fenced.names {
        match arguments.read(database, now, key)? {
            None if held == 1 => held = 0,
            Some(value) if value != fenced.token => held = -1,
            None | Some(_) => {}
        }
    }
    let floor = fenced.floor(database, now, arguments)?;
    match floor {
        Some(floor) if held == 1 => {
            fenced.raise(&floor, database, now, arguments, fenced.number)?;
        }
        None if held == 1 => held = 0,
        None | Some(_) => {}
    }
    Ok(match fenced.counts(database, now, arguments) {
        None => Reply::Integer(held),
        Some(counts) => Reply::array([held, counts].map(Reply::Integer)),
    })
}

/// Does what [`SET_FLOOR`](crate::node::SET_FLOOR) does.
pub(super) fn floor(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let (&[key], &[run_id, seen, proposal]) = (arguments.keys, arguments.rest) else {
        return Err(NO_KEY);
    };
    let number = |word: &[u8]| lua_number(word).ok_or(NO_NUMBER);
    let text = arguments.read(database, now, key)?.unwrap_or_default();
    let old = Some(last_number(text)).filter(|old| *old <= MOST);
    let floor = old.unwrap_or(0.0).max(number(seen)?);
    let floor = floor.max(number(proposal)?.min(latest(now)));
    set_floor(database, key, run_id, floor);
    Ok(Reply::Integer(1))
}

/// Returns the words of a floor in repair: its `run_id`, the nonce, and its number.
fn in_repair(text: &[u8]) -> Option<[&[u8]; 3]> {
    let mut words = text.rsplitn(3, |byte| *byte == b':');
    let (number, nonce) = (words.next()?, words.next()?.strip_prefix(b"?")?);
    let run_id = words.next().filter(|run_id| !run_id.is_empty())?;
    (is_digits(number) && is_digits(nonce)).then_some([run_id, nonce, number])
}

/// Returns the number at the end of a floor. None: zero.
fn last_number(text: &[u8]) -> f64 {
    let place = text.iter().rposition(|byte| *byte == b':');
    let word = place.map_or(&b""[..], |place| &text[place + 1..]);
    let number = Some(word).filter(|word| is_digits(word));
    number.and_then(lua_number).unwrap_or(0.0)
}

/// Returns the base of a floor, or its nonce. None: zero.
fn number_before(text: &[u8]) -> f64 {
    let word = text.rsplitn(3, |byte| *byte == b':').nth(1);
    let word = word.map(|word| word.strip_prefix(b"?").unwrap_or(word));
    let number = word.filter(|word| is_digits(word));
    number.and_then(lua_number).unwrap_or(0.0)
}

/// Does what [`LOOK_AT_FLOOR`](crate::node::LOOK_AT_FLOOR) does.
pub(super) fn look_at_floor(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (&[key], &[run_id, nonce]) = (arguments.keys, arguments.rest) else {
        return Err(NO_KEY);
    };
    let text = arguments.read(database, now, key)?.unwrap_or_default();
    let number = last_number(text);
    let pair = |said, number: f64| Ok(Reply::array([said, number as i64].map(Reply::Integer)));
    if number.max(number_before(text)) <= MOST {
        let mut words = text.rsplitn(3, |byte| *byte == b':');
        let is_own = words.by_ref().take(2).all(is_digits) && words.next() == Some(run_id);
        if is_own {
            return pair(1, number);
        }
        if let Some([owner, before, _]) = in_repair(text)
            && owner == run_id
        {
            return pair(0, lua_number(before).ok_or(NO_NUMBER)?);
        }
    }
    let number = if number <= MOST { number } else { 0.0 };
    let [run_id, text] = [run_id, nonce].map(String::from_utf8_lossy);
    let text = format!("{run_id}:?{text}:{number:.0}");
    insert(database, key, text.as_bytes(), None);
    pair(0, lua_number(nonce).ok_or(NO_NUMBER)?)
}

/// Does what [`REPAIR_FLOOR`](crate::node::REPAIR_FLOOR) does.
pub(super) fn repair_floor(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (&[key], &[run_id, nonce, number]) = (arguments.keys, arguments.rest) else {
        return Err(NO_KEY);
    };
    let text = arguments.read(database, now, key)?.unwrap_or_default();
    let old = in_repair(text).filter(|[owner, before, _]| *owner == run_id && *before == nonce);
    let Some([_, _, old]) = old else {
        return Ok(Reply::Integer(0));
    };
    let floor = lua_number(old).ok_or(NO_NUMBER)?;
    let floor = floor.max(lua_number(number).ok_or(NO_NUMBER)?);
    set_floor(database, key, run_id, floor);
    Ok(Reply::Integer(1))
}

/// Does what [`COUNT_COUNTERS`](crate::node::COUNT_COUNTERS) does, at once for all keys from any cursor on.
pub(super) fn count_counters(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let cursor = arguments.token.ok_or(NO_KEY)?; // The first argument.
    if !is_digits(cursor) {
        return Err(Refusal::fixed("ERR invalid cursor"));
    }
    let [counters, zero] = [database.count(COUNTER_PREFIX, now), 0].map(Reply::Integer);
    Ok(Reply::array([counters, zero, Reply::bulk(b"0")]))
}
