//! Runs the programs once with tiny numbers: every part works, and their output to a pipe is plain. The figures are not
//! checked.

use std::process::Command;

/// Runs a program, and looks for rows in its output, and for the last line of its progress.
fn run(program: &str, arguments: &str, rows: &[&str], last: &str) {
    let run = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .expect("it starts");
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{err}");
    for row in rows {
        assert!(out.contains(row), "{row} is missing in\n{out}");
    }
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{err}");
    assert!(err.contains(last), "{err}");
}

#[test]
fn every_case_of_contention_is_printed_in_plain_text() {
    let rows = [
        "| 3 | in another process |",
        "| 3 | in the same process |",
        "| 3 | 2 processes of 8 | `Redlock` |",
        "| 3 | 2 processes of 8 | `rslock` |",
        "| 3 | 16 processes | `Redlock` |",
        "| 3 | 16 processes | `rslock` |",
        "| 3 | `Redlock` |",
        "| 3 | `rslock` |",
        " not met.",
    ];
    let tiny = "--rounds 1 --nodes 3 --millis 50 --turns 1 --waiters 20";
    let last = "5/5 many, 3 nodes";
    run(env!("CARGO_BIN_EXE_contention"), tiny, &rows, last);
}

#[test]
fn kept_locks_are_printed_in_plain_text() {
    let rows = [
        "| 100 | ",
        "| 100 | 4s | ",
        "| `Redlock` | ",
        "| bare loop | ",
        " not met.",
    ];
    let tiny = "--quick --rounds 1 --locks 100 --case sweep --case idle";
    let last = "2/2 4000 locks, held and idle";
    run(env!("CARGO_BIN_EXE_keep"), tiny, &rows, last);
}

#[test]
fn a_part_without_nodes_is_refused() {
    let run = Command::new(env!("CARGO_BIN_EXE_contention"))
        .args(["--play", "waiter"])
        .output()
        .expect("it starts");
    assert_eq!(run.status.code(), Some(2));
}
