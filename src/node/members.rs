//! The holders of shared locks and permits on a node: the live members of the sorted set under the name.
//!
//! # Not here
//!
//! For the lifetime of the sorted set, see [`script`](super::script).

use alloc::boxed::Box;
use core::time::Duration;

use crate::limits::PERMITS_MAX;
use crate::resource::OwnedToken;
use crate::resp::Value;

/// One holder, as a member of the sorted set on a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Member {
    pub(crate) slot: Option<Slot>,
    pub(crate) token: OwnedToken,
    /// The time until the membership expires.
    pub(crate) left: Duration,
}

impl Member {
    /// Returns the slot and the token, which together identify this holder.
    pub(crate) fn id(&self) -> (Option<Slot>, &[u8]) {
        (self.slot, self.token.get().as_bytes())
    }
}

/// The slot of a permit. A reader has no slot.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slot {
    pub(crate) permits: u16,
    pub(crate) slot: u16,
}

/// Returns the members in the list `value`, each with its remaining milliseconds. Returns `None` if this library cannot
/// have written one of the members.
pub(super) fn members_in(value: Value<'_>) -> Option<Box<[Member]>> {
    let items = value.as_items()?;
    let (mut items, half) = (items.iter(), items.iter().len() / 2);
    let member = |_| {
        let (slot, token) = parse(items.next()?.as_bytes()?)?;
        let left = u64::try_from(items.next()?.as_integer()?).ok()?;
        Some(Member {
            slot,
            token: OwnedToken::new(token),
            left: Duration::from_millis(left),
        })
    };
    (0..half).map(member).collect()
}

/// Reads `r/TOKEN`, or `K/SLOT/TOKEN`.
fn parse(member: &[u8]) -> Option<(Option<Slot>, &[u8])> {
    if let Some(token) = member.strip_prefix(b"r/") {
        return Some((None, token));
    }
    let mut parts = member.splitn(3, |byte| *byte == b'/');
    let mut number = || {
        let digits = core::str::from_utf8(parts.next()?).ok()?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = digits.parse().ok()?;
        (is_plain && (digits.len() == 1 || !digits.starts_with('0'))).then_some(number)
    };
    let (permits, slot) = (number()?, number()?);
    let is_slot = slot < permits && permits <= PERMITS_MAX;
    is_slot.then_some((Some(Slot { permits, slot }), parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_one_of_two_forms() {
        let slot = |permits, slot| Some(Slot { permits, slot });
        for (member, parsed) in [
            (&b"r/a/b"[..], Some((None, &b"a/b"[..]))),
            (b"r/", Some((None, b""))),
            (b"4/3/\r\n/", Some((slot(4, 3), b"\r\n/"))),
            (b"1024/1023/t", Some((slot(1024, 1023), b"t"))),
            (b"1/0/t", Some((slot(1, 0), b"t"))),
            (b"1025/0/t", None),
            (b"4/4/t", None),
            (b"4/03/t", None),
            (b"04/3/t", None),
            (b"+4/3/t", None),
            (b"4/3", None),
            (b"0/0/t", None),
            (b"4//t", None),
            (b"R/t", None),
            (b"r", None),
            (b"", None),
        ] {
            assert_eq!(parse(member), parsed, "{}", member.escape_ascii());
        }
    }
}
