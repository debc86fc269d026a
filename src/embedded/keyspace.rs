//! Keys, what they hold, and when they end.
//!
//! The maps are sorted, so that every iteration has the same order. A key is over once the clock is *past* its end, to
//! the millisecond, as in the server; the first access after that removes it. `tracking` and `watches` are notified of
//! each change of a key, including its end. None of this can be printed, because values are tokens.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::refusal::Refusal;
use super::session::Session;
use super::tracking::Tracking;
use super::watches::Watches;

/// Databases, as many as a server has by default.
pub(super) const DATABASES: u32 = 16;

/// A time on the store's clock in milliseconds. Signed, because servers calculate so.
pub(super) type Millis = i64;

#[derive(Clone, Default)]
pub(super) struct Keyspace {
    databases: BTreeMap<u32, Keys>,
}

type Keys = BTreeMap<Vec<u8>, Entry>;

/// The keys of the database that a client selected, for a command of this client.
pub(super) struct Database<'a> {
    keys: &'a mut Keys,
    tracking: &'a mut Tracking,
    watches: &'a mut Watches,
    session: &'a Session,
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
    /// A sorted set, which is not empty.
    Members(Members),
}

/// The members of a sorted set, and their scores.
#[derive(Clone, Default)]
pub(super) struct Members(BTreeMap<Vec<u8>, f64>);

impl Members {
    /// Returns the score of `member`, if it is there.
    pub(super) fn at(&self, member: &[u8]) -> Option<f64> {
        self.0.get(member).copied()
    }

    /// Returns what was there before.
    pub(super) fn put(&mut self, member: &[u8], score: f64) -> Option<f64> {
        self.0.insert(member.to_vec(), score)
    }

    /// Does the same unless the present score is higher.
    pub(super) fn raise(&mut self, member: &[u8], score: f64) {
        let old = self.at(member).unwrap_or(f64::NEG_INFINITY);
        self.put(member, old.max(score));
    }

    pub(super) fn remove(&mut self, member: &[u8]) {
        self.0.remove(member);
    }

    /// Returns all of them in the order of their scores, and of their names where these are equal.
    pub(super) fn ordered(&self) -> Vec<(&[u8], f64)> {
        let all = self.0.iter().map(|(member, score)| (&member[..], *score));
        let mut all: Vec<_> = all.collect();
        all.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        all
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Keyspace {
    pub(super) fn clear(&mut self) {
        self.databases.clear();
    }

    /// Returns `true` if there is such a key, be its time over or not.
    pub(super) fn has(&self, database: u32, key: &[u8]) -> bool {
        self.databases
            .get(&database)
            .is_some_and(|keys| keys.contains_key(key))
    }

    /// Returns `true` if there is such a key, and its time is over.
    pub(super) fn is_over(&self, database: u32, key: &[u8], now: Millis) -> bool {
        let entry = self.databases.get(&database).and_then(|keys| keys.get(key));
        entry.is_some_and(|entry| entry.is_over(now))
    }

    /// Returns the text that `key` of the first database holds, without removing anything.
    pub(super) fn peek(&self, key: &[u8], now: Millis) -> Option<&[u8]> {
        let entry = self.databases.get(&0)?.get(key)?;
        match &entry.value {
            Value::Text(text) if !entry.is_over(now) => Some(text),
            Value::Text(_) | Value::List(_) | Value::Members(_) => None,
        }
    }

    /// Does the same for the members of a sorted set, and returns their deadlines.
    pub(super) fn peek_members(&self, key: &[u8], now: Millis) -> Vec<(&[u8], f64)> {
        let entry = self.databases.get(&0).and_then(|keys| keys.get(key));
        match entry.map(|entry| (&entry.value, entry.is_over(now))) {
            Some((Value::Members(members), false)) => members.ordered(),
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns how many keys there are in all databases.
    pub(super) fn len(&self, now: Millis) -> usize {
        let databases = self.databases.values();
        databases.map(|keys| len(keys, now)).sum()
    }

    /// Removes every key whose time is over.
    pub(super) fn expire(&mut self, now: Millis, tracking: &mut Tracking, watches: &mut Watches) {
        for (database, keys) in &mut self.databases {
            keys.retain(|key, entry| {
                let over = entry.is_over(now);
                if over {
                    tracking.changed(key, None);
                    watches.changed(*database, key, false);
                }
                !over
            });
        }
    }
}

impl<'a> Database<'a> {
    pub(super) fn new(
        keyspace: &'a mut Keyspace,
        tracking: &'a mut Tracking,
        watches: &'a mut Watches,
        session: &'a Session,
    ) -> Self {
        Self {
            keys: keyspace.databases.entry(session.database).or_default(),
            tracking,
            watches,
            session,
        }
    }

    /// Registers the key for a push, if the client asked for that. Each command that only reads
    /// does so with its keys, when it has read them: a key whose time is over changes before.
    pub(super) fn register(&mut self, key: &[u8]) {
        if self.session.caching {
            self.tracking.register(key, self.session.id);
        }
    }

    pub(super) fn entry(&mut self, key: &[u8], now: Millis) -> Option<&Entry> {
        if self.keys.get(key)?.is_over(now) {
            self.keys.remove(key);
            self.changed(key);
        }
        self.keys.get(key)
    }

    /// Returns the text that `key` holds.
    pub(super) fn text(&mut self, key: &[u8], now: Millis) -> Result<Option<&[u8]>, Refusal> {
        match self.entry(key, now).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::List(_) | Value::Members(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    /// Returns the members that `key` holds.
    pub(super) fn members(&mut self, key: &[u8], now: Millis) -> Result<Members, Refusal> {
        match self.entry(key, now).map(|entry| &entry.value) {
            None => Ok(Members::default()),
            Some(Value::Members(members)) => Ok(members.clone()),
            Some(Value::Text(_) | Value::List(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        match &entry.value {
            Value::Members(members) if members.is_empty() => drop(self.keys.remove(key)),
            Value::Text(_) | Value::List(_) | Value::Members(_) => {
                self.keys.insert(key.to_vec(), entry);
            }
        }
        self.changed(key);
    }

    /// Sets what `key` holds until a time that may be over: then a server removes it when it is next
    /// read, or `at_once`.
    pub(super) fn insert_until(&mut self, key: &[u8], now: Millis, entry: Entry, at_once: bool) {
        match at_once && entry.is_over(now) {
            true => drop(self.remove(key, now)),
            false => self.insert(key, entry),
        }
    }

    /// Sets when `key`, which is there, ends. An end that is not in the future removes it.
    pub(super) fn set_end(&mut self, key: &[u8], now: Millis, end: Millis) {
        match self.keys.get_mut(key) {
            Some(entry) if now < end => entry.end = Some(end),
            Some(_) | None => drop(self.keys.remove(key)),
        }
        self.changed(key);
    }

    /// Returns `true` if there was such a key.
    pub(super) fn remove(&mut self, key: &[u8], now: Millis) -> bool {
        let there = self.entry(key, now).is_some();
        if there {
            self.keys.remove(key);
            self.changed(key);
        }
        there
    }

    pub(super) fn clear(&mut self) {
        let (keys, number) = (&*self.keys, self.session.database);
        self.watches
            .flushed(|database, key| database == number && keys.contains_key(key));
        self.keys.clear();
        self.tracking.flushed();
    }

    pub(super) fn len(&self, now: Millis) -> usize {
        len(self.keys, now)
    }

    /// Returns how many keys begin with `prefix`.
    pub(super) fn count(&self, prefix: &[u8], now: Millis) -> i64 {
        let keys = self.keys.range(prefix.to_vec()..);
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        keys.filter(|(_, entry)| !entry.is_over(now)).count() as i64
    }

    fn changed(&mut self, key: &[u8]) {
        let there = self.keys.contains_key(key);
        self.tracking.changed(key, Some(self.session.id));
        self.watches.changed(self.session.database, key, there);
    }
}

fn len(keys: &Keys, now: Millis) -> usize {
    keys.values().filter(|entry| !entry.is_over(now)).count()
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
