//! Error replies, in the server's own words.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::flavour::Flavour;

/// Why a command was not executed: an error line without the `-` at its beginning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refusal(Cow<'static, [u8]>);

/// The most bytes of a command's name, and of all its arguments, that an error repeats.
const ECHO_BYTES_MAX: usize = 128;

impl Refusal {
    pub(super) const SYNTAX: Self = Self::fixed("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self =
        Self::fixed("ERR value is not an integer or out of range");
    pub(super) const WRONG_TYPE: Self =
        Self::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const NO_AUTH: Self = Self::fixed("NOAUTH Authentication required.");
    pub(super) const WRONG_PASS: Self =
        Self::fixed("WRONGPASS invalid username-password pair or user is disabled.");
    pub(super) const NO_SCRIPT: Self = Self::fixed("NOSCRIPT No matching script. Please use EVAL.");

    /// The user may not run `command`.
    pub(super) fn forbidden(command: &str, flavour: Flavour) -> Self {
        let user = match flavour.is_valkey() || flavour == Flavour::Redis84 {
            true => "User default",
            false => "this user",
        };
        Self::text(format!(
            "NOPERM {user} has no permissions to run the '{command}' command"
        ))
    }

    /// Returns the error for an `EXEC`.
    pub(super) fn aborting(self) -> Self {
        let line = self.0.strip_prefix(b"ERR ").unwrap_or(&self.0);
        Self::bytes(&[b"EXECABORT Transaction discarded because of: ", line])
    }

    pub(super) const fn fixed(line: &'static str) -> Self {
        Self(Cow::Borrowed(line.as_bytes()))
    }

    pub(super) fn arity(command: &str) -> Self {
        Self::text(format!(
            "ERR wrong number of arguments for '{command}' command"
        ))
    }

    pub(super) fn expire_time(command: &str) -> Self {
        Self::text(format!("ERR invalid expire time in '{command}' command"))
    }

    pub(super) fn unknown_command(words: &[&[u8]]) -> Self {
        let (name, arguments) = words
            .split_first()
            .map_or((&b""[..], words), |(n, a)| (*n, a));
        let mut echoed = Vec::new();
        for argument in arguments {
            if echoed.len() >= ECHO_BYTES_MAX {
                break;
            }
            let argument = echo(argument, ECHO_BYTES_MAX - echoed.len());
            echoed.extend_from_slice(&[b"'", argument, b"' "].concat());
        }
        let name = echo(name, ECHO_BYTES_MAX);
        Self::bytes(&[
            b"ERR unknown command '",
            name,
            b"', with args beginning with: ",
            &echoed,
        ])
    }

    pub(super) fn unknown_subcommand(container: &str, word: &[u8]) -> Self {
        let help = format!("'. Try {} HELP.", container.to_ascii_uppercase());
        Self::bytes(&[
            b"ERR unknown subcommand '",
            echo(word, ECHO_BYTES_MAX),
            help.as_bytes(),
        ])
    }

    /// Returns `before`, the word as far as the server would show it, and `after`.
    pub(super) fn quoting(before: &str, word: &[u8], after: &str) -> Self {
        Self::bytes(&[before.as_bytes(), echo(word, usize::MAX), after.as_bytes()])
    }

    /// Returns the error for a command in a script: the server adds the name of the script.
    pub(super) fn in_script(self, sha1: &str) -> Self {
        let place = format!(" script: {sha1}, on @user_script:1.");
        Self::bytes(&[&self.0, place.as_bytes()])
    }

    pub(super) fn line(&self) -> &[u8] {
        &self.0
    }

    fn text(line: alloc::string::String) -> Self {
        Self(Cow::Owned(line.into_bytes()))
    }

    /// Joins the parts, without line ends at the end.
    fn bytes(parts: &[&[u8]]) -> Self {
        let mut line = parts.concat();
        while line.ends_with(b"\r") || line.ends_with(b"\n") {
            line.pop();
        }
        Self(Cow::Owned(line))
    }
}

/// Returns the part of `word` that C's `%.*s` prints: it ends at a zero byte.
fn echo(word: &[u8], bytes_max: usize) -> &[u8] {
    let end = word.iter().position(|byte| *byte == 0);
    let end = end.unwrap_or(word.len()).min(bytes_max);
    &word[..end]
}
