//! Measures how long this process, or a server that should have answered, stalled.
//!
//! Stories about default timeouts need this measurement, because a machine may stall for longer than a default timeout.
//! After a stall, the result shows nothing, and the story is repeated.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use super::Raw;

/// Asks every server, again and again until it is `over`. Returns the longest time that one round
/// took, the first counted from `begin`: this process or a server stood still for nearly as long.
pub(crate) fn longest_stop(
    servers: &mut [Raw],
    begin: Instant,
    mut over: impl FnMut() -> bool,
) -> Duration {
    let (mut last, mut longest) = (begin, Duration::ZERO);
    loop {
        let is_last = over();
        for raw in &mut *servers {
            raw.run("PING");
        }
        let now = Instant::now();
        longest = longest.max(now - last);
        if is_last {
            return longest;
        }
        last = now;
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `story` on another thread. Also returns the [`longest_stop`] meanwhile.
pub(crate) fn watched<T: Send>(
    servers: &mut [Raw],
    story: impl FnOnce() -> T + Send,
) -> (T, Duration) {
    thread::scope(|scope| {
        let begin = Instant::now();
        let story = scope.spawn(story);
        let longest = longest_stop(servers, begin, || story.is_finished());
        (
            story.join().unwrap_or_else(|panic| resume_unwind(panic)),
            longest,
        )
    })
}
