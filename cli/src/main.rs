//! The `shearline` command. Each subcommand has a file or a folder. The library contains the algorithm.
//!
//! | file | subject |
//! | --- | --- |
//! | `config` | the configuration file |
//! | `secrets` | passwords in URLs, and the files that hold one |
//! | `connect` | the options that name the nodes, and the handle made of them |
//! | `acquire`, `taking` | the options for taking a lock, and the wait for it |
//! | `waiting` | what a command prints while it waits for a lock |
//! | `status`, `failure` | the exit statuses, and the line that explains a failure |
//! | `mistyped` | the same line for arguments that cannot be used |
//! | `help` | the help on a terminal |
//! | `duration`, `json` | spans of time as people write them, and what programs read |
//! | `output`, `signals` | what is printed, and the signals that end a wait |
//! | `run` | a command that runs while a lock is held |
//! | `lock`, `extend`, `unlock`, `held` | a lock that a script holds over several commands |
//! | `inspect`, `watch`, `list` | who holds a lock, and which locks are held |
//! | `break_lock` | the end of a lock whose holder is gone or hangs |
//! | `nodes`, `trial`, `reinit` | the nodes: would they vote, what do they permit, and how do they become a new group
//! |
//! | `pace` | when the next node may be restarted |
//! | `pages` | the manual pages, and the completions of shells |
//! | `demo` | the demo |
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "commands use this clock to measure and to wait, never to decide whether a lock is valid"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library may add variants, so each `match` on its enums needs `_` anyway"
)]

mod acquire;
mod break_lock;
mod config;
mod connect;
mod demo;
mod duration;
mod extend;
mod failure;
mod held;
mod help;
mod inspect;
mod json;
mod list;
mod lock;
mod mistyped;
mod nodes;
mod output;
mod pace;
mod pages;
mod reinit;
#[cfg(target_os = "linux")]
mod run;
#[cfg(not(target_os = "linux"))]
#[path = "run/elsewhere.rs"]
mod run;
mod secrets;
mod signals;
mod status;
mod taking;
mod trial;
mod unlock;
mod waiting;
mod watch;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use failure::Failure;
use mistyped::Reader;
use status::Status;

/// A distributed lock over N independent Redis or Valkey masters.
///
/// `run` runs a command while it holds a lock. `lock`, `extend` and `unlock` are for scripts. `status`, `watch`,
/// `list`, `break`, `nodes`, `check` and `reinit` are for operators.
#[derive(Debug, Parser)]
#[command(
    name = "shearline",
    version,
    arg_required_else_help = true,
    max_term_width = 80
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Lock(lock::Args),
    Extend(extend::Args),
    Unlock(unlock::Args),
    Break(break_lock::Args),
    Status(inspect::Args),
    Watch(watch::Args),
    List(list::Args),
    Nodes(nodes::Args),
    Check(nodes::CheckArgs),
    Reinit(reinit::Args),
    Demo(demo::Args),
    Man(pages::ManArgs),
    Completions(pages::CompletionsArgs),
}

fn main() -> ExitCode {
    if let Some(status) = run::as_part() {
        return status;
    }
    let words: Vec<OsString> = env::args_os().collect();
    let matches = match Cli::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return mistyped::end(error, &words),
    };
    // The typed arguments are valid. They decide in which format an error in the configuration file is printed.
    let (typed, reader) = (Cli::from_arg_matches(&matches), mistyped::reader(&words));
    let typed = typed.map(|typed| typed.command);
    match (with_file(matches, words).map(|cli| cli.command), typed) {
        (Ok(Command::Run(args)), _) => run::run(&args, None),
        (Err(failure), Ok(Command::Run(args))) => run::run(&args, Some(failure)),
        (command, _) => end(&reader, command.and_then(|command| run(&command))),
    }
}

/// Adds the options of the configuration file to the typed arguments.
fn with_file(mut matches: ArgMatches, mut typed: Vec<OsString>) -> Result<Cli, Failure> {
    let all = Cli::command();
    if let Some((name, arguments)) = matches.subcommand()
        && let Some(command) = all.find_subcommand(name)
        && let Some(path) = config::path(command, arguments)
    {
        // Inserts the options of the file after the names of the program and the subcommand.
        typed.splice(2..2, config::arguments(&path, command, arguments)?);
        // The typed arguments were valid without the file, so the mistake is in the file.
        let wrong = |error| secrets::wrong(&path, mistyped::line(error));
        matches = all.try_get_matches_from(typed).map_err(wrong)?;
    }
    Cli::from_arg_matches(&matches).map_err(Failure::usage)
}

fn run(command: &Command) -> Result<Status, Failure> {
    match command {
        Command::Run(_) => unreachable!("it ends by itself"),
        Command::Lock(args) => lock::run(args),
        Command::Extend(args) => extend::run(args),
        Command::Unlock(args) => unlock::run(args),
        Command::Break(args) => break_lock::run(args),
        Command::Status(args) => inspect::run(args),
        Command::Watch(args) => watch::run(args),
        Command::List(args) => list::run(args),
        Command::Nodes(args) => nodes::run(args),
        Command::Check(args) => nodes::check(args),
        Command::Reinit(args) => reinit::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Man(args) => pages::man(args),
        Command::Completions(args) => pages::completions(Cli::command(), args),
    }
}

/// Prints why a command has failed, and returns the status.
fn end(reader: &Reader, result: Result<Status, Failure>) -> ExitCode {
    let failure = match result {
        Ok(status) => return status.into(),
        Err(failure) => failure,
    };
    match reader {
        Reader::Person => {}
        // If the command cannot print the object, its exit status still shows the failure.
        Reader::Program(name) => drop(output::say(json::line(&failure.object(name)))),
        Reader::Monitor => return nodes::unknown(&failure).into(),
    }
    failure.report()
}

#[cfg(test)]
mod tests;
