//! `shearline run` at a terminal.

use std::fs;
use std::process::{Command, Stdio};

use super::tool::code;
use super::variables;
use crate::servers::{eventually, three};

/// In the foreground of a terminal the command reads from it, and gets its signals once.
#[test]
fn a_command_in_the_foreground_of_a_terminal_reads_from_it() {
    use std::io::Write as _;
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    let script = "trap 'echo INT >>\"$1/ints\"' INT; read line; echo \"$line\" >\"$1/line\"; \
                  while ! [ -e \"$1/ints\" ]; do sleep 0.02; done; sleep 0.2; exit 8";
    fs::write(path.join("script"), script).expect("a file");
    let shearline = env!("CARGO_BIN_EXE_shearline");
    let line = format!(
        "exec {shearline} run --guard off n -- sh {0}/script {0}",
        path.display()
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &line, "/dev/null"])
        .envs(variables(&cluster.urls()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut terminal = terminal.spawn().expect("`script` is there");
    let keys = terminal.stdin.as_mut().expect("it is piped");
    keys.write_all(b"typed\n").expect("it is read");
    // The shell makes the file before it writes to it.
    let line = eventually("it has read a line", || {
        let line = fs::read_to_string(path.join("line")).ok()?;
        line.ends_with('\n').then_some(line)
    });
    assert_eq!(line, "typed\n");
    keys.write_all(b"\x03").expect("it is read");
    let status = terminal.wait().expect("our own child");
    assert_eq!(
        fs::read_to_string(path.join("ints")).expect("a file"),
        "INT\n"
    );
    assert_eq!(code(status), 8);
    cluster.assert_empty();
}
