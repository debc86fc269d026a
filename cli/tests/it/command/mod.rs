//! The command, as a script or a person runs it: the built binary, its output and its exit status.

mod config;
#[cfg(target_os = "linux")]
mod container;
mod documented;
#[cfg(target_os = "linux")]
mod fenced;
#[cfg(target_os = "linux")]
mod foreign;
mod json;
#[cfg(target_os = "linux")]
mod left;
mod looking;
#[cfg(target_os = "linux")]
mod losses;
#[cfg(target_os = "linux")]
mod lost;
mod permits;
mod refused;
#[cfg(target_os = "linux")]
mod run;
mod scripts;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod tool;
mod waits;

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};

use crate::servers::{Cluster, is_without_scripts};
use documented::assert_documented;
use json::Json;

/// The command waits for a node for no longer than its user would, and no option changes that. On a busy machine a
/// node that is well may answer later: then the command is run again, at most so often.
pub(crate) const TRIES: usize = 20;

/// What a command has said.
#[derive(Debug)]
struct Told {
    status: i32,
    out: String,
    err: String,
    /// It was run before, and the answers came too late.
    is_repeated: bool,
}

/// The command with these arguments, and with the nodes of the cluster in its environment.
fn command<S: AsRef<OsStr>>(urls: &[String], arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shearline"));
    command
        .args(arguments)
        .envs(variables(urls))
        .env("RUST_BACKTRACE", "0")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What the command finds in its environment.
fn variables(urls: &[String]) -> [(&'static str, String); 2] {
    let without = is_without_scripts().to_string();
    [
        ("SHEARLINE_NODES", urls.join(",")),
        ("SHEARLINE_WITHOUT_SCRIPTS", without),
    ]
}

/// Runs a line of words.
#[track_caller]
fn shearline(cluster: &Cluster, line: &str) -> Told {
    over(&cluster.urls(), line)
}

#[track_caller]
fn over(urls: &[String], line: &str) -> Told {
    told(command(urls, line.split_whitespace()))
}

#[track_caller]
fn told(mut command: Command) -> Told {
    in_time(0, || of(command.output().expect("the binary runs")))
}

/// Runs a line of words, where so many nodes do not answer.
#[track_caller]
fn with_silent(silent: usize, cluster: &Cluster, line: &str) -> Told {
    let mut command = command(&cluster.urls(), line.split_whitespace());
    in_time(silent, || of(command.output().expect("the binary runs")))
}

/// Runs a line of words with this on its stdin.
#[track_caller]
fn fed(cluster: &Cluster, line: &str, input: &str) -> Told {
    in_time(0, || fed_once(cluster, line, input))
}

/// Runs a command until its nodes have answered in time, but so many of them, at most [`TRIES`] times.
#[track_caller]
fn in_time(silent: usize, mut run: impl FnMut() -> Told) -> Told {
    let mut told = run();
    for _ in 1..TRIES {
        if told.late() <= silent {
            break;
        }
        told = Told {
            is_repeated: true,
            ..run()
        };
    }
    told
}

/// Returns how often the text says that a node has not answered in time.
pub(crate) fn late(text: &str) -> usize {
    let words = ["timed out", "no answer within the connect timeout"];
    let text = text.replace("\n    ", " "); // Long lines go on there.
    words.iter().map(|words| text.matches(words).count()).sum()
}

/// Asserts that nothing was said but, on a busy machine, that nodes have not answered in time.
#[track_caller]
fn assert_nothing_said(text: &str) {
    let other = text.lines().find(|line| late(line) == 0);
    assert_eq!(other, None, "{text}");
}

#[track_caller]
fn fed_once(cluster: &Cluster, line: &str, input: &str) -> Told {
    let mut child = command(&cluster.urls(), line.split_whitespace())
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let _ = stdin.write_all(input.as_bytes()); // Some do not read it.
    drop(stdin);
    of(child.wait_with_output().expect("it ends"))
}

#[track_caller]
fn of(output: Output) -> Told {
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    Told {
        status: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
        is_repeated: false,
    }
}

impl Told {
    /// Returns how often it says that a node has not answered in time: of a command that only looks, or for which too
    /// few have.
    fn late(&self) -> usize {
        match self.status {
            0 | 1 if !self.out.contains("broken") => late(&self.out),
            69 => late(&self.out).max(late(&self.err)),
            _ => 0,
        }
    }

    /// Returns `true` if an `unlock` that was run before has released the lock.
    fn was_released(&self) -> bool {
        self.is_repeated && self.status == 74 && self.err.contains("was no longer held")
    }

    /// Returns what was printed, of a command that has done what it was asked.
    #[track_caller]
    fn done(self) -> String {
        if !self.was_released() {
            assert_eq!(self.status, 0, "{self:?}");
            assert_nothing_said(&self.err);
        }
        self.out
    }

    /// Returns the line that was printed, without its end.
    #[track_caller]
    fn line(self) -> String {
        let out = self.done();
        let line = out.strip_suffix('\n').expect("a line");
        assert!(!line.contains('\n'), "{out:?}");
        line.to_owned()
    }

    /// Returns the line on stderr, of a command that fails with this status and prints nothing.
    #[track_caller]
    fn failed(self, status: i32) -> String {
        assert_eq!((self.status, self.out.as_str()), (status, ""), "{self:?}");
        let line = self.err.strip_suffix('\n').expect("a line");
        assert!(line.starts_with("shearline: "), "{line:?}");
        assert!(!line.contains('\n'), "{line:?}");
        line.to_owned()
    }

    /// Returns the object that was printed, whatever the status is.
    #[track_caller]
    fn object(&self) -> Json {
        let object = Json::line(&self.out);
        assert_documented(&object);
        object
    }
}

/// Kills a command that goes on, when a test ends.
struct Going(Child);

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
