//! The scripts for fencing tokens, implemented without Lua.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::embedded::call::{Call, Words};
use crate::embedded::keyspace::{Millis, Value};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::limits::{STRING_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::resource::{COUNTER_PREFIX, NUMBER_MARK, WANTED_MARK, check_resource};
use crate::resp::Decimal;

use super::steps::{MOST, NO_NUMBER, TOO_FEW, is_digits, lua_number, numbers};

/// The counter floor of the node.
pub(super) struct Floor<'a> {
    key: &'a [u8],
    base: f64,
    number: f64,
}

/// The parts of a counter floor as text: `run_id:base:number`, or `run_id:?nonce:number` while the floor is being
/// repaired.
struct Parts<'a> {
    run_id: &'a [u8],
    is_in_repair: bool,
    /// The text of the base or of the nonce.
    before: &'a [u8],
    /// The text of the number.
    last: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let mut words = text.rsplitn(3, |byte| *byte == b':');
        let (last, before) = (words.next()?, words.next()?);
        let run_id = words.next().filter(|run_id| !run_id.is_empty())?;
        let nonce = before.strip_prefix(b"?");
        let parts = Self {
            run_id,
            is_in_repair: nonce.is_some(),
            before: nonce.unwrap_or(before),
            last,
        };
        (is_digits(parts.before) && is_digits(last)).then_some(parts)
    }

    /// Returns the base or the nonce, and the number, or `None` if one of them is too large.
    fn numbers(&self) -> Option<[f64; 2]> {
        let numbers = [lua_number(self.before)?, lua_number(self.last)?];
        Some(numbers).filter(|[before, last]| before.max(*last) <= MOST)
    }
}

/// Steps of the scripts whose fourth to sixth arguments are a number, the ttl of counters and the `run_id`.
impl<'a> Call<'a> {
    /// Returns the counter floor, if it belongs to this `run_id`.
    pub(super) fn floor(&mut self, key: &'a [u8]) -> Result<Option<Floor<'a>>, Refusal> {
        let run_id = self.words[5];
        let parts = Parts::read(self.get(key)?.unwrap_or_default());
        let own = parts.filter(|parts| parts.run_id == run_id && !parts.is_in_repair);
        Ok(own.and_then(|parts| {
            let [base, number] = parts.numbers()?;
            Some(Floor { key, base, number })
        }))
    }

    /// Returns the number in a counter. If the counter is missing, too large or not a number, returns the floor.
    fn counter(&mut self, floor: &Floor<'_>, key: &[u8]) -> Result<f64, Refusal> {
        let number = self.get(key)?.and_then(lua_number);
        let number = number.filter(|number| (0.0..=MOST).contains(number));
        Ok(number.unwrap_or(floor.number).max(floor.base))
    }

    /// Returns the number in the arguments, but at most `most`. If any counter is not below that number, returns the
    /// number after the highest counter.
    fn next_number(
        &mut self,
        floor: &Floor<'_>,
        counters: &[&[u8]],
        most: f64,
    ) -> Result<f64, Refusal> {
        let mut number = self.number(3)?.min(most);
        for key in counters {
            let counter = self.counter(floor, key)?;
            if number <= counter {
                number = counter + 1.0;
            }
        }
        Ok(number)
    }

    /// Raises all counters, and the counter floor, to at least `number`.
    pub(super) fn raise_to(
        &mut self,
        number: f64,
        floor: &Floor<'_>,
        counters: &[&[u8]],
    ) -> Result<(), Refusal> {
        if floor.number < number {
            self.write_floor(floor.key, self.words[5], [floor.base, number]);
        }
        let text = format!("{number:.0}");
        for key in counters {
            if self.counter(floor, key)? < number {
                self.set(key, text.as_bytes(), &[b"px", self.words[4]])?;
            }
        }
        Ok(())
    }

    fn write_floor(&mut self, key: &[u8], run_id: &[u8], [base, number]: [f64; 2]) {
        let run_id = String::from_utf8_lossy(run_id);
        let text = format!("{run_id}:{base:.0}:{number:.0}");
        self.insert(key, text.as_bytes(), None);
    }

    /// Returns the names, their counters, and the key of the counter floor.
    fn counted(&self) -> Result<(Words<'a>, Words<'a>, &'a [u8]), Refusal> {
        let (floor, keys) = self.names().split_last().ok_or(TOO_FEW)?;
        let (names, counters) = keys.split_at(keys.len() / 2);
        Ok((names, counters, floor))
    }
}

/// The fencing token that a member gets. The keys of the counter and of the counter floor follow the key of the member.
pub(super) struct Number<'a> {
    floor: Floor<'a>,
    counter: &'a [u8],
    number: f64,
}

impl<'a> Number<'a> {
    /// Returns the number that the script assigns, or the answer of the script if it cannot assign a number.
    pub(super) fn choose(run: &mut Call<'a>) -> Result<Result<Self, Answer>, Refusal> {
        let counter = run.keys[1];
        let Some(floor) = run.floor(run.keys[2])? else {
            return Ok(Err(numbers([-1, 0, 0])));
        };
        let most = latest(run.now);
        let number = run.next_number(&floor, &[counter], most)?;
        if MOST < number {
            return Ok(Err(numbers([-1, 0, 1])));
        }
        Ok(Ok(Self {
            floor,
            counter,
            number,
        }))
    }

    /// Writes the counter and the counter floor.
    pub(super) fn write(&self, run: &mut Call<'_>) -> Result<(), Refusal> {
        run.raise_to(self.number, &self.floor, &[self.counter])
    }

    /// Returns the fencing token if the answer `said` grants the lock, and otherwise zero.
    pub(super) fn given(&self, said: i64) -> i64 {
        if said == 1 { self.number as i64 } else { 0 }
    }
}

/// Returns the largest number that a client may propose: the time in microseconds, plus a second.
fn latest(now: Millis) -> f64 {
    (now as f64) * 1e3 + 1e6
}

/// Implements the script [`TAKE_FENCED`](crate::node::TAKE_FENCED).
pub(super) fn take(run: &mut Call<'_>) -> Answer {
    let (names, counters, floor) = run.counted()?;
    let Some(floor) = run.floor(floor)? else {
        return numbers([-1, 0, 0]);
    };
    let counts = run.counts_if_checked()?;
    for (number, key) in (2..).zip(names) {
        // A key of another type belongs to another program, so the script does not touch it.
        if run.get(key) != Ok(None) {
            return numbers([number, counts.unwrap_or(0), 0]);
        }
    }
    let (token, ttl) = (run.words[0], run.words[1]);
    let mark = token.get(8..13);
    let is_wanted = mark == Some(&WANTED_MARK);
    let most = match is_wanted {
        true => f64::INFINITY,
        false => latest(run.now),
    };
    let number = run.next_number(&floor, counters, most)?;
    if MOST < number {
        return numbers([-1, 0, 1]);
    }
    if number != run.number(3)? && (is_wanted || mark == Some(&NUMBER_MARK)) {
        return numbers([0, counts.unwrap_or(0), number as i64]);
    }
    run.raise_to(number, &floor, counters)?;
    for key in names {
        run.set(key, token, &[b"px", ttl])?;
    }
    match counts {
        None => Ok(Reply::bulk(format!("{number:.0}").as_bytes())),
        Some(counts) => numbers([1, counts, number as i64]),
    }
}

/// Implements the script [`RAISE_FENCED`](crate::node::RAISE_FENCED).
pub(super) fn raise(run: &mut Call<'_>) -> Answer {
    let (names, counters, floor) = run.counted()?;
    let mut held = run.all_hold(names, run.words[0])?;
    match run.floor(floor)? {
        Some(floor) if held == 1 => {
            run.raise_to(run.number(3)?, &floor, counters)?;
        }
        None if held == 1 => held = 0,
        None | Some(_) => {}
    }
    run.answer(held)
}

/// Implements the script [`SET_FLOOR`](crate::node::SET_FLOOR).
pub(super) fn floor(run: &mut Call<'_>) -> Answer {
    let old = last_number(run.get(run.key())?.unwrap_or_default());
    let floor = old.max(run.number(1)?);
    let floor = floor.max(run.number(2)?.min(latest(run.now)));
    run.write_floor(run.key(), run.words[0], [floor; 2]);
    Ok(Reply::Integer(1))
}

/// Returns the number at the end of a counter floor, or zero if the number is missing or too large.
fn last_number(text: &[u8]) -> f64 {
    let place = text.iter().rposition(|byte| *byte == b':');
    let word = place.map(|place| &text[place + 1..]);
    let number = word.filter(|word| is_digits(word)).and_then(lua_number);
    number.filter(|number| *number <= MOST).unwrap_or(0.0)
}

/// Implements the script [`LOOK_AT_FLOOR`](crate::node::LOOK_AT_FLOOR).
pub(super) fn look_at_floor(run: &mut Call<'_>) -> Answer {
    let (key, run_id, nonce) = (run.key(), run.words[0], run.words[1]);
    let text = run.get(key)?.unwrap_or_default();
    let own = Parts::read(text).filter(|parts| parts.run_id == run_id);
    if let Some(parts) = own
        && let Some([before, number]) = parts.numbers()
    {
        return match parts.is_in_repair {
            true => numbers([0, before as i64]),
            false => numbers([1, number as i64]),
        };
    }
    let number = last_number(text);
    let [run_id, text] = [run_id, nonce].map(String::from_utf8_lossy);
    let text = format!("{run_id}:?{text}:{number:.0}");
    run.insert(key, text.as_bytes(), None);
    numbers([0, run.number(1)? as i64])
}

/// Implements the script [`REPAIR_FLOOR`](crate::node::REPAIR_FLOOR).
pub(super) fn repair_floor(run: &mut Call<'_>) -> Answer {
    let (run_id, nonce) = (run.words[0], run.words[1]);
    let text = run.get(run.key())?.unwrap_or_default();
    let own = Parts::read(text)
        .filter(|parts| parts.is_in_repair && [parts.run_id, parts.before] == [run_id, nonce]);
    let Some(parts) = own else {
        return Ok(Reply::Integer(0));
    };
    let floor = lua_number(parts.last).ok_or(NO_NUMBER)?;
    let floor = floor.max(run.number(2)?);
    run.write_floor(run.key(), run_id, [floor; 2]);
    Ok(Reply::Integer(1))
}

/// Implements the script [`COUNT_COUNTERS`](crate::node::COUNT_COUNTERS), but counts all keys in one step, and ignores
/// the cursor.
pub(super) fn count_counters(run: &mut Call<'_>) -> Answer {
    if !is_digits(run.words[0]) {
        return Err(Refusal::fixed("ERR invalid cursor"));
    }
    let counters = run.beginning(COUNTER_PREFIX).count() as i64;
    let [counters, zero] = [counters, 0].map(Reply::Integer);
    Ok(Reply::array([counters, zero, Reply::bulk(b"0")]))
}

/// The number of names in one answer. More names of the maximum length might not fit into a reply.
const NAMES_AT_ONCE: usize = 50;

/// Implements the script [`LIST_NAMES`](crate::node::LIST_NAMES). The cursor is the hash of the next key, because the
/// order of hashes does not change when other keys are added or removed.
pub(super) fn list_names(run: &mut Call<'_>) -> Answer {
    let from = run.words[0];
    let from = core::str::from_utf8(from).ok().filter(|_| is_digits(from));
    let from: Option<u64> = from.and_then(|from| from.parse().ok());
    let from = from.ok_or(Refusal::fixed("ERR invalid cursor"))?;
    let is_lock = |key: &[u8], value: &Value| match value {
        _ if check_resource(key, None).is_err() => false,
        Value::Text(text) => (1..=TOKEN_BYTES_MAX).contains(&text.len()),
        Value::Members(_) => true,
    };
    let locks = run.beginning(run.words[1]);
    let locks = locks.filter(|(key, value)| is_lock(key, value));
    let mut locks: Vec<_> = locks.map(|(key, _)| (hash(key), key)).collect();
    locks.retain(|(hash, _)| from <= *hash);
    locks.sort_unstable();
    let next = locks.get(NAMES_AT_ONCE).map_or(0, |(hash, _)| *hash);
    locks.truncate(NAMES_AT_ONCE);
    let pieces = locks.iter().flat_map(|(_, key)| {
        let begins = (0..=key.len()).step_by(STRING_BYTES_MAX);
        begins.map(|at| Reply::bulk(&key[at..key.len().min(at + STRING_BYTES_MAX)]))
    });
    let (pieces, next) = (Reply::array(pieces), Decimal::new(next));
    Ok(Reply::array([
        Reply::Integer(0),
        pieces,
        Reply::bulk(next.as_bytes()),
    ]))
}

/// Returns the FNV-1a hash of `key`, which is never 0.
fn hash(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u64::max(hash, 1)
}
