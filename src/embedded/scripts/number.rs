//! Numbers as Lua reads them.

/// Does what Lua's `tonumber` does with a text: ignores blanks around the number, and everything behind a zero byte.
/// Here `nan(..)` and `0x..` are not numbers.
pub(super) fn lua_number(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next()?;
    let text = core::str::from_utf8(text).ok()?;
    let text = text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    text.parse().ok()
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
            (".5", Some(0.5)),
            ("inf", Some(f64::INFINITY)),
            ("", None),
            ("7 8", None),
            ("0x1", None),
            ("1_0", None),
            ("\u{a0}7", None),
        ] {
            assert_eq!(lua_number(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(lua_number(b"\xff"), None);
    }
}
