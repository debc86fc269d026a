//! Looks at a run from time to time, and makes a picture of it that can be drawn.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use shearline::{NodeState, NodeStatus, Stats};

use super::summary::Summary;
use super::workers::Shared;

/// Rates are taken over this time.
const WINDOW: Duration = Duration::from_secs(1);

/// Into how many columns the run is divided to show its course.
pub(super) const COURSE: usize = 40;

/// Everything that is shown at one moment. Drawing needs nothing else.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) workers: usize,
    /// Whether the nodes are in this process.
    pub(super) own_nodes: bool,
    /// How long the run has lasted, and how long it will last.
    pub(super) elapsed: Duration,
    pub(super) length: Duration,
    /// What is happening.
    pub(super) now: String,
    pub(super) counts: Counts,
    /// Locks in the last second.
    pub(super) rate: u64,
    /// Locks by time, in as many columns of [`COURSE`] as have passed.
    pub(super) course: Vec<f64>,
    /// When nodes were stopped.
    pub(super) disturbed: Option<Disturbed>,
    pub(super) value: u64,
    pub(super) written: u64,
    pub(super) most_inside: u32,
    pub(super) latency: Option<Summary>,
    pub(super) nodes: Vec<NodeView>,
}

/// The part of the course in which nodes were stopped, by its columns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Disturbed {
    pub(super) begin: usize,
    /// `None` as long as they are.
    pub(super) end: Option<usize>,
}

/// How one node stands.
#[derive(Clone, Debug)]
pub(super) struct NodeView {
    pub(super) address: String,
    pub(super) state: NodeState,
    /// Grants in the last second.
    pub(super) rate: u64,
    pub(super) round_trip: Option<Duration>,
    pub(super) owed: usize,
}

/// How often each outcome has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    pub(super) acquired: u64,
    pub(super) held: u64,
    pub(super) no_quorum: u64,
    pub(super) too_slow: u64,
    pub(super) released: u64,
    pub(super) unconfirmed: u64,
    pub(super) not_held: u64,
    pub(super) expired: u64,
    pub(super) other: u64,
}

/// Remembers enough of the past to compute rates and the course.
#[derive(Debug)]
pub(super) struct Monitor {
    begin: Instant,
    length: Duration,
    past: VecDeque<Sample>,
    course: Course,
    disturbed: Option<Disturbed>,
}

/// How many locks were taken in which part of the run.
#[derive(Debug)]
struct Course {
    columns: [f64; COURSE],
    width: Duration,
    /// Until when, and how many by then.
    counted: (Duration, u64),
}

#[derive(Debug)]
struct Sample {
    at: Duration,
    acquired: u64,
    grants: Vec<u64>,
}

impl Monitor {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            begin: Instant::now(),
            length,
            past: VecDeque::new(),
            course: Course::new(length),
            disturbed: None,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Nodes are being stopped now.
    pub(super) fn disturbed(&mut self) {
        let begin = self.course.column(self.elapsed());
        self.disturbed = Some(Disturbed { begin, end: None });
    }

    /// They are back.
    pub(super) fn brought_back(&mut self) {
        let end = self.course.column(self.elapsed());
        if let Some(disturbed) = &mut self.disturbed {
            disturbed.end = Some(end);
        }
    }

    /// Looks now.
    pub(super) fn look(
        &mut self,
        shared: &Shared,
        (stats, statuses): (&Stats, &[NodeStatus]),
        own_nodes: bool,
        workers: usize,
        now: String,
    ) -> Snapshot {
        let counts = Counts::of(shared);
        let elapsed = self.elapsed();
        self.remember(Sample {
            at: elapsed,
            acquired: counts.acquired,
            grants: statuses.iter().map(|status| status.grants).collect(),
        });
        Snapshot {
            workers,
            own_nodes,
            elapsed,
            length: self.length,
            now,
            counts,
            rate: self.rate(|sample| sample.acquired),
            course: self.course.passed().to_vec(),
            disturbed: self.disturbed.clone(),
            value: shared.cell.value(),
            written: shared.cell.written(),
            most_inside: shared.cell.most_inside(),
            latency: Summary::of(&stats.acquire),
            nodes: statuses
                .iter()
                .enumerate()
                .map(|(index, status)| self.view(index, status))
                .collect(),
        }
    }

    fn view(&self, index: usize, status: &NodeStatus) -> NodeView {
        NodeView {
            address: status.address.to_string(),
            state: status.state,
            rate: self.rate(|sample| sample.grants.get(index).copied().unwrap_or_default()),
            round_trip: status.round_trip,
            owed: status.owed,
        }
    }

    fn remember(&mut self, sample: Sample) {
        self.course.tell(sample.at, sample.acquired);
        let since = sample.at.saturating_sub(WINDOW);
        self.past.push_back(sample);
        // The oldest one that is kept is the youngest from before the window.
        while self.past.get(1).is_some_and(|second| second.at <= since) {
            self.past.pop_front();
        }
    }

    /// Growth per second between the oldest and the youngest sample.
    fn rate(&self, of: impl Fn(&Sample) -> u64) -> u64 {
        let (Some(first), Some(last)) = (self.past.front(), self.past.back()) else {
            return 0;
        };
        let seconds = (last.at - first.at).as_secs_f64();
        match seconds > 0.0 {
            true => ((of(last).saturating_sub(of(first))) as f64 / seconds).round() as u64,
            false => 0,
        }
    }
}

impl Counts {
    pub(super) fn of(shared: &Shared) -> Self {
        let outcomes = &shared.outcomes;
        Self {
            acquired: outcomes.acquired.load(Relaxed),
            held: outcomes.held.load(Relaxed),
            no_quorum: outcomes.no_quorum.load(Relaxed),
            too_slow: outcomes.too_slow.load(Relaxed),
            released: outcomes.released.load(Relaxed),
            unconfirmed: outcomes.unconfirmed.load(Relaxed),
            not_held: outcomes.not_held.load(Relaxed),
            expired: outcomes.expired.load(Relaxed),
            other: outcomes.other.load(Relaxed),
        }
    }
}

impl Course {
    fn new(length: Duration) -> Self {
        Self {
            columns: [0.0; COURSE],
            width: length / COURSE as u32,
            counted: (Duration::ZERO, 0),
        }
    }

    /// Records that there are `total` locks now. The new ones are spread evenly over the time since
    /// the last look, so that the exact time of a look does not matter.
    fn tell(&mut self, now: Duration, total: u64) {
        let (before, known) = std::mem::replace(&mut self.counted, (now, total));
        let span = now.saturating_sub(before).as_secs_f64();
        let new = (total - known) as f64;
        let mut begin = Duration::ZERO;
        for column in &mut self.columns {
            let end = begin + self.width;
            let shared = end.min(now).saturating_sub(begin.max(before));
            if !shared.is_zero() {
                *column += new * shared.as_secs_f64() / span;
            }
            begin = end;
        }
    }

    /// The columns that are complete.
    fn passed(&self) -> &[f64] {
        &self.columns[..self.column(self.counted.0)]
    }

    /// Returns the column of a time, which is also how many columns are complete by then.
    fn column(&self, time: Duration) -> usize {
        let column = time.as_secs_f64() / self.width.as_secs_f64();
        (column as usize).min(COURSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: u64, acquired: u64) -> Sample {
        Sample {
            at: Duration::from_millis(millis),
            acquired,
            grants: vec![acquired * 2],
        }
    }

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut monitor = Monitor::new(Duration::from_secs(4));
        let mut rates = Vec::new();
        for (millis, acquired) in [(0, 0), (500, 100), (1000, 200), (1500, 200), (2500, 500)] {
            monitor.remember(sample(millis, acquired));
            rates.push(monitor.rate(|sample| sample.acquired));
        }
        assert_eq!(rates, [0, 200, 200, 100, 300]);
        assert_eq!(monitor.rate(|sample| sample.grants[0]), 600);
    }

    #[test]
    fn the_course_does_not_depend_on_when_it_is_read() {
        let looks: [&[u64]; 3] = [&[1000], &[100, 1000], &[70, 350, 360, 990, 1000]];
        for times in looks {
            let mut course = Course::new(Duration::from_secs(4)); // A column is 100 ms.
            for millis in times {
                course.tell(Duration::from_millis(*millis), millis / 10);
            }
            assert_eq!(course.passed().len(), 10);
            assert!(
                course
                    .passed()
                    .iter()
                    .all(|count| (count - 10.0).abs() < 1e-6)
            );
        }
    }

    #[test]
    fn events_after_the_end_are_in_no_column() {
        let mut course = Course::new(Duration::from_secs(4));
        course.tell(Duration::from_secs(4), 80);
        course.tell(Duration::from_secs(9), 500);
        assert_eq!(course.passed().len(), COURSE);
        assert!((course.passed().iter().sum::<f64>() - 80.0).abs() < 1e-6);
    }
}
