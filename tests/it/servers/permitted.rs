//! The same tests under the permissions that the manual asks for, and no more.
//!
//! With `SHEARLINE_TEST_ACL=1` every server knows a user with the manual's line, and every URL of a
//! server, a relay or a link is that user's. What tests do to servers from outside they do as the
//! default user, as ever. `tests/run.sh` says which tests are run so.

use std::env;
use std::sync::LazyLock;

use crate::canary::{ESCAPED, LOCKER, PASSWORD};
use crate::readme::acl_line;

/// The words behind `ACL SETUSER`, or as an argument behind `--user`.
static RULES: LazyLock<Option<Vec<String>>> = LazyLock::new(|| {
    let asked = env::var_os("SHEARLINE_TEST_ACL").is_some_and(|value| value == "1");
    asked.then(|| rules(&acl_line()))
});

/// The user that servers are to know, if any.
pub(super) fn rules_of_user() -> Option<&'static [String]> {
    RULES.as_deref()
}

/// What stands in front of the address in a URL: `user:password@`, or nothing.
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
fn servers_know_a_user_with_the_line_of_the_manual() {
    let rules = rules(&acl_line());
    let begin = [LOCKER, "on", &format!(">{PASSWORD}"), "~*", "+set"];
    assert_eq!(rules[..5], begin);
    assert_eq!(rules.len(), acl_line().split(' ').count() - 2);
}
