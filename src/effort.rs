//! How much the tests beside the code do: some of everything in each run, all there is in the long one.
//!
//! A test that draws histories, cuts bytes or walks through states takes its numbers from here. The small number
//! meets every kind of thing that the large one does; the large one meets more of each. `SHEARLINE_TEST_LONG=1`
//! asks for the large ones, as `tests/long.sh` does.

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
