//! A script that is being run: its keys and arguments, and the steps that several scripts have in common.

use crate::embedded::keyspace::{Database, Members};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::embedded::strings::{expiry, set_in};

use super::number::lua_number;

pub(super) const NO_KEY: Refusal =
    Refusal::fixed("ERR Lua redis lib command arguments must be strings or integers");
pub(super) const NO_NUMBER: Refusal =
    Refusal::fixed("ERR user_script:1: attempt to compare number with nil");

pub(super) type Words<'a> = &'a [&'a [u8]];

/// See the [module](self). Each step does the same as the Lua in its place, in the same order: it registers the keys
/// that it reads for a push, and its changes cause pushes.
pub(super) struct Running<'a> {
    pub(super) database: Database<'a>,
    /// `KEYS`.
    pub(super) keys: Words<'a>,
    /// `ARGV`, with indexes from 0.
    pub(super) words: Words<'a>,
}

impl<'a> Running<'a> {
    /// Returns `KEYS[1]`.
    pub(super) fn key(&self) -> Result<&'a [u8], Refusal> {
        self.keys.first().copied().ok_or(NO_KEY)
    }

    pub(super) fn word(&self, place: usize) -> Result<&'a [u8], Refusal> {
        self.words.get(place).copied().ok_or(NO_KEY)
    }

    pub(super) fn number(&self, place: usize) -> Result<f64, Refusal> {
        let word = self.words.get(place);
        word.and_then(|word| lua_number(word)).ok_or(NO_NUMBER)
    }

    /// Returns `ARGV[1]`, the token.
    pub(super) fn token(&self) -> Option<&'a [u8]> {
        self.words.first().copied()
    }

    /// Returns `ARGV[2]`, the ttl.
    pub(super) fn ttl(&self) -> Option<&'a [u8]> {
        self.words.get(1).copied()
    }

    /// Returns the keys without the two keys of a marker check.
    pub(super) fn names(&self) -> Words<'a> {
        let check = if self.is_checked() { 2 } else { 0 };
        &self.keys[..self.keys.len().saturating_sub(check)]
    }

    /// Returns `true` if the last two keys belong to a marker check. `ARGV[3]` is the marker.
    fn is_checked(&self) -> bool {
        self.words.get(2).is_none_or(|marker| !marker.is_empty())
    }

    /// Does what `redis.call('get',key)` does.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        self.database.entry(key);
        self.register(key);
        self.database.text(key)
    }

    /// Does what a command does that only reads the members of `key`.
    pub(super) fn members(&mut self, key: &[u8]) -> Result<Members, Refusal> {
        self.database.entry(key);
        self.register(key);
        self.database.members(key)
    }

    /// Does what `redis.call('pttl',key)` does, except for a key that does not exist.
    pub(super) fn left(&mut self, key: &[u8]) -> Option<i64> {
        let left = self.database.left(key);
        self.register(key);
        left
    }

    /// Registers a key that the script has read. Redis then registers all keys of the script.
    pub(super) fn register(&mut self, key: &[u8]) {
        match self.database.flavour.is_valkey() {
            true => self.database.register(key),
            false => self.keys.iter().for_each(|key| self.database.register(key)),
        }
    }

    /// Does what `redis.call('set',key,text,..)` does. Returns `true` if it was set.
    pub(super) fn set(
        &mut self,
        key: &[u8],
        text: &[u8],
        options: &[&[u8]],
    ) -> Result<bool, Refusal> {
        let reply = set_in(&mut self.database, key, text, options)?;
        Ok(reply != Reply::Null)
    }

    /// Returns 1 if `key` holds the token, -1 if it holds another value, 0 if it does not exist.
    pub(super) fn holds(&mut self, key: &[u8], token: Option<&[u8]>) -> Result<i64, Refusal> {
        Ok(match self.get(key)? {
            None => 0,
            value if value == token => 1,
            Some(_) => -1,
        })
    }

    /// Returns 1 if all `names` hold the token, -1 if one holds another value, 0 if one does not exist.
    pub(super) fn all_hold(
        &mut self,
        names: &[&[u8]],
        token: Option<&[u8]>,
    ) -> Result<i64, Refusal> {
        names
            .iter()
            .try_fold(1, |said, name| Ok(self.holds(name, token)?.min(said)))
    }

    /// Extends the life of `key`, which exists, to at least the ttl.
    pub(super) fn raise(&mut self, key: &[u8], ttl: Option<&[u8]>) -> Result<(), Refusal> {
        let left = self.left(key).unwrap_or(-1);
        let ttl = ttl.unwrap_or_default();
        // Lua counts in doubles.
        if left >= 0 && (left as f64) < lua_number(ttl).ok_or(NO_NUMBER)? {
            let end = expiry(ttl, self.database.now)?;
            self.database.set_end(key, end);
        }
        Ok(())
    }

    /// Returns the remaining milliseconds of `key`, which exists, plus one.
    pub(super) fn above_left(&mut self, key: &[u8]) -> i64 {
        // Lua counts in doubles.
        match self.database.left(key) {
            None | Some(-1) => 9_000_000_000_000_001,
            Some(left) => (left as f64 + 1.0) as i64,
        }
    }

    /// Returns `said`. With a marker check, also returns whether it counts.
    pub(super) fn answer(&mut self, said: i64) -> Answer {
        match self.counts_if_checked()? {
            None => Ok(Reply::Integer(said)),
            Some(counts) => numbers([said, counts]),
        }
    }

    /// Returns whether the answer counts; `None` without a marker check.
    pub(super) fn counts_if_checked(&mut self) -> Result<Option<i64>, Refusal> {
        if !self.is_checked() {
            return Ok(None);
        }
        let (marker, place) = (self.words.get(2), self.keys.len().wrapping_sub(2));
        self.counts(marker.copied(), place).map(Some)
    }

    /// Does what every script with a marker check does at its end. `place` is the index of the marker's key. The key of
    /// the barrier follows it.
    pub(super) fn counts(&mut self, wanted: Option<&[u8]>, place: usize) -> Result<i64, Refusal> {
        let keys = self.keys;
        let same = keys.get(place).is_some_and(|key| {
            let marker = self.get(key);
            matches!(marker, Ok(Some(text)) if Some(text) == wanted)
        });
        let barrier = keys.get(place.wrapping_add(1)).ok_or(NO_KEY)?;
        let barrier = self.left(barrier);
        Ok(if same { barrier_left(barrier) } else { -1 })
    }
}

/// Returns the number of milliseconds that a script reports for a barrier with this time to live.
pub(super) fn barrier_left(barrier: Option<i64>) -> i64 {
    match barrier {
        None => 0,
        Some(-1) => 1000,
        Some(left) => left.saturating_add(1),
    }
}

/// Returns the array of these numbers.
pub(super) fn numbers<const N: usize>(numbers: [i64; N]) -> Answer {
    Ok(Reply::array(numbers.map(Reply::Integer)))
}
