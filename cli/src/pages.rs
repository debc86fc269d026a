//! The commands `shearline man` and `shearline completions`. Both commands generate their output from the definitions
//! of the arguments.

use std::io::{self, Write as _};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::config::KEYS;
use crate::failure::Failure;
use crate::help::{self, Row, Texts};
use crate::output::{self, unwritten};
use crate::status::{self, Status};

/// The help texts of `man`.
pub(crate) const MAN_TEXTS: Texts = Texts::new(
    "\
shearline man run | man -l -
shearline man lock >~/.local/share/man/man1/shearline-lock.1",
    "\
0 1 64",
    "shearline(1), man(1)",
);

/// Prints the manual page of a command.
///
/// Without a command, the output is shearline(1).
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Command.
    command: Option<String>,
}

/// The help texts of `completions`.
pub(crate) const COMPLETIONS_TEXTS: Texts = Texts::new(
    "\
mkdir -p ~/.local/share/bash-completion/completions
shearline completions bash \\
  > ~/.local/share/bash-completion/completions/shearline

shearline completions zsh > DIR/_shearline     # with a DIR of your $fpath

mkdir -p ~/.config/fish/completions
shearline completions fish > ~/.config/fish/completions/shearline.fish",
    "\
0 1 64",
    "shearline(1)",
);

/// Prints the completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell.
    shell: Shell,
}

/// Prints a manual page.
pub(crate) fn man(args: &ManArgs) -> Result<Status, Failure> {
    output::say(page(args.command.as_deref())?.trim_end())?;
    Ok(Status::Success)
}

/// Returns the manual page of a command, or of the program.
fn page(command: Option<&str>) -> Result<String, Failure> {
    let all = help::built();
    let page = match command {
        // The page does not mention `help`, because `help` has no page.
        None => all.mut_subcommand("help", |it| it.hide(true)),
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            let none = || format!("there is no command {name:?}; see shearline --help");
            let found = found.ok_or_else(|| Failure::usage(none()))?;
            let title = format!("shearline-{}", found.get_name());
            found.display_name(title)
        }
    };
    // Adds the rare options, which the short help hides.
    let page = page.mut_args(|arg| arg.hide_short_help(false));
    let mut text = Vec::new();
    render(page, &mut text).map_err(unwritten)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Renders the sections of a page. The synopsis is the usage line from the help.
fn render(mut page: Command, to: &mut Vec<u8>) -> io::Result<()> {
    let usage = page.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let texts = help::texts(page.get_name());
    let has_commands = page.has_subcommands();
    let asks_nodes = has_commands || help::asks_nodes(&page);
    let has_times = page.get_arguments().any(help::has_time);
    let man = Man::new(page).source(concat!("shearline ", env!("CARGO_PKG_VERSION")));
    man.render_title(to)?;
    man.render_name_section(to)?;
    writeln!(to, ".SH SYNOPSIS\n{}", as_roff(usage))?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if has_times {
        writeln!(to, ".PP\n{}", as_roff(help::TIMES))?;
    }
    if has_commands {
        man.render_subcommands_section(to)?;
    }
    rows("EXIT STATUS", status::rows(texts.statuses), to)?;
    let of_nodes = if asks_nodes { help::VARIABLES } else { "" };
    let variables = [texts.environment, of_nodes, help::COLOURS];
    let variables = variables.into_iter().flat_map(help::rows);
    rows("ENVIRONMENT", variables, to)?;
    if asks_nodes {
        writeln!(to, ".SH FILES")?;
        paragraphs(&files(), to)?;
    }
    if !texts.notes.is_empty() {
        writeln!(to, ".SH NOTES")?;
        paragraphs(texts.notes, to)?;
    }
    writeln!(to, ".SH EXAMPLES\n.nf")?;
    for line in texts.examples.lines() {
        writeln!(to, "{}", as_roff(line))?;
    }
    writeln!(to, ".fi\n.SH SEE ALSO")?;
    writeln!(to, "{}", as_roff(texts.see))?;
    writeln!(to, ".PP\n{}command/", as_roff(MANUAL))
}

/// The address of the library's manual. Man pages and error messages link there, because no manual is installed with
/// the binary.
pub(crate) const MANUAL: &str = "https://docs.rs/shearline/latest/shearline/manual/";

/// Returns the section on the files that the command reads.
fn files() -> String {
    format!(
        "The command reads only files that an option or a variable names.\n\
         --config FILE or SHEARLINE_CONFIG names a configuration file in TOML. Its keys are {KEYS}. nodes is a list, \
         password-file is relative to the folder of this file, and without-scripts and fenced are true or false. The \
         command refuses unknown keys.\n\
         --password-file FILE holds one line. Give a file with a password the mode 0600."
    )
}

/// Writes a section with an entry for each row: a bold term, and an indented text.
fn rows(title: &str, rows: impl Iterator<Item = Row>, to: &mut Vec<u8>) -> io::Result<()> {
    writeln!(to, ".SH {title}")?;
    for (first, text) in rows {
        writeln!(to, ".TP\n\\fB{}\\fR\n{}", as_roff(first), as_roff(text))?;
    }
    Ok(())
}

/// Writes paragraphs and list items. Lines that begin with a star are list items.
fn paragraphs(text: &str, to: &mut Vec<u8>) -> io::Result<()> {
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("* ") {
            Some(item) => writeln!(to, ".IP \\(bu 2\n{}", as_roff(item))?,
            None => writeln!(to, ".PP\n{}", as_roff(line))?,
        }
    }
    Ok(())
}

/// Escapes a line of text, so that the page shows the line unchanged and readers can copy it.
fn as_roff(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    let line = line.replace('\'', "\\(aq").replace('`', "\\(ga");
    match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// Prints completions.
pub(crate) fn completions(mut all: Command, args: &CompletionsArgs) -> Result<Status, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut all, "shearline", &mut text);
    output::say(String::from_utf8_lossy(&text).trim_end())?;
    Ok(Status::Success)
}

#[cfg(test)]
mod tests;
