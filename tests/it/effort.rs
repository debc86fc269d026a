//! How often stories repeat in the short run and in the long run, and how long their locks last.

use std::env;
use std::time::Duration;

/// Returns `true` in the long run (`SHEARLINE_TEST_LONG=1`), which repeats stories more often.
pub(crate) fn is_long() -> bool {
    env::var_os("SHEARLINE_TEST_LONG").is_some_and(|value| value == "1")
}

/// Returns how often something is done: `few` times in the short run, `many` times in the long one.
pub(crate) fn times(few: usize, many: usize) -> usize {
    if is_long() { many } else { few }
}

/// The ttls for stories that hold a lock to its end, or to an extension. The longest outlasts every stop of a busy
/// machine.
const TTLS_MS: [u64; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Plays `story` with longer and longer ttls until it returns a value. The story returns `None` if its lock ended
/// before the story, because the machine stood still: such a run shows nothing.
#[track_caller]
pub(crate) fn with_a_ttl_that_lasts<T>(story: impl FnMut(Duration) -> Option<T>) -> T {
    let told = TTLS_MS
        .map(Duration::from_millis)
        .into_iter()
        .find_map(story);
    told.expect("one of these locks lasts until the end of the story")
}
