//! The configuration file, which contains options for the command line.
//!
//! `--config FILE` or `SHEARLINE_CONFIG` names the file. The file is TOML, and its keys are the names of options. The
//! command inserts these options before the typed arguments, so both are checked in the same way. Options on the
//! command line override the file. `SHEARLINE_NODES` and `SHEARLINE_WITHOUT_SCRIPTS` also override the file.
//!
//! # Guarantees
//!
//! * This module refuses an unknown key, because the key could be a misspelled `guard`.
//! * If every user of the machine can read a file with a password, the command prints a warning. With `--strict-files`,
//!   the command refuses a file that every user can read.
//! * Errors never show a value that may hold a password.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;
use crate::secrets::{self, wrong};

/// The environment variable that names the configuration file. `--config` overrides it.
pub(crate) const FILE: &str = "SHEARLINE_CONFIG";

/// The keys of the file: the names of options, and [`NODES`]. A command ignores the keys of options that it does not
/// have.
pub(crate) const KEYS: &str = "nodes, user, password-file, ca, cert, key, guard, group, max-ttl, node-timeout, \
    connect-timeout, without-scripts, ttl, lock-delay, owner, fenced";

/// The key for the URLs of the nodes, which sets `--node`.
const NODES: &str = "nodes";

/// The key for the path of the password file. A relative path is relative to the folder of the configuration file.
const PASSWORD_FILE: &str = "password-file";

/// Returns the path of the configuration file, if the command takes a file and the user gives one.
pub(crate) fn path(command: &Command, arguments: &ArgMatches) -> Option<PathBuf> {
    if !has(command, "config") {
        return None;
    }
    let named = arguments.get_one::<OsString>("config")?;
    says_something(arguments, "config").then(|| named.into())
}

/// Returns `true` if the command has this option. Searches `command`, because in an optimised build `ArgMatches` does
/// not show which options exist.
fn has(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .any(|known| known.get_id() == option)
}

/// Returns the options in the file at `path` as arguments. Leaves out the options that `arguments` override.
pub(crate) fn arguments(
    path: &Path,
    command: &Command,
    arguments: &ArgMatches,
) -> Result<Vec<OsString>, Failure> {
    let unread = |error| wrong(path, format!("{error}; --config or {FILE} names this file"));
    let text = fs::read_to_string(path).map_err(unread)?;
    let table = DeTable::parse(&text).map_err(|error| not_toml(path, &text, &error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut typed = Vec::new();
    for (key, value) in table.get_ref() {
        let key = &**key.get_ref();
        if !KEYS.split(", ").any(|known| known == key) {
            let key = match key.contains('@') {
                true => "of this name (not shown, because it may hold a password)".to_owned(),
                false => format!("{key:?}"),
            };
            let what = format_args!("there is no setting {key}; the settings are {KEYS}");
            return Err(wrong(path, what));
        }
        let values = texts(value.get_ref()).ok_or_else(|| {
            let what = "must be a string, a number, true, false, or a list of these";
            wrong(path, format_args!("{key} {what}"))
        })?;
        if key == NODES && values.iter().any(|url| secrets::is_in(url)) {
            secrets::look_at(path, arguments.get_flag("strict_files"))?;
        }
        let option = if key == NODES { "node" } else { key };
        let id = option.replace('-', "_");
        if !has(command, &id) || says_something(arguments, &id) {
            continue;
        }
        for value in values {
            let mut word = OsString::from(format!("--{option}="));
            word.push(match key {
                PASSWORD_FILE => folder.join(value),
                _ => PathBuf::from(value),
            });
            typed.push(word);
        }
    }
    Ok(typed)
}

/// Returns `true` if the user typed the option, or if the environment variable for the option is not empty.
fn says_something(arguments: &ArgMatches, option: &str) -> bool {
    match arguments.value_source(option) {
        Some(ValueSource::CommandLine) => true,
        Some(ValueSource::EnvVariable) => arguments
            .get_raw(option)
            .is_none_or(|mut all| all.any(|it| !it.is_empty())),
        _ => false,
    }
}

/// Returns a message for a file that is not TOML. The parser's own message would quote the file, which may hold a
/// password.
fn not_toml(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    let what = format_args!("line {line} is not TOML: {}", error.message());
    wrong(path, what)
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(text) => Some(vec![text.to_string()]),
        DeValue::Integer(number) => Some(vec![number.to_string()]),
        DeValue::Float(number) => Some(vec![number.to_string()]),
        DeValue::Array(values) => {
            let texts = values.iter().map(|value| texts(value.get_ref()));
            Some(texts.collect::<Option<Vec<_>>>()?.concat())
        }
        DeValue::Boolean(is) => Some(vec![is.to_string()]),
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}
