//! Checks claims of the README and the manual: the tests that they name, and the permissions. Also checks that the
//! README stays short.

use std::error::Error;
use std::time::Duration;

use shearline::{LocalRedlock, LockOptions, RestartGuard};

use crate::acl::{self, acl_line, acl_line_without_scripts, holders_acl_line, strict_acl_line};
use crate::face::at;
use crate::links::{self, read};
use crate::servers::{LONG, Options, Raw, Server};

const ONCE: LockOptions = LockOptions::new(Duration::from_secs(60)).tries(1);

type Tried = Result<(), Box<dyn Error>>;

const PASSWORD: &str = "secret";

/// Commands without which a node still works, but less well.
const DISPENSABLE: &str = "+script|load +info +time +client|tracking +client|caching";

/// The longest README that a reader can read in a minute.
const README_BYTES_MAX: usize = 6 << 10;

#[test]
fn the_readme_can_be_read_in_a_minute() {
    let bytes = read("README.md").expect("it is there").len();
    assert!(
        bytes <= README_BYTES_MAX,
        "it has {bytes} bytes, {README_BYTES_MAX} are allowed: move what is more to the manual"
    );
}

#[test]
fn every_test_that_is_named_exists() {
    let mut named = 0;
    for text in texts() {
        for path in tests_named_in(&text) {
            assert!(exists(path), "there is no test `{path}`");
            named += 1;
        }
    }
    assert!(named >= 60, "only {named} were recognized");
}

#[test]
fn every_guarantee_names_a_test() {
    let page = read("docs/guarantees.md").expect("it is there");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.skip(2).collect();
    assert!(rows.len() >= 22, "only {} were recognized", rows.len());
    for row in rows {
        assert!(tests_named_in(row).next().is_some(), "no test: {row}");
    }
}

#[test]
fn permissions_have_one_source() {
    let everywhere = texts().concat();
    assert_eq!(acl::lines_of(acl::PAGE), acl::lines_of(&everywhere));
}

#[test]
fn the_acl_line_suffices_and_is_the_least() {
    is_the_least(&Server::start(), &acl_line(), DISPENSABLE, tried);
}

/// Asserts that a user with this line can do everything that `tried` does, and that every word of the line is needed,
/// except for those in `dispensable`.
#[track_caller]
fn is_the_least(server: &Server, line: &str, dispensable: &str, tried: fn(&Server, &str) -> Tried) {
    tried(server, line).expect("the line suffices");
    for left_out in line.split(' ').filter(|word| word.starts_with(['+', '~'])) {
        let tried = tried(server, &without(line, left_out));
        let fine = dispensable.split(' ').any(|word| word == left_out);
        assert_eq!(tried.is_ok(), fine, "without {left_out}: {tried:?}");
    }
}

fn without(line: &str, left_out: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| *word != left_out).collect();
    words.join(" ")
}

/// Returns the line with the permissions that another line adds.
fn with(line: String, more: &str) -> String {
    line + " " + &more.split(' ').skip(3).collect::<Vec<_>>().join(" ")
}

/// Valkey 9 releases with a native command, for which the line has no permission.
#[test]
fn the_acl_line_suffices_on_valkey() {
    not_with!(Valkey81, "it has no native release");
    let server = Server::with(&Options::valkey());
    tried(&server, &acl_line()).expect("the line suffices");
    tried(&server, &(acl_line() + " +delifeq")).expect("it suffices with the native command");
}

/// A strict guard needs another line, and cannot do without `INFO`.
#[test]
fn the_acl_line_of_a_strict_guard_suffices_and_is_the_least() {
    let dispensable = "+script|load +time +client|tracking +client|caching +config|get";
    for options in [Options::redis(), Options::valkey()] {
        let server = Server::with(&options);
        let line = with(acl_line(), &strict_acl_line());
        is_the_least(&server, &line, dispensable, strictly_tried);
        strictly_tried(&server, &acl_line()).expect_err("the first does not suffice");
    }
}

/// Fencing tokens need the keys of the strict guard's line, and can do without neither `INFO` nor `TIME`.
#[test]
fn the_acl_line_of_fencing_tokens_suffices_and_is_the_least() {
    let dispensable = "+script|load +client|tracking +client|caching";
    for options in [Options::redis(), Options::valkey()] {
        let server = Server::with(&options);
        let more = strict_acl_line();
        let keys = more.split(' ').find(|word| word.starts_with('~'));
        let line = format!("{} {}", acl_line(), keys.expect("keys of our own"));
        let asks: &[&[u8]] = &[b"EVAL", b"return redis.acl_check_cmd and 1 or 0", b"0"];
        let asks = server.raw().integer(asks) == 1;
        is_the_least(&server, &line, dispensable, fenced_tried);
        // A script runs these commands. Redis 6.2 cannot check permissions there.
        for command in ["time", "get", "set"].into_iter().filter(|_| asks) {
            let tried = fenced_tried(&server, &without(&line, &format!("+{command}")));
            let error = format!("{:#}", tried.expect_err("it does not suffice"));
            let named = format!("may not run `{command}`");
            assert!(error.contains(&named), "{error}");
        }
    }
}

/// The test tries the life of a lock that becomes a shared one, and of a permit.
#[test]
fn the_acl_line_of_shared_locks_and_permits_suffices_and_is_the_least() {
    let dispensable = "+script|load +info +client|tracking +client|caching";
    for options in [Options::redis(), Options::valkey()] {
        let server = Server::with(&options);
        let line = with(acl_line(), &holders_acl_line());
        is_the_least(&server, &line, dispensable, held_with_others);
        held_with_others(&server, &acl_line()).expect_err("the first line does not suffice");
    }
}

/// The handle uses no scripts, because of its configuration or because the node refuses them. The test tries the life
/// of a lock.
#[test]
fn the_acl_line_without_scripts_suffices_and_is_the_least() {
    let (line, server) = (acl_line_without_scripts(), Server::start());
    let dispensable = without(DISPENSABLE, "+script|load");
    is_the_least(&server, &line, &dispensable, tried_without_scripts);
}

/// `lib.rs` lists all modules.
#[test]
fn every_room_is_on_the_map() {
    let text = read("src/lib.rs").expect("it is there");
    let map = text.lines().filter(|line| line.starts_with("//! | "));
    let map: String = map.filter_map(|row| row.split(" | ").nth(1)).collect();
    let mut rooms = 0;
    for line in text.lines().filter(|line| line.ends_with(';')) {
        let words = line.trim_start_matches("pub ").strip_prefix("mod ");
        if let Some(room) = words.and_then(|words| words.strip_suffix(';')) {
            assert!(map.contains(&format!("`{room}`")), "where is `{room}`?");
            rooms += 1;
        }
    }
    assert!(rooms >= 15, "only {rooms} were recognized");
}

fn strictly_tried(server: &Server, acl: &str) -> Tried {
    let (mut admin, url) = locker(server, acl);
    let strict = at([url]).max_ttl(LONG);
    let mut local = strict.restart_guard(RestartGuard::Strict).build_local()?;
    local.trust_nodes();
    live(&mut local, &mut admin, &ONCE)
}

/// Tries the life of a lock with a fencing token. The user itself has given the node a floor.
fn fenced_tried(server: &Server, acl: &str) -> Tried {
    let (mut admin, url) = locker(server, acl);
    let mut local = at([url]).build_local()?;
    let options = ONCE.fenced();
    local
        .lock_with("lock:acl", &options)
        .expect_err("it has no floor");
    local.trust_nodes();
    live(&mut local, &mut admin, &options)
}

/// Tries the life of locks that others may hold too.
fn held_with_others(server: &Server, acl: &str) -> Tried {
    let (_, url) = locker(server, acl);
    let mut local = at([url]).build_local()?;
    let mut lock = local.lock_with("lock:acl", &ONCE)?;
    local.extend(&mut lock, LONG)?;
    local.downgrade(&mut lock)?;
    let beside = local.try_lock_shared("lock:acl", LONG)?;
    local.unlock(lock)?;
    local.unlock(beside)?;
    let permit = local.permit("lock:acl", 2, LONG)?;
    let mut beside = local.permit("lock:acl", 2, LONG)?;
    local.unlock(permit)?;
    local.extend(&mut beside, LONG)?;
    local.confirm(&mut beside)?;
    local.unlock(beside)?;
    Ok(())
}

/// Tries the life of a lock, once while the server knows the scripts and once after they were flushed.
fn tried(server: &Server, acl: &str) -> Tried {
    let (mut admin, url) = locker(server, acl);
    live(&mut at([url]).build_local()?, &mut admin, &ONCE)
}

fn tried_without_scripts(server: &Server, acl: &str) -> Tried {
    let (mut admin, url) = locker(server, acl);
    for told in [true, false] {
        let builder = at([url.clone()]).without_scripts(told);
        live(&mut builder.build_local()?, &mut admin, &ONCE)?;
    }
    Ok(())
}

fn live(local: &mut LocalRedlock, admin: &mut Raw, options: &LockOptions) -> Tried {
    let mut last = None;
    for scripts_are_known in [true, false] {
        let mut lock = local.lock_with("lock:acl", options)?;
        assert!(last < lock.fencing_token() || last.is_none());
        last = lock.fencing_token();
        if !scripts_are_known {
            admin.run("SCRIPT FLUSH");
        }
        local.extend(&mut lock, LONG)?;
        local.confirm(&mut lock)?;
        assert!(local.inspect("lock:acl")?.holder().is_some());
        local.unlock(lock)?;
    }
    Ok(())
}

/// Makes the user of this line, on a server that has forgotten everything else. Returns a connection of the operator,
/// and the user's URL.
fn locker(server: &Server, line: &str) -> (Raw, String) {
    let mut admin = server.raw();
    for line in ["ACL DELUSER locker", "FLUSHALL", "SCRIPT FLUSH", line] {
        admin.run(line);
    }
    (admin, server.url_with(&format!("locker:{PASSWORD}")))
}

/// Returns the README and the pages of the manual.
fn texts() -> Vec<String> {
    let pages = links::manual().into_iter().chain(["README.md".into()]);
    pages.map(|page| read(&page).expect("text")).collect()
}

fn tests_named_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').filter(|span| is_path_of_a_test(span))
}

/// Returns `true` if `span` looks like the path of a test: lower case, and a name of more than two words. No module or
/// function that the texts mention has such a name. A path without a module needs one word more.
fn is_path_of_a_test(span: &str) -> bool {
    let plain = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_:".contains(letter)
    };
    let words = |name: &str| name.matches('_').count() + 1;
    span.chars().all(plain)
        && match span.rsplit_once("::") {
            Some((_, name)) => words(name) >= 3,
            None => words(span) >= 4,
        }
}

/// Returns `true` if `cargo test PATH` would run such a test. Tests of this binary are looked up in its own list; those
/// of the command, of the simulator, of an example or of the library in the file that the path names. A lemma counts
/// too.
fn exists(path: &str) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else {
        return has_test("tests/sim/main.rs", path, false) || is_lemma(path);
    };
    let place = module.replace("::", "/");
    if has_test(&format!("cli/tests/it/{place}.rs"), name, false) {
        return true;
    }
    if read(&format!("tests/it/{place}.rs")).is_some() {
        return own_tests()
            .lines()
            .any(|line| line == format!("{path}: test"));
    }
    let inline = place.strip_suffix("/tests").is_some_and(|parent| {
        ["src/{}.rs", "src/{}/mod.rs"]
            .iter()
            .any(|form| has_test(&form.replace("{}", parent), name, true))
    });
    let forms = [
        "src/{}.rs",
        "src/{}/mod.rs",
        "tests/sim/{}.rs",
        "examples/{}.rs",
    ];
    let mut files = forms.iter().map(|form| form.replace("{}", &place));
    inline || files.any(|file| has_test(&file, name, false))
}

/// Returns `true` if `bash proofs/check.sh` would prove such a lemma.
fn is_lemma(name: &str) -> bool {
    let groups = ["lease", "fencing", "shared", "slots", "plain"];
    let texts = groups.map(|group| read(&format!("proofs/{group}.py")));
    let mut texts = texts.iter().flatten();
    texts.any(|text| text.contains(&format!("def {name}(")))
}

/// Returns `true` if the file has such a test, in a module `tests` of its own if that is `inline`.
fn has_test(file: &str, name: &str, inline: bool) -> bool {
    let text: String = read(file).unwrap_or_default().split_whitespace().collect();
    text.contains(&format!("#[test]fn{name}()")) && text.contains("modtests{") == inline
}

/// Returns the list of the tests of this binary, one a line.
fn own_tests() -> String {
    let own = std::env::current_exe().expect("it runs");
    let list = std::process::Command::new(own).arg("--list").output();
    String::from_utf8(list.expect("it runs").stdout).expect("text")
}
