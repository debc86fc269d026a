//! Each bound: a reply just inside it passes, and one just outside it fails.

use super::*;

/// A reply just inside a bound passes. One just outside it fails, with the reason of this bound. CR LF is shown as `/`.
#[test]
fn bounds_hold_to_the_byte() {
    let limits = Limits {
        line_bytes: 4,
        bulk_bytes: 6,
        elements: 4,
        depth: 2,
        reply_bytes: 40,
    };
    for (inside, outside, reason) in [
        ("+1234/", "+12345", Reason::LineTooLong),
        ("-1234/", "-12345", Reason::LineTooLong),
        ("(1234/", "(12345", Reason::LineTooLong),
        ("(+123/", "(+1234", Reason::LineTooLong),
        (",1234/", ",12345", Reason::LineTooLong),
        (",-inf/", ",12345", Reason::LineTooLong),
        ("$6/123456/", "$7", Reason::BulkTooLong),
        ("!6/123456/", "!7", Reason::BulkTooLong),
        ("=6/txt:56/", "=7", Reason::BulkTooLong),
        ("*4/_/_/_/_/", "*5", Reason::TooManyElements),
        ("~4/_/_/_/_/", "~5", Reason::TooManyElements),
        ("%2/_/_/_/_/", "%3", Reason::TooManyElements),
        ("|2/_/_/_/_/_/", "|3", Reason::TooManyElements),
        (">4/+/_/_/_/", ">5", Reason::TooManyElements),
        ("*1/*1/:1/", "*1/*1/*1", Reason::TooDeep),
        ("*1/*1/*-1/", "*1/*1/*0", Reason::TooDeep),
        ("%1/_/~1/_/", "%1/_/~1/%", Reason::TooDeep),
        ("*1/|1/_/_/_/", "*1/|1/|", Reason::TooDeep),
        // 4 + 4 x 9 bytes are forty. The third string announces one byte too many for the string after it.
        (
            "*4/$3/123/$3/123/$3/123/$3/123/",
            "*4/$6/123456/$6/123456/$6/",
            Reason::ReplyTooLong,
        ),
        (
            "*3/*3/_/_/_/*3/_/_/_/*0/",
            "*4/*4/_/_/_/_/*4/",
            Reason::ReplyTooLong,
        ),
    ] {
        let sent = |text: &str| text.replace('/', "\r\n");
        let passed = decode_with(limits, sent(inside).as_bytes());
        assert!(passed.is_ok_and(|reply| reply.is_some()), "{inside}");
        let outside = sent(outside) + "\r\n";
        let error = decode_with(limits, outside.as_bytes()).expect_err(&outside);
        assert_eq!(error.reason, reason, "{outside}");
    }
}

/// Even without limits, the decoder has its own bounds, and no length wraps.
#[test]
fn a_length_of_twenty_digits_is_too_long_for_any_bounds() {
    let most = Limits {
        line_bytes: usize::MAX,
        bulk_bytes: u32::MAX as usize,
        elements: u32::MAX as usize,
        depth: usize::MAX,
        reply_bytes: u32::MAX as usize,
    };
    for (bytes, reason) in [
        ("$4294967281\r\n", Reason::ReplyTooLong),
        ("$18446744073709551616\r\n", Reason::BulkTooLong),
        ("!18446744073709551619\r\n", Reason::BulkTooLong),
        ("*18446744073709551616\r\n", Reason::TooManyElements),
        ("*4294967295\r\n", Reason::ReplyTooLong),
        ("%9223372036854775808\r\n", Reason::TooManyElements),
        ("$184467440737095516160", Reason::LineTooLong),
    ] {
        let found = decode_with(most, bytes.as_bytes()).map_err(|error| error.reason);
        assert_eq!(found, Err(reason), "{bytes}");
        let grown = decode_growing(most, bytes.as_bytes()).map_err(|error| error.reason);
        assert_eq!(grown, Err(reason), "{bytes}");
    }
}

#[test]
fn an_error_names_the_limit_to_raise() {
    for (reason, field) in [
        (Reason::LineTooLong, "line_bytes"),
        (Reason::BulkTooLong, "bulk_bytes"),
        (Reason::TooManyElements, "elements"),
        (Reason::TooDeep, "depth"),
        (Reason::ReplyTooLong, "reply_bytes"),
    ] {
        let text = format!("{reason}");
        assert!(text.contains(&format!("(`{field}`)")), "{text}");
    }
}

#[test]
fn the_limits_of_redis_are_kept_as_they_are() {
    let redis = Limits {
        line_bytes: 512 << 20,
        bulk_bytes: 512 << 20,
        elements: i32::MAX as usize,
        depth: 8_000,
        reply_bytes: u32::MAX as usize,
    };
    assert!(redis.are_sound());
    let most = |reply: &[u8]| decode_with(redis, reply);
    assert_eq!(most(b"$536870912\r\n"), Ok(None));
    assert!(most(b"$536870913\r\n").is_err());
    assert_eq!(most(b"*1000000000\r\n"), Ok(None));
    assert!(most(b"*2147483648\r\n").is_err());
}
