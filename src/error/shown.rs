//! Names and labels in the texts of errors.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::limits::OWNER_BYTES_MAX;

/// So much of a name is shown: one of the longest, for each of many nodes, would hide the rest. Labels of this
/// library are no longer.
const BYTES_MAX: usize = OWNER_BYTES_MAX;

/// What a server, or the provider of credentials, has said in words of its own: bounded, and printable.
pub(crate) fn words(text: &str) -> Arc<str> {
    const MOST: usize = 240;
    let shown = text.trim().chars().take(MOST);
    let shown = shown.map(|letter| match letter.is_control() {
        true => ' ',
        false => letter,
    });
    shown.collect::<String>().into()
}

/// A name, or a label, as text: its first 64 bytes, and how many there are of a longer one.
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
    fn texts_show_the_beginning_of_a_long_name_and_how_long_it_is() {
        let name = [b'n'; 65];
        assert_eq!(format!("{}", Shown(&name[..64])), "n".repeat(64));
        let long = "n".repeat(64) + ".. (65 bytes)";
        assert_eq!(format!("{}", Shown(&name)), long);
        assert_eq!(format!("{}", Shown(b"\x1b[2J")), "\\x1b[2J");
        assert_eq!(format!("{}", Shown(b"")), "");
    }
}
