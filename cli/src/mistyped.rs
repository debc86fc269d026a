//! Explains arguments that cannot be used. One line says what is wrong and where to read more.
//!
//! The text comes from `clap`, which writes it on several lines.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::Cli;
use crate::failure::Failure;
use crate::help;
use crate::status::Status;

/// Prints the requested help, or says what is wrong with the arguments, and returns the status.
pub(crate) fn end(error: clap::Error, words: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayVersion => {
            let _ = error.print(); // A closed terminal does not change the status.
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help::end(words, error.use_stderr())
        }
        _ => crate::end(&reader(words), Err(failure(error, words))),
    }
}

/// Returns what is wrong with the arguments.
pub(crate) fn failure(mut error: clap::Error, words: &[OsString]) -> Failure {
    // The shell splits an unquoted URL at its spaces. So if an argument contains `@`, an unknown word may be a part of
    // a password.
    let mut typed = words.iter().take_while(|word| *word != "--");
    if typed.any(|word| word.to_string_lossy().contains('@')) {
        let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string);
        if unknown.is_some_and(|word| !word.starts_with('-')) {
            hide(&mut error, ContextKind::InvalidArg, "a password");
        }
    }
    let page = command(words).map_or_else(String::new, |command| format!("{command} "));
    // If the arguments are valid without the environment variables, the mistake is in a variable.
    let without =
        Cli::command().mut_subcommands(|it| it.mut_args(|arg| arg.env(Resettable::Reset)));
    let status = match without.try_get_matches_from(words) {
        Ok(_) => Status::Configuration,
        Err(_) => Status::Usage,
    };
    let line = line(error);
    Failure::new(status, format_args!("{line}; see `shearline {page}--help`"))
}

/// The reader of the command's output.
#[derive(Debug)]
pub(crate) enum Reader {
    Person,
    /// A program that reads the JSON output of this command.
    Program(String),
    /// A monitor that runs the command as a plugin.
    Monitor,
}

/// Returns who reads the output, according to these arguments.
pub(crate) fn reader(words: &[OsString]) -> Reader {
    let has = |option| {
        words
            .iter()
            .take_while(|it| *it != "--")
            .any(|it| it == option)
    };
    match command(words) {
        Some(command) if command == "check" && has("--nagios") => Reader::Monitor,
        Some(command) if command != "run" && has("--json") => Reader::Program(command),
        _ => Reader::Person,
    }
}

/// Returns the text of the error on one line.
pub(crate) fn line(mut error: clap::Error) -> String {
    let shows_usage = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument
    );
    hide_credentials(&mut error);
    let text = error.to_string();
    let parts = text.split("\n\n").filter_map(|part| {
        let part = part.trim();
        let is_kept = !part.starts_with("For more information")
            && (!part.starts_with("Usage: ") || shows_usage);
        // `clap` suggests passing the word as a value. The message omits this tip, because values of this command do
        // not look like options.
        let lines = part.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("tip: to pass"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        (is_kept && !words.is_empty()).then(|| words.join(" "))
    });
    let line = parts.collect::<Vec<_>>().join("; ");
    let line = line.replace("; Usage: ", "; usage: ");
    line.trim_start_matches("error: ").to_owned()
}

/// Returns the command that was typed, if it exists.
fn command(words: &[OsString]) -> Option<String> {
    let typed = words.get(1)?.to_str()?;
    Cli::command().find_subcommand(typed)?;
    Some(typed.to_owned())
}

/// The text of every lock begins with these digits.
const LOCK: &str = "53484c4b";

/// Hides secrets that the message would repeat. An argument may be a URL with a password, or the text of a lock. Anyone
/// who knows that text can release the lock.
fn hide_credentials(error: &mut clap::Error) {
    let secret_of = |value: &ContextValue| match value.to_string() {
        text if text.contains('@') => Some("a password"),
        text if text.contains(LOCK) => Some("a lock"),
        _ => None,
    };
    let secrets: Vec<(ContextKind, &str)> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, secret_of(value)?)))
        .collect();
    for (kind, secret) in secrets {
        hide(error, kind, secret);
    }
}

fn hide(error: &mut clap::Error, kind: ContextKind, secret: &str) {
    let instead = format!("(hidden: it may hold {secret})");
    error.insert(kind, ContextValue::String(instead));
}
