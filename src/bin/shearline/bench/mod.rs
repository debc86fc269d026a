//! `shearline bench`: how fast locks are taken and released on the given nodes, beside plain sockets.
//!
//! | file | subject |
//! | --- | --- |
//! | `callers` | taking and releasing locks through the library |
//! | `floor` | the same bytes over plain sockets |
//! | `usage` | the processor |
//! | `picture` | histograms in letters |
//! | `result` | what was measured, in words and for programs, and what limits it |
//!
//! Both take turns of a few milliseconds, so what else the machine and the network do hits both.

mod callers;
mod floor;
mod picture;
mod result;
mod usage;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use shearline::{Config, LockError, LockOptions, Redlock};

use crate::connect::Connect;
use crate::duration;
use crate::failure::Failure;
use crate::output::Format;
use crate::signals::Signals;
use crate::status::Status;
use callers::Seen;
use floor::Floor;
use result::Measured;

/// How long a lock lives that is left behind.
const TTL: Duration = Duration::from_secs(10);

/// How long a lock is waited for: a node may still have to delete the one before.
const WAIT: Duration = Duration::from_secs(1);

/// How long one of both is at it before the other goes on.
const TURN: Duration = Duration::from_millis(10);

/// Measures how fast locks are taken and released on these nodes, and says what limits it.
///
/// Takes and releases a lock again and again, in turns with plain sockets that carry the same bytes to the
/// same nodes and wait for a majority: what takes a lock on these nodes from this machine cannot be faster
/// than they are. Nodes with TLS have no plain sockets beside them. It loads the nodes: other clients have to
/// wait longer meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the names of the locks begin with, which nobody else uses. Default: shearline-bench, and the
    /// process id. A number is added.
    name: Option<OsString>,

    /// How long it takes.
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = duration::parse_some)]
    time: Duration,

    /// How many take and release locks at the same time, each a lock of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    callers: u16,

    #[command(flatten)]
    connect: Connect,

    #[command(flatten)]
    pub(crate) format: Format,
}

impl Args {
    /// Returns the name of the lock of each caller, and as many of the same length for the plain sockets: a
    /// node that is slow may still have the key of one when the other takes it.
    fn names(&self) -> [Vec<Vec<u8>>; 2] {
        let name = match &self.name {
            Some(name) => name.clone().into_vec(),
            None => format!("shearline-bench-{}", std::process::id()).into_bytes(),
        };
        let numbered = |mark: char| {
            let one = |number| [name.as_slice(), format!("{mark}{number}").as_bytes()].concat();
            (1..=self.callers).map(one).collect()
        };
        ['-', '~'].map(numbered)
    }
}

/// Measures, and prints what was measured.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let [names, names_of_floor] = args.names();
    let builder = args.connect.builder()?;
    let config = builder.config()?;
    let ttl = TTL.min(args.connect.max_ttl());
    for name in &names {
        config.check_request(name, ttl)?;
    }
    let signals = Signals::catch()?;
    let (redlock, _) = args.connect.connect(&builder)?;
    let options = LockOptions::new(ttl).wait(WAIT);
    // Once before it counts: afterwards it is known how the nodes release a lock.
    for name in &names {
        let _ = redlock.lock_with(name, &options).map_err(refused)?.unlock();
    }
    let floor = plain_sockets(&config, &redlock, &names_of_floor, ttl);
    let measured = measure(args.time, (&redlock, &names, &options), floor, &signals)?;
    let nodes = redlock.stats().nodes;
    let measured = measured.with(args.callers, config.quorum(), &nodes);
    args.format
        .say(|| measured.object(), || measured.lines().join("\n"))?;
    Ok(match measured.is_good() {
        true => Status::Success,
        false => Status::Failure,
    })
}

fn refused(error: LockError) -> Failure {
    if matches!(error, LockError::Held(_)) {
        let text = "somebody holds the lock; give a name that nobody uses";
        return Failure::new(Status::NotTaken, text);
    }
    error.into()
}

/// Returns the floor, or why there is none.
fn plain_sockets(
    config: &Config,
    redlock: &Redlock,
    names: &[Vec<u8>],
    ttl: Duration,
) -> Result<Floor, String> {
    if config.nodes().iter().any(|node| node.uses_tls()) {
        return Err("a node uses TLS".to_owned());
    }
    let nodes = redlock.nodes();
    let releasing: Vec<_> = nodes.iter().map(|node| node.releasing).collect();
    Floor::connect(config, &releasing, names, ttl).map_err(|error| error.to_string())
}

/// Takes turns.
fn measure(
    time: Duration,
    (redlock, names, options): (&Redlock, &[Vec<u8>], &LockOptions),
    mut floor: Result<Floor, String>,
    signals: &Signals,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let end = Instant::now() + time;
    while Instant::now() < end {
        signals.check()?;
        let seen = &mut measured.ours;
        let turn = || callers::turn(redlock, names, options, Instant::now() + TURN, seen);
        measured.our_usage.add(turn);
        let Ok(plain) = &mut floor else {
            continue;
        };
        let cycles = &mut measured.floor;
        let turn = || plain_turn(plain, names.len(), Instant::now() + TURN, cycles);
        if let Err(error) = measured.floor_usage.add(turn) {
            floor = Err(error.to_string());
        }
    }
    measured.no_floor = floor.err();
    Ok(measured)
}

/// All locks are taken together: each takes as long as all of them.
fn plain_turn(
    floor: &mut Floor,
    locks: usize,
    until: Instant,
    seen: &mut Seen,
) -> std::io::Result<()> {
    while Instant::now() < until {
        let begin = Instant::now();
        floor.cycle()?;
        let took = begin.elapsed();
        (0..locks).for_each(|_| seen.cycle.record(took));
    }
    Ok(())
}

/// Writes a short time for a person.
fn time(span: Duration) -> String {
    let micros = span.as_nanos() as f64 / 1e3;
    match micros {
        0.0..10.0 => format!("{micros:.1} µs"),
        10.0..1e4 => format!("{micros:.0} µs"),
        1e4..1e7 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}
