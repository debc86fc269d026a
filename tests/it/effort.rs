//! How much a story tries: little in the short run, much in the long one.

use std::env;

/// Returns `true` in the long run (`SHEARLINE_TEST_LONG=1`), which repeats stories more often.
pub(crate) fn is_long() -> bool {
    env::var_os("SHEARLINE_TEST_LONG").is_some_and(|value| value == "1")
}
