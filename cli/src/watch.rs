//! `shearline watch`: shows who holds a lock, and each change.
//!
//! # Guarantees
//!
//! * "extended": a majority of the nodes now report a later expiry than any node reported before.
//! * "released": the keys vanished before they could expire.
//! * "broken": an operator has broken the lock.
//! * "new holder": the token differs from the token of the last holder that the command has shown.
//! * If it is not certain what has changed, the line has none of these words. If a key vanishes just before its expiry,
//!   the nodes do not say whether it expired or was deleted.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use shearline::internals::now;
use shearline::{Found, Inspection, Instant};

use crate::failure::{Failure, in_words};
use crate::help::Texts;
use crate::inspect::{self, Subject};
use crate::json::joined;
use crate::output::{Format, NOTE, complain, printable};
use crate::signals::{Signals, wait};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline watch report
shearline watch --count 2 report      # how it is now, and its next change",
    "\
0  --count lines were printed
1 64 78 128+N",
    "shearline(1), shearline-status(1), shearline-break(1)",
);

/// Shows who holds a lock, and each change, until Ctrl-C.
///
/// Each change is one line, or one object with --json. The nodes push each change, and send nothing between changes. If
/// changes follow each other within a hundredth of a second, the command shows them as one.
///
/// Each line begins with the time in UTC. The line also names the change, if it is certain: extended, released, broken
/// or new holder. Keys that were deleted before they expired also count as released. A new lock of the same client also
/// counts as a new holder. Without --json, stderr names each node that does not answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ends after this many lines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Hides extensions.
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    subject: Subject,
}

/// Prints each state.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let signals = Signals::catch()?;
    // `before` is the time just before the last poll that returned no state. So the nodes showed the next state later
    // than `before`.
    let [before, polled] = [now(), now()].map(Cell::new);
    let check = || {
        before.set(polled.replace(now()));
        signals.check()
    };
    let mut watch = args.subject.connect()?.watch(name)?;
    let (mut left, mut last, mut seen) = (args.count.unwrap_or(u64::MAX), None, Seen::default());
    let mut silent = Vec::new();
    while left != 0 {
        let told = wait(watch.changed(), check)?.expect("the handle is open");
        if !args.format.json {
            silent = tell_silent(name, &told, &silent);
        }
        let change = seen.change(&told, before.get(), now());
        let (at, text) = (utc(SystemTime::now()), inspect::in_full(&told));
        // If a line about a holder repeats, the lock was extended. If a line without a holder repeats, only the state
        // of a node has changed.
        let is_hidden = args.quiet && change == Some("extended");
        let is_repeated = told.holders().is_empty() && last.as_ref() == Some(&text);
        if is_hidden || !args.format.json && is_repeated {
            continue;
        }
        let fields = json!({ "at": at, "change": change.map(|it| it.replace(' ', "_")) });
        let object = || joined([inspect::object("watch", name, &told), fields]);
        let change = change.map_or_else(String::new, |it| format!("{it}: "));
        // Does not wrap the line, because each line of the output must begin with a time.
        let line = || format!("{at} {}  {change}{text}", printable(name));
        args.format.say(object, line)?;
        last = Some(text);
        left -= 1;
    }
    Ok(Status::Success)
}

/// Names on stderr each node that did not answer, unless the node is in `before`. Returns all nodes that did not answer.
fn tell_silent(name: &[u8], told: &Inspection, before: &[Arc<str>]) -> Vec<Arc<str>> {
    let mut silent = Vec::new();
    for node in told.nodes() {
        let Found::Unknown(why) = node.found else {
            continue;
        };
        if !before.contains(&node.address) {
            let (name, why) = (printable(name), in_words(why));
            complain(NOTE, format_args!("{name}: {} {why}", node.address));
        }
        silent.push(Arc::clone(&node.address));
    }
    silent
}

/// Returns the time in UTC, in the format of RFC 3339.
fn utc(at: SystemTime) -> String {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (at.as_secs(), at.subsec_millis());
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    // In this calculation, years begin in March, so that leap days come last (the algorithm of Neri and Schneider).
    let quarters = 4 * (seconds / 86_400 + 719_468) + 3;
    let (century, quarters) = (quarters / 146_097, (quarters % 146_097) | 3);
    let scaled = 2_141 * (quarters % 1_461 / 4) + 197_913;
    let (month, day) = (scaled >> 16, (scaled & 0xffff) / 2_141 + 1);
    let year = 100 * century + quarters / 1_461 + month / 13;
    let month = (month - 1) % 12 + 1;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// What the command has learned from the states that it has shown.
#[derive(Default)]
struct Seen {
    /// The latest state that shows holders of the lock, or shows that it is free.
    known: Option<Inspection>,
    /// The latest state with the holder of an exclusive lock.
    held: Option<Inspection>,
    /// The latest time at which a key of the holder can expire. The command computes this time when the holder is new
    /// or has extended the lock.
    end: Instant,
    /// A majority stores the token until this time, unless the keys are deleted. `None` if nodes may have forgotten the
    /// token.
    kept: Option<Instant>,
}

impl Seen {
    /// Returns what has changed, if the change is certain. The command has received this state between `before` and
    /// `now`.
    fn change(&mut self, told: &Inspection, before: Instant, now: Instant) -> Option<&'static str> {
        let known = self.known.as_ref();
        let is_same = known.is_some_and(|known| told.same_holder(known));
        let kept = told.holder().map(|it| before.saturating_add(it.valid_for));
        let change = match told.holder() {
            Some(_) if is_same => (kept > Some(self.end)).then_some("extended"),
            // The last holder's keys had been deleted, and have been restored.
            Some(_) if self.held.as_ref().is_some_and(|it| told.same_holder(it)) => None,
            Some(holder) if holder.owner.starts_with(b"(broken)") => known.map(|_| "broken"),
            Some(_) => known.map(|_| "new holder"),
            None => (told.is_free() && Some(now) < self.kept).then_some("released"),
        };
        if kept.is_some() && (!is_same || change.is_some()) {
            let left = told.nodes().iter().filter_map(|node| match node.found {
                Found::Holder { left } => Some(left),
                _ => None,
            });
            self.end = now.saturating_add(left.max().unwrap_or_default());
        }
        let is_known = told.is_free() || !told.holders().is_empty();
        // A node that does not count may have been restarted, and may have forgotten its key.
        if is_known || !told.nodes().iter().all(|node| node.counts) {
            self.kept = kept;
        }
        if is_known {
            self.known = Some(told.clone());
        }
        if kept.is_some() {
            self.held = Some(told.clone());
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (68_255_999, "1972-02-29T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_796_063_123, "2026-11-30T18:25:23"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (4_133_980_799, "2100-12-31T23:59:59"),
        ] {
            let millis = Duration::from_millis(seconds * 1_000 + 70);
            assert_eq!(utc(UNIX_EPOCH + millis), format!("{text}.070Z"));
        }
    }
}
