//! The permissions of users. The page of the manual about them is their only source.

/// Where they stand.
pub(crate) const PAGE: &str = include_str!("../../docs/permissions.md");

/// The permissions that every user needs.
pub(crate) fn acl_line() -> String {
    let [line, ..] = acl_lines();
    line
}

/// The additional permissions of a strict guard.
pub(crate) fn strict_acl_line() -> String {
    let [_, line, ..] = acl_lines();
    line
}

/// The additional permissions for shared locks and permits.
pub(crate) fn holders_acl_line() -> String {
    let [_, _, line, _] = acl_lines();
    line
}

/// What a user needs where no scripts are used.
pub(crate) fn acl_line_without_scripts() -> String {
    let [.., line] = acl_lines();
    line
}

fn acl_lines() -> [String; 4] {
    let lines: Result<[String; 4], _> = lines_of(PAGE).try_into();
    lines.expect("one line, two with more, and one without scripts")
}

/// The lines in a text that make a user.
pub(crate) fn lines_of(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.starts_with("ACL SETUSER "))
        .map(String::from)
        .collect()
}
