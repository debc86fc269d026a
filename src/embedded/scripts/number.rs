//! Numbers as Lua reads them.

/// Does what Lua's `tonumber` does with a text: blanks around the number count for nothing, nor does what follows a
/// zero byte. `nan(..)` is none here.
pub(super) fn lua_number(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next()?;
    let text = core::str::from_utf8(text).ok()?;
    let text = text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    text.parse().ok().or_else(|| hexadecimal(text))
}

/// Reads `0x1f`, or `0x1.8p3`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))?;
    let (digits, power) = match digits.split_once(['p', 'P']) {
        Some((digits, power)) => (digits, power.parse().ok()?),
        None => (digits, 0_i16),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mut number = 0.0;
    for digit in whole.chars().chain(part.chars()) {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let places = i32::try_from(part.len()).ok()?;
    let scale = 2_f64.powi(i32::from(power) - places.saturating_mul(4));
    (1 <= whole.len() + part.len()).then_some(sign * number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_lua_reads_them() {
        for (text, number) in [
            ("7", Some(7.0)),
            (" +7.5e1\r\n", Some(75.0)),
            ("\u{b}7\u{c}", Some(7.0)),
            ("7\08", Some(7.0)),
            ("0x1F", Some(31.0)),
            ("-0X1.8p3", Some(-12.0)),
            (".5", Some(0.5)),
            ("inf", Some(f64::INFINITY)),
            ("", None),
            ("7 8", None),
            ("0x", None),
            ("0x1p", None),
            ("0xg", None),
            ("1_0", None),
            ("\u{a0}7", None),
        ] {
            assert_eq!(lua_number(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(lua_number(b"\xff"), None);
    }
}
