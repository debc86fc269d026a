//! The help on a terminal: one line for each option, the examples and the exit statuses. `-h` omits rare options.
//!
//! The manual pages ([`pages`](crate::pages)) have the same contents, divided into sections, and also explain each
//! option.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::styling::Styles;
use clap::builder::{Resettable, StyledStr};
use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;
use crate::output::{self, wrapped};
use crate::status::{self, Status};

/// The texts of a command, without its options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts {
    /// Example command lines for a shell.
    pub(crate) examples: &'static str,
    /// The exit statuses and when each status occurs, as a table for [`status::rows`].
    pub(crate) statuses: &'static str,
    /// A text above the examples in the long help.
    pub(crate) promise: &'static str,
    /// Text that only the manual page shows. Each paragraph is one line, and each list item begins with a star.
    pub(crate) notes: &'static str,
    /// The environment variables that only this command sets, as a table for [`rows`].
    pub(crate) environment: &'static str,
    /// Other manual pages.
    pub(crate) see: &'static str,
}

impl Texts {
    pub(crate) const fn new(
        examples: &'static str,
        statuses: &'static str,
        see: &'static str,
    ) -> Self {
        Self {
            examples,
            statuses,
            promise: "",
            notes: "",
            environment: "",
            see,
        }
    }
}

/// A name and its meaning.
pub(crate) type Row = (&'static str, &'static str);

/// Returns the rows of a table. Each line of the table has a name, two spaces and the meaning.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Row> + Clone {
    table.lines().filter_map(|line| line.split_once("  "))
}

/// The help texts of `shearline` without a subcommand.
const OF_ALL: Texts = Texts::new(
    "\
export SHEARLINE_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
shearline nodes
shearline run report -- make report",
    "\
0
1  the answer is no (as of `status` for a free lock), or another failure
64 69 74 75 78 126 127 128+N",
    "shearline-run(1), shearline-lock(1), flock(1)",
);

/// The environment variables of all commands that send requests to nodes.
pub(crate) const VARIABLES: &str = "\
SHEARLINE_NODES  URLs of the nodes, separated by commas
SHEARLINE_CONFIG  configuration file, as --config
SHEARLINE_WITHOUT_SCRIPTS  true has the effect of --without-scripts";

/// The environment variables for colours.
pub(crate) const COLOURS: &str = "\
NO_COLOR  no colours
CLICOLOR_FORCE  colours even in a pipe";

/// Explains how to write a time.
pub(crate) const TIMES: &str =
    "A TIME is 30s, 500ms, 2m, 1h or 1d, or a number of seconds: 30, 0.5.";

/// Returns the help texts of a command, or of the program if there is no such command.
pub(crate) fn texts(command: &str) -> &'static Texts {
    match command {
        "run" => &crate::run::TEXTS,
        "lock" => &crate::lock::TEXTS,
        "extend" => &crate::extend::TEXTS,
        "unlock" => &crate::unlock::TEXTS,
        "break" => &crate::break_lock::TEXTS,
        "status" => &crate::inspect::TEXTS,
        "watch" => &crate::watch::TEXTS,
        "list" => &crate::list::TEXTS,
        "nodes" => &crate::nodes::TEXTS,
        "check" => &crate::nodes::CHECK_TEXTS,
        "reinit" => &crate::reinit::TEXTS,
        "demo" => &crate::demo::TEXTS,
        "man" => &crate::pages::MAN_TEXTS,
        "completions" => &crate::pages::COMPLETIONS_TEXTS,
        _ => &OF_ALL,
    }
}

/// Returns `true` if the command has the options for nodes and sends requests to the nodes.
pub(crate) fn asks_nodes(command: &Command) -> bool {
    command.get_arguments().any(|it| it.get_id() == "config")
}

/// Prints the help that these arguments request, and returns the status.
pub(crate) fn end(words: &[OsString], to_stderr: bool) -> ExitCode {
    let mut typed = words.iter().skip(1).take_while(|word| *word != "--");
    let is_command = words.get(1).is_some_and(|word| word == "help");
    let is_long = is_command || typed.any(|word| word == "--help");
    let name = words.get(1 + usize::from(is_command));
    let name = name.and_then(|name| name.to_str()).unwrap_or_default();
    let help = help(name, is_long).ansi().to_string();
    if to_stderr {
        let _ = std::io::Write::write_all(&mut anstream::stderr().lock(), help.as_bytes());
        return Status::Usage.into();
    }
    let _ = output::say(help.trim_end()); // A closed terminal does not change the status.
    ExitCode::SUCCESS
}

/// Returns the description of all arguments.
pub(crate) fn built() -> Command {
    let mut all = Cli::command();
    all.build();
    all
}

/// Returns the help of a command, or of the program if there is no command of this name.
pub(crate) fn help(name: &str, is_long: bool) -> StyledStr {
    let all = built();
    let command = all.find_subcommand(name).unwrap_or(&all);
    let below = StyledStr::from(below(command, is_long));
    let shown = command.clone().long_about(Resettable::Reset);
    let shown = shown.mut_args(|arg| short(arg, is_long));
    shown.after_help(below).render_help()
}

/// Returns an option with only the first line of its help. The long help also shows rare options.
fn short(arg: Arg, is_long: bool) -> Arg {
    let (is_rare, id) = (arg.is_hide_short_help_set(), arg.get_id().clone());
    arg.long_help(Resettable::Reset)
        .hide(id == "help")
        .hide_short_help(is_rare && !is_long)
        .hide_possible_values(id != "shell")
        .hide_default_value(id == "guard" || id == "group")
}

/// Returns the text below the options.
fn below(command: &Command, is_long: bool) -> String {
    let name = command.get_name();
    let texts = texts(name);
    let heading = Styles::default().get_header().to_owned();
    let examples = texts.examples.replace('\n', "\n  ").replace("  \n", "\n");
    let mut sections = vec![("Examples", format!("  {examples}"))];
    if is_long {
        if command.has_subcommands() {
            let all = rows(VARIABLES).chain(rows(COLOURS));
            sections.push(("Environment", table(all)));
        }
        if !texts.environment.is_empty() {
            let all = rows(texts.environment);
            sections.push(("Environment of the command", table(all)));
        }
        let statuses = table(status::rows(texts.statuses));
        sections.push(("Exit statuses", statuses));
    }
    let mut text = String::new();
    if is_long && !texts.promise.is_empty() {
        text = format!("{}\n\n", texts.promise);
    }
    for (title, lines) in sections {
        text += &format!("{heading}{title}:{heading:#}\n{lines}\n\n");
    }
    if is_long && command.get_arguments().any(has_time) {
        text += TIMES;
        text += "\n";
    }
    let (space, name) = match command.has_subcommands() {
        true => ("", ""),
        false => (" ", name),
    };
    text += &match is_long {
        true => format!("`shearline man{space}{name} | man -l -` explains every option."),
        false => format!("`shearline{space}{name} --help` says more."),
    };
    text
}

/// Returns `true` if the value of an option is a time.
pub(crate) fn has_time(arg: &Arg) -> bool {
    let mut names = arg.get_value_names().unwrap_or_default().iter();
    names.any(|name| name == "TIME")
}

/// Formats rows as two columns.
fn table(rows: impl Iterator<Item = Row> + Clone) -> String {
    let width = rows.clone().map(|(first, _)| first.len()).max();
    let width = width.unwrap_or_default();
    let lines = rows.flat_map(|(first, rest)| {
        let rest = wrapped(rest, 76 - width);
        let firsts = [first].into_iter().chain(std::iter::repeat(""));
        let lines = firsts.zip(rest);
        lines.map(move |(first, rest)| format!("  {first:<width$}  {rest}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}
