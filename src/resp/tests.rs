//! Tests of the codec as a whole: stories, bounds, costs. The vectors are in `vectors`.

use alloc::vec::Vec;

use super::*;

/// The first reply of `bytes`, owned, and its length.
fn decode(bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    decode_with(Limits::default(), bytes)
}

fn decode_with(limits: Limits, bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    let mut decoder = Decoder::new(limits);
    Ok(decoder
        .decode(bytes)?
        .map(|frame| (frame.element().to_owned(), frame.len)))
}

fn refused(bytes: &[u8]) -> (usize, Reason) {
    let error = decode(bytes).expect_err("an error");
    (error.at, error.reason)
}

#[test]
fn an_error_names_its_first_byte_and_the_rule() {
    for (bytes, at, reason) in [
        (&b"@"[..], 0, Reason::UnknownKind(b'@')),
        (b"+O\rK", 3, Reason::LineEnd),
        (b"+O\nK", 2, Reason::LineEnd),
        (b":x", 1, Reason::Number),
        (b":-x", 2, Reason::Number),
        (b":-0", 2, Reason::Number),
        (b":+5", 1, Reason::Number),
        (b":007", 2, Reason::Number),
        (b":1 ", 2, Reason::Number),
        (b":1\n", 2, Reason::Number),
        (b":1\rx", 3, Reason::LineEnd),
        (b":\r", 1, Reason::Number),
        (b":9223372036854775808", 19, Reason::Overflow),
        (b":-9223372036854775809", 20, Reason::Overflow),
        (b"$5\r\nhelloX", 9, Reason::LineEnd),
        (b"$5\r\nhello\rX", 10, Reason::LineEnd),
        (b"$-2", 2, Reason::Length),
        (b"$-1x", 3, Reason::Length),
        (b"$-1\rx", 4, Reason::LineEnd),
        (b"$+1", 1, Reason::Length),
        (b"$01", 2, Reason::Length),
        (b"$\r", 1, Reason::Length),
        (b"$?", 1, Reason::Streamed),
        (b"*?", 1, Reason::Streamed),
        (b"$1048577", 7, Reason::BulkTooLong),
        (b"$99999999999999999999999", 7, Reason::BulkTooLong),
        (b"*65537", 5, Reason::TooManyElements),
        (b"%32769", 5, Reason::TooManyElements),
        (b"%-1", 1, Reason::Length),
        (b"_x", 1, Reason::LineEnd),
        (b"#x", 1, Reason::Boolean),
        (b"#tf", 2, Reason::LineEnd),
        (b",.5", 1, Reason::Number),
        (b",5.\r", 3, Reason::Number),
        (b",05", 2, Reason::Number),
        (b",infi", 4, Reason::LineEnd),
        (b",inx", 3, Reason::Number),
        (b",1e\r", 3, Reason::Number),
        (b",1e400", 1, Reason::Overflow),
        (b",-1e309", 1, Reason::Overflow),
        (b"(\r", 1, Reason::Number),
        (b"(-x", 2, Reason::Number),
        (b"(+1", 1, Reason::Number),
        (b"(12x", 3, Reason::Number),
        (b"(12\rx", 4, Reason::LineEnd),
        (b"=3\r", 2, Reason::Verbatim),
        (b"=0", 1, Reason::Verbatim),
        (b"=9\r\ntxt;", 7, Reason::Verbatim),
        (b">0", 1, Reason::PushKind),
        (b">1\r\n:", 4, Reason::PushKind),
        (b">1\r\n$-", 5, Reason::PushKind),
        (b">-1", 1, Reason::Length),
        (b"*1\r\n>", 4, Reason::NestedPush),
        (b"|1\r\n>", 4, Reason::NestedPush),
        (b"*2\r\n:1\r\n:x", 9, Reason::Number),
    ] {
        assert_eq!(refused(bytes), (at, reason), "{}", bytes.escape_ascii());
        let valid = &bytes[..at];
        assert_eq!(decode(valid), Ok(None), "{}", valid.escape_ascii());
    }
}

#[test]
fn an_error_is_sticky_until_reset() {
    let mut decoder = Decoder::new(Limits::default());
    let first = decoder.decode(b"x").unwrap_err();
    assert_eq!(decoder.decode(b"+OK\r\n").unwrap_err(), first);
    decoder.reset();
    assert!(decoder.decode(b"+OK\r\n").unwrap().is_some());
}

#[test]
fn commands_as_servers_read_them() {
    let mut out = Vec::new();
    let arguments: [&[u8]; 3] = [b"SET", b"", b"a\r\nb"];
    command(&mut out, &arguments);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    assert_eq!(out.len(), command_len(&arguments));
}
