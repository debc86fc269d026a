//! Keys, their values, and their expiry.
//!
//! The maps are sorted, so that every iteration has the same order. A key is over once the clock is *past* its end, to
//! the millisecond, as in the server; the first access after that removes it. `tracking` and `watches` are notified of
//! each change of a key, including its end. These types have no `Debug`, because values are tokens.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::flavour::Flavour;
use super::refusal::Refusal;
use super::session::Session;
use super::tracking::Tracking;
use super::watches::Watches;

/// The number of databases, which a server has by default.
pub(super) const DATABASES: u32 = 16;

/// A time on the store's clock in milliseconds. It is signed, as in servers.
pub(super) type Millis = i64;

#[derive(Clone, Default)]
pub(super) struct Keyspace {
    pub(super) databases: BTreeMap<u32, Keys>,
}

pub(super) type Keys = BTreeMap<Vec<u8>, Entry>;

/// The keys of the database that a client selected, for a command of this client.
pub(super) struct Database<'a> {
    pub(super) keys: &'a mut Keys,
    pub(super) tracking: &'a mut Tracking,
    pub(super) watches: &'a mut Watches,
    pub(super) session: &'a Session,
    pub(super) flavour: Flavour,
    pub(super) now: Millis,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// `None` if it never ends by itself.
    pub(super) end: Option<Millis>,
}

/// The value of a key.
#[derive(Clone)]
pub(super) enum Value {
    Text(Vec<u8>),
    /// A sorted set, which is not empty.
    Members(Members),
}

/// The members of a sorted set and their scores. They are sorted by score, and members with equal scores by their
/// bytes.
#[derive(Clone, Default)]
pub(super) struct Members(pub(super) Vec<(Vec<u8>, f64)>);

impl Members {
    /// Returns the score of `member`, if it is there.
    pub(super) fn at(&self, member: &[u8]) -> Option<f64> {
        let mut all = self.0.iter();
        all.find(|(other, _)| other == member)
            .map(|(_, score)| *score)
    }

    /// Sets the score of `member`. Returns the score that it had before.
    pub(super) fn put(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        let place = self.0.partition_point(|(other, at)| {
            let order = at.total_cmp(&score);
            order.then_with(|| other.as_slice().cmp(member)).is_lt()
        });
        self.0.insert(place, (member.to_vec(), score));
        old
    }

    /// Sets the score of `member`, unless the present score is higher.
    pub(super) fn raise(&mut self, member: &[u8], score: f64) {
        let old = self.at(member).unwrap_or(f64::NEG_INFINITY);
        self.put(member, old.max(score));
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = self.0.iter().position(|(other, _)| other == member)?;
        Some(self.0.remove(place).1)
    }
}

impl Keyspace {
    /// Returns `true` if there is such a key, even if its time is over.
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
            Value::Text(_) | Value::Members(_) => None,
        }
    }

    /// Does the same for the members of a sorted set, and returns their deadlines.
    pub(super) fn peek_members(&self, key: &[u8], now: Millis) -> &[(Vec<u8>, f64)] {
        let entry = self.databases.get(&0).and_then(|keys| keys.get(key));
        match entry.map(|entry| (&entry.value, entry.is_over(now))) {
            Some((Value::Members(members), false)) => &members.0,
            Some(_) | None => &[],
        }
    }

    /// Returns how many keys there are in all databases.
    #[cfg(test)]
    pub(super) fn len(&self, now: Millis) -> usize {
        let entries = self.databases.values().flat_map(Keys::values);
        entries.filter(|entry| !entry.is_over(now)).count()
    }

    /// Removes every key whose time is over.
    pub(super) fn expire(&mut self, now: Millis, tracking: &mut Tracking, watches: &mut Watches) {
        for (database, keys) in &mut self.databases {
            keys.retain(|key, entry| {
                let over = entry.is_over(now);
                if over {
                    tracking.changed(key, None);
                    watches.changed(*database, key);
                }
                !over
            });
        }
    }
}

impl Database<'_> {
    /// Registers the key for a push, if the client asked for one. Each command that only reads does this with its keys
    /// after it has read them: a key whose time is over changes before that.
    pub(super) fn register(&mut self, key: &[u8]) {
        if self.session.caching {
            self.tracking.register(key, self.session.id);
        }
    }

    pub(super) fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        if self.keys.get(key)?.is_over(self.now) {
            self.keys.remove(key);
            self.changed(key);
        }
        self.keys.get(key)
    }

    /// Returns the text that `key` holds.
    pub(super) fn text(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Members(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    /// Returns the members that `key` holds.
    pub(super) fn members(&mut self, key: &[u8]) -> Result<Members, Refusal> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(Members::default()),
            Some(Value::Members(members)) => Ok(members.clone()),
            Some(Value::Text(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    /// Returns for how many more milliseconds `key` lives: -1 if it never ends, `None` if it does not exist.
    pub(super) fn left(&mut self, key: &[u8]) -> Option<i64> {
        let now = self.now;
        let end = self.entry(key)?.end;
        Some(end.map_or(-1, |end| end.saturating_sub(now).max(0)))
    }

    /// Sets the text of `key` and its end. If the end has passed, Valkey removes the key at once, and Redis when it is
    /// next read.
    pub(super) fn insert(&mut self, key: &[u8], text: &[u8], end: Option<Millis>) {
        if self.flavour.is_valkey() && end.is_some_and(|end| end < self.now) {
            self.remove(key);
            return;
        }
        let value = Value::Text(text.to_vec());
        self.keys.insert(key.to_vec(), Entry { value, end });
        self.changed(key);
    }

    /// Replaces the members of `key`. Its end stays.
    pub(super) fn insert_members(&mut self, key: &[u8], members: Members) {
        let end = self.entry(key).and_then(|entry| entry.end);
        if members.0.is_empty() {
            self.keys.remove(key);
        } else {
            let value = Value::Members(members);
            self.keys.insert(key.to_vec(), Entry { value, end });
        }
        self.changed(key);
    }

    /// Sets the end of `key`, which exists. An end that is not in the future removes it.
    pub(super) fn set_end(&mut self, key: &[u8], end: Millis) {
        match self.keys.get_mut(key) {
            Some(entry) if self.now < end => entry.end = Some(end),
            Some(_) | None => drop(self.keys.remove(key)),
        }
        self.changed(key);
    }

    /// Returns `true` if there was such a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.entry(key).is_some();
        if there {
            self.keys.remove(key);
            self.changed(key);
        }
        there
    }

    /// Returns how many keys begin with `prefix`.
    pub(super) fn count(&self, prefix: &[u8]) -> i64 {
        let keys = self.keys.range(prefix.to_vec()..);
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        keys.filter(|(_, entry)| !entry.is_over(self.now)).count() as i64
    }

    fn changed(&mut self, key: &[u8]) {
        self.tracking.changed(key, Some(self.session.id));
        self.watches.changed(self.session.database, key);
    }
}

impl Entry {
    fn is_over(&self, now: Millis) -> bool {
        self.end.is_some_and(|end| end < now)
    }
}
