//! How values are written, and read back: every type in both protocols.

use alloc::vec::Vec;
use std::format;
use std::string::ToString;

use bytes::Bytes;

use OwnedValue::{BigNumber, Boolean, BulkError, Double, Integer, Null, Verbatim};

use super::*;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// What is written for a value in each protocol; in RESP3 it is read back as what it was.
fn both(value: &OwnedValue, resp3: &str, resp2: &str) {
    let mut out = Vec::new();
    encode(&mut out, value);
    assert_eq!(text(&out), resp3);
    assert_eq!(decode(&out), Ok(Some((value.clone(), out.len()))));
    out.clear();
    encode_resp2(&mut out, value);
    assert_eq!(text(&out), resp2);
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("nothing else is written here")
}

#[test]
fn texts_in_both_protocols() {
    both(&OwnedValue::simple("OK"), "+OK\r\n", "+OK\r\n");
    both(&OwnedValue::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n");
    both(
        &OwnedValue::bulk(b"a\r\nb"),
        "$4\r\na\r\nb\r\n",
        "$4\r\na\r\nb\r\n",
    );
    both(&OwnedValue::bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    both(
        &BulkError(bytes("ERR a b")),
        "!7\r\nERR a b\r\n",
        "-ERR a b\r\n",
    );
    let text = bytes("hi");
    both(
        &Verbatim {
            format: *b"txt",
            text,
        },
        "=6\r\ntxt:hi\r\n",
        "$2\r\nhi\r\n",
    );
}

#[test]
fn integers_and_booleans_and_null_in_both_protocols() {
    let least = ":-9223372036854775808\r\n";
    both(&Integer(0), ":0\r\n", ":0\r\n");
    both(&Integer(-7), ":-7\r\n", ":-7\r\n");
    both(&Integer(i64::MIN), least, least);
    both(&BigNumber(bytes("-12")), "(-12\r\n", "$3\r\n-12\r\n");
    both(&Boolean(true), "#t\r\n", ":1\r\n");
    both(&Boolean(false), "#f\r\n", ":0\r\n");
    both(&Null, "_\r\n", "$-1\r\n");
}

#[test]
fn doubles_in_both_protocols() {
    for (double, text) in [
        (10.0, "10"),
        (-0.0, "-0"),
        (-1.5, "-1.5"),
        (1e17, "1e17"),
        (1e-5, "0.00001"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e308"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        let resp3 = format!(",{text}\r\n");
        let resp2 = format!("${}\r\n{text}\r\n", text.len());
        both(&Double(double), &resp3, &resp2);
    }
}

#[test]
fn aggregates_in_both_protocols() {
    let array = OwnedValue::array([Null, Integer(1)]);
    let map = OwnedValue::map([(Integer(1), Null)]);
    let set = OwnedValue::set([Integer(1)]);
    let push = OwnedValue::push([OwnedValue::simple("k")]);
    let attributed = OwnedValue::attributed([(Null, Integer(1))], Boolean(true));
    both(&OwnedValue::array([]), "*0\r\n", "*0\r\n");
    both(&array, "*2\r\n_\r\n:1\r\n", "*2\r\n$-1\r\n:1\r\n");
    both(&map, "%1\r\n:1\r\n_\r\n", "*2\r\n:1\r\n$-1\r\n");
    both(&set, "~1\r\n:1\r\n", "*1\r\n:1\r\n");
    both(&push, ">1\r\n+k\r\n", "*1\r\n+k\r\n");
    both(&attributed, "|1\r\n_\r\n:1\r\n#t\r\n", ":1\r\n");
}

#[test]
fn a_text_cannot_become_two_replies() {
    for kind in [OwnedValue::Simple, OwnedValue::Error, BulkError] {
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
        let wanted = (Double(value), text.len());
        assert_eq!(decode(text.as_bytes()), Ok(Some(wanted)), "{text}");
    }
    // The longest that is accepted, and one more.
    let longest = format!(",-{}.{}\r\n", "1".repeat(309), "5".repeat(17));
    assert!(decode(longest.as_bytes()).unwrap().is_some());
    let longer = longest.replace('.', ".5");
    assert_eq!(refused(longer.as_bytes()), (329, Reason::LineTooLong));
    assert_eq!(
        refused(format!(",{}", "1".repeat(310)).as_bytes()),
        (310, Reason::Overflow)
    );
}

/// The digits of a double that is too large are refused before an exponent has arrived that would
/// bring them back, hence also when it has.
#[test]
fn a_double_is_too_large_however_the_stream_is_cut() {
    let digits = "1".repeat(310);
    let largest = "1".repeat(309);
    for (text, wrong) in [
        (format!(",{digits}e-5\r\n"), Some(310)),
        (format!(",{digits}.5\r\n"), Some(310)),
        (format!(",-{digits}.5e-9\r\n"), Some(311)),
        (format!(",{largest}e1\r\n"), Some(311)),
        (format!(",{largest}e-5\r\n"), None),
        (format!(",-{largest}.5\r\n"), None),
        (",1e308\r\n".to_string(), None),
        (",1e309\r\n".to_string(), Some(5)),
    ] {
        let expected = match wrong {
            Some(at) => Err(DecodeError::new(at, Reason::Overflow)),
            None => Ok(text.len()),
        };
        let whole = decode(text.as_bytes()).map(|reply| reply.expect("complete").1);
        assert_eq!(whole, expected, "{text}");
        let torn = decode_growing(Limits::default(), text.as_bytes());
        assert_eq!(torn, expected, "{text}");
    }
}
