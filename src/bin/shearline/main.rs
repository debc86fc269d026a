//! The `shearline` command: one file or folder for each subcommand, and nothing of the algorithm.
//!
//! The exit status is 0 if all went as it should, 1 if not, and 2 for arguments that make no sense.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "a command measures and waits by this clock; no lock is judged by it"
)]

mod demo;

use std::process::ExitCode;

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
    match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
