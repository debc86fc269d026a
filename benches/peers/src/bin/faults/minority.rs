//! Latency while one or two of five nodes are disturbed, compared with that while all are well.
//!
//! The disturbance begins and ends with each turn: the first cycles are those without any warning.
//! An undisturbed client, on the same servers, takes its turns in between.

use std::time::Duration;

use shearline_peers::Failure;
use shearline_peers::clients::shearline::{Local, Shared};
use shearline_peers::cycle::{Client, Log, Span, Until, now};
use shearline_peers::figure::Bound;
use shearline_peers::judgement::Judgement;
use shearline_peers::progress::Progress;
use shearline_peers::servers::Server;
use shearline_peers::table::Table;
use shearline_peers::turns::{Metric, Turns, take_turns};

use crate::face::Face;
use crate::trouble::{Scene, Trouble};

/// The length of a turn: longer than the 100 ms after which a silent node is suspect.
const SLOT: Duration = Duration::from_millis(200);

/// How many times the latency without a disturbance one may cost,
const TIMES: f64 = 1.1;

/// and how many milliseconds.
const MILLISECONDS: Bound = Bound::AtMost(1.0);

const SPANS: [Span; 3] = [Span::Acquire, Span::Extend, Span::Release];

/// Both faces, each with and without a disturbance.
pub(crate) struct Contest {
    trouble: Trouble,
    nodes: usize,
    turns: Turns,
    /// The failures of each face, without and with a disturbance.
    failures: [[u64; 2]; FACES],
}

const FACES: usize = 2;
const NAMES: [&str; FACES] = [Local::NAME, Shared::NAME];

/// A client whose nodes may be disturbed while it runs.
struct Troubled<'a, F> {
    face: F,
    scene: Option<Scene<'a>>,
    failures: u64,
}

impl<F: Face> Client for Troubled<'_, F> {
    fn prepare(&mut self) -> Result<(), Failure> {
        self.face.await_ready()?;
        self.scene.as_mut().map_or(Ok(()), Scene::begin)
    }

    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure> {
        while !until.reached(now(), log.cycles()) {
            if let Err(error) = self.face.cycle(log) {
                self.failures += 1;
                let health = if self.scene.is_some() {
                    "in trouble"
                } else {
                    "healthy"
                };
                eprintln!("{}, {health}: {error}", F::NAME);
            }
        }
        match log.cycles() {
            0 => Err("nothing worked".into()),
            _ => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.scene.as_mut().map_or(Ok(()), Scene::end)?;
        self.face.await_ready()
    }
}

impl Contest {
    pub(crate) fn hold(
        servers: &[Server],
        trouble: Trouble,
        nodes: usize,
        rounds: usize,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let mut local = pair::<Local>(servers, trouble, nodes)?;
        let mut shared = pair::<Shared>(servers, trouble, nodes)?;
        let [healthy, troubled] = &mut local;
        let [healthy_shared, troubled_shared] = &mut shared;
        let clients: &mut [&mut dyn Client] =
            &mut [healthy, troubled, healthy_shared, troubled_shared];
        let turns = take_turns(rounds, SLOT, clients, |round| progress.round(round))?;
        Ok(Self {
            trouble,
            nodes,
            turns,
            failures: [
                local.map(|one| one.failures),
                shared.map(|one| one.failures),
            ],
        })
    }

    /// Adds a line for each face, and one for each part of its cycles.
    pub(crate) fn report(&self, judgement: &mut Judgement, summary: &mut Table, all: &mut Table) {
        let mut title = format!("{}, {} of {}", self.trouble, self.nodes, crate::NODES);
        for (face, name) in NAMES.iter().enumerate() {
            let (healthy, troubled) = (2 * face, 2 * face + 1);
            for span in SPANS {
                let mut row = vec![title.clone(), (*name).to_string(), span.to_string()];
                for metric in [Metric::Median(span), Metric::Tail(span)] {
                    row.extend([healthy, troubled].map(|client| {
                        let nanos = self.turns.median(metric, client);
                        format!("{:.0}", nanos / 1e3)
                    }));
                    let excess = self.turns.excess(metric, troubled, TIMES, healthy);
                    row.push(judgement.note(excess.scaled(1e-6), MILLISECONDS));
                }
                all.row(row);
                title.clear();
            }
            let [healthy, troubled] = self.failures[face].map(|count| count as f64);
            // On a shared machine, all servers may get no processor for so long that calls fail.
            let verdict = judgement.note_exact(troubled, Bound::AtMost(healthy));
            let title = format!("{}, {} of {}", self.trouble, self.nodes, crate::NODES);
            summary.row([title, (*name).to_string(), healthy.to_string(), verdict]);
        }
    }
}

pub(crate) fn summary() -> Table {
    Table::new(&[
        "trouble",
        "client",
        "cycles that failed, healthy",
        "in trouble, at most as many",
    ])
}

pub(crate) fn table() -> Table {
    Table::new(&[
        "trouble",
        "client",
        "part",
        "p50 healthy, µs",
        "p50 in trouble",
        "ms beyond 110 %, at most 1",
        "p99 healthy, µs",
        "p99 in trouble",
        "ms beyond 110 %, at most 1",
    ])
}

/// Makes one client that is not disturbed, and one that is.
fn pair<F: Face>(
    servers: &[Server],
    trouble: Trouble,
    nodes: usize,
) -> Result<[Troubled<'_, F>; 2], Failure> {
    let scene = Scene::new(servers, trouble, nodes)?;
    let troubled = F::connect(scene.urls())?;
    let healthy = F::connect(&crate::urls(servers))?;
    Ok(
        [(healthy, None), (troubled, Some(scene))].map(|(face, scene)| Troubled {
            face,
            scene,
            failures: 0,
        }),
    )
}
