//! Times in the texts of errors.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

/// A span of time as people say it: `30 days`, `1 h 30 min`, `1.5 s`.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    /// Rounds up to whole seconds.
    pub(super) fn rounded_up(self) -> Self {
        let most = self.0.saturating_add(Duration::from_nanos(999_999_999));
        Self(Duration::from_secs(most.as_secs()))
    }

    /// Rounds up to tenths of a second, and writes a space before the unit: `2.4 s`.
    pub(super) fn in_tenths(self) -> String {
        match self.0.as_secs() {
            0..120 => {
                let tenths = self.0.as_millis().div_ceil(100);
                match tenths % 10 {
                    0 => format!("{} s", tenths / 10),
                    rest => format!("{}.{rest} s", tenths / 10),
                }
            }
            _ => format!("{}", self.rounded_up()),
        }
    }

    /// Rounds down to milliseconds, so that the text does not promise too much time.
    pub(crate) fn in_millis(self) -> Self {
        let beyond = Duration::from_nanos(u64::from(self.0.subsec_nanos() % 1_000_000));
        Self(self.0.saturating_sub(beyond))
    }

    /// Rounds up to whole milliseconds.
    pub(super) fn rounded_to_millis(self) -> Self {
        Self(self.0.saturating_add(Duration::from_nanos(999_999))).in_millis()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400, "days"), (3_600, "h"), (60, "min"), (1, "s")];
        let seconds = self.0.as_secs();
        if self.0.is_zero() {
            return f.write_str("0s"); // Not nanoseconds.
        }
        if seconds < 120 {
            return write!(f, "{:?}", self.0);
        }
        let mut left = seconds;
        let mut written = 0;
        for (unit, name) in UNITS {
            let count = left / unit;
            left %= unit;
            // A text has two units at most.
            if count == 0 || written == 2 {
                continue;
            }
            let space = if written == 0 { "" } else { " " };
            let name = if (count, name) == (1, "days") {
                "day"
            } else {
                name
            };
            write!(f, "{space}{count} {name}")?;
            written += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RequestFault;
    use crate::limits::TTL_HARD_MAX;

    #[test]
    fn spans_read_as_people_say_them() {
        let seconds = |seconds| format!("{}", Span(Duration::from_secs(seconds)));
        for (span, text) in [
            (0, "0s"),
            (90, "90s"),
            (120, "2 min"),
            (5_400, "1 h 30 min"),
            (86_400, "1 day"),
            (30 * 86_400, "30 days"),
            (30 * 86_400 + 7_201, "30 days 2 h"),
            (TTL_HARD_MAX.as_secs(), "36500 days"),
        ] {
            assert_eq!(seconds(span), text);
        }
        assert_eq!(format!("{}", Span(Duration::from_millis(1_500))), "1.5s");
        let up = Span(Duration::from_millis(1_500)).rounded_up();
        assert_eq!(format!("{up}"), "2s");
        for (millis, text) in [
            (2_301, "2.4 s"),
            (1, "0.1 s"),
            (5_000, "5 s"),
            (119_901, "120 s"),
        ] {
            assert_eq!(Span(Duration::from_millis(millis)).in_tenths(), text);
        }
        assert_eq!(Span(Duration::from_secs(5_400)).in_tenths(), "1 h 30 min");
        let millis = |nanos| format!("{}", Span(Duration::from_nanos(nanos)).in_millis());
        assert_eq!(millis(3_001_110_840), "3.001s");
        assert_eq!(millis(999_999), "0s");
        let invalid = RequestFault::TtlTooLong {
            ttl: Duration::from_secs(31 * 86_400),
            maximum: Duration::from_secs(30 * 86_400),
        };
        assert!(format!("{invalid}").starts_with("a ttl of 31 days is longer than the 30 days"));
    }
}
