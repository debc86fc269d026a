//! Three of five nodes are disturbed: calls end in time, and the first call that can succeed does.

use std::thread;
use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::clients::shearline::{Local, Shared};
use shearline_peers::cycle::now;
use shearline_peers::figure::{Bound, Figure};
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;

use crate::face::Face;
use crate::trouble::{Scene, Trouble};

/// How long a call may take that cannot succeed.
const WAIT: Duration = Duration::from_millis(100);

/// How long a call may take that can succeed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of calls that cannot succeed, in each episode.
const CALLS: usize = 3;

/// The clock of the timers, in milliseconds.
const TICK: f64 = 1.0;

/// The longest delay between two tries for a lock, which is also the longest between two tries
/// for a connection that a round waits for; in milliseconds.
const BACK_OFF: f64 = 250.0;

/// The results, for each face.
pub(crate) struct Lost {
    trouble: Trouble,
    nodes: usize,
    faces: [Times; 2],
}

/// The times of one face, all in milliseconds.
#[derive(Default)]
struct Times {
    name: &'static str,
    /// By how much the latest call of each episode exceeded its time.
    late: Vec<f64>,
    /// By how much a sleep of the same length was late, in the same moments.
    sleeps: Vec<f64>,
    /// From the end of the disturbance to the release of the first lock.
    back: Vec<f64>,
}

impl Lost {
    pub(crate) fn measure(
        servers: &[Server],
        trouble: Trouble,
        nodes: usize,
        episodes: usize,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        Ok(Self {
            trouble,
            nodes,
            faces: [
                times::<Local>(servers, trouble, nodes, episodes, progress)?,
                times::<Shared>(servers, trouble, nodes, episodes, progress)?,
            ],
        })
    }

    pub(crate) fn report(&self, judgement: &mut Judgement, table: &mut Table) {
        let mut title = format!("{}, {} of {}", self.trouble, self.nodes, crate::NODES);
        for Times {
            name,
            late,
            sleeps,
            back,
        } in &self.faces
        {
            let sleep = hundredths(most(sleeps));
            // A sleep shows how late a wake-up is on this machine.
            let back_off = Bound::AtMost(hundredths(BACK_OFF + sleep));
            table.row([
                std::mem::take(&mut title),
                (*name).to_string(),
                judgement.note(Figure::of(late), Bound::AtMost(TICK)),
                hundredths(most(late)).to_string(),
                sleep.to_string(),
                Figure::of(back).to_string(),
                judgement.note_exact(hundredths(most(back)), back_off),
            ]);
        }
    }
}

pub(crate) fn table() -> Table {
    Table::new(&[
        "trouble",
        "client",
        "latest of three calls, ms, at most 1",
        "latest of all",
        "latest sleep",
        "back after, ms",
        "at the latest, at most 250 and a sleep",
    ])
}

fn times<F: Face>(
    servers: &[Server],
    trouble: Trouble,
    nodes: usize,
    episodes: usize,
    progress: &Progress,
) -> Result<Times, Failure> {
    let mut scene = Scene::new(servers, trouble, nodes)?;
    let mut face = F::connect(scene.urls())?;
    let mut times = Times {
        name: F::NAME,
        ..Times::default()
    };
    for episode in 0..episodes {
        face.await_ready()?;
        scene.begin()?;
        let mut late = 0.0_f64;
        for _ in 0..CALLS {
            let begin = now();
            if face.lock_within(WAIT)?.is_ok() {
                return Err("a lock without a majority".into());
            }
            late = late.max(beyond(begin.elapsed()));
            let begin = now();
            thread::sleep(WAIT);
            times.sleeps.push(beyond(begin.elapsed()));
        }
        times.late.push(late);
        let begin = now();
        scene.end()?;
        face.lock_within(PATIENCE)??;
        times.back.push(begin.elapsed().as_secs_f64() * 1e3);
        progress.round(episode + 1);
    }
    Ok(times)
}

/// Returns by how many milliseconds `elapsed` exceeds the time. An earlier end counts as zero.
fn beyond(elapsed: Duration) -> f64 {
    elapsed.saturating_sub(WAIT).as_secs_f64() * 1e3
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
