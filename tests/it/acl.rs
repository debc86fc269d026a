//! The permissions of users, which are read from the page of the manual about permissions.

/// The page of the manual with the permissions.
pub(crate) const PAGE: &str = include_str!("../../docs/permissions.md");

/// Returns the permissions that every user needs.
pub(crate) fn acl_line() -> String {
    let [line, ..] = acl_lines();
    line
}

/// Returns the additional permissions for a strict guard.
pub(crate) fn strict_acl_line() -> String {
    let [_, line, ..] = acl_lines();
    line
}

/// Returns the additional permissions for shared locks and permits.
pub(crate) fn holders_acl_line() -> String {
    let [_, _, line, _] = acl_lines();
    line
}

/// Returns the permissions of a user if no scripts are used.
pub(crate) fn acl_line_without_scripts() -> String {
    let [.., line] = acl_lines();
    line
}

fn acl_lines() -> [String; 4] {
    let lines: Result<[String; 4], _> = lines_of(PAGE).try_into();
    lines.expect("one line, two with more, and one without scripts")
}

/// Returns the lines in a text that make a user.
pub(crate) fn lines_of(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.starts_with("ACL SETUSER "))
        .map(String::from)
        .collect()
}
