//! Server errors: which command was refused, and whether it certainly did not run.
//!
//! Only an error's first word is reliable, because servers may repeat arguments of the command after it. The classes of
//! errors were found by experiments with redis-server 7. A command that was refused *for certain* did not run, so there
//! is nothing to undo. After any other error the command may have run, so the engine sends a release.

use crate::error::{NodeOutcome, ServerError, Unusable};
use crate::resp::Value;

/// An error in a server's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// An error `-CODE ..`.
    Error(ServerError),
    /// The user lacks a permission.
    Forbidden(Forbidden),
}

impl Refusal {
    /// Reads the refusal from `value`. A value that is not an error counts as a plain `ERR`.
    #[cold]
    pub(super) fn of(value: Value<'_>) -> Self {
        let line = value.as_error().unwrap_or(b"ERR");
        match Forbidden::of(line) {
            Some(forbidden) => Self::Forbidden(forbidden),
            None => Self::Error(ServerError::from_line(quoted(line).unwrap_or(line))),
        }
    }

    /// Returns the missing permission, if the server has refused to let the user run `command`.
    pub(super) fn missing(self, command: &'static str) -> Option<Unusable> {
        match self {
            Self::Forbidden(Forbidden::Key) => Some(Unusable::KeyPermission),
            Self::Forbidden(Forbidden::Command | Forbidden::Part) => {
                Some(Unusable::Permission { command })
            }
            Self::Forbidden(Forbidden::Within) | Self::Error(_) => None,
        }
    }

    /// Returns the outcome that a report shows for this refusal of `command`.
    pub(super) fn outcome(self, command: &'static str) -> NodeOutcome {
        let missing = self.missing(command).map(NodeOutcome::Unusable);
        missing.unwrap_or_else(|| NodeOutcome::Refused(self.error()))
    }

    /// Returns the error. Servers use different codes for a forbidden command or key, so this method always returns
    /// `NOPERM` for them.
    pub(super) fn error(self) -> ServerError {
        match self {
            Self::Error(error) => error,
            Self::Forbidden(Forbidden::Within) => ServerError::from_line(b"ERR"),
            Self::Forbidden(_) => ServerError::from_line(b"NOPERM"),
        }
    }

    /// Returns `true` if the error's text is unknown and may mean that the server runs no scripts.
    pub(super) fn is_in_own_words(self) -> bool {
        let Self::Error(error) = self else {
            return false;
        };
        !is_known(error) && !matches!(error.code(), "WRONGTYPE" | "EXECABORT")
    }
}

/// The kind of permission that the user lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Forbidden {
    /// The user may not run the command. This variant also covers servers that do not have the command, or have no
    /// engine for scripts.
    Command,
    /// The user may not access a key of the command.
    Key,
    /// The user may not run a command that one of our scripts contains.
    Within,
    /// The user may not run a command of one of our transactions. The transaction has done nothing.
    Part,
}

impl Forbidden {
    /// Returns the missing permission that the error `line` names. For a forbidden command, all servers say "to run the
    /// '..' command". For a forbidden key, the text depends on the server.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let says = |text: &[u8]| line.windows(text.len()).any(|part| part == text);
        let error = ServerError::from_line(line);
        match error.code() {
            "NOPERM" if says(b"' command") => Some(Self::Command),
            "NOPERM" => Some(Self::Key),
            "ERR" if line.starts_with(b"ERR unknown command") => Some(Self::Command),
            "ERR" if line.starts_with(b"ERR Could not find scripting engine") => {
                Some(Self::Command)
            }
            "ERR" if says(b"can't run this command") || says(b"ACL failure in script") => {
                Some(Self::Within)
            }
            code if (code == "EVAL" || error.is_plain()) && runs_no_scripts(line) => {
                Some(Self::Command)
            }
            _ => None,
        }
    }
}

/// Returns `true` if the text of the error `line` means that the server never runs scripts. Proxies and servers that
/// imitate Redis return such errors. Temporary errors use other words.
fn runs_no_scripts(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    let says = |text: &&[u8]| memchr::memmem::find(&line, text).is_some();
    if says(&&b"user_script"[..]) {
        return false; // A script has begun, and a command in it was refused.
    }
    let scripts: [&[u8]; 3] = [b"eval", b"script", b"lua"];
    let none: [&[u8]; 4] = [
        b"unsupported",
        b"not supported",
        b"disabled",
        b"not implemented",
    ];
    says(&&b"bad lua script"[..]) || scripts.iter().any(says) && none.iter().any(says)
}

/// Returns the error of a command that failed within one of our scripts. Servers before Redis 7.0 put this error at the
/// end of their own message, after the script's name and the line number. Lua's own errors have no code.
fn quoted(line: &[u8]) -> Option<&[u8]> {
    const PLACE: &[u8] = b"@user_script:";
    let line = line.strip_prefix(b"ERR Error running script ")?;
    let mut parts = line.windows(PLACE.len());
    let place = parts.rposition(|part| part == PLACE)?;
    let said = line.get(place + PLACE.len()..)?.trim_ascii_start();
    let digits = said.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let said = said.get(digits..)?.strip_prefix(b": ")?;
    let said = said.strip_prefix(b"-").unwrap_or(said);
    let code = said.split(|byte| *byte == b' ').next()?;
    let is_code = 1 < code.len() && code.iter().all(u8::is_ascii_uppercase);
    is_code.then_some(said)
}

/// Returns `true` if a command with this error certainly did not run.
pub(super) fn refuses_for_certain(error: ServerError) -> bool {
    guard!(RefusedReleased, is_known(error))
}

/// Returns `true` if this is a known error, which servers send instead of running a command.
pub(super) fn is_known(error: ServerError) -> bool {
    matches!(
        error.code(),
        "LOADING"
            | "BUSY"
            | "OOM"
            | "MISCONF"
            | "READONLY"
            | "MASTERDOWN"
            | "NOREPLICAS"
            | "NOAUTH"
            | "WRONGPASS"
            | "NOPERM"
            | "NOSCRIPT"
            | "MOVED"
            | "ASK"
            | "CLUSTERDOWN"
            | "CROSSSLOT"
            | "TRYAGAIN"
            | "DENIED"
    )
}

/// Returns `true` if this error means that the server is loading or copying keys, and may have other keys afterwards.
pub(super) fn may_forget(error: ServerError) -> bool {
    matches!(error.code(), "LOADING" | "READONLY" | "MASTERDOWN")
}

/// Returns `true` if this error means that the server does not know the digest of the script.
pub(super) fn wants_the_text(error: ServerError) -> bool {
    error.code() == "NOSCRIPT"
}

/// Returns `true` if this error means that the command itself is unknown or forbidden, and not only refused
/// temporarily.
pub(super) fn refuses_the_verb(error: ServerError) -> bool {
    matches!(error.code(), "ERR" | "NOPERM")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_about_the_command_its_key_or_one_within() {
        use Forbidden::{Command, Key, Within};
        // These are the texts of Redis 6.2, 7.0 and Valkey 9.1.
        let command = [
            "NOPERM this user has no permissions to run the 'eval' command",
            "NOPERM this user has no permissions to run the 'eval' command or its subcommand",
            "NOPERM User monkey has no permissions to run the 'delifeq' command",
            "ERR unknown command 'EVAL', with args beginning",
            "ERR Could not find scripting engine 'lua'",
            "ERR bad lua script for redis cluster, all the keys should be passed by KEYS",
            "ERR unsupported command `eval`",
            "EVAL is disabled",
            "unsupported command `eval`",
            "ERR 'EVAL' command is not supported",
            "ERR Scripting is disabled",
        ];
        let key = [
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "NOPERM No permissions to access a key",
        ];
        let within = [
            "ERR The user executing the script can't run this command or subcommand script: x",
            "ERR ACL failure in script: User u has no permissions to run the 'get' command",
        ];
        let expect = |lines: &[&str], forbidden, code| {
            for line in lines {
                let refusal = Refusal::of(Value::Error(line.as_bytes()));
                assert_eq!(refusal, Refusal::Forbidden(forbidden), "{line}");
                let error = refusal.error();
                assert_eq!(error.code(), code, "{line}");
                // If a script stops halfway, the effects of its earlier commands remain.
                assert_eq!(refuses_for_certain(error), forbidden != Within, "{line}");
            }
        };
        expect(&command, Command, "NOPERM");
        expect(&key, Key, "NOPERM");
        expect(&within, Within, "ERR");
    }

    /// Temporary errors, and errors of a script that has begun, do not mean that the server runs no scripts.
    #[test]
    fn other_errors_do_not_say_that_no_scripts_are_run() {
        for line in [
            "ERR upstream failure",
            "ERR unsupported command `set`",
            "ERR This Redis command is not allowed from script",
            "ERR Error running script (call to f_9b47): @user_script:1: A riddle",
            "ERR Error running script (call to f_9b47): @user_script:1: @user_script: 1: -MISCONF Redis is configured to \
             save snapshots, but it's unable to. Commands that may modify the data set are disabled",
            "BUSY Redis is busy running a script. Not supported",
            "NOSCRIPT No matching script. Please use EVAL.",
        ] {
            let forbidden = Forbidden::of(line.as_bytes());
            assert_eq!(forbidden, None, "{line}");
        }
    }

    #[test]
    fn what_a_command_within_a_script_was_answered_decides() {
        let script = "ERR Error running script (call to f_9b47)";
        for (line, code) in [
            (": @user_script:1: @user_script: 1: -READONLY x", "READONLY"),
            (": @user_script:1: -OOM command not allowed", "OOM"),
            (": @user_script:1: WRONGTYPE Operation", "WRONGTYPE"),
            (": @user_script:1: A riddle", "ERR"),
            (": @user_script:", "ERR"),
            (": @user_script:1", "ERR"),
            (": @user_script:1: @user_script: 1: Wrong number", "ERR"),
            ("", "ERR"),
        ] {
            let line = alloc::format!("{script}{line}");
            let refusal = Refusal::of(Value::Error(line.as_bytes()));
            assert_eq!(refusal.error().code(), code, "{line}");
        }
    }

    #[test]
    fn what_neither_passes_nor_is_known_may_be_said_of_scripts() {
        let unknown = [
            "ERR unsupported here",
            "ERR upstream failure",
            "ERR unsupported command `set`",
            "ERR",
            "",
            "NOTHERE",
            "no luck",
        ];
        let known = [
            // These are known texts about scripts and permissions.
            "ERR unknown command 'EVAL'",
            "EVAL is disabled",
            "ERR bad lua script for redis cluster",
            "NOPERM this user has no permissions to run the 'eval' command",
            "NOPERM No permissions to access a key",
            "ERR ACL failure in script: User u has no permissions",
            // These errors are temporary, or show that the server knows the command.
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script",
            "OOM command not allowed",
            "MISCONF Redis is configured to save",
            "NOREPLICAS Not enough good replicas to write",
            "READONLY You can't write",
            "MASTERDOWN Link with MASTER is down",
            "NOAUTH Authentication required",
            "NOSCRIPT No matching script",
            "MOVED 1 127.0.0.1:1",
            "CLUSTERDOWN The cluster is down",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "TRYAGAIN Multiple keys request",
            "DENIED Redis is running in protected mode",
            "WRONGTYPE Operation against a key",
            "EXECABORT Transaction discarded",
        ];
        let lines = unknown.map(|line| (line, true)).into_iter();
        for (line, says) in lines.chain(known.map(|line| (line, false))) {
            let refusal = Refusal::of(Value::Error(line.as_bytes()));
            assert_eq!(refusal.is_in_own_words(), says, "{line}");
        }
    }

    #[test]
    fn the_first_word_decides() {
        let certain = [
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "NOPERM this user has no permissions to access one of the keys",
        ];
        let open = [
            "ERR value is not an integer or out of range",
            "ERR The user executing the script can't run this command",
            "LOADINGX",
            "loading",
            "",
        ];
        let lines = certain.map(|line| (line, true)).into_iter();
        for (line, is_certain) in lines.chain(open.map(|line| (line, false))) {
            let error = ServerError::from_line(line.as_bytes());
            assert_eq!(refuses_for_certain(error), is_certain, "{line}");
        }
        assert!(wants_the_text(ServerError::from_line(
            b"NOSCRIPT No matching script."
        )));
    }
}
