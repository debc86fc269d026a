//! A command that the node is executing: its steps on keys, and the values that many commands read or return.
//!
//! The first access to an expired key removes it. Each change of a key causes pushes and affects watches, and so does
//! the removal of an expired key.

use crate::time::Instant;

use super::keyspace::{Entry, Keys, Members, Millis, Value};
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::Session;
use super::store::Store;

/// A command that the node is executing. For a script, the keys are separate from the other arguments.
pub(super) struct Call<'a> {
    pub(super) store: &'a mut Store,
    pub(super) session: &'a mut Session,
    /// The keys of a script.
    pub(super) keys: Words<'a>,
    /// The name and the arguments of a command, or the arguments of a script. The number of words was already checked.
    pub(super) words: Words<'a>,
    pub(super) now: Millis,
    /// The current time by the caller's clock.
    pub(super) at: Instant,
}

pub(super) type Words<'a> = &'a [&'a [u8]];

impl<'a> Call<'a> {
    pub(super) fn new(
        store: &'a mut Store,
        session: &'a mut Session,
        now: Instant,
        words: Words<'a>,
    ) -> Self {
        Self {
            now: store.millis(now),
            at: now,
            store,
            session,
            keys: &[],
            words,
        }
    }

    /// Returns a call with other keys and words, for a script or a queued command that this command runs.
    pub(super) fn within<'b>(&'b mut self, keys: Words<'b>, words: Words<'b>) -> Call<'b> {
        Call {
            store: &mut *self.store,
            session: &mut *self.session,
            keys,
            words,
            ..*self
        }
    }

    /// Returns the words from the index `first` on.
    pub(super) fn words_from(&self, first: usize) -> Words<'a> {
        self.words.get(first..).unwrap_or_default()
    }
}

/// The steps of commands work on the database that the client has selected.
impl Call<'_> {
    fn database(&mut self) -> &mut Keys {
        let databases = &mut self.store.databases;
        databases.entry(self.session.database).or_default()
    }

    /// If the client asked for a push, registers `key`, which a command has read. Redis registers all keys of a script.
    /// Commands that only read register their keys after reading, because reading an expired key first removes the key.
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

    /// Runs `GET` on `key`.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        self.entry(key);
        self.register(key);
        self.text(key)
    }

    /// Runs `PTTL` on `key`. Returns `None` if the key does not exist.
    pub(super) fn pttl(&mut self, key: &[u8]) -> Option<i64> {
        let left = self.left(key);
        self.register(key);
        left
    }

    /// Returns the members of `key` for a command that only reads them.
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

    /// Returns the remaining milliseconds of `key`: -1 if the key never expires, or `None` if the key does not exist.
    pub(super) fn left(&mut self, key: &[u8]) -> Option<i64> {
        let now = self.now;
        let end = self.entry(key)?.end;
        Some(end.map_or(-1, |end| end.saturating_sub(now).max(0)))
    }

    /// Sets the text of `key` and its expiry. If the expiry has passed, Valkey removes the key immediately, and Redis
    /// removes the key at the next access.
    pub(super) fn insert(&mut self, key: &[u8], text: &[u8], end: Option<Millis>) {
        if self.store.flavour.is_valkey() && end.is_some_and(|end| end < self.now) {
            self.remove(key);
            return;
        }
        let value = Value::Text(text.to_vec());
        self.database().insert(key.to_vec(), Entry { value, end });
        self.changed(key);
    }

    /// Replaces the members of `key`, and keeps the expiry.
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

    /// Sets the expiry of `key`, which must exist. If the expiry is not in the future, removes the key.
    pub(super) fn set_end(&mut self, key: &[u8], end: Millis) {
        let now = self.now;
        match self.database().get_mut(key) {
            Some(entry) if now < end => entry.end = Some(end),
            Some(_) | None => drop(self.database().remove(key)),
        }
        self.changed(key);
    }

    /// Returns `true` if the key existed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.entry(key).is_some();
        if there {
            self.database().remove(key);
            self.changed(key);
        }
        there
    }

    /// Returns the keys that begin with `prefix`, with their values.
    pub(super) fn beginning<'s>(
        &'s mut self,
        prefix: &'s [u8],
    ) -> impl Iterator<Item = (&'s [u8], &'s Value)> {
        let now = self.now;
        let keys = self.database().range(prefix.to_vec()..);
        keys.take_while(|(key, _)| key.starts_with(prefix))
            .filter(move |(_, entry)| !entry.is_over(now))
            .map(|(key, entry)| (&**key, &entry.value))
    }

    fn changed(&mut self, key: &[u8]) {
        self.store.tracking.changed(key, Some(self.session.id));
        let selected = self.session.database;
        let watches = &mut self.store.watches;
        watches.changed(|database, other| (database, other) == (selected, key));
    }
}

pub(super) fn ok() -> Reply {
    Reply::Simple("OK")
}

/// Parses an integer without `+`, leading zeros and spaces.
pub(super) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    let number = core::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(number) if crate::resp::Decimal::from(number).as_bytes() == text => Ok(number),
        Some(_) | None => Err(Refusal::NOT_AN_INTEGER),
    }
}
