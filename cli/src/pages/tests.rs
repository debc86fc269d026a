//! The help, the manual pages and the completions: they fit, and nothing is missing in them.

use std::process::Command as Process;

use clap::CommandFactory as _;
use clap::builder::StyledStr;

use super::*;
use crate::help::help;

/// The page of the manual that is about the command.
const MANUAL: &str = include_str!("../../../docs/command.md");

/// Statuses that are in every table.
const STATUSES: [&str; 9] = ["0", "1", "64", "69", "74", "75", "78", "126", "127"];

/// Returns the names of the commands.
fn pages() -> Vec<String> {
    let all = crate::Cli::command();
    let commands = all.get_subcommands();
    commands.map(|it| it.get_name().to_owned()).collect()
}

/// Returns the short and the long help of each command, and of the program.
fn helps() -> impl Iterator<Item = (String, bool, StyledStr)> {
    let names = pages().into_iter().chain([String::new()]);
    names
        .flat_map(|name| [false, true].map(|is_long| (name.clone(), is_long, help(&name, is_long))))
}

fn long(command: &str) -> String {
    help(command, true).to_string()
}

fn page_of(command: &str) -> String {
    let page = page(Some(command).filter(|command| !command.is_empty()));
    page.expect("it is there")
}

fn completions_of(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::Cli::command(), "shearline", &mut text);
    String::from_utf8(text).expect("text")
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
    let error = page(Some("nothing")).expect_err("no such page");
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

/// The short help fits on one screen and the long help on two, each 80 columns wide. This also holds on a terminal with
/// colours.
#[test]
fn the_help_fits() {
    for (name, is_long, help) in helps() {
        let plain = help.to_string();
        let narrow = plain.lines().all(|line| line.chars().count() <= 80);
        assert!(narrow, "{plain}");
        let mut examples = help::texts(&name).examples.lines();
        assert!(examples.all(|line| plain.contains(line)), "{plain}");
        let (lines, most) = (plain.lines().count(), if is_long { 80 } else { 40 });
        assert!(lines <= most, "{name}: {lines} lines: {plain}");
        let coloured = help.ansi().to_string();
        assert!(coloured.contains("\x1b["), "colours");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}

/// The block of common options is the same everywhere, except for `--trust`.
#[test]
fn options_that_name_the_nodes_are_the_same_everywhere() {
    let block_of = |name: &str| {
        let help = long(name);
        let (_, block) = help.split_once("\nNodes:\n")?;
        let lines = block.lines().take_while(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.contains("--trust"));
        Some(lines.map(str::to_owned).collect::<Vec<_>>())
    };
    let of_run = block_of("run").expect("it names nodes");
    assert_eq!(of_run.len(), 14, "a line for each: {of_run:?}");
    let blocks = pages().into_iter().filter_map(|name| block_of(&name));
    let blocks: Vec<_> = blocks.collect();
    assert_eq!(blocks.len(), 11);
    assert!(blocks.iter().all(|block| *block == of_run), "{blocks:?}");
}

#[test]
fn the_help_names_every_command_and_every_status() {
    let all = long("");
    for command in pages() {
        let line = format!("\n  {command} ");
        assert!(all.contains(&line), "{command} in {all}");
    }
    for (command, but) in [("", ".."), ("run", "0")] {
        let help = long(command);
        for status in STATUSES.iter().chain(&["128+N"]) {
            let line = format!("\n  {status:<5}  ");
            assert!(*status == but || help.contains(&line), "{status} in {help}");
        }
    }
}

/// A manual page has the statuses of the help, and no other.
#[test]
fn each_status_of_a_help_is_in_its_manual_page() {
    for command in pages() {
        let page = page_of(&command);
        let (_, listed) = page.split_once("\n.SH EXIT STATUS\n").expect("statuses");
        let (listed, _) = listed.split_once("\n.SH ").expect("their end");
        let listed = listed.split("\\fB").skip(1);
        let listed: Vec<&str> = listed
            .filter_map(|it| Some(it.split_once("\\fR")?.0))
            .collect();
        let statuses = status::rows(help::texts(&command).statuses);
        let statuses: Vec<String> = statuses.map(|(it, _)| as_roff(it)).collect();
        assert_eq!(listed, statuses, "{command}");
    }
    let has = |command, status| long(command).contains(&format!("\n  {status} "));
    for (command, status, is_there) in [
        ("lock", "75", true),
        ("lock", "74", false),
        ("extend", "74", true),
        ("extend", "75", false),
        ("watch", "69", false),
        ("status", "126", false),
    ] {
        assert_eq!(has(command, status), is_there, "{command}: {status}");
    }
}

#[test]
fn the_help_of_run_says_what_is_not_promised() {
    let (help, page) = (long("run"), page_of("run"));
    assert!(
        help.contains("Before another client can take the lock"),
        "{help}"
    );
    assert!(
        help.contains(" are\ndead. Exceptions are deleted keys"),
        "{help}"
    );
    for said in [
        "The exceptions are",
        "KillMode=control\\-group",
        "SHEARLINE_FENCING_TOKEN",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!help.contains("watchdog>"), "{help}");
}

/// Each option with a time calls it TIME, and the help lists the forms of a time.
#[test]
fn the_help_says_how_a_time_is_written() {
    for (name, is_long, help) in helps() {
        let asks = help.to_string().contains("<TIME>");
        let says = help.to_string().contains(help::TIMES);
        assert_eq!(says, asks && is_long, "{help}");
        assert_eq!(
            page_of(&name).contains(&as_roff(help::TIMES)),
            long(&name).contains("<TIME>")
        );
    }
}

/// The sections are in this order, and each has content.
#[test]
fn manual_pages_have_their_sections() {
    for command in pages().into_iter().chain([String::new()]) {
        let page = page_of(&command);
        let asks_nodes = page.contains("\\-\\-max\\-ttl");
        let notes = (command == "run").then_some("NOTES");
        let files = (asks_nodes || command.is_empty()).then_some("FILES");
        let sections = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXIT STATUS",
            "ENVIRONMENT",
        ];
        let sections = sections.into_iter().chain(files).chain(notes);
        let mut rest = page.as_str();
        for section in sections.chain(["EXAMPLES", "SEE ALSO"]) {
            let title = format!("\n.SH {section}\n");
            let (_, behind) = rest.split_once(&title).expect(section);
            assert!(
                !behind.starts_with(".SH"),
                "{section} of {command} is empty"
            );
            rest = behind;
        }
        for other in help::texts(&command).see.split(", ") {
            let ours = other
                .strip_prefix("shearline-")
                .and_then(|it| it.strip_suffix("(1)"));
            assert!(
                ours.is_none_or(|it| pages().iter().any(|page| page == it)),
                "{other}"
            );
        }
    }
}

/// Checks the variables that the command reads, and the keys of its file.
#[test]
fn manual_pages_name_the_variables_and_the_keys() {
    let page = page_of("lock");
    for word in KEYS
        .split(", ")
        .chain(["SHEARLINE_CONFIG", "SHEARLINE_NODES"])
    {
        let word = as_roff(word);
        let (_, page) = page.split_once(".SH ENVIRONMENT").expect("it is there");
        assert!(page.contains(&word), "{word} in {page}");
    }
}

/// Lines for a shell are printed unchanged.
#[test]
fn manual_pages_keep_what_is_laid_out() {
    for command in ["", "run", "lock", "completions"] {
        let page = page_of(command);
        let (_, lines) = page.split_once("\n.SH EXAMPLES\n.nf\n").expect("examples");
        let (lines, _) = lines.split_once("\n.fi\n").expect("their end");
        let lines = lines.replace("\\-", "-").replace("\\(aq", "'");
        let lines = lines.replace("\\(ga", "`").replace("\\e", "\\");
        assert_eq!(lines, help::texts(command).examples);
        let shown = lines.replace('\n', "\n  ").replace("  \n", "\n");
        assert!(long(command).contains(&shown), "{lines}");
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

#[test]
fn bash_runs_its_completions() {
    let script = completions_of(Shell::Bash);
    let asked = "COMP_WORDS=(shearline lo) COMP_CWORD=1; _shearline shearline lo shearline; echo \"${COMPREPLY[@]}\"";
    let mut bash = Process::new("bash");
    let asked = bash.args(["-c", &format!("{script}\n{asked}")]).output();
    assert_eq!(asked.expect("bash is here").stdout, b"lock\n");
}
