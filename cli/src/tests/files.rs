//! Configuration files: their meaning, and the files that are refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::*;

/// Returns the parsed arguments of this line, with a file that has this text and mode.
fn with_text(line: &str, text: &str, mode: u32) -> Result<Cli, Failure> {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("shearline.toml");
    fs::write(&file, text).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
    typed(&format!("{line} --config {}", file.display()))
}

/// A container mounts its secrets with mode 0444, and there is no secret in a comment, an owner or a user without a
/// password.
#[test]
fn a_file_that_others_can_read_is_refused_only_where_that_was_asked_for() {
    let strict = "lock report --strict-files";
    for text in [
        "# Ask ops@example.org.\nttl = 50\n",
        "owner = 'billing@host'\n",
        "nodes = ['redis://me@127.0.0.1:1', 'unix:///run/a']\n",
    ] {
        with_text(strict, text, 0o644).expect(text);
    }
    let text = "nodes = ['redis://me@127.0.0.1:1', 'redis://:secret@127.0.0.1:2']\n";
    with_text("lock report", text, 0o444).expect("it is warned of");
    let failure = with_text(strict, text, 0o604).map(drop);
    let failure = failure.expect_err("others can read it");
    assert_eq!(failure.status, Status::Configuration);
    let said = failure.message;
    assert!(
        said.contains("which holds a password; run `chmod o=` on it"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
    with_text(strict, text, 0o640).expect("only a group can read it");
}

/// As on the command line, a time may be a number of seconds, also with a fraction. The command line overrides the
/// file.
#[test]
fn a_time_is_written_as_on_the_command_line() {
    for (line, text, millis) in [
        ("lock report", "ttl = 50", 50_000),
        ("lock report", "ttl = 7.5", 7_500),
        ("lock report", "ttl = \"1500ms\"", 1_500),
        ("lock report --ttl 9s", "ttl = 50", 9_000),
        // The command ignores keys for which it has no option.
        (
            "lock report",
            "ttl = 50\nfenced = true\ngroup = 'c'",
            50_000,
        ),
    ] {
        let cli = with_text(line, text, 0o600).expect("a good file");
        let Command::Lock(args) = cli.command else {
            panic!("{line}");
        };
        let ttl = args.acquire.ttl;
        assert_eq!(ttl, Duration::from_millis(millis), "{line} {text}");
    }
}

/// If the command line overrides the certificate or its key, neither is taken from the file.
#[test]
#[cfg(feature = "tls")]
fn a_certificate_comes_with_its_own_key() {
    let text = "cert = 'file.crt'\nkey = 'file.key'\nca = 'file.ca'\nuser = 'me'\n";
    for (typed, of_file, not) in [
        ("", "file.crt", "typed"),
        ("--cert typed.crt --key typed.key", "file.ca", "file.key"),
    ] {
        let cli = with_text(&format!("status report {typed}"), text, 0o600);
        let cli = format!("{:?}", cli.expect("a good file"));
        assert!(cli.contains(of_file) && cli.contains("\"me\""), "{cli}");
        assert!(!cli.contains(not), "{cli}");
    }
    let cli = typed("status report --node a:1 --user me").expect("good words");
    let Command::Status(args) = cli.command else {
        panic!("another command");
    };
    let said = inspect::run(&args).expect_err("no password").message;
    assert!(
        said.contains("a user needs a password: give --password-file too"),
        "{said}"
    );
}

#[test]
fn a_wrong_file_is_refused_without_its_secrets() {
    let secret = "nodes = [\"redis://me:secret@127.0.0.1:1\"]\n";
    for (text, mode, said) in [
        (
            "max_ttl = \"60s\"\n",
            0o600,
            "there is no setting \"max_ttl\"; the settings are nodes, user, password-file, ca, cert, key, guard, ",
        ),
        (
            "[nodes]\na = \"b\"\n",
            0o600,
            "nodes must be a string, a number, ",
        ),
        (
            "guard = \"none\"\n",
            0o600,
            "invalid value 'none' for '--guard",
        ),
        ("max-ttl = \"long\"\n", 0o600, "write it as 30s"),
        (
            "\nguard = strict\n",
            0o600,
            "shearline.toml: line 2 is not TOML: ",
        ),
        (
            "fenced = \"yes\"\n",
            0o600,
            "invalid value 'yes' for '--fenced",
        ),
        (
            "\"redis://me:secret@a\" = 1\n",
            0o600,
            "there is no setting of this name (not shown, ",
        ),
        (
            &secret.repeat(2),
            0o600,
            "shearline.toml: line 2 is not TOML: ",
        ),
    ] {
        let failure = with_text("lock report", text, mode).map(drop);
        let failure = failure.expect_err(text);
        assert_eq!(failure.status, Status::Configuration, "{text}");
        assert!(failure.message.contains(said), "{text}: {failure:?}");
        assert!(!failure.message.contains("secret"), "{failure:?}");
    }
    let failure = typed("lock report --config /nowhere").map(drop);
    let said = failure.expect_err("there is none").message;
    assert!(said.contains("/nowhere: No such file"), "{said}");
    let names = "; --config or SHEARLINE_CONFIG names this file";
    assert!(said.contains(names), "{said}");
}
