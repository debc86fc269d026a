//! The help, the manual pages and the completions: they fit, and nothing is missing in them.

use std::process::Command as Process;

use clap::CommandFactory as _;
use clap::builder::StyledStr;

use super::*;
use crate::status;

/// The page of the manual that is about the command.
const MANUAL: &str = include_str!("../../../docs/command.md");

/// Statuses that are in every table.
const STATUSES: [&str; 9] = ["0", "1", "64", "69", "74", "75", "78", "126", "127"];

fn all() -> Command {
    let mut all = crate::Cli::command();
    all.build();
    all
}

/// The commands.
fn pages() -> Vec<String> {
    names(&crate::Cli::command())
}

/// The long help of each command.
fn helps() -> impl Iterator<Item = StyledStr> {
    pages().into_iter().map(|name| help(&name))
}

fn help(command: &str) -> StyledStr {
    let mut all = all();
    match command {
        "" => all.render_long_help(),
        _ => all
            .find_subcommand_mut(command)
            .expect("it is there")
            .render_long_help(),
    }
}

fn page_of(command: &str) -> String {
    let page = page(all(), Some(command).filter(|command| !command.is_empty()));
    String::from_utf8(page.expect("it is there")).expect("text")
}

fn completions_of(shell: Shell) -> String {
    String::from_utf8(completing(crate::Cli::command(), shell)).expect("text")
}

#[test]
fn every_command_has_a_page() {
    for command in pages() {
        let page = page_of(&command);
        for begin in [
            format!("\n.TH shearline-{command} 1"),
            format!("\n.SH SYNOPSIS\nshearline {command} "),
        ] {
            assert!(page.contains(&begin), "{page}");
        }
    }
    assert!(page_of("").contains("\n.TH shearline 1"));
    let error = page(crate::Cli::command(), Some("nothing")).expect_err("no such page");
    assert!(error.message.contains("there is no command"), "{error:?}");
}

#[test]
fn the_manual_has_every_command_and_every_status() {
    for status in STATUSES {
        assert!(MANUAL.contains(&format!("| {status} | `")), "{status}");
    }
    for command in pages() {
        assert!(MANUAL.contains(&format!("`{command}")), "{command}");
    }
}

/// Short and long, on a terminal with colours too.
#[test]
fn the_help_fits() {
    let short = pages().into_iter().map(|name| {
        let mut all = all();
        all.find_subcommand_mut(name)
            .expect("it is there")
            .render_help()
    });
    for help in helps().chain(short).chain([help("")]) {
        let plain = help.to_string();
        let narrow = plain.lines().all(|line| line.chars().count() <= 80);
        assert!(narrow, "{plain}");
        let coloured = help.ansi().to_string();
        assert!(coloured.contains("\x1b["), "colours");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}

/// Its lines are broken where they are written, and nowhere else.
#[test]
fn what_stands_below_the_options_fits() {
    for command in all().get_subcommands() {
        let notes = command.get_after_long_help().or(command.get_after_help());
        let notes = notes.map(ToString::to_string).unwrap_or_default();
        let is_long = |line: &&str| 80 < line.chars().count();
        assert_eq!(notes.lines().find(is_long), None, "{}", command.get_name());
    }
}

#[test]
fn the_help_names_every_command_and_every_status() {
    let all = help("").to_string();
    for command in pages() {
        assert!(
            all.contains(&format!("\n  {command} ")),
            "{command} in {all}"
        );
    }
    assert!(all.contains(status::TABLE), "{all}");
    let run = help("run").to_string();
    // The command of `run` has a status too, so its help has a table of its own.
    for status in STATUSES.iter().filter(|status| **status != "0") {
        for help in [&all, &run] {
            let line = format!("\n  {status:<4} ");
            assert!(help.contains(&line), "{status} in {help}");
        }
    }
    assert!(run.contains("\n  128+N "), "{run}");
}

#[test]
fn the_help_of_a_command_has_no_status_that_it_never_has() {
    for (command, has, hasnt) in [("lock", "75", "74"), ("extend", "74", "75")] {
        let help = help(command).to_string();
        for status in ["0", "1", "64", "69", "78", has] {
            assert!(
                help.contains(&format!("\n  {status:<4} ")),
                "{status} in {help}"
            );
        }
        for status in [hasnt, "126", "127"] {
            assert!(
                !help.contains(&format!("\n  {status} ")),
                "{status} in {help}"
            );
        }
    }
}

#[test]
fn the_help_of_run_says_what_is_not_promised() {
    let help = help("run").to_string();
    for said in [
        "Before another client can take the lock",
        "This is not promised",
        "KillMode=control-group",
        "SHEARLINE_FENCING_TOKEN",
    ] {
        assert!(help.contains(said), "{said}: {help}");
    }
    assert!(!help.contains("guardian>"), "{help}");
}

/// How a time is written stands wherever one is asked for.
#[test]
fn the_help_says_how_a_time_is_written() {
    for help in helps().map(|help| help.to_string()) {
        let words: Vec<&str> = help.split_whitespace().collect();
        let says = words
            .join(" ")
            .contains("A TIME is 30s, 500ms, 2m, 1h or 1d");
        assert!(says || !help.contains("<TIME>"), "{help}");
    }
}

/// The tables and lists of the help stand in the manual page line by line.
#[test]
fn manual_pages_keep_what_is_laid_out() {
    for command in ["", "run", "lock", "completions"] {
        let page = page_of(command);
        let (_, notes) = page.split_once("\n.SH NOTES\n.nf\n.in 0\n").expect("notes");
        let (notes, _) = notes.split_once("\n.in\n.fi\n").expect("their end");
        let notes = notes.replace("\\-", "-").replace("\\(aq", "'");
        let notes = notes.replace("\\(ga", "`").replace("\\e", "\\");
        let help = help(command).to_string();
        assert!(help.trim_end().ends_with(&notes), "{notes}");
    }
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = completions_of(shell);
        for word in pages().into_iter().chain(["max-ttl".to_owned()]) {
            assert!(script.contains(&word), "{word} for {shell}");
        }
    }
}

/// Also those of arguments that are no options: a shell, and a command that has a page.
#[test]
fn shells_complete_values() {
    let names = pages().join(" ");
    let script = completions_of(Shell::Fish);
    for (command, values) in [("man", names.as_str()), ("completions", "bash zsh fish")] {
        let line = format!(
            "\ncomplete -c shearline -n \"__fish_shearline_using_subcommand {command}\" -f -a \"{values}\"\n"
        );
        assert!(script.contains(&line), "{line}");
    }
    let script = completions_of(Shell::Zsh);
    assert!(script.contains(&format!(":({names})'")), "{script}");
    assert!(script.contains(":(bash zsh fish)'"), "{script}");
}

#[test]
fn bash_runs_its_completions() {
    let script = completions_of(Shell::Bash);
    let asked = "COMP_WORDS=(shearline man lo) COMP_CWORD=2; _shearline shearline lo man; echo \"${COMPREPLY[@]}\"";
    let mut bash = Process::new("bash");
    let asked = bash.args(["-c", &format!("{script}\n{asked}")]).output();
    assert_eq!(asked.expect("bash is here").stdout, b"lock\n");
}
