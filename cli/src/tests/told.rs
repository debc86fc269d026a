//! Every line of the command in the README, the manual, the examples and the help can be parsed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::*;

#[test]
fn each_line_of_the_texts_can_be_parsed() {
    let mut lines = 0;
    let texts = files().into_iter().map(|file| {
        let text = fs::read_to_string(&file).expect("text");
        (file.display().to_string(), text)
    });
    let all = Cli::command();
    let helps = all.get_subcommands().map(|command| {
        let name = command.get_name();
        (
            format!("the help of {name}"),
            help::texts(name).examples.to_owned(),
        )
    });
    for (file, text) in texts.chain(helps) {
        // The systemd unit continues a line on the next one.
        let text = text.replace("\\\n", " ");
        for line in lines_in(&text) {
            let words = words_of_shell(line);
            let parsed = Cli::command().try_get_matches_from(&words);
            // A command with nothing but options is only mentioned.
            let is_mention = words[2..].iter().all(|word| word.starts_with("--"));
            let error = parsed.err().map(|error| error.kind());
            let fine = match error {
                None | Some(ErrorKind::DisplayHelp) => true,
                error => is_mention && error == Some(ErrorKind::MissingRequiredArgument),
            };
            assert!(fine, "{file}: {line}: {error:?}");
            lines += 1;
        }
    }
    assert!(lines >= 40, "only {lines} were recognized");
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = fs::read_dir(root.join("docs")).expect("it is there");
    let pages = pages.map(|entry| entry.expect("listed").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let others = [
        "README.md",
        "examples/systemd/backup.service",
        "examples/docker/Dockerfile",
    ];
    others
        .map(|file| root.join(file))
        .into_iter()
        .chain(pages)
        .collect()
}

/// Returns the texts that begin with the name of the program and of a command, up to the end of the line, of the code
/// or of the part of a pipe. A command alone is only mentioned.
fn lines_in(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("shearline ");
    let lines = starts.map(|(at, name)| {
        let line = &text[at + name.len()..];
        let line = &line[..line.find('\n').unwrap_or(line.len())];
        let end = line
            .find(['`', ';', '|', ')', '#', '>'])
            .unwrap_or(line.len());
        line[..end].trim()
    });
    let names: Vec<String> = Cli::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    lines.filter(move |line| {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let has_all = !rest.is_empty() || ["list", "nodes", "check", "demo"].contains(&name);
        names.iter().any(|it| it == name) && has_all
    })
}

/// Splits a line into words like a shell, as far as the texts need it: quotes keep the text between them together.
fn words_of_shell(line: &str) -> Vec<String> {
    let mut words = vec!["shearline".to_owned(), String::new()];
    let mut quote = None;
    for letter in line.chars() {
        let word = words.last_mut().expect("there is one");
        match letter {
            '\'' | '"' if quote.is_none() => quote = Some(letter),
            _ if quote == Some(letter) => quote = None,
            ' ' if quote.is_none() && !word.is_empty() => words.push(String::new()),
            ' ' if quote.is_none() => {}
            _ => word.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
