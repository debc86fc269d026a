//! The results of a run, and whether they are good.

use crate::output::wrapped;

use super::frame;
use super::monitor::Counts;
use super::nodes::Left;
use super::text::{Line, Style, number, plural};

/// All findings of a run.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// The counter, and how often it was written.
    pub(super) value: u64,
    pub(super) written: u64,
    pub(super) most_inside: u32,
    /// What was found on each node at the end.
    pub(super) leftovers: Vec<(String, Left)>,
    /// Whether the nodes were the demo's own: then each of them has to answer at the end.
    pub(super) own_nodes: bool,
    pub(super) counts: Counts,
    /// Workers that ended by a panic.
    pub(super) panicked: usize,
    pub(super) interrupted: bool,
}

impl Verdict {
    /// Returns `true` if every finding is good.
    pub(super) fn is_good(&self) -> bool {
        self.was_used() && self.counter() && self.exclusion() && self.clean() && self.panicked == 0
    }

    /// Returns `true` if any lock was taken: otherwise the run has shown nothing.
    fn was_used(&self) -> bool {
        self.written != 0
    }

    fn counter(&self) -> bool {
        self.value == self.written
    }

    fn exclusion(&self) -> bool {
        self.most_inside <= 1
    }

    /// Returns `true` if no node has a key. A missing server is not a failure, as long as a majority
    /// was asked.
    fn clean(&self) -> bool {
        let count = |wanted| {
            let found = self.leftovers.iter().filter(|(_, left)| *left == wanted);
            found.count()
        };
        let away = count(Left::Unknown);
        let may_be_away = match self.own_nodes {
            true => 0,
            false => (self.leftovers.len() - 1) / 2,
        };
        count(Left::Key) == 0 && away <= may_be_away
    }

    /// Returns the verdict as text.
    pub(super) fn lines(&self, width: usize) -> Vec<Line> {
        let finding = [
            self.counter_finding(),
            self.exclusion_finding(),
            self.clean_finding(),
        ];
        let mut lines: Vec<Line> = finding
            .iter()
            .flat_map(|finding| finding.lines(width))
            .collect();
        lines.extend(frame::outcomes(&self.counts, width));
        if self.panicked != 0 {
            let text = format!("{} panicked", plural(self.panicked, "worker"));
            lines.push(Line::new().with(Style::Bad, text));
        }
        lines.extend(self.last_finding().lines(width));
        lines
    }

    fn counter_finding(&self) -> Finding {
        let [value, written] = [self.value, self.written].map(number);
        match self.counter() {
            true => good("counter", "right", format!("{value}, as often as written")),
            false => bad(
                "counter",
                "WRONG",
                format!("{value}, but written {written} times"),
            ),
        }
    }

    fn exclusion_finding(&self) -> Finding {
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

    fn clean_finding(&self) -> Finding {
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
            ([], away) if self.clean() => {
                let asked = plural(self.leftovers.len() - away.len(), "node");
                let away = away.join(", ");
                good(
                    "keys left",
                    "none",
                    format!("on {asked}; no answer from {away}"),
                )
            }
            ([], away) => {
                let away = away.join(", ");
                bad("keys left", "UNKNOWN", format!("no answer from {away}"))
            }
            (keys, _) => bad("keys left", "SOME", format!("on {}", keys.join(", "))),
        }
    }

    fn last_finding(&self) -> Finding {
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

/// One finding: what it is about, a word, and the rest.
struct Finding {
    style: Style,
    label: &'static str,
    word: &'static str,
    rest: String,
}

fn good(label: &'static str, word: &'static str, rest: impl Into<String>) -> Finding {
    finding(Style::Good, label, word, rest.into())
}

fn bad(label: &'static str, word: &'static str, rest: impl Into<String>) -> Finding {
    finding(Style::Bad, label, word, rest.into())
}

fn finding(style: Style, label: &'static str, word: &'static str, rest: String) -> Finding {
    Finding {
        style,
        label,
        word,
        rest,
    }
}

impl Finding {
    /// Returns its first line, and the rest of the text indented below it.
    fn lines(&self, width: usize) -> Vec<Line> {
        let word = (self.word.len() + 2).max(9);
        let indent = frame::LABEL + word;
        let mut rest = wrapped(&self.rest, width.saturating_sub(indent)).into_iter();
        let first = Line::new()
            .plain(format!("{:<1$}", self.label, frame::LABEL))
            .with(self.style, self.word)
            .plain(" ".repeat(word - self.word.len()))
            .plain(rest.next().unwrap_or_default());
        let others = rest.map(|text| Line::new().plain(format!("{:indent$}{text}", "")));
        std::iter::once(first).chain(others).collect()
    }
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
            own_nodes: true,
            panicked: 0,
            interrupted: false,
        }
    }

    fn text(verdict: &Verdict) -> String {
        let lines: Vec<String> = verdict.lines(80).iter().map(Line::bare).collect();
        lines.join("\n")
    }

    #[test]
    fn a_good_run_is_reported_in_full() {
        assert!(fine().is_good());
        assert_eq!(
            text(&fine()),
            "counter    right    1,234, as often as written\n\
             exclusion  held     at most 1 holder at any time\n\
             keys left  none     on 2 nodes, each asked\n\
             locks      taken 1,234, given back 1,234\n\
             verdict    GOOD     "
        );
    }

    #[test]
    fn every_failure_is_reported_and_fails_the_verdict() {
        type Spoil = fn(&mut Verdict);
        let wrong: [(&str, Spoil); 7] = [
            ("counter    WRONG    1,233, but written 1,234 times", |v| {
                v.value = 1233
            }),
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
        for (finding, spoil) in wrong {
            let mut verdict = fine();
            spoil(&mut verdict);
            assert!(!verdict.is_good(), "{finding}");
            assert!(
                text(&verdict).contains(finding),
                "{finding}:\n{}",
                text(&verdict)
            );
        }
    }

    /// A server may be down before the run, or be stopped during it.
    #[test]
    fn a_missing_minority_of_servers_is_not_a_failure() {
        let of = |leftovers: &[Left]| {
            let address = |(place, left)| (format!("host-{place}:6379"), left);
            let leftovers = (1..).zip(leftovers.iter().copied()).map(address);
            Verdict {
                leftovers: leftovers.collect(),
                own_nodes: false,
                ..fine()
            }
        };
        use Left::{Key, Nothing, Unknown};
        for (leftovers, is_good) in [
            (&[Nothing][..], true),
            (&[Nothing, Unknown, Nothing], true),
            (&[Unknown, Nothing, Nothing, Unknown, Nothing], true),
            (&[Unknown, Unknown, Nothing], false),
            (&[Nothing, Unknown], false),
            (&[Unknown], false),
            (&[Nothing, Unknown, Key], false),
        ] {
            assert_eq!(of(leftovers).is_good(), is_good, "{leftovers:?}");
        }
        let one = text(&of(&[Nothing, Unknown, Nothing]));
        let finding = "keys left  none     on 2 nodes; no answer from host-2:6379\n";
        assert!(one.contains(finding), "{one}");
    }

    #[test]
    fn the_verdict_fits_in_fifty_columns() {
        let mut verdict = fine();
        verdict.own_nodes = false;
        verdict.leftovers = vec![
            ("127.0.0.1:65001".into(), Left::Nothing),
            ("127.0.0.1:65002".into(), Left::Nothing),
            ("127.0.0.1:65003".into(), Left::Unknown),
        ];
        (verdict.value, verdict.written) = (1_234_567, 1_234_567);
        verdict.counts.held = 1_234;
        verdict.counts.no_quorum = 1_234;
        let lines = verdict.lines(50);
        assert!(lines.iter().all(|line| line.len() <= 50), "{lines:#?}");
        let text: Vec<String> = lines.iter().map(Line::bare).collect();
        assert_eq!(
            text[2..6],
            [
                "keys left  none     on 2 nodes; no answer from",
                "                    127.0.0.1:65003",
                "locks      taken 1,234, given back 1,234, gave up",
                "           waiting 1,234, no quorum 1,234",
            ]
        );
    }

    #[test]
    fn ending_early_is_not_a_failure() {
        let verdict = Verdict {
            interrupted: true,
            ..fine()
        };
        assert!(verdict.is_good());
        assert!(text(&verdict).ends_with("verdict    GOOD     ended early"));
    }
}
