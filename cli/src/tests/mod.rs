//! The messages about arguments and files that the command cannot use. They come before any node is asked.

mod files;
mod told;
mod words;

use super::*;

/// The address of a node that does not exist. In these tests, everything is refused before a connection is made.
const NOWHERE: &str = "127.0.0.1:1";

#[test]
fn the_arguments_are_consistent() {
    Cli::command().debug_assert();
}

fn words_of(line: &str) -> Vec<OsString> {
    let words = line.split_whitespace().map(OsString::from);
    [OsString::from("shearline")]
        .into_iter()
        .chain(words)
        .collect()
}

/// Returns the parsed arguments with those of the configuration file that they name, or why they cannot be used.
fn typed(line: &str) -> Result<Cli, Failure> {
    let words = words_of(line);
    match Cli::command().try_get_matches_from(&words) {
        Ok(matches) => with_file(matches, words),
        Err(error) => Err(mistyped::failure(error, &words)),
    }
}

/// Returns why a command fails.
#[track_caller]
fn failure(line: &str) -> Failure {
    let done = typed(line).and_then(|cli| match cli.command {
        Command::Lock(args) => lock::run(&args),
        Command::Extend(args) => extend::run(&args),
        Command::Unlock(args) => unlock::run(&args),
        Command::Break(args) => break_lock::run(&args),
        Command::Status(args) => inspect::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::List(args) => list::run(&args),
        other => panic!("{line}: {other:?} was accepted"),
    });
    done.expect_err(line)
}
