//! Runs of the same tests by a user with exactly the permissions that the manual names, or by a user without scripts.
//!
//! With `SHEARLINE_TEST_ACL=1` every server has a user with the manual's line, and every URL of a server, a relay or a
//! link uses it. With `SHEARLINE_TEST_USER=no-scripts` that user may do everything but run scripts, and the handles of
//! [`Which`](crate::face::Which) and [`at`](crate::face::at) are told to use none; with `found-no-scripts` they find
//! that out. Tests still access servers from outside as the default user.

use std::env;
use std::ffi::OsString;
use std::sync::LazyLock;

use shearline::Builder;

use crate::acl::acl_line;
use crate::canary::{ESCAPED, LOCKER, PASSWORD};

/// The words of the user's rules, as in `ACL SETUSER` or after the argument `--user`.
static RULES: LazyLock<Option<Vec<String>>> = LazyLock::new(|| {
    if is_without_scripts() {
        return Some(rules(NO_SCRIPTS));
    }
    is_with_acl_line().then(|| rules(&acl_line()))
});

const NO_SCRIPTS: &str = "ACL SETUSER locker on >secret ~lock:* +@all -@scripting";

/// Returns `true` if handles use no scripts.
pub(crate) fn is_without_scripts() -> bool {
    is_told_so() || user().is_some_and(|user| user == "found-no-scripts")
}

/// Returns `true` if handles are told to use no scripts.
fn is_told_so() -> bool {
    user().is_some_and(|user| user == "no-scripts")
}

/// Returns `true` if servers have a user with the manual's line.
pub(crate) fn is_with_acl_line() -> bool {
    env::var_os("SHEARLINE_TEST_ACL").is_some_and(|value| value == "1")
}

fn user() -> Option<OsString> {
    env::var_os("SHEARLINE_TEST_USER")
}

/// Sets up `builder` for a handle of the user that the servers have.
pub(crate) fn permitted(builder: Builder) -> Builder {
    match is_told_so() {
        true => builder.without_scripts(true),
        false => builder,
    }
}

/// Returns the rules of the user that servers get, if any.
pub(super) fn rules_of_user() -> Option<&'static [String]> {
    RULES.as_deref()
}

/// Returns the text before the address in a URL: `user:password@`, or nothing.
pub(super) fn credentials() -> String {
    match *RULES {
        Some(_) => format!("{LOCKER}:{ESCAPED}@"),
        None => String::new(),
    }
}

/// Returns the line with another name and another password, for the keys of these tests.
fn rules(line: &str) -> Vec<String> {
    let rules = line.strip_prefix("ACL SETUSER locker on >secret ~lock:* ");
    let rules = rules.expect("a user `locker`, its password and its keys");
    let line = format!("{LOCKER} on >{PASSWORD} ~* {rules}");
    line.split(' ').map(str::to_owned).collect()
}
