//! Keys, their values, and their expiry.
//!
//! The maps are sorted, so that every iteration has the same order. As in a server, a key has expired when the clock
//! is *past* its expiry, in whole milliseconds. These types do not implement `Debug`, because values are tokens, which
//! must not be printed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The number of databases, the same as a server's default.
pub(super) const DATABASES: u32 = 16;

/// A time on the store's clock, in milliseconds. The number is signed, as in servers.
pub(super) type Millis = i64;

pub(super) type Keys = BTreeMap<Vec<u8>, Entry>;

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// The expiry of the key, or `None` if the key never expires.
    pub(super) end: Option<Millis>,
}

/// The value of a key.
#[derive(Clone)]
pub(super) enum Value {
    Text(Vec<u8>),
    /// A sorted set, which is not empty.
    Members(Members),
}

/// The members of a sorted set with their scores, sorted by score. Members with equal scores are sorted by their bytes.
#[derive(Clone, Default)]
pub(super) struct Members(pub(super) Vec<(Vec<u8>, f64)>);

impl Members {
    /// Returns the score of `member`, if the set contains it.
    pub(super) fn at(&self, member: &[u8]) -> Option<f64> {
        let mut all = self.0.iter();
        all.find(|(other, _)| other == member)
            .map(|(_, score)| *score)
    }

    /// Sets the score of `member`. Returns the previous score of `member`.
    pub(super) fn put(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        let place = self.0.partition_point(|(other, at)| {
            let order = at.total_cmp(&score);
            order.then_with(|| other.as_slice().cmp(member)).is_lt()
        });
        self.0.insert(place, (member.to_vec(), score));
        old
    }

    /// Sets the score of `member`, unless the current score is higher.
    pub(super) fn raise(&mut self, member: &[u8], score: f64) {
        let old = self.at(member).unwrap_or(f64::NEG_INFINITY);
        self.put(member, old.max(score));
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = self.0.iter().position(|(other, _)| other == member)?;
        Some(self.0.remove(place).1)
    }
}

impl Entry {
    pub(super) fn is_over(&self, now: Millis) -> bool {
        self.end.is_some_and(|end| end < now)
    }
}
