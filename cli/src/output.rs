//! The output of a command on stdout. A person gets lines of text, and a program gets one object (`--json`).
//!
//! Lines are wrapped between words at 80 columns, even in a pipe. Only `watch` does not wrap its lines. No line
//! contains a control character or an invisible character. By default only terminals get colours. `NO_COLOR`,
//! `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` change this default, as the crate `anstream` describes.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::json;
use crate::status::Status;

/// The width of a line.
const WIDTH: usize = 80;

/// The styles of good, bad and doubtful results.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();

/// The style of a note that reports no failure.
pub(crate) const NOTE: Style = Style::new().bold();

/// Returns `text` in a style. The printing functions remove the style if the output has no colours.
pub(crate) fn painted(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The format of the output: lines for a person, or JSON for a program.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Format {
    /// Prints a JSON object on one line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Format {
    /// Prints the object if `--json` was given, and otherwise the lines.
    pub(crate) fn say(
        self,
        object: impl FnOnce() -> Value,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.json {
            true => say(json::line(&object())),
            false => say(lines()),
        }
    }
}

/// Prints a text and a newline in a single write.
pub(crate) fn say(text: impl fmt::Display) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(unwritten)
}

/// Writes a line to stderr. The line begins with the name of this program, in the given style.
pub(crate) fn complain(style: Style, text: impl fmt::Display) {
    // Prints the line with a single write, because another process may also write to stderr. Ignores an error, such as
    // a closed terminal.
    let line = format!("{} {text}\n", painted(style, "shearline:"));
    let _ = anstream::stderr().lock().write_all(line.as_bytes());
}

/// Returns the failure for a write error on stdout. The failure is quiet if the reader has closed the pipe.
pub(crate) fn unwritten(error: io::Error) -> Failure {
    Failure {
        quiet: error.kind() == io::ErrorKind::BrokenPipe,
        ..Failure::new(Status::Failure, format_args!("stdout: {error}"))
    }
}

/// Returns the failure for a read error on stdin.
pub(crate) fn unreadable(error: io::Error) -> Failure {
    Failure::new(Status::Usage, format_args!("stdin cannot be read: {error}"))
}

/// Asks the person at the terminal for confirmation.
pub(crate) fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let what = "stdin is not a terminal; pass --yes to confirm";
        return Err(Failure::usage(what));
    }
    let _ = write!(anstream::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(unreadable)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Status::Failure, "nothing was changed")),
    }
}

/// Returns `label` followed by `text`. The text is wrapped between words, and all lines after the first are indented.
pub(crate) fn item(label: &str, text: &str) -> String {
    wrapped(&format!("{label}  {text}"), WIDTH - 4).join("\n    ")
}

/// Wraps `text` between words into lines of at most `width` characters. A word that is longer than `width` gets its own
/// line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the width of `text` in columns. Colours take none.
pub(crate) fn columns(text: &str) -> usize {
    strip_str(text).map(|part| part.chars().count()).sum()
}

/// Returns `true` for a control character or an invisible format character. On a terminal, such a character could hide
/// a line or change the order of its letters.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Returns `text` with all control and invisible characters escaped.
pub(crate) fn without_controls(text: &str, escape: fn(char) -> String) -> String {
    let letters = text.chars().map(|letter| match is_obeyed(letter) {
        true => escape(letter),
        false => letter.into(),
    });
    letters.collect()
}

/// Returns `bytes` as text. Escapes the bytes if they are not UTF-8, or have control or invisible characters.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_obeyed) => text.to_owned(),
        Ok(_) | Err(_) => bytes.escape_ascii().to_string(),
    }
}

/// Formats the names of locks for a message.
pub(crate) fn listed(names: &[&[u8]]) -> String {
    let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
    names.join(", ")
}

/// Returns the number followed by `noun`, in the plural unless the number is one.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{end}")
}
