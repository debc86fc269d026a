//! The program that measures contention, run once with tiny numbers: every part of it works, and
//! what it prints into a pipe is plain. No figure is looked at.

use std::process::Command;

/// The rows of the tables with their first words, on three nodes.
const ROWS: [&str; 11] = [
    "| 3 | in another process |",
    "| 3 | in the same process |",
    "| 3 | 2 processes of 8 | `Redlock` |",
    "| 3 | 2 processes of 8 | `rslock` |",
    "| 3 | 16 processes | `Redlock` |",
    "| 3 | 16 processes | `rslock` |",
    "| 3 | 2 processes of 8, 20 ms between | `Redlock` |",
    "| 3 | 2 processes of 8, 20 ms between | `rslock` |",
    "| 3 | `Redlock` |",
    "| 3 | `rslock` |",
    "0 not judged.",
];

#[test]
fn every_case_runs_and_is_printed_in_plain_text() {
    let run = Command::new(env!("CARGO_BIN_EXE_contention"))
        .args(["--rounds", "1", "--nodes", "3", "--millis", "50"])
        .args(["--turns", "1", "--waiters", "20"])
        .output()
        .expect("it starts");
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{err}");
    for row in ROWS {
        assert!(out.contains(row), "{row} is missing in\n{out}");
    }
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{err}");
    assert!(err.contains("6/6 many, 3 nodes"), "{err}");
}

#[test]
fn a_part_without_nodes_is_refused() {
    let run = Command::new(env!("CARGO_BIN_EXE_contention"))
        .args(["--play", "waiter"])
        .output()
        .expect("it starts");
    assert_eq!(run.status.code(), Some(2));
}
