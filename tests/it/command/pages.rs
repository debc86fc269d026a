//! The help, the manual pages and the completions.

use std::fs;
use std::process::Command;

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
    let parsed = Command::new("bash").args(["-n", "-c", &script]).status();
    assert!(
        parsed
            .expect("bash is here: tests/run.sh needs it")
            .success()
    );
}
