//! What is refused: at which byte, and by which rule.

use alloc::vec;
use alloc::vec::Vec;
use std::format;

use super::*;

#[test]
fn an_error_names_its_first_byte_and_the_rule() {
    for (bytes, at, reason) in [
        (&b"@"[..], 0, Reason::UnknownKind(b'@')),
        (b"+O\rK", 3, Reason::LineEnd),
        (b"+O\nK", 2, Reason::LineEnd),
        (b":x", 1, Reason::Number),
        (b":-x", 2, Reason::Number),
        (b":-0", 2, Reason::Number),
        (b":+\r", 2, Reason::Number),
        (b":++1", 2, Reason::Number),
        (b":+-1", 2, Reason::Number),
        (b":-+1", 2, Reason::Number),
        (b":+007", 3, Reason::Number),
        (b":007", 2, Reason::Number),
        (b":1 ", 2, Reason::Number),
        (b":1\n", 2, Reason::Number),
        (b":1\rx", 3, Reason::LineEnd),
        (b":\r", 1, Reason::Number),
        (b":9223372036854775808", 19, Reason::Overflow),
        (b":-9223372036854775809", 20, Reason::Overflow),
        (b":+9223372036854775808", 20, Reason::Overflow),
        (b"$5\r\nhelloX", 9, Reason::LineEnd),
        (b"$5\r\nhello\rX", 10, Reason::LineEnd),
        (b"$-2", 2, Reason::Length),
        (b"$-1x", 3, Reason::Length),
        (b"$-1\rx", 4, Reason::LineEnd),
        (b"$+1", 1, Reason::Length),
        (b"*+1", 1, Reason::Length),
        (b"%+1", 1, Reason::Length),
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
        (b",1e400", 5, Reason::Overflow),
        (b",-1e309", 6, Reason::Overflow),
        (b"(\r", 1, Reason::Number),
        (b"(-x", 2, Reason::Number),
        (b"(+\r", 2, Reason::Number),
        (b"(++1", 2, Reason::Number),
        (b"(+-1", 2, Reason::Number),
        (b"(1+", 2, Reason::Number),
        (b",+\r", 2, Reason::Number),
        (b",++1", 2, Reason::Number),
        (b",+-1", 2, Reason::Number),
        (b",+.5", 2, Reason::Number),
        (b",+05", 3, Reason::Number),
        (b",+i", 2, Reason::Number),
        (b",+n", 2, Reason::Number),
        (b",1.5.", 4, Reason::Number),
        (b",1e5.", 4, Reason::Number),
        (b",1e5e", 4, Reason::Number),
        (b",1e+-", 4, Reason::Number),
        (b",1.e", 3, Reason::Number),
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
                    // A CR just before CR LF shows by the second CR.
                    let wanted = if stray == b'\r' { place + 1 } else { place };
                    assert_eq!((at, reason), (wanted, Reason::LineEnd));
                }
            }
        }
    }
}

/// Looks at all of a reply in every way that there is.
fn look_at(frame: &Frame<'_>) {
    let value = frame.value;
    let _ = format!("{frame:?} {:?}", frame.to_owned());
    let _ = bare(value);
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

/// The caller is told not to; nothing worse than a wrong answer may come of it.
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

/// A header that was small announces more than any memory holds. By what an iterator says of its
/// length, others reserve memory.
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
        let items = frame.value.as_items().expect("an array");
        look_at(&frame);
        let Some(first) = items.iter().next() else {
            // The value behind the attributes would be behind the reply.
            assert!(header.starts_with('|'));
            continue;
        };
        let said = [
            first.as_items().map_or(0, |items| items.iter().len()),
            first.as_pairs().map_or(0, |pairs| pairs.iter().len()),
        ];
        assert!(said.iter().any(|&len| len > 0), "{header}");
        assert!(said.iter().all(|&len| len <= after.len()), "{said:?}");
    }
}
