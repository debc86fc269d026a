//! `shearline man` and `shearline completions`: made of the description of the arguments.

use std::io::{self, Write as _};

use clap::builder::PossibleValuesParser;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::output::unwritten;
use crate::status::Status;

/// Prints the manual page of a command.
///
/// Read it with `shearline man lock | man -l -`, or install it as shearline-lock.1 into a directory of
/// MANPATH. Without a command it is shearline(1).
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The command.
    command: Option<String>,
}

/// Where they are looked for.
const PLACES: &str = "\
Install them once:
  mkdir -p ~/.local/share/bash-completion/completions
  shearline completions bash \\
    > ~/.local/share/bash-completion/completions/shearline

  shearline completions zsh > DIR/_shearline     # with a DIR of your $fpath

  mkdir -p ~/.config/fish/completions
  shearline completions fish > ~/.config/fish/completions/shearline.fish";

/// Prints the completions for bash, zsh or fish.
#[derive(Debug, clap::Args)]
#[command(after_help = PLACES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: For,
}

/// The shells for which there are completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum For {
    Bash,
    Zsh,
    Fish,
}

/// Prints a manual page.
pub(crate) fn man(all: Command, args: &ManArgs) -> Result<Status, Failure> {
    written(&page(all, args.command.as_deref())?)
}

/// Returns the manual page of a command, or that of all.
fn page(mut all: Command, command: Option<&str>) -> Result<Vec<u8>, Failure> {
    all.build();
    let page = match command {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            let found = found.ok_or_else(|| {
                Failure::usage(format_args!(
                    "there is no command {name:?}; see shearline --help"
                ))
            })?;
            let title = format!("shearline-{}", found.get_name());
            found.display_name(title)
        }
    };
    let mut text = Vec::new();
    render(page, &mut text).map_err(unwritten)?;
    Ok(text)
}

/// Renders the sections of a page. The synopsis is the usage line of the help. What stands below the options there has
/// tables and lists in it that are laid out already, 80 columns wide: it is not filled, and not indented.
fn render(mut page: Command, to: &mut Vec<u8>) -> io::Result<()> {
    let usage = page.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let notes = page.get_after_long_help().or(page.get_after_help());
    let notes = notes.map(ToString::to_string);
    let (has_commands, has_version) = (page.has_subcommands(), page.get_version().is_some());
    let man = Man::new(page).source(concat!("shearline ", env!("CARGO_PKG_VERSION")));
    man.render_title(to)?;
    man.render_name_section(to)?;
    writeln!(to, ".SH SYNOPSIS\n{}", as_roff(usage))?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if has_commands {
        man.render_subcommands_section(to)?;
    }
    if let Some(notes) = notes {
        writeln!(to, ".SH NOTES\n.nf\n.in 0")?;
        for line in notes.lines() {
            writeln!(to, "{}", as_roff(line))?;
        }
        writeln!(to, ".in\n.fi")?;
    }
    if has_version {
        man.render_version_section(to)?;
    }
    Ok(())
}

/// Returns a line of text such that it is shown as it is, and can be copied from the page.
fn as_roff(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    let line = line.replace('\'', "\\(aq").replace('`', "\\(ga");
    match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// Prints completions.
pub(crate) fn completions(all: Command, args: &CompletionsArgs) -> Result<Status, Failure> {
    let shell = match args.shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    written(&completing(all, shell))
}

/// Returns the completions of a shell.
fn completing(all: Command, shell: Shell) -> Vec<u8> {
    let mut all = with_names(all);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut all, "shearline", &mut text);
    if shell == Shell::Fish {
        text.extend(for_fish(&all).bytes());
    }
    text
}

/// Returns the names of the commands. Each has a page, and shells complete them behind `man`.
fn names(all: &Command) -> Vec<String> {
    let commands = all.get_subcommands();
    commands.map(|it| it.get_name().to_owned()).collect()
}

fn with_names(all: Command) -> Command {
    let names = PossibleValuesParser::new(names(&all));
    all.mut_subcommand("man", |man| {
        man.mut_arg("command", |it| it.value_parser(names))
    })
}

/// What `clap_complete` leaves out for fish: the values of arguments that are no options.
fn for_fish(all: &Command) -> String {
    let mut lines = String::new();
    for command in all.get_subcommands() {
        let arguments = command.get_positionals();
        let values = arguments.flat_map(|it| it.get_possible_values());
        let values: Vec<String> = values.map(|it| it.get_name().to_owned()).collect();
        if !values.is_empty() {
            lines += &format!(
                "complete -c shearline -n \"__fish_shearline_using_subcommand {}\" -f -a \"{}\"\n",
                command.get_name(),
                values.join(" ")
            );
        }
    }
    lines
}

fn written(text: &[u8]) -> Result<Status, Failure> {
    let mut stdout = io::stdout().lock();
    let done = stdout.write_all(text).and_then(|()| stdout.flush());
    done.map_err(unwritten)?;
    Ok(Status::Success)
}

#[cfg(test)]
mod tests;
