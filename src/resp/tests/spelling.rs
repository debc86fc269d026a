//! How values of every type are written and read back.

use std::format;
use std::string::ToString;

use super::*;

/// Checks how values are printed, and that each is written as it was read, without attributes.
fn assert_spelled(values: &[(&str, &str)]) {
    for (text, value) in values {
        let mut decoder = Decoder::new(Limits::default());
        let frame = decoder.decode(text.as_bytes()).unwrap().expect("complete");
        assert_eq!((&*shown(&frame), frame.len), (*value, text.len()));
        let bare = text.trim_start_matches("|1\r\n_\r\n:1\r\n");
        assert_eq!(
            encoded(frame.value).escape_ascii().to_string(),
            bare.escape_default().to_string()
        );
    }
}

#[test]
fn scalars() {
    assert_spelled(&[
        ("+OK\r\n", r#"Simple(b"OK")"#),
        ("-ERR no\r\n", r#"Error(b"ERR no")"#),
        ("$4\r\na\r\nb\r\n", r#"Bulk(b"a\r\nb")"#),
        ("$0\r\n\r\n", r#"Bulk(b"")"#),
        ("!7\r\nERR a b\r\n", r#"BulkError(b"ERR a b")"#),
        ("=6\r\ntxt:hi\r\n", r#"Verbatim(b"txt:hi")"#),
        (":0\r\n", "Integer(0)"),
        (":-7\r\n", "Integer(-7)"),
        (":-9223372036854775808\r\n", "Integer(-9223372036854775808)"),
        ("(-12\r\n", "BigNumber(-12)"),
        ("(+007\r\n", "BigNumber(+007)"),
        ("#t\r\n", "Boolean(true)"),
        ("#f\r\n", "Boolean(false)"),
        ("_\r\n", "Null"),
        (",10\r\n", "Double(10.0)"),
        (",-0\r\n", "Double(-0.0)"),
        (",-1.5\r\n", "Double(-1.5)"),
        (",1e17\r\n", "Double(1e17)"),
        (",0.00001\r\n", "Double(1e-5)"),
        (",5e-324\r\n", "Double(5e-324)"),
        (
            ",1.7976931348623157e308\r\n",
            "Double(1.7976931348623157e308)",
        ),
        (",-inf\r\n", "Double(-inf)"),
        (",nan\r\n", "Double(NaN)"),
    ]);
}

#[test]
fn aggregates() {
    assert_spelled(&[
        ("*0\r\n", "Array([])"),
        ("*2\r\n_\r\n:1\r\n", "Array([Null, Integer(1)])"),
        ("%1\r\n:1\r\n_\r\n", "Map({Integer(1): Null})"),
        ("~1\r\n:1\r\n", "Set([Integer(1)])"),
        (">1\r\n+k\r\n", r#"Push([Simple(b"k")])"#),
        ("|1\r\n_\r\n:1\r\n#t\r\n", "Boolean(true)"),
    ]);
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
        let wanted = (format!("Double({value:?})"), reply.len());
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
