//! The fields of objects, as the manual lists them.

use super::json::Json;

/// The page of the manual that is about the command.
const MANUAL: &str = include_str!("../../../../docs/command.md");

/// Returns the rows of the manual with the fields of the objects that this command prints.
fn fields_of(command: &str) -> String {
    if command == "run" {
        return between(MANUAL, "| field of the report |", "\n\n").to_owned();
    }
    let table = between(MANUAL, "\n## `--json`\n", "\n## ");
    let mut is_ours = false;
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|row| {
        let subject = row.split(" | ").next().unwrap_or_default();
        // These rows are about a field of the row above.
        if !subject.contains("each of these") && !subject.contains("has tried") {
            let is_failure = subject.contains("a failure of any of them");
            is_ours = is_failure || subject.contains(&format!("`{command}`"));
        }
        is_ours
    });
    rows.collect()
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).expect("its begin");
    rest.split_once(end).expect("its end").0
}

/// Asserts that the manual has each field of this object, in the rows of the command that has printed it.
#[track_caller]
pub(super) fn assert_documented(object: &Json) {
    assert_eq!(object.number("version"), 1);
    let rows = fields_of(object.text("command"));
    for name in object.all_names() {
        let known = name.strip_suffix("_hex").unwrap_or(name);
        let is_in_each = ["version", "command"].contains(&name);
        let is_documented = rows.contains(&format!("`{known}`"));
        assert!(is_in_each || is_documented, "{name} is not in: {rows}");
    }
}
