//! Lines of styled text, and how numbers are written.
//!
//! A line is cut to a width before it becomes bytes, so no escape sequence is ever cut in two.
//! Every character that the demo draws with is one cell wide.

use std::fmt::Write as _;
use std::time::Duration;

/// How a piece of text stands out. Colours only where something is good, odd or bad.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Odd,
    Bad,
}

impl Style {
    /// The parameters of its escape sequence. Without colours the others stay.
    fn code(self, colours: bool) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => colours.then_some("32"),
            Self::Odd => colours.then_some("33"),
            Self::Bad => Some(if colours { "1;31" } else { "1" }),
        }
    }
}

/// One line, in pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a piece.
    pub(super) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        match self.0.last_mut() {
            Some((last, before)) if *last == style => before.push_str(&text),
            _ => self.0.push((style, text)),
        }
        self
    }

    /// Adds a piece without style.
    pub(super) fn plain(self, text: impl Into<String>) -> Self {
        self.with(Style::Plain, text)
    }

    /// Adds `text` so that it ends at `width`; right behind the rest if there is no room.
    pub(super) fn right(self, width: usize, style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        let used = self.len() + text.chars().count();
        self.plain(" ".repeat(width.saturating_sub(used).max(1)))
            .with(style, text)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Returns the text without styles.
    pub(super) fn bare(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the text with escape sequences, cut to `width` cells.
    pub(super) fn styled(&self, width: usize, colours: bool) -> String {
        let mut out = String::new();
        let mut left = width;
        for (style, text) in &self.0 {
            let cut: String = text.chars().take(left).collect();
            left -= cut.chars().count();
            match style.code(colours) {
                Some(code) if !cut.trim().is_empty() => {
                    // Writing into a string does not fail.
                    let _ = write!(out, "\x1b[{code}m{cut}\x1b[0m");
                }
                _ => out.push_str(&cut),
            }
        }
        out
    }
}

/// Writes a number with a comma between thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Writes a duration with three digits or more, in milliseconds, or in seconds from one on.
pub(super) fn duration(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1e3;
    match millis {
        ..9.995 => format!("{millis:.2} ms"),
        ..99.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

/// `1 node`, `2 nodes`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_cells_and_closes_what_it_opens() {
        let line = Line::new()
            .plain("ab")
            .with(Style::Good, "cd▇")
            .with(Style::Strong, "e");
        for (width, colours, expected) in [
            (80, true, "ab\x1b[32mcd▇\x1b[0m\x1b[1me\x1b[0m"),
            (80, false, "abcd▇\x1b[1me\x1b[0m"),
            (4, true, "ab\x1b[32mcd\x1b[0m"),
            (2, true, "ab"),
            (0, true, ""),
        ] {
            assert_eq!(line.styled(width, colours), expected);
        }
        assert_eq!((line.bare().as_str(), line.len()), ("abcd▇e", 6));
    }

    #[test]
    fn text_on_the_right_ends_at_the_width_or_follows() {
        let line = Line::new().plain("ab");
        assert_eq!(
            line.clone().right(8, Style::Plain, "xyz").bare(),
            "ab   xyz"
        );
        assert_eq!(line.right(3, Style::Plain, "xyz").bare(), "ab xyz");
    }

    #[test]
    fn numbers_have_commas() {
        for (value, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345, "12,345"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn durations_have_three_digits() {
        for (nanos, expected) in [
            (0, "0.00 ms"),
            (1_234_000, "1.23 ms"),
            (9_994_000, "9.99 ms"),
            (9_996_000, "10.0 ms"),
            (99_960_000, "100 ms"),
            (999_400_000, "999 ms"),
            (999_600_000, "1.00 s"),
            (12_345_000_000, "12.35 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), expected);
        }
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(plural(1, "node"), "1 node");
        assert_eq!(plural(0, "node"), "0 nodes");
    }
}
