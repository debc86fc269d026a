//! How much work the unit tests do: a sample in each ordinary run, everything in the long run.
//!
//! A test that draws histories, cuts bytes or walks through states takes its numbers from here. With the small number,
//! it meets every kind of case that it meets with the large number, but fewer cases of each kind.
//! `SHEARLINE_TEST_LONG=1` selects the large numbers, as `tests/long.sh` does.

use std::env;

/// Returns `true` in the long run.
pub(crate) fn is_long() -> bool {
    env::var_os("SHEARLINE_TEST_LONG").is_some_and(|value| value == "1")
}

/// Returns `many` in the long run, and `few` otherwise.
pub(crate) fn effort<T>(few: T, many: T) -> T {
    match is_long() {
        true => many,
        false => few,
    }
}
