//! An entry has the name and the token of a lock, as nodes store them: the key (the resource) and its value (the
//! token). A lock on several resources has several names and one token.
//!
//! The name and the token are in one buffer, side by side and in wire form, as arguments of a command. The name and the
//! token are encoded once, when the token is generated, and copied in one piece into every command about the lock. The
//! holder, the claim and the requests about the lock share the buffer. The buffer comes from the engine's pool and
//! returns to it, so that repeated locking allocates nothing. The entry also stores the lock delay, the end of the
//! lock's validity and its longest ttl, which all clones of the entry share. The numbers of a permit and the fencing
//! token are in the buffer after the token.
//!
//! The entry also contains the [`Kind`] of the lock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::delay::Delay;
use crate::error::Shown;
use crate::limits::{POOLED_MAX, RESOURCE_BYTES_MAX, RESOURCES_MAX, TOKEN_BYTES_MAX};
use crate::resource::Token;
use crate::resp::{argument, argument_len};
use crate::time::{Instant, nanos};

/// See the [module](self). Cloning an entry copies nothing.
#[derive(Clone)]
pub(crate) struct Entry(Arc<Body>);

/// The memory of a dropped entry, for reuse by another entry.
#[derive(Default)]
pub(crate) struct Spare(Arc<Body>);

#[derive(Default)]
struct Body {
    /// The keys in their order, then the token. The buffer may have unused bytes after a single key and its token.
    buffer: Box<[u8]>,
    shape: Shape,
    /// The lock delay: how long the nodes keep the keys after the validity ends.
    delay: Delay,
    /// The end of the validity, in nanoseconds. Zero if the end is not known.
    end: AtomicU64,
    /// The longest ttl that the keys have had, without the delay, in nanoseconds. The field is zero if the lock was
    /// never granted.
    ttl: AtomicU64,
}

impl Clone for Body {
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            shape: self.shape,
            delay: self.delay,
            end: AtomicU64::new(self.end.load(Ordering::Acquire)),
            ttl: AtomicU64::new(self.ttl.load(Ordering::Acquire)),
        }
    }
}

/// The layout of the buffer.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Shape {
    One {
        /// The length of the key in wire form.
        key_len: u16,
        /// The length of the token in wire form.
        token_len: u8,
    },
    /// A lock on several names. The rest of the layout is read from the buffer, which has no unused bytes.
    ///
    /// An entry with one name also has this shape if it has room for a fencing token, or if its kind is
    /// not [`Kind::Plain`]. After the token come the numbers of a permit, then the fencing token, which is zero until
    /// it is known.
    Several {
        /// The number of names, with [`FENCED`] set if there is room for a fencing token.
        names: u8,
        /// The length of the token in wire form.
        token_len: u8,
        mark: Mark,
    },
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A lock with one holder, whose token is the value of the keys.
    Plain,
    /// A lock with any number of holders, in a sorted set.
    Shared,
    /// A lock with one holder for each slot, in a sorted set.
    Permit {
        /// The number of slots.
        permits: u16,
        /// The held slot. Before the grant, the slot where a node begins its search.
        slot: u16,
    },
}

/// The kind of a lock, without the number of permits and the slot.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Mark {
    #[default]
    Plain,
    Shared,
    /// A permit for any slot.
    AnySlot,
    /// A permit for any slot. If a node has no free slot, it also reports the next change of the key.
    AnySlotOrPush,
    /// A permit for this slot only.
    ThisSlot,
}

impl Mark {
    const fn is_permit(self) -> bool {
        matches!(self, Self::AnySlot | Self::AnySlotOrPush | Self::ThisSlot)
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::Several {
            names: 0,
            token_len: 0,
            mark: Mark::Plain,
        }
    }
}

const _: () = assert!(size_of::<Shape>() == 4);
// The `buffer` takes 16 bytes, `shape` and `delay` take 8, and `end` and `ttl` take 16.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Body>() == 40);
/// If this bit is set in the number of names, the buffer ends with [`FENCING_BYTES`] bytes for a fencing token.
const FENCED: u8 = 0x80;
const FENCING_BYTES: usize = 8;
/// The number of bytes for the numbers of a permit: the number of slots, and the slot.
const SLOT_BYTES: usize = 4;

const _: () = assert!(RESOURCES_MAX < FENCED as usize);

/// The longest token that an entry can store: longer tokens are cut.
const TOKEN_LEN_MAX: usize = 127;

const _: () = assert!(TOKEN_BYTES_MAX <= TOKEN_LEN_MAX);
const _: () = assert!(argument_len(TOKEN_LEN_MAX) <= u8::MAX as usize);

impl Entry {
    /// Writes `resource` and `token` into the memory of `spare`.
    ///
    /// The caller has already checked the name and the token. Text that is too long for its length field is cut, so
    /// that no read goes beyond the end of the text.
    #[inline(always)]
    pub(crate) fn new(spare: impl Into<Spare>, resource: &[u8], token: &[u8]) -> Self {
        let resource = &resource[..resource.len().min(RESOURCE_BYTES_MAX)];
        let token = &token[..token.len().min(TOKEN_LEN_MAX)];
        spare.into().write(|buffer| {
            buffer.reserve_exact(argument_len(resource.len()) + argument_len(token.len()));
            argument(buffer, resource);
            let key_len = buffer.len();
            argument(buffer, token);
            Shape::One {
                key_len: key_len as u16,
                token_len: (buffer.len() - key_len) as u8,
            }
        })
    }

    /// Like [`new`](Self::new), for several `resources`. The caller has checked the names and their number. For one
    /// resource, returns the same as [`new`](Self::new).
    #[cold]
    pub(crate) fn of_several<'a>(
        spare: impl Into<Spare>,
        resources: impl Iterator<Item = &'a [u8]>,
        token: &[u8],
    ) -> Self {
        let entry = spare.into().write_all(resources, token, Mark::Plain, &[]);
        match entry.names().len() {
            1 => Self::new(Vec::new(), entry.resource(), token),
            _ => entry,
        }
    }

    /// Like [`new`](Self::new), for one resource or several, with room for a fencing token.
    #[cold]
    pub(crate) fn to_be_fenced<'a>(
        spare: impl Into<Spare>,
        resources: impl Iterator<Item = &'a [u8]>,
        token: &[u8],
    ) -> Self {
        spare
            .into()
            .write_all(resources, token, Mark::Plain, &[0; FENCING_BYTES])
    }

    /// Like [`new`](Self::new), for a shared lock. If the lock `is_fenced`, the entry has room for a fencing token.
    #[cold]
    pub(crate) fn shared(
        spare: impl Into<Spare>,
        resource: &[u8],
        token: &[u8],
        is_fenced: bool,
    ) -> Self {
        let room = &[0; FENCING_BYTES][..FENCING_BYTES * usize::from(is_fenced)];
        let resources = core::iter::once(resource);
        spare.into().write_all(resources, token, Mark::Shared, room)
    }

    /// Like [`new`](Self::new), for one of `permits` permits. If the permit `is_fenced`, the entry has room for a
    /// fencing token. Each node grants the first free slot, and begins its search at the slot `start`.
    #[cold]
    pub(crate) fn permit(
        spare: impl Into<Spare>,
        resource: &[u8],
        token: &[u8],
        [permits, start]: [u16; 2],
        is_fenced: bool,
    ) -> Self {
        let mut room = [0; SLOT_BYTES + FENCING_BYTES];
        room[..2].copy_from_slice(&permits.to_be_bytes());
        room[2..SLOT_BYTES].copy_from_slice(&start.to_be_bytes());
        let room = &room[..SLOT_BYTES + FENCING_BYTES * usize::from(is_fenced)];
        let resources = core::iter::once(resource);
        spare
            .into()
            .write_all(resources, token, Mark::AnySlot, room)
    }

    /// If the entry is a permit for any slot, makes a node without a free slot also report the next change of the key.
    /// The entry must be new and not shared.
    #[cold]
    pub(crate) fn registering(mut self) -> Self {
        if let Shape::Several { mark, .. } = &mut Arc::make_mut(&mut self.0).shape
            && *mark == Mark::AnySlot
        {
            *mark = Mark::AnySlotOrPush;
        }
        self
    }

    /// Returns `true` if a node without a free slot also reports the next change of the key.
    pub(crate) fn registers(&self) -> bool {
        self.mark() == Mark::AnySlotOrPush
    }

    /// Sets the slot of a permit. Nodes then grant only this slot. Copies the entry if it is shared.
    #[cold]
    pub(crate) fn set_slot(&mut self, slot: u16) {
        let body = Arc::make_mut(&mut self.0);
        if let Shape::Several { names, mark, .. } = &mut body.shape
            && mark.is_permit()
        {
            *mark = Mark::ThisSlot;
            let end = body.buffer.len() - fencing_len(*names);
            body.buffer[end - 2..end].copy_from_slice(&slot.to_be_bytes());
        }
    }

    /// Returns the entry of a shared lock with the same name, token and end of the validity. The returned entry shares
    /// nothing with this entry.
    #[cold]
    pub(crate) fn as_shared(&self) -> Self {
        let token = self.token().as_bytes();
        let mut entry = Self::shared(Spare::default(), self.resource(), token, false);
        if let Some(token) = self.fencing_token() {
            entry.set_fencing_token(token);
        }
        entry.set_end(self.end(), self.ttl());
        entry.delayed(self.delay())
    }

    fn mark(&self) -> Mark {
        match self.0.shape {
            Shape::One { .. } => Mark::Plain,
            Shape::Several { mark, .. } => mark,
        }
    }

    /// Returns the kind of the lock.
    pub(crate) fn kind(&self) -> Kind {
        match self.mark() {
            Mark::Plain => Kind::Plain,
            Mark::Shared => Kind::Shared,
            Mark::AnySlot | Mark::AnySlotOrPush | Mark::ThisSlot => {
                let numbers = &self.0.buffer[self.wire().len()..];
                let number = |at: usize| u16::from_be_bytes([numbers[at], numbers[at + 1]]);
                let (permits, slot) = (number(0), number(2));
                Kind::Permit { permits, slot }
            }
        }
    }

    /// Returns `true` if nodes grant only this slot, because it was [set](Self::set_slot).
    pub(crate) fn has_slot(&self) -> bool {
        self.mark() == Mark::ThisSlot
    }

    /// Returns the entry with this fencing token.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn fenced(mut self, token: u64) -> Self {
        self.set_fencing_token(token);
        self
    }

    /// Sets the fencing token. Copies the entry if it has no space for a fencing token, or is shared.
    #[cold]
    pub(crate) fn set_fencing_token(&mut self, token: u64) {
        if !self.has_room() {
            let numbers = &self.0.buffer[self.arguments().len()..];
            let room = match self.mark().is_permit() {
                true => [numbers, &[0; FENCING_BYTES]].concat(),
                false => [0; FENCING_BYTES].to_vec(),
            };
            let (token, spare) = (self.token().as_bytes(), Spare::default());
            *self = spare
                .write_all(self.names(), token, self.mark(), &room)
                .delayed(self.delay());
        }
        if let Some(room) = Arc::make_mut(&mut self.0).buffer.last_chunk_mut() {
            *room = token.to_be_bytes();
        }
    }

    /// Returns `true` if there is room for a fencing token.
    fn has_room(&self) -> bool {
        matches!(self.0.shape, Shape::Several { names, .. } if names & FENCED != 0)
    }

    /// Returns the fencing token, if there is one.
    pub(crate) fn fencing_token(&self) -> Option<u64> {
        let room = self.0.buffer.last_chunk().filter(|_| self.has_room());
        room.map(|room| u64::from_be_bytes(*room))
            .filter(|token| *token != 0)
    }

    /// Returns the keys and the token of an entry with the layout for several names.
    fn wire(&self) -> &[u8] {
        let buffer = &self.0.buffer;
        match self.0.shape {
            Shape::Several { names, mark, .. } => {
                let slot = SLOT_BYTES * usize::from(mark.is_permit());
                &buffer[..buffer.len() - fencing_len(names) - slot]
            }
            Shape::One { .. } => buffer,
        }
    }

    /// Returns `true` for a plain lock on one name without room for a fencing token.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.0.shape, Shape::One { .. })
    }

    /// Returns the entry with this lock delay. The entry must be new and not shared.
    #[inline]
    pub(crate) fn delayed(mut self, delay: Delay) -> Self {
        if delay != Delay::default() {
            Arc::make_mut(&mut self.0).delay = delay;
        }
        self
    }

    /// Returns the lock delay, which is zero if it was not set.
    #[inline]
    pub(crate) fn delay(&self) -> Delay {
        self.0.delay
    }

    /// Returns the end of the validity, or zero if the end is not known.
    pub(crate) fn end(&self) -> Instant {
        Instant::from_nanos(self.0.end.load(Ordering::Acquire))
    }

    /// Sets the end of the validity to `end`, which may be earlier than before, and raises the longest ttl to `ttl`.
    pub(crate) fn set_end(&self, end: Instant, ttl: Duration) {
        self.raise_ttl(ttl);
        self.0.end.store(end.as_nanos(), Ordering::Release);
    }

    /// Raises the end of the validity to at least `end`, and the longest ttl to at least `ttl`.
    pub(crate) fn lengthen_end(&self, end: Instant, ttl: Duration) {
        self.raise_ttl(ttl);
        self.0.end.fetch_max(end.as_nanos(), Ordering::AcqRel);
    }

    /// Ends the validity at `now` at the latest, because the lock is lost.
    pub(crate) fn end_now(&self, now: Instant) {
        let later = |end: u64| (end == 0 || now.as_nanos() < end).then_some(now.as_nanos());
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.0.end.fetch_update(set, get, later);
    }

    /// Returns the longest ttl that the keys have had, without the delay.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.0.ttl.load(Ordering::Acquire))
    }

    /// Raises the longest ttl to `ttl`. The ttl of a lock is never zero.
    fn raise_ttl(&self, ttl: Duration) {
        self.0.ttl.fetch_max(nanos(ttl).max(1), Ordering::AcqRel);
    }

    /// Copies the body of this entry, so that clones no longer share the end of the validity.
    #[cold]
    pub(crate) fn part(&mut self) {
        Arc::make_mut(&mut self.0);
    }

    /// Returns `true` if `other` is a clone of this entry and shares the end of its validity.
    pub(crate) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if the entry has several names.
    #[inline]
    pub(crate) fn is_several(&self) -> bool {
        matches!(self.0.shape, Shape::Several { names, .. } if names & !FENCED != 1)
    }

    /// Returns the name, or the first of several names.
    pub(crate) fn resource(&self) -> &[u8] {
        match self.0.shape {
            Shape::One { .. } => text(self.key_argument()),
            Shape::Several { .. } => self.names().next().unwrap_or_default(),
        }
    }

    /// Returns all names, in the caller's order.
    pub(crate) fn names(&self) -> Names<'_> {
        match self.0.shape {
            Shape::One { .. } => Names {
                arguments: self.key_argument(),
                left: 1,
            },
            Shape::Several { names, .. } => Names {
                arguments: self.key_arguments(),
                left: names & !FENCED,
            },
        }
    }

    /// Returns `true` if the two entries have a name in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match self.is_several() || other.is_several() {
            false => self.resource() == other.resource(),
            true => {
                let mut names = self.names();
                names.any(|name| other.names().any(|other| other == name))
            }
        }
    }

    pub(crate) fn token(&self) -> Token<'_> {
        Token::new(text(self.token_argument()))
    }

    /// Returns the key (or all keys) and the token as arguments in wire form, side by side.
    pub(crate) fn arguments(&self) -> &[u8] {
        match self.0.shape {
            Shape::One {
                key_len, token_len, ..
            } => &self.0.buffer[..usize::from(key_len) + usize::from(token_len)],
            Shape::Several { .. } => self.wire(),
        }
    }

    /// Returns the key, or the first of several keys, as an argument in wire form.
    #[inline]
    pub(crate) fn key_argument(&self) -> &[u8] {
        match self.0.shape {
            Shape::One { key_len, .. } => &self.0.buffer[..usize::from(key_len)],
            Shape::Several { .. } => {
                let (_, rest) = first_text(&self.0.buffer);
                &self.0.buffer[..self.0.buffer.len() - rest.len()]
            }
        }
    }

    /// Returns all keys as arguments in wire form, side by side.
    pub(crate) fn key_arguments(&self) -> &[u8] {
        match self.0.shape {
            Shape::One { key_len, .. } => &self.0.buffer[..usize::from(key_len)],
            Shape::Several { token_len, .. } => {
                let wire = self.wire();
                &wire[..wire.len() - usize::from(token_len)]
            }
        }
    }

    /// Returns the token as an argument in wire form.
    pub(crate) fn token_argument(&self) -> &[u8] {
        match self.0.shape {
            Shape::One {
                key_len, token_len, ..
            } => &self.0.buffer[usize::from(key_len)..][..usize::from(token_len)],
            Shape::Several { token_len, .. } => {
                let wire = self.wire();
                &wire[wire.len() - usize::from(token_len)..]
            }
        }
    }

    /// Returns the buffer for another entry, unless it is shared or unusually large.
    #[inline]
    pub(crate) fn into_spare(mut self) -> Option<Spare> {
        let body = Arc::get_mut(&mut self.0)?;
        let is_usual = (1..=POOLED_MAX).contains(&body.buffer.len());
        is_usual.then_some(Spare(self.0))
    }

    /// Returns the number of free bytes in the buffer.
    #[cfg(test)]
    pub(crate) fn unused(&self) -> usize {
        self.0.buffer.len() - self.arguments().len()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        let of_kind = |entry: &Self| match entry.kind() {
            Kind::Plain => (0, 0),
            Kind::Shared => (1, 0),
            Kind::Permit { permits, .. } => (2, permits),
        };
        let parts = |entry: &Self| (entry.is_several(), of_kind(entry), entry.delay());
        parts(self) == parts(other) && self.arguments() == other.arguments()
    }
}

impl Eq for Entry {}

impl Spare {
    /// Returns the entry that `write` writes into the empty buffer.
    #[inline(always)]
    fn write(mut self, write: impl FnOnce(&mut Vec<u8>) -> Shape) -> Entry {
        let body = Arc::make_mut(&mut self.0); // The spare body is not shared.
        let mut buffer = core::mem::take(&mut body.buffer).into_vec();
        buffer.clear();
        body.shape = write(&mut buffer);
        if let Shape::One { .. } = body.shape {
            buffer.resize(buffer.capacity(), 0); // Keeps the capacity for a longer entry later.
        }
        body.buffer = buffer.into_boxed_slice();
        body.delay = Delay::default();
        (body.end, body.ttl) = Default::default(); // The previous lock of this body may have set these fields.
        Entry(self.0)
    }

    /// Returns the entry of these `resources` and this `token`, with `room` at its end for the numbers of a permit and
    /// for a fencing token.
    fn write_all<'a>(
        self,
        resources: impl Iterator<Item = &'a [u8]>,
        token: &[u8],
        mark: Mark,
        room: &[u8],
    ) -> Entry {
        let token = &token[..token.len().min(TOKEN_BYTES_MAX)];
        let mut names = if room.len() < FENCING_BYTES {
            0
        } else {
            FENCED
        };
        self.write(|buffer| {
            for resource in resources.take(RESOURCES_MAX) {
                let resource = &resource[..resource.len().min(RESOURCE_BYTES_MAX)];
                argument(buffer, resource);
                names += 1;
            }
            let keys_len = buffer.len();
            argument(buffer, token);
            let token_len = (buffer.len() - keys_len) as u8;
            buffer.extend_from_slice(room);
            Shape::Several {
                names,
                token_len,
                mark,
            }
        })
    }
}

impl From<Vec<u8>> for Spare {
    fn from(arguments: Vec<u8>) -> Self {
        Self(Arc::new(Body {
            buffer: arguments.into_boxed_slice(),
            ..Body::default()
        }))
    }
}

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spare")
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entry(")?;
        for name in self.names() {
            write!(f, "{} ", Shown(name))?;
        }
        write!(f, "{:?})", self.token())
    }
}

/// The names of a lock, in the caller's order.
#[derive(Clone, Debug)]
pub(crate) struct Names<'a> {
    arguments: &'a [u8],
    left: u8,
}

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (name, rest) = first_text(self.arguments);
        self.arguments = rest;
        Some(name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Names<'_> {}

/// Returns the number of bytes for a fencing token, or zero without [`FENCED`] in `names`.
fn fencing_len(names: u8) -> usize {
    FENCING_BYTES * usize::from(names / FENCED)
}

/// Returns the text of the first of `arguments`, and the remaining arguments.
fn first_text(arguments: &[u8]) -> (&[u8], &[u8]) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let digits = arguments.iter().skip(1).take_while(|byte| digit(byte));
    let (count, len) = digits.fold((0, 0), |(count, len), digit| {
        (count + 1, len * 10 + usize::from(digit - b'0'))
    });
    let rest = arguments
        .get(1 + count + LINE_END_BYTES..)
        .unwrap_or_default();
    let (text, rest) = rest.split_at_checked(len).unwrap_or_default();
    (text, rest.get(LINE_END_BYTES..).unwrap_or_default())
}

/// The length of the line end after the text of an argument.
const LINE_END_BYTES: usize = 2;

const _: () = assert!(argument_len(RESOURCE_BYTES_MAX) <= u16::MAX as usize);

/// Returns the text of an `argument`. The length of the argument shows how long its header is.
fn text(argument: &[u8]) -> &[u8] {
    let header_len = match argument.len() {
        ..16 => 4,
        16..108 => 5,
        108..1_009 => 6,
        _ => 7,
    };
    &argument[header_len..argument.len() - LINE_END_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    /// Uses lengths just below and just above each length at which a header becomes longer.
    #[test]
    fn the_name_and_the_token_are_read_back_and_stored_in_wire_form() {
        for resource_len in [0, 1, 9, 10, 99, 100, 999, 1000, RESOURCE_BYTES_MAX] {
            for token_len in [0, 1, 9, 10, 20, TOKEN_BYTES_MAX, 100] {
                let (resource, token) = (vec![b'\n'; resource_len], vec![b'$'; token_len]);
                let entry = Entry::new(vec![1, 2, 3], &resource, &token);
                let (mut key, mut value) = (Vec::new(), Vec::new());
                argument(&mut key, &resource);
                argument(&mut value, &token);
                for entry in [&entry, &entry.clone()] {
                    assert_eq!(entry.resource(), resource);
                    assert_eq!(entry.token().as_bytes(), token);
                    assert_eq!(entry.key_argument(), key);
                    assert_eq!(entry.token_argument(), value);
                    assert_eq!(entry.arguments(), [&key[..], &value].concat());
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let long = [b'k'; RESOURCE_BYTES_MAX + 1];
        let entry = Entry::new(Vec::new(), &long, b"token");
        assert_eq!(entry.resource(), &long[1..]);
        assert_eq!(entry.token().as_bytes(), b"token");
    }

    #[test]
    fn several_names_are_read_back_in_their_order() {
        let long: Vec<Vec<u8>> = (0..RESOURCES_MAX)
            .map(|at| vec![at as u8; RESOURCE_BYTES_MAX])
            .collect();
        let short = [b"b\r\n".to_vec(), b"a".to_vec(), b"$1".to_vec()];
        for names in [&short[..], &long[..], &long[..2]] {
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            for token in [&[7; 20][..], &[b'$'; TOKEN_BYTES_MAX]] {
                let entry = Entry::of_several(vec![1], names.iter().copied(), token);
                let (mut keys, mut value) = (Vec::new(), Vec::new());
                names.iter().for_each(|name| argument(&mut keys, name));
                argument(&mut value, token);
                for entry in [&entry, &entry.clone()] {
                    assert!(entry.is_several());
                    assert_eq!(entry.names().len(), names.len());
                    assert_eq!(entry.names().collect::<Vec<_>>(), names);
                    assert_eq!(entry.resource(), names[0]);
                    assert_eq!(entry.token().as_bytes(), token);
                    assert_eq!(entry.key_arguments(), keys);
                    assert_eq!(entry.token_argument(), value);
                    assert!(keys.starts_with(entry.key_argument()));
                }
            }
        }
    }

    #[track_caller]
    fn assert_same_words(one: &Entry, other: &Entry) {
        assert!(one.names().eq(other.names()));
        assert_eq!(one.resource(), other.resource());
        assert_eq!(one.token().as_bytes(), other.token().as_bytes());
        assert_eq!(one.arguments(), other.arguments());
        assert_eq!(one.key_argument(), other.key_argument());
        assert_eq!(one.key_arguments(), other.key_arguments());
        assert_eq!(one.token_argument(), other.token_argument());
    }

    /// Also tests names and fencing tokens whose bytes look like parts of the protocol, and a buffer that was used
    /// before.
    #[test]
    fn a_fencing_token_changes_nothing_else() {
        let delay = Delay::of_millis(7);
        for names in [
            &[&b"a"[..]][..],
            &[b"b\r\n", b"a"],
            &[&[7; 100], b"x", b"y"],
        ] {
            let entry = Entry::of_several(Vec::new(), names.iter().copied(), b"token");
            let entry = entry.delayed(delay);
            assert_eq!(entry.fencing_token(), None);
            // Until its fencing token is set, the entry equals an entry without a fencing token.
            let room = Entry::to_be_fenced(vec![9; 300], names.iter().copied(), b"token");
            let room = room.delayed(delay);
            assert_eq!((&room, room.fencing_token()), (&entry, None));
            assert_same_words(&room, &entry);
            // A clone that was made before does not get the fencing token.
            let reader = room.clone();
            assert_eq!(room.fenced(5).fencing_token(), Some(5));
            assert_eq!(reader.fencing_token(), None);
            let plain = Entry::new(reader.into_spare().expect("nobody else"), b"k", b"t");
            assert_eq!(plain, Entry::new(Vec::new(), b"k", b"t"));
            for token in [1, 0x0d0a_2431, u64::MAX] {
                let fenced = entry.clone().fenced(token);
                assert_eq!((&fenced, fenced.fencing_token()), (&entry, Some(token)));
                assert_eq!(fenced.is_several(), 1 < names.len());
                assert_same_words(&fenced, &entry);
                assert_eq!(fenced.delay(), delay);
                assert_eq!(fenced.clone().fenced(2).fencing_token(), Some(2));
                assert_eq!(fenced.fencing_token(), Some(token));
            }
        }
        let spare = Entry::new(Vec::new(), b"a", b"t").fenced(1).into_spare();
        let again = Entry::new(spare.expect("nobody else has it"), b"a", b"t");
        assert_eq!(again.fencing_token(), None);
    }

    /// The end and the ttl, in nanoseconds.
    fn terms(entry: &Entry) -> (u64, u128) {
        (entry.end().as_nanos(), entry.ttl().as_nanos())
    }

    #[test]
    fn all_that_have_it_see_one_end_until_they_part() {
        let (at, ttl) = (Instant::from_nanos, Duration::from_nanos);
        let entry = Entry::new(Vec::new(), b"k", b"t").delayed(Delay::of_millis(1));
        let mut other = entry.clone();
        assert_eq!(terms(&other), (0, 0));
        entry.set_end(at(5), ttl(0));
        assert_eq!(terms(&other), (5, 1), "no lock has no ttl");
        entry.lengthen_end(at(9), ttl(7));
        entry.lengthen_end(at(8), ttl(6));
        assert_eq!(terms(&other), (9, 7));
        entry.end_now(at(6));
        entry.end_now(at(7));
        assert_eq!(terms(&other), (6, 7));
        entry.set_end(at(8), ttl(3));
        assert_eq!(terms(&other), (8, 7));
        other.part();
        assert_eq!(terms(&other), (8, 7));
        other.set_end(at(1), ttl(9));
        assert_eq!((terms(&entry), terms(&other)), ((8, 7), (1, 9)));
        assert_eq!(entry, other);
        let alone = other.arguments().as_ptr();
        other.part();
        assert_eq!(other.arguments().as_ptr(), alone, "nobody else had it");
    }

    #[test]
    fn a_buffer_that_is_used_again_has_no_end() {
        let used = || {
            let entry = Entry::new(Vec::new(), b"k", b"t");
            entry.set_end(Instant::from_nanos(5), Duration::from_secs(1));
            entry.into_spare().expect("nobody else has it")
        };
        let names = || [&b"k"[..], b"l"].into_iter();
        for entry in [
            Entry::new(used(), b"k", b"t"),
            Entry::of_several(used(), names(), b"t"),
            Entry::to_be_fenced(used(), names(), b"t"),
        ] {
            assert_eq!(terms(&entry), (0, 0));
        }
    }

    #[test]
    fn the_kind_and_its_numbers_change_nothing_else() {
        let (delay, plain) = (Delay::of_millis(7), Entry::new(Vec::new(), b"k", b"token"));
        let plain = plain.delayed(delay);
        assert_eq!((plain.kind(), plain.is_bare()), (Kind::Plain, true));
        for is_fenced in [false, true] {
            let permit = |numbers| Entry::permit(vec![9; 300], b"k", b"token", numbers, is_fenced);
            let shared = || Entry::shared(vec![9; 300], b"k", b"token", is_fenced);
            let (permits, slot) = (1024, 1023);
            for (entry, kind) in [
                (shared(), Kind::Shared),
                (permit([permits, slot]), Kind::Permit { permits, slot }),
            ] {
                let entry = entry.delayed(delay);
                assert_ne!(entry, plain);
                let mut fenced = entry.clone();
                fenced.set_fencing_token(5);
                for (entry, number) in [(entry, None), (fenced, Some(5))] {
                    assert_eq!(entry, entry.clone());
                    assert_eq!((entry.kind(), entry.fencing_token()), (kind, number));
                    assert_eq!((entry.is_bare(), entry.is_several()), (false, false));
                    assert_eq!(entry.delay(), delay);
                    assert_same_words(&entry, &plain);
                }
            }
            assert_ne!(permit([2, 0]), permit([3, 0]));
        }
    }

    #[test]
    fn a_slot_is_set_for_those_that_do_not_share_the_entry() {
        let kind = |slot| Kind::Permit { permits: 4, slot };
        for fencing_token in [None, Some(7)] {
            let mut entry = Entry::permit(Vec::new(), b"k", b"t", [4, 3], false);
            if let Some(token) = fencing_token {
                entry.set_fencing_token(token);
            }
            let reader = entry.clone();
            entry.set_slot(1);
            assert_eq!((entry.kind(), entry.has_slot()), (kind(1), true));
            assert_eq!((reader.kind(), reader.has_slot()), (kind(3), false));
            assert_eq!(entry.fencing_token(), fencing_token);
            assert_eq!(entry.token().as_bytes(), b"t");
            assert_eq!(entry, reader);
        }
        let mut plain = Entry::new(Vec::new(), b"k", b"t");
        plain.set_slot(1);
        assert_eq!((plain.kind(), plain.has_slot()), (Kind::Plain, false));
    }

    #[test]
    fn one_of_several_is_as_one() {
        let one = Entry::of_several(Vec::new(), [&b"k"[..]].into_iter(), b"token");
        assert_eq!(one, Entry::new(Vec::new(), b"k", b"token"));
        assert_eq!(one.names().collect::<Vec<_>>(), [b"k"]);
    }

    #[test]
    fn entries_meet_where_they_have_a_name_in_common() {
        let several =
            |names: [&'static [u8]; 2]| Entry::of_several(Vec::new(), names.into_iter(), b"token");
        let ab = several([b"a", b"b"]);
        let a = Entry::new(Vec::new(), b"a", b"other");
        assert!(ab.meets(&a) && a.meets(&ab) && ab.meets(&several([b"c", b"b"])));
        assert!(!ab.meets(&several([b"c", b"d"])) && !several([b"c", b"b"]).meets(&a));
        assert_eq!(format!("{ab:?}"), "Entry(a b Token(746f..))");
    }
}
