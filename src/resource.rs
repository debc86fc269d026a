//! The name of a lock, and the token that identifies its holder.
//!
//! A name consists of 1 to [`RESOURCE_BYTES_MAX`] arbitrary bytes and *is* the Redis key. So locks of this library and
//! of other Redlock libraries on the same key exclude each other. A token is the value of the key.
//!
//! The module `entry` stores the name and the token in wire form.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::error::{RequestFault, Shown};
use crate::limits::{
    FENCING_TOKEN_MAX, RESOURCE_BYTES_MAX, RESOURCES_MAX, TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES,
};

/// Checks that `resource` is a valid name of a lock. If the lock has several names, `index` is the place of this name.
pub(crate) fn check_resource(resource: &[u8], index: Option<usize>) -> Result<(), RequestFault> {
    match resource.len() {
        0 => Err(RequestFault::EmptyResource { index }),
        1..=RESOURCE_BYTES_MAX if resource.starts_with(RESERVED) => {
            Err(RequestFault::ReservedResource)
        }
        1..=RESOURCE_BYTES_MAX => Ok(()),
        bytes => Err(RequestFault::ResourceTooLong { index, bytes }),
    }
}

/// Checks that `resources` are valid names of one lock.
pub fn check_resources(resources: &[&[u8]]) -> Result<(), RequestFault> {
    match resources.len() {
        0 => return Err(RequestFault::NoResources),
        1..=RESOURCES_MAX => {}
        count => return Err(RequestFault::TooManyResources { count }),
    }
    for (second, resource) in resources.iter().enumerate() {
        check_resource(resource, Some(second))?;
        let mut before = resources[..second].iter();
        if let Some(first) = before.position(|other| other == resource) {
            return Err(RequestFault::DuplicateResource { first, second });
        }
    }
    Ok(())
}

/// The key of the marker on a node of [`RestartGuard::Strict`](crate::RestartGuard::Strict), in the database of the
/// locks. The marker contains the incarnation of the server, and the group of the node. No lock can have this name. You
/// may read the marker. If you delete the marker, the node does not vote until the longest ttl has passed.
pub const MARKER_KEY: &[u8] = b"shearline:marker";

/// The key of the barrier on a node of [`RestartGuard::Strict`](crate::RestartGuard::Strict). While the barrier exists,
/// the answers of the node do not count. The ttl of a barrier is the longest ttl plus the drift. No lock can have this
/// name. Do not delete a barrier by hand, because two clients could then hold one lock. `Redlock::trust_node` deletes
/// the barrier, and its documentation says when that is safe.
pub const BARRIER_KEY: &[u8] = b"shearline:barrier";

/// The key of the counter floor of a node's [fencing tokens](crate::LockOptions::fenced), in the database of the locks.
/// The floor contains the server's incarnation, and either the largest number that the server has given, or a note that
/// the node is being repaired. No lock can have this name. You may read the floor. If you delete the floor, the node
/// gives no fencing tokens until it is repaired.
pub const FLOOR_KEY: &[u8] = b"shearline:floor";

/// The prefix of the keys that contain the counters for [fencing tokens](crate::LockOptions::fenced). The name of the
/// resource follows the prefix. By default a counter expires a day after the last fencing token. No lock can have a
/// name with this prefix.
pub(crate) const COUNTER_PREFIX: &[u8] = b"shearline:fence:";

/// The prefix of the keys that announce to readers of a [shared lock](crate::entry::Kind) that a caller waits for the
/// exclusive lock. The name of the resource follows the prefix. No lock can have a name with this prefix.
pub(crate) const INTENT_PREFIX: &[u8] = b"shearline:intent:";

/// The prefix of this library's keys that are not locks. No handle takes a lock whose name has this prefix. Without
/// this rule, a handle without the strict guard could lock a key that handles with the strict guard need.
const RESERVED: &[u8] = b"shearline:";

/// The value of a lock's key on the nodes. A token has 20 random bytes, new for every attempt, followed by the label of
/// `Builder::owner` or `LockOptions::owner`. If a lock with a label is also fenced, its fencing token replaces the
/// last 12 random bytes.
///
/// A client that knows the token can release the lock, so `Debug` shows only its first two bytes and the label.
///
/// ```
/// # fn show(lock: &shearline::Lock) {
/// let token = lock.token();
/// assert!(20 <= token.as_bytes().len());
/// println!("held by {}", token.owner().escape_ascii());
/// # }
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Token<'a>(&'a [u8]);

impl<'a> Token<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the whole token, as the nodes store it.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the label of the holder, or an empty text if there is no label.
    #[must_use]
    pub fn owner(self) -> &'a [u8] {
        self.0.get(TOKEN_RANDOM_BYTES..).unwrap_or_default()
    }

    /// Returns the fencing token of the lock, if the token contains it. If the token contains one, a node either grants
    /// the lock with exactly this fencing token, or gets the key only after a majority has granted the lock.
    pub(crate) fn number(self) -> Option<u64> {
        let named = self.0.get(RANDOM_BEFORE_MARK..TOKEN_RANDOM_BYTES)?;
        let digits = named
            .strip_prefix(&NUMBER_MARK)
            .or_else(|| named.strip_prefix(&WANTED_MARK))?;
        let number = digits
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte));
        (1..=FENCING_TOKEN_MAX).contains(&number).then_some(number)
    }

    /// Returns the label in a token that any client may have written. Tokens of this library begin with random bytes. A
    /// token that begins with text or spaces belongs to another library and has no label.
    pub(crate) fn label(self) -> &'a [u8] {
        let random = &self.0[..self.0.len().min(TOKEN_RANDOM_BYTES)];
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        match random.iter().all(is_text) {
            true => &[],
            false => self.owner(),
        }
    }
}

/// The number of random bytes before the mark in a token that contains its fencing token.
const RANDOM_BEFORE_MARK: usize = 8;

/// The mark in a token that contains its fencing token. The fencing token follows in seven bytes, up to the end of the
/// random part. One in 10^12 random tokens contains this mark.
pub(crate) const NUMBER_MARK: [u8; 5] = *b"\0term";

/// The mark before a fencing token that nodes have asked for. A node accepts a requested number even if it is far ahead
/// of the node's clock.
pub(crate) const WANTED_MARK: [u8; 5] = *b"\0Term";

/// Writes `number` into the random part of a token. `wanted` is `true` if nodes have requested this number.
pub(crate) fn name_number(token: &mut [u8], number: u64, wanted: bool) {
    let mark = if wanted { WANTED_MARK } else { NUMBER_MARK };
    let named = &mut token[RANDOM_BEFORE_MARK..TOKEN_RANDOM_BYTES];
    named[..mark.len()].copy_from_slice(&mark);
    named[mark.len()..].copy_from_slice(&number.to_be_bytes()[1..]);
}

/// The first bytes of the token of a broken lock. The following bytes differ between broken locks.
const BROKEN: [u8; 8] = *b"\0broken\0";

/// Returns the token that replaces `token` when its lock is broken. Equal tokens give equal results, and different
/// tokens give different results. The token of a broken lock does not change. The label says that the lock was broken,
/// and contains the owner.
pub(crate) fn broken(token: Token<'_>) -> Vec<u8> {
    if token.0.starts_with(&BROKEN) {
        return token.0.to_vec();
    }
    // Mixes all bytes of the token, because another library's tokens may differ only in some bytes.
    let mut which = [0; TOKEN_RANDOM_BYTES - BROKEN.len()];
    for (place, byte) in token.0.iter().enumerate() {
        which[place % which.len()] ^= byte;
    }
    let broken = [&BROKEN, &which[..], b"(broken) ", token.label()].concat();
    let mut broken = broken.trim_ascii_end().to_vec(); // There may be no label.
    broken.truncate(TOKEN_BYTES_MAX);
    broken
}

/// A token that was read from a node, where any client may have written it. The `Debug` output shows only the label.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct OwnedToken(Box<[u8]>);

impl OwnedToken {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) const fn get(&self) -> Token<'_> {
        Token(&self.0)
    }
}

impl fmt::Debug for OwnedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedToken({})", Shown(self.get().label()))
    }
}

impl AsRef<[u8]> for Token<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq<[u8]> for Token<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.0 == other
    }
}

impl PartialEq<&[u8]> for Token<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        self.0 == *other
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(")?;
        for byte in self.0.iter().take(2) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..")?;
        if !self.owner().is_empty() {
            write!(f, " {}", Shown(self.owner()))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_name_has_1_to_1024_bytes_of_any_value() {
        let empty = RequestFault::EmptyResource { index: None };
        assert_eq!(check_resource(b"", None), Err(empty));
        assert_eq!(check_resource(b"\r\n\0 ", None), Ok(()));
        assert_eq!(check_resource(&[7; RESOURCE_BYTES_MAX], None), Ok(()));
        let (index, bytes) = (None, RESOURCE_BYTES_MAX + 1);
        let long = RequestFault::ResourceTooLong { index, bytes };
        assert_eq!(
            check_resource(&[7; RESOURCE_BYTES_MAX + 1], None),
            Err(long)
        );
    }

    #[test]
    fn names_of_this_library_are_no_names_of_locks() {
        let reserved = Err(RequestFault::ReservedResource);
        for name in [
            MARKER_KEY,
            BARRIER_KEY,
            FLOOR_KEY,
            b"shearline:",
            b"shearline:a",
        ] {
            assert_eq!(check_resource(name, None), reserved);
        }
        for name in ["shearline", "shearline-", "Shearline:a", " shearline:a"] {
            assert_eq!(check_resource(name.as_bytes(), None), Ok(()));
        }
    }

    #[test]
    fn several_names_are_1_to_64_that_differ() {
        let names: Vec<[u8; 1]> = (0..=64).map(|byte| [byte]).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        assert_eq!(check_resources(&names[..64]), Ok(()));
        assert_eq!(check_resources(&[]), Err(RequestFault::NoResources));
        let many = RequestFault::TooManyResources { count: 65 };
        assert_eq!(check_resources(&names), Err(many));
        let twice = RequestFault::DuplicateResource {
            first: 1,
            second: 3,
        };
        assert_eq!(check_resources(&[b"a", b"b", b"c", b"b"]), Err(twice));
        let empty = RequestFault::EmptyResource { index: Some(1) };
        assert_eq!(check_resources(&[b"a", b""]), Err(empty));
        let long = [7; RESOURCE_BYTES_MAX + 1];
        let (index, bytes) = (Some(2), long.len());
        let long = check_resources(&[b"a", b"b", &long]);
        assert_eq!(long, Err(RequestFault::ResourceTooLong { index, bytes }));
        let reserved = check_resources(&[b"a", MARKER_KEY]);
        assert_eq!(reserved, Err(RequestFault::ReservedResource));
    }

    #[test]
    fn debug_shows_the_whole_owner_and_not_the_whole_token() {
        let token = Token::new(b"0123456789abcdefghijbilling-7");
        assert_eq!(token.owner(), b"billing-7");
        assert_eq!(format!("{token:?}"), "Token(3031.. billing-7)");
    }

    #[test]
    fn only_tokens_of_this_library_have_a_label() {
        for (token, label) in [
            (&b"\x01123456789abcdefghijbilling-7"[..], &b"billing-7"[..]),
            (b"\x01123456789abcdefghij", b""),
            (b"\x01", b""),
            (b"7f9c24e8-3b12-4fef-91e0-56a2d5b7c0de", b""),
            (b"host 17 pid 4711 7f9c24e8-3b12-4fef-91e0-56a2", b""),
            (b"{\"id\": \"x\", \"secret\": \"hunter2\"}", b""),
        ] {
            assert_eq!(Token::new(token).label(), label);
            let shown = format!("{:?}", OwnedToken::new(token));
            assert_eq!(shown, format!("OwnedToken({})", label.escape_ascii()));
        }
    }

    #[test]
    fn each_broken_lock_has_a_token_of_its_own() {
        let tokens = [
            &b"\x01123456789abcdefghijbilling-7"[..],
            b"\x01123456789abcdefghi!billing-7",
            b"host 17 pid 4711 7f9c24e8-3b12-4fef-91e0-56a2d5b7c0de",
            b"host 17 pid 4711 7f9c24e8-3b12-4fef-91e0-56a2d5b7c0df",
            b"worker-1",
            b"worker-2",
        ];
        let of = |token: &[u8]| broken(Token::new(token));
        for token in tokens {
            let once = of(token);
            assert_eq!(of(&once), once, "it stays as it is");
            let (label, owner) = (Token::new(&once).label(), Token::new(token).label());
            let shown = [b"(broken) ", owner].concat();
            assert_eq!(label, shown.trim_ascii_end());
            let same = tokens.iter().filter(|other| of(other) == once);
            assert_eq!(same.count(), 1, "{}", token.escape_ascii());
        }
    }
}
