//! Tests that play a part in a process of their own, which runs this test binary again.
//!
//! Such a test is marked `#[ignore = "a part of another test"]`, so that no run plays it by itself or
//! counts it. `tests/run.sh` fails if a test is ignored for any reason but this one and "prints figures and
//! asserts nothing".

use std::env;
use std::fs;
use std::process::{Command, Stdio};

/// Returns the command that plays the ignored test `name`, given by its whole path.
pub(crate) fn part(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this binary"));
    command.args(part_arguments(name));
    command
}

/// Plays such a part, which must succeed. Returns what it printed.
#[track_caller]
pub(crate) fn played(part: &mut Command) -> String {
    let output = part
        .stdin(Stdio::null())
        .output()
        .expect("this binary starts");
    let [said, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

/// Returns the arguments with which this binary plays the ignored test `name`.
pub(crate) fn part_arguments(name: &str) -> [&str; 4] {
    [name, "--exact", "--ignored", "--nocapture"]
}

/// Returns the number of bytes that a line of this process's status names, where there is a `/proc`.
pub(crate) fn memory(line: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|all| all.strip_prefix(line))?;
    let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}
