//! Keys, their values, and their expiry.
//!
//! The maps are sorted, so that every iteration has the same order. A key is over once the clock is *past* its end, to
//! the millisecond, as in the server; the first access after that removes it. `tracking` and `watches` are notified of
//! each change of a key, including its end. These types have no `Debug`, because values are tokens.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::call::Call;
use super::refusal::Refusal;

/// The number of databases, which a server has by default.
pub(super) const DATABASES: u32 = 16;

/// A time on the store's clock in milliseconds. It is signed, as in servers.
pub(super) type Millis = i64;

pub(super) type Keys = BTreeMap<Vec<u8>, Entry>;

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

/// Steps of commands: they work on the database that the client has selected.
impl Call<'_> {
    fn database(&mut self) -> &mut Keys {
        let databases = &mut self.store.databases;
        databases.entry(self.session.database).or_default()
    }

    /// Registers a key that was read for a push, if the client asked for one. Redis then registers all keys of a
    /// script. Each command that only reads does this with its keys after it has read them: a key whose time is over
    /// changes before that.
    pub(super) fn register(&mut self, key: &[u8]) {
        let together = match self.store.flavour.is_valkey() || self.keys.is_empty() {
            true => &[key],
            false => self.keys,
        };
        for key in together.iter().filter(|_| self.session.caching) {
            self.store.tracking.register(key, self.session.id);
        }
    }

    pub(super) fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        let now = self.now;
        if self.database().get(key)?.is_over(now) {
            self.database().remove(key);
            self.changed(key);
        }
        self.database().get(key)
    }

    /// Returns the text that `key` holds.
    pub(super) fn text(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Members(_)) => Err(Refusal::WRONG_TYPE),
        }
    }

    /// Does what `GET` does.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        self.entry(key);
        self.register(key);
        self.text(key)
    }

    /// Does what `PTTL` does, except for a key that does not exist.
    pub(super) fn pttl(&mut self, key: &[u8]) -> Option<i64> {
        let left = self.left(key);
        self.register(key);
        left
    }

    /// Does what a command does that only reads the members of `key`.
    pub(super) fn read_members(&mut self, key: &[u8]) -> Result<Members, Refusal> {
        let members = self.members(key);
        self.register(key);
        members
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
        if self.store.flavour.is_valkey() && end.is_some_and(|end| end < self.now) {
            self.remove(key);
            return;
        }
        let value = Value::Text(text.to_vec());
        self.database().insert(key.to_vec(), Entry { value, end });
        self.changed(key);
    }

    /// Replaces the members of `key`. Its end stays.
    pub(super) fn insert_members(&mut self, key: &[u8], members: Members) {
        let end = self.entry(key).and_then(|entry| entry.end);
        if members.0.is_empty() {
            self.database().remove(key);
        } else {
            let value = Value::Members(members);
            self.database().insert(key.to_vec(), Entry { value, end });
        }
        self.changed(key);
    }

    /// Sets the end of `key`, which exists. An end that is not in the future removes it.
    pub(super) fn set_end(&mut self, key: &[u8], end: Millis) {
        let now = self.now;
        match self.database().get_mut(key) {
            Some(entry) if now < end => entry.end = Some(end),
            Some(_) | None => drop(self.database().remove(key)),
        }
        self.changed(key);
    }

    /// Returns `true` if there was such a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.entry(key).is_some();
        if there {
            self.database().remove(key);
            self.changed(key);
        }
        there
    }

    /// Returns how many keys begin with `prefix`.
    pub(super) fn count(&mut self, prefix: &[u8]) -> i64 {
        let now = self.now;
        let keys = self.database().range(prefix.to_vec()..);
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        keys.filter(|(_, entry)| !entry.is_over(now)).count() as i64
    }

    fn changed(&mut self, key: &[u8]) {
        self.store.tracking.changed(key, Some(self.session.id));
        let selected = self.session.database;
        let watches = &mut self.store.watches;
        watches.changed(|database, other| (database, other) == (selected, key));
    }
}

impl Entry {
    pub(super) fn is_over(&self, now: Millis) -> bool {
        self.end.is_some_and(|end| end < now)
    }
}
