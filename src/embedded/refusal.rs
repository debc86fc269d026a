//! Error replies. The first word of each error is the same as in the server, because clients use it to distinguish
//! errors. The library also looks for the words `unknown command`, and after `NOPERM` for `' command`.

use alloc::borrow::Cow;
use alloc::format;

/// Why a command was not executed: an error line without the `-` at its beginning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refusal(Cow<'static, str>);

/// The maximum number of bytes of an unknown command that an error repeats.
const ECHO_BYTES_MAX: usize = 64;

impl Refusal {
    pub(super) const SYNTAX: Self = Self::fixed("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self =
        Self::fixed("ERR value is not an integer or out of range");
    pub(super) const EXPIRE_TIME: Self = Self::fixed("ERR invalid expire time");
    pub(super) const WRONG_TYPE: Self =
        Self::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const NO_AUTH: Self = Self::fixed("NOAUTH Authentication required.");
    pub(super) const WRONG_PASS: Self =
        Self::fixed("WRONGPASS invalid username-password pair or user is disabled.");
    pub(super) const NO_SCRIPT: Self = Self::fixed("NOSCRIPT No matching script. Please use EVAL.");
    /// The answer to an `EXEC` that runs no command.
    pub(super) const ABORTED: Self =
        Self::fixed("EXECABORT Transaction discarded because of previous errors.");

    pub(super) const fn fixed(line: &'static str) -> Self {
        Self(Cow::Borrowed(line))
    }

    /// The user may not run `command`.
    pub(super) fn forbidden(command: &str) -> Self {
        let line = format!("NOPERM this user has no permissions to run the '{command}' command");
        Self(Cow::Owned(line))
    }

    pub(super) fn arity(command: &str) -> Self {
        let line = format!("ERR wrong number of arguments for '{command}' command");
        Self(Cow::Owned(line))
    }

    pub(super) fn unknown_command(name: &[u8]) -> Self {
        let name = name[..name.len().min(ECHO_BYTES_MAX)].escape_ascii();
        Self(Cow::Owned(format!("ERR unknown command '{name}'")))
    }

    pub(super) fn line(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
