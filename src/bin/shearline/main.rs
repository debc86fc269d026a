//! The `shearline` command: one file or folder for each subcommand, and nothing of the algorithm.
//!
//! The exit status is 0 for success, 1 for failure, and 2 for wrong arguments.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "a command measures and waits by this clock; no lock is judged by it"
)]

mod demo;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

/// A distributed lock over N independent Redis or Valkey masters.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 96)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli {
            command: Command::Demo(args),
        }) => demo::run(&args),
        Err(error) => without_credentials(error).exit(),
    }
}

/// The message about an unknown argument would repeat it. If it may be the URL of a node, there may be
/// a password in it.
fn without_credentials(mut error: clap::Error) -> clap::Error {
    let may_hold_some = |value: &ContextValue| value.to_string().contains('@');
    let kinds: Vec<ContextKind> = error
        .context()
        .filter(|(_, value)| may_hold_some(value))
        .map(|(kind, _)| kind)
        .collect();
    for kind in kinds {
        let instead = "not shown, it may hold a password";
        error.insert(kind, ContextValue::String(instead.into()));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
