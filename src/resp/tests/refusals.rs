//! The refusals of the decoder: at which byte, and by which rule.

use alloc::vec;
use alloc::vec::Vec;
use std::format;

use super::*;

/// Each row has a rule, and texts that break it, divided by spaces.
#[test]
fn an_error_names_the_rule() {
    for (reason, texts) in [
        (Reason::UnknownKind(b'@'), "@"),
        (Reason::LineEnd, "+O\rK +O\nK :1\n :1\rx $5\r\nhelloX"),
        (Reason::LineEnd, "$5\r\nhello\rX $-1\rx _x (12\rx"),
        (Reason::Number, ":x :-x :-0 :+ :++1 :+-1 :-+1 :+007 :007"),
        (Reason::Number, ":1_ : ,.5 ,5. ,05 ,infi ,inx ,1e ( (-x"),
        (Reason::Number, "(+ (++1 (+-1 (1+ ,+ ,++1 ,+-1 ,+.5 ,+05"),
        (Reason::Number, ",+i ,+n ,1.5. ,1e5. ,1e5e ,1e+- ,1.e"),
        (Reason::Number, "(12x *2\r\n:1\r\n:x"),
        (Reason::Overflow, ":9223372036854775808"),
        (Reason::Overflow, ":-9223372036854775809"),
        (Reason::Overflow, ":+9223372036854775808 ,1e400 ,-1e309"),
        (Reason::Length, "$-2 $-1x $+1 *+1 %+1 $01 $ %-1 >-1"),
        (Reason::Streamed, "$? *?"),
        (Reason::BulkTooLong, "$1048577"),
        (Reason::LineTooLong, "$99999999999999999999999"),
        (Reason::TooManyElements, "*65537 %32769"),
        (Reason::Boolean, "#x #tf"),
        (Reason::Verbatim, "=3 =0 =9\r\ntxt;56789"),
        (Reason::PushKind, ">0 >1\r\n: >1\r\n$-"),
        (Reason::NestedPush, "*1\r\n> |1\r\n>"),
    ] {
        for text in texts.split(' ') {
            let line = format!("{text}\r\n");
            assert_eq!(refused(line.as_bytes()).1, reason, "{text:?}");
            let torn = decode_growing(Limits::default(), line.as_bytes());
            assert_eq!(torn.map_err(|error| error.reason), Err(reason));
        }
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
                value.contains(&format!("(b\"{}\")", text.escape_ascii())),
                "{value}"
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
    let _ = format!("{frame:?} {:?}", encoded(value));
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
