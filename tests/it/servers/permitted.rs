//! The same tests with exactly the permissions that the manual names.
//!
//! With `SHEARLINE_TEST_ACL=1` every server has a user with the manual's line, and every URL of a
//! server, a relay or a link uses it. Tests access servers from outside as the default user, as
//! always. `tests/run.sh` says which tests are run so.

use std::env;
use std::sync::LazyLock;

use crate::canary::{ESCAPED, LOCKER, PASSWORD};
use crate::readme::acl_line;

/// The words after `ACL SETUSER`, or after `--user` as an argument.
static RULES: LazyLock<Option<Vec<String>>> = LazyLock::new(|| {
    let asked = env::var_os("SHEARLINE_TEST_ACL").is_some_and(|value| value == "1");
    asked.then(|| rules(&acl_line()))
});

/// The user that servers get, if any.
pub(super) fn rules_of_user() -> Option<&'static [String]> {
    RULES.as_deref()
}

/// The text before the address in a URL: `user:password@`, or nothing.
pub(super) fn credentials() -> String {
    match *RULES {
        Some(_) => format!("{LOCKER}:{ESCAPED}@"),
        None => String::new(),
    }
}

/// The line with another name and another password, and for the keys of these tests.
fn rules(line: &str) -> Vec<String> {
    let rules = line.strip_prefix("ACL SETUSER locker ");
    let rules = rules.expect("a user whose name is `locker`").split(' ');
    let mut others = 0;
    let rules = rules.map(|rule| match rule {
        ">secret" => {
            others += 1;
            format!(">{PASSWORD}")
        }
        "~lock:*" => {
            others += 1;
            "~*".to_owned()
        }
        same => same.to_owned(),
    });
    let rules = [LOCKER.to_owned()].into_iter().chain(rules).collect();
    assert_eq!(others, 2, "a password and a pattern of keys");
    rules
}

#[test]
fn servers_have_a_user_with_the_acl_line_of_the_manual() {
    let rules = rules(&acl_line());
    let begin = [LOCKER, "on", &format!(">{PASSWORD}"), "~*", "+set"];
    assert_eq!(rules[..5], begin);
    assert_eq!(rules.len(), acl_line().split(' ').count() - 2);
}
