//! Tests of the codec as a whole: stories, bounds, costs. The vectors are in `vectors`.

use alloc::vec;
use alloc::vec::Vec;
use std::format;
use std::path::Path;
use std::string::ToString;

use bytes::Bytes;

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

/// Lengths and counts on both sides of every change in the length of a header.
#[test]
fn commands_of_all_lengths() {
    for length in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12_345] {
        let text = vec![b'x'; length];
        let mut out = Vec::new();
        argument(&mut out, &text);
        let expected = [format!("${length}\r\n").as_bytes(), &text, b"\r\n"].concat();
        assert_eq!(out, expected);
        assert_eq!(out.len(), argument_len(length));

        let words = vec![&b"w"[..]; length];
        let mut out = Vec::new();
        command(&mut out, &words);
        let expected = format!("*{length}\r\n") + &"$1\r\nw\r\n".repeat(length);
        assert_eq!(out, expected.as_bytes());
        assert_eq!(out.len(), command_len(&words));
    }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn every_type_in_both_protocols() {
    use OwnedValue::*;
    let attributed = super::Attributed {
        attributes: vec![(Null, Integer(1))],
        value: Boolean(true),
    };
    let verbatim = Verbatim {
        format: *b"txt",
        text: bytes("hi"),
    };
    for (value, resp3, resp2) in [
        (OwnedValue::simple("OK"), "+OK\r\n", "+OK\r\n"),
        (OwnedValue::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
        (Integer(-7), ":-7\r\n", ":-7\r\n"),
        (
            Integer(i64::MIN),
            ":-9223372036854775808\r\n",
            ":-9223372036854775808\r\n",
        ),
        (
            OwnedValue::bulk(b"a\r\nb"),
            "$4\r\na\r\nb\r\n",
            "$4\r\na\r\nb\r\n",
        ),
        (Null, "_\r\n", "$-1\r\n"),
        (Double(10.0), ",10\r\n", "$2\r\n10\r\n"),
        (Double(-0.0), ",-0\r\n", "$2\r\n-0\r\n"),
        (Double(-1.5), ",-1.5\r\n", "$4\r\n-1.5\r\n"),
        (Double(1e17), ",1e17\r\n", "$4\r\n1e17\r\n"),
        (Double(1e-5), ",0.00001\r\n", "$7\r\n0.00001\r\n"),
        (Double(5e-324), ",5e-324\r\n", "$6\r\n5e-324\r\n"),
        (
            Double(f64::MAX),
            ",1.7976931348623157e308\r\n",
            "$22\r\n1.7976931348623157e308\r\n",
        ),
        (Double(f64::NEG_INFINITY), ",-inf\r\n", "$4\r\n-inf\r\n"),
        (Double(f64::NAN), ",nan\r\n", "$3\r\nnan\r\n"),
        (Boolean(true), "#t\r\n", ":1\r\n"),
        (Boolean(false), "#f\r\n", ":0\r\n"),
        (BigNumber(bytes("-12")), "(-12\r\n", "$3\r\n-12\r\n"),
        (
            BulkError(bytes("ERR a b")),
            "!7\r\nERR a b\r\n",
            "-ERR a b\r\n",
        ),
        (verbatim, "=6\r\ntxt:hi\r\n", "$2\r\nhi\r\n"),
        (Array(vec![]), "*0\r\n", "*0\r\n"),
        (
            Array(vec![Null, Integer(1)]),
            "*2\r\n_\r\n:1\r\n",
            "*2\r\n$-1\r\n:1\r\n",
        ),
        (
            Map(vec![(Integer(1), Integer(2))]),
            "%1\r\n:1\r\n:2\r\n",
            "*2\r\n:1\r\n:2\r\n",
        ),
        (Set(vec![Integer(1)]), "~1\r\n:1\r\n", "*1\r\n:1\r\n"),
        (
            Push(vec![OwnedValue::simple("k")]),
            ">1\r\n+k\r\n",
            "*1\r\n+k\r\n",
        ),
        (
            Attributed(attributed.into()),
            "|1\r\n_\r\n:1\r\n#t\r\n",
            ":1\r\n",
        ),
    ] {
        let mut out = Vec::new();
        encode(&mut out, &value);
        assert_eq!(
            out.escape_ascii().to_string(),
            resp3.escape_default().to_string()
        );
        assert_eq!(
            decode(&out),
            Ok(Some((value.clone(), out.len()))),
            "{value:?}"
        );
        out.clear();
        encode_resp2(&mut out, &value);
        assert_eq!(
            out.escape_ascii().to_string(),
            resp2.escape_default().to_string()
        );
    }
}

#[test]
fn a_text_cannot_become_two_replies() {
    for kind in [OwnedValue::Simple, OwnedValue::Error, OwnedValue::BulkError] {
        let mut out = Vec::new();
        encode_resp2(&mut out, &kind(bytes("a\r\n+b\n")));
        assert_eq!(&out[1..], b"a  +b \r\n");
    }
}

#[test]
fn doubles_as_servers_print_them() {
    for (text, value) in [
        (",1.0000000000000001e-05\r\n", 1e-5),
        (",1e+17\r\n", 1e17),
        (",-nan\r\n", f64::NAN),
        (",nan\r\n", f64::NAN),
        (",inf\r\n", f64::INFINITY),
        (",-inf\r\n", f64::NEG_INFINITY),
        (",1E5\r\n", 1e5),
        (",0.10000000000000001\r\n", 0.1),
        (",1e-400\r\n", 0.0),
    ] {
        let wanted = (OwnedValue::Double(value), text.len());
        assert_eq!(decode(text.as_bytes()), Ok(Some(wanted)), "{text}");
    }
    // The longest that is accepted, and one more.
    let longest = format!(",-{}.{}\r\n", "1".repeat(309), "5".repeat(17));
    assert!(decode(longest.as_bytes()).unwrap().is_some());
    let longer = longest.replace('.', ".5");
    assert_eq!(refused(longer.as_bytes()), (329, Reason::LineTooLong));
    assert_eq!(
        refused(format!(",{}", "1".repeat(310)).as_bytes()),
        (1, Reason::Overflow)
    );
}

/// The digits of a double that is too large are refused before an exponent has arrived that would
/// bring them back, hence also when it has.
#[test]
fn a_double_is_too_large_however_the_stream_is_cut() {
    let digits = "1".repeat(310);
    let largest = "1".repeat(309);
    for (text, fits) in [
        (format!(",{digits}e-5\r\n"), false),
        (format!(",{digits}.5\r\n"), false),
        (format!(",-{digits}.5e-9\r\n"), false),
        (format!(",{largest}e1\r\n"), false),
        (format!(",{largest}e-5\r\n"), true),
        (format!(",-{largest}.5\r\n"), true),
        (",1e308\r\n".to_string(), true),
        (",1e309\r\n".to_string(), false),
    ] {
        let whole = decode(text.as_bytes());
        let torn = decode_growing(Limits::default(), text.as_bytes());
        let overflow = DecodeError::new(1, Reason::Overflow);
        match whole {
            Ok(Some((_, len))) if fits => assert_eq!(torn, Ok(len), "{text}"),
            outcome => {
                assert_eq!(outcome.err(), Some(overflow), "{text}");
                assert_eq!(torn, Err(overflow), "{text}");
                assert!(!fits, "{text}");
            }
        }
    }
}

/// Nested aggregates and attributes, read by the views.
#[test]
fn elements_are_reached_in_order_and_stepped_over() {
    let reply = b"*5\r\n*2\r\n:1\r\n~1\r\n:2\r\n*0\r\n|1\r\n+ttl\r\n%1\r\n+a\r\n*1\r\n:9\r\n\
        %2\r\n+k\r\n*1\r\n:3\r\n$1\r\nl\r\n|0\r\n:4\r\n*-1\r\n+end\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(reply).unwrap().expect("complete");
    assert_eq!(frame.len, reply.len());
    assert_eq!(
        format!("{:?}", frame.value),
        "Array([Array([Integer(1), Set([Integer(2)])]), Array([]), \
         Map({Simple(b\"k\"): Array([Integer(3)]), Bulk(b\"l\"): Integer(4)}), Null, \
         Simple(b\"end\")])"
    );
    let items = frame.value.as_items().expect("an array");
    assert_eq!((items.len(), items.iter().len()), (5, 5));
    let map = items.elements().nth(2).expect("a map");
    let attributes = map.attributes.expect("its attribute");
    assert_eq!(
        format!("{attributes:?}"),
        "{Simple(b\"ttl\"): Map({Simple(b\"a\"): Array([Integer(9)])})}"
    );
    let pairs = map.value.as_pairs().expect("a map");
    assert_eq!(
        pairs.get(b"l").and_then(|value| value.as_integer()),
        Some(4)
    );
    assert!(pairs.get(b"m").is_none());
    let (_, four) = pairs.elements().nth(1).expect("a pair");
    assert_eq!(four.attributes.map(|pairs| pairs.len()), Some(0));
}

#[test]
fn attributes_are_delivered_with_the_value_and_several_as_one() {
    let reply = b"|1\r\n+a\r\n*1\r\n:1\r\n|0\r\n|2\r\n+b\r\n:2\r\n+c\r\n:3\r\n*1\r\n*1\r\n:7\r\n";
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(reply).unwrap().expect("complete");
    assert_eq!(format!("{:?}", frame.value), "Array([Array([Integer(7)])])");
    let attributes = frame.attributes().expect("attributes");
    assert_eq!(attributes.len(), 3);
    assert_eq!(
        format!("{attributes:?}"),
        "{Simple(b\"a\"): Array([Integer(1)]), Simple(b\"b\"): Integer(2), Simple(b\"c\"): Integer(3)}"
    );
}

#[test]
fn strings_are_shared_with_their_buffer_and_others_copied() {
    let buffer = Bytes::from_static(b"$5\r\nhello\r\n");
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(&buffer).unwrap().expect("complete");
    let OwnedValue::Bulk(shared) = frame.value.share(&buffer) else {
        panic!("a bulk string")
    };
    assert_eq!(shared.as_ptr(), buffer[4..].as_ptr());
    let other = Bytes::from_static(b"another");
    assert_eq!(frame.value.share(&other), OwnedValue::bulk(b"hello"));
}

/// Just inside passes, just outside fails, each bound with its own reason.
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
        ("+1234\r\n", "+12345", Reason::LineTooLong),
        ("-1234\r\n", "-12345", Reason::LineTooLong),
        ("(1234\r\n", "(12345", Reason::LineTooLong),
        ("$6\r\n123456\r\n", "$7", Reason::BulkTooLong),
        ("!6\r\n123456\r\n", "!7", Reason::BulkTooLong),
        ("=6\r\ntxt:56\r\n", "=7", Reason::BulkTooLong),
        ("*4\r\n_\r\n_\r\n_\r\n_\r\n", "*5", Reason::TooManyElements),
        ("~4\r\n_\r\n_\r\n_\r\n_\r\n", "~5", Reason::TooManyElements),
        ("%2\r\n_\r\n_\r\n_\r\n_\r\n", "%3", Reason::TooManyElements),
        (
            "|2\r\n_\r\n_\r\n_\r\n_\r\n_\r\n",
            "|3",
            Reason::TooManyElements,
        ),
        (">4\r\n+\r\n_\r\n_\r\n_\r\n", ">5", Reason::TooManyElements),
        ("*1\r\n*1\r\n:1\r\n", "*1\r\n*1\r\n*1", Reason::TooDeep),
        ("*1\r\n*1\r\n*-1\r\n", "*1\r\n*1\r\n*0", Reason::TooDeep),
        (
            "%1\r\n_\r\n~1\r\n_\r\n",
            "%1\r\n_\r\n~1\r\n%",
            Reason::TooDeep,
        ),
        (
            "*1\r\n|1\r\n_\r\n_\r\n_\r\n",
            "*1\r\n|1\r\n|",
            Reason::TooDeep,
        ),
        // 4 + 4 x 9 bytes are forty, the third string announces one too many for its successor.
        (
            "*4\r\n$3\r\n123\r\n$3\r\n123\r\n$3\r\n123\r\n$3\r\n123\r\n",
            "*4\r\n$6\r\n123456\r\n$6\r\n123456\r\n$6\r\n",
            Reason::ReplyTooLong,
        ),
        (
            "*3\r\n*3\r\n_\r\n_\r\n_\r\n*3\r\n_\r\n_\r\n_\r\n*0\r\n",
            "*4\r\n*4\r\n_\r\n_\r\n_\r\n_\r\n*4\r\n",
            Reason::ReplyTooLong,
        ),
    ] {
        let passed = decode_with(limits, inside.as_bytes());
        assert!(passed.is_ok_and(|reply| reply.is_some()), "{inside}");
        let error = decode_with(limits, outside.as_bytes()).expect_err(outside);
        assert_eq!(error.reason, reason, "{outside}");
    }
}

#[test]
fn a_hundred_thousand_levels_are_refused_at_the_first_too_many() {
    for header in ["*1\r\n", "%1\r\n_\r\n", "~1\r\n", "|1\r\n_\r\n"] {
        let deep = header.repeat(100_000);
        let (at, reason) = refused(deep.as_bytes());
        assert_eq!(
            (at / header.len(), reason),
            (32, Reason::TooDeep),
            "{header}"
        );
    }
    let deepest = Limits {
        depth: usize::MAX,
        ..Limits::default()
    };
    let error = decode_with(deepest, "*1\r\n".repeat(100_000).as_bytes()).unwrap_err();
    assert_eq!((error.at, error.reason), (128 * 4 + 1, Reason::TooDeep));
}

/// The bytes that are looked at while a stream arrives one by one, per byte of it.
fn looks_per_byte(stream: &[u8]) -> f64 {
    let mut decoder = Decoder::new(Limits {
        bulk_bytes: 2 << 20,
        ..Limits::default()
    });
    for end in 1..stream.len() {
        assert_eq!(decoder.measure(&stream[..end]), Ok(None), "at {end}");
    }
    assert_eq!(decoder.measure(stream), Ok(Some(stream.len())));
    decoder.looked() as f64 / stream.len() as f64
}

#[test]
fn bytes_that_arrive_one_by_one_cost_a_constant_each() {
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    // A payload is not looked at.
    assert!(looks_per_byte(&bulk(1 << 20)) < 0.001);
    // The text of a line is looked at once (digits twice), and its kind each time.
    let text = [&b"+"[..], &vec![b'x'; 60_000], b"\r\n"].concat();
    assert!(looks_per_byte(&text) < 2.1);
    let digits = [&b"("[..], &vec![b'7'; 60_000], b"\r\n"].concat();
    assert!(looks_per_byte(&digits) < 3.1);
    // A header is read again from its kind; it is short.
    let nested = [
        "*1\r\n".repeat(31).as_bytes(),
        b"*1000\r\n",
        &b":1234567\r\n".repeat(1000),
    ]
    .concat();
    assert!(looks_per_byte(&nested) < 8.0);
    let comb = "*2\r\n:1\r\n".repeat(31) + ":1\r\n";
    assert!(looks_per_byte(comb.as_bytes()) < 8.0);
    // Twice as many, twice the cost: the ratio per byte stays.
    let pairs = |count: usize| {
        [
            format!("%{count}\r\n").as_bytes(),
            &b"$1\r\nk\r\n*1\r\n:1\r\n".repeat(count),
        ]
        .concat()
    };
    let (small, large) = (
        looks_per_byte(&pairs(1_000)),
        looks_per_byte(&pairs(16_000)),
    );
    assert!((small - large).abs() < 0.1, "{small} and {large}");
}

#[test]
fn a_header_reserves_nothing() {
    let generous = Limits {
        bulk_bytes: 2 << 30,
        elements: 1 << 30,
        reply_bytes: usize::MAX,
        ..Limits::default()
    };
    for header in [
        "$1073741824\r\n",
        "*1000000\r\n",
        "%1000000\r\n",
        "=1073741824\r\n",
        "|1000000\r\n",
    ] {
        let mut inbox = Inbox::new(generous);
        let mut piece = header.as_bytes();
        assert!(inbox.next(&mut piece).unwrap().is_none());
        assert!(inbox.memory() < 1024, "{header}");
    }
    let error = decode(b"$1073741824\r\n").unwrap_err();
    assert_eq!(error.reason, Reason::BulkTooLong);
    let mut nested = Inbox::new(Limits::default());
    let mut piece = &b"*65536\r\n".repeat(31)[..];
    assert!(nested.next(&mut piece).unwrap().is_none());
    assert!(nested.memory() < 8192);
}

#[test]
fn scalars_and_flat_replies_allocate_as_promised() {
    let mut decoder = Decoder::new(Limits::default());
    for reply in [
        "+OK\r\n",
        "$-1\r\n",
        ":1\r\n",
        "_\r\n",
        "$3\r\nabc\r\n",
        ",1.5\r\n",
        "*0\r\n",
        "-ERR a long text, longer than sixteen bytes\r\n",
        "|0\r\n+OK\r\n",
    ] {
        assert!(decoder.decode(reply.as_bytes()).unwrap().is_some());
        assert_eq!(decoder.memory(), 0, "{reply}");
    }
    let array = [&b"*1000\r\n"[..], &b":1\r\n".repeat(1000)].concat();
    assert!(decoder.decode(&array).unwrap().is_some());
    let memory = decoder.memory();
    assert!(memory < 256, "{memory}");
    let nested = [&b"*60000\r\n"[..], &b"*1\r\n:1\r\n".repeat(60_000)].concat();
    assert!(decoder.decode(&nested).unwrap().is_some());
    assert!(decoder.decode(&array).unwrap().is_some());
    assert!(decoder.memory() < 16 << 10, "given back");
}

#[test]
fn a_whole_reply_is_not_copied_and_a_torn_one_given_back() {
    let mut inbox = Inbox::new(Limits::default());
    let stream = b"$5\r\nhello\r\n$5\r\nwor";
    let mut piece = &stream[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(
        frame.value.as_bytes().map(<[u8]>::as_ptr),
        Some(stream[4..].as_ptr())
    );
    assert!(inbox.next(&mut piece).unwrap().is_none());
    let next = b"ld\r\n+a\r\n";
    let mut piece = &next[..];
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(frame.value.as_bytes(), Some(&b"world"[..]));
    assert_eq!(piece, b"+a\r\n");
    let frame = inbox.next(&mut piece).unwrap().expect("complete");
    assert_eq!(
        frame.value.as_bytes().map(<[u8]>::as_ptr),
        Some(next[5..].as_ptr())
    );

    let large = [&b"$1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat();
    for piece in large.chunks(1460) {
        let mut piece = piece;
        while !piece.is_empty() {
            let _ = inbox.next(&mut piece).unwrap();
        }
    }
    assert!(
        (1_000_000..4_000_000).contains(&inbox.memory()),
        "{}",
        inbox.memory()
    );
    assert!(inbox.next(&mut &b"+a\r\n"[..]).unwrap().is_some());
    assert!(inbox.memory() < 16 << 10, "given back");
}

#[test]
fn clearing_an_inbox_begins_a_new_stream() {
    let mut inbox = Inbox::new(Limits::default());
    assert!(inbox.next(&mut &b"$5\r\nhel"[..]).unwrap().is_none());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
    assert!(inbox.next(&mut &b"x"[..]).is_err());
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).is_err());
    inbox.clear();
    assert!(inbox.next(&mut &b"+OK\r\n"[..]).unwrap().is_some());
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
                let _ = decoder.decode(&changed).map(|frame| format!("{frame:?}"));
                let _ = decoder
                    .decode(&changed[..place])
                    .map(|frame| format!("{frame:?}"));
            }
        }
    }
}

type Body = fn(&[u8]);
const BODIES: [(&str, Body); 3] = [
    ("decode_any", fuzz_decode_any),
    ("decode_torn", fuzz_decode_torn),
    ("roundtrip", fuzz_roundtrip),
];

#[test]
fn the_fuzz_corpus_is_replayed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, body) in BODIES {
        let files = std::fs::read_dir(corpus.join(name)).expect("the corpus is committed");
        let mut seeds = 0;
        for file in files {
            body(&std::fs::read(file.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(10 <= seeds, "{name}: {seeds} seeds");
    }
}

/// A generator of its own, so that the run is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn the_fuzz_bodies_hold_on_random_input() {
    const LETTERS: &[u8] = b"+-:$*_#,(!=%~>|\r\n\r\n\r\n0123456789tfeinfatxt:.?";
    let mut random = Random(0x5eed);
    for round in 0..6000 {
        let length = random.next() % 60;
        let input: Vec<u8> = (0..length)
            .map(|_| match random.next() {
                choice if round % 3 == 0 => choice as u8,
                choice => LETTERS[choice as usize % LETTERS.len()],
            })
            .collect();
        for (_, body) in BODIES {
            body(&input);
        }
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

/// The outcome when bytes are added one by one.
fn decode_growing(limits: Limits, bytes: &[u8]) -> Result<usize, DecodeError> {
    let mut decoder = Decoder::new(limits);
    for end in 0..bytes.len() {
        assert_eq!(decoder.measure(&bytes[..end])?, None, "at {end}");
    }
    Ok(decoder.measure(bytes)?.expect("complete"))
}

/// A reply of exactly the longest length passes, one that is longer by a byte does not, and it
/// makes no difference whether it is torn.
#[test]
fn a_reply_may_be_as_long_as_its_limit() {
    for reply in [
        "+123456789\r\n",
        "$5\r\nhello\r\n",
        "$12\r\nhello, world\r\n",
        "=9\r\ntxt:hello\r\n",
        ":1234567890\r\n",
        ",1.5e100\r\n",
        "(1234567890\r\n",
        "*2\r\n$5\r\nhello\r\n_\r\n",
        "*3\r\n_\r\n_\r\n$5\r\nhello\r\n",
        "*3\r\n$5\r\nhello\r\n$2\r\nhi\r\n:1\r\n",
        "*2\r\n*2\r\n+OK\r\n+abcdefg\r\n#t\r\n",
        "*3\r\n:1\r\n*-1\r\n%1\r\n+a\r\n:22\r\n",
        "|1\r\n+a\r\n:1\r\n+v\r\n",
        "|1\r\n+a\r\n$3\r\nabc\r\n*1\r\n|0\r\n$3\r\nabc\r\n",
        ">2\r\n$4\r\nkind\r\n_\r\n",
    ] {
        let bytes = reply.as_bytes();
        let limits = |reply_bytes| Limits {
            reply_bytes,
            ..Limits::default()
        };
        let exact = limits(bytes.len());
        assert!(
            decode_with(exact, bytes).is_ok_and(|reply| reply.is_some()),
            "{reply}"
        );
        assert_eq!(decode_growing(exact, bytes), Ok(bytes.len()), "{reply}");
        let short = limits(bytes.len() - 1);
        let error = decode_with(short, bytes).expect_err(reply);
        assert_eq!(error.reason, Reason::ReplyTooLong, "{reply}");
        assert_eq!(decode_growing(short, bytes), Err(error), "{reply}");
    }
}

/// An attribute leaves room for its value, and says so with its header.
#[test]
fn attributes_leave_room_for_their_value() {
    for (reply_bytes, passes) in [(13, true), (12, false)] {
        let limits = Limits {
            reply_bytes,
            ..Limits::default()
        };
        assert_eq!(decode_with(limits, b"|1\r\n").is_ok(), passes);
    }
}

/// The direct path for short replies keeps the limits too.
#[test]
fn short_strings_are_bounded_as_well() {
    for (length, reply) in [(4, "$4\r\nabcd\r\n"), (12, "$12\r\nhello, world\r\n")] {
        for (bulk_bytes, passes) in [(length, true), (length - 1, false)] {
            let limits = Limits {
                bulk_bytes,
                ..Limits::default()
            };
            let array = ["*2\r\n", reply, reply].concat();
            for bytes in [reply.as_bytes(), array.as_bytes()] {
                let outcome = decode_with(limits, bytes);
                let too_long = |error: DecodeError| error.reason == Reason::BulkTooLong;
                assert_eq!(outcome.is_ok(), passes);
                assert!(passes || outcome.is_err_and(too_long));
            }
        }
    }
}
