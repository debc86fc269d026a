//! Keys, what they hold, and when they end.
//!
//! Sorted maps, so that every iteration has the same order. A key is over once the clock is *past*
//! its end, to the millisecond, as in the server; the first access after that removes it. None of
//! this can be printed: values are tokens.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::refusal::Refusal;

/// Databases, as many as a server has by default.
pub(super) const DATABASES: u32 = 16;

/// A time on the store's clock in milliseconds. Signed, because servers calculate so.
pub(super) type Millis = i64;

#[derive(Clone, Default)]
pub(super) struct Keyspace {
    databases: BTreeMap<u32, Database>,
}

/// The keys of one database.
#[derive(Clone, Default)]
pub(super) struct Database {
    keys: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// `None`: it never ends by itself.
    pub(super) end: Option<Millis>,
}

/// What a key holds. Lists exist only so that there is a wrong type.
#[derive(Clone)]
pub(super) enum Value {
    Text(Vec<u8>),
    /// That many elements.
    List(u64),
}

impl Keyspace {
    pub(super) fn database(&mut self, number: u32) -> &mut Database {
        self.databases.entry(number).or_default()
    }

    pub(super) fn clear(&mut self) {
        self.databases.clear();
    }

    /// Returns the text that `key` of the first database holds, without removing anything.
    pub(super) fn peek(&self, key: &[u8], now: Millis) -> Option<&[u8]> {
        let entry = self.databases.get(&0)?.keys.get(key)?;
        match &entry.value {
            Value::Text(text) if !entry.is_over(now) => Some(text),
            Value::Text(_) | Value::List(_) => None,
        }
    }

    /// Returns how many keys there are in all databases.
    pub(super) fn len(&self, now: Millis) -> usize {
        let databases = self.databases.values();
        databases.map(|database| database.len(now)).sum()
    }
}

impl Database {
    pub(super) fn entry(&mut self, key: &[u8], now: Millis) -> Option<&mut Entry> {
        if self.keys.get(key)?.is_over(now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    /// Returns the text that `key` holds.
    pub(super) fn text(&mut self, key: &[u8], now: Millis) -> Result<Option<&[u8]>, Refusal> {
        match self.entry(key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::List(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        self.keys.insert(key.to_vec(), entry);
    }

    /// Returns `true` if there was such a key.
    pub(super) fn remove(&mut self, key: &[u8], now: Millis) -> bool {
        self.entry(key, now).is_some() && self.keys.remove(key).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }

    pub(super) fn len(&self, now: Millis) -> usize {
        let entries = self.keys.values();
        entries.filter(|entry| !entry.is_over(now)).count()
    }
}

impl Entry {
    /// Milliseconds that are left; -1 if it never ends.
    pub(super) fn pttl(&self, now: Millis) -> i64 {
        self.end.map_or(-1, |end| end.saturating_sub(now).max(0))
    }

    fn is_over(&self, now: Millis) -> bool {
        self.end.is_some_and(|end| end < now)
    }
}
