//! Names and labels in the texts of errors.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::limits::OWNER_BYTES_MAX;

/// An error text shows at most this many bytes of a name, because it may repeat the name for each node. Owner labels
/// are never longer.
const BYTES_MAX: usize = OWNER_BYTES_MAX;

/// Returns the text of a server, or of the provider of credentials, bounded and printable.
pub(crate) fn words(text: &str) -> Arc<str> {
    const MOST: usize = 240;
    let shown = text.trim().chars().take(MOST);
    let shown = shown.map(|letter| match letter.is_control() {
        true => ' ',
        false => letter,
    });
    shown.collect::<String>().into()
}

/// Returns the text after the `code` in a server's error `line`, up to the first byte that cannot be shown. Leaves out
/// words that the server repeats from the command, such as names and tokens.
pub(crate) fn said(line: &[u8], code: &str) -> Option<Arc<str>> {
    let is_shown = |byte: &&u8| (byte.is_ascii_graphic() || **byte == b' ') && **byte != b'\\';
    let shown = line.iter().take_while(is_shown).count();
    let text = core::str::from_utf8(&line[..shown]).unwrap_or_default();
    let text = match shown == line.len() {
        true => text,
        false => text.rsplit_once(' ').map_or("", |(whole, _)| whole), // The last word may be the beginning of a token.
    };
    let text = text.split(", with args").next()?;
    let text = text.strip_prefix(code).unwrap_or(text);
    (!text.is_empty()).then(|| words(text))
}

/// A name or a label as text: its first 64 bytes, and its length if there are more.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_at_checked(BYTES_MAX) {
            Some((first, [_, ..])) => {
                write!(f, "{}.. ({} bytes)", first.escape_ascii(), self.0.len())
            }
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn of_the_error_of_a_server_only_words_are_shown() {
        for (line, shown) in [
            ("ERR unsupported `eval`", Some("unsupported `eval`")),
            ("EVAL is disabled", Some("is disabled")),
            ("ERR unknown 'X', with args: 's'", Some("unknown 'X'")),
            ("ERR no SET k ab\u{e9}cd", Some("no SET k")),
            ("ERR no SET k ab\\x01", Some("no SET k")),
            ("ERR", None),
            ("ERR \x1b[2J", None),
            ("", None),
        ] {
            let code = line.split(' ').next().unwrap_or_default();
            assert_eq!(said(line.as_bytes(), code).as_deref(), shown, "{line}");
        }
        assert_eq!(said(&[b'x'; 300], "").unwrap().len(), 240);
    }

    #[test]
    fn texts_show_the_beginning_of_a_long_name_and_how_long_it_is() {
        let name = [b'n'; 65];
        assert_eq!(format!("{}", Shown(&name[..64])), "n".repeat(64));
        let long = "n".repeat(64) + ".. (65 bytes)";
        assert_eq!(format!("{}", Shown(&name)), long);
        assert_eq!(format!("{}", Shown(b"\x1b[2J")), "\\x1b[2J");
        assert_eq!(format!("{}", Shown(b"")), "");
    }
}
