//! Converts locks to bytes and back, and computes the validity of a lock by the clock of this machine.
//!
//! ```text
//! "SHLK"  format  clock known  clock identity  valid until  ttl  delay  voters  counts  names, token  fencing token  kind  checksum
//!  4       1       1            24              8            8    4      4       2 + 2   ..            8              0, 4  8
//! ```
//!
//! An exclusive lock has format 5 and no kind. Formats 1 to 4 were used by earlier drafts. Shared locks and permits
//! have format 6, so that a version of this library without them refuses the bytes. The kind is the number of permits
//! and the slot, two bytes each. A shared lock has zero permits. The delay is the time that the lock delay adds to each
//! ttl, in milliseconds. The counts are the number of resources and the length of the token in bytes. The length of a
//! resource (2 bytes) precedes the resource. If there is no fencing token, its field is zero.
//!
//! The voters are the nodes that have granted the lock: one bit for each node, in the order of the configuration.
//! Numbers are big-endian. Times are in nanoseconds. The checksum (FNV-1a) detects accidental damage, but not forgery.
//! A program that has the bytes can release the lock.

use alloc::vec::Vec;
use core::time::Duration;

use crate::clock::{self, ClockIdentity};
use crate::delay::Delay;
use crate::entry::{Entry, Kind};
use crate::limits::{FENCING_TOKEN_MAX, PERMITS_MAX, TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES};
use crate::quorum::{Lock, NodeSet};
use crate::resource::check_resources;
use crate::time::{Instant, nanos};

const MAGIC: [u8; 4] = *b"SHLK";

/// The format of an exclusive lock.
const FORMAT: u8 = 5;

/// The format of shared locks and permits.
const OF_KIND: u8 = 6;

/// The bytes are not a lock: they are damaged, or another version of this library wrote them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct FromBytesError(#[from] Fault);

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
enum Fault {
    #[error("these bytes are no lock; pass the unchanged bytes that `Lock::to_bytes` returned")]
    NotALock,
    #[error("the lock has format {0}, this version reads {FORMAT} and {OF_KIND}; use one version")]
    Version(u8),
    #[error(
        "the lock was damaged on its way; pass the unchanged bytes that `Lock::to_bytes` returned"
    )]
    Damaged,
}

impl Lock {
    /// Returns how much longer the lock is valid, by the clock of this machine. Returns zero if the lock is not valid.
    ///
    /// The clock also runs while the machine is suspended. For a lock of an [`Engine`](crate::engine::Engine) with
    /// another clock, use [`validity_at`](Self::validity_at).
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.validity_at(clock::now())
    }

    /// Returns `true` if the lock is valid now, by the clock of this machine.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(clock::now())
    }

    /// Returns the lock as bytes, for another process on this machine or for later use. The bytes contain the resource,
    /// the token, the time at which the lock expires, the identity of the clock that measures this time, the [lock
    /// delay](crate::Builder::lock_delay), and the nodes that have granted the lock. The bytes do not contain the limit
    /// on the number of extensions ([`extensions`](crate::LockOptions::extensions)).
    ///
    /// The bytes identify nodes by their order in the configuration, so a handle that extends the lock later needs the
    /// nodes in the same order.
    ///
    /// Detach the lock from its handle first. If the lock is [kept](crate::LockOptions::keep), its handle then stops
    /// extending it, but cannot take back an extension that is already in progress. Keep the bytes as secret as the
    /// passwords of the nodes, because a program that has the bytes can release the lock.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.end_keeping();
        encode(self, ClockIdentity::current())
    }

    /// Reads a lock from the bytes of [`Self::to_bytes`], in the same process or in another process.
    ///
    /// If the bytes were written under another clock, the validity is zero. The clock differs after a reboot, on
    /// another machine, in another time namespace, or if the system does not identify its clock. You can release a lock
    /// that another clock has measured. The lock becomes valid again with `confirm`, which reads the remaining ttl from
    /// the nodes ([`LockGuard::confirm`](crate::LockGuard::confirm) for an adopted
    /// lock, [`LocalRedlock::confirm`](crate::LocalRedlock::confirm) for any lock).
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a lock, have another format, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FromBytesError> {
        Ok(decode(bytes, ClockIdentity::current())?)
    }
}

fn encode(lock: &Lock, clock: Option<ClockIdentity>) -> Vec<u8> {
    let (names, token) = (lock.resources(), lock.token().as_bytes());
    let mut bytes = Vec::with_capacity(96 + lock.resource().len() + token.len());
    bytes.extend_from_slice(&MAGIC);
    let kind = kind_in_bytes(lock);
    bytes.push(kind.map_or(FORMAT, |_| OF_KIND));
    bytes.push(clock.is_some().into());
    bytes.extend_from_slice(&clock.map_or([0; ClockIdentity::BYTES], ClockIdentity::to_bytes));
    bytes.extend_from_slice(&lock.valid_until().as_nanos().to_be_bytes());
    bytes.extend_from_slice(&nanos(lock.ttl()).to_be_bytes());
    bytes.extend_from_slice(&lock.delay().millis().to_be_bytes());
    bytes.extend_from_slice(&lock.voters().to_bits().to_be_bytes());
    // The limits on names and tokens keep every length below `u16::MAX`.
    let len = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    bytes.extend_from_slice(&len(names.len()));
    bytes.extend_from_slice(&len(token.len()));
    for name in names {
        bytes.extend_from_slice(&len(name.len()));
        bytes.extend_from_slice(name);
    }
    bytes.extend_from_slice(token);
    bytes.extend_from_slice(&lock.fencing_token().unwrap_or(0).to_be_bytes());
    bytes.extend(kind.into_iter().flatten());
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8], clock: Option<ClockIdentity>) -> Result<Lock, Fault> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(Fault::NotALock)?;
    let lock = match rest.first() {
        Some(&(FORMAT | OF_KIND)) => decode_body(bytes, clock),
        Some(&other) => return Err(Fault::Version(other)),
        None => None,
    };
    lock.ok_or(Fault::Damaged)
}

fn decode_body(bytes: &[u8], clock: Option<ClockIdentity>) -> Option<Lock> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    if u64::from_be_bytes(*sum) != checksum(content) {
        return None;
    }
    let (content, kind) = match content.get(MAGIC.len()) {
        Some(&OF_KIND) => content
            .split_last_chunk()
            .map(|(rest, kind)| (rest, Some(*kind)))?,
        _ => (content, None),
    };
    let rest = content.get(MAGIC.len() + 1..)?;
    let (&[known], rest) = rest.split_first_chunk::<1>()?;
    let (identity, rest) = rest.split_first_chunk::<{ ClockIdentity::BYTES }>()?;
    let (until, rest) = rest.split_first_chunk::<8>()?;
    let (ttl, rest) = rest.split_first_chunk::<8>()?;
    let (added, rest) = rest.split_first_chunk::<4>()?;
    let (voters, rest) = rest.split_first_chunk::<4>()?;
    let (rest, fencing) = rest.split_last_chunk::<8>()?;
    let entry = match u64::from_be_bytes(*fencing) {
        0 => entry(rest, kind)?,
        fencing @ 1..=FENCING_TOKEN_MAX => entry(rest, kind)?.fenced(fencing),
        _ => return None,
    };
    if 1 < known {
        return None;
    }
    // An unknown clock equals no other clock, not even another unknown one.
    let same_clock = known == 1 && clock.is_some_and(|clock| clock.to_bytes() == *identity);
    let valid_until = if same_clock {
        Instant::from_nanos(u64::from_be_bytes(*until))
    } else {
        Instant::ZERO
    };
    let ttl = Duration::from_nanos(u64::from_be_bytes(*ttl));
    let delay = Delay::of_millis(u32::from_be_bytes(*added));
    Some(Lock::transferred(
        entry.delayed(delay),
        valid_until,
        ttl,
        NodeSet::from_bits(u32::from_be_bytes(*voters))?,
    ))
}

/// Returns the kind of `lock`, or `None` for an exclusive lock.
fn kind_in_bytes(lock: &Lock) -> Option<[u8; 4]> {
    let (permits, slot) = match lock.entry().kind() {
        Kind::Plain => return None,
        Kind::Shared => (0, 0),
        Kind::Permit { permits, slot } => (permits, slot),
    };
    Some((u32::from(permits) << 16 | u32::from(slot)).to_be_bytes())
}

/// Returns the resources and the token in `bytes`, if the bytes contain nothing else. `kind` is the kind of the lock,
/// or `None` for an exclusive lock.
fn entry(bytes: &[u8], kind: Option<[u8; 4]>) -> Option<Entry> {
    let (count, rest) = number(bytes)?;
    let (token_len, mut rest) = number(rest)?;
    let mut names = Vec::new();
    for _ in 0..count {
        let (len, more) = number(rest)?;
        let (name, more) = more.split_at_checked(len)?;
        names.push(name);
        rest = more;
    }
    let is_token = (TOKEN_RANDOM_BYTES..=TOKEN_BYTES_MAX).contains(&token_len);
    let fits = check_resources(&names).is_ok() && is_token && rest.len() == token_len;
    if !fits {
        return None;
    }
    let Some([p, q, s, t]) = kind else {
        return Some(Entry::of_several(Vec::new(), names.into_iter(), rest));
    };
    let [name] = names[..] else {
        return None;
    };
    match [[p, q], [s, t]].map(u16::from_be_bytes) {
        [0, 0] => Some(Entry::shared(Vec::new(), name, rest, false)),
        numbers @ [permits, slot] if slot < permits && permits <= PERMITS_MAX => {
            let mut entry = Entry::permit(Vec::new(), name, rest, numbers, false);
            entry.set_slot(slot);
            Some(entry)
        }
        _ => None,
    }
}

/// Returns the two-byte number at the front of `bytes`, and the remaining bytes.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((usize::from(u16::from_be_bytes(*number)), rest))
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo 1991).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RESOURCE_BYTES_MAX, RESOURCES_MAX};
    use proptest::prelude::*;

    /// Returns what is wrong with these invalid bytes.
    #[track_caller]
    fn fault(bytes: &[u8]) -> Fault {
        Lock::from_bytes(bytes).unwrap_err().0
    }

    fn transferred(entry: Entry, until: u64, added: u32) -> Lock {
        let (until, ttl) = (Instant::from_nanos(until), Duration::from_secs(10));
        let entry = entry.delayed(Delay::of_millis(added));
        Lock::transferred(entry, until, ttl, NodeSet::first(2))
    }

    fn lock(resource: &[u8], token: &[u8]) -> Lock {
        transferred(Entry::new(Vec::new(), resource, token), 9, 0)
    }

    fn parts(lock: &Lock) -> (&[u8], &[u8], u64) {
        assert_eq!(lock.ttl(), Duration::from_secs(10));
        assert_eq!(lock.voters(), NodeSet::first(2));
        (
            lock.resource(),
            lock.token().as_bytes(),
            lock.valid_until().as_nanos(),
        )
    }

    /// Under the same clock, a lock keeps its resources, its lock delay and its fencing token. Reading fails if the
    /// bytes are cut anywhere, or if any byte is changed.
    #[test]
    fn a_lock_comes_back_as_it_went() {
        let long = (0..RESOURCES_MAX).map(|at| [at as u8; RESOURCE_BYTES_MAX]);
        let long: Vec<_> = long.collect();
        let long: Vec<&[u8]> = long.iter().map(|name| &name[..]).collect();
        let few: [&[&[u8]]; 3] = [&[b"name"], &[b"\r\n\0 "], &[b"b", b"a"]];
        for names in few.into_iter().chain([&long[..1], &long]) {
            for token in [&[7; TOKEN_RANDOM_BYTES][..], &[0; TOKEN_BYTES_MAX]] {
                for added in [0, 1_000, u32::MAX] {
                    for number in [None, Some(1), Some(FENCING_TOKEN_MAX)] {
                        comes_back(names, token, added, number);
                    }
                }
            }
        }
    }

    fn comes_back(names: &[&[u8]], token: &[u8], added: u32, number: Option<u64>) {
        let went = of_all(names, token, added, number);
        let bytes = went.to_bytes();
        let came = Lock::from_bytes(&bytes).unwrap();
        assert!(came.is_valid());
        assert_eq!((parts(&came), came.delay()), (parts(&went), went.delay()));
        let life = Duration::from_millis(10_000 + u64::from(added));
        let came_life = came.delay().life(came.ttl());
        assert_eq!((came_life, came.fencing_token()), (life, number));
        assert!(came.resources().eq(names.iter().copied()));
        if bytes.len() < 200 {
            notices_all_changes(bytes);
        }
    }

    fn of_all(names: &[&[u8]], token: &[u8], added: u32, number: Option<u64>) -> Lock {
        let entry = Entry::of_several(Vec::new(), names.iter().copied(), token);
        let entry = match number {
            Some(number) => entry.fenced(number),
            None => entry,
        };
        transferred(entry, u64::MAX - 5, added)
    }

    fn on_several(names: &[&[u8]], added: u32) -> Lock {
        of_all(names, &[7; 20], added, None)
    }

    /// Changes one byte to any value, and cuts the bytes to any length. If the result is still a lock, its names are
    /// valid, and writing it returns the same bytes.
    #[test]
    fn bytes_of_several_resources_are_a_lock_that_could_be_or_an_error() {
        let whole = on_several(&[b"b", b"a", b"cc"], 7).to_bytes();
        let mut read = 0;
        let mut check = |mut odd: Vec<u8>| {
            reseal(&mut odd);
            if let Ok(lock) = Lock::from_bytes(&odd) {
                let names: Vec<&[u8]> = lock.resources().collect();
                assert_eq!(check_resources(&names), Ok(()));
                // Compares the bytes between the identity of the clock and the checksum.
                let (written, end) = (lock.to_bytes(), odd.len() - 8);
                assert_eq!(written.len(), odd.len());
                assert_eq!(written[38..end], odd[38..end]);
                read += 1;
            }
        };
        for place in 5..whole.len() - 8 {
            for byte in 0..=u8::MAX {
                let mut odd = whole.clone();
                odd[place] = byte;
                check(odd);
            }
        }
        for end in 8..whole.len() {
            check(whole[..end].to_vec());
        }
        assert!(1_000 < read, "{read}");
    }

    /// Checks the documented format.
    #[test]
    fn the_bytes_of_a_lock_are_these() {
        let mut bytes = b"SHLK\x05\0".to_vec();
        bytes.extend([0; ClockIdentity::BYTES]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 9]);
        bytes.extend(10_000_000_000_u64.to_be_bytes());
        bytes.extend([0, 0, 0, 4]);
        bytes.extend([0, 0, 0, 3, 0, 1, 0, 20, 0, 1]);
        bytes.push(b'a');
        bytes.extend([7; 20]);
        bytes.extend([0; 8]);
        bytes.extend([0; 8]);
        reseal(&mut bytes);
        let entry = Entry::new(Vec::new(), b"a", &[7; 20]);
        assert_eq!(encode(&transferred(entry, 9, 4), None), bytes);
        assert!(Lock::from_bytes(&bytes).is_ok());
    }

    /// The format of an exclusive lock never changes.
    #[test]
    fn a_shared_lock_and_a_permit_stay_what_they_are() {
        let shared = || Entry::shared(Vec::new(), b"a", &[7; 20], false);
        let permit = |permits, slot| {
            let mut entry = Entry::permit(Vec::new(), b"a", &[7; 20], [permits, 0], false);
            entry.set_slot(slot);
            entry
        };
        for entry in [
            shared(),
            shared().fenced(5),
            permit(1, 0),
            permit(PERMITS_MAX, PERMITS_MAX - 1).fenced(FENCING_TOKEN_MAX),
        ] {
            let went = transferred(entry, 9, 4);
            let bytes = encode(&went, None);
            assert_eq!(bytes[4], OF_KIND);
            let came = Lock::from_bytes(&bytes).unwrap();
            assert_eq!(came.entry().kind(), went.entry().kind());
            assert_eq!(came.entry(), went.entry());
            assert_eq!(came.fencing_token(), went.fencing_token());
            assert_eq!(came.entry().has_slot(), went.entry().has_slot());
            notices_all_changes(bytes);
        }
    }

    #[test]
    fn kinds_that_no_lock_has_are_refused_whatever_the_checksum() {
        let shared = Entry::shared(Vec::new(), b"a", &[7; 20], false);
        let whole = encode(&transferred(shared, 9, 4), None);
        let kind = whole.len() - 12;
        for numbers in [[0, 1], [1, 1], [2, 3], [PERMITS_MAX + 1, 0], [u16::MAX; 2]] {
            let mut odd = whole.clone();
            odd[kind..kind + 2].copy_from_slice(&numbers[0].to_be_bytes());
            odd[kind + 2..kind + 4].copy_from_slice(&numbers[1].to_be_bytes());
            reseal(&mut odd);
            assert_eq!(fault(&odd), Fault::Damaged, "{numbers:?}");
        }
        // Bytes in the format `OF_KIND` without a kind are refused.
        let mut several = on_several(&[b"b", b"a"], 0).to_bytes();
        several[4] = OF_KIND;
        let end = several.len() - 8;
        several.splice(end..end, [0; 4]);
        for mut odd in [several, lock(b"a", &[7; 20]).to_bytes()] {
            odd[4] = OF_KIND;
            reseal(&mut odd);
            assert_eq!(fault(&odd), Fault::Damaged);
        }
    }

    #[test]
    fn formats_before_this_one_are_refused() {
        let mut bytes = lock(b"a", &[7; 20]).to_bytes();
        for format in (0..=u8::MAX).filter(|format| ![FORMAT, OF_KIND].contains(format)) {
            bytes[4] = format;
            reseal(&mut bytes);
            assert_eq!(fault(&bytes), Fault::Version(format));
        }
    }

    #[test]
    fn under_another_clock_or_an_unknown_one_nothing_is_left_of_its_validity() {
        let here = ClockIdentity::current();
        assert!(here.is_some());
        let bytes = encode(&lock(b"a", &[7; 20]), here);
        let until = |bytes: &[u8], here| decode(bytes, here).unwrap().valid_until();
        assert_eq!(until(&bytes, here), Instant::from_nanos(9));
        assert_eq!(until(&bytes, None), Instant::ZERO);
        let unknown = encode(&lock(b"a", &[7; 20]), None);
        assert_eq!(until(&unknown, None), Instant::ZERO);
        assert_eq!(until(&unknown, here), Instant::ZERO);
        // Flips one bit of the boot id, then one bit of the namespace.
        for place in [6, 29] {
            let mut other = bytes.clone();
            other[place] ^= 1;
            reseal(&mut other);
            assert_eq!(until(&other, here), Instant::ZERO);
        }
    }

    fn notices_all_changes(bytes: Vec<u8>) {
        let version = bytes[4];
        for len in 0..bytes.len() {
            let error = fault(&bytes[..len]);
            assert_eq!(error == Fault::NotALock, len < 4, "{len} bytes");
            assert!(matches!(error, Fault::NotALock | Fault::Damaged));
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            let expected = match place {
                0..4 => Fault::NotALock,
                4 => Fault::Version(version ^ 0x10),
                _ => Fault::Damaged,
            };
            assert_eq!(fault(&changed), expected, "byte {place}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(fault(&longer), Fault::Damaged);
    }

    #[test]
    fn lengths_that_no_lock_has_are_refused_whatever_the_checksum() {
        for (resource, token) in [(0, 20), (1, 19), (1, TOKEN_BYTES_MAX + 1)] {
            let odd = lock(&[1; 2000][..resource], &[7; 200][..token]);
            assert_eq!(fault(&odd.to_bytes()), Fault::Damaged);
        }
        let mut long = lock(&[1; RESOURCE_BYTES_MAX], &[7; 20]).to_bytes();
        long.insert(60, 1);
        long[58..60].copy_from_slice(&(RESOURCE_BYTES_MAX as u16 + 1).to_be_bytes());
        reseal(&mut long);
        assert_eq!(fault(&long), Fault::Damaged);
    }

    fn reseal(bytes: &mut Vec<u8>) {
        bytes.truncate(bytes.len() - 8);
        let sum = checksum(bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
    }

    proptest! {
        /// If the bytes begin correctly and have a valid checksum, reading returns a lock within the limits, or an
        /// error.
        #[test]
        fn any_bytes_are_a_lock_or_an_error(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            lens in (0_u8..60, 18_u8..90),
            fencing in 0_u64..3,
            fits in any::<bool>(),
        ) {
            let _ = Lock::from_bytes(&body);
            let mut bytes = MAGIC.to_vec();
            bytes.push(FORMAT);
            bytes.extend_from_slice(&body);
            if fits {
                bytes.resize(60 + usize::from(lens.0) + usize::from(lens.1), 7);
                bytes.extend_from_slice(&fencing.to_be_bytes());
            }
            if 60 < bytes.len() {
                bytes[5] &= 1;
                bytes[50] &= 0x7f;
                bytes[54..60].copy_from_slice(&[0, 1, 0, lens.1, 0, lens.0]);
            }
            bytes.extend_from_slice(&[0; 8]);
            reseal(&mut bytes);
            if let Ok(lock) = Lock::from_bytes(&bytes) {
                prop_assert!((1..=RESOURCE_BYTES_MAX).contains(&lock.resource().len()));
                prop_assert!((20..=TOKEN_BYTES_MAX).contains(&lock.token().as_bytes().len()));
                let own = lock.resource().len() + lock.token().as_bytes().len();
                prop_assert_eq!(bytes.len(), 60 + own + 16);
            }
        }
    }
}
