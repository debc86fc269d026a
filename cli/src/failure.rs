//! The failure of a command: one line for a person, and the exit status.
//!
//! The line is the long form of the library's error, but names options instead of functions. This module assigns one
//! exit status to each kind of error.

use std::fmt;
use std::process::ExitCode;

use serde_json::{Value, json};
use shearline::{
    BuildError, ConfigError, ExtendError, FromBytesError, InvalidRequest, LockError, OperatorError,
    Report, UnlockError,
};

use crate::json;
use crate::output;
use crate::pages::MANUAL;
use crate::status::Status;

/// Why a command fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// One line that says what happened and what to do.
    pub(crate) message: String,
    /// If this is `true`, the command prints nothing, and only the exit status shows the failure.
    pub(crate) quiet: bool,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl fmt::Display) -> Self {
        let escape = |letter: char| letter.escape_default().to_string();
        let message = output::without_controls(&in_words(message), escape);
        Self {
            status,
            message,
            quiet: false,
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Status::Usage, message)
    }

    /// Returns the failure of a command that ends because of this signal.
    pub(crate) fn by_signal(number: i32) -> Self {
        let what = format_args!("ended by signal {number}");
        Self {
            quiet: true,
            ..Self::new(Status::by(number), what)
        }
    }

    /// Returns the failure as a JSON object for programs.
    pub(crate) fn object(&self, command: &str) -> Value {
        let fields = json!({
            "status": self.status.code(),
            "outcome": self.status.word(),
            "error": self.message,
        });
        json::object(command, [fields])
    }

    /// Writes the line to stderr, unless the failure is quiet.
    pub(crate) fn tell(&self) {
        if !self.quiet {
            output::complain(output::BAD, &self.message);
        }
    }

    /// Writes the line, and then exits as [`Status::exit`] does.
    pub(crate) fn report(&self) -> ExitCode {
        self.tell();
        self.status.exit()
    }
}

/// Words in the library's messages, mostly names of functions, and the words that the command prints instead.
const WORDS: &str = "\
`without_scripts` => `--without-scripts`
`Builder::max_ttl` => `--max-ttl`
this handle allows => `--max-ttl` allows
`Builder::lock_delay` => `--lock-delay`
`Redlock::reinit` => `shearline reinit`
`Breaking::AtOnce` => `--now`
`trust_nodes` => `--trust`
`Redlock::trust_nodes` => `--trust`
no node was given; give at least one node => no node was given; give --node, or set SHEARLINE_NODES: at least one node
(`?ca=` in the URL, or `TlsOptions`) => (`--ca`, or `?ca=` in the URL)
(`?cert=` and `?key=` in the URL, or `TlsOptions`) => (`--cert` and `--key`, or `?cert=` and `?key=` in the URL)
put credentials into the URL => give `--password-file`, or credentials in the URL
in the URL, or in the source that supplies them => in the URL, or `--user` and the file of `--password-file`
permits and a strict restart guard need scripts => permits and `--guard strict` need scripts
pass the unchanged bytes that `Lock::to_bytes` returned => pass the unchanged line that `shearline lock` printed
so if its holder is gone, delete the key => so if its holder is gone, end the lock with `shearline break --now`
the release is repeated until they confirm it or the keys expire => repeat the command, or wait until the keys expire";

/// How the library's messages begin the name of a page of the manual. The command prints the address of the page.
const PAGE: &str = "`shearline::manual::";

/// Replaces names of the library in `text` with names of the command, and puts the text on one line.
pub(crate) fn in_words(text: impl fmt::Display) -> String {
    // A terminal or a log should show each failure on one line.
    let line = text.to_string().replace('\n', " ");
    let rows = WORDS.lines().filter_map(|row| row.split_once(" => "));
    let line = rows.fold(line, |line, (of_the_library, ours)| {
        line.replace(of_the_library, ours)
    });
    let mut parts = line.split(PAGE);
    let begin = parts.next().unwrap_or_default().to_owned();
    parts.fold(begin, |line, page| {
        line + MANUAL + &page.replacen('`', "/", 1)
    })
}

/// Returns the status for an operation that failed because too few nodes answered.
pub(crate) fn no_quorum(report: &Report) -> Status {
    match report.needs_operator() {
        true => Status::Configuration,
        false => Status::NoQuorum,
    }
}

/// Returns the status of a request that can never succeed. If the request needs scripts, the status is `Configuration`,
/// because an operator can permit scripts.
fn invalid(why: InvalidRequest) -> Status {
    match why.needs_scripts() {
        true => Status::Configuration,
        false => Status::Usage,
    }
}

/// Implements `From` for each error. The message is the text of the error, and the given expression is the status.
macro_rules! statuses {
    ($($error:ty: |$it:ident| $status:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from($it: $error) -> Self {
                let status = $status;
                Self::new(status, format_args!("{:#}", $it))
            }
        }
    )*};
}

statuses! {
    std::io::Error: |_it| Status::Failure;
    ConfigError: |_it| Status::Configuration;
    InvalidRequest: |it| invalid(it);
    FromBytesError: |_it| Status::Usage;
    BuildError: |_it| Status::Configuration;
    LockError: |it| match &it {
        LockError::Held(_) => Status::Held(75),
        LockError::NoQuorum(report) | LockError::TooSlow(report) => no_quorum(report),
        LockError::OtherGroup(_) => Status::Configuration,
        LockError::Invalid(why) => invalid(*why),
        _ => Status::Failure,
    };
    ExtendError: |it| match &it {
        ExtendError::Expired | ExtendError::Lost(_) => Status::Lost,
        ExtendError::Unconfirmed(report) => no_quorum(report),
        ExtendError::Invalid(_) => Status::Usage,
        _ => Status::Failure,
    };
    UnlockError: |it| match &it {
        UnlockError::NotHeld(_) => Status::Lost,
        UnlockError::Unconfirmed(report) => no_quorum(report),
        _ => Status::Failure,
    };
    OperatorError: |it| match &it {
        OperatorError::NoQuorum(report) | OperatorError::Unconfirmed(report) => no_quorum(report),
        OperatorError::Invalid(_) => Status::Usage,
        _ => Status::Failure,
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use shearline::Unusable;

    #[test]
    fn what_the_library_names_is_said_in_words_of_the_command() {
        let no = |why: Unusable| why.to_string();
        for (text, said) in [
            (
                no(Unusable::NoCredentials),
                "it requires a password; give `--password-file`, or credentials in the URL",
            ),
            (
                no(Unusable::WrongCredentials),
                "it refuses the credentials; correct the user or the password in the URL, or `--user` and the file of \
                 `--password-file`",
            ),
            (
                no(Unusable::NeedsScripts),
                "it runs no scripts, but fencing tokens, shared locks, permits and `--guard strict` need scripts; \
                 permit `EVAL` and `EVALSHA` \
                 (`ACL SETUSER .. +eval +evalsha`), or do without these features",
            ),
            (
                "give that authority's file (`?ca=` in the URL, or `TlsOptions`)".to_owned(),
                "give that authority's file (`--ca`, or `?ca=` in the URL)",
            ),
            (
                no(Unusable::NoPermission),
                "the user lacks a permission; use the ACL line in the manual \
                 (https://docs.rs/shearline/latest/shearline/manual/permissions/)",
            ),
            (
                "set one (`?cert=` and `?key=` in the URL, or `TlsOptions`)".to_owned(),
                "set one (`--cert` and `--key`, or `?cert=` and `?key=` in the URL)",
            ),
        ] {
            assert_eq!(in_words(text), said);
        }
    }

    #[test]
    fn the_library_says_what_is_replaced() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
        let said = code_in(&library);
        for row in WORDS.lines() {
            let (of_the_library, _) = row.split_once(" => ").expect("two parts");
            assert!(said.contains(of_the_library), "{of_the_library}");
        }
        assert!(said.contains(PAGE));
    }

    /// Returns the code in a folder, with comments removed and each string on one line.
    fn code_in(folder: &Path) -> String {
        let mut code = String::new();
        for entry in fs::read_dir(folder).expect("the library is there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                code += &code_in(&path);
                continue;
            }
            let text = fs::read_to_string(path).expect("it is text");
            let lines = text.lines().map(str::trim_start);
            code.extend(
                lines
                    .filter(|it| !it.starts_with("//"))
                    .map(|it| it.trim_end_matches('\\')),
            );
        }
        code
    }
}
