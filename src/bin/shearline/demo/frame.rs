//! Draws a [`Snapshot`]: a frame for a terminal, or one line where there is none.
//!
//! Pure: a picture and a size in, text out. What does not fit is left out from the least important
//! on, and no line is longer than the terminal is wide.

use std::time::Duration;

use shearline::engine::NodeState;

use super::histogram::{COLUMNS, Summary};
use super::monitor::{COURSE, Counts, NodeView, Snapshot};
use super::text::{Line, Style, duration, number, plural};

/// Wider lines are harder to read, however wide the terminal is.
const WIDTH_MAX: usize = 80;

/// Height of the drawn histogram.
const ROWS: usize = 4;

/// Eighths of a cell.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The frame for a terminal of this size, without a line end behind the last line.
pub(super) fn frame(snapshot: &Snapshot, width: usize, height: usize) -> Vec<Line> {
    let width = width.min(WIDTH_MAX);
    let mut sections = [
        head(snapshot, width),
        progress(snapshot),
        latency(snapshot.latency.as_ref(), width),
        nodes(snapshot, width),
        outcomes(&snapshot.counts),
    ];
    // What can go first stands first: the histogram, the outcomes, then the nodes.
    for spare in [2, 4, 3] {
        if total(&sections) + sections.len() - 1 <= height {
            break;
        }
        sections[spare].clear();
    }
    let mut lines = Vec::new();
    for section in sections.into_iter().filter(|section| !section.is_empty()) {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        lines.extend(section);
    }
    lines.truncate(height);
    lines
}

/// What is told each second where there is no terminal.
pub(super) fn plain(snapshot: &Snapshot) -> String {
    let voting = snapshot.nodes.iter().filter(|node| votes(node.state));
    let latency = snapshot
        .latency
        .as_ref()
        .map_or_else(String::new, |summary| {
            let [p50, p99, max] = [summary.p50, summary.p99, summary.max].map(duration);
            format!(", p50 {p50}, p99 {p99}, max {max}")
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

/// What this is, for the first line of either.
pub(super) fn title(workers: usize, nodes: usize, own_nodes: bool) -> String {
    let place = if own_nodes { " in this process" } else { "" };
    format!(
        "{} contend for one lock on {}{place}",
        plural(workers, "worker"),
        plural(nodes, "node"),
    )
}

fn total(sections: &[Vec<Line>]) -> usize {
    sections.iter().map(Vec::len).sum()
}

fn head(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let left = snapshot.length.saturating_sub(snapshot.elapsed);
    let share = snapshot.elapsed.as_secs_f64() / snapshot.length.as_secs_f64();
    let done = ((share * width as f64) as usize).min(width);
    vec![
        Line::new()
            .with(Style::Strong, "shearline demo  ")
            .plain(title(
                snapshot.workers,
                snapshot.nodes.len(),
                snapshot.own_nodes,
            ))
            .right(
                width,
                Style::Plain,
                format!("{:.1} s left", left.as_secs_f64()),
            ),
        Line::new()
            .plain("━".repeat(done))
            .with(Style::Faint, "─".repeat(width - done)),
        Line::new().plain(&*snapshot.now),
    ]
}

fn progress(snapshot: &Snapshot) -> Vec<Line> {
    let unlike = snapshot.most_inside > 1;
    let label = |text: &str, value: u64| {
        Line::new()
            .plain(format!("{text:<11}"))
            .with(Style::Strong, format!("{:>11}", number(value)))
    };
    vec![
        label("locks", snapshot.counts.acquired)
            .plain(format!("{:>8}/s   ", number(snapshot.rate)))
            .with(Style::Good, course(&snapshot.course)),
        label("counter", snapshot.value).with(
            Style::Faint,
            format!("   {} written under the lock", number(snapshot.written)),
        ),
        label("holders", u64::from(snapshot.most_inside)).with(
            if unlike { Style::Bad } else { Style::Faint },
            "   at most, at any time",
        ),
    ]
}

fn course(counts: &[f64]) -> String {
    let most = counts.iter().copied().fold(0.0, f64::max);
    let mut text: String = counts.iter().map(|count| bar(*count, most, 1, 0)).collect();
    text.extend(std::iter::repeat_n(
        '·',
        COURSE.saturating_sub(counts.len()),
    ));
    text
}

fn latency(summary: Option<&Summary>, width: usize) -> Vec<Line> {
    let title = Line::new().plain("time to get the lock, waiting for others included");
    let Some(summary) = summary else {
        return vec![title.with(Style::Faint, ": none yet")];
    };
    let most = summary.columns.iter().copied().max().unwrap_or_default() as f64;
    let told = [
        ("p50", summary.p50),
        ("p90", summary.p90),
        ("p99", summary.p99),
        ("max", summary.max),
    ];
    let mut lines = vec![title];
    for (row, (name, value)) in (0..ROWS).rev().zip(told) {
        let bars = summary
            .columns
            .iter()
            .map(|count| bar(*count as f64, most, ROWS, row));
        let line = Line::new()
            .plain("  ")
            .with(Style::Good, bars.collect::<String>());
        lines.push(line.right(
            width.min(COLUMNS + 32),
            Style::Plain,
            format!("{name} {:>9}", duration(value)),
        ));
    }
    lines.push(Line::new().with(Style::Faint, "  0.1 ms    1 ms      10 ms     100 ms   1 s"));
    lines
}

/// One cell of a bar of `rows` rows, of which 0 is the lowest. What is not zero is seen.
fn bar(count: f64, most: f64, rows: usize, row: usize) -> char {
    if count <= 0.0 {
        return BARS[0];
    }
    let eighths = (count / most * (rows * 8) as f64).round().max(1.0) as usize;
    BARS[eighths.saturating_sub(row * 8).min(8)]
}

fn nodes(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let most = snapshot
        .nodes
        .iter()
        .map(|node| node.rate)
        .max()
        .unwrap_or_default();
    let heading = format!(
        "{:<31}{:<19}{:>9}  {:<10}{:>9}",
        "node", "state", "grants/s", "", "answers in"
    );
    let mut lines = vec![Line::new().with(Style::Faint, heading)];
    for (index, node) in snapshot.nodes.iter().enumerate() {
        lines.push(node_line(index + 1, node, most));
    }
    debug_assert!(width <= WIDTH_MAX);
    lines
}

fn node_line(place: usize, node: &NodeView, most: u64) -> Line {
    let (style, state) = state(node.state);
    let state = match node.owed {
        0 => state.to_owned(),
        owed => format!("{state}, owed {}", number(owed as u64)),
    };
    let answer = node.round_trip.filter(|_| votes(node.state)).map(duration);
    let share = (node.rate * 10).checked_div(most).unwrap_or_default() as usize;
    Line::new()
        .plain(format!("{place:>2}  {:<27}", shortened(&node.address, 26)))
        .with(style, format!("{state:<19}"))
        .plain(format!("{:>9}  ", number(node.rate)))
        .with(Style::Good, format!("{:<10}", "■".repeat(share)))
        .plain(format!("{:>10}", answer.as_deref().unwrap_or("-")))
}

/// The end of an address tells more than its beginning.
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

/// How a state is called, in a word or two.
fn state(state: NodeState) -> (Style, &'static str) {
    match state {
        NodeState::Ready => (Style::Good, "votes"),
        NodeState::Suspect => (Style::Odd, "silent"),
        NodeState::New | NodeState::Connecting => (Style::Odd, "connecting"),
        NodeState::Down(_) => (Style::Bad, "down"),
        NodeState::Unusable(_) => (Style::Bad, "unusable"),
        _ => (Style::Odd, "does not vote"),
    }
}

/// The outcomes that there were, in two lines at most.
pub(super) fn outcomes(counts: &Counts) -> Vec<Line> {
    let taking = [
        ("taken", counts.acquired),
        ("gave up waiting", counts.held),
        ("no quorum", counts.no_quorum),
        ("too slow", counts.too_slow),
    ];
    let giving = [
        ("given back", counts.released),
        ("unconfirmed", counts.unconfirmed),
        ("no longer held", counts.not_held),
        ("expired before use", counts.expired),
        ("other errors", counts.other),
    ];
    [("locks", &taking[..]), ("", &giving[..])]
        .into_iter()
        .map(|(label, outcomes)| {
            let told: Vec<String> = outcomes
                .iter()
                .filter(|(name, count)| *count != 0 || ["taken", "given back"].contains(name))
                .map(|(name, count)| format!("{name} {}", number(*count)))
                .collect();
            Line::new().plain(format!("{label:<11}{}", told.join(", ")))
        })
        .collect()
}

/// Remaining time for the sentence of what comes next.
pub(super) fn seconds(left: Duration) -> String {
    format!("{:.1} s", left.as_secs_f64())
}
