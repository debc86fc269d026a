//! Decides how much work the unit tests do: a sample in an ordinary run, and everything in a long run.
//!
//! Tests that generate histories, split bytes or search states take their numbers from this module. With the small
//! number, a test covers the same kinds of cases as with the large number, but fewer cases of each kind.
//! `SHEARLINE_TEST_LONG=1` selects the large numbers, as `tests/long.sh` does.

use std::env;

/// Returns `true` in a long test run.
pub(crate) fn is_long() -> bool {
    env::var_os("SHEARLINE_TEST_LONG").is_some_and(|value| value == "1")
}

/// Returns `many` in a long test run, and `few` otherwise.
pub(crate) fn effort<T>(few: T, many: T) -> T {
    match is_long() {
        true => many,
        false => few,
    }
}
