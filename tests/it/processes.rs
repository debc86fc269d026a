//! Stories about exclusion between two processes. (`sets` hands a lock over to a second process, and `endings` has
//! processes that end.)
//!
//! The second process is this test binary again; its environment gives it a part to play in
//! [`second_process`]. Without a part that test does nothing.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use shearline::{LockOptions, Redlock, Retry};

use crate::face::at;
use crate::parts;
use crate::servers::{self, Cluster, LONG};

const PART: &str = "SHEARLINE_TEST_PART";
const NODES: &str = "SHEARLINE_TEST_NODES";
const INPUT: &str = "SHEARLINE_TEST_INPUT";

/// How many times each of two processes counts.
const COUNTS: u64 = 100;

#[test]
#[ignore = "a part of another test"]
fn second_process() {
    let Ok(part) = env::var(PART) else {
        return;
    };
    let nodes = env::var(NODES).expect("the nodes are given");
    let redlock = at(nodes.split(','))
        .retry(Retry::new(
            1000,
            Duration::from_millis(1)..=Duration::from_millis(10),
        ))
        .shutdown_timeout(LONG) // This process ends with its handle, so nothing would send the rest in the background.
        .build()
        .expect("a good configuration");
    let input = env::var(INPUT).expect("a path, or a lock");
    match part.as_str() {
        "campaign" => crate::elections::lead(&redlock, Path::new(&input)),
        "count" => count(&redlock, Path::new(&input)),
        "fenced" => crate::fencing::take(&redlock, Path::new(&input)),
        "hold" => crate::delay::hold(nodes.split(','), Path::new(&input)),
        "take-over" => crate::sets::take_over(&redlock, &input),
        other => panic!("no such part: {other}"),
    }
}

/// Two processes read and write a counter in a file. Only the lock keeps them apart.
#[test]
fn two_processes_count_without_losing_a_count() {
    let cluster = servers::three();
    let counted = written_by_two("count", &cluster);
    assert_eq!(counted, (2 * COUNTS).to_string());
    cluster.assert_empty();
}

/// Lets two processes play `part`, which changes a file. The file contains a zero at first. Returns its text at the
/// end.
#[track_caller]
pub(crate) fn written_by_two(part: &str, cluster: &Cluster) -> String {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), "0").expect("the file can be written");
    let path = file.path().to_str().expect("a plain path");
    for child in [(); 2].map(|()| start(part, cluster, path)) {
        finish(child);
    }
    fs::read_to_string(file.path()).expect("the file")
}

fn count(redlock: &Redlock, file: &Path) {
    let options = LockOptions::new(LONG).wait(Duration::from_secs(60));
    for _ in 0..COUNTS {
        let guard = redlock
            .lock_with("counter", &options)
            .expect("in a minute at most");
        let counted: u64 = fs::read_to_string(file)
            .expect("read")
            .parse()
            .expect("a number");
        fs::write(file, (counted + 1).to_string()).expect("written");
        guard.unlock().expect("held");
    }
}

/// Writes the text into the file at once, and never returns.
pub(crate) fn tell_and_hang(file: &Path, text: &str) -> ! {
    let written = file.with_extension("written");
    fs::write(&written, text).expect("a place for it");
    fs::rename(&written, file).expect("in the same place");
    loop {
        thread::park();
    }
}

/// Starts this test binary again to play `part`.
pub(crate) fn start(part: &str, cluster: &Cluster, input: &str) -> Child {
    parts::part("processes::second_process")
        .env(PART, part)
        .env(NODES, cluster.urls().join(","))
        .env(INPUT, input)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this binary starts")
}

#[track_caller]
pub(crate) fn finish(child: Child) {
    let output = child.wait_with_output().expect("our own child");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the second process: {errors}");
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal"))
        .collect()
}
