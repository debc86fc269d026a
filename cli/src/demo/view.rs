//! The output of the running demo. On a terminal, the demo redraws its output in place. Otherwise it prints one line
//! each second.

use std::io::stdout;
use std::thread;
use std::time::{Duration, Instant};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use shearline::{NodeState, NodeStatus};

use super::contest::Contest;
use crate::failure::Failure;
use crate::json::millis;
use crate::output::{self, BAD, GOOD, count, painted, wrapped};
use crate::signals::Signals;

/// The time between two updates of the output.
const TICK: Duration = Duration::from_millis(50);

/// How long the demo waits at the end for releases that nodes have not confirmed yet. If a node was down, the client
/// tries again to connect within two seconds.
const SETTLING: Duration = Duration::from_secs(4);

/// Shows the progress of the demo.
pub(super) struct View<'a> {
    contest: &'a Contest,
    signals: &'a Signals,
    length: Duration,
    bar: ProgressBar,
    /// How many seconds the demo had run when it last wrote a line. Only used without a terminal.
    second: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(contest: &'a Contest, signals: &'a Signals, seconds: u64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {eta} left\n{msg}");
        let style = style.expect("a template").progress_chars("━━─");
        let target = ProgressDrawTarget::stdout();
        Self {
            contest,
            signals,
            length: Duration::from_secs(seconds),
            bar: ProgressBar::with_draw_target(Some(1_000 * seconds), target).with_style(style),
            second: 0,
        }
    }

    /// Shows the text `now` until the fraction `share` of the run has passed. Returns `false` if the user interrupts
    /// the demo.
    pub(super) fn show(&mut self, share: f64, now: &str) -> Result<bool, Failure> {
        let end = self.length.mul_f64(share);
        while self.signals.check().is_ok() {
            let left = end.saturating_sub(self.bar.elapsed());
            if left.is_zero() {
                return Ok(true);
            }
            self.draw(now)?;
            thread::sleep(TICK.min(left));
        }
        Ok(false)
    }

    /// Waits until the nodes have confirmed all releases. The last picture stays on the terminal.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + SETTLING;
        let is_open = |node: &NodeStatus| node.debts + node.in_flight != 0;
        while Instant::now() < end && self.contest.redlock.nodes().iter().any(is_open) {
            self.draw("ending: sending the releases again to nodes that did not answer")?;
            thread::sleep(TICK);
        }
        if !self.bar.is_hidden() {
            self.bar.finish_and_clear();
            output::say(self.picture("over") + "\n")?;
        }
        Ok(())
    }

    fn draw(&mut self, now: &str) -> Result<(), Failure> {
        let elapsed = self.bar.elapsed();
        if !self.bar.is_hidden() {
            self.bar.set_position(millis(elapsed));
            let picture = self.picture(now);
            // Removes the colours if stdout does not show them.
            self.bar.set_message(match AutoStream::choice(&stdout()) {
                ColorChoice::Never => strip_str(&picture).to_string(),
                ColorChoice::Auto | ColorChoice::AlwaysAnsi | ColorChoice::Always => picture,
            });
        } else if self.second < elapsed.as_secs() {
            self.second = elapsed.as_secs();
            output::say(self.line(now))?;
        }
        Ok(())
    }

    fn line(&self, now: &str) -> String {
        let (second, locks, waits) = (self.second, self.locks(), self.waits());
        let voters = voters(&self.contest.redlock.nodes());
        format!("[{second:>3} s] {locks}, {waits}; {now}; {voters}")
    }

    fn picture(&self, now: &str) -> String {
        let nodes = self.contest.redlock.nodes();
        let (value, written, inside) = self.contest.cell.read();
        let (locks, waits, outcomes) = (self.locks(), self.waits(), self.contest.outcomes());
        let (value, written) = (human(value), human(written));
        let mut rows = String::new();
        for (place, node) in (1..).zip(&nodes) {
            rows += &row(place, node);
        }
        let voters = wrapped(&voters(&nodes), 79).join("\n");
        format!(
            "{now}\n\n\
             taken      {locks}\n\
             waits      {waits}\n\
             counter    {value}, written {written} times under the lock\n\
             holders    {inside} at most, at any time\n\n\
             node                          grants   answers in  debts\n{rows}{voters}\n\n\
             outcomes   {outcomes}"
        )
    }

    fn locks(&self) -> String {
        let taken = self.contest.taken();
        let rate = taken as f64 / self.bar.elapsed().max(TICK).as_secs_f64();
        format!("{} locks, {}/s", human(taken), human(rate as u64))
    }

    /// Returns percentiles of how long the workers waited for the lock.
    fn waits(&self) -> String {
        let acquire = self.contest.redlock.stats().acquire;
        let all = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
        let waits = all.map(|(name, share)| {
            let wait = acquire.quantile(share).unwrap_or_default();
            format!("{name} {wait:.2?}")
        });
        waits.join(", ")
    }
}

/// Returns how many nodes vote according to the client, and the state of every other node.
fn voters(nodes: &[NodeStatus]) -> String {
    let voting = nodes.iter().filter(|node| node.state == NodeState::Ready);
    let (voting, all) = (voting.count(), count(nodes.len(), "node"));
    let mut text = format!("the client accepts votes from {voting} of {all}");
    for (node, place) in nodes.iter().zip(1..) {
        if node.state != NodeState::Ready {
            text += &format!("; node {place} is {}", node.state);
        }
    }
    text
}

/// Returns the row of a node in the table.
fn row(place: usize, node: &NodeStatus) -> String {
    let (address, grants, debts) = (&node.address, human(node.grants), node.debts);
    let state = match node.state == NodeState::Ready {
        true => painted(GOOD, "votes"),
        false => painted(BAD, "does not vote"),
    };
    let answer = format!("{:.2?}", node.round_trip.unwrap_or_default());
    format!("{place:>2}  {address:<24}{grants:>8}{answer:>13}{debts:>7}  {state}\n")
}

/// Writes a number with commas between the thousands.
pub(super) fn human(number: u64) -> String {
    HumanCount(number).to_string()
}
