//! `shearline demo`: shows the lock at work, with a verdict.
//!
//! | file | subject |
//! | --- | --- |
//! | `args` | its arguments |
//! | `nodes` | five nodes of its own, or servers |
//! | `workers`, `cell` | the threads that contend, and the counter that they change |
//! | `monitor`, `summary` | measuring |
//! | `frame`, `text`, `screen` | drawing |
//! | `verdict` | whether the run was good |
//!
//! It uses the public interface of the library; nothing here knows the protocol.

mod args;
mod cell;
mod frame;
mod monitor;
mod nodes;
mod screen;
mod summary;
mod text;
mod verdict;
mod workers;

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::BuildHasher;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use shearline::{BuildError, Builder, NodeState, NodeStatus, Redlock, Retry};

use monitor::{Counts, Monitor, Snapshot};
use nodes::Nodes;
use screen::Screen;
use text::Line;
use verdict::Verdict;
use workers::Workers;

use crate::output::{self, wrapped};
use crate::signals::is_ignored;
use crate::status::Status;

pub(crate) use args::Args;

/// When nodes are stopped and when they come back, in shares of the demo's length.
const DISTURBED: f64 = 0.30;
const MENDED: f64 = 0.65;

/// The time between two looks.
const TICK: Duration = Duration::from_millis(50);

/// How long the end waits for releases that nodes still owe. A node that was down is tried again
/// within two seconds.
const SETTLING: Duration = Duration::from_secs(4);

/// How to freeze a real server, as the demo does with its own nodes.
const FREEZING: &str = "The servers are left alone. To see what a frozen one does, stop it on its \
                        host, and let it go on with kill -CONT:";
const FREEZE: &str =
    "  kill -STOP $(redis-cli -p PORT info server | awk -F: '/^process_id/{print +$2}')";

/// Runs the demo. The status says whether the verdict was good.
pub(crate) fn run(args: &Args) -> ExitCode {
    match play(args) {
        Ok(verdict) if verdict.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            // The reader of the output has closed it.
            if !is_broken_pipe(&*error) {
                output::complain(output::BAD, &error);
            }
            match error.downcast_ref::<BuildError>() {
                Some(BuildError::Config(_) | BuildError::Tls(_)) => Status::Configuration.into(),
                Some(_) | None => Status::Failure.into(),
            }
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn play(args: &Args) -> Result<Verdict, Box<dyn Error>> {
    let interrupted = on_interrupt()?;
    let mut screen = Screen::new();
    let nodes = Nodes::start(&args.node)?;
    let builder = builder(&nodes, args);
    builder.config().map_err(BuildError::Config)?;
    screen.say(&opening_lines(args, &nodes, screen.width()))?;
    let redlock = connect(&builder)?;
    let key = format!("shearline-demo:{:016x}", RandomState::new().hash_one(()));
    let workers = Workers::start(&redlock, args.workers.into(), &key, args.ttl)?;
    let mut demo = Demo {
        monitor: Monitor::new(args.length()),
        nodes,
        redlock,
        workers,
        screen,
        stage: Stage::Begun,
        interrupted,
        length: args.length(),
        crew: args.workers.into(),
    };
    demo.contend()?;
    demo.settle()?;
    demo.judge(&key)
}

/// Returns a flag that is set by the signals that ask for an end.
fn on_interrupt() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ]
    .into_iter()
    .filter(|signal| !is_ignored(*signal))
    {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn opening_lines(args: &Args, nodes: &Nodes, width: usize) -> Vec<Line> {
    let title = frame::title(args.workers.into(), nodes.urls().len(), nodes.are_own());
    let mut paragraphs = vec![
        format!("shearline demo: {title}, for {} s", args.seconds),
        format!("p50 and p99: {}", frame::MEASURED),
    ];
    if !nodes.are_own() {
        paragraphs.push(FREEZING.to_owned());
    }
    let lines = paragraphs.iter().flat_map(|text| wrapped(text, width));
    let mut lines: Vec<Line> = lines.map(|line| Line::new().plain(line)).collect();
    if !nodes.are_own() {
        // In one piece, so that it can be copied.
        lines.push(Line::new().plain(FREEZE));
    }
    lines
}

fn builder(nodes: &Nodes, args: &Args) -> Builder {
    Redlock::builder()
        .nodes(nodes.urls())
        .max_ttl(args.ttl)
        // The lock is held for a tenth of a millisecond: the usual delay of 50 to 250 ms would be too long.
        .retry(Retry::new(
            u32::MAX,
            Duration::from_micros(500)..=Duration::from_millis(2),
        ))
        .owner("shearline-demo")
}

/// A handle over the nodes. Without a majority there is nothing to show.
fn connect(builder: &Builder) -> Result<Redlock, Box<dyn Error>> {
    let redlock = builder.build()?;
    redlock.trust_nodes(); // The key is the demo's own: no client has held it before.
    let statuses = redlock.nodes();
    let ready = statuses
        .iter()
        .filter(|node| node.state == NodeState::Ready);
    if ready.count() <= statuses.len() / 2 {
        let mut text = String::from("a majority of the nodes is needed, and cannot be reached:");
        for node in statuses {
            text += &format!("\n  {}  {}", node.address, explained(node.state));
        }
        return Err(text.into());
    }
    Ok(redlock)
}

fn explained(state: NodeState) -> String {
    match state {
        NodeState::Ready => "ready".into(),
        NodeState::Quarantined { left } => format!("votes in {left:?}: it restarted"),
        NodeState::Down(reason) => reason.to_string(),
        NodeState::Unusable(reason) => reason.to_string(),
        NodeState::New | NodeState::Connecting | NodeState::Suspect | _ => "no answer yet".into(),
    }
}

/// Returns what an operator has to repair on one of the nodes, if there is something.
fn complaint(statuses: &[NodeStatus]) -> Option<String> {
    let advice = |(node, place): (&NodeStatus, usize)| {
        if let NodeState::Unusable(reason) = node.state {
            return Some(format!("node {place} is unusable: {reason}"));
        }
        node.evicts_locks
            .then(|| format!("node {place} may evict locks: set maxmemory-policy noeviction"))
    };
    statuses.iter().zip(1..).find_map(advice)
}

/// A run that is under way.
#[derive(Debug)]
struct Demo {
    // Fields are dropped in this order: workers end before their handle, the handle before its nodes,
    // and the terminal is restored last.
    workers: Workers,
    redlock: Redlock,
    nodes: Nodes,
    monitor: Monitor,
    screen: Screen,
    stage: Stage,
    interrupted: Arc<AtomicBool>,
    length: Duration,
    crew: usize,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Stage {
    Begun,
    Disturbed,
    Mended,
    Ending,
    Over,
}

impl Demo {
    /// Lets the workers contend until the time is over or the user interrupts.
    fn contend(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            let elapsed = self.monitor.elapsed();
            if self.length <= elapsed || self.interrupted.load(Relaxed) {
                return Ok(());
            }
            self.advance(elapsed)?;
            self.show()?;
            thread::sleep(TICK.min(self.length - elapsed));
        }
    }

    /// Stops nodes and brings them back when it is time to.
    fn advance(&mut self, elapsed: Duration) -> io::Result<()> {
        if self.stage == Stage::Begun && self.length.mul_f64(DISTURBED) <= elapsed {
            self.stage = Stage::Disturbed;
            if self.nodes.are_own() {
                self.monitor.disturbed();
            }
            self.nodes.disturb()?;
        }
        if self.stage == Stage::Disturbed && self.length.mul_f64(MENDED) <= elapsed {
            self.stage = Stage::Mended;
            self.bring_back()?;
        }
        Ok(())
    }

    fn bring_back(&mut self) -> io::Result<()> {
        self.nodes.bring_back()?;
        self.monitor.brought_back();
        Ok(())
    }

    /// Waits until the workers have released their locks and the nodes have got their owed releases.
    fn settle(&mut self) -> Result<(), Box<dyn Error>> {
        if self.stage == Stage::Disturbed {
            self.bring_back()?;
        }
        self.stage = Stage::Ending;
        self.workers.stop();
        let end = self.monitor.elapsed() + SETTLING;
        while self.monitor.elapsed() < end && !(self.workers.have_ended() && self.owed() == 0) {
            self.show()?;
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn owed(&self) -> usize {
        let nodes = self.redlock.nodes();
        nodes.iter().map(|node| node.owed + node.in_flight).sum()
    }

    fn judge(mut self, key: &str) -> Result<Verdict, Box<dyn Error>> {
        let panicked = self.workers.join();
        self.stage = Stage::Over;
        let last = self.look();
        let verdict = Verdict {
            value: last.value,
            written: last.written,
            most_inside: last.most_inside,
            leftovers: self.nodes.leftovers(key),
            own_nodes: self.nodes.are_own(),
            counts: Counts::of(self.workers.shared()),
            panicked,
            interrupted: self.interrupted.load(Relaxed),
        };
        self.screen.keep(&last)?;
        self.screen.say(&verdict.lines(self.screen.width()))?;
        Ok(verdict)
    }

    fn show(&mut self) -> io::Result<()> {
        let snapshot = self.look();
        self.screen.show(&snapshot)
    }

    fn look(&mut self) -> Snapshot {
        let now = self.happening();
        let own_nodes = self.nodes.are_own();
        let shared = self.workers.shared();
        let (stats, statuses) = (self.redlock.stats(), self.redlock.nodes());
        let now = complaint(&statuses).unwrap_or(now);
        self.monitor
            .look(shared, (&stats, &statuses), own_nodes, self.crew, now)
    }

    /// What is happening, in one sentence.
    fn happening(&self) -> String {
        let until = |share| {
            let left = self
                .length
                .mul_f64(share)
                .saturating_sub(self.monitor.elapsed());
            frame::seconds(left)
        };
        match (self.stage, self.nodes.are_own()) {
            (Stage::Over, _) => "over".into(),
            (Stage::Ending, _) => "ending: locks are given back, and what nodes are owed".into(),
            (_, false) => "the servers are left alone; freeze one with kill -STOP, and look".into(),
            (Stage::Begun, true) => {
                format!("all nodes are up; two are stopped in {}", until(DISTURBED))
            }
            (Stage::Disturbed, true) => format!(
                "node 2 is killed and node 4 frozen, for {} more; three decide",
                until(MENDED)
            ),
            (Stage::Mended, true) => "nodes 2 and 4 are back, with their memory".into(),
        }
    }
}
