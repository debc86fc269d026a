//! The meaning of a node's reply to each kind of command.
//!
//! Each command has its own form of answer: a word, a number, or a list. The function [`read`] knows all these forms
//! and turns them into one type. The module [`refusal`](super::refusal) handles errors, and `abilities` handles their
//! consequences.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{NodeOutcome, ServerError, Unusable};
use crate::limits::{FENCING_TOKEN_MAX, STRING_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::quorum::Vote;
use crate::resp::Value;

use super::abilities::{
    forbidden_to_extend, forbidden_to_fence, forbidden_to_join, forbidden_to_lock,
};
use super::members::{Member, members_in};
use super::request::{Dialect, Question, Request, Taking};

/// A node's reply to a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// The node has done everything that the command asked for.
    Done,
    /// The node has taken the keys with this fencing token, or the counter floor is this number.
    Number(u64),
    /// Nothing was done, because the node would assign this number, but the token contains another one.
    Renumbered(u64),
    /// The permit has the given slot.
    Slot(u16),
    /// The permit has the given slot and number.
    NumberedSlot { slot: u16, number: u64 },
    /// The key contains the token, and expires after the given time. If the command replaces the token, the key may
    /// contain the new one.
    Kept(Duration),
    /// The given number of the scanned keys are counters. The scan continues at `cursor`. A cursor of zero means that
    /// the scan is complete.
    Scanned { counters: u32, cursor: u64 },
    /// The counter floor is being repaired, under the given nonce.
    InRepair(u64),
    /// The key does not exist.
    Missing,
    /// The key belongs to another client, or has another type. For several keys, the value is the index of the key.
    Foreign(u8),
    /// A caller waits for the exclusive lock, and its intent blocks readers for the given time.
    Intent(Duration),
    /// All slots are taken, or the one slot that the command asks for is taken. The next slot becomes free after the
    /// given time.
    Full(Duration),
    /// The resource has the given number of permits, not the requested number.
    OtherPermits(u16),
    /// Nothing was done. The next request will have another form, which the node may accept.
    Again(NodeOutcome),
    /// Nothing was done yet. First, the engine must find out how the node can release the lock.
    Later,
    /// Nothing was done, for the given reason.
    NotDone(NodeOutcome),
    /// The node has refused the command, but may have done part of it.
    Unsure(NodeOutcome),
    /// A script stopped at a command that the user may not run. The earlier commands of the script may have run.
    Stopped,
}

/// A reply, and the command that it answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) request: Request,
    pub(crate) reply: Reply,
}

impl Reply {
    /// Returns the vote, and the outcome for the report.
    #[inline]
    pub(crate) fn vote(self) -> (Vote, NodeOutcome) {
        match self {
            Self::Done
            | Self::Kept(_)
            | Self::Number(_)
            | Self::Slot(_)
            | Self::NumberedSlot { .. }
            | Self::Scanned { .. } => (Vote::Yes, NodeOutcome::Granted),
            Self::Missing => (Vote::No, NodeOutcome::Missing),
            Self::Foreign(_) | Self::Intent(_) | Self::Full(_) => (Vote::No, NodeOutcome::Held),
            Self::OtherPermits(permits) => (Vote::No, NodeOutcome::OtherPermits(permits)),
            Self::Again(why) | Self::NotDone(why) | Self::Unsure(why) => (Vote::Abstain, why),
            Self::Later | Self::InRepair(_) | Self::Renumbered(_) => {
                (Vote::Abstain, NodeOutcome::Pending)
            }
            Self::Stopped => {
                let error = ServerError::from_line(b"ERR");
                (Vote::Abstain, NodeOutcome::Refused(error))
            }
        }
    }

    /// Returns the error with which the server has refused the command.
    pub(crate) const fn error(self) -> Option<ServerError> {
        if let Self::NotDone(NodeOutcome::Refused(error))
        | Self::Unsure(NodeOutcome::Refused(error)) = self
        {
            return Some(error);
        }
        None
    }

    /// Returns the missing permission or command, if this is the reason why nothing was done.
    pub(super) const fn missing(self) -> Option<Unusable> {
        if let Self::NotDone(NodeOutcome::Unusable(missing)) = self {
            return Some(missing);
        }
        None
    }

    pub(super) const fn lacks(missing: Unusable) -> Self {
        Self::NotDone(NodeOutcome::Unusable(missing))
    }
}

/// A reply, with the result of the marker check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) reply: Reply,
    /// The result of the marker check, if the script checks a marker: see [`script`](super::script).
    pub(super) marker: Option<i64>,
}

impl From<Reply> for Read {
    fn from(reply: Reply) -> Self {
        let marker = None;
        Self { reply, marker }
    }
}

/// Returns `true` if `value` is the usual answer for success, on a node without a marker.
#[inline(always)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all else is read out of line"
)]
pub(super) const fn is_plain_yes(request: Request, value: Value<'_>) -> bool {
    match request {
        Request::Take {
            by: Taking::Set, ..
        } => matches!(value, Value::Simple(b"OK")),
        Request::Release { .. }
        | Request::Question {
            question: Question::Extend,
            ..
        } => matches!(value, Value::Integer(1)),
        _ => false,
    }
}

/// Interprets `value` as the answer to `request`. `value` must not be an error. Returns `None` if the command cannot
/// have this answer.
#[inline(never)]
pub(super) fn read(request: Request, value: Value<'_>) -> Option<Read> {
    match request {
        Request::Take { by, .. } => taken(by, value),
        Request::Probe {
            way: Dialect::Text, ..
        } => value.as_integer().map(|_| Reply::Done.into()),
        Request::Release { by, .. } | Request::Probe { way: by, .. } => {
            released(by, value).map(Read::from)
        }
        Request::Raise { .. } => about_token(value),
        Request::Question { question, .. } => match question {
            Question::Extend | Question::Move => about_token(value),
            Question::Confirm | Question::Overwrite => kept(value),
            Question::Inspect => {
                let (above, marker, key) = three(value)?;
                let reply = match key.as_bytes() {
                    Some(_) => inspected(above)?,
                    None if members_in(key).is_some() => kept_for(above)?,
                    None => key.as_items().map(|_| Reply::Foreign(0))?,
                };
                let marker = Some(marker);
                Some(Read { reply, marker })
            }
        },
        Request::Floor { .. } => match value.as_integer()? {
            1 => Some(Reply::Done.into()),
            _ => Some(Reply::Missing.into()),
        },
        Request::LookAtFloor { .. } => match integers(value)? {
            [1, floor] => up_to_the_largest(floor).map(Reply::Number),
            [0, nonce] if 0 <= nonce => Some(Reply::InRepair(nonce.unsigned_abs())),
            _ => None,
        }
        .map(Read::from),
        Request::Scan { names, .. } => {
            if let Some(said @ (-2 | -1)) = value.as_integer() {
                let command = if said == -1 { "strlen" } else { "type" };
                return Some(Reply::lacks(Unusable::Permission { command }).into());
            }
            let (counters, _, cursor) = scanned(value)?;
            if names && keys_in(value).is_none() {
                return None;
            }
            let cursor = cursor.as_bytes()?;
            let counters = u32::try_from(counters).ok()?;
            let cursor = core::str::from_utf8(cursor).ok()?.parse().ok()?;
            Some(Reply::Scanned { counters, cursor }.into())
        }
        Request::Why { .. } => {
            let missing = forbidden_to_extend(value.as_integer()?);
            Some(missing.map_or(Reply::Stopped, Reply::lacks).into())
        }
        // `keep_token` has already stored the token, so this returns only whether the key is a sorted set.
        Request::Name { .. } => match three(value).and_then(|(_, _, key)| key.as_items()) {
            Some(_) => Some(Reply::Foreign(0).into()),
            None => Some(Reply::Done.into()),
        },
    }
}

/// Reads the answer to a command that takes a lock.
fn taken(by: Taking, value: Value<'_>) -> Option<Read> {
    match by {
        Taking::Set if matches!(value, Value::Simple(b"OK")) => Some(Reply::Done.into()),
        Taking::Set => matches!(value, Value::Null).then_some(Reply::Foreign(0).into()),
        Taking::Checked { .. } | Taking::First | Taking::Untaught => {
            let (said, marker) = said(value)?;
            let reply = match said {
                1 => Reply::Done,
                0 if by != Taking::Untaught => Reply::Foreign(0),
                2.. if by == Taking::Untaught => Reply::Foreign(u8::try_from(said - 2).ok()?),
                _ => Reply::lacks(forbidden_to_lock(said)?),
            };
            Some(Read { reply, marker })
        }
        Taking::Member { .. } => member_added(value),
        Taking::Fenced {
            by: Dialect::TextOnly,
        } => numbered_member_added(value),
        Taking::Fenced { .. } => {
            let taken = fencing_token;
            if let Some(digits) = value.as_bytes() {
                // A script that checks no marker returns only the number.
                let number = core::str::from_utf8(digits).ok()?.parse().ok()?;
                return taken(number).map(Reply::Number).map(Read::from);
            }
            let [said, marker, number] = integers(value)?;
            let reply = match said {
                1 => Reply::Number(taken(number)?),
                0 => Reply::Renumbered(taken(number)?),
                2.. => Reply::Foreign(u8::try_from(said - 2).ok()?),
                -1 => no_number(number),
                _ => Reply::lacks(forbidden_to_fence(said)?),
            };
            // A script that fails early may not have read the marker, so its marker value is ignored.
            let marker = (0 <= said).then_some(marker);
            Some(Read { reply, marker })
        }
        Taking::Watch => None, // A transaction has no single answer.
    }
}

/// Reads the answer to a command that takes a shared lock or a permit.
#[cold]
fn member_added(value: Value<'_>) -> Option<Read> {
    if let Some([said, marker, number]) = integers(value) {
        let reply = slot(said, number)?;
        let marker = Some(marker);
        return Some(Read { reply, marker });
    }
    let (said, marker) = said(value)?;
    let reply = match said {
        1 => Reply::Done,
        2.. => kept_out(said),
        _ => Reply::lacks(forbidden_to_join(said)?),
    };
    Some(Read { reply, marker })
}

/// Like `member_added`, but for a command with a fencing token.
#[cold]
fn numbered_member_added(value: Value<'_>) -> Option<Read> {
    if let Some(said) = value.as_integer() {
        return Some(Reply::lacks(forbidden_to_join(said)?).into());
    }
    let (said, marker, reply) = match integers(value) {
        Some([said @ 1, marker, place, number]) => {
            let (slot, number) = (u16::try_from(place).ok()?, fencing_token(number)?);
            (said, marker, Reply::NumberedSlot { slot, number })
        }
        Some([said, marker, more, _]) => (said, marker, slot(said, more)?),
        None => {
            let [said, marker, number] = integers(value)?;
            let reply = match said {
                1 => Reply::Number(fencing_token(number)?),
                2.. => kept_out(said),
                -1 => no_number(number),
                _ => return None,
            };
            (said, marker, reply)
        }
    };
    // A script that fails early may not have read the marker, so its marker value is ignored.
    let marker = (0 < said).then_some(marker);
    Some(Read { reply, marker })
}

/// Interprets the answer of a script that refuses the lock to a reader.
const fn kept_out(said: i64) -> Reply {
    match said {
        ..=2 => Reply::Foreign(0),
        _ => Reply::Intent(Duration::from_millis(said.unsigned_abs() - 2)),
    }
}

/// Interprets a script's answer about slots.
fn slot(said: i64, more: i64) -> Option<Reply> {
    match said {
        1 => u16::try_from(more).ok().map(Reply::Slot),
        2 if more < 1 => Some(Reply::Foreign(0)),
        2 => Some(Reply::Full(Duration::from_millis(more.unsigned_abs() - 1))),
        3 => u16::try_from(more).ok().map(Reply::OtherPermits),
        _ => None,
    }
}

/// Reads the answer to a release, or to a trial release, in the form `by`.
fn released(by: Dialect, value: Value<'_>) -> Option<Reply> {
    match (by, value) {
        (Dialect::SetIfEq, Value::Simple(b"OK")) => Some(Reply::Done),
        // The answer is the same if the key contains another client's token.
        (Dialect::SetIfEq, Value::Null) => Some(Reply::Missing),
        _ => of_token(value.as_integer()?),
    }
}

fn about_token(value: Value<'_>) -> Option<Read> {
    let (said, marker) = said(value)?;
    let reply = of_token(said)?;
    Some(Read { reply, marker })
}

fn kept(value: Value<'_>) -> Option<Read> {
    let (above, marker) = said(value)?;
    let reply = kept_for(above)?;
    Some(Read { reply, marker })
}

/// Reads the answer to an extension or a release in a batch. The answer must not be an error.
pub(super) fn in_batch(value: Value<'_>) -> Option<Reply> {
    of_token(value.as_integer()?)
}

/// Interprets a script's answer about the token.
#[inline]
const fn of_token(said: i64) -> Option<Reply> {
    match said {
        1 => Some(Reply::Done),
        0 => Some(Reply::Missing),
        -1 => Some(Reply::Foreign(0)),
        _ => None,
    }
}

/// The milliseconds that [`CONFIRM`](super::script::CONFIRM) and [`INSPECT`](super::script::INSPECT) report for a key
/// without an expiry.
pub(super) const FOREVER: i64 = 9_000_000_000_000_000;

/// Interprets a script's answer about how much longer the key lives. The answer is the remaining milliseconds plus one,
/// or a number that means that the key does not contain the token.
pub(super) const fn kept_for(above: i64) -> Option<Reply> {
    if above < 1 {
        return of_token(above);
    }
    Some(Reply::Kept(Duration::from_millis(above.unsigned_abs() - 1)))
}

/// Like [`kept_for`], but for an inspection, which returns [`Duration::MAX`] for a key without an expiry.
pub(super) const fn inspected(above: i64) -> Option<Reply> {
    match above == FOREVER + 1 {
        true => Some(Reply::Kept(Duration::MAX)),
        false => kept_for(above),
    }
}

fn fencing_token(number: i64) -> Option<u64> {
    up_to_the_largest(number).filter(|number| *number != 0)
}

/// Returns the reason why a script assigned no number.
fn no_number(more: i64) -> Reply {
    Reply::lacks(match 1 <= more {
        true => Unusable::NoMoreTokens,
        false => Unusable::NoFloor,
    })
}

fn up_to_the_largest(number: i64) -> Option<u64> {
    let number = u64::try_from(number).ok();
    number.filter(|number| *number <= FENCING_TOKEN_MAX)
}

/// Returns the answer of a script, and the result of the marker check if the script made this check.
fn said(value: Value<'_>) -> Option<(i64, Option<i64>)> {
    match value.as_integer() {
        Some(said) => Some((said, None)),
        None => integers(value).map(|[said, marker]| (said, Some(marker))),
    }
}

/// Returns the integers in `value`, if it is a list of `N` integers.
fn integers<const N: usize>(value: Value<'_>) -> Option<[i64; N]> {
    let items = value.as_items().filter(|items| items.len() == N)?;
    let mut integers = [0; N];
    for (place, item) in integers.iter_mut().zip(items.iter()) {
        *place = item.as_integer()?;
    }
    Some(integers)
}

/// Returns two integers and the item after them, if `value` contains exactly these three items.
pub(super) fn three(value: Value<'_>) -> Option<(i64, i64, Value<'_>)> {
    let (first, second, third) = scanned(value)?;
    Some((first, second.as_integer()?, third))
}

/// Returns an integer and the two items after it, if `value` contains exactly these three items.
fn scanned(value: Value<'_>) -> Option<(i64, Value<'_>, Value<'_>)> {
    let items = value.as_items()?;
    let mut items = items.iter();
    let first = items.next()?.as_integer()?;
    let (second, third) = (items.next()?, items.next()?);
    items.next().is_none().then_some((first, second, third))
}

/// Returns the keys in the answer to [`LIST_NAMES`](super::script::LIST_NAMES). Returns `None` if the answer contains
/// no list, or if the list ends within a key.
pub(super) fn keys_in(value: Value<'_>) -> Option<Vec<Box<[u8]>>> {
    let (mut keys, mut key) = (Vec::new(), Vec::new());
    for piece in scanned(value)?.1.as_items()?.iter() {
        let piece = piece.as_bytes()?;
        key.extend_from_slice(piece);
        if piece.len() < STRING_BYTES_MAX {
            keys.push(core::mem::take(&mut key).into());
        }
    }
    key.is_empty().then_some(keys)
}

/// Returns the holders in the answer to an inspection. Returns `None` if the answer names a token, or if the key is no
/// lock.
pub(super) fn holders_in(value: Value<'_>) -> Option<Box<[Member]>> {
    members_in(three(value)?.2)
}

/// Returns the token in the answer to an inspection, truncated to at most one byte more than the maximum length of a
/// token. Returns `None` if the key does not exist.
pub(super) fn token_in(value: Value<'_>) -> Option<&[u8]> {
    let (_, _, token) = three(value).filter(|(above, ..)| 0 < *above)?;
    let token = token.as_bytes()?;
    Some(&token[..token.len().min(TOKEN_BYTES_MAX + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ClaimKey;
    use crate::resp::{Decoder, Limits};
    use crate::slab::Slab;

    const MS: Duration = Duration::from_millis(1);

    /// Reads a reply to a command that takes a lock. Returns what the reply means, and the result of the marker check.
    fn read_as(by: Taking, reply: &str) -> Option<(Reply, Option<i64>)> {
        let claim = ClaimKey(Slab::new().insert(()));
        let (mut decoder, bytes) = (Decoder::new(Limits::default()), reply.replace('|', "\r\n"));
        let frame = decoder.decode(bytes.as_bytes()).expect("RESP");
        let value = frame.expect("a whole reply").value;
        read(Request::Take { claim, by }, value).map(|read| (read.reply, read.marker))
    }

    #[test]
    fn what_a_script_says_of_a_member_is_read() {
        let lacks = |command| Reply::lacks(Unusable::Permission { command });
        for (reply, meaning) in [
            (":1|", Some((Reply::Done, None))),
            (":2|", Some((Reply::Foreign(0), None))),
            (":3|", Some((Reply::Intent(MS), None))),
            (":-5|", Some((lacks("time"), None))),
            (":-11|", Some((lacks("zscore"), None))),
            ("*2|:1|:-1|", Some((Reply::Done, Some(-1)))),
            ("*2|:2|:7|", Some((Reply::Foreign(0), Some(7)))),
            ("*3|:1|:0|:1023|", Some((Reply::Slot(1023), Some(0)))),
            ("*3|:2|:5|:0|", Some((Reply::Foreign(0), Some(5)))),
            ("*3|:2|:0|:8|", Some((Reply::Full(7 * MS), Some(0)))),
            ("*3|:3|:0|:4|", Some((Reply::OtherPermits(4), Some(0)))),
            (":0|", None),
            (":-1|", None),
            ("*3|:1|:0|:65536|", None),
            ("*3|:1|:0|:-1|", None),
            ("*3|:4|:0|:1|", None),
            ("*1|:1|", None),
            ("+OK|", None),
            ("$-1|", None),
        ] {
            let by = Taking::Member { by: Dialect::Sha1 };
            assert_eq!(read_as(by, reply), meaning, "{reply}");
        }
    }

    #[test]
    fn so_is_the_number_of_one() {
        let by = Taking::Fenced {
            by: Dialect::TextOnly,
        };
        let numbered = Reply::NumberedSlot { slot: 3, number: 9 };
        let lacks = |what| Some((Reply::lacks(what), None));
        let full_at_once = Reply::Full(Duration::ZERO);
        for (reply, meaning) in [
            ("*3|:1|:0|:9|", Some((Reply::Number(9), Some(0)))),
            ("*3|:2|:-1|:0|", Some((Reply::Foreign(0), Some(-1)))),
            (
                "*3|:2202|:0|:0|",
                Some((Reply::Intent(2_200 * MS), Some(0))),
            ),
            ("*3|:-1|:0|:0|", lacks(Unusable::NoFloor)),
            ("*3|:-1|:0|:1|", lacks(Unusable::NoMoreTokens)),
            ("*4|:1|:0|:3|:9|", Some((numbered, Some(0)))),
            ("*4|:2|:0|:0|:0|", Some((Reply::Foreign(0), Some(0)))),
            ("*4|:2|:0|:1|:0|", Some((full_at_once, Some(0)))),
            ("*4|:3|:6|:2|:0|", Some((Reply::OtherPermits(2), Some(6)))),
            (":-12|", lacks(Unusable::Permission { command: "set" })),
            ("*3|:1|:0|:0|", None),
            ("*4|:1|:0|:3|:0|", None),
            ("*4|:1|:0|:-3|:9|", None),
            ("*3|:1|:0|:9000000000000001|", None),
            (":1|", None),
            ("*2|:1|:0|", None),
        ] {
            assert_eq!(read_as(by, reply), meaning, "{reply}");
        }
    }
}
