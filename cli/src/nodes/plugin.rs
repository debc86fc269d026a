//! The output of `check --nagios`: one line and an exit status, as monitoring systems expect them from plugins.

use anstream::adapter::strip_str;

use super::Seen;
use crate::failure::Failure;
use crate::output;
use crate::status::Status;

/// The words for the statuses 0 to 3.
const WORDS: [&str; 4] = ["OK", "WARNING", "CRITICAL", "UNKNOWN"];

/// Prints the results as one line. Without `--nagios`, the exit status would be `status`.
pub(super) fn told(seen: &Seen, status: Status) -> Result<Status, Failure> {
    let status = status.code().min(2);
    let said = seen.problems().join("; ");
    let (votes, needed, nodes) = (seen.votes(), seen.needed(), seen.nodes.len());
    // A value outside the first range is a warning. A value outside the second range is critical.
    let data = format!(" | votes={votes};{nodes}:;{needed}:;0;{nodes}");
    output::say(line(status, &said) + &data)?;
    Ok(Status::Other(status))
}

/// Prints that the result is unknown, and returns the status.
pub(crate) fn unknown(failure: &Failure) -> Status {
    let _ = output::say(line(3, &failure.message)); // If the line cannot be printed, the status is enough.
    Status::Other(3)
}

/// Formats the output line of the plugin. Replaces each `|` in `said`, because a monitoring system expects numbers
/// after a `|`.
fn line(status: u8, said: &str) -> String {
    let said = strip_str(said).to_string();
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ").replace('|', "/");
    format!("SHEARLINE {} - {said}", WORDS[usize::from(status)])
}
