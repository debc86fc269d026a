//! The program that measures kept locks, run once with tiny numbers: what it prints into a pipe is plain.
//! No figure is looked at.

use std::process::Command;

#[test]
fn it_runs_and_is_printed_in_plain_text() {
    let run = Command::new(env!("CARGO_BIN_EXE_keep"))
        .args(["--quick", "--rounds", "1", "--locks", "100"])
        .args(["--case", "sweep", "--case", "idle"])
        .output()
        .expect("it starts");
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{err}");
    for row in [
        "| 100 | ",
        "| 100 | 4s | ",
        "| `Redlock` | ",
        "| bare loop | ",
    ] {
        assert!(out.contains(row), "{row} is missing in\n{out}");
    }
    assert!(out.contains("0 not judged."), "{out}");
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{err}");
    assert!(err.contains("2/2 4000 locks, held and idle"), "{err}");
}
