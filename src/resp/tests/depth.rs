//! Replies that are nested deeper than any stack: the decoder does not call itself for each level.

use std::thread;

use super::*;
use crate::effort::effort;

/// A stack that is too small for a thousand levels of calls.
const STACK_BYTES: usize = 64 << 10;

/// The bytes of a level, before and after the value inside it.
const LEVELS: [[&str; 2]; 7] = [
    ["*1\r\n", ""],
    ["*3\r\n_\r\n", ":1\r\n"],
    ["~2\r\n", "_\r\n"],
    ["%1\r\n", "_\r\n"],
    ["%2\r\n_\r\n_\r\n_\r\n", ""],
    ["|1\r\n", "_\r\n:1\r\n"],
    ["|1\r\n_\r\n", ":1\r\n"],
];

#[test]
fn a_reply_has_as_many_levels_as_the_limits_say() {
    let depth = effort(10_000, 100_000);
    let work = move || {
        for [before, behind] in LEVELS {
            let sent = |levels| before.repeat(levels) + ":7\r\n" + &behind.repeat(levels);
            let limits = Limits {
                depth,
                ..Limits::DEFAULT
            };
            let deepest = sent(depth);
            let measured = Decoder::new(limits).measure(deepest.as_bytes());
            assert_eq!(measured, Ok(Some(deepest.len())));
            let deeper = Decoder::new(limits).measure(sent(depth + 1).as_bytes());
            assert_eq!(deeper.expect_err("a level more").reason, Reason::TooDeep);
        }
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread").join().expect("no panic");
}
