//! The scripts of shared locks and permits: what they do, without Lua.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::fencing::{Fenced, Number};
use super::several::{answer, counts_if_checked};
use super::{Arguments, NO_KEY, NO_NUMBER, lua_number, set_in};
use crate::embedded::keyspace::{Database, Entry, Members, Millis, Value};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::limits::{HOLDERS_SHOWN_MAX, MEMBER_BYTES_MAX};
use crate::node::keeps_out;

/// Scripts use no later deadline.
const MOST: f64 = 9e15;

/// What the scripts read of a sorted set.
struct Set {
    members: Members,
    /// In the order of their deadlines.
    over: Vec<Vec<u8>>,
    live: Vec<Vec<u8>>,
    /// The last one.
    last: Option<(Vec<u8>, f64)>,
}

/// The kind of a member.
#[derive(Eq, PartialEq)]
enum Kind<'a> {
    Reader,
    /// A permit, and how many there are, as it stands there.
    Permit(&'a [u8]),
}

impl Set {
    /// Does what `zrange` does, once for each part.
    fn read(
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        key: &[u8],
    ) -> Result<Self, Refusal> {
        let members = arguments.members(database, now, key)?;
        let ordered = members.ordered();
        let last = ordered.last().map(|(member, at)| (member.to_vec(), *at));
        let (over, live): (Vec<_>, Vec<_>) =
            ordered.into_iter().partition(|(_, at)| *at < now as f64);
        let names = |part: Vec<(&[u8], f64)>| part.iter().map(|(name, _)| name.to_vec()).collect();
        Ok(Self {
            over: names(over),
            live: names(live),
            last,
            members,
        })
    }

    /// Returns `true` if the members that are over have our form.
    fn may_be_purged(&self) -> bool {
        self.over.iter().all(|member| kind_of(member).is_some())
    }

    /// Returns the last member that is live, and its deadline, if its form and deadline may be ours.
    fn last_live(&self, now: Millis) -> Option<Result<(Kind<'_>, f64), ()>> {
        let (member, at) = self.last.as_ref().filter(|(_, at)| now as f64 <= *at)?;
        let kind = kind_of(member).filter(|_| *at % 1.0 == 0.0 && *at <= MOST);
        Some(kind.map(|kind| (kind, *at)).ok_or(()))
    }

    /// Adds `member`, or raises its deadline, and removes what is over. Before that it writes the number.
    fn take(
        mut self,
        database: &mut Database<'_>,
        now: Millis,
        arguments: &Arguments<'_>,
        member: &[u8],
        number: Option<&Number<'_>>,
    ) -> Result<(), Refusal> {
        let key = arguments.key.ok_or(NO_KEY)?;
        let at = deadline(now, arguments.ttl)?;
        if let Some(number) = number {
            number.write(database, now)?;
        }
        let latest = self.last.take().map_or(0.0, |(_, latest)| latest);
        self.over.iter().for_each(|over| self.members.remove(over));
        self.members.raise(member, at);
        store(database, now, key, self.members, at.max(latest));
        Ok(())
    }
}

/// Puts these `members` there, until `end`.
fn store(database: &mut Database<'_>, now: Millis, key: &[u8], members: Members, end: f64) {
    let value = Value::Members(members);
    database.insert(key, Entry { value, end: None });
    database.set_end(key, now, end as Millis);
}

fn deadline(now: Millis, ttl: Option<&[u8]>) -> Result<f64, Refusal> {
    let ttl = ttl.and_then(lua_number).ok_or(NO_NUMBER)?;
    Ok((now as f64 + ttl).min(MOST))
}

/// Returns the kind of a member, if it has our form.
fn kind_of(member: &[u8]) -> Option<Kind<'_>> {
    if member.starts_with(b"r/") {
        return Some(Kind::Reader);
    }
    let (permits, slot, _) = numbers(member)?;
    let value = |digits: &[u8]| {
        let is_spelled_so = digits == b"0" || !digits.starts_with(b"0");
        lua_number(digits).filter(|_| is_spelled_so)
    };
    let (all, one) = (value(permits)?, value(slot)?);
    (one < all && all < 1025.0).then_some(Kind::Permit(permits))
}

/// Splits a member into two numbers and what is behind them.
fn numbers(member: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
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

/// Returns the arguments at these places.
fn words<'a, const N: usize>(
    arguments: &Arguments<'a>,
    places: [usize; N],
) -> Result<[&'a [u8]; N], Refusal> {
    let mut words = [&b""[..]; N];
    for (word, place) in words.iter_mut().zip(places) {
        *word = arguments.rest.get(place).ok_or(NO_KEY)?;
    }
    Ok(words)
}

/// Does what [`INSPECT`](crate::node::INSPECT) does for a sorted set: how long it lives, and its live members with what
/// is left of them. `None` if the key holds something else, or no live member.
pub(super) fn listed(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    key: &[u8],
) -> Option<(i64, Reply)> {
    let members = arguments.members(database, now, key).ok()?;
    let ordered = members.ordered();
    let left = |at: f64| (at - now as f64) as i64;
    let (_, last) = ordered.last().filter(|(_, at)| *at <= MOST)?;
    let live = ordered.iter().filter(|(_, at)| now as f64 <= *at);
    let listed = live.take(HOLDERS_SHOWN_MAX);
    let listed: Vec<_> = listed
        .flat_map(|(member, at)| {
            let shown = &member[..member.len().min(MEMBER_BYTES_MAX + 1)];
            [Reply::bulk(shown), Reply::Integer(left(*at))]
        })
        .collect();
    (!listed.is_empty()).then(|| (left(last + 1.0), Reply::array(listed)))
}

/// Returns `true` if the script was only asked for the permissions.
fn is_only_asked(arguments: &Arguments<'_>) -> bool {
    arguments.ttl == Some(b"")
}

/// Does what [`TAKE_SHARED`](crate::node::TAKE_SHARED) does for a user who may do everything.
pub(super) fn take_shared(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    if is_only_asked(arguments) {
        return Ok(Reply::Integer(0));
    }
    let said = add_reader(database, now, arguments, [1, 3], None)?;
    answer(database, now, arguments, said)
}

/// Does what [`TAKE_SHARED_FENCED`](crate::node::TAKE_SHARED_FENCED) does for a user who may do everything.
pub(super) fn take_shared_fenced(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    if is_only_asked(arguments) {
        return Ok(Reply::Integer(0));
    }
    let number = match Number::choose(database, now, arguments)? {
        Ok(number) => number,
        Err(none) => return Ok(none),
    };
    let said = add_reader(database, now, arguments, [3, 6], Some(&number))?;
    let counts = counts_if_checked(database, now, arguments)?.unwrap_or(0);
    let number = if said == 1 { number.number } else { 0 };
    Ok(Reply::array([said, counts, number].map(Reply::Integer)))
}

/// Returns when the wait began that left this intent, if it is a time.
fn began(text: &[u8]) -> Option<i64> {
    let is_time = text.len() < 17 && text.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(text).ok().filter(|_| is_time)?;
    text.parse().ok()
}

/// Does what [`LEAVE_INTENT`](crate::node::LEAVE_INTENT) does.
pub(super) fn leave_intent(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (key, [age, life]) = (arguments.key.ok_or(NO_KEY)?, words(arguments, [0, 1])?);
    let age = lua_number(age).ok_or(NO_NUMBER)? as i64;
    let there = arguments.read(database, now, key);
    let there = there.ok().flatten().and_then(began);
    let began = there.unwrap_or(i64::MAX).min(now - age);
    let text = alloc::format!("{began}");
    set_in(database, now, key, text.as_bytes(), &[b"px", life])?;
    Ok(Reply::Integer(1))
}

/// The key of the intent and the argument that passes over it stand at these places.
fn add_reader(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    [intent, passes]: [usize; 2],
    number: Option<&Number<'_>>,
) -> Result<i64, Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let [token, passes] = words(arguments, [0, passes])?;
    let member = [b"r/", token].concat();
    let mut said = 2;
    // One of another type is another's.
    let Ok(set) = Set::read(database, now, arguments, key) else {
        return Ok(said);
    };
    let is_ours = match set.last_live(now) {
        None => true,
        Some(last) => matches!(last, Ok((Kind::Reader, _))),
    };
    let mut joins = is_ours && set.may_be_purged();
    if joins && passes.is_empty() {
        let intent = arguments.keys.get(intent).ok_or(NO_KEY)?;
        let age = match arguments.read(database, now, intent) {
            Ok(None) => None,
            Ok(Some(text)) => Some(began(text).map_or(0, |began| now - began)),
            Err(_) => Some(0),
        };
        let lasts = age.map_or(0, |age| {
            keeps_out(age.max(0).unsigned_abs()) as i64 - age.min(0)
        });
        if lasts != 0 {
            let ends = arguments.left(database, now, intent);
            let ends = ends.filter(|ends| 0 <= *ends && *ends < lasts);
            joins = set.members.at(&member).is_some();
            said = 2 + ends.map_or(lasts, |ends| ends + 1);
            arguments.register(database, key);
        }
    }
    if joins {
        said = 1;
        set.take(database, now, arguments, &member, number)?;
    }
    Ok(said)
}

/// Does what [`TAKE_SLOT`](crate::node::TAKE_SLOT) does for a user who may do everything.
pub(super) fn take_slot(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    if is_only_asked(arguments) {
        return Ok(Reply::Integer(0));
    }
    let [said, more] = add_holder(database, now, arguments, [3, 4, 5], None)?;
    let counts = counts_if_checked(database, now, arguments)?.unwrap_or(0);
    Ok(Reply::array([said, counts, more].map(Reply::Integer)))
}

/// Does what [`TAKE_SLOT_FENCED`](crate::node::TAKE_SLOT_FENCED) does for a user who may do everything.
pub(super) fn take_slot_fenced(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    if is_only_asked(arguments) {
        return Ok(Reply::Integer(0));
    }
    let number = match Number::choose(database, now, arguments)? {
        Ok(number) => number,
        Err(none) => return Ok(none),
    };
    let [said, more] = add_holder(database, now, arguments, [6, 7, 8], Some(&number))?;
    let counts = counts_if_checked(database, now, arguments)?.unwrap_or(0);
    let number = if said == 1 { number.number } else { 0 };
    Ok(Reply::array(
        [said, counts, more, number].map(Reply::Integer),
    ))
}

/// The number of permits, the first slot to try, and how many are tried stand at these places.
fn add_holder(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    [all, start, tries]: [usize; 3],
    numbered: Option<&Number<'_>>,
) -> Result<[i64; 2], Refusal> {
    let key = arguments.key.ok_or(NO_KEY)?;
    let [token, permits, start, tries] = words(arguments, [0, all, start, tries])?;
    let number = |word| lua_number(word).map(|it| it as u64).ok_or(NO_NUMBER);
    let [all, start, tries] = [number(permits)?, number(start)?, number(tries)?];
    let another = [2, 0];
    let Ok(set) = Set::read(database, now, arguments, key) else {
        return Ok(another);
    };
    let others = match set.last_live(now) {
        _ if !set.may_be_purged() => return Ok(another),
        None => permits,
        Some(Ok((Kind::Permit(others), _))) => others,
        Some(Ok((Kind::Reader, _)) | Err(())) => return Ok(another),
    };
    if others != permits {
        return Ok([3, number(others)? as i64]);
    }
    let Some(slot) = set.slot(token, permits, [all, start, tries]) else {
        let first = set.live.first().and_then(|first| set.members.at(first));
        let left = first.unwrap_or_default() - now as f64;
        return Ok([2, (left + 1.0) as i64]);
    };
    let text = crate::resp::Decimal::new(slot);
    let member = [permits, text.as_bytes(), token].join(&b'/');
    set.take(database, now, arguments, &member, numbered)?;
    Ok([1, slot as i64])
}

/// Does what [`RAISE_MEMBER`](crate::node::RAISE_MEMBER) does.
pub(super) fn raise(database: &mut Database<'_>, now: Millis, arguments: &Arguments<'_>) -> Answer {
    let key = arguments.key.ok_or(NO_KEY)?;
    let [token, prefix] = words(arguments, [0, 6])?;
    let members = arguments.members(database, now, key)?;
    let at = members.at(&[prefix, token].concat());
    let is_live = at.is_some_and(|at| now as f64 <= at);
    let fenced = Fenced::of_member(arguments)?;
    let is_raised = is_live && fenced.raise_member(database, now, arguments)?;
    answer(database, now, arguments, i64::from(is_raised))
}

impl Set {
    /// Returns the slot that the token has already, or the first free one of so many from `start` on.
    fn slot(&self, token: &[u8], permits: &[u8], [all, start, tries]: [u64; 3]) -> Option<u64> {
        let mut taken = BTreeSet::new();
        for member in &self.live {
            let (slot, _) = digits(member.get(permits.len() + 1..).unwrap_or_default());
            let number = lua_number(slot).map(|number| number as u64);
            if *member == [permits, slot, token].join(&b'/') {
                return number;
            }
            taken.extend(number);
        }
        if all <= self.live.len() as u64 {
            return None;
        }
        let mut tried = (start..start.saturating_add(tries)).map(|slot| slot % all);
        tried.find(|slot| !taken.contains(slot))
    }
}

/// Does what [`MOVE_SLOT`](crate::node::MOVE_SLOT) does.
pub(super) fn move_slot(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (key, [token, prefix]) = (arguments.key.ok_or(NO_KEY)?, words(arguments, [0, 3])?);
    let mut set = Set::read(database, now, arguments, key)?;
    let wanted = [prefix, token].concat();
    let is_own = |member: &&Vec<u8>| numbers(member).is_some_and(|(.., of)| of == token);
    let own = set.live.iter().rfind(is_own).cloned();
    let is_taken = set.live.iter().any(|member| member.starts_with(prefix));
    let said = match own {
        None => 0,
        Some(own) if own == wanted => 1,
        Some(_) if is_taken => -1,
        Some(own) => {
            let at = set.members.at(&own).unwrap_or_default();
            let over = set.over.iter().filter(|member| member.starts_with(prefix));
            over.for_each(|over| set.members.remove(over));
            set.members.put(&wanted, at);
            set.members.remove(&own);
            let end = database.entry(key, now).and_then(|entry| entry.end);
            let value = Value::Members(set.members);
            database.insert(key, Entry { value, end });
            1
        }
    };
    answer(database, now, arguments, said)
}

/// If `key` holds the `token` alone, it becomes a set with this `member` and the same end.
fn turn(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
    key: &[u8],
    (token, member): (&[u8], &[u8]),
) {
    if database.text(key, now) == Ok(Some(token)) {
        let left = database.entry(key, now).map(|entry| entry.pttl(now));
        let at = match left.filter(|left| 0 <= *left) {
            Some(left) => (now as f64 + left as f64).min(MOST),
            None => MOST,
        };
        let mut members = Members::default();
        members.put(member, at);
        database.remove(key, now);
        store(database, now, key, members, at);
        arguments.register(database, key);
    }
}

/// Does what [`EXTEND_MEMBER`](crate::node::EXTEND_MEMBER) does.
pub(super) fn extend(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (key, [token, prefix]) = (arguments.key.ok_or(NO_KEY)?, words(arguments, [0, 3])?);
    let member = [prefix, token].concat();
    turn(database, now, arguments, key, (token, &member));
    let set = Set::read(database, now, arguments, key)?;
    let old = set.members.at(&member).filter(|at| now as f64 <= *at);
    let said = match (old, set.last_live(now)) {
        (None, _) => 0,
        (Some(_), None | Some(Err(()))) => -1,
        (Some(old), Some(Ok((_, latest)))) => {
            let at = deadline(now, arguments.ttl)?;
            let left = arguments.left(database, now, key).filter(|left| 0 <= *left);
            let ends_before = left.is_some_and(|left| now as f64 + (left as f64) < at);
            if old < at || ends_before {
                let mut members = set.members;
                members.raise(&member, at);
                store(database, now, key, members, at.max(latest));
                arguments.register(database, key);
            }
            1
        }
    };
    answer(database, now, arguments, said)
}

/// Does what [`CONFIRM_MEMBER`](crate::node::CONFIRM_MEMBER) does.
pub(super) fn confirm(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (key, [token, prefix]) = (arguments.key.ok_or(NO_KEY)?, words(arguments, [0, 3])?);
    let member = [prefix, token].concat();
    turn(database, now, arguments, key, (token, &member));
    let members = arguments.members(database, now, key)?;
    let at = members.at(&member);
    let left = at.map(|at| at - now as f64).filter(|left| 0.0 <= *left);
    let said = left.map_or(0, |left| {
        let of_key = arguments.left(database, now, key).filter(|left| 0 <= *left);
        let left = of_key.map_or(left, |of_key| left.min(of_key as f64));
        (left.min(MOST) + 1.0) as i64
    });
    answer(database, now, arguments, said)
}

/// Does what [`RELEASE_MEMBER`](crate::node::RELEASE_MEMBER) does.
pub(super) fn release(
    database: &mut Database<'_>,
    now: Millis,
    arguments: &Arguments<'_>,
) -> Answer {
    let (key, [token, prefix]) = (arguments.key.ok_or(NO_KEY)?, words(arguments, [0, 1])?);
    if database.text(key, now) == Ok(Some(token)) {
        database.remove(key, now);
        return Ok(Reply::Integer(1));
    }
    let mut set = Set::read(database, now, arguments, key)?;
    let exact = [prefix, token].concat();
    let is_own = |member: &&Vec<u8>| numbers(member).is_some_and(|(.., of)| of == token);
    let elsewhere = || match prefix {
        b"r/" => None,
        _ => set.over.iter().chain(&set.live).find(is_own).cloned(),
    };
    let own = set.members.at(&exact).map(|_| exact);
    if own.is_some() && words(arguments, [2]).is_ok() {
        return Ok(Reply::Integer(0)); // It is only to be removed from another slot.
    }
    let found = own.or_else(elsewhere);
    let Some((member, at)) = found.and_then(|member| {
        let at = set.members.at(&member)?;
        Some((member, at))
    }) else {
        return Ok(Reply::Integer(0));
    };
    set.members.remove(&member);
    let end = database.entry(key, now).and_then(|entry| entry.end);
    let value = Value::Members(set.members);
    database.insert(key, Entry { value, end });
    let set = Set::read(database, now, arguments, key)?;
    match set.last_live(now) {
        Some(Ok((_, latest))) => {
            database.set_end(key, now, latest.max(now as f64 + 1.0) as Millis);
        }
        None if set.may_be_purged() && !set.over.is_empty() => {
            database.remove(key, now);
        }
        None | Some(Err(())) => {}
    }
    Ok(Reply::Integer(i64::from(now as f64 <= at)))
}
