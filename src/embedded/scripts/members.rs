//! The scripts for shared locks and permits, implemented without Lua.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::embedded::call::Call;
use crate::embedded::keyspace::Members;
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::limits::{HOLDERS_SHOWN_MAX, MEMBER_BYTES_MAX};
use crate::node::keeps_out;

use super::fencing::Number;
use super::steps::{MOST, NO_NUMBER, lua_number, numbers};

/// A sorted set, as the scripts read it.
struct Set {
    members: Members,
    /// The number of expired members, which come first.
    over: usize,
}

/// The kind of a reader. The kind of a permit is the number of permits, as text.
const READER: &[u8] = b"r";

impl Set {
    /// Reads the set once, instead of at each `zrange` of the script.
    fn read(run: &mut Call<'_>, key: &[u8]) -> Result<Self, Refusal> {
        let (members, now) = (run.read_members(key)?, run.time());
        let over = members.0.partition_point(|(_, at)| *at < now);
        Ok(Self { members, over })
    }

    fn live(&self) -> &[(Vec<u8>, f64)] {
        &self.members.0[self.over..]
    }

    /// Returns `true` if all expired members have the form that this library writes.
    fn may_be_purged(&self) -> bool {
        let mut over = self.members.0[..self.over].iter();
        over.all(|(member, _)| kind_of(member).is_some())
    }

    /// Returns the kind and the deadline of the last live member, or an error if another program may have written it.
    fn last_live(&self) -> Option<Result<(&[u8], f64), ()>> {
        let (member, at) = self.live().last()?;
        let kind = kind_of(member).filter(|_| *at % 1.0 == 0.0 && *at <= MOST);
        Some(kind.map(|kind| (kind, *at)).ok_or(()))
    }

    /// Writes the number, adds `member` or raises its deadline, and removes expired members.
    fn take(
        mut self,
        run: &mut Call<'_>,
        member: &[u8],
        number: Option<&Number<'_>>,
    ) -> Result<(), Refusal> {
        let at = run.deadline()?;
        if let Some(number) = number {
            number.write(run)?;
        }
        let latest = self.members.0.last().map_or(0.0, |(_, latest)| *latest);
        self.members.0.drain(..self.over);
        self.members.raise(member, at);
        run.store(run.key(), self.members, at.max(latest));
        Ok(())
    }

    /// Returns the slot that the token already has. If the token has no slot, returns the first free slot of `tries`
    /// slots from `start` on.
    fn slot(&self, token: &[u8], [all, start, tries]: [u64; 3]) -> Option<u64> {
        let mut taken = BTreeSet::new();
        for (slot, of) in self.live().iter().filter_map(|(member, _)| slot_of(member)) {
            if of == token {
                return Some(slot);
            }
            taken.insert(slot);
        }
        if all <= self.live().len() as u64 {
            return None;
        }
        let mut tried = (start..start.saturating_add(tries)).map(|slot| slot % all);
        tried.find(|slot| !taken.contains(slot))
    }
}

impl<'a> Call<'a> {
    /// Returns the time in milliseconds as a double, like Lua.
    fn time(&self) -> f64 {
        self.now as f64
    }

    fn deadline(&self) -> Result<f64, Refusal> {
        Ok((self.time() + self.number(1)?).min(MOST))
    }

    /// Writes these `members` to `key`, with the expiry `end`.
    fn store(&mut self, key: &[u8], members: Members, end: f64) {
        self.insert_members(key, members);
        self.set_end(key, end as i64);
    }

    /// Returns the member of the token, whose prefix is the fourth argument. If the value of the key is the token
    /// itself, turns the value into a set with this member and the same expiry.
    fn turned(&mut self) -> Vec<u8> {
        let (key, token) = (self.key(), self.words[0]);
        let member = [self.words[3], token].concat();
        if self.text(key) == Ok(Some(token)) {
            let left = self.left(key).filter(|left| 0 <= *left);
            let at = left.map_or(MOST, |left| (self.time() + left as f64).min(MOST));
            let mut members = Members::default();
            members.put(&member, at);
            self.remove(key);
            self.store(key, members, at);
            self.register(key);
        }
        member
    }
}

/// Returns the kind of a member, if it has the form that this library writes.
fn kind_of(member: &[u8]) -> Option<&[u8]> {
    if member.starts_with(b"r/") {
        return Some(READER);
    }
    let (permits, slot, _) = numbers_of(member)?;
    let value = |digits: &[u8]| {
        let is_spelled_so = digits == b"0" || !digits.starts_with(b"0");
        lua_number(digits).filter(|_| is_spelled_so)
    };
    let (all, one) = (value(permits)?, value(slot)?);
    (one < all && all < 1025.0).then_some(permits)
}

/// Splits a member into two numbers and the rest.
fn numbers_of(member: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (first, rest) = digits(member);
    let (second, rest) = digits(rest.strip_prefix(b"/")?);
    let rest = rest.strip_prefix(b"/")?;
    (!first.is_empty() && !second.is_empty()).then_some((first, second, rest))
}

/// Returns the digits at the front, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the slot and the token of a permit.
fn slot_of(member: &[u8]) -> Option<(u64, &[u8])> {
    let (_, slot, token) = numbers_of(member)?;
    Some((lua_number(slot)? as u64, token))
}

/// Returns `true` if the member is a permit with this token, in any slot.
fn is_permit_of(member: &[u8], token: &[u8]) -> bool {
    slot_of(member).is_some_and(|(_, of)| of == token)
}

/// Implements the script [`INSPECT`](crate::node::INSPECT) for a sorted set: returns the remaining time of the key, and
/// its live members, each with its remaining time. Returns `None` if the key has another value, or no live member.
pub(super) fn listed(run: &mut Call<'_>, key: &[u8]) -> Option<(i64, Reply)> {
    let set = Set::read(run, key).ok()?;
    let left = |at: f64| (at - run.time()) as i64;
    let (_, last) = set.live().last().filter(|(_, at)| *at <= MOST)?;
    let listed = set.live().iter().take(HOLDERS_SHOWN_MAX);
    let listed = listed.flat_map(|(member, at)| {
        let shown = &member[..member.len().min(MEMBER_BYTES_MAX + 1)];
        [Reply::bulk(shown), Reply::Integer(left(*at))]
    });
    Some((left(last + 1.0), Reply::array(listed)))
}

/// Implements the script [`TAKE_SHARED`](crate::node::TAKE_SHARED).
pub(super) fn take_shared(run: &mut Call<'_>) -> Answer {
    let said = add_reader(run, [1, 3], None)?;
    run.answer(said)
}

/// Implements the script [`TAKE_SHARED_FENCED`](crate::node::TAKE_SHARED_FENCED).
pub(super) fn take_shared_fenced(run: &mut Call<'_>) -> Answer {
    let number = match Number::choose(run)? {
        Ok(number) => number,
        Err(none) => return none,
    };
    let said = add_reader(run, [3, 6], Some(&number))?;
    let counts = run.counts_if_checked()?.unwrap_or(0);
    numbers([said, counts, number.given(said)])
}

/// Returns the time at which the writer of the intent `text` began to wait, or `None` if the text is not a time.
fn began(text: &[u8]) -> Option<i64> {
    let is_time = text.len() < 17 && text.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(text).ok().filter(|_| is_time)?;
    text.parse().ok()
}

/// Implements the script [`LEAVE_INTENT`](crate::node::LEAVE_INTENT).
pub(super) fn leave_intent(run: &mut Call<'_>) -> Answer {
    let (key, age, life) = (run.key(), run.number(0)?, run.words[1]);
    let there = run.get(key).ok().flatten().and_then(began);
    let began = run.now.saturating_sub(age as i64);
    let began = began.min(there.unwrap_or(i64::MAX));
    let text = alloc::format!("{began}");
    run.set(key, text.as_bytes(), &[b"px", life])?;
    Ok(Reply::Integer(1))
}

/// Adds a reader. `intent` is the index of the key with the intent of a waiting writer. `passes` is the index of the
/// argument that lets the reader overtake this writer.
fn add_reader(
    run: &mut Call<'_>,
    [intent, passes]: [usize; 2],
    number: Option<&Number<'_>>,
) -> Result<i64, Refusal> {
    let (key, token, passes) = (run.key(), run.words[0], run.words[passes]);
    let member = [b"r/", token].concat();
    let mut said = 2;
    // A key of another type belongs to another program, so the script does not touch it.
    let Ok(set) = Set::read(run, key) else {
        return Ok(said);
    };
    let is_ours = match set.last_live() {
        None => true,
        Some(last) => matches!(last, Ok((READER, _))),
    };
    let mut joins = is_ours && set.may_be_purged();
    if joins && passes.is_empty() {
        let intent = run.keys[intent];
        let now = run.now;
        let age = match run.get(intent) {
            Ok(None) => None,
            Ok(Some(text)) => Some(began(text).map_or(0, |began| now - began)),
            Err(_) => Some(0),
        };
        let lasts = age.map_or(0, |age| {
            keeps_out(age.max(0).unsigned_abs()) as i64 - age.min(0)
        });
        if lasts != 0 {
            let ends = run.pttl(intent);
            let ends = ends.filter(|ends| 0 <= *ends && *ends < lasts);
            joins = set.members.at(&member).is_some();
            said = 2 + ends.map_or(lasts, |ends| ends + 1);
            run.register(key);
        }
    }
    if joins {
        said = 1;
        set.take(run, &member, number)?;
    }
    Ok(said)
}

/// Implements the script [`TAKE_SLOT`](crate::node::TAKE_SLOT).
pub(super) fn take_slot(run: &mut Call<'_>) -> Answer {
    let [said, more] = add_holder(run, 3, None)?;
    let counts = run.counts_if_checked()?.unwrap_or(0);
    numbers([said, counts, more])
}

/// Implements the script [`TAKE_SLOT_FENCED`](crate::node::TAKE_SLOT_FENCED).
pub(super) fn take_slot_fenced(run: &mut Call<'_>) -> Answer {
    let number = match Number::choose(run)? {
        Ok(number) => number,
        Err(none) => return none,
    };
    let [said, more] = add_holder(run, 6, Some(&number))?;
    let counts = run.counts_if_checked()?.unwrap_or(0);
    numbers([said, counts, more, number.given(said)])
}

/// Adds the holder of a permit. From the index `place` on, the arguments are the number of permits, the first slot to
/// try, and the number of slots to try.
fn add_holder(
    run: &mut Call<'_>,
    place: usize,
    numbered: Option<&Number<'_>>,
) -> Result<[i64; 2], Refusal> {
    let (key, token, permits) = (run.key(), run.words[0], run.words[place]);
    let number = |place: usize| run.number(place).map(|number| number as u64);
    let [all, start, tries] = [number(place)?, number(place + 1)?, number(place + 2)?];
    let another = [2, 0];
    let Ok(set) = Set::read(run, key) else {
        return Ok(another);
    };
    let others = match set.last_live() {
        _ if !set.may_be_purged() => return Ok(another),
        None => permits,
        Some(Ok((READER, _)) | Err(())) => return Ok(another),
        Some(Ok((others, _))) => others,
    };
    if others != permits {
        let others = lua_number(others).ok_or(NO_NUMBER)?;
        return Ok([3, others as i64]);
    }
    let Some(slot) = set.slot(token, [all, start, tries]) else {
        let first = set.live().first().map_or(0.0, |(_, at)| *at);
        return Ok([2, (first - run.time() + 1.0) as i64]);
    };
    let text = crate::resp::Decimal::new(slot);
    let member = [permits, text.as_bytes(), token].join(&b'/');
    set.take(run, &member, numbered)?;
    Ok([1, slot as i64])
}

/// Implements the script [`RAISE_MEMBER`](crate::node::RAISE_MEMBER).
pub(super) fn raise(run: &mut Call<'_>) -> Answer {
    let member = [run.words[6], run.words[0]].concat();
    let at = run.read_members(run.key())?.at(&member);
    let is_live = at.is_some_and(|at| run.time() <= at);
    let floor = match is_live {
        true => run.floor(run.keys[2])?,
        false => None,
    };
    if let Some(floor) = &floor {
        run.raise_to(run.number(3)?, floor, &[run.keys[1]])?;
    }
    run.answer(i64::from(floor.is_some()))
}

/// Implements the script [`MOVE_SLOT`](crate::node::MOVE_SLOT).
pub(super) fn move_slot(run: &mut Call<'_>) -> Answer {
    let (key, token, prefix) = (run.key(), run.words[0], run.words[3]);
    let wanted = [prefix, token].concat();
    let mut set = Set::read(run, key)?;
    let mut live = set.live().iter();
    let is_taken = live.any(|(member, _)| member.starts_with(prefix));
    let mut live = set.live().iter();
    let own = live.rfind(|(member, _)| is_permit_of(member, token));
    let said = match own.cloned() {
        None => 0,
        Some((own, _)) if own == wanted => 1,
        Some(_) if is_taken => -1,
        Some((own, at)) => {
            // All of these members have expired.
            let others = |(member, _): &(Vec<u8>, f64)| !member.starts_with(prefix);
            set.members.0.retain(others);
            set.members.put(&wanted, at);
            set.members.remove(&own);
            run.insert_members(key, set.members);
            1
        }
    };
    run.answer(said)
}

/// Implements the script [`EXTEND_MEMBER`](crate::node::EXTEND_MEMBER).
pub(super) fn extend(run: &mut Call<'_>) -> Answer {
    let (key, member) = (run.key(), run.turned());
    let set = Set::read(run, key)?;
    let now = run.time();
    let old = set.members.at(&member).filter(|at| now <= *at);
    let said = match (old, set.last_live()) {
        (None, _) => 0,
        (Some(_), None | Some(Err(()))) => -1,
        (Some(old), Some(Ok((_, latest)))) => {
            let at = run.deadline()?;
            let left = run.pttl(key).filter(|left| 0 <= *left);
            let ends_before = left.is_some_and(|left| now + (left as f64) < at);
            if old < at || ends_before {
                let mut members = set.members;
                members.raise(&member, at);
                run.store(key, members, at.max(latest));
                run.register(key);
            }
            1
        }
    };
    run.answer(said)
}

/// Implements the script [`CONFIRM_MEMBER`](crate::node::CONFIRM_MEMBER).
pub(super) fn confirm(run: &mut Call<'_>) -> Answer {
    let (key, member) = (run.key(), run.turned());
    let at = run.read_members(key)?.at(&member);
    let left = at.map(|at| at - run.time()).filter(|left| 0.0 <= *left);
    let said = left.map_or(0, |left| {
        let of_key = run.pttl(key).filter(|left| 0 <= *left);
        let left = of_key.map_or(left, |of_key| left.min(of_key as f64));
        (left.min(MOST) + 1.0) as i64
    });
    run.answer(said)
}

/// Implements the script [`RELEASE_MEMBER`](crate::node::RELEASE_MEMBER).
pub(super) fn release(run: &mut Call<'_>) -> Answer {
    let (key, token, prefix) = (run.key(), run.words[0], run.words[1]);
    let exact = [prefix, token].concat();
    if run.text(key) == Ok(Some(token)) {
        run.remove(key);
        return Ok(Reply::Integer(1));
    }
    let mut members = run.read_members(key)?;
    let is_there = members.at(&exact).is_some();
    if is_there && run.words.get(2).is_some() {
        return Ok(Reply::Integer(0)); // Such a release removes only members of other slots.
    }
    let is_own = |member: &[u8]| match is_there || prefix == b"r/" {
        true => member == exact,
        false => is_permit_of(member, token),
    };
    let Some(place) = members.0.iter().position(|(member, _)| is_own(member)) else {
        return Ok(Reply::Integer(0));
    };
    let (_, at) = members.0.remove(place);
    run.insert_members(key, members);
    let set = Set::read(run, key)?;
    match set.last_live() {
        Some(Ok((_, latest))) => {
            let end = latest.max(run.time() + 1.0);
            run.set_end(key, end as i64);
        }
        None if set.may_be_purged() && set.over != 0 => {
            run.remove(key);
        }
        None | Some(Err(())) => {}
    }
    Ok(Reply::Integer(i64::from(run.time() <= at)))
}
