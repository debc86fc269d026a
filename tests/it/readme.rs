//! What the README and the manual claim, held against what is there: the tests that they name, the
//! ACL line that they give.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use shearline::{LocalRedlock, RestartGuard};

use crate::face::at;
use crate::servers::{LONG, Options, Raw, Server};

const PASSWORD: &str = "secret";

/// Commands without which a node still serves, only less well.
const DISPENSABLE: [&str; 3] = ["+script|load", "+info", "+time"];

#[test]
fn every_test_that_is_named_exists() {
    let mut named = 0;
    for text in texts() {
        for path in text.split('`').filter(|span| is_path_of_a_test(span)) {
            assert!(exists(path), "there is no test `{path}`");
            named += 1;
        }
    }
    assert!(named >= 25, "only {named} were recognized");
}

#[test]
fn the_acl_line_suffices_and_is_the_least() {
    let server = Server::start();
    let line = acl_line();
    tried(&server, &line).expect("the line suffices");
    let words: Vec<&str> = line.split(' ').collect();
    for command in words.iter().filter(|word| word.starts_with('+')) {
        let others: Vec<&str> = words
            .iter()
            .copied()
            .filter(|word| word != command)
            .collect();
        let tried = tried(&server, &others.join(" "));
        assert_eq!(
            tried.is_ok(),
            DISPENSABLE.contains(command),
            "without {command}: {tried:?}"
        );
    }
}

/// The releases of Valkey 9 are a native command, for which the line has no permission.
#[test]
fn the_acl_line_suffices_on_valkey() {
    let server = Server::with(&Options::valkey());
    tried(&server, &acl_line()).expect("the line suffices");
    tried(&server, &(acl_line() + " +delifeq")).expect("it suffices with the native command");
}

/// With a strict guard another line is needed, and `INFO` cannot be done without.
#[test]
fn the_acl_line_of_a_strict_guard_suffices_and_is_the_least() {
    let dispensable = ["+script|load", "+time", "+config|get"];
    for options in [Options::redis(), Options::valkey()] {
        let server = Server::with(&options);
        let (line, more) = (acl_line(), strict_acl_line());
        strictly_tried(&server, &line, &more).expect("the lines suffice");
        strictly_tried(&server, &line, "").expect_err("the first does not");
        let words = line.split(' ').chain(more.split(' ').skip(3));
        for command in words.filter(|word| word.starts_with('+')) {
            let without = |line: &str| -> String {
                let words: Vec<&str> = line.split(' ').filter(|word| *word != command).collect();
                words.join(" ")
            };
            let tried = strictly_tried(&server, &without(&line), &without(&more));
            let fine = dispensable.contains(&command);
            assert_eq!(
                tried.is_ok(),
                fine,
                "{options:?} without {command}: {tried:?}"
            );
        }
    }
}

fn strictly_tried(server: &Server, acl: &str, more: &str) -> Result<(), Box<dyn Error>> {
    let mut admin = server.raw();
    forget(&mut admin);
    for line in [acl, more] {
        if !line.is_empty() {
            admin.run(line);
        }
    }
    let url = server.url_with(&format!("locker:{PASSWORD}"));
    let strict = at([url]).max_ttl(LONG);
    let mut local = strict.restart_guard(RestartGuard::Strict).build_local()?;
    local.trust_nodes();
    live(&mut local, &mut admin)
}

/// The life of a lock, once with the scripts known to the server and once with them forgotten.
fn tried(server: &Server, acl: &str) -> Result<(), Box<dyn Error>> {
    let mut admin = server.raw();
    forget(&mut admin);
    admin.run(acl);
    let url = server.url_with(&format!("locker:{PASSWORD}"));
    live(&mut at([url]).build_local()?, &mut admin)
}

fn live(local: &mut LocalRedlock, admin: &mut Raw) -> Result<(), Box<dyn Error>> {
    for scripts_are_known in [true, false] {
        let mut lock = local.try_lock("lock:acl", LONG / 2)?;
        if !scripts_are_known {
            admin.run("SCRIPT FLUSH");
        }
        local.extend(&mut lock, LONG)?;
        local.confirm(&mut lock)?;
        local.unlock(lock)?;
    }
    Ok(())
}

fn forget(admin: &mut Raw) {
    for line in ["ACL DELUSER locker", "FLUSHALL", "SCRIPT FLUSH"] {
        admin.run(line);
    }
}

/// The line that the README gives, and the manual too.
pub(crate) fn acl_line() -> String {
    acl_lines(0)
}

fn strict_acl_line() -> String {
    acl_lines(1)
}

fn acl_lines(number: usize) -> String {
    let readme = read("README.md").expect("it is there");
    let mut lines = readme
        .lines()
        .filter(|line| line.starts_with("ACL SETUSER"));
    let line = lines.nth(number).expect("the README gives it");
    let manual = read("src/manual/operating.rs").expect("it is there");
    assert!(
        manual.contains(&format!("//! {line}\n")),
        "the manual gives another"
    );
    line.to_owned()
}

/// The README and the pages of the manual.
fn texts() -> Vec<String> {
    let manual = fs::read_dir(root().join("src/manual")).expect("it is there");
    let mut texts = vec![read("README.md").expect("it is there")];
    texts
        .extend(manual.map(|page| fs::read_to_string(page.expect("listed").path()).expect("text")));
    texts
}

/// The path by which `cargo test` runs it: lower case, and a name of more than two words, which no
/// module and no function that is mentioned has.
fn is_path_of_a_test(span: &str) -> bool {
    let plain = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:".contains(letter)
    };
    span.chars().all(plain)
        && span
            .rsplit_once("::")
            .is_some_and(|(_, name)| name.matches('_').count() >= 2)
}

/// Whether `cargo test PATH` would run such a test: of this binary, by its own list; of an example
/// or of the library, by the file where it would be.
fn exists(path: &str) -> bool {
    let (module, name) = path.rsplit_once("::").expect("it is a path");
    let place = module.replace("::", "/");
    if read(&format!("tests/it/{place}.rs")).is_some() {
        return own_tests()
            .lines()
            .any(|line| line == format!("{path}: test"));
    }
    let test = format!("#[test]fn{name}()");
    let has = |file: String, inline: bool| {
        let text: String = read(&file).unwrap_or_default().split_whitespace().collect();
        let is_inline = text.contains("modtests{");
        text.contains(&test) && is_inline == inline
    };
    match place.strip_suffix("/tests") {
        Some(parent) if has(format!("src/{parent}.rs"), true) => true,
        Some(parent) if has(format!("src/{parent}/mod.rs"), true) => true,
        _ => {
            has(format!("src/{place}.rs"), false)
                || has(format!("src/{place}/mod.rs"), false)
                || has(format!("examples/{place}.rs"), false)
        }
    }
}

/// The tests of this binary, a line each.
fn own_tests() -> String {
    let own = std::env::current_exe().expect("it runs");
    let list = std::process::Command::new(own).arg("--list").output();
    String::from_utf8(list.expect("it runs").stdout).expect("text")
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(root().join(file)).ok()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
