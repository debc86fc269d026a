//! What a run has shown, and whether it is as it should be.

use super::frame;
use super::monitor::Counts;
use super::nodes::Left;
use super::text::{Line, Style, number, plural};

/// All that the verdict rests on.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// What the counter says, and how often it was written.
    pub(super) value: u64,
    pub(super) written: u64,
    pub(super) most_inside: u32,
    /// What was found on each node at the end.
    pub(super) leftovers: Vec<(String, Left)>,
    pub(super) counts: Counts,
    /// Workers that ended by a panic.
    pub(super) panicked: usize,
    pub(super) interrupted: bool,
}

impl Verdict {
    /// Whether everything is as it should be.
    pub(super) fn is_good(&self) -> bool {
        self.was_used() && self.counter() && self.exclusion() && self.clean() && self.panicked == 0
    }

    /// Where nothing was locked, nothing was shown.
    fn was_used(&self) -> bool {
        self.written != 0
    }

    fn counter(&self) -> bool {
        self.value == self.written
    }

    fn exclusion(&self) -> bool {
        self.most_inside <= 1
    }

    fn clean(&self) -> bool {
        self.leftovers
            .iter()
            .all(|(_, left)| *left == Left::Nothing)
    }

    /// The verdict to be read.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = vec![
            self.counter_line(),
            self.exclusion_line(),
            self.clean_line(),
        ];
        lines.extend(frame::outcomes(&self.counts));
        if self.panicked != 0 {
            let text = format!("{} panicked", plural(self.panicked, "worker"));
            lines.push(Line::new().with(Style::Bad, text));
        }
        lines.push(self.last_line());
        lines
    }

    fn counter_line(&self) -> Line {
        let [value, written] = [self.value, self.written].map(number);
        match self.counter() {
            true => good(
                "counter",
                "right",
                format!("{value}, as often as it was written"),
            ),
            false => bad(
                "counter",
                "WRONG",
                format!("{value}, but it was written {written} times"),
            ),
        }
    }

    fn exclusion_line(&self) -> Line {
        let most = number(self.most_inside.into());
        match self.exclusion() {
            true => good(
                "exclusion",
                "held",
                format!("at most {most} holder at any time"),
            ),
            false => bad("exclusion", "BROKEN", format!("{most} holders at one time")),
        }
    }

    fn clean_line(&self) -> Line {
        let on = |wanted: Left| -> Vec<&str> {
            let found = self.leftovers.iter().filter(|(_, left)| *left == wanted);
            found.map(|(address, _)| address.as_str()).collect()
        };
        let (keys, unknown) = (on(Left::Key), on(Left::Unknown));
        match (keys.as_slice(), unknown.as_slice()) {
            ([], []) => {
                let nodes = plural(self.leftovers.len(), "node");
                good("keys left", "none", format!("on {nodes}, each asked"))
            }
            ([], unknown) => bad(
                "keys left",
                "UNKNOWN",
                format!("no answer from {}", unknown.join(", ")),
            ),
            (keys, _) => bad("keys left", "SOME", format!("on {}", keys.join(", "))),
        }
    }

    fn last_line(&self) -> Line {
        let end = if self.interrupted {
            ", ended early"
        } else {
            ""
        };
        match self.is_good() {
            true => good("verdict", "GOOD", end.trim_start_matches(", ")),
            false if !self.was_used() => bad("verdict", "NOTHING SHOWN", "no lock was taken"),
            false => bad("verdict", "BAD", end.trim_start_matches(", ")),
        }
    }
}

fn good(label: &str, word: &str, rest: impl AsRef<str>) -> Line {
    told(Style::Good, label, word, rest.as_ref())
}

fn bad(label: &str, word: &str, rest: impl AsRef<str>) -> Line {
    told(Style::Bad, label, word, rest.as_ref())
}

fn told(style: Style, label: &str, word: &str, rest: &str) -> Line {
    Line::new()
        .plain(format!("{label:<11}"))
        .with(style, word)
        .plain(format!(
            "{:1$}{rest}",
            "",
            9_usize.saturating_sub(word.len()).max(2)
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Verdict {
        Verdict {
            value: 1234,
            written: 1234,
            most_inside: 1,
            leftovers: vec![("a:1".into(), Left::Nothing), ("b:2".into(), Left::Nothing)],
            counts: Counts {
                acquired: 1234,
                released: 1234,
                ..Counts::default()
            },
            panicked: 0,
            interrupted: false,
        }
    }

    fn text(verdict: &Verdict) -> String {
        let lines: Vec<String> = verdict.lines().iter().map(Line::bare).collect();
        lines.join("\n")
    }

    #[test]
    fn a_good_run_is_told_in_full() {
        assert!(fine().is_good());
        assert_eq!(
            text(&fine()),
            "counter    right    1,234, as often as it was written\n\
             exclusion  held     at most 1 holder at any time\n\
             keys left  none     on 2 nodes, each asked\n\
             locks      taken 1,234\n           given back 1,234\n\
             verdict    GOOD     "
        );
    }

    #[test]
    fn whatever_is_wrong_is_told_and_spoils_the_verdict() {
        type Spoil = fn(&mut Verdict);
        let wrong: [(&str, Spoil); 7] = [
            (
                "counter    WRONG    1,233, but it was written 1,234 times",
                |v| v.value = 1233,
            ),
            ("exclusion  BROKEN   2 holders at one time", |v| {
                v.most_inside = 2
            }),
            ("keys left  SOME     on b:2", |v| {
                v.leftovers[1].1 = Left::Key
            }),
            ("keys left  UNKNOWN  no answer from a:1", |v| {
                v.leftovers[0].1 = Left::Unknown
            }),
            ("1 worker panicked", |v| v.panicked = 1),
            ("verdict    NOTHING SHOWN  no lock was taken", |v| {
                (v.value, v.written, v.most_inside) = (0, 0, 0);
            }),
            ("verdict    BAD      ended early", |v| {
                (v.value, v.interrupted) = (7, true)
            }),
        ];
        for (told, spoil) in wrong {
            let mut verdict = fine();
            spoil(&mut verdict);
            assert!(!verdict.is_good(), "{told}");
            assert!(text(&verdict).contains(told), "{told}:\n{}", text(&verdict));
        }
    }

    #[test]
    fn to_end_early_is_no_fault() {
        let verdict = Verdict {
            interrupted: true,
            ..fine()
        };
        assert!(verdict.is_good());
        assert!(text(&verdict).ends_with("verdict    GOOD     ended early"));
    }
}
