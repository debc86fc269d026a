//! Building a handle finds each unusable TLS setting, and the error names the setting.

use std::fs;

use shearline::{BuildError, ConfigError, Redlock, TlsOptions};

use super::*;

/// The names of the settings, and what may be wrong with them.
const AUTHORITIES: &str = "the trusted authorities";
const CERTIFICATE: &str = "the client certificate";
const KEY: &str = "the key of the client certificate";
const MISSING: &str = "no such file";
const UNREADABLE: &str = "cannot be read";
const EMPTY: &str = "the file has no PEM section of this kind";
const MALFORMED: &str = "not well-formed PEM";
const KEY_MISMATCH: &str = "does not belong to the certificate";
const PASSWORD: &str = "is protected by a password";

/// Builds every face with this URL, asserts that the errors are the same, and returns one.
#[track_caller]
fn error_of(query: &str) -> ConfigError {
    let builder = Redlock::builder().node(format!("rediss://127.0.0.1:1?{query}"));
    let results = [
        builder.build().map(drop),
        builder.build_local().map(drop),
        builder.build_driver().map(drop),
        pollster::block_on(builder.build_async()).map(drop),
    ];
    let [error, others @ ..] = results.map(|result| match result {
        Err(BuildError::Config(error)) => error,
        other => panic!("{query}: {other:?}"),
    });
    assert!(others.iter().all(|other| *other == error), "{others:?}");
    error
}

/// Asserts that a handle of this URL is not built because of this file, which the text names.
#[track_caller]
fn fails(query: &str, part: &str, file: &str, problem: &str) {
    let text = error_of(query).to_string();
    let start = format!("node 127.0.0.1:1: {part} ({file}) cannot be used: ");
    let said = text
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{text}"));
    assert!(said.contains(problem), "{text}");
    assert!(!text.contains("PRIVATE KEY-----\n"), "{text}");
    assert_eq!(text.contains("openssl pkey"), problem == PASSWORD, "{text}");
}

/// A block of PEM with nothing in it.
fn broken(label: &str) -> String {
    format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
}

#[test]
fn authorities_that_cannot_be_used_are_found_when_a_handle_is_built() {
    let scene = Scene::new();
    let key = scene.file("key", &scene.authority.client(Now).key);
    let empty = scene.file("empty", "nothing");
    let broken = scene.file("broken", &broken("CERTIFICATE"));
    let directory = scene.directory.path().display().to_string();
    let missing = format!("{directory}/missing");
    for (file, problem) in [
        (missing, MISSING),
        (empty, EMPTY),
        (key, EMPTY),
        (broken, MALFORMED),
        (directory, UNREADABLE),
    ] {
        fails(&format!("ca={file}"), AUTHORITIES, &file, problem);
    }
}

#[test]
fn client_certificates_that_cannot_be_used_are_found_when_a_handle_is_built() {
    let scene = Scene::new();
    let [own, other] = [(); 2].map(|()| scene.authority.client(Now));
    let ca = scene.file("ca", &scene.authority.pem());
    let certificate = scene.file("certificate", &own.certificate);
    let key = scene.file("key", &own.key);
    let missing = format!("{}/missing", scene.directory.path().display());
    let broken_certificate = scene.file("broken", &broken("CERTIFICATE"));
    for (file, problem) in [
        (&missing, MISSING),
        (&key, EMPTY),
        (&broken_certificate, MALFORMED),
    ] {
        let query = format!("ca={ca}&cert={file}&key={key}");
        fails(&query, CERTIFICATE, file, problem);
    }
    let [pkcs8, older] = protect(&scene, &key);
    for (file, problem) in [
        (missing, MISSING),
        (certificate.clone(), EMPTY),
        (scene.file("broken key", &broken("PRIVATE KEY")), MALFORMED),
        (scene.file("other", &other.key), KEY_MISMATCH),
        (pkcs8, PASSWORD),
        (older, PASSWORD),
    ] {
        let path = file.replace(' ', "%20");
        let query = format!("ca={ca}&cert={certificate}&key={path}");
        fails(&query, KEY, &file, problem);
    }
}

#[test]
fn what_is_no_name_or_not_used_is_found_when_a_handle_is_built() {
    let scene = Scene::new();
    let ca = scene.file("ca", &scene.authority.pem());
    let error = error_of(&format!("ca={ca}&name=no%20name"));
    let text = error.to_string();
    assert!(
        text.ends_with("the server name cannot be used: it is neither a host name nor an address"),
        "{text}"
    );
    let unused = Redlock::builder().node("redis://h");
    let unused = unused.tls(TlsOptions::new().server_name("h")).config();
    let text = unused.expect_err("no TLS").to_string();
    assert!(text.contains("no node uses it"), "{text}");
    let half = Redlock::builder().node("rediss://h?cert=c").config();
    let text = half.expect_err("no key").to_string();
    assert!(text.contains("only one of cert= and key="), "{text}");
}

/// Returns the paths of the key with a password, in both forms.
fn protect(scene: &Scene, key: &str) -> [String; 2] {
    let directory = scene.directory.path();
    let options = format!("-in {key} -passout pass:canary");
    let pkcs8 = format!("openssl pkcs8 -topk8 -v2 aes256 {options} -out pkcs8");
    let older = format!("openssl ec -aes256 {options} -out older");
    shell(&format!("{pkcs8}\n{older}"), directory);
    let paths = ["pkcs8", "older"].map(|name| directory.join(name).display().to_string());
    let labels = [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
    ];
    for (path, label) in paths.iter().zip(labels) {
        let key = fs::read_to_string(path).expect("a key");
        assert!(key.contains(label), "{path}: {label}");
    }
    paths
}

/// The block of the manual with the `openssl` lines, for a server of this test.
fn commands_of_the_manual() -> String {
    let page = fs::read_to_string("docs/tls.md").expect("the page");
    let block: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("openssl ecparam"))
        .take_while(|line| !line.contains("```"))
        .collect();
    let commands = block.join("\n");
    assert!(commands.contains("IP:10.0.0.1"), "{commands}");
    commands.replace("IP:10.0.0.1", "IP:127.0.0.1")
}

#[test]
fn the_commands_of_the_manual_make_certificates_that_work() {
    let directory = tempfile::tempdir().expect("a directory");
    shell(&commands_of_the_manual(), directory.path());
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a file");
    let issued = Issued {
        certificate: read("db1.pem"),
        key: read("db1.key"),
    };
    let files = tempfile::tempdir().expect("a directory");
    let encryption = Encryption::new(files.path(), &read("ca.pem"), &issued);
    let server = Server::with(&Options::redis().encrypted(&encryption));
    works(&mut Which::Shared.build(at([server.url()])), "manual");
    let named = format!("{}&name=db1.example", server.url());
    works(&mut Which::Local.build(at([named])), "manual");
}
