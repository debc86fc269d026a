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
mod several;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(target_os = "linux")]
mod signals;
mod start;
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

/// A configuration that waits for a healthy node on any machine.
const PATIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/command/patient.toml");

/// Returns such a configuration with more settings.
fn patient(text: &str) -> String {
    include_str!("patient.toml").to_owned() + text
}

/// The output and the status of a command.
#[derive(Debug)]
struct Told {
    status: i32,
    out: String,
    err: String,
}

/// Returns the command with these arguments, and with the nodes of the cluster in its environment.
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

/// Returns the variables that the command finds in its environment.
fn variables(urls: &[String]) -> [(&'static str, String); 3] {
    let without = is_without_scripts().to_string();
    [
        ("SHEARLINE_NODES", urls.join(",")),
        ("SHEARLINE_WITHOUT_SCRIPTS", without),
        ("SHEARLINE_CONFIG", PATIENT.to_owned()),
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
    of(command.output().expect("the binary runs"))
}

/// Runs a line of words with this on its stdin.
#[track_caller]
fn fed(cluster: &Cluster, line: &str, input: &str) -> Told {
    let mut child = command(&cluster.urls(), line.split_whitespace())
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let _ = stdin.write_all(input.as_bytes()); // Some commands do not read it.
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
    }
}

impl Told {
    /// Returns the output of a command that has succeeded.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
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

/// A running command, which is killed when its test ends.
struct Going(Child);

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
