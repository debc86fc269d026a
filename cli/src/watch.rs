//! `shearline watch`: shows who holds a lock, and each change.
//!
//! # Guarantees
//!
//! * "extended": a majority of the nodes keeps the token for longer than any node kept it before.
//! * "released": the keys are gone before they could expire.
//! * "new holder": the token is not the token of the holder that was shown before.
//! * If this is not certain, the line has none of these words. Nodes do not say whether a key has expired or was deleted
//!   just before its end.

use std::future::{Future as _, poll_fn};
use std::mem;
use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use shearline::internals::now;
use shearline::{Found, Inspection, Instant};

use crate::failure::Failure;
use crate::help::Texts;
use crate::inspect::{self, Subject};
use crate::json::joined;
use crate::output::{Format, printable};
use crate::signals::Signals;
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
/// Each change is one line, or one object with --json. The nodes push changes, and send nothing while nothing changes.
/// If changes follow each other within a hundredth of a second, the command shows them as one.
///
/// A line has the time in UTC, and says what has changed if this is certain: extended, released (or its keys were
/// deleted before they expired), or new holder (also if the same client has taken the lock again).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ends after this many lines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    subject: Subject,
}

/// Prints each state.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let signals = Signals::catch()?;
    let (mut before, mut seen) = (now(), Seen::default());
    let mut watch = args.subject.connect()?.watch(name)?;
    let (mut left, mut last) = (args.count.unwrap_or(u64::MAX), String::new());
    while left != 0 {
        let mut changed = pin!(watch.changed());
        let told = signals.wait(poll_fn(|context| {
            let asked = now();
            let polled = changed.as_mut().poll(context);
            if polled.is_pending() {
                before = asked;
            }
            polled
        }))?;
        let told = told.expect("the handle is open");
        let change = seen.change(&told, before, now());
        let text = inspect::in_full(&told);
        // An equal line about a holder shows an extension. Without a holder, only the nodes have changed.
        if !args.format.json && told.holders().is_empty() && text == last {
            continue;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = utc(at.unwrap_or_default());
        let object = || {
            let change = change.map(|word| word.replace(' ', "_"));
            let fields = json!({ "at": at, "change": change });
            joined([inspect::object("watch", name, &told), fields])
        };
        let line = || {
            let change = change.map_or_else(String::new, |word| format!("{word}: "));
            // The line is not wrapped, because each line begins with a time.
            format!("{at} {}  {change}{text}", printable(name))
        };
        args.format.say(object, line)?;
        last = text;
        left -= 1;
    }
    Ok(Status::Success)
}

/// Returns the time in UTC as RFC 3339 writes it. `since` counts from the begin of 1970.
fn utc(since: Duration) -> String {
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    // The years of this count begin in March, and its eras of 400 years with the year 0.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (year, day) = (
        era * 400 + year + month / 10,
        day - (153 * month + 2) / 5 + 1,
    );
    let (month, second) = ((month + 2) % 12 + 1, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// What the states so far have shown.
#[derive(Default)]
struct Seen {
    /// Whether a state has shown a holder, or that there is none.
    knew: bool,
    /// The latest state with a holder of the lock.
    held: Option<Inspection>,
    /// The end of the longest-lived key of the holder, at the latest, when the holder was new or had extended the lock.
    end: Instant,
    /// Until then, a majority keeps the token, unless the keys are deleted. Zero if some nodes may have forgotten it.
    kept_until: Instant,
}

impl Seen {
    /// Returns what has changed, if this is certain. The nodes have shown the state between `before` and `now`.
    fn change(&mut self, told: &Inspection, before: Instant, now: Instant) -> Option<&'static str> {
        let (knew, held) = (self.knew, self.held.as_ref());
        self.knew |= told.is_free() || !told.holders().is_empty();
        let Some(holder) = told.holder() else {
            // A node that was restarted meanwhile may have forgotten its key.
            let mut nodes = told.nodes().iter().zip(held?.nodes());
            if !told.holders().is_empty() || nodes.any(|(node, then)| then.counts && !node.counts) {
                self.kept_until = Instant::ZERO;
            }
            let is_early = told.is_free() && now < mem::take(&mut self.kept_until);
            return is_early.then_some("released");
        };
        self.kept_until = before.saturating_add(holder.valid_for);
        let is_same = held.is_some_and(|held| told.same_holder(held));
        let change = match is_same {
            true => (self.end < self.kept_until).then_some("extended"),
            // A broken lock has the token of an operator, and no new holder.
            false => (knew && !holder.owner.starts_with(b"(broken)")).then_some("new holder"),
        };
        if !is_same || change.is_some() {
            let left = told.nodes().iter().filter_map(|node| match node.found {
                Found::Holder { left } => Some(left),
                _ => None,
            });
            self.end = now.saturating_add(left.max().unwrap_or_default());
        }
        self.held = Some(told.clone());
        change
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(utc(millis), format!("{text}.070Z"));
        }
    }
}
