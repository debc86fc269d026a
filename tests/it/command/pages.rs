//! The help, the manual pages and the completions.

use std::fs;
use std::process::{Command, Stdio};

use super::over;

const STATUSES: [&str; 9] = ["0", "1", "64", "69", "74", "75", "78", "126", "127"];

const COMMANDS: [&str; 13] = [
    "run",
    "lock",
    "extend",
    "unlock",
    "status",
    "watch",
    "nodes",
    "check",
    "reinit",
    "bench",
    "demo",
    "man",
    "completions",
];

/// The page of the manual that is about the command.
pub(super) fn manual() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manual/command.rs");
    fs::read_to_string(path).expect("it is there")
}

/// Returns the rows of the manual with the fields of the objects that this command prints.
pub(super) fn fields_of(command: &str) -> String {
    let page = manual();
    if command == "run" {
        return between(&page, "//! | field of the report |", "//!\n").to_owned();
    }
    let table = between(&page, "//! # `--json`\n", "\n//! # ");
    let mut is_ours = false;
    let rows = table.lines().filter(|line| line.starts_with("//! | "));
    let rows = rows.filter(|row| {
        let subject = row.split(" | ").nth(1).unwrap_or_default();
        // These rows are about a field of the row above.
        if !subject.contains("each of these") && !subject.contains("has tried") {
            let is_failure = subject.contains("a failure of any of them");
            is_ours = is_failure || subject.contains(&format!("`{command}`"));
        }
        is_ours
    });
    rows.collect()
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).expect("its begin");
    rest.split_once(end).expect("its end").0
}

/// What the table of the help says of each status stands in the manual, with a word for programs.
#[test]
fn the_manual_has_every_command_and_every_status() {
    let page = manual();
    for status in STATUSES {
        assert!(page.contains(&format!("//! | {status} | `")), "{status}");
    }
    for command in COMMANDS {
        assert!(page.contains(&format!("`{command}")), "{command}");
    }
}

#[track_caller]
fn said(line: &str) -> String {
    over(&[], line).done()
}

#[test]
fn the_help_fits_and_names_every_status() {
    let all = said("--help");
    for status in STATUSES {
        assert!(
            all.contains(&format!("\n  {status:<4} ")),
            "{status} in {all}"
        );
    }
    for command in COMMANDS {
        assert!(
            all.contains(&format!("\n  {command} ")),
            "{command} in {all}"
        );
        for line in [format!("{command} --help"), format!("{command} -h")] {
            let help = said(&line);
            let narrow = help.lines().all(|line| line.chars().count() <= 80);
            assert!(narrow, "{help}");
        }
    }
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
}

/// The command of `run` has a status too, so its help has a table of its own.
#[test]
fn the_help_of_run_names_every_status() {
    let help = said("run --help");
    for status in STATUSES.iter().filter(|status| **status != "0") {
        let line = format!("\n  {status:<4} ");
        assert!(help.contains(&line), "{status} in {help}");
    }
    assert!(help.contains("\n  128+N "), "{help}");
}

/// How a time is written stands wherever one is asked for.
#[test]
fn the_help_says_how_a_time_is_written() {
    for command in COMMANDS {
        let help = said(&format!("{command} --help"));
        if help.contains("<TIME>") {
            let words: Vec<&str> = help.split_whitespace().collect();
            let says = words
                .join(" ")
                .contains("A TIME is 30s, 500ms, 2m, 1h or 1d");
            assert!(says, "{help}");
        }
    }
}

/// On a terminal there are colours, and the same lines.
#[test]
#[cfg(target_os = "linux")]
fn the_help_fits_on_a_terminal() {
    let shearline = env!("CARGO_BIN_EXE_shearline");
    let helps = COMMANDS.map(|command| format!("{shearline} {command} --help;"));
    let line = format!(
        "stty cols 80 rows 24; {shearline} --help; {}",
        helps.join(" ")
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]);
    terminal.env("TERM", "xterm").env_remove("NO_COLOR");
    let output = terminal.stdin(Stdio::null()).output();
    let shown = String::from_utf8(output.expect("`script` is there").stdout).expect("text");
    assert_eq!(shown.matches("Usage:").count(), 1 + COMMANDS.len());
    assert!(shown.contains("\x1b["), "colours");
    for line in shown.lines() {
        let plain: String = without_colours(line);
        assert!(plain.chars().count() <= 80, "{plain:?}");
    }
}

#[cfg(target_os = "linux")]
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    let others = parts.map(|part| part.split_once('m').expect("a colour").1);
    first + &others.collect::<String>()
}

/// Also those of arguments that are no options: a shell, and a command that has a page.
#[test]
fn shells_complete_values() {
    let names = COMMANDS.join(" ");
    let script = said("completions fish");
    for (command, values) in [("man", names.as_str()), ("completions", "bash zsh fish")] {
        let line = format!(
            "\ncomplete -c shearline -n \"__fish_shearline_using_subcommand {command}\" -f -a \"{values}\"\n"
        );
        assert!(script.contains(&line), "{line}");
    }
    let script = said("completions zsh");
    assert!(script.contains(&format!(":({names})'")), "{script}");
    assert!(script.contains(":(bash zsh fish)'"), "{script}");
}

/// The tables and lists of the help stand in the manual page line by line.
#[test]
fn manual_pages_keep_what_is_laid_out() {
    for command in ["", "run", "lock", "completions"] {
        let page = said(&format!("man {command}"));
        let (_, notes) = page.split_once("\n.SH NOTES\n.nf\n.in 0\n").expect("notes");
        let (notes, _) = notes.split_once("\n.in\n.fi\n").expect("their end");
        let notes = notes.replace("\\-", "-").replace("\\(aq", "'");
        let notes = notes.replace("\\(ga", "`").replace("\\e", "\\");
        let help = said(&format!("{command} --help"));
        assert!(help.ends_with(&format!("\n{notes}\n")), "{notes}");
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let all = said("man");
    assert!(all.contains("\n.TH shearline 1"), "{all}");
    assert!(all.contains("75"), "{all}");
    for command in COMMANDS {
        let page = said(&format!("man {command}"));
        assert!(
            page.contains(&format!("\n.TH shearline-{command} 1")),
            "{page}"
        );
        let synopsis = format!("\n.SH SYNOPSIS\nshearline {command} ");
        assert!(page.contains(&synopsis), "{page}");
    }
}

#[test]
fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&format!("completions {shell}"));
        for word in COMMANDS {
            assert!(script.contains(word), "{word} for {shell}");
        }
        assert!(script.contains("max-ttl"), "{shell}");
    }
    let script = said("completions bash");
    let asked = "COMP_WORDS=(shearline man lo) COMP_CWORD=2; _shearline shearline lo man; echo \"${COMPREPLY[@]}\"";
    let asked = Command::new("bash")
        .args(["-c", &format!("{script}\n{asked}")])
        .output();
    assert_eq!(asked.expect("bash is here").stdout, b"lock\n");
    let parsed = Command::new("bash").args(["-n", "-c", &script]).status();
    assert!(
        parsed
            .expect("bash is here: tests/run.sh needs it")
            .success()
    );
}
