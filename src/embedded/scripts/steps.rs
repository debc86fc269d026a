//! The steps that several scripts have in common.

use crate::embedded::call::{Call, Words};
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};
use crate::embedded::strings::expiry;

/// The largest number and the latest deadline that the scripts use.
pub(super) const MOST: f64 = 9e15;

pub(super) const TOO_FEW: Refusal = Refusal::fixed("ERR too few keys or arguments for this script");
pub(super) const NO_NUMBER: Refusal =
    Refusal::fixed("ERR user_script:1: attempt to compare number with nil");

/// Each step does the same as the Lua code that it replaces, in the same order: it registers the keys that it reads,
/// and its changes cause pushes. `keys` is `KEYS`, and `words` is `ARGV` with indexes from 0.
impl<'a> Call<'a> {
    /// Returns `KEYS[1]`.
    pub(super) fn key(&self) -> &'a [u8] {
        self.keys[0]
    }

    pub(super) fn number(&self, place: usize) -> Result<f64, Refusal> {
        lua_number(self.words[place]).ok_or(NO_NUMBER)
    }

    /// Returns the keys without the two keys of a marker check.
    pub(super) fn names(&self) -> Words<'a> {
        let check = if self.is_checked() { 2 } else { 0 };
        &self.keys[..self.keys.len().saturating_sub(check)]
    }

    /// Returns `true` if the last two keys belong to a marker check. `ARGV[3]` is the marker.
    fn is_checked(&self) -> bool {
        !self.words[2].is_empty()
    }

    /// Returns 1 if `key` has the token, -1 if `key` has another value, and 0 if `key` does not exist.
    pub(super) fn holds(&mut self, key: &[u8], token: &[u8]) -> Result<i64, Refusal> {
        Ok(match self.get(key)? {
            None => 0,
            Some(value) if value == token => 1,
            Some(_) => -1,
        })
    }

    /// Returns 1 if all `names` have the token, -1 if a name has another value, and 0 if a name does not exist.
    pub(super) fn all_hold(&mut self, names: &[&[u8]], token: &[u8]) -> Result<i64, Refusal> {
        names
            .iter()
            .try_fold(1, |said, name| Ok(self.holds(name, token)?.min(said)))
    }

    /// Extends the expiry of `key`, which must exist, to at least the ttl.
    pub(super) fn raise(&mut self, key: &[u8], ttl: &[u8]) -> Result<(), Refusal> {
        let left = self.pttl(key).unwrap_or(-1);
        // Compares doubles, because Lua's numbers are doubles.
        if left >= 0 && (left as f64) < lua_number(ttl).ok_or(NO_NUMBER)? {
            let end = expiry(ttl, self.now)?;
            self.set_end(key, end);
        }
        Ok(())
    }

    /// Returns the remaining milliseconds of `key`, which must exist, plus one.
    pub(super) fn above_left(&mut self, key: &[u8]) -> i64 {
        // Adds doubles, because Lua's numbers are doubles.
        match self.left(key) {
            None | Some(-1) => 9_000_000_000_000_001,
            Some(left) => (left as f64 + 1.0) as i64,
        }
    }

    /// Returns `said`. With a marker check, also returns whether the answer counts.
    pub(super) fn answer(&mut self, said: i64) -> Answer {
        match self.counts_if_checked()? {
            None => Ok(Reply::Integer(said)),
            Some(counts) => numbers([said, counts]),
        }
    }

    /// Returns whether the answer counts, or `None` without a marker check.
    pub(super) fn counts_if_checked(&mut self) -> Result<Option<i64>, Refusal> {
        let marker = self.is_checked().then(|| self.counts(self.words[2]));
        marker.transpose()
    }

    /// Runs the check at the end of every script with a marker check. The last two keys are the marker and the barrier.
    pub(super) fn counts(&mut self, wanted: &[u8]) -> Result<i64, Refusal> {
        let &[.., marker, barrier] = self.keys else {
            return Err(TOO_FEW);
        };
        let same = self.get(marker) == Ok(Some(wanted));
        let barrier = self.pttl(barrier);
        Ok(if same { barrier_left(barrier) } else { -1 })
    }
}

/// Returns the number of milliseconds that a script reports for a barrier with this remaining time.
pub(super) fn barrier_left(barrier: Option<i64>) -> i64 {
    match barrier {
        None => 0,
        Some(-1) => 1000,
        Some(left) => left.saturating_add(1),
    }
}

/// Returns an array of integers as the answer.
pub(super) fn numbers<const N: usize>(numbers: [i64; N]) -> Answer {
    Ok(Reply::array(numbers.map(Reply::Integer)))
}

pub(super) fn is_digits(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Converts a text like Lua's `tonumber`: ignores blanks around the number, and all bytes after a zero byte. Unlike in
/// Lua, `nan(..)` and `0x..` are not numbers.
pub(super) fn lua_number(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next()?;
    let text = core::str::from_utf8(text).ok()?;
    let text = text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_lua_reads_them() {
        for (text, number) in [
            ("7", Some(7.0)),
            (" +7.5e1\r\n", Some(75.0)),
            ("\u{b}7\u{c}", Some(7.0)),
            ("7\08", Some(7.0)),
            (".5", Some(0.5)),
            ("inf", Some(f64::INFINITY)),
            ("", None),
            ("7 8", None),
            ("0x1", None),
            ("1_0", None),
            ("\u{a0}7", None),
        ] {
            assert_eq!(lua_number(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(lua_number(b"\xff"), None);
    }
}
