//! The refusals of the decoder: at which byte, and by which rule.

use alloc::vec;
use alloc::vec::Vec;
use std::format;

use super::*;

#[test]
fn an_error_names_the_rule() {
    for (bytes, reason) in [
        (&b"@"[..], Reason::UnknownKind(b'@')),
        (b"+O\rK", Reason::LineEnd),
        (b"+O\nK", Reason::LineEnd),
        (b":x", Reason::Number),
        (b":-x", Reason::Number),
        (b":-0", Reason::Number),
        (b":+", Reason::Number),
        (b":++1", Reason::Number),
        (b":+-1", Reason::Number),
        (b":-+1", Reason::Number),
        (b":+007", Reason::Number),
        (b":007", Reason::Number),
        (b":1 ", Reason::Number),
        (b":1\n", Reason::LineEnd),
        (b":1\rx", Reason::LineEnd),
        (b":", Reason::Number),
        (b":9223372036854775808", Reason::Overflow),
        (b":-9223372036854775809", Reason::Overflow),
        (b":+9223372036854775808", Reason::Overflow),
        (b"$5\r\nhelloX", Reason::LineEnd),
        (b"$5\r\nhello\rX", Reason::LineEnd),
        (b"$-2", Reason::Length),
        (b"$-1x", Reason::Length),
        (b"$-1\rx", Reason::LineEnd),
        (b"$+1", Reason::Length),
        (b"*+1", Reason::Length),
        (b"%+1", Reason::Length),
        (b"$01", Reason::Length),
        (b"$", Reason::Length),
        (b"$?", Reason::Streamed),
        (b"*?", Reason::Streamed),
        (b"$1048577", Reason::BulkTooLong),
        (b"$99999999999999999999999", Reason::LineTooLong),
        (b"*65537", Reason::TooManyElements),
        (b"%32769", Reason::TooManyElements),
        (b"%-1", Reason::Length),
        (b"_x", Reason::LineEnd),
        (b"#x", Reason::Boolean),
        (b"#tf", Reason::Boolean),
        (b",.5", Reason::Number),
        (b",5.", Reason::Number),
        (b",05", Reason::Number),
        (b",infi", Reason::Number),
        (b",inx", Reason::Number),
        (b",1e", Reason::Number),
        (b",1e400", Reason::Overflow),
        (b",-1e309", Reason::Overflow),
        (b"(", Reason::Number),
        (b"(-x", Reason::Number),
        (b"(+", Reason::Number),
        (b"(++1", Reason::Number),
        (b"(+-1", Reason::Number),
        (b"(1+", Reason::Number),
        (b",+", Reason::Number),
        (b",++1", Reason::Number),
        (b",+-1", Reason::Number),
        (b",+.5", Reason::Number),
        (b",+05", Reason::Number),
        (b",+i", Reason::Number),
        (b",+n", Reason::Number),
        (b",1.5.", Reason::Number),
        (b",1e5.", Reason::Number),
        (b",1e5e", Reason::Number),
        (b",1e+-", Reason::Number),
        (b",1.e", Reason::Number),
        (b"(12x", Reason::Number),
        (b"(12\rx", Reason::LineEnd),
        (b"=3", Reason::Verbatim),
        (b"=0", Reason::Verbatim),
        (b"=9\r\ntxt;56789", Reason::Verbatim),
        (b">0", Reason::PushKind),
        (b">1\r\n:", Reason::PushKind),
        (b">1\r\n$-", Reason::PushKind),
        (b">-1", Reason::Length),
        (b"*1\r\n>", Reason::NestedPush),
        (b"|1\r\n>", Reason::NestedPush),
        (b"*2\r\n:1\r\n:x", Reason::Number),
    ] {
        let line = [bytes, b"\r\n"].concat();
        assert_eq!(refused(&line).1, reason, "{}", bytes.escape_ascii());
        let torn = decode_growing(Limits::default(), &line);
        assert_eq!(torn.map_err(|error| error.reason), Err(reason));
    }
}

/// An error names the first byte that is wrong, or the first of a text that is wrong as a whole.
#[test]
fn an_error_names_its_place() {
    for (bytes, at) in [
        (&b"@"[..], 0),
        (b"+OK\n", 3),
        (b"*2\r\n:1\r\n:x\r\n", 9),
        (b"*2\r\n:1\r\n>1\r\n", 8),
        (b"$5\r\nhelloX\n", 9),
        (b"=5\r\ntxt;a\r\n", 4),
    ] {
        assert_eq!(refused(bytes).0, at, "{}", bytes.escape_ascii());
    }
}

/// Lines of every length around the border between the loop and `memchr`.
#[test]
fn lines_of_all_lengths() {
    for length in 0..70 {
        let text = vec![b'x'; length];
        for kind in [b'+', b'-'] {
            let line = [&[kind][..], &text, b"\r\n"].concat();
            let (value, len) = decode(&line).unwrap().expect("complete");
            assert_eq!(len, line.len());
            assert!(
                matches!(&value, OwnedValue::Simple(read) | OwnedValue::Error(read) if *read == text)
            );
            for stray in [b'\r', b'\n'] {
                for place in 1..=length {
                    let mut broken = line.clone();
                    broken[place] = stray;
                    let (at, reason) = refused(&broken);
                    assert_eq!((at, reason), (place, Reason::LineEnd));
                }
            }
        }
    }
}

/// Reads everything in a reply in every possible way.
fn look_at(frame: &Frame<'_>) {
    let value = frame.value;
    let _ = format!("{frame:?} {:?}", OwnedValue::from(value));
    let _ = value
        .as_pairs()
        .map(|pairs| pairs.iter().collect::<Vec<_>>());
    let items = value
        .as_items()
        .map(|items| items.iter().collect::<Vec<_>>());
    for item in items.into_iter().flatten() {
        let _ = item
            .as_items()
            .map(|items| items.iter().collect::<Vec<_>>());
        let _ = item
            .as_pairs()
            .map(|pairs| pairs.iter().collect::<Vec<_>>());
    }
}

/// A caller must not do this, but if it does, nothing worse than a wrong answer may follow.
#[test]
fn changed_bytes_do_no_harm() {
    let reply = b"*3\r\n*1\r\n:1\r\n+abcdefghijkl\r\n*1\r\n:2\r\n";
    for cut in 1..reply.len() {
        for place in 0..cut {
            for byte in *b"*:1\r\n|%$" {
                let mut decoder = Decoder::new(Limits::default());
                assert!(decoder.decode(&reply[..cut]).unwrap().is_none());
                let mut changed = *reply;
                changed[place] = byte;
                for bytes in [&changed[..], &changed[..place]] {
                    let frame = decoder.decode(bytes).ok().flatten();
                    frame.iter().for_each(look_at);
                }
            }
        }
    }
}

/// A header that was small now announces more than any memory holds. There is no such value.
#[test]
fn changed_headers_reserve_nothing() {
    let before = b"*3\r\n*1\r\n:2345678901234567\r\n+xy\r\n";
    for header in ["*4294967295\r\n", "%2147483647\r\n", "|2147483647\r\n"] {
        let mut decoder = Decoder::new(Limits::default());
        assert!(decoder.decode(before).unwrap().is_none());
        let mut after = [&before[..], b"+y\r\n", &b"+more\r\n".repeat(9)].concat();
        after[4..][..header.len()].copy_from_slice(header.as_bytes());
        let frame = decoder
            .decode(&after)
            .unwrap()
            .expect("nothing new was seen");
        look_at(&frame);
        let items = frame.value.as_items().expect("an array");
        assert_eq!(items.iter().next(), Some(Value::Null), "{header}");
    }
}
