//! A script that is being run: what it was given, and the steps that several scripts have.

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

/// See the [module](self). Each step does what the Lua does at its place, in the same order: what it reads is registered
/// for a push, and what it changes is pushed.
pub(super) struct Running<'a> {
    pub(super) database: Database<'a>,
    /// `KEYS`.
    pub(super) keys: Words<'a>,
    /// `ARGV`. Places are counted from 0.
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

    /// Returns the keys without those of a marker check.
    pub(super) fn names(&self) -> Words<'a> {
        let check = if self.is_checked() { 2 } else { 0 };
        &self.keys[..self.keys.len().saturating_sub(check)]
    }

    /// Returns `true` if the last two keys are those of a marker check. `ARGV[3]` is the marker.
    fn is_checked(&self) -> bool {
        self.words.get(2).is_none_or(|marker| !marker.is_empty())
    }

    /// Does what `redis.call('get',key)` does.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Refusal> {
        self.database.entry(key);
        self.register(key);
        self.database.text(key)
    }

    /// Does what commands do that only read the members of `key`.
    pub(super) fn members(&mut self, key: &[u8]) -> Result<Members, Refusal> {
        self.database.entry(key);
        self.register(key);
        self.database.members(key)
    }

    /// Does what `redis.call('pttl',key)` does, but for a key that is not there.
    pub(super) fn left(&mut self, key: &[u8]) -> Option<i64> {
        let left = self.database.left(key);
        self.register(key);
        left
    }

    /// Registers what a script has read: Redis takes all keys of the script for read, then.
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

    /// Returns 1 if `key` holds the token, -1 if it is another's, 0 if it is not there.
    pub(super) fn holds(&mut self, key: &[u8], token: Option<&[u8]>) -> Result<i64, Refusal> {
        Ok(match self.get(key)? {
            None => 0,
            value if value == token => 1,
            Some(_) => -1,
        })
    }

    /// Returns 1 if all `names` hold the token, -1 if one is another's, 0 if one is not there.
    pub(super) fn all_hold(
        &mut self,
        names: &[&[u8]],
        token: Option<&[u8]>,
    ) -> Result<i64, Refusal> {
        names
            .iter()
            .try_fold(1, |said, name| Ok(self.holds(name, token)?.min(said)))
    }

    /// Lets `key`, which is there, live for the ttl at least.
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

    /// Returns one more than the milliseconds that `key`, which is there, lives on.
    pub(super) fn above_left(&mut self, key: &[u8]) -> i64 {
        // Lua counts in doubles.
        match self.database.left(key) {
            None | Some(-1) => 9_000_000_000_000_001,
            Some(left) => (left as f64 + 1.0) as i64,
        }
    }

    /// Returns `said`, and whether it counts if there is a marker check.
    pub(super) fn answer(&mut self, said: i64) -> Answer {
        match self.counts_if_checked()? {
            None => Ok(Reply::Integer(said)),
            Some(counts) => numbers([said, counts]),
        }
    }

    /// Returns whether the answer counts, if there is a marker check.
    pub(super) fn counts_if_checked(&mut self) -> Result<Option<i64>, Refusal> {
        if !self.is_checked() {
            return Ok(None);
        }
        let (marker, place) = (self.words.get(2), self.keys.len().wrapping_sub(2));
        self.counts(marker.copied(), place).map(Some)
    }

    /// Does what every script with a marker check does at its end. The key of the marker stands at `place`, and that of
    /// the barrier behind it.
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

/// Returns how many milliseconds a script reports for a barrier with this time to live.
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
