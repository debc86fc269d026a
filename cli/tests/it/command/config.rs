//! The configuration file.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use super::{command, over, patient, shearline, told};
use crate::canary::{CANARY, Secrets};
use crate::servers::{self, Options, Raw, Reply};

/// A directory with files that only their owner may read.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Writes a file. A configuration waits for a healthy node on any machine.
    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        let text = match name.ends_with(".toml") {
            true => patient(text),
            false => text.to_owned(),
        };
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        path
    }
}

#[test]
fn a_file_names_the_nodes_and_what_else_an_option_says() {
    let (cluster, files) = (servers::three(), Files::new());
    let urls: Vec<String> = cluster
        .urls()
        .iter()
        .map(|url| format!("{url:?}"))
        .collect();
    let text = format!(
        "# For all jobs of this host.\nnodes = [{}]\nguard = \"off\"\nttl = 50\nmax-ttl = \"1h\"\n\
         owner = 'file'\n",
        urls.join(", ")
    );
    let file = files.write("shearline.toml", &text, 0o600);
    let taken = command(&[], ["lock", "report", "--json", "--config"]);
    let taken = told({
        let mut taken = taken;
        taken.arg(&file);
        taken
    })
    .object();
    assert_eq!(taken.number("ttl_ms"), 50_000);
    let mut looking = command(&[], ["status", "report", "--json"]);
    looking.env("SHEARLINE_CONFIG", &file);
    assert_eq!(told(looking).object().text("holder.owner"), "file");

    // The command line overrides the file.
    let mut extending = command(
        &[],
        ["extend", taken.text("lock"), "--json", "--ttl", "70s"],
    );
    extending.env("SHEARLINE_CONFIG", &file);
    assert_eq!(told(extending).object().number("ttl_ms"), 70_000);
    // Commands ignore keys for which they have no option.
    let mut pages = command(&[], ["man"]);
    pages.env("SHEARLINE_CONFIG", &file);
    told(pages).done();
    let mut demo = command(&[], ["demo", "--seconds", "1", "--workers", "2"]);
    demo.env("SHEARLINE_CONFIG", &file);
    assert!(told(demo).done().contains("5 nodes in this process"));
    // The environment overrides the file too.
    let gone = ["redis://127.0.0.1:1".to_owned()];
    let mut looking = command(&gone, ["status", "report"]);
    looking.env("SHEARLINE_CONFIG", &file);
    told(looking).failed(69);
    let mut releasing = command(&[], ["unlock", taken.text("lock")]);
    releasing.env("SHEARLINE_CONFIG", &file);
    assert_eq!(told(releasing).done(), "");
    cluster.assert_empty();
}

#[test]
fn a_password_comes_from_a_file_of_its_own() {
    let cluster = servers::Cluster::with(3, &Options::redis().password(CANARY));
    let files = Files::new();
    files.write("password", &format!("{CANARY}\n"), 0o600);
    let urls: Vec<String> = cluster
        .iter()
        .map(|node| format!("{:?}", node.url_without()))
        .collect();
    let text = format!(
        "nodes = [{}]\npassword-file = \"password\"\n",
        urls.join(", ")
    );
    // The file holds no secret.
    let file = files.write("shearline.toml", &text, 0o644);
    let check = || {
        let mut check = command(&[], ["check", "--guard", "off", "--config"]);
        check.arg(&file);
        told(check)
    };
    check().done();
    // The password applies to all URLs without one, wherever they come from.
    let plain: Vec<String> = cluster.iter().map(|node| node.url_without()).collect();
    let mut from_environment = command(&plain, ["check", "--guard=off", "--config"]);
    from_environment.arg(&file);
    told(from_environment).done();
    let mut typed = command(&[], ["check", "--guard=off"]);
    typed.env("SHEARLINE_CONFIG", &file);
    for url in &plain {
        typed.args(["--node", &url.replace("redis://", "redis://default@")]);
    }
    told(typed).done();
    let mut without_config = command(&plain, ["check", "--guard=off", "--password-file"]);
    without_config.arg(files.0.path().join("password"));
    told(without_config).done();
    // The file has the mode of a file that is mounted into a container. The command warns of it, or refuses it if asked
    // to.
    files.write("password", &format!("{CANARY}\n"), 0o444);
    let warned = check();
    assert_eq!(warned.status, 0, "{warned:?}");
    assert_eq!(warned.err.lines().count(), 1, "{warned:?}");
    assert!(
        warned.err.contains("every user can read this file"),
        "{warned:?}"
    );
    Secrets::credentials().assert_not_in("a file that others can read", &warned.err);
    let mut nodes = command(&[], ["nodes", "report", "--guard=off", "--config"]);
    nodes.arg(&file);
    let warned = told(nodes);
    assert_eq!(warned.err.lines().count(), 1, "{warned:?}");
    let mut strict = command(&[], ["check", "--guard=off", "--strict-files", "--config"]);
    strict.arg(&file);
    let refused = told(strict).failed(78);
    assert!(
        refused.contains("every user can read this file"),
        "{refused}"
    );
    files.write("password", "\n", 0o600);
    let refused = check().failed(78);
    assert!(refused.contains("/password: it is empty"), "{refused}");
    fs::remove_file(files.0.path().join("password")).expect("it is there");
    let refused = check().failed(78);
    assert!(refused.contains("No such file"), "{refused}");
    assert!(refused.contains("/password: "), "{refused}");
    assert!(
        refused.contains("; the option password-file names this file"),
        "{refused}"
    );
}

/// A lock is held while the password changes, first on every server and then in the file.
#[test]
fn a_password_file_is_read_again_before_each_connection() {
    not_with!(Acl, "logs in as the default user");
    let cluster = servers::Cluster::with(3, &Options::redis().password(CANARY));
    let files = Files::new();
    let password = files.write("password", CANARY, 0o600);
    let plain: Vec<String> = cluster.iter().map(|node| node.url_without()).collect();
    let go = files.0.path().join("go");
    let script = "while ! [ -e \"$0\" ]; do sleep 0.05; done";
    let mut run = command(&plain, ["run", "--guard=off", "report", "--password-file"]);
    run.arg(&password).args(["--", "sh", "-c", script]).arg(&go);
    let running = run.spawn().expect("the binary runs");
    servers::eventually("it holds the lock", || {
        (cluster.copies("report") == 3).then_some(())
    });
    let new = format!("{CANARY}2");
    files.write("password", &new, 0o600);
    let mut admins = cluster.raws();
    for admin in &mut admins {
        admin.command(&[b"CONFIG", b"SET", b"requirepass", new.as_bytes()]);
        admin.run("CLIENT KILL TYPE normal");
    }
    servers::eventually("it is connected again", || {
        let is_there = |admin: &mut Raw| match admin.run("CLIENT LIST") {
            Reply::Bulk(list) => String::from_utf8_lossy(&list).contains("name=shearline"),
            other => panic!("{other:?}"),
        };
        admins.iter_mut().all(is_there).then_some(())
    });
    fs::write(go, "").expect("a file");
    let ended = super::of(running.wait_with_output().expect("it ends"));
    assert_eq!(ended.done(), "");
    for admin in &mut admins {
        assert!(!admin.exists(b"report"));
        admin.command(&[b"CONFIG", b"SET", b"requirepass", CANARY.as_bytes()]);
    }
    // A pipe is read only once.
    let mut piped = command(
        &plain,
        ["check", "--guard=off", "--password-file=/dev/stdin"],
    );
    let mut piped = piped.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = piped.stdin.take().expect("it is piped");
    stdin.write_all(CANARY.as_bytes()).expect("it reads");
    drop(stdin);
    super::of(piped.wait_with_output().expect("it ends")).done();
}

/// The unit tests of the command (`tests::files`) check the message about each mistake. The report and the object have
/// it too.
#[test]
fn a_wrong_file_is_refused_and_nothing_is_done() {
    let (cluster, files) = (servers::three(), Files::new());
    let text = format!("nodes = [\"redis://me:{CANARY}@127.0.0.1:1\"]\n");
    let words = ["lock", "report", "--guard=strict", "-n", "--strict-files"];
    let mut taking = command(&cluster.urls(), words);
    taking.arg("--config");
    taking.arg(files.write("shearline.toml", &text, 0o604));
    let error = told(taking).failed(78);
    assert!(error.contains("every user can read this file"), "{error}");
    Secrets::credentials().assert_not_in("a wrong file", &error);
    let line = "run report --report 1 --config /nowhere -- echo started";
    let refused = over(&cluster.urls(), line);
    let object = refused.object();
    assert_eq!((refused.status, object.number("status")), (78, 78));
    assert_eq!(
        (object.text("outcome"), object.at("started")),
        ("failed", &Value::Bool(false))
    );
    let refused = over(&cluster.urls(), "lock report --json --config /nowhere");
    assert_eq!(refused.object().text("outcome"), "configuration");
    // The command is asked for help, not for a lock.
    assert_eq!(
        shearline(&cluster, "lock --help --config /nowhere").status,
        0
    );
    cluster.assert_empty();
}

/// An empty variable counts as not set, but an empty option that is typed counts.
#[test]
fn an_option_that_is_typed_empty_comes_before_the_file() {
    let (cluster, files) = (servers::three(), Files::new());
    let text = "guard = \"off\"\nowner = \"file\"\n";
    let file = files.write("shearline.toml", text, 0o600);
    let words = ["lock", "report", "--owner", "", "--json", "--config"];
    let mut taken = command(&cluster.urls(), words);
    taken.arg(&file);
    told(taken).line();
}

/// This happens with `--config "$CONFIG"` if the variable is not set. The guard and the ttls in the file must not be
/// ignored silently.
#[test]
fn a_file_without_a_name_is_refused() {
    let cluster = servers::three();
    let words = ["lock", "report", "--guard", "off", "--config", ""];
    told(command(&cluster.urls(), words)).failed(78);
}
