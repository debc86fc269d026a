//! Judges the results of a run.

use super::nodes::Left;
use super::view::human;
use crate::output::{BAD, GOOD, count, painted};

/// All findings of a run.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// The counter, and the number of writes.
    pub(super) value: u64,
    pub(super) written: u64,
    pub(super) most_inside: u32,
    /// What the demo found on each node at the end.
    pub(super) leftovers: Vec<(String, Left)>,
    /// How often each outcome occurred.
    pub(super) outcomes: String,
    pub(super) interrupted: bool,
}

/// One finding: whether it is good, its subject, the words for a good and a bad result, and details.
type Finding = (bool, &'static str, [&'static str; 2], String);

impl Verdict {
    /// Returns `true` if every finding is good and the workers took at least one lock. A run without locks proves
    /// nothing.
    pub(super) fn is_good(&self) -> bool {
        let are_good = self.findings().iter().all(|(is_good, ..)| *is_good);
        are_good && self.written != 0
    }

    fn findings(&self) -> [Finding; 3] {
        let (is_right, is_exclusive) = (self.value == self.written, self.most_inside <= 1);
        let (value, written) = (human(self.value), human(self.written));
        let counter = format!("{value}, written {written} times");
        let most = count(self.most_inside as usize, "holder");
        let most = format!("maximum: {most} at a time");
        [
            (is_right, "counter", ["right", "WRONG"], counter),
            (is_exclusive, "exclusion", ["held", "BROKEN"], most),
            self.keys(),
        ]
    }

    /// Returns the finding about keys that are left on the nodes. If a majority of the nodes answers, the missing
    /// answers are not a failure.
    fn keys(&self) -> Finding {
        let (keys, away) = (self.found(Left::Key), self.found(Left::Unknown));
        if !keys.is_empty() {
            let keys = format!("on {}", keys.join(", "));
            return (false, "keys left", ["none", "SOME"], keys);
        }
        let mut asked = count(self.leftovers.len() - away.len(), "node") + " asked";
        if !away.is_empty() {
            asked += &format!(", no answer from {}", away.join(", "));
        }
        let is_good = away.len() * 2 < self.leftovers.len();
        (is_good, "keys left", ["none", "UNKNOWN"], asked)
    }

    /// Returns the addresses of the nodes with this result.
    fn found(&self, wanted: Left) -> Vec<&str> {
        let found = self.leftovers.iter().filter(|(_, left)| *left == wanted);
        found.map(|(address, _)| address.as_str()).collect()
    }

    /// Returns the verdict as text.
    pub(super) fn text(&self) -> String {
        let mut text: String = self.findings().into_iter().map(line).collect();
        text += &format!("locks      {}\n", self.outcomes);
        let (bad, end) = match (self.written, self.interrupted) {
            (0, _) => ("NOTHING SHOWN", "no lock was taken"),
            (_, true) => ("BAD", "ended early"),
            (_, false) => ("BAD", ""),
        };
        let last = (self.is_good(), "verdict", ["GOOD", bad], end.to_owned());
        text + line(last).trim_end()
    }
}

fn line((is_good, label, words, rest): Finding) -> String {
    let (style, word) = match is_good {
        true => (GOOD, words[0]),
        false => (BAD, words[1]),
    };
    let indent = " ".repeat(7_usize.saturating_sub(word.len()));
    format!("{label:<11}{}{indent}  {rest}\n", painted(style, word))
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
            outcomes: "taken 1,234, released 1,234".into(),
            interrupted: false,
        }
    }

    fn text(verdict: &Verdict) -> String {
        anstream::adapter::strip_str(&verdict.text()).to_string()
    }

    #[test]
    fn every_failure_is_reported_and_fails_the_verdict() {
        type Spoil = fn(&mut Verdict);
        let wrong: [(&str, Spoil); 6] = [
            ("counter    WRONG    1,233, written 1,234 times", |v| {
                v.value = 1233
            }),
            ("exclusion  BROKEN   maximum: 2 holders at a time", |v| {
                v.most_inside = 2
            }),
            ("keys left  SOME     on b:2", |v| {
                v.leftovers[1].1 = Left::Key
            }),
            (
                "keys left  UNKNOWN  1 node asked, no answer from a:1",
                |v| v.leftovers[0].1 = Left::Unknown,
            ),
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

    /// A server may be down before the run, or stop during it.
    #[test]
    fn a_missing_minority_of_servers_is_not_a_failure() {
        let of = |leftovers: &[Left]| {
            let address = |(place, left)| (format!("host-{place}:6379"), left);
            let leftovers = (1..).zip(leftovers.iter().copied()).map(address);
            Verdict {
                leftovers: leftovers.collect(),
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
