//! `shearline demo`: shows the lock at work, with a verdict.
//!
//! | file | subject |
//! | --- | --- |
//! | `nodes` | five nodes of its own, or servers |
//! | `contest`, `cell` | the threads that contend, and the counter that they change |
//! | `view` | the picture while it runs |
//! | `verdict` | whether the run was good |
//!
//! The demo uses only the public interface of the library, and contains no code for the protocol.

mod cell;
mod contest;
mod nodes;
mod verdict;
mod view;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use shearline::{Instant, NodeState, Redlock, Retry};

use contest::Contest;
use nodes::Nodes;
use verdict::Verdict;
use view::View;

use crate::connect::settled;
use crate::duration;
use crate::failure::Failure;
use crate::help::Texts;
use crate::output::{self, count};
use crate::secrets;
use crate::signals::Signals;
use crate::status::Status;

/// When the demo stops nodes and when it restores them, as fractions of its length.
const DISTURBED: f64 = 0.30;
const MENDED: f64 = 0.65;

/// The demo waits for new servers for at most the ttl plus this time.
const SLACK: Duration = Duration::from_secs(10);

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline demo
shearline demo --seconds 30 --node 10.0.0.1,10.0.0.2,10.0.0.3",
    "\
0  the verdict is good
1  the verdict is not good; or another failure, which stderr explains
64 69 78",
    "shearline(1), shearline-run(1), shearline-nodes(1)",
);

/// Shows the lock at work, and checks mutual exclusion.
///
/// The demo needs no server. Several workers contend for one lock while they update a counter that is not atomic.
/// Without `--node`, the demo uses five nodes in this process. In the middle, the demo stops two of these nodes, and
/// later restores them. The verdict at the end says whether the counter is right, whether two workers were ever in the
/// critical section at the same time, and whether a key was left behind.
///
/// The percentiles show the time from each call to lock() until the grant, including the wait for the other workers.
/// The output names each node that does not vote, and the reason. A release is unconfirmed if too few nodes confirm it
/// in time. The demo nevertheless sends every release to all nodes.
///
/// Ctrl-C ends the demo early, and the demo still prints the verdict. Without a terminal, the demo writes one line each
/// second.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Comma-separated URLs of servers to use instead of the demo's own nodes.
    ///
    /// A URL is redis://user:password@host:port/db, unix:///path or host:port. You may repeat the option. A minority of
    /// the servers may be down. The demo uses one key, shearline-demo:N, where N is a number. The demo does not stop
    /// these servers. To see the effect of a frozen node, freeze a server yourself (kill -STOP with the process id that
    /// `redis-cli info server` shows), and continue it later (kill -CONT).
    #[arg(long, value_name = "URL")]
    node: Vec<String>,

    /// Length of the demo in seconds.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Threads that contend.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,

    /// Ttl of each lock, from 50ms to 60s.
    ///
    /// The demo also uses this time as `max_ttl`.
    // Shorter ttls are refused, because the locks would expire when the machine is busy. Longer ttls are refused,
    // because the key of a crashed demo stays for a whole ttl.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::within(50..=60_000))]
    ttl: Duration,
}

/// Runs the demo. Returns success if the verdict is good.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let signals = Signals::catch()?;
    let nodes = Nodes::start(&secrets::urls("--node", &args.node)?)?;
    // A worker holds the lock for a tenth of a millisecond. So the usual retry delay of 50 to 250 ms would be too long.
    let pace = Duration::from_micros(500)..=Duration::from_millis(2);
    let builder = Redlock::builder()
        .nodes(&nodes.urls)
        .max_ttl(args.ttl)
        .retry(Retry::new(u32::MAX, pace))
        .owner("shearline-demo");
    builder.config()?;
    output::say(opening(args, &nodes))?;
    let redlock = builder.build()?;
    settled(&redlock, nodes::PATIENCE, Instant::MAX);
    await_young(&redlock, args.ttl + SLACK)?;
    redlock.check()?;
    let key = format!("shearline-demo:{:016x}", RandomState::new().hash_one(()));
    let contest = Contest::new(redlock, key);
    let mut view = View::new(&contest, &signals, args.seconds);
    thread::scope(|scope| {
        for _ in 0..args.workers {
            scope.spawn(|| contest.work(args.ttl));
        }
        let contended = contend(&mut view, &nodes);
        contest.is_over.store(true, Relaxed);
        contended
    })?;
    view.settle()?;
    let (value, written, most_inside) = contest.cell.read();
    let verdict = Verdict {
        value,
        written,
        most_inside,
        leftovers: nodes.leftovers(&contest),
        outcomes: contest.outcomes(),
        interrupted: signals.check().is_err(),
    };
    output::say(verdict.text())?;
    Ok(match verdict.is_good() {
        true => Status::Success,
        false => Status::Failure,
    })
}

/// Waits until new servers vote, unless that takes longer than `patience`. The demo does not trust these servers,
/// because trust would also affect the locks of other programs.
fn await_young(redlock: &Redlock, patience: Duration) -> Result<(), Failure> {
    let left = redlock.nodes().into_iter().map(|node| match node.state {
        NodeState::Quarantined { left } => left,
        _ => Duration::ZERO,
    });
    let left = left.max().filter(|left| *left <= patience);
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        output::say(format!("waiting {left:.0?} until the new servers can vote"))?;
        thread::sleep(left);
    }
    Ok(())
}

fn opening(args: &Args, nodes: &Nodes) -> String {
    let place = match nodes.are_own() {
        true => " in this process",
        false => "",
    };
    let workers = count(args.workers.into(), "worker");
    let (nodes, seconds) = (count(nodes.urls.len(), "node"), args.seconds);
    format!(
        "shearline demo: {workers}, one lock, {nodes}{place}, for {seconds} s\n\
         waits: from the call to lock() until the grant",
    )
}

/// Shows the workers until the time has passed or the user interrupts the demo. Stops two nodes in the middle.
fn contend(view: &mut View<'_>, nodes: &Nodes) -> Result<(), Failure> {
    if !nodes.are_own() {
        let now = "the demo does not stop servers; freeze one with kill -STOP to see what happens";
        return view.show(1.0, now).map(drop);
    }
    if !view.show(DISTURBED, "all nodes are up; two will be stopped soon")? {
        return Ok(());
    }
    nodes.disturb()?;
    let now = "node 2 is killed and node 4 is frozen; the other three nodes are a majority";
    view.show(MENDED, now)?;
    nodes.bring_back()?;
    let now = "nodes 2 and 4 run again; no client can know what node 2 has forgotten";
    view.show(1.0, now).map(drop)
}
