//! How values of every type are written and read back.

use alloc::vec::Vec;
use std::format;
use std::string::ToString;

use bytes::Bytes;

use OwnedValue::{BigNumber, Boolean, BulkError, Double, Integer, Null, Verbatim};

use super::*;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Checks what is written for a value. It is read back as the same value.
#[track_caller]
fn spelled(value: &OwnedValue, text: &str) {
    let mut out = Vec::new();
    encode(&mut out, value);
    assert_eq!(core::str::from_utf8(&out), Ok(text));
    assert_eq!(decode(&out), Ok(Some((value.bare(), out.len()))));
}

#[test]
fn scalars() {
    let (format, text) = (*b"txt", bytes("hi"));
    for (value, spelling) in [
        (OwnedValue::simple("OK"), "+OK\r\n"),
        (OwnedValue::error("ERR no"), "-ERR no\r\n"),
        (OwnedValue::bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n"),
        (OwnedValue::bulk(b""), "$0\r\n\r\n"),
        (BulkError(bytes("ERR a b")), "!7\r\nERR a b\r\n"),
        (Verbatim { format, text }, "=6\r\ntxt:hi\r\n"),
        (Integer(0), ":0\r\n"),
        (Integer(-7), ":-7\r\n"),
        (Integer(i64::MIN), ":-9223372036854775808\r\n"),
        (BigNumber(bytes("-12")), "(-12\r\n"),
        (BigNumber(bytes("+007")), "(+007\r\n"),
        (Boolean(true), "#t\r\n"),
        (Boolean(false), "#f\r\n"),
        (Null, "_\r\n"),
        (Double(10.0), ",10\r\n"),
        (Double(-0.0), ",-0\r\n"),
        (Double(-1.5), ",-1.5\r\n"),
        (Double(1e17), ",1e17\r\n"),
        (Double(1e-5), ",0.00001\r\n"),
        (Double(5e-324), ",5e-324\r\n"),
        (Double(f64::MAX), ",1.7976931348623157e308\r\n"),
        (Double(f64::NEG_INFINITY), ",-inf\r\n"),
        (Double(f64::NAN), ",nan\r\n"),
    ] {
        spelled(&value, spelling);
    }
}

#[test]
fn aggregates() {
    let array = OwnedValue::array([Null, Integer(1)]);
    let map = OwnedValue::map([(Integer(1), Null)]);
    let set = OwnedValue::set([Integer(1)]);
    let push = OwnedValue::push([OwnedValue::simple("k")]);
    let attributed = OwnedValue::attributed([(Null, Integer(1))], Boolean(true));
    spelled(&OwnedValue::array([]), "*0\r\n");
    spelled(&array, "*2\r\n_\r\n:1\r\n");
    spelled(&map, "%1\r\n:1\r\n_\r\n");
    spelled(&set, "~1\r\n:1\r\n");
    spelled(&push, ">1\r\n+k\r\n");
    spelled(&attributed, "|1\r\n_\r\n:1\r\n#t\r\n");
}

/// A finite double is accepted in any spelling, up to the longest line.
#[test]
fn a_finite_double_is_taken_however_long_it_is() {
    let ones = |count| "1".repeat(count);
    let zeros = |count| "0".repeat(count);
    for (text, value) in [
        (format!("1{}e-5", zeros(309)), 1e304),
        (format!("-1{}.5e-309", zeros(309)), -1.0),
        (
            format!("-{}.{}", ones(309), "5".repeat(18)),
            -1.111_111_111_111_111_2e308,
        ),
        (format!("0.{}1e400", zeros(399)), 1.0),
        (format!("1e{}5", zeros(400)), 1e5),
        (format!("0e{}", ones(400)), 0.0),
        (format!("1.{}", zeros((64 << 10) - 2)), 1.0),
    ] {
        let reply = format!(",{text}\r\n");
        let wanted = (Double(value), reply.len());
        assert_eq!(decode(reply.as_bytes()), Ok(Some(wanted)), "{text}");
    }
    let longest = format!(",1.{}", zeros((64 << 10) - 2));
    let longer = format!("{longest}0");
    assert_eq!(decode(longest.as_bytes()), Ok(None));
    assert_eq!(
        refused(longer.as_bytes()),
        (longest.len(), Reason::LineTooLong)
    );
}

#[test]
fn a_double_that_is_too_large_is_refused() {
    let large = "1".repeat(310);
    let largest = "1".repeat(309);
    for (text, is_finite) in [
        (large.clone(), false),
        (format!("{large}.5"), false),
        (format!("{large}e0"), false),
        (format!("{large}e-0"), false),
        (format!("{large}e-5"), true),
        (format!("-{large}.5e-9"), true),
        (format!("{largest}e1"), false),
        (format!("-{largest}.5"), true),
        ("1e308".to_string(), true),
        ("1e309".to_string(), false),
        (format!("1e+{}309", "0".repeat(26)), false),
        ("-1e99999999999999999999".to_string(), false),
    ] {
        let reply = format!(",{text}\r\n");
        let expected = match is_finite {
            true => Ok(reply.len()),
            false => Err(DecodeError::new(1, Reason::Overflow)),
        };
        let whole = decode(reply.as_bytes()).map(|reply| reply.expect("complete").1);
        assert_eq!(whole, expected, "{text}");
        let torn = decode_growing(Limits::default(), reply.as_bytes());
        assert_eq!(torn, expected, "{text}");
    }
}

/// The encoder of these tests uses the same writers. This test shows what they write.
#[test]
fn replies_as_servers_write_them() {
    let text = b"a\r\nb";
    for length in [0, 9, 10, 99, 100, 1000] {
        let written = |write: fn(&mut Vec<u8>, usize)| {
            let mut out = Vec::new();
            write(&mut out, length);
            out
        };
        for (header, kind) in [
            (written(write::array), '*'),
            (written(write::map), '%'),
            (written(write::push), '>'),
        ] {
            assert_eq!(header, format!("{kind}{length}\r\n").as_bytes());
        }
    }
    let mut at_once = Vec::new();
    write::simple(&mut at_once, text);
    write::error(&mut at_once, text);
    write::bulk(&mut at_once, text);
    write::integer(&mut at_once, i64::MIN);
    write::null(&mut at_once);
    write::null_resp2(&mut at_once);
    write::verbatim(&mut at_once, *b"txt", text);
    assert_eq!(
        at_once.escape_ascii().to_string(),
        b"+a  b\r\n-a  b\r\n$4\r\na\r\nb\r\n:-9223372036854775808\r\n_\r\n$-1\r\n=8\r\ntxt:a\r\nb\r\n"
            .escape_ascii()
            .to_string()
    );
}
