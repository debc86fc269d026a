//! A lock as bytes, for another process; and its validity by the clock of this machine.
//!
//! ```text
//! "SHLK"  version  clock known  clock identity  valid until  ttl  voters  lengths  resource, token  checksum
//!  4       1        1            24              8            8    4       2 + 2    ..               8
//! ```
//!
//! The voters are the nodes that the lock stands on, a bit for each by its place in the
//! configuration. Numbers are big-endian, times in nanoseconds. The checksum (FNV-1a) finds bytes that
//! were cut or changed by accident; it does not stop a forger. A program that has the bytes can release
//! the lock.

use alloc::vec::Vec;
use core::time::Duration;

use super::clock::{self, ClockIdentity};
use crate::entry::Entry;
use crate::limits::{RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES};
use crate::quorum::{Lock, NodeSet};
use crate::time::{Instant, nanos};

const MAGIC: [u8; 4] = *b"SHLK";
const VERSION: u8 = 1;

/// Why bytes are no lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FromBytesError {
    /// They do not begin as a lock does.
    #[error("these bytes are no lock; pass on what `Lock::to_bytes` gave, unchanged")]
    NotALock,
    /// Another version of this library wrote them, in a format that this one does not know.
    #[error("the lock has format {0}, this version reads format {VERSION}; use one version")]
    Version(u8),
    /// There are too few or too many bytes, or some were changed.
    #[error("the lock was damaged on its way; pass on what `Lock::to_bytes` gave, unchanged")]
    Damaged,
}

impl Lock {
    /// Returns how much longer the lock is valid, by the clock of this machine; zero if it is not.
    ///
    /// The clock also runs while the machine is suspended. For a lock of an
    /// [`Engine`](crate::engine::Engine) with a clock of its own use
    /// [`validity_at`](Self::validity_at).
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.validity_at(clock::now())
    }

    /// Returns `true` if the lock is valid now, by the clock of this machine.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(clock::now())
    }

    /// Returns the lock as bytes, for another process on this machine or for later: its resource, its
    /// token, its end with the clock that it was read from, and the nodes that it stands on. A limit of
    /// extensions is not part of them.
    ///
    /// Nodes are named by their places: a handle that extends the lock later needs them in the same
    /// order.
    ///
    /// Detach the lock from its handle first. A program that has the bytes can release the lock: keep
    /// them as secret as the access to the nodes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.end_keeping();
        encode(self, ClockIdentity::current())
    }

    /// Reads a lock from the bytes of [`Self::to_bytes`], here or in another process.
    ///
    /// Under another clock than it was written under (after a boot, on another machine, in another time
    /// namespace, or if the system does not identify its clock) its validity is zero. It can be
    /// released, and is valid again when `confirm` has found how long its keys still live
    /// ([`LockGuard::confirm`](crate::LockGuard::confirm) of a lock that was adopted,
    /// [`LocalRedlock::confirm`](crate::LocalRedlock::confirm) of any).
    ///
    /// # Errors
    ///
    /// The bytes are no lock, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FromBytesError> {
        decode(bytes, ClockIdentity::current())
    }
}

fn encode(lock: &Lock, clock: Option<ClockIdentity>) -> Vec<u8> {
    let (resource, token) = (lock.resource(), lock.token().as_bytes());
    let mut bytes = Vec::with_capacity(76 + resource.len() + token.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.push(VERSION);
    bytes.push(clock.is_some().into());
    bytes.extend_from_slice(&clock.map_or([0; ClockIdentity::BYTES], ClockIdentity::to_bytes));
    bytes.extend_from_slice(&lock.valid_until().as_nanos().to_be_bytes());
    bytes.extend_from_slice(&nanos(lock.ttl()).to_be_bytes());
    bytes.extend_from_slice(&lock.voters().to_bits().to_be_bytes());
    for part in [resource, token] {
        // Both are shorter than this by the limits.
        let len = u16::try_from(part.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
    }
    bytes.extend_from_slice(resource);
    bytes.extend_from_slice(token);
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8], clock: Option<ClockIdentity>) -> Result<Lock, FromBytesError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(FromBytesError::NotALock)?;
    match rest.first() {
        Some(&VERSION) => {}
        Some(&other) => return Err(FromBytesError::Version(other)),
        None => return Err(FromBytesError::Damaged),
    }
    decode_body(bytes, clock).ok_or(FromBytesError::Damaged)
}

fn decode_body(bytes: &[u8], clock: Option<ClockIdentity>) -> Option<Lock> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    if u64::from_be_bytes(*sum) != checksum(content) {
        return None;
    }
    let rest = content.get(MAGIC.len() + 1..)?;
    let (&[known], rest) = rest.split_first_chunk::<1>()?;
    let (identity, rest) = rest.split_first_chunk::<{ ClockIdentity::BYTES }>()?;
    let (until, rest) = rest.split_first_chunk::<8>()?;
    let (ttl, rest) = rest.split_first_chunk::<8>()?;
    let (voters, rest) = rest.split_first_chunk::<4>()?;
    let (resource_len, rest) = rest.split_first_chunk::<2>()?;
    let (token_len, rest) = rest.split_first_chunk::<2>()?;
    let resource_len = usize::from(u16::from_be_bytes(*resource_len));
    let token_len = usize::from(u16::from_be_bytes(*token_len));
    if !(1..=RESOURCE_BYTES_MAX).contains(&resource_len)
        || !(TOKEN_RANDOM_BYTES..=TOKEN_BYTES_MAX).contains(&token_len)
        || rest.len() != resource_len + token_len
        || 1 < known
    {
        return None;
    }
    let (resource, token) = rest.split_at(resource_len);
    // An unknown clock is no clock's equal, not even another unknown one's.
    let same_clock = known == 1 && clock.is_some_and(|clock| clock.to_bytes() == *identity);
    let valid_until = if same_clock {
        Instant::from_nanos(u64::from_be_bytes(*until))
    } else {
        Instant::ZERO
    };
    Some(Lock::transferred(
        Entry::new(Vec::new(), resource, token),
        valid_until,
        Duration::from_nanos(u64::from_be_bytes(*ttl)),
        NodeSet::from_bits(u32::from_be_bytes(*voters))?,
    ))
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
    use proptest::prelude::*;

    fn lock(resource: &[u8], token: &[u8], until: u64) -> Lock {
        Lock::transferred(
            Entry::new(Vec::new(), resource, token),
            Instant::from_nanos(until),
            Duration::from_secs(10),
            NodeSet::first(2),
        )
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

    #[test]
    fn a_lock_comes_back_under_the_same_clock_as_it_went() {
        let long = [b'\n'; RESOURCE_BYTES_MAX];
        for resource in [&b"a"[..], b"\r\n\0 ", &long] {
            for token in [&[7; TOKEN_RANDOM_BYTES][..], &[0; TOKEN_BYTES_MAX]] {
                let went = lock(resource, token, u64::MAX - 5);
                let came = Lock::from_bytes(&went.to_bytes()).unwrap();
                assert_eq!(parts(&came), parts(&went));
                assert!(came.is_valid());
            }
        }
    }

    #[test]
    fn under_another_clock_or_an_unknown_one_nothing_is_left_of_its_validity() {
        let here = ClockIdentity::current();
        assert!(here.is_some());
        let bytes = encode(&lock(b"a", &[7; 20], 9), here);
        assert_eq!(
            decode(&bytes, here).unwrap().valid_until(),
            Instant::from_nanos(9)
        );
        assert_eq!(decode(&bytes, None).unwrap().valid_until(), Instant::ZERO);
        let unknown = encode(&lock(b"a", &[7; 20], 9), None);
        assert_eq!(decode(&unknown, None).unwrap().valid_until(), Instant::ZERO);
        assert_eq!(decode(&unknown, here).unwrap().valid_until(), Instant::ZERO);
        // The same, but for one bit of the boot id or the namespace.
        for place in [6, 29] {
            let mut other = bytes.clone();
            other[place] ^= 1;
            reseal(&mut other);
            assert_eq!(decode(&other, here).unwrap().valid_until(), Instant::ZERO);
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = lock(b"name", &[7; 20], 9).to_bytes();
        for len in 0..bytes.len() {
            let error = Lock::from_bytes(&bytes[..len]).unwrap_err();
            let expected = if len < 4 {
                FromBytesError::NotALock
            } else {
                FromBytesError::Damaged
            };
            assert_eq!(error, expected, "{len} bytes");
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            let expected = match place {
                0..4 => FromBytesError::NotALock,
                4 => FromBytesError::Version(VERSION ^ 0x10),
                _ => FromBytesError::Damaged,
            };
            assert_eq!(
                Lock::from_bytes(&changed).unwrap_err(),
                expected,
                "byte {place}"
            );
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(
            Lock::from_bytes(&longer).unwrap_err(),
            FromBytesError::Damaged
        );
    }

    #[test]
    fn lengths_that_no_lock_has_are_refused_whatever_the_checksum() {
        for (resource, token) in [(0, 20), (1, 19), (1, TOKEN_BYTES_MAX + 1)] {
            let odd = lock(&[1; 2000][..resource], &[7; 200][..token], 9);
            assert_eq!(
                Lock::from_bytes(&odd.to_bytes()).unwrap_err(),
                FromBytesError::Damaged
            );
        }
        let mut long = lock(&[1; RESOURCE_BYTES_MAX], &[7; 20], 9).to_bytes();
        long.insert(54, 1);
        long[42..44].copy_from_slice(&(RESOURCE_BYTES_MAX as u16 + 1).to_be_bytes());
        reseal(&mut long);
        assert_eq!(
            Lock::from_bytes(&long).unwrap_err(),
            FromBytesError::Damaged
        );
    }

    fn reseal(bytes: &mut Vec<u8>) {
        bytes.truncate(bytes.len() - 8);
        let sum = checksum(bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
    }

    proptest! {
        /// Any bytes behind a right beginning and in front of a right checksum are a lock within
        /// the limits, or an error.
        #[test]
        fn any_bytes_are_a_lock_or_an_error(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            lens in any::<(u8, u8)>(),
        ) {
            let _ = Lock::from_bytes(&body);
            let mut bytes = MAGIC.to_vec();
            bytes.push(VERSION);
            bytes.extend_from_slice(&body);
            if 49 < bytes.len() {
                bytes[5] &= 1;
                bytes[38] &= 0x7f;
                bytes[42..46].copy_from_slice(&[0, lens.0, 0, lens.1]);
            }
            bytes.extend_from_slice(&[0; 8]);
            reseal(&mut bytes);
            if let Ok(lock) = Lock::from_bytes(&bytes) {
                prop_assert!((1..=RESOURCE_BYTES_MAX).contains(&lock.resource().len()));
                prop_assert!((20..=TOKEN_BYTES_MAX).contains(&lock.token().len()));
                prop_assert_eq!(bytes.len(), 54 + lock.resource().len() + lock.token().len());
            }
        }
    }
}
