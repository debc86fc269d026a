//! Draws a [`Snapshot`]: a frame for a terminal, or one line where there is none.
//!
//! Pure: a picture and a size in, text out. If not all fits, the least important parts are left out
//! first, and no line is longer than the terminal is wide.

use std::iter;
use std::time::Duration;

use shearline::NodeState;

use crate::output::wrapped;

use super::monitor::{COURSE, Counts, NodeView, Snapshot};
use super::summary::{COLUMNS, Summary};
use super::text::{Line, Style, duration, number, plural};

/// Wider lines are harder to read, however wide the terminal is.
pub(super) const WIDTH_MAX: usize = 80;

/// The width for the table of the nodes with its bars, and for the course beside the number of locks.
/// A frame for less fits in 50 columns.
const WIDE: usize = 79;

/// Height of the drawn histogram.
const ROWS: usize = 4;

/// Bars of one to eight eighths of a cell.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the frame for a terminal of this size.
pub(super) fn frame(snapshot: &Snapshot, width: usize, height: usize) -> Vec<Line> {
    let mut sections = sections(snapshot, width).to_vec();
    sections.push(outcomes(&snapshot.counts, width.min(WIDTH_MAX)));
    // In the order in which they are left out: the histogram, the outcomes, then the nodes.
    for spare in [2, 4, 3] {
        if joined(&sections).len() <= height {
            break;
        }
        sections[spare].clear();
    }
    let mut lines = joined(&sections);
    lines.truncate(height);
    lines
}

/// Draws the last picture, which stays above the verdict: whole, but without the outcomes, which the
/// verdict shows.
pub(super) fn last(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let mut lines = joined(&sections(snapshot, width));
    lines.push(Line::new());
    lines
}

fn sections(snapshot: &Snapshot, width: usize) -> [Vec<Line>; 4] {
    let width = width.min(WIDTH_MAX);
    [
        head(snapshot, width),
        progress(snapshot, width),
        latency(snapshot, width),
        nodes(snapshot, width),
    ]
}

/// Joins the sections that are not empty, with a line between two.
fn joined(sections: &[Vec<Line>]) -> Vec<Line> {
    let there: Vec<&[Line]> = sections
        .iter()
        .map(Vec::as_slice)
        .filter(|section| !section.is_empty())
        .collect();
    there.join(&Line::new())
}

/// The line that is written each second if there is no terminal.
pub(super) fn plain(snapshot: &Snapshot) -> String {
    let voting = snapshot.nodes.iter().filter(|node| votes(node.state));
    let latency = snapshot
        .latency
        .as_ref()
        .map_or_else(String::new, |summary| {
            let [p50, p99] = [summary.p50, summary.p99].map(duration);
            format!(", p50 {p50}, p99 {p99}")
        });
    format!(
        "[{:>3.0} s] {} locks, {}/s{latency}; {} of {} nodes vote; {}",
        snapshot.elapsed.as_secs_f64(),
        number(snapshot.counts.acquired),
        number(snapshot.rate),
        voting.count(),
        snapshot.nodes.len(),
        snapshot.now,
    )
}

/// The title, for the first line of both.
pub(super) fn title(workers: usize, nodes: usize, own_nodes: bool) -> String {
    let place = if own_nodes { " in this process" } else { "" };
    format!(
        "{}, one lock, {}{place}",
        plural(workers, "worker"),
        plural(nodes, "node"),
    )
}

fn crew(workers: usize, nodes: usize) -> String {
    format!("{}, {}", plural(workers, "worker"), plural(nodes, "node"))
}

fn head(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let left = match snapshot.length.saturating_sub(snapshot.elapsed) {
        Duration::ZERO => String::new(),
        left => format!("{} left", seconds(left)),
    };
    let title = match width < WIDE {
        true => crew(snapshot.workers, snapshot.nodes.len()),
        false => title(snapshot.workers, snapshot.nodes.len(), snapshot.own_nodes),
    };
    let share = snapshot.elapsed.as_secs_f64() / snapshot.length.as_secs_f64();
    let done = ((share * width as f64) as usize).min(width);
    let is_odd = snapshot
        .disturbed
        .as_ref()
        .is_some_and(|when| when.end.is_none());
    let style = if is_odd { Style::Odd } else { Style::Plain };
    let mut lines = vec![
        Line::new()
            .with(Style::Strong, "shearline demo  ")
            .plain(title)
            .right(width, Style::Plain, left),
        Line::new()
            .plain("━".repeat(done))
            .with(Style::Faint, "─".repeat(width - done)),
    ];
    let now = wrapped(&snapshot.now, width);
    lines.extend(now.into_iter().map(|text| Line::new().with(style, text)));
    lines
}

fn progress(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let label = |text: &str, value: u64| {
        Line::new()
            .plain(format!("{text:<11}"))
            .with(Style::Strong, format!("{:>11}", number(value)))
    };
    let locks = label("locks", snapshot.counts.acquired)
        .plain(format!("{:>8}/s   ", number(snapshot.rate)));
    let locks = match width < WIDE {
        true => vec![locks, course(Line::new().plain("  "), snapshot)],
        false => vec![course(locks, snapshot)],
    };
    let written = match width < WIDE {
        true => format!("   {} written", number(snapshot.written)),
        false => format!("   {} written under the lock", number(snapshot.written)),
    };
    let holders = match snapshot.most_inside {
        0 | 1 => Style::Faint,
        _ => Style::Bad,
    };
    let mut lines = locks;
    lines.extend([
        label("counter", snapshot.value).with(Style::Faint, written),
        label("holders", snapshot.most_inside.into()).with(holders, "   at most, at any time"),
    ]);
    lines
}

/// Adds the course of the run, and in another colour the part of it in which nodes were stopped.
fn course(mut line: Line, snapshot: &Snapshot) -> Line {
    let most = snapshot.course.iter().copied().fold(0.0, f64::max);
    for (place, count) in snapshot.course.iter().enumerate() {
        let is_odd = snapshot
            .disturbed
            .as_ref()
            .is_some_and(|when| when.begin <= place && when.end.is_none_or(|end| place < end));
        let style = if is_odd { Style::Odd } else { Style::Good };
        line = line.with(style, bar(*count, most, 1, 0));
    }
    line.with(
        Style::Faint,
        "·".repeat(COURSE.saturating_sub(snapshot.course.len())),
    )
}

/// What the percentiles measure.
pub(super) const MEASURED: &str = "from the call of lock() to the grant, with the wait for others";

fn latency(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let text = |text: String| Line::new().plain(text);
    let Some(summary) = &snapshot.latency else {
        let title = format!("{MEASURED}: none yet");
        return wrapped(&title, width).into_iter().map(text).collect();
    };
    let title = format!("{MEASURED}, {} times", number(snapshot.counts.acquired));
    let mut lines: Vec<Line> = wrapped(&title, width).into_iter().map(text).collect();
    let texts = percentiles(summary);
    for (row, texts) in (0..ROWS).rev().zip(&texts) {
        let line = bars(summary, row);
        lines.push(match width < WIDE {
            true => line,
            false => line.right(COLUMNS + 32, Style::Plain, texts),
        });
    }
    lines.push(Line::new().with(
        Style::Faint,
        "  10 µs   0.1 ms  1 ms    10 ms   100 ms  1 s",
    ));
    if width < WIDE {
        let texts = texts.map(|texts| texts.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.push(Line::new().plain(texts.join("  ")));
    }
    lines
}

fn percentiles(summary: &Summary) -> [String; ROWS] {
    [
        ("p50", summary.p50),
        ("p90", summary.p90),
        ("p99", summary.p99),
        ("max", summary.max),
    ]
    .map(|(name, value)| format!("{name} {:>9}", duration(value)))
}

/// One row of the histogram.
fn bars(summary: &Summary, row: usize) -> Line {
    let most = summary.columns.iter().copied().max().unwrap_or_default() as f64;
    let bars = summary
        .columns
        .iter()
        .map(|count| bar(*count as f64, most, ROWS, row));
    Line::new()
        .plain("  ")
        .with(Style::Good, bars.collect::<String>())
}

/// One cell of a bar of `rows` rows, of which 0 is the lowest. A value above zero is always visible.
fn bar(count: f64, most: f64, rows: usize, row: usize) -> char {
    if count <= 0.0 {
        return BARS[0];
    }
    let eighths = (count / most * (rows * 8) as f64).round().max(1.0) as usize;
    BARS[eighths.saturating_sub(row * 8).min(8)]
}

fn nodes(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let rates = snapshot.nodes.iter().map(|node| node.rate);
    let most = rates.max().unwrap_or_default();
    let heading = match width < WIDE {
        true => format!(
            "{:<19}{:<13}{:>8}{:>10}",
            "node", "state", "grants/s", "answer in"
        ),
        false => format!(
            "{:<28}{:<19}{:>8}  {:<10}{:>12}",
            "node", "state", "grants/s", "", "answers in"
        ),
    };
    let mut lines = vec![Line::new().with(Style::Faint, heading)];
    for (index, node) in snapshot.nodes.iter().enumerate() {
        lines.push(node_line(index + 1, node, most, width));
    }
    let meaning = snapshot.nodes.iter().find_map(|node| meaning(node.state));
    let meaning = meaning.map_or_else(Vec::new, |meaning| wrapped(meaning, width));
    lines.extend(
        meaning
            .into_iter()
            .map(|text| Line::new().with(Style::Faint, text)),
    );
    lines
}

fn node_line(place: usize, node: &NodeView, most: u64, width: usize) -> Line {
    let (style, state) = state(node.state);
    let owed = (node.owed != 0).then(|| format!("owed {}", number(node.owed as u64)));
    let answer = node.round_trip.filter(|_| votes(node.state)).map(duration);
    let rate = number(node.rate);
    if width < WIDE {
        let last = answer.or(owed).unwrap_or_else(|| "-".into());
        return Line::new()
            .plain(format!("{place:>2} {:<16}", shortened(&node.address, 15)))
            .with(style, format!("{state:<13}"))
            .plain(format!("{rate:>8}{last:>10}"));
    }
    let state = owed.map_or_else(|| state.to_owned(), |owed| format!("{state}, {owed}"));
    let answer = answer.as_deref().unwrap_or("-");
    let share = (node.rate * 10).checked_div(most).unwrap_or_default() as usize;
    Line::new()
        .plain(format!("{place:>2}  {:<24}", shortened(&node.address, 23)))
        .with(style, format!("{state:<19}"))
        .plain(format!("{rate:>8}  "))
        .with(Style::Good, format!("{:<10}", "■".repeat(share)))
        .plain(format!("{answer:>12}"))
}

/// Explains a word of the table that needs it.
fn meaning(state: NodeState) -> Option<&'static str> {
    match state {
        NodeState::Suspect => Some("suspect: it is silent, and gets no new lock until it answers"),
        NodeState::Quarantined { .. } => {
            Some("quarantined: it restarted, and votes when all older locks have expired")
        }
        NodeState::New
        | NodeState::Connecting
        | NodeState::Ready
        | NodeState::Down(_)
        | NodeState::Unusable(_)
        | _ => None,
    }
}

/// Shortens an address to its end, which says more than its beginning.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    match most < length {
        true => format!(
            "~{}",
            text.chars().skip(length + 1 - most).collect::<String>()
        ),
        false => text.into(),
    }
}

fn votes(state: NodeState) -> bool {
    matches!(state, NodeState::Ready)
}

/// The name of a state, in a word or two.
fn state(state: NodeState) -> (Style, &'static str) {
    match state {
        NodeState::Ready => (Style::Good, "votes"),
        NodeState::Quarantined { .. } => (Style::Odd, "quarantined"),
        NodeState::Suspect => (Style::Odd, "suspect"),
        NodeState::New | NodeState::Connecting => (Style::Odd, "connecting"),
        NodeState::Down(_) => (Style::Bad, "down"),
        NodeState::Unusable(_) => (Style::Bad, "unusable"),
        _ => (Style::Odd, "does not vote"),
    }
}

/// The outcomes that occurred.
pub(super) fn outcomes(counts: &Counts, width: usize) -> Vec<Line> {
    let texts: Vec<String> = [
        ("taken", counts.acquired),
        ("given back", counts.released),
        ("gave up waiting", counts.held),
        ("no quorum", counts.no_quorum),
        ("too slow", counts.too_slow),
        ("unconfirmed", counts.unconfirmed),
        ("no longer held", counts.not_held),
        ("expired before use", counts.expired),
        ("other errors", counts.other),
    ]
    .iter()
    .filter(|(name, count)| *count != 0 || ["taken", "given back"].contains(name))
    .map(|(name, count)| format!("{name} {}", number(*count)))
    .collect();
    wrapped(&texts.join(", "), width.saturating_sub(LABEL))
        .into_iter()
        .zip(iter::once("locks").chain(iter::repeat("")))
        .map(|(text, label)| Line::new().plain(format!("{label:<LABEL$}{text}")))
        .collect()
}

/// The column in which the text begins.
pub(super) const LABEL: usize = 11;

/// The time until the next event, for a sentence.
pub(super) fn seconds(left: Duration) -> String {
    format!("{:.1} s", left.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::monitor::Disturbed;
    use shearline::LinkError;

    fn snapshot(nodes: usize) -> Snapshot {
        let mut columns = [0; COLUMNS];
        (columns[0], columns[10], columns[39]) = (400, 200, 1);
        let states = [
            NodeState::Ready,
            NodeState::Down(LinkError::Refused),
            NodeState::Ready,
            NodeState::Suspect,
        ];
        let ms = Duration::from_millis;
        Snapshot {
            workers: 8,
            own_nodes: true,
            elapsed: ms(2500),
            length: ms(10_000),
            now: "node 2 is killed and node 4 frozen".into(),
            counts: Counts {
                acquired: 1234,
                held: 2,
                released: 1233,
                ..Counts::default()
            },
            rate: 617,
            course: vec![0.0, 10.0, 20.0, 17.0, 18.0, 1.0, 20.0, 20.0],
            disturbed: Some(Disturbed {
                begin: 4,
                end: None,
            }),
            value: 1233,
            written: 1233,
            most_inside: 1,
            latency: Some(Summary {
                p50: ms(2),
                p90: ms(12),
                p99: ms(123),
                max: ms(1234),
                columns,
            }),
            nodes: (0..nodes)
                .map(|place| NodeView {
                    address: format!("127.0.0.1:{}", 7000 + place),
                    state: states[place % 4],
                    rate: if place % 2 == 0 { 617 } else { 0 },
                    round_trip: Some(ms(1)),
                    owed: if place % 4 == 3 { 3 } else { 0 },
                })
                .collect(),
        }
    }

    fn bare(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::bare).collect()
    }

    #[test]
    fn a_frame_is_as_drawn_here() {
        let lines = bare(&frame(&snapshot(5), 80, 24));
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        let expected = r"
shearline demo  8 workers, one lock, 5 nodes in this process          7.5 s left
━━━━━━━━━━━━━━━━━━━━────────────────────────────────────────────────────────────
node 2 is killed and node 4 frozen

locks            1,234     617/s    ▄█▇▇▁██································
counter          1,233   1,233 written under the lock
holders              1   at most, at any time

from the call of lock() to the grant, with the wait for others, 1,234 times
  █                                                        p50   2.00 ms
  █                                                        p90   12.0 ms
  █         █                                              p99    123 ms
  █         █                            ▁                 max    1.23 s
  10 µs   0.1 ms  1 ms    10 ms   100 ms  1 s

node                        state              grants/s              answers in
 1  127.0.0.1:7000          votes                   617  ■■■■■■■■■■     1.00 ms
 2  127.0.0.1:7001          down                      0                       -
 3  127.0.0.1:7002          votes                   617  ■■■■■■■■■■     1.00 ms
 4  127.0.0.1:7003          suspect, owed 3           0                       -
 5  127.0.0.1:7004          votes                   617  ■■■■■■■■■■     1.00 ms
suspect: it is silent, and gets no new lock until it answers

locks      taken 1,234, given back 1,233, gave up waiting 2";
        assert_eq!(trimmed, expected.trim_start().lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_for_fifty_columns_is_as_drawn_here() {
        let lines = bare(&frame(&snapshot(5), 50, 40));
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        let expected = r"
shearline demo  8 workers, 5 nodes      7.5 s left
━━━━━━━━━━━━──────────────────────────────────────
node 2 is killed and node 4 frozen

locks            1,234     617/s
   ▄█▇▇▁██································
counter          1,233   1,233 written
holders              1   at most, at any time

from the call of lock() to the grant, with the
wait for others, 1,234 times
  █
  █
  █         █
  █         █                            ▁
  10 µs   0.1 ms  1 ms    10 ms   100 ms  1 s
p50 2.00 ms  p90 12.0 ms  p99 123 ms  max 1.23 s

node               state        grants/s answer in
 1 127.0.0.1:7000  votes             617   1.00 ms
 2 127.0.0.1:7001  down                0         -
 3 127.0.0.1:7002  votes             617   1.00 ms
 4 127.0.0.1:7003  suspect             0    owed 3
 5 127.0.0.1:7004  votes             617   1.00 ms
suspect: it is silent, and gets no new lock until
it answers

locks      taken 1,234, given back 1,233, gave up
           waiting 2";
        assert_eq!(trimmed, expected.trim_start().lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_never_outgrows_the_terminal() {
        for nodes in [1, 3, 5, 7, 31] {
            let snapshot = snapshot(nodes);
            for height in 1..=60 {
                for width in [1, 40, 80, 200] {
                    assert!(frame(&snapshot, width, height).len() <= height);
                }
            }
            let lines = frame(&snapshot, 200, 60);
            let widest = lines.iter().map(Line::len).max();
            assert!(widest <= Some(WIDTH_MAX), "{nodes} nodes: {widest:?}");
        }
    }

    #[test]
    fn the_least_important_part_is_left_out_first() {
        let has = |lines: &[Line], text: &str| bare(lines).iter().any(|line| line.contains(text));
        for (height, histogram, outcomes, nodes) in [
            (24, true, true, true),
            (23, false, true, true),
            (17, false, true, true),
            (16, false, false, true),
            (15, false, false, true),
            (14, false, false, false),
        ] {
            let lines = frame(&snapshot(5), 80, height);
            assert_eq!(has(&lines, "p99"), histogram, "{height}");
            assert_eq!(has(&lines, "given back"), outcomes, "{height}");
            assert_eq!(has(&lines, "grants/s"), nodes, "{height}");
            assert!(has(&lines, "holders"), "{height}");
        }
    }

    #[test]
    fn the_part_with_stopped_nodes_stands_out() {
        let lines = frame(&snapshot(5), 80, 24);
        let course = lines[4].styled(80, true);
        assert!(
            course.contains("\x1b[32m ▄█▇\x1b[0m\x1b[33m▇▁██\x1b[0m"),
            "{course:?}"
        );
        let mut over = snapshot(5);
        over.disturbed = Some(Disturbed {
            begin: 4,
            end: Some(6),
        });
        let course = frame(&over, 80, 24)[4].styled(80, true);
        assert!(
            course.contains("\x1b[33m▇▁\x1b[0m\x1b[32m██\x1b[0m"),
            "{course:?}"
        );
    }

    #[test]
    fn without_a_terminal_a_frame_is_one_line() {
        assert_eq!(
            plain(&snapshot(5)),
            "[  2 s] 1,234 locks, 617/s, p50 2.00 ms, p99 123 ms; 3 of 5 nodes vote; \
             node 2 is killed and node 4 frozen"
        );
        let mut none = snapshot(5);
        none.latency = None;
        assert!(plain(&none).starts_with("[  2 s] 1,234 locks, 617/s; 3 of 5"));
        assert!(bare(&frame(&none, 80, 24)).contains(&format!("{MEASURED}: none yet")));
    }

    #[test]
    fn bars_show_every_value_above_zero() {
        for (count, rows, row, expected) in [
            (0.0, 1, 0, ' '),
            (0.001, 1, 0, '▁'),
            (50.0, 1, 0, '▄'),
            (100.0, 1, 0, '█'),
            (50.0, 4, 1, '█'),
            (50.0, 4, 2, ' '),
            (60.0, 4, 2, '▃'),
            (100.0, 4, 3, '█'),
        ] {
            assert_eq!(
                bar(count, 100.0, rows, row),
                expected,
                "{count} {rows} {row}"
            );
        }
    }

    #[test]
    fn a_long_address_keeps_its_end() {
        assert_eq!(shortened("unix:/run/redis/1.sock", 10), "~is/1.sock");
        assert_eq!(shortened("a:1", 3), "a:1");
    }
}
