//! The demo, as a user runs it: the built binary, its output and its exit status.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::canary::{CANARY, ESCAPED, PASSWORD, Secrets, USER, WRONG};
use crate::servers::{ClosedPort, Cluster, Options, five, three};
#[cfg(feature = "tls")]
use crate::servers::{
    Encryption,
    authority::{Authority, Span},
};

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shearline"));
    command
        .arg("demo")
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The largest number of runs of the demo. It gives its nodes a second to answer, and on a busy machine a healthy node
/// may take longer. Then the demo is run again.
const TRIES: usize = 20;

fn run(arguments: &[&str]) -> (Output, String) {
    let mut output = demo(arguments).output().expect("the binary runs");
    for _ in 1..TRIES {
        let said = String::from_utf8_lossy(&output.stderr);
        let is_late = [" timed out", "no answer within the connect timeout"]
            .map(|words| said.contains(words));
        if output.status.code() != Some(69) || !is_late.contains(&true) {
            break;
        }
        output = demo(arguments).output().expect("the binary runs");
    }
    let text = String::from_utf8(output.stdout.clone()).expect("the output is text");
    (output, text)
}

#[track_caller]
fn assert_good(output: &Output, text: &str, nodes: usize) {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(
        text.bytes()
            .all(|byte| byte == b'\n' || !byte.is_ascii_control()),
        "what is piped is plain: {text:?}"
    );
    let keys_left = format!("keys left  none     {nodes} nodes asked\n");
    for said in [
        "\ncounter    right    ",
        "\nexclusion  held     maximum: 1 holder at a time\n",
        &keys_left,
        "\nverdict    GOOD",
    ] {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
}

/// Returns the words of the first and the last lines, without numbers.
fn shape(text: &str) -> Vec<String> {
    let lines = text.lines();
    let lines = lines.filter(|line| !["[", "..", "$"].iter().any(|it| line.starts_with(it)));
    let lines = lines.map(|line| {
        // A busy machine may leave some releases unconfirmed.
        let (line, _) = line.split_once(", unconfirmed").unwrap_or((line, ""));
        line.replace(|letter: char| letter.is_ascii_digit() || letter == ',', "")
    });
    lines.collect()
}

fn shape_on_the_page() -> Vec<String> {
    let page = include_str!("../../../docs/start.md");
    let (_, shown) = page
        .split_once("```text\n$ shearline demo\n")
        .expect("the demo");
    shape(shown.split_once("```").expect("its end").0)
}

/// If a busy machine has no time for the lines in between, the demo has to run for longer.
#[test]
fn without_servers_the_demo_shows_that_the_lock_excludes() {
    let shows_all = |seconds: &str| {
        let (output, text) = run(&["--seconds", seconds, "--workers", "4"]);
        assert_good(&output, &text, 5);
        assert_eq!(shape(&text), shape_on_the_page());
        assert!(text.starts_with("shearline demo: 4 workers, one lock, 5 nodes in this process"));
        text.contains("node 2 is killed and node 4 is frozen")
    };
    assert!(["2", "6", "18"].into_iter().any(shows_all), "not shown");
}

#[test]
fn on_real_servers_the_demo_shows_the_same_and_leaves_no_key() {
    let cluster = five();
    let mut arguments = vec!["--seconds".to_owned(), "2".to_owned()];
    for url in cluster.urls() {
        arguments.extend(["--node".to_owned(), url]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (output, text) = run(&arguments);
    assert_good(&output, &text, 5);
    assert!(text.contains("kill -STOP"), "{text}");
    assert!(!text.contains("is killed"), "{text}");
    cluster.assert_empty();
}

/// One of three nodes may be down. The verdict says that it was not asked.
#[test]
fn a_server_that_is_down_is_named_and_does_not_fail_the_verdict() {
    let cluster = three();
    let gone = ClosedPort::new();
    let urls = cluster.urls();
    let (output, text) = run(&[
        "--seconds",
        "1",
        "--workers",
        "2",
        "--node",
        &urls[0],
        "--node",
        &urls[1],
        "--node",
        &gone.url(),
    ]);
    assert!(output.status.success(), "{text}");
    for said in [
        "\ncounter    right",
        "\nkeys left  none     2 nodes asked, no answer from 127.0.0.1:",
        "\nverdict    GOOD",
    ] {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
    cluster.assert_empty();
}

#[test]
fn without_a_majority_the_demo_says_why_and_ends() {
    let cluster = three();
    let (one, other) = (ClosedPort::new(), ClosedPort::new());
    let (output, _) = run(&[
        "--node",
        &cluster.urls()[0],
        "--node",
        &one.url(),
        "--node",
        &other.url(),
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    let named = "1 of the 2 votes needed";
    assert!(said.contains(named), "{said}");
    assert!(said.contains("connection refused"), "{said}");
}

#[test]
fn an_interrupt_ends_the_demo_early_with_the_verdict() {
    let mut child = demo(&["--seconds", "3600", "--workers", "4"])
        .spawn()
        .expect("the binary runs");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    while !text.contains("\n[") {
        let read = stdout.read_line(&mut text).expect("the output is text");
        assert_ne!(read, 0, "it goes on until it is interrupted: {text}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    stdout
        .read_to_string(&mut text)
        .expect("the output is text");
    let output = child.wait_with_output().expect("it ends");
    assert_good(&output, &text, 5);
    assert!(text.ends_with("ended early\n"), "{text}");
}

#[cfg(feature = "tls")]
#[test]
fn the_demo_shows_over_tls_that_the_lock_excludes() {
    let folder = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("ours");
    let issued = authority.server(&["127.0.0.1"], Span::Now);
    let encryption = Encryption::new(folder.path(), &authority.pem(), &issued);
    let cluster = Cluster::with(3, &Options::redis().encrypted(&encryption));
    let urls = cluster.urls();
    let mut arguments = vec!["--seconds", "1", "--workers", "4"];
    for url in &urls {
        assert!(url.starts_with("rediss://"), "{url}");
        arguments.extend(["--node", url]);
    }
    let (output, text) = run(&arguments);
    assert_good(&output, &text, 3);
    cluster.assert_empty();
}

/// This holds with valid and with wrong arguments.
#[test]
fn no_secret_is_shown_by_the_demo() {
    let cluster = Cluster::with(3, &Options::redis().password(PASSWORD));
    for raw in &mut cluster.raws() {
        raw.run(&format!("ACL SETUSER {USER} on >{PASSWORD} ~* &* +@all"));
    }
    let url = &cluster[0].url_with(&format!("{USER}:{ESCAPED}"));
    let wrong = &cluster[0].url_with(&format!("{USER}:{WRONG}"));
    let closed = &ClosedPort::new().url();
    let closed = &closed.replace("redis://", &format!("redis://{USER}:{ESCAPED}@"));
    let long = &format!("--node={wrong}:x");
    for (status, arguments) in [
        (0, vec!["--seconds", "1", "--workers", "2", "--node", url]),
        (78, vec!["--node", wrong]),
        (69, vec!["--node", closed]),
        (78, vec!["--node", url, "--node", url]),
        (78, vec![long]),
        (64, vec!["--seconds", "0", "--node", url]),
        (64, vec![url]),
        (64, vec!["--node", url, url]),
        (64, vec!["--ttl", url]),
        (64, vec!["--seconds", url]),
        (64, vec!["--workers", url]),
        (64, vec!["--nodes", url]),
        (64, vec![&format!("--nodes={url}"), &format!("-n{url}")]),
    ] {
        let situation = format!("{status} {}", arguments.join(" ")).replace(CANARY, "..");
        let (output, text) = run(&arguments);
        assert_eq!(output.status.code(), Some(status), "{situation}");
        let said = String::from_utf8(output.stderr).expect("the output is text");
        for text in [text, said] {
            Secrets::credentials().assert_not_in(&situation, &text);
        }
    }
}
