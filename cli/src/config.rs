//! The configuration file: options that are not given on the command line.
//!
//! `--config FILE`, or `SHEARLINE_CONFIG`. It is TOML, and its keys are the names of options. What the file
//! says is put in front of the arguments, as if it had been typed there, so it is checked in the same way.
//! An option on the command line comes before the file, and so do `SHEARLINE_NODES` and
//! `SHEARLINE_WITHOUT_SCRIPTS`.
//!
//! # Guarantees
//!
//! * A key that is unknown is refused: it could be a guard that was misspelt.
//! * A file with a password that every user of the machine can read is warned of, or refused (`--strict-files`).
//! * No value of the file is shown if it may hold a password.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use toml::de::{DeTable, DeValue};

use crate::connect::is_in_environment;
use crate::failure::Failure;
use crate::secrets::{self, wrong};

/// Where the file is, if no option names it.
const FILE: &str = "SHEARLINE_CONFIG";

/// The keys, and the options that they stand for. A command ignores those that it does not have.
const KEYS: [(&str, &str); 12] = [
    ("nodes", "node"),
    ("ca", "ca"),
    ("cert", "cert"),
    ("key", "key"),
    ("guard", "guard"),
    ("cluster", "cluster"),
    ("max-ttl", "max_ttl"),
    ("without-scripts", WITHOUT_SCRIPTS),
    ("ttl", "ttl"),
    ("lock-delay", "lock_delay"),
    ("owner", "owner"),
    ("fenced", FENCED),
];

/// Those that are `true` or `false`.
const WITHOUT_SCRIPTS: &str = "without_scripts";
const FENCED: &str = "fenced";

/// The user of all nodes whose URL names none, and the file with the password.
const USER: &str = "user";
const PASSWORD_FILE: &str = "password-file";

/// Returns the path of the file, if the command takes one and one is named.
pub(crate) fn path(command: &Command, arguments: &ArgMatches) -> Option<PathBuf> {
    if !has(command, "config") {
        return None;
    }
    let from_environment = || env::var_os(FILE).filter(|path| !path.is_empty());
    let named = arguments.get_one::<PathBuf>("config").cloned();
    named.or_else(|| from_environment().map(PathBuf::from))
}

/// Returns `true` if the command has this option. (What was parsed does not tell, in an optimised build.)
fn has(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .any(|known| known.get_id() == option)
}

/// Returns the arguments that stand for what the file at `path` says and `arguments` do not.
pub(crate) fn arguments(
    path: &Path,
    command: &Command,
    arguments: &ArgMatches,
) -> Result<Vec<OsString>, Failure> {
    let unread = |error| wrong(path, format!("{error}; --config or {FILE} names it"));
    let text = fs::read_to_string(path).map_err(unread)?;
    let table = DeTable::parse(&text).map_err(|error| not_toml(path, &text, &error))?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        let key = key.get_ref().to_string();
        let values = match (option_of(&key), value.get_ref()) {
            (Some(WITHOUT_SCRIPTS | FENCED), DeValue::Boolean(is)) => Some(vec![is.to_string()]),
            (Some(WITHOUT_SCRIPTS | FENCED), _) => {
                return Err(wrong(path, format_args!("{key} is neither true nor false")));
            }
            (_, value) => texts(value),
        };
        let not_text = || wrong(path, format_args!("{key} is not a text or a list of texts"));
        settings.push((key.clone(), values.ok_or_else(not_text)?));
    }
    let is_strict = arguments.get_flag("strict_files");
    let mut nodes = settings.iter().filter(|(key, _)| key == "nodes");
    if nodes.any(|(_, urls)| urls.iter().any(|url| secrets::is_in(url))) {
        secrets::look_at(path, is_strict)?;
    }
    let credentials = credentials(path, &settings, is_strict)?;
    let mut typed = Vec::new();
    for (key, values) in &settings {
        let Some(option) = option_of(key) else {
            if key == USER || key == PASSWORD_FILE {
                continue;
            }
            let known: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
            let known = format!("{}, {USER}, {PASSWORD_FILE}", known.join(", "));
            let key = match key.contains('@') {
                true => "of this name (not shown, it may hold a password)".to_owned(),
                false => format!("{key:?}"),
            };
            let what = format_args!("there is no setting {key}; there are {known}");
            return Err(wrong(path, what));
        };
        if !is_free(command, arguments, option) {
            continue;
        }
        for value in values {
            let value = match option {
                "node" => with_credentials(value, &credentials),
                _ => value.clone(),
            };
            typed.push(format!("--{}={value}", option.replace('_', "-")).into());
        }
    }
    Ok(typed)
}

/// Returns the option that this key stands for.
fn option_of(key: &str) -> Option<&'static str> {
    let known = KEYS.iter().find(|(name, _)| *name == key);
    known.map(|(_, option)| *option)
}

/// Returns `true` if the file may say it: the command has the option, and nothing that comes first says it.
fn is_free(command: &Command, arguments: &ArgMatches, option: &str) -> bool {
    has(command, option)
        && arguments.value_source(option) != Some(ValueSource::CommandLine)
        && !is_in_environment(option)
}

/// The message of the parser repeats nothing of the file, which may hold a password.
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
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// Returns what stands in front of the host in the URLs of nodes: `user:password@`, or nothing.
fn credentials(
    path: &Path,
    settings: &[(String, Vec<String>)],
    is_strict: bool,
) -> Result<String, Failure> {
    let one = |wanted: &str| {
        let setting = settings.iter().find(|(key, _)| key == wanted);
        setting.and_then(|(_, values)| values.first())
    };
    let Some(file) = one(PASSWORD_FILE) else {
        return match one(USER) {
            None => Ok(String::new()),
            Some(_) => Err(wrong(path, "user needs a password-file")),
        };
    };
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let unread = |error| {
        let what = format!("{error}; {PASSWORD_FILE} in {} names it", path.display());
        wrong(&file, what)
    };
    let password = fs::read_to_string(&file).map_err(unread)?;
    secrets::look_at(&file, is_strict)?;
    let user = one(USER).map_or("", String::as_str);
    Ok(format!(
        "{}:{}@",
        escaped(user),
        escaped(password.trim_end_matches(['\n', '\r']))
    ))
}

/// Puts the credentials into a URL that has none.
fn with_credentials(url: &str, credentials: &str) -> String {
    match url.split_once("://") {
        _ if url.contains('@') => url.to_owned(),
        Some((scheme, rest)) => format!("{scheme}://{credentials}{rest}"),
        None if credentials.is_empty() => url.to_owned(),
        None => format!("redis://{credentials}{url}"),
    }
}

/// Percent escapes for everything that could mean something in a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
            _ => {
                let _ = write!(out, "%{byte:02X}"); // A `String` takes everything.
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_into_urls_that_have_none() {
        let all = format!("{}:{}@", escaped("me"), escaped("p@ss:w/o?r#d%é"));
        assert_eq!(all, "me:p%40ss%3Aw%2Fo%3Fr%23d%25%C3%A9@");
        for (url, with) in [
            ("redis://a:1/2", "redis://me:x@a:1/2"),
            ("a:1", "redis://me:x@a:1"),
            ("unix:///run/r", "unix://me:x@/run/r"),
            ("redis://u:p@a", "redis://u:p@a"),
        ] {
            assert_eq!(with_credentials(url, "me:x@"), with);
        }
        assert_eq!(with_credentials("a:1", ""), "a:1");
        assert_eq!(with_credentials("rediss://a", ""), "rediss://a");
    }
}
